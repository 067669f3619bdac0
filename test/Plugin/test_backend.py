"""Plug-ins (docs/plugins.md): examples/plugin-backend, built outside of the tree against an installed Kiln, writes C that computes what
PyTorch computes and refuses by name what it has no code for; and a library that is no plug-in for this compiler is an error that says why."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build"))
# The same folder each time: an object that is up to date is not compiled again.
WORK = BUILD / "test" / "Plugin" / "packaged"
PREFIX = WORK / "root" / "usr"
sys.path.insert(0, str(ROOT / "python"))

import kiln  # noqa: E402

VERSION = (ROOT / "VERSION").read_text().strip()


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def checked(*command):
    done = run(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def build_plugin(source, name):
    build = WORK / name
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache')}"] if shutil.which("ccache") else []
    checked("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={PREFIX}", *launcher)
    checked("cmake", "--build", build)
    return build / f"{name}.so"


@pytest.fixture(scope="module")
def plugin():
    checked(ROOT / "test" / "install" / "packages.sh", BUILD, PREFIX.parent)
    return build_plugin(ROOT / "examples" / "plugin-backend", "kiln-c")


@pytest.fixture(scope="module")
def mistakes(plugin):
    return build_plugin(ROOT / "test" / "Plugin" / "mistakes", "mistakes")


def aot_compile(*arguments, **options):
    return run(PREFIX / "bin" / "aot-compile", *arguments, **options)


def export(module, inputs, folder, shapes=None):
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(module.eval(), inputs, dynamic_shapes=shapes), path)
    return path


class CModel:
    """A C file, compiled, with the sizes of its inputs' shapes."""

    def __init__(self, plugin, module, inputs, folder, shapes=None, options=""):
        model = export(module, inputs, folder, shapes)
        # A library that is loaded already would not be loaded again.
        source, library = folder / "model.c", folder / f"model-{len(list(folder.iterdir()))}.so"
        load = f"--load-plugin={plugin}"
        done = aot_compile(load, f"--target=c{options}", model, "-o", source)
        assert done.returncode == 0, done.stderr
        self.text = source.read_text()
        checked(
            "cc",
            "-std=c99",
            "-pedantic",
            "-Wall",
            "-Werror",
            "-Wno-unused",
            "-O2",
            "-ffp-contract=off",
            "-shared",
            "-fPIC",
            source,
            "-o",
            library,
            "-lm",
        )
        self.library = ctypes.CDLL(library)
        self.info = json.loads(aot_compile(model, "--emit=json", "-o", "-").stdout)
        self.weights = None
        if "weights=file" in options:
            data = (folder / "model.c.weights").read_bytes()
            self.weights = aligned(len(data))
            ctypes.memmove(self.weights.data_ptr(), data, len(data))
        self.symbols = re.findall(r"int64_t sym_(\w+)", re.search(r"^int64_t (\w+)_arena_bytes\((.*)\)", self.text, re.MULTILINE).group(2))

    def __call__(self, *inputs, outputs):
        sizes = {}
        for given, declared in zip(inputs, self.info["inputs"], strict=True):
            sizes |= {name: size for name, size in zip(declared["shape"], given.shape, strict=True) if isinstance(name, str)}
        symbols = [ctypes.c_int64(sizes[name]) for name in self.symbols]
        count = self.library.model_arena_bytes
        count.restype = ctypes.c_int64
        arena = aligned(count(*symbols))

        def pointers(tensors):
            return (ctypes.c_void_p * (len(tensors) + 1))(*(tensor.data_ptr() for tensor in tensors))

        weights = [] if self.weights is None else [ctypes.c_void_p(self.weights.data_ptr())]
        return self.library.model(pointers(inputs), pointers(outputs), ctypes.c_void_p(arena.data_ptr()), *weights, *symbols)

    def check(self, module, *inputs, **tolerance):
        expected = module(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        # Every element is written, at the strides that it has in eager mode.
        outputs = [torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).fill_(77) for value in expected]
        assert self(*inputs, outputs=outputs) == 0
        for got, value in zip(outputs, expected, strict=True):
            torch.testing.assert_close(got, value, equal_nan=True, **tolerance)


