"""What the harness observes in the torch process: layers as they are made, backward passes, optimizer steps."""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from torch2ms.verify.sides.layers import layer_table, mindspore_name
from torch2ms.verify.sides.nested import Nested
from torch2ms.verify.sides.owned import FRAMEWORKS, Owned, OwnParameters
from torch2ms.verify.sides.samples import marks
from torch2ms.verify.sides.session import Quiet, Session, Unavailable
from torch2ms.verify.sides.statements import Statements
from torch2ms.verify.sides.torch_draws import TorchDraws
from torch2ms.verify.sides.torch_values import HALF, to_array, weight_array
from torch2ms.verify.trace import Array, key_of

ALONE = 3  # references to a module of which the program has none: from the list of layers, a variable and the count


def _array_for(leaf: Any) -> Callable[[Any], Array | None]:
    return weight_array if isinstance(leaf, torch.nn.Parameter) else to_array


class TorchSide:
    """Patches torch in this process; everything seen goes to the session's trace."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.trace = session.trace
        self.quiet = Quiet()
        self.layers: list[tuple[str, Any]] = []  # (layer id, module), in order of construction
        self.owned = Owned()
        self.own = OwnParameters(
            self.owned, lambda module: iter([*module._parameters.items()]), lambda module: [*module.named_parameters()]
        )
        self.owners: dict[int, tuple[Any, str]] = {}  # id of a parameter or module -> (weak owner, attribute)
        self.uids: dict[int, tuple[Any, str]] = {}  # id of a parameter -> (weak parameter, "L3.weight")
        self.optimizers = itertools.count()  # ids would be those of optimizers that are gone
        self.nested = Nested(to_array)
        self.stepping: list[Any] = []  # the optimizers whose steps run, the innermost last
        self.started: dict[int, tuple[Any, str]] = {}  # parameters and their values before the first step
        self.groups: list[Any] = []

    def install(self) -> None:
        """Put every observation point in place."""
        self._watch_names()
        self.owned.watch(torch.nn.Module)
        for name in layer_table():
            if hasattr(torch.nn, name):
                self._watch_layer(getattr(torch.nn, name), name)
        self._watch_backward()
        self._watch_optimizers()
        self._watch_autocast()
        self._keep_groups()

    # -- names ------------------------------------------------------------------------------------------------------

    def _watch_names(self) -> None:
        def registered(module: Any, name: str, value: Any) -> None:
            if value is not None:
                self.owners[id(value)] = (weakref.ref(module), name)

        torch.nn.modules.module.register_module_module_registration_hook(registered)
        torch.nn.modules.module.register_module_parameter_registration_hook(registered)

    def name_of(self, value: Any) -> str:
        """The attribute path of a parameter below its root module, "" where it belongs to none."""
        parts: list[str] = []
        while id(value) in self.owners and len(parts) < 64:
            owner, name = self.owners[id(value)]
            module = owner()
            if module is None or (getattr(module, name, None) is not value):
                break
            parts.append(name)
            value = module
        return ".".join(reversed(parts))

    def uid_of(self, parameter: Any) -> str:
        """The construction record a parameter belongs to, "" for a parameter the program made itself."""
        known = self.uids.get(id(parameter))
        return known[1] if known and known[0]() is parameter else ""

    def stored_in(self, tensor: Any) -> str:
        """The construction record of the parameter whose memory a tensor (`p.data`, `p.detach()`) is, "" if none."""
        place = tensor.data_ptr()
        for reference, uid in self.uids.values():
            parameter = reference()
            if parameter is not None and parameter.shape == tensor.shape and parameter.data_ptr() == place:
                return uid
        return ""

    def variable(self, tensor: Any) -> str:
        """The name the program's variables give a tensor: module path, else the nearest variable that holds it."""
        path = self.name_of(tensor)
        if path:
            return path
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            for name, value in frame.f_locals.items():
                if value is tensor and name not in ("self", "tensor", "leaf", "root") and not name.startswith("_"):
                    if frame.f_globals.get("__name__", "").split(".")[0] not in ("torch", "torch2ms"):
                        return name
            frame = frame.f_back
        return ""

    # -- layers -----------------------------------------------------------------------------------------------------

    def _watch_layer(self, cls: type, name: str) -> None:
        construct = cls.__init__  # type: ignore[misc]

        @functools.wraps(construct)
        def __init__(module: Any, *args: Any, **kwargs: Any) -> None:
            with self.quiet:
                construct(module, *args, **kwargs)
            if not self.quiet.active:
                self._made(module, name)

        cls.__init__ = __init__  # type: ignore[misc]

    def _made(self, module: Any, name: str) -> None:
        layer = layer_table()[name]
        owners = {path: type(part).__mro__ for path, part in module.named_modules()}
        entries = []
        for full, value in [*module.named_parameters(), *module.named_buffers()]:
            leaf = full.rpartition(".")[2]
            part = next((c.__name__ for c in owners[full.rpartition(".")[0]] if c.__name__ in layer_table()), name)
            if leaf in layer.drop or leaf in layer_table()[part].drop or value is None:
                continue
            entries.append((full, mindspore_name(layer, part, full), value))
        if not entries:
            return
        identity = f"L{len(self.layers)}"
        self.layers.append((identity, module))
        for full, _, value in entries:
            self.uids[id(value)] = (weakref.ref(value), f"{identity}.{full}")
        self.trace.add(
            "layer",
            id=identity,
            torch=name,
            dropout=self._without_inner_dropout(module, name),
            parameters=[
                {"name": full, "other": other, "value": self.trace.keep(to_array(value)), "dtype": str(value.dtype)[6:]}
                for full, other, value in entries
            ],
        )

    def _without_inner_dropout(self, module: Any, name: str) -> float:
        """Turn off the dropout between the layers of an RNN, drawn where no mask can be read; both sides do so."""
        if name not in ("RNN", "LSTM", "GRU") or not module.dropout or module.num_layers == 1:
            return 0.0
        p, module.dropout = float(module.dropout), 0.0
        text = f"dropout ({p:g}) between the layers of nn.{name} is off on both sides: its masks cannot be replayed"
        self.trace.meta.setdefault("notes", []).append(text)
        return p

    def finish(self) -> None:
        """Record what the layers and the program's own modules hold at the end."""
        modules = [module for _, module in (*self.layers, *self.owned.modules)]
        places = Counter(value.data_ptr() for module in modules for value in _tensors(module))
        del modules
        for identity, module in self.layers:
            values = dict([*module.named_parameters(), *module.named_buffers()])
            if sys.getrefcount(module) <= ALONE and any(places[v.data_ptr()] > 1 for v in values.values()):
                continue  # gone but for its memory, which `nn.Parameter(layer.weight.data)` of another uses on
            kept = {
                name: {"value": self.trace.sample(to_array(value)), "name": self._display(module, name)}
                for name, value in values.items()
                if not name.endswith("num_batches_tracked")
            }
            self.trace.add("final", id=identity, parameters=kept)
        if plain := plain_classes():
            self.trace.add("classes", names=plain)
        for identity, module in self.owned.modules:
            parameters = {n: v for n, v in module._parameters.items() if v is not None}
            self.trace.add(
                "owned",
                id=identity,
                parameters={
                    name: {
                        "value": self.trace.sample((weight_array if name in parameters else to_array)(value)),
                        "name": self._display(module, name),
                    }
                    for name, value in {**parameters, **_own_buffers(module)}.items()
                },
                buffers=list(_own_buffers(module)),
            )

    def buffers(self) -> dict[str, str]:
        """What the buffers of layers and of the program's own modules hold now."""
        held = {
            f"{identity}.{name}": value
            for identity, module in self.layers
            for name, value in module.named_buffers()
            if not name.endswith("num_batches_tracked")
        }
        known = {id(value) for value in held.values()}  # of a class that is derived from a layer: they are its layer's
        for identity, module in self.owned.modules:
            own = ((name, value) for name, value in _own_buffers(module).items() if id(value) not in known)
            held.update({f"{identity}.{name}": value for name, value in own})
        return {uid: self.trace.sample(to_array(value)) for uid, value in held.items()}

    def _display(self, module: Any, name: str) -> str:
        path = self.name_of(module)
        return f"{path}.{name}" if path else name

    # -- backward ---------------------------------------------------------------------------------------------------

    def _watch_backward(self) -> None:
        backward, grad = torch.autograd.backward, torch.autograd.grad

        @functools.wraps(backward)
        def observed_backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
            roots = tensors = _listed(tensors)
            cotangent = grad_tensors if grad_tensors is not None else kwargs.get("grad_variables")
            contributions: list[tuple[Any, Any]] = []
            handles = [
                leaf.register_hook(lambda g, leaf=leaf: contributions.append((leaf, g.detach().clone())))
                for leaf in _leaves(roots)
                if leaf.requires_grad  # not if it was frozen when the graph was there: torch passes it over, too
            ]
            try:
                backward(tensors, grad_tensors, *args, **kwargs)
            finally:
                for handle in handles:
                    handle.remove()
            inner = bool(kwargs.get("create_graph", args[1] if len(args) > 1 else False))
            self._root("backward", roots, cotangent, contributions, inner)

        @functools.wraps(grad)
        def observed_grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any) -> Any:
            outputs, inputs = _listed(outputs), _listed(inputs)
            result = grad(outputs, inputs, grad_outputs, *args, **kwargs)
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if not caller.startswith("torch."):
                pairs = [(leaf, g) for leaf, g in zip(inputs, result, strict=True) if isinstance(g, torch.Tensor)]
                inner = bool(kwargs.get("create_graph", args[1] if len(args) > 1 else False))
                self._root("grad", outputs, grad_outputs, pairs, inner)
            return result

        torch.autograd.backward = observed_backward
        torch.autograd.grad = observed_grad

    def _root(
        self, kind: str, roots: list[Any], cotangent: Any, pairs: list[tuple[Any, Any]], inner: bool = False
    ) -> None:
        arrays = [array for array in map(to_array, roots) if array is not None]
        if len(arrays) > 1 and isinstance(cotangent, (list, tuple)) and len(cotangent) == len(arrays):
            weights = [to_array(c) if isinstance(c, torch.Tensor) else 1.0 for c in cotangent]
            products: list[Any] = [np.sum(a * w) for a, w in zip(arrays, weights, strict=True)]
            arrays, cotangent = products, None  # their sum is one loss
        if any(root.dtype in HALF for root in roots):
            self.trace.meta["half"] = True
        self.trace.add(
            kind,
            value=float(sum(array.astype(np.float64).sum() for array in arrays)),
            scalar=all(array.size == 1 for array in arrays),
            cotangent=cotangent is not None,
            inner=inner,
            gradients=[{**self._called(leaf), "value": self.trace.sample(_array_for(leaf)(g))} for leaf, g in pairs],
        )

    # -- optimizers -------------------------------------------------------------------------------------------------

    def _watch_optimizers(self) -> None:
        construct = torch.optim.Optimizer.__init__

        @functools.wraps(construct)
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            construct(optimizer, *args, **kwargs)
            optimizer.__dict__.setdefault("_torch2ms_number", next(self.optimizers))

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            closure = args[1] if len(args) > 1 else kwargs.get("closure")  # args[0] is the optimizer
            for p in _parameters(optimizer):
                if id(p) not in self.started:
                    self.started[id(p)] = (p, self.trace.sample(weight_array(p)))
            self.stepping.append(optimizer)
            if any(optimizer is around for around in self.stepping[:-1]):  # `super().step()`: a part of its own step
                return
            self.nested.begin()
            if closure is None:  # else the gradients that count are those the closure is going to make
                optimizer._torch2ms_seen = self._gradients(optimizer)

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            self.stepping.pop()
            if any(optimizer is around for around in self.stepping):
                return
            gradients = optimizer.__dict__.pop("_torch2ms_seen", None)
            if not self.nested.end(_parameters(optimizer)):
                return
            if gradients is None:
                gradients = self._gradients(optimizer)
            inner = isinstance(optimizer, torch.optim.LBFGS)
            parameters = list(_parameters(optimizer))
            self.trace.add(
                "inner_step" if inner else "step",
                optimizer=optimizer.__dict__.get("_torch2ms_number", -1),
                type=type(optimizer).__name__,
                buffers=self.buffers(),
                streams=marks(),
                parameters=[self._stepped(p, g) for p, g in zip(parameters, gradients, strict=True)],
            )
            if any(p.device.type != "cpu" for p in parameters):
                self.trace.meta["device"] = parameters[0].device.type
            self.session.stepped(inner)

        torch.optim.Optimizer.__init__ = __init__
        register_optimizer_step_pre_hook(before)
        register_optimizer_step_post_hook(after)

    def _stepped(self, parameter: Any, gradient: str | None) -> dict[str, Any]:
        return {
            **self._called(parameter),
            "gradient": gradient,
            "start": self.started[id(parameter)][1],
            "after": self.trace.sample(weight_array(parameter)),
        }

    def _called(self, parameter: Any) -> dict[str, str]:
        """What identifies a parameter on both sides, and what to call it."""
        uid = self.uid_of(parameter)
        return {"uid": uid, "own": self.own.name(parameter, not uid), "name": self.variable(parameter)}

    def _gradients(self, optimizer: Any) -> list[str | None]:
        for p in _parameters(optimizer):
            level = self.session.options.get("zero", {}).get(key_of(self._called(p)))
            if p.grad is not None and level is not None:
                p.grad.masked_fill_(p.grad.abs() <= level, 0)
        return [None if p.grad is None else self.trace.sample(weight_array(p.grad)) for p in _parameters(optimizer)]

    def _watch_autocast(self) -> None:
        enter = torch.autocast.__enter__

        def __enter__(context: Any) -> Any:
            if context._enabled:
                self.trace.meta["half"] = True
                self.trace.meta["autocast"] = True
            return enter(context)

        torch.autocast.__enter__ = __enter__

    def _keep_groups(self) -> None:
        """Let no process group end before the process does.

        A group of gloo whose last owner is a DDP reducer ends with the interpreter's lock held and joins a thread
        that waits for that lock: about one run in 400 of a program with one DDP model hung there.
        """
        if not torch.distributed.is_available():
            return
        start = torch.distributed.init_process_group

        @functools.wraps(start)
        def init_process_group(*args: Any, **kwargs: Any) -> None:
            start(*args, **kwargs)
            self.groups.append(torch.distributed.group.WORLD)

        torch.distributed.init_process_group = init_process_group


