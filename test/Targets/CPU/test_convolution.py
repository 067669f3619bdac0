"""Convolutions, which are contracts whose left operand is read through a window."""

import numpy as np
import pytest

from test_contract import check, contract, cut, pack, random, read

torch = pytest.importorskip("torch")


def convolution(
    image,
    channels,
    out,
    window,
    stride,
    padding,
    dilation,
    channels_last=True,
    batch=1,
    panel=32,
    prologue=False,
    schedule=None,
    flat=False,
):
    """Spatial `image` of any rank, all of it one dim if `flat`; weights packed as [window…, channels] or [channels, window…]."""
    rank = len(image)
    extents = [(i + 2 * p - d * (w - 1) - 1) // s + 1 for i, w, s, p, d in zip(image, window, stride, padding, dilation)]
    dims = 1 + rank + 1 + rank + 1  # image, position…, out, window…, channel (or channel, window…)
    first = 2 + rank
    k = [*window, channels] if channels_last else [channels, *window]
    offset = first if channels_last else first + 1
    channel = f"d{dims - 1}" if channels_last else f"d{first}"
    position = [f"{s}*d{1 + i} + {d}*d{offset + i} - {p}" for i, (s, d, p) in enumerate(zip(stride, dilation, padding))]
    index = ["d0", *position, channel] if channels_last else ["d0", channel, *position]
    sizes = [batch, *image, channels] if channels_last else [batch, channels, *image]
    if flat:
        terms = (
            f"{m * int(np.prod(image[i + 1 :]))}{dim}"
            for i, (s, d, p) in enumerate(zip(stride, dilation, padding))
            for m, dim in ((s, f"*d{1 + i}"), (d, f"*d{offset + i}"), (-p, ""))
        )
        index = ["d0", " + ".join(terms), channel]
        sizes = [batch, int(np.prod(image)), channels]
    names = ", ".join(f"d{i}" for i in range(dims))
    lhs = f"""%z = arith.constant 0.0 : f32
    %in = kernel.inside ({names}) -> ({", ".join(position)}) bounds {list(image)}
    %v = {read("x", ", ".join(index), sizes, dims, mask=" if %in else(%z : f32)")}
    %a = arith.mulf %v, %v : f32"""
    if not prologue:
        lhs = lhs.replace("%v = ", "%a = ").rsplit("\n", 1)[0]
        if not any(padding):
            lhs = "%a = " + read("x", ", ".join(index), sizes, dims)
    linear, total = "", int(np.prod(k))
    for i in range(len(k)):
        stride_k = int(np.prod(k[i + 1 :]))
        linear += (" + " if linear else "") + f"{stride_k}*d{first + i}"
    packed = (-(-out // panel), total, panel)
    rhs = "%b = " + read("w", f"d{first - 1} floordiv {panel}, {linear}, d{first - 1} mod {panel}", packed, dims)
    return contract(
        {"x": (tuple(sizes),), "w": (packed,)},
        ((batch, *extents, out),),
        [],
        [batch, *extents],
        [out],
        k,
        lhs,
        rhs,
        panel=panel,
        schedule=schedule,
    )


def expected(x, w, stride, padding, dilation, channels_last):
    rank = x.ndim - 2
    function = getattr(torch.nn.functional, f"conv{rank}d")
    x = torch.from_numpy(x)
    if channels_last:
        x = x.movedim(-1, 1)
    y = function(x, torch.from_numpy(w), None, stride, padding, dilation)
    return y.movedim(1, -1).numpy()


def compare(run, image, channels, out, window, stride=1, padding=0, dilation=1, channels_last=True, batch=1, prologue=False, **arguments):
    rng = np.random.default_rng(0)
    every = lambda value: [value] * len(image) if isinstance(value, int) else list(value)
    stride, padding, dilation = every(stride), every(padding), every(dilation)
    x = random(rng, *([batch, *image, channels] if channels_last else [batch, channels, *image]))
    w = random(rng, out, channels, *window)
    k_order = np.moveaxis(w, 1, -1) if channels_last else w
    text = convolution(image, channels, out, window, stride, padding, dilation, channels_last, batch, prologue=prologue, **arguments)
    actual = run(text, [x, pack(k_order.reshape(out, -1), 32)], threads=2)
    check(actual, expected(x * x if prologue else x, w, stride, padding, dilation, channels_last))


CASES = {
    "pointwise": dict(image=(9, 11), channels=20, out=40, window=(1, 1)),
    "pointwise, stride": dict(image=(14, 14), channels=16, out=32, window=(1, 1), stride=2),
    "3x3": dict(image=(12, 20), channels=16, out=32, window=(3, 3)),
    "3x3, padding": dict(image=(12, 20), channels=16, out=32, window=(3, 3), padding=1),
    "small image": dict(image=(7, 7), channels=32, out=64, window=(3, 3), padding=1),
    "small image, stride": dict(image=(14, 14), channels=8, out=20, window=(3, 3), padding=1, stride=2),
    "three channels": dict(image=(30, 31), channels=3, out=24, window=(7, 7), padding=3, stride=2),
    "dilation": dict(image=(17, 19), channels=8, out=16, window=(3, 3), padding=2, dilation=2),
    "stride and dilation": dict(image=(21, 23), channels=4, out=16, window=(3, 2), padding=(1, 2), stride=(2, 3), dilation=(3, 2)),
    "sequence": dict(image=(50,), channels=10, out=33, window=(3,), padding=1, stride=2),
    "volume": dict(image=(5, 6, 7), channels=4, out=16, window=(3, 3, 3), padding=1),
    "images": dict(image=(10, 9), channels=6, out=16, window=(3, 3), padding=1, batch=3),
    "wide rows": dict(image=(3, 600), channels=2, out=8, window=(3, 3), padding=1),
    "rows beyond the cache": dict(image=(3, 1100), channels=36, out=8, window=(3, 3), padding=1),
    "patches": dict(image=(32, 32), channels=3, out=48, window=(8, 8), stride=8),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("channels_last", [True, False], ids=["last", "first"])
def test_convolution(run, name, channels_last):
    compare(run, **CASES[name], channels_last=channels_last)


@pytest.mark.parametrize("name", CASES)
def test_flat_image(run, name):
    compare(run, **CASES[name], flat=True)


@pytest.mark.parametrize("name", ["3x3, padding", "small image", "stride and dilation", "images"])
def test_prologue(run, name):
    compare(run, **CASES[name], prologue=True)


@pytest.mark.parametrize(
    "block,epilogue,unroll", [((20, 32, 10000), "registers", 64), ((60, 32, 48), "memory", 12), ((7, 32, 1), "memory", 1)]
)
@pytest.mark.parametrize(
    "name,lhs,axes",
    [
        ("3x3, padding", "window", (1, 2)),
        ("small image", "window", (2, 2)),
        ("small image", "window", (1, 1)),
        ("3x3", "direct", (1, 2)),
        ("3x3", "window", (1, 1)),
        ("volume", "window", (2, 3)),
    ],
)
def test_blocks(run, block, epilogue, unroll, name, lhs, axes):
    schedule = cut((14, 32), 16, block, lhs=lhs, epilogue=epilogue, unroll=unroll, tile_axes=axes[0], block_axes=axes[1])
    compare(run, **CASES[name], schedule=schedule)


def depthwise(image, channels, window, stride, padding, batch=1, panel=None):
    """Channels-last; weights packed, or as PyTorch has them."""
    rank = len(image)
    extents = [(i + 2 * p - w) // s + 1 for i, w, s, p in zip(image, window, stride, padding)]
    first = 3 + rank  # channel, image, position…, one column, window…, one input channel
    dims = first + rank + 1
    position = [f"{s}*d{2 + i} + d{first + i} - {p}" for i, (s, p) in enumerate(zip(stride, padding))]
    index = ["d1", *position, "d0"]
    sizes = [batch, *image, channels]
    names = ", ".join(f"d{i}" for i in range(dims))
    lhs = "%a = " + read("x", ", ".join(index), sizes, dims)
    if any(padding):
        lhs = f"""%z = arith.constant 0.0 : f32
    %in = kernel.inside ({names}) -> ({", ".join(position)}) bounds {list(image)}
    %a = {read("x", ", ".join(index), sizes, dims, mask=" if %in else(%z : f32)")}"""
    weights, at = (channels, 1, *window), ["d0", "0", *(f"d{first + i}" for i in range(rank))]
    if panel:
        weights = (1, -(-channels // panel), int(np.prod(window)), panel)
        linear = " + ".join(f"{int(np.prod(window[i + 1 :]))}*d{first + i}" for i in range(rank))
        at = ["0", f"d0 floordiv {panel}", linear, f"d0 mod {panel}"]
    epilogue = f"""%c = {read("bias", "d0", (channels,), dims)}
    %y = arith.addf %s, %c : f32"""
    return contract(
        {"x": (tuple(sizes),), "w": (weights,), "bias": ((channels,),)},
        ((batch, *extents, channels, 1),),
        [channels],
        [batch, *extents],
        [1],
        [*window, 1],
        lhs,
        "%b = " + read("w", ", ".join(at), weights, dims),
        epilogue,
        perm=[*range(1, 2 + rank), 0, 2 + rank],
        panel=panel,
    )


@pytest.mark.parametrize(
    "image,channels,window,stride,padding,batch",
    [
        ((14, 14), 64, (3, 3), (1, 1), (1, 1), 1),
        ((15, 13), 144, (3, 3), (2, 2), (1, 1), 2),
        ((7, 7), 40, (3, 3), (1, 1), (1, 1), 1),
        ((20, 30), 24, (7, 7), (1, 1), (3, 3), 1),
        ((9, 9), 32, (3, 3), (1, 1), (0, 0), 1),
        ((9, 9), 33, (3, 3), (2, 1), (0, 0), 1),
        ((40,), 20, (4,), (1,), (3,), 2),
    ],
)
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
def test_depthwise(run, image, channels, window, stride, padding, batch, packed):
    rng = np.random.default_rng(1)
    x, w = random(rng, batch, *image, channels), random(rng, channels, 1, *window)
    bias = random(rng, channels)
    panel = 32 if packed else None
    data = pack(w.reshape(channels, -1), 32)[None] if packed else w
    actual = run(depthwise(image, channels, window, stride, padding, batch, panel), [x, data, bias], threads=2)
    function = getattr(torch.nn.functional, f"conv{len(image)}d")
    y = function(torch.from_numpy(x).movedim(-1, 1), torch.from_numpy(w), torch.from_numpy(bias), stride, padding, groups=channels)
    check(actual[..., 0], y.movedim(1, -1).numpy())
