"""Matrix products, convolutions, pooling and attention."""

import ctypes
import math
import mmap
import re

import pytest
import torch
import torch.nn.functional as F

import kiln
from conftest import TARGET, run_tool
from test_ops_pointwise import some

CLOSE = dict(rtol=1e-4, atol=1e-4)
SIZES = [
    (1, 1, 1),
    (1, 7, 5),
    (5, 1, 3),
    (3, 4, 0),
    (0, 4, 3),
    (13, 31, 17),
    (14, 32, 64),
    (15, 33, 65),
    (64, 48, 100),
    (129, 65, 31),
    (200, 16, 300),
]


@pytest.mark.parametrize("m,n,k", SIZES)
def test_matmul(check_calls, m, n, k):
    check_calls(lambda a, b: (a @ b, a @ b.flip(0), (a * 2) @ (b + 1)), (some(m, k), some(k, n, seed=1)), **CLOSE)


@pytest.mark.parametrize("m,n,k", SIZES)
def test_linear(check_calls, m, n, k):
    linear, plain = torch.nn.Linear(k, n), torch.nn.Linear(k, n, bias=False)
    check_calls(lambda x: (linear(x), plain(x), F.relu(linear(x)), F.gelu(plain(x) + 1)), some(m, k), modules=[linear, plain], **CLOSE)


# Weights that are inputs lie along the sum: for few rows it is the sums that are turned, for one column too.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32])
def test_weights_as_inputs(check_calls, dtype):
    def matrix(rows, columns, seed=0):
        return some(rows, columns, seed=seed).mul(9 if dtype == torch.int32 else 1).to(dtype)

    bias = dtype == torch.float32
    cases = [(matrix(m, k), matrix(n, k, seed=1)) for m in (1, 2, 5, 9) for n, k in ((1, 40), (3, 0), (17, 1), (37, 70), (64, 96))]
    cases += [(matrix(2, 80)[:, ::2], matrix(9, 80, seed=1)[:, ::2]), (matrix(3, 50), matrix(18, 60, seed=1)[::2, 5:55])]
    cases += [(matrix(40, 3).t(), matrix(11, 40, seed=1)), (matrix(4, 3000), matrix(33, 3000, seed=1))] if bias else []
    tolerances = dict(rtol=2e-2, atol=2e-2) if dtype.itemsize == 2 else CLOSE

    def function(x, w):
        return F.gelu(F.linear(x, w, w[:, :1].sum(1))) + 1 if bias else x @ w.t()

    check_calls(function, *cases, **tolerances)


def test_weights_as_inputs_extremes(check_calls):
    """Steps beyond the end of a sum are none: they do not make a NaN of an infinity."""
    x, w = some(3, 37), some(20, 37, seed=1)
    x[0, 36], x[1, 0], w[4, 36], w[5, 2], w[6] = math.inf, math.nan, -math.inf, math.inf, 0
    check_calls(lambda x, w: (F.linear(x, w), F.linear(x[:1], w), F.linear(x.relu(), 1 / w), w @ x[0], w.mv(x[2])), (x, w), **CLOSE)


@pytest.mark.parametrize("k", [64, 37])
def test_weights_as_inputs_of_any_rows(compile_and_compare, k):
    class Products(torch.nn.Module):
        def forward(self, x, w, v):
            return F.relu(F.linear(x, w)), torch.softmax(x, -1) @ w.t() + 1, F.linear(x[:2], v)

    def inputs(rows, columns):
        return some(rows, k), some(29, k, seed=1), some(columns, k, seed=2)

    rows, columns = torch.export.Dim("rows", min=2, max=500), torch.export.Dim("columns", max=100)
    compile_and_compare(
        Products(),
        inputs(3, 4),
        ({0: rows}, None, {0: columns}),
        more_inputs=[inputs(2, 1), inputs(4, 16), inputs(7, 33), inputs(130, 2)],
        **CLOSE,
    )


