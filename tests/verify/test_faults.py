"""Programs that misbehave: whatever a side does to its machine, the answer is clear and nothing is left running."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from torch2ms.verify import Case, verify
from torch2ms.verify.recording import record, replay
from torch2ms.verify.sides.process import Job, run
from torch2ms.verify.trace import Trace

TORCH = """\
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
for i in range(2):
    opt.zero_grad()
    (w ** 2).sum().backward()
    opt.step()
"""
MINDSPORE = """\
import mindspore as ms
from mindspore.experimental import optim
w = ms.Parameter(ms.Tensor([1.0, 2.0]), name='w')
opt = optim.SGD([w], lr=0.1)
grad_fn = ms.value_and_grad(lambda: (w ** 2).sum(), None, opt.parameters)
for i in range(2):
    loss, grads = grad_fn()
    opt(grads)
"""
LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))\n"
LEAVE = """\
import os, subprocess, sys, time
mark = {mark!r}
code = "import os, sys, time; os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(300)"
child = subprocess.Popen([sys.executable, "-c", code, mark])
while not os.path.exists(mark) or not open(mark).read():
    time.sleep(0.05)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_out_of_memory_is_not_run(check):
    report = check(TORCH, LIMIT + "import numpy as np\nx = np.ones(1 << 40)\n" + MINDSPORE)
    assert report.exit_code == 2 and "MemoryError" in report.reason and "np.ones" in report.reason
    report = check(LIMIT + TORCH.replace("for i", "x = torch.ones(1 << 40)\nfor i"), MINDSPORE)
    assert report.exit_code == 2 and report.reason.startswith("torch side: ") and "memory" in report.reason


def test_what_the_system_kills_says_what_that_means(check):
    report = check(TORCH, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert report.exit_code == 2 and "SIGKILL (what the system does when memory runs out)" in report.reason


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
@pytest.mark.parametrize("warmed", [True, False])
def test_a_process_that_left_the_group_is_ended(warmed, check, tmp_path):
    mark = tmp_path / "pid"
    program = LEAVE.format(mark=str(mark)) + TORCH
    if warmed:
        assert check(program, MINDSPORE).agrees
    else:
        (tmp_path / "program.py").write_text(program)
        (tmp_path / "out").mkdir()
        assert run(Job("torch", tmp_path / "program.py"), tmp_path / "out").problem == ""
    time.sleep(0.3)
    assert _gone(int(mark.read_text()))


def _gone(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


def test_threads_and_exit_handlers_do_not_hang(check):
    hang = (
        "import atexit, threading, time\nthreading.Thread(target=time.sleep, args=(300,)).start()\n"
        "atexit.register(time.sleep, 300)\n"
    )
    started = time.monotonic()
    assert check(hang + TORCH, hang + MINDSPORE).agrees
    assert time.monotonic() - started < 100


def test_changing_directory_and_deleting_it_is_survived(check):
    leave = "import os, shutil, tempfile\nd = tempfile.mkdtemp()\nos.chdir(d)\nshutil.rmtree(d)\n"
    assert check(leave + TORCH, leave + MINDSPORE).agrees


def test_a_flood_of_output_is_cut(check):
    flood = "print('x' * 1_000_000)\n" * 20
    report = check(flood + TORCH, MINDSPORE)
    assert report.agrees and len(report.stdout["torch"]) <= 1 << 24


def test_steps_are_told_while_a_side_runs(tmp_path):
    (tmp_path / "program.py").write_text(TORCH.replace("    opt.step()", "    opt.step(); import time; time.sleep(1)"))
    heard: list[int] = []
    outcome = run(Job("torch", tmp_path / "program.py"), tmp_path, lambda job, done: heard.append(done))
    assert outcome.trace is not None and outcome.trace.meta["steps"] == 2 and 1 in heard


@pytest.mark.parametrize("device", ["cuda", "npu"])
def test_an_absent_torch_device_is_not_run(device, tmp_path):
    torch = pytest.importorskip("torch")
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device: what happens without one cannot be seen here")
    (tmp_path / "a.py").write_text(TORCH)
    (tmp_path / "b.py").write_text(MINDSPORE)
    report = verify(tmp_path / "a.py", tmp_path / "b.py", torch_device=device)
    assert report.exit_code == 2 and f"torch side: device {device} is not available" in report.reason


def test_a_recording_from_a_stranger_runs_nothing_and_says_what_it_is(tmp_path):
    program, translated, recording = (tmp_path / name for name in ("a.py", "b.py", "run.t2m"))
    (tmp_path / "rates.py").write_text("RATE = 0.1\n")
    program.write_text("from rates import RATE\n" + TORCH)
    translated.write_text(MINDSPORE)
    case = Case(program, translated)
    assert record(case, recording).verdict == "recorded"
    assert set(Trace.load(recording).meta["sources"]) == {"a.py", "rates.py"}
    assert replay(recording, case).agrees
    with zipfile.ZipFile(recording) as archive:
        assert all(name.endswith((".json", ".npy")) for name in archive.namelist())
    for text, reason in (('{"version": 99}', "version 99"), ("[]", "not a recording"), ('{"version": 3}', "not a rec")):
        with zipfile.ZipFile(recording, "w") as archive:
            archive.writestr("trace.json", text)
        report = replay(recording, case)
        assert report.exit_code == 2 and reason in report.reason
    document = {"version": 3, "meta": {}, "events": [], "index": {}, "kinds": {"<f4": "a.npy"}}
    with zipfile.ZipFile(recording, "w") as archive:
        archive.writestr("trace.json", json.dumps(document))
        archive.writestr("a.npy", pickle.dumps(Touch(tmp_path / "touched")))
    assert replay(recording, case).exit_code == 2 and not (tmp_path / "touched").exists()


class Touch:
    """What unpickling would run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_wrong_arguments_are_told_in_the_programs_own_words(check):
    parse = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', required=True)\np.parse_args()\n"
    report = check(parse + TORCH, parse + MINDSPORE)
    assert report.reason.startswith("torch side: the program exited with 2: ")
    assert "the following arguments are required: --lr" in report.reason


def test_an_interrupted_verification_leaves_no_process(tmp_path):
    mark = tmp_path / "pid"
    hang = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(300)\n"
    (tmp_path / "a.py").write_text(hang)
    (tmp_path / "b.py").write_text(MINDSPORE)
    command = [sys.executable, "-m", "torch2ms.verify", str(tmp_path / "a.py"), str(tmp_path / "b.py")]
    root = Path(__file__).parent.parent.parent
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what runs behind a shell's `&` ignores it
    )
    for _ in range(600):
        if mark.exists() and mark.read_text():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    time.sleep(0.3)
    assert _gone(int(mark.read_text()))
