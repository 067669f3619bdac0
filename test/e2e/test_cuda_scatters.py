"""Places of which several may be the same, on the GPU's kernels: the last of them counts, whatever block has it."""

import pytest
import torch
from torch.export import Dim

from conftest import EMULATED


class Updates(torch.nn.Module):
    """Rows and columns, short ones and long ones; pairs of places, whose elements are results of their own."""

    def forward(self, index, rows, columns, short, ones):
        other = index.flip(0)
        return (
            torch.zeros(7, 600, dtype=rows.dtype).index_copy(0, index, rows),
            torch.zeros(70, 7, dtype=rows.dtype).index_copy(1, index, columns),
            torch.zeros(7, 7, 3, dtype=rows.dtype).index_put((index, other), short),
            torch.zeros(7, 7, dtype=rows.dtype).index_put((index, other), ones),
        )


def draw(count, dtype):
    make = lambda *shape: torch.randint(0, 100, shape).to(dtype)
    return torch.randint(0, 7, (count,)), make(count, 600), make(70, count), make(count, 3), make(count)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.complex64], ids=str)
def test_last_place_counts(compile_and_compare, dtype):
    torch.manual_seed(1)
    compile_and_compare(Updates(), draw(40, dtype), options=EMULATED, rtol=0, atol=0)


def test_any_number_of_places(compile_and_compare):
    torch.manual_seed(2)
    n = Dim("n", max=5000)
    shapes = ({0: n}, {0: n}, {1: n}, {0: n}, {0: n})
    draws = [draw(count, torch.float32) for count in (0, 2, 257, 1500)]
    compiled = compile_and_compare(Updates(), draw(40, torch.float32), shapes, more_inputs=draws, options=EMULATED, rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="out of range"):
        compiled.model.run([torch.full((40,), 7), *draw(40, torch.float32)[1:]])


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 9, 5))

    def forward(self, positions, values):
        self.rows.index_copy_(1, positions, values)
        self.rows[:, positions, :2] = -1
        return self.rows.sum()


def test_buffer(compile_and_compare):
    """In place, with places that are strided in memory, and values that are one for all."""
    inputs = [(torch.randint(0, 9, (30,)), torch.randn(2, 30, 5)) for _ in range(3)]
    compile_and_compare(Cache(), inputs[0], more_inputs=inputs[1:], options=EMULATED)
