#!/usr/bin/env python3
"""Compiles and runs the operators of PyTorch's own test database (OpInfo) and compares with eager mode.

  test/opinfo/sweep.py [--only REGEX] [--shard I/N] [--dtypes float32,int64|others] [--dynamic] [--fallback=torch] [--log FILE] [--jobs N]
                        [--sanitize address|memory|thread]

Each entry is called on samples of float32 and two other dtypes. With --dynamic every dimension is exported as dynamic, as far as
torch.export leaves it so, and what comes out is run at the sample's sizes, at others, and at 0 and 1. A call is native, wrong, refused or a
crash; with --fallback=torch what is refused is compiled once more, and the call is a fallback if that is right. An entry is native
when all of its calls that torch.export takes are. Errors are those against double precision, in units of eager mode's own largest
one; calls that are beyond twice that are judged by further draws of their inputs. The status is 1 if anything was wrong or crashed.

With --sanitize the code of the models is instrumented, and they run in a process that has the sanitizer (test/sanitize).

With --log a sweep that was interrupted goes on where it was: a line for each entry, in JSON; of two for one entry the later counts."""

import argparse
import collections
import functools
import json
import os
import pathlib
import re
import sys
import time
import traceback
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402

import check  # noqa: E402
import prepare  # noqa: E402
from child import Ending, report_each, silence  # noqa: E402

sys.path.insert(0, str(prepare.ROOT / "test" / "sanitize"))
import sanitized  # noqa: E402

ERROR, TIMEOUT = "error", "timeout"
ORDER = (check.CRASH, check.WRONG, check.REFUSED, check.FALLBACK, check.NATIVE)  # the worst first
BAD = (check.CRASH, check.WRONG, ERROR, TIMEOUT)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression on the entry's name")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="every N-th entry, from the I-th (0-based)")
    parser.add_argument("--dtypes", default="", help="instead of float32 and two others; `others` for those two alone")
    parser.add_argument("--dynamic", action="store_true", help="every dimension dynamic")
    parser.add_argument("--fallback", default="none", choices=("none", "torch"))
    parser.add_argument("--samples", type=int, default=6, help="at most so many for each dtype")
    parser.add_argument("--whole-range", action="store_true", help="integers of the samples are of any size that their dtype has")
    parser.add_argument("--compiler", default=os.environ.get("KILN_COMPILER", str(prepare.ROOT / "build" / "bin" / "aot-compile")))
    parser.add_argument("--sanitize", choices=sanitized.KINDS, help="instead of --compiler")
    parser.add_argument("--flag", action="append", default=[], help="another option for the compiler")
    parser.add_argument("--log", metavar="FILE", type=pathlib.Path, help="all outcomes; entries that are in it already are not run again")
    parser.add_argument("--again", metavar="STATES", default="", help="but for those in these states: refused,wrong")
    parser.add_argument("--timeout", type=int, default=900, metavar="SECONDS", help="for one entry")
    parser.add_argument("--jobs", type=int, default=1, help="so many entries at once")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each entry")
    return parser.parse_args()


def check_entry(entry, options):
    """What is reported of one entry."""
    dtypes = prepare.choose_dtypes(entry, [name for name in options.dtypes.split(",") if name])
    checker = check.Checker(options.compiler, options.flag, ["--fallback=torch"] if options.fallback == "torch" else None)
    start = time.monotonic()
    workspace = prepare.Workspace(entry, dtypes, options.dynamic, options.samples, options.whole_range)
    outcomes, not_exported = checker.entry(workspace)
    prepared = workspace.load().prepared
    states = [outcome.state for outcome in outcomes]
    units = check.entry_units([outcome for outcome in outcomes if outcome.state in (check.NATIVE, check.FALLBACK)])
    calls = [
        {"name": o.name, "state": o.state, "detail": o.detail, "is_random": o.is_random, "is_resized": o.is_resized, "small": o.small}
        for o in outcomes
    ]
    return report_of(
        entry,
        next((state for state in ORDER if state in states), check.NOT_EXPORTED),
        seconds=round(time.monotonic() - start, 2),
        units=units,
        calls=calls,
        not_exported=not_exported,
        sizes=sum(one.sizes for one in prepared),
        fixed=sum(one.fixed for one in prepared),
    )


def report_of(entry, state, **found):
    return {
        "entry": entry.full_name,
        "state": state,
        "error": "",
        "seconds": 0,
        "units": None,
        "calls": [],
        "not_exported": [],
        "sizes": 0,
        "fixed": 0,
        **found,
    }


def report_entry(entry, options):
    """In a process of its own."""
    torch.set_num_threads(1)
    if not options.verbose:  # torch.export prints what it does not take
        silence()
    try:
        return check_entry(entry, options)
    except BaseException:
        return report_of(entry, ERROR, error=traceback.format_exc(limit=-4))


def sweep(entries, options):
    """Yields reports as they come; nothing that an entry does ends the sweep."""
    for entry, report, _ in report_each(entries, lambda entry, _: report_entry(entry, options), options.jobs, options.timeout):
        if not isinstance(report, Ending):
            yield report
        elif report.is_late:
            yield report_of(entry, TIMEOUT, error=f"took more than {options.timeout} s", seconds=options.timeout)
        else:
            yield report_of(entry, ERROR, error=f"ended with status {report.status}")


