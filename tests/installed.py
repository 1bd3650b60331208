"""Skips tests where a framework is not installed, without importing it: they run it in processes of their own."""

from __future__ import annotations

import importlib.util

import pytest


def skip_without(*frameworks: str, reason: str) -> None:
    """Skip the test that calls it, or the tests of the module."""
    for name in frameworks:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: {reason}", allow_module_level=True)
