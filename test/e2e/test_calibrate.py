"""The numbers of this machine that planners can reckon with."""

import os
import subprocess

import torch

from conftest import run_tool


def test_calibrate(tmp_path):
    """They are this machine's, and the compiler takes them as they are."""
    process = run_tool("aot-tune", "--calibrate")
    assert process.returncode == 0 and process.stderr == ""
    numbers = {name: int(value) for name, value in (pair.split("=") for pair in process.stdout.strip().split(","))}
    assert 500 < numbers["clock"] < 10000 and 100 < numbers["memory_rate"] < 10**6
    assert 1 <= numbers["fma_units"] <= 4 and 3 <= numbers["fma_latency"] <= 6
    assert numbers["cores"] == len(os.sched_getaffinity(0))
    for name, known in (("l1", "LEVEL1_DCACHE_SIZE"), ("l2", "LEVEL2_CACHE_SIZE"), ("cache_line", "LEVEL1_DCACHE_LINESIZE")):
        assert numbers.get(name, 0) == int(subprocess.check_output(["getconf", known]))
    torch.export.save(torch.export.export(torch.nn.Linear(64, 32), (torch.randn(2, 64),)), tmp_path / "model.pt2")
    command = [tmp_path / "model.pt2", "--emit=kernel", "-o", tmp_path / "out.mlir", f"--cpu-tune={process.stdout.strip()}"]
    assert run_tool("aot-compile", *command).returncode == 0
    assert f"clock = {numbers['clock']}, memory_rate = {numbers['memory_rate']}," in (tmp_path / "out.mlir").read_text()
