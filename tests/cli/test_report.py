"""Reports in every form, on a run with each kind of outcome."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from subprocess import CompletedProcess

import jsonschema
import pytest

from tests.cli import browser
from torch2ms import convert_source
from torch2ms.config import REPORTS
from torch2ms.findings import Finding, Result, Tier
from torch2ms.report import html, markdown, render, sarif
from torch2ms.report.scan import torch_names
from torch2ms.run import Outcome
from torch2ms.tree import Item

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., CompletedProcess[bytes]]
SOURCE = "import torch as t\nx = t.relu(1)  # <b>|\n" + "y = 1\n" * 30 + "refuse_me = 1\n"
FINDINGS = (
    Finding("T2M600", Tier.REFUSED, "t.foo(<x>|`y`)", "no rule", "write it by hand", 33),
    Finding("T2M601", Tier.EXACT, "t.relu", "ops.relu", "", 2),
    Finding("T2M604", Tier.ASSUMED, "whole file", "seen on CPU only"),
)


@pytest.fixture
def outcomes() -> list[Outcome]:
    def outcome(name: str, result: Result, kind: str = "python") -> Outcome:
        return Outcome(Item(Path(name), name, name, Path("out") / name, kind), result)

    return [
        outcome("src/a b.py", Result("a", SOURCE, SOURCE.replace("t.relu", "ms.ops.relu"), FINDINGS)),
        outcome("src/bad.py", Result("b", "", "", error="line 3: syntax error: <oops>")),
        outcome("src/plain.py", Result("c", "", "")),
        outcome("src/data.bin", Result("d", "", ""), "other"),
    ]


def test_text_ends_with_the_summary(outcomes: list[Outcome]) -> None:
    lines = render("text", outcomes).splitlines()
    assert lines[0] == "src/a b.py T2M604 assumed: whole file"
    assert lines[-4:] == [
        "1 of 3 files changed, 1 failed",
        "3 constructs: 1 exact, 1 assumed, 1 refused",
        "refused: src/a b.py:33 T2M600 t.foo(<x>|`y`)",
        "error: src/bad.py: line 3: syntax error: <oops>",
    ]


def test_summary_says_once_what_happens_often(outcomes: list[Outcome]) -> None:
    twice = replace(outcomes[0], result=replace(outcomes[0].result, findings=FINDINGS + FINDINGS))
    assert render("text", [twice]).splitlines()[-1] == "refused: src/a b.py:33 T2M600 t.foo(<x>|`y`) (2 times)"


def test_json_keeps_to_its_schema(outcomes: list[Outcome]) -> None:
    schema = json.loads((ROOT / "torch2ms/report/schema.json").read_text(encoding="utf-8"))
    document = json.loads(render("json", outcomes))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    assert document["total"] == {"files": 3, "changed": 1, "failed": 1, "exact": 1, "assumed": 1, "refused": 1}
    assert [entry["path"] for entry in document["files"]] == ["src/a b.py", "src/bad.py", "src/plain.py"]
    assert document["files"][0]["findings"][0]["line"] is None
    assert document["files"][1]["error"] == "line 3: syntax error: <oops>"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "format": 2}, schema)


@pytest.fixture(scope="module")
def sarif_schema() -> jsonschema.Draft4Validator:
    text = (Path(__file__).parent / "schemas/sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")
    return jsonschema.Draft4Validator(json.loads(text))


def test_sarif_keeps_to_the_official_schema(outcomes: list[Outcome], sarif_schema: jsonschema.Draft4Validator) -> None:
    document = json.loads(sarif.render(outcomes))
    sarif_schema.validate(document)
    document["runs"][0]["results"][0]["fixes"] = [{"description": {}}]
    assert not sarif_schema.is_valid(document)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_sarif_fixes_of_a_file_are_its_translation(sarif_schema: jsonschema.Draft4Validator, end: str) -> None:
    source = "import torch\n# </script>&\nx = torch.relu(y)\n" + "z = 1\n" * 9 + "x = torch.tanh(x)"
    source = source.replace("\n", end or "\n") + end
    result = convert_source(source)
    assert result.changed
    document = json.loads(sarif.render([Outcome(Item(Path("a.py"), "a.py", "a.py"), result)]))
    sarif_schema.validate(document)
    replacements = [
        replacement
        for found in document["runs"][0]["results"]
        for fix in found.get("fixes", ())
        for change in fix["artifactChanges"]
        for replacement in change["replacements"]
    ]
    lines = source.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    text = source
    places = ("startLine", "startColumn", "endLine", "endColumn")
    for replacement in sorted(replacements, key=lambda r: [-r["deletedRegion"][place] for place in places]):
        first, column, last, end_column = (replacement["deletedRegion"][place] for place in places)
        start, stop = starts[first - 1] + column - 1, starts[last - 1] + end_column - 1
        text = text[:start] + replacement["insertedContent"]["text"] + text[stop:]
    assert text == result.text


def test_sarif_has_what_services_read(outcomes: list[Outcome]) -> None:
    document = json.loads(sarif.render(outcomes))
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["T2M600", "T2M601", "T2M604"]
    assert run["tool"]["driver"]["rules"][0]["shortDescription"]["text"] == "No rule for this name."
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/a%20b.py"
        assert (result["kind"] == "pass") == (result["level"] == "none")
    regions = [result["locations"][0]["physicalLocation"].get("region") for result in run["results"]]
    assert all(
        "deletedRegion" in r for f in run["results"][1]["fixes"] for r in f["artifactChanges"][0]["replacements"]
    )
    assert regions == [None, {"startLine": 2}, {"startLine": 33}]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "line 3: syntax error: <oops>"


def test_markdown_puts_first_what_needs_a_person(outcomes: list[Outcome]) -> None:
    text = markdown.render(outcomes)
    assert text.index("## Failed") < text.index("## By hand") < text.index("## Assumed") < text.index("## Exact")
    assert "| `src/a b.py` | 1 | 1 | 1 | changed |" in text
    assert "t.foo(\\<x\\>\\|\\`y\\`)" in text
    assert markdown.code("a`b|") == "`` a`b\\| ``"
    assert "Nothing to do." in markdown.render([])


class Page(HTMLParser):
    """Checks that tags close in order, and collects what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_whole_and_needs_nothing_else(outcomes: list[Outcome]) -> None:
    page = Page()
    page.feed(html.render(outcomes))
    assert page.open == []
    assert page.links == ["#f0", "#f1", "#T2M604", "#T2M601", "#T2M600"]
    assert "x = ms.ops.relu(1)  # <b>|" in page.text
    assert "T2M600 refused t.foo(<x>|`y`): no rule. To do: write it by hand" in page.text
    assert page.text.count("y = 1") == 2 * (3 + 2)  # lines near a change and near a finding, on both sides


