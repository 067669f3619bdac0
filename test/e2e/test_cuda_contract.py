"""Products and convolutions on GPUs: with and without tensor cores, for warpgroups and clusters, of halves, in parts."""

import re

import pytest
import torch
import torch.nn.functional as F

from conftest import EMULATED, PTXAS, Compiled, GuardedModel, assert_assembles, run_on_blackwell, run_tool

ROWS = torch.export.Dim("rows", min=1, max=5000)


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


class SmallWeights(torch.nn.Module):
    """Weights of eight bits with a scale for each column, of four bits with scales and zero points for groups, and unsigned ones."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bytes", torch.randint(-128, 128, (40, 256), dtype=torch.int8))
        self.register_buffer("fours", torch.randint(-8, 8, (72, 512), dtype=torch.int8))
        self.register_buffer("small", torch.randint(0, 16, (24, 256), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(72, 16, 1).bfloat16() / 64)
        self.register_buffer("zeros", torch.randint(-8, 8, (72, 16, 1), dtype=torch.int8))

    def forward(self, x):
        groups = self.fours.view(72, 16, 32).bfloat16() - self.zeros.bfloat16()
        return (
            F.linear(x[:, :256], self.bytes.bfloat16()) * self.scales[:40, 0, 0],
            F.linear(x, (groups * self.scales).view(72, 512)),
            F.linear(x[:, 256:].float(), (self.small.float() - 8) * 0.25),
        )


@pytest.mark.parametrize("rows", [1, 4, 5, 130])
def test_small_weights(compile_model, rows, tmp_path):
    """Products read weights in their own bits, which are once in the library; tensor cores are fed pairs."""
    torch.manual_seed(rows)
    module, x = SmallWeights(), torch.randn(rows, 512).bfloat16()
    compiled = compile_model(module, (x,), options=EMULATED)
    compiled.check((x,), 2e-2, 6e-2)
    text = run_tool("aot-compile", compiled.archive, *EMULATED, "--emit=wrapper", "-o", "-").stdout
    stored = re.findall(r"wrapper.constant .*at \d+ .* tensor<([\dx]+i\w+)>", text)
    assert sorted(stored) == ["24x32xi32", "40x256xi8", "72x16x1xi8", "72x64xi32"], stored
    if rows <= 4:
        assert len(re.findall("schedule = #cuda.dot<.*vector = 16", text)) == 3
    else:
        assert text.count("schedule = #cuda.mma<") == 2 and text.count("schedule = #cuda.fma<") == 1
        ptx = run_tool("aot-compile", compiled.archive, "--target=cuda", "--emit=ptx", "-o", "-").stdout
        assert ptx.count("mul.bf16x2") >= 4 and len(re.findall(r"cp.async.ca.shared.global .*, 4;", ptx)) >= 3
    module.fours = torch.randint(-8, 8, (72, 512), dtype=torch.int8)
    compiled.model.set_constant("fours", module.fours)
    compiled.check((x,), 2e-2, 6e-2)
    if PTXAS:
        assert_assembles(compiled.archive, tmp_path)


class SmallHalves(torch.nn.Module):
    """Weights for f16 whose steps do not fill a part, bytes whose scales groups of 40 share, and the same weights for many rows and for one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("small", torch.randint(0, 16, (33, 200), dtype=torch.uint8))
        self.register_buffer("bytes", torch.randint(-128, 128, (33, 200), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(33, 5, 1).half() / 64)

    def forward(self, x):
        weights = (self.small.half() - 8) * self.scales[:, 0]
        return F.linear(x, weights), F.linear(x[:1], weights), F.linear(x, (self.bytes.view(33, 5, 40).half() * self.scales).view(33, 200))


def test_small_halves(compile_model):
    def example(rows):
        torch.manual_seed(rows)
        return (torch.randn(rows, 200).half(),)

    compiled = compile_model(SmallHalves(), example(70), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=5000)},), options=EMULATED)
    for rows in (1, 70, 130):
        compiled.check(example(rows), 1e-2, 2e-2)
    text = run_tool("aot-compile", compiled.archive, *EMULATED, "--emit=wrapper", "-o", "-").stdout
    stored = re.findall(r"wrapper.constant .*at \d+ .* tensor<([\dx]+i\w+)>", text)
    assert sorted(stored) == ["33x200xi8", "33x25xi32"], stored


