"""Code that a program wrote: deep, long, growing; each file ends in time, with a translation or with a sentence."""

from __future__ import annotations

import gc
import sys
import threading
import time

import pytest

from tests.fixture_cases import FIXTURES, FixtureCase
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.bounds import TookTooLong, deep_recursion, seconds_for, seconds_for_all, time_limit
from torch2ms.config import Config
from torch2ms.pipeline import convert_project
from torch2ms.report import json, text
from torch2ms.run import Outcome, convert_guarded
from torch2ms.tape import scope_planner
from torch2ms.tape.plan import Plan, Text
from torch2ms.tree import Item

HEAD = "import torch\n\nx = torch.ones(3)\n"


def nested(header: str, depth: int) -> str:
    return "".join(f"{'  ' * n}{header}\n" for n in range(depth)) + "  " * depth + "y = torch.relu(x)\n"


CONVERTED = {
    "parentheses": "y = " + "(" * 150 + "torch.relu(x)" + ")" * 150 + "\n",
    "calls in calls": "y = " + "torch.relu(" * 60 + "x" + ")" * 60 + "\n",
    "a sum": "y = " + " + ".join(["torch.relu(x)"] * 200) + "\n",
    "elif": "if x is 0:\n    pass\n" + "".join(f"elif x is {n}:\n    y = torch.relu(x)\n" for n in range(300)),
    "ifs": nested("if x is not None:", 60),
    "loops": nested("for i in range(3):", 18),
    "withs": nested("with torch.no_grad():", 15),
    "one line": "; ".join(["y = torch.relu(x)"] * 500) + "\n",
    "arguments": "y = dict(" + ", ".join(f"a{n}=torch.relu(x)" for n in range(200)) + ")\n",
    "doubled tuples": "t = x\n" + "t = (t, t)\n" * 60 + "y = torch.relu(x)\n",
    "doubled lists": "t = [x]\n" + "t = t + t\n" * 60 + "y = torch.relu(x)\n",
    "layers of the same layers": "import torch.nn as nn\n\n\n"
    + "".join(
        f"class N{n}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        + (f"        self.a, self.b = N{n - 1}(), N{n - 1}()\n" if n else "        self.a = nn.Linear(2, 2)\n")
        + "\n    def forward(self, x):\n        return "
        + ("self.b(self.a(x))\n\n\n" if n else "self.a(x)\n\n\n")
        for n in range(40)
    )
    + "net = N39()\ny = net(torch.relu(x))\n",
    "doubled returns": "def f0(a):\n    return a, a\n\n\n"
    + "".join(f"def f{n}(a):\n    return f{n - 1}(a), f{n - 1}(a)\n\n\n" for n in range(1, 50))
    + "y = torch.relu(x)\n",
}
LEFT = {
    "brackets": ("y = " + "(" * 3000 + "torch.relu(x)" + ")" * 3000 + "\n", "line 4: syntax error: too many nested"),
    "a long sum": ("y = (\n" + "    x +\n" * 3000 + "    torch.relu(x)\n)\n", "line 4: it is nested too deeply"),
    "links": ("if x" + ".relu()" * 3000 + ":\n    y = x\n", "line 4: it is nested too deeply"),
    "signs": ("y = " + "-" * 20000 + "x\n", "nested too deeply"),
    "patterns": (
        "match x:\n  case " + "[" * 30 + "a" + "]" * 30 + ":\n    y = torch.relu(x)\n",
        "line 5: it is nested",
    ),
    "too many loops": (nested("for i in range(3):", 25), "the source is not valid Python"),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_long_and_deep_code_is_translated(name: str) -> None:
    result = convert_guarded({"a.py": HEAD + CONVERTED[name]}, Config())["a.py"]
    assert not result.error
    assert "ops.relu(x)" in result.text and "torch" not in result.text


RUNS = {
    "lines": "\n" * 100_000, "spaces": " \n" * 50_000,
    "brackets": f"d = '{'a[' * 50_000}'\n", "letters": f"d = '{'a' * 100_000}'\n",
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_long_runs_of_the_same_are_gone_through_once(name: str) -> None:
    """Twenty seconds and more for patterns that begin anew at each letter; no limit of time stops one of them."""
    source = f"{RUNS[name]}import torch\n\nx = torch.ones(3)\nopt = torch.optim.SGD([x], lr=0.1)\nopt.step()\n"
    start = time.process_time()
    result = convert_guarded({"a.py": source}, Config())["a.py"]
    assert time.process_time() - start < 10
    assert not result.error and result.changed


@pytest.mark.parametrize("name", LEFT)
def test_what_is_too_deep_is_left_alone_and_the_others_are_translated(name: str) -> None:
    text, message = LEFT[name]
    sources = {"a.py": HEAD + text, "b.py": "import a\n" + HEAD}
    results = convert_guarded(sources, Config())
    assert message in results["a.py"].error
    assert results["a.py"].text == sources["a.py"]
    assert results["b.py"].changed and not results["b.py"].error


def test_time_is_bounded_for_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers of Exception in between do not keep the conversion alive."""

    def slow(sources: dict[str, str], config: Config) -> dict[str, object]:
        while "slow.py" in sources:
            try:
                time.sleep(0.01)
            except Exception:
                pass
        return dict(convert_project(sources, config))

    monkeypatch.setattr("torch2ms.pipeline.convert_project", slow)
    monkeypatch.setenv("TORCH2MS_TIMEOUT", "0.5")
    results = convert_guarded({"slow.py": HEAD, "b.py": HEAD}, Config())
    assert results["slow.py"].error == "its translation takes longer than 0 s; it is left as it is"
    assert results["b.py"].changed


def test_the_limit_ends_with_its_block_and_in_its_thread() -> None:
    with time_limit(0.05):
        pass
    time.sleep(0.1)
    stopped: list[bool] = []

    def work() -> None:
        try:
            with time_limit(0.05):
                while True:
                    time.sleep(0.01)
        except TookTooLong:
            stopped.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert stopped == [True]


@pytest.mark.parametrize(
    "case", ["vision/mnist_cnn", "gan/dcgan", "text/char_rnn", "project/actor_critic", "project/agent_modes"]
)
def test_nothing_is_left_to_the_cyclic_collector(case: str) -> None:
    """Trees and what is known of them refer to each other; a conversion takes that apart when it is done."""
    sources = FixtureCase(FIXTURES / case).texts("original")
    convert_project(sources, Config())  # what is read once stays
    gc.collect()
    gc.disable()
    try:
        convert_project(sources, Config())
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = {type(thing).__module__ for thing in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not [kind for kind in kinds if kind.startswith(("torch2ms", "libcst"))]


def test_the_recursion_limit_comes_back() -> None:
    before = sys.getrecursionlimit()
    with deep_recursion(), deep_recursion():
        assert sys.getrecursionlimit() >= 5000
    assert sys.getrecursionlimit() == before


def test_time_grows_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH2MS_TIMEOUT", raising=False)
    assert seconds_for("") == 60
    assert seconds_for("\n" * 100_000) == 2060
    assert seconds_for_all([""] * 1000) == 300  # a project is not given a minute for each small file
    assert seconds_for_all(["\n" * 50_000] * 2) == 2300
    monkeypatch.setenv("TORCH2MS_TIMEOUT", "soon")
    assert seconds_for("") == 60


def test_memory_is_bounded_for_projects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are converted one by one then, and say so."""
    sources = {"a.py": HEAD, "b.py": HEAD}
    assert not [f for r in convert_guarded(sources, Config()).values() for f in r.findings if f.code == "T2M961"]
    monkeypatch.setenv("TORCH2MS_MEMORY", "0.001")
    results = convert_guarded(sources, Config())
    assert all(result.changed and result.findings[0].code == "T2M961" for result in results.values())
    assert {result.findings[0].why for result in results.values()} == {"its project needs more memory than there is"}


TRAINS = (
    "import torch\n\nnet = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "for x in [torch.ones(1, 2)]:\n    optimizer.zero_grad()\n    loss = torch.relu(net(x)).sum()\n"
    "    loss.backward()\n    optimizer.step()\n"
)


@pytest.mark.parametrize("fault", ["raises", "writes what is not Python", "writes something else every time"])
def test_gradient_code_is_refused_where_its_translation_fails(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in the gradient code of one file costs that code, not the file, nor what other files get."""

    def run(planner: scope_planner.ScopePlanner) -> None:
        if planner.module.path != "a.py" or any(e.problem for e in planner.records.events):
            return whole(planner)
        if fault == "raises":
            raise AttributeError("a bug")
        stmt = planner.records.events[0].stmt
        text = "optimizer = (" if fault == "writes what is not Python" else "optimizer.zero_grad(), torch.relu(x)"
        planner.plan.before[id(stmt)] = [Text(text)]
        return None

    whole = scope_planner.ScopePlanner.run
    monkeypatch.setattr(scope_planner.ScopePlanner, "run", run)
    monkeypatch.delenv("TORCH2MS_DEBUG", raising=False)
    results = convert_project({"a.py": TRAINS, "b.py": TRAINS}, Config())
    assert not [r.error for r in results.values() if r.error]
    assert "# torch2ms: T2M110 backward call" in results["a.py"].text and "ops.relu(net(x))" in results["a.py"].text
    assert "value_and_grad" in results["b.py"].text


def test_files_converted_without_the_others_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project whose analysis fails is not converted in parts without a word: what one file does reaches others."""

    def fails(scope: Scope, module: ModuleInfo, project: Project, plan: Plan) -> None:
        if module.path == "b.py" and len(project.modules) > 1:
            raise AttributeError("a bug")

    monkeypatch.setattr("torch2ms.pipeline.refuse_phases", fails)
    monkeypatch.delenv("TORCH2MS_DEBUG", raising=False)
    sources = {"a.py": f"import b\n{TRAINS}", "b.py": TRAINS, "c.py": f"import a\n{TRAINS}"}
    outcomes = [Outcome(Item(p, p, p), r) for p, r in convert_project(sources, Config()).items()]
    said = "an error of torch2ms in b.py (AttributeError: a bug); TORCH2MS_DEBUG=1 shows where"
    assert f"3 files converted without the others of the project: {said}" in text.summary(outcomes)
    for file in json.document(outcomes)["files"]:
        assert [f["why"] for f in file["findings"] if f["code"] == "T2M961"] == [said]


def test_threads_take_turns_and_their_time_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for another thread's conversion has not begun its own."""
    ended: list[float] = []

    def slow() -> None:
        with time_limit(0.5):
            time.sleep(0.3)
            ended.append(time.monotonic())

    threads = [threading.Thread(target=slow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 4 and all(b - a > 0.2 for a, b in zip(ended, ended[1:], strict=False))
