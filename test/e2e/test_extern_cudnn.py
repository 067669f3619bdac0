"""The external code generator `cudnn`: convolutions and attention on GPUs through cuDNN, in the emulator with one that computes with plain loops."""

import os
import re
import shutil
import subprocess
import sys

import numpy
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import test_cuda_device
from conftest import BUILD, EMULATED, EMULATOR, assert_user_error, run_on_ones, run_tool

CUDNN = EMULATOR.parent / "libcudnn.so.9"
LIBRARY = BUILD / "lib" / "libkiln_cudnn.so"
EXTERN = (*EMULATED, "--extern=cudnn{workspace=65536}")
FINITE = (*EMULATED, "--extern=cudnn{workspace=65536 finite=true}")
TOLERANCES = {torch.float32: (1e-4, 1e-5), torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 1e-1)}


@pytest.fixture(autouse=True)
def libraries(monkeypatch):
    monkeypatch.setattr("conftest.TARGET", ())
    monkeypatch.setenv("KILN_CUDNN_LIBRARY", str(LIBRARY))
    monkeypatch.setenv("KILN_LIBCUDNN", str(CUDNN))


@pytest.fixture
def log(emulated_calls):
    """A function that returns the graphs that the emulator has run since the last call."""
    return lambda: emulated_calls("cudnn")


def engine(dtype, options):
    """The first of the emulator's engines whose numerics may be: Winograd on tensor cores, these alone, not deterministic, too much workspace, …"""
    return 0 if options is FINITE and dtype != torch.float32 else 4


class Images(nn.Module):
    """Convolutions in one, two and three dims, with all that may come behind them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depth = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8, bias=False)
        self.grouped = nn.Conv2d(8, 12, (3, 2), stride=(1, 2), padding=(1, 0), groups=2)
        self.line = nn.Conv1d(8, 4, 3, stride=2, padding=1)
        self.volume = nn.Conv3d(1, 4, 3, padding=1, bias=False)

    def forward(self, x):
        x = F.relu(self.first(x))
        y = F.relu(x + self.depth(x))
        return self.depth(y) + y, self.grouped(y), self.line(y.flatten(2)), F.relu(self.volume(y[:, None])).sum(1)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("options", [EXTERN, FINITE])
def test_convolutions(compile_model, log, options, dtype):
    """What a sum or a function comes behind has a bias of zeros if it has none of its own. In dtypes of 16 bits eager rounds between them."""
    torch.manual_seed(0)
    dims = {0: Dim("n", min=0, max=8), 2: 2 * Dim("h", min=2, max=9), 3: 2 * Dim("w", min=4, max=9)}
    compiled = compile_model(Images().to(dtype), (torch.randn(2, 3, 10, 12, dtype=dtype),), {"x": dims}, options)
    for sizes in ((2, 3, 10, 12), (1, 3, 4, 8), (0, 3, 10, 12), (8, 3, 4, 18)):
        log()
        compiled.check((torch.randn(sizes, dtype=dtype),), *TOLERANCES[dtype])
        graphs = log()
        assert len(graphs) == (6 if sizes[0] else 0), graphs
        if sizes[0] == 2:
            kinds = sorted(graph.split()[0] for graph in graphs)
            relu = ["c0p0p100", "c0p0p0p100", "c0p0p100"] if options is FINITE else ["c0p0", "c0p0p0", "c0"]
            assert kinds == sorted([*relu, "c0p0p0", "c0p0", "c0p0"]), kinds
            assert all(graph.endswith(f"engine {engine(dtype, options)}") for graph in graphs), graphs
    # Eager's convolutions of bf16 make NaN of what lies beside a window with infinity in it.
    if options is EXTERN and dtype != torch.bfloat16:
        special = torch.randn(2, 3, 10, 12, dtype=dtype)
        special[0, 0, 5, 5], special[1, 1, 9, 9], special[1, 2, 2, 2] = float("nan"), float("inf"), -float("inf")
        compiled.check((special,), *TOLERANCES[dtype])


class ChannelsLast(nn.Module):
    """Images with channels last: their transpositions are part of the call."""

    def __init__(self):
        super().__init__()
        self.image, self.line = nn.Conv2d(4, 8, 3, padding=1), nn.Conv1d(4, 6, 3)

    def forward(self, x, y):
        image = F.relu(self.image(x.permute(0, 3, 1, 2))).permute(0, 2, 3, 1)
        half = self.image(x.permute(0, 3, 1, 2)).flatten(2)
        return image, half, self.line(y.transpose(1, 2)).transpose(-1, -2), self.line(y.transpose(1, 2)) + self.line(y.mT).sum()


def test_channels_last(compile_model, log):
    x, y = torch.randn(2, 5, 6, 4), torch.randn(2, 7, 4)
    compiled = compile_model(ChannelsLast(), (x, y), {"x": {1: Dim("h", min=1, max=9)}, "y": {0: Dim("n", min=1, max=4)}}, FINITE)
    compiled.check((x, y), 1e-4, 1e-5)
    orders = sorted(re.sub(r".* x (\w+) y (\w+) engine.*", r"\1 \2", graph) for graph in log())
    assert orders == ["last last", "last last", "last second", "last second", "second second"], orders
    compiled.check((torch.randn(2, 1, 6, 4), torch.randn(1, 7, 4)), 1e-4, 1e-5)


class Attention(nn.Module):
    """Attention with heads before and behind the rows, shared keys, masks by position, and biases."""

    def forward(self, x, keys, bias):
        q, k = x.unflatten(-1, (4, 8)).transpose(1, 2), keys.unflatten(-1, (2, 8)).transpose(1, 2)
        kept = q + 1
        return (
            F.scaled_dot_product_attention(q, k, k.abs(), enable_gqa=True).transpose(1, 2).flatten(2),
            F.scaled_dot_product_attention(kept, kept, kept * 2, is_causal=True, scale=0.5),
            F.scaled_dot_product_attention(kept, kept.flip(2), kept, attn_mask=bias),
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("options, number", [(EXTERN, 2), (FINITE, 3)])
def test_attention(compile_model, log, options, number, dtype):
    torch.manual_seed(0)

    def inputs(batch, rows, columns):
        bias = torch.randn(batch, 1, rows, rows, dtype=dtype)
        return torch.randn(batch, rows, 32, dtype=dtype), torch.randn(batch, columns, 16, dtype=dtype), bias

    n, m, k = Dim("n", min=0, max=8), Dim("m", min=1, max=40), Dim("k", min=1, max=40)
    shapes = {"x": {0: n, 1: m}, "keys": {0: n, 1: k}, "bias": {0: n, 2: m, 3: m}}
    compiled = compile_model(Attention(), inputs(3, 5, 7), shapes, options)
    for sizes in ((3, 5, 7), (2, 1, 1), (1, 40, 33), (0, 5, 7)):
        log()
        compiled.check(inputs(*sizes), *TOLERANCES[dtype])
        graphs = log()
        assert len(graphs) == (number if sizes[0] else 0), graphs
        if sizes[0] == 3:
            assert any(graph.startswith("m0p1p501p501p303p601s0m0 ") for graph in graphs), graphs


# A convolution of tensors on the GPU, 4 bytes behind where memory begins: captured before a plan for it is there, and then after.
ON_THE_GPU = """
x = numpy.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype("float32")
expected = numpy.load(sys.argv[1] + ".npy")
shifted, target = put(numpy.concatenate([[9], x.ravel()]).astype("float32")), put(numpy.zeros(13, "float32"))
inputs, outputs = [tensor(shifted + 4, x.shape)], [tensor(target + 4, (1, 3, 2, 2))]
stream, graph, made = C.c_void_p(), C.c_void_p(), C.c_void_p()
assert driver.cuStreamSynchronize(None) == 0 and driver.cuStreamCreate(C.byref(stream), 1) == 0

