"""einops, which has no MindSpore: `rearrange(x, "b n (h d) -> b h n d", h=heads)` as methods of tensors.

A pattern that is written in the source says what is done: it is taken apart here, and everything behind this pass sees
plain PyTorch. Its layers become classes of the module. Calls whose pattern is made as the program runs stay, and are
marked as names without a rule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_letters

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.operands import atomic
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.spellings.patterns import methods

IMPORTED = re.compile(r"^[ \t]*(?:from|import)[ \t]+einops\b", re.MULTILINE)
FUNCTIONS = {f"einops.{name}": name for name in ("rearrange", "repeat", "reduce")}
LAYERS = {"einops.layers.torch.Rearrange": "rearrange", "einops.layers.torch.Reduce": "reduce"}
NO_TENSORS = ("list", "tuple", "numpy")
AXIS = re.compile(r"[A-Za-z_]\w*")


def rearranged(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that use einops, by name."""
    if any(name == "einops" or name.startswith("einops.") for name in project.modules):
        return {}
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        if not module.uses_mindspore and module.says(IMPORTED):
            made = (writer := _Writer(module)).plain()
            if writer.findings:
                plain[module.name] = made
    return plain


class _Writer(Suites):
    """One module without the calls of einops that say what they do."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        table = module.imports.table
        self.torch = next((name for name, full in table.items() if full == "torch"), "")
        self.nn = next((name for name, full in table.items() if full == "torch.nn"), self.torch and f"{self.torch}.nn")
        self.classes: dict[str, tuple[str, cst.ClassDef]] = {}  # what a layer does -> its class

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        name = qualified(original.func, self.module.imports)
        if name in FUNCTIONS:
            return self.told(name, self.method(FUNCTIONS[name], original, updated), updated)
        if name == "einops.einsum":
            return self.told(name, self.summed(updated), updated)
        if name in LAYERS and self.nn:
            return self.told(name, self.layer(LAYERS[name], updated), updated)
        return updated

    def told(self, name: str, text: str, updated: cst.Call) -> cst.BaseExpression:
        if not text:
            return updated
        self.findings.append(Finding("T2M601", Tier.EXACT, name, text, line=self.line))
        made = cst.parse_expression(text)
        parens = {"lpar": [*updated.lpar, *made.lpar], "rpar": [*made.rpar, *updated.rpar]}
        return made.with_changes(**parens) if updated.lpar else made

    def method(self, function: str, original: cst.Call, updated: cst.Call) -> str:
        places = ["tensor", "pattern", *(["reduction"] if function == "reduce" else [])]
        given = _bound(updated.args, places)
        if given is None or "tensor" not in given or self.module.value(original.args[0].value).kind in NO_TENSORS:
            return ""
        tensor = given.pop("tensor")
        text = code(tensor) if atomic(tensor) else f"({code(tensor)})"
        return _written(function, given, text, bool(dotted(tensor)))

    def summed(self, updated: cst.Call) -> str:
        """`einops.einsum(q, k, "b i d, b j d -> b i j")` with letters for the names."""
        pattern = constant(updated.args[-1].value) if updated.args else None
        if not self.torch or not isinstance(pattern, str) or any(a.keyword or a.star for a in updated.args):
            return ""
        names = list(dict.fromkeys(AXIS.findall(pattern)))
        if len(names) > len(ascii_letters) or re.search(r"[()\d]", AXIS.sub("", pattern)):
            return ""
        letters = {n: n for n in names if len(n) == 1}
        free = iter(c for c in ascii_letters if c not in letters)
        letters |= {n: next(free) for n in names if n not in letters}
        short = "".join(AXIS.sub(lambda n: letters[n[0]], pattern).split()).replace(",", ", ").replace("->", " -> ")
        return f"{self.torch}.einsum({short!r}, {', '.join(code(a.value) for a in updated.args[:-1])})"

    def layer(self, function: str, updated: cst.Call) -> str:
        """The call of a class that does the same."""
        given = _bound(updated.args, ["pattern", *(["reduction"] if function == "reduce" else [])])
        if given is None:
            return ""
        sizes = [n for n, v in given.items() if n not in ("pattern", "reduction") and not isinstance(constant(v), int)]
        inside = {n: cst.parse_expression(f"self.{n}") if n in sizes else value for n, value in given.items()}
        text = _written(function, inside, "x", named=True)
        if not text:
            return ""
        if text not in self.classes:
            self.classes[text] = self.named(function, text, str(constant(given["pattern"])), sizes)
        return f"{self.classes[text][0]}({', '.join(code(given[n]) for n in sizes)})"

    def named(self, function: str, text: str, pattern: str, sizes: Sequence[str]) -> tuple[str, cst.ClassDef]:
        taken = {*self.module.imports.table, *self.module.scope.locals, *(name for name, _ in self.classes.values())}
        name = stem = {"rearrange": "Rearranged", "reduce": "Reduced"}[function]
        while name in taken:
            name = f"{stem}{int(name.removeprefix(stem) or 1) + 1}"
        lines = [f"class {name}({self.nn}.Module):", f'    """{" ".join(pattern.split())}"""', ""]
        if sizes:
            kept = [f"        self.{n} = {n}" for n in sizes]
            lines += [f"    def __init__(self, {', '.join(sizes)}):", "        super().__init__()", *kept, ""]
        lines += ["    def forward(self, x):", f"        return {text}"]
        made = cst.parse_statement("\n".join(lines) + "\n")
        assert isinstance(made, cst.ClassDef)
        return name, made

    def whole(self) -> cst.Module:
        """With the classes of layers above the first definition, or the first statement that needs one."""
        tree = super().whole()
        if not self.classes:
            return tree
        body = list(tree.body)
        names = {name for name, _ in self.classes.values()}
        at = next(i for i, stmt in enumerate(body) if _begins(stmt, names))
        first = body[at]
        blank = [cst.EmptyLine(indent=False)] * 2
        classes = [cls.with_changes(leading_lines=blank) for _, cls in self.classes.values()]
        for cls in classes:
            self.number(cls, self.module.tree.body[0])
        own = [line for line in first.leading_lines if line.comment is not None]
        below = self.renumbered(first, leading_lines=[*blank, *own])
        return tree.with_changes(body=[*body[:at], *classes, below, *body[at + 1 :]])


def _begins(stmt: cst.CSTNode, names: set[str]) -> bool:
    """A definition, or a statement that needs one of the names."""
    if isinstance(stmt, (cst.ClassDef, cst.FunctionDef)):
        return True
    return any(type(n) is cst.Name and n.value in names for n in descend(stmt))


def _bound(args: Sequence[cst.Arg], places: list[str]) -> dict[str, cst.BaseExpression] | None:
    """The arguments by name; None where a star hides some."""
    given: dict[str, cst.BaseExpression] = {}
    for i, arg in enumerate(args):
        if arg.star or arg.keyword is None and i >= len(places):
            return None
        given[arg.keyword.value if arg.keyword is not None else places[i]] = arg.value
    return given


def _written(function: str, given: dict[str, cst.BaseExpression], tensor: str, named: bool) -> str:
    """What the function does with the tensor, the empty text where that is not seen."""
    given = dict(given)
    pattern, how = constant(given.pop("pattern", None)), constant(given.pop("reduction", None))
    if not isinstance(pattern, str) or function == "reduce" and not isinstance(how, str):
        return ""
    once = any(isinstance(n, cst.Call) for value in given.values() for n in descend(value))  # of a length
    return methods(function, pattern, {n: code(v) for n, v in given.items()}, tensor, named and not once, str(how))
