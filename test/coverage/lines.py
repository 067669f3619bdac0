"""The lines that tests have run, by folder: what counters.c has collected, and the line tables of the programs.

    lines.py ROOT COUNTERS PROGRAM... [--missed FILE]

A line of ROOT's lib/ or include/ counts as run if some instruction of it lies in a basic block that was entered in some program.
Optimised code has fewer lines than the text; those that were left out count neither way."""

import argparse
import bisect
import collections
import pathlib
import re
import struct
import subprocess

ROW = re.compile(r"0x([0-9a-f]{16}) +(\d+) +\d+ +(\d+) .*")


def rows(program, dwarfdump):
    """(address, file, line) of each row of the program's line tables; the line 0 ends a sequence or is of no line"""
    process = subprocess.Popen([dwarfdump, "--debug-line", program], stdout=subprocess.PIPE, text=True)
    folders, files, number = {}, {}, 0
    for line in process.stdout:
        if line.startswith("0x"):
            if match := ROW.match(line):
                address, row, file = int(match[1], 16), int(match[2]), files.get(int(match[3]))
                yield address, file, 0 if "end_sequence" in line else row
        elif line.startswith("debug_line["):
            folders, files = {}, {}
        elif line.startswith("include_directories["):
            index, _, value = line.partition("] = ")
            folders[int(index[20:])] = value.strip().strip('"')
        elif line.startswith("file_names["):
            number = int(line[11 : line.index("]")])
        elif line.startswith("           name: "):
            files[number] = line[17:].strip().strip('"')
        elif line.startswith("      dir_index: ") and not files[number].startswith("/"):
            files[number] = f"{folders.get(int(line[17:]), '')}/{files[number]}"


def read(folder, name):
    blocks = struct.iter_unpack("<Q", (folder / f"{name}.blocks").read_bytes())
    pairs = sorted((address, counter) for (address,), counter in zip(blocks, (folder / f"{name}.counters").read_bytes()))
    return [address for address, _ in pairs], [counter for _, counter in pairs]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("counters", type=pathlib.Path)
    parser.add_argument("programs", nargs="+", type=pathlib.Path)
    parser.add_argument("--missed", type=pathlib.Path, help="a file for the lines that no test has run")
    parser.add_argument("--dwarfdump", default="llvm-dwarfdump-22")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    ran = collections.defaultdict(dict)  # file -> line -> whether it was
    names = {}
    for program in arguments.programs:
        addresses, counters = read(arguments.counters, program.name)
        for address, file, line in rows(program, arguments.dwarfdump):
            if not line or file is None:
                continue
            if file not in names:
                path = pathlib.Path(file)
                inside = path.is_relative_to(root) and path.relative_to(root).parts[0] in ("lib", "include")
                names[file] = str(path.relative_to(root)) if inside else None
            if not (name := names[file]):
                continue
            block = bisect.bisect_right(addresses, address) - 1
            lines = ran[name]
            lines[line] = lines.get(line, False) or (block >= 0 and counters[block] != 0)
    if arguments.missed:
        with arguments.missed.open("w") as file:
            for name in sorted(ran):
                text = (root / name).read_text().splitlines()
                for line in sorted(line for line, is_run in ran[name].items() if not is_run):
                    file.write(f"{name}:{line}: {text[line - 1].strip()}\n")
    folders = collections.defaultdict(lambda: [0, 0])
    for name, lines in ran.items():
        parts = pathlib.Path(name).parts
        for key in ("/".join(parts[: 3 if parts[1] == "Targets" else 2]), "all"):
            folders[key][0] += sum(lines.values())
            folders[key][1] += len(lines)
    for key in sorted(folders, key=lambda key: (key == "all", key)):
        count, total = folders[key]
        print(f"{key:24} {count:7} of {total:7} lines {100 * count / total:6.1f} %")


if __name__ == "__main__":
    main()
