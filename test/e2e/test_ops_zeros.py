"""Signs of zeros, denormal numbers and other edges, bit by bit: each group is one program."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import special

from conftest import TARGET, leaves

INF, NAN = math.inf, math.nan
BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}


class Functions(torch.nn.Module):
    """Every function of the same arguments, by name."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *arguments):
        return [function(*arguments) for function in self.functions.values()]


def strided(tensor):
    """The same numbers, not next to each other: eager mode takes them one by one."""
    return tensor.repeat_interleave(2, -1)[..., ::2] if tensor.dim() else tensor


def check_bits(compile_model, functions, *arguments, ulps=0):
    """Each element is one of what eager mode gives on contiguous and on other tensors, to `ulps`; the sign of a zero counts.

    PyTorch's own kernels are asked, not oneDNN's: with AVX2 its GELU of -0.0 is 0.0.
    """
    model = compile_model(Functions(functions), arguments).model
    results = model.run([argument.clone() for argument in arguments])
    with torch.backends.mkldnn.flags(enabled=False):
        eager = [leaves(Functions(functions)(*inputs)) for inputs in (arguments, [strided(x) for x in arguments])]
    for name, got, *wanted in zip(functions, results, *eager):
        got, right = got.contiguous(), torch.zeros(got.shape, dtype=torch.bool)
        for want in (want.contiguous() for want in wanted):
            assert got.dtype == want.dtype, name
            distance = (got.view(BITS[got.element_size()]).long() - want.view(BITS[got.element_size()]).long()).abs()
            right |= (distance <= ulps) & (torch.signbit(got) == torch.signbit(want)) | (got.isnan() & want.isnan())
        assert right.all(), (name, got[~right][:4], wanted[0][~right][:4], *(x[~right][:4] for x in arguments if x.shape == got.shape))


def edges(dtype):
    info = torch.finfo(dtype)
    least = info.smallest_normal * info.eps
    values = [
        0.0,
        least,
        3 * least,
        info.smallest_normal / 2,
        info.smallest_normal,
        info.eps,
        0.25,
        0.5,
        1 - info.eps / 2,
        1.0,
        1.5,
        2.5,
        3.0,
        6.0,
        20.0,
        info.max / 2,
        info.max,
        INF,
    ]
    return torch.tensor([*values, *(-value for value in values), NAN], dtype=torch.float64).to(dtype)


