"""Views, joins and copies: everything that only moves elements must be exact."""

import math

import pytest
import torch
import torch.nn.functional as F

from test_ops_pointwise import some

EXACT = dict(rtol=0, atol=0)

VIEWS = {
    "reshape": lambda x: (x.reshape(-1), x.reshape(8, 3, 5), x.reshape(2, 2, 30), x.view(4, 30)),
    "flatten": lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1)),
    "transpose": lambda x: (x.transpose(0, 2), x.permute(2, 0, 1), x.mT, x.swapaxes(1, 2), x.movedim(0, -1)),
    "transpose_then_reshape": lambda x: (x.transpose(1, 2).reshape(4, 30), x.permute(2, 1, 0).reshape(-1), x.permute(1, 0, 2).flatten(1)),
    "squeeze": lambda x: (x[:1].squeeze(0), x[:, :1].squeeze(), x.unsqueeze(0), x.unsqueeze(-1).unsqueeze(2)),
    "expand": lambda x: (x[:, :1].expand(4, 9, 5), x.unsqueeze(1).expand(-1, 3, -1, -1), x[0, 0].expand(2, 5), x[:1].expand_as(x)),
    "slice": lambda x: (x[1:3], x[:, ::2], x[..., -2:], x[3:1], x[:, 1:-1, ::3], x[-100:100], x[2], x[:, -1]),
    "select_narrow": lambda x: (x.select(1, -2), x.narrow(0, 1, 2), x.narrow(2, -2, 2)),
    "split": lambda x: (*x.split(2, 1), *x.split([1, 3], 0), *x.chunk(3, 2), *x.unbind(0), *x.tensor_split(4, 1)),
    "flip_roll": lambda x: (x.flip(0), x.flip(1, 2), x.roll(2, 0), x.roll((1, -2), (0, 2)), x.roll(7), x.rot90()),
    "repeat": lambda x: (x.repeat(2, 1, 3), x.repeat(2, 1, 1, 1), x.tile(2, 2), x.repeat_interleave(3, 1), x.repeat_interleave(2)),
    "diagonal": lambda x: (x.diagonal(), x.diagonal(1, 1, 2), x.diagonal(-2, 0, 1), x[:, :4].tril(), x.triu(1)),
    "unfold": lambda x: (x.unfold(1, 3, 2), x.unfold(2, 2, 1)),
    "unflatten": lambda x: (x.unflatten(1, (2, 3)), x.unflatten(0, (-1, 2))),
    "contiguous": lambda x: (x.contiguous(), x.transpose(0, 1).contiguous(), x.clone(), x.detach()),
    "as_complex_parts": lambda x: (x[..., 0::2], x[..., 1::2]),
    "cat": lambda x: (
        torch.cat([x, x[:1], x * 2]),
        torch.cat([x, x], 1),
        torch.cat([x[..., :0], x], -1),
        torch.cat([x.transpose(0, 1), x.transpose(0, 1)], -1),
    ),
    "stack": lambda x: (torch.stack([x, x + 1]), torch.stack([x, -x], -1), torch.hstack([x, x]), torch.vstack([x, x])),
    "pad": lambda x: (
        F.pad(x, (1, 2)),
        F.pad(x, (0, 0, 3, 0), value=-1.5),
        F.pad(x, (1, 1, 1, 1, 1, 1)),
        F.pad(x, (-1, 2)),
        F.pad(x, (0, -2, -1, 0)),
    ),
    "pad_modes": lambda x: (F.pad(x, (2, 1), mode="reflect"), F.pad(x, (2, 3), mode="replicate"), F.pad(x, (1, 2), mode="circular")),
    "rotate_half": lambda x: torch.cat([-x[:, 3:], x[:, :3]], 1) * 0.5 + x,
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 6, 5), 2),
    "channel_shuffle": lambda x: x.view(2, 2, 6, 5).transpose(0, 1).reshape(4, 6, 5),
    "meshgrid": lambda x: torch.meshgrid(x[:, 0, 0], x[0, :, 0], indexing="ij"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(check_calls, name):
    check_calls(VIEWS[name], some(4, 6, 5), **EXACT)


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("reshape", "contiguous", "channel_shuffle")])
def test_views_between_arithmetic(check_calls, name):
    """Fused into what comes before and after."""

    def function(x):
        results = VIEWS[name](x * 2 + 1)
        return tuple(result.relu() - 1 for result in (results if isinstance(results, tuple) else (results,)))

    check_calls(function, some(4, 6, 5), **EXACT)


@pytest.mark.parametrize("name", ["reshape", "transpose_then_reshape", "slice", "cat", "expand", "flip_roll"])
def test_views_into_a_reduction(check_calls, name):
    check_calls(
        lambda x: tuple(result.sum() + result.sum(-1).sum() for result in VIEWS[name](x.exp())), some(4, 6, 5), rtol=1e-4, atol=1e-4
    )


def test_creation(check_calls):
    def function(x):
        return (
            torch.zeros(2, 3),
            torch.ones_like(x),
            torch.full_like(x, 2.5),
            torch.arange(7),
            torch.arange(1, 2, 0.25),
            torch.arange(10, 0, -3),
            x.new_zeros(3),
            x.new_ones((2, 2), dtype=torch.bool),
            torch.eye(3),
            torch.linspace(0, 1, 5),
            torch.scalar_tensor(4.0),
            torch.zeros(0, 3),
            torch.ones(4, 4).tril(),
            x + torch.arange(x.shape[-1]),
        )

    check_calls(function, some(3, 4))


