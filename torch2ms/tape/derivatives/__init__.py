"""`torch.autograd.grad`: gradients that are values, and what is differentiated again.

`gradcalls` writes a call whose result is not differentiated. What is: `chains` with respect to inputs (PINNs), `again`
to other tensors, `curvature` to weights; these are compiled, and `compilable`, `closed` and `compiled` say whether that
is right. `repeated` and `turns` run one forward for the gradients of a whole loop.
"""
