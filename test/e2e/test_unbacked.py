"""Sizes and numbers that only data gives: item, nonzero, masks, repeats, distinct values, assertions."""

import copy
import math
import threading

import numpy as np
import pytest
import torch
from torch.export import Dim

import kiln
from conftest import Compiled, run_tool


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def some(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def integers(high, *shape, seed=0, low=0):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def mask(*shape, density=0.5, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < density


def exact(compile_and_compare, function, inputs, *more, **options):
    return compile_and_compare(Function(function), inputs, rtol=0, atol=0, more_inputs=more, **options)


# ===-- Compaction -------------------------------------------------------------------------------===#


def test_nonzero(compile_and_compare):
    """Empty, full and in between, of every dtype; a 0-d tensor; other forms."""

    def function(x, b, i, scalar):
        return (
            x.nonzero(),
            b.nonzero(),
            i.nonzero(),
            scalar.nonzero(),
            torch.where(b),
            x.nonzero(as_tuple=True),
            torch.argwhere(i),
            torch.nonzero_static(b, size=7, fill_value=-1),
            torch.nonzero_static(x, size=2),
        )

    cases = [
        (
            torch.where(mask(3, 4, 5, density=d, seed=n), some(3, 4, 5), torch.zeros(3, 4, 5)),
            mask(6, 7, density=d, seed=n),
            integers(2, 50, seed=n) * int(d > 0),
            torch.tensor(d),
        )
        for n, d in enumerate((0.5, 0.0, 1.0))
    ]
    cases[0][0][0, 0, 0] = math.nan
    cases[0][0][0, 0, 1] = -0.0
    exact(compile_and_compare, function, *cases)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.uint8, torch.int8, torch.int32, torch.complex64])
def test_nonzero_dtypes(compile_and_compare, dtype):
    exact(compile_and_compare, lambda x: (x.nonzero(), x[x != 0]), (integers(2, 9, 11).to(dtype),))


def test_masks(compile_and_compare):
    def function(x, pairs, rows, columns, one):
        return x[pairs], x[:, columns], x[rows], x[rows][:, columns], x.masked_select(one), x[x > 0]

    def inputs(seed, density):
        m = lambda *shape: mask(*shape, density=density, seed=seed)
        return some(4, 5, 6, seed=seed), m(4, 5), m(4), m(5), mask(5, 1, density=density, seed=seed + 1)

    exact(compile_and_compare, function, inputs(0, 0.5), inputs(1, 0.0), inputs(2, 1.0))


def test_mask_writes(compile_and_compare):
    def function(x, m, v):
        y = x.clone()
        y[m] = 1.0
        return y, v[m]

    exact(
        compile_and_compare,
        function,
        (some(3, 4), mask(3, 4), some(3, 4, seed=1)),
        (some(3, 4), mask(3, 4, density=0), some(3, 4)),
        (some(3, 4), mask(3, 4, density=1.1), some(3, 4)),
    )


def test_mask_of_its_own_size(compile_model):
    """Export does not say that the mask is as large as the tensor; the run finds out."""

    def function(x, m, v):
        y = x.clone()
        y[m] = v
        return y

    shapes = (({0: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO}),)
    compiled = compile_model(Function(function), (some(10, 2), torch.arange(10) < 3, some(3, 2, seed=1)), shapes)
    compiled.check((some(7, 2), torch.arange(7) % 2 == 0, some(4, 2, seed=1)), 0, 0)
    with pytest.raises(kiln.KilnError, match="a mask of another shape than the tensor"):
        compiled.model(some(7, 2), torch.arange(8) < 3, some(3, 2))
    for count in (2, 4):
        with pytest.raises(kiln.KilnError, match="places where the mask holds"):
            compiled.model(some(7, 2), torch.arange(7) < count, some(3, 2))


