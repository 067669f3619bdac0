"""Attention on GPUs: of every size, masked, causal, of halves and for warpgroups; with more features than a block has room for, which is products with a softmax between them; with keys in parts."""

import re

import pytest
import torch
import torch.nn.functional as F

from conftest import EMULATED, PTXAS, GuardedModel, assert_assembles, run_tool

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


class HalfAttention(torch.nn.Module):
    def forward(self, q, k, v, mask):
        attend = F.scaled_dot_product_attention
        few = k[:, :1].expand(-1, 4, -1, -1).reshape(k.shape)
        return (
            attend(q, k, v),
            attend(q, k, v, is_causal=True),
            attend(q, k, v, attn_mask=mask),
            attend(q, few, torch.relu(v), scale=-0.3),
            attend(q.transpose(1, 2), q.transpose(1, 2), q.transpose(1, 2)),
        )


@pytest.mark.parametrize(
    "dtype, queries, keys, depth, value_depth",
    [(torch.bfloat16, 150, 150, 64, 64), (torch.float16, 70, 133, 40, 72), (torch.float16, 37, 9, 33, 128)],
    ids=str,
)
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
        return (
            attend(q, k, v, enable_gqa=True),
            attend(q, k, v, enable_gqa=True, is_causal=True),
            attend(a, b, c, is_causal=True),
            attend(a, b, c, scale=-0.1).transpose(1, 2).flatten(2),
            attend(wide, wide, wide[..., :40], is_causal=True),
            attend(wide[..., :40], wide[..., :40], wide),
        )


@pytest.mark.parametrize("dtype, depth, wide", [(torch.bfloat16, 64, 104), (torch.float16, 128, 72)], ids=str)
def test_attention_of_warpgroups(compile_model, dtype, depth, wide, tmp_path, monkeypatch):
    """On Hopper's tensor cores, keys and values out of boxes: numbers of queries and keys that no tile divides, fewer keys than a block has,
    more tiles than there are blocks; the same program on another GPU runs without."""

    def example(queries, keys=None):
        torch.manual_seed(queries)
        keys = keys or queries
        inputs = (
            torch.randn(1, 4, queries, depth),
            torch.randn(1, 2, keys, depth),
            torch.randn(1, 2, keys, depth),
            torch.randn(1, queries, 6 * depth),
            torch.randn(1, 1, keys, wide),
        )
        return tuple(tensor.to(dtype) for tensor in inputs)

    queries, keys = torch.export.Dim("queries", min=2, max=40000), torch.export.Dim("keys", min=70, max=40000)
    compiled = compile_model(
        WarpgroupAttention(),
        example(200, 270),
        dynamic_shapes=({2: queries}, {2: keys}, {2: keys}, {1: queries}, {2: keys}),
        options=EMULATED,
    )
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
        return (
            attend(q, k, v, attn_mask=mask, **shared),
            attend(q, k, v, attn_mask=keep, **shared),
            attend(q, k, v, attn_mask=padding, scale=-0.2, **shared),
            attend(q, k, v, attn_mask=(slopes[:, None, None] * distance).to(q.dtype), **shared),
            attend(q, k, v, attn_mask=transposed.transpose(-1, -2).expand(2, 4, -1, -1), **shared),
        )


@pytest.mark.parametrize(
    "dtype, depth, value_depth, is_dynamic",
    [(torch.bfloat16, 64, 64, True), (torch.float16, 128, 96, False), (torch.bfloat16, 200, 256, False)],
    ids=str,
)
def test_masks_of_warpgroups(compile_model, dtype, depth, value_depth, is_dynamic, tmp_path, monkeypatch):
    """Numbers of queries and keys that no tile divides, odd ones too; rows and whole blocks of which nothing is seen."""

    def example(queries, keys):
        torch.manual_seed(queries)
        keep, padding = torch.rand(2, 1, queries, keys) < 0.7, torch.rand(2, 1, 1, keys) < 0.8
        keep[0, :, 3], keep[0, :, 5, :130], padding[1, ..., -140:] = False, False, False
        mask = torch.randn(2, 4, queries, keys).masked_fill(~keep, -torch.inf)
        tensors = [
            tensor.to(dtype)
            for tensor in (torch.randn(2, 4, queries, depth), torch.randn(2, 2, keys, depth), torch.randn(2, 2, keys, value_depth), mask)
        ]
        return *tensors, keep, padding, torch.tensor([0.5, 0.25, 0.125, 0.0625]), torch.randn(1, keys, queries).to(dtype)

    sizes = ((150, 274), (65, 301), (129, 160)) if is_dynamic else ((150, 250),)
    queries, keys = (torch.export.Dim(name, min=2, max=40000) for name in ("queries", "keys"))
    shapes = (
        ({2: queries}, {2: keys}, {2: keys}, *2 * [{2: queries, 3: keys}], {3: keys}, None, {1: keys, 2: queries}) if is_dynamic else None
    )
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
        return (
            attend(few, k, v),
            attend(q, k, v, attn_mask=mask, **shared),
            attend(q, k, v, scale=-0.2, **shared),
            attend(q.expand(-1, -1, 3, -1), k, v, attn_mask=mask, **shared),
            attend(q, k[:, :1], v[:, :1], **shared),
            attend(few.expand(-1, -1, 70, -1), k, v, is_causal=True),
        )


