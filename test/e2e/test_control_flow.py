"""Branches, loops and nested graphs against PyTorch: static and dynamic sizes, both branches, no rounds and many."""

import threading

import pytest
import torch
from torch import nn
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph, mark_compile_region
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import kiln

DYNAMIC = Dim.DYNAMIC


class Branches(nn.Module):
    """A cond of each kind; the predicates are the elements of one input."""

    def __init__(self):
        super().__init__()
        self.fc, self.other = nn.Linear(6, 5), nn.Linear(6, 5, bias=False)
        self.register_buffer("scale", torch.rand(6))
        self.register_buffer("table", torch.arange(12).reshape(2, 6), persistent=False)

    def forward(self, p, x, ints):
        outer = x.exp()

        def nested(p, x):
            return torch.cond(p, lambda x: x + 1, lambda x: x - 1, (x,))

        kinds = [
            torch.cond(p[0], lambda x: self.fc(x).relu(), lambda x: self.other(x * self.scale), (x,)),
            torch.cond(p[1:2], lambda x: (x.sin(), x.sum(0)), lambda x: (x.cos(), x.amax(0)), (x,)),
            torch.cond(p[2], lambda a: nested(p[3], a * 2), lambda a: nested(p[4], a * 3), (x,)),
            torch.cond(p[5], lambda: torch.ones(3), lambda: torch.zeros(3), ()),
            torch.cond(p[6], lambda x: x.sin().t(), lambda x: (x * outer).t(), (x,)),
            torch.cond(p[7], lambda i: (i + 1, i > 2, i.to(torch.int32)), lambda i: (i * 2, i < 5, i.to(torch.int32) - 1), (ints,)),
            torch.cond(x.sum() > 0, lambda i: self.table[:, :1] + i, lambda i: self.table[:, 1:2] * i, (ints,)),
            torch.cond(p.all(), lambda x: x.clone(), lambda x: torch.full_like(x, float("nan")), (x,)),
        ]
        return kinds, torch.cond(p[0], lambda x: x + 1, lambda x: x * 0, (kinds[0],)) - 1