def test_mask_beside_an_index(compile_model):
    """There are as many indices and values as the mask holds, or one for all."""

    def function(x, m, i, v):
        y, z = x.clone(), x.clone()
        y[m, :, i] = v
        z[m, :, i[:1]] = v[None, None, 0]
        return y, z

    compiled = compile_model(Function(function), (some(4, 5, 6), torch.arange(4) < 3, torch.tensor([2, 0, 5]), some(3, 5, seed=1)))
    compiled.check((some(4, 5, 6), torch.arange(4) > 0, torch.tensor([1, 1, 3]), some(3, 5, seed=2)), 0, 0)
    with pytest.raises(kiln.KilnError, match="expected 3 places where the mask holds"):
        compiled.model(some(4, 5, 6), torch.arange(4) < 2, torch.tensor([2, 0, 5]), some(3, 5))


def test_large(compile_and_compare):
    """More than one chunk, on two threads."""
    exact(
        compile_and_compare,
        lambda x: (x[x > 0.5], (x > 0.5).nonzero()),
        (some(300, 1001),),
        (some(300, 1001, seed=1) + 2,),
        (some(300, 1001) - 9,),
        threads=2,
    )


def test_repeat_interleave(compile_and_compare):
    def function(x, r, one):
        return (
            x.repeat_interleave(r, dim=0),
            x.repeat_interleave(one, dim=1),
            torch.repeat_interleave(r),
            x[:, 0].repeat_interleave(r),
            x.repeat_interleave(r.int(), dim=-2),
        )

    exact(
        compile_and_compare,
        function,
        (some(3, 4), torch.tensor([1, 2, 0]), torch.tensor([2])),
        (some(3, 4), torch.tensor([0, 0, 0]), torch.tensor([0])),
        (some(3, 4), torch.tensor([500, 1, 70]), torch.tensor([3])),
    )


def test_repeat_interleave_with_a_size(compile_model):
    compiled = compile_model(Function(lambda x, r: x.repeat_interleave(r, dim=0, output_size=3)), (some(3, 4), torch.tensor([1, 2, 0])))
    compiled.check((some(3, 4), torch.tensor([0, 0, 3])), 0, 0)
    with pytest.raises(kiln.KilnError, match="expected a size of 3"):
        compiled.model(some(3, 4), torch.tensor([1, 2, 1]))
    with pytest.raises(kiln.KilnError, match="repeats can not be negative"):
        compiled.model(some(3, 4), torch.tensor([4, -1, 0]))


def test_selection_from_a_selection(compile_and_compare):
    """Export writes bounds of more than 64 bits."""

    def function(x):
        kept = x[x.sum(1) > 0]
        inner = kept[kept > 0.5]
        both = torch.cat([inner, inner])
        return inner, both[both > 1], both.repeat(3).nonzero(), kept[-2]

    torch.manual_seed(0)
    exact(
        compile_and_compare,
        function,
        (torch.randn(13, 4),),
        (torch.ones(2, 4),),
        (torch.randn(400, 4),),
        dynamic_shapes=(({0: Dim.AUTO},),),
    )


def test_rows_of_a_selection(compile_model):
    """Asserted where the number becomes known."""
    compiled = compile_model(Function(lambda x: (x[x > 0][0] + x[0], x.nonzero()[-2])), (some(9),), (({0: Dim("n")},),))
    compiled.check((some(5, seed=3).abs(),), 0, 0)
    with pytest.raises(kiln.KilnError, match="index 0 is not inside dim 0"):
        compiled.model(torch.zeros(0))
    for x in (torch.zeros(3), torch.tensor([1.0, 0.0])):
        with pytest.raises(kiln.KilnError, match="u0 >= 1|index|u1"):
            compiled.model(x)


@pytest.mark.parametrize(
    "select", [torch.nonzero, lambda x: x[x > 0][:, None], lambda x: x[x.nonzero()[:, 0]][:, None]], ids=["nonzero", "mask", "rows"]
)
def test_one_of_one(compile_model, select):
    """What is done with the elements says that there is one: of one, its number is known before."""

    def function(x):
        selected = select(x).transpose(0, -1).contiguous()
        return selected.transpose(0, -1)[0] * 2, selected

    x = torch.ones(1)
    compiled = compile_model(Function(function), (x,))
    compiled.check((x,), 0, 0)
    with pytest.raises(kiln.KilnError, match="expected a size of 1|index|u0 >= 1"):
        compiled.model(torch.zeros(1))


