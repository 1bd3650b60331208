"""`{k: Adam(nets[k].parameters()) for k in ("pi", "q")}` and loops over such keys, written out: once for each key.

The ledger keeps gradients by the place of an optimizer, and the item of a dict under a key that is another one in each
turn has none. Where the keys are written down in the program, each item is written down too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.evaluation.containers import layers_by_name
from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import UNKNOWN, entries
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites, Uncommented
from torch2ms.wrappers.boxes import LIVING, Box, boxes, parts, sees
from torch2ms.wrappers.passes import each_module

FILLED = re.compile(r"\{[^{}]*:\s*[^\s.\d<>^=!%,}]|\]\s*=(?!=)")  # a dict that is written down, or an item that is put
MOST = 8  # keys of a loop that is written out
MOST_STATEMENTS = 40  # of what it becomes then
METHODS = {"step", "zero_grad", "unscale_"}
SCOPES = (cst.Lambda, cst.FunctionDef, cst.ClassDef, cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)
JUMPS = frozenset({cst.Break, cst.Continue, cst.Return, cst.Yield, cst.Global, cst.Nonlocal})


@dataclass
class Turns:
    """What the names of a loop stand for in each of its turns."""

    names: list[dict[str, str]]


@each_module
def spread(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that keeps optimizers in dicts filled so."""
    if module.directives.off or not _keeps_optimizers(module):
        return None
    finder = _Finder(module, boxes(module, project))
    return _Writer(module, finder.found).plain() if finder.found else None


def _keeps_optimizers(module: ModuleInfo) -> bool:
    """Somewhere an optimizer is put into a dict."""
    if not module.says(FILLED):
        return False
    held: list[cst.CSTNode] = [n.value for n in module.of_kind(cst.DictElement)]
    held += [n.value for n in module.of_kind(cst.DictComp)]
    held += [n.value for n in module.of_kind(cst.Assign) if type(n.targets[0].target) is cst.Subscript]
    return any(module.value(value).kind == "optimizer" for value in held)


