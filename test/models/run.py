#!/usr/bin/env python3
"""Compiles the architectures of architectures.py and compares each with PyTorch running the exported program, static and dynamic.

    test/models/run.py                        all of them; exported programs are kept in .cache/architectures
    test/models/run.py --only 'bert|llama'    those whose name matches; --kind static or dynamic for one of the two
    test/models/run.py --target emulator      the kernels for GPUs, in the emulator (docs/cuda.md)
    test/models/run.py --target ptxas         makes machine code for GPUs of all, and looks for what is not kept in registers
    test/models/run.py --document             writes docs/models.md from the last result of each on the CPU

A dynamic program is exported with sizes that it may specialise (`Dim.AUTO`), runs at two sizes, and counts only if a dim is
still symbolic. The exit status says whether everything that ran is right."""

import argparse
import hashlib
import inspect
import json
import logging
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build"))
os.environ.setdefault("KILN_CUDA_DRIVER", str(BUILD / "test" / "Targets" / "CUDA" / "emulator" / "libcuda.so.1"))
sys.path.append(str(HERE.parent))

from ptxas_reports import find_problems  # noqa: E402

CACHE = ROOT / ".cache" / "architectures"
RESULTS = CACHE / "results.json"
SIZES = {"static": (2,), "dynamic": (2, 3)}
TOLERANCE = 1e-4  # of the range of an output
TARGETS = {"cpu": [], "emulator": ["--target=cuda", "--gpu-arch=emulator"], "ptxas": ["--target=cuda", "--gpu-arch=sm_80,sm_90"]}


# ===-- In a process of its own: export, and run --------------------------------------------------===#


def wrap(model, names):
    """A module that takes the inputs by position and gives the first floating-point outputs."""
    import torch
    from torch.utils import _pytree as pytree

    class Positional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *tensors):
            output = self.model(**dict(zip(names, tensors)))
            leaves = pytree.tree_leaves(tuple(output.values()) if hasattr(output, "values") else output)
            return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()][:4]

    return Positional().eval()


def export(name, kind, folder):
    """Writes model.pt2, and inputs and expected outputs for each size."""
    import torch

    import architectures

    architecture = architectures.ARCHITECTURES[name]
    model, config = architecture.build()
    cases = []
    for size in SIZES[kind]:
        inputs = architecture.inputs(config, size)
        tensors = {key: tensor for key, (tensor, _) in inputs.items()}
        dims = {key: dims for key, (_, dims) in inputs.items()}
        cases.append(tensors)
    module = wrap(model, list(cases[0]))
    with torch.no_grad():
        shapes = None
        if kind == "dynamic":
            shapes = (tuple({dim: torch.export.Dim.AUTO for dim in named} for named in dims.values()),)
        program = torch.export.export(module, tuple(cases[0].values()), dynamic_shapes=shapes, strict=False)
        constant = {
            named[dim]
            for named, node in zip(dims.values(), user_inputs(program), strict=True)
            for dim in named
            if not is_symbol(node.meta["val"].shape[dim])
        }
        # What export made constant in one input has the size of the first case in all cases, which is the least.
        for tensors in cases[1:]:
            for key, named in dims.items():
                for dim in (dim for dim, name in named.items() if name in constant):
                    tensors[key] = tensors[key].narrow(dim, 0, cases[0][key].shape[dim]).contiguous()
        expected = [program.module()(*tensors.values()) for tensors in cases]
    symbolic = sorted({name for named in dims.values() for name in named.values()} - constant if kind == "dynamic" else ())
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, folder / "model.pt2")
    torch.save([(list(tensors.values()), outputs) for tensors, outputs in zip(cases, expected)], folder / "cases.pt")
    (folder / "export.json").write_text(json.dumps(dict(key=key_of(name, kind), symbolic=symbolic)))


def is_symbol(size):
    """Also a symbol may have been made constant."""
    return not isinstance(size, int) and size.node.maybe_as_int() is None


def user_inputs(program):
    names = set(program.graph_signature.user_inputs)
    return [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]


def check(folder):
    """Runs the compiled model on every case; the first difference is an error."""
    import torch

    sys.path.insert(0, str(ROOT / "python"))
    import kiln

    model = kiln.load(folder / "model.so", threads=1)
    symbolic = json.loads((folder / "export.json").read_text())["symbolic"]
    for number, (inputs, expected) in enumerate(torch.load(folder / "cases.pt")):
        if number > 0 and not symbolic:
            break
        actual = model(*inputs)
        actual = actual if isinstance(actual, (tuple, list)) else [actual]
        for i, (got, want) in enumerate(zip(actual, expected, strict=True)):
            if got.shape != want.shape or got.dtype != want.dtype:
                sys.exit(f"output {i}: {list(got.shape)} {got.dtype} instead of {list(want.shape)} {want.dtype}")
            finite = want[want.isfinite()]
            scale = float(finite.max() - finite.min()) if finite.numel() else 1.0
            if not torch.allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE * max(scale, 1e-3), equal_nan=True):
                error = float((got - want).abs().nan_to_num(nan=float("inf")).max())
                sys.exit(f"output {i} of case {number} is off by {error:.3g} in a range of {scale:.3g}")


# ===-- The parent -----------------------------------------------------------------------------===#


