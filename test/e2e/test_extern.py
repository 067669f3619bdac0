"""External code generators (--extern): C functions that files declare, and what a plug-in's generator makes. docs/extern.md"""

import re
import subprocess
import sys

import pytest
import torch
from torch.export import Dim

import kiln
from conftest import BUILD, EMULATED, ROOT, assert_user_error, run_tool

EXAMPLE = ROOT / "examples" / "table-lookup"
PLUGIN = BUILD / "test" / "Extern" / "extern-test.so"
CC = ["cc", "-std=gnu99", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]

sys.path.insert(0, str(EXAMPLE))
from export import Decode  # noqa: E402

SCALE = """func.func private @scale(%x: tensor<?xf32, #sym.shape<[n]>>) -> tensor<?xf32, #sym.shape<[n]>>
    attributes {kernel.extern = {symbol = "extern_scale", workspace = #sym.expr<4*n>, where = [#sym.expr<k - 1>], args = [#sym.arg<0>, #sym.expr<k>]}} {
  %0 = torch.call "kilne.scale.default"(%x) args = [#sym.arg<0>, #sym.expr<k>] {node = "", names = ["x", "k"]} : (tensor<?xf32, #sym.shape<[n]>>) -> tensor<?xf32, #sym.shape<[n]>>
  return %0 : tensor<?xf32, #sym.shape<[n]>>
}
"""
ADD = """func.func private @add(%x: tensor<4x5xf32>, %y: tensor<4x5xf32>) -> tensor<4x5xf32> attributes {kernel.extern = {symbol = "extern_add", writes = array<i64: 0>}} {
  %0 = torch.call "aten.add.Tensor"(%x, %y) args = [#sym.arg<0>, #sym.arg<1>, 1] {node = ""} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
"""
WAVE = """func.func private @wave(%x: tensor<4x?xf32, #sym.shape<[4, n]>>) -> (tensor<4x?xf32, #sym.shape<[4, n]>>, tensor<4x?xf32, #sym.shape<[4, n]>>)
    attributes {kernel.extern = {symbol = "extern_wave"}} {
  %0 = torch.call "aten.sin.default"(%x) args = [#sym.arg<0>] {node = ""} : (tensor<4x?xf32, #sym.shape<[4, n]>>) -> tensor<4x?xf32, #sym.shape<[4, n]>>
  %1 = torch.call "aten.cos.default"(%0) args = [#sym.arg<0>] {node = ""} : (tensor<4x?xf32, #sym.shape<[4, n]>>) -> tensor<4x?xf32, #sym.shape<[4, n]>>
  return %1, %0 : tensor<4x?xf32, #sym.shape<[4, n]>>, tensor<4x?xf32, #sym.shape<[4, n]>>
}
"""


