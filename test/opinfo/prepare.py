"""From entries of OpInfo to exported programs: each program calls one operator on many samples.

Exports and what eager PyTorch answers are kept under .cache/opinfo, so that a second sweep only compiles, runs and compares."""

import dataclasses
import hashlib
import logging
import math
import pathlib
import re
import unittest.mock
import warnings
import zlib

import mpmath
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import child

torch._logging.set_logs(all=logging.ERROR)  # that a size of 0 or 1 is specialised is known
ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "opinfo"
FORMAT = 1  # of what is cached

FLOATS = (torch.bfloat16, torch.float64, torch.float16)
OTHERS = (torch.int64, torch.bool, torch.complex64, torch.uint8, torch.int32, torch.complex128, torch.int16, torch.int8)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Dtypes that few operators take; a sweep tries them when it is told to.
RARE = (torch.complex32, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2)
WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
# Results of these are whatever the memory held.
UNINITIALISED = re.compile(r"(new_)?empty(_like|_strided|_permuted)?$")


# What eager mode itself gives to six digits or so in double precision, or as 0 far out, and what it is to all of them.
EXACT = {
    "special.bessel_j0": lambda x: mpmath.besselj(0, x),
    "special.bessel_j1": lambda x: mpmath.besselj(1, x),
    "special.bessel_y0": lambda x: mpmath.bessely(0, x),
    "special.bessel_y1": lambda x: mpmath.bessely(1, x),
    "special.airy_ai": mpmath.airyai,
    "special.ndtr": mpmath.ncdf,
}


# What eager mode does not compute in these dtypes, although it accepts them: its results have nothing to do with the inputs.
MEANINGLESS = {"matrix_exp": (torch.float16, torch.bfloat16)}


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def choose_dtypes(entry, names=()):
    """float32 and two others that the entry supports; which ones differs from entry to entry, so that all are met. `names` are other
    dtypes to take, or `others` for those that are not float32."""
    supported = set(entry.dtypes) - set(MEANINGLESS.get(entry.name, ()))
    if list(names) == ["others"]:
        return [dtype for dtype in choose_dtypes(entry) if dtype != torch.float32]
    if names:
        return [dtype for dtype in (getattr(torch, name) for name in names) if dtype in supported]
    turn = zlib.crc32(entry.full_name.encode())
    pools = [[dtype for dtype in pool[turn % len(pool) :] + pool[: turn % len(pool)] if dtype in supported] for pool in (FLOATS, OTHERS)]
    chosen = [torch.float32] if torch.float32 in supported else []
    while len(chosen) < 3 and any(pools):
        # Integers, bool and complex first: where they are supported, they differ most.
        pool = pools[1] if pools[1] and (len(chosen) == 1 or not pools[0]) else pools[0] or pools[1]
        chosen.append(pool.pop(0))
    return chosen


def is_plain(value):
    if not isinstance(value, torch.Tensor):
        return True
    return value.layout == torch.strided and value.device.type == "cpu" and value.dtype in (torch.float32, *FLOATS, *OTHERS, *RARE)


@dataclasses.dataclass
class Call:
    """One call of an operator: its arguments as leaves and a tree."""

    name: str  # "float32[3]": the dtype and the number of the sample
    leaves: list
    tree: object

    def tensors(self):
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def differs_in_sizes_only(self, other):
        return self.tree == other.tree and all(
            one.dtype == two.dtype and one.dim() == two.dim() and one.is_contiguous() == two.is_contiguous()
            if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor)
            else type(one) is type(two) and one == two
            for one, two in zip(self.leaves, other.leaves)
        )

    def run(self, operator, tensors):
        remaining = iter(tensors)
        leaves = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        arguments, options = pytree.tree_unflatten(leaves, self.tree)
        return operator(*arguments, **options)


@dataclasses.dataclass
class Case:
    """Inputs of a call and what eager mode gives for them. `reference` is the same in double precision, where that exists."""

    inputs: list
    expected: list
    reference: list


@dataclasses.dataclass
class Prepared:
    """A call as it is cached. Of dynamic programs: `resized` has other sizes than those that were exported, `sizes` counts what was asked to be
    dynamic (0 and 1 aside, which export always keeps), `fixed` what export made a constant of these."""

    name: str
    case: Case
    resized: Case = None
    sizes: int = 0
    fixed: int = 0
    targets: list = dataclasses.field(default_factory=list)  # operators of its part of the program
    is_random: bool = False


