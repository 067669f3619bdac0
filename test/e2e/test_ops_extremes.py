"""Numbers at the ends of their ranges: the largest and smallest integers, conversions of what does not fit."""

import pytest
import torch
import torch.nn.functional as F

INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
FEW = [torch.uint16, torch.uint32, torch.uint64]  # what eager mode has of these is not much
BEYOND = (-(2**63), -(2**40), -129, -1, 0.5, 255, 300, 2**31, 2.0**53 + 1, 2**63 - 1, float("inf"), float("nan"))


class Functions(torch.nn.Module):
    """Every function of the same arguments."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *arguments):
        return [function(*arguments) for function in self.functions]


def check(compile_and_compare, functions, *arguments):
    compile_and_compare(Functions(functions), arguments, rtol=0, atol=0)


def ends(dtype):
    """Integers of the range's ends and middle."""
    info = torch.iinfo(dtype)
    values = {
        info.min,
        info.min + 1,
        info.min + 2,
        info.max // 2,
        info.max // 2 + 1,
        info.max - 1,
        info.max,
        0,
        1,
        2,
        3,
        7,
        31,
        63,
        64,
        100,
    }
    values |= {value for value in (-100, -7, -3, -2, -1) if value >= info.min}
    return torch.tensor([(value + 2**63) % 2**64 - 2**63 for value in sorted(values)], dtype=torch.int64).to(dtype)


def pairs(left, right):
    return left[:, None].expand(-1, len(right)).contiguous(), right[None, :].expand(len(left), -1).contiguous()


CLOSE = [
    torch.isclose,
    lambda x, y: torch.isclose(x, y, equal_nan=True),
    lambda x, y: torch.isclose(x, y, rtol=0, atol=0),
    lambda x, y: torch.isclose(x, y, rtol=1.0, atol=3),
    lambda x, y: torch.isclose(x, y, rtol=0, atol=1.0),
    lambda x, y: torch.isclose(x, y, rtol=0.5, atol=0),
]
PAIRED = [
    torch.add,
    torch.sub,
    torch.rsub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    torch.lt,
    torch.ge,
    torch.eq,
    torch.bitwise_xor,
    torch.bitwise_left_shift,
    torch.bitwise_right_shift,
    torch.gcd,
    torch.true_divide,
    lambda x, y: torch.add(x, y, alpha=3),
    lambda x, y: torch.clamp(x, min=y),
    torch.heaviside,
    torch.pow,
]
QUOTIENTS = [torch.floor_divide, torch.remainder, torch.fmod, lambda x, y: torch.div(x, y, rounding_mode="trunc")]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_pairs_of_integers(compile_and_compare, dtype):
    x, y = pairs(ends(dtype), ends(dtype))
    check(compile_and_compare, CLOSE + PAIRED, x, y)
    safe = y != 0
    if dtype not in (torch.uint8, torch.int16, torch.int8):  # eager mode ends the process at the smallest integer over -1
        safe &= y != -1
    functions = QUOTIENTS + [torch.lcm] * (dtype not in (torch.int64, torch.int32))
    check(compile_and_compare, functions, x[safe], y[safe])


