"""Schedules that are measured beside those that are reckoned, and what measuring them takes."""

import tempfile

import peers
import table
from workers import Worker, interleave, lower_quartile

CORES = 2


def measure(options):
    """Seconds of a run with either, on one thread, and of the compilations on two cores: without, with an empty cache, and with a full one.

    Beside them the models that another compiler has made, if there are any."""
    results = {}
    for name in options.models:
        print(f"== autotuning of {name}", flush=True)
        folder = peers.model(name, options.tiny)
        with tempfile.TemporaryDirectory(prefix="kiln-bench-") as cache:
            tuned, cold = peers.tuned(folder, CORES, cache)
            warm = min(peers.tuned(folder, CORES, cache)[1] for _ in range(3))
        plain = peers.tuned(folder, CORES)[0]
        without = min(peers.tuned(folder, CORES)[1] for _ in range(3))
        workers, paths = {}, {"plain": plain, "tuned": tuned}
        if options.before:
            paths["before"] = options.before.resolve() / f"{name}.so"
        try:
            for kind, path in paths.items():
                workers[kind] = Worker([peers.host("kiln"), path, folder / "inputs.bin", 1], 1, cpu=True)
            interleave(workers, options.seconds)
            runs = {kind: lower_quartile(worker.times) for kind, worker in workers.items()}
        finally:
            for worker in workers.values():
                worker.close()
        is_same = plain.read_bytes() == tuned.read_bytes()
        results[name] = {"run": runs, "same": is_same, "without": without, "cold": cold, "warm": warm}
    return results


def tabulate(results):
    """(headings, rows, gains of the models over the planner's schedules, gains over another compiler)."""
    rows, gains, before = [], {}, {}
    has_before = any("before" in row["run"] for row in results.values())
    for name, row in results.items():
        gains[name] = 1 if row["same"] else row["run"]["plain"] / row["run"]["tuned"]
        if "before" in row["run"]:
            before[name] = row["run"]["before"] / row["run"]["tuned"]
        rows.append(
            [
                name,
                *(table.milliseconds(row["run"].get(kind)) for kind in ("before", "plain", "tuned")[not has_before :]),
                "same bytes" if row["same"] else table.ratio(gains[name]),
                *([table.ratio(before[name]) if name in before else "-"] if has_before else []),
                *(table.number(row[kind]) for kind in ("without", "cold", "warm")),
            ]
        )
    means = [table.ratio(table.geometric_mean(values.values())) if values else "-" for values in (gains, before)[: 1 + has_before]]
    times = [*(["other compiler, ms"] if has_before else []), "reckoned, ms", "tuned, ms"]
    rows.append(["geometric mean", *[""] * len(times), *means, "", "", ""])
    headings = ["", *times, "gain", *(["over the other compiler"] if has_before else []), "without, s", "cold, s", "warm, s"]
    return headings, rows, gains, before


def show(results, goals):
    headings, rows, gains, _ = tabulate(results)
    print(f"\nAutotuning: runs by the lower quartile of CPU time, one thread; compilations with {CORES} cores\n")
    print(table.render(headings, rows))
    goals.add("autotuning, worst model", min(gains.values()), 1, "of the reckoned schedules' speed", at_least=True)
    goals.add("autotuning, geometric mean", table.geometric_mean(gains.values()), 1.05, "of the reckoned schedules' speed", at_least=True)
    if "bert-base" in results:
        row = results["bert-base"]
        goals.add("tuning BERT-base, empty cache, s", row["cold"], 90, "")
        goals.add("tuning BERT-base, full cache, s more than without", row["warm"] - row["without"], 1, "")