@torch.library.custom_op("kilne::scale", mutates_args=())
def scale(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k


@scale.register_fake
def _(x, k):
    return x.new_empty(x.shape)


@pytest.fixture(scope="session")
def objects(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extern")
    for source in (ROOT / "test" / "e2e" / "extern_ops.c", EXAMPLE / "lookup.c"):
        subprocess.run([*CC, "-c", source, "-o", folder / f"{source.stem}.o"], check=True)
    return folder


@pytest.fixture(params=["cpu", "cuda"])
def target(request):
    return () if request.param == "cpu" else EMULATED


@pytest.fixture
def declare(tmp_path, objects):
    def write(text):
        path = tmp_path / "declarations.mlir"
        path.write_text(text)
        return [f"--extern=c{{declarations={path}}}", f"--link={objects / 'extern_ops.o'}"]

    return write


def emit(compiled, stage, options):
    process = run_tool("aot-compile", compiled.archive, f"--emit={stage}", "-o", "-", *options)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize("dynamic", [False, True])
def test_table_lookup(compile_model, objects, dynamic):
    """The example: its subgraph is the C function's wherever it occurs, for any number of rows."""
    options = [f"--extern=c{{declarations={EXAMPLE / 'lookup.mlir'}}}", f"--link={objects / 'lookup.o'}", "--target=cpu"]
    inputs = lambda n: (torch.randint(0, 256, (n, 64), dtype=torch.uint8), torch.randint(0, 256, (n, 32), dtype=torch.uint8))
    n = Dim("n", min=0, max=4096)
    compiled = compile_model(Decode(), inputs(5), {"codes": {0: n}, "more": {0: n}} if dynamic else None, options)
    assert emit(compiled, "wrapper", options).count('wrapper.extern_call "c" "my_lookup"') == 2
    for rows in (5, 0, 1, 300) if dynamic else (5, 5):
        compiled.check(inputs(rows), 1e-5, 1e-5)


class Selected(torch.nn.Module):
    """The number of elements is only known in a run; one operator's integer is a size."""

    def forward(self, x, y):
        positive = x[x > 0]
        return torch.ops.kilne.scale(positive + 1, 3), torch.ops.kilne.scale(y.relu(), y.shape[0])


def test_custom_operator(compile_model, declare, target):
    options = [*declare(SCALE), *target]
    compiled = compile_model(Selected(), (torch.randn(20), torch.randn(6)), {"x": None, "y": {0: Dim("n", min=1, max=50)}}, options)
    for inputs in ((torch.randn(20), torch.randn(6)), (-torch.ones(20), torch.randn(1)), (torch.ones(20), torch.randn(50))):
        compiled.check(inputs, 1e-6, 1e-6)


class Added(torch.nn.Module):
    def forward(self, x, y):
        z = x * 2
        a = z + y  # z is used afterwards: it is copied
        b = a + z
        return b + x, z


def test_alias_contract(compile_model, declare, target):
    """What is written in place is a copy where somebody reads the old value."""
    options = [*declare(ADD), *target]
    compiled = compile_model(Added(), (torch.randn(4, 5), torch.randn(4, 5)), None, options)
    assert emit(compiled, "wrapper", options).count("updates = [0]") == 3
    for _ in range(2):
        compiled.check((torch.randn(4, 5), torch.randn(4, 5)), 1e-6, 1e-6)


class Layers(torch.nn.Module):
    def forward(self, x):
        for _ in range(12):
            x = x.sin()
            x = x + x.cos()
        return x


def test_compiled_once(compile_model, declare, target):
    """Structurally equal subgraphs are one function, which --time-passes counts; results come in the declaration's order."""
    options = [*declare(WAVE), *target]
    compiled = compile_model(Layers(), (torch.randn(4, 7),), {"x": {1: Dim("n", min=1, max=50)}}, options)
    process = run_tool("aot-compile", compiled.archive, "-o", compiled.path, "--time-passes", *options)
    assert process.returncode == 0, process.stderr
    assert re.search(r"extern c: 12 subgraphs, 1 functions, 1 compiled", process.stderr)


class Neg(torch.nn.Module):
    def forward(self, x):
        return -(x + 2) + 1, -x, x.tanh()


@pytest.mark.skipif(not PLUGIN.exists(), reason="plug-ins are not built")
def test_llvm_ir(compile_model):
    """A generator of a plug-in writes LLVM IR, which becomes part of the model."""

    options = [f"--load-plugin={PLUGIN}", "--extern=test"]
    compiled = compile_model(Neg(), (torch.randn(9),), {"x": {0: Dim("n", max=50)}}, options)
    assert emit(compiled, "kernel", options).count('kernel.extern "c" "kernel_test_neg"') == 2
    for n in (9, 0, 50):
        compiled.check((torch.randn(n),), 1e-6, 1e-6)


@pytest.mark.skipif(not PLUGIN.exists(), reason="plug-ins are not built")
def test_entries(tmp_path):
    """Code that several programs of a model have in common is in it once."""
    n = Dim("n", min=2, max=50)
    for name, size, shapes in (("many", 9, ({0: n},)), ("one", 1, None)):
        torch.export.save(torch.export.export(Neg(), (torch.randn(size),), dynamic_shapes=shapes), tmp_path / f"{name}.pt2")
    named = [f"--entry={name}={tmp_path / name}.pt2" for name in ("many", "one")]
    process = run_tool("aot-compile", *named, f"--load-plugin={PLUGIN}", "--extern=test", "-o", tmp_path / "model.so")
    assert process.returncode == 0, process.stderr
    session = kiln.load(tmp_path / "model.so").session()
    for name, size in (("many", 9), ("many", 50), ("one", 1)):
        x = torch.randn(size)
        torch.testing.assert_close(session.entry(name)(x), Neg()(x))


ONE = """func.func private @f(%x: tensor<?xf32, #sym.shape<[n]>>) -> tensor<?xf32, #sym.shape<[n]>> attributes {kernel.extern = {symbol = "extern_scale"}} {
  %0 = torch.call "aten.relu.default"(%x) args = [#sym.arg<0>] {node = ""} : (tensor<?xf32, #sym.shape<[n]>>) -> tensor<?xf32, #sym.shape<[n]>>
  return %0 : tensor<?xf32, #sym.shape<[n]>>
}
"""


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "declares nothing"),
        (ONE.replace("%x: tensor", "%x tensor"), ":1:24: expected ':'"),
        (ONE.replace("relu.default", "relu.defaul"), None),
        (ONE.replace("[#sym.arg<0>]", "[#sym.arg<1>]"), ":2:8: 'torch.call' op"),
        (ONE.replace('symbol = "extern_scale"', ""), ":1:1: no `symbol`, the name of a C function"),
        (ONE.replace("extern_scale", "a-b"), ":1:1: `symbol`: expected the name of a C function"),
        (
            ONE.replace("extern_scale", "kiln_model_run"),
            ":1:1: `symbol`: expected the name of a C function, not one that begins with kiln_",
        ),
        (ONE.replace("symbol = ", "workspac = 4, symbol = "), ":1:1: `workspac`: expected symbol, workspace, where, args or writes"),
        (ONE.replace("symbol = ", "workspace = -4, symbol = "), ":1:1: `workspace`: expected a number of bytes"),
        (ONE.replace("symbol = ", "workspace = #sym.expr<m>, symbol = "), ":1:1: workspace: m is no size of an argument"),
        (ONE.replace("symbol = ", "where = [1], symbol = "), ":1:1: `where`: expected a list of #sym.expr"),
        (
            ONE.replace("symbol = ", "writes = array<i64: 1>, symbol = "),
            ":1:1: `writes`: expected arguments with the types of the last results",
        ),
        (ONE.replace("symbol = ", "args = [], symbol = "), ":1:1: `args`: "),
        (ONE.replace("return %0", "return %x"), ":3:3: a result is no tensor that the subgraph computes"),
        (ONE.replace("(%x: ", "(%y: tensor<4xf32>, %x: "), ":1:1: argument number 0 is not part of the subgraph"),
        (ONE + ONE, ":5:1: redefinition of symbol named 'f'"),
        (ONE.split(" attributes")[0], ":1:1: expected kernel.extern = {symbol = "),
    ],
)
def test_bad_declarations(tmp_path, text, problem):
    """Each mistake is one line with its line and column, found before anything is compiled."""
    path, output = tmp_path / "d.mlir", tmp_path / "model.so"
    path.write_text(text)
    program = tmp_path / "none.pt2"
    process = run_tool("aot-compile", program, "-o", output, f"--extern=c{{declarations={path}}}")
    if problem is None:  # any operator may be a custom one: the program is looked at
        assert_user_error(process, program)
    else:
        assert_user_error(process, "--extern: c: ", f"{path}{problem}" if problem.startswith(":") else problem)
    assert not output.exists()


