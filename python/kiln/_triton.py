"""Compiles the Triton kernels that an exported program launches, with no GPU.

A launch is a node `triton_kernel_wrapper_functional` that names the kernel by a number of this process, so the archive of a saved
program has neither the kernel nor its constants. `compile_calls` gives the code and says how it is launched; pack.py puts both into
the archive, where lib/Frontend/TritonKernels.h reads them.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._entry import KilnError

FORMAT = 1
ALIGNMENT = 16  # of all tensors in a model for GPUs
OPERATOR = "triton_kernel_wrapper_functional"
DEFAULT_ARCHITECTURES = ("sm_80", "sm_90")

# The most bytes of shared memory that a block may have (CUDA C++ Programming Guide, Technical Specifications per Compute Capability).
_SHARED_KB = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}

_TYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "i1",
}
_PTX_BITS = {"i1": 8, "u1": 8, "bf16": 16}


@dataclass
class Call:
    """A launch, ready to be saved: what its node has for inputs, and the kernel's description."""

    node: Any
    inputs: dict[str, Any]  # the arguments that a run needs, then the grids
    name: str = ""
    description: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


class _Refused(Exception):
    """Why a kernel cannot be compiled."""


# ===-- Finding launches ---------------------------------------------------------------------------===


def _nodes(program: Any) -> Iterator[Any]:
    import torch

    for module in program.graph_module.modules():
        yield from getattr(module, "graph", torch.fx.Graph()).nodes


def find_launches(program: Any) -> list[Any]:
    """The nodes that launch Triton kernels, in nested graphs as well."""
    return [node for node in _nodes(program) if getattr(node.target, "_name", None) == OPERATOR]


def _has_writers(program: Any) -> bool:
    """Operators of torch.library.triton_op, which export leaves whole, and launches that write their arguments."""
    try:
        from torch._library.triton import triton_ops_to_kernels
    except ImportError:
        return False
    return any(
        getattr(getattr(node.target, "_schema", None), "name", None) in triton_ops_to_kernels
        or getattr(node.target, "_name", None) == "triton_kernel_wrapper_mutation"
        for node in _nodes(program)
    )


def has_kernels(program: Any) -> bool:
    return _has_writers(program) or bool(find_launches(program))


class _NoDriver:
    """Stands for the driver of a GPU, of which only its kind is asked: to see what a kernel writes, Triton compiles it a little."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 80, 32)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"there is no GPU to ask for {name}")


@contextlib.contextmanager
def _some_driver() -> Iterator[None]:
    from triton.runtime import driver

    before = driver._active
    try:
        driver.active.get_current_target()
    except Exception:  # the message depends on what is installed
        driver.set_active(_NoDriver())
    try:
        yield
    finally:
        driver._active = before


def expose_launches(program: Any) -> Any:
    """The program with launches, whose results are values, in place of the operators that make them."""
    if not _has_writers(program):
        return program
    with _some_driver():
        return program.run_decompositions({}, decompose_custom_triton_ops=True)


# ===-- What a launch gives its kernel -------------------------------------------------------------===


def _value(argument: Any) -> Any:
    """A tensor or number of export's, or the argument itself."""
    import torch

    return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument


def _is_multiple(number: Any) -> bool:
    """The number is one of 16, whatever the sizes are."""
    import torch

    if not isinstance(number, torch.SymInt):
        return bool(number % ALIGNMENT == 0)
    terms = number.node.expr.expand().as_coefficients_dict()
    return all(coefficient.is_Integer and coefficient % ALIGNMENT == 0 and term.is_integer for term, coefficient in terms.items())


def _describe(parameter: Any, value: Any) -> tuple[str, bool]:
    """(Triton's type of an argument, whether it is a multiple of 16)."""
    import torch

    given = parameter.annotation_type
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in _TYPES:
            raise _Refused(f"argument '{parameter.name}': a tensor of {dtype}")
        return "*" + _TYPES[dtype], True
    if isinstance(value, bool):
        return given or "u1", False
    if isinstance(value, (int, torch.SymInt)):
        fits = isinstance(value, torch.SymInt) or -(2**31) <= value < 2**31
        return given or ("i32" if fits else "i64"), _is_multiple(value)
    if isinstance(value, float):
        return given or "fp32", False
    raise _Refused(f"argument '{parameter.name}': {type(value).__name__}, which is neither a tensor nor a number known before the run")


