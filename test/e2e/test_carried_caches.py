"""Caches that loops carry are written in place: the values are eager's, and no round copies a cache."""

import re

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import kiln
from conftest import TARGET, run_tool
from test_ops_pointwise import some

ROWS, WIDTH = 24, 6


def put(i, x, cache):
    y = torch.tanh(x + cache.sum(0))
    return y, cache.index_copy(0, i.reshape(1), y[None])


def put_slice(i, x, cache):
    """Places that are known make a map, which writes all of the value."""
    return x * 0.5, torch.slice_scatter(cache, x[None], 0, 3, 4)


def put_twice(i, x, cache):
    cache = cache.index_copy(0, i.reshape(1), x[None])
    return cache.amax(0), cache.index_add(0, (i.reshape(1) + 5) % ROWS, x[None])


def reads_old(i, x, cache):
    """What is read is the old value: by a step that moves in front."""
    updated = cache.index_copy(0, i.reshape(1), x[None])
    return x + cache.amin(0), updated


def keeps_old(i, x, cache):
    """Two values of one time: in place only one of them can be there."""
    updated = cache.index_copy(0, i.reshape(1), x[None])
    return (updated - cache).sum(0) + x, updated


def flips(i, x, cache):
    return x + 1, cache.flip(0).index_copy(0, i.reshape(1), x[None])


def overwrites(i, x, cache):
    return cache.sum(0), cache * 0.5


BODIES = {put: True, put_slice: False, put_twice: True, reads_old: True, keeps_old: None, flips: False, overwrites: False}


class Loops(torch.nn.Module):
    """Each body with a cache that is an input, one that is computed, and one that is a buffer of the program's."""

    def __init__(self, body):
        super().__init__()
        self.body = body
        self.register_buffer("state", some(ROWS, WIDTH, seed=1))

    def forward(self, x, cache, steps):
        def turn(i, x, cache):
            x, cache = self.body(i, x, cache)
            return i + 1, x, cache

        def run(cache):
            return while_loop(lambda i, x, cache: i < steps, turn, (torch.zeros((), dtype=torch.int64), x, cache))[1:]

        given = run(cache)
        computed = run(cache * 2)
        kept = run(self.state)
        before = self.state.sum()
        self.state.copy_(kept[1])
        return given, computed[0], computed[1].cumsum(0), kept[0], before, cache.sum(0)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_while(tmp_path, body):
    module = Loops(body)
    inputs = (some(WIDTH, seed=2), some(ROWS, WIDTH, seed=3), torch.tensor(4))
    torch.export.save(torch.export.export(module, inputs), tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so", *TARGET)
    assert process.returncode == 0, process.stderr
    model = kiln.load(tmp_path / "model.so")
    for steps in (0, 1, 2, 5, 20):
        inputs = (some(WIDTH, seed=steps), some(ROWS, WIDTH, seed=steps + 1), torch.tensor(steps))
        given = [each.clone() for each in inputs]
        actual, expected = model(*given), module(*inputs)
        torch.testing.assert_close(actual, expected)
        assert all(map(torch.equal, given, inputs))
    text = run_tool("aot-compile", tmp_path / "model.pt2", "--emit=wrapper", "-o", "-", *TARGET).stdout
    spare = re.findall(r"spare\(([^)]*)\)", text)
    assert len(spare) == 3
    if BODIES[body] is not None:
        assert all((f"[{ROWS}, {WIDTH}]" in each) != BODIES[body] for each in spare), text


class Scans(torch.nn.Module):
    def forward(self, xs, cache):
        def step(carried, x):
            i, cache = carried
            updated = cache.index_copy(0, i.reshape(1) % ROWS, x[None])
            return (i + 3, updated), updated.sum(0)

        (i, last), sums = scan(step, (torch.zeros((), dtype=torch.int64), cache), xs)
        return i, last, sums


def test_scan(tmp_path):
    inputs = (some(9, WIDTH, seed=2), some(ROWS, WIDTH, seed=3))
    torch.export.save(torch.export.export(Scans(), inputs), tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so", *TARGET)
    assert process.returncode == 0, process.stderr
    torch.testing.assert_close(kiln.load(tmp_path / "model.so")(*inputs), Scans()(*inputs))
    text = run_tool("aot-compile", tmp_path / "model.pt2", "--emit=wrapper", "-o", "-", *TARGET).stdout
    assert f"[{ROWS}, {WIDTH}]" not in re.search(r"spare\(([^)]*)\)", text)[1], text