class Symmetric(SmallWeights):
    """Zero points that are zero, which those of a symmetric scheme are."""

    def __init__(self):
        super().__init__()
        self.zeros.zero_()

    def forward(self, x):
        groups = self.fours.view(72, 16, 32).bfloat16() - self.zeros.bfloat16()
        return F.linear(x, (groups * self.scales).view(72, 512))


def test_zero_points_that_are_zero(compile_model):
    """They cost nothing in a run, and others do not replace them; what a lane reads at once is scaled once."""
    torch.manual_seed(2)
    module, x = Symmetric(), torch.randn(1, 512).bfloat16()
    compiled = compile_model(module, (x,), options=EMULATED)
    compiled.check((x,), 2e-2, 6e-2)
    text = run_tool("aot-compile", compiled.archive, "--target=cuda", "--emit=ptx", "-o", "-").stdout
    assert text.count("fma.rn.f32") == 17 and not re.search(r"\bmul\.(rn\.)?f32", text) and "cvt.rn.f32.s" not in text
    with pytest.raises(RuntimeError, match="weights with zero points other than 0"):
        compiled.model.set_constant("zeros", torch.ones(72, 16, 1, dtype=torch.int8))


class Narrow(torch.nn.Module):
    """Products of few elements with many steps, which blocks share: with an epilogue, in other orders, of integers, a convolution."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1024, 40)
        self.conv = torch.nn.Conv2d(96, 8, 3, padding=1)

    def forward(self, x, half, images):
        numbers = (x[:, :768] * 4).to(torch.int32)
        return (
            F.gelu(self.layer(x)),
            (half @ half[:33].t()).t().contiguous(),
            numbers @ numbers[:24].t(),
            self.conv(images),
            torch.bmm(x.view(2, -1, 1024), x.view(2, -1, 1024).transpose(1, 2)),
        )


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
        return (
            x @ w.t(),
            F.relu(x @ v),
            x[:70, :40] @ w[:, :40].t(),
            x[:2] @ w.t(),
            x.t() @ F.gelu(x[:, 16:80]),
            v.t() @ w.t(),
            x[:33, 3:52] @ v[5:54, 1:30],
        )


class LargeBlocks(torch.nn.Module):
    """Products of f32 whose blocks are the largest, and not full at the edges: operands copied by elements and by chunks, and one that is computed."""

    def forward(self, x, y, turned):
        return F.gelu(x @ y.t()), x @ turned, torch.relu(x) @ (x[:1290] - 1).t()


def test_large_blocks(compile_model):
    torch.manual_seed(0)
    example = torch.randn(1291, 43), torch.randn(1285, 43), torch.randn(43, 1412)
    compiled = compile_model(LargeBlocks(), example, options=EMULATED)
    compiled.check(example, 1e-4, 1e-4)


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
        return (
            heads,
            F.relu(x @ w),
            x.t() @ x[:, :64],
            w.t() @ x.t(),
            x[:, 8:72] @ w[16:80],
            torch.bmm(stack, stack.transpose(1, 2)),
            stack @ w,
            torch.bmm(stack.transpose(1, 2), stack),
            x.view(2, steps, 136) @ w,
            few[:, :0] @ w[:0],
            few @ w[:48],
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_products_of_warpgroups(compile_model, dtype, tmp_path, monkeypatch):
    """On Hopper's tensor cores out of boxes that hardware copies; the same program on another GPU runs without. Sizes that no box divides,
    more tiles than there are blocks, and addresses that change in a graph."""

    def example(rows):
        torch.manual_seed(rows)
        return tuple(
            tensor.to(dtype)
            for tensor in (torch.randn(rows, 136), torch.randn(136, 200) / 8, torch.randn(3, rows, 136) / 4, torch.randn(20, 48))
        )

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
    for name, value in (("KILN_EMULATOR_CAPABILITY", "80"), ("KILN_EMULATOR_CAPABILITY", "120"), ("KILN_CUDA_VARIANTS", "0")):
        with monkeypatch.context() as other:
            other.setenv(name, value)
            compiled.model = GuardedModel(compiled.path)
            compiled.check(example(72), 3e-2, 3e-2)
    assert "contract" in log.read_text() and not re.search("sm_90a|sm_100a", log.read_text())
    assert len(run_on_blackwell(compiled, log, monkeypatch, map(example, (200, 200, 200, 16)), 3e-2)) == 10


class Clusters(torch.nn.Module):
    """Products of so many tiles that pairs of blocks share copies, of the right operand or of the left one: in either order, with epilogues that
    read rows, columns and both, of batches, with a prologue and windows on the other side, and of tiles of both warpgroups and in turns."""

    def __init__(self):
        super().__init__()
        self.layer, self.conv = torch.nn.Linear(192, 520), torch.nn.Conv2d(64, 72, 3, padding=1)

    def forward(self, x, w, residual, stack, images):
        return (
            F.relu(self.layer(x)) + residual,
            w.t() @ x.t(),
            torch.bmm(stack, stack.transpose(1, 2)),
            stack.transpose(1, 2) @ stack,
            F.silu(x) @ w,
            self.conv(images),
            x @ w[:, :200],
            (x @ x.t()).float(),
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_clusters(compile_model, dtype, tmp_path, monkeypatch):
    """Odd and even numbers of tiles either way, fewer than a cluster has, and more than are done at a time."""

    def example(rows):
        torch.manual_seed(rows)
        inputs = (
            torch.randn(rows, 192),
            torch.randn(192, 520) / 8,
            torch.randn(rows, 520),
            torch.randn(3, rows, 64) / 4,
            torch.randn(rows // 64, 64, 8, 9).to(memory_format=torch.channels_last),
        )
        return tuple(tensor.to(dtype) for tensor in inputs)

    number = torch.export.Dim("number", min=1, max=100)
    rows = 64 * number
    compiled = compile_model(
        Clusters().to(dtype), example(192), dynamic_shapes=({0: rows}, None, {0: rows}, {1: rows}, {0: number}), options=EMULATED
    )
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    for number in (3, 3, 3, 1, 9, 4):
        compiled.check(example(64 * number), 3e-2, 6e-2)
    text = log.read_text()
    assert len(set(re.findall(r"launch (\w+)_sm_90a grid 2 .* cluster 2(?: overlaps)?\n", text))) >= 5, text
    assert re.search(r"graph of \d+\n", text) and text.count("update\n") > 2
    assert len(run_on_blackwell(compiled, log, monkeypatch, (example(64 * number) for number in (3, 1, 9)), 3e-2)) == 8


class Rows(torch.nn.Module):
    """What warpgroups have multiplied, written by runs of a row: with what has columns, rows, both, in f32, to heads, of more tiles than there are
    blocks, in parts, and of columns that are no multiple of a run."""

    def __init__(self):
        super().__init__()
        self.bias, self.odd = torch.nn.Parameter(torch.randn(320)), torch.nn.Linear(136, 324)

    def forward(self, x, w, residual, scales, long):
        heads = F.linear(x, w.t(), self.bias).view(2, -1, 5, 64).transpose(1, 2).contiguous()
        return (
            F.relu(x @ w + self.bias) + residual,
            F.gelu(x @ w[:, :192] + self.bias[:192]),
            (x @ w[:, 64:]).float() * scales,
            heads + 1,
            self.odd(x),
            (x @ w[:, :256]).float() + residual[:, :256],
            long @ long[:40].t() + residual[:, :40],
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rows_of_warpgroups(compile_model, dtype, tmp_path, monkeypatch):
    def example(rows):
        torch.manual_seed(rows)
        return (
            torch.randn(rows, 136).to(dtype),
            (torch.randn(136, 320) / 8).to(dtype),
            torch.randn(rows, 320).to(dtype),
            torch.randn(rows, 1),
            (torch.randn(rows, 1024) / 16).to(dtype),
        )

    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    rows = 2 * torch.export.Dim("half", min=20, max=400)
    shapes = ({0: rows}, None, {0: rows}, {0: rows}, {0: rows})
    compiled = compile_model(Rows().to(dtype), example(200), dynamic_shapes=shapes, options=EMULATED)
    for number in (200, 40, 330):
        compiled.check(example(number), 3e-2, 6e-2)
    assert len(set(re.findall(r"launch (\w+)_sm_90a grid ", log.read_text()))) == 7
    assert len(run_on_blackwell(compiled, log, monkeypatch, map(example, (200, 40, 330)), 3e-2)) == 7


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


def test_three_products_of_tf32(compile_model):
    """The largest error, over the sum of what the products of a row and a column come to without their signs, is about f32's own: rounding a
    hundred sums. Numbers next to the largest stay finite, and infinity and NaN stay what they are."""
    torch.manual_seed(0)
    x, w, v = torch.randn(150, 96), torch.randn(70, 96), torch.randn(96, 64)
    compiled = compile_model(Rounded(), (x, w, v), options=[*EMULATED, "--tf32=3"])

    def errors(results):
        exact = Rounded()(x.double(), w.double(), v.double())
        sizes = Rounded()(x.double().abs(), w.double().abs(), v.double().abs())
        return [((result - want).abs() / size).max().item() for result, want, size in zip(results, exact, sizes)]

    split = errors([torch.as_tensor(result) for result in compiled.model.run([x, w, v])])
    rounded = errors(Rounded()(*map(round_to_tf32, (x, w, v))))
    assert max(split) < 2**-20 and min(rounded) > 2**-14, (split, rounded)
    largest = torch.finfo(torch.float32).max
    x[0], x[1, 3], x[2, 5], x[4] = 0, torch.inf, torch.nan, 1
    w[0, 0], w[0, 1:] = largest, 0
    w[1, 7] = -torch.inf
    actual, want = torch.as_tensor(compiled.model.run([x, w, v])[0]), x @ w.t()
    assert want.isinf().sum() > 100 and want.isnan().sum() > 60
    assert torch.equal(actual.isnan(), want.isnan())
    assert torch.equal(actual[want.isinf()], want[want.isinf()])
    torch.testing.assert_close(actual[4, 0].item(), largest, rtol=2**-20, atol=0)


class Large(torch.nn.Module):
    """Products and attention of sizes for which the largest blocks are chosen."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(768, 2048)
        self.bias = torch.nn.Parameter(torch.zeros(2048, dtype=torch.bfloat16))

    def forward(self, a, b, x, q, one):
        return (
            F.relu(a @ b.t() + self.bias),
            F.gelu(b @ a.t()),
            F.gelu(self.layer(x)),
            self.layer(one),
            a * 2,
            F.scaled_dot_product_attention(q, q, q, is_causal=True),
        )


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
def test_large_products(tmp_path):
    halves = torch.zeros(2048, 1024, dtype=torch.bfloat16)
    archive = tmp_path / "large.pt2"
    torch.export.save(
        torch.export.export(Large(), (halves, halves.clone(), torch.zeros(2048, 768), torch.zeros(1, 2, 64, 128), torch.zeros(1, 768))),
        archive,
    )
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
    inputs = [
        torch.zeros(*size, dtype=torch.bfloat16) for size in ((2048, 4096), (2048, 1024), (4, 64, 1024), (64, 512, 512), (1000, 1000))
    ]
    shapes = (None, None, {1: torch.export.Dim("tokens", min=1, max=4096)}, {0: torch.export.Dim("batch", min=1, max=4096)}, None)
    torch.export.save(torch.export.export(Tiles().bfloat16(), tuple(inputs), dynamic_shapes=shapes), archive)
    code = [file.read_text() for file in assert_assembles(archive, tmp_path, architectures="sm_90").glob("*.sm_90a.ptx")]
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
    code = [file.read_text() for file in assert_assembles(archive, tmp_path, architectures="sm_90").glob("*.sm_90a.ptx")]
    copies = ["0f3F800000, 0f80000000;" in text for text in code]
    assert len(code) == 6 and copies == ["cvt.rn.f16.f32 " in text for text in code]
    assert sum(copies) == (4 if dtype == torch.float16 else 0), copies  # one is of parts


