"""torch.compile(backend="kiln", options={"freeze": True}): weights that are kept packed, whatever becomes of them."""

import concurrent.futures
import copy
import gc

import pytest
import torch
import torch.nn.functional as F

from conftest import TARGET
from kiln.dynamo import _cache, _run

pytestmark = pytest.mark.skipif(bool(TARGET), reason="the tensors of these graphs are on the CPU")
CLOSE = dict(rtol=1e-4, atol=1e-4)


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KILN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield _cache.directory()


@pytest.fixture(autouse=True)
def graphs(monkeypatch):
    """The compiled graphs of a test."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    made, init = [], _run.CompiledGraph.__init__

    def note(self, *args):
        init(self, *args)
        made.append(self)

    monkeypatch.setattr(_run.CompiledGraph, "__init__", note)
    return made


def compiled(function, **options):
    return torch.compile(function, backend="kiln", options={"fallback": "none", "freeze": True}, **options)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 20, 3, bias=False), torch.nn.BatchNorm2d(20)
        self.table = torch.nn.Embedding(30, 20)
        self.head = torch.nn.Linear(20, 30, bias=False)
        self.last = torch.nn.Linear(30, 5)
        self.register_buffer("scale", torch.rand(()))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.eval()

    def forward(self, x, tokens):
        self.calls += 1
        x = F.relu(self.norm(self.conv(x))).mean((2, 3)) + self.table(tokens)
        return self.last(self.head(x) * self.scale) + self.calls


def inputs(batch=4):
    return torch.randn(batch, 3, 8, 9), torch.randint(0, 30, (batch,))


def check(function, module, x):
    """`function` gives what eager mode does with the module as it is."""
    twin = copy.deepcopy(module)
    torch.testing.assert_close(function(*x), twin(*x), **CLOSE)
    assert torch.equal(module.calls, twin.calls)


@torch.no_grad()
def test_weights_change(graphs):
    module, x = Net(), inputs()
    function = compiled(module)
    check(function, module, x)
    frozen = graphs[0].frozen
    assert len(graphs) == 1 and len(frozen) == 9, frozen  # without the table and the buffer that is written
    (prepared,) = graphs[0].weights.prepared
    states = list(prepared.states)
    check(function, module, x)
    assert prepared.states == states
    for parameter in module.parameters():
        parameter.add_(torch.rand_like(parameter))
        check(function, module, x)
    assert sum(a != b for a, b in zip(states, prepared.states)) == 6
    module.norm.running_var.mul_(3)
    check(function, module, x)
    module.load_state_dict(Net().state_dict())
    check(function, module, x)
    module.head.weight.data = torch.randn(30, 20)  # other memory, and no new version
    check(function, module, x)
    module.head.weight.data = torch.randn(20, 30).t()  # other strides
    check(function, module, x)
    module.last.weight.data = module.last.weight.data.as_strided((5, 30), (1, 5))  # the same memory, seen otherwise
    check(function, module, x)
    module.last.weight = torch.nn.Parameter(torch.randn(5, 30))
    check(function, module, x)
    assert sum(len(graph.weights.prepared) for graph in graphs) == 1  # those with the old weight have gone


@torch.no_grad()
def test_modules_of_one_class(graphs):
    blocks = [torch.nn.Linear(40, 40) for _ in range(3)]
    functions = [compiled(block) for block in blocks]
    x = torch.randn(6, 40)
    for _ in range(2):
        for function, block in zip(functions, blocks):
            torch.testing.assert_close(function(x), block(x), **CLOSE)
    assert len(graphs) == 1 and len(graphs[0].weights.prepared) == 3
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runner = graphs[0].weights.find
        found = list(pool.map(lambda i: runner([blocks[i % 3].weight, blocks[i % 3].bias]), range(60)))
    assert all(found[i] is found[i % 3] for i in range(60))
    del functions, blocks[1:], block, function, found
    torch._dynamo.reset()
    gc.collect()
    assert len(graphs[0].weights.prepared) == 1


def test_training_is_as_without(graphs):
    module, x = torch.nn.Linear(6, 3), torch.randn(5, 6)
    function = compiled(module)
    function(x).square().sum().backward()
    expected = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
    torch.testing.assert_close([p.grad for p in module.parameters()], list(expected))
    assert not any(graph.frozen for graph in graphs)
    with torch.no_grad():
        torch.testing.assert_close(function(x), module(x))
    assert len(graphs[-1].frozen) == 2


@torch.no_grad()
def test_dynamic_sizes(graphs):
    module = Net()
    function = compiled(module, dynamic=True)
    for batch in (4, 5, 11):
        check(function, module, inputs(batch))
    assert len(graphs) == 1 and graphs[0].frozen


def test_inference_tensors():
    """They have no versions: what was written to them is found all the same."""
    with torch.inference_mode():
        module, x = torch.nn.Linear(7, 9), torch.randn(3, 7)
        function = compiled(module)
        for _ in range(3):
            torch.testing.assert_close(function(x), module(x), **CLOSE)
            module.weight.add_(1)


@torch.no_grad()
def test_saved(graphs, tmp_path):
    module, x = torch.nn.Linear(12, 9), torch.randn(3, 12)
    function = compiled(module.forward, fullgraph=True).aot_compile(((x,), {}))
    assert graphs[0].frozen
    path = str(tmp_path / "function.bin")
    function.save_compiled_function(path, external_data={"module": module})
    with open(path, "rb") as file:
        loaded = torch.compiler.load_compiled_function(file, external_data={"module": module})
    for _ in range(2):
        torch.testing.assert_close(loaded(x), module(x), **CLOSE)
        module.weight.neg_()


def test_bad_value():
    with pytest.raises(Exception, match='takes True or False for "freeze", not 1'):
        torch.compile(lambda x: x + 1, backend="kiln", options={"freeze": 1})(torch.ones(3))
