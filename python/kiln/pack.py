"""Puts the code of Triton kernels into the archive of an exported program.

    python -m kiln.pack MODEL.pt2 --import kernels.py --gpu-arch=sm_80,sm_90 [-o PACKED.pt2]

`kiln.compile` does it by itself for a program of its process; `kiln.pack.save(program, "model.pt2")` is the first half of it. See docs/triton-kernels.md.
"""

import argparse
import contextlib
import importlib
import importlib.util
import json
import math
import operator
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from . import _triton
from ._entry import KilnError
from ._model import Path

_MEMBER = "extra/kiln_triton.json"


# ===-- Saving -------------------------------------------------------------------------------------===


def _plain(call: _triton.Call) -> tuple[Any, Any]:
    """The attributes that PyTorch's serializer reads of a kernel, and of a compiled one."""
    parameters = [SimpleNamespace(name=name, is_constexpr=False, annotation="") for name in call.inputs]
    kernel = SimpleNamespace(fn=SimpleNamespace(__name__=call.name.rpartition("_")[0]), params=parameters)
    config = (call.description.get("configs") or [{}])[0]
    metadata = SimpleNamespace(hash=call.name.rpartition("_")[2], num_warps=config.get("warps", 0), shared=0)
    return kernel, SimpleNamespace(metadata=metadata, src=SimpleNamespace(signature={}))


@contextlib.contextmanager
def _saved_as(calls: Sequence[_triton.Call]) -> Iterator[None]:
    """Nodes have what is to be saved for arguments, and PyTorch does not look for a compiled kernel."""
    from torch._export.serde import serialize

    name = "get_triton_kernel_and_cache_entry"
    if not hasattr(serialize, name):
        import torch

        raise KilnError(1, f"PyTorch {torch.__version__} does not save launches of Triton kernels in a way that is known here")
    by_node = {call.node: call for call in calls}
    original, kwargs = getattr(serialize, name), {call.node: call.node.kwargs for call in calls}
    try:
        for call in calls:
            call.node.kwargs = {**call.node.kwargs, "kwargs": call.inputs}
        setattr(serialize, name, lambda node: _plain(by_node[node]))
        yield
    finally:
        setattr(serialize, name, original)
        for node, given in kwargs.items():
            node.kwargs = given


def _add_members(path: Path, members: dict[str, bytes]) -> None:
    """Appends to an archive. The same members make the same bytes."""
    with zipfile.ZipFile(path, "a") as archive:
        root = archive.namelist()[0].split("/", 1)[0]
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(f"{root}/{name}"), data)


@contextlib.contextmanager
def _size_functions() -> Iterator[None]:
    """PyTorch exports these of a size, `math.ceil(x.shape[0] / 2)`, and does not save them."""
    from torch._export.serde import serialize

    known: set[Any] = getattr(serialize, "_SYM_OPS", set())
    added = {math.ceil, math.floor, operator.abs, round} - known
    known |= added
    try:
        yield
    finally:
        known -= added


def save(program: Any, path: Path, gpu_arch: Sequence[str] = _triton.DEFAULT_ARCHITECTURES) -> int:
    """Saves an exported program with the code of its Triton kernels, and returns how many launches it has.

    Without architectures the launches are there and their code is not."""
    import torch

    from ._composed import expand_program

    program = expand_program(_triton.expose_launches(program))
    calls = _triton.compile_calls(program, list(dict.fromkeys(gpu_arch)))
    with _saved_as(calls), _size_functions():
        torch.export.save(program, path)
    if calls and gpu_arch:
        import triton

        kernels = {call.name: call.description for call in calls}
        description = {"format": _triton.FORMAT, "triton": triton.__version__, "kernels": kernels}
        files = {f"extra/{name}": data for call in calls for name, data in call.files.items()}
        _add_members(path, {_MEMBER: json.dumps(description, indent=1).encode(), **dict(sorted(files.items()))})
    return len(calls)


# ===-- The command --------------------------------------------------------------------------------===


def _check(path: str) -> None:
    """Only what PyTorch loads again can be packed."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            models = [archive.read(name) for name in names if "/models/" in name and name.endswith(".json")]
    except (OSError, zipfile.BadZipFile) as problem:
        raise KilnError(1, f"{path}: {problem}") from None
    if any(name.endswith("/" + _MEMBER) for name in names):
        raise KilnError(1, f"{path}: is packed already")
    if any(_triton.OPERATOR.encode() in model for model in models):
        raise KilnError(
            1,
            f"{path}: PyTorch has saved launches of Triton kernels, but not the kernels: put them into operators of "
            "torch.library.triton_op, or save the program with kiln.pack.save where it is exported",
        )


def _import(name: str) -> None:
    try:
        if name.endswith(".py"):
            stem = os.path.splitext(os.path.basename(name))[0]
            spec = importlib.util.spec_from_file_location(stem, name)
            assert spec and spec.loader
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(stem, module)
            spec.loader.exec_module(module)
        else:
            importlib.import_module(name)
    except Exception as problem:  # of the user's own module
        raise KilnError(1, f"--import {name}: {type(problem).__name__}: {problem}") from None


def _load(path: str) -> Any:
    import torch

    try:
        return torch.export.load(path)
    except Exception as problem:
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise KilnError(1, f"{path}: PyTorch does not load it: {reason} (operators are registered by --import)") from None


def pack(source: str, output: str, imports: Sequence[str], gpu_arch: Sequence[str]) -> int:
    """Writes `output`, or nothing if there is an error."""
    _check(source)
    for name in imports:
        _import(name)
    program = _load(source)
    if not _triton.has_kernels(program):
        raise KilnError(1, f"{source}: launches no Triton kernels; those of torch.library.triton_op are found if --import registers them")
    folder = os.path.dirname(os.path.abspath(output))
    with tempfile.TemporaryDirectory(prefix=".kiln-", dir=folder) as scratch:
        # PyTorch calls the archive's root folder as the file.
        packed = os.path.join(scratch, os.path.basename(output))
        count = save(program, packed, gpu_arch)
        os.replace(packed, output)
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m kiln.pack", description="Puts the code of Triton kernels into the archive of a program."
    )
    parser.add_argument("model", metavar="MODEL.pt2", help="as torch.export.save has written it")
    parser.add_argument("-o", dest="output", metavar="FILE", help="default: MODEL.pt2 itself")
    parser.add_argument(
        "--import", dest="imports", metavar="MODULE", action="append", default=[], help="a module or a .py file that registers operators"
    )
    parser.add_argument("--gpu-arch", metavar="LIST", default=",".join(_triton.DEFAULT_ARCHITECTURES), help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        count = pack(options.model, options.output or options.model, options.imports, options.gpu_arch.split(","))
    except (KilnError, OSError) as problem:
        print(f"kiln.pack: error: {problem}", file=sys.stderr)
        return 1
    print(f"{options.output or options.model}: {count} {'launch' if count == 1 else 'launches'} of Triton kernels for {options.gpu_arch}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
