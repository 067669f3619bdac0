"""Fixtures of the end-to-end tests: export a module, compile it, run it through the C ABI, compare with eager PyTorch."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build"))
BIN = BUILD / "bin"
os.environ["KILN_COMPILER"] = str(BIN / "aot-compile")
for folder in ("python", "bench", "test"):
    if str(ROOT / folder) not in sys.path:
        sys.path.insert(0, str(ROOT / folder))

# PyTorch 2.13 convolves bf16 by 4x4 windows wrongly in tiles (AMX), and spreads NaN of one row over others.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# KILN_TEST_TARGET=cuda runs every test on the GPU's kernels, in the emulator (docs/cuda.md).
EMULATOR = BUILD / "test" / "Targets" / "CUDA" / "emulator" / "libcuda.so.1"
os.environ.setdefault("KILN_CUDA_DRIVER", str(EMULATOR))
EMULATED = ("--target=cuda", "--gpu-arch=emulator")
PTXAS = (
    os.environ.get("PTXAS")
    or shutil.which("ptxas")
    or ("/usr/local/cuda/bin/ptxas" if os.path.exists("/usr/local/cuda/bin/ptxas") else None)
)
TARGET = EMULATED if os.environ.get("KILN_TEST_TARGET") == "cuda" else ()
# KILN_TEST_PACKAGE=DIR keeps the programs there, compiled for a GPU, for bench/gpu/replay.py to run on one.
PACKAGE = os.environ.get("KILN_TEST_PACKAGE")

# Options for CPUs whose instructions for tiles are calls of functions, in vectors of two widths between them.
TILES = {
    f"{cpu}-tiles": (f"--cpu={cpu},+emulated-amx", f"--link={BUILD / 'test' / 'Targets' / 'CPU' / 'libtiles.a'}")
    for cpu in ("native", "x86-64-v3")
}


def cpu_options(cpu):
    """Options of aot-compile for the name of a CPU, or of one of TILES."""
    return TILES.get(cpu, (f"--cpu={cpu}",))


import machine_code  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from ptxas_reports import find_problems  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from guarded import GuardedModel  # noqa: E402

torch.set_num_threads(1)  # the test runner already uses every core


@pytest.fixture(autouse=True)
def loaded_variants(tmp_path_factory, monkeypatch):
    """A kernel for Hopper that does not load is no failure of the model, which takes the one for all GPUs; but it is one of the test."""
    log = tmp_path_factory.getbasetemp() / "cuda.log"
    monkeypatch.setenv("KILN_CUDA_LOG", str(log))
    yield
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    refused = [line for line in lines if '"not_loaded"' in line and '"variant": true' in line]
    assert not refused, refused


def run_tool(tool, *arguments, cwd=None, timeout=300, env=None):
    """Runs a tool of the build and returns the finished process with its text output."""
    command = [str(BIN / tool), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", cwd=cwd, timeout=timeout, env={**os.environ, **(env or {})}
    )


def assert_user_error(process, *parts):
    """The process refused its input as a user error: status 1 and one line that holds every one of `parts`."""
    assert process.returncode == 1, (process.returncode, process.stderr[-2000:])
    lines = process.stderr.splitlines()
    assert len(lines) == 1, process.stderr[-2000:]
    assert lines[0].startswith("aot-compile: error: "), lines[0]
    for part in parts:
        assert str(part) in lines[0], lines[0]


def leaves(value):
    """Everything in a nested result but None, in order."""
    return [leaf for leaf in pytree.tree_leaves(value) if leaf is not None]


def clone(value):
    """A copy of every tensor, in memory of the same strides."""

    def one(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.is_conj() or leaf.is_neg():
            return leaf.clone()
        storage = leaf.untyped_storage().clone()
        return torch.empty(0, dtype=leaf.dtype).set_(storage, leaf.storage_offset(), leaf.shape, leaf.stride())

    return pytree.tree_map(one, value)


def assert_strides(actual, recorded):
    """`actual` has the strides that export recorded, where they mean something."""
    for size, stride, expected in zip(actual.shape, actual.stride(), recorded.stride()):
        if size > 1 and isinstance(expected, int) and expected > 0:
            assert stride == expected, (actual.stride(), recorded.stride())


def assert_assembles(archive, folder, options=(), architectures="sm_80,sm_90"):
    """ptxas makes machine code of all kernels, which keep what they hold in registers; none of that is touched before a product of a
    warpgroup is done with it. Returns the folder of what is on the way."""
    temps = folder / "gpu"
    process = run_tool(
        "aot-compile", archive, "-o", folder / "gpu.so", "--target=cuda", f"--gpu-arch={architectures}", f"--save-temps={temps}", *options
    )
    assert process.returncode == 0 and not process.stderr, process.stderr
    assert not (problems := find_problems(temps, kept="")), problems
    asynchronous = [ptx.with_suffix(".cubin") for ptx in temps.glob("*.ptx") if "wgmma.mma_async" in ptx.read_text()]
    functions = [each for cubin in asynchronous for each in machine_code.disassemble(cubin)] if machine_code.find_nvdisasm() else []
    assert not (faults := [f"{each.name}: {fault}" for each in functions for fault in machine_code.find_faults(each)]), faults
    return temps


def run_on_blackwell(compiled, log, monkeypatch, examples, tolerance):
    """The same model where the compute capability is 10.0. Returns the names of those that have kernels of its own, which ran; none of
    Hopper's did."""
    log.unlink(missing_ok=True)
    with monkeypatch.context() as other:
        other.setenv("KILN_EMULATOR_CAPABILITY", "100")
        compiled.model = GuardedModel(compiled.path)
        for inputs in examples:
            compiled.check(inputs, tolerance, 2 * tolerance)
    text = log.read_text()
    assert "sm_90a" not in text, text
    return set(re.findall(r"launch (\w+)_sm_100a grid ", text))


