"""What the layers of a container do in place to the argument they are called with (`Value.starts`, see activations)."""

from __future__ import annotations

from torch2ms.analysis.values import Value

UNSURE = ""  # among the activations: there may be none
SOME = "("  # ... one of them, or none: it has no form
OF_CLASS = "@"  # ... those with which the forward of a class of the project begins, whose name follows
LATER = "~"  # ... what one of the later layers of a container does: a loop comes to it in a later turn
UNSEEN = "?"  # ... what layers may do that nobody saw


def begins(layer: Value) -> frozenset[str]:
    """What a module does to its argument, by its value: of a class of the project the name stands for it."""
    own = layer.kind == "module" and layer.name != "" and not layer.name.startswith(("torch.", "torchvision."))
    return frozenset({f"{OF_CLASS}{layer.name}"}) if own else layer.starts


def of_any(items: tuple[Value, ...]) -> frozenset[str]:
    """What the layers of a container do to their arguments: as the first does, or as a later one where they differ."""
    each = [begins(item) for item in items]
    if not each or any(item.kind != "module" for item in items):
        return frozenset({UNSEEN})
    later = {f"{LATER}{text}" for acts in each[1:] for text in acts if text[:1] not in (LATER, UNSEEN)}
    return each[0] if all(acts == each[0] for acts in each) else frozenset({*each[0], *later})


def within(container: Value) -> frozenset[str]:
    """What the layers of a container do to their arguments; with which it may begin says what is among them."""
    acts = of_any(container.parts)
    among = (text for text in container.starts if text[:1].isalpha()) if UNSEEN in acts else ()
    return acts | {f"{LATER}{text}" for text in among}


def perhaps(each: Value | None, front: bool) -> frozenset[str]:
    """What a part of a container does to its argument: it may begin with any of the layers, at the `front` with one."""
    acts = each.starts if each is not None else frozenset({UNSEEN})
    if front:
        return frozenset(text for text in acts if not text.startswith(LATER))
    differ = any(text.startswith(LATER) for text in acts)
    return frozenset({SOME, *(text.removeprefix(LATER) for text in acts)}) if differ else acts
