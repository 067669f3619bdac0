"""Finding where a compiled model leaves eager PyTorch.

    model = kiln.compile(program, debug_print=1)
    print(kiln.debug.compare(program, model, *inputs))   # None: nowhere

Needs torch. docs/debugging.md says what debug printing is."""

import contextlib
import dataclasses
import itertools
import json
import operator
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy

from ._model import Model, load

_ORDERED = ("sort", "topk", "max", "min", "median", "nanmedian", "mode", "kthvalue", "cummax", "cummin")
# They do not look at what is in their first argument.
_OVERWRITING = ("fill", "fill_", "zero", "zero_", "copy", "copy_")
_SHAPED_LIKE = (
    "full_like",
    "zeros_like",
    "ones_like",
    "new_full",
    "new_zeros",
    "new_ones",
    "sym_size",
    "sym_stride",
    "sym_numel",
    "sym_storage_offset",
)
_PERMUTED_RANK = 6  # of a value that is looked for in every order of its dims


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first node whose value leaves eager's. The element is the one that is furthest from the reference, which is in double precision."""

    node: str
    target: str
    where: str  # the node's Python line
    kernel: str  # that computes it; "" for an output of the model
    index: tuple[int, ...]
    value: object
    eager: object
    reference: object
    error: float
    allowed: float

    def __str__(self) -> str:
        kernel = f" in {self.kernel}" if self.kernel else ""
        return (
            f"node '{self.node}' ({self.target}{', ' + self.where if self.where else ''}){kernel}: at {list(self.index)} the model has "
            f"{self.value}, eager {self.eager}, double precision {self.reference}: an error of {self.error:.4g}, where {self.allowed:.4g} is rounding"
        )


def compare(program: Any, model: Model | str | os.PathLike[str], *inputs: Any, **kwargs: Any) -> Difference | None:
    """The first node of `program` whose value in `model` leaves eager's by more than its own rounding, or None.

    `model` (or its path) was compiled from `program` with `debug_print=1` or more; it is loaded anew and run once, with
    `KILN_DEBUG_PRINT` and `KILN_DEBUG_DIR` set for the time being. Arguments are those of the exported module. Values that have
    no memory of their own in the model, since they are computed on the way to others, random ones, and indices that sort or choose elements are not looked at. The program's rounding is what
    eager mode is from double precision, and how far it moves if its floating-point inputs and parameters change by their last bit."""
    import torch

    flat = _flatten(program, inputs, kwargs)
    with torch.no_grad(), torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        found = _run_model(program, model, flat, pathlib.Path(folder))
        wanted = {node for node, _ in found}
        eager = _run(program, flat, wanted)
        exact = _run(program, flat, wanted, _Exact)
        moved = _run(program, _perturb(flat), wanted, perturb=_perturb)
        compared, random = 0, None
        # The graph's last node stands for the model's outputs: inputs among them may have been written to.
        for node in program.graph.nodes:
            for output, value in enumerate(eager.values.get(node.name, ())):
                if (node.name, output) not in found or not isinstance(value, torch.Tensor):
                    continue
                source = node if node.op != "output" else _leaves(node.args)[output]
                if source.name in eager.random:
                    random = random or source.name
                if source.name in eager.random or _is_order(source, output):
                    continue
                wide, other = _at(exact.values, node.name, output), _at(moved.values, node.name, output)
                for array, dtype, kernel in found[node.name, output]:
                    element = _find_difference(_load(array, dtype), value, wide, other, source.name in exact.inexact)
                    if isinstance(element, tuple):
                        return Difference(source.name, str(source.target), _where(source), kernel, *element)
                    compared += element is not None
    if not compared and random:
        raise ValueError(
            f"nothing to compare: all that the model computes, such as node '{random}', depends on random numbers, or on memory that nothing has written to"
        )
    if not compared:
        raise ValueError(
            "nothing to compare: no kernel of the model computes a value of this program; is it the program that was compiled?"
        )
    return None


