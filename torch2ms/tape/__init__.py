"""The model of torch's tape: what happens to gradients, and the functions hidden in statements before `backward`.

`planner` gathers the events of one scope at a time, `scope_planner` plans them, and `hopeless`, `forwards`, `crossing`
and `verdicts` say where that cannot be done. They rest on the packages below, from the ground up: `model` (events, the
owners of gradients and their states: what all speak of), `ledger` (finds the events, and what `.grad` holds at each),
`forward` (the statements that feed a root), `forms` (the gradient call MindSpore wants), `uses` (clipping, scaling,
loops over gradients, resets), `derivatives` (`autograd.grad`), `functions` (gradients that cross function borders).
All of them write into a `plan`, and nothing else.
"""