HOSTILE = """import torch
# </script><script>document.title = "taken"</script> <!-- <style> &amp; \u2028 ' "
x = torch.relu("<img src=x onerror='document.title = 1'>")
y = torch.no_such("</td></table>")
"""


@pytest.mark.skipif(browser.find() is None, reason=browser.MISSING)
def test_html_in_a_browser(outcomes: list[Outcome], tmp_path: Path) -> None:
    hostile = Outcome(Item(Path("<i>.py"), "<i>.py", "i.py"), convert_source(HOSTILE))
    program = str(browser.find())
    page = tmp_path / "report.html"
    page.write_text(html.render([*outcomes, hostile]), encoding="utf-8")
    seen = browser.look(program, page, tmp_path / "profile")
    assert seen.console == []
    assert "<title>torch2ms report</title>" in seen.document and "4 of 4 hunks" in output(seen)
    assert len(seen.picture) > 20_000 and seen.picture.startswith(b"\x89PNG")

    page.write_text("<script>console.error('heard')</script><p onload>", encoding="utf-8")
    assert "heard" in "".join(browser.look(program, page, tmp_path / "profile").console)

    choose = """<script>
    const form = document.getElementById("filter");
    form.elements.{name}.value = "{value}";
    form.dispatchEvent(new Event("change"));
    document.body.innerHTML = [...document.querySelectorAll(".hunk, output")]
        .filter(part => part.checkVisibility()).map(part => part.outerHTML).join("");
    </script>"""
    for name, value, count, shown, hidden in [
        ("code", "T2M600", 2, "t.foo", "whole file"),
        ("tier", "assumed", 1, "whole file", "t.foo"),
        ("file", "f2", 1, "torch.no_such", "whole file"),
    ]:
        script = choose.format(name=name, value=value)
        page.write_text(html.render([*outcomes, hostile]).replace("</body>", script + "</body>"), encoding="utf-8")
        seen = browser.look(program, page, tmp_path / "profile")
        body = seen.document[seen.document.index("<body") :]
        assert seen.console == []
        assert f"{count} of 4 hunks" in body and shown in body and hidden not in body, (name, value)


