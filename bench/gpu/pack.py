"""Compiles the programs of bench/gpu for machines with a GPU, into a folder that is copied there whole.

The package has no weights: parameters are filled with constants before compilation, which leaves the file of weights next
to nothing when it is compressed, and bench/gpu/run sets them to the values that the programs have there."""

import argparse
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest.mock
import zlib

import numpy
import torch

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
LIMIT = 64 << 20  # what can be copied to such a machine at once, the tree with it

sys.path[:0] = [str(FOLDER)]
from rungs import Drawn, rungs  # noqa: E402

from programs import Function, programs  # noqa: E402


def compile_program(program, name, out, options, compiler):
    with unittest.mock.patch("torch.randn", torch.empty):  # shapes are all that counts here
        module, inputs = program.make()
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.fill_(0.01 + i / 1000)
        exported = torch.export.export(module.eval(), inputs)
    exported._example_inputs = None  # up to a gigabyte
    archive, library = out / f"{name}.pt2", out / f"{name}.so"
    torch.export.save(exported, archive)
    start = time.monotonic()
    process = subprocess.run(
        [compiler, archive, "-o", library, "--target=cuda", "--weights=external", *options], capture_output=True, text=True
    )
    seconds = time.monotonic() - start
    archive.unlink()
    if process.returncode:
        return {"name": name, "failed": process.stderr.strip()[-500:]}
    weights = out / f"{name}.so.safetensors"
    if weights.exists():
        squeeze = zlib.compressobj(6)
        with open(weights, "rb") as source, open(out / f"{name}.weights.z", "wb") as target:
            while chunk := source.read(1 << 24):
                target.write(squeeze.compress(chunk))
            target.write(squeeze.flush())
        weights.unlink()
    return {
        "name": name,
        "compile_s": round(seconds, 2),
        "bytes": library.stat().st_size,
        "has_weights": (out / f"{name}.weights.z").exists(),
    }


def widen(value):
    return value.double() if value.is_floating_point() else value


def find_kernels(rung, library, temps):
    """The kernels that have to run: variants where there are some and they are not switched off. In `temps` is the PTX, which has to have what
    the rung is there for."""
    names = {name.decode() for name in re.findall(rb"\0([a-z]+(?:_[a-z]+)*_\d+\w*)\0", library.read_bytes())}
    found = []
    for prefix, instruction in rung.kernels.items():
        mine = [name for name in names if re.fullmatch(rf"{prefix}_\d+(_in_place)?(_sm_90a)?", name)]
        variants = [name for name in mine if name.endswith("_sm_90a")]
        if rung.environment.get("KILN_CUDA_VARIANTS") == "0":
            mine = [name for name in mine if name not in variants]
        elif variants:
            mine = variants
        if temps and instruction:
            text = {name: "".join(path.read_text() for path in temps.glob(f"{name}.*.ptx")) for name in mine}
            mine = [name for name in mine if re.search(instruction, text[name], re.DOTALL)]
        if not mine:
            raise ValueError(f"no kernel {prefix}_* with {instruction or 'any instruction'} among {', '.join(sorted(names))}")
        found += mine
    return sorted(found)


