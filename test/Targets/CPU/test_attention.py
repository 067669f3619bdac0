"""kernel.attention against PyTorch."""

import numpy as np
import pytest

from test_contract import check, random, read, tensor

torch = pytest.importorskip("torch")

DIMS = "(d0, d1, d2, d3, d4, d5)"  # batch, head, m, n, d, dv


def attention(
    b,
    h,
    m,
    n,
    d,
    dv,
    causal=False,
    bias=None,
    heads_last=False,
    kv_heads=None,
    staged=False,
    schedule=None,
    element="f32",
    scale=None,
    symbols=(),
):
    """`bias` is the index of a read of %bias, whose shape is given too."""
    kv_heads = kv_heads or h
    head = "d1" if kv_heads == h else f"d1 floordiv {h // kv_heads}"
    order = (lambda *x: (x[0], x[2], x[1], x[3])) if heads_last else (lambda *x: x)
    join = ", ".join
    shapes = {"q": order(b, h, m, d), "k": order(b, kv_heads, n, d), "v": order(b, kv_heads, n, dv)}
    index = {"q": order("d0", "d1", "d2", "d4"), "k": order("d0", head, "d3", "d4"), "v": order("d0", head, "d3", "d5")}
    regions = ""
    for name in "qkv":
        value = f"%x = {read(name, join(index[name]), shapes[name], 6, element)}"
        if staged and name != "q":
            value += f"\n    %y = arith.mulf %x, %x : {element}"
        regions += f"{name} {{\n    {value}\n    kernel.yield {'%y' if '%y' in value else '%x'} : {element}\n  }} "
    arguments = join(f"%{name}: {tensor(shape, element)}" for name, shape in shapes.items())
    body = ""
    if bias:
        arguments += f", %bias: {tensor(bias[1], element)}"
        body = f"%x = {read('bias', bias[0], bias[1], 6, element)}\n    kernel.yield %x : {element}"
    result = tensor(order(b, h, m, dv), element)
    perm = "perm [0, 2, 1, 3]" if heads_last else ""
    attributes = f" attributes {{schedule = #cpu.{schedule}}}" if schedule else ""
    table = join(f"{s} = {{min = 1, max = 4096}}" for s in symbols)
    expr = lambda e: f"#sym.expr<{e}>"
    return f"""module attributes {{sym.symbols = {{{table}}}}} {{
kernel.func @attention({arguments}) -> {result}{attributes} {{
  %r = kernel.attention batch [{b}, {h}] m {expr(m)} n {expr(n)} d {expr(d)} dv {expr(dv)}
      scale {scale or d**-0.5:.17e} {"causal" if causal else ""} {perm} {regions} bias {{
    {body}
  }} : {result}
  kernel.return %r : {result}
}} }}
"""


