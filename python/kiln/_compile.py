"""Calling the compiler."""

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._entry import KilnError
from ._model import Model, Path, load
from ._prepare import prepare
from ._tools import find_tool
from ._triton import DEFAULT_ARCHITECTURES, expose_launches
from .pack import save


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


def _gpu_architectures(options: Mapping[str, Any]) -> Sequence[str]:
    """Those that Triton kernels are compiled for: none of a model for CPUs, which has none."""
    if options.get("target") != "cuda":
        return ()
    given = options.get("gpu_arch") or DEFAULT_ARCHITECTURES
    names = given.split(",") if isinstance(given, str) else [str(name) for name in given]
    return [name for name in names if name != "emulator"]


def _save(program: Any, source: str, custom_ops: Mapping[str, str] | None, options: dict[str, Any]) -> str:
    """Saves a program for the compiler, and returns where it is: a path is there already."""
    if isinstance(program, (str, os.PathLike)):
        return os.fspath(program)
    program = expose_launches(program)
    program, called = prepare(program, find_compiler(), custom_ops or {})
    if called and "fallback" not in options:
        warnings.warn(f"the model calls PyTorch, which it needs to run, for {', '.join(called)}", stacklevel=3)
        options["fallback"] = "torch"
    save(program, source, _gpu_architectures(options))
    return source


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
    `kiln.compile(program, cpu="x86-64-v3", weights="external")`. Weights of tensor subclasses become plain tensors, and operators that
    their libraries compose of others are taken apart, and Triton kernels are compiled for the GPUs of `gpu_arch`. A model at fault raises KilnError with the compiler's line. Custom operators may be C functions (`include/kiln-c/custom_op.h`) of the files in `link`:
    `kiln.compile(program, custom_ops={"lib::scale": "my_scale"}, link=["scale.o"])`.

    A dict of programs becomes one model, which has the weights that they have in common once, and the buffers that `share_state` names:
    `kiln.compile({"prefill": prefill, "decode": decode}, share_state=["*_cache_*"])`. `Session.entry` runs them."""
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        entries = []
        if isinstance(program, Mapping):
            if not program:
                raise ValueError("no program to compile")
            sources = [
                _save(one, os.path.join(folder, f"{i}.pt2" if i else "model.pt2"), custom_ops, options)
                for i, one in enumerate(program.values())
            ]
            source = sources[0]
            entries = [f"--entry={name}={path}" for name, path in zip(program, sources)]
        else:
            source = _save(program, os.path.join(folder, "model.pt2"), custom_ops, options)
        kept = None
        if output is None:
            kept = tempfile.TemporaryDirectory(prefix="kiln-")
            output = os.path.join(kept.name, "model.so")
        run_compiler(source, output, [*entries, *make_flags(options), *_custom_op_flags(custom_ops, link)])
    model = load(output, threads)
    model._folder = kept
    return model
