"""Methods of base classes that subclasses complete, written into the classes that run them.

`class ClipTrainer(Trainer): def step(self): clip(...); super().step()`, with `optimize` and `fit` above: which forward,
which backward call and which step meet in them differs from class to class. Every class at the end of its line gets
versions of its own, with those that `super()` names under names of their own; the classes above, of which there are no
objects, keep none. What Python looked up when it ran is then said where it is, and a class is read alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import abstract
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing import layout
from torch2ms.editing.rewriter import Rewriter
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.candidates import names_hold
from torch2ms.inlining.expand import touches_tape
from torch2ms.inlining.folding import Substituted
from torch2ms.inlining.meanings import translated_names
from torch2ms.tape.ledger.events import find

MOST = 160  # statements that all the versions together become
TOUCHING = re.compile(r"\.backward\(|\.step\(|\.zero_grad\(|\.grad\b|clip_grad")
SPECIAL = ("__init__", "__new__", "forward")
WHY = "subclasses complete the method: each class that is at the end of its line has a version of its own"


@dataclass
class Moves:
    """What becomes of the methods of a project, by ids of definitions and classes."""

    told: dict[int, dict[str, str]] = field(default_factory=dict)  # methods that stay: what `super()` names in them
    added: dict[int, list[tuple[FunctionInfo, str, dict[str, str]]]] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    @cached_property
    def used(self) -> set[int]:
        """The definitions whose text stands in some class below."""
        return {id(info.scope.node) for own in self.added.values() for info, _, _ in own}


def brought_down(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such classes, by name."""
    classes = [c for m in project.modules.values() if not m.uses_mindspore for c in m.classes.values()]
    moves, done = Moves(), set[int]()
    for cls in classes:
        if id(cls) in done or not (cls.parents or cls.children):
            continue
        family = _family(cls)
        done |= {id(each) for each in family}
        if names := _completed(family):
            _plan(family, names, project, moves)
    changed = {
        c.module.name for c in classes
        if id(c.scope.node) in moves.added or any(id(m.scope.node) in moves.told for m in c.methods.values())
        or any(id(m.scope.node) in moves.gone for m in c.methods.values())
    }  # fmt: skip
    return {name: _Down(project.modules[name], moves, len(project.modules) > 1).plain() for name in changed}


def _family(cls: ClassInfo) -> list[ClassInfo]:
    """The classes that a class is related to, those above first."""
    found: dict[ClassInfo, None] = {}
    waiting = [cls]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found[each] = None
            waiting += [*each.parents, *each.children]
    return sorted(found, key=lambda c: (len(c.lineage()), c.qualified))


def _completed(family: list[ClassInfo]) -> set[str]:
    """Methods that touch gradients and that some class below has a version of, and those that call them."""
    methods = [(cls, info) for cls in family for info in cls.methods.values() if info.name not in SPECIAL]
    touching = {info.name for _, info in methods if info.module.says(TOUCHING) and find(info.scope, info.module)}
    if not touching:
        return set()
    calls = [(info.name, _called(info)) for cls in family for info in cls.methods.values()]
    while more := {name for name, called in calls if called & touching} - touching:
        touching |= more
    several = {n for n in touching if any(n in cls.methods and cls.overriding(n) for cls in family)}
    found = {n for n in several if sum(not abstract(i) for _, i in methods if i.name == n) > 1}
    while more := {name for name, called in calls if called & found} - found:
        found |= more
    return found if not found & set(SPECIAL) else set()


def _called(info: FunctionInfo) -> set[str]:
    """The methods of its own object that a method calls."""
    funcs = [c.func for s in info.scope.body.walk() for c in s.calls if isinstance(c.func, cst.Attribute)]
    return {f.attr.value for f in funcs if dotted(f.value) == "self" or _is_super(f.value)}


