#!/usr/bin/env python3
"""Runs PyTorch's own test suites with torch.compile(backend="kiln") and with Inductor.

  test/dynamo/suites.py module_db                      every module of PyTorch, in training and in evaluation, forward and backward
  test/dynamo/suites.py hop_db                         higher-order operators, static and dynamic
  test/dynamo/suites.py custom_op_db                   custom operators, static and dynamic
  test/dynamo/suites.py huggingface                    the models of benchmarks/dynamo/huggingface.py, small, in training and in evaluation
  test/dynamo/suites.py --file PATH/test_torchinductor.py --only '^CpuTests'
                                                       a file of PyTorch's tests, its use of Inductor redirected to the backend
  test/dynamo/suites.py --document                     writes the results into docs/torch-compile.md

An entry is `compiled` when its results, gradients and written inputs are those of eager mode, `eager` when they are and Kiln left
a graph to eager mode, and otherwise wrong, an error, a crash or out of time. Results are kept in .cache/suites, by suite and
backend; a run goes on where the last one was, unless --again names states. The status is 1 if an entry failed with Kiln that
passed with Inductor, or, if Kiln alone is asked for, if any failed."""

import argparse
import collections
import json
import os
import pathlib
import re
import sys
import traceback
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build"))
os.environ.setdefault("KILN_COMPILER", str(BUILD / "bin" / "aot-compile"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
sys.path[:0] = [str(ROOT / "python"), str(HERE.parent / "opinfo")]

import child  # noqa: E402

RESULTS = ROOT / ".cache" / "suites"
for name in ("TORCHINDUCTOR_CACHE_DIR", "KILN_CACHE_DIR"):
    os.environ[name] = str(RESULTS / "compiled" / name)
DOCUMENT = ROOT / "docs" / "torch-compile.md"
BEGIN, END = "<!-- Written by test/dynamo/suites.py --document -->", "<!-- End -->"
BACKENDS = ("inductor", "kiln")
TIMEOUT, CRASH = "timeout", "crash"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", choices=("module_db", "hop_db", "custom_op_db", "huggingface"))
    parser.add_argument("--file", type=pathlib.Path, help="a file of PyTorch's tests")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="both if none is named")
    parser.add_argument("--only", default="", metavar="REGEX", help="entries by name")
    parser.add_argument("--again", default="", metavar="STATES", help="runs entries in these states again: wrong,error; or all")
    parser.add_argument("--samples", type=int, default=3, help="at most so many calls of each entry")
    parser.add_argument("--timeout", type=int, default=180, metavar="SECONDS", help="for one entry")
    parser.add_argument("--jobs", type=int, default=2, help="so many entries at once")
    parser.add_argument("--document", action="store_true", help="writes docs/torch-compile.md")
    options = parser.parse_args()
    if not options.document and (options.suite is None) == (options.file is None):
        parser.error("expected the name of a suite, or --file")
    return options


# ===-- Running -----------------------------------------------------------------------------------===#


def prepare(options, backend):
    """{name: (function that runs it, whether it looks at Inductor itself)}"""
    import torch

    import entries
    import kiln.dynamo

    if backend == "inductor":  # once, what every child would do first
        torch.compile(lambda x: x.sin())(torch.ones(8))
        torch._dynamo.reset()
    kept = []  # why graphs, or operators of PyTorch's own, stayed in eager mode
    keep_eager, describe = kiln.dynamo._keep_eager, kiln.dynamo.describe

    def noting(module):
        if sys.exc_info()[1] is not None:  # or the part of a graph that its custom operators are
            kept.append(str(sys.exc_info()[1]))
        return keep_eager(module)

    def noting_operators(*rest):
        found = describe(*rest)
        kept.extend(found)
        return found

    kiln.dynamo._keep_eager, kiln.dynamo.describe = noting, noting_operators

    def judge(run, *rest):
        kept.clear()
        state, detail = run(*rest)
        return (entries.EAGER, "; ".join(sorted(set(kept)))) if state == entries.COMPILED and kept else (state, detail)

    if options.file:
        tests = entries.load_tests(options.file)
        if backend == "kiln":
            entries.use_backend(kiln.dynamo.kiln)
        return {name: (lambda test=test: judge(entries.run_test, test), entries.inspects(test)) for name, test in tests.items()}

    def compile_function(function, dynamic):
        return torch.compile(function, backend=backend, dynamic=dynamic)

    if options.suite == "huggingface":
        import language_models

        compile_model = lambda function: compile_function(function, None)
        return {
            name: (lambda m=model, t=training: judge(language_models.run, m, t, compile_model), False)
            for name, model, training in language_models.list_entries()
        }

    return {
        name: (lambda c=cases, d=dynamic: judge(entries.run_cases, c, d, compile_function, options.samples), False)
        for name, cases, dynamic in entries.databases(options.suite)
    }


def report_entry(run, folder):
    """In a process of its own."""
    os.chdir(folder)  # some tests write files
    child.silence()
    warnings.filterwarnings("ignore")
    try:
        state, detail = run()
    except BaseException as error:
        state, detail = "error", f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    return {"state": state, "detail": detail[-1500:]}


def run_all(names, entries, options):
    """Yields (name, report) as they come; nothing that an entry does ends the run."""
    report_of = lambda name, folder: report_entry(entries[name][0], folder)
    for name, report, seconds in child.report_each(names, report_of, options.jobs, options.timeout):
        if isinstance(report, child.Ending):
            late = {"state": TIMEOUT, "detail": f"took more than {options.timeout} s"}
            report = late if report.is_late else {"state": CRASH, "detail": f"ended with status {report.status}"}
        yield name, {**report, "inspects": entries[name][1], "seconds": round(seconds, 1)}


def load(suite, backend):
    path = RESULTS / f"{suite}-{backend}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def run_suite(options, backend):
    suite = options.file.stem if options.file else options.suite
    results, again = load(suite, backend), options.again.split(",")
    entries = prepare(options, backend)
    chosen = [name for name in entries if re.search(options.only, name)]
    todo = [name for name in chosen if name not in results or "all" in again or results[name]["state"] in again]
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{suite}-{backend}.json"
    for done, (name, report) in enumerate(run_all(todo, entries, options), 1):
        results[name] = report
        print(f"{done}/{len(todo)} {backend} {report['state']:9} {report['seconds']:6.1f} s  {name}", flush=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(results, indent=0, sort_keys=True))
        temporary.rename(path)
    counts = collections.Counter(results[name]["state"] for name in chosen if name in results)
    print(f"{suite} {backend}: {', '.join(f'{count} {state}' for state, count in sorted(counts.items()))}")
    return {name: results[name] for name in chosen if not passed(results[name]) and results[name]["state"] != "not run"}


# ===-- The document ------------------------------------------------------------------------------===#


def passed(report):
    return report["state"] in ("compiled", "eager")


def lost(suite):
    """What passes with Inductor and fails with Kiln, in order."""
    ours, theirs = load(suite, "kiln"), load(suite, "inductor")
    return {name: ours[name] for name in sorted(ours) if name in theirs and passed(theirs[name]) and not passed(ours[name])}


def count_passed(results):
    """ "2 of 3", without entries that do not run with any backend."""
    states = [report for report in results.values() if report["state"] != "not run"]
    return f"{sum(map(passed, states))} of {len(states)}"


def write_document():
    suites = sorted({path.stem.rpartition("-")[0] for path in RESULTS.glob("*-*.json")}, key=lambda name: (name.startswith("test_"), name))
    rows, notes = [], []
    for suite in suites:
        ours, missing = load(suite, "kiln"), lost(suite)
        whole = sum(report["state"] == "compiled" for report in ours.values())
        looking = sum(report["inspects"] and not passed(report) and report["state"] != "not run" for report in ours.values())
        alone = [name for name, report in missing.items() if not report["inspects"]]
        rows.append(f"| `{suite}` | {count_passed(ours)} | {whole} | {looking} | {count_passed(load(suite, 'inductor'))} | {len(alone)} |")
        notes += [f"`{suite}`: `{name}`" for name in alone]
    text = [
        BEGIN,
        "",
        "| suite | passed with Kiln | all graphs compiled | failed, looking at Inductor itself | passed with Inductor | with Inductor alone |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
    ]
    if notes:
        text += ["", "With Inductor alone:", "", *(f"- {note}" for note in notes)]
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(before + "\n".join([*text, "", END]) + after)


def main():
    options = arguments()
    if options.document:
        write_document()
        return 0
    backends = options.backend or BACKENDS
    failed = [run_suite(options, backend) for backend in backends][-1]
    missing = failed if backends == ["kiln"] else lost(options.file.stem if options.file else options.suite)
    for name, report in missing.items():
        print(
            f"{report['state']:9} {name}{' (looks at Inductor)' if report['inspects'] else ''}: {report['detail'].splitlines()[-1][:200]}"
        )
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