@pytest.mark.parametrize(
    "value, problem",
    [
        ("nonsense", "no external code generator is called 'nonsense'; there are: c, onednn, cublas, cudnn"),
        ("", "expected a list of external code generators"),
        ("c", "c: expected c{declarations=FILE.mlir}"),
        ("c{declarations=}", "c: "),
        ("c{declaration=x}", "c: "),
        ("c{declarations=/nowhere.mlir}", "c: '/nowhere.mlir': there is no such file"),
        ("c{declarations=x", "a '{' without a '}'"),
        ("c}", "a '}' without a '{'"),
        ("c,,c", "expected NAME or NAME{OPTIONS} between commas"),
    ],
)
def test_bad_lists(tmp_path, value, problem):
    assert_user_error(run_tool("aot-compile", tmp_path / "none.pt2", "-o", tmp_path / "x.so", f"--extern={value}"), "--extern", problem)


def test_bad_functions(tmp_path, compile_model, declare, objects):
    """A function that the files do not define, that is none, or that says that it is declared otherwise."""
    options = declare(SCALE)
    compiled = compile_model(Selected(), (torch.randn(20), torch.randn(6)), None, options)
    output = tmp_path / "refused.so"

    def refuse(text, *parts, link=True):
        arguments = declare(text)
        assert_user_error(run_tool("aot-compile", compiled.archive, "-o", output, *arguments[: 1 + link]), "--link", *parts)
        assert not output.exists()

    refuse(SCALE, "no file defines the C function extern_scale, which is declared", link=False)
    refuse(SCALE.replace("extern_scale", "extern_scal"), "no file defines the C function extern_scal, which is declared")
    refuse(SCALE.replace("extern_scale", "extern_data"), "extern_data is declared as a function, and is none there")
    compiled = compile_model(Added(), (torch.randn(4, 5), torch.randn(4, 5)), None, declare(ADD))
    wrong = "extern_scale is (f32[size]) -> f32[size], but is declared as (f32[4, 5], f32[4, 5]) -> f32[4, 5]"
    refuse(ADD.replace("extern_add", "extern_scale"), wrong)
