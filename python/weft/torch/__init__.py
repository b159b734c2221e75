"""What Weft is to PyTorch. `weft.attention` takes its tensors, and autograd differentiates it, without importing this."""
