"""Custom operators that are C functions (--custom-op, --link), on CPUs and in the emulator."""

import pathlib
import shutil
import subprocess
from typing import List, Optional, Sequence, Tuple, Union

import pytest
import torch
from torch import Tensor
from torch.export import Dim

import kiln
from conftest import EMULATED, ROOT, assert_user_error, run_tool

SOURCE = pathlib.Path(__file__).with_name("custom_ops.c")
CC = ["cc", "-std=gnu99", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]


def custom_op(name, mutates_args=()):
    """Registers what follows as kilnc::NAME."""
    return torch.library.custom_op(f"kilnc::{name}", mutates_args=mutates_args)


@custom_op("scale")
def scale(x: Tensor, factor: float = 1.5, power: int = 1) -> Tensor:
    return factor * x.pow(power)


@scale.register_fake
def _(x, factor=1.5, power=1):
    return x.new_empty(x.shape)


@custom_op("shift")
def shift(x: Tensor, by: Union[int, float, bool]) -> Tensor:
    return x + by


@shift.register_fake
def _(x, by):
    return x.new_empty(x.shape)


@custom_op("arguments")
def arguments(
    x: Tensor,
    other: Optional[Tensor],
    many: Sequence[Tensor],
    sizes: Sequence[int],
    factor: float,
    flag: bool,
    name: str,
    dtype: torch.dtype,
    bias: Union[int, float, bool],
    floats: Optional[Sequence[float]] = None,
    count: int = 3,
    device: Optional[torch.device] = None,
) -> Tensor:
    total = sum(sizes) + sum(one.double().sum() for one in many) + bias + sum(i * one for i, one in enumerate(floats or ())) + count
    result = x * factor + total
    if other is not None:
        result = result + other
    return (-result if flag else result).float()


@arguments.register_fake
def _(x, other, many, sizes, factor, flag, name, dtype, bias, floats=None, count=3, device=None):
    return x.new_empty(x.shape)


@custom_op("several")
def several(x: Tensor) -> Tuple[Tensor, List[Tensor], Tensor]:
    return x.sum(0), [x + 1, (x * 2).t().contiguous()], (x > 0).clone()


@several.register_fake
def _(x):
    return x.new_empty(x.shape[1:]), [x.new_empty(x.shape), x.new_empty(x.shape[::-1])], x.new_empty(x.shape, dtype=torch.bool)


@custom_op("add_", mutates_args=["x"])
def add_(x: Tensor, y: Tensor) -> None:
    x += y


@custom_op("total", mutates_args=["state"])
def total(state: Tensor, x: Tensor) -> Tensor:
    state += x
    return state.sum()


@total.register_fake
def _(state, x):
    return x.new_empty(())


@custom_op("positive")
def positive(x: Tensor) -> Tensor:
    return x.clone()


@positive.register_fake
def _(x):
    return x.new_empty(x.shape)


FUNCTIONS = {
    "scale": "test_scale",
    "shift": "test_shift",
    "arguments": "test_arguments",
    "several": "test_several",
    "add_": "test_add",
    "total": "test_total",
    "positive": "test_positive",
}


def declare(*names):
    return [f"--custom-op={getattr(torch.ops.kilnc, name).default._schema}={FUNCTIONS[name]}" for name in names]


@pytest.fixture(scope="session")
def objects(tmp_path_factory):
    path = tmp_path_factory.mktemp("custom") / "ops.o"
    subprocess.run([*CC, "-c", SOURCE, "-o", path], check=True)
    return path


@pytest.fixture(params=["cpu", "cuda"])
def target(request):
    return () if request.param == "cpu" else EMULATED


class Scale(torch.nn.Module):
    def forward(self, x):
        op = torch.ops.kilnc.scale
        return op(op(x.relu() + 0.5, 2.0), power=2).sum(-1), op(x.t(), power=x.shape[0])


@pytest.mark.parametrize("dynamic", [False, True])
def test_defaults_and_sizes(compile_and_compare, objects, target, dynamic):
    """Defaults, arguments by name, sizes as arguments; operands that are computed and views; empty and of size one."""
    rows = Dim("rows", min=0, max=64)
    compile_and_compare(
        Scale(),
        (torch.rand(5, 7),),
        {"x": {0: rows}} if dynamic else None,
        rtol=1e-4,
        options=[*declare("scale"), f"--link={objects}", *target],
        more_inputs=[(torch.rand(n, 7),) for n in (0, 1, 64)] if dynamic else [],
    )