def clone(tensors):
    """Copies that keep strides where memory does not overlap."""
    return [tensor.detach().clone(memory_format=torch.preserve_format) for tensor in tensors]


def results(value):
    """Everything in a result but None, as tensors."""
    flat = [leaf for leaf in pytree.tree_leaves(value) if leaf is not None]
    if any(isinstance(leaf, torch.Tensor) and leaf.layout != torch.strided for leaf in flat):
        raise TypeError("a sparse result")
    return [
        leaf.detach().resolve_conj().resolve_neg().clone()
        if isinstance(leaf, torch.Tensor)
        else torch.tensor(leaf, dtype={bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}[type(leaf)])
        for leaf in flat
    ]


def whole_range(tensor):
    """Integers of any size, less the smallest, by which a quotient ends eager mode's process."""
    bounds = torch.iinfo(tensor.dtype)
    values = torch.randint(max(bounds.min + 1, -(2**62)), min(bounds.max, 2**62) + 1, tensor.shape, dtype=torch.int64)
    ends = torch.tensor([bounds.min + 1 if bounds.min else 0, bounds.max])[torch.randint(2, tensor.shape)]
    return clone([tensor])[0].copy_(torch.where(torch.rand(tensor.shape) < 0.2, ends, values))


def make_calls(entry, dtype, limit, is_wide=False):
    """At most `limit` samples, spread over all that there are, and the first one with other strides. With `is_wide`, their integers are
    of any size."""
    torch.manual_seed(0)
    samples = list(entry.sample_inputs("cpu", dtype, requires_grad=False))
    count = len(samples)
    chosen = range(count) if count <= limit else sorted({round(i * (count - 1) / max(limit - 1, 1)) for i in range(limit)})
    picked = [(f"{dtype_name(dtype)}[{i}]", samples[i]) for i in chosen]
    if picked:
        try:
            picked.append((picked[0][0] + "-strided", picked[0][1].noncontiguous()))
        except (RuntimeError, TypeError, NotImplementedError):
            pass
    calls = []
    for name, sample in picked:
        leaves, tree = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        if is_wide:
            leaves = [
                whole_range(leaf) if isinstance(leaf, torch.Tensor) and leaf.dtype == dtype and dtype in INTEGERS else leaf
                for leaf in leaves
            ]
        if all(map(is_plain, leaves)):
            calls.append(Call(name, leaves, tree))
    return calls


def exact(function, tensor):
    """`function` of each element; NaN where it is not a real number."""

    def value(x):
        if not math.isfinite(x):
            return math.nan
        try:
            y = function(mpmath.mpf(x))
        except (ValueError, ZeroDivisionError):
            return math.nan
        return float(y) if isinstance(y, mpmath.mpf) else math.nan

    values = [value(x) for x in tensor.double().flatten().tolist()]
    return torch.tensor(values, dtype=torch.float64).reshape(tensor.shape)


def reference(entry, call, tensors):
    """The same call in double precision; None where it does not exist."""
    if entry.name in EXACT:
        return [exact(EXACT[entry.name], tensors[0])]

    def widen(value):
        if isinstance(value, torch.dtype):
            return WIDER.get(value, value)
        return value.to(WIDER[value.dtype]) if isinstance(value, torch.Tensor) and value.dtype in WIDER else value

    wide = Call(call.name, [widen(leaf) for leaf in call.leaves], call.tree)
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(0)
        return results(wide.run(entry.op, [widen(tensor) for tensor in clone(tensors)]))
    except Exception:
        return None
    finally:
        torch.set_default_dtype(previous)


def make_case(entry, call, tensors):
    """None where eager mode refuses the inputs."""
    try:
        torch.manual_seed(0)
        expected = results(call.run(entry.op, clone(tensors)))
    except Exception:
        return None
    return Case(clone(tensors), expected, reference(entry, call, tensors))


def redraw(entry, call, tensors, count, generator):
    """Cases of the same call whose floats are in another order; without those that eager mode refuses."""

    def shuffle(tensor):
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        order = torch.randperm(tensor.numel(), generator=generator)
        return tensor.copy_(tensor.flatten()[order].reshape(tensor.shape))

    cases = [make_case(entry, call, [shuffle(tensor) for tensor in clone(tensors)]) for _ in range(count)]
    return [case for case in cases if case is not None]


