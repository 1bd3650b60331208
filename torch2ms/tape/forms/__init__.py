"""Gradient calls as MindSpore writes them: the function, its arguments and results, the call and its place.

`function` chooses and writes `ms.value_and_grad`, `playbacks` the forms of `ms.vjp`; both ask `interface` what goes in
and out, `bodies` for the statements, `receiving` for the names of the results and `placement` where the call stands.
`graphmode` and `lifetime` judge what `--jit` may compile. What the forms of one scope share is in `writer`.
"""
