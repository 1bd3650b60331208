"""What one side of a verification leaves behind: events in order, arrays by key, one zip without pickles."""

from __future__ import annotations

import io
import json
import math
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

VERSION = 3
FILE_LIMIT = 4 << 30  # bytes of a trace, packed or not
LARGE = 1 << 18  # values of one tensor
SAMPLE = 1 << 16
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

    def sample(self, value: Any) -> str:
        """Like `keep`, but of a large tensor only every nth value: enough to compare what is observed at every step."""
        array = np.asarray(value)
        if array.size > LARGE:
            self.meta["sampled"] = True
        return self.keep(sampled(array))

    def add(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Append one event."""
        event = {"kind": kind, **fields}
        self.events.append(event)
        return event

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event["kind"] in kinds]

    def save(self, path: Path | str) -> None:
        """Write everything to one zip: trace.json and, for every dtype, one .npy that holds its arrays end to end."""
        flat: dict[str, list[Array]] = {}
        index: dict[str, tuple[str, int, tuple[int, ...]]] = {}
        sizes: dict[str, int] = {}
        for key, array in self.arrays.items():
            kind = array.dtype.str
            index[key] = (kind, sizes.get(kind, 0), array.shape)
            sizes[kind] = sizes.get(kind, 0) + array.size
            flat.setdefault(kind, []).append(array.ravel())
        kinds = {kind: f"array{i}.npy" for i, kind in enumerate(flat)}
        document = {"version": VERSION, "meta": self.meta, "events": self.events, "index": index, "kinds": kinds}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("trace.json", json.dumps(document))
            for kind, parts in flat.items():
                buffer = io.BytesIO()
                np.save(buffer, np.concatenate(parts), allow_pickle=False)
                archive.writestr(kinds[kind], buffer.getvalue())

    @classmethod
    def load(cls, path: Path | str) -> Trace:
        """Read what `save` wrote; refuses other versions."""
        with zipfile.ZipFile(path) as archive:
            if (size := sum(entry.file_size for entry in archive.infolist())) > FILE_LIMIT:
                raise ValueError(f"{path}: {size} bytes, more than a trace may have")
            document = json.loads(archive.read("trace.json"))
            if document.get("version") != VERSION:
                raise ValueError(f"{path}: trace version {document.get('version')}, expected {VERSION}")
            flat = {
                kind: np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                for kind, name in document["kinds"].items()
            }
        arrays = {
            key: flat[kind][start : start + math.prod(shape)].reshape(shape)
            for key, (kind, start, shape) in document["index"].items()
        }
        return cls(document["meta"], document["events"], arrays)


def key_of(entry: dict[str, Any]) -> str:
    """What identifies a parameter on both sides."""
    return str(entry["uid"] or entry["own"] or entry["name"])


def sampled(array: Array) -> Array:
    """A large array's evenly spaced values, any other as it is."""
    return array.ravel()[:: array.size // SAMPLE] if array.size > LARGE else array


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
