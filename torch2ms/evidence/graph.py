"""Which API rules hold in compiled functions: `python -m torch2ms.evidence.graph` writes rules/graph.toml.

Every probe of the rules becomes a module with a function under `@ms.jit`; what the probe constructs without its inputs
(layers, losses) stands outside the function, as it does in programs. `--jit` compiles nothing that is not in the table.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from torch2ms.api import Rules, definitions
from torch2ms.api.imports import IMPORTS
from torch2ms.evidence.compare import forward_difference, gradient_difference
from torch2ms.evidence.matrix import Probe, probes_of
from torch2ms.evidence.probes import read_cases
from torch2ms.evidence.processes import run_side
from torch2ms.evidence.sides import inputs
from torch2ms.evidence.tables import Found, holding, holding_bare, text, write

# what does not stand in a forward function, or is Python that is not compiled in any
OUTSIDE = ("steps(", "optim.", "lr_scheduler.", "initializer", "Dataset", "ms.grad", "ms.vjp", "ms.jac", "set_seed",
           "lambda", " for ", "_hook(")  # fmt: skip
HEAD = """from torch2ms.evidence.sides import values_of


def filled(net):
    for name, parameter in net.parameters_and_names():
        if parameter.requires_grad:
            parameter.set_data(ms.Tensor(values_of(name, tuple(parameter.shape))))
    return net.set_train()


"""


class _Outside(ast.NodeTransformer):
    """Takes calls that make a layer without an input out of an expression."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.made: list[str] = []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Call) and not _names(node.func) & self.names:
            self.made.append(ast.unparse(node.func))
            node.func = ast.Name(f"layer_{len(self.made) - 1}", ast.Load())
        return node


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def program(text: str) -> tuple[str, list[str]] | None:
    """The module of a probe, and the arguments of its `run`; None where there is nothing to compile."""
    statements = ast.parse(text.replace("; ", "\n").replace(";", "\n")).body
    known = set(inputs())
    bound: set[str] = set()
    outside: list[str] = []
    used = [n for n in dict.fromkeys(x.id for s in statements for x in ast.walk(s) if isinstance(x, ast.Name))]
    while len(statements) > 1 and not _names(statements[0]) & known:
        outside.append(ast.unparse(statements[0]))
        bound |= _names(statements.pop(0))
    arguments = [n for n in used if n in known and n not in bound]
    last = statements[-1]
    if not arguments or not isinstance(last, ast.Expr):
        return None
    taker = _Outside(set(arguments) | {n for s in statements for n in _names(s) if isinstance(s, ast.Assign)})
    inside = [ast.unparse(taker.visit(s)) for s in statements[:-1]]
    inside.append(f"return {ast.unparse(taker.visit(last.value))}")
    outside += [f"layer_{i} = {made}" for i, made in enumerate(taker.made)]
    body = "\n".join(f"    {line}" for part in inside for line in part.splitlines())
    brought = [f"{d.text}\n\n" for d in definitions.closure(set(used) & definitions.table().keys())]
    lines = [*sorted(set(IMPORTS.values())), "", "", *brought, HEAD + "\n".join(outside), "", "", "@ms.jit"]
    return "\n".join([*lines, f"def run({', '.join(arguments)}):", body, ""]), arguments


def measure(probes: Sequence[Probe], folder: Path) -> list[tuple[Probe, str]]:
    """Every probe that can be compiled, with how torch and the compiled function differ ("": they do not)."""
    jobs, kept = [], []
    left = run_side("torch", [{"text": p.case.text, "grad": p.case.grad} for p in probes], folder)
    for number, (probe, one) in enumerate(zip(probes, left, strict=True)):
        made = program(probe.text)
        if made is None or "error" in one:
            continue
        (folder / f"probe_{number}.py").write_text(made[0], encoding="utf-8")
        text = f"import probe_{number}; probe_{number}.run({', '.join(made[1])})"
        jobs.append({"text": text, "grad": probe.case.grad, "counted": one["counted"]})
        kept.append((probe, one))
    right = run_side("mindspore", jobs, folder, told=lambda n: print(".", end="", flush=True))
    found = []
    for (probe, one), other in zip(kept, right, strict=True):
        problem = forward_difference(one, other, probe.case.mode == "~")
        if problem is None and probe.case.mode != "~" and any(one["counted"]):
            problem = gradient_difference(one, other)
        found.append((probe, problem or ""))
    return found


def table(found: Found, version: str) -> str:
    """The text of rules/graph.toml."""
    holds = holding(found)
    head = [
        f"Rules whose probes give torch's values and gradients in a compiled function, MindSpore {version} on CPU,",
        "by `python -m torch2ms.evidence.graph`; `bare` holds those that do so only when called without arguments.",
    ]
    return text(head, {"holds": holds, "bare": holding_bare(found, holds)})


def main() -> None:
    """Measure and write the table."""
    every = probes_of(read_cases(), Rules.load())
    probes = [p for p in every if p.case.mode != "=" and not any(word in p.text for word in OUTSIDE)]
    write("graph", lambda folder: measure(probes, folder), table)


if __name__ == "__main__":
    main()
