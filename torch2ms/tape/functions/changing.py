"""What functions and methods of Python and NumPy change of what they are given: `random.shuffle(order)`, `a.sort()`.

No gradient passes through such a statement, and yet it belongs where it stands: before what reads the list.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, qualified

METHODS = {
    "list": {"sort", "reverse"},
    "numpy": {"sort", "fill", "partition", "put", "itemset", "resize"},
    "unknown": {"reverse", "rotate"},
}
FIRST = {  # functions that change their first argument
    "random.shuffle", "numpy.random.shuffle", "numpy.copyto", "numpy.put", "numpy.place", "numpy.putmask",
    "numpy.fill_diagonal", "numpy.put_along_axis", "heapq.heappush", "heapq.heappop", "heapq.heapify",
    "heapq.heapreplace", "heapq.heappushpop", "bisect.insort", "bisect.insort_left", "bisect.insort_right",
}  # fmt: skip
LAST = {name.rpartition(".")[2] for name in FIRST} | {"at", "shuffle"}
SHOWN = {"numpy", "detach", "cpu", "view", "reshape", "ravel"}  # methods that show the same memory


def changed(stmt: Stmt, module: ModuleInfo) -> Iterator[str]:
    """The places that a statement changes without naming them on the left of an assignment."""
    if type(stmt.node) is cst.Del:
        held = stmt.node.target
        yield from (dotted(held.value) for _ in (1,) if isinstance(held, cst.Subscript) and dotted(held.value))
    for call in stmt.calls:
        if call.args and _changes_first(call, module) and (place := dotted(_whole(call.args[0].value))):
            yield place
        if place := _output(call, module):
            yield place
        if type(call.func) is cst.Attribute and (place := dotted(_whole(call.func.value))):
            if call.func.attr.value in METHODS.get(module.value(call.func.value).kind, ()):
                yield place


def _changes_first(call: cst.Call, module: ModuleInfo) -> bool:
    """A function of the table, one of NumPy's `np.add.at`, or the `shuffle` of a generator of random numbers."""
    if type(call.func) is cst.Attribute:
        perhaps = call.func.attr.value in LAST
    else:
        perhaps = type(call.func) is cst.Name and call.func.value in module.imports.table
    if not perhaps:
        return False
    name = qualified(call.func, module.imports)
    last = name.rpartition(".")[2]
    generator = last == "shuffle" and type(call.func) is cst.Attribute and len(call.args) == 1
    return name in FIRST or last == "at" and name.startswith("numpy.") or generator


def _output(call: cst.Call, module: ModuleInfo) -> str:
    """What NumPy writes its result into, or the tensor whose memory that shows: `np.add(a, b, out=t.numpy())`."""
    node: cst.BaseExpression | None = None
    for arg in call.args:  # asked of every call: no generator
        if arg.keyword is not None and arg.keyword.value == "out":
            node = arg.value
    if node is None or not qualified(call.func, module.imports).startswith("numpy."):
        return ""
    while type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in SHOWN:
        node = node.func.value
    return dotted(_whole(node))


def _whole(node: cst.BaseExpression) -> cst.BaseExpression:
    """What a part belongs to: `table["a"]`, `rows[0]`."""
    while type(node) is cst.Subscript:
        node = node.value
    return node
