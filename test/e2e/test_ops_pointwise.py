"""Elementwise operators: odd shapes, broadcasting, type promotion, special values."""

import operator

import pytest
import torch
import torch.nn.functional as F


def some(*shape, low=-3.0, high=3.0, seed=0):
    return torch.empty(shape).uniform_(low, high, generator=torch.Generator().manual_seed(seed))


SPECIAL = torch.tensor(
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        0.0,
        -0.0,
        1e-40,
        -1e-40,
        1e-30,
        1e30,
        -1e30,
        3.4e38,
        -3.4e38,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        -2.5,
        1.0,
        -1.0,
        2.0,
        10.0,
        -10.0,
        87.0,
        88.7,
        89.0,
        -87.0,
        -88.0,
        -103.0,
        -105.0,
        127.0,
        128.0,
        1e-5,
        -1e-5,
        0.999999,
        -0.999999,
        3.14159274,
        6.2831855,
        100.0,
        -100.0,
        8388609.0,
        16777216.0,
        2147483648.0,
    ]
)

ANYWHERE = {
    "abs": torch.abs,
    "neg": torch.neg,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "atan": torch.atan,
    "asinh": torch.asinh,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "frac": torch.frac,
    "sign": torch.sign,
    "square": torch.square,
    "relu": F.relu,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "signbit": torch.signbit,
    "logical_not": torch.logical_not,
    "nan_to_num": torch.nan_to_num,
    "reciprocal": torch.reciprocal,
    "cube": lambda x: x**3,
    "power": lambda x: x**0.5,
    "inverse": lambda x: x**-1,
    "two_to": lambda x: 2**x,
    "clamp": lambda x: x.clamp(-1, 2),
    "clamp_min": lambda x: x.clamp(min=0.25),
    "one_minus": lambda x: 1 - x,
}
POSITIVE = {"log": torch.log, "log2": torch.log2, "log10": torch.log10, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "log1p": torch.log1p}
WITHIN_ONE = {"asin": torch.asin, "acos": torch.acos, "atanh": torch.atanh, "logit": lambda x: torch.logit(x, 1e-3)}
PERIODIC = {"sin": torch.sin, "cos": torch.cos, "tan": torch.tan}
GROWING = {"sinh": torch.sinh, "cosh": torch.cosh, "acosh": lambda x: torch.acosh(x.abs() + 1)}


def shapes(make):
    return make(37), make(3, 5, 17), make(), make(0, 4), make(1, 1), make(2, 3, 4, 5, 2)


