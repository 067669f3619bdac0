"""Long rows of sorts, which blocks sort in tiles and merge, and rows that a block sorts in registers."""

import pytest
import torch

EMULATED = ("--target=cuda", "--gpu-arch=emulator")
INF, NAN = torch.inf, torch.nan


def special(*shape, dtype=torch.float32):
    """With ties, infinities, NaN and both zeros."""
    torch.manual_seed(sum(shape))
    x = (torch.randn(*shape) * 8).round() / 4
    flat = x.view(-1)
    flat[::97], flat[3::101], flat[5::103], flat[::7] = NAN, INF, -INF, -0.0
    return x.to(dtype)


def whole(dtype, *shape):
    limits = torch.iinfo(dtype)
    torch.manual_seed(sum(shape))
    x = torch.randint(limits.min, limits.max, shape, dtype=dtype)
    x.view(-1)[::50], x.view(-1)[7::60] = limits.min, limits.max
    return x


class Sorts(torch.nn.Module):
    def forward(self, *tensors):
        results = []
        for x in tensors:
            for descending in (False, True):
                results += torch.sort(x, dim=-1, stable=True, descending=descending)
        return tuple(results)


def assert_sorted(compile_model, module, inputs):
    """The same bits as PyTorch, NaN of any sign, every time."""
    compiled = compile_model(module, inputs, options=EMULATED)
    expected = module(*inputs)
    for _ in range(2):
        results = [torch.as_tensor(result).clone() for result in compiled.model.run(list(inputs))]
        for result, wanted in zip(results, expected, strict=True):
            assert result.dtype == wanted.dtype
            if wanted.is_floating_point():
                assert torch.equal(torch.isnan(result), torch.isnan(wanted))
                result, wanted = result.nan_to_num(7777), wanted.nan_to_num(7777)
                assert torch.equal(torch.signbit(result), torch.signbit(wanted))
            assert torch.equal(result, wanted)
    return compiled


@pytest.mark.parametrize("length", [4097, 8192, 10000])
def test_long_rows(compile_model, length):
    """Keys of 32 bits and of 64, of several tiles, the last of which need not be whole."""
    assert_sorted(compile_model, Sorts(), (special(2, length), special(length, dtype=torch.float64)))


def test_types(compile_model):
    length = 4500
    floats = [special(length, dtype=dtype) for dtype in (torch.bfloat16, torch.float16)]
    integers = [whole(dtype, length) for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64)]
    assert_sorted(compile_model, Sorts(), (*floats, *integers, integers[0] > 100))


def test_rows_of_a_block(compile_model):
    """In registers: from 256 places on, of a warp or of several."""
    sizes = (200, 256, 300, 512, 1000, 1024, 2047, 4096)
    assert_sorted(compile_model, Sorts(), tuple(special(2, size) for size in sizes) + (special(1500, dtype=torch.float64),))


def test_users(compile_model):
    """Whatever reads positions, along any dim, of any number of rows."""

    class Users(torch.nn.Module):
        def forward(self, x, ties, empty):
            return (
                torch.argsort(ties, dim=0, stable=True, descending=True),
                *x.topk(3, dim=0),
                *x.topk(600, dim=0),
                *x.kthvalue(700, dim=0),
                *x.median(0),
                ties.mode(0)[0],
                torch.msort(ties),
                *empty.sort(-1),
            )

    torch.manual_seed(0)
    x = torch.stack([torch.randperm(5000), torch.randperm(5000)], 1).float()
    inputs = x, (x / 100).floor(), torch.zeros(0, 5000)
    compile_model(Users(), inputs, options=EMULATED).check(inputs, 0, 0)


def test_front_of_a_very_long_row(compile_model):
    class Front(torch.nn.Module):
        def forward(self, x):
            return tuple(x.topk(50))

    x = torch.randperm(140000).float()
    assert_sorted(compile_model, Front(), (x,))
