"""The Python package where it does not need a model of its own."""

import collections
import concurrent.futures
import gc
import random
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


WAIT = """
#include "kiln-c/custom_op.h"
int32_t test_wait(const DLTensor *const *inputs, size_t num_inputs, const DLTensor *const *outputs, size_t num_outputs,
                  const kiln_custom_op_context *context) {
  const volatile float *x = inputs[0]->data;
  while (x[0] == 0)
    ;
  ((float *)outputs[0]->data)[0] = x[0];
  return KILN_OK;
}
"""


@torch.library.custom_op("kiln_python_test::wait", mutates_args=())
def wait(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@wait.register_fake
def _(x):
    return torch.empty_like(x)


class Waits(torch.nn.Module):
    def forward(self, x):
        return torch.ops.kiln_python_test.wait(x)


def test_runs_release_the_lock(tmp_path):
    """A run that waits for another thread of Python, which sets what it waits for in its input."""
    source = tmp_path / "wait.c"
    source.write_text(WAIT)
    subprocess.run(["cc", "-O1", "-fPIC", f"-I{ROOT / 'include'}", "-c", source, "-o", tmp_path / "wait.o"], check=True)
    program = torch.export.export(Waits(), (torch.zeros(1),))
    kiln.compile(program, tmp_path / "wait.so", custom_ops={"kiln_python_test::wait": "test_wait"}, link=[tmp_path / "wait.o"])
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r})\n"
        "import concurrent.futures, kiln, numpy, time\n"
        f"model, x = kiln.load({str(tmp_path / 'wait.so')!r}), numpy.zeros(1, 'float32')\n"
        "with concurrent.futures.ThreadPoolExecutor() as pool:\n"
        "    runs = [pool.submit(model, x) for _ in range(3)]\n"
        "    time.sleep(0.2)\n"
        "    assert not any(run.done() for run in runs)\n"
        "    x[0] = 7\n"
        "    print([run.result().item() for run in runs])\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert process.stdout.strip() == "[7.0, 7.0, 7.0]", process.stderr


def test_import_is_light():
    """Neither PyTorch nor numpy: a program that only asks for the headers needs neither."""
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r})\n"
        "import kiln; assert not {'torch', 'numpy', 'ctypes'} & set(sys.modules)\n"
        "kiln.load, kiln.compile, kiln.debug, kiln.KilnError; assert 'torch' not in sys.modules\n"
        "assert set(kiln.__all__) <= set(dir(kiln)) and not hasattr(kiln, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


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


class Nested(torch.nn.Module):
    """Containers of all kinds in and out; numbers, None and constants among them."""

    def forward(self, tensors, pair, *, flag, scale=1.0, mask=None):
        first, (second,) = pair
        total = tensors["x"] + first * scale
        named = collections.OrderedDict(b=total if flag else second, a=[second * 2, None, (tensors["y"], 7, 0.5)])
        return named, total.shape[0], collections.deque([second + 1])


def nested_arguments(rows=3, make=torch.full):
    return ({"x": make((rows, 2), 1.0), "y": make((2,), 2.0)}, [make((rows, 2), 3.0), (make((4,), 4.0),)]), dict(flag=True, scale=2.0)


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    arguments, named = nested_arguments()
    rows = torch.export.Dim("rows", min=1, max=8)
    shapes = {"tensors": {"x": {0: rows}, "y": None}, "pair": [{0: rows}, (None,)], "flag": None, "scale": None}
    program = torch.export.export(Nested(), arguments, named, dynamic_shapes=shapes)
    return kiln.compile(program, tmp_path_factory.mktemp("nested") / "nested.so")


def test_arguments_of_the_program(nested):
    """Calls as Python would call the program: nested, by name, with numbers; results in the same containers."""
    for rows in (3, 5):
        arguments, named = nested_arguments(rows)
        expected = Nested()(*arguments, **named)
        by_name = dict(zip(("tensors", "pair"), arguments))
        for got in (nested(*arguments, **named), nested(**by_name, **named), nested(*arguments, True, scale=2.0)):
            torch.testing.assert_close(got, expected)
            assert [type(got[0]), type(got[0]["a"]), type(got[1]), type(got[2])] == [collections.OrderedDict, list, int, collections.deque]
            assert list(got[0]) == ["b", "a"] and got[0]["a"][1] is None and got[0]["a"][2][1:] == (7, 0.5)
    in_numpy, numbers = nested_arguments(2, lambda shape, value: numpy.full(shape, value, "float32"))
    got = nested(*in_numpy, **numbers)
    assert isinstance(got[2][0], numpy.ndarray) and got[1] == 2 and isinstance(got[1], int)
    flat = [torch.ones(3, 2), torch.ones(2), torch.ones(3, 2), torch.ones(4)]
    assert len(nested.run(flat)) == 8