def test_split_at_indices_in_a_tensor(compile_model):
    """Negative ones count from the end; parts may be empty."""
    function = lambda x, at: (
        torch.tensor_split(x, at) + torch.tensor_split(x, torch.tensor(3), 1) + torch.tensor_split(x.T, torch.tensor([1, 2]), -1)
    )
    compiled = compile_model(Function(function), (some(6, 4), torch.tensor([1, 3])), (({0: Dim.AUTO}, None),))
    for n, at in ((6, [1, 3]), (9, [-4, -2]), (6, [5, 2]), (7, [0, 100])):
        inputs = some(n, 4), torch.tensor(at)
        got = compiled.model(*inputs)
        assert all(map(torch.equal, got, function(*inputs)))


# ===-- Distinct values --------------------------------------------------------------------------===#


def test_unique(compile_and_compare):
    def function(i, x, b):
        return (
            torch.unique(i),
            torch.unique(i, return_inverse=True),
            torch.unique(x, return_inverse=True, return_counts=True),
            torch.unique(b, return_counts=True),
            torch.unique_consecutive(i),
            torch.unique_consecutive(x.flatten(), return_inverse=True, return_counts=True),
        )

    exact(
        compile_and_compare,
        function,
        (integers(5, 20), integers(4, 4, 5).float() - 1.5, mask(9)),
        (integers(1, 20), some(4, 5), mask(9, density=0)),
        (integers(100, 20), torch.full((4, 5), 3.0), mask(9, density=1.1)),
    )


def test_unique_rows_of_unknown_size(compile_and_compare):
    """Neither few rows nor few columns: they are sorted by one column after the other."""
    cases = [(integers(2, n, 5, 4, seed=n),) for n in (30, 7, 100)]
    exact(
        compile_and_compare,
        lambda x: (torch.unique(x, dim=0, return_inverse=True, return_counts=True), torch.unique(x.float(), dim=1)),
        *cases,
        dynamic_shapes=(({0: Dim.AUTO, 1: Dim.AUTO},),),
    )


def test_unique_rows(compile_and_compare):
    def function(x):
        return (
            torch.unique(x, dim=0, return_inverse=True, return_counts=True),
            torch.unique(x, dim=1),
            torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True),
        )

    exact(compile_and_compare, function, (integers(2, 12, 2),), (integers(9, 12, 2),), (integers(1, 12, 2),))


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_unique_along_the_last_dim(compile_model, is_dynamic):
    """Of consecutive slices along dim -1 export declares too many dims. ATen gives positions and counts of slices whether they are asked for or not."""

    def function(x, v):
        return (
            *torch.unique_consecutive(x, dim=-1, return_inverse=True, return_counts=True),
            torch.unique_consecutive(v, dim=-1),
            torch.unique_consecutive(x, dim=-2),
            *torch.ops.aten.unique_consecutive(x, dim=-1),
            *torch.ops.aten.unique_dim(v, 0),
        )

    shapes = (({1: torch.export.Dim("a"), 2: torch.export.Dim("b")}, {0: torch.export.Dim("c")}),)
    compiled = compile_model(Function(function), (integers(2, 2, 3, 12), integers(2, 20)), shapes if is_dynamic else None)
    more = [(integers(2, 2, 2, 40), integers(1, 8))] if is_dynamic else []
    for inputs in [(integers(2, 2, 3, 12), integers(2, 20)), (integers(1, 2, 3, 12), integers(9, 20)), *more]:
        expected = function(*inputs)
        got = compiled.model(*inputs)
        assert len(got) == len(expected) and all(map(torch.equal, got, expected))


def test_unique_nan(compile_and_compare):
    """NaN differs from NaN."""
    x = torch.tensor([1.0, math.nan, -math.inf, math.nan, 1.0, math.inf, 0.0, -0.0])
    exact(compile_and_compare, lambda x: torch.unique(x, return_counts=True), (x,))


# ===-- Numbers ----------------------------------------------------------------------------------===#


