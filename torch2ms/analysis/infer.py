"""Runs every scope of a project abstractly: the value of each expression, and of each place after each statement."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torch2ms.analysis import guess, shapes, torchapi
from torch2ms.analysis.env import Changes, Env
from torch2ms.analysis.evaluate import PURE_BUILTINS, Evaluator
from torch2ms.analysis.names import dotted, is_foreign
from torch2ms.analysis.narrow import narrowed
from torch2ms.analysis.program import Block, Scope, Stmt
from torch2ms.analysis.project import ClassInfo, FunctionInfo, ModuleInfo, Project, qualified
from torch2ms.analysis.tree import constant
from torch2ms.analysis.usage import modules_by_use, used
from torch2ms.analysis.values import NO_DEPS, UNKNOWN, Value, join, joined_keys
from torch2ms.analysis.wrapped import FAMILIES

DEEPEST = 4  # loops in loops that are gone through twice each: more would double the work again and again
NOTHING: frozenset[str] = frozenset()
ROUNDS = 3  # kinds travel one call further each round; three reach through factory, trainer and step
MODULE_METHODS_SELF = {
    "to",
    "cuda",
    "cpu",
    "train",
    "eval",
    "float",
    "half",
    "double",
    "requires_grad_",
    "apply",
    "bfloat16",
}


def infer(project: Project) -> None:
    """Fill `values` of each module of the project, and what is known of its classes and functions."""
    project.link()
    for module in project.modules.values():
        module.used = modules_by_use(module.scope)
    inference = Inference(project)
    known: list[object] = []
    for _ in range(ROUNDS):
        for module in project.modules.values():
            inference.run(module)
        before, known = known, _known(project)
        if known == before:  # the next round would see what this one saw
            break


def _known(project: Project) -> list[object]:
    """What a round learned for the next: what functions are passed and return, what attributes and modules hold."""
    learned: list[object] = []
    for module in project.modules.values():
        learned.append(dict(module.env.layers[0]))
        learned += [(dict(info.args), info.returns) for info in module.functions.values()]
        learned += [dict(cls.attrs) for cls in module.classes.values()]
    return learned


class Inference:
    def __init__(self, project: Project) -> None:
        self.project = project

    # --- scopes

    def run(self, module: ModuleInfo) -> None:
        module.env = Env()
        evaluator = Evaluator(self, module, module.env, None, None)
        evaluator.modules = module.used.get(id(module.scope), NOTHING)
        self.block(module.scope.body, evaluator)
        for child in module.scope.children:
            self.definition(child, module, module.env)

    def definition(self, scope: Scope, module: ModuleInfo, outer: Env) -> None:
        if isinstance(scope.node, cst.ClassDef):
            cls = module.classes[scope.name]
            env = Env(outer)
            self.block(scope.body, Evaluator(self, module, env, None, cls))
            for stmt in scope.body.stmts:
                for name in stmt.defs:
                    if name in env and isinstance(stmt.node, (cst.Assign, cst.AnnAssign)):
                        cls.attrs.setdefault(name, env[name])
            ordered = sorted(scope.children, key=lambda c: c.name != "__init__")
            for child in ordered:
                self.definition(child, module, outer)
            return
        info = module.functions[id(scope)]
        env = Env(outer, scope.locals, later=True)
        env.update(self.parameters(info))
        evaluator = Evaluator(self, module, env, info, info.cls)
        evaluator.modules = module.used.get(id(scope), NOTHING)
        evaluator.cut = any(is_no_grad(d.decorator, module) for d in _decorators(scope))
        self.block(scope.body, evaluator)
        for child in scope.children:
            self.definition(child, module, env)

    def parameters(self, info: FunctionInfo) -> dict[str, Value]:
        node = info.scope.node
        assert isinstance(node, cst.FunctionDef)
        env: dict[str, Value] = {}
        params = [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]
        for i, param in enumerate(params):
            name = param.name.value
            if i == 0 and info.cls is not None and not info.static and name in ("self", "cls"):
                kind = "module" if info.cls.kind == "module" else "object"
                env[name] = Value(kind, name=info.cls.qualified, place=name)
                continue
            if (
                info.cls is not None
                and info.cls.kind == "autograd"
                and info.name in ("forward", "backward", "setup_context")
            ):
                context = "setup_context" if info.cls.method("setup_context") is not None else "forward"
                if i == 0 and info.name in ("backward", context):
                    env[name] = Value("ctx")
                    continue
                if info.name == "backward":
                    env[name] = Value("tensor", place=name, deps=frozenset({f"@{name}"}))
                    continue
            env[name] = self.parameter(info, param)
        for star in (node.params.star_arg, node.params.star_kwarg):
            if isinstance(star, cst.Param):
                env[star.name.value] = Value("tuple" if star is node.params.star_arg else "dict")
        return env

    def parameter(self, info: FunctionInfo, param: cst.Param) -> Value:
        name = param.name.value
        own = frozenset({f"@{name}"})
        passed = info.args.get(name)
        if passed is not None and passed.kind not in ("unknown", "none"):
            return replace(passed, place=name, deps=passed.deps | own)
        if param.annotation is not None:
            full = qualified(param.annotation.annotation, info.module.imports)
            if kind := guess.ANNOTATIONS.get(full, ""):
                return Value(kind, place=name, deps=own)
            if full in FAMILIES:
                return Value("object", name=full, place=name)
            found = self.project.find(dotted(param.annotation.annotation), info.module)
            if isinstance(found, ClassInfo):
                return Value(
                    "module" if found.kind == "module" else "object", name=found.qualified, place=name, deps=own
                )
        guessed = guess.by_name(name)
        if guessed.kind == "unknown":
            guessed = used(guessed, name, info.module.used.get(id(info.scope), NOTHING))
        if guessed.kind != "unknown":
            return replace(guessed, deps=own, likely=True)
        default = param.default
        literal = isinstance(
            default, (cst.Integer, cst.Float, cst.SimpleString, cst.UnaryOperation, cst.Tuple, cst.List, cst.Dict)
        )
        if default is not None and (literal or dotted(default) in ("True", "False")):
            kinds = {
                cst.Integer: "int",
                cst.Float: "float",
                cst.SimpleString: "str",
                cst.Tuple: "tuple",
                cst.List: "list",
            }
            return Value(kinds.get(type(default), "bool" if dotted(default) else "unknown"), likely=True)
        if info.cls is not None and info.cls.kind in ("module", "autograd") and info.name in ("forward", "backward"):
            return Value("tensor", place=name, deps=own, likely=True)
        deps = own | (passed.deps if passed is not None else NO_DEPS)
        return Value("unknown", place=name, deps=deps)

    # --- statements

    def block(self, block: Block, ev: Evaluator) -> None:
        for stmt in block.stmts:
            outer_cut = ev.cut
            for mode in stmt.modes:
                ev.cut = self.mode(mode, ev)
            self.stmt(stmt, ev)
            ev.cut = outer_cut

    def mode(self, node: cst.With, ev: Evaluator) -> bool:
        cut = ev.cut
        for item in node.items:
            name = qualified(item.item.func if isinstance(item.item, cst.Call) else item.item, ev.module.imports)
            last = name.rpartition(".")[2]
            if last in ("no_grad", "inference_mode"):
                cut = True
            elif last == "enable_grad":
                cut = False
            elif last == "set_grad_enabled" and isinstance(item.item, cst.Call):
                for arg in item.item.args:
                    ev.ev(arg.value)
                    if dotted(arg.value) == "False":
                        cut = True
        return cut

    def stmt(self, stmt: Stmt, ev: Evaluator) -> None:
        node = stmt.node
        if isinstance(node, cst.Assign):
            value = ev.ev(node.value)
            for target in node.targets:
                self.bind(target.target, value, ev)
        elif isinstance(node, cst.AnnAssign):
            ev.annotation(node.annotation)
            if node.value is not None:
                self.bind(node.target, ev.ev(node.value), ev)
            elif kind := guess.ANNOTATIONS.get(qualified(node.annotation.annotation, ev.module.imports)):
                if kind in ("optimizer", "module", "tensor") and isinstance(node.target, cst.Name):
                    self.bind(node.target, Value(kind, place=node.target.value, likely=True), ev)
        elif isinstance(node, cst.AugAssign):
            value = ev.binary(ev.ev(node.target), ev.ev(node.value))
            old = ev.memo.get(id(node.target), UNKNOWN)
            value = shapes.shaped(value, (old.dtype, old.rank) if old.kind == "tensor" else shapes.UNKNOWN_SHAPE)
            if dotted(node.target):
                leaf = old.leaf or old.kind == "param"
                self.bind(node.target, replace(old, deps=old.deps) if leaf else value, ev)
        elif isinstance(node, cst.For):
            iterated = ev.ev(node.iter)
            ev.env.push()
            for _ in range(self.turns(stmt)):
                self.bind(node.target, self.iteration(node.iter, iterated, ev), ev)
                self.block(stmt.blocks[0], ev)
                ev.env.join_back()
            ev.env.keep()
            for extra in stmt.blocks[1:]:
                self.block(extra, ev)
        elif isinstance(node, cst.While):
            ev.env.push()
            for _ in range(self.turns(stmt)):
                ev.ev(node.test)
                self.block(stmt.blocks[0], ev)
                ev.env.join_back()
            ev.env.keep()
            for extra in stmt.blocks[1:]:
                self.block(extra, ev)
        elif isinstance(node, cst.If):
            ev.ev(node.test)
            self.branches(stmt.blocks, ev, complete=len(stmt.blocks) == 2, known=narrowed(node.test, ev))
        elif isinstance(node, (cst.Try, cst.TryStar)):
            self.branches(stmt.blocks, ev, complete=False)
        elif isinstance(node, cst.Match):
            ev.ev(node.subject)
            self.branches(stmt.blocks, ev, complete=False)
        elif isinstance(node, cst.With):
            for item in node.items:
                value = ev.ev(item.item)
                if item.asname is not None:
                    self.bind(item.asname.name, value if value.kind != "api" else UNKNOWN, ev)
            self.block(stmt.blocks[0], ev)
        elif isinstance(node, cst.Return):
            value = ev.ev(node.value) if node.value is not None else Value("none")
            if ev.function is not None:
                known = ev.function.returns
                ev.function.returns = value if known is None else join(known, value)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            for decorator in node.decorators:
                ev.ev(decorator.decorator)
            if isinstance(node, cst.FunctionDef):
                stars = [p for p in (node.params.star_arg, node.params.star_kwarg) if isinstance(p, cst.Param)]
                for param in [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params, *stars]:
                    if param.default is not None:
                        ev.ev(param.default)
                    if param.annotation is not None:
                        ev.annotation(param.annotation)
                if node.returns is not None:
                    ev.annotation(node.returns)
                ev.env[node.name.value] = Value("function", name=node.name.value)
            else:
                for arg in node.bases:
                    ev.ev(arg.value)
                ev.env[node.name.value] = Value("class", name=f"{ev.module.name}.{node.name.value}")
        elif not isinstance(node, (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal)):
            ev.everything(node)
        self.effects(stmt, ev)
        stmt.out = {d: ev.env.get(d, UNKNOWN) for d in stmt.defs | stmt.muts}

    def turns(self, stmt: Stmt) -> int:
        """How often the body of a loop is gone through: what one turn leaves reaches the next, except far inside."""
        return 2 if sum(s.is_loop for s in stmt.ancestors()) < DEEPEST else 1

    def branches(
        self, blocks: list[Block], ev: Evaluator, complete: bool, known: dict[str, Value] | None = None
    ) -> None:
        results: list[Changes] = [] if complete else [{}]
        for block in blocks:
            ev.env.push()
            inside = known or {}
            known = None  # it holds in the first block alone
            ev.env.update(inside)
            self.block(block, ev)
            changes = ev.env.pop()
            for place, value in inside.items():
                if changes.get(place) is value:
                    del changes[place]
            results.append(changes)
        ev.env.merge(results)

    def effects(self, stmt: Stmt, ev: Evaluator) -> None:
        """What calls do to the places they are made on: leaves, lists that take varied values."""
        for call in stmt.calls:
            if not isinstance(call.func, cst.Attribute):
                continue
            place, method = dotted(call.func.value), call.func.attr.value
            if not place or ev.memo.get(id(call.func.value), UNKNOWN).kind == "api":
                continue
            held = ev.env.get(place)
            if method == "requires_grad_" and held is not None and held.kind in ("tensor", "unknown"):
                on = not call.args or dotted(call.args[0].value) != "False"
                ev.env[place] = replace(
                    held, kind="tensor", leaf=on, deps=frozenset({place} if on else ()), place=place
                )
            elif method in ("append", "extend", "insert", "update", "add", "appendleft") and call.args:
                value = ev.memo.get(id(call.args[-1].value), UNKNOWN)
                base = held or Value("list")
                known = value.kind in ("tensor", "int", "float", "param", "module", "numpy") and method == "append"
                ev.env[place] = replace(
                    base, deps=base.deps | value.deps, items=None, name=f"of {value.kind}" if known else base.name,
                    starts=value.starts if base.items == () else base.starts,
                )  # fmt: skip
                if base.kind == "dict":
                    both = base.keys is not None and value.keys is not None and method == "update"
                    keys = joined_keys(base.keys or (), value.keys or ()) if both else None
                    ev.env[place] = replace(ev.env[place], keys=keys)
                self.remember(place, ev.env[place], ev)
            elif method in ("pop", "popitem", "clear", "setdefault") and held is not None and held.keys is not None:
                ev.env[place] = replace(held, keys=None)
            elif method.endswith("_") and not method.endswith("__") and held is not None and held.kind == "tensor":
                deps = held.deps.union(*(ev.memo.get(id(a.value), UNKNOWN).deps for a in call.args))
                ev.env[place] = replace(held, deps=deps) if method != "detach_" else replace(held, deps=NO_DEPS)
        if isinstance(stmt.node, cst.Assign):
            for target in stmt.node.targets:
                t = target.target
                if isinstance(t, cst.Attribute) and t.attr.value == "requires_grad" and (place := dotted(t.value)):
                    held = ev.env.get(place)
                    if held is not None and held.kind in ("tensor", "unknown"):
                        on = dotted(stmt.node.value) != "False"
                        ev.env[place] = replace(
                            held, kind="tensor", leaf=on, deps=frozenset({place} if on else ()), place=place
                        )
                elif isinstance(t, cst.Subscript) and (place := dotted(t.value)):
                    value = ev.memo.get(id(stmt.node.value), UNKNOWN)
                    held = ev.env.get(place)
                    if held is not None and value.deps - held.deps:
                        ev.env[place] = replace(held, deps=held.deps | value.deps, items=None)
                    if held is not None and held.keys is not None:
                        part = t.slice[0].slice
                        key = constant(part.value) if isinstance(part, cst.Index) else ...
                        keys = joined_keys(held.keys, ((key, True),)) if isinstance(key, str) else None
                        ev.env[place] = replace(ev.env[place], keys=keys)

    def iteration(self, node: cst.BaseExpression, iterated: Value, ev: Evaluator) -> Value:
        """What one turn of `for ... in node` binds."""
        if isinstance(node, cst.Call):
            name = dotted(node.func)
            args = [ev.memo.get(id(a.value), UNKNOWN) for a in node.args]
            if name == "enumerate" and args:
                return Value("tuple", items=(Value("int"), self.iteration(node.args[0].value, args[0], ev)))
            if name == "zip":
                return Value(
                    "tuple", items=tuple(self.iteration(a.value, v, ev) for a, v in zip(node.args, args, strict=False))
                )
            if name == "range":
                return Value("int")
            if name in ("reversed", "sorted", "list", "tqdm", "tqdm.tqdm", "iter", "trange") and args:
                return self.iteration(node.args[0].value, args[0], ev)
        element = ev.element(iterated)
        if element.leaf:  # a leaf reached through a list: changed in place, it is a parameter
            return Value("param", deps=element.deps)
        return element

    def bind(self, target: cst.CSTNode, value: Value, ev: Evaluator) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            items = value.items
            elements = target.elements
            for i, element in enumerate(elements):
                if items is not None and len(items) == len(elements):
                    part = items[i]
                elif value.kind == "tensor":
                    part = Value("tensor", deps=value.deps, likely=value.likely)
                elif value.kind == "size":
                    part = Value("int")
                elif value.name == "of tensor" or (value.kind == "tuple" and value.name == "tensors"):
                    part = Value("tensor", deps=value.deps)
                else:
                    part = (
                        ev.element(value)
                        if value.kind in ("list", "params", "module", "numpy")
                        else Value("unknown", deps=value.deps)
                    )
                self.bind(element.value, part, ev)
            return
        if isinstance(target, cst.StarredElement):
            self.bind(target.value, Value("list", deps=value.deps), ev)
            return
        place = dotted(target)
        if not place:
            ev.ev(target)
            return
        ev.env.forget_below(place)
        if place.endswith(".grad"):
            assert isinstance(target, cst.Attribute)
            ev.memo[id(target)] = Value("tensor", name="grad")
            ev.ev(target.value)
            return
        if isinstance(target, cst.Attribute):
            owner = ev.ev(target.value)
            if target.attr.value == "data" and owner.kind not in ("object", "module", "class", "modulefile"):
                ev.memo[id(target)] = Value("tensor")
                return
        value = used(self.place_at(value, place), place, ev.modules)
        if value.kind == "unknown":
            guessed = guess.by_name(place.rpartition(".")[2])
            owns = frozenset(d for d in value.deps if not d.startswith("@"))
            if guessed.kind == "optimizer":  # made by a class in a variable, from the parameters it was given
                value = replace(guessed, place=place, owns=owns or None)
            elif guessed.kind == "scheduler" or (not value.deps and guessed.kind in ("device", "module", "lossfn")):
                value = replace(guessed, place=place)
        ev.env[place] = value
        ev.memo[id(target)] = value
        self.remember(place, value, ev)

    def place_at(self, value: Value, place: str) -> Value:
        if value.leaf and not value.place:
            return replace(value, place=place, deps=frozenset({place}))
        if (
            value.kind in ("module", "optimizer", "scheduler", "scaler", "object", "loader", "lossfn")
            and not value.place
        ):
            return replace(value, place=place)
        return value

    def remember(self, place: str, value: Value, ev: Evaluator) -> None:
        """Attributes of `self` are seen by every method."""
        if ev.cls is None or not place.startswith("self.") or place.count(".") != 1:
            return
        attr = place[5:]
        value = shapes.forgotten(replace(value, deps=frozenset(d for d in value.deps if not d.startswith("@"))))
        old = ev.cls.attrs.get(attr)
        ev.cls.attrs[attr] = value if old is None or old.kind == "unknown" and not old.deps else join(old, value)

    # --- names that are not local

    def lookup(self, name: str, ev: Evaluator) -> Value:
        module = ev.module
        if name in module.env:
            return shapes.forgotten(module.env[name])
        full = module.imports.table.get(name, "")
        if full and is_foreign(full):
            return ev.api(full)
        found = self.project.find(name, module)
        if isinstance(found, ClassInfo):
            return Value("class", name=found.qualified)
        if isinstance(found, FunctionInfo):
            return Value("function", name=f"{found.module.name}.{found.name}")
        if isinstance(found, ModuleInfo):
            return Value("modulefile", name=found.name)
        if full:
            home, _, last = full.rpartition(".")
            owner = self.project.modules.get(home)
            if owner is not None and last in owner.env:
                return owner.env[last]
            return Value("api", name=full)
        for star in module.imports.stars:
            if is_foreign(star) and not name.startswith("_") and self.star_member(star, name):
                return ev.api(f"{star}.{name}")
        if name in PURE_BUILTINS or name in ("sum", "max", "min", "abs", "zip", "enumerate", "list", "tuple",
                                             "dict", "set", "sorted", "map", "filter", "float", "getattr", "setattr",
                                             "iter", "next", "any", "all", "super", "reversed", "pow", "vars",
                                             "input"):  # fmt: skip
            return Value("builtin", name=name)
        return UNKNOWN

    def star_member(self, star: str, name: str) -> bool:
        if star in ("torch.nn", "torch.optim", "torch.utils.data"):
            return name[:1].isupper() or name in ("functional", "init", "utils", "lr_scheduler")
        return star in ("torch.nn.functional", "torch", "torch.autograd") and name not in PURE_BUILTINS

    def member(self, module_name: str, attr: str, here: ModuleInfo) -> Value:
        owner = self.project.modules.get(module_name)
        if owner is None:
            return UNKNOWN
        found = self.project.find(attr, owner)
        if isinstance(found, ClassInfo):
            return Value("class", name=found.qualified)
        if isinstance(found, FunctionInfo):
            return Value("function", name=f"{found.module.name}.{found.name}")
        return owner.env.get(attr, UNKNOWN)

    def cls_of(self, value: Value, module: ModuleInfo) -> ClassInfo | None:
        if not value.name:
            return None
        found = self.project.find(value.name, module)
        if isinstance(found, ClassInfo):
            return found
        home, _, last = value.name.rpartition(".")
        owner = self.project.modules.get(home)
        return owner.classes.get(last) if owner is not None else None

    def function_of(self, value: Value, ev: Evaluator) -> FunctionInfo | None:
        if value.kind != "function" or not value.name:
            return None
        if "." not in value.name:
            scope: Scope | None = ev.function.scope if ev.function is not None else ev.module.scope
            while scope is not None:
                for child in scope.children:
                    if child.name == value.name and child.is_function:
                        return ev.module.functions[id(child)]
                scope = scope.parent
        found = self.project.find(value.name, ev.module)
        return found if isinstance(found, FunctionInfo) else None

    # --- calls

    def call_method(self, node: cst.Call, func: cst.Attribute, receiver: Value, target: Value, args: list[Value],
                    keywords: dict[str, Value], deps: frozenset[str], ev: Evaluator) -> Value:  # fmt: skip
        name = func.attr.value
        place = dotted(func.value)
        if (
            receiver.kind in ("object", "module", "class", "modulefile")
            and (cls := self.cls_of(receiver, ev.module)) is not None
        ):
            method = cls.method(name)
            if method is not None:
                return self.call_function(method, node, args, receiver, deps, ev)
            if cls.kind == "autograd" and name == "apply":
                return self.applied(cls, node, args, deps, ev)
            if cls.attr(name) is not None:
                return self.call_value(node, target, args, keywords, deps, ev)
        if receiver.kind == "builtin_super" and ev.cls is not None:
            for parent in ev.cls.parents:
                method = parent.method(name)
                if method is not None:
                    return self.call_function(
                        method, node, args, Value("object", place="self", name=parent.qualified), deps, ev
                    )
            return Value("unknown", deps=deps | ({"self"} if name == "forward" else NO_DEPS))
        if target.kind in ("class", "function"):
            return self.call_value(node, target, args, keywords, deps, ev)
        if receiver.kind == "object" and receiver.name in FAMILIES:
            return Value("unknown", deps=deps)
        if receiver.kind in ("tensor", "param"):
            value = self.tensor_method(name, receiver, deps, args)
            return shapes.shaped(value, shapes.called(name, node, args, receiver))
        if receiver.kind == "module":
            return self.module_method(name, receiver, args, deps)
        if receiver.kind == "optimizer":
            return {"state_dict": Value("dict")}.get(name, Value("none"))
        if receiver.kind == "scaler":
            return Value("tensor", deps=deps, name="scaled") if name == "scale" else Value("unknown")
        if receiver.kind in ("numpy",):
            return Value("numpy")
        if receiver.kind in ("loader", "dataset", "scheduler", "str", "dict", "list", "int", "float"):
            return Value("unknown", deps=receiver.deps if receiver.kind in ("dict", "list") else NO_DEPS)
        if name in (
            "parameters",
            "named_parameters",
            "buffers",
            "children",
            "modules",
            "named_modules",
            "zero_grad",
            "state_dict",
        ) and (receiver.kind == "unknown" or receiver.kind == "object" and place):
            if receiver.kind == "unknown" and name in ("parameters", "named_parameters", "buffers"):
                ev.memo[id(func.value)] = Value("module", place=receiver.place or place, likely=True)
            return self.module_method(name, Value("module", place=receiver.place or place, likely=True), args, deps)
        torch_words = any(a.keyword is not None and a.keyword.value in ("dim", "keepdim") for a in node.args)
        if (
            name in torchapi.TENSOR_METHODS
            or torch_words
            or (name == "transpose" and len(args) == 2)
            or (name in ("size", "dim") and receiver.kind == "unknown")
        ):
            ev.memo[id(func.value)] = replace(receiver, kind="tensor", likely=True)
            self.learn(func.value, ev)
            return self.tensor_method(name, replace(receiver, kind="tensor"), deps, args)
        if name == "item":
            return Value("float")
        extra = receiver.deps | (
            frozenset({receiver.place}) if receiver.place and receiver.kind in ("object", "unknown") else NO_DEPS
        )
        if target.kind == "module":
            extra |= {target.place or place}
        if receiver.kind == "unknown" and not receiver.place and not receiver.deps:
            extra = NO_DEPS
        return Value("unknown", deps=deps | extra)

    def applied(self, cls: ClassInfo, node: cst.Call, args: list[Value], deps: frozenset[str], ev: Evaluator) -> Value:
        """`Function.apply(...)`: what forward returns, varied with every argument."""
        forward = cls.method("forward")
        if forward is None:
            return Value("unknown", deps=deps)
        context = [] if cls.method("setup_context") is not None else [Value("ctx")]
        call = node.with_changes(args=[*(cst.Arg(cst.Name("ctx")) for _ in context), *node.args])
        value = self.call_function(forward, call, [*context, *args], None, deps, ev)
        kind = value.kind if value.kind != "unknown" else "tensor"
        items = (
            tuple(replace(i, kind="tensor", deps=deps, place="", leaf=False) for i in value.items)
            if value.items is not None
            else None
        )
        return Value(kind, deps=deps, items=items)

    def learn(self, node: cst.CSTNode, ev: Evaluator) -> None:
        """A use that only a tensor of torch answers makes the place a likely tensor."""
        place = dotted(node)
        held = ev.env.get(place)
        if place and held is not None and held.kind == "unknown":
            ev.env[place] = replace(held, kind="tensor", likely=True)

    def likely_tensors(self, node: cst.Call, args: list[Value], name: str, ev: Evaluator) -> None:
        if args and args[0].kind == "unknown" and name.count(".") <= 3 and name.rpartition(".")[2] not in (
            "tensor", "as_tensor", "from_numpy", "zeros", "ones", "randn", "rand", "full", "cat", "stack", "arange",
            "Tensor",
        ):  # fmt: skip
            self.learn(node.args[0].value, ev)

    def tensor_method(self, name: str, receiver: Value, deps: frozenset[str], args: list[Value]) -> Value:
        deps = deps | receiver.deps
        if name == "size":
            return Value("int" if args else "size")
        if name in ("cuda", "cpu", "to", "contiguous", "float", "double", "half", "requires_grad_", "type", "type_as"):
            leaf = (
                receiver.leaf
                and name in ("contiguous",)
                or (name == "requires_grad_" and not any(a.kind == "bool" and a.likely for a in args))
            )
            value = Value("tensor", deps=deps, leaf=leaf, likely=receiver.likely)
            return value if name != "type" or args else Value("str")
        value = torchapi.result(f"torch.Tensor.{name}", deps, len(args))
        return replace(value, likely=receiver.likely)

    def module_method(self, name: str, receiver: Value, args: list[Value], deps: frozenset[str]) -> Value:
        own = frozenset({receiver.place}) if receiver.place else NO_DEPS
        own |= frozenset(i.place for i in receiver.items or () if i.place)  # modules it was built from
        if name == "buffers":
            return Value("params", name="buffers")
        if name == "parameters":
            return Value("params", deps=own, place=receiver.place)
        if name == "named_parameters":
            return Value("named_params", deps=own, place=receiver.place)
        if name in MODULE_METHODS_SELF:
            return receiver
        if name in ("state_dict",):
            return Value("dict", name="state_dict")
        if name in ("children", "modules"):
            return Value("list", name="of module", place=receiver.place)
        if name in ("zero_grad", "load_state_dict", "register_buffer", "add_module", "register_parameter"):
            return Value("none")
        return Value("unknown", deps=deps | own)

    def call_value(self, node: cst.Call, target: Value, args: list[Value], keywords: dict[str, Value],
                   deps: frozenset[str], ev: Evaluator) -> Value:  # fmt: skip
        if target.kind == "class":
            cls = self.cls_of(target, ev.module)
            if cls is None:
                return UNKNOWN
            init = cls.method("__init__")
            if init is not None:
                self.call_function(init, node, args, Value("object", place="self"), deps, ev, construct=True)
            kind = {"module": "module", "dataset": "dataset", "optimizer": "optimizer"}.get(cls.kind, "object")
            owns = args[0].deps if kind == "optimizer" and args else None
            parts = tuple(a for a in args if a.kind == "module" and a.place) if kind == "module" else None
            return Value(kind, name=cls.qualified, owns=owns, items=parts or None)
        if target.kind == "function" and target.name.startswith("torch.func:") and target.items:
            return _spread(target.items[0], deps)
        if target.kind == "function":
            info = self.function_of(target, ev)
            if info is not None:
                return self.call_function(info, node, args, None, deps, ev)
            return Value("unknown", deps=deps | target.deps)
        if target.kind == "builtin" and target.name == "dict" and not any(a.star or not a.keyword for a in node.args):
            return Value("dict", deps=deps, keys=tuple((name, True) for name in keywords))
        if target.kind == "builtin":
            return self.builtin(target.name, args, deps, ev)
        if target.kind == "autograd" and (cls := self.cls_of(target, ev.module)) is not None:
            return self.applied(cls, node, args, deps, ev)
        if target.kind in ("module", "lossfn"):
            place = frozenset({target.place}) if target.place else NO_DEPS
            place |= frozenset(i.place for i in target.items or () if i.place)  # modules it was built from
            if target.kind == "lossfn" or target.name.rpartition(".")[2].endswith("Loss"):
                return Value("tensor", deps=deps, likely=target.likely)
            cls = self.cls_of(target, ev.module)
            forward = cls.method("forward") if cls is not None else None
            if forward is not None:
                value = self.call_function(forward, node, args, target, deps, ev)
                return _spread(value, deps | place)
            if target.name.rpartition(".")[2] in torchapi.RECURRENT:
                one = Value("tensor", deps=deps | place)
                return Value(
                    "tuple",
                    items=(one, Value("tuple" if target.name.endswith("LSTM") else "tensor", deps=deps | place)),
                    deps=deps | place,
                )
            kind = "tensor" if target.name.startswith("torch.nn.") else "unknown"
            return Value(kind if target.name else "tensor", deps=deps | place, likely=True)
        own = frozenset({target.place}) if target.place and target.kind in ("unknown", "object") else NO_DEPS
        return Value("unknown", deps=deps | own | target.deps)

    def builtin(self, name: str, args: list[Value], deps: frozenset[str], ev: Evaluator) -> Value:
        first = args[0] if args else UNKNOWN
        if name in PURE_BUILTINS:
            return Value(PURE_BUILTINS[name], name="range" if name == "range" else "")
        if name == "super":
            return Value("builtin_super", place="self")
        if name == "float":
            return Value("float")
        if name in ("list", "tuple", "sorted", "reversed", "iter", "set"):
            if first.kind == "params":
                return first
            return Value("list", deps=deps, items=first.items, name=first.name)
        if name in ("sum", "max", "min"):
            element = ev.element(first) if first.kind in ("list", "tuple") else first
            if element.kind in ("tensor",) or (deps and element.kind == "unknown"):
                return Value("tensor", deps=deps, likely=True)
            return Value(element.kind if element.kind in ("int", "float") else "unknown", deps=deps)
        if name == "abs":
            return first
        if name == "next":
            return ev.element(first)
        return Value("unknown", deps=deps)

    def call_function(self, info: FunctionInfo, node: cst.Call, args: list[Value], receiver: Value | None,
                      deps: frozenset[str], ev: Evaluator, construct: bool = False) -> Value:  # fmt: skip
        """Record what the caller passes; return what the function returns, in the caller's places."""
        bound = bind_arguments(info, node, args, skip_self=info.cls is not None and not info.static
                               and receiver is not None and receiver.kind != "class")  # fmt: skip
        places = {value.place: name for name, value in bound.items() if value.place}
        info.callers += 1
        for name, value in bound.items():
            mapped = _into(value, name, places, receiver is not None and receiver.place == "self")
            old = info.args.get(name)
            info.args[name] = mapped if old is None else join(old, mapped)
        if construct:
            return UNKNOWN
        returns = info.returns
        if returns is None:
            return Value("unknown", deps=deps)
        outward: dict[str, frozenset[str]] = {}
        for name, value in bound.items():
            outward[name] = value.deps | (
                frozenset({value.place}) if value.kind in ("module", "object") and value.place else NO_DEPS
            )
        base = receiver.place if receiver is not None else ""
        return _outward(returns, outward, base)

    def rebase(self, value: Value, old: str, new: str) -> Value:
        """The same value seen from another place: `self.net` of `trainer` is `trainer.net`."""
        if old == new or not new:
            return value

        def move(place: str) -> str:
            return new + place[len(old) :] if place == old or place.startswith(old + ".") else place

        items = tuple(self.rebase(i, old, new) for i in value.items) if value.items is not None else None
        owns = frozenset(move(o) for o in value.owns) if value.owns is not None else None
        return replace(
            value, place=move(value.place), deps=frozenset(move(d) for d in value.deps), owns=owns, items=items
        )


