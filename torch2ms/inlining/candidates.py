"""Which functions differentiate what their callers made, and whether all their calls can give way to their bodies."""

from __future__ import annotations

import builtins
import sys

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import CALL, Site, abstract, calls_of, overriding
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.analysis.syntax.tree import children, constant, descend
from torch2ms.analysis.values import overlaps
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.curved import curved
from torch2ms.inlining.folding import bound_names, unguarded
from torch2ms.inlining.meanings import free_names, means

GRAD = "torch.autograd.grad"
KNOWN = sys.stdlib_module_names | {"torch", "typing_extensions"}  # no class there calls methods of that name
ONCE = (cst.Lambda, cst.BaseComp, cst.IfExp, cst.BooleanOperation)  # what is in them may run never, or often


def candidates(project: Project) -> dict[int, Candidate]:
    """By id of the call: the functions that can be written out now, innermost ones first."""
    if not any(m.has("grad(") for m in project.modules.values()):
        return {}
    sites = calls_of(project, project.modules.values())
    inner: dict[int, Candidate] = {}  # by id of the scope
    reached = {id(s.call): info for info, own in sites.values() for s in own}
    while True:
        more = {}
        for info, own in sites.values():
            if id(info.scope) not in inner and (made := _candidate(info, own, reached, inner)) is not None:
                more[id(info.scope)] = made
        if not more:
            break
        inner |= more
    found: dict[int, Candidate] = {}
    found |= _of_forwards(sites, inner)
    for made in inner.values():
        calls = [c for s in made.info.scope.body.walk() for c in s.calls]
        others = [reached[id(c)] for c in calls if id(c) in reached]
        if any(id(other.scope) in inner for other in others if other is not made.info):
            continue  # in a later round
        outer = [s for s in made.sites if s.scope is not made.info.scope]
        if all(fits(made, site) for site in outer):
            made.goes = named(made, project) == len(made.sites) and not any(again(made, s) for s in outer)
            made.shared = len(project.modules) > 1
            made.goes = made.goes and unasked(made, project)
            found |= {id(site.call): made for site in outer}
    return found


def unasked(made: Candidate, project: Project) -> bool:
    """No class above asks for the method, apart from abstract ones, which need not: remember what these declare."""
    cls = made.info.cls
    if cls is None:
        return True
    above = cls.lineage()[1:]
    if any(_outside(base, each.module, project) for each in (cls, *above) for base in each.bases):
        return False
    made.declared = [each.methods[made.info.name] for each in above if made.info.name in each.methods]
    versions = {id(other): other for info in made.declared for other in overriding(info)}
    mine = {id(made.info), *map(id, made.declared)}
    return all(map(abstract, made.declared)) and all(n in mine for n in versions)


def _outside(base: str, module: ModuleInfo, project: Project) -> bool:
    """A class that is not seen, and that may call its methods."""
    head = root(base)
    if head in KNOWN or hasattr(builtins, head):
        return False
    return not isinstance(project.find(base, module), ClassInfo)


def again(made: Candidate, site: Site) -> bool:
    """Written out at the call, the function is still called."""
    bound = arguments(made, site.call)
    lines = made.at(bound) if bound is not None else None
    return lines is None or made.calls_itself(lines)


def _of_forwards(
    sites: dict[int, tuple[FunctionInfo, list[Site]]], inner: dict[int, Candidate]
) -> dict[int, Candidate]:
    """Calls in forwards whose gradient is differentiated again, of functions that compiled code cannot call.

    Those are methods of objects that are no networks, and functions that use variables of the module.
    """
    found: dict[int, Candidate] = {}
    for info, own in sites.values():
        if id(info.scope) in inner or not _beyond(info) or not _straight(info):
            continue
        for site in own:
            if _leads(site) and (made := plain(info, [site], 0)) is not None and fits(made, site):
                found[id(site.call)] = made
    return found


def _beyond(info: FunctionInfo) -> bool:
    """Compiled code cannot be given everything that the function uses."""
    if info.cls is not None:
        return info.cls.kind == "object" and not info.static
    own = info.scope.locals | set(info.scope.params)
    used = {root(u) for s in info.scope.body.walk() for u in s.uses}
    return not _variables(info.module).isdisjoint(used - own)