@pytest.mark.parametrize("dtype", FEW, ids=str)
def test_pairs_of_wide_unsigned_integers(compile_and_compare, dtype):
    x, y = pairs(ends(dtype), ends(dtype))
    check(compile_and_compare, CLOSE + [torch.eq, torch.mul, torch.bitwise_and], x, y)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_numbers_beyond_the_range(compile_and_compare, dtype):
    """A number takes part in a comparison and in arithmetic as what it becomes in the tensor's dtype."""
    functions = [
        f(op, number)
        for number in BEYOND
        for op in (torch.eq, torch.lt, torch.ge, torch.add, torch.sub, torch.mul, torch.rsub, torch.true_divide)
        for f in [lambda op, number: lambda x: op(x, number)]
    ]
    functions += [
        f(number)
        for number in BEYOND
        if isinstance(number, int)
        for f in (
            lambda number: lambda x: torch.where(x > 1, x, number),
            lambda number: lambda x: x.masked_fill(x > 1, number),
            lambda number: lambda x: x.clamp(min=number),
            lambda number: lambda x: F.threshold(x, number, 7),
            lambda number: lambda x: x ** (number & 2**62 - 1),
            lambda number: lambda x: torch.add(x, x, alpha=number),
            lambda number: lambda x: x << number,
            lambda number: lambda x: x >> number,
        )
    ]
    functions += [lambda x: x % 255, lambda x: x // 255, lambda x: torch.div(x, 255, rounding_mode="trunc")]
    taken = [function for function in functions if is_taken(function, ends(dtype))]
    assert len(taken) > 110
    check(compile_and_compare, taken, ends(dtype))


def is_taken(function, *arguments):
    """Eager mode refuses some numbers that a dtype does not hold."""
    try:
        function(*arguments)
    except (RuntimeError, OverflowError):
        return False
    return True


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_one_integer(compile_and_compare, dtype):
    functions = [
        torch.abs,
        torch.neg,
        torch.sign,
        torch.square,
        torch.bitwise_not,
        torch.signbit,
        torch.relu,
        torch.sum,
        torch.prod,
        torch.amax,
        torch.amin,
        torch.argmax,
        torch.argmin,
        lambda x: x.sum(dtype=x.dtype),
        lambda x: x.prod(dtype=x.dtype),
        lambda x: x.cumsum(0, dtype=x.dtype),
        lambda x: x.cumprod(0),
        lambda x: x.cummax(0)[0],
        torch.diff,
        lambda x: x.double().mean(),
        lambda x: torch.clamp(x, 2, 1),
        F.relu6,
    ]
    functions += [lambda x, to=to: x.to(to) for to in INTEGERS + [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool]]
    check(compile_and_compare, functions, ends(dtype))


def test_bools(compile_and_compare):
    x, y = pairs(torch.tensor([False, True]), torch.tensor([False, True]))
    functions = [
        torch.heaviside,
        lambda x, y: x.sum(dtype=torch.bool),
        lambda x, y: x.sum(1, dtype=torch.bool),
        lambda x, y: x[:0].sum(dtype=torch.bool),
        lambda x, y: (x**True).int(),
        lambda x, y: (x**False).int(),
        lambda x, y: x**2,
        torch.isclose,
        lambda x, y: x == 2,
        lambda x, y: x < 300,
    ]
    check(compile_and_compare, functions, x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_floats_to_integers(compile_and_compare, dtype):
    """What an integer type does not hold keeps its lowest bits, as far as eager mode gives the same on every machine."""
    values = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        -0.999,
        1.5,
        -1.5,
        127.0,
        -128.0,
        -129.0,
        255.0,
        256.0,
        -300.0,
        32768.0,
        -32769.0,
        65535.0,
        65536.0,
        16777216.0,
    ]
    wide = [2147483648.0, -2147483648.0, 4294967040.0, 4294967296.0, 4611686018427387904.0]
    check(compile_and_compare, [lambda x, to=to: x.to(to) for to in INTEGERS + FEW + [torch.bool]], torch.tensor(values * 4, dtype=dtype))
    check(
        compile_and_compare,
        [lambda x, to=to: x.to(to) for to in (torch.int64, torch.uint8, torch.uint32)],
        torch.tensor(values + wide, dtype=dtype),
    )
    to_unsigned = torch.tensor(values + wide + [9223372036854775808.0, 1.8e19], dtype=dtype)
    check(compile_and_compare, [lambda x: x.to(torch.uint64)], to_unsigned)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_numbers_that_half_precision_does_not_hold(compile_and_compare, dtype):
    """The second operand of a product or a quotient keeps its value if it is one number, in a tensor or not."""
    x = torch.randn(64, generator=torch.Generator().manual_seed(0)).mul(3).to(dtype)
    functions = [torch.mul, torch.div, torch.floor_divide, torch.add, torch.maximum, lambda x, y: torch.div(x, y, rounding_mode="floor")]
    for number in (
        torch.tensor(1.1),
        torch.tensor(1.1, dtype=torch.float64),
        torch.tensor(4099),
        torch.tensor([4099]),
        torch.tensor(2**62),
    ):
        check(compile_and_compare, functions, x, number)
    check(compile_and_compare, [lambda x, f=f: f(x, 1.1) for f in functions if f is not torch.maximum], x)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64], ids=str
)
def test_powers_in_columns(compile_and_compare, dtype):
    x = torch.tensor([0, 1, -2, 3, 5, 1]).to(dtype)
    functions = [
        torch.vander,
        lambda x: torch.vander(x, 3, increasing=True),
        lambda x: torch.vander(x, 1),
        lambda x: torch.vander(x, 0),
        lambda x: torch.vander(x[:0], 4),
    ]
    compile_and_compare(Functions(functions), (x,), rtol=1e-5, atol=0)


def test_complex_numbers(compile_and_compare):
    inf, nan = float("inf"), float("nan")
    x = torch.complex(torch.tensor([1.0, inf, nan, -inf, 2.0, -0.5]), torch.tensor([nan, 2.0, 3.0, -inf, -1.0, 0.25]))
    compile_and_compare(Functions([torch.nan_to_num, lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0)]), (x,), rtol=0, atol=0)
    sums = [
        lambda x: x + x.roll(1),
        lambda x: x - x.roll(1),
        lambda x: 1 - x,
        lambda x: torch.add(1j, x, alpha=2),
        lambda x: torch.addcmul(x.roll(1), x, x.roll(2)),
    ]
    compile_and_compare(Functions(sums), (x,), rtol=0, atol=0)
    functions = [
        torch.diff,
        lambda x: torch.diff(x, n=2),
        lambda x: torch.float_power(x, 2),
        lambda x: torch.float_power(x, 1.5),
        lambda x: torch.float_power(x, x),
    ]
    compile_and_compare(Functions(functions), (x[4:].repeat(3),), rtol=1e-9, atol=1e-9)


