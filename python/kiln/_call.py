"""Between values of Python and the C ABI, with as little as possible done anew for each call."""

import ctypes as C
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from . import _abi

WORDS = C.sizeof(_abi.DLTensor) // 8
_OWN_HEADER = _abi.DLManagedTensorVersioned.tensor.offset
_NOTHING = (None, None, None, None)
_ELSEWHERE = (None, None, None, "elsewhere")  # the layout of an input whose DLTensor lies outside of the frame


class Frame:
    """The arguments of one run, kept for the next one: mostly, only the addresses of the data differ.

    A model has as many as runs have been in progress at once. `leading` stands before the inputs. `made` has the addresses of the outputs after a run."""

    def __init__(self, leading: Sequence[Any], inputs: int, outputs: int, dtypes: Sequence[str | None] = ()) -> None:
        self.count, self.dtypes = inputs, [*dtypes, *[None] * (inputs - len(dtypes))]
        self.words = (C.c_uint64 * (WORDS * inputs))()  # a DLTensor for each input
        first = C.addressof(self.words)
        self.own = [first + 8 * WORDS * i for i in range(inputs)]
        self.addresses = (C.c_uint64 * inputs)(*self.own)
        self.made = (C.c_uint64 * outputs)()
        self.numbers: list[tuple[int, Any]] = []  # outputs that Python has as numbers, and where the model writes them
        self.given: list[Any] = [0] * outputs  # the tensors in `made` before a run that writes them
        self.kept: list[Any] = []
        self.stream = C.c_void_p()
        # No argument needs a conversion, so the function has no argtypes: they would be half the time of a call.
        self.arguments = (*leading, self.addresses, C.c_size_t(inputs), self.made, C.c_size_t(outputs), self.stream)
        self.layouts: list[tuple[Any, Any, Any, Any]] = [_NOTHING] * inputs  # shape, strides, dtype, device if not the CPU
        self.sizes: list[Any] = [None] * inputs
        self.has_torch = False

    def set_layout(self, i: int, layout: tuple[Any, Any, Any, Any], dtype: tuple[int, int], device: int = _abi.CPU) -> None:
        """Everything of input i but its data; `device` is the first two numbers of a DLTensor as one."""
        shape, strides = layout[:2]
        rank, at = len(shape), WORDS * i
        sizes = (C.c_int64 * (2 * rank))(*shape, *strides)
        place = C.addressof(sizes)
        self.words[at + 1 : at + 5] = [device, rank | dtype[0] << 32 | dtype[1] << 40 | 1 << 48, place, place + 8 * rank]
        self.sizes[i], self.layouts[i], self.addresses[i] = sizes, layout, self.own[i]

    def take_number(self, i: int, dtype: str) -> None:
        """Makes output i, which is a number, one that the model writes to the frame."""
        value = _VALUES[dtype]()
        managed = _abi.DLManagedTensorVersioned(1, 0)
        managed.tensor = _abi.make_tensor(C.addressof(value), dtype, (), ())
        self.numbers.append((i, value))
        self.given[i] = C.addressof(managed)
        self.kept.append(managed)

    def set_number(self, i: int, kind: type) -> None:
        """Makes input i a number of Python's; `numbers[i]` is its value."""
        dtype, make = _NUMBERS[kind]
        value = make()
        self.set_layout(i, ((), (), kind, None), _abi.DTYPES[dtype])
        self.words[WORDS * i], self.words[WORDS * i + 3], self.words[WORDS * i + 4] = C.addressof(value), 0, 0
        self.sizes[i] = value


_VALUES: dict[str, Any] = {"int64": C.c_int64, "float64": C.c_double, "bool": C.c_bool}
_NUMBERS: dict[type, tuple[str, Any]] = {
    kind: (dtype, _VALUES[dtype]) for kind, dtype in ((int, "int64"), (float, "float64"), (bool, "bool"))
}


# ===-- Inputs ------------------------------------------------------------------------------------===
# Each function makes input i of a frame of a value, and returns what must live as long as the run.


def _set_torch(frame: Frame, i: int, value: Any) -> Any:
    try:
        address, shape, strides, dtype = value.data_ptr(), value.shape, value.stride(), value.dtype
    except RuntimeError:  # no memory, or no strides
        return _set_other(frame, i, value)
    if value.is_neg() or value.is_conj():
        return _set_other(frame, i, value)
    device = None if value.is_cpu else value.device
    layout = frame.layouts[i]
    if shape != layout[0] or strides != layout[1] or dtype is not layout[2] or device != layout[3]:
        frame.set_layout(i, (shape, strides, dtype, device), _read_dtype(value), _read_device(value))
    frame.words[WORDS * i] = address
    frame.has_torch = True


