"""compute-sanitizer and Nsight Compute on programs of the package, each in a process of its own."""

import csv
import io
import os
import re
import shutil
import subprocess

# Statuses of the driver that a program asks for and deals with are no errors; memory comes and goes in the order of streams.
SANITIZERS = {
    "memcheck": ["--padding", "32", "--report-api-errors", "no", "--track-stream-ordered-races", "all"],
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
    "initcheck": [],
}
METRICS = {
    "gpu__time_duration.sum": "ns",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory %",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute %",
    "launch__registers_per_thread": "registers",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy %",
}
# What not every GPU counts under this name.
MORE_METRICS = {"sm__inst_executed_pipe_tensor.sum": "tensor instructions"}
KERNELS = "regex:^(map|contract|attention|scan|sort|merge|scatter|repeat|strided_copy)"


def find(tool, given):
    return given or shutil.which(tool) or next((path for path in (f"/usr/local/cuda/bin/{tool}",) if os.path.exists(path)), None)


def run(command, timeout):
    # Launches one by one: a graph is one thing to these tools.
    environment = {**os.environ, "KILN_CUDA_GRAPHS": "0", "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    try:
        process = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, env=environment)
        return process.returncode, process.stdout, process.stderr
    except subprocess.TimeoutExpired:
        return None, "", ""


def sanitize(path, programs, child, timeout):
    """[{tool, name, state, errors, text}]"""
    rows = []
    for name in programs:
        for tool, settings in SANITIZERS.items():
            general = ["--tool", tool, "--error-exitcode", "86", "--launch-timeout", "60"]
            code, out, err = run([path, *general, *settings, *child(name)], timeout)
            if code not in (None, 0, 86) and re.search(r"unrecogni[sz]ed|unknown option", out + err, re.IGNORECASE):  # of another version
                code, out, err = run([path, *general[:4], *child(name)], timeout)
            text = out + err
            found = re.search(r"ERROR SUMMARY: (\d+) error", text) or re.search(r"RACECHECK SUMMARY: (\d+) hazard", text)
            state = (
                "timed out"
                if code is None
                else "clean"
                if code == 0 and found and found[1] == "0"
                else "found"
                if code == 86 or found and found[1] != "0"
                else "failed"
            )
            rows.append(
                {
                    "tool": tool,
                    "name": name,
                    "state": state,
                    "errors": int(found[1]) if found else None,
                    "text": "" if state == "clean" else text.strip()[-1500:],
                }
            )
    return rows


def read_kernels(text, metrics):
    """The rows of ncu's table, which other lines may surround; the first has the units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = [line for line in csv.DictReader(io.StringIO("\n".join(lines))) if (line.get("ID") or "").isdigit()]
    return [
        {"kernel": row.get("Kernel Name", "?")[:60], **{label: row.get(metric) or "" for metric, label in metrics.items()}} for row in rows
    ]


def profile(path, programs, child, timeout):
    """[{name, kernels: [{kernel, metric...}]}]"""
    rows = []
    for name in programs:
        for metrics in ({**METRICS, **MORE_METRICS}, METRICS):
            command = [
                path,
                "--clock-control",
                "none",
                "--csv",
                "--page",
                "raw",
                "--print-units",
                "base",
                "--metrics",
                ",".join(metrics),
                "--kernel-name",
                KERNELS,
                "--launch-count",
                "40",
                *child(name),
            ]
            code, out, err = run(command, timeout)
            kernels = read_kernels(out, metrics)
            if kernels or code is None:
                break
        rows.append(
            {
                "name": name,
                "state": "timed out" if code is None else "profiled" if kernels else "failed",
                "kernels": kernels,
                "text": "" if kernels else (out + err).strip()[-1500:],
            }
        )
    return rows
