"""`torch.compile` with Kiln beside Inductor: the first call, which compiles, and the ones after."""

import os
import pathlib
import shutil
import statistics
import sys
import tempfile

import peers
import table
from workers import Worker, interleave

BACKENDS = ["kiln", "inductor"]
FROZEN = [f"{backend}-frozen" for backend in BACKENDS]
ROUNDS = 3
DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "docs" / "torch-compile.md"


def _start(backend, cache, name, options, threads):
    """A process that has made its first call, and the seconds of that: all, and those in the backend."""
    size = "tiny" if options.tiny else "published"
    worker = Worker([sys.executable, peers.HOSTS / "dynamo.py", backend, cache, name, size, threads], threads, preamble=1)
    return worker, [int(field) * 1e-9 for field in worker.preamble[0].split()]


def measure(options):
    """Seconds of the first call with empty caches, on all cores, and of the others on one thread, for each model."""
    results, cores = {}, len(os.sched_getaffinity(0))
    for name in options.models:
        print(f"== torch.compile of {name}", flush=True)
        first = {backend: [] for backend in BACKENDS}
        with tempfile.TemporaryDirectory(prefix="kiln-bench-") as folder:
            caches = {backend: os.path.join(folder, backend) for backend in BACKENDS}
            for _ in range(ROUNDS):
                for backend in BACKENDS:
                    shutil.rmtree(caches[backend], ignore_errors=True)
                    worker, seconds = _start(backend, caches[backend], name, options, cores)
                    worker.close()
                    first[backend].append(seconds)
            workers = {backend: _start(backend, caches[backend], name, options, 1)[0] for backend in BACKENDS}
            try:
                runs = interleave(workers, options.seconds)
            finally:
                for worker in workers.values():
                    worker.close()
        medians = {backend: [statistics.median(times) for times in zip(*rounds)] for backend, rounds in first.items()}
        results[name] = {"run": runs}
        results[name]["first"], results[name]["backend"] = ({backend: row[i] for backend, row in medians.items()} for i in range(2))
    return results


def tabulate(results):
    """(headings, rows, ratios of the first call, ratios of the others)"""
    rows, ratios = [], {"first": [], "run": []}
    for name, row in results.items():
        for part, values in ratios.items():
            values.append(row[part]["kiln"] / row[part]["inductor"])
        first = [f"{table.number(row['first'][backend])} ({table.number(row['backend'][backend])})" for backend in BACKENDS]
        runs = [table.milliseconds(row["run"][backend]) for backend in BACKENDS]
        rows.append([name, *first, table.ratio(ratios["first"][-1]), *runs, table.ratio(ratios["run"][-1])])
    means = {part: table.ratio(table.geometric_mean(values)) for part, values in ratios.items()}
    rows.append(["geometric mean", "", "", means["first"], "", "", means["run"]])
    headings = ["", "first call, s: Kiln", "Inductor", "ratio", "others, ms: Kiln", "Inductor", "ratio"]
    return headings, rows, ratios["first"], ratios["run"]


def show(results, goals):
    headings, rows, first, others = tabulate(results)
    print("\ntorch.compile: the first call on all cores (of which in the backend), and the others on one thread, medians\n")
    print(table.render(headings, rows))
    goals.add("torch.compile, first call, worst model", max(first), 0.2, "of Inductor's")
    goals.add("torch.compile, other calls, worst model", max(others), 0.9, "of Inductor's")


def measure_frozen(options):
    """Seconds of a call on one thread with weights that are kept packed."""
    results, cores = {}, len(os.sched_getaffinity(0))
    for name in options.models:
        print(f"== torch.compile of {name}, frozen", flush=True)
        with tempfile.TemporaryDirectory(prefix="kiln-bench-") as folder:
            workers = {}
            try:
                for backend in FROZEN:
                    cache = os.path.join(folder, backend)
                    _start(backend, cache, name, options, cores)[0].close()
                    workers[backend] = _start(backend, cache, name, options, 1)[0]
                results[name] = interleave(workers, options.seconds)
            finally:
                for worker in workers.values():
                    worker.close()
    return results


def tabulate_frozen(results):
    rows, ratios = [], []
    for name, runs in results.items():
        ratios.append(runs[FROZEN[0]] / runs[FROZEN[1]])
        rows.append([name, *(table.milliseconds(runs[backend]) for backend in FROZEN), table.ratio(ratios[-1])])
    rows.append(["geometric mean", "", "", table.ratio(table.geometric_mean(ratios))])
    return ["", "Kiln, ms", "Inductor", "ratio"], rows


def show_frozen(results, goals):
    headings, rows = tabulate_frozen(results)
    print("\ntorch.compile with weights that are kept packed: calls after the first on one thread, medians\n")
    print(table.render(headings, rows))


TABLES = {"torch-compile": tabulate, "torch-compile-frozen": tabulate_frozen}


def document(results, part):
    """Writes what this run has measured into docs/torch-compile.md."""
    table.write_section(f"bench/run --only {part} --document", results, *TABLES[part](results[part])[:2], document=DOCUMENT)
