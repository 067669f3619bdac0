"""Products with weights of eight and four bits that stay so in memory: widened where they are multiplied."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

from conftest import TARGET, cpu_options
from test_ops_quantize import int4_weight
from test_quantized_products import VNNI

q = torch.ops.quantized_decomposed
CPUS = pytest.mark.parametrize("cpu", ["native", "x86-64-v3"])


def some(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) * 3


def integers(low, high, *shape):
    return torch.randint(low, high, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(shape[0]))


class Groups(torch.nn.Module):
    """Weights [n, k] of signed integers with a scale for each `group` steps, and zero points unless `symmetric`."""

    def __init__(self, n, k, group, low, high, symmetric=True):
        super().__init__()
        self.group, self.shape = group, (n, k)
        self.register_buffer("weight", integers(low, high, n, k))
        self.weight[0, :2] = torch.tensor([low, high - 1])
        self.register_buffer("scales", some(n, k // group).abs() / high)
        zeros = torch.zeros(n, k // group, dtype=torch.int8) if symmetric else integers(low, high, n, k // group)
        self.register_buffer("zeros", zeros)

    def forward(self):
        groups = self.weight.reshape(self.shape[0], -1, self.group).to(torch.float32)
        return ((groups - self.zeros.unsqueeze(2).to(torch.float32)) * self.scales.unsqueeze(2)).reshape(self.shape)


class Products(torch.nn.Module):
    """Groups of several sizes, of four bits and of eight; one weight for a row, and for several."""

    def __init__(self, n):
        super().__init__()
        self.weights = torch.nn.ModuleList(
            [
                Groups(n, 256, 32, -8, 8),
                Groups(n, 256, 64, -8, 8, symmetric=False),
                Groups(n, 256, 256, -8, 8),
                Groups(n, 256, 256, -7, 8, symmetric=False),
                Groups(n, 256, 128, -128, 128),
                Groups(n, 256, 32, -128, 128, symmetric=False),
                Groups(n, 256, 256, -127, 128),
                Groups(n, 256, 256, -127, 128, symmetric=False),
                Groups(n, 256, 8, 0, 16),
            ]
        )

    def forward(self, x):
        bias = self.weights[0].scales[:, 0]
        return [torch.nn.functional.linear(x, weight(), bias) for weight in self.weights]


@CPUS
@pytest.mark.parametrize("n", [48, 200])
def test_groups(compile_and_compare, cpu, n):
    """The last panel of columns is not full; rows of a known number, one, a few and several, and of an unknown one."""
    module = Products(n)
    for rows in (1, 3, 13):
        compile_and_compare(module, (some(rows, 256),), rtol=2e-5, atol=2e-3, options=(f"--cpu={cpu}",))
    dynamic = ({0: torch.export.Dim("rows", min=1, max=1000)},)
    more = [(some(1, 256),), (some(2, 256),), (some(43, 256),)]
    compile_and_compare(module, (some(5, 256),), dynamic, rtol=2e-5, atol=2e-3, more_inputs=more, options=(f"--cpu={cpu}",))


@pytest.mark.skipif(bool(TARGET), reason="kernels of GPUs do not widen panels")
@CPUS
def test_groups_of_batches(compile_model, cpu):
    """A row has the same bits in batches whose weights are widened in registers, and in memory."""
    dynamic, x = ({0: torch.export.Dim("rows", min=1, max=1000)},), some(100, 256)
    model = compile_model(Products(200), (x[:5],), dynamic, options=(f"--cpu={cpu}",)).model
    whole = model.run([x])
    for begin, end in ((0, 1), (3, 18), (99, 100), (20, 36)):
        for part, output in zip(model.run([x[begin:end].clone()]), whole, strict=True):
            assert torch.equal(torch.as_tensor(part), torch.as_tensor(output)[begin:end]), (begin, end)


class Halves(Groups):
    """Weights that are dequantized to bf16."""

    def forward(self):
        shape = self.shape[0], -1, self.group
        groups, zeros = self.weight.reshape(shape).bfloat16(), self.zeros.unsqueeze(2).bfloat16()
        return ((groups - zeros) * self.scales.unsqueeze(2).bfloat16()).reshape(self.shape)


class HalfProducts(torch.nn.Module):
    """What few rows look up, and others multiply in f32; rows that are computed where they are read."""

    def __init__(self, n):
        super().__init__()
        self.weights = torch.nn.ModuleList(
            [
                Halves(n, 256, 32, -8, 8),
                Halves(n, 256, 64, -8, 8, symmetric=False),
                Halves(n, 256, 256, -8, 8),
                Halves(n, 256, 128, -128, 128),
                Halves(n, 256, 256, -127, 128, symmetric=False),
                Halves(n, 256, 128, 0, 16),
            ]
        )

    def forward(self, x):
        outputs = [torch.nn.functional.linear(x, weight()) for weight in self.weights]
        bytes = self.weights[3].weight.bfloat16()  # with one scale for a column, behind the product
        return [*outputs, torch.relu(x.flip(1)) @ bytes.T * self.weights[3].scales[:, 0].bfloat16()]


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3"] + ([] if TARGET else ["native-tiles"]))
@pytest.mark.parametrize("n", [48, 200])
def test_halves(compile_and_compare, cpu, n):
    """The last panel of columns is not full; few rows, more than one tile of them, and a number that is known in a run only."""
    module, some_halves = HalfProducts(n), lambda *shape: some(*shape).bfloat16()
    how = {"rtol": 2**-6, "atol": 2, "options": cpu_options(cpu)}
    for rows in (1, 13, 70):
        compile_and_compare(module, (some_halves(rows, 256),), **how)
    dynamic = ({0: torch.export.Dim("rows", min=1, max=1000)},)
    more = [(some_halves(1, 256),), (some_halves(2, 256),), (some_halves(43, 256),)]
    compile_and_compare(module, (some_halves(5, 256),), dynamic, more_inputs=more, **how)


@pytest.mark.parametrize("rows", [3, 40])
def test_halves_are_as_exact(compile_model, rows):
    """Sums are f32, of weights that are no further from the exact ones than eager mode's."""

    class Product(Halves):
        def forward(self, x):
            return torch.nn.functional.linear(x, super().forward())

    module, x = Product(64, 2048, 32, -8, 8), some(rows, 2048).bfloat16()
    weight = module.weight.double().unflatten(1, (-1, 32)) * module.scales.bfloat16().double().unsqueeze(2)
    exact = x.double() @ weight.flatten(1).T
    results = torch.as_tensor(compile_model(module, (x,)).model.run([x])[0]), module(x)
    errors = [(result.double() - exact).square().mean() for result in results]
    assert errors[0] <= 1.05 * errors[1]


