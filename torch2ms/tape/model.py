"""What the model of the tape speaks of: events, the owners of gradients and their states, calls that hide events.

An event is something that a statement does to gradients, an owner someone whose gradients are loaded. Where a function
that a statement calls does it, the event has what is known of that call: gradients that the function takes from its
callers (`Taking`), a loss that it differentiates for them (`Handing`), a closure, or an episode of several calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.sites import Site
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import UNKNOWN, Value, any_nested, any_overlap

ENTRY = -1  # the event that stands for whatever callers left behind


@dataclass(frozen=True)
class State:
    """What an owner's gradients may hold: (event number, carried) pairs, and whether they may be empty.

    `parted` are the clears since that emptied the gradients of some of its parameters; `swapped`: they are those of a
    network that the name no longer stands for; `filled`: they are not empty where each loop before runs at least once.
    """

    held: frozenset[tuple[int, bool]] = frozenset()
    empty: bool = True
    parted: frozenset[int] = frozenset()
    swapped: bool = False
    filled: bool = False

    def __or__(self, other: State) -> State:
        held, parted = self.held | other.held, self.parted | other.parted
        filled = self.some and other.some
        return State(held, self.empty or other.empty, parted, self.swapped or other.swapped, filled)

    def carried(self) -> State:
        return replace(self, held=frozenset((e, True) for e, _ in self.held))

    @property
    def fresh(self) -> bool:
        return not self.held

    @property
    def some(self) -> bool:
        return self.filled or not self.empty


LEFT_OVER = State(frozenset({(ENTRY, True)}), True)  # whatever other calls left behind, perhaps nothing


@dataclass(eq=False)
class Event:
    """Something a statement does to gradients.

    `kind`: backward, gradcall, clear, step, clip_norm, clip_value, grad_loop, fill, leaf_grad, scaler_step,
    scaler_update, unscale; handed, a call of a function that goes backward from its argument; taken, one that uses
    gradients; touch, one that may do anything to gradients that an optimizer keeps.
    `place` is the optimizer, module or leaf it happens to; `roots` are the differentiated expressions.
    """

    kind: str
    stmt: Stmt
    node: cst.CSTNode
    place: str = ""
    value: Value = UNKNOWN
    roots: list[cst.BaseExpression] = field(default_factory=list)
    cotangents: list[cst.BaseExpression | None] = field(default_factory=list)
    inputs: cst.BaseExpression | None = None
    create_graph: bool = False
    retain_graph: bool = False
    scaler: str = ""
    off: bool = False  # its scaler is switched off: it does nothing
    branches: list[Stmt] = field(
        default_factory=list
    )  # the two backward calls, where `stmt` is the `if` that holds them
    scaled: cst.BaseExpression | None = None  # ... its condition
    inverse: bool = False  # ... and the loss is scaled where it does not hold
    writes: bool = False
    lifted: bool = False  # it happens in a function that the statement calls
    called: bool = False  # ... which does nothing else to gradients
    partial: bool = False  # a clear that leaves gradients of other parameters of its place
    zeroed: bool = False  # a clear in a called function that leaves zeros, not nothing
    taking: Taking | None = None  # the call uses gradients
    handing: Handing | None = None  # the call hands a loss on
    closure: Closure | None = None  # the gradients leave with the value that the statement returns
    episode: Episode | None = None  # the call goes backward from what other calls kept, and steps
    beside: str = ""  # what takes the values that the called function returns beside the root
    through: str = ""  # the optimizer inside an optimizer of the program that takes its step
    told: Stmt | None = None  # the statement that findings name, where it stands inside of `stmt`
    name: str = ""  # the name that takes the value of the root, where the root is a call
    # of a lifted one: names that its function reads from outside, and what each of them is varied with
    captured: dict[str, frozenset[str]] = field(default_factory=dict)
    # of a touch: what it leaves, by place of the optimizer; None: what was there
    effects: dict[str, State | None] = field(default_factory=dict)
    absorbed: list[Event] = field(default_factory=list)  # other backward calls that happen together with this one
    problem: str = ""  # why the statement cannot be translated, whatever is around it
    # of a question which parameters have a gradient: the places that may have none; None where it does not matter
    without: frozenset[str] | None = None
    # of a loop over layers of a network: the gradients that it uses of each
    layers: list[tuple[Stmt, cst.Attribute]] = field(default_factory=list)

    @property
    def lineno(self) -> int:
        return (self.told or self.stmt).lineno


@dataclass(eq=False)
class Owner:
    """Someone whose gradients are loaded. `owns` are the places whose parameters it holds, None where not seen."""

    kind: str  # optimizer, module, leaf
    place: str
    owns: frozenset[str] | None
    before: dict[int, State] = field(default_factory=dict)  # state before each event, by event number
    exit: State = State()
    assumed: set[str] = field(default_factory=set)
    variable: str = "grads"  # the name that holds its gradients in the output
    accumulating: bool = False
    plain: bool = False  # an optimizer that leaves a parameter with zero gradient where it is
    ordered: bool = False  # an optimizer that was made of the parameters of one module, in their order
    initial: bool = False  # its gradient may be looked at while there is none
    left: bool = False  # a leaf's name was bound to another tensor, or the scope ended, and it held a gradient
    inside: bool = False  # a leaf that is made within the forward of others: its gradient is not told
    unmade: bool = False  # an optimizer that is made after gradients of its parameters were taken
    weights: str = ""  # how its parameters are written, where that is not how its kind has it
    starred: bool = False  # a leaf that is a list of tensors, which are differentiated one by one
    parameter: bool = False  # a leaf that other functions see: a Parameter, differentiated by weight
    stored: bool = False  # its gradients live in an attribute of the optimizer, from one call to the next
    entry: State = LEFT_OVER  # ... and hold this when the scope is entered
    made: frozenset[int] = frozenset()  # ... ids of statements that make the optimizer
    group: tuple[str, int, str] = ("", 0, "")  # ... one of those that may be the same
    bound: dict[int, bool] = field(default_factory=dict)  # statements that bind its networks, see `renewed.bindings`
    emptied: set[int] = field(default_factory=set)  # ... those that bind new ones while the former had gradients
    in_turn: frozenset[str] = frozenset()  # ... parameters of the scope that stand for its modules, one by one
    absent: frozenset[int] = frozenset()  # ids of questions ahead of backward calls whether it is None, see `absent`
    looked_at: bool = False  # ... it may be None, and its gradients are looked at without asking
    stem: str = ""  # ... what names that are made from its variable begin with

    @property
    def base(self) -> str:
        """The name of its gradients, without the object that has them."""
        return self.stem or self.variable

    def takes(self, deps: frozenset[str]) -> bool:
        """Whether a backward through a root that is varied with `deps` stores into this owner."""
        real = frozenset(d for d in deps if not d.startswith("@"))
        if self.owns is None or not real:
            return True
        return any_overlap(self.owns, real)

    def filled_by(self, event: Event) -> bool:
        """Whether a loop that fills gradients runs over the parameters of this owner, in its order."""
        filled = event.value.deps or {event.place}
        return self.owns is not None and len(self.owns) == 1 and self.owns == filled

    def cleared_by(self, event: Event, alone: bool) -> bool:
        """Whether a clear empties this owner; a relation that is not seen is assumed where the names speak for it."""
        if event.place == self.place:
            return True
        if event.value.kind == "object" and self.place.startswith(f"{event.place}."):
            self.assumed.add(f"`{event.place}.zero_grad` clears the gradients of `{self.place}`")
            return True
        cleared = emptied(event)
        if self.owns is not None and cleared is not None:
            if self.met(event):
                return True
            if not any(c.startswith("^") for c in self.owns):
                return False
        if not alone and self.kind == event.value.kind == "optimizer":
            return False  # `q1_optimizer` and `q2_optimizer` are two
        if alone or token(event.place) == token(self.place):
            self.assumed.add(f"`{event.place}` holds the parameters of `{self.place}`")
            return True
        return False

    def cleared_in_part(self, events: Sequence[Event]) -> bool:
        """Clears, one after the other, that leave gradients of some of its parameters."""
        sets = [emptied(event) for event in events]
        if self.owns is None or any(e.place == self.place for e in events) or None in sets:
            return False
        places = frozenset[str]().union(*(s for s in sets if s is not None))
        all_of_them = all(any(o == c or o.startswith(f"{c}.") for c in places) for o in self.owns)
        covered = all_of_them and not any(e.partial for e in events)
        return not covered and any(self.met(event) for event in events)

    def met(self, event: Event) -> bool:
        """Whether a clear drops gradients of some of its parameters."""
        shared = any_nested if event.value.kind == "optimizer" else any_overlap
        return shared(emptied(event) or frozenset(), self.owns or frozenset())


def emptied(event: Event) -> frozenset[str] | None:
    """The places whose gradients a clear drops, None where they are not seen."""
    value = event.value
    if value.deps and (value.kind in ("params", "named_params", "list", "param") or value.name == "module_param"):
        return value.deps  # of a layer what it is of its network, whatever a loop calls the layer
    if value.kind == "module" and (value.owns or value.items):
        return value.own  # with the modules that it was built around
    if value.kind in ("params", "named_params", "list", "module", "tensor", "unknown", "object", "param"):
        return frozenset({event.place}) if event.place else value.deps or None
    return value.owns if value.kind == "optimizer" else None


_WORDS = re.compile(r"self|optimi[sz]ers?|optim|opt|models?|networks?|nets?|[._]", re.I)


def token(place: str) -> str:
    """What tells a place from others beside the usual words: `D` of `optimizer_D` and of `self.netD`."""
    return _WORDS.sub("", place).lower()


@dataclass(eq=False)
class Taken:
    """What a function does with gradients that its callers took. `gives`: it changes them, and returns them."""

    info: FunctionInfo
    owners: list[Owner]
    variables: dict[str, str]  # place of an owner -> the parameter that brings its gradients
    gives: bool
    clears: bool
    returns: list[Stmt]  # the return statements that hand out something already
    clears_if: str = ""  # the parameter that says whether it clears them
    asks: bool = False  # it asks which parameters have a gradient, and the answers show
    clips: bool = False  # it does nothing else than to clip them: their order plays no part
    loads: list[Event] = field(default_factory=list)
    steps: bool = False  # it is the step of an optimizer: calls of the optimizer reach it, and take nothing back


@dataclass(eq=False)
class Taking:
    """One call of such a function, in the caller's words: the place and value behind each owner."""

    taken: Taken
    call: cst.Call
    clears: bool
    places: list[tuple[str, Value]] = field(default_factory=list)


