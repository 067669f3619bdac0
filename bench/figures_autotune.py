"""Schedules that are measured beside those that are reckoned, and what measuring them takes."""

import statistics
import tempfile

import peers
import table
from workers import Worker, interleave

CORES = 2


def _quartile(times):
    """The lower one: whatever else runs on the machine only adds to a time."""
    return statistics.quantiles(times, n=4)[0]


def measure(options):
    """Seconds of a run with either, on one thread, and of the compilations on two cores: without, with an empty cache, and with a full one."""
    results = {}
    for name in options.models:
        print(f"== autotuning of {name}", flush=True)
        folder = peers.model(name, options.tiny)
        with tempfile.TemporaryDirectory(prefix="kiln-bench-") as cache:
            tuned, cold = peers.tuned(folder, CORES, cache)
            warm = min(peers.tuned(folder, CORES, cache)[1] for _ in range(3))
        plain = peers.tuned(folder, CORES)[0]
        without = min(peers.tuned(folder, CORES)[1] for _ in range(3))
        workers = {}
        try:
            for kind, path in (("plain", plain), ("tuned", tuned)):
                workers[kind] = Worker([peers.host("kiln"), path, folder / "inputs.bin", 1], 1)
            interleave(workers, options.seconds)
            runs = {kind: _quartile(worker.times) for kind, worker in workers.items()}
        finally:
            for worker in workers.values():
                worker.close()
        is_same = plain.read_bytes() == tuned.read_bytes()
        results[name] = {"run": runs, "same": is_same, "without": without, "cold": cold, "warm": warm}
    return results


def show(results, goals):
    rows, gains = [], {}
    for name, row in results.items():
        gains[name] = 1 if row["same"] else row["run"]["plain"] / row["run"]["tuned"]
        rows.append(
            [
                name,
                *(table.milliseconds(row["run"][kind]) for kind in ("plain", "tuned")),
                "same bytes" if row["same"] else table.ratio(gains[name]),
                *(table.number(row[kind]) for kind in ("without", "cold", "warm")),
            ]
        )
    mean = table.geometric_mean(gains.values())
    rows.append(["geometric mean", "", "", table.ratio(mean), "", "", ""])
    print(f"\nAutotuning: runs in ms, lower quartile, one thread; compilations in s, {CORES} cores\n")
    print(table.render(["", "reckoned", "tuned", "ratio", "without", "cold", "warm"], rows))
    goals.add("autotuning, worst model", min(gains.values()), 1, "of the reckoned schedules' speed", at_least=True)
    goals.add("autotuning, geometric mean", mean, 1.05, "of the reckoned schedules' speed", at_least=True)
    if "bert-base" in results:
        row = results["bert-base"]
        goals.add("tuning BERT-base, empty cache, s", row["cold"], 90, "")
        goals.add("tuning BERT-base, full cache, s more than without", row["warm"] - row["without"], 1, "")