def _read_dtype(value: Any) -> tuple[int, int]:
    known = _abi.DTYPES.get(str(value.dtype).removeprefix("torch."))
    if known is None:
        raise TypeError(f"no DLPack type for {value.dtype}")
    return known


def _read_device(value: Any) -> int:
    if value.device.type not in ("cpu", "cuda"):
        raise TypeError(f"a tensor on {value.device} is neither on a CPU nor on a GPU")
    return _abi.CPU if value.is_cpu else _abi.CUDA | (value.device.index or 0) << 32


def _set_numpy(frame: Frame, i: int, value: Any) -> Any:
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
        frame.addresses[i] = _abi.capsule_pointer(capsule, _abi.CAPSULE_NAME) + _OWN_HEADER
    except (BufferError, TypeError, ValueError):  # a dtype or strides that DLPack has not, or a numpy before 2.1
        return _set_other(frame, i, value)
    frame.layouts[i] = _ELSEWHERE
    return capsule


def _set_number(frame: Frame, i: int, value: Any) -> Any:
    kind = type(value)
    if frame.layouts[i][2] is not kind:
        frame.set_number(i, kind)
    number = frame.sizes[i]
    number.value = value
    if number.value != value and value == value:
        raise OverflowError(f"{value} is no integer of 64 bits")


def _set_other(frame: Frame, i: int, value: Any) -> Any:
    if is_torch(value):
        if type(value) in _get_tensor_types():
            _SETTERS.setdefault(type(value), _set_torch)
        frame.has_torch = True
    tensor, owner = describe(value, frame.dtypes[i])
    frame.addresses[i] = C.addressof(tensor)
    frame.layouts[i] = _ELSEWHERE
    return tensor, owner


_SETTERS: dict[type, Callable[[Frame, int, Any], Any]] = {
    numpy.ndarray: _set_numpy,
    int: _set_number,
    float: _set_number,
    bool: _set_number,
}


def set_inputs(frame: Frame, inputs: Sequence[Any]) -> list[Any]:
    """Makes the arguments of a run. What it returns must live until the run is over."""
    frame.has_torch = False
    get, other = _SETTERS.get, _set_other
    return [get(type(value), other)(frame, i, value) for i, value in enumerate(inputs)]


def check_written(value: Any, name: str) -> None:
    """Refuses what the program could not write in place: what is read-only, and what would be copied."""
    if is_torch(value):
        is_good = not (value.is_conj() or value.is_neg())
    else:
        is_good = isinstance(value, numpy.ndarray) and value.flags.writeable and not any(s % value.itemsize for s in value.strides)
    if not is_good:
        raise ValueError(f"the program writes its input {name!r}, which here is a number, read-only, or no plain memory")


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _get_tensor_types() -> tuple[type, ...]:
    """The classes of tensors that have memory of their own: a subclass may stand for something else."""
    torch = sys.modules["torch"]
    return torch.Tensor, torch.nn.Parameter


def describe(value: Any, dtype: str | None) -> tuple[_abi.DLTensor, Any]:
    """(DLTensor, the object that owns its memory) of one value; `dtype` names what raw bytes stand for."""
    if is_torch(value):
        if value.layout != sys.modules["torch"].strided:
            raise TypeError(f"a tensor of layout {value.layout} has no strides")
        value = value.detach().resolve_conj().resolve_neg()
        code, device = _read_dtype(value), _read_device(value)
        place = (device & 0xFFFFFFFF, device >> 32)
        return _abi.make_tensor(value.data_ptr(), _abi.DTYPE_NAMES[code], value.shape, value.stride(), place), value
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


def get_stream(inputs: Sequence[Any]) -> int | None:
    """The stream on which torch works with tensors of a GPU, NULL if there are none."""
    for value in inputs:
        if is_torch(value) and value.device.type == "cuda":
            stream: int = sys.modules["torch"].cuda.current_stream(value.device).cuda_stream
            return stream or None
    return None


# ===-- Outputs -----------------------------------------------------------------------------------===
# Each function makes a value of the address of an output, which it owns from then on.

Convert = Callable[[int], Any]