def bits(tensor):
    return tensor.flatten().clone(memory_format=torch.contiguous_format).view(torch.uint8)


def is_random(entry, call, case):
    """Other seeds give other results, or memory that nobody wrote does."""
    if UNINITIALISED.match(entry.name):
        return True
    for seed in range(1, 6):  # a draw of few elements may come out the same
        torch.manual_seed(seed)
        # Entries of random operators set a seed of their own, which is kept from them here.
        with unittest.mock.patch("torch.manual_seed"):
            again = results(call.run(entry.op, clone(case.inputs)))
        if not all(torch.equal(bits(a), bits(b)) for a, b in zip(again, case.expected)):
            return True
    return False


# What finds positions, and which argument its dim is. Which of equal elements comes first is not defined, and depends on the CPU.
POSITIONS = {"sort": 1, "argsort": 1, "topk": 2, "mode": 1, "kthvalue": 2}


def tie_dim(entry, call):
    """The dim along which positions of equal elements stand for each other; None where the order is defined."""
    arguments, options = pytree.tree_unflatten(call.leaves, call.tree)
    if entry.name not in POSITIONS or options.get("stable") or not arguments[0].dim():
        return None
    number = POSITIONS[entry.name]
    return options.get("dim", arguments[number] if number < len(arguments) else -1)


def of_singular_vectors(results):
    """Vectors are determined but for a phase each, or more where values are equal: their products with the values, and that they are
    orthonormal."""
    u, s, vh = results
    k = s.shape[-1]
    return [(u[..., :k] * s.unsqueeze(-2).to(u.dtype)) @ vh[..., :k, :], s, u.mH @ u, vh @ vh.mH]


def of_eigenvectors(results):
    values, vectors = results
    return [(vectors * values.unsqueeze(-2).to(vectors.dtype)) @ vectors.mH, values, vectors.mH @ vectors]


def of_eigenvalues(results):
    """In one order: along a line on which hardly any two are at the same place."""
    order = (results[0].real + 0.618 * results[0].imag).argsort(-1)
    return [results[0].gather(-1, order)]


def of_general_eigenvectors(results):
    values, vectors = results
    return [
        (vectors * values.unsqueeze(-2)) @ torch.linalg.inv(vectors),
        *of_eigenvalues(results),
        torch.linalg.vector_norm(vectors, dim=-2),
    ]


# What can be compared where results are not unique.
COMPARABLE = {
    "linalg.svd": of_singular_vectors,
    "svd": lambda results: of_singular_vectors([*results[:2], results[2].mH]),
    "linalg.eigh": of_eigenvectors,
    "linalg.eigvals": of_eigenvalues,
    "linalg.eig": of_general_eigenvectors,
}


class Program(torch.nn.Module):
    """Calls the operator once for each call; the tensors of all of them are the inputs."""

    def __init__(self, operator, calls):
        super().__init__()
        self.operator, self.calls = operator, calls

    def forward(self, *tensors):
        remaining, values = list(tensors), []
        for call in self.calls:
            count = len(call.tensors())
            values.append([leaf for leaf in pytree.tree_leaves(call.run(self.operator, remaining[:count])) if leaf is not None])
            del remaining[:count]
        return values


def export(entry, calls, dynamic):
    tensors = [tensor for call in calls for tensor in clone(call.tensors())]
    shapes = tuple({i: torch.export.Dim.AUTO for i in range(tensor.dim())} for tensor in tensors) if dynamic else None
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(Program(entry.op, calls), tuple(tensors), dynamic_shapes=(shapes,) if dynamic and tensors else None)


def targets_of(program, counts):
    """For each call the operators that its outputs depend on."""
    (output,) = [node for node in program.graph.nodes if node.op == "output"]
    kinds = [spec.kind.name for spec in program.graph_signature.output_specs]
    values = [value for value, kind in zip(output.args[0], kinds) if kind == "USER_OUTPUT"]
    answer = []
    for count in counts:
        pending, seen, targets = [value for value in values[:count] if hasattr(value, "op")], set(), set()
        del values[:count]
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.op == "call_function":
                targets.add(str(node.target))
            pending += node.all_input_nodes
        answer.append(sorted(targets))
    return answer


