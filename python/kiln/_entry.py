"""Calling one program of a model."""

import ctypes as C
from collections.abc import Sequence
from typing import Any

from . import _abi, _call
from ._tree import Signature


class KilnError(RuntimeError):
    """What a model refused: `status` is the number of kiln_status, the text is the model's own message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Entry:
    """A program of a model, as a function. Calls may come from many threads at once, and release the interpreter's lock.

    `inputs`, `outputs` and `symbols` describe it: see `kiln_model_info` in include/kiln-c/model.h."""

    def __init__(self, library: Any, description: dict[str, Any], on_gpu: bool) -> None:
        self._library = library
        self.inputs: list[dict[str, Any]] = description["inputs"]
        self.outputs: list[dict[str, Any]] = description["outputs"]
        self.symbols: dict[str, dict[str, int | None]] = description["symbols"]
        self._signature = Signature(description["signature"]) if "signature" in description else None
        self._dtypes = [entry["dtype"] for entry in self.inputs]
        self._written = [i for i, entry in enumerate(self.inputs) if entry.get("mutated")]
        self._for_numpy, self._for_torch = _call.make_converters(self.outputs)
        self._on_gpu = on_gpu
        numbers = self._signature.numbers if self._signature is not None else []
        self._numbers = [i for i in numbers if self.outputs[i]["device"] == "cpu"]  # the model writes them to where they are read
        self._rest = [i for i in numbers if i not in self._numbers]
        self._for_call = tuple(
            [_call.leave if i in self._numbers else convert for i, convert in enumerate(converters)]
            for converters in (self._for_numpy, self._for_torch)
        )

    def _bind(self, owner: Any, function: str, *first: Any) -> "Entry":
        """The entry with the function of the C ABI that runs it, and what that takes before the inputs, which is its owner's."""
        bound = Entry.__new__(Entry)
        vars(bound).update(vars(self), _owner=owner)
        bound._set_function(function, *first)
        return bound

    def _set_function(self, function: str, *first: Any) -> None:
        self._run = self._library[function]
        self._run.restype = C.c_int32
        self._first = first
        self._frames: list[_call.Frame] = []

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
        frame = _call.Frame(self._first, count, len(self.outputs), self._dtypes[:count])
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
