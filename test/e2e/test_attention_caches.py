"""Attention to keys and values in blocks that a table finds, as serving engines keep them, and in bytes: on CPUs and GPUs."""

import re

import pytest
import torch
import torch.nn.functional as F

import kiln
from conftest import EMULATED, run_tool

BLOCK = 16
DIM = torch.export.Dim


class Paged(torch.nn.Module):
    """A step of a decoder: the new rows are written to the caches, [blocks, BLOCK, heads, features], then all of a sequence is read."""

    def forward(self, query, keys, values, new, table, length):
        batch, _, _, features = query.shape
        at = length - 1
        block = table.gather(1, (at // BLOCK)[:, None])[:, 0]
        keys.index_put_((block, at % BLOCK), new)
        values.index_put_((block, at % BLOCK), new * 2)
        count = table.shape[1] * BLOCK
        gathered = [cache[table].view(batch, count, -1, features).transpose(1, 2) for cache in (keys, values)]
        mask = torch.arange(count) < length[:, None, None, None]
        return F.scaled_dot_product_attention(query, *gathered, attn_mask=mask, enable_gqa=True)


def example(dtype, batch=2, count=3, queries=1, features=64):
    torch.manual_seed(count)
    blocks = 2 * batch * count + 1
    caches = [torch.randn(blocks, BLOCK, 2, features, dtype=dtype) for _ in range(2)]
    table = torch.randperm(blocks)[: batch * count].view(batch, count)
    table[0, 0] -= blocks  # counted from the end
    length = torch.tensor([count * BLOCK - 2, 5, 1])[:batch].clamp(max=count * BLOCK)
    return torch.randn(batch, 4, queries, features, dtype=dtype), *caches, torch.randn(batch, 2, features, dtype=dtype), table, length


TARGETS = pytest.mark.parametrize("options", [(), EMULATED], ids=["cpu", "cuda"])


@TARGETS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("queries", [1, 5])
def test_steps(compile_model, options, dtype, queries):
    blocks, batch = {0: DIM("blocks", min=1, max=1000)}, {0: DIM("batch", min=1, max=64)}
    shapes = (batch, blocks, blocks, batch, {0: batch[0], 1: DIM("count", min=1, max=64)}, batch)
    compiled = compile_model(Paged(), example(dtype, queries=queries), dynamic_shapes=shapes, options=options)
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    for size in ({}, {"batch": 1, "count": 1}, {"batch": 3, "count": 9}):
        compiled.check(example(dtype, queries=queries, **size), tolerance, tolerance)
    text = run_tool("aot-compile", compiled.archive, *options, "--emit=kernel", "-o", "-").stdout
    (attention,) = re.findall(r"kernel.func @attention_\d+\(.*?\) ->", text)
    assert len(re.findall(r"x16x2x64x", attention)) == 2, attention  # the caches themselves


@TARGETS
def test_static(compile_model, options):
    inputs = example(torch.bfloat16, count=10, features=40)
    compiled = compile_model(Paged(), inputs, options=options)
    compiled.check(inputs, 2e-2, 2e-2)


@TARGETS
def test_many_queries(compile_model, options):
    """Rows that many queries read are copied once."""
    inputs = example(torch.float32, queries=40)
    compiled = compile_model(Paged(), inputs, options=options)
    compiled.check(inputs, 1e-5, 1e-5)
    text = run_tool("aot-compile", compiled.archive, *options, "--emit=kernel", "-o", "-").stdout
    (attention,) = re.findall(r"kernel.func @attention_\d+\(.*?\) ->", text)
    assert "13x16x2x64" not in attention, attention


@TARGETS
@pytest.mark.parametrize("number", [13, -14])
def test_blocks_that_are_not_there(compile_model, options, number):
    inputs = example(torch.bfloat16)
    compiled = compile_model(Paged(), inputs, options=options)
    inputs[4][1, 2] = number  # of the thirteen; behind the sequence's end, but eager looks there, too
    with pytest.raises(kiln.KilnError, match="out of range"):
        compiled.model.run(inputs)
        compiled.model.run(inputs)  # GPUs find out while they run


class Bytes(torch.nn.Module):
    """Keys and values in bytes, with scales and zero points of tokens, or scales alone."""

    def forward(self, query, keys, values, scales, zeros, mask):
        keys = (keys.to(query.dtype) - zeros.to(query.dtype)) * scales
        values = values.to(query.dtype) * scales[0, 0, 0]
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=True)


def example_of_bytes(dtype, queries, features, count):
    torch.manual_seed(count)

    def integers(*shape):
        return torch.randint(-128, 128, shape, dtype=torch.int8)

    scales = (torch.rand(2, 2, count, 1) / 128).to(dtype)
    mask = torch.rand(2, 1, queries, count) < 0.9
    mask[..., 0] = True
    caches = integers(2, 2, count, features), integers(2, 2, count, features)
    return torch.randn(2, 4, queries, features).to(dtype), *caches, scales, integers(2, 2, count, 1), mask


@TARGETS
@pytest.mark.parametrize(
    "dtype, queries, features", [(torch.bfloat16, 1, 64), (torch.float16, 2, 40), (torch.float32, 1, 24), (torch.bfloat16, 3, 64)], ids=str
)
def test_bytes(compile_model, options, dtype, queries, features):
    count = {2: DIM("count", min=1, max=1000)}
    shapes = (None, count, count, count, count, {3: count[2]})
    compiled = compile_model(Bytes(), example_of_bytes(dtype, queries, features, 70), dynamic_shapes=shapes, options=options)
    tolerance = 2e-2 if dtype != torch.float32 else 1e-5
    for number in (70, 1, 300):
        compiled.check(example_of_bytes(dtype, queries, features, number), tolerance, tolerance)
    text = run_tool("aot-compile", compiled.archive, *options, "--emit=kernel", "-o", "-").stdout
    (attention,) = re.findall(r"kernel.func @attention_\d+\(.*?\) ->", text)
    assert (f"x{features}xi8" in attention) == (queries <= 2), attention
