"""The ladder: a tiny program for each family of kernels, in a process of its own with a time limit.

A rung says which kernels ran, how far each row of the results is from double precision, and whether the same bits come out
again. One that fails is run again with the kernels for Hopper off, with graphs off, with a wait behind every step, and under
compute-sanitizer, which together say where to look. Needs numpy and a driver, and nothing of PyTorch's."""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

FOLDER = pathlib.Path(__file__).resolve().parent
# In the order in which what they leave out narrows the fault down.
DIAGNOSES = {"variants off": {"KILN_CUDA_VARIANTS": "0"}, "graphs off": {"KILN_CUDA_GRAPHS": "0"}, "step by step": {"KILN_CUDA_SYNC": "1"}}
TOOLS = {"memcheck": "memcheck", "racecheck": "racecheck"}


# ===-- One rung, in a process of its own ----------------------------------------------------------


def distance(numpy, got, want):
    """(largest difference in a row over the row's root mean square, the difference in the Euclidean norm over the norm)"""
    if got.shape != want.shape:
        return float("inf"), float("inf")
    if want.dtype.kind in "iub":
        return (0.0, 0.0) if (got == want).all() else (float("inf"), float("inf"))
    got, want = got.astype(numpy.float64), want.astype(numpy.float64)
    if got.size == 0:
        return 0.0, 0.0
    if not numpy.isfinite(got).all():
        return float("inf"), float("inf")
    got, want = (value.reshape(-1, value.shape[-1]) if value.ndim else value.reshape(1, 1) for value in (got, want))
    rows = numpy.sqrt((want**2).mean(-1))
    floor = max(float(numpy.sqrt((want**2).mean())) * 1e-3, 1e-30)  # a row of zeros
    worst = float((numpy.abs(got - want).max(-1) / numpy.maximum(rows, floor)).max())
    return worst, float(numpy.linalg.norm(got - want) / max(float(numpy.linalg.norm(want)), 1e-30))


def call(kiln, model, inputs, entry):
    """Yields the results of calls: the outputs, then the inputs that are written."""
    kind, written, kept = entry["calls"], entry["written"], []

    def one(model):
        own = [value.copy() for value in inputs]
        kept.append(own)  # so that the next call's are elsewhere
        return [*model.run(own), *(own[i] for i in written)]

    if kind == "models":
        other = kiln.load(model.path)
        for each in (model, other, model):
            yield one(each)
        return
    if kind != "threads":
        for _ in range(2 if kind == "again" else 5):
            yield one(model)
            if kind == "again":
                kept.clear()
        return
    results, problems = [], []

    def work():
        try:
            results.extend(one(model) for _ in range(3))
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    yield from results


def child(folder, name):
    import numpy
    from seeded import draw

    import kiln

    entry = next(entry for entry in json.loads((folder / "manifest.json").read_text())["ladder"] if entry["name"] == name)
    data = numpy.load(folder / "ladder" / f"{name}.npz")
    model = kiln.load(folder / "ladder" / f"{name}.so")
    inputs = [draw(**drawn) if drawn else data[f"in{i}"] for i, drawn in enumerate(entry["inputs"])]
    wanted = [data[f"out{i}"] for i in range(sum(key.startswith("out") for key in data.files))]
    row, first = {"error": 0.0, "norm": 0.0, "repeats": True, "calls": 0}, None
    for results in call(kiln, model, inputs, entry):
        for got, want in zip(results, wanted, strict=True):
            worst, norm = distance(numpy, numpy.asarray(got), want)
            row["error"], row["norm"] = max(row["error"], worst), max(row["norm"], norm)
        bits = [numpy.ascontiguousarray(value).tobytes() for value in results]
        first = first or bits
        row["repeats"] &= bits == first
        row["calls"] += 1
    row["right"] = row["error"] <= entry["tolerance"]
    print(json.dumps(row), flush=True)


# ===-- All of them ---------------------------------------------------------------------------------


def run_once(folder, name, seconds, environment, prefix=()):
    """The row of one process: what it says, or how it ended; with the kernels that it has loaded."""
    with tempfile.TemporaryDirectory() as scratch:
        log = pathlib.Path(scratch) / "kernels"
        command = [*prefix, sys.executable, str(FOLDER / "ladder.py"), str(folder), "--child", name]
        begin = time.monotonic()
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env={**os.environ, **environment, "KILN_CUDA_LOG": str(log)},
        )
        try:
            out, err = process.communicate(timeout=seconds)
            reason = f"the process ended with {process.returncode}: {err.strip()[-300:]}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            reason = f"it was ended after {seconds:g} s"
            try:
                out, err = process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                out, err, reason = "", "", reason + ", and the driver holds it"
        lines = [line for line in out.splitlines() if line.startswith("{")]
        row = json.loads(lines[-1]) if lines else {"failed": reason}
        events = []
        for line in log.read_text().splitlines() if log.exists() else ():
            try:
                events.append(json.loads(line))
            except ValueError:
                pass
        row["seconds"] = round(time.monotonic() - begin, 2)
        row["kernels"] = sorted({event["loaded"] for event in events if "loaded" in event})
        row["not_loaded"] = {event["not_loaded"]: event["reason"] for event in events if "not_loaded" in event}
        begun = [event["begins"] for event in events if "begins" in event]
        if "failed" in row and begun:
            ended = sum("ends" in event and not event.get("failed") for event in events)
            row["step"] = f"{begun[-1]}, step {len(begun)}" if len(begun) > ended else "none: all steps have ended"
        row["text"] = (out + err)[-2000:] if prefix else ""
        return row


