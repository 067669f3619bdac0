"""Loading and calling a compiled model."""

import ctypes as C
import json
import os
import sys

import numpy

from . import _abi


class KilnError(RuntimeError):
    """What a model refused: `status` is the number of kiln_status, the text is the model's own message."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def _is_raw(dtype):
    """numpy has no such type: bfloat16, floats of 8 bits, complex32."""
    return dtype.code in (4, 10, 11, 12, 13) or (dtype.code, dtype.bits) == (5, 32)


class _Memory:
    """An output's memory as numpy sees it; freed with the last array that looks at it."""

    def __init__(self, managed):
        self.managed = managed
        tensor = managed.contents.tensor
        size = tensor.dtype.bits // 8
        kind = "V" if _is_raw(tensor.dtype) else {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}[tensor.dtype.code]
        strides = [tensor.strides[i] * size for i in range(tensor.ndim)] if tensor.strides else None
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(tensor.shape[: tensor.ndim]),
            "typestr": f"{'|' if size == 1 else '<'}{kind}{size}",
            "data": (tensor.data + tensor.byte_offset, False),
            "strides": tuple(strides) if strides is not None else None,
        }

    def __del__(self):
        _release(self.managed)


def _release(managed):
    if managed.contents.deleter:
        managed.contents.deleter(managed)


def _to_numpy(managed):
    tensor = managed.contents.tensor
    name = _abi.DTYPE_NAMES[tensor.dtype.code, tensor.dtype.bits]
    shape = tuple(tensor.shape[: tensor.ndim])
    if 0 in shape or not tensor.data:
        _release(managed)
        array = numpy.empty(shape, f"V{tensor.dtype.bits // 8}" if _is_raw(tensor.dtype) else name)
    else:
        array = numpy.asarray(_Memory(managed))
    if array.dtype.kind == "V":
        try:
            import ml_dtypes

            array = array.view(getattr(ml_dtypes, name))
        except (ImportError, AttributeError):
            pass  # raw bytes are the best that numpy alone can do
    return array


def _to_torch(managed):
    import torch

    if managed.contents.tensor.device.type == _abi.CPU and 0 in managed.contents.tensor.shape[: managed.contents.tensor.ndim]:
        tensor = managed.contents.tensor
        dtype = getattr(torch, _abi.DTYPE_NAMES[tensor.dtype.code, tensor.dtype.bits])
        shape = tensor.shape[: tensor.ndim]
        strides = tensor.strides[: tensor.ndim] if tensor.strides else None
        _release(managed)
        return torch.empty_strided(shape, strides, dtype=dtype) if strides else torch.empty(shape, dtype=dtype)
    return torch.from_dlpack(_abi.make_capsule(managed))