def compare(
    run,
    b,
    h,
    m,
    n,
    d,
    dv=None,
    causal=False,
    bias=None,
    heads_last=False,
    kv_heads=None,
    staged=False,
    schedule=None,
    dtype=np.float32,
    tolerance=1e-5,
    symbolic=False,
    offset=0.0,
):
    rng = np.random.default_rng(0)
    dv, kv_heads = dv or d, kv_heads or h
    q, k, v = (random(rng, *shape, dtype=dtype) for shape in ((b, h, m, d), (b, kv_heads, n, d), (b, kv_heads, n, dv)))
    k += dtype(offset)
    place = (lambda x: x.transpose(0, 2, 1, 3)) if heads_last else (lambda x: x)
    inputs, mask, spec = [place(q), place(k), place(v)], None, None
    if bias is not None:
        index, mask = bias
        mask = mask.astype(dtype)
        inputs.append(mask)
        spec = (index, mask.shape)
    sizes = dict(m="s0", n="s1") if symbolic else dict(m=m, n=n)
    text = attention(
        b,
        h,
        sizes["m"],
        sizes["n"],
        d,
        dv,
        causal,
        spec,
        heads_last,
        kv_heads,
        staged,
        schedule,
        {np.float32: "f32", np.float64: "f64"}[dtype],
        symbols=("s0", "s1") if symbolic else (),
    )
    actual = run(text, inputs, threads=2, symbols={"s0": m, "s1": n} if symbolic else None)
    if staged:
        k, v = k * k, v * v
    full = lambda x: torch.from_numpy(np.repeat(x, h // kv_heads, axis=1).astype(np.float64))
    expected = torch.nn.functional.scaled_dot_product_attention(
        torch.from_numpy(q.astype(np.float64)),
        full(k),
        full(v),
        None if mask is None else torch.from_numpy(mask.astype(np.float64)),
        is_causal=causal,
    )
    check(place(actual), expected.numpy(), tolerance)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "m,n,d", [(1, 1, 1), (1, 40, 64), (32, 128, 64), (33, 129, 40), (77, 77, 64), (50, 300, 16), (300, 50, 24), (129, 140, 32)]
)
def test_sizes(run, m, n, d, causal):
    compare(run, 2, 3, m, n, d, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_last(run, causal):
    compare(run, 2, 3, 40, 60, 32, causal=causal, heads_last=True)


def test_value_size(run):
    compare(run, 1, 2, 20, 30, 16, dv=72)


def test_shared_heads(run):
    compare(run, 2, 6, 20, 30, 16, kv_heads=2)


@pytest.mark.parametrize("causal", [False, True])
def test_computed_keys(run, causal):
    compare(run, 1, 2, 70, 300, 20, staged=True, causal=causal)


@pytest.mark.parametrize(
    "index,shape",
    [
        ("0, d1, d2, d3", (1, 3, 50, 150)),  # relative positions
        ("d0, 0, 0, d3", (2, 1, 1, 150)),  # padding
        ("0, 0, d2, 0", (1, 1, 50, 1)),
    ],
)
def test_bias(run, index, shape):
    bias = np.random.default_rng(1).standard_normal(shape)
    compare(run, 2, 3, 50, 150, 32, bias=(index, bias))
    if shape[3] == 1:
        return
    bias[..., shape[3] // 3 :] = -np.inf
    compare(run, 2, 3, 50, 150, 32, bias=(index, bias))


def test_rows_without_keys(run):
    """What is masked in every key is 0, as PyTorch has it; so it is if this shows block by block."""
    bias = np.zeros((1, 1, 40, 300))
    bias[..., 3, :] = -np.inf
    bias[..., 4, :290] = -np.inf
    bias[..., 5, 10:] = -np.inf
    compare(run, 1, 2, 40, 300, 32, bias=("0, 0, d2, d3", bias))


def test_large_scores(run):
    compare(run, 1, 2, 40, 300, 64, offset=100.0, tolerance=2e-4)


@pytest.mark.parametrize("heads", [1, 3])
def test_small_weights(run, heads):
    """Weights down to the least that are not 0, beside values that are as large as they are small; one query has a score that is NaN."""
    bias = np.broadcast_to(-1.375 * np.arange(70), (1, heads, 40, 70)).copy()
    kept = np.exp(bias[0, 0, 0]) > 2.0**-126
    q, k = np.zeros((1, heads, 40, 8), np.float32), np.zeros((1, heads, 70, 8), np.float32)
    v = np.zeros((1, heads, 70, 70), np.float32)  # each weight by itself
    np.einsum("bhii->bhi", v)[:] = np.where(kept, np.exp(-bias[0, 0, 0]), 0)
    bias[0, 0, 7, 3] = np.array(0x7FC00123, np.uint32).view(np.float32)  # a NaN's lower bits are no exponent
    text = attention(1, heads, 40, 70, 8, 70, bias=("d0, d1, d2, d3", bias.shape))
    actual = run(text, [q, k, v, bias.astype(np.float32)], threads=1)
    assert np.isnan(actual[0, 0, 7]).all()
    actual[0, 0, 7] = actual[0, 0, 8]
    check(actual, np.broadcast_to(kept / np.exp(bias[0, 0, 0]).sum(), actual.shape), 3e-6)


def test_double(run):
    compare(run, 1, 2, 33, 150, 24, dtype=np.float64, tolerance=1e-12)


@pytest.mark.parametrize("m,n", [(1, 1), (40, 300), (30, 47), (24, 7), (129, 129)])
@pytest.mark.parametrize("causal", [False, True])
def test_symbolic_sizes(run, m, n, causal):
    compare(run, 1, 2, m, n, 32, symbolic=True, causal=causal)


@pytest.mark.parametrize("n,d,dv", [(0, 16, 16), (1, 8, 8), (17, 40, 24), (513, 64, 64), (1200, 20, 300)])
def test_few_queries(run, n, d, dv):
    """As in decoding: a task for each query."""
    bias = np.random.default_rng(3).standard_normal((2, 1, 2, n))
    bias[0, ..., : n // 2] = -np.inf
    compare(run, 2, 3, 1, n, d, dv=dv, causal=True)
    compare(run, 2, 6, 2, n, d, dv=dv, kv_heads=2, bias=("d0, 0, d2, d3", bias))
    compare(run, 1, 2, 2, n, d, dv=dv, staged=True, heads_last=True, causal=True)
    compare(run, 1, 2, 1, n, d, dv=dv, dtype=np.float64, tolerance=1e-12)


@pytest.mark.parametrize(
    "schedule",
    [
        "attention_by_query<lanes = 8, block_keys = 24>",
        "attention_by_query<lanes = 16, block_keys = 32, sums = 3, keys = 2>",
        "attention<tile_keys = 4, vectors = 2, lanes = 8, block_panels = 1, block_keys = 20>",
        "attention<tile_keys = 4, vectors = 3, lanes = 8, block_panels = 1, block_keys = 24>",
        "attention<tile_keys = 5, vectors = 2, lanes = 16, block_panels = 3, block_keys = 40>",
        "attention<tile_keys = 3, vectors = 8, lanes = 1, block_panels = 1, block_keys = 30, tile_values = 5>",
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_schedules(run, schedule, causal):
    bias = np.random.default_rng(2).standard_normal((1, 1, 45, 70))
    compare(run, 1, 2, 45, 70, 24, causal=causal, schedule=schedule)
    if not causal:
        compare(run, 1, 2, 45, 70, 24, bias=("0, 0, d2, d3", bias), schedule=schedule)