class Arguments(torch.nn.Module):
    def forward(self, x, y):
        op = torch.ops.kilnc.arguments
        a = op(
            x.relu(), y, [x, y * 2, x[0]], [x.shape[0], 4], 1.5, True, "a name", torch.float64, 2.5, [0.5, 2.0], device=torch.device("cpu")
        )
        b = op(a, None, [], [], -2.0, False, "a name", torch.float64, x.shape[0], count=x.shape[0] * 2)
        first, (second, third), fourth = torch.ops.kilnc.several(b)
        return first + 1, second, third.sum(1), fourth


@pytest.mark.parametrize("dynamic", [False, True])
def test_arguments_and_results(compile_and_compare, objects, target, dynamic):
    """Every kind of argument; several results, a list among them, one of which nobody uses."""
    rows = Dim("rows", min=1, max=64)
    inputs = lambda n: (torch.randn(n, 6), torch.randn(n, 6))
    compile_and_compare(
        Arguments(),
        inputs(4),
        {"x": {0: rows}, "y": {0: rows}} if dynamic else None,
        rtol=1e-4,
        atol=1e-4,
        options=[*declare("arguments", "several"), f"--link={objects}", *target],
        more_inputs=[inputs(1), inputs(64)] if dynamic else [],
    )


class Item(torch.nn.Module):
    def forward(self, x, y):
        return torch.ops.kilnc.shift(x, y.double().sum().item()) + torch.ops.kilnc.scale(x, 2.0, y.shape[0] + y.argmax().item())


def test_number_from_data(compile_and_compare, objects, target):
    compile_and_compare(Item(), (torch.rand(3, 4), torch.rand(5)), options=[*declare("scale", "shift"), f"--link={objects}", *target])


class Writes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(3, 4))

    def forward(self, x, y):
        z = x * 2
        torch.ops.kilnc.add_(z, y)
        torch.ops.kilnc.add_(z[1:], y[1:])
        torch.ops.kilnc.add_(y, x)
        return z + 1, torch.ops.kilnc.total(self.state, x), torch.ops.kilnc.total(x, y)


@pytest.mark.parametrize("decomposed", [False, True])
def test_writes(compile_model, objects, target, decomposed, monkeypatch):
    """What the schema says is written: temporaries, views, inputs and buffers, also where the operator returns something."""
    if decomposed:
        export = torch.export.export
        monkeypatch.setattr(torch.export, "export", lambda *args, **options: export(*args, **options).run_decompositions({}))
    compiled = compile_model(
        Writes(), (torch.randn(3, 4), torch.randn(3, 4)), options=[*declare("add_", "total"), f"--link={objects}", *target]
    )
    for _ in range(3):
        compiled.check((torch.randn(3, 4), torch.randn(3, 4)), 1e-5, 1e-5)


class Positive(torch.nn.Module):
    def forward(self, x):
        return torch.ops.kilnc.positive(x * 2) + 1


def test_failures(compile_model, objects, target):
    """What a function returns is the run's status, and its message names the node and the line."""
    compiled = compile_model(Positive(), (torch.ones(4),), options=[*declare("positive"), f"--link={objects}", *target])
    compiled.check((torch.rand(4),), 0, 0)
    with pytest.raises(
        kiln.KilnError, match=r"node 'positive' \(.*test_custom_ops.py:\d+\): test_positive: the sum is -8, which is negative"
    ) as error:
        compiled.model.run([-torch.ones(4)])
    assert error.value.status == 1
    with pytest.raises(kiln.KilnError, match="test_positive returned status 99") as error:
        compiled.model.run([torch.full((4,), -1e6)])
    assert error.value.status == 7
    compiled.check((torch.rand(4),), 0, 0)