# Right operands that are read where they are: few rows, one and several tiles and panels, lanes that the columns do not fill.
@pytest.mark.parametrize("cpu", ["native", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
def test_operands_in_place(compile_and_compare, dtype, cpu):
    def some_of(*sizes, seed=0):
        return some(*sizes, seed=seed).mul(9 if dtype == torch.int32 else 1).to(dtype)

    class Products(torch.nn.Module):
        def forward(self, *operands):
            return [torch.relu(a @ b) for a, b in zip(operands[::2], operands[1::2])]

    sizes = [(1, 50, 900), (1, 33, 5), (7, 20, 200), (13, 40, 3), (40, 65, 30), (26, 17, 16), (3, 0, 9)]
    operands = [operand for m, k, n in sizes for operand in (some_of(m, k), some_of(k, n, seed=1))]
    operands += [some_of(5, 4, 4), some_of(5, 4, 4, seed=1), some_of(3, 9, 24), some_of(3, 24, 24, seed=1)]
    operands += [some_of(6, 12), some_of(40, 30)[::3, 4:27][:12]]  # rows that are further apart
    tolerances = dict(rtol=2e-2, atol=2e-2) if dtype.itemsize == 2 else CLOSE
    compile_and_compare(Products(), tuple(operands), options=() if TARGET else (f"--cpu={cpu}",), **tolerances)


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3"])
def test_swapped_operands(compile_and_compare, cpu):
    """Matrices whose rows lie next to each other times a vector, a constant one too, and many rows beside a few columns."""

    class Products(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", some(30, 70))

        def forward(self, a, v, w, c, d, batch, e):
            return a.t() @ v, a.t().mv(v) + w, (a @ c).t(), F.gelu(a @ d + 1), a.t() @ e, self.weight.t() @ c[:30, 0], batch.mT @ e, a @ w

    def inputs(rows):
        a = some(rows, 90)
        operands = (
            some(rows, seed=1),
            some(90, seed=2),
            some(90, 3, seed=3),
            some(90, 2, seed=4),
            some(4, rows, 66),
            some(rows, 1, seed=5),
        )
        return (a, *operands)

    rows = torch.export.Dim("rows", min=2, max=600)
    dynamic = ({0: rows}, {0: rows}, None, None, None, {1: rows}, {0: rows})
    options = () if TARGET else (f"--cpu={cpu}",)
    compile_and_compare(Products(), inputs(100), options=options, **CLOSE)
    compile_and_compare(Products(), inputs(100), dynamic, more_inputs=[inputs(2), inputs(65)], options=options, **CLOSE)


def test_operands_in_place_extremes(check_calls):
    """Lanes past the last column stay out of the result, and an infinity beside a zero is NaN as in eager mode."""
    x, w = some(3, 6), some(6, 21, seed=1)
    x[0, 5], x[1, 0], w[5, 20], w[0, 0], w[3] = math.inf, math.nan, -math.inf, math.inf, 0
    check_calls(lambda x, w: (x @ w, x[:1] @ w, w.t() @ x[2], w[:, :3].t() @ x.t()[:, :2]), (x, w), **CLOSE)


def test_operands_end_with_a_page(compile_model):
    """No lane of a right operand that is read where it is lies behind it."""

    class Products(torch.nn.Module):
        def forward(self, x, w, v):
            return x @ w, x[:1] @ w, w.t() @ v

    def at_end_of_page(tensor):
        page, size = mmap.PAGESIZE, tensor.numel() * tensor.element_size()
        pages = -(-size // page)
        memory = mmap.mmap(-1, (pages + 1) * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + pages * page), page, 0) == 0
        copy = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=pages * page - size)
        return copy.view(tensor.shape).copy_(tensor), memory

    for columns in (3, 21, 100):
        inputs = some(5, 19), some(19, columns, seed=1), some(19, seed=2)
        model = compile_model(Products(), inputs).model
        mapped = [at_end_of_page(tensor) for tensor in inputs]
        for got, want in zip(model.run([tensor for tensor, memory in mapped]), Products()(*inputs)):
            torch.testing.assert_close(torch.as_tensor(got), want, **CLOSE)


def test_transposed_operands(check_calls):
    a, b = some(9, 21), some(21, 18, seed=1)
    check_calls(lambda a, b: a @ b, (a, b), (a.t().contiguous().t(), b), (a, b.t().contiguous().t()), **CLOSE)
    check_calls(lambda a, b: a.t() @ b.t(), (some(21, 9), some(18, 21, seed=1)), **CLOSE)
    check_calls(lambda a, b: (a.t() @ b, a.t() @ a, b.t() @ a), (some(21, 9), some(21, 18, seed=1)), **CLOSE)


def test_vectors(check_calls):
    check_calls(
        lambda a, v, w: (a @ v, w @ a, torch.dot(v, v), torch.outer(v, w), a.mv(v)),
        (some(9, 21), some(21, seed=1), some(9, seed=2)),
        **CLOSE,
    )


def test_batches(check_calls):
    check_calls(
        torch.matmul,
        (some(4, 9, 7), some(4, 7, 6)),
        (some(2, 3, 9, 7), some(3, 7, 6)),
        (some(9, 7), some(5, 7, 6)),
        (some(2, 1, 9, 7), some(3, 7, 6)),
        (some(5, 9, 7), some(7)),
        **CLOSE,
    )
    check_calls(
        lambda a, b, c: (torch.bmm(a, b), torch.baddbmm(c, a, b, beta=0.5, alpha=2)), (some(4, 9, 7), some(4, 7, 6), some(4, 9, 6)), **CLOSE
    )


def test_addmm(check_calls):
    def function(c, a, b):
        return torch.addmm(c, a, b), torch.addmm(c, a, b, beta=0.5, alpha=-2), torch.addmm(c[0], a, b), torch.addmm(c[:, :1], a, b, beta=0)

    check_calls(function, (some(9, 6), some(9, 7), some(7, 6)), **CLOSE)


def test_einsum(check_calls):
    """Transposed, broadcast, diagonal, summed over in one operand, with an ellipsis, without an output, of one and of three operands."""
    check_calls(
        lambda a, b: (
            torch.einsum("bik,bkj->bij", a, b),
            torch.einsum("bik,bkj->ji", a, b),
            torch.einsum("bik,bkj", a, b),
            torch.einsum("bik , bkj -> bi", a, b),
            torch.einsum("bik,bkj->ik", a, b),
            torch.einsum("...ik,...kj->...ij", a, b),
        ),
        (some(3, 5, 7), some(3, 7, 4)),
        (some(3, 5, 7), some(1, 7, 4)),
        (some(3, 5, 0), some(3, 0, 4)),
        **CLOSE,
    )
    check_calls(
        lambda x: (
            torch.einsum("iij->j", x),
            torch.einsum("iij->ji", x),
            torch.einsum("iij->i", x),
            torch.einsum("i...->...", x),
            torch.einsum("jik", x),
        ),
        some(4, 4, 3),
        some(0, 0, 3),
        **CLOSE,
    )
    check_calls(
        lambda x, y, z: (
            torch.einsum("ab,bc,cd->ad", x, y, z),
            torch.einsum("ab,bc,cd->dba", x, y, z),
            torch.einsum("ab,bc,cd->", x, y, z),
            torch.einsum("ab,ab->ab", x, x),
            torch.einsum("ab,cd->acbd", x, z),
        ),
        (some(3, 5), some(5, 6, seed=1), some(6, 2, seed=2)),
        **CLOSE,
    )
    check_calls(lambda x, y: torch.einsum("...i,i...->...", x, y), (some(2, 3, 4), some(4, 3)), (some(3, 4), some(4, 2, 3)), **CLOSE)
    check_calls(
        lambda x, y: (torch.einsum("ij,jk->ik", x, y), torch.einsum("ij->", x)), (torch.arange(6).view(2, 3), torch.arange(12).view(3, 4))
    )
    # A letter of one operand alone is summed over in int64.
    check_calls(
        lambda x, y: (
            torch.einsum("ij,jk->ik", x, y),
            torch.einsum("ij->i", x),
            torch.einsum("ij,k->i", x, y[0]),
            torch.einsum("ij,ij->", x, x),
            torch.einsum("ij,k->i", x[:, :1], y[0, :1]),
            torch.einsum("i,j,k->", y[0], y[1], y[2]),
            torch.einsum("ii->", x[:2, :2]),
        ),
        (torch.arange(100, 106, dtype=torch.int8).view(2, 3), torch.arange(90, 102, dtype=torch.int8).view(3, 4)),
    )


def test_trilinear(check_calls):
    """A bilinear layer, dims of one operand alone, and none or all of them summed over."""
    trilinear = torch.ops.aten._trilinear
    check_calls(
        lambda x, w, y: (
            trilinear(x, w, y, [1, 3], [0], [1, 2], [2, 3]),
            trilinear(x, w, y, [1, 3], [0], [1, 2], [0, 2, 3]),
            trilinear(x, w, y, [1, 3], [0], [1, 2], []),
            trilinear(x, w, y, [1, 3], [0], [1, 2], [0, 1, 2, 3]),
            trilinear(x, x, x, [], [], [], [1]),
        ),
        (some(5, 3), some(4, 3, 6, seed=1), some(5, 6, seed=2)),
        (some(1, 3), some(4, 3, 6, seed=1), some(1, 6, seed=2)),
        (some(0, 3), some(4, 3, 6, seed=1), some(0, 6, seed=2)),
        (some(3, 5).t(), some(6, 3, 4, seed=1).transpose(0, 2), some(6, 5, seed=2).t()),
        **CLOSE,
    )
    numbers = [torch.arange(-10, 10).view(5, 4), torch.arange(24).view(2, 4, 3), torch.arange(15).view(5, 3)]
    check_calls(lambda x, w, y: trilinear(x, w, y, [1, 3], [0], [1, 2], [2, 3]), tuple(numbers))


def test_columns_of_an_image(check_calls):
    def unfold(x):
        return F.unfold(x, 3), F.unfold(x, (2, 3), dilation=2, padding=1, stride=(1, 2))

    def fold(x):
        return (
            F.fold(F.unfold(x, 3, padding=1), (6, 7), 3, padding=1),
            F.fold(F.unfold(x, (2, 3), dilation=2, padding=1, stride=(1, 2)), (6, 7), (2, 3), dilation=2, padding=1, stride=(1, 2)),
        )

    check_calls(unfold, some(2, 3, 6, 7), some(3, 6, 7), some(0, 3, 6, 7), some(2, 3, 6, 7).bfloat16())
    check_calls(fold, some(2, 3, 6, 7), some(3, 6, 7), some(1, 3, 6, 7).double(), **CLOSE)


def test_epilogues(check_calls):
    """What is fused after a product: bias, activation, residual, scaling, transposition, two readers."""
    linear = torch.nn.Linear(40, 24)

    def function(x, residual):
        y = linear(x)
        return (
            F.gelu(y) + residual,
            (y * 0.125).transpose(0, 1),
            y.view(6, 5, 4, 6).permute(0, 2, 1, 3),
            torch.sigmoid(y) * y,
            y.sum(-1),
            y[:, :7],
            F.layer_norm(y + residual, (24,)),
        )

    check_calls(function, (some(30, 40), some(30, 24)), modules=[linear], **CLOSE)


def test_shared_weights(check_calls):
    """One parameter used by two products, once transposed."""
    table = torch.nn.Embedding(33, 20)
    check_calls(lambda i: (F.linear(table(i), table.weight), table(i) @ table.weight.t()), torch.arange(9), modules=[table], **CLOSE)


def test_chain_of_products(check_calls):
    check_calls(lambda a, b, c: ((a @ b) @ c, a @ (b @ c), (a @ b) @ (a @ b).t() @ a), (some(5, 30), some(30, 20), some(20, 7)), **CLOSE)


@pytest.mark.parametrize(
    "width,stride,padding,dilation,groups",
    [
        (1, 1, 0, 1, 1),
        (3, 1, 1, 1, 1),
        (3, 2, 1, 1, 1),
        (3, 1, 2, 2, 1),
        (5, 1, 0, 1, 1),
        (3, 1, 1, 1, 2),
        (3, 1, 1, 1, 8),
        (3, 2, 1, 1, 8),
        (7, 2, 3, 1, 1),
        (2, 2, 0, 1, 1),
        (4, 4, 0, 1, 1),
        (1, 2, 0, 1, 4),
    ],
)
def test_convolution(check_calls, width, stride, padding, dilation, groups):
    convolution = torch.nn.Conv2d(8, 16, width, stride, padding, dilation, groups)
    check_calls(convolution, some(1, 8, 14, 15), some(2, 8, 9, 9), modules=[convolution], **CLOSE)


@pytest.mark.parametrize(
    "size,stride,padding", [((3, 1), (2, 1), (1, 0)), ((1, 5), (1, 2), (0, 2)), ((3, 5), (1, 1), "same"), ((2, 2), (1, 1), "valid")]
)
def test_uneven_convolution(check_calls, size, stride, padding):
    convolution = torch.nn.Conv2d(3, 5, size, stride, padding, bias=False)
    check_calls(convolution, some(2, 3, 11, 12), modules=[convolution], **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_convolution_with_weights_as_inputs(check_calls, dtype):
    """Weights lie in memory with the channels outside of the window, which is not the order of the sum."""
    cases = [
        (some(1, channels, 9, 10).to(dtype), some(filters, channels // groups, *size, seed=1).to(dtype), stride, padding, groups)
        for channels, filters, groups in ((3, 5, 1), (16, 40, 1), (37, 3, 1), (8, 12, 4), (6, 6, 6))
        for size, stride, padding in (((3, 3), 1, 1), ((2, 5), 2, 0), ((7, 1), 1, 3))
    ]
    cases += [(some(2, 300, 8, 7).to(dtype), some(33, 300, 3, 3, seed=1).to(dtype), 1, 1, 1)]
    tolerances = dict(rtol=2e-2, atol=1e-1) if dtype.itemsize == 2 else dict(rtol=1e-4, atol=1e-3)

    def function(x, w, stride, padding, groups):
        return F.conv2d(x, w, None, stride, padding, 1, groups), F.conv1d(
            x[:, :, 0], w[:, :, 0], w[:, 0, 0, 0], 1, w.shape[3], groups=groups
        ).relu()

    check_calls(function, *cases, **tolerances)


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_products_beside_complex_numbers(compile_and_compare, is_dynamic):
    """What complex numbers become is an operand, and is scattered, summed up and sorted; complex numbers are made of sums."""

    class Products(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mel, self.smooth = torch.nn.Linear(16, 24), torch.nn.Conv1d(16, 16, 3, padding=1)

        def forward(self, pairs):
            z = torch.view_as_complex(pairs)
            magnitude, half = z.abs(), pairs[..., 0].contiguous()
            smooth = self.smooth(magnitude.transpose(1, 2)).transpose(1, 2)
            return (
                torch.polar(self.mel(magnitude), self.mel(half)),
                smooth.sigmoid() * z,
                smooth + z.imag,
                magnitude @ z.real.transpose(1, 2),
                (half @ half.transpose(1, 2)) * 1j,
                F.scaled_dot_product_attention(magnitude, z.real, z.imag * 2),
                (self.mel(half[0, 0]) * (1 + 2j)).abs(),
                F.conv2d(magnitude[:, None], torch.ones(3, 1, 3, 3), padding=1) * 1j,
                torch.zeros(16, 2).index_add(0, torch.arange(16) % 5, torch.view_as_real(z[0, 0] * (1 + 2j))),
                (z * 2j).imag.cumsum(-1),
                (z * 2j).real.sort(-1)[0],
            )

    dims = {0: torch.export.Dim("batch", min=2, max=9), 1: torch.export.Dim("frames", min=1, max=99)} if is_dynamic else None
    compile_and_compare(Products(), (some(2, 9, 16, 2),), (dims,) if dims else None, **CLOSE)


def test_cache_of_keys_rotated_as_complex_numbers(compile_and_compare):
    class Keys(torch.nn.Module):
        def forward(self, cache, at, keys, angles):
            turned = torch.view_as_complex(keys) * torch.polar(torch.ones_like(angles), angles)[:, None]
            return cache.index_copy(2, at, torch.view_as_real(turned).flatten(3).transpose(1, 2))

    compile_and_compare(Keys(), (some(2, 4, 12, 16), torch.tensor([3, 1, 5]), some(2, 3, 4, 8, 2), some(3, 8)), **CLOSE)


@pytest.mark.skipif("cuda" in str(TARGET), reason="plans of CPUs")
@pytest.mark.parametrize("cpu", [(), ("--cpu=x86-64-v3",)], ids=["native", "avx2"])
def test_convolution_of_many_channels(compile_and_compare, cpu):
    """Sums that are cut: neither the rows that windows see nor a panel fit in the caches, for one row of the image and for several."""
    layers = torch.nn.ModuleList([
        torch.nn.Conv2d(512, 40, 3, padding=1), torch.nn.Conv2d(768, 16, 3, 2, 1),
        torch.nn.Conv2d(512, 48, (2, 3), padding=2, dilation=2), torch.nn.Conv1d(512, 16, 9, padding=4)])  # fmt: skip

    class Convolutions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, x, y, z):
            first, strided, dilated, line = self.layers
            return F.relu(first(x)) + 1, strided(y), dilated(x * 2), line(z)

    options = (*cpu, "--cpu-tune=l1=8192,l2=16384")
    inputs = some(2, 512, 7, 20), some(1, 768, 9, 30), some(1, 512, 90)
    batch = ({0: torch.export.Dim("batch", min=1, max=9)}, None, None)
    compiled = compile_and_compare(Convolutions(), inputs, batch, options=options, threads=3, **CLOSE)
    compile_and_compare(Convolutions(), inputs, options=options, **CLOSE)
    text = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=wrapper", *options).stdout
    schedules = re.findall(r"#cpu\.contract<(.*?)>", text)
    assert len(schedules) == len(layers) and not any("lhs = window" in schedule for schedule in schedules), schedules


def test_turned_convolution_of_any_size(compile_and_compare):
    class Convolutions(torch.nn.Module):
        def forward(self, x, w, v):
            return F.conv2d(x, w, padding=1), F.conv2d(x, v), F.conv3d(x.unsqueeze(1), v.unsqueeze(1))

    def inputs(batch, height, width):
        return some(batch, 20, height, width), some(18, 20, 3, 3, seed=1), some(7, 20, 2, 5, seed=2)

    dims = [torch.export.Dim(name, min=6, max=40) for name in ("height", "width")]
    shapes = ({0: torch.export.Dim("batch", min=1, max=9), 2: dims[0], 3: dims[1]}, None, None)
    compile_and_compare(Convolutions(), inputs(2, 8, 9), shapes, more_inputs=[inputs(1, 6, 6), inputs(3, 17, 33)], **CLOSE)


def test_convolution_to_few_channels(compile_and_compare):
    """Pixels of planes beside two or three channels, which come in planes, too; one of images whose rows are no whole vectors."""

    class Convolutions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.two, self.three, self.one = (torch.nn.Conv2d(10, n, 1, bias=n > 2) for n in (2, 3, 1))
            self.wide, self.line, self.strided = (
                torch.nn.Conv2d(10, 2, 3, padding=1),
                torch.nn.Conv1d(10, 2, 1),
                torch.nn.Conv2d(10, 3, 1, 2),
            )

        def forward(self, x):
            two, three = self.two(x), self.three(x).sigmoid()
            scaled = torch.nn.functional.interpolate(three, scale_factor=2.0, mode="bilinear")
            turned = self.two(x.transpose(2, 3).contiguous(memory_format=torch.channels_last))
            return (
                two,
                three,
                scaled,
                three.sum(1),
                two * three[:, :1],
                self.one(x),
                self.wide(x),
                self.line(x.flatten(2)),
                self.strided(x),
                turned,
            )

    x = torch.randn(2, 10, 9, 16)
    x[0, 3, 2, 5], x[1, 2, 0, 0] = float("nan"), float("inf")
    others = [(torch.randn(1, 10, 5, 33),), (torch.randn(3, 10, 70, 3),)]
    compile_and_compare(Convolutions(), (x,), threads=2, **CLOSE)
    sizes = [torch.export.Dim(name, min=least, max=500) for name, least in (("batch", 1), ("height", 3), ("width", 3))]
    compile_and_compare(Convolutions(), (x,), (dict(zip((0, 2, 3), sizes)),), more_inputs=others, **CLOSE)


@pytest.mark.parametrize("stride,padding,groups", [(1, 0, 1), (2, 1, 1), (1, 2, 4)])
def test_convolution_in_one_dimension(check_calls, stride, padding, groups):
    convolution = torch.nn.Conv1d(8, 12, 3, stride, padding, groups=groups)
    check_calls(lambda x: (convolution(x), F.gelu(convolution(x)).transpose(1, 2)), some(2, 8, 25), modules=[convolution], **CLOSE)


def test_convolution_without_channels(check_calls):
    line, image = torch.nn.Conv1d(0, 9, 3, padding=1), torch.nn.Conv2d(0, 4, 3)
    check_calls(
        lambda x, y, z: (line(x), line(x[0]), line(x[:0]), image(y), image(y[0]), line(z.logsumexp(2))),
        (torch.ones(2, 0, 8), torch.ones(2, 0, 5, 6), torch.ones(0, 8, 0)),
        modules=[line, image],
    )


def test_convolution_of_time_batch_channels(compile_and_compare):
    class Convolve(torch.nn.Module):
        def forward(self, x, w, b):
            return (
                *[torch.conv_tbc(t, w, b, pad) for t in (x, x[:, :0]) for pad in (0, 1, 5)],
                torch.conv_tbc(x.double(), w.double(), b.double(), 2),
                torch.conv_tbc(x[..., :0], w[:, :0], b),
                torch.conv_tbc(x, w.transpose(1, 2).contiguous().transpose(1, 2), b),
            )

    compile_and_compare(Convolve(), (some(5, 4, 3), some(3, 3, 20), some(20)))


class Groups(torch.nn.Module):
    def forward(self, x, stack, ends):
        return (
            torch._grouped_mm(x, stack, offs=ends),
            torch._grouped_mm(x, stack.transpose(1, 2).contiguous().transpose(1, 2), offs=ends),
            torch._grouped_mm(stack, x.t().contiguous(), offs=ends),
            torch._grouped_mm(x.t().contiguous(), x, offs=ends),
            torch._grouped_mm(stack.transpose(1, 2).contiguous(), stack.contiguous()),
        )


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_products_of_groups(compile_and_compare, is_dynamic):
    """Groups of rows, columns or steps, which end where data says. Steps past the last group count nowhere."""

    def inputs(rows, *ends):
        x = some(rows, 16).bfloat16()
        return x, some(3, 16, 16, seed=1).bfloat16(), torch.tensor(ends, dtype=torch.int32)

    cases = [inputs(16, *ends) for ends in ((5, 8, 16), (5, 5, 16), (0, 16, 16), (16, 16, 16), (8, 5, 16), (8, 9, 20))]
    n = torch.export.Dim("n", min=1, max=25)
    model = compile_and_compare(
        Groups(),
        cases[0],
        dynamic_shapes=({0: 8 * n}, {}, {}) if is_dynamic else None,
        more_inputs=cases[1:] + ([inputs(96, 50, 51, 96)] if is_dynamic else []),
        rtol=2e-2,
        atol=2e-2,
    ).model
    short = inputs(16, 2, 9, 13)
    short[0][13:] = math.inf
    rows, _, columns, steps, _ = (torch.as_tensor(value).float() for value in model.run(list(short)))
    assert (rows[13:] == 0).all() and (columns[:, 13:] == 0).all() and steps.isfinite().all()
    with pytest.raises(kiln.KilnError, match="a group that ends before the first element"):
        model.run(list(inputs(16, -1, 8, 16)))


def test_convolution_block(check_calls):
    """Convolution, normalisation, activation and a residual, as in every convolution network."""
    first, norm, second = torch.nn.Conv2d(6, 6, 3, padding=1, bias=False), torch.nn.BatchNorm2d(6), torch.nn.Conv2d(6, 6, 3, padding=1)
    torch.nn.init.normal_(norm.running_mean), torch.nn.init.uniform_(norm.running_var, 0.5, 2), torch.nn.init.normal_(norm.weight)
    norm.eval()
    check_calls(lambda x: F.relu(second(F.hardtanh(norm(first(x)), 0, 6)) + x), some(2, 6, 10, 11), modules=[first, norm, second], **CLOSE)


@pytest.mark.parametrize("bias", [True, False])
def test_large_depthwise(check_calls, bias):
    """Channels that fill vectors and that do not, strided and dilated."""
    plain, strided = (
        torch.nn.Conv2d(40, 40, 7, padding=3, groups=40, bias=bias),
        torch.nn.Conv2d(40, 40, (7, 5), 2, (3, 1), (1, 2), groups=40, bias=bias),
    )
    narrow = torch.nn.Conv1d(5, 5, 31, padding=15, groups=5, bias=bias)
    check_calls(
        lambda x: (plain(F.relu(x)), F.gelu(strided(x * 2)), narrow(x[:, :5].flatten(2).neg())),
        some(2, 40, 12, 13),
        modules=[plain, strided, narrow],
        **CLOSE,
    )


def test_weight_as_an_input(check_calls):
    check_calls(lambda x, w: F.conv2d(x, w, padding=1), (some(1, 4, 8, 8), some(6, 4, 3, 3)), **CLOSE)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x, (3, 1), (1, 2), dilation=(2, 1)),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, 1),
        lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    ],
    ids=["max", "max padded", "max uneven", "average", "average padded", "average uncounted", "global", "adaptive", "ceil"],
)
def test_pooling(check_calls, function):
    check_calls(function, some(2, 5, 12, 13) - 5, **CLOSE)


def attend(**options):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 2, 5, 8), (2, 3, 17, 16), (1, 4, 128, 64), (1, 2, 197, 64), (1, 1, 300, 40)])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_attention(check_calls, shape, options):
    check_calls(attend(**options), tuple(some(*shape, seed=i) for i in range(3)), **CLOSE)


