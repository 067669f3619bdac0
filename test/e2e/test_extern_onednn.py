"""The external code generator `onednn`: products, convolutions, pooling and normalisation in models, compared with eager PyTorch."""

import collections
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import kiln
import models
from conftest import BUILD, TARGET, assert_user_error, run_tool

pytestmark = pytest.mark.skipif(bool(TARGET), reason="oneDNN computes on CPUs")
LIBRARY = os.environ.get("KILN_ONEDNN_LIBRARY") or BUILD / "lib" / "libkiln_onednn.so"
needs_library = pytest.mark.skipif(not os.path.exists(LIBRARY), reason="built without oneDNN")
EXTERN = ("--extern=onednn",)
FINITE = ("--extern=onednn{finite=true}",)


def calls(compiled, options=EXTERN):
    process = run_tool("aot-compile", compiled.archive, "--emit=kernel", "-o", "-", *options)
    assert process.returncode == 0, process.stderr
    return [line.split('"')[3] for line in process.stdout.splitlines() if 'kernel.extern "onednn"' in line]


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(24, 40), nn.Linear(40, 24, bias=False), nn.Linear(24, 8)

    def forward(self, x):
        y = x + self.b(F.gelu(self.a(x)))
        return F.relu(self.c(y)), F.gelu(y @ y.transpose(1, 2), approximate="tanh"), torch.mm(y[0], self.b.weight[:, :24])


@needs_library
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options", [EXTERN, FINITE])
def test_products(compile_model, options, dynamic):
    n = Dim("n", min=0, max=32)
    compiled = compile_model(Products(), (torch.randn(3, 5, 24),), {"x": {1: n}} if dynamic else None, options)
    assert calls(compiled, options).count("matmul") == 5
    inputs = [torch.randn(3, 5, 24), *([torch.randn(3, rows, 24) for rows in (0, 1, 32)] if dynamic else [])]
    if options is EXTERN:
        special = torch.randn(3, 5, 24)
        special[0, 0, 0], special[1, 2, 3], special[2, 1, 0] = float("nan"), float("inf"), -float("inf")
        inputs.append(special)
    for x in inputs:
        compiled.check((x,), 1e-4, 1e-5)


@needs_library
def test_entries(tmp_path):
    """Several programs of a model call it."""
    module = Products().eval()
    for name, size, shapes in (("many", 5, ({1: Dim("n", min=2, max=32)},)), ("one", 1, None)):
        torch.export.save(torch.export.export(module, (torch.randn(3, size, 24),), dynamic_shapes=shapes), tmp_path / f"{name}.pt2")
    model = kiln.compile({name: tmp_path / f"{name}.pt2" for name in ("many", "one")}, tmp_path / "model.so", extern=["onednn"])
    session = model.session()
    for name, size in (("many", 5), ("one", 1), ("many", 32), ("one", 1)):
        x = torch.randn(3, size, 24)
        torch.testing.assert_close(session.entry(name)(x), module(x), rtol=1e-4, atol=1e-5)


class Windows(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.depth, self.wide = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8, bias=False), nn.Conv2d(8, 12, 1, groups=2)
        self.line = nn.Conv1d(8, 4, 3, padding=1)
        self.layer = nn.LayerNorm(12)
        for value in (self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias):
            nn.init.uniform_(value, 0.5, 1.5)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.relu(x + self.depth(x))
        pools = (
            F.max_pool2d(x, 3, 2, 1),
            F.max_pool2d(x, 2, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 2, count_include_pad=False),
        )
        return *pools, self.layer(self.wide(x).permute(0, 2, 3, 1)), self.line(x.flatten(2))


@needs_library
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options, pools", [(EXTERN, 2), (FINITE, 4)])
def test_windows(compile_model, options, pools, dynamic):
    n = Dim("n", min=1, max=8)
    compiled = compile_model(Windows(), (torch.randn(2, 3, 18, 18),), {"x": {0: n}} if dynamic else None, options)
    found = calls(compiled, options)
    assert sorted(found) == ["batch_norm", *["convolution"] * 4, "layer_norm", *["pooling"] * pools], found
    inputs = [torch.randn(2, 3, 18, 18), *([torch.randn(rows, 3, 18, 18) for rows in (1, 8)] if dynamic else [])]
    if options is EXTERN:
        special = torch.randn(2, 3, 18, 18)
        special[0, 0, 5, 5], special[1, 1, 9, 9], special[1, 2, 2, 2] = float("nan"), float("inf"), -float("inf")
        inputs.append(special)
    for x in inputs:
        compiled.check((x,), 1e-4, 1e-4)


