"""Libraries of models that come and go, and files of weights that change beneath them."""

import _ctypes
import os
import signal
import subprocess
import sys

import injection
import pytest
import torch

sys.path[:0] = [str(injection.ROOT / "python")]

import kiln  # noqa: E402

# The number that scripts/soak asks for.
SAMPLES = int(os.environ.get("KILN_FAULTS_SAMPLES", "0"))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A model whose weights are large enough for pages of their own."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    torch.export.save(torch.export.export(torch.nn.Linear(512, 256).eval(), (torch.ones(1, 512),)), folder / "model.pt2")
    command = [injection.BUILD / "bin" / "aot-compile", folder / "model.pt2", "-o", folder / "model.so", "--weights=external"]
    subprocess.run(command, check=True)
    return folder / "model.so"


def count(folder):
    return len(os.listdir(f"/proc/self/{folder}"))


def mapped(path):
    with open("/proc/self/maps") as maps:
        return sum(str(path) in line for line in maps)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def load_and_run(library, threads=2):
    model = kiln.load(library, threads=threads)
    (output,) = model.run([torch.ones(1, 512)])
    return model, output.sum().item()


def unload(model):
    handle = model._library._handle
    model.close()
    _ctypes.dlclose(handle)


def test_loads_and_unloads(library):
    """A thousand (in scripts/soak) leave no mapping, file, thread or memory."""
    for i in range(20 + (SAMPLES and 1000 or 50)):
        if i == 20:
            before, size = (count("fd"), count("task"), mapped(library.parent)), resident_bytes()
        unload(load_and_run(library)[0])
    assert (count("fd"), count("task"), mapped(library.parent)) == before and before[2] == 0
    assert resident_bytes() < size + (2 << 20)


def test_unload_with_live_models(library):
    """The workers end before their code goes; weights and memory of the models stay where they are."""
    tasks = count("task")
    models = [load_and_run(library, threads)[0] for threads in (2, 3, 4)]
    assert count("task") == tasks + 6
    for model in models:
        model._handle.value = None  # nothing of it can be called any more
        _ctypes.dlclose(model._library._handle)
    assert count("task") == tasks and not any(line.endswith("model.so\n") for line in open("/proc/self/maps"))
    assert load_and_run(library)[1] == load_and_run(library)[1]


def test_weights_that_are_replaced(library, tmp_path):
    """A file that another one takes the place of is read on: this is how the compiler writes its own."""
    copy = tmp_path / "copy.safetensors"
    whole = library.with_name("model.so.safetensors").read_bytes()
    copy.write_bytes(whole)
    model = kiln.load(library, weights=copy)
    (expected,) = model.run([torch.ones(1, 512)])
    other = tmp_path / "other"
    other.write_bytes(b"")
    os.replace(other, copy)
    assert torch.equal(model.run([torch.ones(1, 512)])[0], expected)
    with pytest.raises(kiln.KilnError, match="not a weights file"):
        kiln.load(library, weights=copy)


def test_weights_that_shrink(library, tmp_path):
    """What is cut off of a mapped file cannot be read, as docs/abi.md says: the process gets SIGBUS, and never another result."""
    whole = library.with_name("model.so.safetensors").read_bytes()
    for kept in (0, 4096, len(whole) // 2, len(whole) - 4096):
        copy = tmp_path / "copy.safetensors"
        copy.write_bytes(whole)
        script = f"""
import ctypes, os, sys
sys.path[:0] = [{str(injection.ROOT / "python")!r}]
import kiln, numpy
model = kiln.load({str(library)!r}, weights={str(copy)!r})
os.truncate({str(copy)!r}, {kept})
outputs = model.run([numpy.ones((1, 512), "float32")])
print(float(outputs[0].sum()))
"""
        process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert process.returncode == -signal.SIGBUS and not process.stdout, (kept, process.returncode, process.stderr)
        with pytest.raises(kiln.KilnError, match="wrong file size|not a weights file"):
            kiln.load(library, weights=copy)