@dataclass(eq=False)
class Handed:
    """A parameter whose graph callers made, and the optimizers that use its gradients.

    `clears`: what was in the gradients before does not matter; `leaves`: they are not empty afterwards.
    """

    info: FunctionInfo
    backward: Event
    root: str
    playback: str
    owners: list[Owner]
    clears: bool
    leaves: bool
    called: bool = True  # a caller is seen


@dataclass(eq=False)
class Handing:
    """One call that hands a loss on: `argument` is the loss, `weights` the parameters to differentiate."""

    handed: Handed
    call: cst.Call
    argument: cst.Arg
    optimizers: list[cst.BaseExpression | str]  # of the caller, in the order of the callee's owners
    places: frozenset[str] = frozenset()
    owns: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def weights(self) -> tuple[str, list[cst.CSTNode]]:
        """The weights as a template, and the expressions that fill it."""
        parts: list[str] = []
        nodes: list[cst.CSTNode] = []
        for optimizer in self.optimizers:
            if isinstance(optimizer, str):
                parts.append(f"{optimizer}.parameters")
            else:
                parts.append(f"{{{len(nodes)}}}.parameters")
                nodes.append(optimizer)
        return " + ".join(parts), nodes


@dataclass(eq=False)
class Closure:
    """A closure that takes its gradients itself: `place` is the optimizer, in its words and in those of the step."""

    place: str
    value: Value
    returns: Stmt
    steps: list[Event]
    refused: bool = False

    def load(self) -> Event:
        """The gradients leave with what is returned: to the ledger, a step."""
        assert isinstance(self.returns.node, cst.Return) and self.returns.node.value is not None
        return Event("step", self.returns, self.returns.node.value, self.place, self.value, closure=self)


