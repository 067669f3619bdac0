"""Runs a compiled graph from torch tensors, with as little as possible between PyTorch and the C ABI."""

import ctypes as C
import hashlib
import shutil
import threading

import torch
from torch._inductor.output_code import OutputCode

from .. import _abi
from .._model import _to_torch, load
from . import _cache

_WORDS = C.sizeof(_abi.DLTensor) // 8
_RANDOM = "kiln.random"
_SCALARS = {"int64": C.c_int64, "float64": C.c_double, "bool": C.c_bool}


class _Frame:
    """The arguments of one run, kept for the next one: mostly, only the addresses of the data differ."""

    def __init__(self, inputs, scalars, device, outputs):
        count = len(inputs)
        self.tensors = (_abi.DLTensor * count)()
        self.words = (C.c_uint64 * (_WORDS * count)).from_buffer(self.tensors)
        first = C.addressof(self.tensors)
        self.addresses = (C.c_void_p * count)(*(first + 8 * _WORDS * i for i in range(count)))
        self.pointers = C.cast(self.addresses, C.POINTER(C.POINTER(_abi.DLTensor)))
        self.results = (_abi.ManagedPointer * outputs)()
        self.made = (C.c_uint64 * outputs).from_buffer(self.results)
        self.shapes, self.strides, self.values, self.sizes = [None] * count, [None] * count, {}, []
        for i, entry in enumerate(inputs):
            rank = len(entry["shape"])
            sizes = (C.c_int64 * (2 * rank))()
            self.sizes.append(sizes)
            tensor, place = self.tensors[i], C.addressof(sizes)
            tensor.ndim = rank
            tensor.dtype = _abi.DLDataType(*_abi.DTYPES[entry["dtype"]], 1)
            tensor.device = _abi.DLDevice(_abi.CPU, 0) if entry["device"] == "cpu" else _abi.DLDevice(_abi.CUDA, device)
            tensor.shape = C.cast(place, C.POINTER(C.c_int64))
            tensor.strides = C.cast(place + 8 * rank, C.POINTER(C.c_int64))
            if i in scalars:
                self.values[i] = (_SCALARS[entry["dtype"]] * 1)()
                tensor.data = C.addressof(self.values[i])

    def set_layout(self, i, shape, strides):
        rank = self.tensors[i].ndim
        if len(shape) != rank:
            raise RuntimeError(f"input {i}: expected {rank} dims, got shape {tuple(shape)}")
        self.sizes[i][:rank], self.sizes[i][rank:] = shape, strides
        self.shapes[i], self.strides[i] = shape, strides


class Runner:
    """A loaded model that takes and gives torch tensors. Calls may come from many threads at once."""

    def __init__(self, path, scalars, device):
        self.model = load(path, torch.get_num_threads(), device=device)
        self.scalars, self.device = frozenset(scalars), device
        inputs = self.model.inputs
        self.tensors = [i for i in range(len(inputs)) if i not in self.scalars]
        self.on_gpu = any(entry["device"] != "cpu" for entry in inputs)
        # An output that may be empty needs a closer look: DLPack's consumers differ about memory that is not there.
        self.outputs = [
            (entry["dtype"] is not None and all(isinstance(size, int) and size > 0 for size in entry["shape"]))
            for entry in self.model.outputs
        ]
        self.draws = threading.Lock() if any(entry["name"] == _RANDOM for entry in self.model.constants) else None
        self.frames = []

    def run(self, inputs):
        """Runs the model on `inputs`; returns the list of its results."""
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = _Frame(self.model.inputs, self.scalars, self.device, len(self.outputs))
        words, shapes, strides = frame.words, frame.shapes, frame.strides
        for i in self.tensors:
            tensor = inputs[i]
            words[_WORDS * i] = tensor.data_ptr()
            shape, stride = tensor.shape, tensor.stride()
            if shape != shapes[i] or stride != strides[i]:
                frame.set_layout(i, shape, stride)
        for i in self.scalars:
            frame.values[i][0] = inputs[i]
        if self.draws is None:
            self._call(frame, len(inputs))
        else:
            with self.draws:
                # The model's own generator starts anew where PyTorch's is, so torch.manual_seed decides about both.
                self.model.set_constant(
                    _RANDOM, torch.stack([torch.empty((), dtype=torch.int64).random_(), torch.zeros((), dtype=torch.int64)])
                )
                self._call(frame, len(inputs))
        made = frame.made
        results = []
        for j, is_plain in enumerate(self.outputs):
            address = made[j]
            made[j] = 0
            if is_plain:
                results.append(torch._C._from_dlpack(_abi.new_capsule(address)))
            else:
                results.append(_to_torch(C.cast(address, _abi.ManagedPointer)) if address else None)
        self.frames.append(frame)
        return results

    def _call(self, frame, count):
        model = self.model
        stream = (torch.cuda.current_stream(self.device).cuda_stream or None) if self.on_gpu else None
        model._check(model._library.kiln_model_run(model._handle, frame.pointers, count, frame.results, len(self.outputs), stream))


class CompiledGraph(OutputCode):
    """What the backend makes of one graph: a model, and an epilogue for outputs that need no computation. PyTorch saves it
    (`save_compiled_function`) with the model inside. Without a model, the epilogue is the whole graph, in eager mode.

    Of the model's inputs, `scalars` are numbers and `lazy` are views that conjugate or negate; of its results, `numbers` are no
    tensors."""

    def __init__(self, path, split, scalars=(), numbers=(), lazy=(), device=0):
        super().__init__()
        self._boxed_call = True
        self.path, self.library = path, None
        self.inputs, self.epilogue, self.epilogue_inputs = split.inputs, split.epilogue, split.epilogue_inputs
        self.scalars, self.numbers, self.lazy, self.device = list(scalars), list(numbers), list(lazy), device
        self._load()

    def _load(self):
        self.runner = Runner(self.path, self.scalars, self.device) if self.path is not None else None
        self.finish = self.epilogue.forward if self.epilogue is not None else None

    def __call__(self, inputs):
        results = []
        if self.runner is not None:
            taken = [inputs[i] for i in self.inputs]
            for i in self.lazy:
                taken[i] = taken[i].resolve_conj().resolve_neg()
            results = self.runner.run(taken)
            for j in self.numbers:
                results[j] = results[j].item()
        if self.finish is not None:
            results = self.finish(*[inputs[i] for i in self.epilogue_inputs], *results)
        inputs.clear()
        return results

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("runner", "finish")}

    def prepare_for_serialization(self):
        """Takes the model's file in."""
        if self.path is not None:
            with open(self.path, "rb") as file:
                self.library = file.read()
            self.path = None
        self.runner = self.finish = None

    def post_compile(self, example_inputs, constants, graph_kwargs):
        """After loading: puts the model's file back to where it can be loaded from."""
        if self.library is not None:
            with_content = hashlib.sha256(self.library).hexdigest()
            self.path = _cache.fetch(with_content, ".so", self._write_library)
            self.library = None
        self._load()

    def _write_library(self, path):
        with open(path, "wb") as file:
            file.write(self.library)
        shutil.copymode(__file__, path)

    def set_triton_bundle(self, triton_bundle):
        """There are no Triton kernels."""
