"""What the harness observes in the MindSpore process, and how its layers start from torch's weights.

Gradients are observed below `ms.grad`, `ms.value_and_grad`, `ms.vjp` and `GradOperation`, where PyNative runs the
forward and plays it back: the public functions stay as they are, so code under `@ms.jit` (which MindSpore parses as
text) is not touched.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.ops.composite import base as composite
from mindspore.ops.function.grad import grad_func

from torch2ms.verify.sides.fine import compute_finely
from torch2ms.verify.sides.layers import fit, layer_table
from torch2ms.verify.sides.mindspore_values import (
    all_ones,
    argument_names,
    explicit,
    members,
    recorded,
    tensors,
    to_array,
)
from torch2ms.verify.sides.nested import Nested
from torch2ms.verify.sides.owned import FRAMEWORKS, Owned, OwnParameters
from torch2ms.verify.sides.replay import Stream
from torch2ms.verify.sides.samples import marks
from torch2ms.verify.sides.session import Quiet, Session, Unavailable
from torch2ms.verify.sides.statements import Statements
from torch2ms.verify.sides.updates import run_uncompiled
from torch2ms.verify.trace import Array, key_of

HALF = (ms.float16, ms.bfloat16)


class MindSporeSide:
    """Patches MindSpore in this process; everything seen goes to the session's trace."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.trace = session.trace
        self.quiet = Quiet()
        self.stream = Stream(session.replay, session.trace) if session.replay else None
        self.records = session.replay.of("layer") if session.replay else []
        self.taken: set[str] = set()
        self.layers: list[tuple[dict[str, Any], Any]] = []
        self.owned = Owned()
        self.own = OwnParameters(
            self.owned, lambda cell: iter([*cell._params.items()]), lambda cell: [*cell.parameters_and_names()]
        )
        steps = session.replay.of("step") if session.replay else []
        self.buffered = set().union(*(step["buffers"] for step in steps))
        self.uids: dict[int, tuple[Any, str]] = {}
        self.optimizers = itertools.count()  # ids would be those of optimizers that are gone
        self.forwards: list[tuple[Any, Any, int]] = []  # forwards that were run and not yet played back
        self.depth = 0
        self.nested = Nested(to_array)
        self.watched: set[type] = set()

    def install(self) -> None:
        """Put every observation point in place."""
        optimizers = (ms.experimental.optim.optimizer.Optimizer, nn.Optimizer)  # cells, too, that hold weights
        self.owned.watch(nn.Cell, optimizers)
        cells = {cell for layer in layer_table().values() for cell in layer.cells}
        for namespace in (nn, ms.mint.nn):
            for name in sorted(cells):
                if hasattr(namespace, name):
                    self._watch_cell(getattr(namespace, name), name)
        self._watch_written(cells)
        self._watch_gradients()
        for optimizer in optimizers:
            self._watch_optimizer(optimizer)
        self._watch_precision()

    # -- layers -----------------------------------------------------------------------------------------------------

    def _watch_cell(self, cls: type, name: str) -> None:
        construct = cls.__init__  # type: ignore[misc]
        self.watched.add(cls)

        @functools.wraps(construct)
        def __init__(cell: Any, *args: Any, **kwargs: Any) -> None:
            with self.quiet:
                construct(cell, *args, **kwargs)
            if not self.quiet.active:
                self._made(cell, name, explicit(kwargs))

        cls.__init__ = __init__  # type: ignore[misc]

    def _watch_written(self, cells: set[str]) -> None:
        """Layers that a translation had to write out have torch's names and are filled like MindSpore's own."""
        replay = self.session.replay
        of_program = {event["id"].partition("#")[0] for event in replay.of("owned")} if replay else set()
        of_program |= {name for event in replay.of("classes") for name in event["names"]} if replay else set()

        @classmethod  # type: ignore[misc]
        def __init_subclass__(cls: Any, **settings: Any) -> None:
            super(nn.Cell, cls).__init_subclass__(**settings)
            own = cls.__name__ in of_program or cls.__module__.partition(".")[0] in FRAMEWORKS
            if cls.__name__ in cells and not own:
                self._watch_cell(cls, cls.__name__)

        nn.Cell.__init_subclass__ = __init_subclass__

    def _made(self, cell: Any, name: str, explicit: dict[str, str]) -> None:
        """Give a new cell the initial values of the torch layer it stands for.

        Where the program gave the constructor an initializer, it says what torch says with `nn.init` afterwards.
        """
        own = {parameter_path: p for parameter_path, p in cell.parameters_and_names()}
        if not own:
            return
        for record in self.records:
            layer = layer_table()[record["torch"]]
            if record["id"] in self.taken or name not in layer.cells:
                continue
            values = self._match(record, own)
            if values is None:
                continue
            self.taken.add(record["id"])
            self._without_inner_dropout(record, cell)
            self.layers.append((record, cell))
            for torch_name, own_name, array in values:
                parameter = own[own_name]
                uid = f"{record['id']}.{torch_name}"
                self.uids[id(parameter)] = (weakref.ref(parameter), uid)
                stated = explicit.get(own_name.rpartition(".")[2])
                same = parameter.size > 1 and np.ptp(to_array(parameter)) == 0 and np.ptp(array) == 0
                if same or stated == "constant":
                    continue  # a constant needs no carrying, and a wrong one must show
                if stated:
                    later = self.stream.initial_of(uid) if self.stream else None
                    array = array if later is None else later.reshape(array.shape)
                parameter.set_data(ms.Tensor(array, dtype=parameter.dtype))
            return
        shapes = ", ".join(f"{n} {tuple(p.shape)}" for n, p in own.items())
        self.trace.add(
            "unmatched",
            text=f"mindspore's nn.{name} ({shapes}) has no torch layer left to start from",
            constant=all(np.ptp(to_array(p)) == 0 for p in own.values()),
        )

    def _without_inner_dropout(self, record: dict[str, Any], cell: Any) -> None:
        """The dropout between the layers of an RNN is off on the torch side; here, too, if it is the same."""
        if record["torch"] not in ("RNN", "LSTM", "GRU") or cell.num_layers == 1:
            return
        p = float(cell.dropout)
        if p == record["dropout"]:
            cell.dropout = 0.0
        else:
            text = f"dropout inside torch's nn.{record['torch']} is {record['dropout']:g}, inside mindspore's {p:g}"
            self.trace.add("divergence", text=text)

    def _match(self, record: dict[str, Any], own: dict[str, Any]) -> list[tuple[str, str, Array]] | None:
        assert self.session.replay is not None
        values, claimed = [], set()
        for entry in record["parameters"]:
            name = entry["other"] if entry["other"] in own else entry["name"]
            array = self.session.replay.arrays[entry["value"]]
            fitted = fit(array, tuple(own[name].shape)) if name in own else None
            if fitted is None:
                return None
            claimed.add(name)
            values.append((entry["name"], name, fitted))
        left = [n for n in own if n not in claimed and not n.rpartition(".")[2].startswith("moving_")]
        return None if any(own[n].requires_grad for n in left) else values  # `affine=False`: frozen ones and zeros

    def uid_of(self, parameter: Any) -> str:
        """The torch construction record a parameter was filled from, "" if none."""
        known = self.uids.get(id(parameter))
        return known[1] if known and known[0]() is parameter else ""

    def finish(self) -> None:
        """Record what the cells hold at the end, and which torch layers found no cell."""
        for record, cell in self.layers:
            kept = {
                name: {"value": self.trace.sample(to_array(parameter)), "name": parameter.name}
                for name, parameter in recorded(record, cell).items()
            }
            self.trace.add("final", id=record["id"], parameters=kept)
        for identity, cell in self.owned.modules:
            kept = {n: {"value": self.trace.sample(to_array(v)), "name": n} for n, v in members(cell).items()}
            self.trace.add("owned", id=identity, parameters=kept)
        if "torch" in sys.modules:
            self.trace.meta.setdefault("notes", []).append("the translation still imports torch")
        self.trace.meta["without_cell"] = [r["id"] for r in self.records if r["id"] not in self.taken]

    def buffers(self) -> dict[str, str]:
        """What the torch side's buffers hold here now."""
        held = {
            f"{record['id']}.{name}": parameter
            for record, cell in self.layers
            for name, parameter in recorded(record, cell).items()
        }
        for identity, cell in self.owned.modules:
            held.update({f"{identity}.{name}": value for name, value in members(cell).items()})
        return {uid: self.trace.sample(to_array(held[uid])) for uid in sorted(self.buffered & held.keys())}

    # -- gradients --------------------------------------------------------------------------------------------------

    def _watch_gradients(self) -> None:
        if not hasattr(composite, "_pynative_func_grad_forward"):  # before MindSpore 2.9
            self.watch_compiled_gradients()
            return
        forward, backward = composite._pynative_func_grad_forward, composite._pynative_func_grad_backward

        @functools.wraps(forward)
        def observed_forward(fn: Any, *args: Any, **kwargs: Any) -> Any:
            self.depth += 1
            try:
                outputs = forward(fn, *args, **kwargs)
            finally:
                self.depth -= 1
            self.forwards.append((fn, outputs, self.depth))
            return outputs

        @functools.wraps(backward)
        def observed_backward(fn: Any, operation: Any, weights: Any, position: Any, has_aux: Any, *args: Any) -> Any:
            result = backward(fn, operation, weights, position, has_aux, *args)
            outputs, depth = self._forward_of(fn)
            part = bool(getattr(operation, "sens_param", False)) and not all_ones(args[-1])
            self._gradient(fn, operation, weights, position, has_aux, outputs, depth, result, part)
            return result

        for module in (composite, grad_func):
            module._pynative_func_grad_forward = observed_forward
            module._pynative_func_grad_backward = observed_backward

    def watch_compiled_gradients(self) -> None:
        """In graph mode, and before 2.9, forward and backward are one call: observe what that returns."""
        call = composite._Grad.__call__

        @functools.wraps(call)
        def __call__(operation: Any, fn: Any, weights: Any = None, grad_position: Any = 0) -> Any:
            compiled = call(operation, fn, weights, grad_position)
            if ms.get_context("mode") != ms.GRAPH_MODE and not getattr(operation, "pynative_", True):
                return compiled  # it calls another one that runs

            @functools.wraps(compiled)
            def observed(*args: Any, **kwargs: Any) -> Any:
                self.depth += 1
                try:
                    result = compiled(*args, **kwargs)
                finally:
                    self.depth -= 1
                value, gradients = result if operation.get_value else (None, result)
                if operation.has_aux and not operation.get_value:
                    gradients = result[0]
                self._gradient(fn, operation, weights, grad_position, operation.has_aux, value, self.depth, gradients)
                return result

            return observed

        composite._Grad.__call__ = __call__

    def _forward_of(self, fn: Any) -> tuple[Any, int]:
        for i in range(len(self.forwards) - 1, -1, -1):
            if self.forwards[i][0] is fn:
                _, outputs, depth = self.forwards.pop(i)
                return outputs, depth
        return None, self.depth

    def _gradient(
        self,
        fn: Any,
        operation: Any,
        weights: Any,
        position: Any,
        has_aux: bool,
        outputs: Any,
        depth: int,
        result: Any,
        part: bool = False,  # what follows the function was differentiated before: its output is not the loss
    ) -> None:
        roots = tensors(outputs[0] if has_aux and isinstance(outputs, tuple) else outputs)
        if any(root.dtype in HALF for root in roots):
            self.trace.meta["half"] = True
        arrays = [array for array in map(to_array, roots) if array is not None]
        names = argument_names(fn, position, operation)
        gradients = tensors(result)
        listed = [weights] if isinstance(weights, ms.Parameter) else list(weights or [])
        offset = len(gradients) - len(listed)
        entries = []
        for i, gradient in enumerate(gradients):
            weight = listed[i - offset] if 0 <= i - offset < len(listed) else None
            name = weight.name if weight is not None else (names[i] if i < len(names) else "")
            called = self._called(weight) if weight is not None else {"uid": "", "own": ""}
            entries.append({**called, "name": name, "value": self.trace.sample(to_array(gradient))})
        self.trace.add(
            "backward",
            value=float(sum(array.astype(np.float64).sum() for array in arrays)),
            scalar=bool(arrays) and all(array.size == 1 for array in arrays) and not part,
            cotangent=bool(getattr(operation, "sens_param", False)),
            depth=depth,
            gradients=entries,
        )

    # -- optimizers -------------------------------------------------------------------------------------------------

    def _watch_optimizer(self, cls: Any) -> None:
        call, construct = nn.Cell.__call__, cls.__init__

        @functools.wraps(construct)
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            construct(optimizer, *args, **kwargs)
            optimizer.__dict__.setdefault("_torch2ms_number", next(self.optimizers))

        @functools.wraps(call)
        def __call__(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            gradients = tensors(args[0] if args else next(iter(kwargs.values()), ()))
            if self.session.options.get("zero"):
                args, kwargs = (self._zeroed(optimizer, gradients),), {}
                gradients = tensors(args[0])
            before = [self.trace.sample(to_array(g)) for g in gradients]
            self.nested.begin()
            result = call(optimizer, *args, **kwargs)
            parameters = list(optimizer.parameters)
            if not self.nested.end(parameters):
                return result
            missing: list[str | None] = [None] * (len(parameters) - len(before))
            self.trace.add(
                "step",
                optimizer=optimizer.__dict__.get("_torch2ms_number", -1),
                type=type(optimizer).__name__,
                given=len(before),
                buffers=self.buffers(),
                streams=marks(),
                parameters=[
                    {**self._called(p), "gradient": g, "after": self.trace.sample(to_array(p))}
                    for p, g in zip(parameters, before + missing, strict=False)
                ],
            )
            self.session.stepped()
            return result

        cls.__init__ = __init__
        cls.__call__ = __call__

    def _called(self, parameter: Any) -> dict[str, str]:
        """What identifies a parameter on both sides, and what to call it."""
        uid = self.uid_of(parameter)
        return {"uid": uid, "own": self.own.name(parameter, not uid), "name": parameter.name}

    def _zeroed(self, optimizer: Any, gradients: list[Any]) -> tuple[Any, ...]:
        """The gradients, at zero where they are noise."""
        zero = self.session.options["zero"]
        return tuple(
            ms.ops.masked_fill(g, ms.ops.abs(g) <= zero[key], 0.0) if (key := key_of(self._called(p))) in zero else g
            for p, g in zip(optimizer.parameters, gradients, strict=False)
        )

    def _watch_precision(self) -> None:
        def marks(owner: Any, name: str, asked: Callable[..., bool]) -> None:
            original = getattr(owner, name)

            @functools.wraps(original)
            def observed(*args: Any, **kwargs: Any) -> Any:
                if asked(*args, **kwargs):
                    self.trace.meta["half"] = self.trace.meta["autocast"] = True
                return original(*args, **kwargs)

            setattr(owner, name, observed)

        for name in ("auto_mixed_precision", "custom_mixed_precision", "build_train_network"):
            marks(ms.amp, name, lambda *a, **k: True)
        marks(nn.Cell, "to_float", lambda _, dtype: dtype in HALF)


def preload() -> None:
    """Import what the side needs besides MindSpore itself."""
    importlib.import_module("torch2ms.verify.sides.mindspore_draws")


def install(session: Session) -> tuple[Callable[[Any], Array | None], Callable[[], None]]:
    """Instrument MindSpore; returns the tensor reader and what to call when the program has ended."""
    from torch2ms.verify.sides.mindspore_draws import MindSporeDraws

    options = session.options
    # what MindSpore writes about code that it cannot compile belongs beside the trace, not into the user's folder
    os.environ.setdefault("MS_OM_PATH", str(Path(options["out"]).parent))
    device = options.get("device", "CPU")
    if device != "CPU":
        try:
            ms.set_device(device)
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            raise Unavailable(f"device {device} is not available: {first}") from error
    ms.set_context(mode=ms.GRAPH_MODE if options.get("mode") == "graph" else ms.PYNATIVE_MODE)
    ms.runtime.launch_blocking()  # a kernel's error then belongs to the line that asked for it
    ms.set_seed(0)
    if not options.get("compiled", True):
        run_uncompiled()
    refined = compute_finely() if options.get("fine") else set()
    side = MindSporeSide(session)
    side.install()
    if options.get("mode") == "graph":
        side.watch_compiled_gradients()
        session.trace.meta["graph"] = True
    stream = side.stream
    if stream:
        MindSporeDraws(stream, side.quiet).install()

    if options.get("locate") is not None:
        _watch_statements(side, session)

    def finish() -> None:
        session.trace.meta["refined"] = sorted(refined)
        side.finish()
        if stream:
            stream.finish()

    return to_array, finish


def _watch_statements(side: MindSporeSide, session: Session) -> None:
    def hook(tensor: Any, seen: Callable[[Any], None]) -> None:
        if not isinstance(tensor, ms.Parameter):
            tensor.register_hook(seen)

    statements = Statements(session, to_array, hook)

    def watch(cls: Any) -> None:
        construct = cls.construct

        @functools.wraps(construct)
        def observed(cell: Any, *args: Any, **kwargs: Any) -> Any:
            output = construct(cell, *args, **kwargs)
            found = next((record for record, layer in side.layers if layer is cell), None)
            if found is not None and type(cell) is cls:
                statements.layer(found["id"], f"nn.{cls.__name__}", output)
            return output

        cls.construct = observed

    for cls in side.watched:
        watch(cls)
    statements.start()
