"""The signature of the exported program: nested containers to the flat inputs of the C ABI, and flat outputs back."""

import collections
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import _straight

Flatten = Callable[[Any, list[Any]], None]
Build = Callable[[Iterator[Any]], Any]

_DICTS = ("builtins.dict", "collections.OrderedDict", "collections.defaultdict")
_SEQUENCES = ("builtins.tuple", "builtins.list", "collections.deque", "collections.namedtuple")


def _read(context: Any) -> Any:
    """The context of a container, which most kinds of them have as text."""
    try:
        return json.loads(context) if isinstance(context, str) else context
    except ValueError:
        return context


def _find_class(kind: str) -> tuple[Any, Any] | None:
    """(class, how PyTorch takes it apart) of a container that PyTorch has been told about in this process."""
    pytree = sys.modules.get("torch.utils._pytree")
    known = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(kind) if pytree is not None else None
    return (pytree, known) if known is not None else None


def _find_keys(kind: str, context: Any) -> list[Any] | None:
    """The keys of a dict, or of what is like one; None for a sequence."""
    value = _read(context)
    if kind == "collections.defaultdict":
        return list(value["dict_context"])
    if kind in _SEQUENCES or not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        return list(value) if kind in _DICTS else None
    return list(value)


def _make_flatten(tree: Any, path: str) -> Flatten:
    """A function that appends the leaves of a value to a list."""
    if tree is None:
        return lambda value, leaves: leaves.append(value)
    kind, context, children = tree
    keys = _find_keys(kind, context)
    if keys is not None:
        parts = [_make_flatten(child, f"{path}[{key!r}]") for key, child in zip(keys, children, strict=True)]
        expected = set(keys)
    else:
        parts = [_make_flatten(child, f"{path}[{i}]") for i, child in enumerate(children)]

    def flatten_dict(value: Any, leaves: list[Any]) -> None:
        if not isinstance(value, Mapping) or value.keys() != expected:
            got = f"one of {list(value)}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
            raise TypeError(f"{path}: expected a dict of {keys}, got {got}")
        for key, part in zip(keys or (), parts):
            part(value[key], leaves)

    def flatten_sequence(value: Any, leaves: list[Any]) -> None:
        if not isinstance(value, (tuple, list, collections.deque)) or len(value) != len(parts):
            got = f"{len(value)}" if isinstance(value, (tuple, list, collections.deque)) else f"a {type(value).__name__}"
            raise TypeError(f"{path}: expected a sequence of {len(parts)}, got {got}")
        for element, part in zip(value, parts):
            part(element, leaves)

    plain = flatten_dict if keys is not None else flatten_sequence
    if kind in _DICTS or kind in _SEQUENCES:
        return plain

    def flatten_registered(value: Any, leaves: list[Any]) -> None:
        found = _find_class(kind)
        if found is None or not isinstance(value, found[1]):
            return plain(value, leaves)
        elements, given = found[0].SUPPORTED_NODES[found[1]].flatten_fn(value)
        if len(elements) != len(parts) or given != _read_context(found, context):
            raise TypeError(f"{path}: expected a {kind} of the structure that was exported")
        for element, part in zip(elements, parts):
            part(element, leaves)

    return flatten_registered


def _read_context(found: tuple[Any, Any], context: Any) -> Any:
    pytree, known = found
    read = pytree.SUPPORTED_SERIALIZED_TYPES[known].from_dumpable_context
    return read(context) if read is not None else json.loads(context, object_hook=pytree.enum_object_hook)


