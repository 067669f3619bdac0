"""Writes ops_metadata.json: every overload of ATen, and what Kiln does with it.

    python generator/metadata.py [--compiler build/bin/aot-compile] [-o build/ops_metadata.json]

| field | |
| --- | --- |
| `op`, `overload` | its name; `default` where PyTorch has none |
| `status` | `native`: compiled; `fallback`: run by LibTorch with --fallback=torch, as is a case that a lowering refuses; `refused` |
| `key` | `supported` or `autograd`: registered for the device "kiln" (generator/ops.yaml); null |
| `functional` | the overload that returns what this one writes; null for one that writes nothing |
| `dtypes` | what ATen's CPU kernel takes, according to PyTorch's operator tests; null where those say nothing |
| `dynamic_shapes` | sizes may be symbols, and those of the results are expressions of them; false where only data determines them |

`status` is the compiler's own answer (aot-compile --list-ops), so the file belongs to a build: `ninja ops-metadata` makes it.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

from torchgen.model import SchemaKind

from files import Files
from native_functions import NativeFunctions, native_functions, qualified
from operators import rows
from ops_yaml import Ops, read_ops
from variants import functional_form

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA_DEPENDENT = {"dynamic_output_shape", "data_dependent_output"}


def compiler_status(compiler: pathlib.Path) -> dict[str, str]:
    lines = subprocess.run([compiler, "--list-ops"], capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(line.split(" ") for line in lines)


def tested_dtypes() -> dict[str, list[str]]:
    """By the operator's name in ATen."""
    from torch.testing._internal.common_methods_invocations import op_db

    dtypes: dict[str, set] = collections.defaultdict(set)
    for entry in op_db:
        names = {entry.aten_name, *(alias.name for alias in entry.aliases)}
        for name in names:
            dtypes[name].update(str(dtype).removeprefix("torch.") for dtype in entry.dtypes)
    return {name: sorted(values) for name, values in dtypes.items()}


def describe(natives: NativeFunctions, ops: Ops, status: dict[str, str], dtypes: dict[str, list[str]]) -> list[dict]:
    listed = {"supported": ops.supported, "autograd": ops.autograd}
    keys = {form: key for key, functions in listed.items() for row in rows(functions, natives) for form in row if form}
    entries = []
    for name, function in sorted(natives.by_name.items()):
        writes = function.func.kind() != SchemaKind.functional
        functional = functional_form(function, natives) if writes else None
        target = qualified(name).removeprefix("aten.")
        returning = qualified(str(functional.func.name)).removeprefix("aten.") if functional else None
        entries.append(
            {
                "op": target.rpartition(".")[0],
                "overload": target.rpartition(".")[2],
                "status": status[f"aten.{target}"],
                "key": keys.get(name),
                "functional": returning,
                "dtypes": dtypes.get((returning or target).rpartition(".")[0]),
                "dynamic_shapes": not function.tags & DATA_DEPENDENT,
            }
        )
    return entries


def render(compiler: pathlib.Path) -> str:
    natives = native_functions()
    ops = read_ops(ROOT / "generator/ops.yaml", natives)
    entries = describe(natives, ops, compiler_status(compiler), tested_dtypes())
    return "[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--compiler", type=pathlib.Path, default=ROOT / "build/bin/aot-compile")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "build/ops_metadata.json")
    args = parser.parse_args()
    output = args.output.resolve()
    files = Files(output.parent)
    files.add(output.name, render(args.compiler.resolve()))
    files.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
