"""The options that decide what a conversion does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """`target` is the MindSpore version the output must run on, `device` one of portable, CPU, GPU, Ascend."""

    target: str = "2.10"
    device: str = "portable"
    style: str = "functional"
    jit: bool = False
    assume_cleared: bool = False
