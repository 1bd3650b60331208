"""Calls and attributes of wrappers as the PyTorch that they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.editing.fold import folded
from torch2ms.findings import Tier
from torch2ms.wrappers.trainers import accumulate, apex, distributed, objects
from torch2ms.wrappers.trainers.objects import family, member

if TYPE_CHECKING:
    from torch2ms.wrappers.trainers.steps import Steps

SEEDS = {"accelerate.utils.set_seed", "accelerate.utils.random.set_seed", "lightning.seed_everything",
         "lightning.fabric.seed_everything", "lightning_fabric.seed_everything", "pytorch_lightning.seed_everything",
         "lightning.pytorch.seed_everything"}  # fmt: skip
LOGGERS = {"accelerate.logging.get_logger", "accelerate.get_logger"}
DEVICE = "{0}.device('cuda' if {0}.cuda.is_available() else 'cpu')"
CLIPS = {"clip_grad_norm_": "clip_grad_norm_", "clip_grad_value_": "clip_grad_value_"}
ONE_DEVICE = "one process runs on one device"
MODELS = {"apex.parallel.DistributedDataParallel", "apex.parallel.convert_syncbn_model"}


class Unwrapping:
    """The part of an unwrapper that sees expressions."""

    module: ModuleInfo
    steps: Steps
    passed: dict[str, set[str]]
    imports: list[str]
    reasons: dict[int, str]
    around: list[cst.CSTNode]
    loops: list[accumulate.Loop | str | None]
    scaled: list[tuple[str, cst.BaseExpression]]
    quotes: list[str]  # of the formatted strings around
    line: int

    def tell(self, what: str, why: str, tier: Tier = Tier.EXACT) -> None:
        """Note a finding on the line at hand."""
        raise NotImplementedError

    def name(self, module: str) -> str:
        """The name of a module here; it is imported where it is not."""
        for local, full in self.module.imports.table.items():
            if full == module:
                return local
        self.imports.append(f"import {module}")
        return module

    # --- calls

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        kind, name = member(original, self.module)
        if kind:
            return self.method(kind, name, original, updated)
        if (made := self.apex(original, updated)) or (made := self.process(original, updated)):
            return made
        full = qualified(original.func, self.module.imports)
        if full in SEEDS:
            seed = cst.parse_expression(f"{self.name('torch')}.manual_seed")
            return updated.with_changes(func=seed, args=[_last(updated.args[0])] if updated.args else [])
        if full in LOGGERS and updated.args:
            self.tell("get_logger", "the logger itself: one process logs")
            func = cst.parse_expression(f"{self.name('logging')}.getLogger")
            return updated.with_changes(func=func, args=[_last(updated.args[0])])
        return self.arguments(original, updated)

    def method(self, kind: str, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """A method of an accelerator or of a Fabric."""
        what = objects.text(original.func)
        args = [a for a in updated.args if a.keyword is None]
        plain = not any(a.star for a in args)
        first = updated.args[0].value if updated.args else None
        if name in objects.SAME[kind] and args:
            self.tell(what, f"it gives back what it was given: {ONE_DEVICE}")
            if len(args) == 1:
                return args[0].value
            return cst.Tuple([_element(a) for a in args]) if plain else updated
        averages = name == "reduce" and len(updated.args) <= 2 and not _named(updated, "scale")
        if name in objects.FIRST[kind] or averages:
            if first is not None and not updated.args[0].star:
                cut = name == "gather_for_metrics"
                why = "each sample of the last batch stands in it once" if cut else ONE_DEVICE
                self.tell(what, f"it gives back its argument: {why}", Tier.ASSUMED if cut else Tier.EXACT)
                return first
        if name == "backward" and first is not None:
            return self.backward(what, original, updated, first)
        if name in CLIPS and kind == "accelerate":
            self.tell(what, "the function of torch: there is nothing to unscale in float32")
            return updated.with_changes(func=cst.parse_expression(f"{self.name('torch')}.nn.utils.{CLIPS[name]}"))
        if name == "clip_gradients" and len(args) >= 2:
            return self.clipped(what, updated)
        if name == "print":
            self.tell(what, "one process prints")
            return updated.with_changes(func=cst.Name("print"))
        if name == "save" and kind == "accelerate" and len(args) >= 2:
            self.tell(what, "the function of torch")
            func = cst.parse_expression(f"{self.name('torch')}.save")
            return updated.with_changes(func=func, args=[args[0], _last(args[1])])
        if name == "get_state_dict" and first is not None:
            self.tell(what, "the state of the model")
            return cst.Call(cst.Attribute(_atom(first), cst.Name("state_dict")))
        return updated

    def backward(
        self, what: str, original: cst.Call, updated: cst.Call, loss: cst.BaseExpression
    ) -> cst.BaseExpression:
        """`loss.backward()`, divided by the number of batches that one step takes."""
        kind = family(original.func.value, self.module)  # type: ignore[attr-defined]
        steps = self.steps.of(self.module, self.around) if kind == "accelerate" else "1"
        loop = self.loops[-1] if self.loops else None
        if not steps or isinstance(loop, str):
            why = loop if isinstance(loop, str) else "how many batches it accumulates is not seen here"
            self.reasons[id(original)] = why
            return original
        rest = [a for a in updated.args[1:]]
        if rest:
            rest[-1] = _last(rest[-1])
        if steps != "1":
            self.tell(what, f"the loss over {steps}, as accelerate divides it")
            divisor = cst.parse_expression(steps)
            root: cst.BaseExpression = cst.BinaryOperation(_atom(loss), cst.Divide(), _atom(divisor))
            root = root.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        else:
            self.tell(what, "the backward of the loss")
            root = _atom(loss)
        return cst.Call(cst.Attribute(root, cst.Name("backward")), rest)

    def clipped(self, what: str, updated: cst.Call) -> cst.BaseExpression:
        """`fabric.clip_gradients(model, optimizer, max_norm=1.0)`."""
        given = {a.keyword.value: a for a in updated.args if a.keyword is not None}
        kinds = [k for k in ("max_norm", "clip_val") if k in given]
        if len(kinds) != 1 or given.keys() - {"max_norm", "clip_val", "norm_type", "error_if_nonfinite"}:
            return updated
        self.tell(what, "the optimizer updates all parameters of the model", Tier.ASSUMED)
        function = "clip_grad_norm_" if kinds[0] == "max_norm" else "clip_grad_value_"
        params = cst.Call(cst.Attribute(_atom(updated.args[0].value), cst.Name("parameters")))
        args = [cst.Arg(params), cst.Arg(given.pop(kinds[0]).value)]
        args += [_last(given["norm_type"])] if "norm_type" in given else []
        return cst.Call(cst.parse_expression(f"{self.name('torch')}.nn.utils.{function}"), args)

    def arguments(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        """A call without the accelerator that it hands on, and without what only accelerate's loggers know."""
        gone = [a for a in original.args if a.keyword and a.keyword.value in ("main_process_only", "in_order")]
        function = dotted(original.func).rpartition(".")[2]
        if self.passed.get(function):
            gone += [a for a in original.args if family(a.value, self.module) and not a.star]
        if not gone:
            return updated
        args = [new for old, new in zip(original.args, updated.args, strict=True) if old not in gone]
        if args and original.args[-1] in gone:
            args[-1] = _last(args[-1])
        return updated.with_changes(args=args)

    def seeded(self, call: cst.Call) -> list[cst.CSTNode] | None:
        """A seed for every library that the module draws from."""
        kind, name = member(call, self.module)
        if qualified(call.func, self.module.imports) not in SEEDS and (kind, name) != ("fabric", "seed_everything"):
            return None
        if not call.args:
            return None
        seed = objects.text(call.args[0].value)
        local = {full: name for name, full in self.module.imports.table.items()}
        texts = [f"{local['random']}.seed({seed})"] if "random" in local else []
        texts += [f"{local['numpy']}.random.seed({seed})"] if "numpy" in local else []
        texts.append(f"{self.name('torch')}.manual_seed({seed})")
        self.tell(objects.text(call.func), "no module draws from a library that is not imported here", Tier.ASSUMED)
        return [cst.Expr(cst.parse_expression(text)) for text in texts]

    def apex(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression | None:
        """What apex gives back of what it was given."""
        name = apex.name_of(original, self.module)
        if not name and apex.differentiated(original, self.module):
            why = "the backward of the loss: nothing is scaled in float32"
            self.tell(objects.text(original.func), why, Tier.ASSUMED)
            kept = [_last(a) for a in updated.args[1:] if a.keyword is not None and a.keyword.value == "retain_graph"]
            return cst.Call(cst.Attribute(_atom(updated.args[0].value), cst.Name("backward")), kept)
        if name in apex.HALF and updated.args and updated.args[0].keyword is None and not updated.args[0].star:
            self.tell(f"apex.{name}", "the optimizer itself: its weights are float32 already", Tier.ASSUMED)
            return updated.args[0].value
        if not name:
            return None
        if name == "amp.initialize" and (given := apex.initialized(updated)):
            self.tell("apex.amp.initialize", "apex's mixed precision is not carried over: float32", Tier.ASSUMED)
            return given[0] if len(given) == 1 else cst.Tuple([cst.Element(n) for n in given])
        if name == "amp.master_params" and updated.args:
            self.tell("apex.amp.master_params", "the parameters of the optimizer: there are no copies in float32")
            optimizer = objects.text(updated.args[0].value)
            return cst.parse_expression(f'[p for group in {optimizer}.param_groups for p in group["params"]]')
        if f"apex.{name}" in MODELS and updated.args:
            self.tell(f"apex.{name}", f"the model itself: {ONE_DEVICE}", Tier.ASSUMED)
            return updated.args[0].value
        return None

    def process(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression | None:
        """What one process knows of itself, and models that are wrapped for several."""
        if (model := distributed.model_of(original, updated, self.module)) is not None:
            name = objects.text(original.func).rpartition(".")[2]
            self.tell(name, f"the model itself: {ONE_DEVICE}", Tier.ASSUMED)
            return model
        if distributed.asks_for_wrapper(original, self.module):
            self.tell("isinstance", "there is no wrapper around the model: False")
            return cst.Name("False")
        name = distributed.name_of(original, self.module)
        if name in distributed.VALUES:
            known = distributed.VALUES[name]
            if name == "is_initialized" and distributed.started(original, self.module):
                known = "True"
            self.tell(f"torch.distributed.{name}", f"{known}: one process runs", Tier.ASSUMED)
            return cst.parse_expression(known)
        return None

    # --- names and attributes

    def visit_FormattedString(self, node: cst.FormattedString) -> None:
        self.quotes.append(node.quote)

    def leave_FormattedString(self, original: cst.FormattedString, updated: cst.FormattedString) -> cst.FormattedString:
        self.quotes.pop()
        return updated

    def quoted(self, text: str) -> str:
        """Code with strings that do not end the formatted string around it."""
        return text if self.quotes and self.quotes[-1].startswith('"') else text.replace("'", '"')

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        kind = family(original.value, self.module)
        name = original.attr.value
        if not kind:
            return updated
        if name in objects.ATTRIBUTES[kind]:
            self.tell(objects.text(original), f"{objects.ATTRIBUTES[kind][name]}: one process runs, in float32")
            return cst.parse_expression(self.quoted(objects.ATTRIBUTES[kind][name]))
        if name == "device":
            self.tell("accelerator.device" if kind == "accelerate" else "fabric.device", "the device of torch")
            return cst.parse_expression(self.quoted(DEVICE.format(self.name("torch"))))
        steps = self.steps.of(self.module, self.around)
        if name == "gradient_accumulation_steps" and steps:
            return cst.parse_expression(steps)
        if name == "sync_gradients":
            loop = self.loops[-1] if self.loops else None
            if isinstance(loop, accumulate.Loop):
                return cst.Name(accumulate.NAME)
            if steps == "1":
                self.tell(objects.text(original), "True: every batch steps")
                return cst.Name("True")
        return updated

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        for name, loss in reversed(self.scaled):
            if name == original.value:
                return _atom(loss)
        return updated

    def leave_UnaryOperation(self, original: cst.UnaryOperation, updated: cst.UnaryOperation) -> cst.BaseExpression:
        return folded(updated) if updated is not original else updated

    leave_BooleanOperation = leave_IfExp = leave_UnaryOperation

    def leave_Tuple(self, original: cst.Tuple, updated: cst.Tuple) -> cst.BaseExpression:
        """`WRAPPERS = (DataParallel, DistributedDataParallel)`, of which no model is an instance."""
        if not distributed.are_wrappers([e.value for e in original.elements], self.module):
            return updated
        return updated.with_changes(elements=[], lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

    def leave_Comparison(self, original: cst.Comparison, updated: cst.Comparison) -> cst.BaseExpression:
        if (answer := distributed.compares_wrapper(original, self.module)) is not None:
            self.tell("type", f"there is no wrapper around the model: {answer}")
            return cst.Name(str(answer))
        return folded(updated) if updated is not original else updated


def _element(arg: cst.Arg) -> cst.Element:
    return cst.Element(arg.value)


def _last(arg: cst.Arg) -> cst.Arg:
    return arg.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace(""))


def _named(call: cst.Call, name: str) -> bool:
    return objects.keyword(call, name) is not None


def _atom(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression so that an attribute of it can be taken."""
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer)) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
