"""Values for which eager mode raises: a run gives a status just where eager mode does, and the same values elsewhere. Each operator is a program of
its own with one input that is well and several that may not be."""

import math

import pytest
import torch
import torch.nn.functional as F

import kiln

INF, NAN = math.inf, math.nan
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
X, UP = torch.linspace(-1, 1, 24).view(6, 4), torch.arange(5.0)
POSITIVE = torch.tensor([[2, 0.5, 0], [0.5, 2, 0], [0, 0, 2]])
SINGULAR = POSITIVE.index_select(0, torch.tensor([0, 1, 1]))


def T(*values, dtype=None):
    return torch.tensor(values, dtype=dtype)


def L(*values):
    return torch.tensor(values)


def divisions(dtype):
    """Of one dtype in all forms, of others in some. Quotients that stay as they are, and such as are fused into what uses them: under a mask, in parts of a result, in sums."""
    x = torch.arange(37, dtype=dtype)
    three, zero = torch.full((37,), 3, dtype=dtype), torch.full((37,), 3, dtype=dtype)
    zero[36] = 0

    def in_place(a, b):
        a = a.clone()
        a //= b
        a %= b
        return a

    def on_edges(a, b):
        return F.pad(a // b, (3, 5)), torch.cat([a, a % b, b]), (a.view(37, 1) // b).sum(0), torch.where(b != 0, torch.fmod(a, b), a)

    pairs = [(x, three), (x, zero)]
    some = [(torch.floor_divide, pairs), (on_edges, pairs)]
    return (
        some
        if dtype != torch.int64
        else some
        + [
            (torch.remainder, pairs),
            (torch.fmod, pairs),
            (lambda a, b: torch.div(a, b, rounding_mode="floor"), pairs),
            (lambda a, b: torch.div(a, b, rounding_mode="trunc"), pairs),
            (lambda b: (7 // b, 7 % b), [(three,), (zero,)]),
            (in_place, pairs),
            (lambda a, b: (a[:, None] // b[None, :0]).sum(1), pairs),
        ]
    )


def by_constants():
    i = torch.arange(5)
    return [
        (f, [(i,)])
        for f in (
            lambda a: a // 0,
            lambda a: a % 0,
            lambda a: torch.fmod(a, 0),
            lambda a: a // 3,
            lambda a: torch.div(a, -1, rounding_mode="floor"),
        )
    ]


def classes():
    t = [(X, L(0, 1, 2, 3, 0, -100)), (X, L(0, 1, 2, 4, 0, 0)), (X, L(0, 1, 2, -1, 0, 0))]
    return [
        (lambda a: F.one_hot(a, 6), [(L(0, 5, 2),), (L(0, 6, 2),), (L(-1, 5, 2),)]),
        (F.nll_loss, t),
        (F.cross_entropy, t),
        (lambda a, b: F.cross_entropy(a, b, label_smoothing=0.1), t),
        (F.multi_margin_loss, [(X, L(0, 1, 2, 3, 0, 0)), *t[1:]]),
        (F.multilabel_margin_loss, [(X[:1], L([0, 3, -1, 0])), (X[:1], L([0, 4, -1, 0])), (X[:1], L([0, -2, -1, 0]))]),
        (lambda a: torch.bincount(a, minlength=7), [(L(0, 5, 2),), (L(0, -1, 2),)]),
    ]


def indices():
    places = [(X, L(*values)) for values in ((0, 5, 2), (0, 24, 2), (0, 6, 2), (-1, 3, 2), (-25, 3, 2))]
    ones = torch.ones(3, 4)

    def column(i):
        return i[:, None].expand(3, 4)

    functions = [
        lambda a, i: a.index_select(0, i),
        lambda a, i: a.gather(0, column(i)),
        lambda a, i: a.take(i),
        lambda a, i: torch.take_along_dim(a, i),
        lambda a, i: F.embedding(i, a),
        lambda a, i: a[i],
        lambda a, i: a.index_add(0, i, ones),
        lambda a, i: a.index_copy(0, i, ones),
        lambda a, i: a.index_fill(0, i, 2.0),
        lambda a, i: a.scatter(0, column(i), ones),
        lambda a, i: a.scatter_add(0, column(i), ones),
        lambda a, i: torch.index_put(a, (i,), ones),
        lambda a, i: torch.index_put(a, (i,), ones, accumulate=True),
        lambda a, i: a.put(i, torch.ones(3)),
        lambda a, i: F.embedding_bag(i[None], a),
        # Tensors that go away: of one value, repeated, a slice, counted, joined.
        lambda a, i: torch.zeros(6)[i],
        lambda a, i: a[:1].expand(6, 4)[i],
        lambda a, i: torch.cat([a, a])[3:9][i],
        lambda a, i: torch.arange(6)[i],
        lambda a, i: torch.cat([a[:2], a[2:]])[i],
        lambda a, i: F.pad(a[:4], (0, 0, 1, 1))[i],
        lambda a, i: a.flip(0)[i],
    ]
    offsets = [(X, L(0, 5, 2), L(0, 2)), (X, L(0, 5, 2), L(1, 2)), (X, L(0, 5, 2), L(0, 4))]
    return [(f, places) for f in functions] + [(lambda a, i, o: F.embedding_bag(i, a, o), offsets)]


def chances():
    weights = [
        (T(0.1, 0.5, 0.2),),
        (T(0.1, -0.5, 0.2),),
        (T(0.1, NAN, 0.2),),
        (T(0.1, INF, 0.2),),
        (T(0.0, 0.0, 0.0),),
        (T(0.0, 0.0, 1.0),),
    ]
    chance = [(T(0.1, 0.0, 1.0),), (T(0.1, -0.5, 0.2),), (T(0.1, NAN, 0.2),), (T(0.1, 2.0, 0.2),)]
    half = T(0.0, 0.5, 1.0)
    return [
        (lambda p: torch.multinomial(p, 2, replacement=True) >= 0, weights),
        (lambda p: torch.multinomial(p, 2) >= 0, weights),
        (lambda p: torch.bernoulli(p) * 0, chance),
        (lambda p: torch.empty(3).bernoulli_(p) * 0, chance),
        (lambda m, s: torch.normal(m, s) * 0, [(UP, UP + 1), (UP, -UP)]),
        (lambda s: torch.normal(1.0, s) * 0, [(UP,), (-UP,), (UP * NAN,)]),
        (
            F.binary_cross_entropy,
            [
                (half, T(0.0, 1.0, 1.0)),
                (T(0.0, 1.5, 1.0), half),
                (T(0.0, -0.5, 1.0), half),
                (T(0.0, NAN, 1.0), half),
                (half, T(0.0, 3.0, 1.0)),
            ],
        ),
        (lambda a: torch.histc(a, 4), [(UP,), (UP + T(0, 0, NAN, 0, 0),), (UP * INF,)]),
        (torch.quantile, [(UP, T(0.1, 0.5)), (UP, T(0.1, 1.5)), (UP, T(NAN, 0.5))]),
        (lambda r: torch.repeat_interleave(r, output_size=4), [(L(1, 0, 3),), (L(1, -1, 4),), (L(1, 1, 1),)]),
        (lambda a: (torch._assert_async(a.sum() > 0), a + 1)[1], [(UP,), (-UP,)]),
    ]


def matrices():
    negative, zero = POSITIVE - 4 * torch.eye(3), torch.zeros(3, 3)
    return [
        (torch.linalg.cholesky, [(POSITIVE,), (negative,), (POSITIVE * NAN,), (zero,)]),
        (torch.linalg.inv, [(POSITIVE,), (SINGULAR,), (zero,)]),
        (torch.linalg.solve, [(POSITIVE, POSITIVE + 1), (SINGULAR, POSITIVE + 1)]),
        (lambda a: torch.linalg.lu_factor(a).LU, [(POSITIVE,), (zero,)]),
        (torch.cholesky_inverse, [(POSITIVE,), (zero,)]),
        (lambda a: torch.linalg.inv_ex(a).info, [(POSITIVE,), (SINGULAR,)]),
    ]


def numbers():
    def one(*values):
        return tuple(torch.tensor(value) for value in values)

    return [
        (lambda a, b: UP[: a.item() // b.item()], [one(3, 1), one(3, 0), one(3, -1)]),
        (lambda a, b: UP + a.item() % b.item(), [one(3, 2), one(3, 0), one(-5, -3)]),
        (lambda a: UP[a.item()], [one(3), one(7)]),
        (lambda a: torch.narrow(UP, 0, a.item(), 2), [one(3), one(4)]),
        (lambda a: torch.zeros(a.item()), [one(3), one(-3)]),
    ]


GROUPS = {
    **{f"divisions-{str(dtype)[6:]}": divisions(dtype) for dtype in INTEGERS},
    "constants": by_constants(),
    "classes": classes(),
    "indices": indices(),
    "chances": chances(),
    "matrices": matrices(),
    "numbers": numbers(),
}


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())
def test_raises_where_eager_does(compile_model, group):
    outcomes = set()
    for number, (function, inputs) in enumerate(group):
        module = Function(function)
        compiled = compile_model(module, tuple(tensor.clone() for tensor in inputs[0]))
        for arguments in inputs:
            case = number, arguments
            try:
                module(*(tensor.clone() for tensor in arguments))
            except (RuntimeError, IndexError, ZeroDivisionError):
                outcomes.add(False)
                with pytest.raises(kiln.KilnError) as error:
                    compiled.model.run([tensor.clone() for tensor in arguments])
                    pytest.fail(f"no status: {case}")
                assert error.value.status in (1, 2, 6), case
            else:
                outcomes.add(True)
                compiled.check(arguments, rtol=1e-5, atol=1e-5)
    assert len(outcomes) == 2, "a group that tests one side alone"


def test_quotients_that_do_not_fit(compile_model):
    """The least number divided by -1 wraps, and traps nowhere (as it does in eager mode); of unsigned numbers all quotients fit."""

    class Module(torch.nn.Module):
        def forward(self, *pairs):
            return [f(a, b) for a, b in zip(pairs[::2], pairs[1::2]) for f in (torch.floor_divide, torch.remainder, torch.fmod)]

    pairs = [
        t for dtype in INTEGERS[:4] for t in (torch.full((37,), torch.iinfo(dtype).min, dtype=dtype), torch.full((37,), 7, dtype=dtype))
    ]
    pairs += [T(128, 255, 3, dtype=torch.uint8), T(255, 128, 2, dtype=torch.uint8)]
    compiled = compile_model(Module(), tuple(pairs))
    compiled.check(tuple(pairs), 0, 0)
    for t in pairs[1:8:2]:
        t.fill_(-1)
    results = [torch.as_tensor(result) for result in compiled.model.run(pairs)]
    for least, (quotient, remainder, rest) in zip(pairs[:8:2], zip(results[::3], results[1::3], results[2::3])):
        assert torch.equal(quotient, least) and not remainder.any() and not rest.any()


def test_message_names_operator_node_and_line(compile_model):
    class Module(torch.nn.Module):
        def forward(self, x, y):
            return x // y

    compiled = compile_model(Module(), (L(5, 6), L(1, 2)))
    with pytest.raises(
        kiln.KilnError, match=r"aten.floor_divide.default: integer division by zero \(node 'floor_divide' \(.*test_bad_values.py:\d+\)\)"
    ) as error:
        compiled.model.run([L(5, 6), L(1, 0)])
    assert error.value.status == 6
    compiled.check((L(5, 6), L(3, 4)), 0, 0)


def test_folded_constants(compile_model):
    """What cannot be computed when the model is compiled fails when it runs, or when it is replaced."""

    class Module(torch.nn.Module):
        def __init__(self, divisor):
            super().__init__()
            self.register_buffer("divisor", divisor)

        def forward(self, x):
            return x + 100 // self.divisor

    compiled = compile_model(Module(L(2, 0)), (L(5, 6),))
    with pytest.raises(kiln.KilnError, match="integer division by zero"):
        compiled.model.run([L(5, 6)])
    compiled = compile_model(Module(L(2, 5)), (L(5, 6),))
    compiled.check((L(5, 6),), 0, 0)
    with pytest.raises(kiln.KilnError, match="integer division by zero"):
        compiled.model.set_constant("divisor", L(0, 1))
    compiled.check((L(5, 6),), 0, 0)


def test_sizes_at_run_time(compile_and_compare, compile_model):
    """A divisor for each row, in front of a loop that may have no iteration."""

    class Module(torch.nn.Module):
        def forward(self, x, y):
            return x // y, (x % y).sum(1)

    rows, columns = torch.export.Dim("rows", min=0), torch.export.Dim("columns", min=0)
    shapes = {"x": {0: rows, 1: columns}, "y": {0: rows}}
    compiled = compile_model(Module(), (torch.arange(40).view(4, 10), L([1], [2], [3], [4])), shapes)
    compiled.check((torch.arange(340).view(2, 170), L([3], [7])), 0, 0)
    compiled.check((torch.zeros(2, 0, dtype=torch.int64), L([3], [0])), 0, 0)
    with pytest.raises(kiln.KilnError, match="integer division by zero"):
        compiled.model.run([torch.arange(340).view(2, 170), L([3], [0])])
