"""The external code generator `cublas`: products on GPUs through cuBLASLt, in the emulator with one that computes with plain loops."""

import re

import numpy
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import test_cuda_device
from conftest import BUILD, EMULATED, EMULATOR, assert_user_error, run_on_ones, run_tool

CUBLASLT = EMULATOR.parent / "libcublasLt.so.13"
LIBRARY = BUILD / "lib" / "libkiln_cublas.so"
EXTERN = (*EMULATED, "--extern=cublas{workspace=65536}")
FINITE = (*EMULATED, "--extern=cublas{workspace=65536 finite=true}")


@pytest.fixture(autouse=True)
def libraries(monkeypatch):
    monkeypatch.setattr("conftest.TARGET", ())
    monkeypatch.setenv("KILN_CUBLAS_LIBRARY", str(LIBRARY))
    monkeypatch.setenv("KILN_CUBLASLT_LIBRARY", str(CUBLASLT))


@pytest.fixture
def log(emulated_calls):
    """A function that returns the products that the emulator has computed since the last call."""
    return lambda: emulated_calls("cublasLtMatmul")


class Products(nn.Module):
    """Products with every epilogue, with batches, and with weights in either order."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(24, 40), nn.Linear(40, 24, bias=False), nn.Linear(24, 8)
        self.weights, self.bias = nn.Parameter(torch.randn(24, 12)), nn.Parameter(torch.randn(12))

    def forward(self, x):
        y = x + self.b(F.gelu(self.a(x), approximate="tanh"))
        rows = y.flatten(0, 1)
        return F.relu(self.c(y)), torch.bmm(y, y.transpose(1, 2)), torch.addmm(self.bias, rows, self.weights), F.relu(x + self.b(self.a(y)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("options", [EXTERN, FINITE])
def test_products(compile_model, log, options, dtype):
    """In dtypes of 16 bits cuBLASLt rounds at the end, eager between the product, the sum and the function."""
    torch.manual_seed(0)
    n = Dim("n", min=0, max=32)
    compiled = compile_model(Products().to(dtype), (torch.randn(3, 5, 24, dtype=dtype),), {"x": {1: n}}, options)
    tolerances = {torch.float32: (1e-4, 1e-5), torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 1e-1)}[dtype]
    for rows in (5, 1, 32, 0):
        log()
        compiled.check((torch.randn(3, rows, 24, dtype=dtype),), *tolerances)
        products = log()
        assert len(products) == (7 if rows else 0), products
        if rows == 5:
            epilogues = sorted(re.findall(r"epilogue (\d+) beta (\d)", " ".join(products)))
            relu = [("2", "1"), ("6", "0")] if options is FINITE else [("1", "1"), ("4", "0")]
            assert epilogues == sorted([("36", "0"), ("1", "1"), ("1", "0"), ("4", "0"), ("4", "0"), *relu]), epilogues
            assert "5 x 5 x 24 batch 3 epilogue 1 beta 0 algorithm 0" in products
    if options is EXTERN:
        special = torch.randn(3, 5, 24, dtype=dtype)
        special[0, 0, 0], special[1, 2, 3], special[2, 1, 0] = float("nan"), float("inf"), -float("inf")
        compiled.check((special,), *tolerances)


def test_search(compile_model, log):
    """The first run with some sizes times the algorithms, of which the emulator's last one is the fastest."""
    compiled = compile_model(
        nn.Linear(24, 8),
        (torch.randn(5, 24),),
        {"input": {0: Dim("n", min=1, max=32)}},
        (*EMULATED, "--extern=cublas{search=8 workspace=65536}"),
    )
    for rows, runs in ((5, 3 * 4 + 1), (5, 1), (9, 3 * 4 + 1)):
        log()
        compiled.check((torch.randn(rows, 24),), 1e-4, 1e-5)
        products = log()
        assert len(products) == runs and products[-1].endswith("algorithm 2"), products


