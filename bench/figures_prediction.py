"""What the planner says that kernels take, on a machine whose numbers are measured, beside what they take."""

import json
import re
import statistics

import peers
import table


def _join(report, profile, clock):
    """(measured, predicted) seconds of a run for each kernel; predicted is None where the planner counts nothing."""
    cycles = {kernel["name"]: kernel.get("cycles") for kernel in report["kernels"]}
    return {
        kernel["name"]: (kernel["ms"] / 1e3, cycles[kernel["name"]] and cycles[kernel["name"]] * kernel["count"] / clock)
        for kernel in profile["kernels"]
        if kernel["name"] in cycles and kernel["ms"]
    }


def measure(options):
    numbers = peers.call([peers.BIN / "aot-tune", "--calibrate"], "aot-tune --calibrate").strip()
    clock = 1e6 * int(re.search(r"\bclock=(\d+)", numbers)[1])
    results = {}
    for name in options.models:
        print(f"== prediction of {name}", flush=True)
        folder = peers.model(name, options.tiny)
        output = peers.CACHE / "prediction" / folder.name
        output.mkdir(parents=True, exist_ok=True)
        model, report, profile = output / "model.so", output / "report.html", output / "profile.json"
        arguments = [folder / "model.pt2", "-o", model, "--cpu=native", f"--cpu-tune={numbers}", f"--report={report}", "--progress=never"]
        peers.run_compiler(arguments)
        arguments = ["--inputs", folder / "inputs.npz", "--threads", 1, "--warmup", 3, "--repeat", 20, f"--profile={profile}"]
        peers.call([peers.BIN / "aot-run", model, *arguments], f"aot-run {name}")
        embedded = re.search(r'id="report">\n(.*?)\n</script>', report.read_text(), re.S)[1]
        results[name] = _join(json.loads(embedded), json.loads(profile.read_text())["kiln"], clock)
    return results


def tabulate(results):
    """Headings, a row for each model and one for all, and the errors of all kernels."""
    rows, errors = [], []
    for name, kernels in results.items():
        known = [(measured, predicted) for measured, predicted in kernels.values() if predicted]
        off = [abs(predicted / measured - 1) for measured, predicted in known]
        errors += off
        total = sum(measured for measured, _ in known)
        within = sum(measured for (measured, _), error in zip(known, off, strict=True) if error <= 0.25)
        rows.append(
            [
                name,
                str(len(kernels)),
                str(len(kernels) - len(known)),
                table.number(statistics.median(off)) if off else "-",
                table.number(within / total) if total else "-",
                table.ratio(sum(predicted for _, predicted in known) / total) if total else "-",
            ]
        )
    rows.append(["all", "", "", table.number(statistics.median(errors)) if errors else "-", "", ""])
    return ["", "kernels", "not predicted", "median error", "time within 25 %", "predicted / measured"], rows, errors


def show(results, goals):
    headings, rows, errors = tabulate(results)
    print("\nPrediction: kernels on one thread, by a planner with the numbers of this machine\n")
    print(table.render(headings, rows))
    goals.add("prediction, median error of all kernels", statistics.median(errors) if errors else None, 0.25, "of the measured time")
