"""The child process of one side: instrument the framework, run the program as a script, save what was seen."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from torch2ms.verify.comparison.variables import keep_variables
from torch2ms.verify.entry import start
from torch2ms.verify.sides.process import MARK
from torch2ms.verify.sides.samples import marks, seed_generators
from torch2ms.verify.sides.session import Session, StopProgram, Unavailable
from torch2ms.verify.trace import Trace


def run_job(job: dict[str, Any]) -> int:
    """Run one job (see process.py) in this process; the exit code says only that the trace was written."""
    if job["side"] == "torch":
        from torch2ms.verify.sides.torch_side import install
    else:
        from torch2ms.verify.sides.mindspore_side import install
    replay = Trace.load(job["replay"]) if job.get("replay") else None
    meta = {"side": job["side"], "torch_device": job.get("torch_device", "cpu")}
    session = Session(Trace(meta), job.get("steps"), replay, job)
    try:
        to_array, finish = install(session)
    except Unavailable as error:
        session.trace.meta.update(status="error", error=str(error))
        session.trace.save(job["out"])
        return 0
    np.random.seed(0)  # after the imports: some of them draw
    random.seed(0)
    session.trace.meta["streams"] = marks()
    seed_generators(str(start(Path(job["program"]))[0]))
    namespace = _execute(job, session.trace)
    try:
        finish()
    except Exception:
        session.trace.meta.setdefault("notes", []).append("final state not read: " + traceback.format_exc(limit=1))
    keep_variables(namespace, to_array, session.trace)
    session.trace.meta["steps"] = session.done
    session.trace.meta["sources"] = _sources(start(Path(job["program"]))[0])
    session.trace.save(job["out"])
    return 0


def _execute(job: dict[str, Any], trace: Trace) -> dict[str, Any]:
    path = Path(job["program"]).resolve()
    root, package = start(path)
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    module.__package__ = package or None
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv = [str(path), *job["argv"]]
    sys.path.insert(0, str(root))
    trace.meta["status"] = "ok"
    try:
        code = compile(path.read_bytes(), str(path), "exec")
        exec(code, module.__dict__)
    except StopProgram:
        trace.meta["status"] = "stopped"
    except SystemExit as stop:
        if stop.code not in (None, 0):
            trace.meta.update(status="error", error=f"the program exited with {stop.code!r}")
    except BaseException as error:
        trace.meta.update(status="error", error=_explain(error, str(root)))
    return module.__dict__


def _explain(error: BaseException, root: str) -> str:
    """The exception's last line first, then the frames of the program (not those of the harness)."""
    headline = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    shown = [f for f in frames if root in f.filename] or frames[-3:]
    return headline + "\n" + "".join(traceback.format_list(shown[-6:])).rstrip()


def _sources(root: Path) -> dict[str, str]:
    """The hashes of the program's files that were imported."""
    below = os.path.join(root, "")
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths = sorted(Path(f) for f in files if f and f.endswith(".py") and f.startswith(below))
    own = [path for path in paths if "site-packages" not in path.parts and path.is_file()]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in own}


def main() -> None:
    """Entry of the process: the job is the JSON file named on the command line."""
    _run_and_exit(sys.argv[1])


def serve(preload: Callable[[], None]) -> None:
    """Entry of a warm process: for every line on standard input fork a child, say its id, then how it ended."""
    preload()
    gc.freeze()  # a collection in a child would go through all of the framework, and copy its memory
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in iter(_read_line, b""):
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setsid()
            answers.close()
            os.environ[MARK] = order["mark"]
            _redirect(order["streams"])
            os.chdir(order["cwd"])
            _run_and_exit(order["document"])
        print(json.dumps({"pid": child}), file=answers)
        status = os.waitpid(child, 0)[1]
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), file=answers)


def _read_line() -> bytes:
    """One line of standard input without reading ahead: what is buffered here would be duplicated in every fork."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line


def _redirect(streams: list[str]) -> None:
    for number, path in enumerate(streams, 1):
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, number)
        os.close(target)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _run_and_exit(document: str) -> None:
    job = json.loads(Path(document).read_text())
    code = 1
    try:
        code = run_job(job)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the frameworks' own exit handlers hang or crash now and then after everything is saved
