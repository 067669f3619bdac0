#!/usr/bin/env python3
"""Runs the host programs of exported programs on poisoned memory (`wrapper-interpret-memory`), and reports what it finds.

    test/memory/sweep.py FOLDER_OR_ARCHIVE...      every .pt2 file below the folders
    test/memory/sweep.py --only 'bert|cond' ...    those whose path matches; --runs 32 for more values of symbols

The compiler's own verifier has accepted every program by then. The exit status says whether the memory of all that compile is
used as it should be."""

import argparse
import multiprocessing.pool
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build")) / "bin"


def find_archives(paths):
    for path in paths:
        yield from sorted(path.rglob("*.pt2")) if path.is_dir() else [path]


def check(archive, runs, options):
    """(archive, "passed", "refused" by the compiler or "wrong", and how the runs ended or why there are none)."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.mlir"
        command = [BIN / "aot-compile", archive, "--emit=wrapper", "--fallback=torch", "-o", program, *options]
        compiled = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if compiled.returncode:
            return archive, "refused" if compiled.returncode == 1 else "wrong", compiled.stderr.strip()[-300:]
        command = [
            BIN / "kiln-opt",
            program,
            f"--wrapper-interpret-memory=runs={runs}",
            "-o",
            os.devnull,
            "--mlir-print-op-on-diagnostic=false",
        ]
        interpreted = subprocess.run(command, capture_output=True, text=True, errors="replace")
        lines = [line.split(": ", 1)[1] for line in interpreted.stderr.splitlines() if re.search(r": (error|note|remark): ", line)]
        return archive, "wrong" if interpreted.returncode else "passed", "; ".join(lines)[:600]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--option", action="append", default=[], help="of aot-compile")
    arguments = parser.parse_args()
    archives = [path for path in find_archives(arguments.paths) if re.search(arguments.only, str(path))]
    counts = {"passed": 0, "refused": 0, "wrong": 0}
    ended = [0, 0]
    with multiprocessing.pool.ThreadPool(arguments.jobs) as pool:
        for archive, state, text in pool.imap_unordered(lambda path: check(path, arguments.runs, arguments.option), archives):
            counts[state] += 1
            if state != "passed":
                print(f"{state}: {archive}: {text}", flush=True)
            elif match := re.search(r"(\d+) of (\d+) runs", text):
                ended[0] += int(match[1])
                ended[1] += int(match[2])
    print(
        f"memory: {counts['passed']} passed, {counts['refused']} refused, {counts['wrong']} wrong; {ended[0]} of {ended[1]} runs to the end"
    )
    return counts["wrong"] > 0


if __name__ == "__main__":
    raise SystemExit(main())
