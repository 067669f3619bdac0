"""Models for CUDA: code for GPUs that are not there, and whole models run in the emulator (docs/cuda.md)."""

import math
import os
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import kiln
from conftest import BUILD, EMULATED, PTXAS, ROOT, Compiled, GuardedModel, assert_assembles, assert_user_error, run_tool


class Parts(torch.nn.Module):
    """Each kind of kernel that there is code for."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(48)
        self.table = torch.nn.Embedding(20, 48)
        self.scale = torch.nn.Parameter(torch.rand(48) + 0.5)
        self.register_buffer("steps", torch.zeros(48))

    def forward(self, x, tokens):
        self.steps.add_(x.sum(0))
        y = self.norm(x) + F.gelu(x) * self.scale + self.table(tokens)
        return (
            y,
            torch.softmax(y, -1),
            y.t(),
            x.cumsum(0),
            x.sort(-1, descending=True).values,
            x.sum((0, 1)),
            x.argmax(-1),
            x.mean(0),
            torch.zeros_like(x).index_add(0, tokens % x.shape[0], x),
            self.steps + 0,
        )


ROWS = torch.export.Dim("rows", min=1, max=5000)


def example(rows=7):
    torch.manual_seed(rows)
    return torch.randn(rows, 48), torch.randint(0, 20, (rows,))


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("parts")
    return Compiled(Parts().eval(), example(), folder, dynamic_shapes=({0: ROWS}, {0: ROWS}), options=EMULATED)


def test_runs_in_the_emulator(parts):
    for rows in (7, 1, 2, 33, 600):
        parts.check(example(rows), rtol=1e-5, atol=1e-4)


def test_strided_and_unaligned_inputs(parts):
    x, tokens = example(9)
    parts.check((x.t().contiguous().t(), tokens.repeat_interleave(2)[::2]), 1e-5, 1e-4)
    parts.check((torch.cat([x.flatten()[:1], x.flatten()])[1:].view(9, 48), tokens), 1e-5, 1e-4)


def test_index_out_of_range(parts):
    x, tokens = example()
    tokens[3] = 20
    with pytest.raises(kiln.KilnError, match="an index computed from the data is out of range") as caught:
        parts.model.run([x, tokens])
    assert caught.value.status == 1
    tokens[3] = 0
    parts.model.run([x, tokens])  # and the next one is none the worse


def test_set_constant(parts, tmp_path):
    value = torch.randn(20, 48)
    model = kiln.load(parts.path)
    x, tokens = example(4)
    before = model(x, tokens)[0]
    weight = dict(parts.module.named_parameters())["table.weight"]
    model.set_constant("table.weight", value)
    torch.testing.assert_close(model(x, tokens)[0], before + (value - weight)[tokens], rtol=1e-4, atol=1e-4)


def test_information(parts):
    assert parts.model.info["target"] == "cuda"
    assert {entry["device"] for entry in parts.model.inputs + parts.model.outputs} == {"cuda"}


class Long(torch.nn.Module):
    """Reductions that one block would take too long for."""

    def forward(self, x):
        return x.sum(), x.amax((0, 2)), x.mean((0, 2)), x.argmax(), torch.softmax(x.reshape(-1), 0)


def test_long_reductions(compile_model):
    compile_model(Long(), (torch.randn(64, 4, 640),), options=EMULATED).check((torch.randn(64, 4, 640),), 1e-4, 1e-4)


class Longer(torch.nn.Module):
    """Of a length that only the run shows: one dim, the first or others of several, positions of extremes."""

    def forward(self, x, y):
        return (
            x.sum(),
            x.argmax(),
            torch.softmax(x, 0),
            x.logsumexp(0),
            y.amax((0, 2)),
            y.mean((0, 1)),
            y.var(),
            (y > 0).sum(),
            y.sum((0, 2)),
        )


def test_reductions_of_unknown_length(compile_model):
    def example(length, rows):
        torch.manual_seed(length)
        return torch.randn(length), torch.randn(rows, 3, 24)

    shapes = {0: torch.export.Dim("length", min=1, max=10**8)}, {0: torch.export.Dim("rows", min=1, max=10**7)}
    compiled = compile_model(Longer(), example(40000, 1000), dynamic_shapes=shapes, options=EMULATED)
    kernels = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=kernel", *EMULATED).stdout
    assert len(re.findall(r"kernel.cond when .* then @reduction_in_parts", kernels)) >= 7, kernels
    for sizes in ((40000, 1000), (16384, 2), (30011, 257), (1, 700)):
        compiled.check(example(*sizes), 1e-4, 1e-4)


class Orders(torch.nn.Module):
    """Scans and sorts with a block for each line, and those that take a thread."""

    def forward(self, x, few, flags):
        ties = (few * 2).round()
        return (
            x.cumsum(-1),
            x.cumsum(0),
            x.cumprod(1),
            flags.cumsum(-1),
            few.to(torch.complex64).cumsum(-1),
            x.cummax(-1)[0],
            x.t().cumsum(-1),
            few.flatten().cumsum(0),
            few.cumsum(1),
            torch.argsort(ties, stable=True, dim=-1),
            few.sort(-1, descending=True)[0],
            torch.where(few > 1, torch.nan, few).sort(-1)[0],
            ties.flatten().sort(stable=True)[1],
            few[:, :3].sort(-1)[1],
            torch.nonzero(flags),
            (torch.arange(4999) * 7919 % 997).sort(stable=True)[1],
            x[0].sort(stable=True)[1],
            (x * 9).round().sort(dim=0, stable=True)[1],
            torch.where(few > 2, torch.nan, ties).cummax(-1)[1],
            ties.cummin(-1)[1],
            x.logcumsumexp(-1),
            (few > 0).int().cummax(-1)[1],
        )


def test_scans_and_sorts(compile_model):
    torch.manual_seed(0)

    def inputs(rows):
        return torch.rand(rows, 1500) * 0.1 + 0.95, torch.randn(2, 3, 77), torch.rand(rows, 130) > 0.5

    compiled = compile_model(Orders(), inputs(3), dynamic_shapes=({0: ROWS}, None, {0: ROWS}), options=EMULATED)
    for rows in (1, 3, 8):
        compiled.check(inputs(rows), 1e-5, 1e-4)


class Functions(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x), torch.tanh(x)


def test_functions_of_the_hardware(compile_model):
    """To 2 ulp, up to the last number whose exponential is finite, and beyond."""
    last = torch.tensor([math.log(torch.finfo(torch.float32).max)])
    limits = torch.cat([last + i * 2**-17 for i in range(-40, 41)])
    x = torch.cat(
        [
            torch.linspace(-87, 88, 20001),
            torch.linspace(-12, 12, 20001),
            limits,
            torch.tensor([0.0, -0.0, 1e-30, 1e30, math.inf, -math.inf, math.nan]),
        ]
    )
    actual = compile_model(Functions(), (x,), options=EMULATED).model.run([x])
    for got, want in zip(actual, Functions()(x.double())):
        rounded = want.float()
        ulp = torch.nextafter(rounded.abs(), torch.tensor(math.inf)).double() - rounded.abs()
        finite = rounded.isfinite()
        assert torch.equal(got.isfinite(), finite) and torch.equal(got.isnan(), want.isnan())
        assert ((got.double() - want).abs() / ulp)[finite & (rounded.abs() < 3.4e38)].max() < 2


class ManyDims(torch.nn.Module):
    def forward(self, x):
        return x.permute(7, 6, 5, 4, 3, 2, 1, 0)


def test_strides_of_many_dimensions(compile_model):
    """More than the kernel that copies has."""
    x = torch.randn(2, 3, 2, 2, 3, 2, 2, 3)
    compile_model(ManyDims(), (x,), options=EMULATED).check((x + 1,), 0, 0)


class Sizes(torch.nn.Module):
    """A size that data gives, an assertion, an input that is written to."""

    def forward(self, x, state):
        picked = x[x > 0.5]
        state.add_(picked.sum())
        torch._assert_async((x <= 2).all(), "nothing may be above 2")
        return picked * 2, state.mean(), torch.nonzero(x)


def test_sizes_that_data_gives(compile_model):
    torch.manual_seed(1)
    compiled = compile_model(Sizes(), (torch.rand(40), torch.rand(3, 5)), options=EMULATED)
    for _ in range(2):
        compiled.check((torch.rand(40), torch.rand(3, 5)), 1e-5, 1e-5)
    compiled.check((torch.rand(40), torch.rand(5, 3).t()), 1e-5, 1e-5)
    with pytest.raises(kiln.KilnError, match="nothing may be above 2"):
        compiled.model.run([torch.full((40,), 3.0), torch.zeros(3, 5)])


PROBE = """
import sys, numpy, kiln
try:
    model = kiln.load(sys.argv[1])
    model(*eval(sys.argv[2]))
    print("fine")