def _flatten(program: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The leaves of the arguments, in the order of the program's inputs."""
    from torch.utils import _pytree

    names = program.call_spec.in_spec.child(1).context if program.call_spec.in_spec.type is tuple else list(kwargs)
    if set(names) != set(kwargs):
        raise TypeError(f"expected the keyword arguments {list(names)}, got {list(kwargs)}")
    flat: list[Any]
    flat, spec = _pytree.tree_flatten((tuple(inputs), {name: kwargs[name] for name in names}))
    if spec != program.call_spec.in_spec:
        raise TypeError(f"expected arguments of the structure {program.call_spec.in_spec}, got {spec}")
    return flat


def _is_order(node: Any, output: int) -> bool:
    """Indices of elements by their order: where these are equal or nearly so, others are as good."""
    if node.target is operator.getitem:
        node, output = node.args
    name = getattr(getattr(node.target, "_schema", None), "name", "").removeprefix("aten::")
    return name in ("argmax", "argmin", "argsort") or (
        output == 1 and (name in _ORDERED or name.startswith(("max_pool", "adaptive_max_pool")))
    )


# ===-- The model ---------------------------------------------------------------------------------===


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    saved = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _run_model(
    program: Any, model: Model | str | os.PathLike[str], flat: Sequence[Any], folder: pathlib.Path
) -> dict[tuple[str, int], list[tuple[Any, str, str]]]:
    """Values of a run by node and number of its output: lists of (array, dtype, kernel)."""
    import torch

    model = load(model.path if isinstance(model, Model) else model)
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    given = {spec.arg.name: leaf for spec, leaf in zip(specs, flat)}
    missing = [entry["name"] for entry in model.inputs if entry["name"] not in given]
    if missing:
        raise ValueError(f"the program has no input {missing[0]!r}, which the model takes: it was compiled from another one")
    arguments = [_clone(given[entry["name"]]) for entry in model.inputs]
    with _environment(KILN_DEBUG_PRINT="1", KILN_DEBUG_DIR=str(folder)):
        results = model.run(arguments)
    index = folder / "run0" / "index.jsonl"
    if not index.parent.exists():
        raise ValueError(f"{model.path} was compiled without debug printing: compile it with debug_print=1")
    nested = {
        node.name
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule) and module is not program.graph_module
        for node in module.graph.nodes
    }
    found: dict[tuple[str, int], list[tuple[Any, str, str]]] = {}
    for line in index.read_text().splitlines() if index.exists() else ():
        row = json.loads(line)
        if row["time"] != "after_launch" or row["role"] != "result" or "node" not in row or row["node"] in nested:
            continue
        value = numpy.load(index.parent / row["file"]), row["dtype"], row["kernel"]
        found.setdefault((row["node"], row["output"]), []).append(value)
    (last,) = program.graph.find_nodes(op="output")
    positions = [i for i, spec in enumerate(program.graph_signature.output_specs) if spec.kind.name == "USER_OUTPUT"]
    for position, entry, result in zip(positions, model.outputs, results):
        if result is not None:
            found[last.name, position] = [(result, entry["dtype"], "")]
    return found


def _load(array: Any, dtype: str) -> Any:
    """A tensor of what has been saved."""
    import torch

    if isinstance(array, torch.Tensor):
        return array.cpu()
    if array.dtype.name not in numpy.sctypeDict:  # ml_dtypes
        array = array.view(f"V{array.dtype.itemsize}")
    array = numpy.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.kind != "V":
        return torch.from_numpy(array)
    raw = torch.from_numpy(array.view({1: "uint8", 2: "int16", 4: "int32"}[array.dtype.itemsize]))
    return raw.view(getattr(torch, dtype))


# ===-- Eager mode --------------------------------------------------------------------------------===


def _clone(value: Any) -> Any:
    import torch

    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _to_tensor(value: Any) -> Any:
    """A copy of a tensor; a number as models give it."""
    import torch

    if type(value) in (bool, int, float):
        return torch.tensor(value, dtype={bool: torch.bool, int: torch.int64, float: torch.float64}[type(value)])
    return _clone(value)


