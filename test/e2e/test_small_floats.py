"""bf16 and f16, every number of them: CPUs compute on the integers that hold them, and round as PyTorch does."""

import pytest
import torch

from conftest import TARGET


class Every(torch.nn.Module):
    """What is exact or rounded once; `x` and `y` are of a small type, `wide` is f64, `integers` i64."""

    def forward(self, x, y, wide, integers):
        total = x + y
        in_range = torch.where(x.abs() < 1000, x, 3)
        return (
            total,
            x * y,
            x / y,
            -x,
            x.abs(),
            torch.maximum(x, y),
            torch.minimum(total, y),
            x.clamp(-2, 3),
            torch.where(x < y, x, y),
            x == y,
            x.isnan(),
            x.floor(),
            x.ceil(),
            x.round(),
            x.trunc(),
            torch.copysign(x, y),
            x.float(),
            x.double(),
            in_range.long(),
            in_range.to(torch.int8),
            x.bool(),
            wide.to(x.dtype),
            wide.float().to(x.dtype),
            integers.to(x.dtype),
            integers.int().to(x.dtype),
            (integers > 0).to(x.dtype),
            total.amax(1),
            total.amin(0),
            *total.max(1),
            torch.relu(total).amax(),
            torch.cat([x.t(), y.flip(0).t()]),
            x.to(torch.float16),
            y.to(torch.bfloat16),
            total.argmax(1),
            total.cummax(1).values,
            x.sort(1).values,
        )


def inputs(dtype, rows, columns):
    """All 65536 bit patterns, or the first of them that fit, beside others in another order, what is around ties in f64, and large integers."""
    count = rows * columns
    bits = torch.arange(65536).to(torch.int16)
    x = bits.view(dtype)
    y = bits[torch.randperm(65536, generator=torch.Generator().manual_seed(0))].view(dtype)
    ties = torch.where(x.isfinite(), x, 1).double() * (1 + torch.finfo(dtype).eps / 2)
    wide = torch.cat([ties, ties * (1 + 1e-12), ties * (1 - 1e-12), ties * 1e-3])[::4]
    integers = (torch.arange(65536) - 32768) * 1_000_003 * (1 + torch.arange(65536) % 7 * 1_000_000)
    return tuple(value[:count].reshape(rows, columns) for value in (x, y, wide, integers))


@pytest.mark.parametrize("options", [(), ("--cpu=x86-64-v3",)], ids=["native", "v3"])
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_every_number(compile_and_compare, dtype, is_dynamic, options):
    first = inputs(dtype, 41, 37) if is_dynamic else inputs(dtype, 256, 256)
    size = {0: torch.export.Dim("rows"), 1: torch.export.Dim("columns")}
    more = [inputs(dtype, *shape) for shape in ((256, 256), (1, 1), (64, 63))] if is_dynamic else []
    compile_and_compare(
        Every(),
        first,
        dynamic_shapes=(size,) * 4 if is_dynamic else None,
        more_inputs=more,
        options=() if TARGET else options,
        rtol=0,
        atol=0,
    )
