#!/usr/bin/env python3
"""What machine code of sm_90 and sm_100 says of kernels of every kind, as the tables of docs/cuda-kernels.md.

test/machine_code_report.py prints the tables; with --document it writes them into docs/cuda-kernels.md. test_machine_code.py says if
they are out of date there."""

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "test"), str(ROOT / "bench" / "gpu")]
import machine_code  # noqa: E402
from rungs import attend, attend_to_blocks, multiply_bytes, multiply_float8, product  # noqa: E402

DOCUMENT = ROOT / "docs" / "cuda-kernels.md"
BEGIN, END = "<!-- Written by test/machine_code_report.py --document -->", "<!-- End -->"
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


@dataclasses.dataclass
class Entry:
    title: str
    function: object
    inputs: tuple
    kernel: str  # how its name begins
    options: tuple = ()


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def zeros(*shape, dtype=BF16):
    return torch.zeros(*shape, dtype=dtype)


def small_weights(most):
    """A product with constants up to `most`, for which groups of 32 have scales."""
    integers = (torch.arange(4096 * 4096) % (2 * most) - most).to(torch.int8).view(4096, 128, 32)
    scales = torch.arange(4096 * 128).view(4096, 128, 1).to(BF16)
    return lambda x: product(x, (integers.to(x.dtype) * scales).view(4096, 4096))


def attend_to_bytes(query, keys, values, scales):
    return F.scaled_dot_product_attention(query, keys.to(BF16) * scales, values.to(BF16) * scales, enable_gqa=True)


