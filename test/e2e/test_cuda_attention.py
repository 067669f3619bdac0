"""Attention on GPUs with more features than a block has room for: products with a softmax between them."""
import pytest
import torch
import torch.nn.functional as F

from conftest import EMULATED, run_tool


TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 2e-2}


class WideAttention(torch.nn.Module):
    """Heads of their own and shared ones, all that may be added to scores, computed operands, one query, results in both orders."""

    def forward(self, q, k, v, mask, keep):
        attend, shared = F.scaled_dot_product_attention, dict(enable_gqa=True)
        few = q[:, :2]
        return (attend(few, k, v), attend(q, k, v, is_causal=True, **shared), attend(q, k, v, attn_mask=mask, **shared), attend(few, k, v, attn_mask=keep),
                attend(q.sum(2, keepdim=True) / 8, k, v, **shared), attend(torch.relu(few), k * 2, v + 1, scale=-0.1).transpose(1, 2).flatten(2))


def example(queries, keys, depth, value_depth, dtype):
    """The third query sees nothing, the others not all."""
    torch.manual_seed(queries + depth)
    keep = torch.rand(2, 1, queries, keys) < 0.7
    keep[..., :1], keep[:, :, 2:3] = True, False
    mask = torch.randn(queries, keys).masked_fill(~keep[0, 0], -torch.inf)
    tensors = torch.randn(2, 4, queries, depth), torch.randn(2, 2, keys, depth), torch.randn(2, 2, keys, value_depth), mask
    return *[tensor.to(dtype) for tensor in tensors], keep


@pytest.mark.parametrize("dtype, depth, value_depth", [(torch.float32, 257, 257), (torch.bfloat16, 320, 512), (torch.float16, 512, 40), (torch.bfloat16, 24, 264),
                                                       (torch.float64, 256, 256)], ids=str)
def test_wide_heads(compile_model, dtype, depth, value_depth):
    inputs = example(19, 37, depth, value_depth, dtype)
    compiled = compile_model(WideAttention(), inputs, options=EMULATED)
    compiled.check(inputs, TOLERANCES[dtype], TOLERANCES[dtype])
    kernels = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=kernel", *EMULATED).stdout
    assert "kernel.attention" not in kernels and kernels.count("kernel.call @contract") == 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_wide_heads_of_unknown_length(compile_model, dtype):
    """Also of no query, and of no key, of which nothing is the mean."""
    queries, keys = (torch.export.Dim(name, min=0, max=4000) for name in ("queries", "keys"))
    shapes = {2: queries}, {2: keys}, {2: keys}, {0: queries, 1: keys}, {2: queries, 3: keys}
    compiled = compile_model(WideAttention(), example(19, 37, 320, 320, dtype), dynamic_shapes=shapes, options=EMULATED)
    for sizes in ((19, 37), (4, 130), (1, 1), (0, 9), (5, 0)):
        compiled.check(example(*sizes, 320, 320, dtype), TOLERANCES[dtype], TOLERANCES[dtype])


class Fitting(torch.nn.Module):
    def forward(self, q, k):
        return F.scaled_dot_product_attention(q, q, q, is_causal=True), F.scaled_dot_product_attention(k, k, k)


def test_rows_that_fit(compile_model):
    """Of as many features as stay in a block: blocks have as many queries as fit into the shared memory of every GPU."""
    torch.manual_seed(0)
    inputs = torch.randn(1, 2, 40, 256), torch.randn(1, 2, 40, 128).double()
    compiled = compile_model(Fitting(), inputs, options=EMULATED)
    compiled.check(inputs, 1e-4, 1e-4)
