"""Elementary functions against higher precision, over the whole range of arguments."""

import pathlib
import re

import mpmath
import numpy as np
import pytest

from conftest import ROOT, pointwise

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1e-45, -1e-45, 1e-39, 2.0]

UNARY = {
    "exp": (np.exp, 2.0),
    "exp2": (np.exp2, 2.0),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 2.0),
    "log2": (np.log2, 2.0),
    "log10": (np.log10, 2.0),
    "log1p": (np.log1p, 2.0),
    "tanh": (np.tanh, 1.25),  # x - tanh(x) shows every bit
    "sinh": (np.sinh, 2.0),
    "cosh": (np.cosh, 2.0),
    "asinh": (np.arcsinh, 2.0),
    "acosh": (np.arccosh, 2.0),
    "atanh": (np.arctanh, 2.0),
    "erf": (None, 2.0),
    "erfc": (None, 2.0),
    "sin": (np.sin, 2.0),
    "cos": (np.cos, 2.0),
    "tan": (np.tan, 2.0),
    "asin": (np.arcsin, 2.0),
    "acos": (np.arccos, 2.0),
    "atan": (np.arctan, 2.0),
    "sqrt": (np.sqrt, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
    "cbrt": (np.cbrt, 2.0),
}


def arguments(dtype, count, rng):
    """Near zero, around one, moderate, and every exponent."""
    limits = np.finfo(dtype)
    wide = np.exp2(rng.uniform(limits.minexp - limits.nmant, limits.maxexp, count))
    x = np.concatenate(
        [
            rng.uniform(-1, 1, count),
            rng.uniform(-12, 12, count),
            rng.uniform(-120, 120, count),
            1 + rng.uniform(-0.01, 0.01, count),
            wide,
            -wide,
        ]
    )
    return np.concatenate([SPECIAL, x]).astype(dtype)


def reference(name, x):
    """f64 numbers: NumPy's, or mpmath's where NumPy has none."""
    function = UNARY[name][0]
    with np.errstate(all="ignore"):
        if function:
            return function(x.astype(np.float64))
    import math

    return np.array([getattr(math, name)(v) for v in x.astype(np.float64)])


def ulps(actual, expected, dtype):
    """Distance in units of the last place; huge where one is not a number or infinite and the other is."""
    expected_rounded = expected.astype(dtype)
    same = (actual == expected_rounded) | (np.isnan(actual) & np.isnan(expected_rounded))
    with np.errstate(all="ignore"):
        unit = np.maximum(np.spacing(np.abs(expected_rounded)).astype(np.float64), np.finfo(dtype).smallest_subnormal)
        distance = np.abs(actual.astype(np.float64) - expected) / unit
    # The largest finite number and infinity are neighbours.
    distance[~np.isfinite(distance)] = np.inf
    distance[same] = np.minimum(distance, 0.5)[same]
    return distance


@pytest.mark.parametrize("name", UNARY)
def test_f32(run, name):
    x = arguments(np.float32, 4000, np.random.default_rng(0))
    op = f"    %y = math.{name} %x0 : f32"
    actual = run(pointwise(op, ["f32"], x.shape), [x])
    error = ulps(actual, reference(name, x), np.float32)
    worst = int(np.argmax(error))
    print(f"{name} f32: {error[worst]:.3f} ulp at {x[worst]!r}")
    assert error[worst] <= UNARY[name][1], (x[worst], actual[worst], reference(name, x)[worst])
    signed = (x == 0) & (reference(name, x) == 0)
    assert (np.signbit(actual) == np.signbit(reference(name, x)))[signed].all()