@pytest.mark.parametrize(
    "change, error",
    [
        (dict(flag=False), "exported for the value True"),
        (dict(flag=1), "exported for the value True"),
        (dict(scale=2), r"exported for the value 2\.0"),
        (dict(scale=None), r"exported for the value 2\.0"),
        (dict(other=1), "unexpected argument 'other'"),
        (dict(tensors=1), "'tensors' is given twice"),
    ],
)
def test_other_arguments(nested, change, error):
    arguments, named = nested_arguments()
    with pytest.raises((TypeError, ValueError), match=error):
        nested(*arguments, **{**named, **change})


def test_other_containers(nested):
    (tensors, pair), named = nested_arguments()
    for arguments, error in (
        ((tensors,), "'pair' is missing"),
        ((tensors, pair, True, 2.0, None), "expected 4 arguments"),
        (({"x": tensors["x"]}, pair), r"tensors: expected a dict of \['x', 'y'\]"),
        ((pair, pair), "tensors: expected a dict"),
        ((tensors, pair[:1]), "pair: expected a sequence of 2, got 1"),
        ((tensors, [pair[0], pair[0]]), r"pair\[1\]: expected a sequence of 1, got a Tensor"),
        ((tensors, [pair[0], ([],)]), "a list is neither a tensor"),
    ):
        with pytest.raises(TypeError, match=error):
            nested(*arguments, **(named if len(arguments) < 3 else {}))


Pair = collections.namedtuple("Pair", ["left", "right"])


class Registered:
    """A container that PyTorch has been told about."""

    def __init__(self, left, right):
        self.left, self.right = left, right


class Swaps(torch.nn.Module):
    def forward(self, value, *rest, **more):
        result = Registered(value.right + rest[0], value.left * more["b"])
        return Pair(result, more["a"] + 1) if isinstance(value, Pair) else result


def test_constants_among_results():
    class Constants(torch.nn.Module):
        def forward(self, x):
            return {"text": 'a "b" \u00e9\n', "sum": x + 1, "rest": (None, True, False, 3, 2.0, [x.shape[0], ("",)])}

    x = torch.randn(3)
    model, expected = kiln.compile(torch.export.export(Constants(), (x,))), Constants()(x)
    for inputs in ((x,), (x.numpy(),)):
        actual = model(*inputs)
        assert {**actual, "sum": None} == {**expected, "sum": None}
        assert list(map(type, actual["rest"])) == list(map(type, expected["rest"]))
        assert torch.equal(torch.as_tensor(actual["sum"]), expected["sum"])
    flat = model.run([x])
    assert flat[0] is None and torch.equal(flat[1], expected["sum"])