def key_of(name, kind):
    """What an exported program depends on."""
    import torch
    import transformers

    import architectures

    architecture = architectures.ARCHITECTURES[name]
    texts = [
        repr(architecture.options),
        repr(architectures.SMALL),
        architecture.model,
        inspect.getsource(architecture.inputs),
        repr(SIZES[kind]),
        torch.__version__,
        transformers.__version__,
    ]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def forked(function, *arguments, timeout=900):
    """(succeeded, what went wrong) of a function in a process of its own, which begins with the libraries imported."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def target():
        try:
            function(*arguments)
            sender.send(None)
        except (Exception, SystemExit) as error:  # what the libraries may raise is not ours to list
            name = "" if isinstance(error, SystemExit) else f"{type(error).__name__}: "
            sender.send(name + " ".join(str(error).split())[:300])

    process = multiprocessing.get_context("fork").Process(target=target)
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        return False, "takes too long"
    if receiver.poll():
        said = receiver.recv()
        return said is None, said or ""
    return False, f"signal {-process.exitcode}" if process.exitcode < 0 else f"exit status {process.exitcode}"


def run(name, kind, target):
    """The state of one program, as a dictionary."""
    folder = CACHE / f"{name}-{kind}"
    record = folder / "export.json"
    if not is_exported(name, kind):
        record.unlink(missing_ok=True)
        succeeded, said = forked(export, name, kind, folder)
        if not succeeded:
            return dict(state="not exported", reason=said)
    symbolic = json.loads(record.read_text())["symbolic"]
    start = time.time()
    with tempfile.TemporaryDirectory() as temps:
        keep = [f"--save-temps={temps}"] if target == "ptxas" else []
        process = subprocess.run(
            [BUILD / "bin" / "aot-compile", folder / "model.pt2", "-o", folder / "model.so", *TARGETS[target], *keep],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=900,
        )
        problems = find_problems(pathlib.Path(temps))
    seconds = round(time.time() - start, 2)
    if process.returncode != 0:
        lines = [line for line in process.stderr.splitlines() if "error: " in line] or [f"exit status {process.returncode}"]
        return dict(
            state="refused" if process.returncode == 1 else "crash", reason=lines[0].split("error: ", 1)[-1][:400], symbolic=symbolic
        )
    succeeded, said = (not problems, " ".join(problems)) if target == "ptxas" else forked(check, folder)
    (folder / "model.so").unlink()
    return dict(state="right" if succeeded else "wrong", reason="" if succeeded else said, symbolic=symbolic, seconds=seconds)


def is_exported(name, kind):
    record = CACHE / f"{name}-{kind}" / "export.json"
    return record.exists() and json.loads(record.read_text())["key"] == key_of(name, kind)


def document(results):
    import transformers

    import architectures

    known = architectures.ARCHITECTURES
    right = {kind: sum(results.get(f"{name} {kind}", {}).get("state") == "right" for name in known) for kind in SIZES}
    exported = {kind: sum(results.get(f"{name} {kind}", {}).get("state") not in (None, "not exported") for name in known) for kind in SIZES}

    def cell(name, kind):
        result = results.get(f"{name} {kind}")
        if result is None:
            return "not run"
        if result["state"] == "right" and kind == "dynamic":
            return "right: " + ", ".join(result["symbolic"]) if result["symbolic"] else "right; export made every size constant"
        reason = re.sub(r"\s+", " ", result["reason"]).replace("|", "\\|")
        return result["state"] + (f": {reason[:160]}" if reason else "")

    lines = [
        "# Architectures",
        "",
        f"Small random configurations of `transformers` {transformers.__version__}, exported as they are, compiled without LibTorch and compared with",
        f"PyTorch running the exported program: every output within {TOLERANCE} of its range. Written by `test/models/run.py --document`.",
        "",
        "| | exported | right |",
        "| --- | --- | --- |",
        f"| static | {exported['static']} of {len(known)} | {right['static']} |",
        f"| dynamic | {exported['dynamic']} of {len(known)} | {right['dynamic']} |",
        "",
        "A dynamic program runs at two sizes; the column names the dims that stayed symbolic in the exported program. `torch.export` refuses",
        f"{', '.join(architectures.NOT_EXPORTED)}, whose Python code decides on values of tensors.",
    ]
    for family in dict.fromkeys(architecture.family for architecture in known.values()):
        lines += ["", f"## {family.capitalize()}", "", "| architecture | class | static | dynamic |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {name} | {architecture.model} | {cell(name, 'static')} | {cell(name, 'dynamic')} |"
            for name, architecture in known.items()
            if architecture.family == family
        ]
    (ROOT / "docs" / "models.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--kind", choices=list(SIZES))
    parser.add_argument("--target", choices=list(TARGETS), default="cpu")
    parser.add_argument("--document", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    import torch

    import architectures

    torch.set_num_threads(1)  # a process that has threads cannot be forked
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if options.document:
        return document(results)
    failed = 0
    for name in architectures.ARCHITECTURES:
        for kind in [options.kind] if options.kind else SIZES:
            if not re.search(options.only, name):
                continue
            result = run(name, kind, options.target)
            failed += result["state"] != "right"
            print(f"{name} {kind}: {result['state']} {result['reason']}", flush=True)
            if options.target != "cpu":
                continue
            results = {**(json.loads(RESULTS.read_text()) if RESULTS.exists() else {}), f"{name} {kind}": result}
            CACHE.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=0))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
