"""Numbers as small integers or 8-bit floats with scales of blocks, and how scales are chosen."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
import torchao.quantization.quant_primitives  # likewise  # noqa: F401

q, ao = torch.ops.quantized_decomposed, torch.ops.torchao
I8, U8, F8 = torch.int8, torch.uint8, torch.float8_e4m3fn
SYMMETRIC = ("SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR")


def some(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) * 3


class Decomposed(torch.nn.Module):
    """By channel, by token and in groups, there and back."""

    def forward(self, x, h, scales, zeros, grouped, points):
        channel = q.quantize_per_channel(x, scales, zeros, 1, -100, 100, I8)
        wide = q.quantize_per_channel(h, scales.double(), zeros.float(), 1, 0, 200, U8)
        scale, zero = q.choose_qparams_per_token_asymmetric(x, I8)
        token = q.quantize_per_token(x, scale, zero, -128, 127, I8)
        around, none = q.choose_qparams_per_token(x, I8)
        half, nothing = q.choose_qparams_per_token(h, I8)
        symmetric = q.quantize_per_token(x, around, none, -127, 127, I8)
        group = q.quantize_per_channel_group(x, grouped, points, -8, 7, I8, 4)
        return [
            channel,
            q.dequantize_per_channel(channel, scales, zeros, 1, -100, 100, I8),
            q.dequantize_per_channel(channel, scales, None, 1, -100, 100, I8, out_dtype=torch.bfloat16),
            wide,
            q.dequantize_per_channel(wide, scales.half(), zeros.to(U8), 1, 0, 200, U8, out_dtype=torch.float16),
            q.fake_quant_per_channel(x, scales, zeros, 1, -20, 20),
            scale,
            zero,
            token,
            q.dequantize_per_token(token, scale, zero, -128, 127, I8, torch.float32),
            symmetric,
            q.dequantize_per_token(symmetric, around, none, -127, 127, I8, torch.float32),
            q.quantize_per_token(h, half, nothing, -127, 127, I8),
            group,
            q.dequantize_per_channel_group(group, grouped, points, -8, 7, I8, 4, torch.float32),
            q.dequantize_per_channel_group(group, grouped.bfloat16(), None, -8, 7, I8, 4, torch.bfloat16),
        ]


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_decomposed(compile_and_compare, half):
    def inputs(rows):
        x = some(rows, 8)
        x[:, 0] = 0
        if rows > 2:
            x[1], x[2] = -x[1].abs(), x[2].abs() + 1
        return (
            x,
            x.to(half),
            some(8).abs() + 0.01,
            torch.arange(8) - 3,
            some(rows, 2).abs() + 0.01,
            torch.arange(2 * rows).view(rows, 2) % 5,
        )

    rows = torch.export.Dim.DYNAMIC
    shapes = {"x": {0: rows}, "h": {0: rows}, "scales": None, "zeros": None, "grouped": {0: rows}, "points": {0: rows}}
    compile_and_compare(Decomposed(), inputs(6), shapes, rtol=0, atol=0, more_inputs=[inputs(2), inputs(33)])


class Tensors(torch.nn.Module):
    """One scale, which is computed; bounds that are tensors; 8-bit floats."""

    def forward(self, x, low, high):
        results = []
        for choose, bounds, dtype in (
            (q.choose_qparams.tensor, (-128, 127), I8),
            (q.choose_qparams.tensor, (0, 255), U8),
            (q.choose_qparams.tensor, (-448, 448), F8),
            (q.choose_qparams_symmetric.tensor, (-127, 127), I8),
            (q.choose_qparams_symmetric.tensor, (0, 255), U8),
        ):
            scale, zero = choose(x, *bounds, 1e-4, dtype)
            y = q.quantize_per_tensor.tensor(x, scale, zero, *bounds, dtype)
            z = q.dequantize_per_tensor.tensor(y, scale, zero, *bounds, dtype, out_dtype=torch.float16)
            results += [scale, zero, y.view(U8), z]
        y = q.quantize_per_tensor.tensor2(x, scale, zero - 100, low, high, U8)
        z = q.dequantize_per_tensor.tensor2(y, scale, zero.float(), low, high, U8)
        return [*results, y, z, q.convert_element_type.no_fuse(x, torch.bfloat16)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_tensors(compile_and_compare, dtype):
    low, high = torch.tensor([3]), torch.tensor([200])
    more = [some(2, 6).abs(), -some(9, 6).abs(), torch.zeros(3, 6)]
    compile_and_compare(
        Tensors(),
        (some(4, 6).to(dtype), low, high),
        ({0: torch.export.Dim.DYNAMIC}, None, None),
        rtol=0,
        atol=0,
        more_inputs=[(x.to(dtype), low, high) for x in more],
    )


def test_scales_of_no_numbers(compile_and_compare):
    """Infinities and NaN have scales; PyTorch does not say which integers they become."""

    class Scales(torch.nn.Module):
        def forward(self, x):
            return (
                q.choose_qparams(x, -128, 127, 1e-4, I8),
                q.choose_qparams_symmetric(x, 0, 255, 1e-4, U8),
                q.choose_qparams_per_token_asymmetric(x, I8)[0],
            )

    inputs = [(torch.tensor([[1.0, value], [-2.0, 3.0]]),) for value in (float("nan"), float("inf"), -float("inf"))]
    compile_and_compare(Scales(), inputs[0], rtol=0, atol=0, more_inputs=inputs[1:])


class Affine(torch.nn.Module):
    """Blocks as torchao names them."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def forward(self, x):
        results = []
        for block in self.blocks:
            size = [whole if part is None else part for whole, part in zip(x.shape, block)]
            for mapping, dtype, bounds, kinds in (
                ("SYMMETRIC", I8, (-8, 7), {}),
                ("SYMMETRIC_NO_CLIPPING_ERR", I8, (-8, 7), {"eps": 0.5, "zero_point_dtype": torch.int32}),
                ("ASYMMETRIC", U8, (None, None), {"scale_dtype": torch.float32, "keepdim": True}),
                ("ASYMMETRIC", I8, (None, None), {"scale_dtype": torch.bfloat16, "zero_point_dtype": I8}),
            ):
                scale, zero = ao.choose_qparams_affine(x, mapping, size, dtype, *bounds, **kinds)
                y = ao.quantize_affine(x, size, scale, zero, dtype, *bounds)
                results += [scale, zero, y, ao.dequantize_affine(y, size, scale, zero, dtype, *bounds)]
                results.append(ao.dequantize_affine(y, size, scale, None, dtype, *bounds, output_dtype=torch.bfloat16))
            scale = ao.choose_scale_float8(x, size, F8, hp_value_lb=1e-3, hp_value_ub=5.0)
            z = ao.quantize_affine_float8_non_decomposed(x, scale, F8)
            results += [scale, z.view(U8), ao.dequantize_affine_float8_non_decomposed(z, scale, torch.float32)]
        return results


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_affine(compile_and_compare, dtype):
    def of(rows):
        x = some(rows, 8)
        x[0] = 0
        return (x.to(dtype),)

    blocks = [(1, 8), (None, None), (1, 4), (2, 2), (None, 1)]
    rows = torch.export.Dim("rows", min=2, max=64) * 2
    compile_and_compare(Affine(blocks), of(6), ({0: rows},), rtol=0, atol=0, more_inputs=[of(4), of(34)])
    if dtype == torch.float32:
        compile_and_compare(Affine([(1, 1, 4), (1, None, 8), (2, 3, 2)]), (some(2, 6, 8),), rtol=0, atol=0)


def test_nan_in_groups(compile_model):
    class Group(torch.nn.Module):
        def forward(self, x, scales):
            return q.quantize_per_channel_group(x, scales, torch.zeros(2, 2), -8, 7, I8, 4)

    model = compile_model(Group(), (some(2, 8), some(2, 2))).model
    x = some(2, 8)
    x[1, 5] = float("nan")
    with pytest.raises(RuntimeError, match="to_quant must not contain NaNs"):
        model.run([x, some(2, 2)])