class Both(nn.Module):
    """Products and convolutions, and what is left to own code in bf16."""

    def __init__(self):
        super().__init__()
        self.products, self.norm = Products(), nn.LayerNorm(24)
        self.image, self.line = nn.Conv2d(1, 6, 3, padding=1), nn.Conv1d(24, 4, 3, padding=1, groups=2, bias=False)

    def forward(self, x):
        image = F.relu(self.image(x[:, None]))
        return *self.products(self.norm(x)), image + self.image(x[:, None]), self.line(x.transpose(1, 2))


HAS_AVX512 = " avx512bw " in open("/proc/cpuinfo").read()


@needs_library
@pytest.mark.skipif(not HAS_AVX512, reason="oneDNN has bf16 on CPUs with AVX-512")
@pytest.mark.parametrize("options, products, windows", [("bf16=true", 5, 0), ("bf16=true finite=true", 5, 3), ("finite=true", 0, 0)])
def test_bf16(compile_model, options, products, windows):
    """Sums are those of f32 numbers, and what comes behind them sees them before they are rounded."""
    torch.manual_seed(0)
    options = (f"--extern=onednn{{{options}}}",)
    inputs = (torch.randn(3, 5, 24, dtype=torch.bfloat16),)
    compiled = compile_model(Both().bfloat16(), inputs, {"x": {1: Dim("n", min=1, max=32)}}, options)
    found = collections.Counter(calls(compiled, options))
    assert found == collections.Counter({"matmul": products, "convolution": windows}), found
    for rows in (5, 1, 32):
        compiled.check((torch.randn(3, rows, 24, dtype=torch.bfloat16),), 5e-2, 2e-1)


@needs_library
def test_bf16_without_avx512(tmp_path):
    """oneDNN says which instructions it may use; the model looks when it is created."""
    x = torch.randn(2, 4, dtype=torch.bfloat16)
    torch.export.save(torch.export.export(nn.Linear(4, 4).bfloat16(), (x,)), tmp_path / "x.pt2")
    process = run_tool("aot-compile", tmp_path / "x.pt2", "-o", tmp_path / "x.so", "--extern=onednn{elsewhere=true bf16=true}")
    assert process.returncode == 0, process.stderr
    said = load(tmp_path / "x.so", DNNL_MAX_CPU_ISA="AVX2", ONEDNN_MAX_CPU_ISA="AVX2")
    assert "bf16 needs AVX-512 (it has no code for this CPU or these sizes)" in said, said


@needs_library
@pytest.mark.parametrize(
    "name, dims, least",
    [
        ("bert-base", {0: Dim("batch", min=1, max=4), 1: Dim("length", min=2, max=64)}, {"matmul": 12, "layer_norm": 5}),
        (
            "resnet50",
            {0: Dim("batch", min=1, max=4), 2: 32 * Dim("height", min=2, max=4), 3: 32 * Dim("width", min=2, max=4)},
            {"convolution": 15},
        ),
    ],
)
def test_models(compile_model, name, dims, least):
    module, inputs = models.build(name, tiny=True)
    inputs = tuple(x.repeat(2, *(1 for _ in x.shape[1:])) for x in inputs)  # one would be a constant
    names = ("input_ids", "attention_mask") if len(inputs) == 2 else ("pixel_values",)
    compiled = compile_model(module, inputs, dict.fromkeys(names, dims), FINITE)
    found = collections.Counter(calls(compiled, FINITE))
    assert all(found[kind] >= count for kind, count in least.items()), found
    if len(inputs) == 2:
        others = [torch.randint(3, 100, sizes) for sizes in ((4, 7), (1, 64))]
        others = [(ids, torch.ones_like(ids)) for ids in others]
    else:
        others = [(torch.randn(4, 3, 64, 96),), (torch.randn(1, 3, 128, 64),)]
    for given in [inputs, *others]:
        compiled.check(given, 1e-3, 1e-4)