def check():
    got = get(target, 13)
    assert driver.cuMemcpyHtoD_v2(C.c_ulonglong(target), numpy.zeros(13, "float32").ctypes.data_as(C.c_void_p), C.c_size_t(52)) == 0
    assert driver.cuStreamSynchronize(None) == 0
    return bool(got[0] == 0 and numpy.allclose(got[1:].reshape(1, 3, 2, 2), expected, 1e-4, 1e-5))

def capture():
    assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
    try:
        run(model, inputs, outputs, stream=stream)
    finally:
        assert driver.cuStreamEndCapture(stream, C.byref(graph)) == 0

checks = []
try:
    capture()
except Exception as error:
    checks.append(str(error))
run(model, inputs, outputs, stream=stream)
assert driver.cuStreamSynchronize(stream) == 0
checks.append(check())
capture()
assert driver.cuGraphInstantiateWithFlags(C.byref(made), graph, C.c_ulonglong(0)) == 0
checks.append(check())
for _ in range(2):
    assert driver.cuGraphLaunch(made, stream) == 0
    assert driver.cuStreamSynchronize(stream) == 0
    checks.append(check())
print(json.dumps(checks))
"""


def test_on_the_gpu(compile_model):
    """What is less aligned than cuDNN's tensors are is copied: the emulator looks. A capture finds what it needs, or is refused."""
    torch.manual_seed(0)
    convolution = nn.Conv2d(2, 3, 3, bias=False)
    compiled = compile_model(convolution, (torch.randn(1, 2, 4, 4),), None, EXTERN)
    x = torch.from_numpy(numpy.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype("float32"))
    numpy.save(f"{compiled.path}.npy", convolution(x).detach().numpy())
    refused, *checks = test_cuda_device.execute(compiled, ON_THE_GPU)
    assert "the stream is being captured, and cuDNN has not been used before; run the model once with the same sizes" in refused
    assert checks == [True, False, True, True]


