"""A headless Chromium, where the machine has one: what a page says, shows and complains of."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MISSING = "pip installs no browser: none is on the path or named by TORCH2MS_BROWSER"
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,1000")


def find() -> str | None:
    """The browser: $TORCH2MS_BROWSER, or one on the path."""
    return os.environ.get("TORCH2MS_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


@dataclass(frozen=True)
class Look:
    """One visit of a page: its document after all scripts, what the console said, and the picture."""

    document: str
    console: list[str]
    picture: bytes


def look(browser: str, page: Path, profile: Path) -> Look:
    """Open the page twice: for the document and for the picture."""
    shot = profile / "shot.png"
    common = [browser, *FLAGS, f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0"]
    options = {"capture_output": True, "text": True, "timeout": 120, "check": True}
    dom = subprocess.run([*common, "--dump-dom", page.as_uri()], **options)  # type: ignore[call-overload]
    subprocess.run([*common, f"--screenshot={shot}", page.as_uri()], **options)  # type: ignore[call-overload]
    return Look(dom.stdout, re.findall(r"CONSOLE.*", dom.stderr), shot.read_bytes())
