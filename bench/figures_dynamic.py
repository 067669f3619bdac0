"""What dynamic dimensions cost: latency, compile time and the start of a run, beside static models and AOTInductor's dynamic ones."""

import statistics

import dynamic
import models
import peers
import table
from workers import Worker, interleave


def _static(name, tiny, row):
    """(`.so` of the model exported for these sizes alone, file of inputs of these sizes)"""
    folder = dynamic.export(name, tiny, row)
    inputs = folder / "inputs.bin"
    if not inputs.exists() or inputs.stat().st_mtime < (folder / "stamp").stat().st_mtime:
        _, config = dynamic.build(name, tiny)
        peers.write_inputs([tensor.numpy() for tensor in models.flatten(dynamic.inputs(name, config, row))], inputs)
    return peers.kiln(folder)[0], inputs


def _title(row):
    return ", ".join(f"{dim} {size}" for dim, size in row.items())


def _rows(options, name):
    return dynamic.rows(name, options.tiny, timed=True)[: options.sizes]


def _start_workers(commands, name):
    workers = {}
    for system, command in commands.items():
        try:
            workers[system] = Worker(command, 1)
        except peers.Unavailable as error:
            print(f"   {name}: no {system}: {error}", flush=True)
    return workers


def _close(workers):
    for worker in workers.values():
        worker.close()


def latency(options):
    """Seconds of a run of each system at each combination of sizes."""
    results = {}
    for name in options.dynamic:
        results[name] = []
        folder = dynamic.export(name, options.tiny)
        library = peers.kiln(folder)[0]
        package = []
        try:
            package = [("aoti", [peers.host("aoti"), peers.aoti(folder, "default")[0]])]
        except peers.Unavailable as error:
            print(f"   {name}: no AOTInductor: {error}", flush=True)
        for row in _rows(options, name):
            print(f"== dynamic {name}: {_title(row)}", flush=True)
            static, inputs = _static(name, options.tiny, row)
            commands = {"dynamic": [peers.host("kiln"), library], "static": [peers.host("kiln"), static], **dict(package)}
            workers = _start_workers({system: [*command, inputs, 1] for system, command in commands.items()}, name)
            try:
                medians = interleave(workers, options.seconds / 2)
                results[name].append(
                    {"sizes": row, "median": medians, "min": {system: min(worker.times) for system, worker in workers.items()}}
                )
            finally:
                _close(workers)
    return results


RATIOS = ("static", "aoti")


def quotients(entry):
    medians = entry["median"]
    return {system: medians["dynamic"] / medians[system] if {"dynamic", system} <= medians.keys() else None for system in RATIOS}


def means(results):
    """Of the ratios to each system, if it was measured at all sizes."""
    found = [quotients(entry) for entries in results.values() for entry in entries]
    return {system: table.geometric_mean(row[system] for row in found) if all(row[system] for row in found) else None for system in RATIOS}


def tabulate_latency(results):
    rows = [
        [
            f"{name}: {_title(entry['sizes'])}",
            *(table.milliseconds(entry["median"].get(system)) for system in ("dynamic", *RATIOS)),
            *map(table.ratio, quotients(entry).values()),
        ]
        for name, entries in results.items()
        for entry in entries
    ]
    rows.append(["geometric mean", "", "", "", *map(table.ratio, means(results).values())])
    return ["", "Kiln", "static", "AOTInductor", "of static", "of AOTI"], rows


def show_latency(results, goals):
    print("\nLatency of dynamic models in ms, median, 1 thread\n")
    print(table.render(*tabulate_latency(results)))
    mean = means(results)
    worst = mean["static"] and max(quotients(entry)["static"] for entries in results.values() for entry in entries)
    goals.add("dynamic latency, geometric mean", mean["static"], 1.05, "of static")
    goals.add("dynamic latency, worst", worst, 1.15, "of static")
    goals.add("dynamic latency, geometric mean", mean["aoti"], 0.9, "of AOTInductor's dynamic")


def compile_time(options):
    """Seconds of `aot-compile` on the dynamic export and on the static one of the first sizes, in turns, the least of three."""
    results = {}
    for name in options.dynamic:
        print(f"== compile time of {name}, dynamic and static", flush=True)
        folders = {"dynamic": dynamic.export(name, options.tiny), "static": dynamic.export(name, options.tiny, _rows(options, name)[0])}
        times = {system: [] for system in folders}
        for _ in range(3):
            for system, folder in folders.items():
                times[system].append(peers.compile_seconds(folder))
        results[name] = {system: min(values) for system, values in times.items()}
    return results


def tabulate_compile_time(results):
    return ["", "dynamic", "static", "of static"], [
        [name, table.number(row["dynamic"]), table.number(row["static"]), table.ratio(row["dynamic"] / row["static"])]
        for name, row in results.items()
    ]


def show_compile_time(results, goals):
    print("\nCompile time of dynamic models in seconds\n")
    print(table.render(*tabulate_compile_time(results)))
    worst = max(row["dynamic"] / row["static"] for row in results.values())
    goals.add("dynamic compile time, worst model", worst, 1.3, "of static")


ENTRY = {"checks-warm": "checks and sizes, warm", "checks": "cold", "entry-warm": "to the first parallel kernel, warm", "entry": "cold"}


def entry(options, rounds=10, runs=8):
    """Seconds that the beginning of a dynamic model's run takes, in the modes of hosts/kiln.c. Where they are not "warm", the runs go
    on to their end: after one of the published configuration nothing of the entry is in the caches any more."""
    results = {}
    for name in options.dynamic:
        print(f"== entry of {name}", flush=True)
        row = dynamic.rows(name, options.tiny, timed=True)[0]
        library, inputs = peers.kiln(dynamic.export(name, options.tiny))[0], _static(name, options.tiny, row)[1]
        results[name] = {}
        for mode in ENTRY:
            worker = Worker([peers.host("kiln"), library, inputs, 1, mode], 1)
            for _ in range(rounds):
                worker.run(2)
                worker.times += worker.run(runs)
            worker.close()
            results[name][mode] = {"median": statistics.median(worker.times), "min": min(worker.times)}
    return results


def tabulate_entry(results):
    return ["", *ENTRY.values()], [
        [name, *(f"{table.number(row[mode]['median'] * 1e6)}, {table.number(row[mode]['min'] * 1e6)}" for mode in ENTRY)]
        for name, row in results.items()
    ]


def show_entry(results, goals):
    print("\nThe beginning of a dynamic model's run in us: median, least\n")
    print(table.render(*tabulate_entry(results)))
    checks = results.get("bert-base", {}).get("checks", {}).get("median")
    goals.add("entry checks and sizes of dynamic bert-base, us", checks and checks * 1e6, 2, "")


TABLES = {"dynamic": tabulate_latency, "dynamic-compile": tabulate_compile_time, "dynamic-entry": tabulate_entry}


def document(results, part):
    """Writes what this run has measured into docs/benchmarks.md."""
    table.write_section(f"bench/run --only {part} --document", results, *TABLES[part](results[part]))