def aligned(size):
    """Bytes at a multiple of 64, none of them 0."""
    memory = torch.full((size + 64,), 171, dtype=torch.uint8)
    return memory[-memory.data_ptr() % 64 :][:size]


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(16, 32)
        self.outer = torch.nn.Linear(32, 10)

    def forward(self, x):
        return torch.softmax(self.outer(torch.relu(self.inner(x))), dim=-1)


def test_static_mlp(plugin, tmp_path):
    x = torch.randn(5, 16)
    x[0, 0], x[1, 0] = float("nan"), float("inf")
    for options in ("", "{weights=file}"):
        module = Mlp()
        model = CModel(plugin, module, (x,), tmp_path, options=options)
        model.check(module, x)
        assert "node 'linear' (test_backend.py:" in re.sub(r"/\S*/", "", model.text)
        # The data of the weights is in one place alone.
        assert ("constant_0_float" in model.text) == (options == "")


def test_dynamic_shapes(plugin, tmp_path):
    n, k = torch.export.Dim("n", min=0, max=40), torch.export.Dim("k", min=1, max=64)

    class Attend(torch.nn.Module):
        def forward(self, x, y):
            scores = torch.softmax(x @ y.T / x.shape[1] ** 0.5, dim=-1)
            return scores @ y, torch.nn.functional.layer_norm(x, (x.shape[1],)), x.mean(dim=0), y.argmax(dim=1)

    model = CModel(plugin, Attend(), (torch.randn(3, 8), torch.randn(7, 8)), tmp_path, ({0: n, 1: k}, {1: k}))
    for rows, columns in ((3, 8), (1, 1), (0, 5), (40, 64)):
        model.check(Attend(), torch.randn(rows, columns), torch.randn(7, columns), rtol=1e-4, atol=1e-5)
    outside = (torch.randn(41, 8), torch.randn(7, 8))
    assert model(*outside, outputs=[torch.empty_like(value) for value in Attend()(*outside)]) == 1


class Views(torch.nn.Module):
    def forward(self, x, index):
        a = x[1:, ::2].transpose(0, 1)
        b = torch.cat([x.flip(0), torch.nn.functional.pad(x, (0, 0, 1, 0))[:-1] * 2], dim=1)
        c, d = b.reshape(-1).view(2, -1).split(x.shape[0] // 2 * x.shape[1] // 2, dim=1)[:2]
        return a, b.contiguous(), c.clone(), d + 1, x[index], x.expand(2, -1, -1).sum(dim=(0, 2)), torch.empty(0, 3).expand(0, 3) + 1


def test_views(plugin, tmp_path):
    x, index = torch.randn(4, 6), torch.tensor([3, 0, 3])
    model = CModel(plugin, Views(), (x, index), tmp_path)
    model.check(Views(), x, index)
    # An index that data gives is looked at.
    for bad in (4, -5):
        assert model(x, torch.tensor([0, bad, 1]), outputs=[torch.empty_like(value) for value in Views()(x, index)]) != 0


class Scalars(torch.nn.Module):
    """Many ops that a body may hold, on each type."""

    def forward(self, x, y, i, j, b):
        floats = (
            torch.where(x > y, x.exp(), y.sigmoid()),
            x.tanh() + torch.erf(y),
            torch.maximum(x, y),
            torch.clamp(x, -1, 1),
            x.abs().log1p(),
        )
        rounded = (
            x.floor(),
            x.round(),
            x.trunc(),
            torch.fmod(x, 3),
            torch.remainder(x, 3),
            x.sign(),
            x.isnan(),
            x.isfinite(),
            torch.copysign(x, y),
        )
        integers = i + j, i * j, i - j, i // 7, i % 7, i & j, i ^ j, ~i, i.abs(), torch.minimum(i, j), i << 2, i >> 1, -i, (i > j) ^ b
        mixed = (
            x.clamp(-100, 100).to(i.dtype),
            i.to(x.dtype),
            b.to(x.dtype),
            b.sum(),
            i.sum(),
            b.any(),
            x.amax(dim=0),
            x.pow(3),
            torch.atan2(x, y),
            x.double() / 3,
        )
        return (*floats, *rounded, *integers, *mixed)


@pytest.mark.parametrize(
    "dtype, integer",
    [(torch.float32, torch.int32), (torch.float64, torch.int64), (torch.float32, torch.int8), (torch.float32, torch.uint8)],
)
def test_scalar_ops(plugin, tmp_path, dtype, integer):
    torch.manual_seed(0)
    x, y = torch.randn(6, 9, dtype=dtype) * 4, torch.randn(6, 9, dtype=dtype)
    x[0, :6] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.5, -2.5])
    info = torch.iinfo(integer)
    i, j = (torch.randint(info.min, info.max, (6, 9), dtype=integer) for _ in range(2))
    i[0, 0], j[0, 0] = info.min, info.min
    x[0, 0:1] = 1 if integer == torch.uint8 else x[0, 0:1]

    class Finite(Scalars):
        # The integer of a NaN is nobody's.
        def forward(self, x, y, i, j, b):
            every = super().forward(x, y, i, j, b)
            return (*every[:28], x.nan_to_num(0).clamp(0, 100).to(i.dtype), *every[29:])

    inputs = (x, y, i, j, i > j)
    CModel(plugin, Finite(), inputs, tmp_path).check(Finite(), *inputs)