class _Finder:
    """Comprehensions and loops of one module that are written out, by id."""

    def __init__(self, module: ModuleInfo, known: list[Box]) -> None:
        self.module, self.known = module, known
        self.found: dict[int, Turns] = {}
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                if stmt.off:
                    continue
                both = parts(stmt.node)
                if both is not None and isinstance(both[1], cst.DictComp):
                    self.comprehension(both[1], stmt, scope)
                elif type(stmt.node) is cst.For:
                    self.loop(stmt, scope)

    def comprehension(self, node: cst.DictComp, stmt: Stmt, scope: Scope) -> None:
        head = node.for_in
        if head.ifs or head.inner_for_in is not None or head.asynchronous is not None:
            return
        turns = self.turns(head.target, head.iter, stmt, scope)
        key = turns.names[0].get(dotted(node.key), "") if turns else ""
        if not turns or self.module.value(node.value).kind not in LIVING or not key.startswith(('"', "'")):
            return
        if entries(self.module.value(node)) or not _plain(node.value, turns):
            return
        self.found[id(node)] = turns

    def loop(self, stmt: Stmt, scope: Scope) -> None:
        node = stmt.node
        assert isinstance(node, cst.For)
        inner = [s for block in stmt.blocks for s in block.walk()]
        if node.orelse is not None or node.asynchronous is not None:
            return
        guards = [line for line in node.body.body if _is_guard(line)]
        left = {id(n) for guard in guards for n in descend(guard)}
        if any(type(n) in JUMPS and id(n) not in left for n in descend(node.body)):
            return
        turns = self.turns(node.target, node.iter, stmt, scope)
        if not turns or not _plain(node.body, turns):
            return
        if any(_left(guard, names) is None for guard in guards for names in turns.names):
            return
        few = len(inner) * len(turns.names) <= MOST_STATEMENTS and any(self.trains(s, turns, scope) for s in inner)
        if not (few or self.fills(inner, turns) or self.steps(inner, turns)):
            return
        if any(d in turns.names[0] for s in inner for d in s.defs):
            return
        if set(turns.names[0]) & liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt)):
            return
        self.found[id(node)] = turns

    def fills(self, inner: list[Stmt], turns: Turns) -> bool:
        """An optimizer or a network goes into a dict in each turn."""
        for stmt in inner:
            both = parts(stmt.node)
            if both is None or not isinstance(both[0], cst.Subscript) or self.module.value(both[1]).kind not in LIVING:
                continue
            index = both[0].slice[0].slice
            if isinstance(index, cst.Index) and dotted(index.value) in turns.names[0]:
                return True
        return False

    def steps(self, inner: list[Stmt], turns: Turns) -> bool:
        """Each statement is a method of an optimizer, a scheduler or a scaler, of the one whose turn it is."""
        for stmt in inner:
            call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
            if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
                return False
            used = {n.value for n in descend(call) if isinstance(n, cst.Name)}
            if call.func.attr.value not in METHODS or not used & set(turns.names[0]):
                return False
        return bool(inner)

    def trains(self, stmt: Stmt, turns: Turns, scope: Scope) -> bool:
        """A method of the optimizer whose turn it is, out of a box."""
        for call in stmt.calls:
            if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in METHODS:
                continue
            taken: cst.BaseExpression = call.func.value
            if isinstance(taken, cst.Name) and taken.value in turns.names[0]:
                taken = cst.parse_expression(turns.names[0][taken.value])
            index = taken.slice[0].slice if isinstance(taken, cst.Subscript) else None
            by_turn = isinstance(index, cst.Index) and dotted(index.value) in turns.names[0]
            if not isinstance(taken, cst.Subscript) or not by_turn and taken is call.func.value:
                continue  # one that is the same in each turn
            place = dotted(taken.value)
            if any(b.place == place and b.trains and sees(scope, b.scope, place.partition(".")[0]) for b in self.known):
                return True
        return False

    def turns(self, target: cst.CSTNode, node: cst.BaseExpression, stmt: Stmt, scope: Scope) -> Turns | None:
        """What the names of a loop's target stand for, turn by turn."""
        call = node if isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute) else None
        if isinstance(target, cst.Tuple) and call is not None and call.func.attr.value == "items":  # type: ignore[attr-defined]
            names = [e.value.value for e in target.elements if isinstance(e.value, cst.Name)]
            place = dotted(call.func.value)  # type: ignore[attr-defined]
            keys = self.box_keys(place, stmt, scope) if len(names) == 2 else []
            return Turns([{names[0]: _quoted(k), names[1]: f"{place}[{_quoted(k)}]"} for k in keys]) if keys else None
        if not isinstance(target, cst.Name):
            return None
        if call is not None and call.func.attr.value == "values":  # type: ignore[attr-defined]
            place = dotted(call.func.value)  # type: ignore[attr-defined]
            keys = self.box_keys(place, stmt, scope)
            return Turns([{target.value: f"{place}[{_quoted(k)}]"} for k in keys]) if keys else None
        keys = self.keys(node, stmt, scope)
        return Turns([{target.value: _quoted(k)} for k in keys]) if keys else None

    def keys(self, node: cst.BaseExpression, stmt: Stmt, scope: Scope) -> list[str]:
        """The keys that a loop goes over, where they are written down."""
        if isinstance(node, (cst.Tuple, cst.List)):
            keys = [constant(e.value) for e in node.elements]
            fit = all(isinstance(k, str) for k in keys) and len(set(keys)) == len(keys) <= MOST
            return [str(k) for k in keys] if fit else []
        if isinstance(node, cst.Call) and dotted(node.func) in ("list", "tuple", "sorted"):
            given = self.keys(node.args[0].value, stmt, scope) if len(node.args) == 1 else []
            return sorted(given) if dotted(node.func) == "sorted" else given
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
            return self.box_keys(dotted(node.func.value), stmt, scope) if node.func.attr.value == "keys" else []
        place = dotted(node)
        return self.box_keys(place, stmt, scope) or self.listed(place, scope) if place else []

    def box_keys(self, place: str, stmt: Stmt, scope: Scope) -> list[str]:
        """The keys of a box at a statement."""
        for box in self.known:
            if box.place == place and sees(scope, box.scope, place.partition(".")[0]) and box.whole(scope, stmt.number):
                return list(box.held) if len(box.held) <= MOST else []
        return self.layer_keys(place) if place else []

    def layer_keys(self, place: str) -> list[str]:
        """The names of the layers of a `ModuleDict` that is made once and stays as it is."""
        stmts = [s for inner in self.module.scope.walk() for s in inner.body.walk()]
        made = [s for s in stmts if place in s.defs]
        value = made[0].out.get(place, UNKNOWN) if len(made) == 1 and made[0].block.owner is None else UNKNOWN
        layers = layers_by_name(value)
        return list(layers) if len(layers) <= MOST and not any(place in s.muts for s in stmts) else []

    def listed(self, place: str, scope: Scope) -> list[str]:
        """The items of a list of texts that is bound once and stays as it is."""
        name = place.partition(".")[0]
        seen = [(s, inner) for inner in self.module.scope.walk() for s in inner.body.walk()]
        made = [(s, inner) for s, inner in seen if place in s.defs]
        if len(made) != 1 or any(place in s.muts for s, _ in seen) or not sees(scope, made[0][1], name):
            return []
        both = parts(made[0][0].node)
        if both is None or not isinstance(both[1], (cst.List, cst.Tuple)) or made[0][0].block.owner is not None:
            return []
        return self.keys(both[1], made[0][0], scope)