def plain_classes() -> list[str]:
    """The names of the program's own classes of no family: a `Linear` among them is none of torch's."""
    known = {*FRAMEWORKS, *sys.stdlib_module_names} - {"__main__"}
    found = [c for c in object.__subclasses__() if c.__module__.partition(".")[0] not in known]
    homes = {c.__module__: getattr(sys.modules.get(c.__module__), "__file__", None) or "" for c in found}
    return sorted({c.__name__ for c in found if "site-packages" not in homes[c.__module__]})


def _tensors(module: Any) -> list[Any]:
    """A module's own parameters and buffers, without those of its parts."""
    return [v for v in (*module._parameters.values(), *module._buffers.values()) if v is not None and v.numel()]


def _own_buffers(module: Any) -> dict[str, Any]:
    return {name: value for name, value in module._buffers.items() if isinstance(value, torch.Tensor)}


def _parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _listed(tensors: Any) -> list[Any]:
    """One tensor or any iterable of them (a generator, too) as a list that can be read twice."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _leaves(roots: Iterable[Any]) -> list[Any]:
    """The tensors that accumulate gradients below these roots, in the order a walk from the roots finds them."""
    found: dict[int, Any] = {}
    seen: set[Any] = set()
    stack: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    for root in roots:
        if root.grad_fn is None and root.requires_grad:
            found[id(root)] = root
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            found.setdefault(id(variable), variable)
        stack.extend(following for following, _ in node.next_functions if following is not None)
    return list(found.values())


def preload() -> None:
    """Import what every training program imports late: constructing an optimizer pulls in the compiler."""
    importlib.import_module("torch._dynamo")


def install(session: Session) -> tuple[Callable[[Any], Array | None], Callable[[], None]]:
    """Instrument torch; returns the tensor reader and what to call when the program has ended."""
    _require(session.options.get("torch_device", "cpu"))
    torch.manual_seed(0)
    if session.options.get("double"):
        from torch2ms.verify.sides.double import install_double

        install_double()
    if session.options.get("perturb"):
        from torch2ms.verify.sides.rounding import OtherRounding

        OtherRounding(session.options["perturb"]).__enter__()
    side = TorchSide(session)
    side.install()
    TorchDraws(session, side).install()
    if session.options.get("locate") is not None:
        _watch_statements(side, session)
    return to_array, side.finish


def _require(device: str) -> None:
    """The program chooses its device as ever; that the one asked for is there is all that can be seen to."""
    if device == "npu":
        try:
            importlib.import_module("torch_npu")
        except Exception as error:
            raise Unavailable(f"device npu is not available: {error}") from error
    if device != "cpu" and not getattr(torch, device).is_available():
        raise Unavailable(f"device {device} is not available")


def _watch_statements(side: TorchSide, session: Session) -> None:
    def hook(tensor: Any, seen: Callable[[Any], None]) -> None:
        if tensor.requires_grad and not isinstance(tensor, torch.nn.Parameter):
            tensor.register_hook(seen)

    statements = Statements(session, to_array, hook)

    def forwarded(module: Any, inputs: Any, output: Any) -> None:
        found = next((i for i, layer in side.layers if layer is module), None)
        if found is not None:
            statements.layer(found, f"nn.{type(module).__name__} {side.name_of(module)}".strip(), output)

    torch.nn.modules.module.register_module_forward_hook(forwarded)
    statements.start()