def test_item(compile_and_compare):
    """What item gives is a number: an output, an operand, part of a shape."""

    def function(i, f, d):
        n, x, y = i.item(), f.item(), d.item()
        torch._check(n >= 0)
        torch._check(n <= 50)
        return (
            n,
            x,
            y,
            n * 2 + 1,
            torch.ones(n, 2),
            torch.arange(n) * n,
            torch.full((3,), x),
            torch.full((2,), n),
            i + n,
            f * x,
            f + y,
            torch.zeros(n + 1).sum(),
            d - n,
        )

    exact(
        compile_and_compare,
        function,
        (torch.tensor(3), torch.tensor(2.5), torch.tensor(0.1, dtype=torch.float64)),
        (torch.tensor(0), torch.tensor(-1.5), torch.tensor(1e300, dtype=torch.float64)),
        (torch.tensor(50), torch.tensor(math.inf), torch.tensor(0.0, dtype=torch.float64)),
    )


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8, torch.float16, torch.bfloat16])
def test_item_dtypes(compile_and_compare, dtype):
    exact(compile_and_compare, lambda x, y: (x.item(), y + x.sum().item()), (torch.tensor([[7]], dtype=dtype), some(3)))


def test_number_arithmetic(compile_and_compare):
    def function(x):
        f = x.item()
        return (f * 2, f + 1, 1 - f, f / 3, 3 / f, f**2, -f, torch.sym_max(f, 2.0), torch.sym_min(f, 2), f * f - f, torch.sym_float(f))

    compile_and_compare(Function(function), (torch.tensor(5.5),), more_inputs=((torch.tensor(-2.25),), (torch.tensor(1e30),)))


def test_float_to_size(compile_and_compare):
    def function(x):
        n = torch.sym_int(x.item() * 2)
        torch._check(n >= 0)
        torch._check(n < 100)
        return torch.ones(n)

    exact(compile_and_compare, function, (torch.tensor(5.3),), (torch.tensor(0.2),), (torch.tensor(49.5),))


def test_scalars_of_tensors(compile_and_compare):
    """Numbers from data take part in promotion as numbers do."""

    def function(x, i, n, f):
        a, b = n.item(), f.item()
        return x + a, x * b, i + a, i * b, i > a, x.clamp(max=b), torch.where(x > b, x, b), x / a

    compile_and_compare(
        Function(function),
        (some(4), integers(9, 4), torch.tensor(3), torch.tensor(0.5)),
        more_inputs=((some(4), integers(9, 4), torch.tensor(-2), torch.tensor(-1.0)),),
    )


# ===-- Parts ------------------------------------------------------------------------------------===#


def test_slices(compile_and_compare):
    """Bounds of any sign, past the ends as well."""

    def function(x, i, j):
        a, b = i.item(), j.item()
        return x[:a], x[a:], x[a:b], x[a:b:2]

    numbers = (0, 3, 10, 25, -1, -4, -25)
    cases = [(some(10, 3), torch.tensor(a), torch.tensor(b)) for a in numbers for b in numbers]
    exact(compile_and_compare, function, *cases)


def test_parts(compile_and_compare):
    def function(x, sizes, at):
        a, b = sizes.tolist()
        torch._check(a >= 0)
        torch._check(b >= 0)
        torch._check(a + b == x.shape[0])
        first, second = torch.split(x, [a, b])
        return first, second, x[at.item()], x.narrow(0, at.item(), 2)

    inputs = lambda a, at: (some(10, 3), torch.tensor([a, 10 - a]), torch.tensor(at))
    compiled = exact(compile_and_compare, function, inputs(3, 4), inputs(0, 8), inputs(10, -2), inputs(5, -10))
    with pytest.raises(kiln.KilnError, match=r"u0 \+ u1, 10"):
        compiled.model(some(10, 3), torch.tensor([3, 8]), torch.tensor(0))
    for at in (9, 10, -1, -11):
        with pytest.raises(kiln.KilnError):
            compiled.model(some(10, 3), torch.tensor([3, 7]), torch.tensor(at))


