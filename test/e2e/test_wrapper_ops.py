"""Every op of the wrapper dialect, made of an exported program: it is in the program that the compiler plans, and results are eager's."""

import re

import pytest
import torch
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.while_loop import while_loop

from conftest import BUILD, ROOT, TARGET, run_tool
from test_fallback import doubled, several  # noqa: F401 -- registers operators without a lowering

Dim = torch.export.Dim
FALLBACK = ("--fallback=torch",)
S0, S1 = Dim("s0", min=2, max=64), Dim("s1", min=2, max=64)


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


@torch.library.custom_op("kilntest::put_", mutates_args=("x",))
def put_(x: torch.Tensor, places: torch.Tensor, values: torch.Tensor) -> None:
    x.index_put_((places,), values, accumulate=True)


@torch.library.custom_op("kilntest::scatter_", mutates_args=("x",))
def scatter_(x: torch.Tensor, places: torch.Tensor, value: float) -> None:
    x.scatter_(0, places, value)


@torch.library.custom_op("kilntest::pad", mutates_args=())
def pad(x: torch.Tensor, length: int) -> torch.Tensor:
    return torch.cat([x, x.new_zeros(length)])


@pad.register_fake
def _(x, length):
    return x.new_empty(x.shape[0] + length)


@torch.library.custom_op("kilntest::positives", mutates_args=())
def positives(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sum(), x[x > 0][None].clone()


@positives.register_fake
def _(x):
    return x.new_empty(()), x.new_empty((1, torch.library.get_ctx().new_dynamic_size()))


class Folded(torch.nn.Module):
    """Something that is computed of a parameter alone, and a buffer that is written."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(randn(6, 4))
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        y = x @ (self.weight.exp() * 2)
        self.total += y.sum(0)
        return y, self.total * 1


class Region(torch.nn.Module):
    """A subgraph that is called twice, and finds out how large its results are."""

    def __init__(self):
        super().__init__()
        self.region = torch.fx.symbolic_trace(lambda x: (x[x > 0],))

    def forward(self, x):
        (one,) = invoke_subgraph(self.region, "positive", x)
        (other,) = invoke_subgraph(self.region, "positive", x - 0.5)
        return one * 2, other.cumsum(0)


def join(x, y):
    """Parts of a buffer that are computed in place, one behind the other."""
    return torch.cat([(x @ x.mT).softmax(-1) @ x, (y @ y.mT).softmax(-1) @ y])


def chain(x):
    """Buffers of one size, one after the other."""
    y = x.softmax(0)
    z = y.cumsum(0)
    w = z.sort(0).values.softmax(0)
    return w.cumsum(0).flip(0).softmax(0)


def parts(x):
    first, (second, third), fourth = torch.ops.kilntest.several(x.relu())
    return first + 1, second, fourth


def one(x):
    return torch.ops.kilntest.several(x.relu())[1][1] * 2


def several_of_unknown_size(x):
    sum, rows = torch.ops.kilntest.positives(x)
    return sum + 1, rows * 2, torch.ops.kilntest.doubled(x) - 1


def update(x, i, v):
    y = x * 2
    torch.ops.kilntest.put_(y, i, v)
    z = y.cumsum(0)
    torch.ops.kilntest.scatter_(z, i[None].expand(1, 6), 3.0)
    return y, z


def integer(x, n):
    n = n.item()
    torch._check(n >= 1)
    torch._check(n <= 6)
    return x[:n].sum(0), n * 2


def boolean(x, flag):
    flag = flag.item()
    return x[torch.sym_ite(flag, 1, 0)] * 2, x * flag


def checked(x):
    torch._assert_async(x.sum() > 0, "the sum is not positive")
    return x.log()


def by_size(x):
    return torch.cond(x.shape[0] > 4, lambda x: (x @ x.mT).softmax(-1) @ x, lambda x: x.cos(), (x,))


def mismatched(p, x):
    return torch.cond(p, lambda x: x[x[:, 0] > 0], lambda x: x[:2] * 3, (x,)) * 2


def looped(n, x):
    return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, (x @ x).softmax(-1)), (n, x))


def scanned(x):
    def step(carried, row):
        carried = (carried + row).tanh()
        return carried, carried * 2

    return torch._higher_order_ops.scan(step, x[0], x, dim=0)


def numbers(x, n):
    return x[: n - 1] * 2, n + 1


# name: the module or function, its inputs, dynamic shapes, further inputs, options, and for each op that the case is for a text
# that the planned program has (a regular expression, after "wrapper.OP").
CASES = {
    "reinterpret": (
        join,
        (randn(3, 4), randn(5, 4)),
        ({0: S0}, {0: S1}),
        [(randn(9, 4), randn(2, 4))],
        (),
        {
            "program": r' @main\(.*wrapper.name = "',
            "bind": r' "s\d+" from %arg1 size 0',
            "view": r" %\d+ offset 4\*s\d+ :",
            "output": r" 0 : ",
            "launch": r" @\w+ ins\(",
            "define": r' "size\.\d+" = ',  # a size that is computed once on the host for the kernels
            "comment": r' "nodes? .*matmul.*test_wrapper_ops\.py:\d+',
        },
    ),
    "reuse": (
        chain,
        (randn(5, 4),),
        ({0: S0},),
        [(randn(2, 4),)],
        (),
        {"alloc": r" at [^:]*: <\[s\d+, 4\]", "reuse": r" %\d+ : .*s\d+", "free": r" %\d+ :"},
    ),
    "constants": (Folded(), (randn(3, 6),), None, [], (), {"constant": r' "total" at \d+ mutated', "fold": r" @\w+ ins\("}),
    "projections": (
        parts,
        (randn(3, 4),),
        None,
        [],
        FALLBACK,
        {"extern_call": r' "torch" "kilntest.several.default" .* projection = \[0, 1, 3\]'},
    ),
    "projection": (one, (randn(3, 4),), None, [], FALLBACK, {"extern_call": r" .* projection = \[2\]"}),
    "allocating": (
        several_of_unknown_size,
        (randn(20),),
        None,
        [(torch.arange(20.0),)],
        FALLBACK,
        {
            # Size 1 of output 1. A size that the operator has doubled is halved by a kernel before it is defined.
            "extern_call": r' "torch" "kilntest.positives.default" .* sizes = \[1, 1',
            "define": r' "u1" from %',
        },
    ),
    "symbolic_argument": (
        lambda x: torch.ops.kilntest.pad(x, x.shape[0] * 2),
        (randn(3),),
        ({0: S0},),
        [(randn(7),)],
        FALLBACK,
        {"extern_call": r" .*args = \[#sym.arg<0>, #sym.expr<2\*s\d+>\]"},
    ),
    "updates": (
        update,
        (randn(4, 6), torch.tensor([0, 2, 0, 1, 3, 3]), randn(6, 6)),
        None,
        [],
        FALLBACK,
        {"extern_call": r' .*"kilntest.(put_|scatter_).default" .*updates = \[0', "view": r" %\d+ offset 0"},
    ),
    "index_put": (
        lambda x, i, v: torch.ops.aten._index_put_impl_(x * 2, [i], v, True, True),
        (randn(4, 6), torch.tensor([0, 2, 0]), randn(3, 6)),
        None,
        [],
        FALLBACK,
        {"extern_call": r' "torch" "aten._index_put_impl.default" args = \[#sym.arg<0>, \[#sym.arg<1>\], #sym.arg<2>, true, true\]'},
    ),
    "item": (
        integer,
        (randn(6, 3), torch.tensor(3)),
        None,
        [(randn(6, 3), torch.tensor(1))],
        (),
        {"define": r' "u\d+" from %', "assert": r" u\d+ - 1, "},
    ),
    "item_float": (
        lambda x, f: (x * f.item(), f.item() + 1),
        (randn(3), torch.tensor(2.5)),
        None,
        [(randn(3), torch.tensor(-1.25))],
        (),
        {"launch": r" .*ins\(%arg0, %arg1 : .*<\[\], \[\], f32>"},
    ),
    "item_bool": (
        boolean,
        (randn(2, 3), torch.tensor(True)),
        None,
        [(randn(2, 3), torch.tensor(False))],
        (),
        {"define": r' "u\d+" from %', "assert": r" 1 - u\d+, "},
    ),
    "check": (checked, (torch.ones(3),), None, [(torch.full((3,), 2.0),)], (), {"check": r' %\d+, "the sum is not positive'}),
    "cond": (
        lambda p, x: torch.cond(p, lambda x: (x @ x).softmax(-1), lambda x: x.cos(), (x,)),
        (torch.tensor(True), randn(4, 4)),
        None,
        [(torch.tensor(False), randn(4, 4))],
        (),
        {"if": r" %arg0 : .* workspace\(", "func": r" private @true_graph_0"},
    ),
    "cond_by_size": (by_size, (randn(5, 4),), ({0: S0},), [(randn(3, 4),), (randn(8, 4),)], (), {"if": r" when s\d+ - 5 then"}),
    "cond_of_other_sizes": (
        mismatched,
        (torch.tensor(True), torch.ones(5, 3)),
        None,
        [(torch.tensor(False), torch.ones(5, 3))],
        (),
        {"if": r" .* gives\(", "give": r" %\d+ as 0", "reserve": r" \d+, .*u\d+", "copy": r" %\d+ to %\d+ : <\[u\d+"},
    ),
    "while": (
        looped,
        (torch.tensor(3), randn(4, 4)),
        None,
        [(torch.tensor(n), randn(4, 4)) for n in (0, 1, 2)],
        (),
        {"while": r" @\w+ do @\w+ carried\(%.* spare\(%.* flag\(%.* workspace\("},
    ),
    "scan": (
        scanned,
        (randn(5, 4),),
        ({0: S0},),
        [(randn(2, 4),), (randn(6, 4),)],
        (),
        {"for": r" @\w+ length s\d+ carried\(%.* slices\(%"},
    ),
    "subgraph": (
        Region(),
        (randn(9),),
        None,
        [(-torch.ones(9),)],
        (),
        {"call": r" @\w+ ins\(.* gives\(", "func": r" private @.*wrapper.given"},
    ),
    "scalars": (
        numbers,
        (randn(6), 4),
        (None, Dim.DYNAMIC),
        [],
        (),
        {"bind": r' "s\d+" from %arg1 as s\d+', "output": r" 1 : <\[\], \[\], i64>"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_op(name, compile_and_compare, tmp_path):
    module, inputs, dynamic_shapes, more_inputs, options, ops = CASES[name]
    if options and not (BUILD / "lib" / "libkiln_torch.so").exists():
        pytest.skip("this build has no libkiln_torch.so")
    module = module if isinstance(module, torch.nn.Module) else Function(module)
    if dynamic_shapes and isinstance(module, Function):
        dynamic_shapes = (dynamic_shapes,)  # of `*inputs`
    compiled = compile_and_compare(module, inputs, dynamic_shapes, more_inputs=more_inputs, options=options)
    emitted = run_tool("aot-compile", compiled.archive, "--emit=wrapper", *TARGET, *options, "-o", tmp_path / "program.mlir")
    assert emitted.returncode == 0, emitted.stderr
    program = (tmp_path / "program.mlir").read_text()
    for op, text in ops.items():
        lines = re.findall(rf"wrapper\.{op}\b.*", program)
        assert any(re.match(rf"wrapper\.{op}{text}", line) for line in lines), (op, text, lines)
    # The text reads back as the same program.
    again = run_tool("kiln-opt", tmp_path / "program.mlir")
    assert again.returncode == 0 and again.stdout.rstrip() == program.rstrip(), again.stderr


def test_every_op_has_a_case():
    """The generated reference has all ops of the dialect: a new one needs a program here that is compiled to it."""
    reference = (ROOT / "docs" / "reference" / "Wrapper.md").read_text()
    documented = set(re.findall(r"^### `wrapper\.(\w+)`", reference, re.MULTILINE))
    assert documented == {op for *_, ops in CASES.values() for op in ops}