@needs_library
def test_threads(compile_model):
    """Runs at the same time, with sizes of their own, share what oneDNN has compiled."""
    from concurrent.futures import ThreadPoolExecutor

    compiled = compile_model(Products(), (torch.randn(3, 5, 24),), {"x": {1: Dim("n", min=0, max=99)}}, EXTERN)
    model = kiln.load(compiled.path)

    def check(rows):
        x = torch.randn(3, rows, 24)
        with torch.no_grad():
            expected = compiled.module(x)
        for got, want in zip(model(x), expected, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, [rows for _ in range(2) for rows in range(1, 99)]))


@needs_library
def test_number_of_threads(compile_model):
    """A model for one thread starts none. oneDNN on OpenMP can be told so."""
    if "libgomp" not in subprocess.run(["ldd", LIBRARY], capture_output=True, text=True).stdout:
        pytest.skip("this oneDNN has threads of its own")
    compiled = compile_model(nn.Linear(512, 512), (torch.randn(512, 512),), None, EXTERN)
    code = """
import os, sys, kiln, numpy
model = kiln.load(sys.argv[1], threads=int(sys.argv[2]))
before = len(os.listdir("/proc/self/task"))
model(numpy.ones((512, 512), numpy.float32))
print(len(os.listdir("/proc/self/task")) - before)
"""
    environment = {**os.environ, "PYTHONPATH": str(BUILD.parent / "python"), "OMP_NUM_THREADS": "3"}
    started = [
        int(
            subprocess.run(
                [sys.executable, "-c", code, compiled.path, threads], capture_output=True, text=True, env=environment, check=True
            ).stdout
        )
        for threads in ("1", "2")
    ]
    assert started[0] == 0 and started[1] >= 1


def load(path, **environment):
    """What loading a model says, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(BUILD.parent / "python"), **environment}
    return subprocess.run(
        [sys.executable, "-c", f"import kiln; kiln.load('{path}')"], capture_output=True, text=True, env=environment
    ).stderr


@pytest.fixture
def archive(tmp_path):
    torch.export.save(torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),)), tmp_path / "x.pt2")
    return tmp_path / "x.pt2"


def compile_elsewhere(archive):
    process = run_tool("aot-compile", archive, "-o", archive.with_suffix(".so"), "--extern=onednn{elsewhere=true}")
    assert process.returncode == 0, process.stderr
    return archive.with_suffix(".so")


def test_missing_library(tmp_path, archive):
    """Neither when the model is compiled nor when it is loaded does a missing library go unnoticed."""
    missing = {"KILN_ONEDNN_LIBRARY": str(tmp_path / "none.so")}
    process = run_tool("aot-compile", archive, *EXTERN, env=missing)
    assert_user_error(process, "--extern: onednn: there is no libkiln_onednn.so; install oneDNN (Debian's libdnnl-dev")
    (tmp_path / "text.so").write_text("not a library")
    process = run_tool("aot-compile", archive, *EXTERN, env={"KILN_ONEDNN_LIBRARY": str(tmp_path / "text.so")})
    assert_user_error(process, "--extern: onednn: cannot load libkiln_onednn.so: ", "install oneDNN")
    said = load(compile_elsewhere(archive), **missing)
    assert "cannot load libkiln_onednn.so, which runs matmul for this model" in said
    assert "pip install onednn" in said


@needs_library
def test_old_library(tmp_path, archive):
    """A oneDNN that says that it is older than the one that the library was built with."""
    source = "#include <stdint.h>\nconst int *dnnl_version(void) { static const int version[8] = {1, 2, 3}; return version; }\n"
    (tmp_path / "old.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "old.c", "-o", tmp_path / "old.so"], check=True)
    old = {"LD_PRELOAD": str(tmp_path / "old.so")}
    assert_user_error(
        run_tool("aot-compile", archive, *EXTERN, env=old), "--extern: onednn: oneDNN 1.2 is too old: libkiln_onednn.so was built with"
    )
    assert "matmul: oneDNN 1.2 is too old: libkiln_onednn.so was built with" in load(compile_elsewhere(archive), **old)