def test_attention_mask_arithmetic(check_calls):
    """What language models build their masks from."""

    def function(mask, x):
        positions = torch.arange(5)
        causal = positions[None, :] <= positions[:, None]
        both = causal[None, None] & mask[:, None, None, :].bool()
        return torch.where(both, 0.0, torch.finfo(torch.float32).min) + x, both, mask.sum(-1)

    check_calls(function, (torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]), some(2, 1, 5, 5)))


def test_high_rank(check_calls):
    check_calls(
        lambda x: (x.permute(6, 5, 4, 3, 2, 1, 0), x.permute(1, 0, 3, 2, 5, 4, 6).reshape(-1), x.sum((1, 3, 5))), some(2, 3, 2, 2, 3, 2, 2)
    )


def test_nested_views(check_calls):
    """Chains whose index maps only stay small when they are simplified."""

    def function(x):
        for _ in range(6):
            x = x.reshape(8, -1).t().reshape(4, -1).flip(1).reshape(2, 3, -1).transpose(0, 1).reshape(-1, 2)
        return x

    check_calls(function, some(48, 5), **EXACT)


class Padded(torch.nn.Module):
    """Sequences of different lengths, dtypes and trailing dims, padded on either side; some have no rows."""

    def forward(self, a, b, c):
        pad = torch.nn.utils.rnn.pad_sequence
        return (
            pad([a, b, c]),
            pad([a, b, c], True, 1.5, "left"),
            pad([a, b, c], False, math.nan, "left"),
            pad([c * 2, a], True),
            pad([b]),
            pad([a.int(), b, c.double()], True, -7.5),
            pad([a > 0, c > 0], True, 1.0),
            pad([a[:, 0].relu(), b[:, 1], c[:, 2]], True, -1.0),
            pad([a, b[:, :1], c]),
            pad([a.half(), b.bfloat16()], padding_side="left"),
            pad([torch.complex(a, a), c], True, 2.0),
            pad([a[:0], a, b[:0]], True, 3.0),
            pad([a[a[:, 0] > 0], b], True, 0.25, "left"),
        )


def test_pad_sequence(compile_and_compare):
    def inputs(*lengths):
        return tuple(torch.randn(length, 3) for length in lengths)

    auto = {0: torch.export.Dim.AUTO}
    for shapes, *lengths in ((None, (5, 2, 4)), (None, (0, 2, 0)), ((auto,) * 3, (5, 2, 4), (2, 7, 3), (3, 3, 300))):
        first, *more = (inputs(*one) for one in lengths)
        compile_and_compare(Padded(), first, shapes, rtol=0, atol=0, more_inputs=more)


def test_bytes_of_complex_numbers(compile_and_compare):
    """As elements of any other width, and as real numbers: dims of 0 elements, of 1, and none; writes through such views."""
    f32, f64, c64, c128 = torch.float32, torch.float64, torch.complex64, torch.complex128

    class Module(torch.nn.Module):
        def forward(self, c, x, b):
            wide, y, z = c.to(c128), x.clone(), c.clone()
            y.view(c64).mul_(2 + 1j)
            z.view(f32)[..., 1:].add_(1)
            return (
                [c.view(to) for to in (f32, f64, c128, torch.int64, torch.int16, torch.uint8)],
                [wide.view(to) for to in (f32, f64, c64, torch.int32)],
                [x.view(to) for to in (c64, c128)],
                [b.view(to) for to in (c64, c128, torch.complex32)],
                [c.to(torch.complex32).view(to) for to in (torch.float16, f32, c64)],
                [c[0, 0].view(to) for to in (f64, torch.int64)],
                [x[:, :1].view(torch.int32).view(f32), x.double()[0, 0].view(c64), c[:, 1:3].view(f32), c.conj().resolve_conj().view(f32)],
                [y, z],
            )

    generator = torch.Generator().manual_seed(0)
    c, x = torch.randn(6, 4, dtype=c64, generator=generator), torch.randn(6, 8, generator=generator)
    b = torch.randn(6, 4, dtype=c64, generator=generator).view(torch.uint8)[:, :16].contiguous()
    c[0, 0] = complex(float("inf"), -0.0)
    inputs, rows = (c, x, b), torch.export.Dim("rows", max=9)
    compile_and_compare(Module(), inputs, rtol=0, atol=0)
    compile_and_compare(Module(), inputs, {name: {0: rows} for name in "cxb"}, 0, 0, [tuple(t[:1] for t in inputs)])


def test_overlapping_windows_are_filled(compile_and_compare):
    class Module(torch.nn.Module):
        def forward(self, x):
            results = []
            for dim, size, step in ((0, 3, 1), (0, 3, 2), (1, 4, 3), (-1, 2, 2)):
                y = [x.clone() for _ in range(3)]
                y[0].unfold(dim, size, step).fill_(2)
                y[1].unfold(dim, size, step).zero_()
                y[2].unfold(dim, size, step).copy_(x[0, 0])
                results += y
            return results

    x = torch.randn(6, 9)
    compile_and_compare(Module(), (x,), **EXACT)
    rows = torch.export.Dim("rows", min=5)
    compile_and_compare(Module(), (x,), {"x": {0: rows}}, more_inputs=[(torch.randn(5, 9),), (torch.randn(11, 9),)], **EXACT)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.bool], ids=str)
def test_turned_rows_of_fewer_bytes(compile_and_compare, dtype):
    """Rows whose last vector has one lane, two and three: nothing is written behind them."""

    class Module(torch.nn.Module):
        def forward(self, *inputs):
            return [x.movedim(1, 0).to(dtype) for x in inputs]

    inputs = [
        (torch.arange(rows * columns) % 49 - 24.0).reshape(rows, columns) for rows, columns in ((33, 33), (17, 9), (18, 34), (19, 35))
    ]
    compile_and_compare(Module(), tuple(x.abs() if dtype == torch.uint8 else x for x in inputs), rtol=0, atol=0)
