"""Gradient events in their order, whose they are, and what `.grad` holds before each.

`events` finds the events of a scope, `owners` says whose gradients they concern, `ledger` runs them to a fixpoint, and
`records` answers what every load sees. The other modules know owners and events of their own kind: lists, peers, hooks,
leaves that come again, networks whose name is bound anew.
"""
