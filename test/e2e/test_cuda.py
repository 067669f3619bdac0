"""Models for CUDA: code for GPUs that are not there, and whole models run in the emulator (docs/cuda.md)."""
import math
import os
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import kiln
from conftest import BUILD, EMULATED, PTXAS, ROOT, Compiled, GuardedModel, assert_assembles, assert_user_error, run_tool


class Parts(torch.nn.Module):
    """Each kind of kernel that there is code for."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(48)
        self.table = torch.nn.Embedding(20, 48)
        self.scale = torch.nn.Parameter(torch.rand(48) + 0.5)
        self.register_buffer("steps", torch.zeros(48))

    def forward(self, x, tokens):
        self.steps.add_(x.sum(0))
        y = self.norm(x) + F.gelu(x) * self.scale + self.table(tokens)
        return (y, torch.softmax(y, -1), y.t(), x.cumsum(0), x.sort(-1, descending=True).values, x.sum((0, 1)), x.argmax(-1), x.mean(0),
                torch.zeros_like(x).index_add(0, tokens % x.shape[0], x), self.steps + 0)


ROWS = torch.export.Dim("rows", min=1, max=5000)


def example(rows=7):
    torch.manual_seed(rows)
    return torch.randn(rows, 48), torch.randint(0, 20, (rows,))


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("parts")
    return Compiled(Parts().eval(), example(), folder, dynamic_shapes=({0: ROWS}, {0: ROWS}), options=EMULATED)


def test_runs_in_the_emulator(parts):
    for rows in (7, 1, 2, 33, 600):
        parts.check(example(rows), rtol=1e-5, atol=1e-4)


def test_strided_and_unaligned_inputs(parts):
    x, tokens = example(9)
    parts.check((x.t().contiguous().t(), tokens.repeat_interleave(2)[::2]), 1e-5, 1e-4)
    parts.check((torch.cat([x.flatten()[:1], x.flatten()])[1:].view(9, 48), tokens), 1e-5, 1e-4)


def test_index_out_of_range(parts):
    x, tokens = example()
    tokens[3] = 20
    with pytest.raises(kiln.KilnError, match="an index computed from the data is out of range") as caught:
        parts.model.run([x, tokens])
    assert caught.value.status == 1
    tokens[3] = 0
    parts.model.run([x, tokens])  # and the next one is none the worse


def test_set_constant(parts, tmp_path):
    value = torch.randn(20, 48)
    model = kiln.load(parts.path)
    x, tokens = example(4)
    before = model(x, tokens)[0]
    weight = dict(parts.module.named_parameters())["table.weight"]
    model.set_constant("table.weight", value)
    torch.testing.assert_close(model(x, tokens)[0], before + (value - weight)[tokens], rtol=1e-4, atol=1e-4)


def test_information(parts):
    assert parts.model.info["target"] == "cuda"
    assert {entry["device"] for entry in parts.model.inputs + parts.model.outputs} == {"cuda"}


class Long(torch.nn.Module):
    """Reductions that one block would take too long for."""

    def forward(self, x):
        return x.sum(), x.amax((0, 2)), x.mean((0, 2)), x.argmax(), torch.softmax(x.reshape(-1), 0)


def test_long_reductions(compile_model):
    compile_model(Long(), (torch.randn(64, 4, 640),), options=EMULATED).check((torch.randn(64, 4, 640),), 1e-4, 1e-4)


class Longer(torch.nn.Module):
    """Of a length that only the run shows: one dim, the first or others of several, positions of extremes."""

    def forward(self, x, y):
        return x.sum(), x.argmax(), torch.softmax(x, 0), x.logsumexp(0), y.amax((0, 2)), y.mean((0, 1)), y.var(), (y > 0).sum(), y.sum((0, 2))


def test_reductions_of_unknown_length(compile_model):
    def example(length, rows):
        torch.manual_seed(length)
        return torch.randn(length), torch.randn(rows, 3, 24)
    shapes = {0: torch.export.Dim("length", min=1, max=10**8)}, {0: torch.export.Dim("rows", min=1, max=10**7)}
    compiled = compile_model(Longer(), example(40000, 1000), dynamic_shapes=shapes, options=EMULATED)
    kernels = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=kernel", *EMULATED).stdout
    assert len(re.findall(r"kernel.cond when .* then @reduction_in_parts", kernels)) >= 7, kernels
    for sizes in ((40000, 1000), (16384, 2), (30011, 257), (1, 700)):
        compiled.check(example(*sizes), 1e-4, 1e-4)


class Orders(torch.nn.Module):
    """Scans and sorts with a block for each line, and those that take a thread."""

    def forward(self, x, few, flags):
        ties = (few * 2).round()
        return (x.cumsum(-1), x.cumsum(0), x.cumprod(1), flags.cumsum(-1), few.to(torch.complex64).cumsum(-1), x.cummax(-1)[0],
                x.t().cumsum(-1), few.flatten().cumsum(0), few.cumsum(1), torch.argsort(ties, stable=True, dim=-1), few.sort(-1, descending=True)[0],
                torch.where(few > 1, torch.nan, few).sort(-1)[0], ties.flatten().sort(stable=True)[1], few[:, :3].sort(-1)[1], torch.nonzero(flags),
                (torch.arange(4999) * 7919 % 997).sort(stable=True)[1], x[0].sort(stable=True)[1], (x * 9).round().sort(dim=0, stable=True)[1], torch.where(few > 2, torch.nan, ties).cummax(-1)[1],
                ties.cummin(-1)[1], x.logcumsumexp(-1), (few > 0).int().cummax(-1)[1])


def test_scans_and_sorts(compile_model):
    torch.manual_seed(0)

    def inputs(rows):
        return torch.rand(rows, 1500) * 0.1 + 0.95, torch.randn(2, 3, 77), torch.rand(rows, 130) > 0.5
    compiled = compile_model(Orders(), inputs(3), dynamic_shapes=({0: ROWS}, None, {0: ROWS}), options=EMULATED)
    for rows in (1, 3, 8):
        compiled.check(inputs(rows), 1e-5, 1e-4)


class LongScans(torch.nn.Module):
    """Few lines, which are divided: of known length, and of one that the run shows; side by side, or from data."""

    def forward(self, x, y, z):
        return (x.cumsum(-1), x.abs().log1p().cumsum(1), (x > 0).cumsum(-1), y.cumsum(0), (1 + y / 1000).cumprod(0), y.cummax(0)[0], z.cumsum(0), y.flip(0).cumsum(0), x.long().cumsum(-1),
                torch.nonzero(y > 0.5))


def test_long_scans(compile_model):
    def inputs(length):
        torch.manual_seed(length)
        return torch.randn(2, 20000), torch.randn(length), torch.randn(16400, 3)
    compiled = compile_model(LongScans(), inputs(33000), dynamic_shapes=(None, {0: torch.export.Dim("length", min=1, max=10**8)}, None), options=EMULATED)
    kernels = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=kernel", *EMULATED).stdout
    assert len(re.findall(r"kernel\.scan dim \d+ (?:associative )?part ", kernels)) >= 7, kernels
    for length in (33000, 1, 16384, 20481):
        compiled.check(inputs(length), 1e-4, 1e-3)


class Products(torch.nn.Module):
    """Products of every shape that has code of its own, with an epilogue, and operands in either order."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in ((40, 70), (70, 33), (33, 40)))
        self.transposed = torch.nn.Parameter(torch.randn(40, 24))
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2)

    def forward(self, x, images):
        y = x
        for layer in self.layers:
            y = F.gelu(layer(y))
        batch = torch.bmm(x.expand(3, *x.shape), self.transposed.expand(3, 40, 24))
        return y, x @ self.transposed, x @ x.t(), batch, self.conv(images)


