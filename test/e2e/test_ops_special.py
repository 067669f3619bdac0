"""Special functions, orthogonal polynomials and functions of complex numbers: each group is one program."""

import math

import pytest
import torch
from torch import special

INF, NAN = math.inf, math.nan
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 1e-6, -1e-6, 5.0, -5.0, 8.0, 9.5, INF, -INF, NAN]


def spread(dtype, low=-12.0, high=12.0, count=60, edges=EDGES):
    middle = torch.linspace(low, high, count, dtype=torch.float64)
    return torch.cat([middle, torch.tensor(edges, dtype=torch.float64)]).to(dtype)


class Functions(torch.nn.Module):
    """Every function of every argument tuple."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *arguments):
        return [function(*arguments) for function in self.functions]


UNARY = [
    torch.lgamma,
    torch.digamma,
    torch.i0,
    special.i0e,
    special.i1,
    special.i1e,
    special.modified_bessel_k0,
    special.modified_bessel_k1,
    special.scaled_modified_bessel_k0,
    special.scaled_modified_bessel_k1,
    special.spherical_bessel_j0,
    special.erfcx,
    special.log_ndtr,
    special.ndtr,
]
# Eager mode itself is exact to some six digits in double precision.
OSCILLATING = [special.bessel_j0, special.bessel_j1, special.bessel_y0, special.bessel_y1, special.airy_ai]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_one_number(compile_and_compare, dtype):
    tolerance = 1e-9 if dtype == torch.float64 else 1e-5
    compile_and_compare(Functions(UNARY), (spread(dtype),), rtol=tolerance, atol=tolerance)
    compile_and_compare(Functions(OSCILLATING), (spread(dtype),), rtol=1e-5, atol=1e-5)


def test_quantiles(compile_and_compare):
    inside = torch.cat(
        [torch.linspace(-0.999, 0.999, 41, dtype=torch.float64), torch.tensor([1.0, -1.0, 1.5, NAN, 0.0, 1 - 1e-12], dtype=torch.float64)]
    )
    compile_and_compare(Functions([torch.erfinv, lambda x: special.ndtri((x + 1) / 2)]), (inside,), rtol=1e-9, atol=1e-9)
    compile_and_compare(
        Functions([torch.erfinv, special.ndtri]), (torch.tensor([1e-30, 1e-5, 0.1, 0.5, 0.9, 0.99999]),), rtol=1e-5, atol=1e-6
    )


def test_gamma_of_integers_and_half_precision(compile_and_compare):
    compile_and_compare(Functions([torch.lgamma, torch.digamma]), (torch.arange(-3, 9),), rtol=1e-5, atol=1e-5)
    compile_and_compare(Functions([torch.lgamma, special.i0e]), (spread(torch.bfloat16),), rtol=1.6e-2, atol=1e-2)


def test_polygamma(compile_and_compare):
    functions = [lambda x, n=n: torch.polygamma(n, x) for n in range(5)] + [lambda x: torch.mvlgamma(x.abs() + 2, 3)]
    compile_and_compare(Functions(functions), (spread(torch.float64, 0.1, 20, edges=[1.0, 2.5, NAN]),), rtol=1e-9, atol=1e-9)
    poles = Functions([lambda x, n=n: torch.polygamma(n, x) for n in (1, 2)])
    compile_and_compare(poles, (torch.arange(-4, 3, dtype=torch.int8),), rtol=1e-4, atol=1e-5)


def test_logaddexp_near_zero(compile_and_compare):
    """Where the larger operand and the logarithm cancel."""
    x = torch.linspace(-0.75, -0.65, 101)
    compile_and_compare(
        Functions([lambda x: torch.logaddexp(x, x + 0.01).double(), lambda x: torch.logaddexp(x.double(), x.double() + 0.01)]),
        (x,),
        rtol=1e-4,
        atol=2e-8,
    )


def test_zeta(compile_and_compare):
    x = torch.tensor([1.0, 1.5, 2.0, 3.0, 8.0, 0.5, 2.0, 2.0, 2.5, 30.0, NAN], dtype=torch.float64)
    q = torch.tensor([2.0, 0.3, 1.0, 7.5, 12.0, 1.0, -1.0, -0.5, -0.5, 4.0, 1.0], dtype=torch.float64)
    compile_and_compare(Functions([special.zeta, lambda x, q: special.zeta(x, 1.5)]), (x, q), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_incomplete_gamma(compile_and_compare, dtype):
    values = [0.0, 1e-4, 0.3, 0.9, 1.0, 1.05, 2.5, 10.0, 40.0, 150.0, 205.0, 250.0, 1000.0, 1100.0, 1e5, INF, NAN, -1.0]
    a, x = torch.meshgrid(torch.tensor(values, dtype=dtype), torch.tensor(values, dtype=dtype), indexing="ij")
    tolerance = 1e-7 if dtype == torch.float64 else 1e-4
    compile_and_compare(Functions([torch.igamma, torch.igammac]), (a.contiguous(), x.contiguous()), rtol=tolerance, atol=tolerance)


POLYNOMIALS = [
    getattr(special, name)
    for name in (
        "chebyshev_polynomial_t",
        "chebyshev_polynomial_u",
        "chebyshev_polynomial_v",
        "chebyshev_polynomial_w",
        "shifted_chebyshev_polynomial_t",
        "shifted_chebyshev_polynomial_u",
        "shifted_chebyshev_polynomial_v",
        "shifted_chebyshev_polynomial_w",
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
    )
]


def test_polynomials(compile_and_compare):
    x, n = torch.meshgrid(
        torch.tensor([-1.7, -1.0, -0.9, -0.2, 0.0, 0.3, 0.5, 0.8, 1.0, 1.6], dtype=torch.float64),
        torch.tensor([-1.0, 0, 1, 2, 3, 4, 5, 6, 7, 9, 12]).double(),
        indexing="ij",
    )
    functions = POLYNOMIALS + [lambda x, n, f=f: f(x, 3) for f in POLYNOMIALS]
    compile_and_compare(Functions(functions), (x.contiguous(), n.contiguous()), rtol=1e-9, atol=1e-9)


COMPLEX = [
    torch.exp,
    torch.exp2,
    torch.log,
    torch.log2,
    torch.log10,
    torch.log1p,
    torch.sqrt,
    torch.rsqrt,
    torch.sin,
    torch.cos,
    torch.tan,
    torch.sinh,
    torch.cosh,
    torch.tanh,
    torch.asin,
    torch.acos,
    torch.atan,
    torch.asinh,
    torch.acosh,
    torch.atanh,
    torch.sigmoid,
    torch.sgn,
    torch.abs,
    torch.square,
    torch.reciprocal,
    lambda z: z**2,
    lambda z: z**3,
    lambda z: z**0.5,
    lambda z: z**1.7,
    lambda z: z ** (1 - 2j),
    lambda z: z / (z + 0.25),
    lambda z: z**z,
]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_functions_of_complex_numbers(compile_and_compare, dtype):
    parts = torch.tensor([-2.3, -1.0, -0.4, 1e-3, 0.3, 0.99, 1.0, 2.7], dtype=torch.float64)
    re, im = torch.meshgrid(parts, parts, indexing="ij")
    tolerance = 1e-10 if dtype == torch.complex128 else 1e-4
    compile_and_compare(Functions(COMPLEX), (torch.complex(re, im).to(dtype),), rtol=tolerance, atol=tolerance)
