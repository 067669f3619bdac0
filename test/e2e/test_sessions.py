"""Sessions: runs of one model on buffers of their own."""

import copy
import os
import subprocess
import sys
import threading

import pytest
import torch

import kiln
from conftest import ROOT, TARGET

EXACT = dict(rtol=0, atol=0)
OPTIONS = dict(option.lstrip("-").replace("-", "_").split("=") for option in TARGET)
ROWS, WIDTH = 32, 24


class Decoder(torch.nn.Module):
    """Attends to all rows that it has been given so far: a cache that is written in place, and a count."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(ROWS, WIDTH))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x, at):
        self.keys.index_copy_(0, at, self.project(x))
        self.count += at.shape[0]
        weights = (self.keys @ x[-1]).softmax(0)
        return weights @ self.keys, self.count.clone()


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    torch.manual_seed(0)
    module = Decoder().eval()
    inputs = (torch.randn(1, WIDTH), torch.tensor([0]))
    with torch.no_grad():
        program = torch.export.export(module, inputs)
    path = tmp_path_factory.mktemp("sessions") / "decoder.so"
    return module, kiln.compile(program, path, threads=2, **OPTIONS)


def step(at, seed):
    return torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(100 * seed + at)), torch.tensor([at])


def check(session, module, at, seed):
    inputs = step(at, seed)
    with torch.no_grad():
        expected = module(*inputs)
    torch.testing.assert_close(session(*inputs), expected, rtol=1e-5, atol=1e-5)


def test_interleaved(decoder):
    """Each session, and the model's own runs, are as eager's copies of the module, whatever the others do."""
    module, model = decoder
    modules = [copy.deepcopy(module) for _ in range(4)]
    callables = [model.session(), model.session(), model.session(), model]
    for at in range(6):
        for i in range(4):
            if (at + i) % 3:
                check(callables[i], modules[i], at, i)
    clone, cloned = callables[0].clone(), copy.deepcopy(modules[0])
    callables[1].reset()
    modules[1] = copy.deepcopy(module)
    for at in range(6, 9):
        check(clone, cloned, at, 9)
        check(callables[0], modules[0], at, 0)
        check(callables[1], modules[1], at, 1)
    # Buffers that the host sets are those of the model's own runs and of later sessions.
    keys = torch.randn(ROWS, WIDTH)
    model.set_constant("keys", keys)
    for which in (module, modules[3]):
        which.keys.copy_(keys)
    fresh, late = model.session(), copy.deepcopy(module)
    for at in range(9, 12):
        check(model, modules[3], at, 3)
        check(fresh, late, at, 4)
        check(callables[2], modules[2], at, 2)
    model.set_constant("keys", torch.zeros(ROWS, WIDTH))
    module.keys.zero_()


def test_threads(decoder):
    """Sessions that run at once give what they give alone."""
    _, model = decoder
    expected = []
    for seed in range(4):
        session = model.session()
        expected.append([session(*step(at, seed)) for at in range(12)])
    found = [None] * 4

    def run(seed):
        session = model.session()
        found[seed] = [session(*step(at, seed)) for at in range(12)]

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.testing.assert_close(found, expected, **EXACT)


def test_refusals(decoder, tmp_path):
    _, model = decoder
    session, gone = model.session(), model.session()
    handle = gone._handle.value
    gone.close()
    gone._handle.value = handle
    with pytest.raises(kiln.KilnError, match="the session has been destroyed"):
        gone(*step(0, 0))
    gone._handle.value = None
    with pytest.raises(kiln.KilnError, match="expected 2 inputs, got 1"):
        session.run([step(0, 0)[0]])
    with pytest.raises(kiln.KilnError, match="expected a session, got NULL"):
        gone.reset()
    # A session of another shared object's model.
    other = kiln.compile(torch.export.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),)), tmp_path / "other.so")
    with pytest.raises(kiln.KilnError, match="is one of another shared object's model"):
        other._check(other._library.kiln_session_reset(session._handle))
    # A session of a model that is gone.
    short = kiln.load(model.path)
    session = short.session()
    short._library.kiln_model_destroy(short._handle)
    short._handle.value = None
    with pytest.raises(kiln.KilnError, match="the session's model has been destroyed"):
        session.run(list(step(0, 0)))


MEASURE = """
import sys, kiln, numpy
model = kiln.load(sys.argv[1], threads=1)
def private():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))
x = numpy.ones((1, 1024), "float32")
def use():
    session = model.session()
    for output in session.run([x]):
        del output
    return session
sessions = [use(), use()]
before = private()
sessions += [use() for _ in range(8)]
state = 4 * 4080 * 1024  # and the arena: not much less than huge pages, of which they are made
print((private() - before) / (8 * (state + model.info["arena_bytes"])))
"""


@pytest.mark.skipif(bool(TARGET), reason="measures the host's memory")
def test_memory(tmp_path):
    """A further session costs its buffers and an arena."""

    class Large(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(4080, 1024))
            self.register_buffer("cache", torch.ones(4080, 1024))

        def forward(self, x):
            self.cache.add_(x)
            return ((self.cache.cumsum(0) @ x[0]) * (self.weight @ x[0])).sum()

    path = tmp_path / "large.so"
    kiln.compile(torch.export.export(Large(), (torch.ones(1, 1024),)), path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True, env=environment)
    ratio = float(done.stdout)
    assert 0.98 <= ratio <= 1.02, ratio