@pytest.mark.parametrize("rows", [0, 1, 3, 19, 130])
def test_products(compile_model, rows):
    torch.manual_seed(rows)
    compiled = compile_model(Products(), (torch.randn(rows, 40), torch.randn(2, 3, 9, 11)), options=EMULATED)
    compiled.check((torch.randn(rows, 40), torch.randn(2, 3, 9, 11)), 1e-4, 1e-4)


class Narrow(torch.nn.Module):
    """Products of few elements with many steps, which blocks share: with an epilogue, in other orders, of integers, a convolution."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1024, 40)
        self.conv = torch.nn.Conv2d(96, 8, 3, padding=1)

    def forward(self, x, half, images):
        numbers = (x[:, :768] * 4).to(torch.int32)
        return (F.gelu(self.layer(x)), (half @ half[:33].t()).t().contiguous(), numbers @ numbers[:24].t(), self.conv(images),
                torch.bmm(x.view(2, -1, 1024), x.view(2, -1, 1024).transpose(1, 2)))


def test_products_in_parts(compile_model):
    def example(rows):
        torch.manual_seed(rows)
        return torch.randn(rows, 1024), torch.randn(rows, 512).half() / 4, torch.randn(1, 96, 5, 7)

    rows = 2 * torch.export.Dim("half", min=17, max=200)
    compiled = compile_model(Narrow(), example(70), dynamic_shapes=({0: rows}, {0: rows}, None), options=EMULATED)
    wrapper = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=kernel", *EMULATED).stdout
    assert [wrapper.count(f"kernel.reduce [{parts}]") for parts in (4, 3, 2)] == [3, 1, 1]
    for number in (70, 36):
        compiled.check(example(number), 1e-3, 1e-3)


class Sized(torch.nn.Module):
    """A product whose blocks are few or many, and a gradient, whose steps are as many as the run has rows."""

    def forward(self, x, y):
        return torch.relu(torch.bmm(x, y)), x[0, :, :32].t() @ x[1, :, :40]


def test_products_of_few_blocks(compile_model):
    def example(rows):
        torch.manual_seed(rows)
        return torch.randn(33, rows, 576).half() / 4, torch.randn(33, 576, 16).half() / 4

    compiled = compile_model(Sized(), example(70), dynamic_shapes=({1: ROWS}, None), options=EMULATED)
    kernels = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=kernel", *EMULATED).stdout
    assert kernels.count("kernel.cond when") == 1 and kernels.count(" part ") == 2
    for rows in (70, 3, 64, 600):
        compiled.check(example(rows)[:1] + example(70)[1:], 2e-2, 2e-2)


class Halves(torch.nn.Module):
    def forward(self, x, w, v):
        return (x @ w.t(), F.relu(x @ v), x[:70, :40] @ w[:, :40].t(), x[:2] @ w.t(), x.t() @ F.gelu(x[:, 16:80]), v.t() @ w.t(),
                x[:33, 3:52] @ v[5:54, 1:30])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_products_of_halves(compile_model, dtype, monkeypatch):
    """On tensor cores: with asynchronous copies, with operands that lie the other way, and with sizes that no block divides."""
    torch.manual_seed(0)
    inputs = [tensor.to(dtype) for tensor in (torch.randn(150, 96), torch.randn(70, 96), torch.randn(96, 64))]
    monkeypatch.setenv("KILN_EMULATOR_CAPABILITY", "80")
    compile_model(Halves(), tuple(inputs), options=EMULATED).check(tuple(inputs), 2e-2, 2e-2)


class Warpgroups(torch.nn.Module):
    """What tensor maps describe: operands in either order, batches of one or both, a view that begins inside, rows that are two dims; an
    epilogue that writes in another order, sums of no steps."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(136, 328)

    def forward(self, x, w, stack, few):
        heads = self.layer(x).view(2, -1, 4, 82).transpose(1, 2).contiguous()
        steps = x.shape[0] // 2
        return (heads, F.relu(x @ w), x.t() @ x[:, :64], w.t() @ x.t(), x[:, 8:72] @ w[16:80], torch.bmm(stack, stack.transpose(1, 2)), stack @ w,
                torch.bmm(stack.transpose(1, 2), stack), x.view(2, steps, 136) @ w, few[:, :0] @ w[:0], few @ w[:48])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_products_of_warpgroups(compile_model, dtype, tmp_path, monkeypatch):
    """On Hopper's tensor cores out of boxes that hardware copies; the same program on another GPU runs without. Sizes that no box divides,
    more tiles than there are blocks, and addresses that change in a graph."""
    def example(rows):
        torch.manual_seed(rows)
        return tuple(tensor.to(dtype) for tensor in (torch.randn(rows, 136), torch.randn(136, 200) / 8, torch.randn(3, rows, 136) / 4, torch.randn(20, 48)))

    rows = 8 * torch.export.Dim("eighth", min=1, max=100)
    compiled = compile_model(Warpgroups().to(dtype), example(200), dynamic_shapes=({0: rows}, None, {1: rows}, None), options=EMULATED)
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    for number in (200, 200, 200, 16):
        compiled.check(example(number), 3e-2, 3e-2)
    text = log.read_text()
    assert len(set(re.findall(r"launch (\w+)_sm_90a grid [23] ", text))) == 10, text
    assert re.search(r"graph of \d+\n", text) and text.count("update\n") > 2
    log.unlink()
    for name, value in (("KILN_EMULATOR_CAPABILITY", "80"), ("KILN_CUDA_VARIANTS", "0")):
        with monkeypatch.context() as other:
            other.setenv(name, value)
            compiled.model = GuardedModel(compiled.path)
            compiled.check(example(72), 3e-2, 3e-2)
    assert "contract" in log.read_text() and "sm_90a" not in log.read_text()


