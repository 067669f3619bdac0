"""compute-sanitizer and Nsight Compute on programs of the package, each in a process of its own."""
import csv
import io
import os
import re
import shutil
import subprocess

SANITIZERS = ["memcheck", "racecheck", "synccheck", "initcheck"]
METRICS = {"gpu__time_duration.sum": "ns", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory %", "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute %",
           "sm__inst_executed_pipe_tensor.sum": "tensor instructions", "launch__registers_per_thread": "registers", "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy %"}


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
        for tool in SANITIZERS:
            command = [path, "--tool", tool, "--error-exitcode", "86", *child(name)]
            code, out, err = run(command, timeout)
            text = out + err
            found = re.search(r"ERROR SUMMARY: (\d+) error", text) or re.search(r"RACECHECK SUMMARY: (\d+) hazard", text)
            state = "timed out" if code is None else "clean" if code == 0 and found and found[1] == "0" else "found" if code == 86 or found and found[1] != "0" else "failed"
            rows.append({"tool": tool, "name": name, "state": state, "errors": int(found[1]) if found else None,
                         "text": "" if state == "clean" else text.strip()[-1500:]})
    return rows


def profile(path, programs, child, timeout):
    """[{name, kernels: [{kernel, metric...}]}]"""
    rows = []
    for name in programs:
        command = [path, "--clock-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(METRICS), "--kernel-name", "regex:^(map|contract|attention|scan|sort|scatter|kiln)",
                   "--launch-count", "40", *child(name)]
        code, out, err = run(command, timeout)
        table = out[out.find('"ID"'):] if '"ID"' in out else ""
        kernels = []
        for line in list(csv.DictReader(io.StringIO(table)))[1:]:  # the first row has the units
            kernels.append({"kernel": line.get("Kernel Name", "?")[:60], **{label: line.get(metric, "") for metric, label in METRICS.items()}})
        rows.append({"name": name, "state": "timed out" if code is None else "profiled" if kernels else "failed", "kernels": kernels,
                     "text": "" if kernels else (out + err).strip()[-1500:]})
    return rows
