"""Straight-line Python for a program's signature: what `_tree.py` does by walking containers, without the walk.

Only arguments of exactly the classes that were exported are taken, in builtin containers; for anything else there is no such
function, or it raises `Unusual`, and the walk decides. A call of a few nested arguments takes a third of the time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_CONTAINERS = {"builtins.dict": "dict", "builtins.list": "list", "builtins.tuple": "tuple"}


def _find_container(kind: str, keys: Sequence[Any] | None) -> str:
    """KeyError for what only a walk can take apart."""
    if not all(type(key) in (str, int) for key in keys or ()):
        raise KeyError(kind)
    return _CONTAINERS[kind]


class Unusual(Exception):
    """Arguments that straight-line code does not take."""


class _Flatten:
    """Writes the statements that take arguments apart. Names are of values; all text of the program is in literals."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.leaves: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def write(self, tree: Any, value: str, find_keys: Callable[[str, Any], list[Any] | None]) -> None:
        if tree is None:
            self.leaves.append(value)
            return
        kind, context, children = tree
        keys = find_keys(kind, context)
        container = _find_container(kind, keys)
        parts = [self.name() for _ in children]
        self.lines.append(f"if type({value}) is not {container} or len({value}) != {len(parts)}: raise Unusual")
        if keys is not None:
            self.lines += [f"{part} = {value}[{key!r}]" for part, key in zip(parts, keys, strict=True)]
        elif parts:
            self.lines.append(f"{', '.join(parts)}, = {value}")
        for part, child in zip(parts, children):
            self.write(child, part, find_keys)


def make_flatten(
    trees: Sequence[Any], positional: int, keywords: Sequence[str], leaves: Sequence[Any], find_keys: Callable[[str, Any], list[Any] | None]
) -> Callable[[Sequence[Any], Mapping[str, Any]], list[Any]] | None:
    """(arguments by position, arguments by name) -> the model's inputs, for a call that gives all of them just so. Of `leaves`, a
    number is an input's, and anything else has the `value` that the program was exported for."""
    code = _Flatten()
    values = [code.name() for _ in trees]
    code.lines.append(f"if len(arguments) != {positional} or len(named) != {len(keywords)}: raise Unusual")
    if positional:
        code.lines.append(f"{', '.join(values[:positional])}, = arguments")
    code.lines += [f"{value} = named[{keyword!r}]" for value, keyword in zip(values[positional:], keywords, strict=True)]
    try:
        for tree, value in zip(trees, values):
            code.write(tree, value, find_keys)
    except KeyError:  # a class of the program's own
        return None
    constants: dict[str, Any] = {"Unusual": Unusual}
    inputs = []
    for leaf, name in zip(leaves, code.leaves, strict=True):
        if isinstance(leaf, int):
            inputs.append(name)
        else:
            constants[f"constant_{name}"] = leaf.value
            test = f"{name} is not constant_{name}"
            if leaf.value is not None:
                test = f"type({name}) is not type(constant_{name}) or {name} != constant_{name}"
            code.lines.append(f"if {test}: raise Unusual")
    body = "\n    ".join([*code.lines, f"return [{', '.join(inputs)}]"])
    exec(compile(f"def flatten(arguments, named):\n    {body}\n", "<signature>", "exec"), constants)
    made: Callable[[Sequence[Any], Mapping[str, Any]], list[Any]] = constants["flatten"]
    return made


def make_build(tree: Any, find_keys: Callable[[str, Any], list[Any] | None]) -> Callable[[Sequence[Any]], Any] | None:
    """The model's outputs -> the program's result."""
    positions = iter(range(1 << 30))
    try:
        text = _write_build(tree, positions, find_keys)
    except KeyError:
        return None
    made: Callable[[Sequence[Any]], Any] = eval(compile(f"lambda outputs: {text}", "<signature>", "eval"), {})
    return made


def _write_build(tree: Any, positions: Iterator[int], find_keys: Callable[[str, Any], list[Any] | None]) -> str:
    if tree is None:
        return f"outputs[{next(positions)}]"
    kind, context, children = tree
    keys = find_keys(kind, context)
    container = _find_container(kind, keys)
    parts = [_write_build(child, positions, find_keys) for child in children]
    if keys is not None:
        return f"{{{', '.join(f'{key!r}: {part}' for key, part in zip(keys, parts, strict=True))}}}"
    if container == "list":
        return f"[{', '.join(parts)}]"
    return f"({', '.join(parts)},)" if parts else "()"
