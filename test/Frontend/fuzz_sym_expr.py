"""Compares the reader of torch.export's expressions with Python's own arithmetic on random ones.

    fuzz_sym_expr.py SYM_EXPR_EVAL [COUNT]

An expression is a tuple (function, operands…) that is written as sympy's srepr would write it, and
evaluated at a random point both in exact fractions here and by SYM_EXPR_EVAL.
"""

import math
import random
import subprocess
import sys
from fractions import Fraction

BACKED = ["s0", "s1", "s27"]
UNBACKED = ["u0"]

FUNCTIONS = {
    "Add": lambda *a: sum(a),
    "Mul": lambda *a: math.prod(a),
    "Pow": lambda a, b: a ** int(b),
    "Rational": lambda a, b: a / b,
    "floor": math.floor,
    "ceiling": math.ceil,
    "FloorDiv": lambda a, b: math.floor(a / b),
    "CeilDiv": lambda a, b: math.ceil(a / b),
    "CleanDiv": lambda a, b: math.floor(a / b),
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "ModularIndexing": lambda a, b, c: math.floor(a / b) % c,
    "IntTrueDiv": lambda a, b: a / b,
    "FloatTrueDiv": lambda a, b: a / b,
    "TruncToInt": math.trunc,
    "ToFloat": lambda a: a,
    "RoundToInt": round,
    "Max": max,
    "Min": min,
    "Abs": abs,
    "Identity": lambda a: a,
    "LShift": lambda a, b: int(a) << int(b),
    "RShift": lambda a, b: int(a) >> int(b),
    "Where": lambda c, a, b: a if c else b,
    "And": lambda *a: min(a),
    "Or": lambda *a: max(a),
    "Not": lambda a: 1 - a,
    "Equality": lambda a, b: int(a == b),
    "Unequality": lambda a, b: int(a != b),
    "StrictLessThan": lambda a, b: int(a < b),
    "LessThan": lambda a, b: int(a <= b),
    "StrictGreaterThan": lambda a, b: int(a > b),
    "GreaterThan": lambda a, b: int(a >= b),
}
RELATIONS = [name for name in FUNCTIONS if name.endswith(("Than", "quality"))]


def write(expr):
    name, *operands = expr
    if name == "symbol":
        assumptions = "integer=True" if operands[0] in UNBACKED else "positive=True, integer=True"
        return f"Symbol('{operands[0]}', {assumptions})"
    if name == "Integer":
        return f"Integer({operands[0]})"
    if name == "Rational":
        return f"Rational({operands[0][1]}, {operands[1][1]})"
    if name == "Piecewise":
        cases, last = operands
        pairs = [f"ExprCondPair({write(value)}, {write(when)})" for value, when in cases]
        return f"Piecewise({', '.join([*pairs, f'ExprCondPair({write(last)}, true)'])})"
    return f"{name}({', '.join(map(write, operands))})"


def evaluate(expr, values):
    name, *operands = expr
    if name == "symbol":
        return Fraction(values[operands[0]])
    if name == "Integer":
        return Fraction(operands[0])
    if name == "Piecewise":
        cases, last = operands
        chosen = next((value for value, when in cases if evaluate(when, values)), last)
        return evaluate(chosen, values)
    return Fraction(FUNCTIONS[name](*(evaluate(operand, values) for operand in operands)))


class Generator:
    def __init__(self, rng):
        self.rng = rng

    def constant(self, low, high):
        return ("Integer", self.rng.randint(low, high))

    def integer(self, depth):
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return rng.choice([("symbol", rng.choice(BACKED + UNBACKED)), self.constant(-9, 9)])
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        divisor = ("Integer", rng.choice([-7, -3, -1, 1, 2, 3, 4, 6, 8]))
        count = self.constant(0, 4)
        name = rng.choice(["Add", "Mul", "Pow", "FloorDiv", "CeilDiv", "Mod", "PythonMod", "ModularIndexing",
                           "Max", "Min", "Abs", "Identity", "LShift", "RShift", "Where", "Piecewise", "round"])
        if name == "round":
            return (rng.choice(["floor", "ceiling", "TruncToInt", "RoundToInt"]), self.fraction(depth - 1))
        if name == "Piecewise":
            return (name, [(a, self.condition(depth - 1)) for _ in range(rng.randint(1, 2))], b)
        if name == "Where":
            return (name, self.condition(depth - 1), a, b)
        if name == "ModularIndexing":
            return (name, a, divisor, self.constant(1, 9))
        if name in ("Pow", "LShift", "RShift"):
            return (name, a, count)
        if name in ("FloorDiv", "CeilDiv", "Mod", "PythonMod"):
            return (name, a, divisor)
        if name in ("Abs", "Identity"):
            return (name, a)
        return (name, a, b)

    def fraction(self, depth):
        a = self.integer(depth)
        divisor = self.constant(1, 9)
        return self.rng.choice([
            ("IntTrueDiv", a, divisor),
            ("FloatTrueDiv", ("ToFloat", a), divisor),
            ("Mul", ("Rational", self.constant(-9, 9), divisor), a),
            ("Add", ("IntTrueDiv", a, divisor), ("Mul", ("Rational", self.constant(1, 9), ("Integer", 4)), a)),
            ("Mul", a, ("Pow", divisor, ("Integer", -1))),
            ("IntTrueDiv", a, ("symbol", self.rng.choice(BACKED))),
        ])

    def condition(self, depth):
        kind = self.rng.random()
        if depth > 0 and kind < 0.2:
            return ("Not", self.condition(depth - 1))
        if depth > 0 and kind < 0.4:
            return (self.rng.choice(["And", "Or"]), self.condition(depth - 1), self.condition(depth - 1))
        return (self.rng.choice(RELATIONS), self.integer(depth), self.integer(depth))


def main():
    evaluator, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    rng = random.Random(0)
    generator = Generator(rng)
    lines, expected = [], []
    while len(lines) < count:
        expr = generator.integer(rng.randint(1, 4))
        values = {name: rng.randint(1, 40) for name in BACKED} | {name: rng.randint(-40, 40) for name in UNBACKED}
        value = evaluate(expr, values)
        if abs(value) < 2**40:
            lines.append(write(expr) + "\t" + " ".join(f"{k}={v}" for k, v in values.items()))
            expected.append(value)
    output = subprocess.run([evaluator], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    wrong = refused = 0
    for line, want, got in zip(lines, expected, output.stdout.splitlines(), strict=True):
        if got.startswith("error: ") and ("too large" in got or "overflows" in got):
            refused += 1  # expanding products of sums may reach the limits
        elif got != str(want):
            wrong += 1
            print(f"{line}\n  expected {want}, got {got}")
    print(f"{count} expressions, {wrong} wrong, {refused} refused as too large")
    return 1 if wrong or refused > count // 20 else 0


if __name__ == "__main__":
    sys.exit(main())
