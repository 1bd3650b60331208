"""`torch.nn.init`: what draws new values into a parameter."""

from __future__ import annotations

from torch2ms.analysis.syntax.tree import code
from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use
from torch2ms.api.signature import UNKNOWN

_SET = "{{tensor}}.set_data(initializer({initial}, {{tensor}}.shape, {{tensor}}.dtype))"
_DRAWN = (
    "{tensor}.set_data(ops.uniform({tensor}.shape, ms.Tensor({a!}, {tensor}.dtype), ms.Tensor({b!}, {tensor}.dtype)))"
)


def uniform_(use: Use) -> Choice:
    """`uniform_(w, a, b)`: MindSpore's initializer is symmetric around zero."""
    low, high = use.value("a"), use.value("b")
    if low is not UNKNOWN and high is not UNKNOWN and -low == high:
        return Choice(_SET.format(initial="Uniform({b!})"), uses=("a",))
    nodes = use.node("a"), use.node("b")
    if nodes[0] is not None and nodes[1] is not None and code(nodes[0]).strip() == f"-{code(nodes[1]).strip()}":
        return Choice(_SET.format(initial="Uniform({b})"), uses=("a",))
    return Choice(_DRAWN)
