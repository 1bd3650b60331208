"""`torch2ms rules`: what counts as a rule that holds, processes that die, devices that are not there, the page."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torch2ms.api import Form, Rule, Rules
from torch2ms.evidence import processes
from torch2ms.evidence.matrix import FAILS, HOLDS, OPEN, UNPROBED, Measured, Probe, matrix, probes_of, wanted
from torch2ms.evidence.probes import case_of, expanded, read_cases
from torch2ms.evidence.processes import NotRun, header, run_side

ROOT = Path(__file__).resolve().parents[1]
BOTH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("mindspore") is not None
needs_both = pytest.mark.skipif(not BOTH, reason="the probes run on both frameworks")


def probe(text: str, *taken: tuple[str, int]) -> Probe:
    return Probe(case_of("made", 1, text), text, frozenset(taken))


def rule(name: str, evidence: str = "pass", forms: int = 1) -> Rule:
    return Rule(name, tuple(Form(to="x", condition=f"value('p') == {i}", evidence=evidence) for i in range(forms)))


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "torch2ms", "rules", *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_verdicts() -> None:
    rules = [rule("torch.a", forms=2), rule("torch.b"), rule("torch.c"), rule("torch.d", "none")]
    same, wrong = Measured("same", "same"), Measured("differs", "-", "values")
    rows = matrix(rules, [(probe("a", ("torch.a", 0)), same), (probe("b", ("torch.b", 0)), wrong)])
    assert [row.verdict for row in rows] == [HOLDS, FAILS, UNPROBED, OPEN]
    assert [row.fatal for row in rows] == [False, True, True, False]
    assert (rows[0].probed, rows[0].forms) == (1, 2)
    assert (rows[1].forward, rows[1].problems) == ("differs", ["made.txt:1: b: values"])


def test_a_failing_probe_speaks_against_the_rule_that_nothing_else_shows_right() -> None:
    rules = [rule("torch.layer"), rule("torch.odd")]
    shown = (probe("layer", ("torch.layer", 0)), Measured("same", "same"))
    failing = (probe("layer and odd", ("torch.layer", 0), ("torch.odd", 0)), Measured("same", "differs", "gradients"))
    assert [row.verdict for row in matrix(rules, [shown, failing])] == [HOLDS, FAILS]
    assert [row.verdict for row in matrix(rules, [failing])] == [FAILS, FAILS]
    again = (probe("odd", ("torch.odd", 0)), Measured("same", "same"))  # then nobody is beyond suspicion
    assert [row.verdict for row in matrix(rules, [shown, again, failing])] == [FAILS, FAILS]


def test_every_rule_that_claims_to_hold_has_a_probe() -> None:
    rules = Rules.load()
    found = [(one, Measured("same", "same")) for one in probes_of(read_cases(), rules)]
    assert [row.rule for row in matrix(wanted(rules), found) if row.verdict == UNPROBED] == []


def test_names_in_angle_brackets() -> None:
    assert expanded("torch.<abs|neg>(<x|y>)") == ["torch.abs(x)", "torch.abs(y)", "torch.neg(x)", "torch.neg(y)"]


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is not installed, and a process that runs it is killed here",
)
def test_a_probe_that_kills_its_process_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = f"__import__('os').kill(__import__('os').getpid(), {int(signal.SIGKILL)})"
    jobs = [{"text": text, "grad": []} for text in ("x.sum()", kill, "1 / 0", "3 + 4")]
    first, killed, error, last = run_side("torch", jobs, tmp_path)
    assert first["outs"][0].shape == () and last["outs"] == [7]
    assert killed == {"error": "killed by SIGKILL"} and error["error"].startswith("ZeroDivisionError")
    with pytest.raises(NotRun, match="torch: ImportError: not here"):
        (tmp_path / "torch.py").write_text("raise ImportError('not here')\n")
        monkeypatch.setattr(processes.sys, "path", [str(tmp_path), *sys.path])
        header("torch", tmp_path)


@needs_both
def test_some_rules_hold(tmp_path: Path) -> None:
    done = run("verify", "--only", "torch.nn.Bilinear", "--json", "matrix.json", "-v", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "matrix.json").read_text())
    assert document["versions"]["device"] == "CPU"
    assert {row["verdict"] for row in document["rules"]} == {HOLDS}
    assert "torch.nn.Bilinear" in done.stdout


@needs_both
def test_a_device_that_is_not_there_is_no_pass(tmp_path: Path) -> None:
    for device in ("Ascend", "GPU"):  # no MindSpore runs on both
        done = run("verify", "--only", "torch.nn.Linear", "--device", device, cwd=tmp_path)
        if done.returncode == 2:
            break
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("not run: mindspore: ") and device in done.stderr


def test_a_name_that_no_rule_has(tmp_path: Path) -> None:
    done = run("verify", "--only", "torch.nothing.like.it", cwd=tmp_path)
    assert done.returncode == 2 and "no rule is called like" in done.stderr


def test_the_page_of_rules_is_what_the_rules_say(tmp_path: Path) -> None:
    done = run("index", "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
