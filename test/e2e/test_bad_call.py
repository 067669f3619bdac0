"""Wrong calls of a compiled model: a status and a message that names the input, never a crash, nothing written."""

import ctypes

import pytest
import torch

import kiln
from conftest import Mlp
from kiln import _abi, _call

INVALID, MISMATCH, UNSUPPORTED = 1, 2, 3


class Caller:
    """Calls the C ABI of a model with DLTensors that a test may spoil."""

    def __init__(self, model):
        self.model, self.library, self.handle = model, model._library, model._handle
        self.data = (ctypes.c_float * 64)(*range(64))

    def tensor(self, dtype="float32", shape=(3, 6), strides=(6, 1), device=(_abi.CPU, 0), data=True):
        address = ctypes.addressof(self.data) if data else None
        return _abi.make_tensor(address, dtype, shape, strides, device)

    def run(self, inputs, outputs=(None,), handle=None):
        pointers = (ctypes.POINTER(_abi.DLTensor) * max(1, len(inputs)))()
        for slot, tensor in enumerate(inputs):
            if tensor is not None:
                pointers[slot] = ctypes.pointer(tensor)
        results = (_abi.ManagedPointer * max(1, len(outputs)))()
        for slot, managed in enumerate(outputs):
            if managed is not None:
                results[slot] = ctypes.pointer(managed)
        status = self.library.kiln_model_run(handle or self.handle, pointers, len(inputs), results, len(outputs), None)
        return status, (self.library.kiln_last_error() or b"").decode(), results

    def refuses(self, status, inputs, outputs=(None,), mentions=()):
        got, message, results = self.run(inputs, outputs)
        assert got in (status if isinstance(status, tuple) else (status,)), (got, message)
        for part in mentions:
            assert str(part) in message, message
        assert all(bool(result) == (given is not None) for result, given in zip(results, outputs))


@pytest.fixture
def caller(small_mlp):
    caller = Caller(small_mlp.model)
    yield caller
    x = torch.randn(3, 6)  # whatever was refused, the model still works
    torch.testing.assert_close(small_mlp.model(x), small_mlp.module(x).detach(), rtol=1e-5, atol=1e-5)


def test_input_count(caller):
    for count in (0, 2, 17):
        caller.refuses((INVALID, MISMATCH), [caller.tensor() for _ in range(count)])


def test_output_count(caller):
    for count in (0, 2):
        caller.refuses((INVALID, MISMATCH), [caller.tensor()], [None] * count)


@pytest.mark.parametrize("dtype", ["float64", "int32", "bfloat16", "bool", "complex64"])
def test_dtype(caller, dtype):
    caller.refuses((INVALID, MISMATCH, UNSUPPORTED), [caller.tensor(dtype)], mentions=["x", "float32", dtype])


def test_lanes_and_unknown_dtype(caller):
    for code, bits, lanes in ((2, 32, 4), (2, 32, 0), (2, 24, 1), (77, 32, 1), (2, 0, 1)):
        tensor = caller.tensor()
        tensor.dtype = _abi.DLDataType(code, bits, lanes)
        caller.refuses((INVALID, MISMATCH, UNSUPPORTED), [tensor], mentions=["x"])


@pytest.mark.parametrize("shape,strides", [((18,), (1,)), ((), ()), ((1, 3, 6), (18, 6, 1)), ((1,) * 40, (1,) * 40)])
def test_rank(caller, shape, strides):
    caller.refuses((INVALID, MISMATCH), [caller.tensor(shape=shape, strides=strides)], mentions=["x"])


def test_negative_rank(caller):
    tensor = caller.tensor()
    tensor.ndim = -1
    caller.refuses((INVALID, MISMATCH), [tensor])


@pytest.mark.parametrize("shape", [(3, 7), (2, 6), (0, 6), (-3, 6), (1 << 62, 6)])
def test_size(caller, shape):
    caller.refuses((INVALID, MISMATCH), [caller.tensor(shape=shape)], mentions=["x"])


@pytest.mark.parametrize("strides", [(-6, 1), (6, -1), (1 << 62, 1), (-(1 << 63), 1)])
def test_stride(caller, strides):
    caller.refuses((INVALID, MISMATCH), [caller.tensor(strides=strides)], mentions=["x"])


def test_null_pointers(caller):
    caller.refuses(INVALID, [None], mentions=["x"])
    caller.refuses(INVALID, [caller.tensor(data=False)], mentions=["x"])
    tensor = caller.tensor()
    tensor.shape = None
    caller.refuses(INVALID, [tensor], mentions=["x"])
    run, slot = caller.library.kiln_model_run, (_abi.ManagedPointer * 1)()
    pointers = (ctypes.POINTER(_abi.DLTensor) * 1)(ctypes.pointer(caller.tensor()))
    assert run(None, pointers, 1, slot, 1, None) == INVALID
    assert run(caller.handle, None, 1, slot, 1, None) == INVALID
    assert run(caller.handle, pointers, 1, None, 1, None) == INVALID
    assert caller.library.kiln_model_create(None, None) == INVALID
    assert caller.library.kiln_model_set_constant(caller.handle, None, ctypes.byref(caller.tensor())) == INVALID
    assert caller.library.kiln_model_set_constant(caller.handle, b"layers.0.weight", None) == INVALID
    caller.library.kiln_model_destroy(None)


