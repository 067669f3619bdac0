"""--fallback=torch: operators without a lowering are called in LibTorch, through one boxed path.

Most calls here are of operators that are registered by this file, with every kind of argument and result a schema can
have: no lowering for them will ever come."""

import os
import shutil
import subprocess
import sys
from typing import List, Optional, Sequence, Tuple

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import kiln
from conftest import BUILD, EMULATED, Mlp, assert_user_error, run_tool

LIBRARY = BUILD / "lib" / "libkiln_torch.so"
FALLBACK = ["--fallback=torch"]
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="this build has no libkiln_torch.so")


@torch.library.custom_op("kilntest::arguments", mutates_args=())
def arguments(
    x: Tensor,
    other: Optional[Tensor],
    many: Sequence[Tensor],
    sizes: Sequence[int],
    factor: float,
    flag: bool,
    name: str,
    dtype: torch.dtype,
    floats: Optional[Sequence[float]] = None,
    count: int = 3,
    device: Optional[torch.device] = None,
) -> Tensor:
    assert name == "a name" and dtype == torch.float64 and device in (None, torch.device("cpu"))
    result = x * factor + sum(sizes) + count
    if other is not None:
        result = result + other
    for one in many:
        result = result + one.sum()
    for i, one in enumerate(floats or ()):
        result = result + i * one
    return -result if flag else result


@arguments.register_fake
def _(x, other, many, sizes, factor, flag, name, dtype, floats=None, count=3, device=None):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("kilntest::several", mutates_args=())
def several(x: Tensor) -> Tuple[Tensor, List[Tensor], Tensor]:
    return x.sum(0), [x + 1, (x * 2).t().contiguous()], (x > 0).clone()


@several.register_fake
def _(x):
    return x.new_empty(x.shape[1:]), [torch.empty_like(x), x.new_empty(x.shape[::-1])], x.new_empty(x.shape, dtype=torch.bool)


@torch.library.custom_op("kilntest::strided", mutates_args=())
def strided(x: Tensor) -> Tensor:
    """A result that is not row-major: it is copied."""
    return (x * 3).t().contiguous().t()


@strided.register_fake
def _(x):
    return torch.empty_like(x)


class Custom(torch.nn.Module):
    def forward(self, x, y):
        op = torch.ops.kilntest
        a = op.arguments(
            x.relu(), y, [x, y * 2, x[0]], [x.shape[0], 4], 1.5, True, "a name", torch.float64, [0.5, 2.0], device=torch.device("cpu")
        )
        b = op.arguments(a, None, [], [], -2.0, False, "a name", torch.float64, count=x.shape[0] * 2)
        first, (second, third), fourth = op.several(b)
        return first + 1, second, third.sum(1), fourth, op.strided(a).t() + 1


def test_arguments_and_results(compile_and_compare):
    """Every kind of argument; several results, a list among them; sizes that are known when the model runs."""
    rows = Dim("rows", min=1, max=64)
    inputs = lambda n: (torch.randn(n, 6), torch.randn(n, 6))
    compile_and_compare(Custom(), inputs(4), options=FALLBACK)
    compile_and_compare(
        Custom(), inputs(4), {"x": {0: rows}, "y": {0: rows}}, options=FALLBACK, more_inputs=[inputs(1), inputs(64), inputs(7)]
    )


def test_on_a_gpu(compile_and_compare):
    """On copies in the host's memory, between kernels on the (emulated) GPU."""
    rows = Dim("rows", min=1, max=64)
    inputs = lambda n: (torch.randn(n, 6), torch.randn(n, 6))
    compile_and_compare(
        Custom(), inputs(4), {"x": {0: rows}, "y": {0: rows}}, options=[*FALLBACK, *EMULATED], more_inputs=[inputs(1), inputs(7)] * 3
    )


