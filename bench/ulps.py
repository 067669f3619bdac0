#!/usr/bin/env python3
"""Errors of elementary functions over all float32 numbers, in units of the last place.

Prints the largest error against double precision, and where it is, on each level of CPUs; with --document as rows of the table in
docs/numerics.md. A function takes a minute or two for each. The errors of odd functions are those for positive numbers; negative ones have the same bits.
"""

import argparse
import math
import pathlib
import re

import torch

import kiln

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "numerics.md"
BEGIN, END = "<!-- Written by bench/ulps.py --document -->", "<!-- End of the figures -->"
FUNCTIONS = {  # the function, and whether it is odd
    "exp": (torch.exp, False),
    "expm1": (torch.expm1, False),
    "log": (torch.log, False),
    "log1p": (torch.log1p, False),
    "tanh": (torch.tanh, True),
    "erf": (torch.erf, True),
    "sin": (torch.sin, True),
    "cos": (torch.cos, False),
}
LEVELS = ("x86-64-v3", "x86-64-v4")  # whose instructions differ
CHUNK = 1 << 20


def errors(x, actual, function):
    """Distances from what double precision gives; infinite where only one of both is a number or finite."""
    exact = function(x.double())
    rounded = exact.float()
    size = rounded.abs()
    # The largest finite number and infinity are neighbours.
    unit = (torch.nextafter(size, torch.tensor(math.inf)) - size).double()
    unit[~torch.isfinite(unit)] = 2.0**104
    distance = (actual.double() - exact).abs() / unit
    distance[torch.isnan(distance)] = math.inf
    same = (actual == rounded) | (torch.isnan(actual) & torch.isnan(rounded))
    distance[same & ~torch.isfinite(distance)] = 0
    return distance


def worst(name, cpu):
    function, odd = FUNCTIONS[name]

    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    program = torch.export.export(Model(), (torch.zeros(CHUNK),))
    model = kiln.compile(program, threads=1, cpu=cpu)
    error, at = -1.0, 0.0
    for first in range(0, 1 << (31 if odd else 32), CHUNK):
        bits = torch.arange(first, first + CHUNK, dtype=torch.int64)
        x = torch.where(bits < 1 << 31, bits, bits - (1 << 32)).int().view(torch.float32)
        actual = model(x)
        if odd and not torch.equal(*(y.view(torch.int32)[~torch.isnan(actual)] for y in (model(-x), -actual))):
            raise SystemExit(f"{name}: not odd between {x[0]} and {x[-1]}")
        distance = errors(x, actual, function)
        place = int(distance.argmax())
        if distance[place] > error:
            error, at = float(distance[place]), float(x[place])
    return error, at


def document(results):
    """Replaces these rows, of a function and a level, in the table."""
    before, begin, rest = DOCUMENT.read_text().partition(BEGIN)
    table, end, after = rest.partition(END)
    found = re.findall(r"^\| `(\w+)` \| `--cpu=([\w-]+)` \| (.*) \|$", table, re.MULTILINE)
    rows = {(name, cpu): rest for name, cpu, rest in found} | results
    lines = ["| function of float32 | CPU | largest error, ulp | at |", "| --- | --- | ---: | --- |"]
    lines += [f"| `{name}` | `--cpu={cpu}` | {rows[name, cpu]} |" for name in FUNCTIONS for cpu in LEVELS if (name, cpu) in rows]
    DOCUMENT.write_text("\n".join([before + begin, "", *lines, "", end + after]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", default=list(FUNCTIONS), help="of " + ", ".join(FUNCTIONS))
    parser.add_argument("--cpu", action="append", choices=LEVELS, help="as aot-compile's, may be given several times; default: both")
    parser.add_argument("--document", action="store_true", help="also write the figures into docs/numerics.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.functions:
        for cpu in arguments.cpu or LEVELS:
            error, at = worst(name, cpu)
            print(f"| `{name}` | `--cpu={cpu}` | {error:.3f} | {at.hex()} |", flush=True)
            if arguments.document:
                document({(name, cpu): f"{error:.3f} | {at.hex()}"})


if __name__ == "__main__":
    main()