@pytest.mark.parametrize(
    "shapes", [((4, 3, 8), (4, 4, 6, 8), (4, 4, 6, 8)), ((3, 8), (2, 6, 8), (6, 5)), ((2, 4, 3, 8), (4, 6, 8), (1, 6, 5))], ids=str
)
def test_attention_of_different_ranks(check_calls, shapes):
    inputs = tuple(some(*shape, seed=i) for i, shape in enumerate(shapes))
    check_calls(attend(), inputs, **CLOSE)
    check_calls(attend(is_causal=True), inputs, **CLOSE)


def test_attention_with_mask(check_calls):
    def function(q, k, v, boolean, additive):
        return (
            F.scaled_dot_product_attention(q, k, v, boolean),
            F.scaled_dot_product_attention(q, k, v, additive),
            F.scaled_dot_product_attention(q, k, v, additive[:, :1, :, :]),
        )

    q, k, v = (some(2, 4, 19, 16, seed=i) for i in range(3))
    mask = some(2, 1, 19, 19, seed=4) > -1
    mask[..., 0] = True
    check_calls(function, (q, k, v, mask, some(2, 4, 19, 19, seed=5)), **CLOSE)


def test_attention_with_a_computed_mask(check_calls):
    """Keys up to the query, alone and with what else may hide one or show another."""

    def function(q, k, v, pad):
        i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
        lowest = torch.tensor(float("-inf"))
        masks = (
            j <= i,
            (j <= i) & pad,
            (i - 3 < j) & (i >= j),
            torch.where((j > i) | ~pad, lowest, 0.0),
            j < i,
            j <= i + 2,
            (j <= i) | pad,
            torch.where(j <= i, torch.where(pad, 0.5, lowest), lowest),
        )
        return tuple(F.scaled_dot_product_attention(q, k, v, mask) for mask in masks)

    sizes = [(5, 5), (70, 40), (40, 70), (100, 300)]
    check_calls(function, *[(some(1, 2, m, 16), some(1, 2, n, 16), some(1, 2, n, 16), some(n, seed=3) > -1) for m, n in sizes], **CLOSE)


