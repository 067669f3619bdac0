"""What loads a model: on CPUs that it was not compiled for."""

import ctypes
import pathlib
import re
import subprocess

import pytest
import torch

import kiln
from conftest import run_tool


def run_mlp(small_mlp, model):
    x = torch.randn(3, 6)
    torch.testing.assert_close(model(x), small_mlp.module(x).detach(), rtol=1e-5, atol=1e-5)


def test_another_cpu(small_mlp, compile_file):
    """A CPU that lacks what a model's code may use is told so before any of that code runs."""
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    cpu, lacks = ("diamondrapids", "egpr") if " amx_tile " in flags else ("sapphirerapids", "amx-tile")
    output = compile_file(f"--cpu={cpu}")
    process = run_tool("aot-run", output)
    assert process.returncode == 1 and re.search(
        rf"the CPU '{cpu}', and this machine, .*, lacks .*\b{lacks}\b.*: compile it with --cpu=", process.stderr
    )
    with pytest.raises(kiln.KilnError, match=lacks) as caught:
        kiln.load(output)
    (level,) = re.findall(r"compile it with (--cpu=[\w-]+)", str(caught.value))
    # What a host calls before that is the runtime's, which is no newer than x86-64-v2.
    library = ctypes.CDLL(str(output))
    assert library.kiln_abi_version() == 1
    sections = subprocess.run(["readelf", "-W", "-d", "-r", output], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"\((PRE)?INIT(_ARRAY)?\)|IRELATIV", sections)
    run_mlp(small_mlp, kiln.load(compile_file(level, name="other.so")))