def test_views_of_unbacked(compile_and_compare):
    """What is computed from a tensor of unbacked size, with dynamic input sizes too."""

    def function(x):
        y = x[x > 0]
        z = torch.cat([y, y])
        return (
            y.sum(),
            y * 2,
            y.reshape(-1, 1),
            z,
            y.numel(),
            y.unsqueeze(0).expand(3, -1),
            y.flip(0),
            torch.outer(y, y),
            torch.softmax(y, 0),
            y[:, None] @ torch.ones(1, 3),
            torch.stack([y, -y]).sum(0),
        )

    cases = [(some(n, 3, seed=n),) for n in (2, 7, 64, 31)] + [(some(5, 3) - 9,), (some(5, 3) + 9,)]
    compile_and_compare(
        Function(function), (some(10, 3),), dynamic_shapes={"tensors": ({0: Dim("rows", min=2, max=64)},)}, more_inputs=cases
    )


# ===-- Assertions -------------------------------------------------------------------------------===#

ASSERTION_FAILED = 6


def fails(compiled, text, *inputs):
    with pytest.raises(kiln.KilnError, match=text) as caught:
        compiled.model(*inputs)
    assert caught.value.status == ASSERTION_FAILED


def test_assertions(compile_model):
    def function(i, x):
        n = i.item()
        torch._check(n >= 2)
        torch._check(n <= 7)
        torch._assert_async(x.sum() > 0, "the sum is not positive")
        torch._check(x.max().item() < 100)
        return torch.ones(n) + x.sum()

    compiled = compile_model(Function(function), (torch.tensor(3), torch.ones(4)))
    compiled.check((torch.tensor(2), torch.ones(4)), 0, 0)
    fails(compiled, r"expression u0 >= 2 on node .* \(node .*test_unbacked.py:\d+\)\)?: u0 = 1", torch.tensor(1), torch.ones(4))
    fails(compiled, r"expression u0 <= 7 .*u0 = 8", torch.tensor(8), torch.ones(4))
    fails(compiled, "u0 >= 2", torch.tensor(-(1 << 63)), torch.ones(4))
    fails(compiled, "the sum is not positive", torch.tensor(3), -torch.ones(4))
    fails(compiled, "the sum is not positive", torch.tensor(3), torch.tensor([math.nan, 1, 1, 1]))
    fails(compiled, "zuf0 < 100", torch.tensor(3), torch.full((4,), 100.0))
    compiled.check((torch.tensor(7), torch.ones(4)), 0, 0)


def test_known_number(compile_model):
    """Export has put in the number that a check asks for; data may still say otherwise."""

    def function(x):
        n = (x > 2).sum().item()
        torch._check(n == 3)
        return x + n, x[n]

    compiled = compile_model(Function(function), (torch.tensor([0.0, 3, 3, 3, 1]),))
    compiled.check((torch.tensor([5.0, 0, 9, 7, 1]),), 0, 0)
    fails(compiled, r"expected the value 3 \(node .*test_unbacked.py:\d+\)", torch.zeros(5))
    fails(compiled, "expected the value 3", torch.full((5,), 3.0))


def test_range_of_a_mask(compile_model):
    """Export has found how many there must be."""

    def function(x, m):
        y = x[m]
        torch._check(y.shape[0] == 2)
        return y * 2

    compiled = compile_model(Function(function), (some(4), torch.tensor([True, False, True, False])))
    compiled.check((some(4), torch.tensor([False, False, True, True])), 0, 0)
    fails(compiled, "size of 2|Eq", some(4), torch.tensor([False, True, True, True]))
    fails(compiled, "size of 2|Eq", some(4), torch.tensor([False, False, False, False]))


