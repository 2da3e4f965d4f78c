"""Read the cards of a box: NVML, nvidia-smi, driver error codes, processes that hold them."""
