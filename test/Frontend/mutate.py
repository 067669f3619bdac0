"""Systematic damage to a JSON document."""

import copy

WRONG_VALUES = [None, True, -1, 2**63 - 1, 1.5, "x", [], {}, [[]], {"as_int": 1}]


def paths(value, path=()):
    """Every place in the document but the root."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield (*path, key)
        yield from paths(child, (*path, key))


def edit(document, path, change):
    """A copy of the document in which `change(parent, key)` has been called for the place."""
    result = copy.copy(document)
    parent = result
    for key in path[:-1]:
        parent[key] = copy.copy(parent[key])
        parent = parent[key]
    change(parent, path[-1])
    return result


def remove(document, path):
    return edit(document, path, lambda parent, key: parent.pop(key))


def replace(document, path, value):
    return edit(document, path, lambda parent, key: parent.__setitem__(key, value))


def rename(document, path):
    """Gives the key of an object another name."""
    return edit(document, path, lambda parent, key: parent.__setitem__("x" + key, parent.pop(key)))


def mutations(document):
    """Every removal, renaming and replacement by a value of another kind."""
    for path in paths(document):
        yield path, "removed", remove(document, path)
        if isinstance(path[-1], str):
            yield path, "renamed", rename(document, path)
        for value in WRONG_VALUES:
            yield path, f"replaced by {value!r}", replace(document, path, value)
