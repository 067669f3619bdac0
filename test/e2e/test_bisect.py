"""aot-compile --bisect: the pass or the kernel that is wrong is named, and nothing is where none is."""

import json
import os
import re
import shutil

import numpy
import pytest
import torch

from conftest import ROOT, TARGET, assert_user_error, run_tool

BUILD = os.environ.get("KILN_BUILD", ROOT / "build")


class Model(torch.nn.Module):
    """A product with an epilogue, a softmax, a nested graph, a size that data gives, and a loop over rows."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x, factor: int):
        y = torch.softmax(torch.relu(self.linear(x)) * factor, -1)
        z = torch.cond(y.sum() > 0, lambda t: t.sin() + 1, lambda t: t.cos(), (y,))
        kept = torch.masked_select(z, y > 0.2)
        return z.to(torch.bfloat16), kept.cumsum(0), y.argmax(-1)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The folder of a model and of a run of it."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("bisect")
    module, x = Model().eval(), torch.randn(5, 6)
    numpy.savez(folder / "in.npz", **{"0": x.numpy(), "1": 3})
    with torch.no_grad():
        shapes = {"x": {0: torch.export.Dim("n", min=1, max=64)}, "factor": torch.export.Dim.DYNAMIC}
        torch.export.save(torch.export.export(module, (x, 3), dynamic_shapes=shapes), folder / "model.pt2")
    done = run_tool("aot-compile", folder / "model.pt2", "-o", folder / "model.so", "--debug-print=1", *TARGET)
    assert done.returncode == 0, done.stderr
    done = run_tool("aot-run", folder / "model.so", "--inputs", folder / "in.npz", env={"KILN_DEBUG_DIR": str(folder / "runs")})
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(recorded, tmp_path):
    """A copy of the run, to be damaged."""
    return shutil.copytree(recorded / "runs" / "run0", tmp_path / "run")


def bisect(recorded, run, *options):
    return run_tool("aot-compile", recorded / "model.pt2", f"--bisect={run}", *options)


def test_right(recorded, run):
    done = bisect(recorded, run, *TARGET)
    assert done.returncode == 0, done.stdout + done.stderr
    passes, launches = map(int, re.fullmatch(r"(\d+) passes and (\d+) launches are right\n", done.stdout).groups())
    entries = [json.loads(line) for line in (run / "index.jsonl").read_text().splitlines()]
    assert launches == len({entry["step"] for entry in entries if entry["time"] != "inputs"}) > 3
    assert passes > 3


def test_wrong_kernel(recorded, run):
    entries = [json.loads(line) for line in (run / "index.jsonl").read_text().splitlines()]
    results = [entry for entry in entries if entry["role"] == "result" and entry["time"] == "after_launch" and entry["dtype"] == "float32"]
    entry = results[len(results) // 2]
    value = numpy.load(run / entry["file"])
    value.flat[-1] += 0.01
    numpy.save(run / entry["file"], value)
    done = bisect(recorded, run, *TARGET)
    assert done.returncode == 1, done.stdout + done.stderr
    place = ", ".join(str(size - 1) for size in entry["shape"])
    expected = (
        f"launch {entry['step']}, of the kernel {entry['kernel']} ({entry['where']}), gives a wrong result {entry['index']}: at [{place}]: "
    )
    assert expected in done.stdout and f"(1 of {value.size} elements differ)" in done.stdout


def test_wrong_pass(recorded, run):
    done = bisect(recorded, run, f"--load-plugin={BUILD}/test/Pipeline/wrong-pass.so", "--target=wrong")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"\n(the pass multiply-for-sums changes result \d: at \[.*elements differ\))\n$", done.stdout), done.stdout


def test_refusals(recorded, run, tmp_path):
    def assert_refused(text, *options, folder=run):
        assert_user_error(bisect(recorded, folder, *options), text)

    assert_refused("index.jsonl: No such file or directory (a model compiled with --debug-print=1 writes it)", folder=tmp_path)
    assert_refused("--bisect: expected a folder", folder="")
    assert_refused("--bisect: not with -o", "-o", tmp_path / "out.so")
    assert_refused("--bisect: not with --emit", "--emit=kernel")
    index = run / "index.jsonl"
    text = index.read_text()
    first = text.splitlines()[0]
    for line, problem in [
        ("nonsense", "index.jsonl:1: "),
        ("[]", "index.jsonl:1: expected an object"),
        ("{}", "index.jsonl:1: a line does not say all of a tensor"),
        (first.replace('"file": "', '"file": "../'), "index.jsonl:1: a tensor is in another folder"),
        (first.replace('"index": 0', '"index": 7'), "index.jsonl:1: tensors are not in order"),
        (first.replace("[5, 6]", "[500, 6]"), "not a tensor of this size"),
        (first.replace("[5, 6]", "[-5, 6]"), "a tensor has the size -5"),
        (first.replace("[5, 6]", "[5000000000, 5000000000]"), "too many elements"),
    ]:
        assert line != first
        index.write_text("\n".join([line, *text.splitlines()[1:]]))
        assert_refused(problem, *TARGET)
    index.write_text("")
    assert_refused("the run is of another program: 0 tensors instead of 2", *TARGET)


def test_library(tmp_path):
    class Sorted(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x)

    torch.export.save(torch.export.export(Sorted(), (torch.randn(3, 3),)), tmp_path / "model.pt2")
    done = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so", "--debug-print=1", *TARGET)
    assert done.returncode == 0, done.stderr
    done = run_tool("aot-run", tmp_path / "model.so", env={"KILN_DEBUG_DIR": str(tmp_path / "runs")})
    assert done.returncode == 0, done.stderr
    done = run_tool("aot-compile", tmp_path / "model.pt2", f"--bisect={tmp_path / 'runs' / 'run0'}", *TARGET)
    assert_user_error(done, "node 'linalg_svdvals'", "the interpreter does not know kernel.extern")
