"""Single kernels beside what limits them: the rate of multiply-adds or of reading, the time of a copy, or eager PyTorch; one thread."""

import kernels
import peers
import table
from figures import start_workers
from workers import Worker, interleave

SYSTEMS = ["kiln", "kiln-reuse", "eager"]
# What a figure is a share of, or a multiple of.
MEANINGS = {"fma": "of the FMA peak", "read": "of the rate of reading", "copy": "times a copy", "eager": "of eager's time"}
AT_LEAST = ("fma", "read")


def _limit(kernel):
    """The process that does as much as the machine can; None: eager PyTorch is what counts."""
    commands = {"fma": [peers.host("peak")], "read": [peers.host("rates"), "read"], "copy": [peers.host("copy"), kernel.work]}
    return Worker(commands[kernel.limit], 1, preamble=int(kernel.limit in AT_LEAST)) if kernel.limit in commands else None


def measure(options):
    """Median seconds of each system for each kernel, and those of its limit, by the kernel's name."""
    results = {}
    for name, kernel in kernels.KERNELS.items():
        print(f"== {kernel.family}: {name}", flush=True)
        workers = start_workers(SYSTEMS, kernels.PREFIX + name, False, 1)
        limit = _limit(kernel)
        try:
            medians = interleave({**workers, **({"limit": limit} if limit else {})}, options.seconds / 3, rounds=6)
            seconds = medians.pop("limit", medians.get("eager"))
            if seconds and limit and limit.preamble:
                seconds *= kernel.work / int(limit.preamble[0])
            results[name] = {"seconds": medians, "limit": seconds}
        finally:
            for worker in [*workers.values(), *([limit] if limit else [])]:
                worker.close()
    return results


def figure(name, row, system="kiln-reuse"):
    """The share of a limit that a system reaches, or the multiple of its time; None: it was not measured."""
    seconds, limit = row["seconds"].get(system), row["limit"]
    if not seconds or not limit:
        return None
    return limit / seconds if kernels.KERNELS[name].limit in AT_LEAST else seconds / limit


def tabulate(results):
    rows = []
    for name, row in results.items():
        kernel = kernels.KERNELS[name]
        goal = f"{'>=' if kernel.limit in AT_LEAST else '<='} {kernel.goal:g}"
        times = (table.number(row["seconds"][system] * 1e6) if system in row["seconds"] else "-" for system in SYSTEMS)
        figures = (table.number(figure(name, row, system)) for system in ("kiln-reuse", "eager"))
        rows.append([f"{kernel.family}: {name}", *times, *figures, goal, MEANINGS[kernel.limit]])
    return ["", "Kiln, us", "outputs reused", "eager", "Kiln", "eager", "goal", ""], rows


def show(results, goals):
    print("\nSingle kernels, one thread, medians; the fourth and fifth columns are in the unit of the last, outputs reused\n")
    print(table.render(*tabulate(results)))
    for name, row in results.items():
        kernel = kernels.KERNELS[name]
        goals.add(f"{kernel.family}: {name}", figure(name, row), kernel.goal, MEANINGS[kernel.limit], kernel.limit in AT_LEAST)
