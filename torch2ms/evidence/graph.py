"""Which API rules hold in compiled functions: `python -m torch2ms.evidence.graph` writes rules/graph.toml.

Every probe of the rules becomes a module with a function under `@ms.jit`; what the probe constructs without its inputs
(layers, losses) stands outside the function, as it does in programs. `--jit` compiles nothing that is not in the table.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torch2ms.api import Rules, definitions
from torch2ms.api.imports import IMPORTS
from torch2ms.data import rules_dir
from torch2ms.evidence.compare import forward_difference, gradient_difference
from torch2ms.evidence.matrix import Probe, probes_of
from torch2ms.evidence.probes import read_cases
from torch2ms.evidence.processes import header, run_side
from torch2ms.evidence.sides import inputs

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


def holding(measured: Sequence[tuple[Probe, str]]) -> list[str]:
    """The rules that every probe shows right, but for those where another rule is to blame: the one that fails most."""
    shown: dict[str, list[bool]] = {}
    for probe, problem in measured:
        for name in {name for name, _ in probe.taken}:
            shown.setdefault(name, []).append(not problem)
    share = {name: sum(results) / len(results) for name, results in shown.items()}
    wrong: set[str] = set()
    for probe, problem in measured:
        names = {name for name, _ in probe.taken}
        if problem and names:
            lowest = min(share[name] for name in names)
            wrong |= {name for name in names if share[name] == lowest}
    return sorted(set(shown) - wrong)


def holding_bare(measured: Sequence[tuple[Probe, str]], holds: Sequence[str]) -> list[str]:
    """Of the other rules, those that hold where they are called without arguments: `nn.CrossEntropyLoss()`."""
    shown: dict[str, list[bool]] = {}
    for probe, problem in measured:
        for name in {name for name, _ in probe.taken} - set(holds):
            layer = name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper()
            if layer and f"{name.rpartition('.')[2]}()" in probe.case.text:
                shown.setdefault(name, []).append(not problem)
    return sorted(name for name, results in shown.items() if all(results))


def table(measured: Sequence[tuple[Probe, str]], version: str) -> str:
    """The text of rules/graph.toml."""
    holds = holding(measured)
    lines = [
        f"# Rules whose probes give torch's values and gradients in a compiled function, MindSpore {version} on CPU,",
        "# by `python -m torch2ms.evidence.graph`; `bare` holds those that do so only when called without arguments.",
    ]
    for key, names in (("holds", holds), ("bare", holding_bare(measured, holds))):
        lines += ["", f"{key} = [", *(f'    "{name}",' for name in names), "]"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the table."""
    rules = Rules.load()
    probes = [
        p for p in probes_of(read_cases(), rules) if p.case.mode != "=" and not any(word in p.text for word in OUTSIDE)
    ]
    with tempfile.TemporaryDirectory(prefix="torch2ms-graph-") as name:
        version = header("mindspore", Path(name))["version"]
        measured = measure(probes, Path(name))
    for probe, problem in measured:
        if problem:
            print(f"{probe.case.place}: {probe.text}: {problem}", file=sys.stderr)
    (rules_dir() / "graph.toml").write_text(table(measured, version), encoding="utf-8")
    print(f"\n{len(holding(measured))} rules hold in {len(measured)} probes", file=sys.stderr)


if __name__ == "__main__":
    main()
