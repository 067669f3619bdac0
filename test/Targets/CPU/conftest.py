"""Runs kernels through kiln-run-kernel: compiled for this machine, on NumPy arrays."""

import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build")) / "bin" / "kiln-run-kernel"


class Runner:
    def __init__(self, folder):
        self.folder = folder

    def __call__(self, text, inputs, num_outputs=1, symbols=None, threads=1, check=True, args=()):
        """The outputs of the first kernel of MLIR text `text`."""
        source = self.folder / "kernel.mlir"
        source.write_text(text)
        command = [str(TOOL), str(source), f"--run-threads={threads}", *args]
        paths = []
        for i, array in enumerate(inputs):
            paths.append(str(self.folder / f"in{i}.npy"))
            np.save(paths[-1], np.ascontiguousarray(array))
        if paths:
            command.append("--inputs=" + ",".join(paths))
        outputs = [self.folder / f"out{i}.npy" for i in range(num_outputs)]
        command.append("--outputs=" + ",".join(map(str, outputs)))
        for name, value in (symbols or {}).items():
            command.append(f"--sym={name}={value}")
        done = subprocess.run(command, capture_output=True, text=True)
        if not check:
            return done
        assert done.returncode == 0, done.stderr
        results = [np.load(path) for path in outputs]
        return results[0] if num_outputs == 1 else results


@pytest.fixture
def run(tmp_path):
    if not TOOL.exists():
        pytest.skip(f"{TOOL} is not built")
    return Runner(tmp_path)


def pointwise(body, inputs, shape, result="f32"):
    """A kernel.map over `shape` whose body computes %y from %x0, %x1, … (element types `inputs`)."""
    sizes = "".join(f"{size}x" for size in shape)
    dims = ", ".join(f"d{i}" for i in range(len(shape)))
    scalar = {"ui8": "i8"}
    arguments = ", ".join(f"%t{i}: tensor<{sizes}{t}>" for i, t in enumerate(inputs))
    reads = "\n".join(
        f"    %x{i} = kernel.read %t{i} ({dims}) -> ({dims}) : tensor<{sizes}{t}> -> {scalar.get(t, t)}" for i, t in enumerate(inputs)
    )
    return f"""
kernel.func @pointwise({arguments}) -> tensor<{sizes}{result}> {{
  %r = kernel.map {{
{reads}
{body}
    kernel.yield %y : {scalar.get(result, result)}
  }} : tensor<{sizes}{result}>
  kernel.return %r : tensor<{sizes}{result}>
}}
"""