def test_threads(compile_model):
    """Runs at the same time, with sizes of their own, share a handle and plans."""
    from concurrent.futures import ThreadPoolExecutor

    module = nn.Conv1d(2, 3, 3, padding=1)
    compiled = compile_model(module, (torch.randn(1, 2, 9),), {"input": {2: Dim("n", min=1, max=99)}}, EXTERN)

    def check(size):
        x = torch.randn(1, 2, size)
        (got,) = compiled.model.run([x])
        with torch.no_grad():
            torch.testing.assert_close(torch.as_tensor(got), module(x), rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, [size for _ in range(2) for size in range(1, 99)]))


def test_workspace(compile_model, log):
    """An engine that needs more than there is of it is not taken: the last one needs none."""
    module = nn.Conv2d(2, 3, 3)
    compiled = compile_model(module, (torch.randn(1, 2, 4, 4),), None, (*EMULATED, "--extern=cudnn{workspace=0}"))
    compiled.check((torch.randn(1, 2, 4, 4),), 1e-4, 1e-5)
    assert [graph[-1] for graph in log()] == ["5"]


def run(path, **environment):
    return run_on_ones(path, (1, 2, 4, 4), "float16", environment)


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 8, 1)

    def forward(self, x):
        y = self.convolution(x).permute(0, 2, 3, 1)
        return F.scaled_dot_product_attention(y, y, y)


@pytest.fixture
def archive(tmp_path):
    module, x = Both().half(), torch.randn(1, 2, 4, 4, dtype=torch.float16)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "x.pt2")
    return tmp_path / "x.pt2"


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (("--extern=cudnn",), "--extern: cudnn computes with --target=cuda, and the model is for --target=cpu"),
        ((*EMULATED, "--extern=cudnn{workspace=-1}"), "--extern: cudnn: workspace=-1: expected 0 to 1099511627776 bytes"),
        ((*EMULATED, "--extern=cudnn{search=2}"), "--extern: cudnn: "),
    ],
)
def test_refused_options(archive, arguments, problem):
    assert_user_error(run_tool("aot-compile", archive, *arguments), problem)


def test_installed_libraries(archive, tmp_path):
    """The Python package finds the library that is inside it, and NVIDIA's package."""
    process = run_tool("aot-compile", archive, "-o", tmp_path / "x.so", *EXTERN)
    assert process.returncode == 0, process.stderr
    site = tmp_path / "site"
    shutil.copytree(BUILD.parent / "python" / "kiln", site / "kiln")
    for folder, library in ((site / "kiln" / "lib", LIBRARY), (site / "nvidia" / "cudnn" / "lib", CUDNN)):
        folder.mkdir(parents=True)
        (folder / library.name).symlink_to(library)
    empty = {"KILN_CUDNN_LIBRARY": "", "KILN_LIBCUDNN": ""}
    assert run(tmp_path / "x.so", **empty, PYTHONPATH=str(site)) == ""
    assert "cannot load cuDNN" in run(tmp_path / "x.so", **empty)
    code = "import os; from kiln import _libraries; _libraries.point_out('/x.so', True); print(os.environ['KILN_CUDNN_LIBRARY'])"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **empty, "PYTHONPATH": str(site)}
    )
    assert process.stdout == f"{site / 'kiln' / 'lib' / LIBRARY.name}\n", process.stderr


def test_libraries(archive, tmp_path):
    """A library that is missing, too old or too new, or that has no engine for a call."""
    process = run_tool("aot-compile", archive, "-o", tmp_path / "x.so", *EXTERN)
    assert process.returncode == 0, process.stderr
    model, none = tmp_path / "x.so", str(tmp_path / "none.so")
    assert run(model) == ""
    said = run(model, KILN_CUDNN_LIBRARY=none)
    assert "cannot load libkiln_cudnn.so, which runs convolution for this model" in said
    assert "KILN_CUDNN_LIBRARY says where it is" in said
    said = run(model, KILN_LIBCUDNN=none)
    assert "convolution: cannot load cuDNN: " in said and "pip install nvidia-cudnn-cu13" in said
    for version, problem in (
        ("8907", "convolution: cuDNN 8 is too old: this needs 9.10 or newer"),
        ("90900", "convolution: cuDNN 9.9 is too old: this needs 9.10 or newer"),
        ("92000", "attention: cuDNN 9.20 is too old for attention: this needs 9.21 or newer"),
        ("100000", "convolution: cuDNN 10.0 is too new: this needs version 9"),
    ):
        assert problem in run(model, KILN_EMULATOR_CUDNN=version)
    assert "has no function cudnnGetVersion" in run(model, KILN_LIBCUDNN=str(LIBRARY))
    for name, what in (("convolution", "a convolution"), ("attention", "attention")):
        said = run(model, KILN_EMULATOR_CUDNN_WITHOUT=name)
        assert f"{name}: cuDNN 9.28 has no engine for {what} of these sizes: CUDNN_STATUS_NOT_SUPPORTED (no engine for these sizes)" in said
