"""Model files: GGUF, ONNX, HDF5, Keras, event files."""
