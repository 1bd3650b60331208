"""States and buffers under the names that torch gives them: `net.state_dict()[name]`, `net.named_buffers()`.

`parameters_dict()` has MindSpore's names, and those of the outermost cell. That serves where a state is saved, loaded,
or compared with another state. Names that the program writes down, or has of `named_parameters()`, are torch's.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import free_uses
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.parameters.beside import TODO, clashes
from torch2ms.rewrite.parameters.frozen import frozen
from torch2ms.rewrite.parameters.given_states import bound_to, of_network, stated
from torch2ms.rewrite.parameters.parts import is_part
from torch2ms.rewrite.parameters.second_names import second_names
from torch2ms.rewrite.parameters.shared_entries import TODO as SHARED_TODO
from torch2ms.rewrite.parameters.shared_entries import WHY, changed_entries, shares_weights
from torch2ms.rewrite.translation import Translation

STATES = re.compile(r"\.state_dict\(\s*\)")
WRITTEN = re.compile(r"""["'][\w.]*(?:running|num_batches_tracked|weight|bias)\w*["']\s+(?:not\s+)?in\b"""
                     r"""|(?:ends|starts)with\(\s*\(?\s*["']""")  # fmt: skip
REGISTERED = re.compile(r"""register_buffer\(\s*(?:name\s*=\s*)?["'](\w+)["']""")
PASSING = re.compile(
    REGISTERED.pattern + r"""(?:[^()]|\((?:[^()]|\([^()]*\))*\))*?,\s*(?:persistent\s*=\s*)?False\s*,?\s*\)"""
)
READING = ("items", "keys", "values", "get")
COPYING = ("load", "load_file", "deepcopy", "load_checkpoint")  # values that nobody else has