EXACT = {
    "abs": torch.abs,
    "neg": torch.neg,
    "sign": torch.sign,
    "reciprocal": torch.reciprocal,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "frac": torch.frac,
    "square": torch.square,
    "nan_to_num": torch.nan_to_num,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "softshrink of 0": lambda x: F.softshrink(x, 0.0),
    "leaky_relu": F.leaky_relu,
    "threshold": lambda x: F.threshold(x, 0.0, 0.0),
    "minus threshold": lambda x: F.threshold(x, 0.25, -0.0),
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "clamp of both": lambda x: x.clamp(-1, 2),
    "clamp to nothing": lambda x: x.clamp(1, 0),
    "clamp to NaN": lambda x: x.clamp(NAN),
    "clamp below NaN": lambda x: x.clamp(max=NAN),
    "fmod": lambda x: torch.fmod(x, 3.0),
    "remainder": lambda x: torch.remainder(x, 3.0),
    "copysign": lambda x: torch.copysign(x, -0.0),
    "mul": lambda x: x * -0.0,
    "add": lambda x: x + 0.0,
    "sub": lambda x: x - 0.0,
    "rsub": lambda x: 0.0 - x,
    "rdiv": lambda x: -0.0 / x,
    "sum": lambda x: x[:1].neg().expand(5).sum(),
    "mean": lambda x: x[:1].neg().expand(5).mean(),
    "prod": lambda x: x[:1].neg().expand(3).prod(),
    "cumsum": lambda x: x[:1].neg().expand(5).cumsum(0),
    "max": lambda x: x[:1].neg().expand(5).amax(),
    "max_pool": lambda x: F.max_pool1d(x[:1].neg().expand(1, 8), 3, 1),
    "product": lambda x: x[:1].neg().expand(4, 4) @ x[9:10].expand(4, 4),
    "pad": lambda x: F.pad(x, (1, 1), value=-0.0),
}
# A GPU's maximum of -0.0 and 0.0 is 0.0, in eager mode as well.
AT_ZERO = {
    "relu": F.relu,
    "relu6": F.relu6,
    "clamp_min": lambda x: x.clamp(min=0),
    "clamp": lambda x: x.clamp(0, 6.5),
    "clamp of -0.0": lambda x: x.clamp(min=-0.0),
    "clamp_max": lambda x: x.clamp(max=-0.0),
    "hardtanh": lambda x: F.hardtanh(x, 0.0, 6.0),
    "below": lambda x: F.hardtanh(x, -1.0, 0.0),
    "inverse": lambda x: 1 / x.relu(),
    "product": lambda x: F.relu(x[:1].neg().expand(4, 4) @ x[9:10].expand(4, 4)),
    "integers": lambda x: x.nan_to_num(0, 0, 0).clamp(-9, 9).int().relu().to(x.dtype),
}
ROUNDED = {
    "sin": torch.sin,
    "tan": torch.tan,
    "asin": torch.asin,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "atanh": torch.atanh,
    "expm1": torch.expm1,
    "sqrt": torch.sqrt,
    "erf": torch.erf,
    "exp": torch.exp,
    "log": torch.log,
    "cos": torch.cos,
    "lgamma": lambda x: torch.lgamma(torch.where(x == -2.5, 1.0, x)),
    "rsqrt": torch.rsqrt,
    "gelu": lambda x: F.gelu(x.clamp(-1, 1)),
    "silu": F.silu,
    "hardswish": F.hardswish,
    "elu": F.elu,
    "celu": F.celu,
    "selu": F.selu,
    "softsign": F.softsign,
    "i1": lambda x: special.i1(x.clamp(-3, 3)),
    "i1e": special.i1e,
    "i0e": special.i0e,
    "bessel_j1": lambda x: special.bessel_j1(x[:1].neg()),
    "sigmoid": torch.sigmoid,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_signs_of_zeros(compile_model, dtype):
    check_bits(compile_model, EXACT, edges(dtype))
    if not TARGET:
        check_bits(compile_model, AT_ZERO, edges(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_edges_of_functions(compile_model, dtype):
    check_bits(compile_model, ROUNDED, edges(dtype), ulps=16)


PAIRED = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "copysign": torch.copysign,
    "nextafter": torch.nextafter,
    "heaviside": torch.heaviside,
    "xlogy": lambda x, y: torch.xlogy(x, y.clamp(max=0)),
    "clamp_min": lambda x, y: torch.clamp(x, min=y),
    "where": lambda x, y: torch.where(x > y, x, y),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_pairs_of_edges(compile_model, dtype):
    x = edges(dtype)
    x, y = x[:, None].expand(-1, len(x)).contiguous(), x[None, :].expand(len(x), -1).contiguous()
    check_bits(compile_model, PAIRED, x, y)
    check_bits(compile_model, {"atan2": torch.atan2, "hypot": torch.hypot}, x, y, ulps=4)
    ordered = (x != 0) | (y != 0)
    check_bits(compile_model, {"fmax": torch.fmax, "fmin": torch.fmin}, x[ordered], y[ordered])


def test_denormal_numbers_in_double_precision(compile_model):
    """Functions of numbers that have few bits left, or give such numbers."""
    exponents = torch.arange(-1074, -1015, 3, dtype=torch.float64)
    x = torch.cat([torch.exp2(exponents) * 1.0, -torch.exp2(exponents)])
    functions = {
        name: ROUNDED[name] for name in ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "erf", "lgamma", "i1e")
    }
    functions |= {
        "log": lambda x: x.abs().log(),
        "log2": lambda x: x.abs().log2(),
        "log10": lambda x: x.abs().log10(),
        "sqrt": lambda x: x.abs().sqrt(),
    }
    check_bits(compile_model, functions, x, ulps=4)
    across = torch.tensor([-1.08383393e-316, 3e-310, 4.143703794751723e-226, 1e-300, -1.0, 2e-322], dtype=torch.float64)
    pairs = across[:, None].expand(-1, len(across)).contiguous(), across[None, :].expand(len(across), -1).contiguous()
    check_bits(compile_model, {"atan2": torch.atan2, "hypot": torch.hypot}, *pairs, ulps=2)
    check_bits(
        compile_model,
        {"exp": torch.exp, "power": lambda x: torch.pow(2.718281828, x)},
        torch.linspace(-745, -708, 38, dtype=torch.float64),
        ulps=8,
    )
    # The lower incomplete gamma function of a number next to nothing is 1; eager mode has 0 there.
    small = torch.tensor([1e-323, 5.6e-309, 1e-300], dtype=torch.float64)
    (result,) = compile_model(Functions({"igamma": torch.igamma}), (small, torch.ones(3, dtype=torch.float64))).model.run(
        [small, torch.ones(3, dtype=torch.float64)]
    )
    torch.testing.assert_close(result, torch.ones(3, dtype=torch.float64), rtol=1e-12, atol=0)