def judge(row, entry):
    """What is wrong with the row of a rung; empty if nothing is."""
    if "failed" in row:
        return row["failed"]
    problems = []
    if not row["right"]:
        problems.append(f"wrong: error {row['error']:.2g} of at most {entry['tolerance']:g}")
    if not row["repeats"]:
        problems.append("other bits in another call")
    if row["not_loaded"]:
        problems.append("not loaded: " + "; ".join(f"{name}: {why}" for name, why in row["not_loaded"].items()))
    missing = [name for name in entry["kernels"] if name not in row["kernels"]]
    if missing:
        problems.append(f"{', '.join(missing)} did not run, but {', '.join(row['kernels']) or 'nothing'}")
    return ", ".join(problems)


def diagnose(folder, entry, options):
    """What becomes of a rung that fails, under other conditions."""
    found = {}
    for title, environment in DIAGNOSES.items():
        if time.monotonic() > options.end:
            return found
        row = run_once(folder, entry["name"], options.limit, {**entry["environment"], **environment})
        relaxed = {**entry, "kernels": []}  # others run now
        found[title] = {"verdict": judge(row, relaxed) or "right", **{key: row[key] for key in ("step", "error") if key in row}}
    for tool in TOOLS if options.sanitizer else ():
        seconds = min(options.limit, options.end - time.monotonic())
        if seconds <= 1:
            return found
        prefix = [options.sanitizer, "--tool", TOOLS[tool], "--error-exitcode", "86"]
        row = run_once(folder, entry["name"], seconds, {**entry["environment"], "KILN_CUDA_GRAPHS": "0"}, prefix)
        found[tool] = {"verdict": judge(row, {**entry, "kernels": []}) or "right", "text": row["text"]}
    return found


def climb(folder, entries, options, rows, save):
    """Adds a row for each rung to `rows`; those that are there already are not run again."""
    done = {row["name"] for row in rows}
    failed = []
    for entry in entries:
        if entry["name"] in done:
            continue
        if time.monotonic() > options.end:
            return
        row = {"name": entry["name"], **run_once(folder, entry["name"], options.limit, entry["environment"])}
        row.pop("text")
        row["verdict"] = judge(row, entry) or "right"
        rows.append(row)
        print(f"{entry['name']}: {row['verdict']} ({row['seconds']:g} s)", flush=True)
        save()
        if row["verdict"] != "right":
            failed.append((entry, row))
    # After all have been tried: the first verdicts are worth more than the reasons.
    for entry, row in failed:
        row["diagnosis"] = diagnose(folder, entry, options)
        for title, found in row["diagnosis"].items():
            print(f"{entry['name']}, {title}: {found['verdict']}" + (f" (at {found['step']})" if "step" in found else ""), flush=True)
        save()


def page(rows):
    """The ladder as a table."""
    lines = ["| rung | verdict | error in a row | kernels | s |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        verdict = row["verdict"]
        for title, found in row.get("diagnosis", {}).items():
            verdict += f"; {title}: {found['verdict']}" + (f" at {found['step']}" if "step" in found else "")
        cells = (row["name"], verdict, f"{row['error']:.1e}" if "error" in row else "", ", ".join(row["kernels"]), f"{row['seconds']:g}")
        lines.append("| " + " | ".join(cell.replace("|", "/").replace("\n", " ")[:600] for cell in cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="bench/gpu/ladder", description=__doc__)
    parser.add_argument("package", nargs="?", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--out", type=pathlib.Path, default=None, help="file of the results, JSON (default: ladder.json in $OUT, or here)")
    parser.add_argument("--limit", type=float, default=25, help="seconds for one process")
    parser.add_argument("--minutes", type=float, default=8, help="begins nothing new after this")
    parser.add_argument("--only", nargs="+", default=[], metavar="RUNG")
    parser.add_argument("--sanitizer", default=None, help="compute-sanitizer, for rungs that fail")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.package.resolve()
    sys.path[:0] = [str(folder)]
    if options.child:
        return child(folder, options.child)
    options.end = time.monotonic() + 60 * options.minutes
    out = options.out or pathlib.Path(os.environ.get("OUT") or ".") / "ladder.json"
    manifest = json.loads((folder / "manifest.json").read_text())
    rows = []
    if out.exists():
        before = json.loads(out.read_text())
        if before.get("commit") == manifest["commit"]:
            rows = before["rows"]

    def save():
        part = out.with_suffix(".part")
        part.write_text(json.dumps({"commit": manifest["commit"], "rows": rows}, indent=1) + "\n")
        part.replace(out)
        out.with_suffix(".md").write_text(page(rows) + "\n")

    entries = [entry for entry in manifest["ladder"] if not options.only or entry["name"] in options.only]
    climb(folder, entries, options, rows, save)
    save()
    wrong = [row["name"] for row in rows if row["verdict"] != "right"]
    missing = [entry["name"] for entry in entries if entry["name"] not in {row["name"] for row in rows}]
    if wrong or missing:
        sys.exit(f"bench/gpu/ladder: error: {', '.join(wrong)}" + (f"; no time was left for {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