@dataclass
class _Variant:
    """The kernel with one configuration's constants."""

    signature: dict[str, str]
    constants: dict[str, Any]
    attributes: dict[tuple[int, ...], Any]
    parameters: list[tuple[str, str]]  # of the machine code


def _specialize(function: Any, arguments: dict[str, Any]) -> _Variant:
    """As Triton does where it compiles for the arguments of a launch: ones are constants, and multiples of 16 known."""
    variant = _Variant({}, {}, {}, [])
    for parameter in function.params:
        name = parameter.name
        if name not in arguments and not parameter.has_default:
            raise _Refused(f"argument '{name}' is missing")
        value = _value(arguments.get(name, parameter.default))
        is_one = type(value) is int and value == 1 and not parameter.do_not_specialize and not parameter.annotation_type
        if parameter.is_constexpr or value is None or is_one:
            variant.signature[name] = "constexpr"
            variant.constants[name] = value
            continue
        if name not in arguments:
            raise _Refused(f"argument '{name}' has a default value and is no tl.constexpr")
        kind, is_multiple = _describe(parameter, value)
        variant.signature[name] = kind
        variant.parameters.append((name, kind))
        if is_multiple and not parameter.do_not_specialize and not parameter.do_not_specialize_on_alignment:
            variant.attributes[(parameter.num,)] = [["tt.divisibility", ALIGNMENT]]
    return variant


# ===-- Compiling ----------------------------------------------------------------------------------===


def _number(architecture: str) -> int:
    match = re.fullmatch(r"sm_(\d+)", architecture)
    if not match or int(match[1]) not in _SHARED_KB:
        raise KilnError(1, f"--gpu-arch={architecture}: expected a list of {', '.join(f'sm_{number}' for number in _SHARED_KB)}")
    return int(match[1])


def _check_features(metadata: Any) -> None:
    """Refuses what a launch would have to prepare."""
    for name, meaning in {
        "global_scratch_size": "global scratch memory",
        "profile_scratch_size": "memory for profiles",
        "tmem_size": "tensor memory",
        "launch_cooperative_grid": "a cooperative launch",
        "launch_pdl": "programmatic dependent launch",
    }.items():
        if getattr(metadata, name, 0):
            raise _Refused(f"it needs {meaning}, which is not supported")
    if getattr(metadata, "num_ctas", 1) != 1:
        raise _Refused("it has clusters of blocks (num_ctas), which are not supported")


def _add_hidden(variant: _Variant, ptx: str, name: str) -> list[tuple[str, str]]:
    """The parameters that the machine code has: those of the signature, and behind them pointers to scratch memory, of which none is needed."""
    match = re.search(rf"\.entry\s+{re.escape(name)}\s*\(([^)]*)\)", ptx)
    types = re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]+)(\d+)", match[1]) if match else []

    def bits(kind: str) -> int:
        if kind.startswith("*"):
            return 64
        return _PTX_BITS.get(kind) or int(kind.lstrip("iufp"))

    hidden = types[len(variant.parameters) :]
    fits = [int(width) for _, width in types[: len(variant.parameters)]] == [bits(kind) for _, kind in variant.parameters]
    if not fits or any(width != "64" for _, width in hidden) or len(hidden) > 2:
        import triton

        raise _Refused(f"Triton {triton.__version__} gives it other parameters than its signature has: this version is not supported")
    return [*variant.parameters, *[("", "*i8")] * len(hidden)]


def _compile(function: Any, variant: _Variant, options: dict[str, Any], number: int) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(function, variant.signature, variant.constants, variant.attributes)
    try:
        with _some_driver():
            compiled = triton.compile(source, target=GPUTarget("cuda", number, 32), options=options)
    except Exception as problem:  # compilers raise what they like
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise _Refused(f"Triton {triton.__version__} does not compile it for sm_{number}: {lines[-1].strip()}") from problem
    _check_features(compiled.metadata)
    return compiled


def _options(config: Any) -> dict[str, Any]:
    if config is None:
        return {}
    if config.pre_hook is not None:
        raise _Refused("a configuration has a hook (pre_hook), which runs in Python")
    names = ("num_warps", "num_stages", "num_ctas", "maxnreg")
    return {name: value for name in names if (value := getattr(config, name, None)) is not None}


