"""`torch.autograd.grad`: gradients that are values, and what is differentiated again."""
