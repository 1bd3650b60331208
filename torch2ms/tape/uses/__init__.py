"""What programs do with gradients between backward and step: clip, scale, loop over them, reset them."""
