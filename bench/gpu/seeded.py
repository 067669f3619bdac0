"""Pseudo-random numbers that are the same on every machine, so that a package carries their seed instead of them. Needs numpy alone."""

import numpy


def draw(seed, shape, dtype):
    """About normal: sums of four numbers of 16 bits each, out of SplitMix64. Integers, one product and one rounding have the same bits everywhere."""
    count = int(numpy.prod(shape, dtype=numpy.int64))
    state = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15) + numpy.uint64(seed << 40)
    state = (state ^ (state >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    state ^= state >> numpy.uint64(31)
    sums = sum((state >> numpy.uint64(16 * i)) & numpy.uint64(0xFFFF) for i in range(4)).astype(numpy.int64)
    return ((sums - 2 * 0xFFFF) * (3**0.5 / (1 << 16))).astype(dtype).reshape(shape)