@dataclass(eq=False)
class Episode:
    """The function, what it does to gradients, and the one call of it with the statements that belong to it."""

    info: FunctionInfo
    backward: Event
    step: Event
    clips: list[Event]  # between the two
    clears: list[Event]
    returns: Stmt | None
    result: str = ""  # what it returned, of the loss `{}`; "" for nothing
    site: Site = None  # type: ignore[assignment]
    name: str = ""  # of the loss in the caller
    place: str = ""  # of the optimizer in the caller
    owner: Value = UNKNOWN
    deps: frozenset[str] = frozenset()
    stmts: list[Stmt] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)

    @property
    def root(self) -> str:
        return dotted(self.backward.roots[0])

    def events(self) -> list[Event]:
        """The call as events of its caller."""
        stmt, call = self.site.stmt, self.site.call
        clear = Event("clear", stmt, call, self.place, self.owner, lifted=True)
        backward = Event("backward", stmt, call, value=Value("tensor", deps=self.deps), roots=[call], cotangents=[None],
                         lifted=True, episode=self)  # fmt: skip
        step = Event("step", stmt, call, self.place, self.owner, lifted=True, episode=self)
        return [clear, backward, step]

    @property
    def kept(self) -> bool:
        """The call is a part of a statement that stays."""
        node = self.site.stmt.node
        return not (isinstance(node, cst.Expr) and node.value is self.site.call) and self.target != self.name

    @property
    def target(self) -> str:
        """The name that takes what the call returns."""
        node = self.site.stmt.node
        if isinstance(node, cst.Assign) and node.value is self.site.call and len(node.targets) == 1:
            target = node.targets[0].target
            return target.value if isinstance(target, cst.Name) else ""
        return ""