@pytest.mark.parametrize("name", ANYWHERE)
def test_unary(check_calls, name):
    # eager's gelu of infinity is NaN, and of the largest numbers infinity
    special = SPECIAL[~(SPECIAL.abs() > 1e30)] if name == "gelu" else SPECIAL
    check_calls(ANYWHERE[name], *shapes(some), special, some(6, 9).t(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", POSITIVE)
def test_unary_positive(check_calls, name):
    check_calls(POSITIVE[name], *shapes(lambda *shape: some(*shape, low=1e-3, high=50.0)), SPECIAL, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", WITHIN_ONE)
def test_unary_within_one(check_calls, name):
    check_calls(WITHIN_ONE[name], *shapes(lambda *shape: some(*shape, low=-1.0, high=1.0)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PERIODIC)
def test_unary_periodic(check_calls, name):
    far = torch.tensor([1e3, -1e3, 12345.678, 1e5, -54321.0, 1e6])
    check_calls(PERIODIC[name], *shapes(some), far, torch.arange(256).float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", GROWING)
def test_unary_growing(check_calls, name):
    check_calls(GROWING[name], *shapes(some), some(40, low=-80, high=80), rtol=1e-5, atol=1e-6)


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "atan2": torch.atan2,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "hypot": torch.hypot,
    "copysign": torch.copysign,
    "floor_divide": torch.floor_divide,
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "logaddexp": torch.logaddexp,
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "add_alpha": lambda x, y: torch.add(x, y, alpha=2.5),
    "sub_alpha": lambda x, y: torch.sub(x, y, alpha=-3),
    "where": lambda x, y: torch.where(x > y, x, y * 2),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, -7.0),
    "rsub": lambda x, y: torch.rsub(x, y),
    "power": lambda x, y: torch.pow(x.abs() + 0.1, y),
}
PAIRS = [
    ((37,), (37,)),
    ((4, 1, 5), (3, 1)),
    ((), (3, 4)),
    ((3, 4), ()),
    ((1,), (2, 3)),
    ((0, 3), (1, 3)),
    ((5, 7), (7,)),
    ((2, 1), (1, 9)),
]


@pytest.mark.parametrize("name", BINARY)
def test_binary(check_calls, name):
    pairs = [(some(*a, seed=i), some(*b, seed=i + 50)) for i, (a, b) in enumerate(PAIRS)]
    check_calls(BINARY[name], *pairs, (some(6, 9).t(), some(9, 6)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "where"]
)
def test_binary_special_values(check_calls, name):
    """All pairs of NaN, infinities, signed zeros and numbers."""
    check_calls(BINARY[name], (SPECIAL[:20, None], SPECIAL[None, :20]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_remainders_are_exact(check_calls, dtype):
    """Of all special values, and of numbers whose quotient has up to some 2000 bits."""
    generator = torch.Generator().manual_seed(0)
    reach = 1000 if dtype == torch.float64 else 55

    def spread(n):
        return torch.randn(n, generator=generator, dtype=torch.float64) * 2.0 ** torch.randint(-reach, reach, (n,), generator=generator)

    values = torch.cat([SPECIAL.double(), torch.tensor([5e-324, 2.2e-308, 1.7e308, -1.7e308, 1e300, 3.0])])
    if dtype != torch.float64:  # eager's float32 gives NaN for quotients that overflow, where C's fmod is exact
        values = values[~((values.abs() < 1e-6) & (values != 0) | (values.abs() > 2e30) & values.isfinite())]
    values = values.to(dtype)
    pairs = [
        (values[:, None], values[None, :]),
        (spread(500).to(dtype), spread(500).to(dtype)),
        (torch.randn(300, generator=generator).to(dtype) * 100, torch.randn(300, generator=generator).to(dtype)),
    ]
    check_calls(lambda x, y: (torch.fmod(x, y), torch.remainder(x, y), torch.floor_divide(x, y)), *pairs, rtol=0, atol=0)


def integers(dtype, *shape, low=-20, high=20, seed=0):
    low = 0 if dtype in (torch.uint8, torch.bool) else low
    return torch.randint(low, 2 if dtype == torch.bool else high, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


INTEGER = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lt": operator.lt,
    "eq": operator.eq,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "true_divide": lambda x, y: x / (y.abs() + 1),
    "floor_divide": lambda x, y: x // (y.abs() + 1),
    "trunc_divide": lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="trunc"),
    "negative_divide": lambda x, y: torch.div(x, -(y.abs() + 1), rounding_mode="floor"),
    "remainder": lambda x, y: x % (y.abs() + 1),
    "fmod": lambda x, y: torch.fmod(x, y.abs() + 1),
    "not": lambda x, y: ~x,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "shift": lambda x, y: (x << 2) + (y >> 1),
    "where": lambda x, y: torch.where(x > y, x, 3),
    "clamp": lambda x, y: x.clamp(2, 11),
    "square": lambda x, y: x.square(),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16], ids=str)
@pytest.mark.parametrize("name", INTEGER)
def test_integers(check_calls, name, dtype):
    check_calls(INTEGER[name], (integers(dtype, 37), integers(dtype, 37, seed=1)), (integers(dtype, 3, 1), integers(dtype, 5, seed=2)))


@pytest.mark.parametrize("name", ["and", "or", "xor", "not", "eq", "where", "maximum", "square"])
def test_booleans(check_calls, name):
    function = BINARY["where"] if name == "where" else INTEGER[name]
    check_calls(
        function,
        (integers(torch.bool, 37), integers(torch.bool, 37, seed=1)),
        (integers(torch.bool, 3, 1), integers(torch.bool, 5, seed=2)),
    )


DTYPES = [torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool]


@pytest.mark.parametrize("left", DTYPES, ids=str)
def test_promotion(check_calls, left):
    def function(x, y):
        return x + y, x * 2, x * 2.5, torch.eq(x, y), torch.maximum(x, y), torch.where(y > 1, x, y)

    check_calls(function, *((integers(left, 9), integers(right, 9, seed=1)) for right in DTYPES))


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_conversions(check_calls, source):
    x = some(33, low=0, high=100) if source == torch.float32 else integers(source, 33, high=100)
    check_calls(lambda x: tuple(x.to(dtype) for dtype in DTYPES), x)


def test_ternary(check_calls):
    check_calls(
        lambda x, y, z: (
            torch.addcmul(x, y, z, value=0.7),
            torch.addcdiv(x, y, z.abs() + 1, value=-2),
            torch.lerp(x, y, z),
            torch.clamp(x, y - 1, y + 1),
            torch.where(x > 0, y, z),
        ),
        (some(5, 9), some(9, seed=1), some(5, 1, seed=2)),
    )


def test_in_place_operators(check_calls):
    """Mutation of an intermediate result, and of a view of one."""

    def function(x):
        y = x * 2
        y.add_(1).relu_()
        y[0].mul_(3)
        y[:, 1:3] = 7
        z = y.clone()
        z += y
        z.clamp_(max=20)
        return y, z

    check_calls(function, some(4, 5))


def test_mutated_input(compile_and_compare):
    class Counter(torch.nn.Module):
        def forward(self, x, y):
            x.mul_(2)
            y[1] = x.sum()
            return x + 1, y * 3

    compile_and_compare(Counter(), (some(3, 4), some(5)))


def test_mutated_buffer(compile_model):
    """A buffer, and a tensor that is an attribute without being one, keep their values from run to run."""

    class Accumulator(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.cache = torch.ones(2, 3)

        def forward(self, x):
            self.total.add_(x)
            self.cache[1:] += x
            return self.total * 2, self.cache.sum(0)

    model = compile_model(Accumulator(), (some(3),)).model
    assert {entry["name"] for entry in model.constants} == {"total", "cache"}
    x = torch.tensor([1.0, 2.0, 3.0])
    for run in range(1, 5):
        torch.testing.assert_close(model(x), (x * 2 * run, 2 + x * run))


@pytest.mark.parametrize("is_buffer", (False, True))
def test_mutated_name_of_two(compile_model, is_buffer):
    """A buffer has the name of an input, and one of them is written."""

    class Same(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("x", torch.zeros(3))

        def forward(self, x):
            (self.x if is_buffer else x).add_(1)
            return x + 2 * self.x

    model = compile_model(Same(), (some(3),)).model
    x = torch.tensor([1.0, 2.0, 3.0])
    start = x.clone()
    for run in range(1, 4):
        torch.testing.assert_close(model(x), start + (2 * run if is_buffer else run))
    torch.testing.assert_close(x, start if is_buffer else start + 3)


def test_logit_of_crossing_bounds(check_calls):
    """The lower bound wins where it is above the upper one."""
    check_calls(lambda x: (torch.logit(x, 0.9), torch.logit(x, 0.5), torch.logit(x, 1.0)), torch.tensor([0.3, 0.95, 0.05]))


def test_products_are_rounded(compile_and_compare):
    """A product that is subtracted from itself leaves nothing."""

    class Differences(torch.nn.Module):
        def forward(self, x, y):
            largest = (x * y).amax(-1, keepdim=True)
            least = (x * x).amin(-1, keepdim=True)
            return x * y - largest, (x * y - largest == 0).sum(-1), x * x - x.square(), x * x - least, x * y - y * x

    compile_and_compare(Differences(), (some(4, 33) * 1e3, some(4, 33, seed=1)), rtol=0, atol=0)


def test_inputs_and_constants_as_outputs(compile_and_compare):
    class Through(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(4.0))

        def forward(self, x):
            return x, x, x.t(), self.table, torch.ones(2, 3), torch.arange(5)

    compile_and_compare(Through(), (some(3, 4),))


def test_scalar_inputs(compile_and_compare):
    class Scaled(torch.nn.Module):
        def forward(self, x, factor, flag):
            return x * factor, torch.where(flag, x, -x)

    compile_and_compare(
        Scaled(), (some(3), torch.tensor(2.5), torch.tensor(True)), more_inputs=[(some(3), torch.tensor(-1.0), torch.tensor(False))]
    )


def test_unused_and_optional_inputs(compile_and_compare):
    class Partial(torch.nn.Module):
        def forward(self, x, unused, nothing=None):
            return x + 1, None

    compile_and_compare(Partial(), (some(3), some(4)))


def test_no_inputs(compile_and_compare):
    class Constant(torch.nn.Module):
        def forward(self):
            return torch.full((2, 3), 1.5) + torch.arange(3)

    compile_and_compare(Constant(), ())


def test_long_chain(check_calls):
    """Deep fusion must neither blow up nor recurse without bound."""

    def function(x):
        for step in range(300):
            x = torch.tanh(x * 1.01 + step * 1e-3)
        return x

    check_calls(function, some(50), rtol=1e-3, atol=1e-4)


def test_wide_use(check_calls):
    """One value read by many, many values read by one."""

    def function(x):
        base = torch.exp(x)
        return sum(base * step for step in range(100)), *[base + step for step in range(20)]

    check_calls(function, some(31), rtol=1e-4, atol=1e-4)


# ===-- Gradients --------------------------------------------------------------------------------===#

A = torch.ops.aten
EDGES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 2.0, 20.5, -30.0, 0.25, 0.75, float("nan"), float("inf"), float("-inf")]


def gradients(g, x, w):
    """Of activation functions, by their arguments or results."""
    real = x.nan_to_num() + 0.0  # of NaN and -0, what eager gives depends on where they stand
    inside = real.sigmoid()
    return (
        A.sigmoid_backward(g, x),
        A.tanh_backward(g, x),
        A.silu_backward(g, x),
        A.gelu_backward(g, x),
        A.gelu_backward(g, x, approximate="tanh"),
        A.hardswish_backward(g, real),
        A.hardsigmoid_backward(g, x),
        A.mish_backward(g, x),
        A.hardshrink_backward(g, real, 0.5),
        A.softshrink_backward(g, real, 0.5),
        A.hardtanh_backward(g, real, -1.0, 2.0),
        A.leaky_relu_backward(g, x, 0.1, False),
        A.elu_backward(g, 1.5, 2.0, 0.5, False, real),
        A.elu_backward(g, 1.5, 2.0, 0.5, True, real),
        A.softplus_backward(g, x, 2.0, 20.0),
        A.threshold_backward(g, x, 0.5),
        A.log_sigmoid_forward(x),
        A.log_sigmoid_backward(g, x, A.log_sigmoid_forward(x)[1]),
        A.logit_backward(g, real),
        A.logit_backward(g, real, 0.25),
        A.glu_backward(g[:, :2], x, 1),
        A._prelu_kernel(x, w),
        A._prelu_kernel_backward(g, x, w),
        A.rrelu_with_noise_backward(g, x, inside, 0.1, 0.3, True, False),
        A.rrelu_with_noise_backward(g, x, inside, 0.1, 0.3, False, False),
        *A.rrelu_with_noise_functional(x, inside, 0.1, 0.3),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_activations(check_calls, dtype):
    cases = [
        tuple(tensor.to(dtype) for tensor in (some(*x.shape, seed=1), x, some(1, 4, seed=2)))
        for x in (torch.tensor(EDGES).reshape(4, 4), some(7, 4) * 3, some(0, 4))
    ]
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12}.get(dtype, 2e-2)
    check_calls(gradients, *cases, rtol=tolerance, atol=tolerance)


def test_gradients_of_losses(check_calls):
    def losses(g, x, t, w):
        part, share = x.sigmoid(), t.sigmoid()
        return [
            loss
            for reduction, scale in ((0, g), (1, g[0, 0]), (2, g[0, 0]))
            for loss in (
                A.mse_loss_backward(scale, x, t, reduction),
                A.smooth_l1_loss_backward(scale, x, t, reduction, 0.5),
                A.huber_loss_backward(scale, x, t, reduction, 0.5),
                A.soft_margin_loss_backward(scale, x, t, reduction),
                A.binary_cross_entropy_backward(scale, part, share, None, reduction),
                A.binary_cross_entropy_backward(scale, part, share, w, reduction),
            )
        ]

    check_calls(
        losses,
        (some(3, 4), some(3, 4, seed=1), some(3, 4, seed=2), some(4, seed=3)),
        (some(3, 4).double(), some(3, 4, seed=1).double(), some(3, 4, seed=2).double(), some(4, seed=3).double()),
    )


def test_gradients_of_other_dtypes(check_calls):
    z, y = torch.complex(some(5), some(5, seed=1)), torch.complex(some(5, seed=2), some(5, seed=3))
    check_calls(
        lambda z, y, i: (
            A.sigmoid_backward(z, y),
            A.tanh_backward(z.to(torch.complex128), y.to(torch.complex128)),
            A.threshold_backward(i, i, 1),
        ),
        (z, y, torch.arange(-3, 4)),
    )


class ByPieces(torch.nn.Module):
    """Static sizes: vectors of 1, 2, 4, 8, 16 and 32 lanes."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return [self.function(x) for x in tensors], [self.function(x.t()) for x in tensors[-2:]]


@pytest.mark.parametrize("function, rate, worst", [(torch.erf, 7.5, 1.0), (torch.tanh, 3.5, 1.1)], ids=["erf", "tanh"])
def test_tables_in_vectors_of_every_width(compile_model, function, rate, worst):
    """The same bits whatever the lanes; at the edges of pieces, at numbers that are none, and past the last piece."""
    edges = (torch.arange(64) + 0.5) / rate
    whole = torch.cat([SPECIAL, edges, torch.nextafter(edges, torch.tensor(0.0)), -edges, some(2000, low=-10, high=10)])
    parts = [whole[begin : begin + n].clone() for begin in (0, 70) for n in (1, 2, 3, 4, 7, 8, 16, 31, 32)]
    inputs = (*parts, whole, whole[:64].reshape(8, 8), whole[:256].reshape(16, 16))
    compiled = compile_model(ByPieces(function), inputs)
    actual = compiled.check(inputs, 2e-6, 2e-6)
    reference = actual[len(parts)]
    for number, got in enumerate(actual[: len(parts)]):
        begin = 70 * (number // 9)
        assert torch.equal(got.view(torch.int32), reference[begin : begin + len(got)].view(torch.int32)), number
    exact = function(whole.double())
    unit = torch.nextafter(exact.float().abs(), torch.tensor(2.0)) - exact.float().abs()
    assert ((reference.double() - exact).abs() / unit)[~whole.isnan()].max() <= worst
    assert reference.isnan().equal(whole.isnan()) and torch.equal(reference[3:5].signbit(), whole[3:5].signbit())
    assert (reference[whole.abs() > 9.02].abs() == 1).all()
