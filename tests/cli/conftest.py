"""A small engine in place of the real one: these tests are about files, modes and exit statuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from torch2ms.check import check_output
from torch2ms.config import Config
from torch2ms.findings import Finding, Result, Tier

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "import torch as t\nx = t.relu(1)  # keep\n"
Run = Callable[..., subprocess.CompletedProcess[bytes]]


def fake_project(sources: Mapping[str, str], config: Config) -> dict[str, Result]:
    return {path: checked(fake_module(text, path)) for path, text in sources.items()}


def checked(result: Result) -> Result:
    """The self-check, where the real engine has it."""
    error = check_output(result.source, result.text, result.findings, lambda text: fake_module(text, result.path).text)
    return replace(result, text=result.source, error=error) if error else result


def fake_module(text: str, path: str) -> Result:
    if "boom" in text:
        raise RecursionError("too deep")
    new = text.replace("import torch as t", "import mindspore as ms").replace("t.relu", "ms.ops.relu")
    findings = [Finding("T2M610", Tier.EXACT, "t.relu", "ops.relu is the same", line=2)] * (new != text)
    new = new.replace("comment_eater", "# fine").replace("# eaten", "")
    if "refuse_me" in text:
        finding = Finding("T2M600", Tier.REFUSED, "refuse_me", "no rule", "write it by hand", line=3)
        findings.append(finding)
        if finding.mark not in new:
            new = new.replace("refuse_me", f"{finding.mark}\nrefuse_me")
    if "grow" in text:
        new += "# more\n"
    return Result(path, text, new, tuple(findings))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch2ms.pipeline.convert_project", fake_project, raising=False)


@pytest.fixture
def run(
    engine: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Run:
    """`run("convert", "x.py")` in a folder of its own: status, stdout and stderr as a process would give them."""
    from torch2ms.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH2MS_CACHE", str(tmp_path_factory.mktemp("cache")))

    def call(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        read, write = os.pipe()
        os.write(write, stdin)
        os.close(write)
        with open(read, encoding="utf-8") as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            capfdbinary.readouterr()
            with pytest.raises(SystemExit) as left:
                main(arguments)
        out, err = capfdbinary.readouterr()
        return subprocess.CompletedProcess(list(arguments), int(left.value.code or 0), out, err)

    return call
