"""Models for CUDA whose inputs and outputs are in the memory of the (emulated) GPU."""

import json
import os
import subprocess
import sys

import pytest
import torch

from conftest import EMULATED, ROOT, Compiled


class Shift(torch.nn.Module):
    def forward(self, x, state):
        state.add_(1)
        return x * 2 + state.sum(), x.t()


@pytest.fixture(scope="module")
def shift(tmp_path_factory):
    rows = torch.export.Dim("rows", min=1, max=1000)
    return Compiled(
        Shift().eval(), (torch.randn(5, 3), torch.zeros(4)), tmp_path_factory.mktemp("shift"), ({0: rows}, None), options=EMULATED
    )


# In a process of its own, which has two GPUs.
PROLOGUE = """
import ctypes as C, json, sys, numpy, kiln
from kiln import _abi
driver = C.CDLL(sys.argv[2])
driver.cuInit(0)
contexts = []
for device in range(2):
    context = C.c_void_p()
    driver.cuDevicePrimaryCtxRetain(C.byref(context), device)
    contexts.append(context)
driver.cuCtxPushCurrent_v2(contexts[0])

def put(array):
    memory = C.c_ulonglong()
    driver.cuMemAlloc_v2(C.byref(memory), C.c_size_t(array.nbytes))
    assert driver.cuMemcpyHtoD_v2(memory, array.ctypes.data_as(C.c_void_p), C.c_size_t(array.nbytes)) == 0
    return memory.value

def get(address, shape):
    array = numpy.empty(shape, "float32")
    assert driver.cuMemcpyDtoHAsync_v2(array.ctypes.data_as(C.c_void_p), C.c_ulonglong(address), C.c_size_t(array.nbytes), None) == 0
    return array

def tensor(address, shape, strides=None, device=(_abi.CUDA, 0)):
    strides = strides or [int(numpy.prod(shape[i + 1:])) for i in range(len(shape))]
    return _abi.make_tensor(address, "float32", shape, strides, device)

def run(model, inputs, outputs=None, stream=None):
    pointers = (C.POINTER(_abi.DLTensor) * len(inputs))(*(C.pointer(each) for each in inputs))
    slots = (_abi.ManagedPointer * len(model.outputs))()
    for i, each in enumerate(outputs or []):
        if each:
            slots[i] = C.pointer(_abi.DLManagedTensorVersioned(1, 0, None, C.CFUNCTYPE(None, _abi.ManagedPointer)(), 0, each))
    model._check(model._library.kiln_model_run(model._handle, pointers, len(inputs), slots, len(slots), stream))
    return slots

def message(*arguments, **options):
    try:
        run(*arguments, **options)
    except kiln.KilnError as error:
        return f"{error.status} {error}"

model = kiln.load(sys.argv[1])
x, state = numpy.arange(15, dtype="float32").reshape(5, 3), numpy.zeros(4, "float32")
expected = x * 2 + 4
"""


def execute(model, body):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "KILN_EMULATOR_DEVICES": "2"}
    process = subprocess.run(
        [sys.executable, "-c", PROLOGUE + body, str(model.path), os.environ["KILN_CUDA_DRIVER"]],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout)


def test_everything_on_the_gpu(shift):
    assert execute(
        shift,
        """
slots = run(model, [tensor(put(x), x.shape), tensor(held := put(state), state.shape)])
first, second = (slot.contents.tensor for slot in slots)
checks = [first.device.type, first.device.id, numpy.array_equal(get(first.data, (5, 3)), expected), list(second.strides[:2]),
          numpy.array_equal(get(second.data, (5, 3)), x), get(held, 4).tolist()]
again = run(model, [tensor(put(x), x.shape), tensor(held, state.shape)], [first, None])  # the caller's own, written again
checks.append(numpy.array_equal(get(first.data, (5, 3)), expected + 4))
for slot in (*slots, again[1]):
    slot.contents.deleter(slot)
print(json.dumps(checks))
""",
    ) == [2, 0, True, [1, 3], True, [1, 1, 1, 1], True]


def test_strides_and_alignment(shift):
    assert execute(
        shift,
        """
wide, shifted = put(numpy.ascontiguousarray(x.T)), put(numpy.concatenate([[9], state]).astype("float32"))
target = put(numpy.zeros(30, "float32"))
slots = run(model, [tensor(wide, x.shape, [1, 5]), tensor(shifted + 4, state.shape)], [tensor(target, (5, 3), [6, 2]), None])
print(json.dumps([get(target, (5, 3, 2))[:, :, 0].tolist() == expected.tolist(), bool((get(target, (5, 3, 2))[:, :, 1] == 0).all()),
                  get(shifted, 5).tolist(), numpy.array_equal(get(slots[1].contents.tensor.data, (5, 3)), x)]))
""",
    ) == [True, True, [9, 1, 1, 1, 1], True]


def test_mixtures(shift):
    assert execute(
        shift,
        """
own = numpy.zeros((5, 3), "float32")
run(model, [tensor(put(x), x.shape), tensor(state.ctypes.data, state.shape, device=(_abi.CPU, 0))],
    [tensor(own.ctypes.data, own.shape, device=(_abi.CPU, 0)), None])
print(json.dumps([numpy.array_equal(own, expected), state.tolist()]))
""",
    ) == [True, [1, 1, 1, 1]]


def test_refusals(shift):
    messages = execute(
        shift,
        """
good = tensor(put(state), state.shape)
other = C.c_void_p()
driver.cuCtxPushCurrent_v2(contexts[1])
elsewhere = put(x)
driver.cuStreamCreate(C.byref(other), 0)
driver.cuCtxPopCurrent_v2(C.byref(C.c_void_p()))
print(json.dumps([
    message(model, [tensor(x.ctypes.data, x.shape), good]),
    message(model, [tensor(elsewhere, x.shape, device=(_abi.CUDA, 1)), good]),
    message(model, [tensor(elsewhere, x.shape), good]),
    message(model, [tensor(put(x), x.shape, device=(10, 0)), good]),
    message(model, [tensor(put(x), x.shape), good], stream=other),
    message(model, [tensor(put(x), x.shape), good], [tensor(x.ctypes.data, x.shape), None]),
    message(model, [tensor(put(x), x.shape), good]),
    kiln.load(sys.argv[1], device=1)._handle is not None]))
""",
    )
    for got, text in zip(
        messages,
        (
            '1 input 0 "x": is said to be on cuda:0, but its memory is the host\'s: say that the tensor is on the cpu, or copy it to the GPU',
            '1 input 0 "x": expected device cuda:0 or cpu, got cuda:1',
            '1 input 0 "x": is said to be on cuda:0, but its memory is that of cuda:1',
            '1 input 0 "x": expected device cuda:0 or cpu, got rocm:0',
            "1 stream: expected a stream of cuda:0's primary context, got one of another device or context",
            '1 output 0 "',
            None,
            True,
        ),
    ):
        assert got == text or (isinstance(text, str) and got.startswith(text)), (got, text)