@pytest.mark.parametrize("dtype, depth", [(torch.float32, 40), (torch.bfloat16, 64), (torch.float16, 24), (torch.float64, 16)], ids=str)
def test_attention_in_parts(compile_model, dtype, depth):
    """Keys divided among blocks, of which masks hide whole parts, and from one row everything."""

    def example(keys):
        torch.manual_seed(keys)
        mask = torch.randn(2, 1, 1, keys)
        mask[0, ..., 128:384] = -torch.inf
        mask[1, ..., 0 if keys == 300 else 5 :] = -torch.inf
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


class WrittenOut(torch.nn.Module):
    """A softmax between two products: a row that is left out as a whole gives NaN, and zero without keys."""

    def forward(self, q, k, v, keep):
        first, second = q[:, :, :1] @ k.mT / 4, q[:, :, 1:2] @ k.mT / 4
        many = (q @ k.mT / 4).masked_fill(~keep, -torch.inf)
        return [torch.softmax(scores, -1) @ v for scores in (first, second.masked_fill(~keep[:, :, :1], -torch.inf), many)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_written_out(compile_model, dtype):
    def example(keys):
        torch.manual_seed(keys)
        keep = torch.rand(2, 1, 37, keys) < 0.7
        keep[0, :, 0], keep[:, :, 7] = False, False
        return *[torch.randn(2, 2, size, 32).to(dtype) for size in (37, keys, keys)], keep

    keys = torch.export.Dim("keys", max=4000)
    compiled = compile_model(WrittenOut(), example(40), dynamic_shapes=(None, {2: keys}, {2: keys}, {3: keys}), options=EMULATED)
    kernels = run_tool("aot-compile", compiled.archive, "-o", "-", "--emit=kernel", *EMULATED).stdout
    assert len(re.findall(r"kernel.attention batch .* nan ", kernels)) == kernels.count(" part ") == 3
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    for number in (40, 0, 1, 600):
        compiled.check(example(number), tolerance, tolerance)
    fixed = compile_model(WrittenOut(), example(40), options=EMULATED)
    assert " part " not in run_tool("aot-compile", fixed.archive, "-o", "-", "--emit=kernel", *EMULATED).stdout
    fixed.check(example(40), tolerance, tolerance)


class Heads(torch.nn.Module):
    """Attention of many queries, with heads of each size that has registers of its own."""

    def forward(self, *heads):
        return [F.scaled_dot_product_attention(q, q, q, is_causal=causal) for q in heads for causal in (False, True)]


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_attention_in_registers(tmp_path):
    archive = tmp_path / "heads.pt2"
    heads = [
        torch.zeros(8, 16, 1024, depth, dtype=dtype) for depth, dtype in ((64, torch.float16), (104, torch.bfloat16), (128, torch.bfloat16))
    ]
    torch.export.save(torch.export.export(Heads(), tuple(heads)), archive)
    temps = assert_assembles(archive, tmp_path)
    for file in temps.glob("attention*.sm_90a.ptx"):
        text = file.read_text()
        assert text.count("wgmma.mma_async") >= 16 and text.count("cp.async.bulk.tensor") >= 5 and text.count("setmaxnreg") == 2
    assert len(list(temps.glob("attention*.sm_90a.ptx"))) == 6
    code = [file.read_text() for file in temps.glob("attention*.sm_80.ptx")]
    assert len(code) == 6 and all("mma.sync" in text and "ldmatrix" in text and "ex2.approx.ftz.f32" in text for text in code)


class Masked(torch.nn.Module):
    """Attention of many features, causal or not, with a mask, with a bias."""

    def forward(self, q, keep, bias):
        attend = F.scaled_dot_product_attention
        return attend(q, q, q), attend(q, q, q, is_causal=True), attend(q, q, q, attn_mask=keep), attend(q, q, q, attn_mask=bias)


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
@pytest.mark.parametrize("depth, dynamic", [(128, False), (192, True), (256, False), (256, True)])
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
    torch.export.save(
        torch.export.export(GroupedStep(), tuple(torch.zeros(1, heads, count, 128) for heads, count in ((32, 1), (8, 4096), (8, 4096)))),
        archive,
    )
    (code,) = [file.read_text() for file in assert_assembles(archive, tmp_path).glob("attention*.sm_80.ptx")]
    assert all(f"{access}.v4.b32" in code for access in ("ld.global", "st.shared", "ld.shared")) and "ld.global.b32" not in code
