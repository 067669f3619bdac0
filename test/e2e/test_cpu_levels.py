"""Code for every level of x86-64 refers to the runtime alone: each operator on each dtype is compiled, for CPUs that this machine need not be.

What a CPU has no instruction for, LLVM computes in a library that models do not carry."""

import functools
import subprocess
import warnings

import pytest
import torch
from torch.nn import functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo
from torch.utils import _pytree as pytree

from conftest import EMULATED, run_tool

LEVELS = ("x86-64-v3", "x86-64-v4", "sapphirerapids")
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
EIGHTS = (torch.float8_e4m3fn, torch.float8_e5m2)
OTHERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128)
DTYPES = (*FLOATS, *EIGHTS, *OTHERS)
DYNAMIC = (torch.float64, torch.float32, torch.int64, torch.uint8, torch.bool)
# These need a GPU, draw numbers, are called with masks, or have no result that is defined.
SKIPPED = ("jiterator", "nn.functional.rrelu", "masked.", "hash_tensor")
KNOWN = {"memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_"}


def calls_of(dtype):
    """Functions of two matrices, each an operator that PyTorch may have for `dtype`."""

    def arguments(entry):
        return entry.sample_kwargs("cpu", dtype, torch.ones((), dtype=dtype))[0] if isinstance(entry, UnaryUfuncInfo) else {}

    for entry in op_db:
        if dtype not in entry.dtypes or entry.name.startswith(SKIPPED):
            continue
        if isinstance(entry, UnaryUfuncInfo):
            options = arguments(entry)
            yield lambda x, y, op=entry.op, options=options: op(x, **options)
        elif isinstance(entry, BinaryUfuncInfo):
            yield lambda x, y, op=entry.op: op(x, y)
        elif isinstance(entry, ReductionOpInfo):
            yield lambda x, y, op=entry.op: op(x + y)
            yield lambda x, y, op=entry.op: op(x + y, dim=1)
            yield lambda x, y, op=entry.op: op(x * y, dim=0)
    for other in DTYPES:
        yield lambda x, y, other=other: x.to(other)
        yield lambda x, y, other=other: (x + y).to(other).to(x.dtype) * y
    index = torch.arange(5)
    yield from (
        lambda x, y: torch.where(x > y, x, y),
        lambda x, y: torch.where((x > 0)[:, :1], x, y[:1]),
        lambda x, y: (x + y).clamp(0, 1),
        lambda x, y: torch.lerp(x, y, 0.3),
        lambda x, y: torch.addcmul(x, x, y),
        lambda x, y: torch.cat([x, y.flip(1)], 1),
        lambda x, y: F.pad(x, (1, 2), value=1),
        lambda x, y: x.tril(),
        lambda x, y: x.t().contiguous() + 1,
        lambda x, y: x[index] + 1,
        lambda x, y: x.gather(1, index[None].expand(6, 5)),
        lambda x, y: x.index_add(0, index, y[:5]),
        lambda x, y: x.scatter_reduce(0, index[:, None].expand(5, 3), y, "amax"),
        lambda x, y: x.index_put((index,), y[:5], accumulate=True),
        lambda x, y: F.one_hot(x.long().clamp(0, 3), 4),
        lambda x, y: x.masked_select(y > 0),
        lambda x, y: x.repeat_interleave(2, 0),
        lambda x, y: x.sort(1),
        lambda x, y: x.topk(3),
        lambda x, y: x.cumsum(1),
        lambda x, y: x.cumprod(0),
        lambda x, y: x.cummax(1),
        lambda x, y: x.cummin(0),
        lambda x, y: x.logcumsumexp(1),
        lambda x, y: x.logsumexp(1),
        lambda x, y: torch.max(x + y, 1),
        lambda x, y: torch.min(x + y, 0),
        lambda x, y: torch.aminmax(x, dim=1),
        lambda x, y: x.median(1),
        lambda x, y: torch.var_mean(x, 1),
        lambda x, y: torch.linalg.vector_norm(x, 3, 1),
        lambda x, y: x.softmax(1),
        lambda x, y: x.log_softmax(0),
        lambda x, y: F.layer_norm(x, x.shape[1:]),
        lambda x, y: F.group_norm(x, 3),
        lambda x, y: F.batch_norm(x, y[0], y[1].abs()),
        lambda x, y: F.gelu(x),
        lambda x, y: F.glu(x),
        lambda x, y: F.leaky_relu(x),
        lambda x, y: F.cross_entropy(x, y[:, 0].long()),
        lambda x, y: F.max_pool2d(x[None, None], 2),
        lambda x, y: F.avg_pool2d(x[None, None], 2),
        lambda x, y: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
    )
    if dtype not in EIGHTS:
        yield from (
            lambda x, y: torch.relu(x @ y.t()),
            lambda x, y: x.t() @ y,
            lambda x, y: x @ y[0],
            lambda x, y: torch.outer(x[0], y[0]),
            lambda x, y: F.linear(x, y, y[:, 0]),
            lambda x, y: F.conv2d(x.view(1, 2, 3, -1), y.view(3, 2, 1, -1)[..., :3]),
            lambda x, y: F.scaled_dot_product_attention(x[None, None], y[None, None], x[None, None]),
            lambda x, y: F.scaled_dot_product_attention(x[None, None], y[None, None], x[None, None], is_causal=True),
        )


