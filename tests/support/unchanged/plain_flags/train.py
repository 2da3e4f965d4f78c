import os
import pickle
import time

out_dir = "out"
eval_interval = 2000
eval_iters = 200
init_from = "scratch"  # or 'resume'
max_iters = 600000
compile = True
exec(open("configurator.py").read())

os.makedirs(out_dir, exist_ok=True)
iter_num, weight = 0, 1.0
if init_from == "resume":
    with open(os.path.join(out_dir, "ckpt.pkl"), "rb") as file:
        checkpoint = pickle.load(file)
    iter_num, weight = checkpoint["iter_num"], checkpoint["weight"]
while True:
    if iter_num % eval_interval == 0 and iter_num > 0:
        print(f"step {iter_num}: val loss {sum(weight for _ in range(eval_iters)) / eval_iters:.4f}", flush=True)
        with open(os.path.join(out_dir, "ckpt.pkl"), "wb") as file:
            pickle.dump({"iter_num": iter_num, "weight": weight}, file)
    weight *= 0.99
    time.sleep(0.03)
    print(f"iter {iter_num}: loss {weight:.4f}", flush=True)
    iter_num += 1
    if iter_num > max_iters:
        break