def _spread(value: Value, deps: frozenset[str]) -> Value:
    """The output of a module: every tensor in it is varied with its parameters."""
    items = tuple(_spread(i, deps) for i in value.items) if value.items is not None else None
    if value.kind in ("int", "float", "str", "bool", "none", "numpy"):
        return value
    return replace(
        value, deps=value.deps | deps if value.deps or value.kind == "unknown" else deps, items=items, leaf=False
    )


def _into(value: Value, name: str, places: dict[str, str], same_self: bool) -> Value:
    """A caller's value in the callee's places; what the callee has no name for keeps a caret."""
    known = ("^", "@", "self.") if same_self else ("^", "@")

    def move(place: str) -> str:
        for outer, inner in places.items():
            if place == outer or place.startswith(outer + "."):
                return inner + place[len(outer) :]
        return place if place.startswith(known) else "^" + place

    owns = frozenset(move(o) for o in value.owns) if value.owns is not None else None
    deps = frozenset(move(d) for d in value.deps if not d.startswith("@"))
    return shapes.forgotten(replace(value, place=name, deps=deps, owns=owns, items=None))


def _outward(value: Value, params: dict[str, frozenset[str]], receiver: str) -> Value:
    deps: frozenset[str] = NO_DEPS
    for dep in value.deps:
        plain = dep.lstrip("@^")
        head, _, rest = plain.partition(".")
        if head in params:
            deps |= params[head]
        elif head == "self" and receiver:
            deps |= {receiver + ("." + rest if rest else "")}
        elif not dep.startswith(("@", "^")):
            deps |= {dep}
    owns = None if value.owns is None else _outward(Value(deps=value.owns), params, receiver).deps
    items = tuple(_outward(i, params, receiver) for i in value.items) if value.items is not None else None
    place = value.place
    if value.kind in ("module", "optimizer", "object", "scheduler") and not place.startswith("self."):
        place = ""  # made inside: it lives where the caller puts it
    elif place.startswith("self.") and receiver:
        place = receiver + place[4:]
    return replace(value, deps=deps, items=items, place=place, owns=owns, leaf=False)


def bind_arguments(info: FunctionInfo, node: cst.Call, args: list[Value], skip_self: bool) -> dict[str, Value]:
    fn = info.scope.node
    assert isinstance(fn, cst.FunctionDef)
    names = [p.name.value for p in [*fn.params.posonly_params, *fn.params.params]]
    if skip_self and names:
        names = names[1:]
    bound: dict[str, Value] = {}
    position = 0
    for arg, value in zip(node.args, args, strict=False):
        if arg.star:
            break
        if arg.keyword is not None:
            bound[arg.keyword.value] = value
        elif position < len(names):
            bound[names[position]] = value
            position += 1
    return bound


def is_no_grad(node: cst.CSTNode, module: ModuleInfo) -> bool:
    target = node.func if isinstance(node, cst.Call) else node
    return qualified(target, module.imports).rpartition(".")[2] in ("no_grad", "inference_mode") and is_foreign(
        qualified(target, module.imports)
    )


def _decorators(scope: Scope) -> list[cst.Decorator]:
    return list(scope.node.decorators) if isinstance(scope.node, (cst.FunctionDef, cst.ClassDef)) else []
