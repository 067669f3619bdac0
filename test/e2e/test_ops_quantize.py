"""Numbers as small integers."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch._higher_order_ops.out_dtype import out_dtype

from conftest import run_tool

q = torch.ops.quantized_decomposed


def some(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) * 3


class Model(torch.nn.Module):
    """As an exporter of quantized models writes it: int8 weights by channel, activations by tensor."""

    def __init__(self):
        super().__init__()
        weight = some(12, 8)
        self.register_buffer("scales", weight.abs().amax(1) / 127)
        self.register_buffer("zeros", torch.zeros(12, dtype=torch.int64))
        self.register_buffer("weight", q.quantize_per_channel(weight, self.scales, self.zeros, 0, -127, 127, torch.int8))

    def forward(self, x):
        activation = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.037, 3, -128, 127, torch.int8), 0.037, 3, -128, 127, torch.int8)
        weight = q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = torch.nn.functional.linear(activation, weight)
        return y, q.quantize_per_tensor(y, 0.11, 128, 0, 255, torch.uint8)


def test_quantized_linear(compile_and_compare):
    compile_and_compare(
        Model(), (some(5, 8),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), more_inputs=[(some(2, 8),), (some(33, 8),)]
    )


def test_quantize(compile_and_compare):
    class All(torch.nn.Module):
        def forward(self, x, h, scale, zero, scales, zeros):
            a = q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
            b = q.quantize_per_channel(h, scales, zeros, 1, 0, 200, torch.uint8)
            c = q.quantize_per_tensor(x, 0.001, -7, -30000, 30000, torch.int16)
            return (
                a,
                b,
                c,
                q.dequantize_per_tensor.tensor(a, scale, zero, -128, 127, torch.int8),
                q.dequantize_per_channel(b, scales, zeros, 1, 0, 200, torch.uint8),
                q.dequantize_per_channel(b, scales, None, 1, 0, 200, torch.uint8),
                q.dequantize_per_tensor(c, 0.001, -7, -30000, 30000, torch.int16),
                q.dequantize_per_tensor(a, 0.3, 5, -128, 127, torch.int8, out_dtype=torch.bfloat16),
                torch.fake_quantize_per_tensor_affine(x, 0.1, 4, 0, 15),
                torch.fake_quantize_per_tensor_affine(x, scale.float(), zero.int(), 0, 15),
                torch.fake_quantize_per_channel_affine(x, scales, zeros.int() % 16, 1, 0, 15),
                torch.fake_quantize_per_channel_affine(x, scales, zeros % 3 + 0.25, 1, -8, 15),
                torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 4, 0, 15),
                torch.ops.aten.fake_quantize_per_channel_affine_cachemask(x, scales, zeros.int() % 16, 1, 0, 15),
            )

    inputs = (
        some(6, 4),
        some(6, 4).bfloat16(),
        torch.tensor(0.05, dtype=torch.float64),
        torch.tensor(2),
        torch.tensor([0.02, 0.3, 0.04, 1.0]),
        torch.tensor([100, 0, 90, 7]),
    )
    compile_and_compare(All(), inputs, rtol=0, atol=1e-6)


def test_int8_weights(compile_and_compare):
    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randint(-127, 128, (32, 64), dtype=torch.int8, generator=torch.Generator().manual_seed(0)))
            self.register_buffer("scales", torch.rand(32, generator=torch.Generator().manual_seed(1)))

        def forward(self, x):
            return torch.ops.aten._weight_int8pack_mm(x, self.weight, self.scales)

    compile_and_compare(Product(), (some(4, 64),), atol=1e-3)


def pack_int4(weight, block, halves):
    """Weights [n, k] as PyTorch packs them for vectors of one kind: blocks of columns, of which a byte holds two."""
    n, k = weight.shape
    parts, whole = [], n - n % block
    for begin, width, split in [(b, block, halves) for b in range(0, whole, block)] + [(whole, n - whole, False)] * (whole < n):
        columns = weight[begin : begin + width].T
        low, high = (columns[:, : width // 2], columns[:, width // 2 :]) if split else (columns[:, ::2], columns[:, 1::2])
        parts.append((low | high << 4).reshape(-1))
    return torch.cat(parts).to(torch.uint8).reshape(n, k // 2)


def int4_weight(n, k):
    return torch.randint(0, 16, (n, k), dtype=torch.int32, generator=torch.Generator().manual_seed(n))


class Int4(torch.nn.Module):
    """Weights of four bits in groups of 32: packed before, and packed in the program."""

    def __init__(self, n, dtype):
        super().__init__()
        self.register_buffer("weight", int4_weight(n, 64))
        self.register_buffer("packed", torch.ops.aten._convert_weight_to_int4pack_for_cpu(self.weight, 2))
        self.register_buffer("pairs", some(2, n, 2).to(dtype))

    def forward(self, x):
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(self.weight * 1, 2)
        return (
            packed,
            torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, 32, self.pairs),
            torch.ops.aten._weight_int4pack_mm_for_cpu(x * 2, packed, 32, self.pairs),
        )


@pytest.mark.parametrize("n, dtype", [(64, torch.bfloat16), (176, torch.bfloat16), (32, torch.float16), (128, torch.float32)])
def test_int4_weights(compile_and_compare, n, dtype):
    tolerance = 1e-4 if dtype == torch.float32 else 8e-3
    compile_and_compare(
        Int4(n, dtype),
        (some(5, 64).to(dtype),),
        dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
        rtol=tolerance,
        atol=tolerance,
        more_inputs=[(some(rows, 64).to(dtype),) for rows in (2, 40)],
    )


def test_int4_weights_as_inputs(compile_and_compare):
    class Product(torch.nn.Module):
        def forward(self, x, packed, parameters):
            return torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, 64, parameters)

    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(int4_weight(80, 128), 2)
    compile_and_compare(Product(), (some(7, 128), packed, some(2, 80, 2)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "layout, block, is_told", [("avx512", 64, True), ("avx2", 32, True), ("none", 32, True), ("avx512", 64, False), ("avx2", 32, False)]
)
def test_int4_layouts(compile_model, layout, block, is_told):
    """Weights that were packed on other CPUs: the compiler is told so, or sees it by the range that each group fills."""
    weight = int4_weight(112, 64)
    if not is_told:
        rows = torch.arange(112)
        for group in (0, 32):
            weight[rows, group + 5 * rows % 32], weight[rows, group + (5 * rows + 7) % 32] = 0, 15

    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("packed", pack_int4(weight, block, layout != "none"))
            self.register_buffer("pairs", some(2, 112, 2))

        def forward(self, x):
            return torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, 32, self.pairs)

    module, x = Product(), some(3, 64)
    scales, zeros = (p.repeat_interleave(32, 0).T for p in module.pairs.unbind(-1))
    options = (f"--int4-layout={layout}",) if is_told else ()
    (result,) = compile_model(module, (x,), options=options).model.run([x])
    torch.testing.assert_close(torch.as_tensor(result), x @ ((weight - 8) * scales + zeros).T, rtol=1e-4, atol=1e-4)


def test_unknown_int4_layout(tmp_path):
    """A weight that the archive holds packed may be another machine's: the compiler says so, unless it is told."""

    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("packed", torch.ops.aten._convert_weight_to_int4pack_for_cpu(int4_weight(64, 64), 2))
            self.register_buffer("pairs", some(2, 64, 2))

        def forward(self, x):
            return torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, 32, self.pairs)

    torch.export.save(torch.export.export(Product(), (some(3, 64),)), tmp_path / "x.pt2")
    command = ("aot-compile", tmp_path / "x.pt2", "-o", tmp_path / "x.so")
    process = run_tool(*command)
    assert process.returncode == 0
    assert "warning: node '_weight_int4pack_mm_for_cpu'" in process.stderr and "(--int4-layout)" in process.stderr
    assert process.stderr.count("\n") == 1 and run_tool(*command, "--int4-layout=avx2").stderr == ""