class Clusters(torch.nn.Module):
    """Products of so many tiles that pairs of blocks share copies, of the right operand or of the left one: in either order, with epilogues that
    read rows, columns and both, of batches, with a prologue and windows on the other side, and of tiles of both warpgroups and in turns."""

    def __init__(self):
        super().__init__()
        self.layer, self.conv = torch.nn.Linear(192, 520), torch.nn.Conv2d(64, 72, 3, padding=1)

    def forward(self, x, w, residual, stack, images):
        return (F.relu(self.layer(x)) + residual, w.t() @ x.t(), torch.bmm(stack, stack.transpose(1, 2)), stack.transpose(1, 2) @ stack,
                F.silu(x) @ w, self.conv(images), x @ w[:, :200], (x @ x.t()).float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_clusters(compile_model, dtype, tmp_path, monkeypatch):
    """Odd and even numbers of tiles either way, fewer than a cluster has, and more than are done at a time."""
    def example(rows):
        torch.manual_seed(rows)
        inputs = (torch.randn(rows, 192), torch.randn(192, 520) / 8, torch.randn(rows, 520), torch.randn(3, rows, 64) / 4,
                  torch.randn(rows // 64, 64, 8, 9).to(memory_format=torch.channels_last))
        return tuple(tensor.to(dtype) for tensor in inputs)

    number = torch.export.Dim("number", min=1, max=100)
    rows = 64 * number
    compiled = compile_model(Clusters().to(dtype), example(192), dynamic_shapes=({0: rows}, None, {0: rows}, {1: rows}, {0: number}), options=EMULATED)
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    for number in (3, 3, 3, 1, 9, 4):
        compiled.check(example(64 * number), 3e-2, 6e-2)
    text = log.read_text()
    assert len(set(re.findall(r"launch (\w+)_sm_90a grid 2 .* cluster 2\n", text))) >= 5, text
    assert re.search(r"graph of \d+\n", text) and text.count("update\n") > 2


class Rows(torch.nn.Module):
    """What warpgroups have multiplied, written by runs of a row: with what has columns, rows, both, in f32, to heads, of more tiles than there are
    blocks, in parts, and of columns that are no multiple of a run."""

    def __init__(self):
        super().__init__()
        self.bias, self.odd = torch.nn.Parameter(torch.randn(320)), torch.nn.Linear(136, 324)

    def forward(self, x, w, residual, scales, long):
        heads = F.linear(x, w.t(), self.bias).view(2, -1, 5, 64).transpose(1, 2).contiguous()
        return (F.relu(x @ w + self.bias) + residual, F.gelu(x @ w[:, :192] + self.bias[:192]), (x @ w[:, 64:]).float() * scales, heads + 1, self.odd(x),
                (x @ w[:, :256]).float() + residual[:, :256], long @ long[:40].t() + residual[:, :40])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rows_of_warpgroups(compile_model, dtype, tmp_path, monkeypatch):
    def example(rows):
        torch.manual_seed(rows)
        return (torch.randn(rows, 136).to(dtype), (torch.randn(136, 320) / 8).to(dtype), torch.randn(rows, 320).to(dtype), torch.randn(rows, 1),
                (torch.randn(rows, 1024) / 16).to(dtype))

    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    rows = 2 * torch.export.Dim("half", min=20, max=400)
    shapes = ({0: rows}, None, {0: rows}, {0: rows}, {0: rows})
    compiled = compile_model(Rows().to(dtype), example(200), dynamic_shapes=shapes, options=EMULATED)
    for number in (200, 40, 330):
        compiled.check(example(number), 3e-2, 6e-2)
    assert len(set(re.findall(r"launch (\w+)_sm_90a grid ", log.read_text()))) == 7


def test_product_of_unknown_size(compile_model):
    compiled = compile_model(Products(), (torch.randn(7, 40), torch.randn(2, 3, 9, 11)), dynamic_shapes=({0: ROWS}, None), options=EMULATED)
    for rows in (2, 7, 65, 200):
        compiled.check((torch.randn(rows, 40), torch.randn(2, 3, 9, 11)), 1e-4, 1e-4)


def round_to_tf32(x):
    """To 10 bits of mantissa, ties away from zero, as the conversion that comes before a tensor core does."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


class Rounded(torch.nn.Module):
    """Operands that lie along the steps, or not; copied as they are, or not."""

    def forward(self, x, w, v):
        return x @ w.t(), x @ v, x.t() @ x[:, :24], (x[:70, 1:40] @ w[:, 1:40].t()) + 1


def test_tf32(compile_model):
    torch.manual_seed(0)
    inputs = torch.randn(150, 96), torch.randn(70, 96), torch.randn(96, 64)
    compiled = compile_model(Rounded(), inputs, options=[*EMULATED, "--tf32"])
    exact, rounded = Rounded()(*inputs), Rounded()(*map(round_to_tf32, inputs))
    for actual, want, wide in zip(compiled.model.run(list(inputs)), rounded, exact):
        torch.testing.assert_close(actual, want, rtol=1e-5, atol=1e-5)
        assert not torch.equal(actual, wide)


class HalfAttention(torch.nn.Module):
    def forward(self, q, k, v, mask):
        attend = F.scaled_dot_product_attention
        few = k[:, :1].expand(-1, 4, -1, -1).reshape(k.shape)
        return (attend(q, k, v), attend(q, k, v, is_causal=True), attend(q, k, v, attn_mask=mask),
                attend(q, few, torch.relu(v), scale=-0.3), attend(q.transpose(1, 2), q.transpose(1, 2), q.transpose(1, 2)))


@pytest.mark.parametrize("dtype, queries, keys, depth, value_depth",
                         [(torch.bfloat16, 150, 150, 64, 64), (torch.float16, 70, 133, 40, 72), (torch.float16, 37, 9, 33, 128)], ids=str)
def test_attention_of_halves(compile_model, dtype, queries, keys, depth, value_depth):
    """On tensor cores: numbers of queries, keys and features that no tile divides, rows without a key, and keys that are computed."""
    torch.manual_seed(queries)
    q, k, v = (torch.randn(2, 4, *size).to(dtype) for size in ((queries, depth), (keys, depth), (keys, value_depth)))
    mask = torch.where(torch.rand(queries, keys) < 0.3, -torch.inf, torch.randn(queries, keys))
    mask[3] = -torch.inf
    mask[4:] = mask[4:].nan_to_num(neginf=-3.0)
    inputs = q, k, v, mask.to(dtype)
    compile_model(HalfAttention(), inputs, options=EMULATED).check(inputs, 2e-2, 2e-2)


class CausalAttention(torch.nn.Module):
    """Grouped queries, of as many tokens as there are."""

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), F.scaled_dot_product_attention(q[:, :2], k, v)


def test_attention_of_unknown_size(compile_model):
    def example(tokens):
        torch.manual_seed(tokens)
        return tuple(torch.randn(40, heads, tokens, 32).bfloat16()[:1] for heads in (4, 2, 2))

    tokens = torch.export.Dim("tokens", min=2, max=4000)
    compiled = compile_model(CausalAttention(), example(100), dynamic_shapes=({2: tokens},) * 3, options=EMULATED)
    for number in (2, 64, 100, 129, 257):
        compiled.check(example(number), 2e-2, 2e-2)


class WarpgroupAttention(torch.nn.Module):
    """What tensor maps describe: heads of their own and shared, operands that are parts of one tensor, in other orders; a scale that is
    negative; more features of values than of keys, and the other way round; results in both orders."""

    def forward(self, q, k, v, packed, wide):
        attend = F.scaled_dot_product_attention
        a, b, c = packed.view(*packed.shape[:2], 3, 2, -1).permute(2, 0, 3, 1, 4)
        return (attend(q, k, v, enable_gqa=True), attend(q, k, v, enable_gqa=True, is_causal=True), attend(a, b, c, is_causal=True),
                attend(a, b, c, scale=-0.1).transpose(1, 2).flatten(2), attend(wide, wide, wide[..., :40], is_causal=True),
                attend(wide[..., :40], wide[..., :40], wide))


@pytest.mark.parametrize("dtype, depth, wide", [(torch.bfloat16, 64, 104), (torch.float16, 128, 72)], ids=str)
def test_attention_of_warpgroups(compile_model, dtype, depth, wide, tmp_path, monkeypatch):
    """On Hopper's tensor cores, keys and values out of boxes: numbers of queries and keys that no tile divides, fewer keys than a block has,
    more tiles than there are blocks; the same program on another GPU runs without."""
    def example(queries, keys=None):
        torch.manual_seed(queries)
        keys = keys or queries
        inputs = (torch.randn(1, 4, queries, depth), torch.randn(1, 2, keys, depth), torch.randn(1, 2, keys, depth), torch.randn(1, queries, 6 * depth),
                  torch.randn(1, 1, keys, wide))
        return tuple(tensor.to(dtype) for tensor in inputs)

    queries, keys = torch.export.Dim("queries", min=2, max=40000), torch.export.Dim("keys", min=70, max=40000)
    compiled = compile_model(WarpgroupAttention(), example(200, 270), dynamic_shapes=({2: queries}, {2: keys}, {2: keys}, {1: queries}, {2: keys}),
                             options=EMULATED)
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    for sizes in ((200, 270), (2, 128), (385, 70), (256, 257)):
        compiled.check(example(*sizes), 2e-2, 2e-2)
    assert len(set(re.findall(r"launch (attention\w+)_sm_90a grid \d ", log.read_text()))) == 6, log.read_text()
    log.unlink()
    monkeypatch.setenv("KILN_EMULATOR_CAPABILITY", "80")
    compiled.model = GuardedModel(compiled.path)
    compiled.check(example(72, 80), 2e-2, 2e-2)
    assert "attention" in log.read_text() and "sm_90a" not in log.read_text()


class MaskedWarpgroupAttention(torch.nn.Module):
    """What is added to scores: of each query, of padding alone, of heads, computed; of every kind of stride."""

    def forward(self, q, k, v, mask, keep, padding, slopes, transposed):
        attend, shared = F.scaled_dot_product_attention, dict(enable_gqa=True)
        distance = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None]
        return (attend(q, k, v, attn_mask=mask, **shared), attend(q, k, v, attn_mask=keep, **shared), attend(q, k, v, attn_mask=padding, scale=-0.2, **shared),
                attend(q, k, v, attn_mask=(slopes[:, None, None] * distance).to(q.dtype), **shared),
                attend(q, k, v, attn_mask=transposed.transpose(-1, -2).expand(2, 4, -1, -1), **shared))


@pytest.mark.parametrize("dtype, depth, value_depth, is_dynamic", [(torch.bfloat16, 64, 64, True), (torch.float16, 128, 96, False), (torch.bfloat16, 200, 256, False)], ids=str)
def test_masks_of_warpgroups(compile_model, dtype, depth, value_depth, is_dynamic, tmp_path, monkeypatch):
    """Numbers of queries and keys that no tile divides, odd ones too; rows and whole blocks of which nothing is seen."""
    def example(queries, keys):
        torch.manual_seed(queries)
        keep, padding = torch.rand(2, 1, queries, keys) < 0.7, torch.rand(2, 1, 1, keys) < 0.8
        keep[0, :, 3], keep[0, :, 5, :130], padding[1, ..., -140:] = False, False, False
        mask = torch.randn(2, 4, queries, keys).masked_fill(~keep, -torch.inf)
        tensors = [tensor.to(dtype) for tensor in (torch.randn(2, 4, queries, depth), torch.randn(2, 2, keys, depth), torch.randn(2, 2, keys, value_depth), mask)]
        return *tensors, keep, padding, torch.tensor([0.5, 0.25, 0.125, 0.0625]), torch.randn(1, keys, queries).to(dtype)

    sizes = ((150, 274), (65, 301), (129, 160)) if is_dynamic else ((150, 250),)
    queries, keys = (torch.export.Dim(name, min=2, max=40000) for name in ("queries", "keys"))
    shapes = ({2: queries}, {2: keys}, {2: keys}, *2 * [{2: queries, 3: keys}], {3: keys}, None, {1: keys, 2: queries}) if is_dynamic else None
    compiled = compile_model(MaskedWarpgroupAttention(), example(*sizes[0]), dynamic_shapes=shapes, options=EMULATED)
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    for size in sizes:
        compiled.check(example(*size), 2e-2, 2e-2)
    assert len(set(re.findall(r"launch (attention\w+)_sm_90a grid \d ", log.read_text()))) == 5, log.read_text()
    monkeypatch.setenv("KILN_EMULATOR_CAPABILITY", "80")
    compiled.model = GuardedModel(compiled.path)
    compiled.check(example(*sizes[0]), 2e-2, 2e-2)


class Step(torch.nn.Module):
    """A decoder's step over what it has kept: heads of their own and shared ones, with a mask, several tokens at once, the first key alone."""

    def forward(self, q, k, v, mask):
        attend = F.scaled_dot_product_attention
        shared, few = dict(enable_gqa=True), q[:, :2]
        return (attend(few, k, v), attend(q, k, v, attn_mask=mask, **shared), attend(q, k, v, scale=-0.2, **shared),
                attend(q.expand(-1, -1, 3, -1), k, v, attn_mask=mask, **shared), attend(q, k[:, :1], v[:, :1], **shared),
                attend(few.expand(-1, -1, 70, -1), k, v, is_causal=True))


@pytest.mark.parametrize("dtype, depth", [(torch.float32, 40), (torch.bfloat16, 64), (torch.float16, 24), (torch.float64, 16)], ids=str)
def test_attention_in_parts(compile_model, dtype, depth):
    """Keys divided among blocks, of which masks hide whole parts, and from one row everything."""
    def example(keys):
        torch.manual_seed(keys)
        mask = torch.randn(2, 1, 1, keys)
        mask[0, ..., 128:384] = -torch.inf
        mask[1, ..., 0 if keys == 300 else 5:] = -torch.inf
        tensors = torch.randn(2, 6, 1, depth), torch.randn(2, 2, keys, depth), torch.randn(2, 2, keys, depth + 8), mask
        return tuple(tensor.to(dtype) for tensor in tensors)

    tolerance = 1e-5 if dtype.itemsize > 2 else 2e-2
    keys = torch.export.Dim("keys", min=2, max=4000)
    compiled = compile_model(Step(), example(700), dynamic_shapes=(None, {2: keys}, {2: keys}, {3: keys}), options=EMULATED)
    kernels = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=kernel", *EMULATED).stdout
    assert kernels.count("kernel.attention batch") == kernels.count(" part ") == 6
    for number in (700, 2, 128, 300, 512, 1025):
        compiled.check(example(number), tolerance, tolerance)
    fixed = compile_model(Step(), example(640), options=EMULATED)
    fixed.check(example(640), tolerance, tolerance)


class Attention(torch.nn.Module):
    def forward(self, q, k, v, mask, one):
        attend = F.scaled_dot_product_attention
        return attend(q, k, v), attend(q, k, v, is_causal=True), attend(q, k, v, attn_mask=mask), attend(one, k, v)


@pytest.mark.parametrize("queries, keys, depth, value_depth", [(37, 37, 24, 24), (70, 33, 40, 72)])
def test_attention(compile_model, queries, keys, depth, value_depth):
    torch.manual_seed(queries)
    q, k, v = torch.randn(2, 3, queries, depth), torch.randn(2, 3, keys, depth), torch.randn(2, 3, keys, value_depth)
    mask = torch.where(torch.rand(queries, keys) < 0.3, -torch.inf, torch.randn(queries, keys))
    mask[3] = -torch.inf
    mask[4:] = mask[4:].nan_to_num(neginf=-3.0)
    compiled = compile_model(Attention(), (q, k, v, mask, q[:, :, :1]), options=EMULATED)
    compiled.check((q * 2, k, v, mask, q[:, :, 1:2]), 1e-4, 1e-4)


class Functions(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x), torch.tanh(x)


def test_functions_of_the_hardware(compile_model):
    """To 2 ulp, up to the last number whose exponential is finite, and beyond."""
    last = torch.tensor([math.log(torch.finfo(torch.float32).max)])
    limits = torch.cat([last + i * 2**-17 for i in range(-40, 41)])
    x = torch.cat([torch.linspace(-87, 88, 20001), torch.linspace(-12, 12, 20001), limits, torch.tensor([0.0, -0.0, 1e-30, 1e30, math.inf, -math.inf, math.nan])])
    actual = compile_model(Functions(), (x,), options=EMULATED).model.run([x])
    for got, want in zip(actual, Functions()(x.double())):
        rounded = want.float()
        ulp = torch.nextafter(rounded.abs(), torch.tensor(math.inf)).double() - rounded.abs()
        finite = rounded.isfinite()
        assert torch.equal(got.isfinite(), finite) and torch.equal(got.isnan(), want.isnan())
        assert ((got.double() - want).abs() / ulp)[finite & (rounded.abs() < 3.4e38)].max() < 2


class ManyDims(torch.nn.Module):
    def forward(self, x):
        return x.permute(7, 6, 5, 4, 3, 2, 1, 0)


def test_strides_of_many_dimensions(compile_model):
    """More than the kernel that copies has."""
    x = torch.randn(2, 3, 2, 2, 3, 2, 2, 3)
    compile_model(ManyDims(), (x,), options=EMULATED).check((x + 1,), 0, 0)


class Sizes(torch.nn.Module):
    """A size that data gives, an assertion, an input that is written to."""

    def forward(self, x, state):
        picked = x[x > 0.5]
        state.add_(picked.sum())
        torch._assert_async((x <= 2).all(), "nothing may be above 2")
        return picked * 2, state.mean(), torch.nonzero(x)


def test_sizes_that_data_gives(compile_model):
    torch.manual_seed(1)
    compiled = compile_model(Sizes(), (torch.rand(40), torch.rand(3, 5)), options=EMULATED)
    for _ in range(2):
        compiled.check((torch.rand(40), torch.rand(3, 5)), 1e-5, 1e-5)
    compiled.check((torch.rand(40), torch.rand(5, 3).t()), 1e-5, 1e-5)
    with pytest.raises(kiln.KilnError, match="nothing may be above 2"):
        compiled.model.run([torch.full((40,), 3.0), torch.zeros(3, 5)])


PROBE = """
import sys, numpy, kiln
try:
    model = kiln.load(sys.argv[1])
    model(numpy.ones((3, 48), "float32"), numpy.zeros(3, "int64"))
    print("fine")
except kiln.KilnError as error:
    print(error.status, error)
"""


def probe(path, **environment):
    """What loading and running the model on another machine ends with."""
    return subprocess.run([sys.executable, "-c", PROBE, str(path)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment}).stdout.strip()


def test_overlapping_launches(parts, tmp_path, monkeypatch):
    """A kernel may begin before the one in front of it has ended, alone and in a graph: none reads or writes before it has waited."""
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    monkeypatch.setenv("KILN_CUDA_OVERLAP", "1")
    model = GuardedModel(parts.path, 0)
    expected = parts.module(*example(7))
    for _ in range(3):
        for actual, wanted in zip(model(*example(7)), expected[:5]):
            torch.testing.assert_close(torch.as_tensor(actual), wanted, rtol=1e-5, atol=1e-4)
    text = log.read_text()
    assert re.search(r"graph of \d+\n", text) and text.count(" overlaps\n") > 30, text


def test_first_of_long_rows(compile_model):
    """A block goes through a row once for its first elements, whose order is that of a stable sort."""
    x = torch.stack([torch.randn(9000), torch.randn(9000).round(), torch.arange(9000.0), -torch.arange(9000.0), torch.zeros(9000),
                     torch.full((9000,), float("nan"))])
    x[0, ::7] = float("nan")

    class First(torch.nn.Module):
        def forward(self, x):
            return x.topk(8)[1], x.topk(50, largest=False)[1], x.kthvalue(3)[1]

    columns = torch.export.Dim("columns", min=50, max=100000)
    compiled = compile_model(First(), (x,), dynamic_shapes=({1: columns},), options=EMULATED)
    for part in (x, x[:, :50].contiguous(), x[:, :5000].contiguous()):
        up, down = part.sort(dim=1, stable=True).indices, part.sort(dim=1, stable=True, descending=True).indices
        for actual, wanted in zip(compiled.model(part), (down[:, :8], up[:, :50], up[:, 2])):
            torch.testing.assert_close(torch.as_tensor(actual), wanted)


def test_machines(parts, tmp_path):
    log = tmp_path / "log"
    assert probe(parts.path, KILN_EMULATOR_LOG=str(log)) == "fine"
    assert "load emulator" in log.read_text()
    assert probe(parts.path, KILN_CUDA_DRIVER="/none/libcuda.so.1").startswith("5 no NVIDIA driver: this model runs on a GPU and cannot load /none/")
    old = BUILD / "test" / "Targets" / "CUDA" / "emulator" / "libcuda-old.so.1"
    assert re.match(r"5 the NVIDIA driver is too old: it is one of CUDA 11\.2 and has no \w+; a driver of CUDA 12.0 or newer is needed",
                    probe(parts.path, KILN_CUDA_DRIVER=str(old)))
    assert probe(parts.path, KILN_EMULATOR_DEVICES="0").startswith("5 cannot start the NVIDIA driver: no CUDA-capable device is detected")
    assert probe(parts.path, KILN_EMULATOR_MEMORY="100").startswith("4 cannot put ")
    assert re.match(r"4 no memory on the GPU for \d+ bytes of intermediate results: out of memory", probe(parts.path, KILN_EMULATOR_MEMORY="6000"))


class Large(torch.nn.Module):
    """Products and attention of sizes for which the largest blocks are chosen."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(768, 2048)
        self.bias = torch.nn.Parameter(torch.zeros(2048, dtype=torch.bfloat16))

    def forward(self, a, b, x, q, one):
        return (F.relu(a @ b.t() + self.bias), F.gelu(b @ a.t()), F.gelu(self.layer(x)), self.layer(one), a * 2,
                F.scaled_dot_product_attention(q, q, q, is_causal=True))


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_large_products(tmp_path):
    halves = torch.zeros(2048, 1024, dtype=torch.bfloat16)
    archive = tmp_path / "large.pt2"
    torch.export.save(torch.export.export(Large(), (halves, halves.clone(), torch.zeros(2048, 768), torch.zeros(1, 2, 64, 128), torch.zeros(1, 768))), archive)
    temps = assert_assembles(archive, tmp_path)
    code = {file.name: file.read_text() for file in temps.glob("*.sm_80.ptx")}
    products = [text for text in code.values() if "mma.sync" in text]
    assert len(products) == 2
    for product in products:
        assert product.count("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") == 64 and "cp.async.cg.shared.global" in product
        assert product.count("ldmatrix.sync.aligned.m8n8.x4.shared.b16") == 16
    for file in temps.glob("*.sm_90a.ptx"):
        product = file.read_text()
        assert product.count("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16") == 8 and product.count("cp.async.bulk.tensor.2d") >= 2
    assert any("ld.global.v4.b32" in text and "st.global.v4.b32" in text for name, text in code.items() if name.startswith("map"))
    assert '"target-cpu"="x86-64-v3"' in (temps / "model.ll").read_text()  # not this machine's, which has no GPU


class Tiles(torch.nn.Module):
    """Products for which tiles of several sizes are chosen, some out of boxes of rows of a step, and with residuals and other orders."""

    def __init__(self):
        super().__init__()
        self.narrow, self.heads = torch.nn.Linear(4096, 1024), torch.nn.Linear(1024, 3072)

    def forward(self, x, residual, tokens, stack, few):
        heads = self.heads(tokens).view(*tokens.shape[:2], 16, 192).transpose(1, 2).contiguous()
        return self.narrow(x) + residual, heads, torch.bmm(stack, stack), few @ few[:, :1000].t()


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_warpgroups_in_registers(tmp_path):
    archive = tmp_path / "tiles.pt2"
    inputs = [torch.zeros(*size, dtype=torch.bfloat16) for size in ((2048, 4096), (2048, 1024), (4, 64, 1024), (64, 512, 512), (1000, 1000))]
    shapes = (None, None, {1: torch.export.Dim("tokens", min=1, max=4096)}, {0: torch.export.Dim("batch", min=1, max=4096)}, None)
    torch.export.save(torch.export.export(Tiles().bfloat16(), tuple(inputs), dynamic_shapes=shapes), archive)
    code = [file.read_text() for file in assert_assembles(archive, tmp_path).glob("*.sm_90a.ptx")]
    sizes = sorted(int(re.search(r"m64n(\d+)k16", text)[1]) for text in code)
    assert len(sizes) == 5 and sizes[0] <= 128 and sizes[-1] == 256, sizes  # one is of parts
    assert all(text.count("setmaxnreg") == 2 and ".minnctapersm 1" in text for text in code)


class RoundedSums(torch.nn.Module):
    """Products without a bias, rounded and computed with: few steps, of which none is in a loop, and more."""

    def forward(self, x, w, long):
        return F.relu(x @ w), F.gelu(x @ w[:, :192]), F.silu(x.t() @ long), (x @ x.t()).float(), F.relu(long.t() @ long), x @ w[:, :128]


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rounded_sums(tmp_path, dtype):
    """ptxas rounds sums to f16 before they have been waited for, unless they are copied first."""
    archive = tmp_path / "rounded.pt2"
    inputs = torch.zeros(512, 192, dtype=dtype), torch.zeros(192, 512, dtype=dtype), torch.zeros(512, 1024, dtype=dtype)
    torch.export.save(torch.export.export(RoundedSums(), inputs), archive)
    code = [file.read_text() for file in assert_assembles(archive, tmp_path).glob("*.sm_90a.ptx")]
    copies = ["0f3F800000, 0f80000000;" in text for text in code]
    assert len(code) == 6 and copies == ["cvt.rn.f16.f32 " in text for text in code]
    assert sum(copies) == (4 if dtype == torch.float16 else 0), copies  # one is of parts


class Windows(torch.nn.Module):
    """Convolutions whose channels are copied in chunks, some after they have been given others; patches; a decoder's attention; a norm."""

    def __init__(self):
        super().__init__()
        self.convs = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3, padding=1, stride=2), torch.nn.ReLU(),
                                         torch.nn.Conv2d(64, 24, 3, padding=2, dilation=2), torch.nn.ConstantPad2d(1, 0.0), torch.nn.Conv2d(24, 40, 1))
        self.patches, self.wide = torch.nn.Conv2d(3, 16, 8, stride=8), torch.nn.Conv2d(12, 16, 3, padding=1)

    def forward(self, images, pictures, features, q, k):
        return self.convs(images), self.patches(pictures), self.wide(features), F.scaled_dot_product_attention(q[:, :, :1], k, k, enable_gqa=True), F.layer_norm(q, (q.shape[-1],))


def windows(dtype):
    torch.manual_seed(0)
    keys = {2: torch.export.Dim("keys", min=2, max=100000)}
    sizes = (2, 3, 19, 21), (2, 3, 16, 24), (1, 12, 9, 10), (1, 8, 40, 64), (1, 2, 500, 64)
    inputs = tuple(torch.randn(*size).to(dtype) for size in sizes)
    inputs[0][0, 0, 3, 4], inputs[2][0, 1, 5, 5] = torch.inf, torch.nan  # which reach what they reach, and nothing else
    shapes = None, {2: 8 * torch.export.Dim("rows", min=1, max=9)}, {3: torch.export.Dim("columns", min=2, max=50)}, None, keys
    return Windows().eval().to(dtype), inputs, shapes


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_windows(compile_model, dtype):
    module, inputs, shapes = windows(dtype)
    compile_model(module, inputs, dynamic_shapes=shapes, options=EMULATED).check(inputs, *(2 * [2e-2 if dtype.itemsize == 2 else 1e-4]))


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_windows_in_registers(tmp_path):
    module, inputs, shapes = windows(torch.bfloat16)
    archive = tmp_path / "windows.pt2"
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=shapes), archive)
    code = {file.name: file.read_text() for file in assert_assembles(archive, tmp_path).glob("*.sm_80.ptx")}
    assert sum(name.startswith("contract") and "cp.async" in text for name, text in code.items()) == 6
    stem = torch.nn.Conv2d(3, 64, 7, stride=2, padding=3).bfloat16()
    torch.export.save(torch.export.export(stem, (torch.zeros(32, 3, 112, 112, dtype=torch.bfloat16),)), archive)
    assert_assembles(archive, tmp_path / "stem")
    assert any(name.startswith("map") and "shfl.sync" in text and "ld.global.v4.b32" in text and "st.global.v4.b32" in text for name, text in code.items())


