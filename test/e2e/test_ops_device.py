"""Operators that PyTorch has on GPUs alone: of these the CPU knows only shapes, and what they compute is put together of others."""

import pytest
import torch
import torch.nn.functional as F

from test_ops_pointwise import some


class Widened(torch.nn.Module):
    """Products whose sums are not rounded."""

    def forward(self, x, y, c):
        return (
            torch.mm(x, y, out_dtype=torch.float32),
            torch.bmm(x[None], y[None], out_dtype=torch.float32),
            torch.addmm(c, x, y, out_dtype=torch.float32, beta=0.5, alpha=2),
            torch.addmm(c.to(x.dtype), x, y, out_dtype=torch.float32),
            torch.mm(x.float(), y.float(), out_dtype=torch.float32),
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_out_dtype(compile_model, dtype):
    def inputs(rows):
        return some(rows, 40).to(dtype), some(7, 40, seed=1).to(dtype).t(), some(rows, 7, seed=2)

    rows = torch.export.Dim("rows", min=2)
    compiled = compile_model(Widened(), inputs(5), ({0: rows}, None, {0: rows}))
    for count in (5, 2, 19):
        x, y, c = inputs(count)
        exact = x.double() @ y.double()
        expected = exact, exact[None], c * 0.5 + exact * 2, c.to(dtype) + exact, exact
        for actual, want in zip(compiled.model.run([x, y, c]), expected, strict=True):
            torch.testing.assert_close(actual, want.float(), rtol=1e-5, atol=1e-5)


class DeviceAttention(torch.nn.Module):
    """The forms that decompositions choose."""

    def forward(self, q, k, v, bias):
        aten = torch.ops.aten
        return (
            aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0],
            aten._scaled_dot_product_flash_attention(q, k, v, scale=0.5)[0],
            aten._scaled_dot_product_efficient_attention(q, k, v, bias, False)[0],
            aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, True)[0],
            aten._scaled_dot_product_cudnn_attention(q, k, v, bias, False)[0],
            aten._scaled_dot_product_fused_attention_overrideable(q, k, v, bias)[0],
            aten._scaled_dot_product_attention_math(q, k, v, bias)[0],
        )


@pytest.mark.parametrize("dtype,tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)], ids=str)
def test_attention_of_devices(compile_model, dtype, tolerance):
    def inputs(batch):
        shapes = [(batch, 3, 5, 16), (batch, 3, 7, 16), (batch, 3, 7, 16), (batch, 3, 5, 7)]
        return tuple(some(*shape, seed=i).to(dtype) for i, shape in enumerate(shapes))

    # PyTorch does not save these with lengths that only a run knows.
    compiled = compile_model(DeviceAttention(), inputs(2), 4 * ({0: torch.export.Dim("batch")},))
    for batch in (2, 1, 5):
        q, k, v, bias = inputs(batch)
        attend = lambda mask=None, q=q, k=k, v=v, **options: F.scaled_dot_product_attention(q, k, v, mask, **options)
        causal, biased = attend(is_causal=True), attend(bias)
        expected = causal, attend(scale=0.5), biased, causal, biased, biased, biased
        for actual, want in zip(compiled.model.run([q, k, v, bias]), expected, strict=True):
            torch.testing.assert_close(actual, want, rtol=tolerance, atol=tolerance)
