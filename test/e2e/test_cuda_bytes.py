"""Products of signed bytes on tensor cores, summed in 32 bits."""

import re

import pytest
import torch

from conftest import EMULATED, run_tool


def some(*shape):
    x = torch.randint(-128, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(sum(shape)))
    x.view(-1)[:64] = -128  # the largest products
    return x


class Products(torch.nn.Module):
    """Weights whose steps lie side by side and whose columns do, sums that are cut in parts, few steps, computed bytes, batches, scales behind."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", some(200, 512))
        self.register_buffer("turned", some(512, 40))
        self.register_buffer("odd", some(50, 72))
        self.register_buffer("scales", torch.rand(200))

    def forward(self, x, other, batch):
        whole = torch._int_mm(x, self.weight.t())
        return (
            whole,
            whole.float() * self.scales + 1,
            torch.relu(torch._int_mm(x, self.turned)),
            torch._int_mm(other, self.odd.t()),
            torch._int_mm(x[:, :64].bitwise_not(), x[:32, :64].contiguous().t()),
            torch._int_mm(other.t().contiguous().t()[:, :48], self.odd[:, :48].t()),
            batch.int() @ batch.int().transpose(1, 2),
        )


def example(rows):
    return some(rows, 512), some(rows, 72), some(3, 20, 96)


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_products(compile_model, is_dynamic):
    rows = torch.export.Dim("rows", min=33, max=1000)
    shapes = ({0: rows}, {0: rows}, None) if is_dynamic else None
    compiled = compile_model(Products(), example(70), dynamic_shapes=shapes, options=EMULATED)
    for number in (70, 33, 150) if is_dynamic else (70,):
        compiled.check(example(number), 0, 0)


def test_instructions(compile_model):
    """Each product of bytes is multiplied on tensor cores."""
    compiled = compile_model(Products(), example(70), options=EMULATED)
    ptx = run_tool("aot-compile", compiled.archive, "--target=cuda", "--emit=ptx", "-o", "-").stdout
    kernels = re.split(r"\.visible \.entry ", ptx)
    products = [kernel for kernel in kernels if kernel.startswith("contract")]
    assert len(products) == 6
    assert all("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" in kernel for kernel in products)