class Heads(torch.nn.Module):
    """Attention of many queries, with heads of each size that has registers of its own."""

    def forward(self, *heads):
        return [F.scaled_dot_product_attention(q, q, q, is_causal=causal) for q in heads for causal in (False, True)]


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_attention_in_registers(tmp_path):
    archive = tmp_path / "heads.pt2"
    heads = [torch.zeros(8, 16, 1024, depth, dtype=dtype) for depth, dtype in ((64, torch.float16), (104, torch.bfloat16), (128, torch.bfloat16))]
    torch.export.save(torch.export.export(Heads(), tuple(heads)), archive)
    temps = assert_assembles(archive, tmp_path)
    for file in temps.glob("attention*.sm_90a.ptx"):
        text = file.read_text()
        assert text.count("wgmma.mma_async") >= 16 and text.count("cp.async.bulk.tensor") >= 5 and text.count("setmaxnreg") == 2
    assert len(list(temps.glob("attention*.sm_90a.ptx"))) == 6
    code = [file.read_text() for file in temps.glob("attention*.sm_80.ptx")]
    assert len(code) == 6 and all("mma.sync" in text and "ldmatrix" in text and "ex2.approx.ftz.f32" in text for text in code)


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
@pytest.mark.parametrize("dims", [(0,), (0, 2, 3)], ids=["batch", "all"])
def test_windows_of_unknown_size_in_registers(tmp_path, dims):
    archive = tmp_path / "convs.pt2"
    module = torch.nn.Sequential(torch.nn.Conv2d(128, 512, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(512, 512, 3, padding=1)).bfloat16()
    shapes = ({dim: torch.export.Dim(f"size{dim}", min=16, max=512) for dim in dims},)
    torch.export.save(torch.export.export(module, (torch.zeros(64, 128, 56, 64).bfloat16(),), dynamic_shapes=shapes), archive)
    code = [file.read_text() for file in assert_assembles(archive, tmp_path).glob("contract*.sm_90a.ptx")]
    assert code and all("wgmma.mma_async" in text and "setmaxnreg" in text for text in code)


class Masked(torch.nn.Module):
    """Attention of many features, causal or not, with a mask, with a bias."""

    def forward(self, q, keep, bias):
        attend = F.scaled_dot_product_attention
        return attend(q, q, q), attend(q, q, q, is_causal=True), attend(q, q, q, attn_mask=keep), attend(q, q, q, attn_mask=bias)


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
@pytest.mark.parametrize("depth", [128, 192, 256])
@pytest.mark.parametrize("dynamic", [False, True])
def test_attention_of_many_features_in_registers(tmp_path, depth, dynamic):
    archive, n = tmp_path / "heads.pt2", 1024
    inputs = torch.zeros(8, 16, n, depth, dtype=torch.bfloat16), torch.ones(n, n, dtype=torch.bool), torch.zeros(n, n, dtype=torch.bfloat16)
    length = torch.export.Dim("length", min=64, max=4096)
    shapes = ({2: length}, {0: length, 1: length}, {0: length, 1: length}) if dynamic else None
    torch.export.save(torch.export.export(Masked(), inputs, dynamic_shapes=shapes), archive)
    assert len(list(assert_assembles(archive, tmp_path).glob("attention*.sm_90a.ptx"))) == 4


class GroupedStep(torch.nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_keys_of_f32_in_registers(tmp_path):
    """A decoder's step reads its keys and values 16 bytes at a time, and writes them so to shared memory."""
    archive = tmp_path / "step.pt2"
    torch.export.save(torch.export.export(GroupedStep(), tuple(torch.zeros(1, heads, count, 128) for heads, count in ((32, 1), (8, 4096), (8, 4096)))), archive)
    (code,) = [file.read_text() for file in assert_assembles(archive, tmp_path).glob("attention*.sm_80.ptx")]
    assert all(f"{access}.v4.b32" in code for access in ("ld.global", "st.shared", "ld.shared")) and "ld.global.b32" not in code


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_cubins(parts, tmp_path):
    reports = [file.name for file in assert_assembles(parts.archive, tmp_path).glob("*.txt")]
    path = tmp_path / "gpu.so"
    assert any(name.endswith("sm_80.txt") for name in reports) and any(name.endswith("sm_90.txt") for name in reports)
    again = tmp_path / "again.so"
    assert run_tool("aot-compile", parts.archive, "-o", again, "--target=cuda", "--gpu-arch=sm_80,sm_90").returncode == 0
    assert again.read_bytes() == path.read_bytes()
    # The emulator is a GPU without a cubin and a driver that reads no PTX.
    log = tmp_path / "log"
    message = probe(path, KILN_EMULATOR_LOG=str(log), KILN_EMULATOR_VERSION="12020")
    assert re.match(r"5 emulated GPU 0 has compute capability 9.0; the model has code for sm_80, code for sm_90, PTX for sm_90; "
                    r"the driver, one of CUDA 12.2, does not load it: .*; a newer driver may", message), message
    loads = lambda: [line for line in log.read_text().split("\n") if line.startswith("load")]
    assert loads() == ["load cubin", "load PTX"]
    assert "compile it with --gpu-arch=sm_75" in probe(path, KILN_EMULATOR_CAPABILITY="75")
    probe(path, KILN_EMULATOR_LOG=str(log), KILN_EMULATOR_CAPABILITY="120")
    assert loads()[2:3] == ["load PTX"]


def test_options_without_spills(parts, tmp_path):
    """A program in ptxas's place spills, by itself or whatever it is told, or does not know the options."""
    def reports(name, option, other=""):
        ptxas = tmp_path / name
        ptxas.write_text('#!/bin/sh\ncase "$*" in ' + option + ') ' + other + """ bytes=0;; *) bytes=10;; esac
            while [ "$1" != -o ]; do shift; done; echo "$bytes bytes stack frame, $bytes bytes spill stores" >&2; echo code > "$2"\n""")
        ptxas.chmod(0o755)
        process = run_tool("aot-compile", parts.archive, "-o", tmp_path / "model.so", "--target=cuda", "--gpu-arch=sm_80", f"--ptxas={ptxas}",
                           f"--save-temps={tmp_path / f'{name}-temps'}")
        assert process.returncode == 0, process.stderr
        return {report.read_text() for report in (tmp_path / f"{name}-temps").glob("*.txt")}

    assert reports("level", "*--register-usage-level*") == reports("blocks", "*--register-usage-level*--minnctapersm*") == {"0 bytes stack frame, 0 bytes spill stores\n"}
    assert reports("spills", "*--register*", "echo 8 bytes spill stores >&2;") == reports("old", "*--register*", "echo Unknown option >&2; exit 1;") == {"10 bytes stack frame, 10 bytes spill stores\n"}


def test_ptx_without_ptxas(parts, tmp_path):
    process = run_tool("aot-compile", parts.archive, "-o", "-", "--emit=ptx", "--target=cuda", "--gpu-arch=sm_80,sm_90")
    assert process.returncode == 0
    assert ".target sm_90" in process.stdout and ".target sm_80" not in process.stdout
    assert "shfl.sync.bfly" in process.stdout and "ld.global" in process.stdout


def test_refusals(parts, tmp_path):
    out = tmp_path / "parts.so"
    compile_ = lambda *options: run_tool("aot-compile", parts.archive, "-o", out, *options)
    assert_user_error(compile_("--target=cuda", "--gpu-arch=sm_70"), "--gpu-arch=sm_70: expected a list of sm_80")
    assert_user_error(compile_("--target=cuda", "--ptxas=/none"), "--ptxas=/none: not a program")
    assert_user_error(compile_("--gpu-arch=sm_80"), "--gpu-arch is for --target=cuda")
    assert_user_error(compile_("--target=cuda", "--gpu-tune=sm_70"), "planned for 'sm_70': expected one of sm_80, sm_86")
    assert not out.exists()


class Join(torch.nn.Module):
    def forward(self, parts):
        return torch.cat(parts) * 2


def test_many_operands(compile_model, tmp_path):
    """More parameters than PTX 8.0 lets a kernel have."""
    parts = [torch.randn(2) for _ in range(560)]
    compiled = compile_model(Join(), (parts,), options=EMULATED)
    compiled.check((parts,), 0, 0)
    if PTXAS:
        assert_assembles(compiled.archive, tmp_path)
