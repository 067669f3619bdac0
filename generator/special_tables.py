"""Chebyshev coefficients of the special functions, computed in 40 digits: writes
lib/Lowering/Special/SpecialTables.inc.

  .venv/bin/python generator/special_tables.py

Each table is a smooth function on an interval: what is left of a special function when its zeros, its singularities and its
growth are divided out. How it is put together again is in Bessel.cpp, Gamma.cpp and ErrorFunction.cpp beside it."""

import pathlib

from mpmath import mp, mpf

mp.dps = 40
OUTPUT = pathlib.Path(__file__).resolve().parents[1] / "lib" / "Lowering" / "Special" / "SpecialTables.inc"
SMALLEST = mpf(2) ** -56  # of the largest coefficient; the rest does not change a double


def fit(function, low, high, points=64):
    """Chebyshev coefficients of the function on [low, high], without the ones too small to matter."""
    low, high = mpf(low), mpf(high)
    angles = [mp.pi * (mpf(i) + 0.5) / points for i in range(points)]
    values = [function((low + high) / 2 + (high - low) / 2 * mp.cos(angle)) for angle in angles]
    coefficients = [2 * mp.fsum(value * mp.cos(k * angle) for value, angle in zip(values, angles)) / points for k in range(points)]
    coefficients[0] /= 2
    largest = max(map(abs, coefficients))
    while abs(coefficients[-1]) < largest * SMALLEST:
        coefficients.pop()
    assert len(coefficients) < points - 4, (function, len(coefficients))
    return coefficients


def phase(order, x):
    """P and Q: J = sqrt(2/(pi x)) (P cos c - Q sin c) and Y = sqrt(2/(pi x)) (P sin c + Q cos c)."""
    c = x - (2 * order + 1) * mp.pi / 4
    j, y, scale = mp.besselj(order, x), mp.bessely(order, x), mp.sqrt(mp.pi * x / 2)
    return scale * (j * mp.cos(c) + y * mp.sin(c)), scale * (y * mp.cos(c) - j * mp.sin(c))


def zeros(order, count):
    return [mp.besseljzero(order, i + 1) ** 2 for i in range(count)]


def j_small(order):
    """Of x²: J without its zeros below 8 and its power of x."""
    roots = zeros(order, 2)
    return lambda s: mp.besselj(order, mp.sqrt(s)) / mp.sqrt(s) ** order / ((s - roots[0]) * (s - roots[1]))


def y_small(order):
    """Of x²: Y without its logarithm and its pole."""

    def function(s):
        x = mp.sqrt(s)
        rest = mp.bessely(order, x) - 2 / mp.pi * mp.log(x) * mp.besselj(order, x)
        return rest if order == 0 else (rest + 2 / (mp.pi * x)) / x

    return function


def k_small(order):
    """Of x²: K without its logarithm and its pole."""

    def function(s):
        x = mp.sqrt(s)
        return (
            mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x) if order == 0 else x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x))
        )

    return function


def of_inverse(function):
    """The function of 1/t; a limit is not asked for, the nodes lie inside."""
    return lambda t: function(1 / t)


def airy(part):
    """Of 1/zeta: F and G / (1/zeta) for negative arguments, the decay taken out for positive ones."""

    def function(t):
        zeta = 1 / t
        x = (mpf(3) / 2 * zeta) ** (mpf(2) / 3)
        root = mp.sqrt(mp.pi) * mp.sqrt(mp.sqrt(x))
        if part == "decay":
            return 2 * root * mp.exp(zeta) * mp.airyai(x)
        c, ai, bi = zeta + mp.pi / 4, mp.airyai(-x), mp.airybi(-x)
        return root * (ai * mp.sin(c) + bi * mp.cos(c)) if part == "f" else root * (bi * mp.sin(c) - ai * mp.cos(c)) / t

    return function


def erfcx(t):
    x = mpf(15) / 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * (mp.exp(x * x) * mp.erfc(x))


def normal_tail(z):
    """Of 1/x, x = sqrt(-2 log p): how far the quantile is from x - log(x)/x, over 1/x."""
    x = 1 / z
    p = mp.exp(-x * x / 2)
    start = x - mp.log(x) / x
    quantile = mp.findroot(lambda w: mp.log(mp.erfc(w / mp.sqrt(2)) / 2) - mp.log(p), start)
    return (start - quantile) / z


def normal_center(s):
    """Of (p - 1/2)²: the quantile over p - 1/2."""
    y = mp.sqrt(s)
    return mp.sqrt(2) * mp.erfinv(2 * y) / y


