#!/usr/bin/env python3
"""What each header of include/kiln costs whoever includes it: bench/headers.py [--build build] [--repeat 3] [REGEX]
Processor time to parse a file that includes the header alone, without precompiled headers, as a share of that of mlir/IR/BuiltinOps.h."""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
YARDSTICK = "mlir/IR/BuiltinOps.h"


def parser_command(build):
    """The compiler with the include paths and definitions of the library that includes the most."""
    entries = json.loads((build / "compile_commands.json").read_text())
    words = shlex.split(next(entry["command"] for entry in entries if "/KilnTargetCUDA.dir/" in entry["command"]))
    compiler = next(word for word in words if re.fullmatch(r"clang\+\+.*|g\+\+.*", os.path.basename(word)))
    kept = [word for word in words if re.match(r"-(D|I|std=|f(no-)?exceptions)", word)]
    system = [word for flag, path in zip(words, words[1:]) if flag == "-isystem" for word in (flag, path)]
    return [compiler, "-fsyntax-only", "-x", "c++", *kept, *system]


def seconds(command, header):
    process = subprocess.Popen([*command, "-"], stdin=subprocess.PIPE)
    process.stdin.write(f"#include <{header}>\n".encode())
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"headers: error: {header} does not compile on its own")
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--repeat", type=int, default=3, help="the least of so many times counts")
    parser.add_argument("only", nargs="?", default="", metavar="REGEX")
    options = parser.parse_args()
    command = parser_command(options.build)
    headers = sorted(str(path.relative_to(ROOT / "include")) for path in (ROOT / "include" / "kiln").rglob("*.h"))
    headers = [YARDSTICK, *(header for header in headers if re.search(options.only, header))]
    times = dict.fromkeys(headers, float("inf"))
    for _ in range(options.repeat):  # in turns: a slow spell of the machine meets all of them
        for header in headers:
            times[header] = min(times[header], seconds(command, header))
    for header in sorted(headers, key=lambda header: -times[header]):
        print(f"{times[header] / times[YARDSTICK]:5.2f}  {header}")


if __name__ == "__main__":
    main()