class Aten(torch.nn.Module):
    """ATen's own, which see strided and empty tensors, numbers where a tensor is expected, dtypes and layouts."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(5, 5))
        self.register_buffer("steps", torch.zeros(3))

    def forward(self, x, y):
        q, r = torch.linalg.qr(x.t() + self.weight)
        values, vectors = torch.linalg.eigh(x @ x.t())
        lu, pivots, info = torch.linalg.lu_factor_ex(x + 5 * torch.eye(5))
        histogram = torch.histogramdd(y, bins=[2, 3])
        sums = torch._foreach_norm([x, y, self.weight])
        return (
            (q @ r).abs(),
            values,
            vectors.abs() + 1,
            torch.lu_solve(y[:5], lu, pivots),
            histogram.hist,
            histogram.bin_edges,
            sums,
            torch.cdist(y, y * 2.5),
            torch.special.airy_ai(y),
            torch.polar(x, x.t()).real,
            torch.linalg.matrix_exp(x * 0.1),
            torch.block_diag(x, y),
            torch.cartesian_prod(y[0], y[1]),
        )


def test_aten(compile_and_compare):
    torch.manual_seed(0)
    inputs = torch.randn(10, 10)[::2, ::2], torch.randn(2, 7).t()
    compile_and_compare(Aten(), inputs, options=FALLBACK, rtol=1e-4, atol=1e-4)


def read_dynamic(path):
    """What a library says of those that it needs."""
    return subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout


class Nested(torch.nn.Module):
    """Calls in a branch and in a loop's body."""

    def forward(self, p, n, x):
        y = torch.cond(p, lambda x: torch.special.airy_ai(x), lambda x: torch.ops.kilntest.several(x)[1][0] * x.shape[0], (x,))
        return y, while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, torch.special.airy_ai(x) + x), (n, y))


def test_nested_graphs(compile_and_compare):
    inputs = lambda p, n, rows: (torch.tensor(p), torch.tensor(n), torch.rand(rows, 4))
    compiled = compile_and_compare(
        Nested(),
        inputs(True, 2, 3),
        dynamic_shapes=({}, {}, {0: Dim.DYNAMIC}),
        options=FALLBACK,
        more_inputs=[inputs(False, 0, 9), inputs(False, 3, 2), inputs(True, 5, 4)],
    )
    assert "RUNPATH" in read_dynamic(compiled.path)  # where the library is, which no call outside of these graphs needs