except kiln.KilnError as error:
    print(error.status, error)
"""


def probe(path, inputs='(numpy.ones((3, 48), "float32"), numpy.zeros(3, "int64"))', **environment):
    """What loading and running the model on another machine ends with."""
    return subprocess.run(
        [sys.executable, "-c", PROBE, str(path), inputs],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment},
    ).stdout.strip()


def test_overlapping_launches(parts, tmp_path, monkeypatch):
    """A kernel may begin before the one in front of it has ended, alone and in a graph: none reads or writes before it has waited."""
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    monkeypatch.setenv("KILN_CUDA_OVERLAP", "1")
    model = GuardedModel(parts.path, 0)
    expected = parts.module(*example(7))
    for _ in range(3):
        for actual, wanted in zip(model(*example(7)), expected[:5]):
            torch.testing.assert_close(torch.as_tensor(actual), wanted, rtol=1e-5, atol=1e-4)
    text = log.read_text()
    assert re.search(r"graph of \d+\n", text) and text.count(" overlaps\n") > 30, text


def test_first_of_long_rows(compile_model):
    """A block goes through a row once for its first elements, whose order is that of a stable sort."""
    x = torch.stack(
        [
            torch.randn(9000),
            torch.randn(9000).round(),
            torch.arange(9000.0),
            -torch.arange(9000.0),
            torch.zeros(9000),
            torch.full((9000,), float("nan")),
        ]
    )
    x[0, ::7] = float("nan")

    class First(torch.nn.Module):
        def forward(self, x):
            return x.topk(8)[1], x.topk(50, largest=False)[1], x.kthvalue(3)[1]

    columns = torch.export.Dim("columns", min=50, max=100000)
    compiled = compile_model(First(), (x,), dynamic_shapes=({1: columns},), options=EMULATED)
    for part in (x, x[:, :50].contiguous(), x[:, :5000].contiguous()):
        up, down = part.sort(dim=1, stable=True).indices, part.sort(dim=1, stable=True, descending=True).indices
        for actual, wanted in zip(compiled.model(part), (down[:, :8], up[:, :50], up[:, 2])):
            torch.testing.assert_close(torch.as_tensor(actual), wanted)


def test_machines(parts, tmp_path):
    log = tmp_path / "log"
    assert probe(parts.path, KILN_EMULATOR_LOG=str(log)) == "fine"
    assert "load emulator" in log.read_text()
    assert probe(parts.path, KILN_CUDA_DRIVER="/none/libcuda.so.1").startswith(
        "5 no NVIDIA driver: this model runs on a GPU and cannot load /none/"
    )
    old = BUILD / "test" / "Targets" / "CUDA" / "emulator" / "libcuda-old.so.1"
    assert re.match(
        r"5 the NVIDIA driver is too old: it is one of CUDA 11\.2 and has no \w+; a driver of CUDA 12.0 or newer is needed",
        probe(parts.path, KILN_CUDA_DRIVER=str(old)),
    )
    assert probe(parts.path, KILN_EMULATOR_DEVICES="0").startswith("5 cannot start the NVIDIA driver: no CUDA-capable device is detected")
    assert probe(parts.path, KILN_EMULATOR_MEMORY="100").startswith("4 cannot put ")
    assert re.match(
        r"4 no memory on the GPU for \d+ bytes of intermediate results: out of memory", probe(parts.path, KILN_EMULATOR_MEMORY="6000")
    )


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_cubins(parts, tmp_path):
    reports = [file.name for file in assert_assembles(parts.archive, tmp_path).glob("*.txt")]
    path = tmp_path / "gpu.so"
    assert any(name.endswith("sm_80.txt") for name in reports) and any(name.endswith("sm_90.txt") for name in reports)
    again = tmp_path / "again.so"
    assert run_tool("aot-compile", parts.archive, "-o", again, "--target=cuda", "--gpu-arch=sm_80,sm_90").returncode == 0
    assert again.read_bytes() == path.read_bytes()
    # The emulator is a GPU without a cubin and a driver that reads no PTX.
    log = tmp_path / "log"
    message = probe(path, KILN_EMULATOR_LOG=str(log), KILN_EMULATOR_VERSION="12020")
    assert re.match(
        r"5 emulated GPU 0 has compute capability 9.0; the model has code for sm_80, PTX for sm_80, code for sm_90, PTX for sm_90; "
        r"the driver, one of CUDA 12.2, does not load it: .*; a newer driver may",
        message,
    ), message
    loads = lambda: [line for line in log.read_text().split("\n") if line.startswith("load")]
    assert loads() == ["load cubin", "load PTX"]
    assert "compile it with --gpu-arch=sm_75" in probe(path, KILN_EMULATOR_CAPABILITY="75")
    probe(path, KILN_EMULATOR_LOG=str(log), KILN_EMULATOR_CAPABILITY="120")
    assert loads()[2:3] == ["load PTX"]


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_code_for_older_drivers(tmp_path):
    """A driver that takes no machine code finds PTX: of a variant, and of the oldest and the newest GPU."""
    torch.manual_seed(0)
    archive, path, log = tmp_path / "linear.pt2", tmp_path / "linear.so", tmp_path / "log"
    linear = torch.nn.Linear(128, 128, dtype=torch.float16)
    torch.export.save(torch.export.export(linear, (torch.randn(256, 128, dtype=torch.float16),)), archive)
    temps = tmp_path / "temps"
    arch = "--gpu-arch=sm_80,sm_86,sm_90"
    process = run_tool("aot-compile", archive, "-o", path, "--target=cuda", arch, f"--ptxas={PTXAS}", f"--save-temps={temps}")
    assert process.returncode == 0, process.stderr
    code = path.read_bytes()
    has = {file.name.split(".")[1]: file.read_bytes() in code for file in temps.glob("contract*.ptx")}
    assert has == {"sm_80": True, "sm_86": False, "sm_90": True, "sm_90a": True}
    inputs = '(numpy.ones((256, 128), "float16"),)'
    message = probe(path, inputs, KILN_EMULATOR_LOG=str(log), KILN_CUDA_LOG=str(tmp_path / "events"))
    assert "the model has code for sm_80, PTX for sm_80, code for sm_86, code for sm_90, PTX for sm_90; the driver" in message
    assert [line for line in log.read_text().split("\n") if line.startswith("load")] == ["load cubin", "load PTX"] * 2
    # Other GPUs have no variant; older drivers are not given its PTX, on which their compilers crash.
    for other, loads in (
        ({"KILN_EMULATOR_CAPABILITY": "86"}, ["load cubin", "load PTX"]),
        ({"KILN_EMULATOR_VERSION": "12050"}, ["load cubin", "load cubin", "load PTX"]),
        ({"KILN_EMULATOR_VERSION": "12060"}, ["load cubin", "load PTX"] * 2),
    ):
        log.unlink()
        probe(path, inputs, KILN_EMULATOR_LOG=str(log), KILN_CUDA_LOG=str(tmp_path / "events"), **other)
        assert [line for line in log.read_text().split("\n") if line.startswith("load")] == loads


def test_options_without_spills(parts, tmp_path):
    """A program in ptxas's place spills, by itself or whatever it is told, or does not know the options."""

    def reports(name, option, other=""):
        ptxas = tmp_path / name
        ptxas.write_text(
            '#!/bin/sh\ncase "$*" in '
            + option
            + ") "
            + other
            + """ bytes=0;; *) bytes=10;; esac
            while [ "$1" != -o ]; do shift; done; echo "$bytes bytes stack frame, $bytes bytes spill stores" >&2; echo code > "$2"\n"""
        )
        ptxas.chmod(0o755)
        process = run_tool(
            "aot-compile",
            parts.archive,
            "-o",
            tmp_path / "model.so",
            "--target=cuda",
            "--gpu-arch=sm_80",
            f"--ptxas={ptxas}",
            f"--save-temps={tmp_path / f'{name}-temps'}",
        )
        assert process.returncode == 0, process.stderr
        return {report.read_text() for report in (tmp_path / f"{name}-temps").glob("*.txt")}

    assert (
        reports("level", "*--register-usage-level*")
        == reports("blocks", "*--register-usage-level*--minnctapersm*")
        == {"0 bytes stack frame, 0 bytes spill stores\n"}
    )
    assert (
        reports("spills", "*--register*", "echo 8 bytes spill stores >&2;")
        == reports("old", "*--register*", "echo Unknown option >&2; exit 1;")
        == {"10 bytes stack frame, 10 bytes spill stores\n"}
    )