class Package:
    """A folder of KILN_TEST_PACKAGE: a model for a GPU, and calls of it with their results."""

    def __init__(self, archive, options, module):
        self.parameters = list(module.parameters())
        self.compiled_with = clone(self.parameters)
        test = re.sub(r"\W+", "-", os.environ["PYTEST_CURRENT_TEST"].split("/")[-1].removesuffix(" (call)"))
        number = next(i for i in range(1 << 20) if not (pathlib.Path(PACKAGE) / f"{test}.{i}").exists())
        self.folder, self.calls = pathlib.Path(PACKAGE) / f"{test}.{number}", 0
        self.folder.mkdir(parents=True)
        options = [option for option in options if not option.startswith(("--target", "--gpu-arch", "--cpu", "--extern=onednn", "--link"))]
        process = run_tool(
            "aot-compile", archive, "-o", self.folder / "model.so", *(TARGET or ("--target=cuda", "--gpu-arch=sm_90")), *options
        )
        self.is_compiled = process.returncode == 0

    def add(self, inputs, expected, written, rtol, atol):
        """`written`: the inputs behind the call. Calls with weights that a test has replaced are left out."""
        if self.is_compiled and all(map(torch.equal, self.parameters, self.compiled_with)):
            call = {"inputs": inputs, "expected": expected, "written": written, "rtol": rtol, "atol": atol}
            torch.save(call, self.folder / f"{self.calls}.pt")
            self.calls += 1


class Compiled:
    """An exported program and the model compiled from it."""

    def __init__(self, module, inputs, folder, dynamic_shapes=None, options=(), threads=0):
        folder.mkdir(parents=True, exist_ok=True)
        with torch.no_grad():
            self.program = torch.export.export(module, clone(inputs), dynamic_shapes=dynamic_shapes)
        self.module, self.folder, self.options, self.threads = module, folder, options, threads
        self.compile("model")
        self.package = Package(self.archive, options, module) if PACKAGE else None

    def compile(self, name):
        self.archive, self.path = self.folder / f"{name}.pt2", self.folder / f"{name}.so"
        torch.export.save(self.program, self.archive)
        process = run_tool("aot-compile", self.archive, "-o", self.path, *TARGET, *self.options)
        assert process.returncode == 0, process.stderr[-4000:]
        if os.environ.get("KILN_TEST_PTXAS"):
            options = [option for option in self.options if not option.startswith(("--target", "--gpu-arch"))]
            assert_assembles(self.archive, self.folder, options)
        self.model = GuardedModel(self.path, self.threads)

    def decompose(self):
        """Compiles what `run_decompositions` makes of the program in its place."""
        self.program = self.program.run_decompositions()
        self.compile("decomposed")

    def recorded_outputs(self):
        (output,) = [node for node in self.program.graph.nodes if node.op == "output"]
        kinds = [spec.kind.name for spec in self.program.graph_signature.output_specs]
        return [
            node.meta.get("val") if node is not None and hasattr(node, "meta") else node
            for node, kind in zip(output.args[0], kinds)
            if kind == "USER_OUTPUT"
        ]

    def check(self, inputs, rtol, atol):
        eager_inputs, inputs = clone(inputs), clone(inputs)
        with torch.no_grad():
            expected = [
                torch.as_tensor(
                    want,
                    dtype=None if isinstance(want, (torch.Tensor, bool)) else torch.float64 if isinstance(want, float) else torch.int64,
                )
                for want in leaves(self.module(*eager_inputs))
            ]
        flat = list(leaves(inputs))
        if self.package:
            self.package.add(clone(flat), expected, leaves(eager_inputs), rtol, atol)
        actual = [output for output in self.model.run(flat) if output is not None]
        self.model.allocator.check()
        assert len(actual) == len(expected)
        for got, want in zip(actual, expected):
            torch.testing.assert_close(torch.as_tensor(got), want, rtol=rtol, atol=atol, equal_nan=True)
        for got, recorded in zip(actual, (r for r in self.recorded_outputs() if r is not None)):
            if isinstance(recorded, torch.Tensor) and isinstance(got, torch.Tensor):
                assert_strides(got, recorded)
        for after, expected_after in zip(flat, leaves(eager_inputs)):
            if isinstance(after, torch.Tensor):
                torch.testing.assert_close(after, expected_after, rtol=rtol, atol=atol, equal_nan=True)
        return actual