def rms_norm(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def products():
    square = zeros(4096, 4096), zeros(4096, 4096)
    return [
        Entry("product, bf16, 4096 x 4096 x 4096", product, square, "contract"),
        Entry("the same with an exact GELU", lambda a, b: F.gelu(product(a, b)), square, "contract"),
        Entry(
            "the same with a residual, f16",
            lambda a, b, c: product(a, b) + c,
            (*(x.to(F16) for x in square), zeros(4096, 4096, dtype=F16)),
            "contract",
        ),
        Entry("product, bf16, 8192 x 8192 x 256", product, (zeros(8192, 256), zeros(8192, 256)), "contract"),
        Entry(
            "product, int8, 4096 x 4096 x 4096", multiply_bytes, tuple(zeros(4096, 4096, dtype=torch.int8) for _ in range(2)), "contract"
        ),
        Entry(
            "product, float8_e4m3fn, 4096 x 4096 x 4096",
            multiply_float8,
            tuple(zeros(4096, 4096, dtype=torch.uint8) for _ in range(2)),
            "contract",
        ),
        Entry("product, f32, 512 x 3072 x 768", product, (zeros(512, 768, dtype=F32), zeros(3072, 768, dtype=F32)), "contract"),
        Entry("the same with --tf32", product, (zeros(512, 768, dtype=F32), zeros(3072, 768, dtype=F32)), "contract", ("--tf32",)),
        Entry("the same with --tf32=3", product, (zeros(512, 768, dtype=F32), zeros(3072, 768, dtype=F32)), "contract", ("--tf32=3",)),
        Entry(
            "3 x 3 convolution, bf16, 128 channels",
            lambda x, w: F.conv2d(x, w, padding=1),
            (zeros(8, 128, 56, 56), zeros(128, 128, 3, 3)),
            "contract",
        ),
        Entry("one row, bf16, times 4096 x 4096", product, (zeros(1, 4096), zeros(4096, 4096)), "contract"),
        Entry("four rows", product, (zeros(4, 4096), zeros(4096, 4096)), "contract"),
        *(
            Entry(f"{rows}, bf16, times 4096 x 4096 of {bits} bits", small_weights(most), (zeros(count, 4096),), "contract")
            for rows, count in (("one row", 1), ("16 rows", 16), ("2048 rows", 2048))
            for bits, most in (("four", 8), ("eight", 100))
        ),
    ]


def attentions():
    heads = lambda depth, dtype=BF16, count=16, rows=4096: zeros(2, count, rows, depth, dtype=dtype)
    three = lambda *arguments: tuple(heads(*arguments) for _ in range(3))
    return [
        Entry("attention, bf16, 128 features", attend(), three(128), "attention"),
        Entry("the same, causal", attend(is_causal=True), three(128), "attention"),
        Entry("the same with a bias", attend(), (*three(128), zeros(4096, 4096)), "attention"),
        Entry("attention, f16, 64 features", attend(), three(64, F16), "attention"),
        Entry("attention, bf16, 256 features, causal", attend(is_causal=True), three(256), "attention"),
        Entry(
            "one query of four heads that share keys",
            attend(enable_gqa=True),
            (heads(128, BF16, 32, 1), heads(128, BF16, 8), heads(128, BF16, 8)),
            "attention",
        ),
        Entry(
            "the same of caches in blocks",
            attend_to_blocks,
            (heads(128, BF16, 32, 1), zeros(999, 16, 8, 128), zeros(999, 16, 8, 128), zeros(2, 256, dtype=torch.int64)),
            "attention",
        ),
        Entry(
            "the same of caches in bytes",
            attend_to_bytes,
            (heads(128, BF16, 32, 1), heads(128, torch.int8, 8), heads(128, torch.int8, 8), zeros(2, 8, 4096, 1)),
            "attention",
        ),
    ]


def maps():
    wide = lambda dtype, columns: (zeros((1 << 24) // columns, columns, dtype=dtype),)
    entries = [
        Entry("relu, bf16", F.relu, wide(BF16, 4096), "map"),
        Entry("exact GELU, f32", F.gelu, wide(F32, 4096), "map"),
        *(Entry(f"softmax, f32, rows of {n}", lambda x: x.softmax(-1), wide(F32, n), "map") for n in (768, 4096)),
        Entry("layer norm, bf16, rows of 4096", lambda x: F.layer_norm(x, x.shape[-1:]), wide(BF16, 4096), "map"),
        Entry("RMS norm, bf16, rows of 4096", rms_norm, (*wide(BF16, 4096), zeros(4096)), "map"),
        Entry("sum over rows, f32", lambda x: x.sum(0), wide(F32, 4096), "map"),
        Entry("transposed copy, bf16", lambda x: x.t().contiguous(), wide(BF16, 4096), "map"),
        Entry("cumulative sums, f32, rows of 4096", lambda x: x.cumsum(-1), wide(F32, 4096), "scan"),
        Entry("cumulative sums, f32, a line of 2^24", lambda x: x.cumsum(-1), (zeros(1 << 24, dtype=F32),), "scan"),
        Entry("largest so far, f32, with positions", lambda x: tuple(x.cummax(-1)), (zeros(1 << 24, dtype=F32),), "scan"),
        *(Entry(f"sort, f32, rows of {n}", lambda x: x.sort(-1)[0], wide(F32, n), "sort") for n in (1024, 4096)),
        Entry("tiles of a row of 2^20", lambda x: x.sort(-1)[0], (zeros(1 << 20, dtype=F32),), "merge"),
    ]
    return entries


@dataclasses.dataclass
class Code:
    entry: Entry
    variant: str  # the GPU that alone runs it, or nothing
    registers: int
    function: machine_code.Function

    @property
    def title(self):
        return f"{self.entry.title}{', on ' + self.variant if self.variant else ''}"


def compile_entry(entry, compiler, folder):
    """The first kernels of an entry's kind: the one for all GPUs, and those for Hopper and Blackwell if there are any."""
    archive = folder / "program.pt2"
    program = torch.export.export(Function(entry.function), entry.inputs)
    program._example_inputs = None  # large, and not needed
    torch.export.save(program, archive)
    temps = folder / "temps"
    architectures = "sm_90,sm_100" if entry.kernel == "contract" else "sm_90"
    command = [
        compiler,
        archive,
        "-o",
        folder / "model.so",
        "--target=cuda",
        f"--gpu-arch={architectures}",
        f"--save-temps={temps}",
        *entry.options,
    ]
    subprocess.run(command, check=True)
    result = []
    for variant, suffix in (("", ".sm_90"), ("Hopper", "_sm_90a.sm_90a"), ("Blackwell", "_sm_100a.sm_100a")):
        for path in sorted(temps.glob(f"{entry.kernel}_*[0-9]{suffix}.cubin"))[:1]:
            (function,) = machine_code.disassemble(path)
            report = path.with_suffix(".txt").read_text()
            result.append(Code(entry, variant, int(re.search(r"Used (\d+) registers", report)[1]), function))
    assert result, f"{entry.title}: no {entry.kernel}_*"
    return result


def compile_all(entries, compiler):
    with tempfile.TemporaryDirectory() as scratch:
        found = []
        for i, entry in enumerate(entries):
            folder = pathlib.Path(scratch) / str(i)
            folder.mkdir()
            found += compile_entry(entry, compiler, folder)
        return found


# ===-- Tables --------------------------------------------------------------------------------------


def model(figures):
    """Cycles that a multiprocessor takes for a step of both warpgroups, or of one warp that asks for Blackwell's products, by the rates that NVIDIA
    gives: (tensor cores, instructions, exponentials)."""
    # 32 steps of one byte take as long as 16 of two.
    multiplied = sum(count * m * n * min(k, 16) for (m, n, k), count in figures.shapes.items())
    if any(figures.loop[name] for name in machine_code.INTO_TENSOR_MEMORY):
        return multiplied // 4096, sum(figures.loop.values()), 0
    return 2 * multiplied // 2048, 2 * sum(figures.loop.values()), 2 * figures.loop["MUFU.EX2"] * 32 // 4


ASYNCHRONOUS = machine_code.OF_WARPGROUPS + machine_code.INTO_TENSOR_MEMORY


def row(code):
    figures = machine_code.describe(code.function)
    loop = figures.loop
    tensor = ", ".join([f"{count} `{'x'.join(map(str, shape))}`" for shape, count in figures.shapes.items()])
    waits = "; ".join(" then ".join(str(count) for _, count in waits) for waits in figures.exponentials)
    cycles = " / ".join(map(str, model(figures))) if any(loop[name] for name in ASYNCHRONOUS) else ""
    words = []
    for (kind, size), count in sorted(figures.accesses.items()):
        kind = f"{kind}{'es' if kind == 'box' else 's'}" if count > 1 else kind
        words.append(f"{count} {kind}" + (f" of {size}" if size else ""))
    meetings = f"{figures.barriers}, {figures.meetings}" if figures.barriers else ""
    return [
        code.title,
        code.registers,
        sum(loop.values()) or "",
        tensor,
        waits,
        cycles,
        ", ".join(words),
        figures.in_flight or "",
        meetings,
    ]


HEAD = [
    "kernel",
    "registers",
    "instructions of the loop",
    "on tensor cores",
    "exponentials before each wait",
    "cycles",
    "global memory",
    "loads in flight",
    "barriers, in the loop",
]


def tables(codes, release):
    lines = ["| " + " | ".join(HEAD) + " |", "| " + " | ".join(["---"] * len(HEAD)) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row(code)) + " |" for code in codes]
    return "\n".join([BEGIN, "", f"`ptxas` {release}, sm_90, sm_90a on Hopper, and sm_100a on Blackwell:", "", *lines, "", END])


def find_release(ptxas):
    text = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release (\d+\.\d+)", text)[1]


def documented():
    """The tables of the document, and the release of ptxas that they are of."""
    _, _, rest = DOCUMENT.read_text().partition(BEGIN)
    text = BEGIN + rest.partition(END)[0] + END
    found = re.search(r"`ptxas` (\d+\.\d+)", text)
    return text, found and found[1]


def entries():
    return products() + attentions() + maps()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", action="store_true")
    parser.add_argument("--compiler", default=os.environ.get("KILN_COMPILER", ROOT / "build" / "bin" / "aot-compile"))
    parser.add_argument("--only", default="", metavar="REGEX")
    options = parser.parse_args()
    codes = compile_all([entry for entry in entries() if re.search(options.only, entry.title)], options.compiler)
    text = tables(codes, find_release(os.environ.get("PTXAS", "ptxas")))
    if options.document:
        whole = DOCUMENT.read_text()
        before, _, rest = whole.partition(BEGIN)
        DOCUMENT.write_text(before + text + rest.partition(END)[2])
    else:
        print(text)
    for code in codes:
        for fault in machine_code.find_faults(code.function):
            print(f"{code.title}: {fault}", file=sys.stderr)


if __name__ == "__main__":
    main()