def branch_inputs(n, *true):
    p = torch.zeros(8, dtype=torch.bool)
    p[list(true)] = True
    return p, torch.randn(n, 6), torch.randint(-9, 9, (2, 1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_branches(compile_and_compare, dynamic):
    torch.manual_seed(0)
    n = 4
    combinations = [branch_inputs(n, *range(8)), branch_inputs(n, 0, 3, 5, 7), branch_inputs(n, 2, 3, 4), branch_inputs(n, 1, 2, 4, 6)]
    if dynamic:
        combinations += [branch_inputs(2, 2), branch_inputs(129, 0, 1, 2, 6)]
    shapes = ({}, {0: DYNAMIC}, {}) if dynamic else None
    compile_and_compare(Branches(), branch_inputs(n), dynamic_shapes=shapes, more_inputs=combinations)


class SizeBranches(nn.Module):
    """Predicates that sizes decide."""

    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        up, down = (lambda x: x + x.shape[0]), (lambda x: x * y.shape[0])
        return [torch.cond(p, up, down, (x,)) for p in (n > m, n >= 7, n < m, n <= 7, torch.sym_not(n == 5))]


def test_branches_on_sizes(compile_and_compare):
    sizes = [(4, 9), (9, 4), (7, 7), (5, 5), (5, 8)]
    inputs = [(torch.randn(n, 3), torch.randn(m, 3)) for n, m in sizes]
    compile_and_compare(SizeBranches(), inputs[0], dynamic_shapes=({0: DYNAMIC}, {0: DYNAMIC}), more_inputs=inputs[1:])


class Loops(nn.Module):
    """A while_loop of each kind."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.register_buffer("step", torch.rand(6))

    def forward(self, n, x, ints):
        scaled = x * 2

        def count(n, *_):
            return n > 0

        def inner(n, m, x):
            m, x = while_loop(lambda m, x: m < 3, lambda m, x: (m + 1, x * 1.5 + n), (m, x))
            return n - 1, m - 3, x

        return [
            while_loop(count, lambda n, x: (n - 1, self.fc(x).tanh() + scaled), (n, x)),
            while_loop(lambda n, a, b: n > 0, lambda n, a, b: (n - 1, b + self.step, a - 1), (n, x, scaled)),
            while_loop(lambda i, x: i.sum() < 40, lambda i, x: (i + n.abs() + 1, x.clone()), (ints, x)),
            while_loop(lambda n, m, x: n > 0, inner, (n, torch.zeros((), dtype=torch.int64), x)),
            # What the body does not change is carried all the same.
            while_loop(
                lambda d, x: d["n"] > 1, lambda d, x: ({"n": d["n"] - 1, "flag": ~d["flag"]}, x.clone()), ({"n": n, "flag": x > 0}, x)
            ),
        ]


@pytest.mark.parametrize("dynamic", [False, True])
def test_while_loops(compile_and_compare, dynamic):
    torch.manual_seed(0)

    def inputs(rounds, rows=4):
        return torch.tensor(rounds), torch.randn(rows, 6), torch.randint(0, 9, (2, 3))

    more = [inputs(rounds) for rounds in (0, 1, 2, 3, 50)]
    if dynamic:
        more += [inputs(3, 2), inputs(4, 131)]
    compile_and_compare(Loops(), inputs(5), dynamic_shapes=({}, {0: DYNAMIC}, {}) if dynamic else None, more_inputs=more)


class Scans(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 4)
        self.out = nn.Linear(4, 2)

    def forward(self, h, xs, ints):
        def cell(h, x):
            h = self.cell(torch.cat([h, x], -1)).tanh()
            return h, self.out(h)

        def two(carried, slices):
            (a, b), (x, i) = carried, slices
            return (a + x, b * 2 + i.sum()), (a * x, i > 0, b.clone())

        def branch(h, x):
            h = torch.cond(x.sum() > 0, lambda h, x: h + x, lambda h, x: h - x, (h, x))
            return h, h.clone()

        def each(x, h):
            return x @ h.t(), x.amax()

        return [
            scan(cell, h, xs),
            scan(cell, h, xs, reverse=True),
            scan(two, (h, torch.zeros((), dtype=torch.int64)), (xs, ints)),
            scan(branch, h, xs),
            scan(lambda h, x: (h + x, h * x), h, xs.transpose(0, 1).contiguous(), dim=1),
            map_over(each, xs, h),
            map_over(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)), xs),
            map_over(lambda pair: pair[0] + pair[1].sum(), (xs, ints)),
        ]


@pytest.mark.parametrize("dynamic", [False, True])
def test_scans_and_maps(compile_and_compare, dynamic):
    torch.manual_seed(0)

    def inputs(length, rows=3):
        return torch.randn(rows, 4), torch.randn(length, rows, 4), torch.randint(-5, 5, (length, 2))

    more = [inputs(n) for n in (2, 3, 64)] if dynamic else []
    compile_and_compare(Scans(), inputs(5), dynamic_shapes=({}, {0: DYNAMIC}, {0: DYNAMIC}) if dynamic else None, more_inputs=more)


def test_one_round(compile_and_compare):
    torch.manual_seed(0)
    compile_and_compare(Scans(), (torch.randn(3, 4), torch.randn(1, 3, 4), torch.randint(-5, 5, (1, 2))))


class Sizes(nn.Module):
    """Graphs that find out sizes: other ones in each branch, of data, in a branch of a branch and in a loop."""

    def forward(self, p, x):
        def nested(x):
            return torch.cond(p[1], lambda x: x[1:] * 3, lambda x: x[2:].exp(), (x,)) + 1

        def product(x):
            return x[2:] @ torch.ones(3, 4), x.sum(0), x[1:] + 1

        def other(x):
            return x[:2] @ torch.full((3, 4), 2.0), x.amax(0), x[:3] + x.shape[0]

        def step(n, total):
            rows = torch.cond(n > 2, lambda x: x[1:] * 2, lambda x: x[:2] + 1, (x,))
            k = n.item()
            torch._check(k >= 0)
            return n - 1, total + rows.sum(0) + torch.arange(k).sum()

        first = torch.cond(p[0], lambda x: x[2:].sin(), lambda x: x[:2] * 2, (x,))
        found = torch.cond(
            p[2], lambda x: torch.ones(x.nonzero().size(0), 3).cos(), lambda x: torch.ones((x > 0).nonzero().size(0), 3).sin(), (x,)
        )
        number = torch.cond(p[1], lambda: 3, lambda: 5, ())
        return [
            first + 1,
            first.shape[0],
            torch.cond(p[0], nested, lambda x: x[:1] * 2, (x,)),
            torch.cond(p[2], product, other, (x,)),
            found,
            torch.ones(number),
            while_loop(lambda n, total: n > 0, step, (torch.tensor(4), torch.zeros(3))),
        ]


@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_that_graphs_find_out(compile_and_compare, dynamic):
    torch.manual_seed(0)

    def inputs(*true, rows=6):
        p = torch.zeros(3, dtype=torch.bool)
        p[list(true)] = True
        return p, torch.randn(rows, 3).relu()

    more = [inputs(*true) for true in ((0, 1, 2), (1,), (0, 2))]
    if dynamic:
        more += [inputs(0, 1, rows=41), inputs(2, rows=4), inputs(0, 1, 2, rows=300)]
    compile_and_compare(Sizes(), inputs(), dynamic_shapes=({}, {0: DYNAMIC}) if dynamic else None, more_inputs=more)


class SizeOfBoth(nn.Module):
    """The size that a graph gives is asserted to be one from before it."""

    def forward(self, x):
        found = x.reshape(-1)[torch.nonzero(x.reshape(-1) > 0)[:, 0]]
        rows = found.expand(2, *found.shape)
        return torch.atan2(found, torch.cond(x.any(), lambda s: s.relu().sum(0), lambda s: s.amax(0), (rows,)).abs() + 1)


def test_size_of_a_graph_that_equals_another(compile_and_compare):
    compile_and_compare(SizeOfBoth(), (torch.tensor([[1.0, -2.0, 3.0]]),), more_inputs=[(-torch.ones(1, 3),), (torch.ones(1, 3),)])


class Weights(nn.Module):
    """Parameters that are packed and folded inside of graphs, one of which main uses too, and a buffer that changes."""

    def __init__(self):
        super().__init__()
        self.fc, self.shared = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.mixed = nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))
        self.register_buffer("count", torch.zeros(6))

    def forward(self, p, n, x):
        y = torch.cond(p, lambda x: self.fc(x).relu() + self.count, lambda x: self.shared(x * self.fc.bias.exp()), (x,))
        z = while_loop(lambda n, y: n > 0, lambda n, y: (n - 1, self.mixed(y).tanh() - self.count), (n, y))[1]
        self.count.add_(z.sum(0))
        return self.shared(z), self.count * 1


def test_weights_of_graphs(compile_model):
    """Replaced weights are the graphs', too; what a buffer holds is kept between runs."""
    torch.manual_seed(0)
    inputs = [(torch.tensor(bool(i % 2)), torch.tensor(i), torch.randn(3, 6)) for i in range(4)]
    compiled = compile_model(Weights(), inputs[0])
    for values in inputs:
        compiled.check(values, 1e-5, 1e-5)
    with torch.no_grad():
        for name, parameter in compiled.module.named_parameters():
            parameter.copy_(torch.rand_like(parameter))
            compiled.model.set_constant(name, parameter.detach())
    for values in inputs:
        compiled.check(values, 1e-5, 1e-5)


class Draws(nn.Module):
    """Random numbers in nested graphs of each kind, in graphs in graphs, and in both calls of one graph."""

    @mark_compile_region
    def twice(self, x):
        return torch.rand_like(x)

    def forward(self, p, rounds, x):
        def noisy(i, x, sum):
            return i + 1, torch.cond(p, lambda x: torch.rand_like(x), lambda x: x * 0 + 0.5, (x,)), sum + torch.bernoulli(x * 0 + 0.5)

        def step(carry, row):
            return carry + torch.rand_like(row), torch.rand_like(row)

        return (
            torch.cond(p, lambda x: torch.rand_like(x), lambda x: x * 0 + 2, (x,)),
            torch.rand_like(x),
            *while_loop(lambda i, x, sum: i < rounds, noisy, (torch.tensor(0), x, x * 0))[1:],
            *scan(step, x[0] * 0, x),
            map_over(lambda row: torch.rand_like(row), x),
            self.twice(x),
            self.twice(x),
            torch.cond(p, lambda x: nn.functional.dropout(x * 0 + 1, 0.5), lambda x: x + 0, (x,)),
        )


def test_random_numbers(compile_model):
    """Every draw has numbers of its own, as uniform as they should be, that a seed decides; branches that are not taken draw nothing."""
    x = torch.ones(4, 1000)
    compiled = compile_model(Draws(), (torch.tensor(True), torch.tensor(3), x), dynamic_shapes=({}, {}, {0: Dim("rows", min=1, max=9)}))
    model = kiln.load(compiled.path)
    for taken, rounds, rows in ((True, 40, 4), (False, 3, 7), (True, 0, 1)):
        inputs = (torch.tensor(taken), torch.tensor(rounds), torch.ones(rows, 1000))
        model.set_constant("kiln.random", torch.tensor([7, 0]))
        first, second = model(*inputs), model(*inputs)
        model.set_constant("kiln.random", torch.tensor([7, 0]))
        assert all(torch.equal(a, b) for a, b in zip(first, model(*inputs)))
        branch, own, last, sum, carried, rows_drawn, mapped, one, other, dropped = first
        uniform = (
            [own, rows_drawn, mapped, one, other, second[1], second[5], second[6]]
            + ([branch, second[0]] if taken else [])
            + ([last] if taken and rounds else [])
        )
        for drawn in uniform:
            assert drawn.min() >= 0 and drawn.max() < 1 and abs(drawn.mean() - 0.5) < 0.05 and abs(drawn.var() - 1 / 12) < 0.02
        every = torch.cat([drawn.reshape(-1) for drawn in uniform])
        assert every.unique().numel() > 0.99 * every.numel()
        assert abs(sum.mean() - rounds / 2) < 0.3 and (rounds < 9 or sum.unique().numel() > 9)
        assert abs(carried.mean() - rows / 2) < 0.3
        if not taken:
            assert torch.equal(branch, torch.full_like(branch, 2)) and torch.equal(dropped, torch.ones_like(dropped))


class Wrappers(nn.Module):
    """What export wraps parts of a graph in, which computes as if it were not there."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        @mark_compile_region
        def region(a, b):
            return a.sin() * b, b * a.shape[0]

        with torch.no_grad():
            y = self.fc(x).relu()
        a, b = region(x, y)
        a, b = region(b, a)
        return a + b, y


@pytest.mark.parametrize("dynamic", [False, True])
def test_wrappers(compile_and_compare, dynamic):
    torch.manual_seed(0)
    more = [(torch.randn(n, 6),) for n in (2, 33)] if dynamic else []
    compile_and_compare(Wrappers(), (torch.randn(4, 6),), dynamic_shapes=({0: DYNAMIC},) if dynamic else None, more_inputs=more)


class Regions(nn.Module):
    """One graph that is called with tensors of other sizes, which PyTorch exports with those of the first call."""

    def __init__(self):
        super().__init__()
        self.region = torch.fx.symbolic_trace(lambda x: (torch.cat([x, x.exp()]).softmax(0).reshape(2, -1, 6).cumsum(1), x[x > 0]))

    def forward(self, x, y):
        return tuple(invoke_subgraph(self.region, "region", tensor) for tensor in (x, y, torch.cat([y, x, y]), x.sin()))


def test_subgraph_of_several_sizes(compile_and_compare):
    torch.manual_seed(0)
    inputs = [(torch.randn(n, 6), torch.randn(m, 6)) for n, m in ((4, 7), (5, 2), (3, 3))]
    compile_and_compare(Regions(), inputs[0], dynamic_shapes=({0: DYNAMIC},) * 2, more_inputs=inputs[1:])


def test_two_threads_in_one_model(compile_model):
    """Each run has its own memory, for nested graphs too."""
    torch.manual_seed(0)
    compiled = compile_model(Loops(), (torch.tensor(2), torch.randn(4, 6), torch.randint(0, 9, (2, 3))), threads=2)
    failures = []

    def work(rounds):
        try:
            for _ in range(20):
                inputs = torch.tensor(rounds), torch.full((4, 6), float(rounds)), torch.zeros(2, 3, dtype=torch.int64)
                with torch.no_grad():
                    expected = [leaf for pair in compiled.module(*inputs) for leaf in torch.utils._pytree.tree_leaves(pair)]
                for got, want in zip(compiled.model.run(list(inputs)), expected):
                    torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-5, atol=1e-5)
        except Exception as failure:  # of a thread: pytest sees none of them
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(rounds,)) for rounds in (1, 4, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
