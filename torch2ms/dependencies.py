"""Dependency files: torch leaves and MindSpore enters, everything else stays as it is written.

Each format is edited where its own grammar says a requirement stands, never by a search for the word: torchmetrics and
pytorch-lightning are other packages.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from torch2ms.findings import Finding, Result, Tier

CHANGED, BY_HAND = "T2M950", "T2M951"
BESIDE = {"tensorboardX": "2.6"}  # what definitions import of other packages, and the version that they are tried with
REQUIREMENT = re.compile(
    r"""(?P<name>torch|torchvision)\s*(?P<extras>\[[^\]]*\])?\s*
    (?P<version>(?:\(?\s*(?:[<>=!~]=?=?\s*[^\s;,#()]+\s*,?\s*)+\)?)|(?:@\s*[^\s;]+))?\s*
    (?P<marker>;[^#\\]*?)?(?P<tail>\s*)$""",
    re.VERBOSE | re.IGNORECASE,
)
SECTION = re.compile(r"^\s*\[+\s*([^\]]+?)\s*\]+")


@dataclass(frozen=True)
class Wish:
    """What becomes of a project's requirements: packages that nothing imports any more, and what comes in."""

    remove: frozenset[str]  # a part of {"torch", "torchvision"}
    target: str  # MindSpore version
    others: tuple[str, ...] = ()  # packages that definitions in the translations import

    @property
    def floors(self) -> dict[str, str]:
        """The packages that come in, and their versions at least."""
        return {"mindspore": self.target} | {name: BESIDE[name] for name in self.others}


def beside(text: str) -> set[str]:
    """Packages that a definition in a translation imports."""
    return {name for name in BESIDE if re.search(rf"^\s+import {name}\b", text, re.MULTILINE)}


def still_imported(text: str) -> set[str]:
    """Packages of torch that a module or notebook may import; rather one too many than one too few."""
    return set(re.findall(r"\b(?:from|import)\s+(?:[\w.]+(?:\s+as\s+\w+)?\s*,\s*)*(torch|torchvision)\b", text))


def is_dependency_file(name: str) -> bool:
    """Does a file of this name list what a project needs?"""
    path = PurePath(name)
    if path.suffix in (".txt", ".in"):
        return bool(re.match(r"(.*[-_.])?(requirements|constraints|deps)([-_.].*)?$", path.stem)) or (
            path.parent.name == "requirements"
        )
    return path.name in ("pyproject.toml", "setup.cfg", "setup.py") or bool(
        re.fullmatch(r"(conda|env|environment)([-_.].*)?\.ya?ml", path.name)
    )


def edit(name: str, text: str, wish: Wish) -> Result:
    """The dependency file with torch replaced; what cannot be edited safely is told and left."""
    path = PurePath(name)
    wish = replace(wish, others=tuple(other for other in wish.others if other.lower() not in text.lower()))
    if not re.search(r"(?i)torch", text) or re.search(r"(?im)^[\s\"'-]*mindspore\b", text):
        return Result(name, text, text)
    if path.name == "pyproject.toml":
        return _pyproject(name, text, wish)
    if path.name == "setup.py":
        return _setup_py(name, text, wish)
    if path.name == "setup.cfg":
        return _lines(name, text, wish, _setup_cfg_place)
    if path.suffix in (".yml", ".yaml"):
        return _lines(name, text, wish, _conda_place)
    return _lines(name, text, wish, lambda line, state: ("", line))


State = dict[str, str]
Place = Callable[[str, State], "tuple[str, str] | None"]


def _lines(name: str, text: str, wish: Wish, place: Place) -> Result:
    """Edit a format in which a requirement has a line of its own; `place` splits a line into lead and requirement."""
    out: list[str] = []
    findings: list[Finding] = []
    state: State = {}
    entered: dict[str, set[str]] = defaultdict(set)
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        body = line.rstrip("\r\n")
        code, comment = _comment(body)
        parts = place(code, state)
        old = parts[1].strip() if parts else ""
        match = REQUIREMENT.match(old)
        if match is None and re.match(r"(?i)torch(vision)?(?![\w.-])", old):
            findings.append(_by_hand(old, number))
        group = state.get("section", "") + state.get("key", "")
        new = _replacement(match, wish, entered[group]) if match else [old]
        if parts is None or new == [old]:
            out.append(line)
            continue
        findings.append(Finding(CHANGED, Tier.EXACT, old, _what(new), line=number))
        lead = parts[0] + parts[1][: len(parts[1]) - len(parts[1].lstrip())]
        after = code[len(code.rstrip()) :] + comment
        end = line[len(body) :] or "\n"
        if new:
            written = [lead + new[0] + after, *(_further(lead) + entry for entry in new[1:])]
        else:
            written = [(lead + comment).rstrip()] if "=" in lead or comment else []
        block = end.join(written) + (line[len(body) :] if written else "")
        out.append(block)
    return Result(name, text, "".join(out), tuple(findings))


def _further(lead: str) -> str:
    """The lead of a second requirement: `key = ` is not said twice."""
    return "    " if "=" in lead else lead


def _comment(line: str) -> tuple[str, str]:
    match = re.search(r"(^|\s)#.*$", line)
    if not match:
        return line, ""
    start = match.start() + len(match[1])
    return line[:start], line[start:]


def _replacement(match: re.Match[str], wish: Wish, entered: set[str]) -> list[str]:
    """The requirements that stand in the place of one; what `entered` holds is there already."""
    name = match["name"].lower()
    new = [] if name in wish.remove else [match[0].rstrip()]
    for package, floor in wish.floors.items() if name == "torch" else ():
        enter = f"{package}>={floor}" + (match["marker"] or "").rstrip()
        if enter not in entered:
            entered.add(enter)
            new.append(enter)
    return new


def _what(new: list[str]) -> str:
    return f"now {' and '.join(new)}" if new else "no file imports it any more"


def _by_hand(what: str, line: int) -> Finding:
    todo = "replace it by mindspore where no file needs torch any more"
    return Finding(BY_HAND, Tier.REFUSED, what, "this form of requirement is not edited", todo, line)


def _setup_cfg_place(line: str, state: dict[str, str]) -> tuple[str, str] | None:
    section = SECTION.match(line)
    if section:
        state.update(section=section[1], key="")
        return None
    key = re.match(r"([A-Za-z_][\w.-]*)\s*[=:]\s*", line)
    if key:
        state["key"] = key[1]
        lead, rest = line[: key.end()], line[key.end() :]
    else:
        lead, rest = "", line
    inside = state.get("section") == "options.extras_require" or (
        state.get("section") == "options"
        and state.get("key") in ("install_requires", "tests_require", "setup_requires")
    )
    return (lead, rest) if inside and rest.strip() else None


def _conda_place(line: str, state: dict[str, str]) -> tuple[str, str] | None:
    key = re.match(r"(\w+)\s*:", line)
    if key:
        state["table"] = key[1]
    item = re.match(r"(\s*)-\s+", line)
    if not item or state.get("table") != "dependencies":
        return None
    indent = len(item[1])
    if re.match(r"\s*-\s+pip\s*:\s*$", line):
        state["pip"] = str(indent)
        return None
    if "pip" in state and indent <= int(state["pip"]):
        del state["pip"]
    rest = line[item.end() :]
    if "pip" not in state:
        conda = re.match(r"(?:[\w-]+::)?(pytorch|torchvision)(?![\w-])", rest)
        return (line[: item.end()], f"torch (conda package {rest.strip()})") if conda else None
    return line[: item.end()], rest


def _pyproject(name: str, text: str, wish: Wish) -> Result:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Result(name, text, text, error=f"not valid TOML: {error}")
    new, findings = text, []
    for start, stop in reversed(list(_arrays(text))):  # from the end, so that the places before stay true
        entered: set[str] = set()
        edits = []
        for place in _strings(text, start, stop):
            old = text[place.start() + 1 : place.end() - 1]
            match = REQUIREMENT.match(old)
            entries = _replacement(match, wish, entered) if match else [old]
            if entries != [old]:
                edits.append((place, entries))
                findings.append(Finding(CHANGED, Tier.EXACT, old, _what(entries), line=_line(text, place.start())))
        for place, entries in reversed(edits):
            new = _edit_element(new, place, entries)
    new, told = _poetry(new, wish)
    findings += told
    try:
        sound = new == text or _without(tomllib.loads(new)) == _without(data)
    except tomllib.TOMLDecodeError:
        sound = False
    return Result(name, text, new, tuple(findings)) if sound else Result(name, text, text, (_by_hand("torch", 0),))


POETRY = re.compile(r"tool\.poetry\.(?:dev-dependencies|(?:group\.[\w.-]+\.)?dependencies)")
POETRY_LINE = re.compile(
    r"""(?P<name>torch|torchvision)(?P<equals>\s*=\s*)(?:
    (?P<plain>"[^"]*"|'[^']*')
    |\{(?P<before>[^{}]*?\bversion\s*=\s*)(?P<version>"[^"]*"|'[^']*')(?P<after>[^{}]*)\}
    )(?P<tail>\s*(?:\#.*)?)$""",
    re.VERBOSE | re.IGNORECASE,
)


def _poetry(text: str, wish: Wish) -> tuple[str, list[Finding]]:
    """The tables of Poetry: a package and its version per line, or a table in one line with a version and markers."""
    out: list[str] = []
    findings: list[Finding] = []
    table = ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        body = line.rstrip("\r\n")
        section = SECTION.match(body)
        table = re.sub(r"[\s\"']", "", section[1]) if section else table
        named = POETRY.fullmatch(table) and re.match(r"""["']?(torch|torchvision)["']?\s*=""", body, re.IGNORECASE)
        if not named:
            apart = re.fullmatch(r"tool\.poetry\..*dependencies\.(torch|torchvision)", table) if section else None
            findings += [_by_hand(table, number)] if apart else []
            out.append(line)
            continue
        found = POETRY_LINE.match(body)
        if found is None or re.search(r"\b(?:extras|git|url|path|source)\s*=", body):
            findings.append(_by_hand(body.strip(), number))
            out.append(line)
            continue
        name = found["name"].lower()
        new = [] if name in wish.remove else [body]
        for package, floor in wish.floors.items() if name == "torch" else ():
            value = f'">={floor}"' if found["plain"] else f'{{{found["before"]}">={floor}"{found["after"]}}}'
            new.append(f"{package}{found['equals']}{value}{found['tail']}")
        if name != "torch" and not new and "#" in found["tail"]:
            new.append(found["tail"].strip())
        findings.append(
            Finding(CHANGED, Tier.EXACT, body.strip(), _what([entry for entry in new if entry]), line=number)
        )
        end = line[len(body) :] or "\n"
        out.append("".join(entry + end for entry in new) if line != body else end.join(new))
    return "".join(out), findings


def _setup_py(name: str, text: str, wish: Wish) -> Result:
    """Requirement strings in the keywords of the call of setup(); code is not touched."""
    if still_imported(text):
        todo = "replace torch where its build needs it no more"
        return Result(name, text, text, (Finding(BY_HAND, Tier.REFUSED, "setup.py", "it imports torch itself", todo),))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        return Result(name, text, text, error=f"cannot parse: {error}")
    lines = text.splitlines(keepends=True)
    findings: list[Finding] = []
    for node in reversed(list(_requirement_lists(tree))):
        entered: set[str] = set()
        edits = []
        for element in node.elts:
            match = REQUIREMENT.match(element.value) if isinstance(element.value, str) else None  # type: ignore[attr-defined]
            new = _replacement(match, wish, entered) if match else []
            if match and new != [match[0].rstrip()]:
                edits.append((element, new))
        for element, new in reversed(edits):
            if element.lineno != element.end_lineno or not (new or len(node.elts) == 1 or _alone(lines, element)):
                findings.append(_by_hand(ast.unparse(element), element.lineno))
                continue
            what = _what(new)
            findings.append(Finding(CHANGED, Tier.EXACT, ast.unparse(element), what, line=element.lineno))
            _write(lines, element, new)
    new_text = "".join(lines)
    return Result(name, text, new_text, tuple(sorted(findings, key=lambda finding: finding.line)))


def _requirement_lists(tree: ast.Module) -> Iterator[ast.List | ast.Tuple]:
    """Lists of plain strings that setup() is given as requirements, in the order of the file."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "setup":
            for keyword in node.keywords:
                if keyword.arg in ("install_requires", "extras_require", "tests_require", "setup_requires"):
                    found += [n for n in ast.walk(keyword.value) if isinstance(n, (ast.List, ast.Tuple))]
    plain = (n for n in found if all(isinstance(e, ast.Constant) for e in n.elts))
    yield from sorted(plain, key=lambda n: (n.lineno, n.col_offset))


def _alone(lines: list[str], element: ast.expr) -> bool:
    """Nothing but the string and its comma stands on the line."""
    return bool(re.fullmatch(r"""\s*(?P<q>["'])[^"']*(?P=q),?\s*""", lines[element.lineno - 1]))


def _write(lines: list[str], element: ast.expr, new: list[str]) -> None:
    line = lines[element.lineno - 1].encode()  # columns are counted in bytes
    before, old, after = (
        line[: element.col_offset].decode(),
        line[element.col_offset : element.end_col_offset].decode(),
        line[element.end_col_offset :].decode(),
    )
    words = [f"{old[0]}{entry}{old[0]}" if old[0] in "\"'" else repr(entry) for entry in new]
    kept = bool(words) or not _alone(lines, element)
    lines[element.lineno - 1] = f"{before}{', '.join(words)}{after}" if kept else ""


REQUIREMENT_KEYS = re.compile(
    r"""^(?:(?P<section>\[(?P<table>[^\[\]]+)\])[ \t]*(?:\#.*)?$|(?P<key>[\w."'-]+)[ \t]*=[ \t]*(?P<array>\[)?)""",
    re.MULTILINE | re.VERBOSE,
)
ELEMENT = re.compile(r"""#[^\n]*|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\[\]{}]""")


def _arrays(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of every array of requirement strings."""
    table = ""
    for found in REQUIREMENT_KEYS.finditer(text):
        if found["section"]:
            table = re.sub(r"[\s\"']", "", found["table"])
        elif found["array"] and (
            table in ("project.optional-dependencies", "dependency-groups")
            or (table == "project" and found["key"] == "dependencies")
        ):
            depth = 1
            for token in ELEMENT.finditer(text, found.end()):
                depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
                if not depth:
                    yield found.end(), token.start()
                    break


def _strings(text: str, start: int, stop: int) -> list[re.Match[str]]:
    return [token for token in ELEMENT.finditer(text, start, stop) if token[0][0] in "\"'"]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _edit_element(text: str, place: re.Match[str], entries: list[str]) -> str:
    """Put `entries` where one string of an array stands; an emptied line of its own goes."""
    quote = place[0][0]
    start = text.rfind("\n", 0, place.start()) + 1
    lead = text[start : place.start()]
    after = re.compile(r"(?P<comma>[ \t]*,)?[ \t]*(?P<comment>#[^\r\n]*)?").match(text, place.end())
    assert after is not None
    alone = not lead.strip() and text[after.end() : after.end() + 1] in "\r\n"
    words = [f"{quote}{entry}{quote}" for entry in entries]
    if entries and not alone:
        return text[: place.start()] + ", ".join(words) + text[place.end() :]
    if entries:
        end = "\r\n" if text[after.end()] == "\r" else "\n"
        further = "".join(f"{end}{lead}{word}," for word in words[1:])
        between = text[place.end() : after.end()]
        if further and not after["comma"]:
            between, further = "," + between, further[:-1]
        return text[: place.start()] + words[0] + between + further + text[after.end() :]
    if alone:
        stop = text.find("\n", after.end()) + 1
        comment = lead + after["comment"] + text[after.end() : stop] if after["comment"] else ""
        return text[:start] + comment + text[stop:]
    if after["comma"]:
        return text[: place.start()] + text[after.end("comma") :].lstrip(" \t")
    return re.sub(r",[ \t]*$", "", text[: place.start()]) + text[place.end() :]


def _without(data: dict[str, Any]) -> dict[str, Any]:
    """The document less its requirements: what an edit must not have touched."""
    poetry = data.get("tool", {}).get("poetry", {})
    left = {k: v for k, v in poetry.items() if k not in ("dependencies", "dev-dependencies", "group")}
    data = {**data, "tool": {**data.get("tool", {}), "poetry": left}}
    project = {k: v for k, v in data.get("project", {}).items() if k not in ("dependencies", "optional-dependencies")}
    return {**{key: value for key, value in data.items() if key != "dependency-groups"}, "project": project}
