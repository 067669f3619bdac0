"""The figures that Kiln is measured by. Each function measures, and returns a dictionary for the JSON file; `show_...` prints it."""

import os
import re
import statistics
import subprocess
import time

import peers
import table
from workers import Worker, interleave

TITLES = {
    "kiln": "Kiln",
    "kiln-reuse": "outputs reused",
    "kiln-winograd": "Winograd",
    "aoti-default": "AOTInductor",
    "aoti-freezing": "frozen",
    "inductor": "torch.compile",
    "eager": "eager",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}
SYSTEMS = list(TITLES)
PEERS = ["aoti-default", "aoti-freezing"]
EVERY_PEER = SYSTEMS[3:]


def note(text):
    print(f"   {text}", flush=True)


def start_workers(systems, name, tiny, threads):
    """Workers of the systems that can be run; says which cannot."""
    workers = {}
    for system in systems:
        try:
            workers[system] = Worker(peers.command(system, name, tiny, threads), threads, preamble=int(system == "inductor"))
        except peers.Unavailable as error:
            note(f"{name}: no {system}: {error}")
    return workers


def close(workers):
    for worker in workers.values():
        worker.close()


def better_peer(row, of=PEERS):
    return min((row[peer] for peer in of if peer in row), default=None)


def interleave_with_peak(workers, seconds):
    """The median of each, and the rate of fused multiply-adds on one core, which takes turns with them."""
    peak = Worker([peers.host("peak")], 1, preamble=1)
    try:
        medians = interleave({**workers, "peak": peak}, seconds)
    finally:
        peak.close()
    return medians, int(peak.preamble[0]) / medians.pop("peak")


def latency(options, names=None):
    """Seconds of a run, bytes of memory beyond the weights and the largest error, for each model and number of threads; the operations
    that it consists of, and the rate at which the machine does these."""
    results, systems = {}, [*options.systems, *(f"kiln@{level}" for level in options.cpu)]
    for name in names or options.models:
        folder = peers.model(name, options.tiny)
        results[name] = {"weight_bytes": peers.weight_bytes(folder), "flops": int((folder / "flops").read_text())}
        for threads in options.threads:
            print(f"== latency of {name}, {threads} thread{'s' if threads > 1 else ''}", flush=True)
            workers = start_workers(systems, name, options.tiny, threads)
            try:
                medians, peak = interleave_with_peak(workers, options.seconds)
                memory = {system: worker.peak_bytes() - results[name]["weight_bytes"] for system, worker in workers.items()}
                spread = {system: min(worker.times) for system, worker in workers.items()}
            finally:
                close(workers)
            results[name][f"threads-{threads}"] = {"median": medians, "min": spread, "memory": memory, "peak_flops": threads * peak}
        if "kiln" in medians:
            try:
                results[name]["errors"] = peers.errors(folder)
            except peers.Unavailable as error:
                note(str(error))
    return results


def tabulate_latency(results, threads):
    """Headings, a row for each model and the means, and the ratios to the better AOTInductor and the best of all peers. The ratio `peak` is
    that of a run which only multiplies and adds, as fast as the machine does."""
    measured = {system for row in results.values() if threads in row for system in row[threads]["median"]}
    systems = [*(system for system in SYSTEMS if system in measured), *sorted(measured - {*SYSTEMS})]
    rows, ratios = [], {"aoti": [], "best": [], "peak": []}
    for name, result in results.items():
        medians = result[threads]["median"]
        ours, errors = medians.get("kiln"), result.get("errors")
        peak, best = result[threads].get("peak_flops"), better_peer(medians, EVERY_PEER)
        least = result["flops"] / peak if peak else None
        row = {
            key: time / peer if time and peer else None
            for key, time, peer in (("aoti", ours, better_peer(medians)), ("best", ours, best), ("peak", least, best))
        }
        for key, ratio in row.items():
            ratios[key] += [ratio] if ratio else []
        rows.append(
            [
                name,
                *(table.milliseconds(medians.get(system)) for system in systems),
                table.ratio(row["aoti"]),
                table.ratio(row["best"]) + (" behind" if row["best"] and row["best"] > 1 else ""),
                table.ratio(row["peak"]),
                table.number(min(errors[0], errors[1]), 2) if errors else "-",
            ]
        )
    means = (table.ratio(table.geometric_mean(values)) for values in ratios.values())
    rows.append(["geometric mean", *[""] * len(systems), *means, ""])
    return ["", *(TITLES.get(system, system) for system in systems), "of better AOTI", "of best", "at peak", "max error"], rows, ratios


