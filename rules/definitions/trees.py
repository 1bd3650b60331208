"""Nested lists, tuples and dicts, and their leaves."""


def tree_children(tree):
    """The parts of a container, and how to make one of the same kind of others; None for a leaf."""
    if isinstance(tree, dict):
        return list(tree.values()), lambda parts: type(tree)(zip(tree, parts))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return list(tree), lambda parts: type(tree)(*parts)
    if isinstance(tree, (list, tuple)):
        return list(tree), type(tree)
    return None


def tree_map(func, tree, *rests):
    if (found := tree_children(tree)) is None:
        return func(tree, *rests)
    parts, made = found
    others = [tree_children(rest)[0] for rest in rests]
    return made([tree_map(func, *row) for row in zip(parts, *others)])


def tree_map_only(kind, func, tree):
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree)


def tree_leaves(tree):
    found = tree_children(tree)
    return [tree] if found is None else [leaf for part in found[0] for leaf in tree_leaves(part)]


def tree_flatten(tree):
    """The leaves, and the tree that shows how they stand."""
    return tree_leaves(tree), tree


def tree_unflatten(leaves, shape):
    left = iter(leaves)
    return tree_map(lambda _: next(left), shape)
