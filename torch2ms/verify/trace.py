"""What one side of a verification leaves behind: events in order, arrays by key, one zip without pickles."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

VERSION = 1
Array: TypeAlias = npt.NDArray[Any]


def _array_of(value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"{type(value).__name__} is not numeric")
    return np.array(array, copy=True)


@dataclass
class Trace:
    """The observations of one run. `meta` says which side ran, how it ended and what it printed."""

    meta: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)

    def keep(self, value: Any) -> str:
        """Store a copy of an array and return the key under which an event can name it."""
        key = f"a{len(self.arrays)}"
        self.arrays[key] = _array_of(value)
        return key

    def add(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Append one event."""
        event = {"kind": kind, **fields}
        self.events.append(event)
        return event

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event["kind"] in kinds]

    def save(self, path: Path | str) -> None:
        """Write everything to one zip: trace.json and one .npy per array."""
        document = {"version": VERSION, "meta": self.meta, "events": self.events}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("trace.json", json.dumps(document))
            for key, array in self.arrays.items():
                buffer = io.BytesIO()
                np.save(buffer, array, allow_pickle=False)
                archive.writestr(f"{key}.npy", buffer.getvalue())

    @classmethod
    def load(cls, path: Path | str) -> Trace:
        """Read what `save` wrote; refuses other versions."""
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read("trace.json"))
            if document.get("version") != VERSION:
                raise ValueError(f"{path}: trace version {document.get('version')}, expected {VERSION}")
            arrays = {
                name[:-4]: np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        return cls(document["meta"], document["events"], arrays)


def flatten_result(value: Any, to_array: Any, where: str = "") -> list[tuple[str, Any]]:
    """(path, array) pairs of a nested RESULT; text and None are left out, anything else raises TypeError."""
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in flatten_result(item, to_array, f"{where}[{key!r}]")]
    if isinstance(value, (list, tuple)):
        return [leaf for i, item in enumerate(value) for leaf in flatten_result(item, to_array, f"{where}[{i}]")]
    if value is None or isinstance(value, str):
        return []
    if isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
        return [(where, _array_of(value))]
    array = to_array(value)
    if array is None:
        raise TypeError(f"RESULT{where}: {type(value).__name__} is not a number or array")
    return [(where, _array_of(array))]
