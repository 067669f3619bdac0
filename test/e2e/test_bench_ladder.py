"""bench/gpu's ladder in the emulator: right rungs, and rungs that hang, crash, are wrong, or whose kernels are not those that were compiled."""

import json
import os
import shutil
import subprocess
import sys

import numpy
import pytest

from conftest import ROOT, pack_gpu_bench

FOLDER = ROOT / "bench" / "gpu"
RUNGS = [
    "pointwise",
    "scatter",
    "in-place",
    "mma",
    "mma-bytes",
    "mma-fours",
    "tma",
    "tma-bytes",
    "tma-float8",
    "attention-paged",
    "graph",
    "streams",
    "sessions",
]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    out = tmp_path_factory.mktemp("ladder") / "package"
    rungs = "^(" + "|".join(RUNGS) + ")$"
    pack_gpu_bench(out, "^none", rungs)
    return out


def climb(package, out, *options, **environment):
    process = subprocess.run(
        [sys.executable, package / "ladder.py", "--out", out / "ladder.json", *options],
        capture_output=True,
        text=True,
        cwd=out,
        env={**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, **environment},
    )
    results = json.loads((out / "ladder.json").read_text()) if (out / "ladder.json").exists() else None
    return process, {row["name"]: row for row in results["rows"]} if results else None


def copy_of(package, tmp_path, rungs):
    broken = tmp_path / "package"
    shutil.copytree(package, broken)
    manifest = json.loads((broken / "manifest.json").read_text())
    manifest["ladder"] = [entry for entry in manifest["ladder"] if entry["name"] in rungs]
    (broken / "manifest.json").write_text(json.dumps(manifest))
    return broken


def test_right(package, tmp_path):
    """Every rung is right, with the kernels that it is there for; what has been run is not run again."""
    process, rows = climb(package, tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert list(rows) == RUNGS and {row["verdict"] for row in rows.values()} == {"right"}
    assert "contract_0_sm_90a" in rows["tma"]["kernels"] and "contract_0" in rows["mma"]["kernels"]
    assert rows["streams"]["calls"] == 12 and rows["graph"]["calls"] == 5
    assert "| tma | right |" in (tmp_path / "ladder.md").read_text()
    process, _ = climb(package, tmp_path)
    assert process.returncode == 0 and not process.stdout


def test_variants_that_do_not_load(package, tmp_path):
    """The model falls back without a word; the ladder does not."""
    broken = copy_of(package, tmp_path, ["tma"])
    process, rows = climb(broken, tmp_path, KILN_EMULATOR_REFUSES="_sm_90a")
    verdict = rows["tma"]["verdict"]
    assert (
        process.returncode == 1
        and "not loaded: contract_0_sm_90a" in verdict
        and "contract_0_sm_90a did not run, but contract_0" in verdict
    )
    assert rows["tma"]["diagnosis"]["variants off"]["verdict"] == "right"
    # A package that expects what was not compiled.
    manifest = json.loads((broken / "manifest.json").read_text())
    manifest["ladder"][0]["kernels"] = ["contract_7_sm_90a"]
    (broken / "manifest.json").write_text(json.dumps({**manifest, "commit": "another"}))
    process, rows = climb(broken, tmp_path)
    assert process.returncode == 1 and "contract_7_sm_90a did not run, but contract_0_sm_90a" in rows["tma"]["verdict"]


def test_hang_crash_and_wrong_result(package, tmp_path):
    """The others are run first; then each is run under other conditions, which name a step where there is one."""
    broken = copy_of(package, tmp_path, ["pointwise", "scatter", "mma", "graph"])
    for name, body in (("pointwise", "sleep(600)"), ("scatter", "abort()")):
        source = tmp_path / "broken.c"
        source.write_text(f"#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void end(void) {{ {body}; }}\n")
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", broken / "ladder" / f"{name}.so"], check=True)
    data = dict(numpy.load(broken / "ladder" / "mma.npz"))
    data["out0"][3, 5] += 1
    numpy.savez(broken / "ladder" / "mma.npz", **data)
    sanitizer = tmp_path / "sanitizer"
    sanitizer.write_text('#!/bin/sh\necho "ERROR SUMMARY: 1 error" >&2\nexit 86\n')
    sanitizer.chmod(0o755)
    process, rows = climb(broken, tmp_path, "--limit", "4", "--sanitizer", str(sanitizer))
    assert process.returncode == 1 and "pointwise, scatter, mma" in process.stderr
    assert list(rows) == ["pointwise", "scatter", "mma", "graph"] and rows["graph"]["verdict"] == "right"
    assert rows["pointwise"]["verdict"] == "it was ended after 4 s" and "the process ended with -6" in rows["scatter"]["verdict"]
    assert rows["mma"]["verdict"].startswith("wrong: error") and rows["mma"]["norm"] < rows["mma"]["error"]
    assert process.stdout.index("graph: right") < process.stdout.index("pointwise, variants off")
    assert set(rows["mma"]["diagnosis"]) == {"variants off", "graphs off", "step by step", "memcheck", "racecheck"}
    assert "ERROR SUMMARY: 1 error" in rows["mma"]["diagnosis"]["memcheck"]["text"]
    # Without time, nothing begins.
    (tmp_path / "ladder.json").unlink()
    process, rows = climb(broken, tmp_path, "--minutes", "0")
    assert process.returncode == 1 and rows == {} and "no time was left for pointwise" in process.stderr


def test_log(package, tmp_path):
    """With a wait behind every step, the log has a line before each and one behind it; without, a line for each kernel."""
    logs = []
    for name in ("alone", "steps"):
        log = tmp_path / name
        environment = {**os.environ, "KILN_CUDA_LOG": str(log), **({"KILN_CUDA_SYNC": "1"} if name == "steps" else {})}
        command = [sys.executable, package / "ladder.py", package, "--child", "graph"]
        process = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert process.returncode == 0 and json.loads(process.stdout)["right"], process.stderr
        logs.append([json.loads(line) for line in log.read_text().splitlines()])
    alone, steps = logs
    loaded = [event["loaded"] for event in alone]
    assert len(loaded) == len(set(loaded)) >= 4 and {event["kind"] for event in alone} == {"emulator"}
    waits = [event for event in steps if "loaded" not in event]
    assert [event["loaded"] for event in steps if "loaded" in event] == loaded and len(waits) >= 2 * 4 * 5
    assert all(begin["begins"] == end["ends"] and "failed" not in end for begin, end in zip(waits[::2], waits[1::2], strict=True))


def test_no_memory(package, tmp_path):
    broken = copy_of(package, tmp_path, ["graph"])
    process, rows = climb(broken, tmp_path, KILN_EMULATOR_MEMORY="64")
    assert process.returncode == 1 and "memory" in rows["graph"]["verdict"] and "step" not in rows["graph"]["diagnosis"]["variants off"]
