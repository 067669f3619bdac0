"""What goes along a dim in order: running reductions, sorting, order statistics, searching, scatters. Each group is one
program, compiled once for constant sizes and once with every dim dynamic."""

import math

import pytest
import torch

from test_ops import Group, ints, rand, with_

INF, NAN = math.inf, math.nan


def special(*shape):
    """With ties, infinities and NaN."""
    x = (rand(*shape) * 2).round() / 2
    flat = x.view(-1)
    flat[::7], flat[3::11], flat[5::13], flat[::5] = NAN, INF, -INF, -0.0
    return x


def scans():
    x, i = rand(5, 6, 7), ints(-4, 5, 3, 40)
    return (
        [
            (f, *arguments)
            for arguments in [
                (x, 0),
                (x, 1),
                (x, -1),
                (special(4, 30), 1),
                (rand(70), 0),
                (rand(3, 0), 1),
                (rand(0, 3), 1),
                (torch.tensor(2.5), 0),
            ]
            for f in (torch.cumsum, torch.cumprod, torch.logcumsumexp)
        ]
        + [
            (f, a, 1)
            for a in (special(4, 30), i, i.to(torch.uint8), i > 0, rand(3, 5).double(), special(4, 9).bfloat16())
            for f in (torch.cummax, torch.cummin)
        ]
        + [
            (torch.cumsum, a, 1)
            for a in (
                i,
                i.to(torch.int8),
                i > 0,
                rand(3, 50).double(),
                rand(3, 50).half(),
                rand(3, 50).bfloat16(),
                torch.complex(rand(3, 4), rand(4, 3).T.contiguous()),
            )
        ]
        + [(with_(torch.cumsum, dtype=torch.float64), i, 0), (with_(torch.cumsum, dtype=torch.int32), x * 3, 2)]
    )


def sorting():
    i = ints(-20, 20, 3, 50)
    many = [
        special(4, 33),
        special(6, 2, 5),
        i,
        i.to(torch.uint8),
        i.to(torch.int16),
        i > 0,
        rand(3, 40).double(),
        special(4, 20).bfloat16(),
        special(3, 20).half(),
        rand(2, 1),
        rand(3, 0),
        torch.tensor(1.5),
    ]
    return [
        (with_(torch.sort, dim=dim, descending=descending, stable=True), a) for a in many for dim, descending in ((-1, False), (0, True))
    ] + [
        (with_(torch.argsort, dim=0, stable=True), special(9, 4)),
        (torch.msort, special(7, 3)),
        (with_(torch.topk, k=3), rand(4, 33)),
        (with_(torch.topk, k=5, dim=0, largest=False), rand(9, 4)),
        (with_(torch.topk, k=1), rand(2, 1)),
    ]


def order_statistics():
    x, tied = rand(4, 33), ints(0, 5, 6, 20).float()
    holes = rand(4, 9)
    holes[0, 3], holes[2] = NAN, NAN
    return [
        (with_(torch.kthvalue, k=4), x),
        (with_(torch.kthvalue, k=2, dim=0, keepdim=True), x),
        (with_(torch.median, dim=1), x),
        (torch.median, x),
        (with_(torch.median, dim=0, keepdim=True), x),
        (lambda a: torch.median(a, 1).values, holes),
        (lambda a: torch.nanmedian(a, 1).values, holes),
        (torch.nanmedian, holes),
        (torch.median, holes),
        (torch.median, ints(0, 9, 10)),
        (lambda a: torch.mode(a, 1).values, tied),
        (lambda a: torch.mode(a, 0, keepdim=True).values, tied),
        (with_(torch.median, dim=0), torch.tensor(3.0)),
    ]


def searching():
    edges = torch.sort(rand(20)).values
    rows = torch.sort(rand(3, 9), -1).values
    return [
        (with_(torch.searchsorted, right=right), edges, a)
        for right in (False, True)
        for a in (rand(4, 5), edges, torch.tensor([NAN, INF, -INF]))
    ] + [
        (torch.searchsorted, rows, rand(3, 4)),
        (with_(torch.searchsorted, side="right", out_int32=True), edges, rand(7)),
        (torch.bucketize, rand(6), edges),
        (with_(torch.bucketize, right=True), rand(2, 3), edges),
        (torch.bucketize, ints(0, 9, 5), torch.tensor([1.5, 3.5, 7.0])),
        (torch.searchsorted, rand(0), rand(3)),
        (with_(torch.histc, bins=5, min=-1, max=1), rand(50)),
        (with_(torch.histc, bins=7), rand(3, 9)),
        (with_(torch.histc, bins=4, min=0, max=4), ints(0, 5, 30).float()),
    ]


