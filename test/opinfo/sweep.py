#!/usr/bin/env python3
"""Compiles and runs the operators of PyTorch's own test database (OpInfo) and compares with eager mode.

  test/opinfo/sweep.py [--only REGEX] [--shard I/N] [--dtypes float32,int64] [--dynamic] [--fallback=torch] [--json FILE] [--jobs N]

Each entry is called on samples of float32 and two other dtypes. With --dynamic every dimension is exported as dynamic, and what
comes out is run at the sample's sizes and at larger ones. A call is native, wrong, refused or a crash; an entry is native when
all of its calls that torch.export takes are. Errors are those against double precision, in units of eager mode's own largest one;
calls that are beyond twice that are judged by further draws of their inputs. The status is 1 if anything was wrong or crashed."""
import argparse
import collections
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import traceback
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402

import check  # noqa: E402
import prepare  # noqa: E402

ORDER = (check.CRASH, check.WRONG, check.REFUSED, check.NATIVE)  # the worst first


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression on the entry's name")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="every N-th entry, from the I-th (0-based)")
    parser.add_argument("--dtypes", default="", help="instead of float32 and two others")
    parser.add_argument("--dynamic", action="store_true", help="every dimension dynamic")
    parser.add_argument("--fallback", default="none", choices=("none", "torch"))
    parser.add_argument("--samples", type=int, default=6, help="at most so many for each dtype")
    parser.add_argument("--compiler", default=os.environ.get("KILN_COMPILER", str(prepare.ROOT / "build" / "bin" / "aot-compile")))
    parser.add_argument("--flag", action="append", default=[], help="another option for the compiler")
    parser.add_argument("--json", metavar="FILE", help="all outcomes")
    parser.add_argument("--jobs", type=int, default=1, help="so many entries at once")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each entry")
    return parser.parse_args()


def check_entry(entry, options):
    """What is reported of one entry."""
    dtypes = prepare.choose_dtypes(entry, [name for name in options.dtypes.split(",") if name])
    flags = [f"--fallback={options.fallback}"] if options.fallback != "none" else []
    checker = check.Checker(options.compiler, flags + options.flag)
    start = time.monotonic()
    outcomes, not_exported = checker.entry(prepare.Workspace(entry, dtypes, options.dynamic, options.samples))
    states = [outcome.state for outcome in outcomes]
    return {"entry": entry.full_name, "state": next((state for state in ORDER if state in states), "not exported"), "seconds": round(time.monotonic() - start, 2),
            "units": check.entry_units([outcome for outcome in outcomes if outcome.state == check.NATIVE]),
            "calls": [{"name": o.name, "state": o.state, "detail": o.detail, "is_random": o.is_random} for o in outcomes], "not_exported": not_exported}


def report_to(path, entry, options):
    torch.set_num_threads(1)
    if not options.verbose:  # torch.export prints what it does not take
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
    try:
        report = check_entry(entry, options)
    except BaseException:
        report = {"entry": entry.full_name, "state": "error", "error": traceback.format_exc(limit=-4), "units": None, "calls": [], "not_exported": [], "seconds": 0}
    path.write_text(json.dumps(report))


def sweep(entries, options):
    """Yields reports as they come; each entry has a process of its own, so that nothing it does ends the sweep."""
    running, waiting = {}, list(reversed(entries))
    with tempfile.TemporaryDirectory(prefix="kiln-opinfo-") as folder:
        while running or waiting:
            while waiting and len(running) < options.jobs:
                entry = waiting.pop()
                path = pathlib.Path(folder) / f"{len(waiting)}.json"
                sys.stdout.flush()
                child = os.fork()
                if child == 0:
                    report_to(path, entry, options)
                    os._exit(0)
                running[child] = entry, path
            child, status = os.wait()
            entry, path = running.pop(child)
            if path.exists():
                yield json.loads(path.read_text())
            else:
                yield {"entry": entry.full_name, "state": "error", "error": f"ended with status {status}", "units": None, "calls": [], "not_exported": [], "seconds": 0}


def reasons(reports):
    """Refusals in groups: reason -> entries, without what differs from program to program."""
    groups = collections.defaultdict(set)
    for report in reports:
        for call in report["calls"]:
            if call["state"] == check.REFUSED:
                for reason in call["detail"].split("; "):
                    groups[re.sub(r" \(node .*", "", reason)].add(report["entry"])
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def summary(reports):
    counts = collections.Counter(report["state"] for report in reports)
    exported = len(reports) - counts["not exported"]
    calls = collections.Counter(call["state"] for report in reports for call in report["calls"])
    print("\nrefused, by reason (entries):")
    for reason, names in reasons(reports):
        print(f"  {len(names):4} {reason}  [{', '.join(sorted(names)[:4])}{', …' if len(names) > 4 else ''}]")
    for state in (check.CRASH, check.WRONG):
        print(f"\n{state}:")
        for report in reports:
            bad = [call for call in report["calls"] if call["state"] == state]
            if bad:
                print(f"  {report['entry']} ({len(bad)} of {len(report['calls'])}): {bad[0]['name']}: {bad[0]['detail']}")
    print(f"\nless exact than {check.GOAL} times eager's own error:")
    for report in reports:
        if report.get("units") and report["units"][0] > check.GOAL:
            print(f"  {report['entry']}: {report['units'][0]:.1f} ({report['units'][1]})")
    print("\nof random results only dtypes and shapes were compared (calls):")
    for report in reports:
        drawn = sum(call["is_random"] for call in report["calls"])
        if drawn:
            print(f"  {report['entry']}: {drawn} of {len(report['calls'])}")
    for report in reports:
        if report["state"] == "error":
            print(f"\n{report['entry']}: {report['error']}")
    share = 100 * counts[check.NATIVE] / max(exported, 1)
    print(f"\ncalls: {', '.join(f'{calls[state]} {state}' for state in reversed(ORDER))}")
    print(f"entries: {exported} exported, {counts[check.NATIVE]} native ({share:.1f} %), {counts[check.WRONG]} wrong, {counts[check.CRASH]} crash, "
          f"{counts[check.REFUSED]} refused, {counts['error']} error; {counts['not exported']} not exported")


def main():
    options = arguments()
    index, count = map(int, options.shard.split("/"))
    entries = [entry for entry in prepare.entries() if re.search(options.only, entry.full_name)][index::count]
    reports, start = [], time.monotonic()
    for report in sweep(entries, options):
        reports.append(report)
        if options.verbose or report["state"] in (check.CRASH, check.WRONG, "error"):
            print(f"{report['state']:12} {report['seconds']:6.1f} s  {report['entry']}", flush=True)
    reports.sort(key=lambda report: report["entry"])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(reports, indent=1))
    summary(reports)
    print(f"{time.monotonic() - start:.0f} s")
    return any(report["state"] in (check.CRASH, check.WRONG, "error") for report in reports) or not reports


if __name__ == "__main__":
    sys.exit(main())