def output(seen: browser.Look) -> str:
    found = re.search(r"<output[^>]*>([^<]*)</output>", seen.document)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("form", REPORTS)
def test_reports_from_the_command_line(run: Run, tmp_path: Path, form: str) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    done = run("convert", "--check", "--report", form, "--report-file", "report", "a.py")
    assert (done.returncode, done.stdout) == (1, b"")
    direct = run("convert", "--check", "--report", form, "a.py")
    assert direct.stdout == (tmp_path / "report").read_bytes()
    failed = run("convert", "--check", "--report", form, "--report-file", "no/such/report", "a.py")
    assert failed.returncode == 2 and b"Traceback" not in failed.stderr


def test_scan_counts_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text(SOURCE)
    (tmp_path / "src/b.py").write_text("import torch as t\nt.relu(1)\n")
    (tmp_path / "src/c.py").write_text("x = 1\n")
    table = run("scan", "src").stdout.decode()
    assert [line.split("  ")[0] for line in table.splitlines()[:4]] == [
        "file",
        "src/a.py",
        "src/b.py",
        "total, 3 files",
    ]
    assert [line.split()[-4:] for line in table.splitlines()[1:3]] == [
        ["0", "1", "by", "hand"],
        ["1", "0", "0", "small"],
    ]
    assert table.splitlines()[3].split()[-3:] == ["2", "0", "1"]
    assert "  src/a.py:3 T2M600 refuse_me\n" in table and "      2  torch.relu\n" in table
    facts = json.loads(run("scan", "src", "--format", "json").stdout)
    schema = json.loads((ROOT / "torch2ms/report/scan.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(facts)
    assert [(c["code"], c["tier"], c["count"]) for c in facts["files"][0]["codes"]] == [
        ("T2M600", "refused", 1),
        ("T2M610", "exact", 1),
    ]
    assert facts["total"]["effort"] == {"none": 1, "small": 1, "by hand": 1}
    assert facts["names"] == [{"name": "torch.relu", "count": 2}]
    assert "| src/a.py | 1 | 0 | 1 | by hand |" in run("scan", "src", "--format", "markdown").stdout.decode()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.py", "b.py", "c.py", "src"]
    (tmp_path / "src/d.py").write_text("import torch\nx = (\n")
    done = run("scan", "src")
    assert done.returncode == 2 and b"src/d.py: line 2: syntax error" in done.stdout


def test_torch_names_follow_imports() -> None:
    source = """
import torch, torch.nn as nn
from torch.nn import functional as F, Linear
from mytorch import thing
class Net(nn.Module):
    f = Linear(1, 2)
F.relu(torch.nn.init.zeros_(thing(1))).sum()
nn.Module
"""
    assert torch_names(source) == {
        "torch.nn.Module": 2,
        "torch.nn.Linear": 1,
        "torch.nn.functional.relu": 1,
        "torch.nn.init.zeros_": 1,
    }