class InPlace(torch.nn.Module):
    """What has no form that returns its result is given a copy to write to. All who share its memory see it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x, y, out):
        a, b = x + 1, y * 2
        view = a[1]
        torch._foreach_mul_([a, b], [2.0, 3.0])
        torch._foreach_add_([self.state, a[0]], [y[0], y[1]])
        torch.linalg.inv_ex(x @ x.t() + torch.eye(3), out=(torch.empty(3, 3), torch.empty(3, dtype=torch.int32)[0]))
        torch.ops.aten.erfinv.out(x * 0.1, out=out)
        return a, b, view, self.state * 1, out + 1


def test_in_place_and_out(compile_model):
    torch.manual_seed(0)
    inputs = torch.rand(3, 4), torch.rand(2, 4), torch.zeros(3, 4)
    compiled = compile_model(InPlace(), inputs, options=FALLBACK)
    for _ in range(3):  # the state is kept
        compiled.check(inputs, 1e-5, 1e-5)


@torch.library.custom_op("kilntest::rising", mutates_args=())
def rising(x: Tensor) -> Tuple[Tensor, Tensor, List[Tensor]]:
    """Elements above those before them, their places, tensors of twice and one more than that size."""
    above = torch.cat([x.new_ones(1, dtype=torch.bool), x[1:] > x[:-1]])
    count = int(above.sum())
    return x[above], above.nonzero(), [x.new_full((2, 2 * count), 3.0), x.new_zeros(count + 1)]


@rising.register_fake
def _(x):
    count = torch.library.get_ctx().new_dynamic_size(min=1, max=100)
    return x.new_empty(count), x.new_empty((count, 1), dtype=torch.int64), [x.new_empty(2, 2 * count), x.new_empty(count + 1)]


@torch.library.custom_op("kilntest::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    """A size that is twice that of what is positive."""
    return x[x > 0].repeat(2)


@doubled.register_fake
def _(x):
    return x.new_empty(2 * torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("kilntest::howmany", mutates_args=())
def howmany(x: Tensor) -> int:
    return int((x > 0).sum())


@howmany.register_fake
def _(x):
    return torch.library.get_ctx().new_dynamic_size()


class SizesOfResults(torch.nn.Module):
    def forward(self, x):
        values, places, (threes, zeros) = torch.ops.kilntest.rising(x * 2)
        count = torch.ops.kilntest.howmany(x)
        again = torch.ops.kilntest.rising(values + 1)[0]
        torch.ops.kilntest.rising(x)  # nobody asks for it
        return (
            values.relu().sum(),
            places.squeeze(1) + 1,
            threes * count,
            x.new_ones(count),
            zeros,
            again,
            torch.ops.kilntest.doubled(x) - 1,
        )


def test_sizes_that_results_say(compile_and_compare):
    x = torch.randn(20)
    late = torch.full((40,), -1.0)
    compile_and_compare(
        SizesOfResults(),
        (x,),
        dynamic_shapes=({0: Dim("n", min=3, max=100)},),
        options=FALLBACK,
        more_inputs=[(torch.arange(50.0),), (-torch.arange(100.0),), (late,), (torch.randn(3),)],
    )


class SizesInGraphs(torch.nn.Module):
    def forward(self, p, x):
        return torch.cond(p, lambda x: torch.ops.kilntest.doubled(x).sum(0, keepdim=True), lambda x: x[:1] - 1, (x,))


def test_sizes_that_results_say_in_a_branch(compile_and_compare):
    inputs = lambda p: (torch.tensor(p), torch.randn(9))
    compile_and_compare(SizesInGraphs(), inputs(True), options=FALLBACK, more_inputs=[inputs(False)])


def test_sizes_out_of_range(compile_model):
    """What the program may assume of a size is asserted before its memory is used; the next run is not the worse for it."""

    class Few(torch.nn.Module):
        def forward(self, x):
            found = torch.ops.kilntest.doubled(x)
            torch._check(found.shape[0] <= 8)
            return found + 1

    compiled = compile_model(Few(), (torch.tensor([1.0, -1, 2, -2, 3, -3]),), options=FALLBACK)
    for _ in range(2):
        compiled.check((torch.tensor([1.0, -1, 2, -2, 3, -3]),), 0, 0)
        with pytest.raises(kiln.KilnError) as error:
            compiled.model(torch.ones(6))
        assert error.value.status == 6


class Training(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(x) * self.norm.running_mean.sum()


def test_running_statistics(compile_model):
    """Batch norm in training mode updates buffers, which its schema does not say."""
    module = Training()
    x = torch.randn(4, 3, 5, 5) + 2
    compiled = compile_model(module, (x,), options=FALLBACK)
    module.train()
    compiled = type(compiled)(module, (x,), compiled.path.parent / "training", options=FALLBACK)
    for _ in range(3):
        compiled.check((x,), 1e-4, 1e-5)


class Random(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aten._standard_gamma(x), torch.ops.aten._standard_gamma(x), torch.ops.aten.binomial(x * 3 // 1, x / 10)


def test_random(compile_model):
    """Two equal draws are two draws; LibTorch's generator is the process's."""
    x = torch.full((100, 10), 4.0)
    compiled = compile_model(Random(), (x,), options=FALLBACK)
    a, b, c = compiled.model(x)
    assert a.shape == b.shape == c.shape == x.shape
    assert (a != b).any() and 3 < a.mean() < 5 and (c <= 12).all()
    torch.manual_seed(7)
    first = compiled.model(x)
    torch.manual_seed(7)
    for one, other in zip(first, compiled.model(x)):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_lowering_that_refuses(compile_and_compare):
    """A case that a lowering refuses is left to the library too."""

    class Cases(torch.nn.Module):
        def forward(self, x):
            return torch.stft(x, 4, window=torch.hann_window(4), return_complex=True, center=True).abs(), torch.cdist(x, x, p=0.5)

    compile_and_compare(Cases(), (torch.randn(5, 12),), options=FALLBACK, rtol=1e-4, atol=1e-4)


@torch.library.custom_op("kilntest::positive", mutates_args=())
def positive(x: Tensor) -> Tensor:
    if x.sum() < 0:
        raise RuntimeError("the sum is not positive")
    return x.clone()


@positive.register_fake
def _(x):
    return torch.empty_like(x)


class Positive(torch.nn.Module):
    def forward(self, x):
        return torch.ops.kilntest.positive(x) * 2


def test_error_of_torch(compile_model):
    """What is thrown is a status, with its text, the node and the Python line."""
    compiled = compile_model(Positive(), (torch.eye(3),), options=FALLBACK)
    torch.testing.assert_close(compiled.model(torch.eye(3)), 2 * torch.eye(3))
    for _ in range(2):
        with pytest.raises(kiln.KilnError) as error:
            compiled.model(-torch.eye(3))
        assert error.value.status == 1
        text = str(error.value)
        assert "kilntest.positive.default" in text and "the sum is not positive" in text and "test_fallback.py:" in text
    torch.testing.assert_close(compiled.model(torch.eye(3)), 2 * torch.eye(3))


def test_host_modes_do_not_matter(compile_model):
    """Autocast, gradients and inference mode of the host's thread are not the model's."""
    x = torch.randn(4, 4)
    compiled = compile_model(Custom(), (x, x), options=FALLBACK)
    expected = compiled.model(x, x)
    with torch.autocast("cpu", torch.bfloat16), torch.enable_grad():
        autocast = compiled.model(x, x.clone().requires_grad_().detach())
    with torch.inference_mode():
        inference = compiled.model(x, x)
    for a, b, c in zip(expected, autocast, inference):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
        torch.testing.assert_close(a, c, rtol=0, atol=0)
        assert not b.requires_grad


class AddRelu(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aten._add_relu.Tensor(x, x)


SCRIPT = """
import sys, numpy, kiln
try:
    model = kiln.load(sys.argv[1])
