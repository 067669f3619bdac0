"""Which kernels each architecture gets, as docs/cuda.md says, and machine code of those that Blackwell alone runs."""

import re

import machine_code
import pytest
import torch
import torch.nn.functional as F

import test_cuda_contract
from conftest import PTXAS, ROOT, assert_assembles, run_tool

ARCHITECTURES = ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
HALF = {"dtype": torch.bfloat16}


class Kinds(torch.nn.Module):
    """A product, a convolution and attention of bf16, a product of f32, and a map."""

    def forward(self, x, w, images, filters, q):
        return x @ w, F.conv2d(images, filters, padding=1), F.scaled_dot_product_attention(q, q, q), (x @ w).float() @ w.float(), x.exp()


KINDS = (
    torch.zeros(256, 256, **HALF),
    torch.zeros(256, 256, **HALF),
    torch.zeros(2, 64, 16, 16, **HALF),
    torch.zeros(64, 64, 3, 3, **HALF),
    torch.zeros(1, 2, 256, 64, **HALF),
)


def save(module, inputs, archive, shapes=None):
    torch.export.save(torch.export.export(module.eval(), inputs, dynamic_shapes=shapes), archive)
    return archive


def instructions(text):
    """Those for matrices that a kernel has."""
    return {name for name in ("mma.sync", "wgmma.mma_async", "tcgen05.mma", "block_scale") if re.search(rf"\b{re.escape(name)}", text)}


def compile_to_ptx(archive, folder, architectures):
    """architecture -> kernel -> PTX."""
    temps, ptxas = folder / "temps", folder / "ptxas"  # which makes nothing
    ptxas.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: >"$2"\n')
    ptxas.chmod(0o755)
    options = "--target=cuda", f"--gpu-arch={','.join(architectures)}", f"--ptxas={ptxas}", f"--save-temps={temps}"
    process = run_tool("aot-compile", archive, "-o", folder / "ptx.so", *options)
    assert process.returncode == 0, process.stderr
    found = {}
    for file in temps.glob("*.ptx"):
        kernel, architecture, _ = file.name.split(".")
        found.setdefault(architecture, {})[kernel] = file.read_text()
    return found


def test_kernels_of_architectures(tmp_path):
    texts = compile_to_ptx(save(Kinds(), KINDS, tmp_path / "kinds.pt2"), tmp_path, ARCHITECTURES)
    found = {architecture: {name: instructions(text) for name, text in kernels.items()} for architecture, kernels in texts.items()}
    assert found.keys() == {*ARCHITECTURES, "sm_90a", "sm_100a"}
    base = found["sm_80"]
    kinds = {name.split("_")[0] for name, used in base.items() if used == {"mma.sync"}}
    assert kinds == {"contract", "attention"} and any(not used for used in base.values())
    for architecture in ARCHITECTURES:
        assert found[architecture] == base, architecture
    halves = {name for name, used in base.items() if used and name.startswith("contract")}
    attentions = {name for name, used in base.items() if name.startswith("attention")}
    assert len(halves) == 2 and len(attentions) == 1
    assert found["sm_90a"] == {f"{name}_sm_90a": {"wgmma.mma_async"} for name in halves | attentions}
    assert found["sm_100a"] == {f"{name}_sm_100a": {"tcgen05.mma"} for name in halves}


def test_documented_architectures():
    """The table of docs/cuda.md has a row for each architecture with kernels of its own, and no other."""
    table = (ROOT / "docs" / "cuda.md").read_text().partition("| in `--gpu-arch` |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.*?) \| .*? \| (.*?) \| (.*?) \|$", table, re.MULTILINE)[1:]
    assert [(name, bool(re.search("_sm_", products)), bool(re.search("_sm_", attention))) for name, products, attention in rows] == [
        ("`sm_90`", True, True),
        ("`sm_100`", True, False),
        ("all others", False, False),
    ]


needs_ptxas = pytest.mark.skipif(not PTXAS, reason="no ptxas")


@needs_ptxas
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_blackwell_assembles(tmp_path, dtype):
    """Tails, sizes of a run, operands in either order, epilogues and residuals: none needs a thread's own memory."""

    rows = 2 * torch.export.Dim("half", min=20, max=400)
    shapes = ({0: rows}, None, {0: rows}, {0: rows}, {0: rows})
    x, w, residual, scales, long = (torch.zeros(200, n, dtype=dtype) for n in (136, 320, 320, 1, 1024))
    inputs = x, w[:136].clone(), residual, scales.float(), long
    check(assert_assembles(save(test_cuda_contract.Rows().to(dtype), inputs, tmp_path / "rows.pt2", shapes), tmp_path, (), "sm_100"), 7)
    inputs = torch.zeros(512, 192, dtype=dtype), torch.zeros(192, 512, dtype=dtype), torch.zeros(512, 1024, dtype=dtype)
    folder = tmp_path / "rounded"
    folder.mkdir()
    check(assert_assembles(save(test_cuda_contract.RoundedSums(), inputs, folder / "rounded.pt2"), folder, (), "sm_100"), 6)


def check(temps, count):
    code = [file.read_text() for file in temps.glob("contract*.sm_100a.ptx")]
    assert len(code) == count, len(code)
    for text in code:
        assert (products := text.count("tcgen05.mma.")) and products % 4 == 0, products
        assert text.count("tcgen05.alloc") == text.count("tcgen05.dealloc") == 1
    if not machine_code.find_nvdisasm():
        return
    for cubin in temps.glob("contract*.sm_100a.cubin"):
        (function,) = machine_code.disassemble(cubin)
        # What products are asked for with is in registers that a warp has in common: it is not looked for lane by lane.
        opcodes = [instruction.opcode for instruction in function.instructions]
        products = [i for i, opcode in enumerate(opcodes) if opcode == "UTCHMMA"]
        assert products and len(products) % 4 == 0 and all(opcodes[i + 1] != "BRA.U.ANY" for i in products), cubin.name


@needs_ptxas
def test_blackwell_of_windows(tmp_path):
    """What threads bring, and the largest tiles."""
    halves = torch.zeros(2048, 1024, **HALF)

    class Large(torch.nn.Module):
        def forward(self, a, b, images, filters):
            return F.relu(a @ b.t()), (a * 2).float().bfloat16() @ b.t(), F.conv2d(images, filters, padding=1)

    inputs = halves, halves.clone(), torch.zeros(8, 128, 28, 28, **HALF), torch.zeros(256, 128, 3, 3, **HALF)
    check(assert_assembles(save(Large(), inputs, tmp_path / "large.pt2"), tmp_path, (), "sm_100"), 3)