def temme(orders, terms):
    """Coefficients of Temme's expansion of the incomplete gamma functions: a row for each power of 1/a, by powers of eta, highest first.
    Row 0 follows from mu(eta), where mu - log(1 + mu) = eta²/2; the others by recurrence, with those of gamma's own expansion."""
    count = terms + 2 * orders
    alpha = [mpf(0), mpf(1)]  # mu = sum of alpha[n] eta^n, from (1 + mu) eta = mu mu'
    for n in range(2, count + 3):
        rest = mp.fsum(k * alpha[k] * alpha[n + 1 - k] for k in range(2, n))
        alpha.append((alpha[n - 1] - rest) / (n + 1))
    logarithm = [mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, orders + 1)]
    gamma = mp.taylor(lambda t: mp.exp(mp.fsum(c * t ** (2 * k + 1) for k, c in enumerate(logarithm))), 0, orders)
    rows = [[-mpf(1) / 3] + [(n + 2) * alpha[n + 2] for n in range(1, count)]]
    for k in range(1, orders):
        rows.append([(-1) ** k * gamma[k] * rows[0][n] + (n + 2) * rows[-1][n + 2] for n in range(len(rows[-1]) - 2)])
    return [row[:terms][::-1] for row in rows]


TABLES = {
    "i0Small": (lambda x: mp.exp(-x) * mp.besseli(0, x), 0, 8),
    "i0Large": (of_inverse(lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(0, x)), 0, mpf(1) / 8),
    "i1Small": (lambda x: mp.exp(-x) * mp.besseli(1, x) / x, 0, 8),
    "i1Large": (of_inverse(lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(1, x)), 0, mpf(1) / 8),
    "k0Small": (k_small(0), 0, 4),
    "k0Large": (of_inverse(lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(0, x)), 0, mpf(1) / 2),
    "k1Small": (k_small(1), 0, 4),
    "k1Large": (of_inverse(lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(1, x)), 0, mpf(1) / 2),
    "j0Small": (j_small(0), 0, 25),
    "j1Small": (j_small(1), 0, 25),
    "y0Small": (y_small(0), 0, 25),
    "y1Small": (y_small(1), 0, 25),
    "p0Large": (of_inverse(lambda s: phase(0, mp.sqrt(s))[0]), 0, mpf(1) / 25),
    "q0Large": (of_inverse(lambda s: phase(0, mp.sqrt(s))[1] * mp.sqrt(s)), 0, mpf(1) / 25),
    "p1Large": (of_inverse(lambda s: phase(1, mp.sqrt(s))[0]), 0, mpf(1) / 25),
    "q1Large": (of_inverse(lambda s: phase(1, mp.sqrt(s))[1] * mp.sqrt(s)), 0, mpf(1) / 25),
    "airyCenter": (mp.airyai, -2.09, 2.09),
    "airyDecay": (airy("decay"), 0, 0.5),
    "airyF": (airy("f"), 0, 0.5),
    "airyG": (airy("g"), 0, 0.5),
    "erfcxAll": (erfcx, -1, 1),
    "normalCenter": (normal_center, 0, mpf(3) / 8 * mpf(3) / 8),
    "normalTail": (normal_tail, mpf(1) / 8, mpf(1) / 2),
    "normalFarTail": (normal_tail, mpf(1) / 64, mpf(1) / 8),
    "lgammaOne": (lambda x: mp.loggamma(x) / (x - 1), 0.5, 1.5),
    "lgammaTwo": (lambda x: mp.loggamma(x) / (x - 2), 1.5, 2.5),
}


def main():
    lines = ["// Generated by generator/special_tables.py: Chebyshev coefficients on [low, high].", "#pragma once", "// clang-format off"]
    for name, (function, low, high) in TABLES.items():
        coefficients = fit(function, low, high)
        print(f"{name}: {len(coefficients)} terms", flush=True)
        lines.append(f"[[maybe_unused]] static constexpr double {name}Terms[] = {{")
        lines += ["    " + ", ".join(repr(float(c)) for c in coefficients[i : i + 4]) + "," for i in range(0, len(coefficients), 4)]
        lines.append("};")
        lines.append(f"[[maybe_unused]] static const Chebyshev {name}{{{float(low)!r}, {float(high)!r}, {name}Terms}};")
    lines += [
        f"[[maybe_unused]] static constexpr double besselZeros{order}[] = {{{', '.join(repr(float(z)) for z in zeros(order, 2))}}}; // squared"
        for order in (0, 1)
    ]
    rows = temme(7, 18)
    lines.append(f"[[maybe_unused]] static constexpr double temmeTerms[][{len(rows[0])}] = {{")
    lines += ["    {" + ", ".join(repr(float(c)) for c in row) + "}," for row in rows]
    lines += ["};", "// clang-format on"]
    OUTPUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