def has_avx512():
    flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    return {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags


def test_documented(run):
    """The largest errors of all f32 numbers are where docs/numerics.md says, and samples have none that are larger."""
    text = (ROOT / "docs" / "numerics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `--cpu=([\w-]+)` \| ([\d.]+) \| (\S+) \|$", text, re.MULTILINE)
    assert {(name, cpu) for name in ("exp", "tanh", "erf") for cpu in ("x86-64-v3", "x86-64-v4")} <= {row[:2] for row in rows}
    for name, cpu, figure, at in rows:
        if cpu == "x86-64-v4" and not has_avx512():
            continue
        x = np.append(np.float32(float.fromhex(at)), arguments(np.float32, 1000, np.random.default_rng(3)))
        actual = run(pointwise(f"    %y = math.{name} %x0 : f32", ["f32"], x.shape), [x], args=[f"--target-cpu={cpu}"])
        error = ulps(actual, reference(name, x), np.float32)
        assert f"{error[0]:.3f}" == figure, (name, at, error[0])
        assert error.max() <= error[0], (name, x[np.argmax(error)], error.max())


@pytest.mark.parametrize("name", UNARY)
def test_f64(run, name):
    mpmath.mp.prec = 2200 if name in ("sin", "cos", "tan") else 120
    x = arguments(np.float64, 100, np.random.default_rng(1))
    op = f"    %y = math.{name} %x0 : f64"
    actual = run(pointwise(op, ["f64"], x.shape, "f64"), [x])
    names = {"asin": "asin", "rsqrt": None}
    worst, at = 0.0, None
    domain = reference(name, x)
    for value, got, rough in zip(x, actual, domain):
        if not np.isfinite(rough) or rough == 0 or abs(rough) < 2.3e-308:
            ok = got == rough or (np.isnan(got) and np.isnan(rough)) or abs(got - rough) < 1e-307
            assert ok, (value, got, rough)
            continue
        exact = mpmath.mpf(float(value))
        exact = (
            1 / mpmath.sqrt(exact)
            if name == "rsqrt"
            else (
                mpmath.log(exact, 2)
                if name == "log2"
                else mpmath.sign(exact) * mpmath.cbrt(abs(exact))
                if name == "cbrt"
                else mpmath.power(2, exact)
                if name == "exp2"
                else getattr(mpmath, names.get(name, name))(exact)
            )
        )
        relative = abs(mpmath.mpf(float(got)) / exact - 1)
        if relative > worst:
            worst, at = float(relative), (value, got, rough)
    print(f"{name} f64: {worst:.2e} at {at}")
    assert worst < 4e-15, at


@pytest.mark.parametrize("dtype,element,limit", [(np.float32, "f32", 1.0), (np.float64, "f64", 16.0)])
def test_pow(run, dtype, element, limit):
    rng = np.random.default_rng(2)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, 3.0, -3.0, 0.5, -2.5])
    grid = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    random = np.stack([np.exp2(rng.uniform(-20, 20, 5000)), rng.uniform(-8, 8, 5000)])
    integers = np.stack([rng.uniform(-5, 5, 2000), rng.integers(-9, 10, 2000)])
    x, y = np.concatenate([grid, random, integers], axis=1).astype(dtype)
    actual = run(pointwise(f"    %y = math.powf %x0, %x1 : {element}", [element] * 2, x.shape, element), [x, y])
    with np.errstate(all="ignore"):
        wide = np.longdouble if dtype == np.float64 else np.float64
        expected = np.power(x.astype(wide), y.astype(wide))
        rounded = expected.astype(dtype)
    same = (actual == rounded) | (np.isnan(actual) & np.isnan(expected))
    finite = np.isfinite(rounded) & (np.abs(rounded) >= np.finfo(dtype).tiny)
    near = np.isinf(rounded) | (np.abs(rounded) < np.finfo(dtype).tiny)
    same |= near & (np.abs(actual.astype(wide) - expected) <= np.finfo(dtype).smallest_subnormal)
    assert same[~finite].all(), [(a, b, c, d) for a, b, c, d, s, f in zip(x, y, actual, expected, same, finite) if not s and not f][:5]
    relative = np.abs(actual[finite] / expected[finite] - 1) / np.finfo(dtype).eps
    print(f"pow {element}: {relative.max():.2f} eps")
    assert relative.max() <= limit
    assert (np.signbit(actual) == np.signbit(expected))[actual == 0].all()


def test_atan2(run):
    rng = np.random.default_rng(3)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e300, 1e-300])
    grid = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    y, x = np.concatenate([grid, rng.normal(size=(2, 4000))], axis=1)
    actual = run(pointwise("    %y = math.atan2 %x0, %x1 : f64", ["f64"] * 2, x.shape, "f64"), [y, x])
    expected = np.arctan2(y, x)
    np.testing.assert_allclose(actual, expected, rtol=1e-15, atol=0)
    assert (np.signbit(actual) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("element,dtype", [("f16", np.float16)])
def test_narrow(run, element, dtype):
    x = np.linspace(-8, 8, 999).astype(dtype)
    for name, function in [("exp", np.exp), ("tanh", np.tanh), ("sqrt", np.sqrt)]:
        actual = run(pointwise(f"    %y = math.{name} %x0 : {element}", [element], x.shape, element), [x])
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(actual, function(x.astype(np.float32)).astype(dtype))


def test_integer_pow(run):
    base, exponent = np.meshgrid(np.arange(-7, 8), np.arange(-3, 20))
    base, exponent = base.reshape(-1).astype(np.int64), exponent.reshape(-1).astype(np.int64)
    actual = run(pointwise("    %y = math.ipowi %x0, %x1 : i64", ["i64", "i64"], base.shape, "i64"), [base, exponent])
    expected = [b**e if e >= 0 else (b if e % 2 else 1) if abs(b) == 1 else 0 for b, e in zip(base.tolist(), exponent.tolist())]
    np.testing.assert_array_equal(actual, expected)
