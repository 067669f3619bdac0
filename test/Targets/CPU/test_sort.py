"""kernel.sort with schedules of all kinds: merged, by digits of any width, the first ones picked out."""

import numpy as np
import pytest

RNG = np.random.default_rng(0)


def kernel(rows, length, schedule, first=None):
    t = f"tensor<{rows}x{length}xi64>"
    wanted = f"attributes {{first = {first} : i64}} " if first else ""
    return f"""
kernel.func @sort(%x: {t}) -> ({t}, {t}, {t}) attributes {{schedule = #codegen.sort<{schedule}>}} {{
  %p, %k, %s = kernel.sort {wanted}{{
    %key = kernel.read %x (d0, d1) -> (d0, d1) : {t} -> i64
    kernel.yield %key : i64
  }} : {t}, {t}, {t}
  kernel.return %p, %k, %s : {t}, {t}, {t}
}}
"""


KEYS = {
    "few": lambda shape: RNG.integers(-3, 3, shape),
    "bytes": lambda shape: RNG.integers(-200, 2000, shape),
    "wide": lambda shape: RNG.integers(-(2**63), 2**63 - 1, shape),
}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize(
    "schedule",
    [
        "digits_from = 10000",
        "rows = 2, lanes = 8, digits_from = 2, wide_from = 1, digit_bits = 8",
        "rows = 3, digits_from = 1, wide_from = 1, digit_bits = 4",
        "digits_from = 1, wide_from = 1, digit_bits = 2",
        "lanes = 4, digits_from = 1, wide_from = 1, digit_bits = 1",
        "digits_from = 1, wide_from = 1000, digit_bits = 8",
    ],
)
def test_orders(run, keys, schedule):
    for length in (1, 3, 300):
        x = KEYS[keys]((5, length))
        positions = run(kernel(*x.shape, schedule), [x], num_outputs=3, threads=2)[0]
        np.testing.assert_array_equal(positions, np.argsort(x, axis=1, kind="stable"))


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("first,candidates", [(1, 2), (7, 8), (20, 255)])
def test_first(run, keys, first, candidates):
    x = KEYS[keys]((4, 1000))
    schedule = f"digits_from = 64, pick_from = 256, candidates = {candidates}"
    positions = run(kernel(*x.shape, schedule, first), [x], num_outputs=3)[0]
    np.testing.assert_array_equal(positions[:, :first], np.argsort(x, axis=1, kind="stable")[:, :first])
