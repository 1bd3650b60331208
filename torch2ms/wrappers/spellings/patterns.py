"""Patterns of einops, `"b (h d) n -> b h n d"`, as methods of tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping

ELLIPSIS = "..."
UNIT = "1"
REDUCTIONS = {"mean": "mean", "sum": "sum", "max": "amax", "min": "amin"}
_AXIS = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"\b(?:[2-9]|\d\d+)\b")
_ATOM = re.compile(r"[\w.]+")
_TOKEN = re.compile(r"\.\.\.|[A-Za-z_]\w*|\d+|[()]|\S")

Group = tuple[str, ...]  # of one axis, of those in parentheses, of none for `1` and `()`


def methods(function: str, pattern: str, sizes: Mapping[str, str], tensor: str, named: bool, how: str = "") -> str:
    """The tensor after `rearrange`, `repeat` or `reduce`; the empty text where it takes more than methods.

    `sizes` are the texts of lengths that the call gives, `how` the reduction. A tensor that is `named` may be asked for
    its shape; another is written once.
    """
    numbers = {f"of_{n.start()}": n[0] for n in _NUMBER.finditer(pattern)}
    sizes = {**sizes, **numbers}
    pattern = _NUMBER.sub(lambda n: f"of_{n.start()}", pattern)
    sides = [side for text in pattern.split("->") if (side := _side(text)) is not None]
    if len(sides) != 2 or pattern.count("->") != 1:
        return ""
    left, right = sides
    before, after = _axes(left), _axes(right)
    fits = {"rearrange": before == after, "repeat": before <= after, "reduce": after <= before and how in REDUCTIONS}
    if not fits[function] or any(ELLIPSIS in g and len(g) > 1 for g in left) or not after - before <= sizes.keys():
        return ""
    if function == "repeat" and _in_place(left, right):
        lengths = [sizes[g[0]] if g and g[0] not in before else "-1" for g in right]
        return f"{tensor}.expand({', '.join(lengths)})"
    work = _Work(tensor, sizes)
    if not work.taken_apart(left, named):
        return ""
    work.squeezed()
    if ELLIPSIS in before and (ELLIPSIS not in after or any(ELLIPSIS in g and len(g) > 1 for g in right)):
        work.closed()
    if before - after:
        work.reduced(sorted(before - after), REDUCTIONS[how])
    if not work.turned([axis for group in right for axis in group if axis in before]):
        return ""
    work.widened([axis for group in right for axis in group or (UNIT,)], after - before)
    work.put_together(right)
    return work.text


def _side(text: str) -> list[Group] | None:
    """The groups on one side of the arrow; None where something else is written there."""
    groups: list[Group] = []
    inside: list[str] | None = None
    for token in _TOKEN.findall(text):
        if token == "(" and inside is None:
            inside = []
        elif token == ")" and inside is not None:
            groups.append((*inside, "()") if ELLIPSIS in inside else tuple(inside))
            inside = None
        elif token == UNIT:
            groups += [()] if inside is None else []
        elif token == ELLIPSIS or _AXIS.fullmatch(token):
            if inside is None:
                groups.append((token,))
            else:
                inside.append(token)
        else:
            return None
    axes = [axis for group in groups for axis in group if axis != "()"]
    return groups if inside is None and len(axes) == len(set(axes)) else None


def _in_place(left: list[Group], right: list[Group]) -> bool:
    """What is new stands where an axis of one element was: `"1 n d -> b n d"`."""
    alike = len(left) == len(right) and not any(ELLIPSIS in group or len(group) > 1 for group in [*left, *right])
    return alike and all(old in ((), new) for old, new in zip(left, right, strict=True)) and () in left


def _axes(groups: list[Group]) -> set[str]:
    return {axis for group in groups for axis in group} - {"()"}


class _Work:
    """A tensor on its way, with the names of its axes as they are."""

    def __init__(self, text: str, sizes: Mapping[str, str]) -> None:
        self.text = text
        self.sizes = sizes
        self.axes: list[str] = []

    def at(self, position: int) -> int:
        """The number of an axis: counted from the end behind axes of which nobody says how many there are."""
        unknown = ELLIPSIS in self.axes and self.axes.index(ELLIPSIS) < position
        return position - len(self.axes) if unknown else position

    def taken_apart(self, groups: list[Group], named: bool) -> bool:
        """One axis for each name: `(h d)` becomes two."""
        self.axes = [axis for group in groups for axis in group or (UNIT,)]
        composed = [group for group in groups if len(group) > 1]
        if any(sum(axis not in self.sizes for axis in group) > 1 for group in composed):
            return False
        if not composed:
            return True
        if named:
            self.text += f".reshape({', '.join(self._lengths(groups))})"
            self.axes = [axis for group in groups for axis in group]
            return True
        whole: list[str] = ["/".join(group) or UNIT for group in groups]
        split, self.axes = self.axes, whole
        for group in composed:
            at = self.axes.index("/".join(group))
            lengths = ", ".join(self.sizes.get(axis, "-1") for axis in group)
            self.text += f".unflatten({self.at(at)}, ({lengths}))"
            self.axes[at : at + 1] = group
        assert self.axes == split
        return True

    def _lengths(self, groups: list[Group]) -> list[str]:
        """The arguments of `reshape`: lengths as they are, and those of the axes that a group is made of."""
        tensor, found = self.text, []
        middle = next((i for i, group in enumerate(groups) if ELLIPSIS in group), len(groups))
        start: int | None = None  # of axes that stay
        open_ = "-1"
        for i, group in enumerate([*groups, ()]):
            at = i if i <= middle else i - len(groups)
            stays = i < len(groups) and len(group) == 1
            if stays and start is None:
                start = at
            elif not stays and start is not None:
                alone = i - 1 != middle and start == (i - 1 if i - 1 <= middle else i - 1 - len(groups))
                end = "" if i == len(groups) else at
                found.append(f"{tensor}.shape[{start}]" if alone else f"*{tensor}.shape[{start or ''}:{end}]")
                start = None
            for axis in group if len(group) > 1 else ():
                others = [self.sizes[a] for a in group if a != axis and a in self.sizes]
                rest = others[0] if len(others) == 1 and _ATOM.fullmatch(others[0]) else f"({' * '.join(others)})"
                found.append(self.sizes.get(axis) or open_ or f"{tensor}.shape[{at}] // {rest}")
                open_ = "" if axis not in self.sizes else open_
        return found

    def squeezed(self) -> None:
        """Without the axes of one element that nothing names."""
        while UNIT in self.axes:
            at = self.axes.index(UNIT)
            self.text += f".squeeze({self.at(at)})"
            del self.axes[at]

    def closed(self) -> None:
        """The axes that nobody has counted become one."""
        at = self.axes.index(ELLIPSIS)
        behind = len(self.axes) - 1 - at
        self.text += f".flatten({at}, {-1 - behind})" if behind else f".flatten({at})"
        self.axes[at] = "(...)"

    def reduced(self, names: list[str], method: str) -> None:
        gone = [i for i, axis in enumerate(self.axes) if axis in names or axis == "(...)" and ELLIPSIS in names]
        dims = ", ".join(str(self.at(i)) for i in gone)
        self.text += f".{method}({dims})" if len(gone) == 1 else f".{method}(({dims}))"
        self.axes = [axis for i, axis in enumerate(self.axes) if i not in gone]

    def turned(self, order: list[str]) -> bool:
        """The axes in another order."""
        order = ["(...)" if axis == ELLIPSIS and "(...)" in self.axes else axis for axis in order]
        moved = [i for i, (old, new) in enumerate(zip(self.axes, order, strict=True)) if old != new]
        if not moved:
            return True
        if len(moved) == 2 and ELLIPSIS not in (self.axes[moved[0]], self.axes[moved[1]]):
            self.text += f".transpose({self.at(moved[0])}, {self.at(moved[1])})"
        elif ELLIPSIS not in order:
            self.text += f".permute({', '.join(str(self.axes.index(axis)) for axis in order)})"
        elif not self._moved_alone(order):
            return False
        self.axes = order
        return True

    def _moved_alone(self, order: list[str]) -> bool:
        for axis in order:
            left = [a for a in self.axes if a != axis]
            if axis != ELLIPSIS and left == [a for a in order if a != axis]:
                start = self.at(self.axes.index(axis))
                self.axes = order
                self.text += f".movedim({start}, {self.at(order.index(axis))})"
                return True
        return False

    def widened(self, final: list[str], new: set[str]) -> None:
        """With axes of one element, and with `new` ones along which everything stands several times."""
        final = [axis for axis in final if axis != "()"]
        final = ["(...)" if axis == ELLIPSIS and "(...)" in self.axes else axis for axis in final]
        added = [i for i, axis in enumerate(final) if axis == UNIT or axis in new]
        if len(added) > 1 and final:
            parts = ["None" if i in added else ELLIPSIS if axis == ELLIPSIS else ":" for i, axis in enumerate(final)]
            while parts[-1] == ":" and ELLIPSIS not in parts:
                parts.pop()
            self.text += f"[{', '.join(parts)}]"
            self.axes = final
        elif added:
            self.axes = final
            self.text += f".unsqueeze({self.at(added[0])})"
        if new and ELLIPSIS not in final:
            self.text += f".expand({', '.join(self.sizes[axis] if axis in new else '-1' for axis in final)})"
        elif new:
            for i in (i for i, axis in enumerate(final) if axis in new):
                self.text += f".repeat_interleave({self.sizes[final[i]]}, {self.at(i)})"

    def put_together(self, groups: list[Group]) -> None:
        """`(h d)` is one axis again."""
        for group in groups:
            named = ["(...)" if axis == ELLIPSIS else axis for axis in group if axis != "()"]
            if len(named) < 2:
                continue
            at = self.axes.index(named[0])
            first, last = self.at(at), self.at(at + len(named) - 1)
            end = at + len(named) == len(self.axes)
            self.text += f".flatten({first})" if end else f".flatten({first}, {last})"
            self.axes[at : at + len(named)] = ["/".join(named)]