@pytest.mark.parametrize("kind", ["archive", "shared", "obj"])
def test_files(tmp_path, objects, kind):
    """An archive becomes part of the model; a shared library is found beside it; an object is linked by others."""
    program, output = tmp_path / "model.pt2", tmp_path / "folder" / "model.so"
    output.parent.mkdir()
    inputs = (torch.rand(3, 4),)
    torch.export.save(torch.export.export(Scale(), inputs), program)
    file = tmp_path / ("libops.a" if kind == "archive" else "libops.so")
    if kind == "archive":
        subprocess.run(["ar", "rc", file, objects], check=True)
    elif kind == "shared":
        subprocess.run([*CC, "-shared", f"-Wl,-soname,{file.name}", SOURCE, "-o", file, "-lm", "-ldl"], check=True)
    options = [] if kind == "obj" else [f"--link={file}"]
    process = run_tool("aot-compile", program, "-o", output, *declare("scale"), *options, *(["--emit=obj"] if kind == "obj" else []))
    assert process.returncode == 0, process.stderr
    symbols = subprocess.run(["nm", *([] if kind == "obj" else ["-D"]), output], capture_output=True, text=True, check=True).stdout
    assert ("U test_scale" in symbols) == (kind != "archive")
    if kind == "obj":
        return
    if kind == "shared":
        shutil.move(file, output.parent)
    for got, want in zip(kiln.load(output)(*inputs), Scale()(*inputs), strict=True):
        torch.testing.assert_close(got, want)


def test_from_python(objects):
    inputs = (torch.rand(3, 4),)
    model = kiln.compile(torch.export.export(Scale(), inputs), custom_ops={"kilnc::scale": "test_scale"}, link=[objects])
    for got, want in zip(model(*inputs), Scale()(*inputs), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    "declaration, problem",
    [
        ("lib::op(Tensor x) -> Tensor", "no name of a C function"),
        ("lib::op(Tensor x) -> Tensor=", "no name of a C function"),
        ("lib::op(Tensor x) -> Tensor=a-b", "no name of a C function"),
        ("lib::op(Tensor x) -> Tensor=kiln_model_run", "begin with kiln_"),
        ("op(Tensor x) -> Tensor=f", "no name of an operator"),
        ("lib::op=f", "no name of an operator"),
        ("lib::op(Tensor x=f", "expected 'name(arguments) -> results'"),
        ("lib::op(Tensor) -> Tensor=f", "argument 'Tensor' has no name"),
        ("lib::op(Generator g) -> Tensor=f", "a C function cannot have g"),
        ("lib::op(Tensor x) -> int=f", "a C function cannot have a result that is no tensor"),
        ("lib::op(Tensor(a!) x) -> Tensor(a!)=f", "a C function cannot have a result that is an argument"),
        ("aten::relu(Tensor self) -> Tensor=f", "an operator of PyTorch's own"),
    ],
)
def test_bad_declarations(tmp_path, declaration, problem):
    output = tmp_path / "model.so"
    process = run_tool("aot-compile", tmp_path / "none.pt2", "-o", output, f"--custom-op={declaration}")
    assert_user_error(process, f"--custom-op='{declaration}': ", problem, "lib::scale(Tensor x, float factor=1.) -> Tensor=my_scale")


def test_bad_calls(tmp_path, objects):
    """A call that is not what was declared; functions that are not there; files that are not; sizes that nobody says."""
    program, output = tmp_path / "model.pt2", tmp_path / "model.so"
    torch.export.save(torch.export.export(Scale(), (torch.rand(3, 4),)), program)

    def refuse(*arguments, parts):
        assert_user_error(run_tool("aot-compile", program, "-o", output, *arguments), *parts)
        assert not output.exists()

    declaration = "--custom-op=kilnc::scale"
    refuse(
        f"{declaration}(Tensor x) -> Tensor=test_scale",
        f"--link={objects}",
        parts=["kilnc.scale.default: its declared schema has no argument 'factor'", "test_custom_ops.py:"],
    )
    refuse(
        f"{declaration}(Tensor x, int factor=1, int power=1) -> Tensor=test_scale",
        f"--link={objects}",
        parts=["argument 'factor' does not fit its declared schema"],
    )
    refuse(
        f"{declaration}(Tensor x, float factor=1., int power=1, *, Tensor y) -> Tensor=test_scale",
        f"--link={objects}",
        parts=["argument 'y' is missing"],
    )
    refuse(
        f"{declaration}(Tensor x, float factor=1., SymInt power=1) -> (Tensor, Tensor)=test_scale",
        f"--link={objects}",
        parts=["its declared schema has another number of results"],
    )
    refuse(*declare("scale"), parts=["linking failed: undefined symbol: test_scale"])
    refuse(*declare("scale"), f"--link={tmp_path / 'none.o'}", parts=["--link=", "there is no such file"])
    refuse(*declare("scale"), f"--link={program}", parts=["linking failed: ", "model.pt2"])
    refuse(*declare("scale"), *declare("scale"), parts=["kilnc.scale.default is declared twice"])
