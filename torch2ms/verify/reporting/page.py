"""The report as one HTML file: verdict, curves of both sides, differences per step and parameter. Nothing is loaded."""

from __future__ import annotations

from html import escape

from torch2ms.verify.reporting.plots import bars, lines
from torch2ms.verify.reporting.report import Report, Step, verdict_line

PARAMETERS = 30  # bars; the parameters that differ least are left out
SHOWN = 12  # entries of a list; the rest unfolds
STYLE = """\
:root{--ink:#1b1f24;--paper:#fff;--faint:#d8dee4;--soft:#f6f8fa;--torch:#c2410c;--mindspore:#1d4ed8;--bar:#64748b}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:56rem;padding:0 1rem;color:var(--ink);
background:var(--paper)}
h1{font-size:1.35rem;margin-bottom:.2rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:.15rem .6rem;text-align:right;border-bottom:1px solid var(--faint)}
th:last-child,td:last-child{text-align:left;overflow-wrap:anywhere;min-width:11em}
.verdict{font-size:1.1rem;font-weight:600}.agree,.recorded{color:#116329}.differ{color:#a40e26}.not{color:#7d4e00}
code,pre{background:var(--soft);padding:0 .25em}pre{padding:.6rem;overflow-x:auto;white-space:pre-wrap}
figure{margin:.4rem 0 1rem}svg{width:100%;height:auto;font:12px system-ui,sans-serif;fill:var(--ink)}
figcaption{font-size:.85rem}.grid{stroke:var(--faint)}.bar{fill:var(--bar)}
polyline{fill:none;stroke-width:2}.torch{stroke:var(--torch)}.mindspore{stroke:var(--mindspore);stroke-dasharray:7 5}
.gradient{stroke:var(--torch)}.weight{stroke:var(--mindspore);stroke-dasharray:7 5}
.key{display:inline-block;width:1.8em;margin:0 .3em 0 1em;vertical-align:middle;border-top:3px solid}
.key.torch,.key.gradient{border-color:var(--torch)}
.key.mindspore,.key.weight{border-color:var(--mindspore);border-top-style:dashed}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#16181c;--faint:#343a42;--soft:#22262c;
--torch:#fb923c;--mindspore:#60a5fa;--bar:#94a3b8}
.agree,.recorded{color:#57d364}.differ{color:#ff7b86}.not{color:#e3b341}}
@media print{body{margin:0;max-width:none;font-size:10.5pt}figure,tr,li,pre{break-inside:avoid}h2{break-after:avoid}
thead{display:table-header-group}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
@page{margin:16mm}
"""


def html(report: Report) -> str:
    """One self-contained page."""
    body = "".join(_section(part) for part in (report, *report.also))
    title = f"verify {escape(report.original)}"
    view = "<meta name='viewport' content='width=device-width'>"
    head = f"<head><meta charset='utf-8'>{view}<title>{title}</title><style>{STYLE}</style></head>"
    return f"<!doctype html><html lang='en'>{head}<body>{body}</body></html>\n"


def _section(report: Report) -> str:
    mode = f", mode {report.mode}" if report.mode else ""
    parts = [
        f"<h1>{escape(_short(report.original))} and its translation</h1>",
        f"<p class='verdict {report.verdict.split()[0]}'>{escape(verdict_line(report))}</p>",
        f"<p>original <code>{escape(report.original)}</code>, translation <code>{escape(report.translated)}</code>, "
        f"{report.seconds:.1f} s{mode}</p>",
        _located(report),
        _list("What differs", [f"{_step(p.step)}{p.what}: {p.text}" for p in report.problems]),
        _compared(report),
        _list("Noise", report.noise),
        _list("Notes", report.notes),
        _plots(report),
        _table(report.steps),
    ]
    return "".join(parts)


def _short(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _step(number: int) -> str:
    return f"step {number}, " if number else ""


def _located(report: Report) -> str:
    text = escape("\n".join(report.located))
    return f"<h2>Where</h2><pre>{text}</pre>" if text else ""


def _list(title: str, items: list[str]) -> str:
    rows = [f"<li>{escape(item)}</li>" for item in items]
    first, rest = "".join(rows[:SHOWN]), "".join(rows[SHOWN:])
    more = f"<details><summary>{len(rows) - SHOWN} more</summary><ul>{rest}</ul></details>" if rest else ""
    return f"<h2>{title}</h2><ul>{first}</ul>{more}" if items else ""


def _compared(report: Report) -> str:
    if not report.compared:
        return ""
    rows = []
    for what, number in report.compared.items():
        worst, exact = report.worst.get(what), report.exact.get(what)
        figures = f"<td>{worst.max_abs:.1e}</td>" if worst else "<td></td>"
        if report.exact:
            figures += "".join(f"<td>{v:.1e}</td>" for v in exact) if exact else "<td></td><td></td>"
        rows.append(f"<tr><td>{number} {escape(what)}</td>{figures}<td>{escape(worst.name) if worst else ''}</td></tr>")
    more = "<th>torch from float64</th><th>mindspore from float64</th>" if report.exact else ""
    head = f"<thead><tr><th>compared</th><th>largest difference</th>{more}<th>where</th></tr></thead>"
    return f"<h2>Compared</h2><table>{head}<tbody>{''.join(rows)}</tbody></table>"


def _plots(report: Report) -> str:
    """Both losses over each other, the differences per step, and the differences per parameter."""
    steps = report.steps
    losses = lines(
        [
            ("torch", "torch", [s.loss_torch for s in steps]),
            ("mindspore", "mindspore", [s.loss_mindspore for s in steps]),
        ],
        "Loss of both sides; where only one line is seen, they lie on each other.",
    )
    errors = lines(
        [
            ("gradient", "gradients", [s.gradient.max_abs for s in steps]),
            ("weight", "weights", [s.weight.max_abs for s in steps]),
        ],
        "Largest difference at each step (logarithmic).",
        logarithmic=True,
    )
    figures = sorted(((name, worst.max_abs) for name, worst in report.parameters.items()), key=lambda item: -item[1])
    left_out = f", the {PARAMETERS} largest of {len(figures)}" if len(figures) > PARAMETERS else ""
    shares = bars(figures[:PARAMETERS], f"Largest difference of each parameter's gradients{left_out} (logarithmic).")
    titled = [("Loss", losses), ("Difference per step", errors), ("Difference per parameter", shares)]
    return "".join(f"<h2>{title}</h2>{plot}" for title, plot in titled if plot)


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
    return f"<h2>Steps</h2><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
