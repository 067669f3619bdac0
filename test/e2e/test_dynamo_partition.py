"""torch.compile(backend="kiln") on graphs with operators that are not compiled: these run in eager mode, and what is around them is compiled."""

import numpy
import pytest
import torch

import kiln.dynamo
from conftest import TARGET, assert_saved_function
from kiln.dynamo import _run

pytestmark = pytest.mark.skipif(bool(TARGET), reason="the tensors of these graphs are on the CPU")


@torch.library.custom_op("kiln_partition::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * numpy.float32(factor))


scale.register_fake(lambda x, factor: torch.empty_like(x))
scale.register_autograd(
    lambda ctx, grad: (scale(grad, ctx.factor), None), setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1])
)


@torch.library.custom_op("kiln_partition::increment", mutates_args=("x",))
def increment(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("kiln_partition::positive", mutates_args=())
def positive(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[x > 0].clone(), (x > 0).sum()


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size()), x.new_empty((), dtype=torch.int64)


@pytest.fixture(autouse=True)
def parts(tmp_path, monkeypatch):
    """How many parts of each graph are compiled and how many are not, in a cache and a process without any graph before."""
    monkeypatch.setenv("KILN_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    torch.manual_seed(0)
    made = []

    class Recorded(kiln.dynamo.PartitionedGraph):
        def __init__(self, steps, outputs):
            super().__init__(steps, outputs)
            compiled = [graph.path is not None for graph, *_ in steps]
            made.append((compiled.count(True), compiled.count(False)))

    monkeypatch.setattr(kiln.dynamo, "PartitionedGraph", Recorded)
    return made


def compiled(function, **options):
    return torch.compile(function, backend="kiln", **options)


@pytest.mark.parametrize("dynamic", [False, True])
def test_training(dynamic, parts, recwarn):
    def function(x, w):
        y = torch.softmax(x @ w, -1)
        z = scale(y, 2.0) + y
        increment(z)
        return scale(z.sum(0), 0.5) * z, z.t(), y.shape[0] * 2, x

    call = compiled(function, dynamic=dynamic)
    for rows in (5, 7) if dynamic else (5,):
        inputs = torch.randn(rows, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        actual, expected = call(*inputs), function(*inputs)
        torch.testing.assert_close(actual, expected)
        assert actual[3] is inputs[0] and actual[1].stride() == expected[1].stride()
        grads = [torch.autograd.grad(result[0].sin().sum() + result[1].sum(), inputs) for result in (actual, expected)]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
    assert len(parts) == 2 and all(count >= 2 for count, _ in parts)
    assert not [w for w in recwarn if "eager" in str(w.message)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_written_inputs(dynamic, parts):
    def function(x, y):
        y.mul_(2)
        z = scale(y, 3.0) + x.sin()
        y.add_(z)
        increment(y[1:])
        return z.cos(), y.view(-1)[2:], scale(z, 1.5)

    call = compiled(function, dynamic=dynamic)
    for rows in (4, 6) if dynamic else (4,):
        x, y = torch.randn(rows, 3), torch.randn(rows, 3)
        other = y.clone()
        torch.testing.assert_close(call(x, y), function(x, other))
        torch.testing.assert_close(y, other)
    assert parts == [(3, 2)]


def test_sizes_from_operators(parts):
    def function(x):
        found, count = positive(x * 2)
        return found.sin() + count, found.sum(), (x + 1).cos()[:2], found.shape[0] * 3

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        call = compiled(function, dynamic=True, fullgraph=True)
        for size in (8, 11):
            x = torch.randn(size)
            torch.testing.assert_close(call(x), function(x))
    assert parts[0][0] == 2


def test_nested_graphs(parts):
    def function(p, x):
        return torch.cond(p, lambda x: scale(x, 2.0), lambda x: x.sin(), (x * 3,)) + 1

    call = compiled(function)
    for value in (True, False):
        x = torch.randn(5)
        torch.testing.assert_close(call(torch.tensor(value), x), function(torch.tensor(value), x))
    assert parts == [(2, 1)]


def test_nothing_around(parts):
    x = torch.randn(3)
    torch.testing.assert_close(compiled(lambda x: scale(x, 2.0))(x), x * 2)
    assert parts == [(0, 1)]


def test_operators_of_pytorch(parts):
    """What is Kiln's to compile is named when it is not."""
    function, x = lambda x: torch.poisson(x * 0).cos(), torch.randn(4, 4)  # every draw is 0
    with pytest.warns(UserWarning, match=r"stays in eager mode: operator aten.poisson.default \(node .*test_dynamo_partition"):
        torch.testing.assert_close(compiled(function)(x), function(x))
    assert parts == [(2, 1)]
    torch._dynamo.reset()
    with pytest.raises(Exception, match="poisson"):
        compiled(function, options={"fallback": "none"})(x)


def test_saved_function(tmp_path, parts):
    def function(x, w):
        return scale(x @ w, 2.0).sin(), x.t()

    inputs, path = (torch.randn(4, 8, requires_grad=True), torch.randn(8, 8)), str(tmp_path / "function.bin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kiln.dynamo, "PartitionedGraph", _run.PartitionedGraph)  # a class that can be pickled
        compiled(function, fullgraph=True).aot_compile((inputs, {})).save_compiled_function(path)
    assert_saved_function(path, function, inputs, tmp_path)
