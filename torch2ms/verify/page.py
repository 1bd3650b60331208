"""The report as one HTML file: verdict, loss curves of both sides, figures per step, problems. Nothing is loaded."""

from __future__ import annotations

import math
from html import escape

from torch2ms.verify.report import Report, Step, verdict_line

STYLE = """\
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.3rem}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #d8dee4}th:last-child,td:last-child{text-align:left}
.agree,.recorded{color:#116329}.differ{color:#a40e26}.not{color:#7d4e00}code{background:#f1f3f5;padding:0 .25em}
svg{width:100%;height:12rem;background:#f8f9fa}.torch{stroke:#c2410c}.mindspore{stroke:#1d4ed8;stroke-dasharray:6 4}
polyline{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181c}th,td{border-color:#343a42}
code,svg{background:#22262c}.agree,.recorded{color:#57d364}.differ{color:#ff7b86}.not{color:#e3b341}}
"""


def html(report: Report) -> str:
    """One self-contained page."""
    body = [
        f"<h1>{escape(report.original)} and its translation</h1>",
        f"<p><strong class='{report.verdict.split()[0]}'>{escape(verdict_line(report))}</strong></p>",
        f"<p>translated: <code>{escape(report.translated)}</code>, {report.seconds:.1f} s</p>",
        _compared(report),
        _list("What differs", [f"{_step(p.step)}{p.what}: {p.text}" for p in report.problems]),
        _list("Noise", report.noise),
        _list("Notes", report.notes),
        _curves(report.steps),
        _table(report.steps),
    ]
    title = f"verify {escape(report.original)}"
    head = f"<head><meta charset='utf-8'><title>{title}</title><style>{STYLE}</style></head>"
    return f"<!doctype html><html lang='en'>{head}<body>{''.join(body)}</body></html>\n"


def _step(number: int) -> str:
    return f"step {number}, " if number else ""


def _list(title: str, items: list[str]) -> str:
    rows = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<h2>{title}</h2><ul>{rows}</ul>" if items else ""


def _compared(report: Report) -> str:
    if not report.compared:
        return ""
    rows = []
    for what, number in report.compared.items():
        worst = report.worst.get(what)
        figures = f"<td>{worst.max_abs:.1e}</td><td>{escape(worst.name)}</td>" if worst else "<td></td><td></td>"
        rows.append(f"<tr><td>{number} {escape(what)}</td>{figures}</tr>")
    head = "<tr><th>compared</th><th>largest difference</th><th>where</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _curves(steps: list[Step]) -> str:
    """The losses of both sides over the steps; a line that cannot be told apart is what one hopes for."""
    sides = {"torch": [s.loss_torch for s in steps], "mindspore": [s.loss_mindspore for s in steps]}
    finite = [v for values in sides.values() for v in values if v is not None and math.isfinite(v)]
    if len(steps) < 2 or not finite:
        return ""
    low, high = min(finite), max(finite)
    lines = []
    for name, values in sides.items():
        points = " ".join(
            f"{100 * i / (len(steps) - 1):.2f},{38 - 36 * (v - low) / ((high - low) or 1):.2f}"
            for i, v in enumerate(values)
            if v is not None and math.isfinite(v)
        )
        lines.append(f"<polyline class='{name}' points='{points}'/>")
    label = f"loss per step, from {low:.4g} to {high:.4g}: torch solid, mindspore dashed"
    return f"<h2>Loss</h2><p>{label}</p><svg viewBox='0 0 100 40' preserveAspectRatio='none'>{''.join(lines)}</svg>"


def _table(steps: list[Step]) -> str:
    if not steps:
        return ""
    head = "".join(f"<th>{t}</th>" for t in ("step", "loss torch", "loss mindspore", "gradient", "weight", "worst"))
    rows = []
    for step in steps:
        worst = step.weight if step.weight.max_abs > step.gradient.max_abs else step.gradient
        losses = "".join(f"<td>{'' if v is None else f'{v:.6g}'}</td>" for v in (step.loss_torch, step.loss_mindspore))
        figures = f"<td>{step.gradient.max_abs:.1e}</td><td>{step.weight.max_abs:.1e}</td>"
        rows.append(f"<tr><td>{step.index}</td>{losses}{figures}<td>{escape(worst.name)}</td></tr>")
    return f"<h2>Steps</h2><table><tr>{head}</tr>{''.join(rows)}</table>"