class Program(torch.nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, x, y):
        return pytree.tree_leaves([call(x, y) for call in self.calls])


def is_known(call, inputs):
    """PyTorch has the operator for this dtype."""
    try:
        call(*inputs)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return False
    return True


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    """export(dtype, is_dynamic) -> the archive of one program with all calls, whose second size is open if `is_dynamic`"""

    @functools.cache
    def make(dtype, is_dynamic):
        inputs = (torch.ones(6, 48).to(dtype), torch.ones(6, 48).to(dtype))
        calls = [call for call in calls_of(dtype) if is_known(call, inputs)]
        sizes = {1: torch.export.Dim.AUTO}
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(Program(calls), inputs, dynamic_shapes=(sizes, sizes) if is_dynamic else None)
            path = tmp_path_factory.mktemp("levels") / "model.pt2"
            torch.export.save(program, path)
        assert is_dynamic == any(
            isinstance(size, torch.SymInt) for node in program.graph.find_nodes(op="placeholder") for size in node.meta["val"].shape
        )
        return path

    return make


def cases():
    for dtype in DTYPES:
        is_small = dtype.itemsize < 4 and dtype.is_floating_point
        for level in LEVELS:
            if is_small or level == "x86-64-v3":
                yield dtype, False, level
            if dtype in (torch.bfloat16, torch.float16) or (level == "x86-64-v4" and dtype in DYNAMIC):
                yield dtype, True, level


@pytest.mark.parametrize(("dtype", "is_dynamic", "level"), list(cases()))
def test_symbols(export, tmp_path, dtype, is_dynamic, level):
    output = tmp_path / "model.o"
    process = run_tool("aot-compile", export(dtype, is_dynamic), "-o", output, "--emit=obj", "--fallback=torch", f"--cpu={level}")
    assert process.returncode == 0, process.stderr[-2000:]
    listing = subprocess.run(
        ["/usr/lib/llvm-22/bin/llvm-nm", "--undefined-only", "--just-symbol-name", output], capture_output=True, text=True, check=True
    )
    unknown = [name for name in listing.stdout.split() if not name.startswith("kiln_") and name not in KNOWN]
    assert not unknown


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_symbols_of_emulated_kernels(export, tmp_path, dtype):
    """Which the compiler itself checks: they are within the model."""
    process = run_tool("aot-compile", export(dtype, False), "-o", tmp_path / "model.so", "--fallback=torch", *EMULATED, "--cpu=x86-64-v3")
    assert process.returncode == 0, process.stderr[-2000:]