def test_convolution_and_state(plugin, tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return torch.max_pool2d(torch.relu(self.conv(x)), 2).mean(dim=(2, 3)), self.count * 1

    for options in ("", "{weights=file}"):
        net, x = Net(), torch.randn(2, 3, 11, 9)
        model = CModel(plugin, net, (x,), tmp_path, options=options)
        net.count.zero_()
        for _ in range(2):  # a buffer keeps what a run has left in it
            model.check(net, x)


class Refused(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_refuses_by_name(plugin, tmp_path):
    bits = torch.randn(3, 8)
    for function, x, node, why in (
        (lambda x: x.cumsum(0), bits, "cumsum", "no code for kernel.scan"),
        (lambda x: x.sort(dim=-1)[0], bits, "sort", "no code for kernel.sort"),
        (lambda x: x + 1, bits.bfloat16(), "add", "no type for bf16"),
        (lambda x: torch.linalg.inv(x @ x.T), bits, "linalg_inv", "no code for wrapper."),
    ):
        done = aot_compile(f"--load-plugin={plugin}", "--target=c", export(Refused(function), (x,), tmp_path), "-o", tmp_path / "refused.c")
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert f"'{node}" in done.stderr and "test_backend.py:" in done.stderr, done.stderr
        assert f"cannot be compiled for the target c: {why}" in done.stderr
        assert not (tmp_path / "refused.c").exists()


def test_passes_in_kiln_opt(plugin, tmp_path):
    model = export(Mlp(), (torch.randn(2, 16),), tmp_path)
    load = f"--load-plugin={plugin}"
    text = tmp_path / "model.mlir"
    assert aot_compile(load, model, "--emit=wrapper", "-o", text).returncode == 0
    done = checked(PREFIX / "bin" / "kiln-opt", load, "--c-comment-launches", "--mlir-print-debuginfo", text)
    before = text.read_text()
    assert done.stdout.count("wrapper.comment") - before.count("wrapper.comment") == before.count("wrapper.launch") > 0
    done = run(PREFIX / "bin" / "kiln-opt", "--load-plugin=/no/plugin.so", text)
    assert done.returncode == 1 and "kiln-opt: error: plug-in '/no/plugin.so': there is no such file" in done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--target=c{function=f colour=red}"], "no such option colour"),
        (["--target=c{weights=stone}"], "weights=stone: expected array or file"),
        (["--target=c", "--emit=so"], "--emit=so: not with --target=c"),
        (["--target=c", "--emit=llvm"], "--emit=llvm: not with --target=c"),
        (["--target=c", "--emit=fx"], "--emit=fx: not with --target=c"),
        (["--target=c", "--weights=external"], "--weights is not for --target=c"),
        (["--target=c", "--debug-print=1"], "--debug-print is not for --target=c"),
        (["--target=d"], "--target=d: expected cpu or cuda or c"),
        (["--target=c{weights=file}", "-o", "-"], "the output is in more than one file"),
    ],
)
def test_options(plugin, tmp_path, arguments, message):
    done = aot_compile(f"--load-plugin={plugin}", export(Mlp(), (torch.randn(2, 16),), tmp_path), *arguments, cwd=tmp_path)
    assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]