def test_attention_of_other_lengths(check_calls):
    """More keys than queries, another width of values, and keys shared by groups of heads."""
    check_calls(
        attend(),
        (some(1, 2, 7, 16), some(1, 2, 33, 16), some(1, 2, 33, 24)),
        (some(1, 2, 1, 16), some(1, 2, 40, 16), some(1, 2, 40, 16)),
        **CLOSE,
    )
    check_calls(attend(enable_gqa=True, is_causal=True), (some(1, 8, 11, 16), some(1, 2, 11, 16), some(1, 2, 11, 16)), **CLOSE)


def test_attention_of_nothing(check_calls):
    """Without keys the result is zero, without features all keys weigh the same."""

    def function(q, k, v, mask):
        attention = F.scaled_dot_product_attention
        return attention(q, k, v), attention(q, k, v, mask), attention(q, k, v, is_causal=True)

    cases = [(40, 0, 4, 4), (3, 0, 64, 64), (40, 6, 0, 0), (3, 6, 0, 4), (3, 6, 4, 0), (0, 6, 4, 4)]
    check_calls(
        function, *[(some(1, 2, m, d), some(1, 2, n, d), some(1, 2, n, dv), some(m, n)) for m, n, d, dv in cases], rtol=1e-5, atol=1e-5
    )


