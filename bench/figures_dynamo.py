"""`torch.compile` with Kiln beside Inductor: the first call, which compiles, and the ones after."""

import os
import shutil
import statistics
import sys
import tempfile

import peers
import table
from workers import Worker, interleave

BACKENDS = ["kiln", "inductor"]
ROUNDS = 3


def _start(backend, cache, name, options, threads):
    """A process that has made its first call, and its seconds."""
    size = "tiny" if options.tiny else "published"
    worker = Worker([sys.executable, peers.HOSTS / "dynamo.py", backend, cache, name, size, threads], threads, preamble=1)
    return worker, int(worker.preamble[0]) * 1e-9


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
        results[name] = {"first": {backend: statistics.median(times) for backend, times in first.items()}, "run": runs}
    return results


def show(results, goals):
    rows, ratios = [], {"first": [], "run": []}
    for name, row in results.items():
        for part, values in ratios.items():
            values.append(row[part]["kiln"] / row[part]["inductor"])
        rows.append(
            [
                name,
                *(table.number(row["first"][backend]) for backend in BACKENDS),
                table.ratio(ratios["first"][-1]),
                *(table.milliseconds(row["run"][backend]) for backend in BACKENDS),
                table.ratio(ratios["run"][-1]),
            ]
        )
    means = {part: table.geometric_mean(values) for part, values in ratios.items()}
    rows.append(["geometric mean", "", "", table.ratio(means["first"]), "", "", table.ratio(means["run"])])
    print("\ntorch.compile: the first call in s, all cores, and the others in ms, median, one thread\n")
    print(table.render(["", "Kiln", "Inductor", "ratio", "Kiln", "Inductor", "ratio"], rows))
    goals.add("torch.compile, first call, worst model", max(ratios["first"]), 0.2, "of Inductor's")
    goals.add("torch.compile, other calls, worst model", max(ratios["run"]), 0.9, "of Inductor's")
