"""Bytes in, bytes out: reading source files and replacing them without losing anything."""

from __future__ import annotations

import ast
import codecs
import errno
import io
import os
import re
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PYTHON2 = (
    r"""^\s*print\s+[^\s=(.,:\[]|^\s*print\s*>>|^\s*exec\s+['"\w]|^\s*except\s+[\w.()\s,]+,\s*\w+\s*:"""
    r"""|^\s*raise\s+\w+\s*,|\bur['"]|<>|\b0[0-7]+\b|`"""
)
PYTHON312 = r"\s*type\s+\w+.*=|\s*(?:async\s+)?(?:def|class)\s+\w+\s*\["
REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.ELOOP: "a loop of symbolic links",
    errno.EISDIR: "is a directory",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EFBIG: "the file is too large",
}


class SourceError(Exception):
    """A file that cannot be read, understood or written; the message is one sentence for the user."""


@dataclass(frozen=True)
class SourceFile:
    """One file as it was read: its bytes, and their text with every line end as it stands."""

    data: bytes
    text: str
    encoding: str
    bom: bool = False

    def encode(self, text: str) -> bytes:
        """`text` in the encoding (and with the byte order mark) of this file."""
        try:
            return (codecs.BOM_UTF8 if self.bom else b"") + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SourceError(f"the translation does not fit the file's encoding {self.encoding}: {error}") from None


def explain_os_error(error: OSError) -> str:
    """What the operating system said, in a few words."""
    reason = REASONS.get(error.errno or 0) or error.strerror or str(error)
    return reason[0].lower() + reason[1:] if reason else "unknown operating system error"


def read_bytes(path: str | Path) -> bytes:
    """The bytes of one file."""
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read()
    except OSError as error:
        raise SourceError(f"cannot read: {explain_os_error(error)}") from None


def decode(data: bytes) -> SourceFile:
    """The text of Python source, decoded as Python itself does (PEP 263), newlines untouched."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SourceError("the file is UTF-16; Python source is read as UTF-8 unless its first lines say otherwise")
    if b"\0" in data:
        raise SourceError("the file contains NUL bytes; it is not Python source")
    bom = data.startswith(codecs.BOM_UTF8)
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    try:
        import tokenize

        encoding, _ = tokenize.detect_encoding(io.BytesIO(body).readline)
        if bom and encoding != "utf-8":
            raise SourceError(f"the file starts with a UTF-8 byte order mark but declares {encoding}")
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise SourceError(f"line {line}: byte 0x{body[error.start]:02x} is not valid {error.encoding}") from None
    except SyntaxError as error:
        raise SourceError(f"cannot decode: {error.msg}") from None
    return SourceFile(data, text, encoding, bom)


@lru_cache(maxsize=1)
def parse_quietly(text: str | bytes) -> ast.Module:
    """`ast.parse` without the warnings it has for the user's own code.

    A translation is asked for its tree several times in a row, which is kept; nobody may change it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


class _Suites(dict[type, tuple[str, ...]]):
    """The fields of classes of statements that hold statements, handlers or cases."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        names = ("body", "orelse", "handlers", "finalbody", "cases")
        found = self[kind] = tuple(name for name in names if name in getattr(kind, "_fields", ()))
        return found


suites = _Suites().__getitem__  # by the class of a node


def check_syntax(text: str) -> ast.Module:
    """The parsed module, or the reason why it is not Python 3."""
    try:
        return parse_quietly(text)
    except SyntaxError as error:
        raise SourceError(_syntax_message(text, error)) from None
    except (RecursionError, MemoryError):
        raise SourceError("the code is nested too deeply to be parsed") from None
    except ValueError as error:
        raise SourceError(f"cannot parse: {error}") from None


def _syntax_message(text: str, error: SyntaxError) -> str:
    lines = re.split(r"\r\n|\r|\n", text)  # str.splitlines knows more line ends than Python does
    at = error.lineno or 0
    line = lines[at - 1] if 0 < at <= len(lines) else ""
    if re.search(PYTHON2, line, re.VERBOSE):
        return f"line {at}: this is Python 2 ({line.strip()[:60]}); translate it to Python 3 first"
    newer = re.match(PYTHON312, line) or error.msg.startswith("f-string")
    told = f" (for Python {sys.version_info[0]}.{sys.version_info[1]}, which runs here)"
    return f"line {at}: syntax error: {error.msg}" + (told if newer and sys.version_info < (3, 12) else "")


UNFINISHED = ".torch2ms"  # how the names of files end that are being written
_OURS = re.compile(r"\..+\.\w{8}\.torch2ms")  # as `tempfile.mkstemp` names them
LEFT_BEHIND = 3600  # seconds; a younger one may be what another run is writing


def is_unfinished(name: str) -> bool:
    """A file of ours that did not become what it was meant for: the run was killed while it wrote."""
    return name.endswith(UNFINISHED) and _OURS.fullmatch(name) is not None


@lru_cache(maxsize=10_000)
def tidied(folder: Path) -> Path:
    """The folder, without what runs left there that were killed while they wrote; each is gone through once."""
    with suppress(OSError), os.scandir(folder) as found:  # a folder may be written to and not be read
        for entry in found:
            if is_unfinished(entry.name) and time.time() - entry.stat(follow_symlinks=False).st_mtime > LEFT_BEHIND:
                with suppress(OSError):
                    os.unlink(entry.path)
    return folder


def write_atomic(path: Path, data: bytes, mode: int | None = None) -> None:
    """Put `data` at `path` in one step: readers see the old file or the new one, never a part.

    A symbolic link is followed, so that the link stays a link. `mode` are the permission bits to give; by default
    those of the file that is replaced, or the usual ones for a new file.
    """
    target = path.resolve() if path.is_symlink() else path
    try:
        if mode is None:
            mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask()
        target.parent.mkdir(parents=True, exist_ok=True)
        import tempfile

        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=UNFINISHED, dir=tidied(target.parent))
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise SourceError(f"cannot write {path}: {explain_os_error(error)}") from None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
