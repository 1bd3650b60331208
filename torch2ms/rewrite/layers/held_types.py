"""`isinstance(layer, conv_type)`, of a variable that is called, too: it may hold a partial that stands for a class."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.rewrite.layers.handed import held_calls
from torch2ms.rewrite.translation import Translation


def of_held(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """The question with the class behind what the variable holds; nothing where it holds what the source shows."""
    asked = original.args[1].value
    value = work.module.value(asked)
    if not isinstance(asked, (cst.Name, cst.Attribute)) or value.name or value.kind not in ("unknown", "api"):
        return None
    name = dotted(asked).rpartition(".")[2]
    keyed = (call for call in held_calls(work.project).calls if call.callee == name)
    if not any(call.keywords or call.positional > 1 for call in keyed):  # what a single argument makes has no partial
        return None
    work.notes.needs.add("layer_type")
    work.tell("T2M601", "isinstance", "asked of the class of layers in the variable, which may hold a partial")
    call = cst.Call(cst.Name("layer_type"), [cst.Arg(updated.args[1].value)])
    return updated.with_changes(args=[updated.args[0], updated.args[1].with_changes(value=call)])