def _perturb(values: Sequence[Any]) -> list[Any]:
    """Floating-point numbers, moved by about their last bit."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()) or value.itemsize == 1:
            return value
        signs = torch.randint(0, 2, value.shape, generator=generator).to(value.device) * 2 - 1
        return value.detach() * (1 + signs * torch.finfo(value.dtype).eps).to(value.dtype)

    return [one(value) for value in values]


def _wide(value: Any) -> Any:
    """Tensors and dtypes in double precision."""
    import torch

    dtype = value.dtype if isinstance(value, torch.Tensor) else value
    if not isinstance(dtype, torch.dtype) or not (dtype.is_floating_point or dtype.is_complex):
        return value
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return value.to(wide) if isinstance(value, torch.Tensor) else wide


def _run(
    program: Any,
    flat: Sequence[Any],
    wanted: set[str],
    interpreter: type | None = None,
    perturb: Callable[[list[Any]], list[Any]] = lambda values: values,
) -> Any:
    """The values of the wanted nodes in eager mode."""
    import torch

    remaining, arguments = iter(flat), []
    for spec in program.graph_signature.input_specs:
        kind = spec.kind.name
        if kind == "USER_INPUT":
            arguments.append(_clone(next(remaining)))
        elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR", "CUSTOM_OBJ"):
            held = program.state_dict if spec.target in program.state_dict else program.constants
            arguments.extend(perturb([_clone(held[spec.target])]))
        else:
            raise ValueError(f"the program's input {spec.arg.name!r} is a {kind.lower()}, which cannot be given here")
    runner = _make_interpreter(interpreter)(program.graph_module)
    runner.values, runner.inexact, runner.random, runner.wanted = {}, set(), set(), wanted
    default = torch.get_default_dtype()
    try:
        runner.begin(arguments)
    finally:
        torch.set_default_dtype(default)
    return runner


class _Exact:
    """Runs in double precision. A node that does not take it is run as it is, and it and all that follows from it are inexact."""

    def begin(self: Any, arguments: Sequence[Any]) -> None:
        import torch

        torch.set_default_dtype(torch.float64)
        self.run(*(_wide(value) for value in arguments))

    def compute(self: Any, node: Any) -> Any:
        import torch
        from torch.utils import _pytree

        self.inexact.update([node.name] if any(before.name in self.inexact for before in node.all_input_nodes) else [])
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        call = getattr(self, node.op)
        if node.op != "call_function":
            return call(node.target, args, kwargs)
        try:
            result = call(node.target, *_pytree.tree_map(_wide, (args, kwargs)))
            if _fits(result, node.meta.get("val")):
                return result
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            pass
        self.inexact.add(node.name)
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            narrow = torch.fx.map_arg((node.args, node.kwargs), lambda used: _narrow(self.env[used], used.meta.get("val")))
            return _pytree.tree_map(_wide, call(node.target, *narrow))
        finally:
            torch.set_default_dtype(default)


class _Eager:
    def begin(self: Any, arguments: Sequence[Any]) -> None:
        self.random_memory: dict[int, Any] = {}  # storages, kept so that no other tensor gets their memory
        self.run(*arguments)

    def compute(self: Any, node: Any) -> Any:
        """Finds nodes that draw random numbers or have memory that nothing has written to, and what depends on them."""
        import torch

        state = torch.get_rng_state()
        used = [before for before in node.all_input_nodes if before is not _overwritten(node)]
        depends = any(before.name in self.random or self.is_random(self.env[before]) for before in used)
        result = super().run_node(node)  # type: ignore[misc]
        name = _get_name(node)
        is_random = name.startswith(("empty", "new_empty")) or not torch.equal(state, torch.get_rng_state())
        if is_random or depends:
            self.random.add(node.name)
            for storage in _storages([result, torch.fx.map_arg(_written(node), lambda before: self.env[before])]):
                self.random_memory[storage._cdata] = storage
        elif name in ("fill_", "zero_", "copy_") and result.numel() * result.itemsize == result.untyped_storage().nbytes():
            self.random_memory.pop(result.untyped_storage()._cdata, None)
        return result

    def is_random(self: Any, value: Any) -> bool:
        return any(storage._cdata in self.random_memory for storage in _storages(value))


def _get_name(node: Any) -> str:
    return getattr(getattr(node.target, "_schema", None), "name", "").removeprefix("aten::")


def _written(node: Any) -> list[Any]:
    """The arguments that it writes to."""
    arguments = getattr(getattr(node.target, "_schema", None), "arguments", ())
    given = dict(zip((argument.name for argument in arguments), node.args), **node.kwargs)
    return [
        given[argument.name] for argument in arguments if argument.alias_info and argument.alias_info.is_write and argument.name in given
    ]


def _overwritten(node: Any) -> Any:
    """The argument of which only memory or sizes matter, or None."""
    is_named = _get_name(node) in (*_OVERWRITING, *_SHAPED_LIKE)
    return node.args[0] if is_named and node.args and node.args[0] not in node.args[1:] else None


def _storages(value: Any) -> list[Any]:
    import torch

    return [leaf.untyped_storage() for leaf in _leaves(value) if isinstance(leaf, torch.Tensor) and torch._C._has_storage(leaf)]


def _make_interpreter(kind: type | None) -> Any:
    import torch

    class Recorder(kind or _Eager, torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            with self._set_current_node(node):
                result = self.compute(node)
            if node.name in self.wanted:
                self.values[node.name] = [_to_tensor(value) for value in _leaves(result)]
            return result

    return Recorder


def _leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, (list, tuple)) else [value]


def _fits(result: Any, recorded: Any) -> bool:
    """The result in double precision has the shape that export recorded, as far as it is static."""
    import torch

    for value, fake in zip(_leaves(result), _leaves(recorded)):
        if isinstance(value, torch.Tensor) and isinstance(fake, torch.Tensor):
            if value.dim() != fake.dim() or any(isinstance(size, int) and size != got for size, got in zip(fake.shape, value.shape)):
                return False
    return True


def _narrow(value: Any, recorded: Any) -> Any:
    """A value in the dtype that export recorded."""
    import torch
    from torch.utils import _pytree

    if isinstance(value, torch.Tensor):
        return value.to(recorded.dtype) if isinstance(recorded, torch.Tensor) else value
    if isinstance(value, (list, tuple)) and isinstance(recorded, (list, tuple)):
        return type(value)(_narrow(part, fake) for part, fake in zip(value, recorded))
    return _pytree.tree_map(lambda part: part, value)


# ===-- Comparing ---------------------------------------------------------------------------------===


def _at(values: dict[str, list[Any]], node: str, output: int) -> Any:
    return values[node][output] if node in values and output < len(values[node]) else None


def _where(node: Any) -> str:
    """The innermost line outside of PyTorch itself."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip().startswith('File "')]
    lines = [line for line in lines if "site-packages/torch/" not in line] or lines
    file, _, rest = lines[-1].removeprefix('File "').partition('", line ') if lines else ("", "", "")
    return f"{file}:{rest.split(',')[0]}" if file else ""