def test_ptx_without_ptxas(parts, tmp_path):
    process = run_tool("aot-compile", parts.archive, "-o", "-", "--emit=ptx", "--target=cuda", "--gpu-arch=sm_80,sm_90")
    assert process.returncode == 0
    assert ".target sm_90" in process.stdout and ".target sm_80" not in process.stdout
    assert "shfl.sync.bfly" in process.stdout and "ld.global" in process.stdout


def test_refusals(parts, tmp_path):
    out = tmp_path / "parts.so"
    compile_ = lambda *options: run_tool("aot-compile", parts.archive, "-o", out, *options)
    assert_user_error(compile_("--target=cuda", "--gpu-arch=sm_70"), "--gpu-arch=sm_70: expected a list of sm_80")
    assert_user_error(compile_("--target=cuda", "--ptxas=/none"), "--ptxas=/none: not a program")
    assert_user_error(compile_("--gpu-arch=sm_80"), "--gpu-arch is for --target=cuda")
    assert_user_error(compile_("--target=cuda", "--gpu-tune=sm_70"), "planned for 'sm_70': expected one of sm_80, sm_86")
    assert not out.exists()


class Sigmoids(torch.nn.Module):
    def forward(self, x, half):
        return F.silu(x), torch.sigmoid(x), F.silu(half), torch.sigmoid(half)