@once
def _variables(module: ModuleInfo) -> set[str]:
    """The names of a module that are neither defined nor imported."""
    return module.scope.locals - {c.name for c in module.scope.children} - module.imports.table.keys()


def _leads(site: Site) -> bool:
    """The statement of the call leads to a gradient, with respect to weights, that is part of a graph."""
    for stmt in site.scope.body.walk():
        for call in stmt.calls:
            kept = argument(call, 4, "create_graph")
            output = argument(call, 0, "outputs")
            value = site.module.value(call.func)
            if value.kind != "api" or value.name != GRAD or kept is None or output is None or constant(kept) is False:
                continue
            inputs = argument(call, 1, "inputs")
            if inputs is None or not isinstance(inputs, (cst.Call, cst.BaseComp)):
                if inputs is None or site.module.value(inputs).kind not in ("params", "list"):
                    continue
            wanted = set(expression_uses(output, stmt))
            if any(inner is site.call for inner in _in(output)):
                return True
            stmts = [s for s in site.scope.body.walk() if s.number < stmt.number]
            taken: set[int] = set()
            while more := [s for s in stmts if id(s) not in taken and _defines(s, wanted)]:
                taken |= {id(s) for s in more}
                wanted |= {u for s in more for u in s.uses}
            if id(site.stmt) in taken:
                return True
    return False


def _candidate(
    info: FunctionInfo, sites: list[Site], reached: dict[int, FunctionInfo], inner: dict[int, Candidate]
) -> Candidate | None:
    """The function, if it is one of these."""
    line = next((s.lineno for s in info.scope.body.walk() if _differentiates(s, info, reached, inner)), 0)
    if not line and (line := curved(info)):
        return plain(info, sites, line, nests=True) if movable(info, nests=True) else None
    return plain(info, sites, line) if line and movable(info) else None


def plain(
    info: FunctionInfo, sites: list[Site], line: int, ends: bool = False, guarded: bool = False, nests: bool = False
) -> Candidate | None:
    """A function or method as it is usually defined; `ends`: at its end, where it returns nothing, or before that,
    where it is `guarded`; `nests`: with functions of its own."""
    node = info.scope.node
    if not isinstance(node, cst.FunctionDef) or not isinstance(node.body, cst.IndentedBlock):
        return None
    params = node.params
    if node.asynchronous or params.star_kwarg is not None:
        return None
    if any(dotted(d.decorator) != "staticmethod" for d in node.decorators) or info.scope.off:
        return None
    if info.scope.children and not nests:
        return None
    if info.cls is not None and (info.name.startswith("__") and info.name != CALL or info.cls.kind == "autograd"):
        return None
    body = [line for line in node.body.body if not _docstring(line)]
    returned = [s.node.value for s in info.scope.body.walk() if isinstance(s.node, cst.Return)]
    if ends and not (any(returned) if guarded else returned):
        body = [*(unguarded(body) if guarded else body), cst.parse_statement("return None")]
    return Candidate(info, body, sites, line) if body else None


def _differentiates(
    stmt: Stmt, info: FunctionInfo, reached: dict[int, FunctionInfo], inner: dict[int, Candidate]
) -> bool:
    """A gradient call whose output and inputs callers give, with nothing known of the way between them."""
    for call in stmt.calls:
        value = info.module.value(call.func)
        if value.kind == "api" and value.name == GRAD:
            output, inputs = argument(call, 0, "outputs"), argument(call, 1, "inputs")
            if len(call.args) > 1 and _from_callers(output, inputs, stmt, info):
                return True
        other = reached.get(id(call))
        if other is not None and id(other.scope) in inner and len(call.args) > 1:
            names = {root(u) for a in call.args for u in expression_uses(a.value, stmt)}
            made = {d for s in info.scope.body.walk() for d in s.defs}
            if len(names & set(info.scope.params) - made) > 1 or not names & made:
                return True
    return False


def _from_callers(
    output: cst.BaseExpression | None, inputs: cst.BaseExpression | None, stmt: Stmt, info: FunctionInfo
) -> bool:
    if output is None or inputs is None:
        return False
    wanted = set(expression_uses(output, stmt))
    stmts = [s for s in info.scope.body.walk() if not _counts(s)]
    taken: set[int] = set()
    while more := [s for s in stmts if id(s) not in taken and s.number < stmt.number and _defines(s, wanted)]:
        taken |= {id(s) for s in more}
        wanted |= {u for s in more for u in s.uses}
    if any(overlaps(u, i) for u in wanted for i in expression_uses(inputs, stmt)):
        return False
    calls = [*_in(output), *(c for s in stmts if id(s) in taken for c in s.calls)]
    if not all(_of_tensors(c, info.module) for c in calls):
        return False
    return bool({root(u) for u in wanted} & set(info.scope.params) - {"self"})