def _make_config(
    function: Any, config: Any, arguments: dict[str, Any], call: Call, grid: list[int], architectures: Sequence[str]
) -> dict[str, Any]:
    variant = _specialize(function, {**arguments, **(config.kwargs if config else {})})
    places = {name: i for i, name in enumerate(call.inputs)}
    images, described = [], {}
    for architecture in architectures:
        number = _number(architecture)
        compiled = _compile(function, variant, _options(config), number)
        metadata, ptx, cubin = compiled.metadata, compiled.asm["ptx"], compiled.asm["cubin"]
        parameters = _add_hidden(variant, ptx, metadata.name)
        described = {
            "function": metadata.name,
            "constants": {name: repr(value) for name, value in variant.constants.items()},
            "warps": metadata.num_warps,
            "stages": metadata.num_stages,
            "alignment": ALIGNMENT,
            "grid": grid,
            "blocks": [str(_value(list(call.inputs.values())[i])) for i in grid],
            "parameters": [{"name": name, "type": kind, "input": places.get(name)} for name, kind in parameters],
        }
        if metadata.shared > _SHARED_KB[number] << 10:
            continue
        # Code for one architecture alone ("sm_90a") is of no use as PTX.
        is_portable = re.search(r"^\.target\s+sm_\d+\s*$", ptx.replace(",", "\n"), re.MULTILINE) is not None
        for kind, code in (("cubin", cubin), ("ptx", ptx.encode())):
            file = f"kiln_triton/{hashlib.sha256(code).hexdigest()[:32]}.{architecture}.{kind}"
            call.files[file] = code
            if kind == "cubin" or is_portable:
                images.append({"arch": architecture, "kind": kind, "shared": metadata.shared, "file": file})
    return {**described, "images": images}


def _split(kernel: Any) -> tuple[Any, list[Any]]:
    """(the function, its configurations, of which a tuned one comes first)."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    configs: list[Any] = [None]
    if isinstance(kernel, Autotuner):
        configs, kernel = list(kernel.configs), kernel.fn
    if not isinstance(kernel, JITFunction):
        raise _Refused(f"a {type(kernel).__name__}, which is no function of triton.jit")
    if kernel.pre_run_hooks:
        raise _Refused("it has hooks (pre_run_hooks), which run in Python")
    return kernel, configs


def _compile_call(node: Any, architectures: Sequence[str]) -> Call:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    kernel = kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
    arguments = {**node.kwargs["kwargs"], **kernel_side_table.get_constant_args(node.kwargs["constant_args_idx"])}
    if node.kwargs["tma_descriptor_metadata"]:
        raise _Refused("it takes TMA descriptors, which are not supported")
    function, configs = _split(kernel)
    constants = {parameter.name for parameter in function.params if parameter.is_constexpr}
    call = Call(node, {name: value for name, value in node.kwargs["kwargs"].items() if name not in constants})
    grids = []
    for i, grid in enumerate(node.kwargs["grid"]):
        grids.append(list(range(len(call.inputs), len(call.inputs) + 3)))
        call.inputs.update({f"grid.{i}.{axis}": size for axis, size in zip("xyz", (*grid, 1, 1)[:3])})
    call.description = {
        "inputs": list(call.inputs),
        "configs": [_make_config(function, config, arguments, call, grid, architectures) for config, grid in zip(configs, grids)],
    }
    for architecture in architectures:
        if not any(image["arch"] == architecture for config in call.description["configs"] for image in config["images"]):
            raise _Refused(f"all of its configurations need more shared memory than {architecture} has")
    digest = hashlib.sha256(json.dumps(call.description, sort_keys=True).encode()).hexdigest()[:16]
    call.name = f"{function.__name__}_{digest}"
    return call


def describe_node(node: Any) -> str:
    """As the compiler does: node 'add' (model.py:12)."""
    where = re.findall(r'File "([^"]+)", line (\d+)', node.stack_trace or "")
    return f"node '{node.name}'" + (f" ({where[-1][0]}:{where[-1][1]})" if where else "")


def compile_calls(program: Any, architectures: Sequence[str]) -> list[Call]:
    """The launches of a program, whose kernels have been compiled for each of `architectures`."""
    calls = []
    for node in find_launches(program):
        try:
            calls.append(_compile_call(node, architectures))
        except _Refused as refused:
            raise KilnError(1, f"{describe_node(node)}: Triton kernel: {refused}") from None
    return calls