def test_attention_of_large_scores(check_calls):
    """The running maximum keeps every exponential in range."""
    check_calls(attend(scale=1.0), tuple(some(1, 2, 40, 16, seed=i) * 10 for i in range(3)), rtol=1e-3, atol=1e-3)


def test_attention_with_a_masked_row(check_calls):
    """A query that may look at nothing gives zeros, as eager does."""
    mask = torch.ones(1, 1, 6, 6, dtype=torch.bool)
    mask[..., 2, :] = False
    check_calls(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), (*(some(1, 2, 6, 8, seed=i) for i in range(3)), mask), **CLOSE
    )


def test_attention_inside_a_block(check_calls):
    """Heads split and joined around it by views."""
    joined, out = torch.nn.Linear(48, 144), torch.nn.Linear(48, 48)

    def function(x):
        q, k, v = (part.view(2, 10, 4, 12).transpose(1, 2) for part in joined(x).split(48, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out(y.transpose(1, 2).reshape(2, 10, 48)) + x

    check_calls(function, some(2, 10, 48), modules=[joined, out], **CLOSE)


class WrittenOut(torch.nn.Module):
    """Attention as two products with a softmax between them, most of which are one kernel: in half precision, where what is made of
    the scores is rounded, those that scale them or leave some out."""

    def forward(self, q, k, v, keep, bias):
        later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
        # Each of a product of its own: equal ones are computed once.
        shown, *products, last = ((q + i / 16) @ k.mT / 4 for i in range(13))
        scored = [
            products[0],
            products[1].masked_fill(~keep, -torch.inf) * 1.0,
            torch.where(keep, products[2] / 5, torch.finfo(q.dtype).min),
            products[3] * 0.5 + bias,
            products[4].masked_fill(later, -torch.inf),
            0.25 * products[5] - bias + torch.where(keep, 0, -torch.inf).to(q.dtype),
            products[6].masked_fill(~keep, -1e9),
            torch.tanh(products[7]),
            (5 * torch.tanh(products[8] / 5) + bias).masked_fill(later, -torch.inf),
            torch.where(keep, products[9].exp(), 0.25),
            products[10].abs() * bias,
        ]
        weights = F.softmax(shown, -1)
        results = [F.softmax(scores, -1) @ v for scores in scored]
        return weights, weights @ v, *results[1:], results[0].transpose(1, 2).flatten(2), F.relu(F.softmax(last, -1) @ v)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float64, 1e-9), (torch.bfloat16, 3e-2)], ids=str)