def _counts(stmt: Stmt) -> bool:
    """A loop over numbers."""
    node = stmt.node
    return type(node) is cst.For and type(node.iter) is cst.Call and dotted(node.iter.func) == "range"


def _in(node: cst.CSTNode) -> list[cst.Call]:
    return [n for n in descend(node) if isinstance(n, cst.Call)]


def _defines(stmt: Stmt, wanted: set[str]) -> bool:
    return any(overlaps(d, u) for d in stmt.defs | stmt.muts for u in wanted)


def _of_tensors(call: cst.Call, module: ModuleInfo) -> bool:
    """The call is one of torch's or Python's, or a method of a tensor: what it makes depends on its arguments alone."""
    func = call.func
    if module.value(func).kind in ("api", "builtin"):
        return True
    if not isinstance(func, cst.Attribute) or dotted(func.value) == "self":
        return False
    return module.value(func.value).kind in ("tensor", "unknown", "param") and module.value(func).kind != "module"


def _straight(info: FunctionInfo) -> bool:
    """One return, at its end; nothing of its own that a caller's block could not hold."""
    last = info.scope.body.stmts[-1] if info.scope.body.stmts else None
    if last is None or type(last.node) is not cst.Return or last.node.value is None:
        return False
    stmts = info.scope.body.walk()
    return movable(info) and not any(type(s.node) is cst.Return and s is not last for s in stmts)


def movable(info: FunctionInfo, nests: bool = False) -> bool:
    """Nothing of its own but its returns is what a caller's block could not hold; `nests`: and functions."""
    stmts = list(info.scope.body.walk())
    kinds: set[type] = {cst.Global, cst.Nonlocal, cst.ClassDef, cst.Import, cst.ImportFrom, cst.Try, cst.With}
    kinds |= set() if nests else {cst.FunctionDef}
    if nests:
        stmts += [s for child in info.scope.children for s in child.body.walk()]
    if [s for s in stmts if s.node.__class__ in kinds or s.modes or s.off]:
        return False
    held = (cst.Lambda, cst.Yield, cst.Await, cst.NamedExpr)
    return not [n for s in info.scope.body.stmts for n in s.nodes if n.__class__ in held]


def _docstring(line: cst.CSTNode) -> bool:
    return is_docstring(_only(line))


def _only(line: cst.CSTNode) -> cst.CSTNode | None:
    return line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None


# --- the calls


def fits(made: Candidate, site: Site) -> bool:
    """The body can stand where the call stands."""
    bound = arguments(made, site.call)
    around, off = site.module.top_level(site.stmt), site.module.directives.off
    if any(around.lineno <= line <= around.end_lineno for line in off):
        return False  # what holds a statement that is left alone stands as it stood
    if bound is None or site.scope is made.info.scope or not names_hold(made, site.module, site.scope):
        return False
    if made.info.cls is not None and not made.info.static:
        called = receiver(made, site.call)
        if called is None or not dotted(called):
            return False
    lines = made.at(bound)
    if lines is None or _captured(lines, site.stmt.node):
        return False
    if len(lines) == 1 and all(simple(value) for value in bound.values()):
        return True
    return runs_once(site)


def _captured(lines: list[cst.BaseStatement], node: cst.CSTNode) -> bool:
    """A comprehension of the body binds a name that the caller's statement has for something else."""
    bound = {name for line in lines for name in bound_names(line)}
    return bool(bound) and any(isinstance(n, cst.Name) and n.value in bound for n in descend(node))


def runs_once(site: Site) -> bool:
    """New statements may stand above that of the call."""
    if site.stmt.line is None or site.stmt.blocks or type(site.scope.node) is cst.ClassDef:
        return False
    return _runs_once(site.stmt.node, site.call) or branches(site.stmt.node, site.call)


def branches(node: cst.CSTNode, call: cst.Call) -> bool:
    """The call runs once in one branch of a statement that is `x = a if test else b`."""
    value = node.value if isinstance(node, (cst.Assign, cst.Return)) else None
    if not isinstance(value, cst.IfExp):
        return False
    return _runs_once(value.body, call) or _runs_once(value.orelse, call)


