"""torch.compile(backend="kiln"): graphs of aot_autograd, compiled, against eager mode."""

import copy
import importlib.metadata
import pathlib

import pytest
import torch
from functorch.experimental.control_flow import map as map_over
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.testing._internal.common_utils import DeterministicGuard

import kiln.dynamo
from conftest import TARGET, assert_saved_function
from kiln.dynamo import _cache

pytestmark = pytest.mark.skipif(bool(TARGET), reason="the tensors of these graphs are on the CPU")
STRICT = {"fallback": "none"}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """A cache of these tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KILN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield _cache.directory()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)


def compiled(function, **options):
    return torch.compile(function, backend="kiln", options=STRICT, **options)


def check(function, *inputs, **options):
    """The compiled function gives what eager mode does, in values and layout."""
    actual, expected = compiled(function, **options)(*inputs), function(*inputs)
    torch.testing.assert_close(actual, expected, equal_nan=True)
    for a, e in zip(torch.utils._pytree.tree_leaves(actual), torch.utils._pytree.tree_leaves(expected)):
        assert type(a) is type(e)
        if isinstance(a, torch.Tensor):
            assert a.stride() == e.stride() and a.dtype == e.dtype


def count_libraries(cache):
    return len(list(cache.rglob("*.so")))


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


def test_inference_static():
    check(Small().eval().requires_grad_(False), torch.randn(5, 8))


def test_dynamic_sizes(cache):
    function = compiled(lambda x, n: (x.sum(0) * n, x.shape[0] * 2, x.reshape(-1, 2).t()), dynamic=True)
    before = None
    for rows in (4, 6, 10):
        x = torch.randn(rows, 3)
        total, double, pairs = function(x, rows + 1)
        torch.testing.assert_close(total, x.sum(0) * (rows + 1))
        assert double == 2 * rows and pairs.shape == (2, rows * 3 // 2) and pairs.data_ptr() == x.data_ptr()
        assert before in (None, count_libraries(cache))
        before = count_libraries(cache)


def test_mark_dynamic_and_broken_graph(cache):
    def function(x):
        y = torch.sin(x) * 2
        torch._dynamo.graph_break()
        return y.cumsum(0).to(torch.bfloat16)

    call = compiled(function)
    for rows in (3, 9):
        x = torch.randn(rows, 5)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(call(x), function(x))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2


def test_sizes_from_data():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        call = compiled(lambda x, n: (x[x > 0] * 2, torch.arange(n.item())), fullgraph=True)
        for count in (3, 7):
            x = torch.randn(count)
            torch.testing.assert_close(call(x, torch.tensor(count)), (x[x > 0] * 2, torch.arange(count)))
        sums = compiled(lambda x, n: x.new_ones(sum(n.tolist())), fullgraph=True)
        assert sums(torch.ones(1), torch.tensor([1, 2, 3])).shape == (6,)


@pytest.mark.parametrize("dynamic", [False, True])
def test_training(dynamic):
    eager = Small()
    trained = copy.deepcopy(eager)
    call = compiled(trained, dynamic=dynamic)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (eager, trained)]
    for step in range(3):
        x, target = torch.randn(6 + (step if dynamic else 0), 8), torch.randint(4, (6 + (step if dynamic else 0),))
        for function, optimizer in zip((eager, call), optimizers):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(function(x), target).backward()
            optimizer.step()
    torch.testing.assert_close(trained.state_dict(), eager.state_dict())  # BatchNorm's statistics too
    assert trained.norm.num_batches_tracked == 3


def test_compiled_optimizer():
    weights = [torch.nn.Parameter(torch.randn(5, 4)) for _ in range(2)]
    weights[1].data.copy_(weights[0].data)
    optimizers = [torch.optim.Adam([weight], lr=0.1) for weight in weights]
    steps = [optimizers[0].step, compiled(optimizers[1].step)]
    for _ in range(3):
        for weight, step in zip(weights, steps):
            weight.grad = torch.sin(weight.detach() * 3)
            step()
    torch.testing.assert_close(weights[1], weights[0])


def test_attention_gradients():
    q, k, v = (torch.randn(2, 3, 7, 16, requires_grad=True) for _ in range(3))

    def function(q, k, v):
        mask = torch.ones(7, 7, dtype=torch.bool).tril(-1)  # the first row has no key
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q, k, v, is_causal=True).sin() + attend(q, k, v, attn_mask=mask).cos()

    expected = torch.autograd.grad(function(q, k, v).sum(), (q, k, v))
    torch.testing.assert_close(torch.autograd.grad(compiled(function)(q, k, v).sum(), (q, k, v)), expected)


def test_bilinear_gradients():
    layer, inputs = torch.nn.Bilinear(5, 6, 4), (torch.randn(3, 5, requires_grad=True), torch.randn(3, 6))
    wanted = (inputs[0], layer.weight, layer.bias)
    actual = torch.autograd.grad(compiled(layer)(*inputs).sin().sum(), wanted)
    torch.testing.assert_close(actual, torch.autograd.grad(layer(*inputs).sin().sum(), wanted))


@pytest.mark.parametrize("dim", [0, 2])
def test_weight_norm_gradients(dim):
    v, g = (
        torch.randn(3, 4, 5, requires_grad=True),
        torch.randn([n if i == dim else 1 for i, n in enumerate((3, 4, 5))], requires_grad=True),
    )
    function = lambda v, g: torch._weight_norm(v, g, dim).sin()
    expected = torch.autograd.grad(function(v, g).sum(), (v, g))
    torch.testing.assert_close(torch.autograd.grad(compiled(function)(v, g).sum(), (v, g)), expected)


def test_memory_that_is_not_written():
    with DeterministicGuard(True, fill_uninitialized_memory=True):
        check(
            lambda x: (torch.empty(3, dtype=torch.int16), torch.empty_like(x), torch.empty_strided((2, 3), (1, 2)), x + 1), torch.randn(2)
        )
        check(lambda x: torch.ops.aten.resize(x, (1, 3, 2, 3), memory_format=torch.channels_last), torch.randn(2))
        check(lambda x: torch.ops.aten.resize(x, (2, 2)), torch.randn(2, 0, 1))
        check(lambda x, y: torch.ops.aten.resize_as(x, y), torch.randn(2), torch.randn(2, 3))


def test_resize_as():
    function = lambda x, y: torch.ops.aten.resize_as(x, y, memory_format=torch.preserve_format)
    for y in (torch.randn(2, 3), torch.randn(1, 3, 2, 2), torch.randn(1, 3, 2, 2).to(memory_format=torch.channels_last)):
        check(function, torch.randn(20), y)


def test_written_inputs():
    def function(x, y):
        x.mul_(2)
        y[1:].add_(x[1:])
        return x + y, y

    inputs = torch.randn(4, 3), torch.randn(3, 4).t()
    copies = copy.deepcopy(inputs)
    actual, expected = compiled(function)(*inputs), function(*copies)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(inputs, copies)
    assert actual[1] is inputs[1]
    # Two inputs that share memory.
    base, other = torch.zeros(8), torch.zeros(8)
    compiled(lambda a, b: a.add_(1).sum() + b.mul_(3).sum())(base[:6], base[2:])
    (lambda a, b: a.add_(1).sum() + b.mul_(3).sum())(other[:6], other[2:])
    torch.testing.assert_close(base, other)


def test_kinds_of_outputs():
    weight = torch.tensor([1.0, 2.0, 3.0])
    x = torch.randn(4, 3)
    check(lambda x: {"a": (x + weight, None, 3), "b": [x, x.t(), x[1:]]}, x)
    check(lambda x: (x.t(), x.shape[0]), x)  # nothing to compute
    check(lambda x: (torch.full((2,), 7), x), x)  # nothing that depends on the input
    check(lambda x: [(x * 2).t(), (x * 2).view(-1), (x * 2)], x)
    check(lambda x: x.new_empty(0, 3) + x[:0], x)
    check(lambda x: (x > 0, x.to(torch.complex64) * 1j, x.half(), x.to(torch.uint8)), x.abs())
    check(lambda x: x.unsqueeze(0).contiguous(memory_format=torch.channels_last) + 1, torch.randn(2, 3, 4))
    check(lambda x: (x * 2, x.imag + 1), torch.randn(3, dtype=torch.complex64).conj())
    view = compiled(lambda x: (x.view(-1), x + 1))(x)[0]
    assert view.data_ptr() == x.data_ptr() and view._base is x


def test_outputs_that_share_memory():
    def function(x):
        y = x * 2  # not an output itself
        z = x + 1
        return y.t(), y[1:], y.split(1)[0], z.view(-1)[2:], z.unbind()[1]

    outputs = compiled(function)(torch.randn(3, 4))
    storages = [output.untyped_storage().data_ptr() for output in outputs]
    assert len(set(storages[:3])) == 1 and len(set(storages[3:])) == 1 and storages[0] != storages[3]
    outputs[0].zero_(), outputs[3].fill_(3)
    assert not outputs[1].any() and not outputs[2].any() and (outputs[4] == 3).all()
    check(function, torch.randn(3, 4))

    def written_later(x):
        a = x + 1
        b = a[0]
        if a.sum() < 1e9:  # the graph breaks here
            a[0] = 2
        return b

    torch.testing.assert_close(torch.compile(written_later, backend="kiln", options=STRICT)(torch.ones(2, 3)), torch.full((3,), 2.0))


def test_control_flow():
    def function(p, x):
        return torch.cond(p, lambda x: x.sin() + 1, lambda x: x * 2, (x,))

    for value in (True, False):
        check(function, torch.tensor(value), torch.randn(5))

    # A tracer that gives lists of results, and a backward part.
    x, y = torch.randn(3, 2, requires_grad=True), torch.randn(2, requires_grad=True)
    step = lambda row, y: [(row + 1).cos() * y, (row * y).sin()]
    function = lambda x, y: sum(map_over(step, x, y))
    expected = torch.autograd.grad(function(x, y).sum(), (x, y))
    torch.testing.assert_close(torch.autograd.grad(compiled(function)(x, y).sum(), (x, y)), expected)


@pytest.mark.parametrize("dynamic", [False, True])
def test_composed_higher_order_operators(dynamic):
    q, k, v = (torch.randn(2, 4, length, 8) for length in (128, 256, 256))
    bias = torch.randn(4)
    mask = create_block_mask(lambda b, h, m, n: m + 64 >= n, B=None, H=None, Q_LEN=128, KV_LEN=256, device="cpu")

    def attend(q, k, v):
        out, rest = flex_attention(q, k, v, lambda s, b, h, m, n: s * 0.5 + bias[h], mask, return_lse=True)
        return out.sin(), rest + 1

    torch.testing.assert_close(compiled(attend, dynamic=dynamic)(q, k, v), attend(q, k, v))

    quantized = torch._higher_order_ops.InvokeQuant()
    x = torch.randn(5, requires_grad=True)
    function = lambda x: quantized(lambda x, y: (x.sin() * y, y), x, x)[0] * 2
    torch.testing.assert_close(compiled(function, dynamic=dynamic)(x), function(x))
    (expected,) = torch.autograd.grad(function(x).sum(), x)
    torch.testing.assert_close(torch.autograd.grad(compiled(function, dynamic=dynamic)(x).sum(), x), (expected,))


def test_float_arguments():
    function = compiled(lambda x, a: x * a + a)
    for a in (1.5, 2.5, 3.5):
        torch.testing.assert_close(function(torch.ones(3), a), torch.full((3,), 2 * a))


def test_random_numbers():
    dropout = compiled(lambda x: torch.nn.functional.dropout(x, 0.25))
    x = torch.ones(200, 300, requires_grad=True)
    torch.manual_seed(7)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(7)
    assert torch.equal(dropout(x), first) and not torch.equal(first, second)
    assert first.unique().tolist() == [0, pytest.approx(4 / 3)]
    assert abs((first == 0).float().mean() - 0.25) < 0.01
    first.sum().backward()
    assert torch.equal(x.grad, first.detach())
    # Two graphs do not draw the same numbers.
    a, b = compiled(lambda: torch.rand(1000))(), compiled(lambda: torch.rand(1000) + 0)()
    assert abs(torch.corrcoef(torch.stack([a, b]))[0, 1]) < 0.2


def test_what_is_not_compiled():
    @torch.library.custom_op("kiln_dynamo_test::triple", mutates_args=())
    def triple(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    triple.register_fake(torch.empty_like)
    function, x = lambda x: triple(x) + 1, torch.randn(3)
    torch.testing.assert_close(torch.compile(function, backend="kiln", options={"fallback": "torch"})(x), x * 3 + 1)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="kiln_dynamo_test.*triple"):
        compiled(function)(x)
    for options in ({"fallback": "some"}, {"no_such_option": 1, "fallback": "none"}, {"emit": "obj"}):
        torch._dynamo.reset()
        with pytest.raises(Exception, match="some|no-such-option|emit"):
            torch.compile(lambda x: x + 1, backend="kiln", options=options)(x)


def test_saved_function(tmp_path):
    def function(x, w):
        return torch.nn.functional.gelu(x @ w), x.t()

    inputs = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8)
    path = str(tmp_path / "function.bin")
    torch.compile(function, fullgraph=True, backend="kiln", options=STRICT).aot_compile((inputs, {})).save_compiled_function(path)
    assert b"kiln_model_run" in pathlib.Path(path).read_bytes()
    assert_saved_function(path, function, inputs, tmp_path)


def test_registered():
    assert "kiln" in torch._dynamo.list_backends()
    for point in importlib.metadata.entry_points(group="torch_dynamo_backends", name="kiln"):
        assert point.load() is kiln.dynamo.kiln
