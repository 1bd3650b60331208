"""Dicts whose items are attributes as well: `nets = Munch(gen=gen, disc=disc)`, then `nets.gen`."""

from __future__ import annotations

from torch2ms.analysis.program.classes import ClassInfo

# classes of libraries
LIBRARIES = frozenset({"munch.Munch", "easydict.EasyDict", "addict.Dict", "attrdict.AttrDict", "box.Box"})
DICTS = {"dict", "OrderedDict", "collections.OrderedDict"}


def is_attribute_dict(cls: ClassInfo) -> bool:
    """A dict of the project's own that answers for its keys, and is made as any dict is."""
    below_dict = any(base in DICTS for one in cls.lineage() for base in one.bases)
    return below_dict and cls.method("__getattr__") is not None and cls.method("__init__") is None