except kiln.KilnError as error:
    print(error.status, error)
else:
    print(model(numpy.eye(3, dtype="float32")).tolist())
"""


def run_without_torch(path, environment):
    environment = {"PYTHONPATH": str(BUILD.parent / "python"), "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, env=environment, timeout=300)


def test_where_the_library_is_found(compile_model, tmp_path):
    """In a process without Python's torch: by the compiler's own folder, by KILN_TORCH_LIBRARY, beside the model."""
    path = compile_model(AddRelu(), (torch.eye(3),), options=FALLBACK).path
    works = "[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]"
    assert works in run_without_torch(path, {}).stdout
    assert works in run_without_torch(path, {"KILN_TORCH_LIBRARY": str(LIBRARY)}).stdout

    missing = run_without_torch(path, {"KILN_TORCH_LIBRARY": "/nowhere/libkiln_torch.so"}).stdout
    for part in (
        "3 ",
        "cannot load libkiln_torch.so",
        "aten._add_relu",
        "/nowhere/libkiln_torch.so",
        "pip install torch",
        "KILN_TORCH_LIBRARY",
    ):
        assert part in missing, missing

    # A compiler that was moved away from its libraries.
    (tmp_path / "bin").mkdir()
    compiler = shutil.copy(BUILD / "bin" / "aot-compile", tmp_path / "bin" / "aot-compile")
    lonely = tmp_path / "lonely.so"
    subprocess.run([compiler, path.parent / "model.pt2", "-o", lonely, *FALLBACK], check=True)
    missing = run_without_torch(lonely, {}).stdout
    for part in ("3 ", "cannot load libkiln_torch.so", str(tmp_path / "libkiln_torch.so"), "pip install torch"):
        assert part in missing, missing
    (tmp_path / "libkiln_torch.so").symlink_to(LIBRARY)
    assert works in run_without_torch(lonely, {}).stdout


@torch.library.custom_op("kilntest::gone", mutates_args=())
def gone(x: Tensor) -> Tensor:
    return x + 1


@gone.register_fake
def _(x):
    return torch.empty_like(x)


class Gone(torch.nn.Module):
    def forward(self, x):
        return torch.ops.kilntest.gone(x)


def test_operator_that_is_not_registered(compile_model):
    """kiln_model_create says so, not the first run."""
    path = compile_model(Gone(), (torch.eye(3),), options=FALLBACK).path
    output = run_without_torch(path, {}).stdout
    for part in ("3 ", "kilntest.gone.default", "has no operator kilntest::gone", "test_fallback.py:"):
        assert part in output, output


@torch.library.custom_op("kilntest::writes", mutates_args={"x"})
def writes(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


@writes.register_fake
def _(x):
    return torch.empty_like(x)


class Writes(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        return torch.ops.kilntest.writes(y) + y


@torch.library.custom_op("kilntest::writesnothing", mutates_args={"x", "many", "other"})
def writesnothing(x: Tensor, many: List[Tensor], other: Optional[Tensor]) -> None:
    """Writes, and returns nothing."""
    x.mul_(2)
    for one in many:
        one.sub_(x.sum())


class WritesUnseen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.ones(3))
        self.weight = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        y = x * self.weight
        a = torch.ops.kilntest.writes(y) + y
        torch.ops.kilntest.writesnothing(y[1:], [self.state, x], None)
        torch.ops.kilntest.strided(y)
        empty = torch.empty(0)
        torch.add(y, a, out=empty)
        return a, y, self.state * 1, empty * 2, empty.shape[0]


class WritesInput(torch.nn.Module):
    def forward(self, x):
        return torch.ops.kilntest.writes(x)


def test_writes_that_no_schema_says(tmp_path):
    """The schemas of custom operators are not in the program. They are taken to write what they are given; of inputs only if they
    return nothing. What else they write is found when the model is created."""
    rows = {0: Dim("rows", min=3, max=64)}
    module = WritesUnseen()
    torch.export.save(torch.export.export(module, (torch.ones(5, 3),), dynamic_shapes=(rows,)), tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so", *FALLBACK)
    assert process.returncode == 0, process.stderr
    model = kiln.load(tmp_path / "model.so")
    for size in (5, 3, 17):
        x = torch.randn(size, 3)
        mine = x.clone()
        for got, want in zip([*model(mine), mine], [*module(x), x]):
            torch.testing.assert_close(torch.as_tensor(got), torch.as_tensor(want))

    torch.export.save(torch.export.export(WritesInput(), (torch.ones(3),)), tmp_path / "input.pt2")
    assert run_tool("aot-compile", tmp_path / "input.pt2", "-o", tmp_path / "input.so", *FALLBACK).returncode == 0
    with pytest.raises(kiln.KilnError, match="it writes to its argument 'x'") as error:
        kiln.load(tmp_path / "input.so")
    assert error.value.status == 3


def test_write_that_python_knows_of():
    """kiln.compile has the operator, and asks export to say what it writes."""
    model = kiln.compile(torch.export.export(Writes(), (torch.ones(3),)), fallback="torch")
    torch.testing.assert_close(model(torch.arange(3.0)), Writes()(torch.arange(3.0)))


@torch.library.custom_op("kilntest::writesall", mutates_args={"xs"})
def writesall(xs: List[Tensor], y: Tensor) -> None:
    for x in xs:
        x.mul_(y)


class WritesParts(torch.nn.Module):
    """Arguments that are written: a whole tensor, an input, a slice and a row of one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.ones(3))

    def forward(self, x, y):
        z = x * 2
        a, b = torch.ops.kilntest.writes(z), torch.ops.kilntest.writes(z[1:3])
        torch.ops.kilntest.writesall([z[0], y, self.state], x[0] + 2)
        return a, b, z, self.state * 1, torch.ops.kilntest.writes(z)