def _is_raw(dtype: _abi.DLDataType) -> bool:
    """numpy has no such type: bfloat16, floats of 8 bits, complex32."""
    return dtype.code in (4, 10, 11, 12, 13) or (dtype.code, dtype.bits) == (5, 32)


class _Memory:
    """An output's memory as numpy sees it; freed with the last array that looks at it."""

    def __init__(self, managed: Any) -> None:
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

    def __del__(self) -> None:
        _abi.release(self.managed)


class _Capsule:
    """An output as numpy takes it from another library."""

    __slots__ = ("capsule",)

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _abi.CPU, 0


def _has_data(address: int) -> int:
    data: int = C.c_uint64.from_address(address + _OWN_HEADER).value
    return data


def _plain_to_numpy(address: int) -> Any:
    return numpy.from_dlpack(_Capsule(_abi.new_capsule(address)))


def _sized_to_numpy(address: int) -> Any:
    return _plain_to_numpy(address) if _has_data(address) else to_numpy(address)


def to_numpy(address: int) -> Any:
    """An output of any dtype and size."""
    managed = C.cast(address, _abi.ManagedPointer)
    tensor = managed.contents.tensor
    name = _abi.DTYPE_NAMES[tensor.dtype.code, tensor.dtype.bits]
    shape = tuple(tensor.shape[: tensor.ndim])
    if 0 in shape or not tensor.data:
        raw = f"V{tensor.dtype.bits // 8}" if _is_raw(tensor.dtype) else name
        _abi.release(managed)
        array = numpy.empty(shape, raw)
    else:
        array = numpy.asarray(_Memory(managed))
    if array.dtype.kind == "V":
        try:
            import ml_dtypes

            array = array.view(getattr(ml_dtypes, name))
        except (ImportError, AttributeError):
            pass  # raw bytes are the best that numpy alone can do
    return array


@functools.cache
def _from_dlpack() -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = sys.modules["torch"]._C._from_dlpack
    return function


def plain_to_torch(address: int) -> Any:
    """An output that has elements."""
    return _from_dlpack()(_abi.new_capsule(address))


def to_torch(address: int) -> Any:
    """An output of any size: DLPack's consumers differ about memory that is not there."""
    if _has_data(address):
        return plain_to_torch(address)
    torch = sys.modules["torch"]
    managed = C.cast(address, _abi.ManagedPointer)
    tensor = managed.contents.tensor
    if tensor.device.type != _abi.CPU:
        return plain_to_torch(address)
    dtype = getattr(torch, _abi.DTYPE_NAMES[tensor.dtype.code, tensor.dtype.bits])
    shape = tensor.shape[: tensor.ndim]
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    _abi.release(managed)
    return torch.empty_strided(shape, strides, dtype=dtype) if strides else torch.empty(shape, dtype=dtype)


try:
    numpy.empty(0).__dlpack__(max_version=(1, 0))
    _PLAIN = {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}
    _PLAIN |= {"float16", "float32", "float64", "complex64", "complex128"}
except TypeError:  # a numpy before 2.1 knows no versioned tensors
    _PLAIN = set()


def make_converters(entries: Sequence[dict[str, Any]]) -> tuple[list[Convert], list[Convert]]:
    """For each output, how numpy takes it and how torch does."""
    for_numpy: list[Convert] = []
    for_torch: list[Convert] = []
    for entry in entries:
        has_elements = entry["dtype"] is not None and all(isinstance(size, int) and size > 0 for size in entry["shape"])
        is_plain = entry["dtype"] in _PLAIN and entry["device"] == "cpu"
        for_numpy.append(to_numpy if not is_plain else _plain_to_numpy if has_elements else _sized_to_numpy)
        for_torch.append(plain_to_torch if has_elements else to_torch)
    return for_numpy, for_torch


def leave(address: int) -> None:
    """Converts nothing: an output that the frame has."""


def take_outputs(frame: Frame, converters: Sequence[Convert]) -> list[Any]:
    """The outputs of a run, which leave the frame; None for an output that is None."""
    made = frame.made
    addresses, results = made[:], []
    made[:] = [0] * len(addresses)
    try:
        for address, convert in zip(addresses, converters):
            results.append(convert(address) if address else None)
    except BaseException:  # what could not be converted may have an owner already
        for address in addresses[len(results) + 1 :]:
            if address:
                _abi.release(C.cast(address, _abi.ManagedPointer))
        raise
    return results