INF, NAN = float("inf"), float("nan")


def test_gradients_of_softmax_of_infinities(compile_and_compare):
    y = torch.tensor([[INF, 0.5, 0.25], [0.5, -INF, 0.5], [NAN, 1.0, 0.0], [0.25, 0.5, 0.25], [0.0, 1.0, INF]])
    g = torch.tensor([[1.0, 2.0, -1.0], [1.0, -3.0, 2.0], [1.0, 0.0, 1.0], [INF, 1.0, 1.0], [0.0, 0.0, -2.0]])
    functions = [
        lambda g, y, gradient=gradient, dim=dim, to=to: gradient(g.to(to), y.to(to), dim, to)
        for gradient in (torch.ops.aten._softmax_backward_data, torch.ops.aten._log_softmax_backward_data)
        for dim in (0, 1)
        for to in (torch.float32, torch.float64, torch.bfloat16)
    ]
    compile_and_compare(Functions(functions), (g, y), rtol=1e-2, atol=1e-3)


def test_distances_of_infinities(compile_and_compare):
    a = torch.tensor([[INF, 0, 0], [NAN, INF, 0], [0, NAN, 2], [1, 2, 3], [1, 5, NAN], [NAN, NAN, NAN]])
    b = torch.tensor([[INF, 0, 0], [-INF, 1, 1], [1, 2, 3], [0, 0, NAN], [-0.0, 0, 0]])
    functions = [lambda a, b, p=p: (torch.cdist(a, b, p), torch.pdist(a, p), torch.cdist(a[:, :0], b[:, :0], p)) for p in (0, 1, 2, 3, INF)]
    rows = torch.export.Dim("rows", min=3, max=25)
    compile_and_compare(Functions(functions), (a, b))
    compile_and_compare(Functions(functions), (a, b), dynamic_shapes={"arguments": ({0: rows}, None)}, more_inputs=[(a[2:], b)])


def test_images_with_infinities(compile_and_compare):
    """An output has the inputs within its radius and no others; the sizes are such that none is just at the radius."""
    x = torch.randn(1, 2, 8, 9, generator=torch.Generator().manual_seed(0))
    for (channel, row, column), value in {(0, 3, 4): INF, (1, 0, 0): NAN, (1, 7, 8): -INF, (0, 0, 8): -INF}.items():
        x[0, channel, row, column] = value
    functions = [
        lambda x, resize=resize, size=size, rest=rest: resize(x, size, *rest)
        for resize in (torch.ops.aten._upsample_bilinear2d_aa, torch.ops.aten._upsample_bicubic2d_aa)
        for size, *rest in (
            ([5, 8], False, None, None),
            ([3, 3], True, None, None),
            ([9, 15], True, None, None),
            ([12, 4], False, None, None),
            ([8, 9], False, 1.4, 1.6),  # a dim that keeps its size ignores the scale
        )
    ]
    compile_and_compare(Functions(functions), (x,))
    # In double precision, inputs whose weight is zero come and go with the last bit.
    precise = [lambda x: torch.ops.aten._upsample_bilinear2d_aa(x, [100, 64], True, None, None)]
    compile_and_compare(Functions(precise), (torch.randn(1, 1, 33, 8, dtype=torch.float64),))
    shapes = {"arguments": ({2: torch.export.Dim("height", min=2), 3: torch.export.Dim("width", min=2)},)}
    compile_and_compare(Functions(functions), (x,), dynamic_shapes=shapes, more_inputs=[(x[..., 1:],)])


@pytest.mark.parametrize("upper", [False, True])
def test_inverses_of_factors_with_infinities(compile_and_compare, upper):
    factors = []
    for value in (NAN, INF, -INF, 0.0):
        for row, column in ((0, 0), (3, 0), (0, 3), (2, 2), (3, 3)):
            if value != 0 or row != column:
                factors.append(torch.linalg.cholesky(torch.eye(4) * 3 + 1))
                factors[-1] = factors[-1].mT.contiguous() if upper else factors[-1]
                factors[-1][row, column] = value
    b = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    functions = [
        lambda factor, b: torch.cholesky_inverse(factor, upper=upper),
        lambda factor, b: torch.cholesky_solve(b, factor, upper=upper),
    ]
    compile_and_compare(Functions(functions), (torch.stack(factors), b.expand(len(factors), 4, 2)))