def test_writes_of_a_program_with_decompositions(tmp_path):
    x, y = torch.randn(5, 3), torch.ones(3)
    rows = {0: Dim("rows", min=4, max=64)}
    for shapes, sizes in ((None, (5,)), ((rows, None), (5, 4, 33))):
        module = WritesParts()
        torch.export.save(torch.export.export(module, (x, y), dynamic_shapes=shapes).run_decompositions({}), tmp_path / "model.pt2")
        process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / f"model{len(sizes)}.so", *FALLBACK)
        assert process.returncode == 0, process.stderr
        model = kiln.load(tmp_path / f"model{len(sizes)}.so")
        for size in sizes:
            x, y = torch.randn(size, 3), torch.randn(3)
            mine = y.clone()
            actual, expected = model(x, mine), module(x, y)
            for one, other in zip([*actual, mine], [*expected, y]):
                torch.testing.assert_close(one, other)


class WritesCaches(torch.nn.Module):
    """Two written arguments are parts of one buffer: halves, columns, slices."""

    def __init__(self):
        super().__init__()
        self.register_buffer("caches", torch.zeros(2, 4, 3))

    def forward(self, x):
        torch.ops.kilntest.writesall([self.caches[0], self.caches[1]], x)
        torch.ops.kilntest.writesall([self.caches[:, 0], self.caches[:, 1]], x + 1)
        torch.ops.kilntest.writesall([self.caches[:, :2], self.caches[:, 2:]], x + 2)
        return self.caches + 1


