"""Compares the reader of torch.export's expressions with Python's own arithmetic on random ones.

    fuzz_sym_expr.py SYM_EXPR_EVAL [COUNT [SEED]]

An expression is a tuple (function, operands…) that is written as sympy's srepr would write it, and
evaluated at a random point both here, in fractions and in floats, and by SYM_EXPR_EVAL. Guards are
Python conditions, in integers or in floats, which Python evaluates.
"""

import math
import random
import subprocess
import sys
import types
from fractions import Fraction

BACKED = ["s0", "s1", "s27"]
UNBACKED = ["u0"]

FUNCTIONS = {
    "Add": lambda *a: sum(a),
    "Mul": lambda *a: math.prod(a),
    "Pow": lambda a, b: a ** int(b),
    "Rational": lambda a, b: Fraction(a) / Fraction(b),
    "Float": lambda a: a,
    "floor": math.floor,
    "ceiling": math.ceil,
    "FloorDiv": lambda a, b: math.floor(a / b),
    "CeilDiv": lambda a, b: math.ceil(a / b),
    "CleanDiv": lambda a, b: math.floor(a / b),
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "ModularIndexing": lambda a, b, c: math.floor(a / b) % c,
    "IntTrueDiv": lambda a, b: int(a) / int(b),
    "FloatTrueDiv": lambda a, b: float(a) / float(b),
    "TruncToInt": math.trunc,
    "ToFloat": float,
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
    if name == "Float":
        return f"Float('{operands[0]!r}', precision=53)"
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
    if name == "Float":
        return operands[0]
    if name == "Piecewise":
        cases, last = operands
        chosen = next((value for value, when in cases if evaluate(when, values)), last)
        return evaluate(chosen, values)
    value = FUNCTIONS[name](*(evaluate(operand, values) for operand in operands))
    return value if isinstance(value, float) else Fraction(value)


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
        name = rng.choice(
            [
                "Add",
                "Mul",
                "Pow",
                "FloorDiv",
                "CeilDiv",
                "Mod",
                "PythonMod",
                "ModularIndexing",
                "Max",
                "Min",
                "Abs",
                "Identity",
                "LShift",
                "RShift",
                "Where",
                "Piecewise",
                "round",
            ]
        )
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
        if name in ("Min", "Max") and rng.random() < 0.1:
            return (name, a, ("Integer", (1 if name == "Min" else -1) * 2**65), b)
        return (name, a, b)

    def fraction(self, depth):
        a = self.integer(depth)
        divisor = self.constant(1, 9)
        return self.rng.choice(
            [
                ("IntTrueDiv", a, divisor),
                ("FloatTrueDiv", ("ToFloat", a), divisor),
                ("Mul", ("Rational", self.constant(-9, 9), divisor), a),
                (
                    "Add",
                    ("Mul", ("Rational", self.constant(1, 9), divisor), a),
                    ("Mul", ("Rational", self.constant(1, 9), ("Integer", 4)), a),
                ),
                ("Mul", ("Float", self.rng.choice([0.5, 0.25, 1.5, 2.0, -0.375])), ("ToFloat", a)),
                ("Add", ("FloatTrueDiv", ("ToFloat", a), divisor), ("Float", self.rng.choice([0.5, 1.0]))),
                ("Mul", a, ("Pow", divisor, ("Integer", -1))),
                ("IntTrueDiv", a, ("symbol", self.rng.choice(BACKED))),
            ]
        )

    def condition(self, depth):
        kind = self.rng.random()
        if depth > 0 and kind < 0.2:
            return ("Not", self.condition(depth - 1))
        if depth > 0 and kind < 0.4:
            return (self.rng.choice(["And", "Or"]), self.condition(depth - 1), self.condition(depth - 1))
        if kind > 0.95:  # bounds of more than 64 bits
            sides = [self.integer(depth), ("Integer", self.rng.choice([-1, 1]) * self.rng.randint(2**63 + 1, 2**70))]
            return (self.rng.choice(RELATIONS), *self.rng.sample(sides, 2))
        return (self.rng.choice(RELATIONS), self.integer(depth), self.integer(depth))


SIZES = ["L['x'].size()[0]", "L['x'].size()[1]"]


class Guards:
    """Conditions as torch.export writes them, on the sizes and strides of an input x and a number n."""

    def __init__(self, rng):
        self.rng = rng

    def integer(self, depth):
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(
                ["L['x'].size()[0]", "L['x'].size()[1]", "L['x'].stride()[0]", "L['n']", str(rng.randint(0, 9)), f"(-{rng.randint(1, 9)})"]
            )
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        divisor = rng.choice([2, 3, 4, 8, "L['x'].size()[0]"])
        return rng.choice(
            [
                f"{a} + {b}",
                f"({a})*({b})",
                f"(({a}) // {divisor})",
                f"(({a}) % {divisor})",
                f"max({a}, {b})",
                f"min({a}, {b}, 7)",
                f"math.floor(({a}) / {divisor})",
                f"math.ceil(({a}) / {divisor})",
                f"math.trunc(2.5*torch.sym_float({a}))",
                f"math.floor(0.2*torch.sym_float({rng.choice(SIZES)}))",
                f"round(({a}) / {divisor})",
                f"abs({a})",
                f"({a} if {self.condition(depth - 1)} else {b})",
                f"({a})*({a})",
            ]
        )

    def condition(self, depth):
        rng = self.rng
        kind = rng.random()
        if depth > 0 and kind < 0.4:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return rng.choice([f"({a}) and ({b})", f"({a}) or ({b})", f"not ({a})", f"{a} and {b} or not ({a})"])
        if kind < 0.5:
            return f"torch.sym_float({self.integer(depth)}) == (({self.integer(depth)}) / {rng.choice([2, 3, 5])})"
        relations = ["==", "!=", "<", "<=", ">", ">="]
        if kind < 0.6:
            return f"{self.integer(depth)} {rng.choice(relations)} {self.integer(depth)} {rng.choice(relations)} {self.integer(depth)}"
        return f"{self.integer(depth)} {rng.choice(relations)} {self.integer(depth)}"

    def evaluate(self, text, values):
        x = types.SimpleNamespace(size=lambda: [values["s0"], values["s1"]], stride=lambda: [values["t0"], 1])
        names = {"L": {"x": x, "n": values["n"]}, "math": math, "torch": types.SimpleNamespace(sym_float=float)}
        return int(bool(eval(text, names)))


class Floats:
    """Conditions on a number n in Python's floats. One that raises an exception does not hold."""

    def __init__(self, rng):
        self.rng = rng

    def number(self, depth):
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(["L['n']", "L['n']", str(rng.randint(0, 9)), repr(rng.choice([0.5, 0.1, 1.7, 3.0, 1e-3, 25.0]))])
        a, b = self.number(depth - 1), self.number(depth - 1)
        divisor = rng.choice(["2", "3", "(-7)", "0.3", "(-1.5)", "L['n']"])
        power = rng.choice(["0.5", "1.5", "0.3333333333333333", "(-0.5)", "2", "(-1)"])
        return rng.choice(
            [
                f"{a} + {b}",
                f"{a} - {b}",
                f"({a})*({b})",
                f"({a}) / {divisor}",
                f"({a}) // {divisor}",
                f"({a}) % {divisor}",
                f"abs({a}) ** {power}",
                f"1.05 ** ({divisor})",
                f"-({a})",
                f"math.trunc({a})",
                f"math.floor({a})",
                f"math.ceil({a})",
                f"round({a})",
                f"torch.sym_float({a})",
                f"min({a}, {b}, 7)",
                f"max({a}, {b})",
                f"math.sqrt(abs({a}))",
                f"math.log(abs({a}) + 1)",
                f"math.exp(min({a}, 9))",
                f"({a} if {self.condition(depth - 1)} else {b})",
            ]
        )

    def condition(self, depth):
        rng = self.rng
        if depth > 0 and rng.random() < 0.3:
            return f"({self.condition(depth - 1)}) {rng.choice(['and', 'or'])} (not ({self.condition(depth - 1)}))"
        relations = ["==", "!=", "<", "<=", ">", ">="]
        last = f" {rng.choice(relations)} {self.number(depth)}" if rng.random() < 0.1 else ""
        return f"{self.number(depth)} {rng.choice(relations)} {self.number(depth)}{last}"

    def evaluate(self, text, n):
        try:
            return int(bool(eval(text, {"L": {"n": n}, "math": math, "torch": types.SimpleNamespace(sym_float=float)})))
        except ArithmeticError:
            return 0


def main():
    evaluator, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    generator, guards, floats = Generator(rng), Guards(rng), Floats(rng)
    lines, expected = [], []
    while len(lines) < count:
        if rng.random() < 0.3:
            line, n = floats.condition(rng.randint(0, 3)), rng.randint(-40, 400)
            lines.append(f"{line}\tn={n}\tfloats")
            expected.append(floats.evaluate(line, n))
            continue
        if rng.random() < 0.3:
            values = {name: rng.randint(1, 40) for name in ("s0", "s1", "t0")} | {"n": rng.randint(-40, 40)}
            line, value = guards.condition(rng.randint(0, 3)), None
            value = guards.evaluate(line, values)
        else:
            expr = generator.integer(rng.randint(1, 4))
            values = {name: rng.randint(1, 40) for name in BACKED} | {name: rng.randint(-40, 40) for name in UNBACKED}
            line, value = write(expr), evaluate(expr, values)
            if abs(value) >= 2**40:
                continue
        is_guard = "L[" in line or "Symbol" not in line and "Integer" not in line
        lines.append(line + "\t" + " ".join(f"{k}={v}" for k, v in values.items()) + ("\tguard" if is_guard else ""))
        expected.append(value)
    output = subprocess.run([evaluator], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    wrong, refused = 0, {"size": 0, "floats": 0}
    for line, want, got in zip(lines, expected, output.stdout.splitlines(), strict=True):
        if got.startswith("error: ") and ("too large" in got or "overflows" in got):
            refused["size"] += 1  # expanding products of sums may reach the limits
        elif got.startswith("error: ") and ("rounded" in got or "symbolic denominators" in got):
            refused["floats"] += 1
        elif got != str(want):
            wrong += 1
            print(f"{line}\n  expected {want}, got {got}")
    print(f"{count} expressions, {wrong} wrong, refused: {refused['size']} as too large, {refused['floats']} for their floats")
    return 1 if wrong or refused["size"] > count // 20 or refused["floats"] > count // 5 else 0


if __name__ == "__main__":
    sys.exit(main())
