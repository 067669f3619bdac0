"""kiln.compile of programs that need something of this process: quantized ones, and ones with operators of other libraries."""

import math
import warnings

import pytest
import torch
from torch.export import Dim
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import kiln
from conftest import TARGET

OPTIONS = dict(option[2:].replace("-", "_").split("=") for option in TARGET)


def compile_quietly(program, **options):
    """Nothing is left to PyTorch, which would be a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        return kiln.compile(program, **OPTIONS, **options)


def check(program, module, *inputs, tolerance=1e-6):
    model = compile_quietly(program)
    with torch.no_grad():
        torch.testing.assert_close(model(*inputs), module(*inputs), rtol=tolerance, atol=tolerance)
    return model


# ===-- Quantization ------------------------------------------------------------------------------===


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.first, self.last = torch.nn.Linear(128, 32), torch.nn.Linear(32, 10)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2) + 1
        return torch.softmax(self.last(torch.relu(self.first(x.flatten(1)))), -1)


def operators_of(program, namespace):
    return {node.target._schema.name for node in program.graph.nodes if getattr(node.target, "namespace", "") == namespace}


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_pt2e(is_dynamic):
    """Post-training quantization of an exported program, with ranges of a calibration and with ranges of each run."""
    xiq = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    example, shapes = (torch.randn(4, 3, 8, 8),), {"x": {0: Dim("batch", min=2, max=16)}}
    quantizer = xiq.X86InductorQuantizer().set_global(xiq.get_default_x86_inductor_quantization_config(is_dynamic=is_dynamic))
    prepared = prepare_pt2e(torch.export.export(Small().eval(), example, dynamic_shapes=shapes).module(), quantizer)
    for _ in range(2):
        prepared(torch.randn(4, 3, 8, 8))
    module = convert_pt2e(prepared)
    program = torch.export.export(module, example, dynamic_shapes=shapes)
    assert ("quantized_decomposed::choose_qparams" in operators_of(program, "quantized_decomposed")) == is_dynamic
    model = check(program, module, *example)
    x = torch.randn(7, 3, 8, 8)
    torch.testing.assert_close(model(x), module(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantized_weights(dtype):
    """torchao's weights are subclasses of tensors, and its operators are composed of PyTorch's."""
    quantization = pytest.importorskip("torchao.quantization")
    configurations = [
        quantization.Int8WeightOnlyConfig(),
        quantization.Int8DynamicActivationInt8WeightConfig(),
        quantization.Float8WeightOnlyConfig(),
        quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=quantization.PerGroup(32)),
        quantization.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=quantization.PerGroup(32)),
    ]
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64, dtype=dtype) for _ in configurations]
    for layer, configuration in zip(layers, configurations):
        quantization.quantize_(layer, configuration)
    module = torch.nn.ModuleList(layers)
    module.forward = lambda x: [layer(x) for layer in layers]
    x = torch.randn(5, 64, dtype=dtype)
    program = torch.export.export(module, (x,))
    check(program, module, x, tolerance=2e-2 if dtype is torch.bfloat16 else 1e-5)


class Chooses(torch.nn.Module):
    """Every operator that finds a range in its input, and what quantizes with it."""

    def forward(self, x):
        ops, results = torch.ops.quantized_decomposed, []
        for choose, low, high, dtype in (
            (ops.choose_qparams.tensor, -128, 127, torch.int8),
            (ops.choose_qparams.tensor, 0, 255, torch.uint8),
            (ops.choose_qparams_symmetric.tensor, -127, 127, torch.int8),
            (ops.choose_qparams_symmetric.tensor, 0, 255, torch.uint8),
        ):
            scale, point = choose(x, low, high, 1e-4, dtype)
            results += [scale, point, ops.quantize_per_tensor.tensor(x, scale, point, low, high, dtype)]
        if x.dim() == 2:
            scale, point = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
            quantized = ops.quantize_per_token(x, scale, point, -128, 127, torch.int8)
            results += [scale, point, quantized, ops.dequantize_per_token(quantized, scale, point, -128, 127, torch.int8, torch.float32)]
        return results


@pytest.mark.parametrize(
    "x",
    [
        torch.linspace(-3, 5, 24).view(4, 6),
        torch.full((3, 4), 2.5),
        torch.zeros(2, 3),
        -torch.rand(5, generator=torch.Generator().manual_seed(0)),
        torch.tensor(-7.0),
        torch.tensor([[1e-9, -1e-9]]),
        torch.linspace(-3, 5, 7, dtype=torch.float16),
        torch.linspace(-1, 9, 7, dtype=torch.bfloat16),
    ],
    ids=lambda x: f"{x.dtype}-{list(x.shape)}",
)
def test_ranges_of_values(x):
    import torch.ao.quantization.fx._decomposed  # registers the operators

    program = torch.export.export(Chooses(), (x,))
    model = compile_quietly(program)
    torch.testing.assert_close(model(x), Chooses()(x), rtol=0, atol=0)


# ===-- Operators of other libraries --------------------------------------------------------------===

library = torch.library.Library("kiln_programs_test", "DEF")
library.define("outer(Tensor x, int times, Tensor? y=None) -> (Tensor, Tensor[])")
library.define("inner(Tensor x, float by) -> Tensor")
library.define("looks(Tensor x) -> Tensor")


@torch.library.impl(library, "inner", "CompositeImplicitAutograd")
def inner(x, by):
    return torch.nn.functional.gelu(x) * by


@torch.library.impl(library, "outer", "CompositeExplicitAutograd")
def outer(x, times, y=None):
    x = torch.ops.kiln_programs_test.inner(x, 0.5)
    for _ in range(times):
        x = x + (1 if y is None else y)
    return x.clone(), [x.sum(0), x * 2]


@torch.library.impl(library, "looks", "CompositeExplicitAutograd")
def looks(x):
    return x * 2 if x.sum() > 0 else x * 3


@torch.library.register_fake("kiln_programs_test::looks")
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("kiln_programs_test::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * 3)


@opaque.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("kiln_programs_test::add_one", mutates_args={"x"})
def add_one(x: torch.Tensor) -> None:
    x.add_(1)


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def export(function, x, **options):
    return torch.export.export(Calls(function), (x,), **options)


def test_composed_operators():
    """A library's operator that is made of others, such ones among them, is no call of the library."""
    ops = torch.ops.kiln_programs_test

    def function(x):
        first, (second, third) = ops.outer(x, 3)
        return ops.inner(first, 2.0), second, ops.outer(third, 1, x), torch.cond(x.sum() > 0, lambda x: ops.inner(x, 1.0), torch.sin, (x,))

    x = torch.randn(4, 3)
    program = export(function, x, dynamic_shapes=(({0: Dim("rows", max=9)},),))
    assert operators_of(program, "kiln_programs_test")
    model = check(program, function, x)
    torch.testing.assert_close(model(torch.ones(2, 3)), function(torch.ones(2, 3)))