def input_values(program):
    """What export knows of each user input."""
    names = set(program.graph_signature.user_inputs)
    return [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in names]


# Here matrices grow by rows and columns of the identity, and stay regular or positive definite.
MATRICES = re.compile(r"linalg\.|cholesky|logdet|^lu|triangular_solve|^qr|^svd|pinverse")


def resize(tensor, shape, of_matrices=False):
    """The elements of `tensor` repeated to fill `shape`: values stay in the operator's domain. Integers that ascend, which may be offsets, ascend
    again."""
    if of_matrices and tensor.dim() > 1 and (tensor.is_floating_point() or tensor.is_complex()):
        result = torch.eye(*shape[-2:], dtype=tensor.dtype).repeat(*shape[:-2], 1, 1)
        result[..., : tensor.shape[-2], : tensor.shape[-1]] = resize(tensor, (*shape[:-2], *tensor.shape[-2:]))
        return result
    ascends = tensor.dim() == 1 and tensor.dtype in (torch.int64, torch.int32) and bool((tensor.diff() >= 0).all())
    for dim, size in enumerate(shape):
        if size != tensor.shape[dim]:
            tensor = tensor.index_select(dim, torch.arange(size) % max(tensor.shape[dim], 1))
    return tensor.sort().values if ascends else tensor


def evaluate(value, sizes):
    """The shape of `value` where its symbols have these sizes; None where one is out of its range."""

    def size_of(size):
        if not isinstance(size, torch.SymInt):
            return size
        known = size.node.shape_env.var_to_range
        if any(not known[symbol].lower <= sizes[symbol] <= known[symbol].upper for symbol in size.node.expr.free_symbols):
            raise ValueError
        return int(size.node.expr.subs(sizes))

    try:
        return tuple(map(size_of, value.shape))
    except ValueError:
        return None


def symbols_of(values):
    """symbol -> its size in the exported example, of all sizes of one call."""
    found = {}
    for value in values:
        for size in value.shape:
            if isinstance(size, torch.SymInt):
                for symbol in sorted(size.node.expr.free_symbols, key=str):
                    found[symbol] = int(size.node.shape_env.backed_var_to_val[symbol])
    return found


