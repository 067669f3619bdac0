"""Kiln's own contracts beside oneDNN's, on the shapes of the ten models: products and convolutions, one thread."""

import math
import pathlib
import re
import statistics

import numpy

import peers
import table
from workers import Worker, interleave, lower_quartile

EXTERN = "--extern=onednn{elsewhere=true}"
SYSTEMS = ["own", "generated", "onednn"]


def _oneDNN():
    """(folder with the headers, library) that the build has found."""
    cache = peers.ROOT / "build" / "CMakeCache.txt"
    found = dict(re.findall(r"^KILN_ONEDNN_(INCLUDE|LIBRARY):\w+=(.*)$", cache.read_text(), re.M)) if cache.exists() else {}
    if len(found) < 2 or any(value.endswith("NOTFOUND") for value in found.values()):
        raise peers.Unavailable("the build has found no oneDNN (docs/building.md)")
    return found["INCLUDE"], pathlib.Path(found["LIBRARY"])


def _host():
    """The program that calls oneDNN."""
    include, library = _oneDNN()
    flags = ["-O2", "-std=c++20", f"-idirafter{include}", f"-Wl,-rpath,{library.parent}", "-Wl,--disable-new-dtags"]
    return peers.host("onednn", [*flags, "-Wl,--allow-shlib-undefined", library])


def _integers(text):
    return [int(number) for number in re.findall(r"-?\d+", text)]


def contracts(folder):
    """The products and convolutions of a model that oneDNN could have, without what comes behind them: for each its description."""
    text = peers.run_compiler([folder / "model.pt2", "--emit=kernel", "-o", "-", EXTERN])
    found = set()
    pattern = r'kernel\.extern "onednn" "(matmul|convolution)"\([^)]*\) args = \[(.*)\] projection.* : \((.*)\) -> (tensor<\S*>)'
    for kind, arguments, operands, result in re.findall(pattern, text):
        tensors = [tuple(_integers(shape.rsplit("x", 1)[0])) for shape in re.findall(r"tensor<([^>]*)>", operands + result)]
        values = re.findall(r"\[[^\]]*\]|#sym\.arg<\d+>|unit|true|false", arguments)
        indices = [int(value[9:-1]) for value in values[:3] if value.startswith("#")]
        has_bias = values[2] != "unit"
        source, weights, to = tensors[indices[0]], tensors[indices[1]], tensors[-1]
        if kind == "matmul":
            is_transposed = values[3] == "true"
            n = weights[-2] if is_transposed else weights[-1]
            batch = math.prod(source[:-2]) if len(weights) > 2 else 0
            m = source[-2] if batch else math.prod(source[:-1])
            found.add(("matmul", batch, m, n, source[-1], int(is_transposed), int(has_bias), int(not batch)))
        else:
            strides, padding, dilation, (groups,) = (tuple(_integers(value)) for value in values[3:7])
            found.add(("convolution", groups, int(has_bias), len(source), *source, *weights, *to, *strides, *padding, *dilation))
    return sorted(found)


def module(contract):
    """(module, inputs) that are this contract and nothing else."""
    import torch

    kind, *numbers = contract
    if kind == "matmul":
        batch, m, n, k, is_transposed, has_bias, is_constant = numbers

        class Product(torch.nn.Module):
            def forward(self, x, y):
                return x @ (y.transpose(-1, -2) if is_transposed else y)

        class Addmm(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weights, self.bias = torch.nn.Parameter(torch.randn(k, n)), torch.nn.Parameter(torch.randn(n))

            def forward(self, x):
                return torch.addmm(self.bias, x, self.weights) if has_bias else torch.mm(x, self.weights)

        if not is_constant:
            return Product(), (torch.randn(batch, m, k), torch.randn(batch, n, k) if is_transposed else torch.randn(batch, k, n))
        return torch.nn.Linear(k, n, bias=bool(has_bias)) if is_transposed else Addmm(), (torch.randn(m, k),)
    groups, has_bias, rank = numbers[:3]
    rest = iter(numbers[3:])
    source, weights, _, strides, padding, dilation = ([next(rest) for _ in range(count)] for count in (rank, rank, rank, *(rank - 2,) * 3))
    of = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)[rank - 3]
    return of(source[1], weights[0], weights[2:], strides, padding, dilation, groups, bool(has_bias)), (torch.randn(source),)


def export(contract):
    """Folder of the contract as a model."""
    import torch

    folder = peers.CACHE / "contracts" / "-".join(map(str, contract))
    if not (folder / "stamp").exists():
        folder.mkdir(parents=True, exist_ok=True)
        program, inputs = module(contract)
        torch.export.save(torch.export.export(program.eval().requires_grad_(False), inputs), folder / "model.pt2")
        peers.write_inputs([numpy.ascontiguousarray(value.numpy()) for value in inputs], folder / "inputs.bin")
        (folder / "stamp").write_text("-".join(map(str, contract)))
    return folder


def _start(system, contract, folder):
    if system == "onednn":
        return Worker([_host(), *contract], 1, cpu=True)
    options = (EXTERN,) if system == "generated" else ()
    model, _ = peers.kiln(folder, options=options, variant="-onednn" if options else "")
    return Worker([peers.host("kiln"), model, folder / "inputs.bin", 1, "reuse"], 1, cpu=True)


def _measure(contract, seconds):
    folder, running = export(contract), {}
    try:
        for system in SYSTEMS:
            try:
                running[system] = _start(system, contract, folder)
            except peers.Unavailable as error:
                print(f"   {' '.join(map(str, contract))}: no {system}: {error}", flush=True)
        interleave(running, seconds, rounds=6)
        return {system: lower_quartile(worker.times) for system, worker in running.items()}
    finally:
        for worker in running.values():
            worker.close()


def measure(options):
    """Lower quartile of the seconds of CPU time of each system for each contract of the models, by its description."""
    _host()
    where = {}
    for name in options.models:
        for contract in contracts(peers.model(name, options.tiny)):
            where.setdefault(contract, []).append(name)
    print(f"== {len(where)} contracts beside oneDNN's", flush=True)
    return {" ".join(map(str, contract)): {"models": names, **_measure(contract, options.seconds / 6)} for contract, names in where.items()}


def show(results, goals):
    results = {contract: row for contract, row in results.items() if "onednn" in row and "own" in row}
    ratios = {contract: row["onednn"] / row["own"] for contract, row in results.items()}
    rows = [
        [contract, ", ".join(row["models"]), *(table.milliseconds(row.get(system)) for system in SYSTEMS), table.ratio(ratios[contract])]
        for contract, row in sorted(results.items(), key=lambda item: ratios[item[0]])
    ]
    print("\nContracts in ms, one thread; the ratio is oneDNN's time, with its weights in its own order, over Kiln's\n")
    print(table.render(["contract", "models", "Kiln", "--extern=onednn", "oneDNN", "ratio"], rows))
    for kind in ("matmul", "convolution"):
        some = [ratio for contract, ratio in ratios.items() if contract.startswith(kind)]
        if some:
            print(f"geometric mean of {len(some)} of {kind}: {statistics.geometric_mean(some):.2f}")
    mean = statistics.geometric_mean(ratios.values()) if ratios else None
    goals.add("own contracts against oneDNN's, geometric mean", mean, 1.0, "of oneDNN's rate", at_least=True)
