"""What the Python package costs beside the C ABI: a call, and the import."""

import statistics
import subprocess
import sys
import time

import peers
import table
from workers import Worker, interleave

IMPORTS = ("pass", "import numpy", "import kiln", "import kiln; kiln.load")


def _import_seconds(statement):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], cwd=peers.ROOT / "python", check=True)
    return time.perf_counter() - start


def package(options):
    """Seconds of a call of an MLP 8-8-8-8 at batch 1 through the C ABI and through Python, and of processes that import something."""
    print("== Python package", flush=True)
    workers = {}
    try:
        for system in ("kiln", "package-numpy", "package-torch"):
            workers[system] = Worker(peers.command(system, "mlp-narrow", False, 1), 1)
        calls = interleave(workers, options.seconds / 2)
        least = {system: min(worker.times) for system, worker in workers.items()}
    finally:
        for worker in workers.values():
            worker.close()
    imports = {statement: [] for statement in IMPORTS}
    for _ in range(15):
        for statement, times in imports.items():
            times.append(_import_seconds(statement))
    return {"calls": calls, "least": least, "imports": {statement: statistics.median(times) for statement, times in imports.items()}}


def show_package(results, goals):
    calls, imports = results["calls"], results["imports"]
    beyond = {system: calls[system] - calls["kiln"] for system in calls}
    print("\nCall of an MLP 8-8-8-8 in us, one thread\n")
    print(
        table.render(
            ["", "C ABI", "Python, numpy", "Python, torch"],
            [
                [title, *(table.number(row[system] * 1e6) for system in calls)]
                for title, row in (("call", calls), ("beyond the C ABI", beyond))
            ],
        )
    )
    bare = imports["pass"]
    print("\nImports in ms, beyond the start of Python\n")
    print(table.render(["", "ms"], [[statement, table.milliseconds(imports[statement] - bare)] for statement in IMPORTS[1:]]))
    for kind in ("numpy", "torch"):
        goals.add(f"call from Python with {kind} beyond the C ABI, us", beyond[f"package-{kind}"] * 1e6, 5, "")
    goals.add("import kiln, ms", (imports["import kiln"] - bare) * 1e3, 50, "")
    goals.add("import of kiln.load without numpy, ms", (imports["import kiln; kiln.load"] - imports["import numpy"]) * 1e3, 50, "")
