"""Profiles of compiled models (aot-run --profile), on CPUs and in the emulator."""

import collections
import json
import re

import numpy
import pytest
import torch
from torch.export import Dim

from conftest import EMULATED, run_tool

THREADS, RUNS = 3, 4


class Profiled(torch.nn.Module):
    """Products, a map, a loop over slices in a nested graph, and a call of the runtime."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 96), torch.nn.Linear(96, 64)

    def forward(self, x):
        y = self.second(torch.relu(self.first(x)))
        z = torch.cond(y.sum() > 1e9, lambda t: t.sin(), lambda t: torch.softmax(t.cos(), -1), (y,))
        return torch.linalg.svdvals(z[:3, :3]), z


@pytest.fixture(scope="module", params=[(), EMULATED], ids=["cpu", "cuda"])
def profile(request, tmp_path_factory):
    """The folder, the file of a profile, the table, the options."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("profile")
    module, x = Profiled().eval(), torch.randn(300, 64)
    numpy.savez(folder / "in.npz", **{"0": x.numpy()})
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (x,), dynamic_shapes={"x": {0: Dim("n", min=4, max=512)}}), folder / "model.pt2")
    for options in (["-o", folder / "model.so"], ["--emit=wrapper", "-o", folder / "model.mlir"]):
        process = run_tool("aot-compile", folder / "model.pt2", *options, *request.param)
        assert process.returncode == 0, process.stderr
    process = run_tool(
        "aot-run",
        folder / "model.so",
        "--inputs",
        folder / "in.npz",
        "--outputs",
        folder / "out.npz",
        "--threads",
        THREADS,
        "--warmup",
        2,
        "--repeat",
        RUNS,
        f"--profile={folder / 'profile.json'}",
    )
    assert process.returncode == 0 and not process.stderr, process.stderr
    with torch.no_grad(), numpy.load(folder / "out.npz") as outputs:
        for i, expected in enumerate(module(x)):
            torch.testing.assert_close(torch.from_numpy(outputs[str(i)]), expected, rtol=1e-4, atol=1e-4)
    return folder, json.loads((folder / "profile.json").read_text()), process.stdout, request.param


def events(trace, category):
    return [event for event in trace["traceEvents"] if event.get("cat") == category]


def encloses(outer, inner):
    """Times are microseconds with three decimals: exact in nanoseconds."""
    begin, end = ([round(1000 * value) for value in (event["ts"], event["ts"] + event["dur"])] for event in (outer, inner))
    return begin[0] <= end[0] and end[1] <= begin[1]


def test_trace(profile):
    folder, trace, _, options = profile
    runs, steps, tasks = (events(trace, category) for category in ("run", "step", "tasks"))
    assert len(runs) == RUNS == trace["kiln"]["runs"] and trace["kiln"]["dropped_events"] == 0
    assert all(event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0 for event in runs + steps + tasks)
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert {event["tid"] for event in runs + steps + tasks} == set(names)
    for run in runs:
        inside = sorted((step for step in steps if step["args"]["run"] == run["args"]["run"]), key=lambda step: step["ts"])
        assert inside and all(encloses(run, step) for step in inside)
        assert all(not step["dur"] or a["ts"] + a["dur"] <= step["ts"] + 1e-6 for a, step in zip(inside, inside[1:]))
        assert sum(step["dur"] for step in inside) <= run["dur"] + 1e-3
    for part in tasks:
        owners = [step for step in steps if step["name"] == part["name"] and encloses(step, part)]
        assert owners and all(step["args"]["launch"] == part["args"]["launch"] for step in owners)
    if options:
        assert not tasks and names[0] == "GPU" and {step["tid"] for step in steps if step["name"].startswith("contract")} == {0}
    else:
        assert len({part["tid"] for part in tasks}) <= THREADS and list(names.values()).count("run") == 1
    counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert len(counters) == RUNS and all(event["args"] == trace["kiln"]["memory_bytes"] for event in counters)


