import ctypes
import operator
import os
import pathlib  # noqa: F401 -- load(), which is generated, uses it
import sys
import types

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, free_unbacked_symbols
from torch.utils._pytree import tree_leaves_with_path, tree_map

# ---- The library of kernels, and the operator that launches them ----


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


# DLPack's type codes.
_CODES = {
    torch.bool: 6,
    torch.uint8: 1,
    torch.uint16: 1,
    torch.uint32: 1,
    torch.uint64: 1,
    torch.bfloat16: 4,
    torch.complex32: 5,
    torch.complex64: 5,
    torch.complex128: 5,
    torch.float8_e4m3fn: 10,
    torch.float8_e4m3fnuz: 11,
    torch.float8_e5m2: 12,
    torch.float8_e5m2fnuz: 13,
}


class _Library:
    """The kernels of one model by name, and the bytes of its constants."""

    def __init__(self, path):
        self.library, self.file = ctypes.CDLL(path), os.stat(path)
        if not hasattr(self.library, "kiln_steps_hash"):
            raise RuntimeError(f"{path} is not the library of an FX module's kernels")
        self.library.kiln_last_error.restype = ctypes.c_char_p
        self.library.kiln_steps_run.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int32,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_void_p,
            ctypes.c_size_t,
        ]
        self.library.kiln_steps_read.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p]
        self.model = ctypes.c_void_p()
        self.numbers = {}
        self._check(self.library.kiln_model_create(None, ctypes.byref(self.model)))

    def _check(self, status):
        if status:
            raise RuntimeError(self.library.kiln_last_error().decode(errors="replace"))

    def launch(self, kernel, tensors, symbols):
        if kernel not in self.numbers:
            self.numbers[kernel] = self.library.kiln_steps_find(kernel.encode())
        arguments, sizes = [], []
        for tensor in tensors:
            if tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
                raise RuntimeError(f"{kernel}: expected plain tensors on the CPU, got one on {tensor.device}")
            shape = (ctypes.c_int64 * (2 * tensor.dim() + 1))(*tensor.shape, *tensor.stride())
            sizes.append(shape)
            arguments.append(
                _DLTensor(
                    tensor.data_ptr(),
                    1,
                    0,
                    tensor.dim(),
                    _CODES.get(tensor.dtype, 2 if tensor.dtype.is_floating_point else 0),
                    8 * tensor.dtype.itemsize,
                    1,
                    shape,
                    ctypes.cast(ctypes.byref(shape, 8 * tensor.dim()), ctypes.POINTER(ctypes.c_int64)),
                    0,
                )
            )
        pointers = (ctypes.c_void_p * (len(tensors) + 1))(*map(ctypes.addressof, arguments))
        values = (ctypes.c_int64 * (len(symbols) + 1))(*symbols)
        self._check(self.library.kiln_steps_run(self.model, self.numbers[kernel], pointers, len(tensors), values, len(symbols)))

    def read(self, tensor, offset):
        self._check(self.library.kiln_steps_read(self.model, offset, tensor.nbytes, tensor.data_ptr()))


def _shared():
    """The operator and the open libraries, which all emitted modules of a process have in common."""
    shared = sys.modules.get("_kiln_fx_1")
    if shared is None:
        shared = sys.modules["_kiln_fx_1"] = types.ModuleType("_kiln_fx_1")
        shared.libraries = {}
        shared.operators = torch.library.Library("kiln", "FRAGMENT")
        shared.operators.define(
            "launch(str library, str kernel, Tensor[] ins, Tensor(a!)[] outs, SymInt[] symbols) -> ()",
            tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides),
        )
        shared.operators.impl("launch", _launch, "CPU")
        torch.library.register_fake("kiln::launch", lambda library, kernel, ins, outs, symbols: None, lib=shared.operators)
    return shared


def _open(path):
    libraries = _shared().libraries
    if path not in libraries:
        libraries[path] = _Library(path)
    return libraries[path]


def _launch(library, kernel, ins, outs, symbols):
    """kiln::launch: the kernel reads `ins` and writes `outs`, which may be the same memory."""
    _open(library).launch(kernel, [*ins, *outs], symbols)
    torch.autograd.graph.increment_version([tensor for tensor in outs if not tensor.is_inference()])


# ---- Building a graph ----


class _Int:
    """A node that is a number, with Python's operators."""

    def __init__(self, graph, node):
        self.graph, self.node = graph, node


def _define(name, reflected):
    function = getattr(operator, name)
    setattr(_Int, f"__{name}__", lambda self, other: self.graph.number_of(function, self, other))
    if reflected:
        setattr(_Int, f"__r{name}__", lambda self, other: self.graph.number_of(function, other, self))