def threads_of(results):
    return sorted({key for row in results.values() for key in row if key.startswith("threads-")})


def show_latency(results, goals, title="models"):
    for threads in threads_of(results):
        headings, rows, ratios = tabulate_latency(results, threads)
        print(f"\nLatency of {title} in ms, median, {threads.replace('-', ' ')}\n")
        print(table.render(headings, rows))
        count = int(threads.removeprefix("threads-"))
        where = f"{title}, {count} thread{'s' if count > 1 else ''}"
        for key, peer, mean, worst in (("aoti", "of the better AOTInductor", 0.9, 1.1), ("best", "of the best peer", 0.85, 1.0)):
            complete = len(ratios[key]) == len(results)
            goals.add(f"latency, geometric mean, {where}", table.geometric_mean(ratios[key]) if complete else None, mean, peer)
            goals.add(f"latency, worst of {where}", max(ratios[key]) if complete else None, worst, peer)
    errors = [min(result["errors"][:2]) for result in results.values() if "errors" in result]
    goals.add(f"largest error of {title}", max(errors) if len(errors) == len(results) else None, 1e-4, "of the output's range")


def document_latency(results, part):
    """Writes what this run has measured into docs/benchmarks.md."""
    for threads in threads_of(results[part]):
        table.write_section(
            f"bench/run --only {part} --document, {threads}{table.level(results)}", results, *tabulate_latency(results[part], threads)[:2]
        )


def tabulate_goals(rows):
    words = {True: "met", False: "missed", None: "not measured"}
    return ["", "measured", "goal", "", ""], [
        [row["figure"], table.number(row["value"]), f"{'>=' if row['at_least'] else '<='} {row['goal']:g}", row["unit"], words[row["met"]]]
        for row in rows
    ]


def document_goals(results):
    """Writes what has been measured beside what it should be into docs/benchmarks.md."""
    table.write_section(
        f"bench/run --document{table.level(results)}", results, *tabulate_goals(row for row in results["goals"] if row["met"] is not None)
    )


def show_memory(results, goals, title="models"):
    rows, ratios = [], []
    for name, result in results.items():
        key = next(key for key in result if key.startswith("threads-"))
        memory = result[key]["memory"]
        peer = better_peer(memory)
        ratios += [memory["kiln"] / peer] if peer and "kiln" in memory else []
        rows.append([name, *(table.megabytes(memory.get(system)) for system in SYSTEMS)])
    print(f"\nPeak resident memory of the process in MB, less the weights, {title}\n")
    print(table.render(["", *TITLES.values()], rows))
    goals.add(
        f"peak memory beyond weights, worst of {title}",
        max(ratios) if len(ratios) == len(results) else None,
        1.0,
        "of the better AOTInductor",
    )


def overhead(options):
    """Seconds of an MLP 784-512-512-10 at batch 1 beyond its arithmetic, and of the same graph with next to no arithmetic."""
    print("== call overhead", flush=True)
    systems, results = ["kiln", "kiln-reuse", "aoti-default", "aoti-freezing"], {}
    for name in ("mlp", "mlp-narrow"):
        workers = start_workers(systems, name, False, 1)
        try:
            if name == "mlp":
                workers["arithmetic"] = Worker([peers.host("mlp")], 1)
            results[name] = interleave(workers, options.seconds / 2)
        finally:
            close(workers)
    arithmetic = results["mlp"]["arithmetic"]
    results["beyond"] = {system: seconds - arithmetic for system, seconds in results["mlp"].items() if system != "arithmetic"}
    return results


def show_overhead(results, goals):
    systems = ["kiln", "kiln-reuse", "aoti-default", "aoti-freezing"]
    rows = [
        [title, *(table.number(results[key][system] * 1e6) if system in results[key] else "-" for system in systems)]
        for title, key in (("784-512-512-10, batch 1", "mlp"), ("beyond its arithmetic", "beyond"), ("8-8-8-8, batch 1", "mlp-narrow"))
    ]
    print(f"\nCall of an MLP in us, one thread (the arithmetic alone: {table.number(results['mlp']['arithmetic'] * 1e6)})\n")
    print(table.render(["", "Kiln", "outputs reused", "AOTInductor", "frozen"], rows))
    goals.add(
        "call overhead of the MLP beyond its arithmetic, us",
        results["beyond"]["kiln"] * 1e6 if "kiln" in results["beyond"] else None,
        5,
        "",
    )