def number_floats(x):
    """Integers in the order of the floats, neighbours for neighbours; all NaN are one."""
    bits = x.view(torch.int16).int()
    return torch.where(x.isnan(), 1 << 16, torch.where(bits < 0, -(bits & 0x7FFF), bits))


def test_sigmoids_of_all_halves(compile_model):
    """Quotients by the GPU's reciprocal: of every number, infinite, denormal or none, and nearly always the nearest one."""
    bits = torch.arange(-(1 << 15), 1 << 15).short()
    example = bits.view(torch.bfloat16).clone(), bits.view(torch.float16).clone()
    compiled = compile_model(Sigmoids(), example, options=EMULATED)
    wide = [x.float() for x in example]
    expected = [function(x).to(half.dtype) for x, half in zip(wide, example) for function in (F.silu, torch.sigmoid)]
    for y, reference in zip(compiled.model.run(list(example)), expected):
        distance = (number_floats(y) - number_floats(reference)).abs()
        assert distance.max() <= 1 and (distance > 0).float().mean() < 1e-3


class Join(torch.nn.Module):
    def forward(self, parts):
        return torch.cat(parts) * 2


def test_many_operands(compile_model, tmp_path):
    """More parameters than PTX 8.0 lets a kernel have."""
    parts = [torch.randn(2) for _ in range(560)]
    compiled = compile_model(Join(), (parts,), options=EMULATED)
    compiled.check((parts,), 0, 0)
    if PTXAS:
        assert_assembles(compiled.archive, tmp_path)


class Gelu(torch.nn.Module):
    def forward(self, x, half):
        return F.gelu(x), F.gelu(half)


def test_gelu_of_two_bytes(compile_model):
    """All numbers of bf16 and f16: nearly always the nearest one to what is right, also where 1 + erf(x) has lost its bits, up to float32's denormal
    numbers."""
    bits = torch.arange(-(1 << 15), 1 << 15).short()
    example = bits.view(torch.bfloat16).clone(), bits.view(torch.float16).clone()
    compiled = compile_model(Gelu(), example, options=EMULATED)
    for x, y in zip(example, compiled.model.run(list(example)), strict=True):
        right = 0.5 * x.double() * torch.special.erfc(-x.double() * 0.5**0.5)
        assert torch.equal(right.isnan(), y.isnan())
        distance = (number_floats(y) - number_floats(right.to(x.dtype))).abs()
        assert distance[~(right.abs() < 1e-36)].max() <= 1 and (distance > 0).float().mean() < 3e-3