for _name, _reflected in (("add", True), ("sub", True), ("mul", True), ("floordiv", True), ("ge", False), ("le", False), ("eq", False)):
    _define(_name, _reflected)
_Int.__and__ = lambda self, other: self.graph.number_of(operator.and_, self, other)
_Int.__or__ = lambda self, other: self.graph.number_of(operator.or_, self, other)
_Int.__hash__ = object.__hash__


class _Results:
    """What an operator returns, lists flattened; each result is a node once it is asked for."""

    def __init__(self, graph, node):
        self.graph, self.node, self.nodes = graph, node, {}
        self.paths = [path for path, _ in tree_leaves_with_path(node.meta["val"])]

    def __getitem__(self, number):
        if number not in self.nodes:
            node = self.node
            for key in self.paths[number]:
                node = self.graph.node(operator.getitem, node, key.idx, value=node.meta["val"][key.idx])
            self.nodes[number] = self.graph.wrap(node)
        return self.nodes[number]


class _World:
    """What the graphs of a module have in common: fake tensors, symbols and constants."""

    def __init__(self, library, hash):
        self.path = str(library)
        self.library = _open(self.path)
        if not os.path.samestat(os.stat(self.path), self.library.file):
            raise RuntimeError(f"{self.path} has changed since this process loaded it: start another one")
        if self.library.library.kiln_steps_hash() & 0xFFFFFFFF != hash:
            raise RuntimeError(f"{self.path} belongs to another module: compile both again")
        self.env = ShapeEnv()
        self.fake = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)
        self.symbols, self.constants = {}, {}


