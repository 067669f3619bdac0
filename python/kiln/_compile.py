"""Calling the compiler."""

import copy
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._model import KilnError, Model, Path, load
from ._tools import find_tool


def find_compiler() -> str:
    """Path of aot-compile: $KILN_COMPILER, the package's own, that of the checkout this file lies in, or the search path."""
    for candidate in (os.environ.get("KILN_COMPILER"), find_tool("aot-compile"), shutil.which("aot-compile")):
        if candidate and os.access(candidate, os.X_OK):
            return str(candidate)
    raise FileNotFoundError("aot-compile is neither built nor on the search path; set KILN_COMPILER")


def make_flags(options: Mapping[str, Any]) -> Iterator[str]:
    """Options of aot-compile as its flags."""
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            yield flag
        elif value is not None and value is not False:
            yield f"{flag}={','.join(map(str, value)) if isinstance(value, (list, tuple)) else value}"


def run_compiler(source: Path, output: Path, flags: Sequence[str]) -> None:
    """Compiles the archive `source` to the file `output`. A model at fault raises KilnError with the compiler's line."""
    command = [find_compiler(), os.fspath(source), "-o", os.fspath(output), "--progress=never", *flags]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if result.returncode:
        raise KilnError(1 if result.returncode == 1 else 7, result.stderr.strip() or f"aot-compile ended with status {result.returncode}")


def _writes_unseen(program: Any) -> bool:
    """A custom operator writes its arguments: a saved program has no schema that says so."""
    import torch

    nodes = (node for module in program.graph_module.modules() for node in getattr(module, "graph", torch.fx.Graph()).nodes)
    return any(
        isinstance(node.target, torch._ops.OpOverload) and node.target.namespace not in ("aten", "prims") and node.target._schema.is_mutable
        for node in nodes
    )


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


def _custom_op_flags(custom_ops: Mapping[str, str] | None, link: Sequence[Path]) -> Iterator[str]:
    """`custom_ops` maps operators that are registered in this process to C functions."""
    for name, function in (custom_ops or {}).items():
        import torch

        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        schema = getattr(getattr(getattr(torch.ops, space), base), overload or "default")._schema
        yield f"--custom-op={schema}={function}"
    for file in link:
        yield f"--link={os.fspath(file)}"


def compile(
    program: Any,
    output: Path | None = None,
    *,
    threads: int = 0,
    custom_ops: Mapping[str, str] | None = None,
    link: Sequence[Path] = (),
    **options: Any,
) -> Model:
    """Compiles an exported program (or a saved `.pt2`) and loads the result.

    `output` is where the `.so` is written; without it, it lives as long as the model does. Options are those of aot-compile:
    `kiln.compile(program, cpu="x86-64-v3", weights="external")`. Weights of tensor subclasses become plain tensors. A model at fault raises KilnError with the compiler's line.
    Custom operators may be C functions (`include/kiln-c/custom_op.h`) of the files in `link`:
    `kiln.compile(program, custom_ops={"lib::scale": "my_scale"}, link=["scale.o"])`."""
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        if isinstance(program, (str, os.PathLike)):
            source = os.fspath(program)
        else:
            import torch

            source = os.path.join(folder, "model.pt2")
            if _writes_unseen(program) or _has_wrappers(program):
                program = program.run_decompositions({})
            torch.export.save(_with_plain_tensors(program), source)
        kept = None
        if output is None:
            kept = tempfile.TemporaryDirectory(prefix="kiln-")
            output = os.path.join(kept.name, "model.so")
        run_compiler(source, output, [*make_flags(options), *_custom_op_flags(custom_ops, link)])
    model = load(output, threads)
    model._folder = kept
    return model
