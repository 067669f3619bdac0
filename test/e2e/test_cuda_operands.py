"""Products on Hopper's and Blackwell's tensor cores whose operands threads bring: windows, and what is computed on the way."""

import re

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
import torch.nn.functional as F

from conftest import EMULATED, run_on_blackwell

DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_channel


def launched(log):
    """Names of the kernels that have run: of products, and others."""
    names = sorted(set(re.findall(r"launch (\w+)", log.read_text())))
    return [name for name in names if name.startswith("contract")], [name for name in names if not name.startswith("contract")]


class Convolutions(torch.nn.Module):
    """Windows with and without zeros around, steps and holes in them, groups, a filter of one point, and a patch embedding; epilogues."""

    def __init__(self):
        super().__init__()
        conv = torch.nn.Conv2d
        self.first, self.strided, self.holes = (
            conv(16, 64, 3, padding=1),
            conv(64, 72, 3, stride=2, padding=(0, 1)),
            conv(64, 32, 3, padding=2, dilation=2),
        )
        self.groups, self.points, self.sparse = conv(64, 128, 3, padding=1, groups=2), conv(64, 40, 1), conv(64, 48, 1, stride=2)
        self.patches, self.line = conv(16, 64, 4, stride=4), torch.nn.Conv1d(64, 40, 5, padding=2)

    def forward(self, images):
        x = F.relu(self.first(images))
        y = self.points(x)
        return (
            self.strided(x),
            F.gelu(self.holes(x)),
            self.groups(x),
            y,
            self.sparse(x),
            self.patches(images),
            self.line(x.flatten(2)),
            F.relu(self.points(x) + y),
        )


def sizes(batch, height, width, dtype):
    torch.manual_seed(height)
    return (torch.randn(batch, 16, height, width).to(dtype),)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_convolutions(compile_model, dtype, tmp_path, monkeypatch):
    torch.manual_seed(0)
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    shapes = None
    if dtype == torch.float16:
        shapes = ({0: torch.export.Dim("batch", min=1, max=64), 2: torch.export.Dim("height", min=8, max=500)},)
    compiled = compile_model(Convolutions().eval().to(dtype), sizes(2, 13, 12, dtype), dynamic_shapes=shapes, options=EMULATED)
    for batch, height in ((2, 13), (1, 8), (3, 21)) if shapes else ((2, 13),):
        compiled.check(sizes(batch, height, 12, dtype), 3e-2, 3e-2)
    products, others = launched(log)
    assert len(products) == 8 and all(name.endswith("_sm_90a") for name in products), products
    assert len(run_on_blackwell(compiled, log, monkeypatch, [sizes(2, 13, 12, dtype)], 3e-2)) == 8


class Overlapping(torch.nn.Module):
    """Rows that overlap in memory, which no tensor map describes, and rows with gaps between them."""

    def forward(self, samples, weight):
        return samples.unfold(0, 192, 64) @ weight, samples.unfold(0, 192, 256) @ weight


def test_overlapping_rows(compile_model, tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))

    def example(length):
        torch.manual_seed(length)
        return torch.randn(length).half(), torch.randn(192, 64).half() / 8

    lengths = 64 * torch.export.Dim("blocks", min=40, max=1000)
    compiled = compile_model(Overlapping(), example(64 * 300), dynamic_shapes=({0: lengths}, None), options=EMULATED)
    for length in (64 * 300, 64 * 67):
        compiled.check(example(length), 3e-2, 3e-2)
    products, _ = launched(log)
    assert len(products) == 2 and all(name.endswith("_sm_90a") for name in products), products
    assert len(run_on_blackwell(compiled, log, monkeypatch, map(example, (64 * 300, 64 * 67)), 3e-2)) == 2


class Prologues(torch.nn.Module):
    """Operands that are computed from others: either one, both, with rows as neighbours, in parts, in batches, narrowed, widened from int8."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scales", torch.rand(768) / 64)
        self.register_buffer("codes", torch.randint(-127, 128, (768, 136), dtype=torch.int8))

    def forward(self, x, w, wide, long):
        dtype = x.dtype
        weight = DEQUANTIZE(self.codes, self.scales, None, 0, -127, 127, torch.int8, out_dtype=dtype)
        return (
            (wide + 1).to(dtype) @ w.to(dtype),
            F.linear(x, weight),
            (wide - 1).to(dtype).t() @ x[:, :64],
            (long * 2).to(dtype) @ (long - 3).to(dtype).t(),
            torch.bmm((wide * 3).to(dtype).expand(2, *x.shape), (w + 2).to(dtype).expand(2, *w.shape)),
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_prologues(compile_model, dtype, tmp_path, monkeypatch):
    def example(rows):
        torch.manual_seed(rows)
        return torch.randn(rows, 136).to(dtype), torch.randn(136, 200) / 8, torch.randn(rows, 136) / 4, torch.randn(48, 1032) / 8

    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    rows = 8 * torch.export.Dim("eighth", min=1, max=100)
    compiled = compile_model(Prologues(), example(72), dynamic_shapes=({0: rows}, None, {0: rows}, None), options=EMULATED)
    for number in (72, 16, 200):
        compiled.check(example(number), 3e-2, 6e-2)
    products, others = launched(log)
    assert len(products) == 5 and all(name.endswith("_sm_90a") for name in products), products
    assert len(run_on_blackwell(compiled, log, monkeypatch, map(example, (72, 16, 200)), 3e-2)) == 5
    assert len(others) == 2, others  # the parts' sum, and one operand of the parts