class Linear(torch.nn.Module):
    def __init__(self, *arguments):
        super().__init__()
        self.weights = Groups(*arguments)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weights())


def blocks(rows, *shape):
    """Rows whose blocks of 32 have numbers of one size each, but for some that are much larger."""
    x = some(rows, *shape).unflatten(-1, (-1, 32))
    x *= 10 ** some(*x.shape[:-1], 1)
    x[..., 7] *= 100
    return x.flatten(-2)


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", *VNNI])
@pytest.mark.parametrize("rows, group, symmetric", [(1, 32, True), (2, 32, True), (1, 96, False), (1, 256, True), (1, 32, False)])
def test_digits_are_as_exact(compile_model, cpu, rows, group, symmetric):
    """Rows that are multiplied as integers with an exponent for each 32: the last panel of columns is not full, and a long sum is cut."""
    module, x = Linear(91, 6912, group, -8, 8, symmetric), blocks(rows, 6912)
    groups = module.weights.weight.double().unflatten(1, (-1, group)) - module.weights.zeros.double().unsqueeze(2)
    exact = x.double() @ (groups * module.weights.scales.double().unsqueeze(2)).flatten(1).T
    results = torch.as_tensor(compile_model(module, (x,), options=(f"--cpu={cpu}",)).model.run([x])[0]), module(x)
    errors = [(result.double() - exact).square().mean().sqrt() for result in results]
    assert errors[0] <= 1.5 * errors[1]


@pytest.mark.parametrize("symmetric", [True, False])
def test_digits_of_special_values(compile_model, symmetric):
    """Zeros, denormal numbers, the edges of three digits, NaN, and infinities, of which a block of 32 steps gives NaN if there are several."""
    module = Linear(56, 96, 32, -8, 8, symmetric)
    model = compile_model(module, (some(1, 96),), options=("--cpu=x86-64-v3",)).model
    zeros = torch.zeros(1, 96)
    numbers = torch.tensor([0x7EFEFE, 0x7EFEFF, 0x7FFFFF, 0x7F7F80, 0x000001], dtype=torch.int32)
    edges = zeros.clone()
    edges[0, 10:15] = (numbers + 0x3F800000).view(torch.float32) * torch.tensor([1, -1, 1, -1, 1])
    for x in (zeros, zeros - 1e-40, edges, edges * 2.0**100, edges * 2.0**-120):
        torch.testing.assert_close(torch.as_tensor(model.run([x])[0]), module(x), rtol=1e-5, atol=1e-5 * float(x.abs().max()) + 1e-35)
    infinity = float("inf")
    for places, isKept in (
        ({3: float("nan")}, True),
        ({40: infinity}, True),
        ({95: -infinity}, True),
        ({0: infinity, 33: -infinity}, True),
        ({33: infinity, 34: infinity}, False),
    ):
        x = some(1, 96)
        for place, number in places.items():
            x[0, place] = number
        result = torch.as_tensor(model.run([x])[0])
        if isKept or TARGET:
            torch.testing.assert_close(result, module(x), rtol=1e-5, atol=1e-4, equal_nan=True)
        else:
            assert result.isnan().all()


