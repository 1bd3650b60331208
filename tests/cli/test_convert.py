"""`torch2ms convert`: modes, targets, exit statuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

SOURCE = b"import torch as t\nx = t.relu(1)  # keep\n"
OUTPUT = b"import mindspore as ms\nx = ms.ops.relu(1)  # keep\n"
REFUSED = SOURCE + b"refuse_me = 1\n"
Run = Callable[..., CompletedProcess[bytes]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    src = tmp_path / "src"
    (src / "pkg").mkdir(parents=True)
    (src / "train.py").write_bytes(SOURCE)
    (src / "pkg/__init__.py").write_bytes(b"")
    (src / "pkg/net.py").write_bytes(SOURCE)
    (src / "pkg/plain.py").write_bytes(b"x = 1\n")
    (src / "data.bin").write_bytes(b"\0\1torch")
    (src / "__pycache__").mkdir()
    (src / "__pycache__/train.pyc").write_bytes(b"torch")
    return src


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_folder_goes_beside_the_source_with_everything_that_is_not_python(run: Run, tree: Path) -> None:
    before = contents(tree)
    done = run("convert", "src")
    assert (done.returncode, done.stdout) == (0, b"")
    assert contents(tree.parent / "src_ms") == {
        "data.bin": b"\0\1torch",
        "pkg/__init__.py": b"",
        "pkg/net.py": OUTPUT,
        "pkg/plain.py": b"x = 1\n",
        "train.py": OUTPUT,
    }
    assert contents(tree) == before
    assert b"2 of 4 files changed\n2 constructs: 2 exact, 0 assumed, 0 refused\n" == done.stderr


def test_current_folder_goes_beside_itself(run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert run("convert", ".").returncode == 0
    assert (tree.parent / "src_ms/pkg/net.py").read_bytes() == OUTPUT


def test_out_folder_inside_the_source_is_not_converted_again(run: Run, tree: Path) -> None:
    for _ in range(2):
        assert run("convert", "src", "--out", "src/ms").returncode == 0
    assert not (tree / "ms/ms").exists()
    assert (tree / "ms/train.py").read_bytes() == OUTPUT


def test_single_file_and_several_files(run: Run, tree: Path) -> None:
    assert run("convert", "src/train.py").returncode == 0
    assert (tree / "train_ms.py").read_bytes() == OUTPUT
    assert run("convert", "src/train.py", "src/pkg/net.py", "-o", "out").returncode == 0
    assert sorted(contents(tree.parent / "out")) == ["pkg/net.py", "train.py"]
    assert run("convert", "src/train.py", "src/../src/pkg/net.py", "-o", "dots").returncode == 0
    assert sorted(contents(tree.parent / "dots")) == ["pkg/net.py", "train.py"]
    assert run("convert", "src/train.py", "-o", "else.py").returncode == 0
    assert (tree.parent / "else.py").read_bytes() == OUTPUT


def test_in_place_edits_only_what_changes(run: Run, tree: Path) -> None:
    os.chmod(tree / "train.py", 0o750)
    stamp = (tree / "pkg/plain.py").stat().st_mtime_ns
    assert run("convert", "--in-place", "src").returncode == 0
    assert (tree / "train.py").read_bytes() == OUTPUT
    assert (tree / "train.py").stat().st_mode & 0o777 == 0o750
    assert (tree / "pkg/plain.py").stat().st_mtime_ns == stamp
    assert not (tree.parent / "src_ms").exists()


@pytest.mark.parametrize("place", [[], ["--in-place"]])
@pytest.mark.parametrize("mode", [["--check"], ["--diff"], ["--check", "--diff"]])
def test_check_and_diff_write_nothing(run: Run, tree: Path, mode: list[str], place: list[str]) -> None:
    before = contents(tree.parent)
    done = run("convert", *mode, *place, "src")
    assert contents(tree.parent) == before
    assert done.returncode == (1 if "--check" in mode else 0)
    assert (b"+x = ms.ops.relu(1)  # keep\n" in done.stdout) == ("--diff" in mode)


def test_check_short_form(run: Run, tree: Path) -> None:
    assert run("--check", "src").returncode == 1
    assert run("--check", "src/pkg/plain.py").returncode == 0


def test_check_fails_while_a_mark_is_left(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("# torch2ms: T2M600 thing -> by hand\nx = 1\n")
    (tmp_path / "b.py").write_text("# torch2ms: ignore[T2M600]\nx = 1\n")
    done = run("convert", "--check", "a.py")
    assert done.returncode == 1 and b"unresolved: a.py holds 1 mark\n" in done.stderr
    assert run("convert", "--check", "b.py").returncode == 0


def test_check_names_the_files(run: Run, tree: Path) -> None:
    done = run("convert", "--check", "src")
    assert done.stderr.startswith(
        b"would change: src/train.py\nwould change: src/pkg/net.py\n2 of 4 files would change\n"
    )


def test_refusals_are_listed_and_fail_only_where_asked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(REFUSED)
    done = run("convert", "a.py")
    assert done.returncode == 0
    assert b"refused: a.py:3 T2M600 refuse_me" in done.stderr
    assert run("convert", "--strict", "--force", "a.py").returncode == 1
    assert run("convert", "--strict", "--force", "--ignore", "T2M6", "a.py").returncode == 0
    assert run("convert", "--strict", "--force", "--select", "T2M1", "a.py").returncode == 0


def test_diff_applies_with_patch(run: Run, tmp_path: Path) -> None:
    source = SOURCE.replace(b"\n", b"\r\n") + "y = 'ü'".encode("latin-1")
    (tmp_path / "a.py").write_bytes(b"# -*- coding: latin-1 -*-\n" + source)
    done = run("convert", "--diff", "a.py")
    assert b"+x = ms.ops.relu(1)  # keep\r\n" in done.stdout
    assert done.stdout.startswith(b"--- a/a.py\n+++ b/a.py\n")
    assert "y = 'ü'\n\\ No newline at end of file\n".encode("latin-1") in done.stdout


def test_standard_input(run: Run) -> None:
    done = run("convert", "-", stdin=SOURCE.replace(b"\n", b"\r\n"))
    assert (done.returncode, done.stdout) == (0, OUTPUT.replace(b"\n", b"\r\n"))
    assert run("convert", "-", "--check", stdin=SOURCE).returncode == 1
    plain = run("convert", "-", stdin=b"x = 1")
    assert (plain.returncode, plain.stdout) == (0, b"x = 1")
    broken = run("convert", "-", stdin=b"import torch as t\nx = (\n")
    assert (broken.returncode, broken.stdout) == (2, b"")


def test_verbose_tells_reasons_and_quiet_tells_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(SOURCE)
    done = run("convert", "-v", "--check", "a.py")
    assert b"a.py:2 T2M610 exact: t.relu\n    ops.relu is the same\n" in done.stderr
    assert run("convert", "-q", "a.py").stderr == b""


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert"],
        ["convert", "-", "a.py"],
        ["convert", "-", "--in-place"],
        ["convert", "a.py", "--in-place", "-o", "x"],
        ["convert", "a.py", "--nonsense"],
        ["convert", "a.py", "--report-file", "x"],
        ["convert", "a.py", "--diff", "--report", "json"],
        ["nonsense"],
        ["explain", "T2M99"],
    ],
)
def test_wrong_usage_is_two(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "a.py").write_bytes(b"x = 1\n")
    done = run(*arguments)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr and done.stderr


def test_missing_path_does_not_stop_the_others(run: Run, tree: Path) -> None:
    done = run("convert", "nowhere", "src")
    assert done.returncode == 2
    assert b"error: nowhere: no such file or directory" in done.stderr
    assert (tree.parent / "src_ms/train.py").read_bytes() == OUTPUT


def test_existing_target_is_kept_without_force(run: Run, tree: Path) -> None:
    assert run("convert", "src").returncode == 0
    assert run("convert", "src").returncode == 0  # the same content is no conflict
    edited = tree.parent / "src_ms/train.py"
    edited.write_bytes(b"# edited by hand\n")
    done = run("convert", "src")
    assert done.returncode == 2
    assert b"exists with other content; --force replaces it" in done.stderr
    assert edited.read_bytes() == b"# edited by hand\n"
    assert run("convert", "--force", "src").returncode == 0
    assert edited.read_bytes() == OUTPUT


def test_target_that_is_the_source(run: Run, tree: Path) -> None:
    done = run("convert", "src", "--out", "src")
    assert done.returncode == 2
    assert b"use --in-place" in done.stderr


def test_output_does_not_leave_the_target_folder(run: Run, tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/pkg").symlink_to(outside)
    (tmp_path / "out/train.py").symlink_to(outside / "victim.py")
    done = run("convert", "src", "-o", "out")
    assert done.returncode == 2
    assert contents(outside) == {}
    assert b"through a symbolic link" in done.stderr and b"is a symbolic link" in done.stderr


def test_links_in_the_source(run: Run, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.py").write_bytes(SOURCE)
    (tree / "alias.py").symlink_to("train.py")
    (tree / "absolute.py").symlink_to(tree / "train.py")
    (tree / "loop").symlink_to(tree)
    (tree / "far").symlink_to(tmp_path / "other")
    (tree / "far.py").symlink_to(tmp_path / "other/x.py")
    (tree / "nowhere").symlink_to("missing")
    (tree / "self").symlink_to("self")
    done = run("convert", "src")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "src_ms"
    assert os.readlink(out / "alias.py") == os.readlink(out / "absolute.py") == "train.py"
    assert (out / "alias.py").read_bytes() == OUTPUT
    assert (out / "far.py").read_bytes() == OUTPUT and not (out / "far.py").is_symlink()
    assert not (out / "far").exists()
    assert b"far: a symbolic link that leads outside" in done.stderr
    assert run("convert", "--in-place", "src").returncode == 0
    assert (tree / "alias.py").is_symlink()
    assert (tmp_path / "other/x.py").read_bytes() == SOURCE


def test_link_loop_as_argument(run: Run, tmp_path: Path) -> None:
    (tmp_path / "self.py").symlink_to("self.py")
    done = run("convert", "self.py")
    assert done.returncode == 2
    assert b"error: self.py: a loop of symbolic links" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"import torch\nprint 'x'\n", b"line 2: this is Python 2"),
        (b"import torch\ntry:\n    x\nexcept ValueError, e:\n    pass\n", b"this is Python 2"),
        (b"import torch\nx = (\n", b"line 2: syntax error: '(' was never closed"),
        (b"import torch\nx = '\xff'\n", b"line 2: byte 0xff is not valid utf-8"),
        (b"import torch\n\0\n", b"the file contains NUL bytes"),
        (b"# coding: martian\nimport torch\n", b"cannot decode: unknown encoding"),
        ("import torch\n".encode("utf-16"), b"the file is UTF-16"),
        (b"\xef\xbb\xbf# coding: latin-1\nimport torch\n", b"byte order mark"),
        (b"import torch\nx = " + b"(" * 3000 + b")" * 3000 + b"\n", b"line 2: syntax error: too many nested"),
        (b"import torch\nx = " + b"-" * 60000 + b"1\n", b"nested too deeply"),
        (SOURCE + b"boom = 1\n", b"internal error: RecursionError: too deep"),
        (SOURCE + b"# eaten\n", b"would lose the comment '# eaten'"),
        (SOURCE + b"grow = 1  # torch\n", b"a second conversion would change the translation again"),
    ],
)
def test_trouble_with_one_file_stays_its_own(run: Run, tree: Path, text: bytes, message: bytes) -> None:
    (tree / "bad.py").write_bytes(text)
    done = run("convert", "src")
    assert done.returncode == 2
    assert b"error: src/bad.py: " in done.stderr and message in done.stderr
    assert b"Traceback" not in done.stderr
    assert (tree.parent / "src_ms/train.py").read_bytes() == OUTPUT
    assert run("convert", "--in-place", "src").returncode == 2
    assert (tree / "bad.py").read_bytes() == text
    assert (tree / "train.py").read_bytes() == OUTPUT


@pytest.mark.parametrize("text", [b"", b"\xef\xbb\xbf", b"\n", b"# torch"])
def test_empty_files_are_fine(run: Run, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.py").write_bytes(text)
    assert run("convert", "a.py").returncode == 0
    assert (tmp_path / "a_ms.py").read_bytes() == text


@pytest.mark.parametrize(
    "text",
    [
        SOURCE.replace(b"\n", b"\r\n"),
        SOURCE.replace(b"\n", b"\r\n", 1) + b"y = 1\n",
        b"\xef\xbb\xbf" + SOURCE,
        SOURCE.rstrip(b"\n"),
        b"# vim: set fileencoding=cp1251 :\n" + SOURCE + "s = 'Привет'\n".encode("cp1251"),
        SOURCE + b"if x:\n\ty = 1\n\x0c\nz = 2   \n",
    ],
    ids=["crlf", "mixed", "bom", "unterminated", "cookie", "tabs and form feed"],
)
def test_bytes_outside_the_edit_are_kept(run: Run, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.py").write_bytes(text)
    assert run("convert", "a.py").returncode == 0
    expected = text.replace(b"import torch as t", b"import mindspore as ms").replace(b"t.relu", b"ms.ops.relu")
    assert (tmp_path / "a_ms.py").read_bytes() == expected


def test_full_device_leaves_the_file_whole(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a.py").write_bytes(SOURCE)
    monkeypatch.setattr("os.fsync", full)
    done = run("convert", "--in-place", "a.py")
    assert done.returncode == 2
    assert b"no space left on the device" in done.stderr
    assert contents(tmp_path) == {"a.py": SOURCE}


def test_file_that_changes_meanwhile_is_left_alone(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch2ms import run as running

    (tmp_path / "a.py").write_bytes(SOURCE)
    convert = running.convert_guarded

    def meanwhile(*arguments: object) -> object:
        (tmp_path / "a.py").write_bytes(b"new = 1\n")
        return convert(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "convert_guarded", meanwhile)
    done = run("convert", "--in-place", "a.py")
    assert done.returncode == 2
    assert b"changed while it was being converted" in done.stderr
    assert (tmp_path / "a.py").read_bytes() == b"new = 1\n"


def test_excluded_files_and_virtual_environments(run: Run, tree: Path) -> None:
    (tree / "env/lib").mkdir(parents=True)
    (tree / "env/pyvenv.cfg").write_bytes(b"")
    (tree / "env/lib/x.py").write_bytes(SOURCE)
    done = run("convert", "src", "--exclude", "pkg/*", "--exclude", "*.bin")
    assert done.returncode == 0
    assert contents(tree.parent / "src_ms") == {"train.py": OUTPUT}


def test_unexpected_trouble_is_one_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("surprise")

    monkeypatch.setattr("torch2ms.commands.make_plan", broken)
    done = run("convert", "a.py")
    assert done.returncode == 2
    assert done.stderr == b"internal error: ValueError: surprise; please report it\n"


def test_files_that_train_without_naming_torch_are_seen(run: Run, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/step.py").write_text("def step(loss, opt):\n    loss.backward()\n    refuse_me = opt\n")
    (tmp_path / "src/done.py").write_text("import mindspore\nscheduler.step()\nrefuse_me = 1\n")
    assert b"refused" not in run("convert", "--check", "src").stderr  # nothing of torch in the whole project
    (tmp_path / "src/main.py").write_bytes(SOURCE)
    done = run("convert", "--check", "src")
    assert b"refused: src/step.py:3" in done.stderr and b"done.py" not in done.stderr
