"""Products of signed bytes, and of floats of eight bits, on tensor cores."""

import re

import pytest
import torch

import test_cuda_architectures
from conftest import EMULATED, run_on_blackwell, run_tool


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


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The kernels that ran."""
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def variants(log):
    return set(re.findall(r"launch (\w+)_sm_90a grid ", log.read_text()))


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_products(compile_model, log, monkeypatch, is_dynamic):
    """The products whose bytes come 16 at a time are multiplied by warpgroups, too."""
    rows = torch.export.Dim("rows", min=33, max=1000)
    shapes = ({0: rows}, {0: rows}, None) if is_dynamic else None
    compiled = compile_model(Products(), example(70), dynamic_shapes=shapes, options=EMULATED)
    examples = [example(number) for number in ((70, 33, 150) if is_dynamic else (70,))]
    for inputs in examples:
        compiled.check(inputs, 0, 0)
    found = variants(log)
    assert len(found) == 4 and run_on_blackwell(compiled, log, monkeypatch, examples, 0) == found


def products_in_ptx(compiled):
    ptx = run_tool("aot-compile", compiled.archive, "--target=cuda", "--emit=ptx", "-o", "-").stdout
    return [kernel for kernel in re.split(r"\.visible \.entry ", ptx) if kernel.startswith("contract")]


def test_instructions(compile_model):
    """Each product of bytes is multiplied on tensor cores."""
    products = products_in_ptx(compile_model(Products(), example(70), options=EMULATED))
    assert len(products) == 6
    assert all("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" in kernel for kernel in products)


class Long(torch.nn.Module):
    """Sums of many steps, whose tiles several blocks share; what is computed of them reads an element for each."""

    def forward(self, x, weight, residual):
        return torch._int_mm(x, weight.t()), torch._int_mm(x, weight.t()).float() * 0.5 + residual


class LongFloats(torch.nn.Module):
    def forward(self, x, weight, residual):
        one, x, weight = torch.ones(()), x.view(torch.float8_e4m3fn), weight.view(torch.float8_e4m3fn)
        return torch._scaled_mm(x, weight.t(), one, one, out_dtype=torch.float32) + residual


def integers(*shape):
    """Floats of eight bits whose sums of products are exact."""
    return torch.randint(-4, 5, shape).to(torch.float8_e4m3fn).view(torch.uint8)


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("module, operand", [(Long, some), (LongFloats, integers)], ids=["bytes", "float8"])
def test_shared_sums(compile_model, log, tmp_path, monkeypatch, module, operand, is_dynamic):
    inputs = operand(130, 4096), operand(96, 4096), torch.randint(-9, 9, (130, 96)).float()
    rows = torch.export.Dim("rows", min=33, max=1000)
    shapes = ({0: rows}, None, {0: rows}) if is_dynamic else None
    compiled = compile_model(module(), inputs, dynamic_shapes=shapes, options=EMULATED)
    compiled.check(inputs, 0, 0)
    found = variants(log)
    assert found and run_on_blackwell(compiled, log, monkeypatch, [inputs], 0) == found
    texts = test_cuda_architectures.compile_to_ptx(compiled.archive, tmp_path, ("sm_90", "sm_100"))
    for architecture, instruction in (("sm_90a", r"wgmma\.mma_async\S*\.(s8|e4m3)\b"), ("sm_100a", r"tcgen05\.mma\S*kind::(i8|f8f6f4)")):
        assert texts[architecture] and all(re.search(instruction, text) for text in texts[architecture].values())


class Floats(torch.nn.Module):
    """A weight of the program, and an operand that it is given; scales of all and of rows; few rows, which stay as they are."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        self.register_buffer("weight", (torch.randn(48, 128) * 8).to(torch.float8_e4m3fn))
        self.register_buffer("scales", torch.rand(1, 48))

    def forward(self, x, other):
        one, multiply = torch.ones(()), torch._scaled_mm
        x, other = x.to(torch.float8_e4m3fn), other.to(self.dtype)
        return (
            multiply(x, self.weight.t(), one, one * 2, out_dtype=torch.float32),
            multiply(x, self.weight.t(), x[:, :1].to(torch.float32).abs() + 1, self.scales, out_dtype=torch.bfloat16),
            multiply(x, other.t(), one, one, out_dtype=torch.float32),
            multiply(x[:2], self.weight.t(), one, one, out_dtype=torch.float32),
        )


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_float8(compile_model, log, monkeypatch, dtype):
    torch.manual_seed(0)
    x, other = torch.randn(70, 128) * 4, torch.randn(32, 128) * 4
    x[5, 7] = 448  # the largest number, the least one, and none
    x[6, 7], x[60, 3] = 2**-9, float("nan")
    compiled = compile_model(Floats(dtype), (x, other), options=EMULATED)
    compiled.check((x, other), 1e-2, 1e-3)
    found = variants(log)
    assert found and run_on_blackwell(compiled, log, monkeypatch, [(x, other)], 1e-2) == found
    products = products_in_ptx(compiled)
    assert len(products) == 3 and all("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in kernel for kernel in products)


class Bits(torch.nn.Module):
    """A number in each row, by which one of them is multiplied."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        self.register_buffer("ones", torch.eye(32, 32).to(torch.float8_e4m3fn))

    def forward(self, bits):
        one = torch.ones(())
        return torch._scaled_mm(bits.view(self.dtype), self.ones.t(), one, one, out_dtype=torch.float32)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_all_of_float8(compile_model, log, monkeypatch, dtype):
    bits = torch.zeros(256, 32, dtype=torch.uint8)
    bits[:, 3] = torch.arange(256)
    compiled = compile_model(Bits(dtype), (bits,), options=EMULATED)
    compiled.check((bits,), 0, 0)
    assert len(variants(log)) == 1 and run_on_blackwell(compiled, log, monkeypatch, [(bits,)], 0)
    assert "mma.sync" in products_in_ptx(compiled)[0]
