"""What the installed PyTorch says of its operators: native_functions.yaml, read through torchgen."""

import dataclasses
import functools
import pathlib

import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import BackendIndex, DispatchKey, NativeFunction, SchemaKind
from torchgen.native_function_generation import pre_group_native_functions

PACKAGED = pathlib.Path(torchgen.__file__).parent / "packaged/ATen/native"


@dataclasses.dataclass(frozen=True)
class Group:
    """The forms of one operator that take the same arguments: a result returned, or written to `self`, or to `out`."""

    functional: NativeFunction | None
    inplace: NativeFunction | None
    out: NativeFunction | None
    mutable: NativeFunction | None

    def forms(self) -> list[NativeFunction]:
        return [f for f in (self.functional, self.inplace, self.out, self.mutable) if f is not None]


@dataclasses.dataclass(frozen=True)
class NativeFunctions:
    functions: tuple[NativeFunction, ...]
    backends: dict[DispatchKey, BackendIndex]

    @functools.cached_property
    def by_name(self) -> dict[str, NativeFunction]:
        """By name and overload as torchgen writes them: `add.Tensor`, `relu`, `relu_`."""
        return {str(f.func.name): f for f in self.functions}

    @functools.cached_property
    def groups(self) -> list[Group]:
        """Sorted by the name of the first form."""
        groups = [
            Group(*(forms.get(kind) for kind in (SchemaKind.functional, SchemaKind.inplace, SchemaKind.out, SchemaKind.mutable)))
            for forms in pre_group_native_functions(self.functions).values()
        ]
        return sorted(groups, key=lambda group: str(group.forms()[0].func.name))

    @functools.cached_property
    def group_of(self) -> dict[str, Group]:
        return {str(f.func.name): group for group in self.groups for f in group.forms()}

    def has_kernel(self, function: NativeFunction, *keys: DispatchKey) -> bool:
        """A kernel is registered for one of the keys, directly or through the structured form it delegates to."""
        if any(self.backends[key].has_kernel(function) for key in keys if key in self.backends):
            return True
        delegate = function.structured_delegate
        return delegate is not None and self.has_kernel(self.by_name[str(delegate)], *keys)


@functools.cache
def native_functions() -> NativeFunctions:
    parsed = parse_native_yaml(str(PACKAGED / "native_functions.yaml"), str(PACKAGED / "tags.yaml"))
    return NativeFunctions(tuple(parsed.native_functions), parsed.backend_indices)


def qualified(name: str) -> str:
    """`relu` as exported programs write it: `aten.relu.default`."""
    return f"aten.{name}" if "." in name else f"aten.{name}.default"
