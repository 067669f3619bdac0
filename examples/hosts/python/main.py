"""Runs a model on an image of ones and prints its scores."""

import sys

import numpy

import kiln

if len(sys.argv) != 2:
    sys.exit(f"usage: {sys.argv[0]} MODEL.so")
try:
    model = kiln.load(sys.argv[1])
    for score in model(numpy.ones((1, 3, 8, 8), "float32"))[0]:
        print(f"{score:.6f}")
except (OSError, kiln.KilnError) as error:
    sys.exit(str(error))
