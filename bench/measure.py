"""One run of the benchmarks: measures, prints tables, compares with the goals, writes JSON."""

import argparse
import json
import os
import pathlib
import platform
import re
import sys
import time

import dense
import dynamic
import figures
import figures_autotune
import figures_convolutions
import figures_dynamic
import figures_dynamo
import figures_extern
import figures_kernels
import figures_low_precision
import figures_package
import figures_prediction
import figures_saturation
import figures_scale
import low_precision
import models
import peers
import table

PARTS = [
    "kernels",
    "overhead",
    "package",
    "latency",
    "latency-dense",
    "compile",
    "size",
    "start",
    "dynamic",
    "dynamic-compile",
    "dynamic-entry",
    "torch-compile",
    "torch-compile-frozen",
    "autotune",
    "extern",
    "convolutions",
    "scale",
    "prediction",
    "low-precision",
    "saturation",
]
# The table of a part, (headings, rows, …), which is all that docs/benchmarks.md has of it.
TABLES = {
    "kernels": figures_kernels.tabulate,
    "autotune": figures_autotune.tabulate,
    "convolutions": figures_convolutions.tabulate,
    "prediction": figures_prediction.tabulate,
    "saturation": figures_saturation.tabulate,
}


def document_table(results, part):
    table.write_section(f"bench/run --only {part} --document{table.level(results)}", results, *TABLES[part](results[part])[:2])


# What writes a part's figures into a document.
DOCUMENTS = {
    **dict.fromkeys(TABLES, document_table),
    "latency": figures.document_latency,
    "latency-dense": figures.document_latency,
    **dict.fromkeys(figures_dynamic.TABLES, figures_dynamic.document),
    **dict.fromkeys(figures_dynamo.TABLES, figures_dynamo.document),
    "scale": figures_scale.document,
    "low-precision": figures_low_precision.document,
}


class Goals:
    """Figures beside what they should be."""

    def __init__(self):
        self.rows = []

    def add(self, title, value, goal, unit, at_least=False):
        met = None if value is None else value >= goal if at_least else value <= goal
        self.rows.append({"figure": title, "value": value, "goal": goal, "unit": unit, "at_least": at_least, "met": met})

    def show(self):
        print("\nGoals\n")
        print(table.render(*figures.tabulate_goals(self.rows)))


def machine():
    """What the figures were measured on."""
    info = {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release(), "time": time.strftime("%Y-%m-%d %H:%M")}
    info["load"] = round(os.getloadavg()[1])  # what else runs
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return info | {"cpu": model[1] if model else platform.machine(), "isa": peers.instruction_sets()}


def parse_options():
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=f"any of: {' '.join(PARTS)}")
    parser.add_argument("--models", nargs="+", choices=models.NAMES, default=models.NAMES, metavar="NAME", help="default: all ten")
    parser.add_argument(
        "--dynamic",
        nargs="+",
        choices=dynamic.MODELS,
        default=list(dynamic.MODELS),
        metavar="NAME",
        help="models with dynamic dimensions (default: all)",
    )
    parser.add_argument(
        "--dense", nargs="+", choices=dense.NAMES, default=dense.NAMES, metavar="NAME", help="models with large planes (default: all)"
    )
    parser.add_argument(
        "--programs",
        nargs="+",
        choices=low_precision.NAMES,
        default=low_precision.NAMES,
        metavar="NAME",
        help="of low precision (default: all)",
    )
    parser.add_argument(
        "--systems", nargs="+", choices=figures.SYSTEMS, default=figures.SYSTEMS, metavar="NAME", help="latency of these (default: all)"
    )
    parser.add_argument("--cpu", nargs="+", default=[], metavar="LEVEL", help="latency also of Kiln compiled for these: x86-64-v3, znver4")
    parser.add_argument("--sizes", type=int, metavar="N", help="of each of them, the first so many combinations of sizes (default: all)")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=6, help="how long each system is timed on each model")
    parser.add_argument("--tiny", action="store_true", help="small configurations: to try the benchmark itself")
    parser.add_argument("--json", type=pathlib.Path, default=peers.CACHE / "results.json", help="where the results go")
    parser.add_argument("--keep", action="store_true", help="keep what that file says of other parts and models: for runs in several turns")
    parser.add_argument("--document", action="store_true", help=f"also write figures into the documents, those of {', '.join(DOCUMENTS)}")
    parser.add_argument("--before", type=pathlib.Path, metavar="FOLDER", help="NAME.so that another compiler has made, for autotune")
    options = parser.parse_args()
    if options.document and (options.tiny or not DOCUMENTS.keys() & options.only):
        parser.error(f"--document is for the published configurations, and for {', '.join(DOCUMENTS)}")
    return options


