"""Checks what the compiler's folders include of each other: each only folders above it in this list, and no private header of another.

`--graph` prints the includes between folders in Graphviz's language instead."""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# A folder may include those above it.
LAYERS = [
    "Sym",
    "Dialect/Sym",
    "Dialect/Kernel",
    "Dialect/Wrapper",
    "Dialect/Torch",
    "Frontend",
    "Extern",
    "Reference",
    "Transforms",
    "Lowering",
    "Codegen",
    "Host",
    "Fx",
    "Report",
    "Link",
    "Targets",
    "Targets/CPU",
    "Targets/CUDA",
    "Tuning",
    "Pipeline",
]
# Pairs that the order allows and the architecture does not.
FORBIDDEN = [("Targets/CUDA", "Targets/CPU"), ("Targets/CUDA", "Lowering"), ("Targets/CPU", "Lowering"), ("Host", "Transforms")]


def layer(path):
    """The layer of a path below include/kiln or lib."""
    for name in sorted(LAYERS, key=len, reverse=True):
        if path.startswith(name + "/"):
            return name
    raise SystemExit(f"{path} belongs to no layer: name it in {__file__}")


def includes():
    """(source, the file that it includes or None where there is none, the include as written)."""
    for top in ("include/kiln", "lib"):
        for source in sorted((ROOT / top).rglob("*")):
            if source.suffix not in (".h", ".cpp"):
                continue
            for text in re.findall(r'^#include "([^"]+)"', source.read_text(), re.MULTILINE):
                if text.startswith(("mlir/", "llvm/", "lld/")):
                    continue
                if text.startswith("kiln/"):
                    yield source, ROOT / "include" / text, text  # or generated at this place
                    continue
                folder = layer(str(source.relative_to(ROOT / top)))
                lib = ROOT / "lib"
                bases = (source.parent, lib / folder, lib / folder.split("/")[0], lib)
                yield source, next((path.resolve() for base in bases if (path := base / text).exists()), None), text


def main():
    edges = collections.Counter()
    problems = []
    for source, target, text in includes():
        place = source.relative_to(ROOT)
        own = layer(str(place).removeprefix("include/kiln/").removeprefix("lib/"))
        if target is None:
            problems.append(f"{place}: includes {text}, which is not found")
            continue
        file = str(target.relative_to(ROOT))
        if not file.startswith(("include/kiln/", "lib/")):  # another part of the project
            if str(place).startswith("include/"):
                problems.append(f"{place}: a public header includes {text}, which is not installed")
            continue
        other = layer(file.removeprefix("include/kiln/").removeprefix("lib/"))
        if own == other:
            continue
        edges[own, other] += 1
        if not text.startswith("kiln/"):
            problems.append(f"{place}: includes {text}, a private header of {other}")
        elif LAYERS.index(other) > LAYERS.index(own) or (own, other) in FORBIDDEN:
            problems.append(f"{place}: {own} must not include {other} ({text})")
    if "--graph" in sys.argv:
        lines = [f'  "{own}" -> "{other}" [label={count}];' for (own, other), count in sorted(edges.items())]
        print("\n".join(["digraph includes {", *lines, "}"]))
        return 0
    print("\n".join(problems) or f"{len(edges)} pairs of folders, all in order")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
