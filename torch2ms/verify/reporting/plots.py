"""Plots as SVG: lines over the steps and bars per parameter, drawn so that they print in black and white, too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 34
ROW = 18
Line = tuple[str, str, Sequence[float | None]]  # CSS class, label, a value per step


def lines(series: Sequence[Line], label: str, logarithmic: bool = False) -> str:
    """Curves over the steps 1 to n, with axes; "" where fewer than two values can be drawn."""
    count = max((len(values) for _, _, values in series), default=0)
    drawn = [v for _, _, values in series for v in values if v is not None and _drawable(v, logarithmic)]
    if count < 2 or len(drawn) < 2:
        return ""
    low, high, ticks = _log_scale(drawn) if logarithmic else _scale(drawn)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - 1) / (count - 1)

    def y(value: float) -> float:
        value = math.log10(value) if logarithmic else value
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)

    parts = [_grid(y(tick), f"{tick:.3g}") for tick in ticks]
    for step in _steps(count):
        parts.append(f"<text x='{x(step):.1f}' y='{HEIGHT - BOTTOM + 16}' text-anchor='middle'>{step}</text>")
    for name, _, values in series:
        points = " ".join(
            f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(values, 1) if v is not None and _drawable(v, logarithmic)
        )
        parts.append(f"<polyline class='{name}' points='{points}'/>")
    parts.append(f"<text x='{(LEFT + WIDTH) / 2}' y='{HEIGHT - 3}' text-anchor='middle'>step</text>")
    legend = "".join(f"<span class='key {name}'></span>{escape(text)} " for name, text, _ in series)
    box = f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{escape(label)}'>{''.join(parts)}</svg>"
    return f"<figure>{box}<figcaption>{escape(label)} {legend}</figcaption></figure>"


def bars(values: Sequence[tuple[str, float]], label: str) -> str:
    """One horizontal bar per name on a logarithmic scale, the largest first."""
    drawn = sorted(((n, v) for n, v in values if _drawable(v, True)), key=lambda item: -item[1])
    if not drawn:
        return ""
    low, high, ticks = _log_scale([v for _, v in drawn])
    names = min(300, 24 + 7 * max(len(n) for n, _ in drawn))
    height = ROW * len(drawn) + 24

    def x(value: float) -> float:
        return names + (WIDTH - names - 70) * (math.log10(value) - low) / (high - low)

    parts = [
        f"<line class='grid' x1='{x(t):.1f}' x2='{x(t):.1f}' y1='0' y2='{height - 20}'/>"
        f"<text x='{x(t):.1f}' y='{height - 5}' text-anchor='middle'>{t:.0e}</text>"
        for t in ticks
    ]
    for row, (name, value) in enumerate(drawn):
        top = ROW * row + 3
        shown = name if len(name) < 42 else "…" + name[-40:]
        parts.append(
            f"<text x='{names - 8}' y='{top + 11}' text-anchor='end'>{escape(shown)}</text>"
            f"<rect class='bar' x='{names}' y='{top}' height='{ROW - 6}' width='{max(1.0, x(value) - names):.1f}'/>"
            f"<text x='{max(names + 1.0, x(value)) + 5:.1f}' y='{top + 11}'>{value:.1e}</text>"
        )
    box = f"<svg viewBox='0 0 {WIDTH} {height}' role='img' aria-label='{escape(label)}'>{''.join(parts)}</svg>"
    return f"<figure>{box}<figcaption>{escape(label)}</figcaption></figure>"


def _drawable(value: float, logarithmic: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not logarithmic)


def _grid(y: float, text: str) -> str:
    line = f"<line class='grid' x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y:.1f}' y2='{y:.1f}'/>"
    return f"{line}<text x='{LEFT - 6}' y='{y + 4:.1f}' text-anchor='end'>{text}</text>"


def _scale(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """A range of round numbers around the values and about five ticks."""
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    unit = 10.0 ** math.floor(math.log10(span / 4))
    unit *= next(f for f in (1, 2, 5, 10) if span / (f * unit) <= 6)
    first, last = math.floor(low / unit), math.ceil(high / unit)
    last += first == last
    return first * unit, last * unit, [i * unit for i in range(first, last + 1)]


def _log_scale(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """Whole powers of ten around the values, as exponents, and at most seven ticks."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high += low == high
    return low, high, [10.0**e for e in range(low, high + 1, 1 + (high - low) // 7)]


def _steps(count: int) -> list[int]:
    unit = next(f * 10**e for e in range(9) for f in (1, 2, 5) if count / (f * 10**e) <= 10)
    return sorted({1, *range(unit, count + 1, unit)}) if unit > 1 else list(range(1, count + 1))
