"""Models whose generated code has a sanitizer in it, run by a host that has it, too: what `test/sanitize/aot-compile` makes."""

import json
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMPILER = HERE / "aot-compile"
KINDS = ("address", "memory", "thread")
SECONDS = 300
_SYMBOLIZER = shutil.which("llvm-symbolizer-22") or ""
OPTIONS = {
    **{f"{tool}_SYMBOLIZER_PATH": _SYMBOLIZER for tool in ("ASAN", "MSAN")},
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:allocator_may_return_null=1:abort_on_error=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "MSAN_OPTIONS": "allocator_may_return_null=1",
    "TSAN_OPTIONS": f"halt_on_error=1:allocator_may_return_null=1:external_symbolizer_path={_SYMBOLIZER}",
}
_FLOATS = (torch.float16, torch.float32, torch.float64)
_INTEGERS = {torch.int8: (0, 8), torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64), torch.uint8: (1, 8), torch.bool: (6, 8)}
_INTEGERS |= {torch.uint16: (1, 16), torch.uint32: (1, 32), torch.uint64: (1, 64)}
CODES = {dtype: (2, torch.finfo(dtype).bits) for dtype in _FLOATS} | _INTEGERS
CODES |= {torch.bfloat16: (4, 16), torch.complex32: (5, 32), torch.complex64: (5, 64), torch.complex128: (5, 128)}
# DLPack's numbers of small floats.
for _number, _name in enumerate(["e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"], 7):
    if hasattr(torch, "float8_" + _name):
        CODES[getattr(torch, "float8_" + _name)] = (_number, 8)
DTYPES = {code: dtype for dtype, code in CODES.items()}


class Report(RuntimeError):
    """A model that ended with what a sanitizer, or the model, says."""


def _as_tensor(value):
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    return torch.as_tensor(value).resolve_conj().resolve_neg()


def _bytes(tensor):
    """From the first element past the last."""
    if not tensor.numel():
        return b""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    flat = tensor.detach().as_strided((extent,), (1,), tensor.storage_offset())
    return bytes(flat.contiguous().view(torch.uint8).untyped_storage())


def _write(path, inputs, num_outputs):
    with open(path, "wb") as file:
        file.write(struct.pack("<2q", len(inputs), num_outputs))
        for value in inputs:
            tensor = _as_tensor(value)
            data = _bytes(tensor)
            numbers = (*CODES[tensor.dtype], tensor.dim(), *tensor.shape, *tensor.stride(), len(data))
            file.write(struct.pack(f"<{len(numbers)}q", *numbers) + data)


def _read(path):
    data, at, outputs = path.read_bytes(), 0, []
    while at < len(data):
        code, bits, rank = struct.unpack_from("<3q", data, at)
        at += 24
        if rank < 0:
            outputs.append(None)
            continue
        shape = struct.unpack_from(f"<{rank}q", data, at)
        at += 8 * rank
        dtype, count = DTYPES[code, bits], 1
        for size in shape:
            count *= size
        end = at + count * bits // 8
        raw = torch.frombuffer(bytearray(data[at:end]), dtype=torch.uint8) if count else torch.empty(0, dtype=torch.uint8)
        outputs.append(raw.view(dtype).reshape(shape))
        at = end
    return outputs


class Model:
    """As kiln.Model, as far as tests run it. Each run is a process, in which the model runs twice."""

    def __init__(self, path, kind, threads=2):
        self.path, self.threads = pathlib.Path(path), threads
        self.host = ROOT / "build" / "sanitize" / kind / "host"
        self.num_outputs = len(json.loads(self._call([]))["outputs"])

    def _call(self, arguments):
        command = [self.host, self.path, *arguments]
        process = subprocess.run(command, capture_output=True, text=True, errors="replace", env=OPTIONS, timeout=SECONDS)
        if process.returncode:
            lines = [line for line in process.stderr.splitlines() if re.search("ERROR:|WARNING:|SUMMARY:|host:|runtime error:", line)]
            where = [line.strip() for line in process.stderr.splitlines() if line.strip().startswith("#")][:3]
            raise Report(f"status {process.returncode}: " + " ".join([*lines[:2], *where])[:600])
        return process.stdout

    def run(self, inputs):
        with tempfile.TemporaryDirectory(prefix="kiln-sanitize-") as folder:
            given, made = pathlib.Path(folder) / "inputs", pathlib.Path(folder) / "outputs"
            _write(given, inputs, self.num_outputs)
            self._call([given, made, str(self.threads), "2"])
            return _read(made)
