"""Tensors whose gradients are read or watched."""