class Windows(torch.nn.Module):
    """Convolutions whose channels are copied in chunks, some after they have been given others; patches; a decoder's attention; a norm."""

    def __init__(self):
        super().__init__()
        self.convs = torch.nn.Sequential(
            torch.nn.Conv2d(3, 32, 3),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 64, 3, padding=1, stride=2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(64, 24, 3, padding=2, dilation=2),
            torch.nn.ConstantPad2d(1, 0.0),
            torch.nn.Conv2d(24, 40, 1),
        )
        self.patches, self.wide = torch.nn.Conv2d(3, 16, 8, stride=8), torch.nn.Conv2d(12, 16, 3, padding=1)

    def forward(self, images, pictures, features, q, k):
        return (
            self.convs(images),
            self.patches(pictures),
            self.wide(features),
            F.scaled_dot_product_attention(q[:, :, :1], k, k, enable_gqa=True),
            F.layer_norm(q, (q.shape[-1],)),
        )


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
    assert any(
        name.startswith(("map", "group")) and "shfl.sync" in text and "ld.global.v4.b32" in text and "st.global.v4.b32" in text
        for name, text in code.items()
    )


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
@pytest.mark.parametrize("dims", [(0,), (0, 2, 3)], ids=["batch", "all"])
def test_windows_of_unknown_size_in_registers(tmp_path, dims):
    archive = tmp_path / "convs.pt2"
    module = torch.nn.Sequential(
        torch.nn.Conv2d(128, 512, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(512, 512, 3, padding=1)
    ).bfloat16()
    shapes = ({dim: torch.export.Dim(f"size{dim}", min=16, max=512) for dim in dims},)
    torch.export.save(torch.export.export(module, (torch.zeros(64, 128, 56, 64).bfloat16(),), dynamic_shapes=shapes), archive)
    code = [file.read_text() for file in assert_assembles(archive, tmp_path, architectures="sm_90").glob("contract*.sm_90a.ptx")]
    assert code and all("wgmma.mma_async" in text and "setmaxnreg" in text for text in code)


class FewRows(torch.nn.Module):
    """Fewer rows than tensor cores read, of numbers that are known: places have room for these alone."""

    def forward(self, x, w, residual, stack, other):
        return F.relu(x @ w.t()) + residual, (x[:9] @ w.t()).float(), torch.bmm(stack, other), x @ w[:160].t()


def test_few_rows(tmp_path, monkeypatch):
    torch.manual_seed(1)
    shapes = (16, 264), (1032, 264), (16, 1032), (3, 40, 136), (3, 136, 200)
    inputs = tuple(torch.randn(*shape).bfloat16() / 4 for shape in shapes)
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    compiled = Compiled(FewRows().eval(), inputs, tmp_path / "model", options=EMULATED)
    compiled.check(inputs, 3e-2, 3e-2)
    assert len(set(re.findall(r"launch (\w+)_sm_90a grid", log.read_text()))) == 4, log.read_text()
