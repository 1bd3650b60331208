"""Saving and loading: the parameters of one cell in MindSpore's own file, everything else pickled.

MindSpore's tensors and parameters can be pickled, its cells cannot. Which files a program reads it does not say, so a
project that saves more than parameters anywhere pickles everywhere.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.tree import code
from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use

_PARAMETERS = (".parameters_dict()", ".state_dict()")
OWN_FILES = "the file holds parameters in MindSpore's format (`torch2ms weights` converts PyTorch's)"
PICKLED = "the file was saved by this program (`torch2ms weights` converts PyTorch's)"


def save(use: Use) -> Choice:
    """`torch.save(net.state_dict(), path)` saves the cell; a dictionary of more is pickled."""
    bound = use.binding.single["obj"]
    before, after = bound.original.value, code(bound.updated.value)
    if use.kind("obj") == "module":
        todo = "save its parameters: ms.save_checkpoint(net, path)"
        return Choice(refuse="a cell cannot be pickled whole", todo=todo)
    if any(use.facts.kind(node) == "module" for node in _entries(before)):
        return Choice(refuse="a cell cannot be pickled whole", todo="save its state_dict() beside the rest")
    if use.facts.pickles or isinstance(before, cst.Dict):
        return Choice("save_object({obj}, {f})", assume="it is no cell" if use.kind("obj") == "unknown" else "")
    if isinstance(before, cst.Call) and "{" not in after:
        for ending in _PARAMETERS:
            if after.endswith(ending):
                return Choice(f"ms.save_checkpoint({after.removesuffix(ending)}, {{f|ckpt}})", uses=("obj",))
    return Choice("ms.save_checkpoint({obj}, {f|ckpt})", assume=f"{code(before)} holds the parameters of a cell")


def _entries(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a list, a tuple or a dict that is written out holds."""
    written = node.elements if isinstance(node, (cst.List, cst.Tuple, cst.Dict)) else ()
    return [e.value for e in written if isinstance(e, (cst.Element, cst.DictElement))]


def load(use: Use) -> Choice:
    """`torch.load(path)`, from the kind of file that the project saves."""
    if use.facts.pickles:
        return Choice("load_object({f})", assume=PICKLED)
    return Choice("ms.load_checkpoint({f|ckpt})", assume=OWN_FILES)