class Dynamic4(torch.nn.Module):
    """Rows are rounded to eight bits when the model runs."""

    def __init__(self, sums, group, bias, in_program):
        super().__init__()
        self.size = group, sums, 48
        weight = torch.randint(0, 256, (48, sums // 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(sums))
        self.parts = weight, some(48, sums // group).abs(), some(48) * 5 if bias else None
        self.packed = None if in_program else torch.ops.aten._dyn_quant_pack_4bit_weight(*self.parts, *self.size)

    def forward(self, x):
        packed = torch.ops.aten._dyn_quant_pack_4bit_weight(*self.parts, *self.size) if self.packed is None else self.packed
        return torch.ops.aten._dyn_quant_matmul_4bit(x, packed, *self.size)


@pytest.mark.parametrize(
    "sums, group, bias, dtype",
    [
        (64, 64, True, torch.float32),
        (96, 32, False, torch.float32),
        (64, 32, True, torch.float32),
        (64, 64, True, torch.bfloat16),
        (32, 32, False, torch.bfloat16),
        (8256, 8256, False, torch.float32),
    ],
)
def test_dynamic_int4(compile_and_compare, sums, group, bias, dtype):
    rows = some(6, sums)
    rows[1] = 0
    rows[2] = rows[2].abs()
    rows[3] = -rows[3].abs()
    exact = group == sums and not bias
    compile_and_compare(
        Dynamic4(sums, group, bias, in_program=bias),
        (rows.to(dtype),),
        dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
        rtol=0 if exact else 1e-5,
        atol=0 if exact else 1e-2,
        more_inputs=[(some(2, sums).to(dtype),), (some(33, sums).to(dtype) * 100,)],
    )


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_float8_products(compile_and_compare, dtype):
    """With a scale for each operand, or for each row and column."""

    class Products(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", some(48, 32).to(dtype))
            self.register_buffer("scales", some(1, 48).abs())

        def forward(self, x, one, each, bias):
            quantized, weight = x.to(torch.float8_e4m3fn), self.weight.t()
            return (
                torch._scaled_mm(quantized, weight, one, one * 2, out_dtype=torch.float32),
                torch._scaled_mm(quantized, weight, each, self.scales, out_dtype=torch.bfloat16),
                torch._scaled_mm(quantized, weight, one, one, bias=bias, out_dtype=torch.bfloat16),
            )

    compile_and_compare(Products(), (some(16, 32), torch.tensor(0.5), some(16, 1).abs(), some(48).bfloat16()), rtol=8e-3, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
def test_out_dtype(compile_and_compare, dynamic):
    """Bytes that are multiplied in integers of 32 bits, as reference quantization writes it; defaults of the operator, and numbers."""
    aten = torch.ops.aten

    class Model(torch.nn.Module):
        def forward(self, x, w, image, kernel):
            return (
                out_dtype(aten.mm.default, torch.int32, x, w),
                out_dtype(aten.linear.default, torch.int32, x, w.t().contiguous()),
                out_dtype(aten.mul.Tensor, torch.int32, x, x[0, 0]),
                out_dtype(aten.mul.Scalar, torch.int64, x, 300),
                out_dtype(aten.mul.Scalar, torch.float64, x, 0.1),
                out_dtype(aten.mul.Scalar, torch.int32, x, 0.5),
                out_dtype(aten.div.Tensor, torch.int32, x, w[:1, :1]),
                out_dtype(aten.div.Scalar, torch.float16, image[0, 0], 3),
                out_dtype(aten.conv2d.default, torch.float64, image, kernel),
                out_dtype(aten.convolution.default, torch.float32, image, kernel, None, [2, 1], [1, 0], [1, 1], False, [0, 0], 1),
            )

    def example(rows):
        torch.manual_seed(rows)
        x, w = (torch.randint(-128, 128, size, dtype=torch.int8) for size in ((rows, 7), (7, 6)))
        return x, w | 1, torch.randn(2, 3, 9, 8).bfloat16(), torch.randn(4, 3, 3, 2).bfloat16()

    shapes = ({0: torch.export.Dim("rows", min=1)}, None, None, None) if dynamic else None
    more = [example(rows) for rows in (1, 33)] if dynamic else ()
    compile_and_compare(Model(), example(5), dynamic_shapes=shapes, rtol=1e-2, atol=1e-2, more_inputs=more)
