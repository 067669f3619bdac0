"""kernel.repeat: compaction under a mask, and counts of any size."""

import numpy as np
import pytest

RNG = np.random.default_rng(0)


def kernel(total, chunk, size, element, extra=""):
    """Counts of type `element`; an i1 comes from a comparison, so that the mask is computed."""
    value = "%c" if element == "i64" else "%m"
    compare = (
        ""
        if element == "i64"
        else """
      %zero = arith.constant 0.0 : f32
      %m = arith.cmpf ogt, %c, %zero : f32"""
    )
    source = element if element == "i64" else "f32"
    chunks = -(-total // chunk)
    return f"""
kernel.func @repeat(%x: tensor<{total}x{source}>, %starts: tensor<{chunks}xi64>) -> tensor<{size}xi64> {{
  %r = kernel.repeat total {total} chunk {chunk} count {{
      %c = kernel.read %x (d0, d1) -> ({chunk}*d0 + d1) : tensor<{total}x{source}> -> {source}{compare}
      kernel.yield {value} : {element}
  }} start {{
      %s = kernel.read %starts (d0, d1) -> (d0) : tensor<{chunks}xi64> -> i64
      kernel.yield %s : i64
  }} : tensor<{size}xi64>
  kernel.return %r : tensor<{size}xi64>
}}
"""


def starts_of(counts, chunk):
    sums = np.add.reduceat(counts, np.arange(0, len(counts), chunk)) if len(counts) else np.zeros(0)
    return np.concatenate([[0], np.cumsum(sums)[:-1]]).astype(np.int64)


@pytest.mark.parametrize("total,chunk", [(1, 1), (3, 8), (16, 16), (100, 100), (1000, 64), (1000, 333), (4097, 1024)])
@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
def test_mask(run, total, chunk, density):
    x = np.where(RNG.random(total) < density, 1, -1).astype(np.float32)
    expected = np.nonzero(x > 0)[0]
    size = len(expected)
    result = run(kernel(total, chunk, size, "i1"), [x, starts_of(x > 0, chunk)], threads=2)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("total,chunk", [(1, 1), (5, 2), (100, 100), (300, 64)])
def test_counts(run, total, chunk):
    counts = RNG.integers(0, 5, total)
    counts[RNG.random(total) < 0.5] = 0
    expected = np.repeat(np.arange(total), counts)
    result = run(kernel(total, chunk, len(expected), "i64"), [counts, starts_of(counts, chunk)])
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("element", ["i1", "i64"])
def test_longer_than_its_result(run, element):
    """Counts and starts are data: what does not fit is not written (the runner checks behind its arrays)."""
    total = 64
    counts = np.full(total, 3 if element == "i64" else 1, np.int64 if element == "i64" else np.float32)
    repeats = np.repeat(np.arange(total), counts.astype(np.int64))
    for start in (0, 5, 9, 1 << 40, -7):
        result = run(kernel(total, total, 10, element), [counts, np.array([start])])
        first = min(max(start, 0), 10)
        np.testing.assert_array_equal(result[first:], repeats[: 10 - first])


def test_negative_counts(run):
    result = run(kernel(5, 5, 3, "i64"), [np.array([2, -1, 0, -(1 << 63), 1]), np.array([0])])
    np.testing.assert_array_equal(result, [0, 0, 4])
