"""Maps that read along one dim and write along another, on a GPU: a block brings tiles of them through shared memory."""

import re

import pytest
import torch
import torch.nn.functional as F

from conftest import EMULATED, run_tool


def random(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    values = torch.randn(*shape, generator=generator) * 40
    return values > 0 if dtype == torch.bool else values.to(dtype)


def staged(compiled):
    """How many kernels bring what they read through shared memory."""
    return run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=wrapper", *EMULATED).stdout.count("#cuda.transposed_map<")


class Copies(torch.nn.Module):
    """Of matrices, of images to channels last and back, of heads' keys, of a part of a tensor."""

    def forward(self, x, images, last, heads, wide):
        return (
            x.t().contiguous(),
            images.permute(0, 2, 3, 1).contiguous(),
            last.permute(0, 3, 1, 2).contiguous(),
            heads.permute(0, 2, 3, 1).contiguous(),
            wide[3:, 5:].t().contiguous(),
            wide[:, ::2].t().contiguous(),
        )


DTYPES = [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.float64, torch.complex64, torch.complex128, torch.int16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies(compile_model, dtype):
    inputs = (
        random(256, 320, dtype=dtype),
        random(2, 40, 24, 24, dtype=dtype),
        random(2, 24, 24, 40, dtype=dtype),
        random(2, 67, 4, 64, dtype=dtype),
        random(193, 211, dtype=dtype),
    )
    compiled = compile_model(Copies(), inputs, options=EMULATED)
    assert staged(compiled) == 5
    compiled.check(inputs, 0, 0)


class Fused(torch.nn.Module):
    """What is computed before and after, with operands that have their neighbours as the result has, or are read as they come."""

    def forward(self, x, y, z, bias, scale):
        cut = torch.cat([x.t(), z, (y * 2).t()], 1)
        return (
            torch.relu(x + 1).t() * bias + z,
            x.t() + y.t() * scale[:, None],
            cut,
            F.pad(x, (3, 2, 1, 4), value=2.0).t().contiguous(),
            torch.where(z > 0, x.t(), z),
            x.t().bfloat16(),
            torch.erf(torch.sin(x.t())) + torch.tanh(x.t() + z),
            (x.t(), x.t() * 2)[1] + 3,
            x.flip(1).t() + y.t(),
        )


SIZES = [(416, 96), (1024, 32), (33, 1025)]


def operands(rows, columns):
    return random(rows, columns), random(rows, columns), random(columns, rows), random(rows), random(columns)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_fused(compile_model, sizes):
    compiled = compile_model(Fused(), operands(*sizes), options=EMULATED)
    compiled.check(operands(*sizes), 1e-2, 1e-4)


def test_unknown_sizes(compile_model):
    rows, columns = torch.export.Dim("rows", min=0, max=1 << 20), torch.export.Dim("columns", min=0, max=1 << 20)
    shapes = {0: rows, 1: columns}, {0: rows, 1: columns}, {0: columns, 1: rows}, {0: rows}, {0: columns}
    compiled = compile_model(Fused(), operands(45, 150), dynamic_shapes=shapes, options=EMULATED)
    assert staged(compiled) >= 6
    for sizes in ((45, 150), (1, 1), (0, 40), (40, 0), (1, 300), (300, 1), (31, 33), (64, 64), (65, 32), (130, 257)):
        compiled.check(operands(*sizes), 1e-2, 1e-4)


class Square(torch.nn.Module):
    """A matrix that is nobody's any more is read both ways, or one way by a kernel that also reads the other matrix as it is."""

    def forward(self, x, y):
        a, b = x.cumsum(0), y.cumsum(1)
        return a + a.t(), b.t() * 2 + x.cumsum(1), torch.stack([x.t(), y.t(), x], 2)


def test_memory_is_not_written_early(compile_model):
    inputs = random(256, 256), random(256, 256)
    compiled = compile_model(Square(), inputs, options=EMULATED)
    assert staged(compiled) >= 2
    compiled.check(inputs, 1e-4, 1e-3)


class Permuted(torch.nn.Module):
    """Of all orders of four dims, those whose last one changes, with sizes that are no powers of two; parts of unknown sizes."""

    def forward(self, x, images):
        orders = [(0, 2, 3, 1), (3, 2, 1, 0), (2, 3, 0, 1), (1, 3, 0, 2), (0, 1, 3, 2), (3, 0, 1, 2)]
        return [x.permute(order).contiguous() for order in orders] + [
            images[:, 1:, 2:, 3:].permute(0, 2, 3, 1) + 1,
            images.flatten(2).transpose(1, 2).relu(),
            images.unfold(3, 2, 1).permute(0, 3, 2, 4, 1).contiguous(),
        ]


def test_permuted(compile_model):
    def inputs(height, width):
        return random(12, 20, 33, 24), random(2, 16, height, width)

    shapes = None, {2: torch.export.Dim("height", min=5, max=4000), 3: torch.export.Dim("width", min=5, max=4000)}
    compiled = compile_model(Permuted(), inputs(32, 40), dynamic_shapes=shapes, options=EMULATED)
    assert staged(compiled) >= 8
    for height, width in ((32, 40), (5, 6), (64, 64), (31, 35)):
        compiled.check(inputs(height, width), 0, 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_bank_is_met_twice(compile_model, dtype, tmp_path, monkeypatch):
    """Where sides are powers of two: 16 bytes at once on either side, on one alone, and on none. Eight bytes that are read in pairs and written
    alone do meet."""
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    shapes = [(256, 320), (256, 255), (257, 255), (321, 128)]
    for rows, columns in shapes[: 3 if dtype.itemsize == 8 else 4]:
        example = (random(rows, columns, dtype=dtype),)
        compiled = compile_model(Transposed(), example, options=EMULATED)
        assert staged(compiled) == 1
        compiled.check(example, 0, 0)
    counts = re.findall(r"banks map_0 answer (\d+) at least (\d+)", log.read_text())
    assert len(counts) >= 3 and all(answers == least for answers, least in counts), counts


def test_code(tmp_path):
    """Accesses of 16 bytes on both sides and into shared memory, all reads before the first barrier, and nothing else."""

    def code(dtype, example):
        archive = tmp_path / "model.pt2"
        torch.export.save(torch.export.export(Transposed(), (example,)), archive)
        process = run_tool(
            "aot-compile", archive, "-o", tmp_path / "model.so", "--target=cuda", "--gpu-arch=sm_90", f"--save-temps={tmp_path}"
        )
        assert process.returncode == 0, process.stderr
        return (tmp_path / "map_0.sm_90.ptx").read_text()

    for dtype, loads in ((torch.float32, 8), (torch.bfloat16, 16), (torch.int8, 16), (torch.complex64, 4)):
        ptx = code(dtype, torch.zeros(1024, 512, dtype=dtype))
        accesses = re.findall(r"(ld.global|st.shared|bar.sync|ld.shared|st.global)(?:.v\d)?(?:.b(\d+))?", ptx)
        wide = len(re.findall(r"ld.global.v[24].b(?:32|64)", ptx))
        kinds = [kind for kind, _ in accesses]
        barrier = kinds.index("bar.sync")
        assert set(kinds[:barrier]) == {"ld.global", "st.shared"} and set(kinds[barrier + 1 :]) == {"ld.shared", "st.global"}, kinds
        assert kinds.count("ld.global") == kinds.count("st.shared") == kinds.count("st.global") == wide, kinds
        assert kinds.count("ld.shared") == loads, kinds


class Transposed(torch.nn.Module):
    def forward(self, x):
        return x.t().contiguous()