def _make_build(tree: Any) -> Build:
    """A function that makes a value of its leaves. A class that this process does not know becomes a dict, or a tuple."""
    if tree is None:
        return next
    kind, context, children = tree
    parts = [_make_build(child) for child in children]
    keys = _find_keys(kind, context)
    if kind == "builtins.tuple":
        return lambda leaves: tuple([part(leaves) for part in parts])
    if kind == "builtins.list":
        return lambda leaves: [part(leaves) for part in parts]
    if kind == "collections.deque":
        return lambda leaves: collections.deque([part(leaves) for part in parts], _read(context))
    if kind == "collections.OrderedDict":
        return lambda leaves: collections.OrderedDict((key, part(leaves)) for key, part in zip(keys or (), parts))
    if kind == "collections.defaultdict":
        factory = getattr(sys.modules.get(context["default_factory_module"]), context["default_factory_name"], None)
        return lambda leaves: collections.defaultdict(factory, ((key, part(leaves)) for key, part in zip(keys or (), parts)))

    def build(leaves: Iterator[Any]) -> Any:
        values = [part(leaves) for part in parts]
        found = None if kind in _DICTS else _find_class(kind)
        if kind == "collections.namedtuple":
            named = _find_class(str(context))
            return named[1](*values) if named is not None else tuple(values)
        if found is not None:
            return found[0].SUPPORTED_NODES[found[1]].unflatten_fn(values, _read_context(found, context))
        return dict(zip(keys, values)) if keys is not None else tuple(values)

    return build


class _Constant:
    """An input that export made a constant of."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        value = description["value"]
        self.value = float(value) if description.get("dtype") == "float64" else value


class Signature:
    """How the program is called: `flatten` makes the model's inputs of arguments, `build` makes results of its outputs."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        _, _, (positional, named) = description["arguments"]
        self.positional, self.keywords = len(positional[2]), _find_keys(named[0], named[1]) or []
        trees = [*positional[2], *named[2]]
        names: list[str | None] = list(description["names"])
        if len(names) != len(trees) or names[self.positional :] != self.keywords:
            names = [*[None] * self.positional, *self.keywords]
        self.names = names
        self.leaves: list[int | _Constant] = [leaf if isinstance(leaf, int) else _Constant(leaf) for leaf in description["inputs"]]
        self.numbers = [i for i, kind in enumerate(description["numbers"]) if kind is True]
        self.texts = [(i, kind["value"]) for i, kind in enumerate(description["numbers"]) if isinstance(kind, dict)]
        self.parts = [_make_flatten(tree, name or f"argument {i}") for i, (tree, name) in enumerate(zip(trees, names, strict=True))]
        self.is_flat = all(tree is None for tree in trees) and self.leaves == list(range(len(self.leaves)))
        self._constants = [leaf.value for leaf in self.leaves if isinstance(leaf, _Constant)]
        self._straight = _straight.make_flatten(trees, self.positional, self.keywords, self.leaves, _find_keys)
        tree = description["results"]
        self.is_single = tree is None
        walk = _make_build(tree)
        self.build: Callable[[Sequence[Any]], Any] = _straight.make_build(tree, _find_keys) or (lambda outputs: walk(iter(outputs)))

    def takes_flat(self, arguments: Sequence[Any]) -> bool:
        """The arguments can only be the model's flat inputs: nothing but None is missing among them."""
        count = len(self.leaves) - len(self._constants)
        is_leaf = not any(isinstance(value, (tuple, list, dict)) for value in arguments)
        return len(arguments) == count != len(self.names) and is_leaf and all(value is None for value in self._constants)

    def flatten(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The model's inputs. Arguments may be given by name or by position, as Python has it."""
        if self._straight is not None:
            try:
                return self._straight(arguments, named)
            except (_straight.Unusual, KeyError):
                pass  # which is taken too, or refused with a reason
        names, values = self.names, list(arguments)
        if len(values) > len(names):
            raise TypeError(f"expected {len(names)} arguments, got {len(values)}")
        for given in named:
            if given not in names:
                raise TypeError(f"unexpected argument {given!r}: expected {names}")
            if names.index(given) < len(values):
                raise TypeError(f"argument {given!r} is given twice")
        for i, name in enumerate(names[len(values) :], len(values)):
            if name is None or name not in named:
                raise TypeError(f"argument {name or i!r} is missing: expected {names}")
            values.append(named[name])
        leaves: list[Any] = []
        for part, value in zip(self.parts, values):
            part(value, leaves)
        inputs = []
        for leaf, value in zip(self.leaves, leaves):
            if isinstance(leaf, int):
                inputs.append(value)
            elif type(value) is not type(leaf.value) or value != leaf.value:
                raise ValueError(f"the program was exported for the value {leaf.value!r} of an argument that is {value!r} here")
        return inputs
