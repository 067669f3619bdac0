"""Reads generator/ops.yaml, the list of the operators that Kiln's backend for PyTorch's dispatcher registers.

    backend: PrivateUse1      # the dispatch key
    supported: [add.Tensor]   # registered for it
    autograd: [dropout]       # registered for its autograd key: what PyTorch composes of other operators

Nothing is guessed: whatever is not exactly right is an error with its line and the nearest right name. All errors of a
file are reported together.
"""

import dataclasses
import difflib
import pathlib

import yaml
from torchgen.model import DispatchKey, NativeFunction, SchemaKind

from native_functions import NativeFunctions

KEYS = ("backend", "supported", "autograd")
STRING = "tag:yaml.org,2002:str"


@dataclasses.dataclass(frozen=True)
class Ops:
    backend: str
    supported: tuple[NativeFunction, ...]
    autograd: tuple[NativeFunction, ...]


class OpsError(Exception):
    """All that is wrong with a file, one line for each problem."""


def backend_keys() -> list[str]:
    """Dispatch keys that a backend may have, which are those with an autograd key beside them."""
    names = {key.name for key in DispatchKey}
    return sorted(name for name in names if f"Autograd{name}" in names)


def suggestion(name: str, candidates) -> str:
    """The nearest of the candidates; the case of letters only decides between equals."""

    def likeness(candidate: str) -> tuple[float, float]:
        letters = difflib.SequenceMatcher(None, name.lower(), candidate.lower()).ratio()
        return letters, difflib.SequenceMatcher(None, name, candidate).ratio()

    nearest = max(sorted(candidates), key=likeness)
    return f"; did you mean '{nearest}'?" if likeness(nearest)[0] >= 0.6 else ""


def describe(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    kind = node.tag.rsplit(":", 1)[-1]
    return "nothing" if kind == "null" else f"'{node.value}'" if kind == "str" else f"{node.value} ({kind})"


class Reader:
    def __init__(self, path: pathlib.Path, name: str, natives: NativeFunctions):
        self.path, self.name, self.natives = path, name, natives
        self.problems: list[tuple[int, str]] = []
        self.base_names = sorted({name.split(".")[0] for name in natives.by_name})

    def complain(self, node: yaml.Node | None, text: str) -> None:
        self.problems.append((node.start_mark.line + 1 if node else 1, text))

    def read(self) -> Ops:
        ops = self.read_root()
        if self.problems:
            lines = [f"{self.name}:{line}: {text}" for line, text in sorted(self.problems, key=lambda problem: problem[0])]
            raise OpsError("\n".join(lines))
        return ops

    def read_root(self) -> Ops | None:
        try:
            root = yaml.compose(self.path.read_text(), Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            self.problems.append((error.problem_mark.line + 1, f"not YAML: {error.problem}"))
            return None
        if not isinstance(root, yaml.MappingNode):
            self.complain(root, f"expected a mapping with the keys {', '.join(KEYS)}, got {describe(root) if root else 'nothing'}")
            return None
        values: dict[str, yaml.Node] = {}
        for key, value in root.value:
            if key.value not in KEYS:
                self.complain(key, f"unknown key '{key.value}'{suggestion(str(key.value), KEYS) or '; the keys are ' + ', '.join(KEYS)}")
            elif key.value in values:
                self.complain(key, f"key '{key.value}' is given twice")
            else:
                values[key.value] = value
        backend = self.read_backend(root, values.get("backend"))
        listed: dict[str, tuple[str, yaml.Node]] = {}
        supported = self.read_list("supported", values.get("supported"), listed)
        autograd = self.read_list("autograd", values.get("autograd"), listed)
        self.check_forms(listed)
        return Ops(backend, tuple(supported), tuple(autograd))

    def read_backend(self, root: yaml.Node, node: yaml.Node | None) -> str:
        if node is None:
            self.complain(root, "the key 'backend' is missing")
            return ""
        if node.tag != STRING:
            self.complain(node, f"'backend': expected the name of a dispatch key, got {describe(node)}")
            return ""
        keys = backend_keys()
        if node.value not in keys:
            self.complain(node, f"'backend': '{node.value}' is no dispatch key of a backend{suggestion(node.value, keys)}")
        return node.value

    def read_list(self, key: str, node: yaml.Node | None, listed: dict[str, tuple[str, yaml.Node]]) -> list[NativeFunction]:
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            self.complain(node, f"'{key}': expected a list of operators, got {describe(node)}")
            return []
        functions = []
        for item in node.value:
            if item.tag != STRING:
                self.complain(item, f"'{key}': expected the name of an operator, got {describe(item)}")
                continue
            function = self.find(item)
            if function is None:
                continue
            if item.value in listed:
                other, first = listed[item.value]
                where = f"first on line {first.start_mark.line + 1}"
                if other == key:
                    self.complain(item, f"'{item.value}' is listed twice, {where}")
                else:
                    self.complain(item, f"'{item.value}' is in '{other}' and in '{key}', {where}")
                continue
            listed[item.value] = key, item
            composite = function.has_composite_implicit_autograd_kernel
            if composite and key == "supported":
                self.complain(item, f"'{item.value}' is composed of other operators, gradients included: it belongs to 'autograd'")
            elif not composite and key == "autograd":
                self.complain(item, f"'{item.value}' has a kernel for each backend: it belongs to 'supported'")
            functions.append(function)
        return functions

    def find(self, item: yaml.ScalarNode) -> NativeFunction | None:
        name = item.value
        function = self.natives.by_name.get(name)
        if function is not None:
            return function
        plain = name.removeprefix("aten::").removeprefix("aten.").removesuffix(".default")
        if plain in self.natives.by_name:
            self.complain(item, f"'{name}' is written '{plain}' here")
            return None
        base, dot, overload = plain.partition(".")
        overloads = [other for other in self.natives.by_name if other.split(".")[0] == base]
        if not overloads:
            self.complain(item, f"unknown operator '{name}'{suggestion(base, self.base_names)}")
        elif not dot:
            self.complain(item, f"'{name}' has overloads only: {', '.join(sorted(overloads))}")
        else:
            near = suggestion(plain, overloads) or f"; it has {', '.join(sorted(overloads))}"
            self.complain(item, f"operator '{base}' has no overload '{overload}'{near}")
        return None

    def check_forms(self, listed: dict[str, tuple[str, yaml.Node]]) -> None:
        """An out or in-place form is made from the functional one, for the same key."""
        for name, (key, item) in listed.items():
            function = self.natives.by_name[name]
            kind = function.func.kind()
            if kind == SchemaKind.functional:
                continue
            functional = self.natives.group_of[name].functional
            if functional is None:
                continue  # there is none to be made from
            functional_name = str(functional.func.name)
            what = "out=" if kind == SchemaKind.out else "in-place"
            if functional_name not in listed:
                self.complain(item, f"the {what} form '{name}' is listed without its functional form '{functional_name}'")
            elif listed[functional_name][0] != key:
                other = listed[functional_name][0]
                self.complain(item, f"'{name}' is in '{key}', its functional form '{functional_name}' in '{other}'")


def read_ops(path: pathlib.Path, natives: NativeFunctions, name: str | None = None) -> Ops:
    """`name` is what messages call the file."""
    return Reader(path, name or str(path), natives).read()