def former(options, machine):
    """Results of the run before on this machine that are to be kept."""
    if not options.keep or not options.json.exists():
        return {}
    results = json.loads(options.json.read_text())
    if results["tiny"] != options.tiny or any(results["machine"].get(key) != machine.get(key) for key in ("cpu", "cores")):
        sys.exit(f"bench/run: error: the results in {options.json} are of another machine or of other configurations")
    return {part: results[part] for part in PARTS if part in results}


# Parts that take minutes for each of these: what has been measured is written before the next one begins.
ONE_BY_ONE = {
    "latency": ("models", models.NAMES),
    "latency-dense": ("dense", dense.NAMES),
    "low-precision": ("programs", low_precision.NAMES),
}


def one_by_one(options, part):
    """The options of each turn of a part."""
    if part not in ONE_BY_ONE:
        return [options]
    field, _ = ONE_BY_ONE[part]
    return [argparse.Namespace(**vars(options) | {field: [name]}) for name in getattr(options, field)]


def in_order(part, rows):
    """Those that were measured one by one in the order of their names, in however many runs."""
    return {name: rows[name] for name in ONE_BY_ONE[part][1] if name in rows} if part in ONE_BY_ONE else rows


def write(results, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


def main():
    options = parse_options()
    results, goals = {"machine": machine(), "tiny": options.tiny}, Goals()
    results |= former(options, results["machine"])
    print(
        "== "
        + ", ".join(f"{key} {value if isinstance(value, (str, int)) else ' '.join(value)}" for key, value in results["machine"].items()),
        flush=True,
    )
    measures = {
        "kernels": figures_kernels.measure,
        "overhead": figures.overhead,
        "package": figures_package.package,
        "latency": figures.latency,
        "latency-dense": lambda options: figures.latency(options, options.dense),
        "compile": figures.compile_time,
        "size": figures.size,
        "start": figures.start,
        "dynamic": figures_dynamic.latency,
        "dynamic-compile": figures_dynamic.compile_time,
        "dynamic-entry": figures_dynamic.entry,
        "torch-compile": figures_dynamo.measure,
        "torch-compile-frozen": figures_dynamo.measure_frozen,
        "autotune": figures_autotune.measure,
        "extern": figures_extern.measure,
        "convolutions": figures_convolutions.measure,
        "scale": figures_scale.measure,
        "prediction": figures_prediction.measure,
        "low-precision": figures_low_precision.measure,
        "saturation": figures_saturation.measure,
    }
    failed = []
    for part in (part for part in PARTS if part in options.only):
        try:
            for turn in one_by_one(options, part):
                results[part] = in_order(part, results.get(part, {}) | measures[part](turn))
                write(results, options.json)
        except peers.Unavailable as error:
            failed.append(part)
            print(f"   {part}: {error}", flush=True)
    shows = {
        "kernels": figures_kernels.show,
        "overhead": figures.show_overhead,
        "package": figures_package.show_package,
        "latency": figures.show_latency,
        "latency-dense": lambda r, g: figures.show_latency(r, g, "dense models"),
        "compile": figures.show_compile_time,
        "size": lambda r, g: figures.show_size(r, g, max(len(r), len(options.models))),
        "start": figures.show_start,
        "dynamic": figures_dynamic.show_latency,
        "dynamic-compile": figures_dynamic.show_compile_time,
        "dynamic-entry": figures_dynamic.show_entry,
        "torch-compile": figures_dynamo.show,
        "torch-compile-frozen": figures_dynamo.show_frozen,
        "autotune": figures_autotune.show,
        "extern": figures_extern.show,
        "convolutions": figures_convolutions.show,
        "scale": figures_scale.show,
        "prediction": figures_prediction.show,
        "low-precision": figures_low_precision.show,
        "saturation": figures_saturation.show,
    }
    for part in PARTS:
        if part in results:
            shows[part](results[part], goals)
            if part.startswith("latency"):
                figures.show_memory(results[part], goals, "models" if part == "latency" else "dense models")
    goals.show()
    results["goals"] = goals.rows
    if options.document and not failed:
        for part in DOCUMENTS.keys() & options.only:
            DOCUMENTS[part](results, part)
        if {"latency", "latency-dense"} & {*options.only}:
            figures.document_goals(results)
    write(results, options.json)
    print(f"\nWritten to {options.json}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