def test_writes_of_parts_of_one_tensor():
    x, module = torch.ones(3), WritesCaches()
    module.caches += 1
    model = kiln.compile(torch.export.export(module, (x,)), fallback="torch")
    for _ in range(2):
        torch.testing.assert_close(model(x * 2), module(x * 2))


class Strides(torch.nn.Module):
    def forward(self, x):
        return torch.as_strided(x.t(), (2, 2), (1, 2)), torch.ops.kilntest.gone(x)


def test_what_no_library_can_run_is_refused(tmp_path):
    torch.export.save(torch.export.export(Strides(), (torch.ones(3, 4),)), tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so", *FALLBACK)
    if process.returncode:  # until as_strided has a lowering
        assert_user_error(process, "aten.as_strided.default", "depends on strides", "test_fallback.py:")
        assert not (tmp_path / "model.so").exists()
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so")
    assert process.returncode == 1


def test_a_model_without_calls_needs_nothing(small_mlp, compile_model):
    """--fallback=torch changes nothing where there is nothing to fall back from."""
    plain = compile_model(Mlp(), (torch.randn(3, 6),), options=FALLBACK)
    needed = read_dynamic(plain.path)
    assert "RUNPATH" not in needed and "libc.so.6" in needed
    symbols = subprocess.run(["readelf", "-W", "--dyn-syms", plain.path], capture_output=True, text=True, check=True).stdout
    assert "dlopen" not in symbols


def test_bad_option(tmp_path):
    assert_user_error(run_tool("aot-compile", "model.pt2", "--fallback=tensorflow"), "--fallback=tensorflow: expected none or torch")


OPERATORS = torch.library.Library("kilntest", "FRAGMENT")
OPERATORS.define("named(Dict(str, Tensor) tensors, Dict(str, float) numbers) -> Tensor")


@torch.library.impl(OPERATORS, "named", "CompositeExplicitAutograd")
def named(tensors, numbers):
    result = torch.zeros_like(next(iter(tensors.values())))
    for i, (name, tensor) in enumerate(tensors.items()):  # the order counts
        result = result * 2 + tensor * (i + numbers[name])
    return result


def test_dictionaries(compile_and_compare):
    class Named(torch.nn.Module):
        def forward(self, x, y):
            return torch.ops.kilntest.named({"z": x, "a": y.exp(), "": x + y}, {"a": 0.5, "": 2.0, "z": -1.0}) + 1

    rows = {0: Dim("rows", min=2, max=9)}
    compile_and_compare(
        Named(),
        (torch.randn(3, 2), torch.randn(3, 2)),
        dynamic_shapes=(rows, rows),
        more_inputs=[(torch.randn(5, 2), torch.randn(5, 2))],
        options=FALLBACK,
    )
