"""Writes everything in this repository that is made from PyTorch's operator definitions.

python generator/generate.py              write what has changed
python generator/generate.py --dry-run    list what would be written
python generator/generate.py --check      exit with 1 if anything would be
"""

import argparse
import pathlib
import sys

import operators
import schema_table
import variants
from files import Files
from native_functions import native_functions
from ops_yaml import OpsError, read_ops

ROOT = pathlib.Path(__file__).resolve().parent.parent


def generate(ops_path: pathlib.Path, root: pathlib.Path) -> Files:
    natives = native_functions()
    try:
        name = str(ops_path.relative_to(ROOT))
    except ValueError:
        name = str(ops_path)
    ops = read_ops(ops_path, natives, name)
    files = Files(root)
    files.add("lib/Dialect/Torch/AtenSchema.inc", schema_table.render(natives))
    files.add("lib/Dialect/Torch/AtenVariants.inc", variants.render(natives))
    files.add("runtime/torch/Operators.inc", operators.render(ops, natives))
    return files


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="generate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=pathlib.Path, default=ROOT / "generator/ops.yaml", help="the list of operators")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the folder under which files are written")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="write nothing, list what would be written")
    mode.add_argument("--check", action="store_true", help="write nothing, fail if something would be written")
    args = parser.parse_args(arguments)
    try:
        files = generate(args.ops.resolve(), args.root.resolve())
    except (OpsError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    changed = files.changed() if args.dry_run or args.check else files.write()
    for path in changed:
        print(path.relative_to(files.root))
    if args.check and changed:
        print("\n".join(files.differences()))
        print("generated files are out of date: run generator/generate.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
