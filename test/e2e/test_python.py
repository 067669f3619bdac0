"""The Python package where it does not need a model of its own."""

import gc
import subprocess
import sys

import numpy
import pytest
import torch

import kiln
from conftest import ROOT, assert_user_error, run_tool


@pytest.mark.parametrize("path", ["/nowhere/model.so", "/etc/hostname", "/"])
def test_load_of_something_else(path):
    with pytest.raises(kiln.KilnError, match="not a compiled model"):
        kiln.load(path)


def test_describes_itself(small_mlp):
    assert "x: float32[3, 6]" in repr(small_mlp.model)
    assert [entry["name"] for entry in small_mlp.model.inputs] == ["x"]


def test_errors_carry_message_and_status(small_mlp):
    with pytest.raises(kiln.KilnError, match="x") as error:
        small_mlp.model(torch.zeros(3, 7))
    assert error.value.status == 2
    with pytest.raises(kiln.KilnError) as error:
        small_mlp.model()
    assert error.value.status == 1


@pytest.mark.parametrize(
    "value",
    [
        "text",
        None,
        [1.0],
        object(),
        torch.zeros(3, 6).to_sparse(),
        numpy.zeros((3, 6), ">f4"),
        numpy.zeros((3, 6), "U4"),
        numpy.zeros((3, 6), "O"),
    ],
)
def test_values_that_are_no_tensors(small_mlp, value):
    with pytest.raises(TypeError):
        small_mlp.model(value)


def test_output_memory_is_freed(small_mlp):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    compiled, x = small_mlp.model, torch.zeros(3, 6)
    for _ in range(2000):
        compiled(x), compiled(x.numpy())
    gc.collect()
    before = resident()
    for _ in range(20000):
        compiled(x), compiled(x.numpy())
    gc.collect()
    assert resident() - before < 8 << 20


def test_views_keep_the_memory(small_mlp):
    x = numpy.ones((3, 6), "float32")
    whole = small_mlp.model(x)
    expected, view = whole.copy(), whole[1:]
    del whole
    gc.collect()
    [small_mlp.model(x * 2) for _ in range(50)]
    numpy.testing.assert_array_equal(view, expected[1:])


def test_works_without_torch(small_mlp):
    """Loading and calling imports numpy alone."""
    script = (
        "import sys; sys.modules['torch'] = None\n"
        f"sys.path.insert(0, {str(ROOT / 'python')!r})\n"
        "import kiln, numpy\n"
        f"print(kiln.load({str(small_mlp.path)!r})(numpy.zeros((3, 6), 'float32')).shape)\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.stdout.strip() == "(3, 4)", process.stderr


def test_close(small_mlp):
    model = kiln.load(small_mlp.path)
    model.close()
    model.close()
    with pytest.raises(kiln.KilnError):
        model(torch.zeros(3, 6))


class Scaled(torch.Tensor):
    """Integers and a scale, seen as one tensor of floats."""

    @staticmethod
    def __new__(cls, integers, scale):
        return torch.Tensor._make_wrapper_subclass(cls, integers.shape, dtype=scale.dtype, device=integers.device)

    def __init__(self, integers, scale):
        self.integers, self.scale = integers, scale

    def __tensor_flatten__(self):
        return ["integers", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Scaled(inner["integers"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].integers.detach(), args[0].scale.detach())
        args, kwargs = torch.utils._pytree.tree_map_only(cls, lambda x: x.integers.to(x.scale.dtype) * x.scale, (args, kwargs or {}))
        return function(*args, **kwargs)


class Tagged(torch.Tensor):
    """A subclass that holds its own data."""


class Wrapped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.randn(8, 4)
        scale = weight.abs().amax(1, keepdim=True) / 127
        self.weight = torch.nn.Parameter(Scaled((weight / scale).round().to(torch.int8), scale), requires_grad=False)
        self.register_buffer("bias", Scaled(torch.ones(8, dtype=torch.int8), torch.full((8,), 0.5)))
        self.register_buffer("offset", Scaled(torch.ones(8, dtype=torch.int8), torch.full((1,), 0.25)), persistent=False)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias) + self.offset


class Tags(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4).as_subclass(Tagged))
        self.register_buffer("shift", torch.randn(4).as_subclass(Tagged))

    def forward(self, x):
        return x * self.weight + self.shift


@pytest.mark.parametrize("module", [Wrapped, Tags, lambda: torch.nn.Sequential(Tags(), Wrapped())])
def test_tensor_subclasses(module, tmp_path):
    """Weights of a subclass are compiled as the tensors that they are made of. A file has them pickled, which is refused with the way out."""
    torch.manual_seed(0)
    module, x = module().eval(), torch.randn(3, 4)
    with torch.no_grad():
        expected = torch.as_tensor(module(x)).as_subclass(torch.Tensor)
        program = torch.export.export(module, (x,))
    types = {name: type(value.data) for name, value in program.state_dict.items()}
    torch.testing.assert_close(torch.as_tensor(kiln.compile(program)(x)), expected)
    assert {name: type(value.data) for name, value in program.state_dict.items()} == types, "the program was changed"
    torch.export.save(program, tmp_path / "model.pt2")
    assert_user_error(
        run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so"), "a tensor subclass", "program.run_decompositions({})"
    )
