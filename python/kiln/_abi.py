"""The C ABI of a compiled model (include/kiln-c/model.h) in ctypes, and DLPack 1.x beneath it."""

import ctypes as C
import os
from collections.abc import Sequence
from typing import Any

CPU, CUDA = 1, 2
STATUS = ["ok", "invalid argument", "shape mismatch", "unsupported", "out of memory", "device error", "assertion failed", "internal"]

# dtype name as PyTorch spells it -> DLPack (type code, bits)
DTYPES = {
    "bool": (6, 8),
    "uint8": (1, 8),
    "uint16": (1, 16),
    "uint32": (1, 32),
    "uint64": (1, 64),
    "int8": (0, 8),
    "int16": (0, 16),
    "int32": (0, 32),
    "int64": (0, 64),
    "float16": (2, 16),
    "float32": (2, 32),
    "float64": (2, 64),
    "bfloat16": (4, 16),
    "complex32": (5, 32),
    "complex64": (5, 64),
    "complex128": (5, 128),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
}
DTYPE_NAMES = {value: name for name, value in DTYPES.items()}


class DLDevice(C.Structure):
    _fields_ = [("type", C.c_int32), ("id", C.c_int32)]


class DLDataType(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]


class DLTensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("device", DLDevice),
        ("ndim", C.c_int32),
        ("dtype", DLDataType),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    ]


class DLManagedTensorVersioned(C.Structure):
    pass


ManagedPointer = C.POINTER(DLManagedTensorVersioned)
DLManagedTensorVersioned._fields_ = [
    ("major", C.c_uint32),
    ("minor", C.c_uint32),
    ("context", C.c_void_p),
    ("deleter", C.CFUNCTYPE(None, ManagedPointer)),
    ("flags", C.c_uint64),
    ("tensor", DLTensor),
]


# Errors are raised, so the model need not write them to stderr as well.
_LogFunction = C.CFUNCTYPE(None, C.c_void_p, C.c_int, C.c_char_p)
SILENT = _LogFunction(lambda context, level, message: None)


class Options(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("num_threads", C.c_int32),
        ("device_index", C.c_int32),
        ("reserved", C.c_int32),
        ("parallel_for", C.c_void_p),
        ("parallel_ctx", C.c_void_p),
        ("alloc", C.c_void_p),
        ("dealloc", C.c_void_p),
        ("alloc_ctx", C.c_void_p),
        ("log", _LogFunction),
        ("log_ctx", C.c_void_p),
        ("weights_path", C.c_char_p),
    ]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "kiln_abi_version": (C.c_uint32, []),
    "kiln_model_info": (C.c_char_p, []),
    "kiln_model_create": (C.c_int32, [C.POINTER(Options), C.POINTER(C.c_void_p)]),
    "kiln_model_run": (
        C.c_int32,
        [C.c_void_p, C.POINTER(C.POINTER(DLTensor)), C.c_size_t, C.POINTER(ManagedPointer), C.c_size_t, C.c_void_p],
    ),
    "kiln_model_set_constant": (C.c_int32, [C.c_void_p, C.c_char_p, C.POINTER(DLTensor)]),
    "kiln_model_destroy": (None, [C.c_void_p]),
    "kiln_last_error": (C.c_char_p, []),
}
# From version 2 on.
_NEWER: dict[str, tuple[Any, list[Any]]] = {
    "kiln_model_find_entry": (C.c_int32, [C.c_void_p, C.c_char_p, C.POINTER(C.c_uint32)]),
    "kiln_session_create": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "kiln_session_reset": (C.c_int32, [C.c_void_p]),
    "kiln_session_clone": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "kiln_session_destroy": (None, [C.c_void_p]),
}


# By path, the files that have been loaded from there: device and inode.
_files: dict[str, list[tuple[int, int]]] = {}


def _spell(path: str) -> str:
    """The loader takes a path that it has seen for the same library, also after the file has been replaced: each file
    at a path has a spelling of its own."""
    status = os.stat(path)
    files, file = _files.setdefault(path, []), (status.st_dev, status.st_ino)
    if file not in files:
        files.append(file)
    folder, name = os.path.split(path)
    return os.path.join(folder, "./" * files.index(file) + name)


def open_library(path: str) -> C.CDLL:
    """Loads a model's shared object and declares its functions."""
    library = C.CDLL(_spell(path))
    newer = _NEWER if library.kiln_abi_version() > 1 else {}
    for name, (result, arguments) in (_FUNCTIONS | newer).items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def make_tensor(
    address: int | None, dtype: str, shape: Sequence[int], strides: Sequence[int], device: tuple[int, int] = (CPU, 0)
) -> DLTensor:
    """A DLTensor over borrowed memory; strides are in elements. The structure keeps its shape and strides alive."""
    code, bits = DTYPES[dtype]
    rank = len(shape)
    return DLTensor(
        address, DLDevice(*device), rank, DLDataType(code, bits, 1), (C.c_int64 * rank)(*shape), (C.c_int64 * rank)(*strides), 0
    )


def release(managed: Any) -> None:
    """Gives a tensor back to the library that made it."""
    if managed.contents.deleter:
        managed.contents.deleter(managed)


CAPSULE_NAME = b"dltensor_versioned"
_new_capsule = C.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]
capsule_pointer = C.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = C.c_void_p, [C.py_object, C.c_char_p]


def new_capsule(address: int) -> Any:
    """A DLPack capsule that hands the tensor of that address to its consumer."""
    return _new_capsule(address, CAPSULE_NAME, None)