def _runs_once(node: cst.CSTNode, call: cst.Call) -> bool:
    """The call runs exactly once whenever the statement does."""
    if node is call:
        return True
    if isinstance(node, ONCE):
        return False
    return any(_runs_once(child, call) for child in children(node))


def arguments(made: Candidate, call: cst.Call) -> dict[str, cst.BaseExpression] | None:
    """The value of every parameter; None where that is not seen."""
    params = made.node.params
    positional = [*params.posonly_params, *params.params]
    named = [*positional, *params.kwonly_params]
    bound: dict[str, cst.BaseExpression] = {}
    if made.info.cls is not None and not made.info.static:
        if (called := receiver(made, call)) is not None:
            bound[positional[0].name.value] = called
        positional = positional[1:]
    free, rest = iter(positional), []
    for arg in call.args:
        if arg.keyword is not None:
            bound[arg.keyword.value] = arg.value
        elif (param := next(free, None)) is None:
            rest.append(arg)
        elif arg.star:
            return None
        else:
            bound[param.name.value] = arg.value
    if isinstance(params.star_arg, cst.Param):
        named.append(params.star_arg)
        gathered = _together(rest) if params.star_arg.name.value not in made.rebound else None
        asked = any(name_called(c) in ("isinstance", "type") for s in made.info.scope.body.walk() for c in s.calls)
        if gathered is None or asked and type(gathered) is not cst.Tuple:  # a list, spread out, comes as a tuple
            return None
        bound[params.star_arg.name.value] = gathered
    elif rest:
        return None
    for param in named:
        name = param.name.value
        if name not in bound:
            if param.default is None or constant(param.default) is ...:
                return None
            bound[name] = param.default
    return bound if set(bound) <= {p.name.value for p in named} else None


def _together(rest: list[cst.Arg]) -> cst.BaseExpression | None:
    """What `*args` holds: a tuple of the arguments, or what they are spread from; None where that is not seen."""
    if len(rest) == 1 and rest[0].star == "*" and dotted(rest[0].value):
        return rest[0].value
    elements: list[cst.BaseElement] = []
    for arg in rest:
        if arg.star and type(arg.value) is not cst.Tuple:
            return None
        elements += arg.value.elements if arg.star else [cst.Element(arg.value)]  # type: ignore[attr-defined]
    return cst.Tuple(elements)


def receiver(made: Candidate, call: cst.Call) -> cst.BaseExpression | None:
    """The object of a method that is called; networks run their `forward`."""
    named = isinstance(call.func, cst.Attribute) and call.func.attr.value == made.info.name
    if made.info.name == CALL or made.info.name == "forward" and not named:
        return call.func
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def simple(node: cst.BaseExpression) -> bool:
    """Writing it several times, or later, makes no difference."""
    return bool(dotted(node)) or constant(node) is not ...


def names_hold(made: Candidate, module: ModuleInfo, scope: Scope | None = None) -> bool:
    """What the body names beside its parameters means the same in the module of a call, and in its function."""
    if scope is not None and any(
        _home(n, scope) is not _home(n, made.info.scope.parent) for n in free_names(made.info)
    ):
        return False  # a variable of the caller has the name
    if module is made.info.module:
        return True
    return all(means(name, made, module) is not None for name in free_names(made.info))


def _home(name: str, scope: Scope | None) -> Scope | None:
    """The function, around a statement of a scope, whose variable the name is; None for names of the module."""
    while scope is not None and not (scope.is_function and name in {*scope.locals, *scope.params}):
        scope = scope.parent
    return scope


def named(made: Candidate, project: Project) -> int:
    """How often the project names the function, other than to define or import it.

    -1 where something calls it under another name: it was handed on by its own, which stays.
    """
    name, count = made.info.name, 0
    if any(name_called(site.call) != name for site in made.sites):
        return -1
    for module in project.modules.values():
        count += module.quotes[name]
        if made.info.cls is not None:
            count += len(module.attributes.get(name, ()))
            continue
        count += module.naming[name]
        homes = (module.imports.table.get(dotted(n.value), "") for n in module.attributes.get(name, ()))
        count += sum(home in project.modules for home in homes)
    return count