class Routed(torch.nn.Module):
    """Rows go to experts: as many sizes as there are experts, and kernels that differ in nothing else."""

    def __init__(self, count=4):
        super().__init__()
        layers = (torch.nn.Linear(8, 24), torch.nn.GELU(), torch.nn.Linear(24, 8))
        self.experts = torch.nn.ModuleList(torch.nn.Sequential(*copy.deepcopy(layers)) for _ in range(count))
        for i, parameter in enumerate(self.parameters()):
            parameter.data = some(*parameter.shape, seed=i)

    def forward(self, x, chosen):
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            (rows,) = torch.where(chosen == i)
            y = y.index_add(0, rows, expert(x[rows].flip(0)).flip(0) * (rows.shape[0] // 3 + 1))
        return y


def routes(n):
    return some(n, 8), integers(5, n, seed=n)


def test_routed_experts(compile_and_compare):
    """Some get no row, one gets all of them."""
    chosen = [torch.full((30,), 2), torch.arange(30) // 10]
    more = [(some(30, 8, seed=i), route) for i, route in enumerate(chosen)]
    compile_and_compare(Routed(), routes(30), more_inputs=more, rtol=1e-4, atol=1e-4)


def test_routed_experts_share_kernels(tmp_path):
    """A further expert has two kernels of its own, in which its number is a constant."""
    counts = []
    for count in (2, 4):
        torch.export.save(torch.export.export(Routed(count).eval(), routes(30)), tmp_path / "routed.pt2")
        process = run_tool("aot-compile", tmp_path / "routed.pt2", "--emit=wrapper", "-o", "-")
        counts.append(process.stdout.count("kernel.func @"))
    assert counts[1] == counts[0] + 2 * 2, counts


class Many(torch.nn.Module):
    """More steps than one function of the host program has; the last ones use what the first ones have computed and bound."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        chosen = x[x > 0]
        first, state = chosen * 2, x
        for _ in range(300):
            state = torch.sin(self.linear(state))
        return first, state, chosen + state.sum(), torch.cat([first, state[0]]), x[:, 1:] * state[:, 1:]


def test_many_steps(compile_and_compare):
    cases = [(some(n, 4, seed=n),) for n in (7, 1, 12)]
    compile_and_compare(Many(), cases[0], dynamic_shapes=({0: Dim("n", min=1, max=64)},), more_inputs=cases[1:], rtol=1e-4, atol=1e-4)


# ===-- Runs -------------------------------------------------------------------------------------===#


def compaction(x):
    y = x[x > 0]
    return y * 2, y.sum(), torch.zeros(y.shape[0], 3)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory):
    return Compiled(
        Function(compaction).eval(),
        (some(1000),),
        tmp_path_factory.mktemp("compacted"),
        dynamic_shapes={"tensors": ({0: Dim("n", min=1, max=1 << 20)},)},
    )


def test_growing_and_shrinking(compacted):
    for n in (1000, 3, 1, 5000, 100000, 17, 100000, 999):
        compacted.check((some(n, seed=n),), 1e-4, 1e-4)
    compacted.check((torch.full((1000,), -1.0),), 0, 0)


def test_threads(compacted):
    problems = []

    def work(seed):
        try:
            for i in range(30):
                x = some(1 + (seed * 7919 + i * 104729) % 5000, seed=seed * 100 + i)
                doubled, _, zeros = compacted.model(x)
                assert torch.equal(torch.as_tensor(doubled), x[x > 0] * 2) and zeros.shape == (int((x > 0).sum()), 3)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    compacted.model.allocator.check()


def test_tools(compacted, tmp_path):
    """aot-run writes outputs as large as they are; the description names their sizes."""
    inputs, outputs = tmp_path / "inputs.npz", tmp_path / "outputs.npz"
    x = some(77)
    np.savez(inputs, **{"0": x.numpy()})
    process = run_tool("aot-run", compacted.path, "--inputs", inputs, "--outputs", outputs, "--repeat", 3)
    assert process.returncode == 0, process.stderr
    with np.load(outputs) as results:
        np.testing.assert_array_equal(results["0"], (x[x > 0] * 2).numpy())
        assert results["2"].shape == (int((x > 0).sum()), 3)
    info = compacted.model.info
    (name,) = info["outputs"][0]["shape"]
    assert info["outputs"][2]["shape"] == [name, 3] and name in info["symbols"]
    assert run_tool("aot-run", compacted.path, "--repeat", 1).returncode == 0
