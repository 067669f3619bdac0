"""Attention on GPUs with more features than a block has room for, which is products with a softmax between them; and with keys divided among Hopper's blocks."""

import re

import pytest
import torch
import torch.nn.functional as F

from conftest import EMULATED, PTXAS, assert_assembles, run_tool

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 2e-2}


class WideAttention(torch.nn.Module):
    """Heads of their own and shared ones, all that may be added to scores, computed operands, one query, results in both orders."""

    def forward(self, q, k, v, mask, keep):
        attend, shared = F.scaled_dot_product_attention, dict(enable_gqa=True)
        few = q[:, :2]
        return (
            attend(few, k, v),
            attend(q, k, v, is_causal=True, **shared),
            attend(q, k, v, attn_mask=mask, **shared),
            attend(few, k, v, attn_mask=keep),
            attend(q.sum(2, keepdim=True) / 8, k, v, **shared),
            attend(torch.relu(few), k * 2, v + 1, scale=-0.1).transpose(1, 2).flatten(2),
        )


def example(queries, keys, depth, value_depth, dtype):
    """The third query sees nothing, the others not all."""
    torch.manual_seed(queries + depth)
    keep = torch.rand(2, 1, queries, keys) < 0.7
    keep[..., :1], keep[:, :, 2:3] = True, False
    mask = torch.randn(queries, keys).masked_fill(~keep[0, 0], -torch.inf)
    tensors = torch.randn(2, 4, queries, depth), torch.randn(2, 2, keys, depth), torch.randn(2, 2, keys, value_depth), mask
    return *[tensor.to(dtype) for tensor in tensors], keep


@pytest.mark.parametrize(
    "dtype, depth, value_depth",
    [(torch.float32, 257, 257), (torch.bfloat16, 320, 512), (torch.float16, 512, 40), (torch.bfloat16, 24, 264), (torch.float64, 256, 256)],
    ids=str,
)
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


class PartsOfWarpgroups(torch.nn.Module):
    """Some queries of few heads: of their own and shared ones, causal, with what is added to scores, and a scale that is negative."""

    def forward(self, q, k, v, mask, padding):
        attend, shared, few = F.scaled_dot_product_attention, dict(enable_gqa=True), q[:, :2]
        return (
            attend(few, k, v),
            attend(q, k, v, is_causal=True, **shared),
            attend(few, k, v, attn_mask=mask),
            attend(q, k, v, attn_mask=padding, **shared),
            attend(few, k, v, scale=-0.2).transpose(1, 2).flatten(2),
        )


@pytest.mark.parametrize(
    "dtype, depth, value_depth", [(torch.bfloat16, 64, 64), (torch.float16, 128, 72), (torch.bfloat16, 200, 256)], ids=str
)
def test_parts_of_warpgroups(compile_model, dtype, depth, value_depth, tmp_path, monkeypatch):
    """Keys that no part divides, fewer than a part has, parts that a mask hides, and parts behind all queries."""

    def example(keys):
        torch.manual_seed(keys)
        mask, padding = torch.randn(2, 1, 150, keys), torch.rand(2, 1, 1, keys) < 0.8
        mask[0, :, 3], mask[1, :, 70, :300], padding[1, ..., 128:384] = -torch.inf, -torch.inf, False
        tensors = torch.randn(2, 4, 150, depth), torch.randn(2, 2, keys, depth), torch.randn(2, 2, keys, value_depth), mask
        return *[tensor.to(dtype) for tensor in tensors], padding

    keys = torch.export.Dim("keys", min=2, max=4000)
    compiled = compile_model(
        PartsOfWarpgroups(), example(700), dynamic_shapes=(None, {2: keys}, {2: keys}, {3: keys}, {3: keys}), options=EMULATED
    )
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    for number in (700, 2, 128, 1025):
        compiled.check(example(number), 2e-2, 2e-2)
    launches = re.findall(r"launch (attention\w+)", log.read_text())
    assert len(set(launches)) == 5 and all(name.endswith("_sm_90a") for name in launches), launches
    fixed = compile_model(PartsOfWarpgroups(), example(512), options=EMULATED)
    fixed.check(example(512), 2e-2, 2e-2)


class FewKeys(torch.nn.Module):
    def forward(self, *heads):
        return [F.scaled_dot_product_attention(q, q, q) for q in heads]


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_few_keys_in_registers(tmp_path):
    """Of two blocks, a loop that would be unrolled."""
    archive = tmp_path / "keys.pt2"
    torch.export.save(torch.export.export(FewKeys(), tuple(torch.zeros(8, 16, length, 256).bfloat16() for length in (128, 160))), archive)
    assert len(list(assert_assembles(archive, tmp_path).glob("attention*.sm_90a.txt"))) == 2