BIAS = torch.linspace(-0.1, 0.1, 4)
ROWS = torch.arange(64) % 5 != 3
SCORES = {
    "plain": {},
    "scale": {"scale": 0.3},
    "bias": {"score_mod": lambda s, b, h, m, n: s + (n - m) * BIAS[h]},
    "cap": {"score_mod": lambda s, b, h, m, n: 5 * torch.tanh(s / 5)},
    "replaced": {"score_mod": lambda s, b, h, m, n: torch.where(m >= n, s, -1e9)},
    "causal": {"block_mask": lambda b, h, m, n: m >= n},
    "window": {"block_mask": lambda b, h, m, n: (m >= n) & (m - n < 9), "score_mod": lambda s, b, h, m, n: s * 2 + h},
    "rows left out": {"block_mask": lambda b, h, m, n: ROWS[m] & (n > 2), "return_lse": True},
}


@pytest.mark.parametrize("options", SCORES.values(), ids=SCORES)
def test_flex_attention(options):
    """PyTorch neither saves it nor decomposes it."""
    if "block_mask" in options:
        options = {**options, "block_mask": create_block_mask(options["block_mask"], None, None, 64, 64, device="cpu")}

    def function(q, k, v):
        return flex_attention(q, k, v, enable_gqa=True, **options)

    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 64, 16), torch.randn(2, 2, 64, 16), torch.randn(2, 2, 64, 8)
    program = torch.export.export(Calls(function), (q, k, v))
    check(program, function, q, k, v, tolerance=1e-5)
    assert any("flex_attention" in str(node.target) for node in program.graph.nodes)