def test_attention_written_out(compile_and_compare, dtype, tolerance):
    """Rows without keys, or of which all are left out, are what the softmax makes of them."""

    def inputs(batch, queries, keys):
        torch.manual_seed(queries + keys)
        keep = torch.rand(batch, 1, queries, keys) < 0.7
        keep[:, :, 1:2] = False
        tensors = (torch.randn(batch, 3, size, width) for size, width in ((queries, 16), (keys, 16), (keys, 24)))
        return *[tensor.to(dtype) for tensor in tensors], keep, torch.randn(queries, keys).to(dtype)

    batch, queries, keys = (torch.export.Dim(name, max=64) for name in ("batch", "queries", "keys"))
    shapes = ({0: batch, 2: queries}, {0: batch, 2: keys}, {0: batch, 2: keys}, {0: batch, 2: queries, 3: keys}, {0: queries, 1: keys})
    others = [inputs(*sizes) for sizes in ((1, 1, 40), (3, 20, 1), (2, 4, 0), (0, 3, 3), (2, 33, 50))]
    compiled = compile_and_compare(WrittenOut(), inputs(2, 9, 11), shapes, tolerance, tolerance, others)
    kernels = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=kernel").stdout
    assert kernels.count("kernel.attention batch") == (7 if dtype == torch.bfloat16 else 12)


def test_attention_of_one_query(check_calls):
    """Scores of one dim, however they are computed."""

    def function(q, k, v):
        scores = (k @ q, (q[None] @ k.T).squeeze(0), torch.einsum("nd,d->n", k, q * 2))
        return tuple(F.softmax(one, 0) @ v for one in scores)

    check_calls(function, (some(16), some(11, 16), some(11, 8)), **CLOSE)


def test_concatenated_products(compile_and_compare):
    """Products are computed where the concatenation wants them, also when they are read elsewhere, and in a result of the model."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(8, 16), torch.nn.Linear(5, 16)

        def forward(self, x, y, z):
            p, q = self.a(x), self.b(y)
            both = torch.cat([p, q])
            return torch.softmax(torch.cat([p, q, z]), 1) + 1, both, p.sum(), torch.cat([both, p]).sum(1), torch.cat([p, p[:1], p])

    sizes = [(4, 6), (2, 2), (17, 33)]
    inputs = [(some(m, 8), some(n, 5), some(2, 16)) for m, n in sizes]
    dims = {0: torch.export.Dim.DYNAMIC}
    compile_and_compare(Model(), inputs[0], dynamic_shapes=(dims, dims, None), more_inputs=inputs[1:], **CLOSE)