def test_names(profile):
    """Steps are numbered as --emit=wrapper has them; what a branch that is not taken holds does not run."""
    folder, trace, _, _ = profile
    text = (folder / "model.mlir").read_text()
    known = [a or b for a, b in re.findall(r'wrapper\.launch @(\w+)|wrapper\.extern_call "\w+" "([^"]+)"', text)]
    seen = {event["args"]["launch"]: event["name"] for event in events(trace, "step")}
    assert all(known[launch] == name for launch, name in seen.items()) and len(known) > len(seen) > 3
    assert any(name.startswith("contract") for name in seen.values()) and any("svd" in name for name in seen.values())
    assert all(event["args"]["where"].startswith("node '") for event in events(trace, "step"))
    assert any(re.match(r"node 'linear' \(.*test_profile.py:\d+\)", event["args"]["where"]) for event in events(trace, "step"))


def test_sums(profile):
    folder, trace, table, options = profile
    sums = trace["kiln"]
    assert (sums["version"], sums["threads"], sums["target"]) == (1, THREADS, "cuda" if options else "cpu")
    steps = events(trace, "step")
    by_launch = collections.Counter(step["args"]["launch"] for step in steps)
    assert {entry["launch"]: entry["count"] for entry in sums["launches"]} == {k: n / RUNS for k, n in by_launch.items()}
    for entry in sums["launches"]:
        times = sorted(step["dur"] for step in steps if step["args"]["launch"] == entry["launch"])
        assert entry["ms"] == pytest.approx(times[RUNS // 2] / 1000, abs=1e-6)
    assert sorted(k for entry in sums["kernels"] for k in entry["launches"]) == sorted(by_launch)
    assert [entry["ms"] for entry in sums["kernels"]] == sorted((entry["ms"] for entry in sums["kernels"]), reverse=True)
    products = {entry["flops"]: entry for entry in sums["launches"] if entry["name"].startswith("contract")}
    n = 300
    assert any(flops in (2 * n * 64 * 96 + k * n * 96 for k in range(4)) for flops in products), products.keys()
    for entry in products.values():  # x, weights of the model, y; the bias is a weight, too
        assert 0 < entry["weight_bytes"] < entry["bytes"] and entry["gflop_per_s"] > 0
        assert entry["weight_bytes"] >= 4 * 64 * 96
        assert 4 * (n * 64 + 64 * 96 + n * 96) <= entry["bytes"] <= 4 * (n * 64 + 64 * 96 + n * 96 + 2 * 96)
    assert sums["memory_bytes"]["weights"] > 2 * 4 * 64 * 96 and sums["memory_bytes"]["arena"] > 0
    if options:
        assert sums["limits"] == {"gflop_per_s": None, "reads": []} and all(entry["roofline"] is None for entry in sums["kernels"])
    else:
        assert sums["limits"]["gflop_per_s"] > 1 and all(read["gb_per_s"] > 0.1 for read in sums["limits"]["reads"])
        assert all(entry["bound"] in ("compute", "memory") and entry["roofline"] > 0 for entry in products.values())
    lines = table.splitlines()
    assert any(f"profile of {RUNS} runs on {THREADS} threads" in line for line in lines)
    assert [line.split()[0] for line in lines if line.startswith("  ")] == ["kernel"] + [entry["name"] for entry in sums["kernels"]]


def test_default_number_of_runs(profile):
    folder, _, _, options = profile
    if options:
        pytest.skip("it is the same for all targets")
    path = folder / "default.json"
    process = run_tool("aot-run", folder / "model.so", "--profile", path)
    assert process.returncode == 0, process.stderr
    assert json.loads(path.read_text())["kiln"]["runs"] == 10


def test_unwritable(profile):
    folder, _, _, _ = profile
    path = folder / "nowhere" / "profile.json"
    process = run_tool("aot-run", folder / "model.so", "--profile", path)
    assert process.returncode == 1 and process.stderr == f"aot-run: error: cannot write {path}: No such file or directory\n", process.stderr
