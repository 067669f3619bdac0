"""Runs a compiled graph from torch tensors, with as little as possible between PyTorch and the C ABI."""

import functools
import hashlib
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._inductor.output_code import OutputCode

from .. import _abi, _call
from .._model import load
from . import _cache
from ._freeze import Weights
from ._split import Split

_RANDOM = "kiln.random"
_SCALARS: dict[str, type] = {"int64": int, "float64": float, "bool": bool}


class Runner:
    """A loaded model that takes and gives torch tensors. Dynamo has checked their dtypes and devices. Calls may come from many threads at once."""

    def __init__(self, path: str, scalars: Iterable[int], device: int) -> None:
        self.model = load(path, torch.get_num_threads(), device=device)
        self.scalars, self.device = frozenset(scalars), device
        inputs = self.model.inputs
        self.tensors = [i for i in range(len(inputs)) if i not in self.scalars]
        self.on_gpu = any(entry["device"] != "cpu" for entry in inputs)
        self.dtypes = [_abi.DTYPES[entry["dtype"]] for entry in inputs]
        self.places = [_abi.CPU if entry["device"] == "cpu" else _abi.CUDA | device << 32 for entry in inputs]
        _, self.converters = _call.make_converters(self.model.outputs)
        self.draws = threading.Lock() if any(entry["name"] == _RANDOM for entry in self.model.constants) else None
        self.frames: list[_call.Frame] = []

    def _make_frame(self) -> _call.Frame:
        frame = _call.Frame((self.model._handle,), len(self.dtypes), len(self.converters))
        for i in self.scalars:
            frame.set_number(i, _SCALARS[self.model.inputs[i]["dtype"]])
        return frame

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the model on `inputs`; returns the list of its results."""
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = self._make_frame()
        words, layouts = frame.words, frame.layouts
        for i in self.tensors:
            tensor, layout = inputs[i], layouts[i]
            words[_call.WORDS * i] = tensor.data_ptr()
            shape, strides = tensor.shape, tensor.stride()
            if shape != layout[0] or strides != layout[1]:
                frame.set_layout(i, (shape, strides, None, None), self.dtypes[i], self.places[i])
        for i in self.scalars:
            frame.sizes[i].value = inputs[i]
        if self.draws is None:
            self._call(frame)
        else:
            with self.draws:
                # The model's own generator starts anew where PyTorch's is, so torch.manual_seed decides about both.
                self.model.set_constant(
                    _RANDOM, torch.stack([torch.empty((), dtype=torch.int64).random_(), torch.zeros((), dtype=torch.int64)])
                )
                self._call(frame)
        results = _call.take_outputs(frame, self.converters)
        self.frames.append(frame)
        return results

    def _call(self, frame: _call.Frame) -> None:
        if self.on_gpu:
            frame.stream.value = torch.cuda.current_stream(self.device).cuda_stream or None
        self.model._check(self.model._run(*frame.arguments))


class CompiledGraph(OutputCode):  # type: ignore[misc]
    """What the backend makes of one graph: a model, and an epilogue for outputs that need no computation. PyTorch saves it
    (`save_compiled_function`) with the model inside. Without a model, the epilogue is the whole graph, in eager mode.

    Of the inputs of the whole graph, `frozen` are weights of the model, by name. Of the model's inputs, `scalars` are numbers and `lazy` are views that conjugate or negate; of its results, `numbers` are no
    tensors."""

    def __init__(
        self,
        path: str | None,
        split: Split,
        scalars: Iterable[int] = (),
        numbers: Iterable[int] = (),
        lazy: Iterable[int] = (),
        device: int = 0,
        frozen: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self._boxed_call = True
        self.path = path
        self.library: bytes | None = None
        self.inputs, self.epilogue, self.epilogue_inputs = split.inputs, split.epilogue, split.epilogue_inputs
        self.scalars, self.numbers, self.lazy, self.device = list(scalars), list(numbers), list(lazy), device
        self.frozen = dict(frozen or {})
        self._load()

    def _load(self) -> None:
        self.runner: Runner | None = None
        self.weights: Weights | None = None
        if self.path is not None:
            make = functools.partial(Runner, self.path, self.scalars, self.device)
            if self.frozen:
                self.weights = Weights(list(self.frozen), make)
            else:
                self.runner = make()
        self.finish = self.epilogue.forward if self.epilogue is not None else None

    def __call__(self, inputs: list[Any]) -> Any:
        results: Any = []
        runner = self.runner
        if self.weights is not None:
            runner = self.weights.find([inputs[i] for i in self.frozen.values()])
        if runner is not None:
            taken = [inputs[i] for i in self.inputs]
            for i in self.lazy:
                taken[i] = taken[i].resolve_conj().resolve_neg()
            results = runner.run(taken)
            for j in self.numbers:
                results[j] = results[j].item()
        if self.finish is not None:
            results = self.finish(*[inputs[i] for i in self.epilogue_inputs], *results)
        inputs.clear()
        return results

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("runner", "weights", "finish")}

    def prepare_for_serialization(self) -> None:
        """Takes the model's file in."""
        if self.path is not None:
            with open(self.path, "rb") as file:
                self.library = file.read()
            self.path = None
        self.runner = self.weights = self.finish = None

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """After loading: puts the model's file back to where it can be loaded from."""
        if self.library is not None:
            with_content = hashlib.sha256(self.library).hexdigest()
            self.path = _cache.fetch(with_content, ".so", self._write_library)
            self.library = None
        self._load()

    def _write_library(self, path: str) -> None:
        with open(path, "wb") as file:
            file.write(self.library or b"")
        shutil.copymode(__file__, path)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There are no Triton kernels."""


class PartitionedGraph(OutputCode):  # type: ignore[misc]
    """A graph in parts that run one after the other, each on inputs of the graph and on results of parts before it.

    Values have numbers, beginning with the graph's inputs: `steps` are (graph, numbers of its inputs, those of its results, those
    of values that no later part needs), and `outputs` are (True, number) or (False, constant)."""

    def __init__(self, steps: Sequence[tuple[CompiledGraph, list[int], list[int], list[int]]], outputs: list[tuple[bool, Any]]) -> None:
        super().__init__()
        self._boxed_call = True
        self.steps, self.outputs = list(steps), outputs
        self.count = 1 + max((number for step in steps for numbers in step[1:3] for number in numbers), default=0)

    def __call__(self, inputs: list[Any]) -> Any:
        values = inputs + [None] * (self.count - len(inputs))
        inputs.clear()
        for graph, taken, given, dropped in self.steps:
            results = graph([values[number] for number in taken])
            for number, result in zip(given, results, strict=True):
                values[number] = result
            for number in dropped:
                values[number] = None
        return [values[value] if is_value else value for is_value, value in self.outputs]

    def prepare_for_serialization(self) -> None:
        for graph, *_ in self.steps:
            graph.prepare_for_serialization()

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        for graph, *_ in self.steps:
            graph.post_compile(example_inputs, constants, graph_kwargs)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There are no Triton kernels."""