def compile_time(options):
    """Seconds of a compilation: aot-compile from process start to exit; AOTInductor's own call alone, with empty caches."""
    print("== compile time", flush=True)
    results = {}
    for name in options.models:
        folder = peers.model(name, options.tiny)
        results[name] = row = {}
        for system in ("kiln", *PEERS):
            try:
                if system == "kiln":
                    row[system] = statistics.median(peers.compile_seconds(folder) for _ in range(3))
                else:
                    row[system] = peers.aoti(folder, system.removeprefix("aoti-"))[1]
            except peers.Unavailable as error:
                note(f"{name}: no {system}: {error}")
    return results


def show_compile_time(results, goals):
    rows = [
        [
            name,
            *(table.number(row.get(system)) for system in ("kiln", *PEERS)),
            table.ratio(row["kiln"] / row["aoti-default"] if "kiln" in row and "aoti-default" in row else None),
        ]
        for name, row in results.items()
    ]
    print("\nCompile time in seconds\n")
    print(table.render(["", "Kiln", "AOTInductor", "frozen", "of AOTI"], rows))
    for name in ("bert-base",):
        row = results.get(name, {})
        goals.add(
            f"compile time, {name}",
            row["kiln"] / row["aoti-default"] if "kiln" in row and "aoti-default" in row else None,
            0.1,
            "of AOTInductor's",
        )


def size(options):
    """Bytes of the shared object without its weights, and the libraries that it needs."""
    print("== size", flush=True)
    results = {}
    for name in options.models:
        try:
            library, _ = peers.kiln(peers.model(name, options.tiny), "external")
        except peers.Unavailable as error:
            note(f"{name}: {error}")
            continue
        dynamic = subprocess.run(["readelf", "-W", "-d", library], capture_output=True, text=True, check=True).stdout
        results[name] = {"bytes": library.stat().st_size, "needed": re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)}
    return results


def show_size(results, goals, expected):
    rows = [[name, table.megabytes(row["bytes"]), " ".join(row["needed"]) or "nothing"] for name, row in results.items()]
    print("\nThe .so less its weights in MB, and the libraries it needs\n")
    print(table.render(["", "MB", "needs"], rows))
    complete = results and len(results) == expected
    goals.add(".so less weights, largest, MB", max(row["bytes"] for row in results.values()) / 1e6 if complete else None, 1.0, "")
    foreign = {library for row in results.values() for library in row["needed"]} - {"libc.so.6"}
    goals.add("libraries needed beside libc", len(foreign) if complete else None, 0, "")


def start(options):
    """Seconds from process start to the first output, with everything in the page cache: C loader against C++ loader."""
    results, threads = {}, max(options.threads)
    for name in ("bert-base", "mlp"):
        print(f"== process start to first output, {name}", flush=True)
        commands = {}
        for system in ("kiln", *PEERS):
            try:
                commands[system] = list(map(str, [peers.host("start"), *peers.command(system, name, options.tiny, threads)]))
            except peers.Unavailable as error:
                note(f"{name}: no {system}: {error}")
        times = {system: [] for system in commands}
        for attempt in range(11):
            for system, command in commands.items():
                process = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
                if process.returncode:
                    note(f"{name}: {system}: {process.stderr.strip()[-300:]}")
                elif attempt:  # the first fills the page cache
                    times[system].append(float(process.stdout) * 1e-6)
                time.sleep(0.02)
        results[name] = {system: statistics.median(values) for system, values in times.items() if values}
    return results


def show_start(results, goals):
    rows = [[name, *(table.milliseconds(row.get(system)) for system in ("kiln", *PEERS))] for name, row in results.items()]
    print("\nProcess start to first output in ms\n")
    print(table.render(["", "Kiln", "AOTInductor", "frozen"], rows))
    row = results.get("bert-base", {})
    peer = better_peer(row)
    goals.add("process start to first output, bert-base", row["kiln"] / peer if peer and "kiln" in row else None, 0.15, "of AOTInductor's")
    mlp = results.get("mlp", {}).get("kiln")
    goals.add("process start to first output, mlp, ms", mlp * 1e3 if mlp else None, 1, "")
