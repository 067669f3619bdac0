"""Complex numbers with parts of half precision: stored so, computed with as complex64."""

import math

import pytest
import torch
import torch.nn.functional as F

from conftest import TARGET

INF, NAN = math.inf, math.nan
HALF = torch.complex32


def some(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.complex64).to(HALF)


SPECIAL = torch.complex(
    torch.tensor([0.0, -0.0, 1.0, NAN, INF, -INF, 300.0, 65504.0, 6e-8, -2.0]),
    torch.tensor([-0.0, 1.0, NAN, 2.0, 3.0, -INF, 300.0, 65504.0, -6e-8, 0.5]),
).to(HALF)


class Arithmetic(torch.nn.Module):
    def forward(self, x, y):
        n = x.real.to(torch.float64)
        return (
            x + y,
            x - y,
            x * y,
            torch.add(x, y, alpha=2 - 1j),
            x * 0.5j,
            x + 1,
            2 - x,
            -x,
            x.abs(),
            x.conj() + 0,
            x.conj_physical(),
            x.real,
            x.imag,
            x.sgn(),
            x == y,
            x != x,
            x.isnan(),
            x.isinf(),
            torch.isclose(x, y),
            x.bool(),
            x.half(),
            x.to(torch.complex64),
            x.to(torch.bfloat16),
            n.chalf(),
            y.bfloat16().float().chalf(),
            torch.where(x == y, x, y),
            torch.addcmul(x, y, x),
            torch.view_as_real(x),
            torch.view_as_complex(torch.view_as_real(x)),
            torch.complex(x.imag.half(), y.real.half()),
        )


class Mixed(torch.nn.Module):
    def forward(self, x, f, i, b):
        return (
            x + f,
            x * i,
            f * 1j,
            b * 1j,
            i * x[0, 0],
            b + x,
            x * x.to(torch.complex128),
            f.double() * x,
            torch.ldexp(x.to(torch.complex64), i),
        )


class Moves(torch.nn.Module):
    def forward(self, x, y, mask, index):
        z = x.clone()
        z[0] = y[1]
        z[:, index] = 2j
        return (
            torch.cat([x, y], 1),
            torch.stack([x, y]),
            x.t().contiguous(),
            x.flip(0),
            x.roll(1, 1),
            x.masked_fill(mask, 3 - 1j),
            x[mask],
            x.index_select(1, index),
            x[:2, 1:3].diagonal(),
            z,
            x.index_add(1, index, y[:, :2]),
            x.repeat(2, 1),
            x.expand(2, *x.shape).reshape(-1),
            F.pad(x, (1, 2), value=2),
            x.tril(),
            x.nonzero(),
            torch.full_like(x, 1.5j),
            torch.zeros_like(x),
            x.unfold(1, 2, 1),
            x.new_full((2,), 1 + 1j),
            x.var(1),
            x.norm(),
            x[:, :0] * 2,
        )


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_arithmetic(compile_and_compare, is_dynamic):
    n = torch.export.Dim("n", min=2, max=200)
    cases = [(some(3, 7), some(3, 7, seed=1)), (some(50, 7, seed=2), some(50, 7, seed=3))] + [
        (SPECIAL[:, None].expand(10, 7), SPECIAL.roll(shift)[:, None].repeat(1, 7)) for shift in (0, 1, 4)
    ]
    if not is_dynamic:
        cases = [(x[:2].repeat(5, 1), y[:2].repeat(5, 1)) for x, y in cases[:2]] + cases[2:]
    compile_and_compare(
        Arithmetic(), cases[0], dynamic_shapes=({0: n}, {0: n}) if is_dynamic else None, more_inputs=cases[1:], rtol=2e-3, atol=1e-6
    )


def test_arithmetic_of_none_and_one(compile_model, compile_and_compare):
    inputs = (some(0, 3), some(0, 3))
    for got, want in zip(compile_model(Arithmetic(), inputs).model.run(list(inputs)), Arithmetic()(*inputs), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
    compile_and_compare(Arithmetic(), (some(), some(seed=1)))


def test_promotion(compile_and_compare):
    f = some(3, 4, seed=5).real
    compile_and_compare(Mixed(), (some(3, 4), f, torch.arange(12).reshape(3, 4), f.bfloat16()), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_moves(compile_and_compare, is_dynamic):
    n, m = torch.export.Dim("n", min=2, max=20), torch.export.Dim("m", min=4, max=60)

    def inputs(rows, columns):
        return some(rows, columns), some(columns, rows, seed=1).t(), some(rows, columns, seed=2).real > 0, torch.tensor([3, 1])

    compile_and_compare(
        Moves(),
        inputs(3, 5),
        dynamic_shapes=({0: n, 1: m}, {0: n, 1: m}, {0: n, 1: m}, {}) if is_dynamic else None,
        more_inputs=[inputs(7, 33)] if is_dynamic else [],
        rtol=2e-3,
    )


def test_sums_are_not_rounded_on_the_way(compile_model):
    """Eager mode rounds the parts of a convolution one by one, and has no product of matrices."""
    x, w, a, b = some(1, 64, 20), some(4, 64, 3, seed=1), some(5, 300), some(300, 6, seed=2)

    class Sums(torch.nn.Module):
        def forward(self, x, w, a, b):
            return F.conv1d(x, w), a @ b, a.sum(1), a.mean()

    inputs = (x, w, a, b)
    outputs = compile_model(Sums(), inputs).model.run(list(inputs))
    for got, want in zip(outputs, Sums()(*(tensor.to(torch.complex128) for tensor in inputs))):
        got = torch.as_tensor(got)
        assert got.dtype == HALF
        torch.testing.assert_close(got.to(torch.complex128), want, rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(bool(TARGET), reason="numbers of a Python package")
def test_numpy_sees_bytes(compile_model):
    class Make(torch.nn.Module):
        def forward(self):
            return torch.full((2,), 1 - 2j, dtype=HALF), torch.zeros((0, 3), dtype=HALF)

    full, none = compile_model(Make(), ()).model.run([])
    assert full.dtype.itemsize == none.dtype.itemsize == 4 and none.shape == (0, 3)
    assert full.view("float16").tolist() == [1, -2, 1, -2]