def test_no_strides_means_contiguous(caller):
    tensor = caller.tensor()
    tensor.strides = None
    status, message, results = caller.run([tensor])
    assert status == 0, message
    results[0].contents.deleter(results[0])


@pytest.mark.parametrize("device", [(2, 0), (13, 0), (0, 0), (99, 0)])
def test_device(caller, device):
    caller.refuses((INVALID, MISMATCH, UNSUPPORTED, 5), [caller.tensor(device=device)], mentions=["x"])


def test_misaligned_data(caller):
    """An address between two elements is refused or read as it is; it is never a fault."""
    tensor = caller.tensor()
    tensor.data += 1
    status, _, results = caller.run([tensor])
    assert status in (0, INVALID)
    if status == 0:
        results[0].contents.deleter(results[0])


def test_byte_offset(caller, small_mlp):
    tensor = caller.tensor()
    tensor.byte_offset = 8
    status, message, results = caller.run([tensor])
    assert status == 0, message
    got = _call.to_numpy(ctypes.cast(results[0], ctypes.c_void_p).value)
    want = small_mlp.module(torch.arange(2, 20, dtype=torch.float32).view(3, 6)).detach().numpy()
    assert abs(got - want).max() < 1e-4


def output(shape=(3, 4), strides=(4, 1), dtype="float32", device=(_abi.CPU, 0), data=True):
    """A caller-owned output over 64 floats of -1, and those floats."""
    memory = (ctypes.c_float * 64)(*[-1.0] * 64)
    managed = _abi.DLManagedTensorVersioned(major=1)
    managed.tensor = _abi.make_tensor(ctypes.addressof(memory) if data else None, dtype, shape, strides, device)
    return managed, memory


def test_output_in_place(caller, small_mlp):
    managed, memory = output()
    status, message, results = caller.run([caller.tensor()], [managed])
    assert status == 0, message
    want = small_mlp.module(torch.arange(18, dtype=torch.float32).view(3, 6)).detach().flatten()
    torch.testing.assert_close(torch.tensor(list(memory)[:12]), want, rtol=1e-5, atol=1e-5)
    assert set(memory[12:]) == {-1.0}


@pytest.mark.parametrize(
    "wrong",
    [
        dict(shape=(3, 5), strides=(5, 1)),
        dict(shape=(12,), strides=(1,)),
        dict(shape=(2, 4)),
        dict(dtype="float64"),
        dict(dtype="int32"),
        dict(device=(2, 0)),
        dict(data=False),
        dict(strides=(-4, 1)),
        dict(strides=(0, 1)),
    ],
)
def test_wrong_output(caller, wrong):
    managed, memory = output(**wrong)
    caller.refuses((INVALID, MISMATCH, UNSUPPORTED, 5), [caller.tensor()], [managed])
    assert set(memory) == {-1.0}


@pytest.mark.parametrize("threads", [-1, -(1 << 31), 1 << 20, (1 << 31) - 1])
def test_thread_count(small_mlp, threads):
    with pytest.raises(kiln.KilnError, match="num_threads"):
        kiln.load(small_mlp.path, threads=threads)


def test_options_size(small_mlp):
    """A struct_size of another caller's time: too small is refused; larger is accepted when what it adds is zero."""
    library = small_mlp.model._library
    handle = ctypes.c_void_p()
    options = _abi.Options(struct_size=3)
    assert library.kiln_model_create(ctypes.byref(options), ctypes.byref(handle)) == INVALID

    class Longer(ctypes.Structure):
        _fields_ = [("options", _abi.Options), ("more", ctypes.c_uint64 * 4)]

    longer = Longer()
    longer.options.struct_size = ctypes.sizeof(Longer)
    assert library.kiln_model_create(ctypes.cast(ctypes.byref(longer), ctypes.POINTER(_abi.Options)), ctypes.byref(handle)) == 0
    library.kiln_model_destroy(handle)


def test_aliased_inputs(compile_model):
    """One tensor given twice is two inputs."""

    class Sum(torch.nn.Module):
        def forward(self, x, y):
            return x * 2 + y

    compiled = compile_model(Sum(), (torch.randn(5), torch.randn(5)))
    x = torch.randn(5)
    torch.testing.assert_close(compiled.model(x, x), x * 3)


def test_two_handles_are_independent(compile_model):
    torch.manual_seed(0)
    compiled = compile_model(Mlp((6, 4)), (torch.randn(3, 6),))
    first, second = kiln.load(compiled.path), kiln.load(compiled.path)
    first.set_constant("layers.0.bias", torch.full((4,), 100.0))
    x = torch.randn(3, 6)
    torch.testing.assert_close(second(x), compiled.module(x).detach(), rtol=1e-5, atol=1e-5)
    want = compiled.module(x).detach() - compiled.module.layers[0].bias.detach() + 100
    torch.testing.assert_close(first(x), want, rtol=1e-5, atol=1e-5)