def _quoted(key: str) -> str:
    return '"' + key + '"' if '"' not in key and "\\" not in key else repr(key)


def _plain(node: cst.CSTNode, turns: Turns) -> bool:
    """Nothing in it keeps the name of a loop for later, hides it, or has it within a text in another way than bare."""
    for inner in descend(node):
        if isinstance(inner, SCOPES):
            return False
        if isinstance(inner, cst.FormattedStringExpression):
            bare = inner.format_spec is None and inner.conversion is None and inner.equal is None
            name = dotted(inner.expression)
            if bare and turns.names[0].get(name, "").startswith(('"', "'")):
                continue
            if any(n.value in turns.names[0] for n in descend(inner) if isinstance(n, cst.Name)):
                return False
    return True


class _Writer(Suites):
    """One module, with what was found written out."""

    def __init__(self, module: ModuleInfo, found: dict[int, Turns]) -> None:
        super().__init__(module)
        self.found = found

    def leave_DictComp(self, original: cst.DictComp, updated: cst.DictComp) -> cst.BaseExpression:
        turns = self.found.get(id(original))
        if turns is None:
            return updated
        elements = []
        for names in turns.names:
            key, value = (n.visit(_Named(names)) for n in (updated.key, updated.value))
            elements.append(cst.DictElement(key, value))  # type: ignore[arg-type]
        return cst.Dict(elements)

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        turns = self.found.get(id(original))
        if turns is None:
            return [updated], ()  # type: ignore[list-item]
        assert isinstance(updated, cst.For) and isinstance(original, cst.For)
        lines, waiting = self.opened(updated)
        made: list[cst.BaseStatement] = []
        for turn, names in enumerate(turns.names):
            above: list[cst.EmptyLine] = []  # comments of guards that go
            for position, stmt in enumerate(lines):
                if _is_guard(stmt):
                    above += () if turn else layout.inner_comments(stmt)
                    if _left(stmt, names):
                        break
                    continue
                named = stmt.visit(_Named(names))
                silent = named.visit(Uncommented()) if turn else named  # type: ignore[union-attr]
                assert isinstance(silent, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
                if turn and not position:
                    silent = silent.with_changes(leading_lines=())
                if above:
                    silent, above = layout.led(silent, tuple(above)), []
                self.numbered(silent, stmt)
                made.append(silent)
            waiting = (*above, *waiting)
        return made, waiting

    def numbered(self, named: cst.CSTNode, source: cst.CSTNode) -> None:
        """Every statement of a turn stands on the line of the one it was."""
        for new, old in zip(descend(named), descend(source), strict=False):
            if isinstance(new, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                self.number(new, old)


class _Named(cst.CSTTransformer):
    """The names of a loop replaced by what they stand for."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self.names = names

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        return updated.with_changes(attr=original.attr)

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated.with_changes(keyword=original.keyword)

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        return cst.parse_expression(self.names[original.value]) if original.value in self.names else updated

    def leave_FormattedStringExpression(
        self, original: cst.FormattedStringExpression, updated: cst.FormattedStringExpression
    ) -> cst.BaseFormattedStringContent:
        key = constant(updated.expression)
        if isinstance(key, str) and isinstance(original.expression, cst.Name):
            return cst.FormattedStringText(key.replace("{", "{{").replace("}", "}}"))
        return updated

    def leave_FormattedString(self, original: cst.FormattedString, updated: cst.FormattedString) -> cst.BaseExpression:
        texts = [part for part in updated.parts if isinstance(part, cst.FormattedStringText)]
        same = all(a is b for a, b in zip(original.parts, updated.parts, strict=False))
        if same or len(texts) != len(updated.parts) or original.start.lower() not in ('f"', "f'"):
            return updated
        quote = original.start[-1]
        made = "".join(part.value for part in texts).replace("{{", "{").replace("}}", "}")
        return cst.SimpleString(f"{quote}{made}{quote}", lpar=original.lpar, rpar=original.rpar)

    def leave_IfExp(self, original: cst.IfExp, updated: cst.IfExp) -> cst.BaseExpression:
        if original.test is updated.test or (truth := _told(updated.test)) is None:
            return updated
        return updated.body if truth else updated.orelse


def _is_guard(line: cst.CSTNode) -> bool:
    """`if name == "fan": continue`"""
    if not isinstance(line, cst.If) or line.orelse is not None:
        return False
    inner = line.body.body
    if len(inner) == 1 and isinstance(inner[0], cst.SimpleStatementLine):
        inner = inner[0].body
    return len(inner) == 1 and isinstance(inner[0], cst.Continue)


def _left(guard: cst.CSTNode, names: dict[str, str]) -> bool | None:
    """Whether a turn ends at such a line; None where that is not to be told."""
    assert isinstance(guard, cst.If)
    test = guard.test.visit(_Named(names))
    return _told(test) if isinstance(test, cst.BaseExpression) else None


def _told(test: cst.BaseExpression) -> bool | None:
    """What a test of written texts comes to: `"g" == "d"`, `"g" in ("g", "d")`, and such tests together."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _told(test.expression)
        return None if inner is None else not inner
    if isinstance(test, cst.BooleanOperation):
        both = (_told(test.left), _told(test.right))
        if None in both:
            return None
        return all(both) if isinstance(test.operator, cst.And) else any(both)
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
    left, right = constant(test.left), constant(other)
    if isinstance(other, (cst.Tuple, cst.List, cst.Set)):
        right = tuple(constant(e.value) for e in other.elements)
    if not isinstance(left, str) or not isinstance(right, (str, tuple)):
        return None
    if isinstance(operator, (cst.In, cst.NotIn)) and (isinstance(right, str) or all(isinstance(r, str) for r in right)):
        return (left in right) == isinstance(operator, cst.In)
    if isinstance(operator, (cst.Equal, cst.NotEqual)) and isinstance(right, str):
        return (left == right) == isinstance(operator, cst.Equal)
    return None
