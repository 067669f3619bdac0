"""Loading and calling a compiled model."""

import ctypes as C
import json
import os
from collections.abc import Sequence
from typing import Any

from . import _abi, _call, _libraries
from ._tree import Signature

Path = str | os.PathLike[str]


class KilnError(RuntimeError):
    """What a model refused: `status` is the number of kiln_status, the text is the model's own message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Model:
    """A compiled model. Calls may come from many threads at once, and release the interpreter's lock.

    `inputs`, `outputs`, `constants` and `symbols` describe it: see `kiln_model_info` in include/kiln-c/model.h."""

    def __init__(self, path: Path, threads: int = 0, weights: Path | None = None, device: int = 0) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._handle = C.c_void_p()
        self._folder: Any = None  # a temporary one that the file is in
        try:
            self._library = _abi.open_library(self.path)
        except (OSError, AttributeError) as error:
            raise KilnError(1, f"{self.path}: not a compiled model: {error}") from None
        if self._library.kiln_abi_version() != 1:
            raise KilnError(3, f"{self.path}: ABI version {self._library.kiln_abi_version()}, this package reads 1")
        self.info: dict[str, Any] = json.loads(self._library.kiln_model_info())
        self.inputs: list[dict[str, Any]] = self.info["inputs"]
        self.outputs: list[dict[str, Any]] = self.info["outputs"]
        self.constants: list[dict[str, Any]] = self.info["constants"]
        self.symbols: dict[str, dict[str, int | None]] = self.info["symbols"]
        self._signature = Signature(self.info["signature"]) if "signature" in self.info else None
        self._run = self._library["kiln_model_run"]
        self._run.restype = C.c_int32
        self._frames: list[_call.Frame] = []
        self._dtypes = [entry["dtype"] for entry in self.inputs]
        self._written = [i for i, entry in enumerate(self.inputs) if entry.get("mutated")]
        self._for_numpy, self._for_torch = _call.make_converters(self.outputs)
        self._on_gpu = self.info["target"] != "cpu"
        numbers = self._signature.numbers if self._signature is not None else []
        self._numbers = [i for i in numbers if self.outputs[i]["device"] == "cpu"]  # the model writes them to where they are read
        self._rest = [i for i in numbers if i not in self._numbers]
        self._for_call = tuple(
            [_call.leave if i in self._numbers else convert for i, convert in enumerate(converters)]
            for converters in (self._for_numpy, self._for_torch)
        )
        if self._on_gpu:
            _libraries.point_out(self.path)
        options = self._make_options(threads, weights)
        options.device_index = device
        self._check(self._library.kiln_model_create(C.byref(options), C.byref(self._handle)))

    def _make_options(self, threads: int, weights: Path | None) -> _abi.Options:
        return _abi.Options(
            struct_size=C.sizeof(_abi.Options),
            num_threads=threads,
            log=_abi.SILENT,
            weights_path=os.fsencode(weights) if weights is not None else None,
        )

    def _check(self, status: int) -> None:
        if status:
            message = (self._library.kiln_last_error() or b"").decode("utf-8", "replace")
            raise KilnError(status, message or _abi.STATUS[min(status, len(_abi.STATUS) - 1)])

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Runs the model with the arguments of the exported program; returns what that returns.

        Where the model does not say how the program was called, and where arguments can be nothing else, they are the flat
        inputs, and the result is the output, or a tuple when there are none or several."""
        signature = self._signature
        if signature is None:
            if named:
                raise TypeError(f"this model has no arguments with names: {list(named)}")
            outputs = self.run(inputs)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        flat: Sequence[Any] = inputs
        if named or not (signature.is_flat or signature.takes_flat(inputs)):
            flat = signature.flatten(inputs, named)
        outputs = self._execute(flat, True)
        for i, text in signature.texts:
            outputs[i] = text
        return outputs[0] if signature.is_single else signature.build(outputs)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the model on the flat inputs of the C ABI; returns the list of its outputs (`None` for an output that is None)."""
        return self._execute(inputs, False)

    def _make_frame(self, count: int) -> _call.Frame:
        frame = _call.Frame(self._handle, count, len(self.outputs), self._dtypes[:count])
        for i in self._numbers:
            frame.take_number(i, self.outputs[i]["dtype"])
        return frame

    def _execute(self, inputs: Sequence[Any], is_call: bool) -> list[Any]:
        """As `run`, but a call has numbers of Python's where the program has."""
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = self._make_frame(len(self.inputs))
        if len(inputs) != frame.count:  # refused by the model
            frame = self._make_frame(len(inputs))
        for i in self._written:
            if i < len(inputs):
                _call.check_written(inputs[i], self.inputs[i]["name"])
        kept = _call.set_inputs(frame, inputs)
        if self._on_gpu:
            frame.stream.value = _call.get_stream(inputs)
        if is_call and frame.numbers:
            frame.made[:] = frame.given
        status = self._run(*frame.arguments)
        if status:
            self._check(status)
        del kept
        if is_call:
            results = _call.take_outputs(frame, self._for_call[frame.has_torch])
            for i, number in frame.numbers:
                results[i] = number.value
            for i in self._rest:
                results[i] = results[i].item()
        else:
            results = _call.take_outputs(frame, self._for_torch if frame.has_torch else self._for_numpy)
        self._frames.append(frame)
        return results

    def set_constant(self, name: str, value: Any) -> None:
        """Replaces a parameter or buffer by a tensor of the same dtype and shape; `"NAME[2:5]"` are rows 2, 3 and 4 of it."""
        names = (name, name.rpartition("[")[0])
        declared = next((entry["dtype"] for entry in self.constants if entry["name"] in names), None)
        tensor, owner = _call.describe(value, declared)
        self._check(self._library.kiln_model_set_constant(self._handle, name.encode(), C.byref(tensor)))
        del owner

    def close(self) -> None:
        """Frees the model; it cannot be called afterwards."""
        handle, self._handle.value = self._handle.value, None
        if handle:
            self._library.kiln_model_destroy(handle)

    def __del__(self) -> None:
        if getattr(self, "_library", None):
            self.close()

    def __repr__(self) -> str:
        def text(entries: Sequence[dict[str, Any]]) -> str:
            return ", ".join(f"{entry['name']}: {entry['dtype']}{entry['shape']}" for entry in entries)

        return f"<kiln.Model {self.info['name']} ({text(self.inputs)}) -> ({text(self.outputs)})>"


def load(path: Path, threads: int = 0, weights: Path | None = None, device: int = 0) -> Model:
    """Loads a compiled model. `threads` 0 uses all cores this process may use; `weights` is the path of external weights
    that do not lie beside the `.so`; `device` is the GPU of a model for CUDA."""
    return Model(path, threads, weights, device)
