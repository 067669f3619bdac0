"""Operators in groups: each group is one program that calls many operators, compared with eager one by one.

What is tested in depth (elementwise operators, reductions, views, products) has files of its own beside this one."""

import math

import pytest
import torch
import torch.nn.functional as F

from conftest import leaves

INF, NAN = math.inf, math.nan


def rand(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def unit(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def ints(low, high, *shape, seed=0):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


class Group(torch.nn.Module):
    """Calls function(*arguments) for each case. Tensors among the arguments are inputs, everything else is baked in."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def inputs(self):
        return tuple(value for case in self.cases for value in case[1:] if isinstance(value, torch.Tensor))

    def forward(self, *tensors):
        remaining = iter(tensors)
        results = []
        for function, *arguments in self.cases:
            results.append(leaves(function(*(next(remaining) if isinstance(a, torch.Tensor) else a for a in arguments))))
        return results


def with_(function, **options):
    """The function with these keyword arguments."""
    return lambda *arguments, **more: function(*arguments, **options, **more)


def activations():
    x = torch.cat([rand(30) * 3, torch.tensor([0.0, -0.0, 0.5, -0.5, INF, -INF, NAN, 20.0, -20.0])])
    functions = [
        F.silu,
        F.hardswish,
        F.hardsigmoid,
        F.mish,
        F.logsigmoid,
        F.selu,
        with_(F.leaky_relu, negative_slope=0.2),
        with_(F.elu, alpha=0.7),
        with_(F.celu, alpha=1.3),
        with_(F.softplus, beta=2, threshold=3),
        with_(F.softshrink, lambd=0.3),
        with_(F.hardshrink, lambd=0.3),
        F.tanhshrink,
        F.softsign,
        lambda a: F.threshold(a, 0.1, 20),
        F.relu6,
        with_(F.hardtanh, min_val=-2, max_val=0.5),
    ]
    return (
        [(f, x) for f in functions]
        + [(f, x[:30].bfloat16()) for f in (F.silu, F.mish, F.hardswish)]
        + [
            (F.prelu, rand(2, 3, 4), torch.tensor([0.25])),
            (F.prelu, rand(2, 3, 4), torch.tensor([0.25, 0.1, 0.3])),
            (with_(F.glu, dim=1), rand(3, 8)),
            (with_(F.glu, dim=0), rand(4, 5)),
        ]
    )


def padding():
    x = rand(2, 3, 9, 10)
    return [
        (with_(F.pad, pad=(1, 2)), x),
        (with_(F.pad, pad=(1, 2, 3, 0), value=2.5), x),
        (with_(F.pad, pad=(-1, 2, -3, 0)), x),
        (with_(F.pad, pad=(0, 0, 0, 0)), x),
        (with_(F.pad, pad=(0, 0, 1, 0, 0, 2)), x),
        (with_(F.pad, pad=(2, 3), mode="reflect"), x[0]),
        (with_(F.pad, pad=(2, 3, 1, 4), mode="reflect"), x),
        (with_(F.pad, pad=(2, 3, 1, 4), mode="replicate"), x),
        (with_(F.pad, pad=(2, 3, 1, 4), mode="circular"), x),
        (with_(F.pad, pad=(1, 1)), ints(0, 5, 3, 3)),
        (with_(F.pad, pad=(1, 1), value=True), rand(3, 3) > 0),
    ]


def transposed_convolutions():
    conv = F.conv_transpose2d
    return [
        (conv, rand(2, 3, 4, 5), rand(3, 4, 3, 3), rand(4)),
        (with_(conv, stride=2, padding=1, output_padding=1), rand(2, 3, 4, 5), rand(3, 4, 3, 3), rand(4)),
        (with_(conv, stride=(2, 3), dilation=2), rand(2, 3, 4, 5), rand(3, 4, 3, 2)),
        (with_(conv, stride=2, groups=2), rand(2, 4, 4, 5), rand(4, 3, 2, 2), rand(6)),
        (with_(conv, stride=2, groups=4), rand(2, 4, 4, 5), rand(4, 2, 3, 2)),
        (with_(conv, stride=(2, 3), groups=3), rand(2, 3, 8, 3), rand(3, 1, 3, 3)),
        (with_(conv, padding=1, dilation=(1, 2), groups=16), rand(2, 16, 9, 11), rand(16, 1, 4, 3)),
        (with_(conv, stride=2, padding=(2, 0), output_padding=(0, 1), dilation=(2, 1), groups=40), rand(1, 40, 8, 2), rand(40, 1, 5, 5)),
        (with_(conv, stride=2, padding=1, output_padding=1), rand(2, 3, 4, 5), rand(3, 20, 3, 3), rand(20)),
        (with_(conv, stride=(2, 1), padding=(1, 2), dilation=(1, 2)), rand(3, 4, 5), rand(3, 4, 4, 3), rand(4)),
        (with_(conv, stride=(3, 2), padding=(4, 1), dilation=2), rand(1, 4, 6, 5), rand(4, 18, 5, 4), rand(18)),
        (with_(conv, stride=3, padding=1, groups=2), rand(2, 4, 3, 4), rand(4, 17, 2, 4), rand(34)),
        (with_(conv, stride=4, padding=3), rand(1, 2, 1, 2), rand(2, 3, 8, 8), rand(3)),
        (with_(conv, stride=5, padding=1), rand(1, 2, 3, 2), rand(2, 18, 3, 7)),
        (with_(conv, stride=3, output_padding=2), rand(1, 2, 3, 2), rand(2, 18, 1, 1), rand(18)),
        # Infinities and NaN reach the outputs that they meet alone.
        (with_(conv, stride=2, padding=1), torch.tensor([1, INF, 2, -INF, 3, NAN, 4, 5, 6.0]).view(1, 1, 3, 3), rand(1, 3, 3, 3)),
        (with_(conv, stride=2), torch.tensor([1, INF, 2, NAN]).view(1, 1, 2, 2), rand(1, 3, 2, 4)),
        (with_(F.conv_transpose1d, stride=2), rand(2, 3, 5), rand(3, 2, 4)),
        (with_(F.conv_transpose1d, stride=5, padding=3, output_padding=1), rand(2, 3, 7), rand(3, 20, 11), rand(20)),
        (with_(F.conv_transpose1d, stride=8, padding=4), rand(2, 3, 7), rand(3, 5, 16), rand(5)),
        (with_(F.conv_transpose3d, stride=2, padding=1), rand(1, 2, 3, 3, 3), rand(2, 2, 3, 3, 3)),
        (with_(F.conv_transpose3d, stride=(2, 1, 2), padding=1), rand(1, 2, 3, 3, 3), rand(2, 20, 3, 3, 4), rand(20)),
    ]


def named_convolutions():
    return [
        (with_(F.conv2d, padding="same"), rand(1, 3, 8, 9), rand(4, 3, 4, 3), rand(4)),
        (with_(F.conv2d, padding="valid"), rand(1, 3, 8, 9), rand(4, 3, 4, 3)),
        (with_(F.conv1d, padding="same", dilation=3), rand(2, 3, 10), rand(4, 3, 4)),
        (with_(F.conv3d, padding=1), rand(1, 2, 4, 5, 6), rand(3, 2, 3, 3, 3), rand(3)),
        (F.conv2d, rand(4, 6, 6), rand(5, 4, 2, 2)),
        (with_(F.conv2d, groups=4), rand(2, 4, 6, 6), rand(8, 1, 3, 3)),
        (with_(F.conv2d, groups=2, padding=1), rand(2, 4, 6, 6), rand(6, 2, 3, 3), rand(6)),
    ]


def pools():
    x, odd = rand(2, 3, 9, 10), rand(1, 2, 5, 5)
    odd[0, 0, 1, 1], odd[0, 1, 2, 3] = NAN, INF
    pool = with_(F.max_pool2d, kernel_size=3, stride=2, padding=1, return_indices=True)
    return [
        (pool, x),
        (pool, odd),
        (with_(F.max_pool2d, kernel_size=2, stride=3, ceil_mode=True), x),
        (with_(F.max_pool1d, kernel_size=3, stride=2), x[0]),
        (with_(F.max_pool3d, kernel_size=2), rand(1, 2, 4, 5, 6)),
        (with_(F.max_pool2d, kernel_size=2), ints(-5, 5, 1, 2, 4, 4)),
        (with_(F.avg_pool2d, kernel_size=3, stride=2, padding=1, ceil_mode=True), x),
        (with_(F.avg_pool2d, kernel_size=3, stride=2, padding=1, count_include_pad=False), x),
        (with_(F.avg_pool2d, kernel_size=3, divisor_override=5), x),
        (with_(F.avg_pool1d, kernel_size=3, stride=2, padding=1), x[0]),
        (with_(F.avg_pool3d, kernel_size=2), rand(1, 2, 4, 5, 6)),
        (with_(F.adaptive_avg_pool2d, output_size=1), x),
        (with_(F.adaptive_avg_pool2d, output_size=(4, 7)), x),
        (with_(F.adaptive_avg_pool2d, output_size=12), odd),
        (with_(F.adaptive_avg_pool1d, output_size=4), x[0]),
        (with_(F.adaptive_max_pool2d, output_size=(3, 2), return_indices=True), x),
    ]


def norms():
    return [
        (lambda a, m, v, w, b: F.batch_norm(a, m, v, w, b), rand(2, 3, 5, 6), rand(3), unit(3), rand(3), rand(3)),
        (lambda a, m, v: F.batch_norm(a, m, v), rand(4, 3), rand(3), unit(3)),
        (lambda a: F.batch_norm(a, None, None, training=True), rand(4, 3, 5)),
        (with_(F.group_norm, num_groups=3), rand(2, 6)),
        (lambda a: F.batch_norm(a, a, a, training=False), torch.zeros(0)),
        (lambda a, w, b: F.group_norm(a, 2, w, b), rand(2, 6, 5, 4), rand(6), rand(6)),
        (F.instance_norm, rand(2, 3, 4, 5)),
        (lambda a, w, b: F.instance_norm(a, weight=w, bias=b), rand(2, 3, 7), rand(3), rand(3)),
        (lambda a, w: F.rms_norm(a, (4,), w), rand(2, 3, 4), rand(4)),
        (lambda a, w, b: torch.native_layer_norm(a, (4,), w, b, 1e-5), rand(2, 3, 4), rand(4), rand(4)),
        (lambda v, g: torch._weight_norm(v, g, 0), rand(4, 3, 2), rand(4, 1, 1)),
    ]


def scatters():
    x, index = rand(4, 5), ints(0, 5, 4, 3)
    cases = [
        (lambda a, i, s: a.scatter(1, i, s), x, torch.tensor([[0, 2, 4], [1, 0, 3], [4, 3, 2], [2, 1, 0]]), rand(4, 3)),
        (lambda a, i: a.scatter(0, i, 2.5), x, ints(0, 4, 2, 5)),
        (lambda a, i, s: a.scatter_add(1, i, s), x, ints(0, 5, 4, 7), rand(4, 7)),
        (lambda a, i, s: a.scatter(1, i, s, reduce="add"), x, index, rand(4, 3)),
        (lambda a, i: a.scatter(1, i, 2.0, reduce="multiply"), x, index),
        (lambda a, i, s: a.index_add(0, i, s), x, ints(0, 4, 6), rand(6, 5)),
        (lambda a, i, s: a.index_add(1, i, s, alpha=0.5), x, ints(0, 5, 3), rand(4, 3)),
        (lambda a, i, s: a.index_copy(0, i, s), x, torch.tensor([2, 0]), rand(2, 5)),
        (lambda a, i: a.index_fill(1, i, 7), x, torch.tensor([2, 0])),
        (lambda a, i, s: a.index_put((i,), s), x, torch.tensor([2, -4]), rand(2, 5)),
        (lambda a, i, j, s: a.index_put((i, j), s), x, torch.tensor([2, 0]), torch.tensor([1, -1]), rand(2)),
        (lambda a, i, s: a.index_put((i,), s, accumulate=True), x, torch.tensor([2, 0, 2]), rand(3, 5)),
        (lambda a, m, s: a.index_put((m,), s), x, x > 0, torch.tensor(9.0)),
        (lambda a, s: torch.select_scatter(a, s, 1, -1), x, rand(4)),
        (lambda a, s: torch.slice_scatter(a, s, 1, 1, 5, 2), x, rand(4, 2)),
        (lambda a, s: torch.diagonal_scatter(a, s, 1), x, rand(4)),
        (lambda g: torch.ops.aten.select_backward(g, [4, 5], 1, -1), rand(4)),
        (lambda g: torch.ops.aten.slice_backward(g, [4, 5], 1, 1, 5, 2), rand(4, 2)),
        (lambda g: torch.ops.aten.diagonal_backward(g, [4, 5], 1, 0, 1), rand(4)),
    ]
    return cases + [
        (lambda a, i, s, how=how, own=own: a.scatter_reduce(1, i, s, how, include_self=own), x, index, rand(4, 3))
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ]


class Numbers(torch.nn.Module):
    """Tensors that are made of numbers alone, one of which is a size by the time that export has read it."""

    def forward(self, x):
        count = torch.div(16, 4, rounding_mode="trunc")
        return (
            x.new_ones((2, count)),
            count + x,
            torch.bitwise_and(6, x.int()),
            torch.bitwise_xor(6, x.int()),
            torch.bitwise_left_shift(3, x.int()),
        )


def sorting():
    x, ties = rand(5, 7), ints(0, 4, 5, 7)
    x[0, 1], x[2, 3] = NAN, x[2, 5]
    edges = torch.tensor([1.0, 2, 3, 3, 5])
    return [
        (torch.sort, x),
        (with_(torch.sort, descending=True), x),
        (with_(torch.sort, dim=0, stable=True), ties),
        (with_(torch.sort, dim=1, descending=True, stable=True), ties),
        (with_(torch.topk, k=3), rand(4, 8)),
        (with_(torch.topk, k=2, dim=0, largest=False), rand(4, 8)),
        (with_(torch.argsort, dim=1, stable=True), ties),
        (torch.searchsorted, edges, torch.tensor([[0.0, 3, 9], [2, 2.5, NAN]])),
        (with_(torch.searchsorted, right=True), edges, torch.tensor([[0.0, 3, 9], [2, 2.5, 5]])),
        (with_(torch.searchsorted, side="right", out_int32=True), rand(3, 6).sort().values, rand(3, 4)),
        (torch.bucketize, rand(3, 4), torch.tensor([-1.0, 0, 1])),
        (with_(torch.bucketize, right=True), ints(0, 4, 3, 4), torch.tensor([0, 1, 3])),
        (torch.isin, ints(0, 9, 3, 4), torch.tensor([1, 2, 3])),
        (with_(torch.histc, bins=5, min=-1, max=1), rand(50)),
        (with_(torch.cumsum, dim=1), rand(3, 6)),
        (with_(torch.cumsum, dim=0), ties),
        (with_(torch.cumprod, dim=0), rand(4, 2)),
    ]


def losses():
    a, b, p, t = rand(4, 5), rand(4, 5, seed=1), unit(4, 5), unit(4, 5, seed=1)
    classes, ignored = torch.tensor([1, 0, 4, 2]), torch.tensor([1, 0, 4, -100])
    cases = [
        (F.cosine_similarity, a, b),
        (with_(F.cosine_similarity, dim=-1), rand(3, 1, 5), rand(4, 5)),
        (torch.dist, a, b),
        (with_(torch.dist, p=INF), a, b),
        (F.pairwise_distance, a, b),
        (torch.cdist, a, rand(6, 5)),
        (torch.ops.aten._euclidean_dist, a, rand(6, 5)),
        (with_(torch.cdist, p=1.0), rand(2, 3, 5), rand(2, 4, 5)),
    ]
    for how in ("none", "mean", "sum"):
        for loss in (
            F.mse_loss,
            F.l1_loss,
            with_(F.smooth_l1_loss, beta=0.5),
            with_(F.huber_loss, delta=0.5),
            with_(F.kl_div, log_target=True),
        ):
            cases.append((with_(loss, reduction=how), a, b))
        cases.append((with_(F.l1_loss, reduction=how), torch.complex(a, b), torch.complex(p, t)))
        cases += [
            (with_(F.kl_div, reduction=how), a, p),
            (with_(F.binary_cross_entropy, reduction=how), p, t),
            (with_(F.binary_cross_entropy_with_logits, reduction=how), a, t),
            (with_(F.nll_loss, reduction=how), a, ignored),
            (lambda x, c, w, how=how: F.nll_loss(x, c, w, reduction=how), a, classes, p[0] + 0.1),
            (with_(F.cross_entropy, reduction=how), a, ignored),
            (with_(F.cross_entropy, reduction=how), rand(2, 3, 4), ints(0, 3, 2, 4)),
        ]
    return cases


def interpolation():
    x = rand(2, 3, 5, 7)
    cases = [(with_(F.interpolate, scale_factor=s), x) for s in (2, 3, 0.6)] + [
        (with_(F.interpolate, size=(9, 4)), x),
        (with_(F.interpolate, scale_factor=2), x[0]),
    ]
    cases += [
        (with_(F.interpolate, size=(10, 21), mode="nearest-exact"), x),
        (with_(F.pixel_shuffle, upscale_factor=2), rand(1, 8, 3, 4)),
        (with_(F.pixel_unshuffle, downscale_factor=2), rand(1, 3, 4, 6)),
        (with_(F.channel_shuffle, groups=3), rand(1, 6, 2, 2)),
    ]
    # Factors that leave a size as it is, or twice what it was, without being one or two.
    infinite = x.clone()
    infinite[0, 0, 2, 3] = float("inf")
    for factor in (1.05, (1.05, 2), 2.05, (0.95, 1)):
        cases += [(with_(F.interpolate, scale_factor=factor, mode=mode), x) for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")]
    cases += [
        (with_(F.interpolate, size=(5, 7), mode="bilinear"), infinite),
        (with_(torch.ops.aten.upsample_nearest1d_backward, output_size=[7], input_size=[3, 5, 7], scales=1.05), x[0]),
        (with_(F.interpolate, scale_factor=1.05, mode="linear"), x[0]),
        (with_(F.interpolate, scale_factor=1.05, mode="trilinear"), rand(1, 2, 3, 4, 2)),
    ]
    # Convolutions of single pixels, which small images may go through first.
    small, smaller, whole = rand(2, 40, 4, 5), rand(2, 33, 3, 2, seed=1), rand(2, 7, 10, 13, seed=2)
    larger = with_(F.interpolate, size=(10, 13), mode="bilinear")
    cases += [
        (lambda a, w, b: F.conv2d(larger(a), w, b), small, rand(24, 40, 1, 1), rand(24)),
        (lambda a, b, c, w: F.conv2d(torch.cat([larger(a), c, larger(b)], 1), w), small, smaller, whole, rand(24, 80, 1, 1)),
        (
            lambda a, b, c, w, v: F.conv2d(torch.cat([c, larger(a), c, larger(b)], -3), w, v).relu(),
            small,
            smaller,
            whole,
            rand(24, 87, 1, 1),
            rand(24),
        ),
    ]
    for corners in (True, False):
        for options in (
            dict(scale_factor=2, mode="bilinear"),
            dict(size=(3, 11), mode="bilinear"),
            dict(scale_factor=1.6, mode="bilinear"),
            dict(size=(3, 9), mode="bicubic"),
            # Many rows of a result between the same two of the image, which vectors gather along first.
            dict(size=(18, 39), mode="bilinear"),
            dict(size=(18, 39), mode="bicubic"),
        ):
            cases += [(with_(F.interpolate, align_corners=corners, **options), image) for image in (x, infinite)]
        cases += [
            (with_(F.interpolate, scale_factor=2, mode="linear", align_corners=corners), x[0]),
            (with_(F.interpolate, scale_factor=2, mode="trilinear", align_corners=corners), rand(1, 2, 3, 4, 2)),
            (with_(F.interpolate, size=(7, 11, 37), mode="trilinear", align_corners=corners), rand(1, 2, 3, 4, 9)),
            (with_(F.interpolate, size=(11, 37), mode="bilinear", align_corners=corners), rand(1, 2, 1, 1)),
        ]
        for options in (dict(size=(2, 4)), dict(size=(9, 3)), dict(scale_factor=(0.37, 1.7))):
            cases += [
                (with_(F.interpolate, antialias=True, mode=mode, align_corners=corners, **options), x) for mode in ("bilinear", "bicubic")
            ]
        for image in (torch.randint(256, (2, 3, 13, 9), dtype=torch.uint8), torch.randint(256, (1, 6, 8, 11), dtype=torch.uint8)):
            cases += [
                (with_(F.interpolate, antialias=smooth, mode=mode, align_corners=corners, **options), image)
                for mode in ("bilinear", "bicubic")
                for smooth in (False, True)
                for options in (dict(size=(5, 30)), dict(size=(27, 2)), dict(scale_factor=(0.37, 1.7)))
            ]
    return cases


def stacks():
    x, y, v = rand(3, 4), rand(3, 4, seed=1), rand(4)
    return [
        (lambda a, b: torch.cat([a, b, a], 0), x, y),
        (lambda a, b: torch.cat([a, b], -1), x, ints(0, 9, 3, 2)),
        (lambda a, b: torch.stack([a, b], 1), x, y),
        (lambda a, b: torch.hstack([a, b]), x, y),
        (lambda a, b: torch.vstack([a, b]), v, v),
        (lambda a, b: torch.dstack([a, b]), x, y),
        (lambda a, b: torch.column_stack([a, b]), v, rand(4, 2)),
        (torch.diff, x),
        (with_(torch.diff, n=2, dim=0), x),
        (torch.fliplr, x),
        (with_(torch.rot90, k=3), x),
        (with_(torch.roll, shifts=(-1, 3), dims=(0, 1)), x),
        (lambda a, i: torch.take_along_dim(a, i, 1), x, ints(0, 4, 3, 2)),
        (torch.broadcast_tensors, rand(3, 1), v),
        (lambda a, b: torch.meshgrid(a, b, indexing="xy"), v, rand(3)),
        (lambda a: a.repeat_interleave(3, 1), x),
        (lambda a: (a.repeat_interleave(0, 1), a.repeat_interleave(0)), x),
        (lambda a: a.unfold(1, 3, 1), x),
    ]


def bits():
    types = (torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    return [(lambda a, to=to: a.view(to), ints(-1000, 1000, 2, 8).to(source)) for source in types for to in types]


def in_place():
    def rows(a):
        b = a + 0
        c = b[1]
        c.add_(1)
        return b, c

    def overlapping(a):
        b = a + 0
        c = b[:, 1:3]
        d = c.t()
        d.copy_(torch.ones(2, 1))
        b.relu_()
        return b, c, d

    def items(a):
        b = a.clone()
        b[0] = 5
        b[:, 1] += b[:, 0]
        return b

    def parts(a):
        b = a.clone()
        left, right = b.split(2, 1)
        left.zero_()
        right.fill_(2)
        return b

    def reshaped(a):
        b = a.clone()
        flat = b.view(-1)
        flat[3:5].mul_(10)
        b.diagonal().fill_(9)
        return b, flat

    def turned(a):
        b = a.clone().unsqueeze_(0)
        c = b.permute(2, 0, 1)
        c[0].sub_(3)
        return b, c

    return [(function, rand(3, 4)) for function in (rows, overlapping, items, parts, reshaped, turned)]


GROUPS = [
    activations,
    padding,
    transposed_convolutions,
    named_convolutions,
    pools,
    norms,
    scatters,
    sorting,
    losses,
    interpolation,
    stacks,
    bits,
    in_place,
]


@pytest.mark.parametrize("cases", GROUPS, ids=[group.__name__ for group in GROUPS])
def test_group(compile_and_compare, cases):
    module = Group(cases())
    loose = cases is activations  # half precision
    compile_and_compare(module, module.inputs(), rtol=1e-2 if loose else 1e-4, atol=1e-2 if loose else 1e-4)


def test_several_refusals(tmp_path):
    """All operators that cannot be compiled are named in one line, with where they are."""
    from conftest import assert_user_error, run_tool

    class Module(torch.nn.Module):
        def forward(self, x):
            return torch.poisson(x), torch._standard_gamma(x), torch.poisson(x + 1)

    torch.export.save(torch.export.export(Module(), (rand(3, 3, 3),)), tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so")
    assert_user_error(process, "aten.poisson.default", "aten._standard_gamma.default", "and 1 more", "test_ops.py")
    assert not (tmp_path / "model.so").exists()


def test_numbers(compile_and_compare):
    compile_and_compare(Numbers(), (torch.tensor([0.0, 1.0, 5.0]),))
