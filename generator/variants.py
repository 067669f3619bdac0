"""Which operator returns what another one writes: lib/Dialect/Torch/AtenVariants.inc.

    aten.add.out aten.add.Tensor
    aten.add_.Tensor aten.add.Tensor

The first writes to its `out` arguments, which are its last ones, or to its first argument what the second returns for the
arguments that both have. (One that makes a tensor of nothing has no dtype, layout and device with `out`.)
"""

from torchgen.model import NativeFunction, SchemaKind

from native_functions import NativeFunctions, qualified
from schema_table import EXTRA, extra_schemas, text_lines


def by_name(function: NativeFunction, natives: NativeFunctions) -> NativeFunction | None:
    """The functional form of an in-place one that torchgen does not group with it, since their first arguments have other
    names (`dropout_` and `dropout`)."""
    base, dot, overload = str(function.func.name).partition(".")
    # `normal` is of given means.
    functional = natives.by_name.get({"normal_": "normal_functional"}.get(base, base.removesuffix("_")) + dot + overload)
    if functional is None or functional.func.kind() != SchemaKind.functional:
        return None
    ours, theirs = function.func.arguments.flat_all, functional.func.arguments.flat_all
    same = len(ours) == len(theirs) and all(
        str(a.type) == str(b.type) and (i == 0 or a.name == b.name) for i, (a, b) in enumerate(zip(ours, theirs))
    )
    return functional if same else None


def functional_form(function: NativeFunction, natives: NativeFunctions) -> NativeFunction | None:
    functional = natives.group_of[str(function.func.name)].functional
    if functional is None and function.func.kind() == SchemaKind.inplace:
        return by_name(function, natives)
    return functional


def extra_forms(schemas: list[str]) -> list[str]:
    """In-place operators among the extra schemas, by name."""
    arguments = {name: rest.split(") ->", 1)[0] for name, _, rest in (schema.partition("(") for schema in schemas)}
    lines = []
    for name, own in arguments.items():
        base, _, overload = name.rpartition(".")
        functional = f"{base.removesuffix('_')}.{overload}"
        if functional != name and arguments.get(functional) == own.replace("(a!)", ""):
            lines.append(f"{name} {functional}")
    return lines


def render(natives: NativeFunctions) -> str:
    lines = extra_forms(extra_schemas(EXTRA.read_text()))
    for function in natives.functions:
        if function.func.kind() not in (SchemaKind.inplace, SchemaKind.out):
            continue
        functional = functional_form(function, natives)
        if functional is not None:
            lines.append(f"{qualified(str(function.func.name))} {qualified(str(functional.func.name))}")
    return text_lines(lines, "PyTorch's native_functions.yaml")
