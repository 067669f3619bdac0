"""Puts into an exported program what only this process knows about it, before it is saved for the compiler."""

import copy
import functools
import subprocess
from collections.abc import Callable, Collection, Iterator
from typing import Any

_ROUNDS = 4  # of taking operators apart that are made of such operators


@functools.cache
def lowered(compiler: str) -> frozenset[str]:
    """The operators that a compiler has a lowering for."""
    listed = subprocess.run([compiler, "--list-ops"], capture_output=True, text=True, check=True).stdout
    return frozenset(line.split()[0] for line in listed.splitlines() if line.endswith(" native"))


def find_operators(program: Any) -> Iterator[Any]:
    """The operators that the program calls, in nested graphs as well."""
    import torch

    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            for target in (node.target, *node.args):  # what writes its arguments is an argument itself
                if isinstance(target, torch._ops.OpOverload):
                    yield target


def _is_size(operator: Any) -> bool:
    """A number that is made of sizes, which is no operator to the compiler."""
    return str(operator).startswith("aten.sym_")


def is_custom(operator: Any) -> bool:
    return operator.namespace not in ("aten", "prims")


# ===-- Operators that are composed of others -----------------------------------------------------===


def _is_opaque(operator: Any) -> bool:
    """An operator of torch.library.custom_op, which PyTorch promises not to look into."""
    from torch._library.custom_ops import OPDEFS

    return operator._schema.name in OPDEFS


def _find_decomposition(operator: Any) -> Callable[..., Any] | None:
    import torch

    if operator._schema.is_mutable or _is_opaque(operator):
        return None
    for key in (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.CompositeExplicitAutograd):
        if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key):
            return functools.partial(operator._op_dk, key)
    return None


def _take_apart(program: Any, known: Collection[str]) -> Any:
    """The program without operators that are not known and whose libraries compose them of others."""
    for _ in range(_ROUNDS):
        operators = {operator for operator in find_operators(program) if is_custom(operator) and str(operator) not in known}
        table = {operator: function for operator in operators if (function := _find_decomposition(operator)) is not None}
        if not table:
            break
        try:
            program = program.run_decompositions(table)
        except Exception:  # an implementation that cannot be traced: the compiler names what it does not know
            break
    return program


# ===-- Writes and weights ------------------------------------------------------------------------===


def _writes_unseen(program: Any) -> bool:
    """A custom operator writes its arguments: a saved program has no schema that says so."""
    return any(is_custom(operator) and operator._schema.is_mutable for operator in find_operators(program))


def _tensors(program: Any) -> dict[str, Any]:
    """Parameters, buffers and constants by name."""
    import torch

    return {
        name: value for held in (program.state_dict, program.constants) for name, value in held.items() if isinstance(value, torch.Tensor)
    }


def _has_wrappers(program: Any) -> bool:
    """A tensor made of tensors: decomposition leaves those, and what the program does with them."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return any(map(is_traceable_wrapper_subclass, _tensors(program).values()))


def _with_plain_tensors(program: Any) -> Any:
    """`program` with tensors for those of subclasses, which would be saved as pickled Python objects."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    plain = {}
    for name, value in _tensors(program).items():
        if type(value.data) is not torch.Tensor and not is_traceable_wrapper_subclass(value):
            tensor = value.detach().as_subclass(torch.Tensor)
            plain[name] = torch.nn.Parameter(tensor, value.requires_grad) if isinstance(value, torch.nn.Parameter) else tensor
    if not plain:
        return program
    program = copy.copy(program)
    program._state_dict = {name: plain.get(name, value) for name, value in program.state_dict.items()}
    program._constants = {name: plain.get(name, value) for name, value in program.constants.items()}
    return program


def _names(compiler: str, custom_ops: Collection[str]) -> set[str]:
    """The operators that need nothing: those with a lowering, and those that C functions are given for."""
    given = (name.replace("::", ".") for name in custom_ops)
    return {*lowered(compiler), *(name if name.count(".") > 1 else f"{name}.default" for name in given)}


def prepare(program: Any, compiler: str, custom_ops: Collection[str]) -> tuple[Any, list[str]]:
    """(program to save, custom operators that can only be called). `custom_ops` are those that C functions are given for."""
    if _writes_unseen(program) or _has_wrappers(program):
        program = program.run_decompositions({})
    called: list[str] = []
    if any(map(is_custom, find_operators(program))):
        known = _names(compiler, custom_ops)
        program = _take_apart(program, known)
        unknown = {operator for operator in find_operators(program) if str(operator) not in known and not _is_size(operator)}
        called = sorted(map(str, unknown)) if all(map(is_custom, unknown)) else []  # or the compiler names them
    return _with_plain_tensors(program), called
