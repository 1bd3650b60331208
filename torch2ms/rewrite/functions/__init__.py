"""Custom gradients: an autograd.Function as a Cell with a bprop."""