def other_inputs(entry, call, tensors, values, calls):
    """Yields inputs of other sizes: all a bit larger, all twice as large, those of another call that differs in sizes alone, single ones larger."""
    hints = symbols_of(values)
    if not hints:
        return

    def of_sizes(sizes):
        shapes = [evaluate(value, sizes) for value in values]
        if None not in shapes:
            yield [resize(tensor, shape, MATRICES.search(entry.full_name)) for tensor, shape in zip(tensors, shapes)]

    yield from of_sizes(
        {symbol: size + 1 + size // 3 for symbol, size in hints.items()}
    )  # keeps what is equal equal, and what is smaller smaller
    yield from of_sizes({symbol: size + 1 for symbol, size in hints.items()})
    yield from of_sizes({symbol: 2 * size for symbol, size in hints.items()})
    for other in calls:
        found = other.tensors()
        if other is call or not call.differs_in_sizes_only(other):
            continue
        sizes = {
            size.node.expr: tensor.shape[dim]
            for tensor, value in zip(found, values)
            for dim, size in enumerate(value.shape)
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol
        }
        if (
            sizes.keys() == hints.keys()
            and sizes != hints
            and all(evaluate(value, sizes) == tuple(tensor.shape) for tensor, value in zip(found, values))
        ):
            yield clone(found)
    for symbol, size in hints.items():
        yield from of_sizes({**hints, symbol: size + 1})
        yield from of_sizes({**hints, symbol: 2 * size})


@dataclasses.dataclass
class Entry:
    """What the sweep knows of an entry: calls that export, and why the others do not."""

    prepared: list
    not_exported: list


def short(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


class Workspace:
    """The cached programs of one entry, static or dynamic."""

    def __init__(self, entry, dtypes, dynamic, limit, is_wide=False):
        self.entry, self.dtypes, self.dynamic, self.limit, self.is_wide = entry, dtypes, dynamic, limit, is_wide
        key = "-".join(map(dtype_name, dtypes))
        self.folder = (
            CACHE
            / f"{torch.__version__}-{FORMAT}"
            / re.sub(r"[^\w.]", "_", entry.full_name)
            / f"{key}-{limit}-{'dynamic' if dynamic else 'static'}{'-wide' if is_wide else ''}"
        )
        self._calls = None

    def calls(self):
        """The calls by name; made only when a program has to be exported."""
        if self._calls is None:
            self._calls = {call.name: call for dtype in self.dtypes for call in make_calls(self.entry, dtype, self.limit, self.is_wide)}
        return self._calls

    def tie_dim(self, name):
        return tie_dim(self.entry, self.calls()[name]) if self.entry.name in POSITIONS else None

    def comparable(self):
        return COMPARABLE.get(self.entry.name)

    def archive(self, names):
        return self.folder / f"{hashlib.sha256(' '.join(names).encode()).hexdigest()[:12]}.pt2"

    def export(self, names):
        """The program of these calls and where it is saved; raises what torch.export raises."""
        program = export(self.entry, [self.calls()[name] for name in names], self.dynamic)
        archive = self.archive(names)
        archive.parent.mkdir(parents=True, exist_ok=True)
        temporary = archive.with_suffix(".new.pt2")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(program, temporary)
        temporary.rename(archive)
        return program

    def saved(self, names):
        """The path of the program of these calls, which is exported if it is not there."""
        if not self.archive(names).exists():
            self.export(names)
        return self.archive(names)

    def load(self):
        index = self.folder / "entry.pt"
        if index.exists():
            return torch.load(index, weights_only=False)
        entry = self.prepare()
        index.parent.mkdir(parents=True, exist_ok=True)
        temporary = index.with_suffix(".new")
        torch.save(entry, temporary)
        temporary.rename(index)
        return entry

    def prepare(self):
        cases = {}
        for call in list(self.calls().values()):
            case = make_case(self.entry, call, call.tensors())
            if case is not None:
                cases[call.name] = case
        names, not_exported = list(cases), []
        program = self.export_all(names, not_exported)
        prepared = [Prepared(name, cases[name], is_random=is_random(self.entry, self.calls()[name], cases[name])) for name in names]
        if program is not None:
            for one, targets in zip(prepared, targets_of(program, [len(one.case.expected) for one in prepared])):
                one.targets = targets
            if self.dynamic:
                self.resize(prepared, input_values(program))
        return Entry(prepared, not_exported)

    def resize(self, prepared, values):
        """Gives each call another case where eager mode takes other sizes, and counts which sizes are dynamic."""
        known = {}
        for one in prepared:
            known[one.name], values = values[: len(one.case.inputs)], values[len(one.case.inputs) :]
            asked = [
                size
                for value, tensor in zip(known[one.name], one.case.inputs)
                for size, given in zip(value.shape, tensor.shape)
                if given > 1
            ]
            one.sizes, one.fixed = len(asked), sum(not (isinstance(size, torch.SymInt) and size.node.expr.free_symbols) for size in asked)
        pending = [prepared]
        while pending:
            group = pending.pop()
            try:
                cases = child.call(lambda group=group: [self.resized(one, known[one.name]) for one in group])
            except (ChildProcessError, RuntimeError):  # not every operator looks at sizes before it reads
                pending += [[one] for one in group] if len(group) > 1 else []
                continue
            for one, case in zip(group, cases):
                one.resized = case

    def resized(self, one, known):
        call, calls = self.calls()[one.name], list(self.calls().values())
        cases = (make_case(self.entry, call, inputs) for inputs in other_inputs(self.entry, call, one.case.inputs, known, calls))
        return next(filter(None, cases), None)

    def export_all(self, names, not_exported):
        """Exports the calls as one program; those that do not export are moved from `names` to `not_exported`."""
        if not names:
            return None
        try:
            return self.export(names)
        except Exception:
            kept = []
            for name in names:
                try:
                    self.export([name])
                    kept.append(name)
                except Exception as error:
                    not_exported.append((name, short(error)))
            names[:] = kept
        try:
            return self.export(names) if names else None
        except Exception as error:
            not_exported += [(name, short(error)) for name in names]
            names.clear()


def entries():
    """All entries with a dtype on the CPU, in the order of their names."""
    return sorted((entry for entry in op_db if entry.dtypes), key=lambda entry: entry.full_name)
