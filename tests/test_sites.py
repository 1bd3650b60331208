"""Nothing falls between: every place where a source touches the tape ends in a finding, and none is left unmarked.

Set TORCH2MS_SITES to a folder to walk the Python files below it as well, as one project.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.sites import sites as counted
from tests.fixture_cases import FixtureCase, all_cases, convert, converted
from torch2ms import Result, Tier

METHODS = {"backward", "zero_grad", "detach", "detach_", "register_hook", "retain_grad"}
HOOKS = re.compile(r"register_(full_|forward_|backward_|state_dict_)*(pre_)?hook$")
MODES = {"no_grad", "enable_grad", "set_grad_enabled", "inference_mode"}
GRADIENT_CALLS = {"grad", "backward", "jacobian", "hessian", "vjp", "jvp", "hvp", "vhp"}
LEFT = {"backward", "zero_grad", "requires_grad_", "detach_", "retain_grad"}
TREE = os.environ.get("TORCH2MS_SITES", "")


def chain(node: ast.AST) -> str:
    """`a.b.c` of an attribute chain, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = chain(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""


def imported(tree: ast.Module) -> dict[str, str]:
    """Local names that mean something of torch, and modules of other libraries with ""."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.split(".")[0]
                found[alias.asname or head] = "" if head != "torch" else alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch" and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def site(node: ast.AST, names: dict[str, str], own: set[str]) -> str:
    """What a node does to the tape, "" if nothing; `own` are the functions of the file."""
    if isinstance(node, ast.ClassDef):
        bases = [full(chain(base), names) for base in node.bases]
        return "Function" if "torch.autograd.Function" in bases or "torch.autograd.function.Function" in bases else ""
    if not isinstance(node, ast.Call):
        return full(chain(node), names) if full(chain(node), names).rpartition(".")[2] in MODES else ""
    name = full(chain(node.func), names)
    if name:
        called = name.startswith(("torch.autograd.", "torch.func.")) and name.rpartition(".")[2] in GRADIENT_CALLS
        return name if called else ""
    if not isinstance(node.func, ast.Attribute):
        return ""
    last, held = node.func.attr, chain(node.func.value)
    if held == "self" and last in own or names.get(held.partition(".")[0]) == "":
        return ""  # what the file itself defines, or a library
    if f"{held.rpartition('.')[2].lower()}.{last}" in own:
        return ""  # `self.precision.zero_grad()` of a class `Precision` of the file, whose method is asked itself
    if last == "backward" and node.args and last in own or last == "register_hook" and not hooks(node, own):
        return ""
    if last in METHODS or HOOKS.match(last):
        return f".{last}()"
    return ".step()" if last == "step" and "step" not in own and "opt" in held.lower() else ""


def hooks(node: ast.Call, own: set[str]) -> bool:
    """What is registered is a function: trainers and registries have a `register_hook` for objects."""
    given = node.args[0] if len(node.args) == 1 else None
    return isinstance(given, ast.Lambda) or given is not None and chain(given).rpartition(".")[2] in own


def full(name: str, names: dict[str, str]) -> str:
    """What a chain means of torch, "" where it means nothing of it."""
    head, _, rest = name.partition(".")
    return "" if not names.get(head) else f"{names[head]}.{rest}" if rest else names[head]


def takes_gradients(node: ast.AST) -> bool:
    """`loss.backward()`, `autograd.grad(...)`; no call of a kernel, nor of the method of a class."""
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "grad" and "autograd" in chain(func)


def statements(tree: ast.Module, whole: set[int]) -> Iterator[tuple[ast.AST, int, int]]:
    """Every node with the lines of the innermost statement it stands in (a compound one: its header).

    Classes that begin in one of the lines `whole` stay as they are: a finding speaks for all but the gradients that
    they take. What a context saves is the business of its class.
    """

    def visit(node: ast.AST, span: tuple[int, int]) -> Iterator[tuple[ast.AST, int, int]]:
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            last = getattr(body[0], "lineno", node.lineno + 1) if isinstance(body, list) else 0
            span = (first, max(last - 1, node.lineno) if body else node.end_lineno or node.lineno)
        yield node, *span
        stays = isinstance(node, ast.ClassDef) and not whole.isdisjoint(range(span[0], span[1] + 1))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "save_for_backward":
            return
        for child in ast.iter_child_nodes(node):
            inner = visit(child, span)
            yield from (i for i in inner if takes_gradients(i[0])) if stays else inner

    yield from visit(tree, (0, 0))


def unaccounted(result: Result) -> list[str]:
    """Sites of the source without a finding, and sites left in the output that no refusal speaks of."""
    tree = ast.parse(result.source)
    names = imported(tree)
    functions = {id(f) for n in ast.walk(tree) if site(n, names, set()) == "Function" for f in n.body}  # type: ignore
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and id(n) not in functions}
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    own |= {f"{c.name.lower()}.{f.name}" for c in classes for f in c.body if isinstance(f, ast.FunctionDef)}
    lines = {finding.line for finding in result.findings}
    whole = {f.line for f in result.findings if f.code == "T2M402"}
    missing = []
    for node, first, last in statements(tree, whole):
        what = site(node, names, own)
        if what and not lines & set(range(first, last + 1)):
            missing.append(f"line {first}: {what} has no finding")
    if any(finding.tier is Tier.REFUSED for finding in result.findings):
        return missing
    output = ast.parse(result.text)
    mine = {n.name for n in ast.walk(output) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    for node in ast.walk(output):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in LEFT - mine:
            missing.append(f"line {called.lineno} of the output still has {ast.unparse(called)}")
        if not isinstance(node, ast.Attribute):
            continue
        gradient = node.attr in ("grad", "grad_fn") and chain(node) not in ("ms.grad", "mindspore.grad")
        if gradient or chain(node).split(".")[0] == "torch":
            missing.append(f"line {node.lineno} of the output still has {ast.unparse(node)}")
    return missing


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_every_site_is_accounted_for(case: FixtureCase) -> None:
    found = {path: unaccounted(result) for path, result in converted(case).items() if not result.error}
    assert {path: sites for path, sites in found.items() if sites} == {}


@pytest.mark.skipif(not TREE, reason="for trees that do not ship: set TORCH2MS_SITES to a folder of programs")
def test_every_site_of_another_tree_is_accounted_for() -> None:
    root = Path(TREE)
    texts = {}
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        if "torch" in text:
            texts[path.relative_to(root).as_posix()] = text
    assert texts, f"no program of torch below {TREE}"
    found = {path: unaccounted(result) for path, result in convert(texts).items() if not result.error}
    assert {path: sites for path, sites in found.items() if sites} == {}


def test_the_count_of_sites_is_one_for_each_call() -> None:
    source = (
        "import torch\n\nnet = torch.nn.Linear(2, 1)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for x in [torch.ones(3, 2)]:\n    opt.zero_grad()\n    net(x).sum().backward()\n    opt.step()\n\n\n"
        "def back(self, loss):\n    loss.backward()\n"
    )
    found = counted(convert({"a.py": source, "b.py": "import torch\nx = (\n"}))
    assert {place: tier for place, tier, _ in found} == {"a.py:7": "exact", "a.py:12": "refused", "b.py": "failed"}