def scatters():
    x, i = rand(6, 7), ints(0, 6, 4, 5)
    index, column = torch.tensor([3, 0, 3, 5]), ints(0, 7, 4, 5)
    grouped = [
        (lambda a, b, c, how=how, own=own: a.scatter_reduce(0, b, c, how, include_self=own), x, i, rand(4, 6))
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ]
    grouped += [
        (lambda a, b, c, own=own: a.scatter_reduce(0, b, c, "mean", include_self=own), x + 1j, i, rand(4, 6) - 2j) for own in (True, False)
    ]
    indexed = [
        (lambda a, b, c, how=how, own=own: a.index_reduce(1, b, c, how, include_self=own), x, index, rand(6, 4))
        for how in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    ]
    return (
        grouped
        + indexed
        + [
            (lambda a, b, c: a.scatter_add(0, b, c), x, i, rand(4, 5)),
            (lambda a, b: a.scatter(1, b, 2.5), x, torch.stack([torch.randperm(7)[:3] for _ in range(4)])),
            (lambda a, b, c: a.scatter_add(1, b, c), x.bfloat16(), column, rand(4, 5).bfloat16()),
            (lambda a, b, c: a.scatter_add(0, b, c), x > 0, i, rand(4, 5) > 0),
            (lambda a, b, c: a.index_add(0, b, c), x, index, rand(4, 7)),
            (lambda a, b, c: a.index_add(1, b, c, alpha=-2), x, index, rand(6, 4)),
            (lambda a, b, c: a.index_add(0, b, c), ints(0, 9, 6, 7), index, ints(0, 9, 4, 7)),
            (lambda a, b, c: a.index_copy(0, b, c), x, index[1:], rand(3, 7)),
            (lambda a, b: a.index_fill(1, b, -3), x, -index - 1),
            (lambda a, b, c: a.index_add(0, b, c), torch.tensor(1.0), torch.tensor(0), torch.tensor(2.0)),
            (lambda a, b, c: a.scatter_add(0, b, c), rand(0, 3), ints(0, 1, 0, 3), rand(0, 3)),
        ]
    )


def puts():
    x, i, j = rand(5, 6, 7), ints(-5, 5, 3, 4), ints(0, 7, 4)
    mask = rand(5, 6) > 0
    count = int(mask.sum())

    def put(a, indices, values, accumulate=False):
        return torch.ops.aten.index_put(a, list(indices), values, accumulate)

    return [
        (lambda a, b, c: put(a, (b,), c, accumulate=True), x, i, rand(3, 4, 6, 7)),
        (lambda a, b, c: put(a, (None, None, b), c, accumulate=True), x, j, rand(4)),
        (lambda a, b, c, d: put(a, (b, None, c), d, accumulate=True), x, i, j, rand(3, 4, 6)),
        (lambda a, b, c: put(a, (None, b), c), x, torch.tensor([4, 1]), rand(7)),
        (lambda a, m, v: put(a, (m,), v), x, mask, torch.tensor(2.0)),
        (lambda a, m, v: put(a, (m,), v), x, mask, rand(count, 7)),
        (lambda a, m, v: put(a, (None, m), v, accumulate=True), x, rand(6, 7) > 0, torch.tensor([1.5])),
        (torch.masked_scatter, x, x > 0, rand(5, 6, 7)),
        (lambda a, m, v: a.masked_scatter(m, v), x, rand(7) > 0, rand(5, 6, 7)),
        (lambda a, m: torch.ops.aten.masked_scatter_backward(a, m, [40, 6]), x, x > 0),
        (lambda a, b, c: a.put(b, c, accumulate=True), x, i, rand(3, 4)),
        (lambda a, m, v: put(a, (m,), v), ints(0, 9, 4), torch.tensor([True, False, True, True]), torch.tensor([7, 8, 9])),
    ]


GROUPS = [scans, sorting, order_statistics, searching, scatters, puts]


@pytest.mark.parametrize("cases", GROUPS, ids=[group.__name__ for group in GROUPS])
def test_group(compile_and_compare, cases):
    module = Group(cases())
    compile_and_compare(module, module.inputs(), rtol=1e-4, atol=1e-4)


def test_dynamic(compile_and_compare):
    """Sizes that are only known at run time, longer than the ones of export, and empty."""

    class Module(torch.nn.Module):
        def forward(self, x, index, source):
            values, positions = x.sort(dim=1, descending=True, stable=True)
            return (
                x.cumsum(1),
                x.cummax(0).values,
                values,
                positions,
                x.index_add(0, index, source),
                x.scatter_add(0, index[:, None].expand_as(source), source),
                x.median(1).values,
                torch.searchsorted(values.flip(1), x),
                torch.index_put(x, (index,), source),
                x.topk(2).values,
            )

    def inputs(rows, columns, places):
        return rand(rows, columns), ints(0, rows, places), rand(places, columns)

    rows, columns, places = (torch.export.Dim(name, min=2) for name in ("rows", "columns", "places"))
    shapes = {"x": {0: rows, 1: columns}, "index": {0: places}, "source": {0: places, 1: columns}}
    # Places that are written twice keep any of the values: only distinct ones are compared.
    long = rand(600, 5000), torch.randperm(600)[:9], rand(9, 5000)
    first = rand(9, 8), torch.randperm(9)[:4], rand(4, 8)
    compile_and_compare(Module(), first, dynamic_shapes=shapes, more_inputs=[long], rtol=1e-4, atol=1e-3)