class _Graph:
    """Builds one torch.fx.Graph. Every node has what it gives under fake tensors as meta["val"]."""

    def __init__(self, world):
        self.world, self.free = world, world.symbols
        self.graph, self.root = torch.fx.Graph(), torch.nn.Module()
        self.known = {}

    # -- Nodes

    def wrap(self, node):
        return _Int(self, node) if isinstance(node.meta["val"], (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)) else node

    def node(self, function, *arguments, value, **keywords):
        unwrap = lambda item: item.node if isinstance(item, _Int) else item
        node = self.graph.call_function(function, tree_map(unwrap, arguments), tree_map(unwrap, keywords))
        node.meta["val"] = value
        return node

    def value(self, item):
        item = item.node if isinstance(item, _Int) else item
        return item.meta["val"] if isinstance(item, torch.fx.Node) else item

    def evaluate(self, function, *arguments, **keywords):
        with self.world.fake:
            return function(*tree_map(self.value, arguments), **tree_map(self.value, keywords))

    def call(self, function, *arguments, **keywords):
        value = self.evaluate(function, *arguments, **keywords)
        return self.wrap(self.node(function, *arguments, value=value, **keywords))

    def number_of(self, function, *arguments):
        """A number of other numbers, which is a node once."""
        key = (function, *(item.node if isinstance(item, _Int) else item for item in arguments))
        if key not in self.known:
            self.known[key] = self.call(function, *arguments)
        return self.known[key]

    def min(self, first, *others):
        for other in others:
            first = self.number_of(torch.sym_min, first, other)
        return first

    def max(self, first, *others):
        for other in others:
            first = self.number_of(torch.sym_max, first, other)
        return first

    # -- Inputs

    def declare(self, name, example):
        """A symbol of the inputs' sizes, with an example of its value."""
        from torch._dynamo.source import ConstantSource  # takes long: not for static sizes

        source = ConstantSource(name)
        symbol = self.world.env.create_unspecified_symbol(example, source, DimDynamic.DYNAMIC)
        self.free[name] = self.world.env.create_symintnode(symbol, hint=example, source=source)

    def placeholder(self, name, value):
        node = self.graph.placeholder(name)
        node.meta["val"] = value
        return self.wrap(node)

    def input(self, name, sizes, strides, dtype):
        return self.placeholder(name, self.evaluate(torch.empty_strided, sizes, strides, dtype=dtype))

    def number(self, name, value):
        if value is float:
            value = self.world.env.create_unbacked_symfloat()
        elif value is bool:
            value = self.world.env.create_unbacked_symbool()
        return self.placeholder(name, value)

    def size(self, tensor, dim):
        return self.number_of(torch.ops.aten.sym_size.int, tensor, dim)

    def stride(self, tensor, dim):
        return self.number_of(torch.ops.aten.sym_stride.int, tensor, dim)

    # -- Checks

    def check(self, condition, message):
        if isinstance(condition, bool):
            if condition:
                return
            raise RuntimeError(message)
        value = self.value(condition)
        if isinstance(value, torch.SymBool) and free_unbacked_symbols(value):
            torch._check(value)  # what the values behind are known by
        self.node(torch.ops.aten._assert_scalar.default, condition, message, value=None)

    def check_range(self, number, expected, low, high):
        for bound, compare in ((low, operator.ge), (high, operator.le)):
            if bound is not None:
                bounds = f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
                self.check(compare(number, bound), f"{expected} in {bounds}")

    def check_tensor(self, tensor, sizes, dtype, message):
        self.node(
            torch.ops.aten._assert_tensor_metadata.default,
            tensor,
            None,
            None,
            dtype,
            device=torch.device("cpu"),
            layout=torch.strided,
            value=None,
        )
        rank = self.graph.call_method("dim", (tensor,))
        rank.meta["val"] = len(sizes)
        fits = self.number_of(operator.eq, self.wrap(rank), len(sizes))
        for dim, size in enumerate(sizes):
            given = self.size(tensor, dim)
            if given is not size:
                fits = fits & self.number_of(operator.eq, given, size)
        self.check(fits, message)

    def check_strides(self, tensor, strides):
        for dim, stride in enumerate(strides):
            same = self.number_of(operator.eq, self.stride(tensor, dim), stride) | self.number_of(operator.eq, self.size(tensor, dim), 1)
            self.check(same, f"expected another stride of dimension {dim} of {tensor.name}")

    def check_data(self, tensor, message):
        self.node(torch.ops.aten._assert_async.msg, tensor, message, value=None)

    # -- Buffers

    def constant(self, name, sizes, dtype, offset):
        constants, key = self.world.constants, (offset, sizes, dtype)
        if key not in constants:
            constants[key] = torch.empty(sizes, dtype=dtype)
            self.world.library.read(constants[key], offset)
        while hasattr(self.root, name):
            name += "_"
        self.root.register_buffer(name, constants[key])
        node = self.graph.get_attr(name)
        node.meta["val"] = self.world.fake.from_tensor(constants[key], static_shapes=True)
        return node

    def empty(self, sizes, strides, dtype):
        return self.call(torch.empty_strided, sizes, strides, dtype=dtype)

    def scalar(self, number, dtype):
        return self.call(torch.ops.aten.scalar_tensor.default, number, dtype=dtype)

    def item(self, tensor):
        return self.call(torch.ops.aten._local_scalar_dense.default, tensor)

    def contiguous(self, tensor):
        return self.call(torch.ops.aten.contiguous.default, tensor)

    def strided(self, tensor, sizes, strides, offset):
        """as_strided; an offset counts from where the tensor begins."""
        if isinstance(offset, int) and offset == 0:
            return self.call(torch.as_strided, tensor, sizes, strides)
        if tensor.target is not torch.empty_strided:
            offset = self.number_of(torch.ops.aten.sym_storage_offset.default, tensor) + offset
        return self.call(torch.as_strided, tensor, sizes, strides, offset)

    def view(self, tensor, sizes, strides, dtype, offset):
        value = self.value(tensor)
        if value.dtype != dtype:
            count = 1
            for dim in range(value.dim()):
                count = value.shape[dim] * count if isinstance(value.shape[dim], int) else self.size(tensor, dim) * count
            tensor = self.call(torch.ops.aten.view.dtype, self.strided(tensor, (count,), (1,), 0), dtype)
        return self.strided(tensor, sizes, strides, offset)

    def copy(self, source, target):
        if isinstance(source, _Int):
            source = self.scalar(source, self.value(target).dtype)
        self.node(torch.ops.aten.copy_.default, target, source, value=self.value(target))

    # -- Steps

    def launch(self, kernel, ins, outs, symbols):
        self.node(torch.ops.kiln.launch.default, self.world.path, kernel, ins, outs, symbols, value=None)

    def print(self, format, arguments):
        self.node(torch.ops.higher_order.print, format, *arguments, value=None)

    def operator(self, name, arguments, names=None):
        """Calls an operator with its arguments in the order of its schema, or by name."""
        namespace, packet, overload = name.split(".")
        function = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        if not isinstance(function, torch._ops.OpOverload):
            raise RuntimeError(f"{name} is no operator")
        schema = function._schema.arguments
        named = dict(zip(names or [argument.name for argument in schema], arguments))
        positional = [argument for argument in schema if not argument.kwarg_only]
        given = []
        for argument in positional:
            if argument.name not in named:
                break
            given.append(named.pop(argument.name))
        value = self.evaluate(function, *given, **named)
        return _Results(self, self.node(function, *given, value=value, **named))

    # -- Nested graphs

    def subgraph(self, reference, buffers, symbols, single=False):
        """The function as a submodule that takes `buffers` and all of `symbols`, and gives a tuple or a single tensor."""
        function, positions = reference
        inner = _Graph(self.world)
        tensors = [inner.placeholder(f"x{i}", value) for i, value in enumerate(buffers)]
        numbers = [inner.placeholder(f"s{i}", self.value(symbol)) for i, symbol in enumerate(symbols)]
        module, results = inner.finish(function, *tensors, *(numbers[i] for i in positions), single=single)
        name = function.__name__
        while hasattr(self.root, name):
            name += "_"
        self.root.add_module(name, module)
        node = self.graph.get_attr(name)
        node.meta["val"] = module
        return node, results

    def results(self, node):
        return _Results(self, node)

    def fresh(self, results):
        return tuple(self.evaluate(torch.empty_strided, r.shape, r.stride(), dtype=r.dtype) for r in results)

    def cond(self, predicate, true, false, buffers, symbols):
        values = [self.value(buffer) for buffer in buffers]
        true, results = self.subgraph(true, values, symbols)
        false, _ = self.subgraph(false, values, symbols)
        return self.results(self.node(torch.ops.higher_order.cond, predicate, true, false, (*buffers, *symbols), value=self.fresh(results)))

    def call_graph(self, reference, buffers, symbols):
        graph, results = self.subgraph(reference, [self.value(buffer) for buffer in buffers], symbols)
        node = self.graph.call_module(graph.target, tuple(item.node if isinstance(item, _Int) else item for item in (*buffers, *symbols)))
        self.graph.erase_node(graph)
        node.meta["val"] = self.fresh(results)
        return self.results(node)

    def while_loop(self, condition, body, carried, buffers, symbols):
        values = [self.value(buffer) for buffer in (*carried, *buffers)]
        condition, _ = self.subgraph(condition, values, symbols, single=True)
        body, results = self.subgraph(body, values, symbols)
        return self.results(
            self.node(torch.ops.higher_order.while_loop, condition, body, tuple(carried), (*buffers, *symbols), value=self.fresh(results))
        )

    def scan(self, body, length, carried, slices, buffers, symbols):
        """A loop over the outermost dim of `slices`; without any, over numbers that the graph does not use."""
        function, positions = body
        unused = [] if slices else [self.call(torch.ops.aten.arange.default, length)]
        skip = len(carried)

        def step(g, *inputs):
            return function(g, *inputs[:skip], *inputs[skip + len(unused) :])

        step.__name__ = function.__name__
        values = [self.value(tensor) for tensor in carried]
        values += [self.evaluate(torch.ops.aten.select.int, tensor, 0, 0) for tensor in (*unused, *slices)]
        values += [self.value(buffer) for buffer in buffers]
        graph, results = self.subgraph((step, positions), values, symbols)
        stacked = [self.evaluate(lambda r, n: r.new_empty((n, *r.shape)), result, length) for result in results[skip:]]
        value = (*self.fresh(results[:skip]), *stacked)
        return self.results(
            self.node(torch.ops.higher_order.scan, graph, list(carried), [*unused, *slices], (*buffers, *symbols), value=value)
        )

    def scan_any(self, body, length, carried, slices, buffers, symbols, stacked):
        """A scan of a length that may be 0, which PyTorch's refuses. Its stacked results are then `stacked`, which have no elements."""
        counts = len(carried), len(slices), len(buffers), len(stacked)

        def split(inputs):
            groups = []
            for count in counts:
                groups.append(inputs[:count])
                inputs = inputs[count:]
            return (*groups, inputs)

        def rounds(g, *inputs):
            carried, slices, buffers, _, numbers = split(inputs)
            results = g.scan(body, numbers[-1], carried, slices, buffers, numbers[:-1])
            return tuple(results[i] for i in range(len(results.paths)))

        def no_rounds(g, *inputs):
            carried, _, _, stacked, _ = split(inputs)
            return tuple(g.call(torch.ops.aten.clone.default, tensor) for tensor in (*carried, *stacked))

        everything = range(len(symbols) + 1)
        operands = [*carried, *slices, *buffers, *stacked]
        return self.cond(length >= 1, (rounds, everything), (no_rounds, everything), operands, [*symbols, length])

    def resized(self, results, number, sizes, strides, dtype):
        """A result whose sizes are known by now."""
        node = results[number]
        node.meta["val"] = self.evaluate(torch.empty_strided, sizes, strides, dtype=dtype)
        value = list(results.node.meta["val"])
        value[number] = node.meta["val"]
        results.node.meta["val"] = tuple(value)
        return node

    def finish(self, function, *inputs, single=False):
        """The graph of `function` as a module, and the values of its results."""
        results = function(self, *inputs)
        if single:
            (results,) = results
        node = self.graph.output(results)
        node.meta["val"] = tree_map(self.value, results)
        self.graph.lint()
        module = torch.fx.GraphModule(self.root, self.graph, function.__name__)
        module.recompile()
        return module, node.meta["val"]


def _build(function, library, hash):
    world = _World(library, hash)
    module, _ = _Graph(world).finish(function)
    module.meta["fake_mode"] = world.fake
    return module