def state(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`net.state_dict()` that is asked by torch's names; None for one that MindSpore's names serve as well."""
    if original.args or not isinstance(updated.func, cst.Attribute):
        return None
    if shares_weights(work.project) and id(original) in changed_entries(work.module):
        work.refuse("T2M505", "Module.state_dict", WHY, SHARED_TODO)
        return updated
    by_name = _asked_by_name(work.module)
    held, renames = code(updated.func.value), work.project.renames
    if id(original) not in (by_name.renamed if renames else by_name.nested):
        return cst.parse_expression(f"dict({held}.parameters_and_names())") if _of_part(original, work) else None
    tell_of_state("Module.state_dict", "it is asked by the names that torch gives, and goes nowhere else", work)
    if renames:
        work.notes.needs.add("named_state")
    passing = _passing(work.project)
    pairs = f"named_state({held})" if renames else f"dict({held}.parameters_and_names())"
    if passing:
        listed = f"named_state({held}).items()" if renames else f"{held}.parameters_and_names()"
        left_out = f"name.rpartition('.')[2] not in {passing!r}"
        pairs = f"{{name: value for name, value in {listed} if {left_out}}}"
    return cst.parse_expression(pairs)


def _passing(project: Project) -> tuple[str, ...]:
    """Buffers that are in no state: those registered with `persistent=False`, wherever their names stand."""
    sources = [module.source for module in project.modules.values() if "register_buffer" in module.source]
    passing = {name for source in sources for name in PASSING.findall(source)}
    kept = {name for source in sources for name in REGISTERED.findall(PASSING.sub("", source))}
    return tuple(sorted(passing - kept))


def _of_part(original: cst.Call, work: Translation) -> bool:
    """`net.encoder.state_dict()`, whose names would be those that its Parameters have in `net`."""
    part = original.func.value if isinstance(original.func, cst.Attribute) else None
    if part is None or not is_part(part, work.scope, work.module, work.project):
        return False
    why, tier = "the names are those within the part of the network", Tier.EXACT
    if work.project.renames:
        why, tier = f"{why}; assumed: they are used with MindSpore only", Tier.ASSUMED
    work.notes.findings.append(Finding("T2M505", tier, "Module.state_dict", why))
    return True


def loaded(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`missing, unexpected = net.encoder.load_state_dict(state)`: by the places of the parameters; None elsewhere."""
    func = original.func
    if not isinstance(func, cst.Attribute) or not isinstance(updated.func, cst.Attribute):
        return None
    if not original.args or original.args[0].star:
        return None
    if (keyword := original.args[0].keyword) is not None and keyword.value != "state_dict":
        return None
    part = is_part(func.value, work.scope, work.module, work.project)
    places = f"dict({code(updated.func.value)}.parameters_and_names())"
    if by_torch_names(original.args[0].value, work.module, work.project):
        places = f"named_state({code(updated.func.value)})"
        work.notes.needs.add("named_state")
    elif not part and not second_names(work.project):
        if work.stmt is None or not _perhaps_of_network(original.args[0].value, work.stmt, work.module):
            return None
        places = f"{code(updated.func.value)}.parameters_dict()"  # values of another network are not to be shared
    work.notes.needs.add("load_state")
    work.tell("T2M507", "load_state_dict", "values are assigned by the places of the parameters")
    return cst.parse_expression(f"load_state({places}, {code(updated.args[0].value)})")


def _perhaps_of_network(given: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> bool:
    """The state has values of a network that is there, or somehow gets some: `dict(net.state_dict())`, in a loop."""
    bound = bound_to(given, stmt)
    if type(bound) is cst.Call and name_called(bound).rpartition(".")[2] in COPYING:
        return False
    calls = (call for other in stmt.block.scope.body.walk() for call in other.calls)
    return of_network(given, stmt, module) or any(stated(call, module) is not None for call in calls)


def names_as_keys(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`for name, p in net.named_parameters(): state[name] = p` of a state with MindSpore's names; None for others."""
    by_name = _asked_by_name(work.module)
    if not by_name.kept or original.args or not isinstance(updated.func, cst.Attribute):
        return None
    stmts = (s for scope in work.module.scope.walk() for s in scope.body.walk())
    loop, name = next(((s, name) for s in stmts if (name := _name_of(s, original))), (None, ""))
    if loop is None:
        return None
    bound = (pair for s in loop.block.scope.body.walk() for pair in _bindings(s))
    states = {place for key, place in bound if key in by_name.kept}
    states |= {place for s in loop.block.scope.body.walk() for place in _taken_over(s, states)}
    if not _keys_only(name, states, loop):
        return None
    held = code(updated.func.value)
    work.tell("T2M505", "Module.named_parameters", "its names are keys of a state, which has those of MindSpore")
    func = original.func
    part = isinstance(func, cst.Attribute) and is_part(func.value, work.scope, work.module, work.project)
    if part or second_names(work.project):
        listed = f"[(name, p) for name, p in {held}.parameters_and_names() if p.requires_grad]"
        return cst.parse_expression(listed)
    return cst.parse_expression(f"[(p.name, p) for p in {held}.trainable_params()]")


def _name_of(stmt: Stmt, listed: cst.Call) -> str:
    """What a loop over `listed`, or over `enumerate(listed)`, calls the first of each pair."""
    node = stmt.node
    if not isinstance(node, cst.For) or not isinstance(node.target, cst.Tuple):
        return ""
    pair, given = node.target, node.iter
    if isinstance(given, cst.Call) and dotted(given.func) == "enumerate" and len(pair.elements) == 2:
        pair, given = pair.elements[1].value, given.args[0].value  # type: ignore[assignment]
    return dotted(pair.elements[0].value) if given is listed and isinstance(pair, cst.Tuple) else ""


def _keys_only(name: str, states: set[str], loop: Stmt) -> bool:
    nodes = [n for block in loop.blocks for s in block.walk() for n in _evaluated(s)]
    found, asked = set(), set()
    for node in (inner for outer in nodes for inner in descend(outer)):
        if type(node) is cst.Name and node.value == name:
            found.add(id(node))
        elif type(node) is cst.Subscript and dotted(node.value) in states:
            asked |= {id(e.slice.value) for e in node.slice if isinstance(e.slice, cst.Index)}
        elif type(node) is cst.Comparison and dotted(node.comparisons[0].comparator) in states:
            asked.add(id(node.left))
    return bool(found) and found <= asked


def _taken_over(stmt: Stmt, states: set[str]) -> Iterator[str]:
    """`state.update(params)`: a dictionary of which a state takes over the keys."""
    for call in stmt.calls:
        func = call.func
        if type(func) is cst.Attribute and func.attr.value == "update" and dotted(func.value) in states:
            yield from (dotted(arg.value) for arg in call.args if arg.keyword is None and dotted(arg.value))


def without_defaults(original: cst.Call, updated: cst.Call) -> tuple[cst.Call, cst.Call]:
    """The call without `recurse=True` and `remove_duplicate=True`, which every list of buffers has anyway."""
    kept = [i for i, arg in enumerate(original.args) if not _is_default(arg)]
    if len(kept) == len(original.args):
        return original, updated
    first, second = (call.with_changes(args=[call.args[i] for i in kept]) for call in (original, updated))
    return first, second


def _is_default(arg: cst.Arg) -> bool:
    name = arg.keyword.value if arg.keyword is not None else ""
    return (
        name in ("recurse", "remove_duplicate")
        and constant(arg.value) is True
        or (name == "prefix" and constant(arg.value) == "")
    )


def named_buffers(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`net.named_buffers()`: what normalisation keeps, and what modules register; None where names are not seen.

    `named_buffers("net")` puts a prefix before each of the names.
    """
    if len(original.args) == 1 and not original.args[0].star:
        keyword = original.args[0].keyword
        named = keyword is None or keyword.value == "prefix"
        text = constant(original.args[0].value) if named else None
        bare = [call.with_changes(args=[]) for call in (original, updated)]
        made = named_buffers(bare[0], bare[1], work) if isinstance(text, str) and text.isidentifier() else None
        if made is None or made is bare[1]:
            return made
        whole, pair, named_so = code(made), "[(name, p) ", f"[(f'{text}.{{name}}', p) "
        if whole.startswith(pair):
            return cst.parse_expression(named_so + whole.removeprefix(pair))
        return cst.parse_expression(f"{named_so}for name, p in {whole}]")
    buffers = sorted(work.project.buffers)
    if original.args or not isinstance(updated.func, cst.Attribute) or "" in buffers:
        return None
    if clashes(work.project):
        work.refuse("T2M505", "Module.named_buffers", "a buffer has the name of a parameter", TODO)
        return updated
    held = code(updated.func.value)
    if not work.project.renames and not frozen(work.project):
        why = "nothing is frozen, and no layer of the project keeps statistics: what is not trained are the buffers"
        work.tell("T2M505", "Module.named_buffers", why)
        listed = f"[(name, p) for name, p in {held}.parameters_and_names() if not p.requires_grad]"
        return cst.parse_expression(listed)
    work.notes.needs.add("named_buffers")
    why = "statistics of normalisation and registered buffers, under torch's names"
    tell_of_state("Module.named_buffers", why, work)
    return cst.parse_expression(f"named_buffers({held}{f', {tuple(buffers)!r}' if buffers else ''})")


def tell_of_state(what: str, why: str, work: Translation) -> None:
    assumed = "; assumed: nobody asks how many batches a normalisation has seen, which MindSpore does not count"
    tier, given = (Tier.ASSUMED, assumed) if work.project.keeps_state else (Tier.EXACT, "")
    work.notes.findings.append(Finding("T2M505", tier, what, why + given))


def by_torch_names(given: cst.BaseExpression, module: ModuleInfo, project: Project) -> bool:
    """A dictionary was made from states whose keys are torch's: `{k[4:]: v for k, v in state.items()}`."""
    if not project.renames or not _asked_by_name(module).renamed:
        return False
    return _put_together(given) and any(type(n) is cst.Name and n.value in _torch_keyed(module) for n in descend(given))


def _put_together(node: cst.CSTNode) -> bool:
    made = type(node) is cst.Call and dotted(node.func).rpartition(".")[2] in ("OrderedDict", "dict")
    return made or type(node) in (cst.Name, cst.DictComp)


@once
def _torch_keyed(module: ModuleInfo) -> frozenset[str]:
    """Names of states with torch's keys, and of dictionaries that are made from these."""
    renamed, found = _asked_by_name(module).renamed, set()
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            pairs = list(_bindings(stmt))
            found |= {name for key, name in pairs if key in renamed}
            value = stmt.node.value if pairs and isinstance(stmt.node, cst.Assign) else None
            if value is not None and type(value) is not cst.Name and _put_together(value):
                if any(type(n) is cst.Name and n.value in found for n in descend(value)):
                    found |= {name for _, name in pairs}
    return frozenset(found)


@once
def _asked_by_name(module: ModuleInfo) -> _Asked:
    """The `state_dict()` calls of a file whose keys have to be torch's: all of them, or none."""
    return _Reads(module).asked() if module.says(STATES) else _Asked()


@dataclass(frozen=True)
class _Asked:
    """Ids of calls, where layers have other names in MindSpore, and where only the outermost cell may matter."""

    renamed: frozenset[int] = frozenset()
    nested: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()  # those that go elsewhere, with MindSpore's names


class _Reads:
    """What a file does with the states of its networks."""

    def __init__(self, module: ModuleInfo) -> None:
        self.module = module
        self.calls: set[int] = set()
        self.names: list[tuple[Scope, str]] = []
        self.looped: set[str] = set()  # names for the keys of states
        self.foreign = False  # a key that comes from elsewhere
        self.left = False  # a state goes somewhere else
        self.kept = False  # its keys are those of another dictionary

    def asked(self) -> _Asked:
        for scope in self.module.scope.walk():
            for stmt in scope.body.walk():
                for node in _evaluated(stmt):
                    self.look(node, stmt, scope)
        for scope, name in self.names:
            for stmt in scope.body.walk():
                for node in _evaluated(stmt):
                    self.follow(node, stmt, name)
            self.left |= any(name in free_uses(child) for child in scope.children)
        for scope, name in self.names:
            self.keys(scope, name)
        found = frozenset(self.calls) if not self.left else frozenset()
        written = self.module.says(WRITTEN) and not self.kept
        kept = frozenset(self.calls) if self.left else frozenset()
        return _Asked(found if self.foreign or written else frozenset(), found if self.foreign else frozenset(), kept)

    def look(self, node: cst.CSTNode, stmt: Stmt, scope: Scope) -> None:
        """The states that a statement asks for, and the names it gives them."""
        calls = [n for n in descend(node) if self.is_state(n)]
        if not calls:
            return
        read, neutral = _reads(node, stmt), self.neutral(node)
        bound = dict(_bindings(stmt))
        for call in calls:
            if id(call) in neutral:
                continue
            self.calls.add(id(call))
            if id(call) in bound:
                self.names.append((scope, bound[id(call)]))
            else:
                self.left |= id(call) not in read
                self.note_keys(node, stmt, partial(operator.is_, call))

    def is_state(self, node: cst.CSTNode) -> bool:
        if type(node) is not cst.Call or type(node.func) is not cst.Attribute or node.args:
            return False
        return node.func.attr.value == "state_dict" and self.module.value(node.func.value).kind in ("module", "unknown")

    def neutral(self, node: cst.CSTNode) -> set[int]:
        """States that one network takes over from another, or that are saved: names play no part."""
        found: set[int] = set()
        for call in descend(node):
            if type(call) is cst.Call and dotted(call.func).rpartition(".")[2] in ("load_state_dict", "save"):
                found |= {id(n) for arg in call.args for n in descend(arg.value)}
        return found

    def follow(self, node: cst.CSTNode, stmt: Stmt, name: str) -> None:
        """A state with a name may be asked, and may not go anywhere as a whole."""
        read = _reads(node, stmt)
        targets = {id(t) for t in _targets(stmt)}
        for found in descend(node):
            if type(found) is cst.Name and found.value == name and id(found) not in targets:
                self.left |= id(found) not in read and not _attribute_of(found, node)

    def keys(self, scope: Scope, name: str) -> None:
        for stmt in scope.body.walk():
            for node in _evaluated(stmt):
                self.note_keys(node, stmt, lambda n: type(n) is cst.Name and n.value == name)

    def note_keys(self, node: cst.CSTNode, stmt: Stmt, is_it: Callable[[cst.CSTNode], bool]) -> None:
        """Keys that a state is asked for, and the names for those that it gives in a loop."""
        loops = [(n.target, n.iter) for n in descend(node) if type(n) is cst.CompFor]
        if type(stmt.node) is cst.For:
            loops.append((stmt.node.target, stmt.node.iter))
        for target, given in loops:
            if any(is_it(n) for n in descend(given)):
                self.looped |= {n.value for n in descend(target) if type(n) is cst.Name}
        for found in descend(node):
            if type(found) is cst.Subscript and is_it(found.value):
                index = found.slice[0].slice
                key = index.value if isinstance(index, cst.Index) else None
                self.foreign |= key is not None and dotted(key) not in self.looped
                self.left |= key is not None and str(constant(key)).endswith("num_batches_tracked")
            elif type(found) is cst.DictComp:
                self.kept |= dotted(found.key) in self.looped
            elif type(found) is cst.Comparison and any(is_it(c.comparator) for c in found.comparisons):
                self.foreign |= dotted(found.left) not in self.looped
                self.left |= str(constant(found.left)).endswith("num_batches_tracked")


def _evaluated(stmt: Stmt) -> Iterator[cst.CSTNode]:
    """What a simple statement, or the head of a compound one, evaluates."""
    node = stmt.node
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        return
    if not stmt.blocks:
        yield node
    elif isinstance(node, (cst.If, cst.While)):
        yield node.test
    elif isinstance(node, cst.For):
        yield node.iter
    elif isinstance(node, cst.With):
        yield from (item.item for item in node.items)


def _reads(node: cst.CSTNode, stmt: Stmt) -> set[int]:
    """Ids of what is asked for an item, for its keys and values, or whether it has a key."""
    found: set[int] = {id(stmt.node.iter)} if isinstance(stmt.node, cst.For) else set()
    for n in descend(node):
        if type(n) is cst.Subscript:
            found.add(id(n.value))
        elif type(n) is cst.Attribute and n.attr.value in READING:
            found.add(id(n.value))
        elif type(n) is cst.CompFor:
            found.add(id(n.iter))
        elif type(n) is cst.Comparison:
            found |= {id(c.comparator) for c in n.comparisons if isinstance(c.operator, (cst.In, cst.NotIn))}
    return found


def _bindings(stmt: Stmt) -> Iterator[tuple[int, str]]:
    """`state = net.state_dict()`, `ours, theirs = a.state_dict(), b.state_dict()`: the value, and its name."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return
    target, value = node.targets[0].target, node.value
    if isinstance(target, cst.Name):
        yield id(value), target.value
    elif isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
        for one, given in zip(target.elements, value.elements, strict=False):
            if isinstance(one.value, cst.Name):
                yield id(given.value), one.value.value


def _targets(stmt: Stmt) -> Iterator[cst.BaseExpression]:
    node = stmt.node
    for target in (t.target for t in node.targets) if isinstance(node, cst.Assign) else ():
        yield target
        if isinstance(target, cst.Tuple):
            yield from (e.value for e in target.elements)


def _attribute_of(name: cst.Name, node: cst.CSTNode) -> bool:
    """It is the name of an attribute or of an argument, not of what is meant."""
    return any(
        type(n) is cst.Attribute and n.attr is name or type(n) is cst.Arg and n.keyword is name for n in descend(node)
    )