def test_classes_of_the_program(tmp_path):
    """Classes that are known are taken and made; a process that does not know them uses dicts and tuples."""
    pytree = torch.utils._pytree
    pytree._register_namedtuple(Pair, serialized_type_name="test_python.Pair")
    pytree.register_pytree_node(
        Registered,
        lambda value: ([value.left, value.right], ["left", "right"]),
        lambda values, keys: Registered(**dict(zip(keys, values))),
        serialized_type_name="test_python.Registered",
        flatten_with_keys_fn=lambda value: (
            [(pytree.GetAttrKey(key), getattr(value, key)) for key in ("left", "right")],
            ["left", "right"],
        ),
    )
    one, two, more = torch.full((2,), 1.0), torch.full((2,), 2.0), {"b": torch.full((2,), 3.0), "a": torch.full((2,), 4.0)}
    script = f"import sys; sys.modules['torch'] = None\nsys.path.insert(0, {str(ROOT / 'python')!r})\nimport kiln, numpy\n"
    for name, value in (("pair", Pair(one, two)), ("registered", Registered(one, two))):
        program = torch.export.export(Swaps(), (value, two), more)
        model = kiln.compile(program, tmp_path / f"{name}.so")
        got = model(value, two, **more)
        result = got.left if name == "pair" else got
        assert type(result) is Registered and type(got) in (Pair, Registered)
        torch.testing.assert_close([result.left, result.right], [two + two, one * 3])
        script += (
            "make = lambda value: numpy.full((2,), value, 'float32')\n"
            f"got = kiln.load({str(tmp_path / name) + '.so'!r})"
            f"({'(make(1), make(2))' if name == 'pair' else 'dict(left=make(1), right=make(2))'}, make(2), a=make(4), b=make(3))\n"
            f"got = got[0] if {name == 'pair'} else got\n"
            "assert list(got) == ['left', 'right'] and got['left'][0] == 4 and got['right'][1] == 3\n"
        )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_kinds_of_inputs_in_turns(compile_model):
    """What a call leaves behind for the next one fits whatever comes then."""

    class Scaled(torch.nn.Module):
        def forward(self, x, n):
            return x * 2 + n

    rows = torch.export.Dim("rows", min=0, max=64)
    model = compile_model(Scaled(), (torch.randn(4, 3), 5), {"x": {0: rows}, "n": torch.export.Dim.DYNAMIC}).model
    base = torch.arange(48.0).view(16, 3)
    tensors = [base[:4], base[::2], base[:0], base.t().reshape(3, 16).t(), torch.nn.Parameter(base[:1]), base[5:6], base + 1]
    tensors += [torch.view_as_complex(base[:, :2].contiguous()).conj().imag.view(16, 1).expand(16, 3), base.as_subclass(Tagged)]
    read_only = base.numpy().copy()
    read_only.flags.writeable = False
    arrays = [
        base.numpy(),
        base.numpy()[::3],
        read_only,
        base.numpy()[:0],
        numpy.asfortranarray(base.numpy()),
        base.numpy().view(numpy.memmap),
    ]
    rng = random.Random(0)
    for _ in range(300):
        x, n = rng.choice(tensors + arrays), rng.choice([5, 0, 1 << 40, torch.tensor(2), numpy.int64(7), numpy.array(9)])
        got = model(x, n)
        is_torch = isinstance(x, torch.Tensor) or isinstance(n, torch.Tensor)
        assert isinstance(got, torch.Tensor if is_torch else numpy.ndarray)
        torch.testing.assert_close(torch.as_tensor(got), torch.as_tensor(x).detach().as_subclass(torch.Tensor) * 2 + int(n))
    for bad, error in ((1 << 70, OverflowError), (2.0, kiln.KilnError), (True, kiln.KilnError), (numpy.ones(1), kiln.KilnError)):
        with pytest.raises(error):
            model(base, bad)
        assert model(base, 1).shape == (16, 3)
    for bad in (base.double(), base.to("meta"), base[:, :2], base.numpy()[::-1], base.repeat(9, 1)):
        with pytest.raises((kiln.KilnError, TypeError)):
            model(bad, 1)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for size, got in zip([1, 5, 16] * 100, pool.map(lambda size: model(base[:size], size), [1, 5, 16] * 100)):
            torch.testing.assert_close(got, base[:size] * 2 + size)
    assert len(model._frames) <= 9


def test_written_inputs(compile_model):
    class Writes(torch.nn.Module):
        def forward(self, x, n):
            n.add_(1)
            return x.mul_(2).sum()

    model = compile_model(Writes(), (torch.ones(3), torch.tensor(4))).model
    x, n = torch.ones(3).numpy(), torch.tensor(4)
    assert model(x, n) == 6 and x.tolist() == [2, 2, 2] and n == 5
    read_only, shifted = numpy.ones(3, "float32"), numpy.zeros(3, "i1,f4")["f1"]
    read_only.flags.writeable = False
    negative = torch.view_as_complex(torch.ones(3, 2)).conj().imag
    for bad in ((read_only, n), (shifted, n), (negative, n), (x, 4), (x, numpy.int64(4))):
        with pytest.raises(ValueError, match="writes its input"):
            model(*bad)


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
