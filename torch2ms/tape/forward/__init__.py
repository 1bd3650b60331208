"""The statements that a gradient call differentiates.

`regions` finds them, from the roots back to the weights by the `steps` of single statements; a `region` is what it
found. Around it stand what else they do (`effects`, `captured`), what they leave for later (`stashes`, `layers`) and
backward calls that share a forward (`shared`).

torch skips parameters that a loss does not depend on, MindSpore's optimizers do not: which these are at which steps is
asked in `partial`, with `skipped`, `differing`, `results`, `turning` and their kin; `asked` is about programs that ask.
"""