class Others(torch.nn.Module):
    """What precedes the product is put into memory first; rows that are transposed, experts, a convolution, PyTorch's own operators."""

    def __init__(self):
        super().__init__()
        self.four, self.eight = Groups(72, 64, 32, -8, 8), Groups(72, 64, 64, -128, 128)
        self.experts = Groups(3 * 24, 64, 32, -8, 8)
        self.kernel = Groups(16, 72, 72, -128, 128)
        self.register_buffer("packed", torch.ops.aten._convert_weight_to_int4pack_for_cpu(int4_weight(80, 64), 2))
        self.register_buffer("pairs", some(2, 80, 2))

    def forward(self, x, images):
        normed = torch.nn.functional.layer_norm(x, (64,)) * x.exp().cos()
        return (
            torch.nn.functional.linear(normed, self.four()),
            torch.nn.functional.linear(torch.relu(x.flip(1)), self.eight()),
            torch.nn.functional.linear(x.reshape(16, -1).mT, self.four()[:, :16]),
            x.expand(3, *x.shape) @ self.experts().reshape(3, 24, 64).mT,
            normed[1:2].expand(3, 1, 64) @ self.experts().reshape(3, 24, 64).mT,
            torch.nn.functional.linear(x.mT[:, 1:2].reshape(1, -1), self.four()),
            torch.nn.functional.conv2d(images, self.kernel().reshape(16, 8, 3, 3), padding=1),
            torch.ops.aten._weight_int8pack_mm(x, self.eight.weight, self.eight.scales[:, 0]),
            torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, 32, self.pairs),
            torch.ops.aten._weight_int4pack_mm_for_cpu(normed[:1], self.packed, 32, self.pairs),
        )


@CPUS
def test_others(compile_and_compare, cpu):
    options = (f"--cpu={cpu}",)
    if cpu != "native":
        options += ("--int4-layout=avx512",) if torch.cpu._is_avx512_supported() else ("--int4-layout=avx2",)
    compile_and_compare(Others(), (some(4, 64) / 3, some(2, 8, 5, 7)), rtol=1e-4, atol=5e-3, options=options)


@CPUS
def test_special_values(compile_and_compare, cpu):
    """A row with NaN or an infinity has what eager mode has, others do not notice."""
    x = some(4, 256)
    x[0, 3], x[1, 255], x[2, 0] = float("nan"), float("inf"), -float("inf")
    compile_and_compare(Products(40), (x,), rtol=2e-5, atol=2e-3, options=(f"--cpu={cpu}",))


@pytest.mark.parametrize("high, bits", [(8, 4), (128, 8)])
def test_size_of_weights(compile_model, high, bits):
    """Weights are stored once, in four bits where these are enough."""
    sizes = [compile_model(Linear(n, 1024, 128, -high, high), (some(1, 1024),)).path.stat().st_size for n in (512, 128)]
    weights = (512 - 128) * 1024
    assert sizes[0] - sizes[1] < weights * (bits / 8 + 3 * 9 / 128)


def test_weights_are_replaced(compile_model):
    """Weights that need more than the four bits that there are, and zero points where there were none, are refused."""
    module, x = Linear(24, 64, 32, -8, 8), some(3, 64)
    model = compile_model(module, (x,)).model
    module.weights.weight = integers(-8, 8, 24, 64).flip(0)
    model.set_constant("weights.weight", module.weights.weight)
    torch.testing.assert_close(torch.as_tensor(model.run([x])[0]), module(x), rtol=2e-5, atol=2e-4)
    with pytest.raises(RuntimeError, match="weights of more than four bits"):
        model.set_constant("weights.weight", integers(-128, 128, 24, 64))
        model.run([x])
    if TARGET:  # products on GPUs take any zero points
        return
    model.set_constant("weights.weight", module.weights.weight)
    with pytest.raises(RuntimeError, match="weights with zero points other than 0"):
        model.set_constant("weights.zeros", torch.ones(24, 2, dtype=torch.int8))
        model.run([x])
