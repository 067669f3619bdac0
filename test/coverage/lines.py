"""The lines that tests have run, by folder: what llvm-cov says of programs and of the counters that they have written.

    lines.py ROOT PROFILE PROGRAM... --under FOLDER... [--missed FILE] [--least PERCENT]

A line of these folders of ROOT counts as run if it was so in some program. FILE gets the files with the most lines that no test
has run, then these lines."""

import argparse
import collections
import pathlib
import subprocess


def read(llvm_cov, profile, programs):
    """file -> line -> how often it was run"""
    objects = [argument for program in programs[1:] for argument in ("-object", program)]
    command = [llvm_cov, "export", programs[0], *objects, "-instr-profile", profile, "--format=lcov", "--skip-branches"]
    process = subprocess.Popen([*command, "--skip-functions"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    counts = collections.defaultdict(dict)
    for row in process.stdout:
        key, _, value = row.rstrip().partition(":")
        if key == "SF":
            lines = counts[pathlib.Path(value)]
        elif key == "DA":
            line, count = value.split(",")[:2]
            lines[int(line)] = lines.get(int(line), 0) + int(count)
    if process.wait() != 0:
        raise SystemExit("lines.py: error: llvm-cov fails")
    return counts


def write_missed(to, root, missed):
    for name in sorted(missed, key=lambda name: -len(missed[name])):
        to.write(f"{len(missed[name]):5} {name}\n")
    for name in sorted(missed):
        text = (root / name).read_text().splitlines()
        for line in missed[name]:
            to.write(f"{name}:{line}: {text[line - 1].strip() if line <= len(text) else ''}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("profile")
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--under", nargs="+", required=True)
    parser.add_argument("--least", type=float, default=0, help="fewer of all lines are an error")
    parser.add_argument("--missed", type=pathlib.Path, help="a file for the lines that no test has run")
    parser.add_argument("--llvm-cov", default="llvm-cov-22")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    folders, missed = collections.defaultdict(lambda: [0, 0]), {}
    for path, lines in read(arguments.llvm_cov, arguments.profile, arguments.programs).items():
        if not path.is_relative_to(root) or path.relative_to(root).parts[0] not in arguments.under:
            continue
        name = path.relative_to(root)
        missed[name] = sorted(line for line, count in lines.items() if count == 0)
        for key in ("/".join(name.parts[:-1][: 3 if "Targets" in name.parts else 2]), "all"):
            folders[key][0] += len(lines) - len(missed[name])
            folders[key][1] += len(lines)
    if arguments.missed:
        with arguments.missed.open("w") as file:
            write_missed(file, root, {name: lines for name, lines in missed.items() if lines})
    for key in sorted(folders, key=lambda key: (key == "all", key)):
        count, total = folders[key]
        print(f"{key:24} {count:7} of {total:7} lines {100 * count / total:7.2f} %")
    if 100 * count < arguments.least * total:
        raise SystemExit(f"lines.py: error: fewer than {arguments.least:g} % of the lines were run")


if __name__ == "__main__":
    main()