def test_order_of_a_long_dim(check_calls):
    check_calls(
        lambda x: (x.sort().values, x.argsort(), x.cumsum(0), x.topk(7).values), (torch.randperm(100003).float(),), rtol=1e-5, atol=1e-2
    )


def test_first_of_long_rows(check_calls):
    """They are picked out of a row that is gone through once."""
    x = torch.stack(
        [torch.randn(6000), special(1, 6000)[0], torch.arange(6000.0), -torch.arange(6000.0), torch.zeros(6000), torch.full((6000,), NAN)]
    )
    check_calls(
        lambda x: (
            x.topk(8).values,
            x.topk(50, largest=False).values,
            x.kthvalue(3).values,
            x.t().topk(2, 0).values,
            x.gather(1, x.topk(8).indices),
        ),
        (x,),
        (x[:, :130],),
    )
    check_calls(lambda x: tuple(x.topk(20)), (torch.randperm(6000),), (torch.randperm(3000).to(torch.int16),))


def unordered(length, dtype):
    """Few distinct values, with both ends of the type and whatever compares in a way of its own."""
    x = torch.randint(0, 40, (length,), dtype=torch.int64).to(dtype)
    if dtype.is_floating_point:
        for i, value in enumerate((NAN, INF, -INF, -0.0, -1.5)):
            x[i::11] = value
    elif dtype != torch.bool:
        x[::9], x[4::9] = torch.iinfo(dtype).max, torch.iinfo(dtype).min
    return x


def test_order_of_short_and_long_rows(compile_and_compare):
    """Around the length from which rows are sorted by digits; keys that fit into a word with their places, and some that do not."""
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)

    class Module(torch.nn.Module):
        def forward(self, *tensors):
            return [result for x in tensors for result in (*x.sort(stable=True), *x.sort(descending=True, stable=True))]

    def inputs(length):
        return *(unordered(length, dtype) for dtype in dtypes), torch.zeros(length), torch.arange(length) << 40

    first, *others = map(inputs, (600, 63, 64, 255, 3, 5000))
    compile_and_compare(Module(), first, (tuple({0: torch.export.Dim.AUTO} for _ in first),), more_inputs=others, rtol=0, atol=0)


class Equals(torch.nn.Module):
    """What chooses among equal elements, along rows and along columns. With `stable`, what eager mode leaves to its standard
    library's unstable algorithms is written with a stable sort."""

    def __init__(self, stable):
        super().__init__()
        self.stable = stable

    def unstable(self, x):
        n = x.shape[1]
        if not self.stable:
            return [
                x.argsort(1),
                x.topk(1, 1).indices,
                x.topk(n, 1, largest=False).indices,
                x.kthvalue((n + 1) // 2, 1).indices,
                x.mode(1).indices,
            ]
        order, last = x.sort(dim=1, stable=True).indices, x.sort(dim=1, descending=True, stable=True).indices
        of_mode = torch.where(x == x.mode(1, keepdim=True).values, torch.arange(n), -1).amax(1)
        return [order, last[:, :1], order, order[:, (n - 1) // 2], of_mode]

    def forward(self, *tensors):
        results = []
        for x in tensors:
            for y in (x, x.t().clone(memory_format=torch.contiguous_format).t()):
                results += [
                    *y.max(1),
                    *y.min(1),
                    *y.cummax(1),
                    *y.cummin(1),
                    *y.sort(dim=1, stable=True),
                    *y.sort(dim=1, descending=True, stable=True),
                ]
                if x.dtype != torch.bool:
                    results += [y.argmax(1), y.argmin(1), y.argmax(), *y.median(1), *y.nanmedian(1)] + self.unstable(
                        torch.nan_to_num(y, 7.0)
                    )
        return results


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float32, torch.bfloat16, torch.int64, torch.uint8),
        (torch.float64, torch.float16, torch.int32, torch.int16, torch.int8, torch.bool),
    ],
)
def test_equal_elements(compile_model, dtypes):
    """Of equal elements the first is chosen, of a mode's the last; sorting keeps their order."""

    def inputs(length):
        return tuple(torch.stack([unordered(length, dtype) for _ in range(3)]) for dtype in dtypes)

    compiled = compile_model(Equals(stable=False), inputs(100), (tuple({1: torch.export.Dim.AUTO} for _ in dtypes),))
    compiled.module = Equals(stable=True)
    for length in (100, 2, 16, 17, 1000, 5000):
        compiled.check(inputs(length), rtol=0, atol=0)


@pytest.mark.parametrize("bad", [6, -1, 1 << 40, -(1 << 63)])
def test_out_of_range(compile_model, bad):
    """A write outside of the tensor is an error, and nothing is written."""
    import kiln

    class Module(torch.nn.Module):
        def forward(self, x, index, source):
            return x.index_add(0, index, source)

    compiled = compile_model(Module(), (rand(6, 3), torch.tensor([0, 5]), rand(2, 3)))
    with pytest.raises(kiln.KilnError):
        compiled.model(rand(6, 3), torch.tensor([0, bad]), rand(2, 3))
    compiled.check((rand(6, 3), torch.tensor([1, 5]), rand(2, 3)), 1e-5, 1e-5)
