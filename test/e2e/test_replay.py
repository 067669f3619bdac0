"""Programs that the tests keep for a GPU (KILN_TEST_PACKAGE), and bench/gpu/replay.py, in the emulator."""

import os
import shutil
import subprocess
import sys

import pytest
import torch

from conftest import EMULATOR, ROOT


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    test = "test/e2e/test_mlp.py::test_sizes[1-sizes0]"
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "KILN_TEST_TARGET": "cuda", "KILN_TEST_PACKAGE": str(folder)},
    )
    assert process.returncode == 0, process.stdout[-2000:]
    (program,) = folder.iterdir()
    return program


def replay(*folders):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "KILN_CUDA_DRIVER": str(EMULATOR)}
    script = ROOT / "bench" / "gpu" / "replay.py"
    process = subprocess.run([sys.executable, script, *folders, "--jobs", "1"], capture_output=True, text=True, env=environment)
    return process.returncode, process.stdout.splitlines()


def test_right(kept):
    assert replay(kept) == (0, ["programs: 1 passed, 0 failed"])


def test_failures(kept, tmp_path):
    """A wrong result, a process that ends, and what comes behind it in the same process."""
    for name in ("a-wrong", "b-crashes", "c-right"):
        shutil.copytree(kept, tmp_path / name)
    call = torch.load(tmp_path / "a-wrong" / "0.pt", weights_only=False)
    call["expected"][0] += 1
    torch.save(call, tmp_path / "a-wrong" / "0.pt")
    source = tmp_path / "crash.c"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void crash(void) { abort(); }\n")
    subprocess.run(["clang-22", "-shared", "-fPIC", source, "-o", tmp_path / "b-crashes" / "model.so"], check=True)
    code, lines = replay(tmp_path)
    assert code == 1 and lines[-1] == "programs: 1 passed, 2 failed", lines
    assert (
        lines[0].startswith("a-wrong: AssertionError: Tensor-likes are not close!") and lines[1] == "b-crashes: the process ended with -6"
    )


def test_nothing(tmp_path):
    assert replay(tmp_path) == (1, ["programs: 0 passed, 0 failed"])
