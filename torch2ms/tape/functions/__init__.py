"""Gradients across functions: backward in a callee, losses and gradients handed in, graphs left in lists."""
