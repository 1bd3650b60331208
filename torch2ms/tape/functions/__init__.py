"""Gradients across functions: backward in a callee, losses and gradients handed in, graphs left in lists.

`lifting` looks through the functions of a project and writes what it finds into a `summary`, from which scopes are
planned one by one. A function that goes backward becomes the function of the loss (`exported`), is handed the playback
of a loss (`handing`), or gradients that callers took (`taking`); `rollouts` finds `episodes`; optimizers may keep
gradients from one call to the next (`stores`). What calls read and write is spread to their callers by `attributes`,
`foreign`, `kept`, `memory` and `valued`; who calls a function is asked in `reach`, `aliases` and `handed_out`.
"""