# A product of tensors on the GPU, 4 bytes behind where memory begins, once as it is and once in a graph of the caller's.
ON_THE_GPU = """
x = numpy.random.default_rng(0).standard_normal((5, 24)).astype("float32")
expected = x @ numpy.load(sys.argv[1] + ".npy").T
shifted, target = put(numpy.concatenate([[9], x.ravel()]).astype("float32")), put(numpy.zeros(41, "float32"))
inputs, outputs = [tensor(shifted + 4, x.shape)], [tensor(target + 4, (5, 8))]
stream, graph, made = C.c_void_p(), C.c_void_p(), C.c_void_p()
assert driver.cuStreamCreate(C.byref(stream), 1) == 0

def check():
    got = get(target, 41)
    assert driver.cuMemcpyHtoD_v2(C.c_ulonglong(target), numpy.zeros(41, "float32").ctypes.data_as(C.c_void_p), C.c_size_t(164)) == 0
    assert driver.cuStreamSynchronize(None) == 0
    return bool(got[0] == 0 and numpy.allclose(got[1:].reshape(5, 8), expected, 1e-4, 1e-5))

assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
run(model, inputs, outputs, stream=stream)
assert driver.cuStreamEndCapture(stream, C.byref(graph)) == 0
assert driver.cuGraphInstantiateWithFlags(C.byref(made), graph, C.c_ulonglong(0)) == 0
checks = [check()]
for _ in range(2):
    assert driver.cuGraphLaunch(made, stream) == 0
    assert driver.cuStreamSynchronize(stream) == 0
    checks.append(check())
run(model, inputs, outputs, stream=stream)
assert driver.cuStreamSynchronize(stream) == 0
print(json.dumps([*checks, check()]))
"""


def test_on_the_gpu(compile_model, log):
    """A captured run times nothing; the next one does. cuBLASLt is told how tensors are aligned: the emulator looks."""
    compiled = compile_model(
        nn.Linear(24, 8, bias=False), (torch.randn(5, 24),), None, (*EMULATED, "--extern=cublas{search=2 workspace=65536}")
    )
    numpy.save(f"{compiled.path}.npy", compiled.module.weight.detach().numpy())
    assert test_cuda_device.execute(compiled, ON_THE_GPU) == [False, True, True, True]
    products = log()
    assert len(products) == 1 + 2 * 4 + 1 and products[0].endswith("algorithm 0") and products[-1].endswith("algorithm 1"), products


def test_without_workspace(compile_model):
    compiled = compile_model(nn.Linear(24, 8), (torch.randn(5, 24),), None, (*EMULATED, "--extern=cublas{workspace=0}"))
    compiled.check((torch.randn(5, 24),), 1e-4, 1e-5)


def run(path, **environment):
    return run_on_ones(path, (2, 4), "float32", environment)


@pytest.fixture
def archive(tmp_path):
    torch.export.save(torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),)), tmp_path / "x.pt2")
    return tmp_path / "x.pt2"


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (("--extern=cublas",), "--extern: cublas computes with --target=cuda, and the model is for --target=cpu"),
        ((*EMULATED, "--extern=onednn{elsewhere=true}"), "--extern: onednn computes with --target=cpu, and the model is for --target=cuda"),
        ((*EMULATED, "--extern=cublas{search=0}"), "--extern: cublas: search=0: expected 1 to 64 algorithms"),
        ((*EMULATED, "--extern=cublas{workspace=-1}"), "--extern: cublas: workspace=-1: expected 0 to 1073741824 bytes"),
    ],
)
def test_refused_options(archive, arguments, problem):
    assert_user_error(run_tool("aot-compile", archive, *arguments), problem)


def test_libraries(archive, tmp_path):
    """A library that is missing or too old, or that has no code for a product."""
    process = run_tool("aot-compile", archive, "-o", tmp_path / "x.so", *EXTERN)
    assert process.returncode == 0, process.stderr
    model, none = tmp_path / "x.so", str(tmp_path / "none.so")
    assert run(model) == ""
    said = run(model, KILN_CUBLAS_LIBRARY=none)
    assert "cannot load libkiln_cublas.so, which runs matmul for this model" in said
    assert "KILN_CUBLAS_LIBRARY says where it is" in said
    said = run(model, KILN_CUBLASLT_LIBRARY=none)
    assert "matmul: cannot load cuBLASLt: " in said and "pip install nvidia-cublas" in said
    assert "matmul: cuBLASLt 11.5 is too old: this needs 12.0 or newer" in run(model, KILN_EMULATOR_CUBLASLT="11501")
    said = run(model, KILN_EMULATOR_CUBLASLT_WITHOUT="4")
    assert re.search(r"matmul: cuBLASLt 13.0: cublasLtMatmulAlgoGetHeuristic: it has no code for these sizes \(status 15\)", said)
    assert "has no function cublasLtGetVersion" in run(model, KILN_CUBLASLT_LIBRARY=str(LIBRARY))
