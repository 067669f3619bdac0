#!/usr/bin/env python3
"""Compares sym-eval's canonical forms with sympy and with plain Python arithmetic.

Usage: fuzz_sympy.py SYM_EVAL [--count N] [--seed S]

Random expressions are written out, read back in canonical (and simplified) form and evaluated by
sympy, whose floor is exact for rationals, and by Python's own //. Exits with 77 without sympy.
"""

import argparse
import random
import re
import subprocess
import sys

try:
    import sympy
except ImportError:
    print("sympy is not installed")
    sys.exit(77)

NAMES = ["s0", "s1", "d0", "d1"]


def random_expr(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(NAMES) if rng.random() < 0.7 else f"({rng.randint(-12, 12)})"
    op = rng.choice(["+", "-", "*", "neg", "floordiv", "ceildiv", "mod", "min", "max"])
    a = random_expr(rng, depth - 1)
    if op == "neg":
        return f"(-{a})"
    if op in ("floordiv", "ceildiv", "mod") and rng.random() < 0.7:
        b = f"({rng.choice([i for i in range(-12, 13) if i])})"
    else:
        b = random_expr(rng, depth - 1)
    return f"{op}({a}, {b})" if op in ("min", "max") else f"({a} {op} {b})"


def parse(text, make):
    """An independent reader of the grammar; `make` maps an operator and its operands to a value."""
    tokens = re.findall(r"\d+|[A-Za-z_][\w.$]*|[-+*(),]", text)
    position = 0

    def peek():
        return tokens[position] if position < len(tokens) else None

    def take():
        nonlocal position
        position += 1
        return tokens[position - 1]

    def total():
        value = term()
        while peek() in ("+", "-"):
            op = take()
            value = make(op, value, term())
        return value

    def term():
        value = unary()
        while peek() in ("*", "floordiv", "ceildiv", "mod"):
            op = take()
            value = make(op, value, unary())
        return value

    def unary():
        token = take()
        if token == "-":
            return make("-", make("number", 0), unary())
        if token == "(":
            value = total()
        elif token in ("min", "max"):
            take()
            value = total()
            while peek() == ",":
                take()
                value = make(token, value, total())
        else:
            return make("number" if token.isdigit() else "name", token)
        take()  # the closing parenthesis
        return value

    value = total()
    assert position == len(tokens), text
    return value


class Undefined(Exception):
    pass


def divide(a, b):
    if b == 0:
        raise Undefined
    return a // b


def python_value(text, values):
    def make(op, a, b=None):
        return {
            "number": lambda: int(a),
            "name": lambda: values[a],
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "floordiv": lambda: divide(a, b),
            "ceildiv": lambda: -divide(-a, b),
            "mod": lambda: a - b * divide(a, b),
            "min": lambda: min(a, b),
            "max": lambda: max(a, b),
        }[op]()

    return parse(text, make)


def sympy_value(text, values):
    def floor(a, b):
        if b == 0:
            raise Undefined
        return sympy.floor(sympy.Rational(a) / b)

    def make(op, a, b=None):
        return {
            "number": lambda: sympy.Integer(a),
            "name": lambda: sympy.Integer(values[a]),
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "floordiv": lambda: floor(a, b),
            "ceildiv": lambda: -floor(-a, b),
            "mod": lambda: a - b * floor(a, b),
            "min": lambda: sympy.Min(a, b),
            "max": lambda: sympy.Max(a, b),
        }[op]()

    return parse(text, make)


def sympy_polynomial(text):
    """The expanded polynomial, for text without divisions, min and max."""
    symbols = {name: sympy.Symbol(name, integer=True) for name in NAMES}

    def make(op, a, b=None):
        return {"number": lambda: sympy.Integer(a), "name": lambda: symbols[a], "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b}[
            op
        ]()

    return sympy.expand(parse(text, make))


def random_range(rng, name):
    low = 0 if name.startswith("d") else rng.randint(-4, 4)
    return (low, low + rng.randint(0, 10))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("sym_eval")
    arguments.add_argument("--count", type=int, default=3000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments = arguments.parse_args()
    rng = random.Random(arguments.seed)

    cases = [(random_expr(rng, rng.randint(1, 4)), {name: random_range(rng, name) for name in NAMES}) for _ in range(arguments.count)]
    lines = []
    for text, ranges in cases:
        settings = " ".join(f"{name}={low}:{high}" for name, (low, high) in ranges.items())
        lines += [text, f"simplify {settings} ; {text}"]
    output = subprocess.run(
        [arguments.sym_eval], input="\n".join(lines) + "\n", text=True, capture_output=True, check=True
    ).stdout.splitlines()
    assert len(output) == len(lines)

    failures = points = polynomials = 0
    for index, (text, ranges) in enumerate(cases):
        canonical, simplified = output[2 * index : 2 * index + 2]
        if not re.search("div|mod|min|max", text) and not canonical.startswith("error"):
            polynomials += 1
            if sympy_polynomial(text) != sympy_polynomial(canonical):
                print(f"not the same polynomial: {text}\n  {canonical}")
                failures += 1
        for sample in range(6):
            values = {name: rng.randint(*ranges[name]) for name in NAMES}
            try:
                expected = python_value(text, values)
            except Undefined:
                continue
            points += 1
            if sample == 0 and sympy_value(text, values) != expected:
                print(f"sympy and Python differ: {text} at {values}")
                failures += 1
            for result in (canonical, simplified):
                try:
                    got = python_value(result, values) if not result.startswith("error") else result
                except Undefined:
                    got = "undefined"
                if got != expected:
                    print(f"{text}\n  => {result}\n  is {got}, not {expected}, at {values}")
                    failures += 1
    print(f"{len(cases)} expressions, {polynomials} polynomials, {points} points, {failures} failures")
    return 1 if failures or points < arguments.count else 0


if __name__ == "__main__":
    sys.exit(main())