def compile_rung(name, rung, out, arch, compiler):
    inputs = [value.tensor() if isinstance(value, Drawn) else value for value in rung.inputs]
    folder = out / "ladder"
    folder.mkdir(exist_ok=True)
    archive, library = folder / f"{name}.pt2", folder / f"{name}.so"
    exported = torch.export.export(Function(rung.function), tuple(value.clone() for value in inputs))
    torch.export.save(exported, archive)
    with tempfile.TemporaryDirectory() as scratch:
        temps = pathlib.Path(scratch)
        save = [] if arch == "emulator" else [f"--save-temps={temps}"]
        command = [compiler, archive, "-o", library, "--target=cuda", f"--gpu-arch={arch}", *save]
        process = subprocess.run(command, capture_output=True, text=True)
        archive.unlink()
        if process.returncode:
            return {"name": name, "failed": process.stderr.strip()[-500:]}
        kernels = find_kernels(rung, library, temps if save else None)
    exact = [widen(value.clone()) for value in inputs]
    with torch.no_grad():
        outputs = rung.function(*exact)
    outputs = [*(outputs if isinstance(outputs, (tuple, list)) else [outputs]), *(exact[i] for i in rung.written)]
    # Rounded as the program rounds them, once.
    given = exported.graph.output_node().args[0][len(rung.written) - len(outputs) :]
    types = [*(node.meta["val"].dtype for node in given), *(inputs[i].dtype for i in rung.written)]
    arrays = {f"in{i}": value.numpy() for i, value in enumerate(rung.inputs) if not isinstance(value, Drawn)}
    arrays |= {f"out{i}": value.to(type).numpy() for i, (value, type) in enumerate(zip(outputs, types, strict=True))}
    numpy.savez_compressed(folder / f"{name}.npz", **arrays)
    return {
        "name": name,
        "kernels": kernels,
        "inputs": [dataclasses.asdict(value) if isinstance(value, Drawn) else None for value in rung.inputs],
        "written": rung.written,
        "tolerance": rung.tolerance,
        "environment": rung.environment,
        "calls": rung.calls,
        "bytes": library.stat().st_size,
    }


def parse_options():
    parser = argparse.ArgumentParser(prog="bench/gpu/pack", description=__doc__)
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "build" / "gpu-package", help="the folder to make (default: build/gpu-package)"
    )
    parser.add_argument("--compiler", default=str(ROOT / "build" / "bin" / "aot-compile"))
    parser.add_argument("--arch", default="sm_90", help="GPUs, as for aot-compile (default: sm_90)")
    parser.add_argument("--only", default="", metavar="REGEX", help="programs whose name has this in it")
    parser.add_argument("--ladder", default="", metavar="REGEX", help="rungs of the ladder likewise")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for the emulator: to try the benchmark itself")
    return parser.parse_args()


def main():
    options = parse_options()
    torch.set_num_threads(2)
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    arch = "emulator" if options.tiny else options.arch
    made = []
    for name, program in programs(options.tiny).items():
        if re.search(options.only, name):
            made.append(compile_program(program, name, options.out, [f"--gpu-arch={arch}"], options.compiler))
            print(json.dumps(made[-1]), flush=True)
    ladder = []
    for name, rung in rungs(options.tiny).items():
        if re.search(options.ladder, name):
            ladder.append(compile_rung(name, rung, options.out, arch, options.compiler))
            print(json.dumps(ladder[-1]), flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    (options.out / "manifest.json").write_text(
        json.dumps({"tiny": options.tiny, "arch": arch, "commit": commit, "programs": made, "ladder": ladder}, indent=1)
    )
    shutil.copytree(ROOT / "python" / "kiln", options.out / "kiln", ignore=shutil.ignore_patterns("__pycache__"))
    for script in (
        "run",
        "ladder.py",
        "programs.py",
        "machine.py",
        "measure.py",
        "replay.py",
        "seeded.py",
        "tools.py",
        "report.py",
        "aoti.py",
    ):
        shutil.copy(FOLDER / script, options.out)
    tree = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True).stdout.split("\0")
    beside = sum((ROOT / name).stat().st_size for name in tree if name and (ROOT / name).is_file())
    size = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file())
    print(f"{options.out}: {size / (1 << 20):.1f} MiB, with the tree {(size + beside) / (1 << 20):.1f} MiB of at most {LIMIT >> 20}")
    if size + beside > LIMIT:
        sys.exit("bench/gpu/pack: error: the package is too large: leave programs out (--only), or name fewer GPUs (--arch)")
    failed = [entry["name"] for entry in made + ladder if "failed" in entry]
    if failed:
        sys.exit(f"bench/gpu/pack: error: not compiled: {', '.join(failed)}")


if __name__ == "__main__":
    main()
