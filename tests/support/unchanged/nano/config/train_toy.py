out_dir = "out-toy"
eval_interval = 20
max_iters = 240
batch_size = 4