def _is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _describe(value, dtype):
    """(DLTensor, the object that owns its memory) of one value; `dtype` names what raw bytes stand for."""
    if _is_torch(value):
        if value.layout != sys.modules["torch"].strided:
            raise TypeError(f"a tensor of layout {value.layout} has no strides")
        value = value.detach().resolve_conj().resolve_neg()
        device = (_abi.CPU, 0) if value.device.type == "cpu" else (_abi.CUDA, value.device.index or 0)
        name = str(value.dtype).removeprefix("torch.")
        if name not in _abi.DTYPES:
            raise TypeError(f"no DLPack type for {value.dtype}")
        return _abi.make_tensor(value.data_ptr(), name, value.shape, value.stride(), device), value
    if isinstance(value, (bool, int, float, numpy.generic)):
        value = numpy.asarray(value)
    if not isinstance(value, numpy.ndarray):
        raise TypeError(f"a {type(value).__name__} is neither a tensor, an array nor a number")
    name = dtype if value.dtype.kind == "V" and value.dtype.name not in _abi.DTYPES else value.dtype.name
    if name not in _abi.DTYPES or not value.dtype.isnative:
        raise TypeError(f"no DLPack type for numpy's {value.dtype}")
    size = value.dtype.itemsize
    if any(stride % size for stride in value.strides):
        value = value.copy()
    return _abi.make_tensor(value.ctypes.data, name, value.shape, [s // size for s in value.strides]), value


class Model:
    """A compiled model. Calls may come from many threads at once.

    `inputs`, `outputs`, `constants` and `symbols` describe it: see `kiln_model_info` in include/kiln-c/model.h."""

    def __init__(self, path, threads=0, weights=None, device=0):
        self.path = os.path.abspath(os.fspath(path))
        self._handle = C.c_void_p()
        try:
            self._library = _abi.open_library(self.path)
        except (OSError, AttributeError) as error:
            raise KilnError(1, f"{self.path}: not a compiled model: {error}") from None
        if self._library.kiln_abi_version() != 1:
            raise KilnError(3, f"{self.path}: ABI version {self._library.kiln_abi_version()}, this package reads 1")
        self.info = json.loads(self._library.kiln_model_info())
        self.inputs, self.outputs = self.info["inputs"], self.info["outputs"]
        self.constants, self.symbols = self.info["constants"], self.info["symbols"]
        options = self._make_options(threads, weights)
        options.device_index = device
        self._check(self._library.kiln_model_create(C.byref(options), C.byref(self._handle)))

    def _make_options(self, threads, weights):
        return _abi.Options(
            struct_size=C.sizeof(_abi.Options),
            num_threads=threads,
            log=_abi.SILENT,
            weights_path=os.fsencode(weights) if weights is not None else None,
        )

    def _check(self, status):
        if status:
            message = (self._library.kiln_last_error() or b"").decode("utf-8", "replace")
            raise KilnError(status, message or _abi.STATUS[min(status, len(_abi.STATUS) - 1)])

    def __call__(self, *inputs):
        """Runs the model; returns the output, or a tuple when there are none or several."""
        outputs = self.run(inputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(self, inputs):
        """Runs the model on a sequence of inputs; returns the list of outputs (`None` for an output that is None)."""
        names = [entry["dtype"] for entry in self.inputs] + [None] * len(inputs)
        described = [_describe(value, name) for value, name in zip(inputs, names)]
        pointers = (C.POINTER(_abi.DLTensor) * len(inputs))(*(C.pointer(tensor) for tensor, _ in described))
        results = (_abi.ManagedPointer * len(self.outputs))()
        self._check(self._library.kiln_model_run(self._handle, pointers, len(inputs), results, len(results), _get_stream(inputs)))
        convert = _to_torch if any(_is_torch(value) for value in inputs) else _to_numpy
        return [convert(_copy_pointer(managed)) if managed else None for managed in results]

    def set_constant(self, name, value):
        """Replaces a parameter or buffer by a tensor of the same dtype and shape."""
        declared = next((entry["dtype"] for entry in self.constants if entry["name"] == name), None)
        tensor, owner = _describe(value, declared)
        self._check(self._library.kiln_model_set_constant(self._handle, name.encode(), C.byref(tensor)))
        del owner

    def close(self):
        """Frees the model; it cannot be called afterwards."""
        if self._handle:
            self._library.kiln_model_destroy(self._handle)
            self._handle = C.c_void_p()

    def __del__(self):
        if getattr(self, "_library", None):
            self.close()

    def __repr__(self):
        def text(entries):
            return ", ".join(f"{entry['name']}: {entry['dtype']}{entry['shape']}" for entry in entries)

        return f"<kiln.Model {self.info['name']} ({text(self.inputs)}) -> ({text(self.outputs)})>"


def _get_stream(inputs):
    """The stream on which torch works with tensors of a GPU, NULL if there are none."""
    for value in inputs:
        if _is_torch(value) and value.device.type == "cuda":
            return sys.modules["torch"].cuda.current_stream(value.device).cuda_stream or None
    return None


def _copy_pointer(pointer):
    """The same address without a reference into the array that it was read from."""
    return C.cast(C.cast(pointer, C.c_void_p).value, _abi.ManagedPointer)


def load(path, threads=0, weights=None, device=0):
    """Loads a compiled model. `threads` 0 uses all cores this process may use; `weights` is the path of external weights
    that do not lie beside the `.so`; `device` is the GPU of a model for CUDA."""
    return Model(path, threads, weights, device)
