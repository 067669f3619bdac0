"""Products on Hopper's tensor cores whose last tiles several blocks have together (stream-K), in the emulator with as many multiprocessors as a case asks for."""

import re
import threading

import torch
import torch.nn.functional as F

from conftest import EMULATED, Compiled, GuardedModel


class Shared(torch.nn.Module):
    """64 and more tiles, written in each way: with what has columns, rows, both; in pairs; in f32; of batches; of windows; of a computed operand."""

    def __init__(self):
        super().__init__()
        self.bias, self.conv = torch.nn.Parameter(torch.randn(512)), torch.nn.Conv2d(128, 128, 3, padding=1)

    def forward(self, x, w, odd, residual, stack, other, images):
        return (
            F.relu(x @ w + self.bias),
            x @ odd[:512].t() + residual,
            F.gelu(x[:, 8:] @ odd[:509, 8:].t()),
            torch.bmm(stack, other).float() * 2,
            F.relu(self.conv(images)),
            (x.float() + 1).to(x.dtype) @ odd[512:1024].t(),
        )


def example(dtype, rows=512, steps=1544, batch=66):
    torch.manual_seed(rows)

    def scaled(*shape):
        return (torch.randn(*shape) / steps**0.25).to(dtype)

    return (
        scaled(rows, steps),
        scaled(steps, 512),
        scaled(1024, steps),
        torch.randn(rows, 512).to(dtype),
        scaled(batch, 20, steps),
        scaled(batch, steps, 40),
        torch.randn(1, 128, 46, 46).to(dtype),
    )


def shares(log):
    """How many blocks have left sums for others, by kernel."""
    found = {}
    for name, count in re.findall(r"(\w+)_sm_90a leaves the sums of (\d+) blocks", log.read_text()):
        found[name] = max(found.get(name, 0), int(count))
    return found


def load(compiled, multiprocessors, folder, monkeypatch):
    """The model on a GPU of so many; returns the emulator's log."""
    log = folder / f"log-{multiprocessors}"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    monkeypatch.setenv("KILN_EMULATOR_MULTIPROCESSORS", str(multiprocessors))
    compiled.model = GuardedModel(compiled.path)
    return log


def assert_same(first, second):
    for one, other in zip(first, second, strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


def test_waves(tmp_path, monkeypatch):
    """64 tiles are a third of a wave, a bit more than one and two, and one and a half. The same bits come out of every run: alone, in a
    graph, and of two runs at the same time."""
    inputs = example(torch.bfloat16)
    compiled = Compiled(Shared().eval().bfloat16(), inputs, tmp_path / "model", options=EMULATED)
    for multiprocessors, least in ((192, 2), (43, 2), (31, 2), (58, 5)):
        log = load(compiled, multiprocessors, tmp_path, monkeypatch)
        first = compiled.check(inputs, 3e-2, 3e-2)
        assert len(shares(log)) >= least, (multiprocessors, shares(log), log.read_text())
        assert all(0 < count < multiprocessors for count in shares(log).values())
    runs = [compiled.model.run(list(inputs))]
    threads = [threading.Thread(target=lambda: runs.append(compiled.model.run(list(inputs)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 3 and re.search(r"graph of \d+\n", log.read_text())
    for run in runs:
        assert_same(first, run)


class Unknown(torch.nn.Module):
    """Numbers of rows, steps and matrices that only the run shows."""

    def forward(self, x, w, stack):
        return F.relu(x @ w), torch.bmm(stack, stack.transpose(1, 2)), (x @ w[:, :40]).float() * 2, (x.t() @ x[:, :48]) + 1


def test_sizes_of_the_run(tmp_path, monkeypatch):
    def inputs(rows, steps, batch):
        torch.manual_seed(rows)
        return tuple((torch.randn(*size) / 6).half() for size in ((rows, steps), (steps, 256), (batch, 40, steps)))

    rows, steps, batch = (factor * torch.export.Dim(name, min=1, max=500) for name, factor in (("rows", 8), ("steps", 8), ("batch", 1)))
    compiled = Compiled(
        Unknown().eval(),
        inputs(1000, 1200, 70),
        tmp_path / "model",
        options=EMULATED,
        dynamic_shapes=({0: rows, 1: steps}, {0: steps}, {0: batch, 2: steps}),
    )
    log = load(compiled, 50, tmp_path, monkeypatch)
    for sizes, least in (((1040, 1288, 66), 1), ((16, 520, 2), 0), ((520, 1032, 2), 0), ((16, 56, 3), 0)):
        log.write_text("")
        compiled.check(inputs(*sizes), 3e-2, 6e-2)
        assert len(shares(log)) >= least, (sizes, log.read_text())