def test_dynamic_flex_attention():
    def function(q, k, v):
        return flex_attention(q, k, v, lambda s, b, h, m, n: torch.where(m >= n, s + h, -float("inf")))

    q, k, v = torch.randn(3, 2, 4, 64, 16)
    sizes = {0: Dim.AUTO, 2: Dim.AUTO}
    program = torch.export.export(Calls(function), (q, k, v), dynamic_shapes=((sizes, sizes, sizes),))
    model = check(program, function, q, k, v, tolerance=1e-5)
    for batch, length in ((1, 1), (3, 37)):
        q, k, v = torch.randn(3, batch, 4, length, 16)
        torch.testing.assert_close(model(q, k, v), function(q, k, v), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", [torch.ops.kiln_programs_test.opaque, torch.ops.kiln_programs_test.looks])
def test_operators_that_are_called(function):
    """What cannot be looked into is called in PyTorch, and a warning says so; unless it is said what to do."""
    x = torch.rand(3)
    program = export(lambda x: function(x) + 1, x)
    with pytest.warns(UserWarning, match="calls PyTorch.*kiln_programs_test"):
        model = kiln.compile(program, **OPTIONS)
    torch.testing.assert_close(model(x), function(x) + 1)
    with pytest.raises(kiln.KilnError, match="kiln_programs_test"):
        kiln.compile(program, fallback="none", **OPTIONS)
    torch.testing.assert_close(compile_quietly(program, fallback="torch")(x), function(x) + 1)


def test_operators_that_write():
    def function(x):
        y = x * 2
        torch.ops.kiln_programs_test.add_one(y)
        torch.ops.kiln_programs_test.add_one(x)
        return y

    program = export(function, torch.ones(3))
    with pytest.warns(UserWarning, match="add_one"):
        model = kiln.compile(program, **OPTIONS)
    x, expected = torch.ones(3), torch.ones(3)
    torch.testing.assert_close((model(x), x), (function(expected), expected))


def test_other_operators_are_refused():
    """PyTorch is called for custom operators alone."""
    x = torch.rand(3, 3)
    program = export(lambda x: (torch.ops.kiln_programs_test.opaque(x), torch.ops.aten._add_relu(x, x)), x)
    with pytest.raises(kiln.KilnError, match="(?s)_add_relu.*opaque|opaque.*_add_relu"):
        kiln.compile(program, **OPTIONS)


# ===-- Sizes by functions that PyTorch does not save ----------------------------------------------===

SIZES = {
    "ceil": lambda n: math.ceil(n / 2),
    "floor": lambda n: math.floor(n / 2),
    "round": lambda n: round(n / 4),
    "abs": lambda n: abs(n - 30),
    "ceil_of_floats": lambda n: math.ceil(n * 0.7),
    "floor_of_floats": lambda n: math.floor(n / 0.7),
    "round_of_floats": lambda n: round(n * 0.7),
}


@pytest.mark.parametrize("size", SIZES)
def test_size_functions(size):
    class Module(torch.nn.Module):
        def forward(self, x):
            return torch.arange(SIZES[size](x.shape[0])) + x.sum()

    program = torch.export.export(Module(), (torch.randn(9),), dynamic_shapes={"x": {0: Dim.AUTO}})
    model = compile_quietly(program)
    for n in (9, 10, 13, 14, 15, 45, 100):
        x = torch.randn(n)
        torch.testing.assert_close(model(x), Module()(x))


def test_round_to_digits():
    class Module(torch.nn.Module):
        def forward(self, x):
            return x * round(x.shape[0] / 3, 2)

    program = torch.export.export(Module(), (torch.randn(9),), dynamic_shapes={"x": {0: Dim.AUTO}})
    with pytest.raises(kiln.KilnError, match="builtins.round: takes 1 number"):
        kiln.compile(program, **OPTIONS)
