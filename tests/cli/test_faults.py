"""Kills, full disks, read-only folders, odd names, hostile code: no source is damaged, nothing half-written is left."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "import torch\n\n\ndef f(x):\n    return torch.relu(x)  # kept\n"
COMMAND = [sys.executable, "-m", "torch2ms", "convert", "--no-cache", "-j", "1"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def without_privilege() -> None:
    """In the child, before it starts: root loses the right to write everywhere, as far as the system knows it."""
    if os.geteuid() == 0:
        drop_from_bounding_set, override_permissions = 24, 1
        ctypes.CDLL(None).prctl(drop_from_bounding_set, override_permissions, 0, 0, 0)


def convert(folder: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, cwd=folder, env=ENVIRONMENT, **options)  # type: ignore[call-overload, no-any-return]


def project(folder: Path, files: int = 12) -> dict[str, bytes]:
    for number in range(files):
        (folder / f"m{number}.py").write_text(SOURCE + f"# {number}\n" * 40)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_killed_at_any_moment_each_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    """In place, and in another folder, where the new one is there as a whole or not at all."""
    reference = tmp_path / "reference"
    reference.mkdir()
    before = project(reference)
    start = time.monotonic()
    assert convert(reference, "--in-place", ".").returncode == 0
    took = time.monotonic() - start
    after = {path.name: path.read_bytes() for path in reference.iterdir()}
    assert after.keys() == before.keys() and all(after[name] != before[name] for name in before)
    for turn in range(8):
        folder = tmp_path / f"turn{turn}"
        folder.mkdir()
        project(folder)
        target, place = (["--in-place"], folder) if turn % 2 else (["-o", "../out"], tmp_path / "out")
        running = subprocess.Popen([*COMMAND, *target, "."], cwd=folder, env=ENVIRONMENT, stdout=-3, stderr=-3)
        time.sleep(took * (0.5 + turn / 14))
        running.send_signal(signal.SIGKILL)
        running.wait()
        for name in before:
            found = (place / name).read_bytes() if (place / name).exists() else b""
            assert found in ((before[name], after[name]) if turn % 2 else (b"", after[name]))
            assert turn % 2 or (folder / name).read_bytes() == before[name]
        assert convert(folder, *target, ".").returncode == 0
        assert {name: (place / name).read_bytes() for name in before} == after
        shutil.rmtree(place)


def test_what_a_killed_run_left_is_no_file_of_the_project_and_goes_later(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.py").write_text(SOURCE)
    old, young = tmp_path / "in" / ".a.py.0123abcd.torch2ms", tmp_path / "in" / ".copy.4567efgh.torch2ms"
    for path in (old, young):
        path.write_text("half of a fi")
    os.utime(old, (0, 0))
    assert convert(tmp_path, "in", "-o", "out").returncode == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.py"]
    assert old.exists() and young.exists()  # nothing was written beside them
    assert convert(tmp_path, "in", "--in-place").returncode == 0
    assert young.exists() and not old.exists()  # another run may be writing the young one


def test_a_full_disk_leaves_the_source_and_no_part(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE + "# long\n" * 2000)
    before = (tmp_path / "a.py").read_bytes()

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = convert(tmp_path, "--in-place", "a.py", preexec_fn=no_room)
    assert done.returncode == 2
    assert b"cannot write a.py: the file is too large" in done.stderr and b"Traceback" not in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.py": before}


def test_a_read_only_target_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    tmp_path.chmod(0o500)
    try:
        done = convert(tmp_path, "--in-place", "a.py", preexec_fn=without_privilege)
    finally:
        tmp_path.chmod(0o700)
    assert done.returncode == 2 and b"permission denied" in done.stderr
    assert (tmp_path / "a.py").read_text() == SOURCE


@pytest.mark.parametrize("name", [b"with space.py", b"new\nline.py", b"caf\xe9.py", "\u540d.py".encode(), b"-dash.py"])
def test_odd_names_are_names(tmp_path: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(tmp_path), name)
    with open(path, "w") as stream:
        stream.write(SOURCE)
    done = convert(tmp_path, "--in-place", ".")
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    with open(path) as stream:
        assert "ops.relu(x)  # kept" in stream.read()


def test_no_output_leaves_its_folder(tmp_path: Path) -> None:
    outside, source, out = (tmp_path / name for name in ("outside", "source", "out"))
    for folder in (outside, source / "inner", out):
        folder.mkdir(parents=True)
    (source / "inner" / "a.py").write_text(SOURCE)
    (source / "b.py").write_text(SOURCE)
    (out / "inner").symlink_to(outside)
    (outside / "b.py").write_text("mine = 1\n")
    (out / "b.py").symlink_to(outside / "b.py")
    done = convert(tmp_path, "source", "-o", "out", "--force")
    assert done.returncode == 2 and done.stderr.count(b"symbolic link") == 2
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"b.py": "mine = 1\n"}


def test_nothing_of_the_user_runs(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Not the files, not what they are called, not what lies beside them and says that it is installed."""
    trap = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\nimport torch\nx = torch.ones(3)\n"
    names = ("__init__", "conftest", "setup", "sitecustomize", "libcst", "click", "mindspore", "torch", "json", "a")
    for name in names:
        (tmp_path / f"{name}.py").write_text(trap)
    (tmp_path / "evil-1.0.dist-info").mkdir()
    (tmp_path / "evil-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    groups = "torch2ms.rules", "console_scripts", "pytest11"
    points = "".join(f"[{group}]\ntorch2ms = conftest:x\n" for group in groups)
    (tmp_path / "evil-1.0.dist-info/entry_points.txt").write_text(points)
    script = tmp_path_factory.mktemp("bin") / "started"  # as pip writes it: a script does not look for modules here
    script.write_text("from torch2ms.cli import main\n\nmain()\n")
    check = "convert", "--check", "--no-cache"
    for command in ([str(script), *check], [str(script), "scan"], ["-m", "torch2ms", *check, "-j", "2"]):
        start = [sys.executable, *command, "."]
        done = subprocess.run(start, capture_output=True, cwd=tmp_path, env=ENVIRONMENT)
        assert b"Traceback" not in done.stderr and done.returncode in (0, 1)
    assert list(tmp_path.glob("*.ran")) == []


@pytest.mark.parametrize("report", ["html", "sarif", "json", "markdown"])
def test_reports_escape_what_the_source_says(tmp_path: Path, report: str) -> None:
    (tmp_path / "a.py").write_text("import torch\nx = torch.no_such['<script>alert(1)</script>'](1)\n")
    done = convert(tmp_path, "--check", "--report", report, "a.py")
    assert done.stdout and b"Traceback" not in done.stderr
    if report == "html":
        assert b"<script>alert" not in done.stdout
    elif report in ("sarif", "json"):
        import json

        json.loads(done.stdout)


def test_a_name_stays_on_its_line(tmp_path: Path) -> None:
    """Neither a newline in a file's name nor what steers a terminal comes through, in lists and diffs."""
    odd = tmp_path / "src"
    odd.mkdir()
    (odd / "a\n\x1b[31mb.py").write_text("import torch\nx = torch.ones(3)\n")
    (odd / "c\nd.py").write_text("import torch\nx = torch.ones(3\n")
    for option in ("--check", "--diff", "-v"):
        done = convert(tmp_path, option, "src")
        assert b"\x1b" not in done.stdout + done.stderr
        assert rb"error: src/c\nd.py: line 2" in done.stderr
        assert option != "--check" or rb"would change: src/a\n\x1b[31mb.py" in done.stderr.splitlines()
        assert option != "--diff" or rb"+++ b/src/a\n\x1b[31mb.py" in done.stdout.splitlines()