def _orders(shape: Sequence[int], wanted: Sequence[int]) -> list[tuple[int, ...]]:
    """Orders of dims in which a tensor of one shape has another, the identity first. Dims of one element do not count."""
    dims = [dim for dim, size in enumerate(shape) if size != 1]
    target = [size for size in wanted if size != 1]
    if len(dims) > _PERMUTED_RANK:
        return [tuple(range(len(shape)))] if list(shape) == list(wanted) else []
    ones = [dim for dim, size in enumerate(shape) if size == 1]
    return [(*ones, *order) for order in itertools.permutations(dims) if [shape[dim] for dim in order] == target]


def _find_difference(computed: Any, eager: Any, exact: Any, moved: Any, inexact: bool) -> tuple[Any, ...] | bool | None:
    """(index, value, eager, reference, error, allowed) of the element that is wrong by most; True: none is; None: the values cannot be compared.

    Kernels may keep a value with its dims in another order: the order in which it differs least is taken for its own."""
    import torch

    eager = eager.cpu()
    if computed.dtype != eager.dtype or computed.numel() != eager.numel():
        return None
    if eager.numel() == 0:
        return True
    exact, moved = (other.cpu() if isinstance(other, torch.Tensor) and other.shape == eager.shape else None for other in (exact, moved))
    orders = _orders(eager.shape, computed.shape)
    least = None
    choices: list[tuple[int, ...] | None] = [*orders] or [None]  # None: by the order of elements alone
    for order in choices:
        inverse = sorted(range(eager.dim()), key=order.__getitem__) if order else None
        placed = computed.reshape([eager.shape[dim] for dim in order]).permute(inverse) if order else computed.reshape(eager.shape)
        difference = _find_element(placed, eager, exact, moved, inexact)
        if difference is None:
            return True
        least = difference if least is None or difference[4] < least[4] else least
    return least


def _find_element(computed: Any, eager: Any, exact: Any, moved: Any, inexact: bool) -> tuple[Any, ...] | None:
    import torch

    if not (eager.is_floating_point() or eager.is_complex()):
        good = computed == eager
        for other in (exact, moved):
            if other is not None and other.dtype == eager.dtype:
                good |= computed == other
        if good.all():
            return None
        at = tuple(torch.nonzero(~good)[0].tolist())
        reference = exact[at].item() if exact is not None else eager[at].item()
        return at, computed[at].item(), eager[at].item(), reference, abs(float(computed[at]) - float(reference)), 0.0
    computed, eager, precision = _wide(computed), _wide(eager), torch.finfo(eager.dtype).eps
    reference = eager if exact is None else _wide(exact)
    finite = torch.isfinite(reference) & torch.isfinite(eager)
    scale = reference.abs()[finite].max().item() if finite.any() else 0.0
    allowed = (64 if inexact or exact is None else 4) * precision * scale
    for other in (reference, moved):
        if other is not None:
            change = (_wide(other) - eager).abs()
            change = change[torch.isfinite(change)]
            allowed = max(allowed, 4 * change.max().item() + 4 * precision * scale) if change.numel() else allowed
    error = (computed - reference).abs()
    same = (computed == eager) | (computed.isnan() & eager.isnan())
    wrong = ~same & ~(error <= allowed)
    if not wrong.any():
        return None
    error = torch.where(wrong, error.nan_to_num(nan=float("inf")), -1.0)
    at = tuple(int(i) for i in numpy.unravel_index(int(error.argmax()), tuple(error.shape)))
    return at, computed[at].item(), eager[at].item(), reference[at].item(), error[at].item(), allowed