def logged(path):
    """entry -> its last report; the last line may have been cut off."""
    reports = {}
    for line in path.read_text().splitlines() if path and path.exists() else []:
        try:
            report = json.loads(line)
        except ValueError:
            continue
        reports[report["entry"]] = report
    return reports


def reasons(reports, state):
    """Calls of this state in groups: reason -> entries, without what differs from program to program."""
    groups = collections.defaultdict(set)
    for report in reports:
        for call in report["calls"]:
            if call["state"] == state:
                for reason in call["detail"].split("; "):
                    groups[re.sub(r" \(node .*", "", reason)].add(report["entry"])
        if state == check.NOT_EXPORTED:
            for _, reason in report["not_exported"]:
                groups[re.sub(r"\d+", "N", reason)[:120]].add(report["entry"])
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def summary(reports, dynamic):
    counts = collections.Counter(report["state"] for report in reports)
    exported = len(reports) - counts[check.NOT_EXPORTED]
    calls = collections.Counter(call["state"] for report in reports for call in report["calls"])
    for state in (check.REFUSED, check.FALLBACK, check.NOT_EXPORTED):
        groups = reasons(reports, state)
        if groups:
            print(f"\n{state}, by reason (entries, also those of which other calls are not):")
        for reason, names in groups:
            print(f"  {len(names):4} {reason}  [{', '.join(sorted(names)[:4])}{', …' if len(names) > 4 else ''}]")
    for state in (check.CRASH, check.WRONG):
        print(f"\n{state}:")
        for report in reports:
            bad = [call for call in report["calls"] if call["state"] == state]
            if bad:
                print(f"  {report['entry']} ({len(bad)} of {len(report['calls'])}): {bad[0]['name']}: {bad[0]['detail']}")
    print(f"\nless exact than {check.GOAL} times eager's own error:")
    for report in reports:
        if report["units"] and report["units"][0] > check.GOAL:
            print(f"  {report['entry']}: {report['units'][0]:.1f} ({report['units'][1]})")
    print("\nof random results only dtypes and shapes were compared (calls):")
    for report in reports:
        drawn = sum(call["is_random"] for call in report["calls"])
        if drawn:
            print(f"  {report['entry']}: {drawn} of {len(report['calls'])}")
    for report in reports:
        if report["error"]:
            print(f"\n{report['entry']}: {report['error']}")
    if dynamic:
        sizes, fixed = sum(report["sizes"] for report in reports), sum(report["fixed"] for report in reports)
        constant = [report["entry"] for report in reports if report["sizes"] and report["sizes"] == report["fixed"]]
        elsewhere = sum(call["is_resized"] for report in reports for call in report["calls"])
        print(
            f"\nsizes over 1: {sizes}, {fixed} of them made constants by export; nothing dynamic is left of {len(constant)} entries: {', '.join(constant)}"
        )
        print(f"calls that were run at other sizes, too: {elsewhere} of {sum(calls.values())}")
        answered, refused = (sum(call["small"][i] for report in reports for call in report["calls"]) for i in range(2))
        print(f"runs at sizes of 0 and 1 that the exported program takes: {answered} answered, {refused} refused")
    share = 100 * counts[check.NATIVE] / max(exported, 1)
    print(f"\ncalls: {', '.join(f'{calls[state]} {state}' for state in reversed(ORDER))}")
    print(
        f"entries: {exported} exported, {counts[check.NATIVE]} native ({share:.1f} %), {counts[check.FALLBACK]} fallback, {counts[check.WRONG]} wrong, "
        f"{counts[check.CRASH]} crash, {counts[check.REFUSED]} refused, {counts[ERROR] + counts[TIMEOUT]} error; {counts[check.NOT_EXPORTED]} not exported"
    )
    print(f"{sum(report['seconds'] for report in reports):.0f} s")


def main():
    options = arguments()
    if options.sanitize:
        os.environ["KILN_SANITIZE"] = options.sanitize
        options.compiler = str(sanitized.COMPILER)
        check.load = functools.partial(sanitized.Model, kind=options.sanitize)
    index, count = map(int, options.shard.split("/"))
    entries = [entry for entry in prepare.entries() if re.search(options.only, entry.full_name)][index::count]
    reports, names = logged(options.log), {entry.full_name for entry in entries}
    again = [state for state in options.again.split(",") if state]
    reports = {name: report for name, report in reports.items() if name in names and report["state"] not in again}
    for report in sweep([entry for entry in entries if entry.full_name not in reports], options):
        reports[report["entry"]] = report
        if options.log:
            with options.log.open("a") as stream:
                stream.write(json.dumps(report) + "\n")
        if options.verbose or report["state"] in BAD:
            print(f"{report['state']:12} {report['seconds']:6.1f} s  {report['entry']}", flush=True)
    reports = [reports[name] for name in sorted(reports)]
    summary(reports, options.dynamic)
    return any(report["state"] in BAD for report in reports) or not reports


if __name__ == "__main__":
    sys.exit(main())