def _is_super(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and dotted(node.func) == "super"


def _plan(family: list[ClassInfo], names: set[str], project: Project, moves: Moves) -> None:
    """Who has which version; nothing where that is not certain."""
    ends = [cls for cls in family if not cls.children]
    above = [cls for cls in family if cls.children and names & cls.methods.keys()]
    if not above or any(_made(cls, project) for cls in above) or not all(map(_plain, _versions(family, names))):
        return
    mine = Moves()
    for cls in ends:
        if not _own(cls, names, mine):
            return
    added = [info for own in mine.added.values() for info, _, _ in own]
    if not added or sum(len(list(i.scope.body.walk())) for i in added) > MOST:
        return
    mine.gone = {id(c.methods[n].scope.node) for c in above for n in names & c.methods.keys()
                 if not abstract(c.methods[n])}  # fmt: skip
    moves.told |= mine.told
    moves.added |= mine.added
    moves.gone |= mine.gone


def _versions(family: list[ClassInfo], names: set[str]) -> list[FunctionInfo]:
    return [info for cls in family for name, info in cls.methods.items() if name in names]


def _plain(info: FunctionInfo) -> bool:
    """A method whose text means the same in a class below: no name of it is private to its class."""
    node = info.scope.node
    if not isinstance(node, cst.FunctionDef) or node.decorators or info.scope.off or info.scope.children:
        return False
    words = {n.value for n in descend(node) if isinstance(n, cst.Name)}
    private = any(w.startswith("__") and not w.endswith("__") or w == "__class__" for w in words)
    return not private and info.scope.params[:1] == ["self"]


def _made(cls: ClassInfo, project: Project) -> bool:
    """Something besides classes below and questions of types names the class: there may be objects of it."""
    for module in project.modules.values():
        if not module.has(cls.scope.name):
            continue
        if module.quotes[cls.scope.name]:
            return True
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                if type(stmt.node) is not cst.ClassDef and any(_names(n, cls, module) for n in _told_apart(stmt.nodes)):
                    return True
    return False


def _told_apart(nodes: list[cst.CSTNode]) -> list[cst.CSTNode]:
    """Without what `super(...)` and `isinstance(...)` are given, annotations and imports."""
    asked = [n for n in nodes if isinstance(n, cst.Call) and dotted(n.func) in ("super", "isinstance")]
    apart = [*asked, *(n for n in nodes if isinstance(n, (cst.Annotation, cst.Import, cst.ImportFrom)))]
    inner = {id(n) for each in apart for n in descend(each)}
    return [n for n in nodes if id(n) not in inner]


def _names(node: cst.CSTNode, cls: ClassInfo, module: ModuleInfo) -> bool:
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return False
    value = module.value(node)
    return value.kind == "class" and value.name == cls.qualified


def _own(cls: ClassInfo, names: set[str], moves: Moves) -> bool:
    """The versions of a class at the end of its line; False where they cannot be written there."""
    added: list[tuple[FunctionInfo, str, dict[str, str]]] = []
    waiting = [(info, name) for name in sorted(names) if (info := cls.method(name)) is not None]
    lineage, known = cls.lineage(), dict[int, str]()
    while waiting:
        info, name = waiting.pop(0)
        assert info.cls is not None
        told: dict[str, str] = {}
        for other in _asked_above(info):
            behind = lineage[lineage.index(info.cls) + 1 :]
            version = next((c.methods[other] for c in behind if other in c.methods), None)
            if version is None:
                return False  # that of a class which is not seen
            assert version.cls is not None
            own = known.get(id(version))
            if own is None:
                own = known[id(version)] = f"{_snake(version.cls.scope.name)}_{other.lstrip('_')}"
                if cls.method(own) is not None or cls.attr(own) is not None:
                    return False
                waiting.append((version, own))
            told[other] = own
        if info.cls is cls:
            moves.told[id(info.scope.node)] = told
            continue
        if info.module is not cls.module and not names_hold(Candidate(info, []), cls.module):
            return False
        if not abstract(info) or name not in names:
            added.append((info, name, told))
    order = {id(c): i for i, c in enumerate(lineage[::-1])}
    added.sort(key=lambda each: (order[id(each[0].cls)], each[0].scope.body.stmts[0].number))
    if added:
        moves.added[id(cls.scope.node)] = added
    return True


def _asked_above(info: FunctionInfo) -> list[str]:
    funcs = [c.func for s in info.scope.body.walk() for c in s.calls if isinstance(c.func, cst.Attribute)]
    return sorted({f.attr.value for f in funcs if _is_super(f.value)})


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().lstrip("_")


class _Told(Rewriter):
    """`super().step()` as `self.trainer_step()`."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        func = updated.func
        if not isinstance(func, cst.Attribute) or not _is_super(func.value) or func.attr.value not in self.names:
            return updated
        own = cst.Attribute(cst.Name("self"), cst.Name(self.names[func.attr.value]))
        return updated.with_changes(func=own)


class _Down(Suites):
    """One module: classes with versions of their own, others without."""

    def __init__(self, module: ModuleInfo, moves: Moves, shared: bool) -> None:
        super().__init__(module)
        self.moves, self.shared = moves, shared
        self.brought = ""  # the methods of other modules whose text stands here now
        self.said = set[int]()  # the definitions whose comments stand here

    def plain(self) -> Plain:
        tree = self.whole()
        return self.of_tree(tree, brought=self.brought)

    def statement(self, stmt: cst.CSTNode) -> Made:
        if isinstance(stmt, cst.FunctionDef) and id(stmt) in self.moves.gone:
            tier = Tier.ASSUMED if self.shared else Tier.EXACT
            said = "; assumed: no file beside the converted ones makes objects of the class" if self.shared else ""
            lines = {self.numbers[id(stmt)][0]}
            if self.shared:  # findings of its versions may stand in other files
                lines |= {self.numbers[id(node)][0] for node in flow.in_order([stmt]) if touches_tape(node)}
            for line in sorted(lines):
                self.findings.append(Finding("T2M203", tier, f"method {stmt.name.value}", WHY + said, line=line))
            return [], () if id(stmt) in self.moves.used else layout.inner_comments(stmt)
        made, waiting = super().statement(stmt)
        if isinstance(stmt, cst.FunctionDef) and (told := self.moves.told.get(id(stmt))):
            made = [cast(cst.BaseStatement, self.renumbered_all(_Told(told).rewrite(made[0]), made[0]))]
        return made, waiting

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        added = self.moves.added.get(id(original))
        if added is None or not isinstance(updated, cst.ClassDef) or not isinstance(updated.body, cst.IndentedBlock):
            return super().compound(original, updated)
        body = list(updated.body.body)
        kept = [s for s in body if not (isinstance(s, cst.SimpleStatementLine) and isinstance(s.body[0], cst.Pass))]
        for info, name, told in added:
            made = self.version(info, name, told, original)
            kept.append(made if kept else made.with_changes(leading_lines=layout.strip_blank(made.leading_lines)))
        return super().compound(original, updated.with_changes(body=updated.body.with_changes(body=kept)))

    def version(self, info: FunctionInfo, name: str, told: dict[str, str], cls: cst.CSTNode) -> cst.FunctionDef:
        """A method of a class above as the class itself has it."""
        node = info.scope.node
        assert isinstance(node, cst.FunctionDef)
        made = cst.ensure_type(_Told(told).rewrite(node.deep_clone()), cst.FunctionDef)
        if info.module is not self.module:
            texts = {n: cst.parse_expression(o) for n, o in translated_names(Candidate(info, []), self.module).items()}
            made = cst.ensure_type(Substituted(texts).rewrite(made), cst.FunctionDef) if texts else made
            self.brought += f"\n{code(node)}"
            for each in flow.in_order([made]):
                self.number(each, cls)
        else:
            self.renumbered_all(made, node)
        said = () if id(node) in self.said else layout.comments_only(made.leading_lines)
        self.said.add(id(node))
        own = made.with_changes(name=cst.Name(name), leading_lines=[cst.EmptyLine(indent=False), *said])
        self.number(own, made)
        return own

    def renumbered_all(self, made: cst.CSTNode, source: cst.CSTNode) -> cst.CSTNode:
        """The statements of a definition on the lines of those of another one like it."""
        for new, old in zip(flow.in_order([made]), flow.in_order([source]), strict=True):
            self.number(new, old)
        return made
