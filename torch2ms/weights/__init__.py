"""`torch2ms weights`: a PyTorch checkpoint under MindSpore's names, checked against the translated model."""
