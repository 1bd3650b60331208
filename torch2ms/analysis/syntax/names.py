"""What imported names stand for."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.packages import is_foreign as is_foreign


def dotted(node: cst.CSTNode) -> str:
    """`a.b.c` for a chain of names, "" for anything else."""
    kind = node.__class__  # cheaper than isinstance, and this is asked of nearly every expression
    if kind is cst.Name:
        return node.value  # type: ignore[attr-defined, no-any-return]
    if kind is not cst.Attribute:
        return ""
    parts: list[str] = []
    while node.__class__ is cst.Attribute:
        parts.append(node.attr.value)
        node = node.value
    if node.__class__ is not cst.Name:
        return ""
    parts.append(node.value)
    return ".".join(reversed(parts))


def method_called(call: cst.Call) -> str:
    """The name of the method that a call runs, "" where it is not written as one."""
    return call.func.attr.value if type(call.func) is cst.Attribute else ""


def name_called(call: cst.Call) -> str:
    """The name of what a call runs: of a method, or of a function with where it is from."""
    func = call.func
    return func.attr.value if func.__class__ is cst.Attribute else dotted(func)


@dataclass
class Imports:
    """The import statements of a module: `table` maps local names to qualified ones."""

    package: str = ""
    table: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    roots: set[str] = field(default_factory=set)  # names bound by `import a.b` without `as`
    supposed: set[str] = field(default_factory=set)  # names that no import binds, for all that is seen

    def add(self, node: cst.Import | cst.ImportFrom) -> None:
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = dotted(alias.name)
                if alias.asname is not None and type(alias.asname.name) is cst.Name:
                    self.table[alias.asname.name.value] = name
                else:
                    root = name.split(".", 1)[0]
                    self.table[root] = root
                    self.roots.add(root)
            return
        module = self.source(node)
        if isinstance(node.names, cst.ImportStar):
            self.stars.append(module)
            return
        for alias in node.names:
            name = alias.name.value if type(alias.name) is cst.Name else dotted(alias.name)
            local = name
            if alias.asname is not None and type(alias.asname.name) is cst.Name:
                local = alias.asname.name.value
            self.table[local] = f"{module}.{name}" if module else name

    def add_of_module(self, node: cst.Import | cst.ImportFrom) -> None:
        """What a module imports; where the name torch is read and nothing binds it, it came along, or was forgotten."""
        self.add(node)
        names = [dotted(alias.name) for alias in node.names] if isinstance(node, cst.Import) else [self.source(node)]
        if isinstance(node.names, cst.ImportStar) or any(name.partition(".")[0] == "torch" for name in names):
            self.supposed |= {"torch"} - self.table.keys()
            self.table.setdefault("torch", "torch")
        self.supposed -= self.roots

    def source(self, node: cst.ImportFrom) -> str:
        """The absolute name of the module a `from` import reads."""
        module = dotted(node.module) if node.module is not None else ""
        level = len(node.relative)
        if not level:
            return module
        parts = self.package.split(".") if self.package else []
        parts = parts[: len(parts) - (level - 1)] if level > 1 else parts
        return ".".join([*parts, module]) if module else ".".join(parts)


def qualified(node: cst.CSTNode, imports: Imports) -> str:
    """The full name of a dotted expression as the imports have it, or the local one."""
    name = dotted(node)
    head, _, rest = name.partition(".")
    full = imports.table.get(head, head)
    return f"{full}.{rest}" if rest else full


def canonical(name: str) -> str:
    """One name for the types of tensors on every device: torch.cuda.FloatTensor is torch.FloatTensor."""
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        return f"torch.{name.rpartition('.')[2]}"
    return name
