#!/usr/bin/env python3
"""Compiles random programs and compares them with the exported program; makes what fails small.

  test/fuzz/programs.py [--seeds FIRST:LAST] [--minutes N] [--flag=--cpu=x86-64-v3 ...] [--jobs N] [--no-minimize] [-v]
                        [--entries N] [--favour KIND ...]

With --flag=--target=cuda --flag=--gpu-arch=emulator, kernels for GPUs run in the emulator.
--entries: several programs over the same buffers, in one model. --favour: more steps of a kind (`Writer.propose` has their names).
A seed always gives the same program; odd ones have dynamic sizes, and run at three sets of them. Prints the program of each failure
and, last, a line `N passed, N failed`. A program that export refuses counts as neither."""

import argparse
import collections
import contextlib
import io
import logging
import multiprocessing
import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402

torch.set_num_threads(1)
logging.getLogger("torch").setLevel(logging.ERROR)

from check import BAD, RIGHT, check, export  # noqa: E402
from generate import generate  # noqa: E402
from minimize import minimize  # noqa: E402

# Programs with static and dynamic sizes, branches, loops and layers.
WARMING = (2, 3, 601, 603, 706)


def warm_up():
    """Programs are checked in processes that are forked from this one: what torch.export builds when it is first called, for seconds, they have then."""
    for seed in WARMING:
        with contextlib.suppress(Exception):  # of programs that export refuses
            torch.export.save(export(generate(seed)), io.BytesIO())


def run_seed(job):
    """(seed, state, sets of sizes that were compared, what to print of it)"""
    seed, options = job
    program = generate(seed, entries=options.entries, favoured=options.favour)
    verdict = check(program, options.flag)
    if verdict.state not in BAD:
        return seed, verdict.state, verdict.sets, f"seed {seed}: {verdict.state}: {verdict.detail}" if options.verbose else ""
    if not options.no_minimize:
        program = minimize(program, lambda smaller: check(smaller, options.flag).kind() == verdict.kind())
        verdict = check(program, options.flag)
    return seed, verdict.state, verdict.sets, f"seed {seed}: {verdict.state}: {verdict.detail}\n{program.describe()}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:100", metavar="FIRST:LAST", help="half open")
    parser.add_argument("--minutes", type=float, help="begin no further program after that; default: all seeds")
    parser.add_argument("--flag", action="append", default=[], help="another option for the compiler")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--entries", type=int, default=1)
    parser.add_argument("--favour", action="append", default=[], metavar="KIND")
    parser.add_argument("--no-minimize", action="store_true", help="print what fails as it was generated")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each seed")
    options = parser.parse_args()
    seeds = range(*map(int, options.seeds.split(":")))
    begin = time.monotonic()
    states, sets = collections.Counter(), 0
    warm_up()
    with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=20) as pool:
        for _, state, compared, text in pool.imap_unordered(run_seed, [(seed, options) for seed in seeds]):
            states[state] += 1
            sets += compared
            if text:
                print(text, flush=True)
            if options.minutes and time.monotonic() > begin + 60 * options.minutes:
                break  # which ends the others
    failed = sum(states[state] for state in BAD)
    print(", ".join(f"{state}: {count}" for state, count in sorted(states.items())) + f"; {sets} runs compared")
    print(f"{states[RIGHT]} passed, {failed} failed")
    return 1 if failed or not states[RIGHT] else 0


if __name__ == "__main__":
    sys.exit(main())