def refuse(plugin, message, tool="aot-compile", more=()):
    done = run(PREFIX / "bin" / tool, "--load-plugin", plugin, *more, "model.pt2")
    assert done.returncode == 1 and done.stderr.startswith(f"{tool}: error: "), done.stderr
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_is_no_plugin(plugin, tmp_path):
    refuse("missing.so", "plug-in 'missing.so': there is no such file")
    refuse(tmp_path, "cannot be loaded: ")
    text = tmp_path / "text.so"
    text.write_text("not a library")
    refuse(text, f"plug-in '{text}': cannot be loaded: ")
    refuse(plugin, "'kiln-c' adds the target 'c', which there is already", more=[f"--load-plugin={plugin}"])

    def library(kind, api=2, kiln=VERSION, llvm="22.1.0"):
        path = tmp_path / "library.so"
        checked(
            "cc",
            f"-DKIND={kind}",
            f"-DAPI={api}",
            f'-DKILN="{kiln}"',
            f'-DLLVM="{llvm}"',
            "-shared",
            "-fPIC",
            ROOT / "test/Plugin/not-a-plugin.c",
            "-o",
            path,
        )
        return path

    refuse(library(0), "not a plug-in for Kiln: it has no function kilnGetPluginInfo")
    refuse(library(1), "undefined symbol: kiln_has_no_such_function")
    refuse(library(2, api=7), "built for version 7 of the interface of plug-ins; this is version 2")
    refuse(library(2, kiln="0.0.1"), f"built for Kiln 0.0.1; this is {VERSION}")
    refuse(library(2, llvm="21.0.0"), "built for LLVM 21.0.0; this is 22.1")
    llvm = re.search(r"LLVM ([\d.]+)", aot_compile("--version").stdout).group(1)
    refuse(library(2, llvm=llvm), "its kilnGetPluginInfo says nothing")


def test_machine_code(mistakes, tmp_path):
    class Scores(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x, dim=-1)

    x, output = torch.randn(5, 7), tmp_path / "model.so"
    model = export(Scores(), (x,), tmp_path, ({0: torch.export.Dim("n")},))
    done = aot_compile(f"--load-plugin={mistakes.parent / 'scratch.so'}", "--target=scratch{rows=3}", model, "-o", output)
    assert done.returncode == 0 and "#scratch.rows<3>" in done.stdout, done.stderr
    torch.testing.assert_close(torch.from_dlpack(kiln.load(output)(x)), Scores()(x))
    # Loaded and not used: the same model as without it.
    other = tmp_path / "other.so"
    checked(PREFIX / "bin" / "aot-compile", f"--load-plugin={mistakes.parent / 'scratch.so'}", model, "-o", output)
    checked(BUILD / "bin" / "aot-compile", model, "-o", other)
    assert output.read_bytes() == other.read_bytes()


def test_mistakes(mistakes, tmp_path):
    model = export(Mlp(), (torch.randn(2, 16),), tmp_path)

    def mistake(kind, *arguments):
        return aot_compile(f"--load-plugin={mistakes}", *arguments, env={**os.environ, "MISTAKE": kind}, cwd=tmp_path)

    for kind, message in (
        ("nothing", "'mistakes' adds nothing"),
        ("pass", "'mistakes' adds the pass 'kernel-outline', which there is already"),
        ("dialect", "'mistakes' adds the dialect 'kernel', which there is already"),
        ("target", "'mistakes' adds the target 'cuda', which there is already"),
        ("twice", "'mistakes' adds the target 'mistaken', which there is already"),
        ("generator", "'mistakes' adds the external code generator 'c', which there is already"),
        ("empty generator", "'mistakes' adds an external code generator without a name or a function that makes it"),
        ("no function", "'mistakes' adds a target without a name or a function that makes it"),
    ):
        done = mistake(kind, model)
        assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    for kind, status, message in (
        ("silent", 1, "mistaken failed without saying why"),
        ("no output", 1, "the target mistaken has written nothing"),
        ("folder", 1, "/no/such/folder"),
        ("crash", 2, "internal error"),
    ):
        done = mistake(kind, "--target=mistaken", model)
        assert done.returncode == status and message in done.stderr, done.stderr
        assert not (tmp_path / "model.txt").exists()
    assert mistake("two files", "--target=mistaken", model).returncode == 0
    assert (tmp_path / "model.txt").read_text() == "output" and (tmp_path / "model.txt.more").read_text() == "more"
    assert mistake("one file", "--target=mistaken", model, "-o", "-").stdout == "output"