@pytest.fixture
def compile_model(tmp_path):
    """compile_model(module, inputs, dynamic_shapes=None, options=(), threads=0) -> Compiled"""
    count = iter(range(1 << 20))

    def compile_one(module, inputs, dynamic_shapes=None, options=(), threads=0):
        return Compiled(module.eval(), inputs, tmp_path / f"compiled-{next(count)}", dynamic_shapes, options, threads)

    return compile_one


@pytest.fixture
def compile_and_compare(compile_model):
    """Compiles a module and compares it with eager on `inputs` and on each tuple of `more_inputs`."""

    def compare(module, inputs, dynamic_shapes=None, rtol=1e-5, atol=1e-5, more_inputs=(), options=(), threads=0):
        compiled = compile_model(module, inputs, dynamic_shapes, options, threads)
        for one in (inputs, *more_inputs):
            compiled.check(one, rtol, atol)
        return compiled

    return compare


class Calls(torch.nn.Module):
    """Applies a function to each of several tuples of arguments: one compilation tests an operator on many shapes.

    Tensors among the arguments are inputs of the module, everything else is baked in. Modules that the function uses are
    given as `modules`, so that their weights become constants."""

    def __init__(self, function, cases, modules=()):
        super().__init__()
        self.modules_used = torch.nn.ModuleList(modules)
        self.function, self.cases = function, cases

    def inputs(self):
        return tuple(value for case in self.cases for value in case if isinstance(value, torch.Tensor))

    def forward(self, *tensors):
        remaining = iter(tensors)
        return [self.function(*(next(remaining) if isinstance(value, torch.Tensor) else value for value in case)) for case in self.cases]


@pytest.fixture
def check_calls(compile_and_compare):
    """check_calls(function, [arguments...], modules=(), **tolerances): compares each call with eager."""

    def check(function, *cases, modules=(), **tolerances):
        torch.manual_seed(0)
        module = Calls(function, [case if isinstance(case, tuple) else (case,) for case in cases], modules)
        return compile_and_compare(module, module.inputs(), **tolerances)

    return check


class Mlp(torch.nn.Module):
    """The smallest model that goes through every stage."""

    def __init__(self, sizes=(6, 8, 4)):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


@pytest.fixture(scope="session")
def small_mlp(tmp_path_factory):
    """A compiled 6-8-4 MLP at batch 3, shared by the tests that need any model at all."""
    torch.manual_seed(0)
    return Compiled(Mlp().eval(), (torch.randn(3, 6),), tmp_path_factory.mktemp("mlp"))


@pytest.fixture
def compile_file(small_mlp, tmp_path):
    """compile_file(*options, name="model.so") -> path of the output; fails the test when the compiler does."""

    def run(*options, name="model.so"):
        output = tmp_path / name
        process = run_tool("aot-compile", small_mlp.archive, "-o", output, *options)
        assert process.returncode == 0, process.stderr
        return output

    return run


def assert_saved_function(path, function, inputs, folder):
    """What torch.compile has saved computes what `function` does, backward too, without a compiler and without a cache."""
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KILN_CACHE_DIR", str(folder / "elsewhere"))
        patch.setenv("PATH", "")
        with open(path, "rb") as file:
            loaded = torch.compiler.load_compiled_function(file)
        torch.testing.assert_close(loaded(*inputs), function(*inputs))
        (actual,) = torch.autograd.grad(loaded(*inputs)[0].sum(), inputs[:1])
    torch.testing.assert_close(actual, *torch.autograd.grad(function(*inputs)[0].sum(), inputs[:1]))


@pytest.fixture
def emulated_calls(tmp_path, monkeypatch):
    """A function that returns what the emulator has logged of a kind of call since it was asked last."""
    path = tmp_path / "emulator.log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(path))

    def calls(kind):
        text = path.read_text() if path.exists() else ""
        path.write_text("")
        return re.findall(f"^{kind} (.*)$", text, re.M)

    return calls


def run_on_ones(path, shape, dtype, environment):
    """What loading a model and running it on ones says, in a process of its own with these variables, too."""
    code = f"import kiln, numpy; kiln.load('{path}')(numpy.ones({shape}, numpy.{dtype}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment).stderr


def unseal_results(path):
    """A file of times that aot-tune or the cache has written: a hash, and JSON."""
    hash, text = path.read_text().split("\n", 1)
    assert hash == hashlib.sha256(text.encode()).hexdigest()
    return json.loads(text)


def pack_gpu_bench(out, programs, rungs):
    """Makes the package of bench/gpu with tiny programs, those and the ladder's rungs whose names match."""
    command = [sys.executable, ROOT / "bench" / "gpu" / "pack.py", "--tiny", "--out", out, "--compiler", BIN / "aot-compile"]
    process = subprocess.run([*command, "--only", programs, "--ladder", rungs], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-3000:]
    return process
