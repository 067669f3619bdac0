"""Fourier transforms, grids, bags, memory seen otherwise, gradients of pools and convolutions, 8-bit floats, random numbers."""

import pytest
import torch
import torch.nn.functional as F

import kiln
from test_ops import Group, ints, rand, unit, with_

aten = torch.ops.aten


def complex_(*shape):
    return torch.complex(rand(*shape), rand(*shape, seed=1))


def fourier():
    fft = torch.fft
    lengths = [rand(3, n) for n in (1, 2, 7, 12, 30, 64, 400)]
    return [(f, x) for x in lengths for f in (fft.fft, fft.rfft, with_(fft.ifft, norm="ortho"))] + [
        (fft.fftn, complex_(4, 5, 6)),
        (fft.ifftn, complex_(4, 5, 6)),
        (with_(fft.fft2, norm="forward"), rand(2, 6, 8)),
        (with_(fft.rfftn, dim=(0, 2)), rand(4, 5, 6)),
        (with_(fft.irfft, n=9), complex_(3, 5)),
        (fft.irfft, complex_(3, 5)),
        (with_(fft.irfft2, s=(4, 6)), complex_(2, 4, 4)),
        (with_(fft.fft, n=5, dim=0), rand(8, 3)),
        (with_(fft.fft, n=12, dim=0), complex_(8, 3)),
        (fft.hfft, complex_(2, 5)),
        (with_(fft.ihfft, norm="ortho"), rand(2, 8)),
        (fft.fft, rand(3, 8).double()),
        (fft.fft, ints(0, 9, 6)),
        *[(lambda x, n=n, p=p: x + torch.hann_window(n, periodic=p), torch.tensor(0.0)) for n, p in ((9, True), (8, False), (1, True))],
        (fft.fftshift, rand(4, 5)),
        (with_(fft.ifftshift, dim=1), rand(4, 5)),
        (
            lambda x, w: torch.stft(x, 16, hop_length=4, win_length=12, window=w, return_complex=True, center=False),
            rand(2, 60),
            torch.hann_window(12),
        ),
        (lambda x: torch.view_as_real(torch.stft(x, 20, return_complex=True, pad_mode="constant")), rand(90)),
        (lambda x, w: torch.istft(x, 16, hop_length=4, win_length=12, window=w), complex_(2, 9, 7), torch.hann_window(12)),
        (lambda x, w: torch.istft(x, 16, hop_length=5, window=w, length=50, normalized=True), complex_(9, 7), torch.hann_window(16)),
        (with_(torch.istft, n_fft=15, hop_length=7, center=False, return_complex=True, onesided=False), complex_(2, 15, 6)),
        (with_(torch.istft, n_fft=14, center=False, onesided=False), complex_(14, 6)),
    ]


def windows():
    calls = [torch.hamming_window, torch.blackman_window, torch.bartlett_window, torch.kaiser_window, torch.hann_window]
    x = rand(1)
    return [
        (lambda a, f=f, n=n, p=p: a + f(n, periodic=p), x)
        for f in calls
        for n, p in ((9, True), (8, False), (1, True), (1, False), (2, False))
    ] + [
        (lambda a: a + torch.hamming_window(7, True, 0.6, 0.3, dtype=torch.float64), x),
        (lambda a: a + torch.kaiser_window(30, True, 8.5, dtype=torch.bfloat16), x),
    ]


def grids():
    image, volume = rand(2, 3, 5, 6), rand(1, 2, 4, 5, 6)
    grid, space = rand(2, 4, 3, 2), rand(1, 3, 4, 2, 3)
    return (
        [
            (with_(F.grid_sample, mode=mode, padding_mode=padding, align_corners=align), image, grid)
            for mode in ("bilinear", "nearest", "bicubic")
            for padding in ("zeros", "border", "reflection")
            for align in (False, True)
        ]
        + [(with_(F.grid_sample, mode=mode, padding_mode="border", align_corners=False), volume, space) for mode in ("bilinear", "nearest")]
        + [(with_(F.affine_grid, size=(2, 3, 4, 5), align_corners=align), rand(2, 2, 3)) for align in (False, True)]
        + [(with_(F.affine_grid, size=(1, 3, 4, 5, 6), align_corners=False), rand(1, 3, 4))]
    )


def bags():
    table, index, offsets = rand(10, 4), ints(0, 10, 8), torch.tensor([0, 2, 2, 6])
    bag = F.embedding_bag
    return [(with_(bag, mode=mode), index, table, offsets) for mode in ("sum", "mean", "max")] + [
        (lambda i, t, o, w: bag(i, t, o, mode="sum", per_sample_weights=w), index, table, offsets, rand(8)),
        (with_(bag, mode="mean", padding_idx=3), index, table, offsets),
        *[(with_(bag, mode="mean", padding_idx=padding), index, table, offsets) for padding in (int(index[3]) - 10, -10)],
        *[(with_(bag, mode=mode, include_last_offset=True), index, table, torch.tensor([0, 3, 8])) for mode in ("sum", "mean", "max")],
        *[
            (with_(aten.embedding_dense_backward, num_weights=12, padding_idx=1, scale_grad_by_freq=by), rand(3, 4, 5), ints(0, 12, 3, 4))
            for by in (False, True)
        ],
    ]


def _write_between(a):
    part = a[2:]
    a.mul_(3)
    return part.as_strided((8, 8), (1, 8), 0).relu_(), a


def _write_windows(a):
    a.unfold(0, 2, 2).add_(1)
    a.unfold(1, 2, 3).unfold(0, 3, 4).mul_(2)
    return a


def memory():
    x = rand(8, 8)
    return [
        (with_(torch.as_strided, size=(3, 4), stride=(2, 8)), x),
        (with_(torch.as_strided, size=(3, 4), stride=(2, 8), storage_offset=5), x + 1),
        (lambda a: torch.as_strided(a.t() + 0, (4, 4), (8, 1)), x),
        (lambda a, s: torch.as_strided_scatter(a, s, (3, 4), (2, 8), 1), x, rand(3, 4)),
        (lambda a: aten.resize(a, [3, 5]), x),
        (lambda a, b: a.clone().as_strided_((2, 3), (3, 1)) + b, x, rand(2, 3)),
        (lambda a: (a + 1).resize_(4, 5).mul_(2), x),
        # Views of views see all that these are views of, also after that was written.
        (lambda a: (a + 1)[1:4, 2:4].as_strided((2, 3, 3), (4, 8, 1)), x),
        (lambda a: torch.as_strided(torch.as_strided(a, (6, 3), (8, 2), 9).t(), (3, 4), (3, 2), 1), x),
        (lambda a: _write_between(a.clone()), x),
        (lambda a: a.clone().unfold(1, 2, 3).mul_(2).sum() + a, x),
        (lambda a: _write_windows(a.clone()), x),
        # Columns; then places 2, 5 and 8 of the elements 0, 3, 6, 8, …
        (lambda a, s: torch.as_strided_scatter(a.t(), s, (3, 4), (2, 8), 1), x, rand(3, 4)),
        (lambda a, s: torch.as_strided_scatter(a[:3, ::3], s, (3,), (3,), 2), x, rand(3)),
    ]


def gradients():
    x = rand(2, 3, 9, 10)
    _, where = F.max_pool2d(x, 2, 2, ceil_mode=True, return_indices=True)
    both = [True, True, True]
    convolutions = []
    for shape, options in [
        ((2, 4, 7, 8), ([1, 2], [1, 0], [1, 1], False, [0, 0], 1)),
        ((2, 4, 7, 8), ([2, 1], [0, 1], [2, 1], False, [0, 0], 2)),
        ((2, 6, 4, 5), ([2, 1], [1, 0], [1, 1], True, [0, 0], 1)),
    ]:
        stride, padding, dilation, transposed, extra, groups = options
        image = rand(*shape)
        weight = rand(6, 3, 3, 2) if transposed else rand(6, 4 // groups, 3, 2)
        out = aten.convolution(image, weight, None, *options)
        convolutions.append(
            (
                with_(
                    aten.convolution_backward,
                    bias_sizes=[out.shape[1]],
                    stride=stride,
                    padding=padding,
                    dilation=dilation,
                    transposed=transposed,
                    output_padding=extra,
                    groups=groups,
                    output_mask=both,
                ),
                rand(*out.shape),
                image,
                weight,
            )
        )
    logs, target = F.log_softmax(rand(6, 5), 1), torch.tensor([0, 4, 2, 1, -100, 3])
    resized = [
        (with_(getattr(aten, f"{name}_backward"), output_size=size, input_size=[2, 3, *of], **options), rand(2, 3, *size))
        for name, size, of, options in [
            ("upsample_nearest1d", [7], [3], {}),
            ("_upsample_nearest_exact1d", [3], [7], {}),
            ("upsample_nearest2d", [6, 5], [3, 7], {}),
            ("upsample_nearest2d", [5, 6], [9, 4], {"scales_h": 0.6, "scales_w": 1.5}),
            ("upsample_nearest3d", [2, 4, 3], [4, 2, 3], {}),
            ("upsample_linear1d", [7], [3], {"align_corners": True}),
            ("upsample_bilinear2d", [6, 5], [3, 7], {"align_corners": False}),
            ("upsample_bicubic2d", [6, 5], [3, 7], {"align_corners": True}),
            ("upsample_trilinear3d", [2, 4, 3], [4, 2, 3], {"align_corners": False}),
        ]
    ]
    rows, groups = rand(4, 3, 5, 2), rand(2, 6, 3, 2)
    norms = [
        (
            lambda g, a, m, r, w, k=k: [t for t in aten.native_layer_norm_backward(g, a, [5, 2], m, r, w, w, k) if t is not None],
            rand(4, 3, 5, 2),
            rows,
            rand(4, 3, 1, 1),
            rand(4, 3, 1, 1).abs(),
            rand(5, 2),
        )
        for k in ([True, True, True], [True, False, True])
    ] + [
        (
            lambda g, a, m, r: aten.native_layer_norm_backward(g, a, [3, 5, 2], m, r, None, None, [True, False, False])[0],
            rand(4, 3, 5, 2),
            rows,
            rand(4, 1, 1, 1),
            rand(4, 1, 1, 1).abs(),
        ),
        (
            lambda g, a, m, r, w: aten.native_group_norm_backward(g, a, m, r, w, 2, 6, 6, 3, [True, True, True]),
            rand(2, 6, 3, 2),
            groups,
            rand(2, 3),
            rand(2, 3).abs(),
            rand(6),
        ),
    ]
    resized.append((resized[6][0], resized[6][1].bfloat16()))
    return (
        convolutions
        + resized
        + norms
        + [(with_(aten._pdist_forward, p=1.0), rand(5, 3))]
        + [
            (
                lambda a, b, i: aten.max_pool2d_with_indices_backward(a, b, [2, 2], [2, 2], [0, 0], [1, 1], True, i),
                rand(*where.shape),
                x,
                where,
            ),
            (lambda a, b: aten.avg_pool2d_backward(a, b, [3, 2], [2, 2], [1, 0], False, True, None), rand(2, 3, 5, 5), x),
            (lambda a, b: aten.avg_pool2d_backward(a, b, [3, 2], [2, 2], [1, 0], False, False, 5), rand(2, 3, 5, 5), x),
            (aten._adaptive_avg_pool2d_backward, rand(2, 3, 4, 3), x),
            (lambda a, b: aten.reflection_pad2d_backward(a, b, [1, 2, 3, 0]), rand(2, 3, 12, 13), x),
            (lambda a, b: aten.replication_pad2d_backward(a, b, [1, 2, 3, 0]), rand(2, 3, 12, 13), x),
            (lambda a, s: aten.fractional_max_pool2d(a, [2, 3], [4, 3], s), x, unit(2, 3, 2)),
            (lambda a, s: aten.fractional_max_pool2d(a, [2, 2], [23, 50], s), ints(0, 99, 2, 3, 40, 90).half(), unit(2, 3, 2).half()),
            (lambda grad, a, t: aten.nll_loss_backward(grad, a, t, None, 1, -100, torch.tensor(5.0)), torch.tensor(1.5), logs, target),
            (lambda grad, a, t, w: aten.nll_loss_backward(grad, a, t, w, 0, -100, torch.tensor(5.0)), rand(6), logs, target, unit(5)),
        ]
    )


def others():
    put, mask, index, other = (
        aten._unsafe_masked_index_put_accumulate,
        torch.tensor([True, False, True, True]),
        torch.tensor([2, 99, -5, 7]),
        torch.tensor([0, -70, 2, 1]),
    )
    return [
        (torch._int_mm, ints(-128, 128, 20, 32).to(torch.int8), ints(-128, 128, 32, 8).to(torch.int8)),
        (torch.ops.prims.div, ints(-20, 20, 30), ints(1, 7, 30)),
        (torch.ops.prims.div, rand(7), rand(7)),
        (torch.ops.prims.sin, rand(5)),
        *(
            (getattr(torch.ops.prims, name), rand(2, 5))
            for name in "bessel_i0 bessel_j1 digamma erf_inv erfcx lgamma ndtri view_of".split()
        ),
        (torch.ops.prims.conj, torch.complex(rand(5), rand(5))),
        (lambda a: torch.ops.prims.view_of_dtype(a, torch.int32), rand(6)),
        *((getattr(torch.ops.prims, name), rand(2, 5), rand(2, 5)) for name in "add sub igamma nextafter".split()),
        *((getattr(torch.ops.prims, name), ints(0, 9, 7), ints(0, 9, 7)) for name in "gcd shift_left shift_right_arithmetic".split()),
        *((lambda a, f=f: f(a, [2, 0]), rand(2, 3, 4)) for f in (torch.ops.prims.sum, torch.ops.prims.amax, torch.ops.prims.prod)),
        (lambda a: torch.ops.prims.var(a, [1], 0.0), rand(2, 6)),
        (lambda a: torch.ops.prims.broadcast_in_dim(a, [4, 2, 3], [1, 2]), rand(2, 3)),
        (lambda a: torch.ops.prims.broadcast_in_dim(a, [2, 5, 3], [0, 2]), rand(2, 1)),
        (lambda a: torch.ops.prims.transpose(a, [2, 0, 1]), rand(2, 3, 4)),
        (lambda a: torch.ops.prims.collapse(torch.ops.prims.split_dim(a, 1, 2), 0, 1), rand(3, 4)),
        (lambda a: torch.ops.prims.squeeze(torch.ops.prims.rev(a, [0]), [1]), rand(3, 1, 4)),
        (lambda a, b: torch.ops.prims.where(a > b, torch.ops.prims.cat([a], 0), torch.ops.prims.reshape(b, [3])), rand(3), rand(3)),
        (lambda a, m, i: aten._unsafe_masked_index(a, m, [i], -1.0), rand(6), torch.tensor([True, False, True]), torch.tensor([2, 99, 5])),
        (
            lambda a, m, i: aten._unsafe_masked_index(a, m, [None, i], 2.0),
            rand(3, 6),
            torch.tensor([True, False, True, True]),
            torch.tensor([1, 99, 5, -1]),
        ),
        (
            lambda a, m, i: aten._unsafe_masked_index(a, m, [None, None, i], 2.0),
            rand(2, 3, 6),
            torch.tensor([[True], [False], [True]]),
            torch.tensor([[1, 0, 5, 4]]),
        ),
        # Beside a mask no index is checked, and where it is false none is written.
        (lambda a, m, i, v: put(a, m, [i], v), rand(6), mask, index, rand(4)),
        (lambda a, m, i, j, v: put(a, m, [i, j], v), rand(6, 3), mask, index, other, rand(4)),
        (lambda a, m, i, v: put(a, m, [None, i.int()], v), rand(3, 6), mask, index, rand(3, 4)),
        (lambda a, m, i, v: put(a, m, [i], v), rand(6, 3), torch.stack([mask, ~mask, mask], 1), index, rand(4, 3)),
        (lambda a, m, i, v: put(a, m, [i], v), rand(0), mask, index, rand(4)),
        (lambda a, m, i: aten._unsafe_masked_index(a, m, [i], 3.0), rand(0), mask, index),
        (lambda a, m, i: aten._unsafe_masked_index(a, m, [i], 3.0), rand(6), mask, index),
        (lambda a, i, v: aten._unsafe_index_put(a, [None, i], v, True), rand(3, 6), index % 6 - 3, rand(3, 4)),
        (lambda a, i: aten._unsafe_index(a, [i, None, i]), rand(3, 4, 6), index % 3),
        (lambda a: F.adaptive_avg_pool2d(a, (0, 3)), rand(1, 2, 4, 5)),
    ]


GROUPS = [fourier, windows, grids, bags, memory, gradients, others]


@pytest.mark.parametrize("cases", GROUPS, ids=[group.__name__ for group in GROUPS])
def test_group(compile_and_compare, cases):
    module = Group(cases())
    compile_and_compare(module, module.inputs(), rtol=1e-4, atol=1e-4)


def test_dynamic_fourier(compile_and_compare):
    length = torch.export.Dim("length", min=2, max=4096)

    class Module(torch.nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x), torch.fft.ifft(x)

    compile_and_compare(
        Module(), (rand(2, 9),), dynamic_shapes={"x": {1: length}}, more_inputs=[(rand(2, 31),), (rand(2, 64),)], rtol=1e-4, atol=1e-4
    )


def test_ends_of_spectra_are_real(compile_and_compare):
    """The first and the middle element of a real transform have no imaginary part, so their angle is 0 or pi."""

    class Module(torch.nn.Module):
        def forward(self, *xs):
            return [torch.view_as_real(torch.fft.rfft(x))[..., :: max(x.shape[-1] // 2, 1), 1] for x in xs], torch.fft.rfft(xs[-1])[
                ..., 0
            ].angle()

    xs = tuple(rand(3, length) for length in (1, 2, 6, 12, 16, 20, 74, 100, 400))
    compile_and_compare(Module(), xs, rtol=0, atol=0)
    shapes = {"xs": (*[None] * (len(xs) - 1), {1: 2 * torch.export.Dim("half", min=4)})}
    compile_and_compare(Module(), xs, shapes, 0, 0, [(*xs[:-1], rand(3, length)) for length in (8, 30, 74)])


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_float8(compile_model, name):
    """A storage format: every value of it, and numbers around every value and past the last."""
    dtype = getattr(torch, name)
    every = torch.arange(256, dtype=torch.uint8)
    numbers = every.view(dtype).float()
    near = torch.cat(
        [
            numbers,
            numbers * 1.03,
            numbers * 0.97,
            numbers * 1.0625,
            rand(100) * 500,
            torch.tensor([1e9, -1e9, 6e4, float("inf"), float("nan"), 0.0, -0.0]),
        ]
    )

    class Module(torch.nn.Module):
        def forward(self, bits, x, h):
            return bits.view(dtype).float() * 2, x.to(dtype).view(torch.uint8), h.to(dtype).float()

    inputs = every, near, near.bfloat16()
    with torch.no_grad():
        expected = Module()(*inputs)
    actual = compile_model(Module(), inputs).model(*inputs)
    for got, want in zip(actual, expected):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


class Draws(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = torch.nn.Dropout(0.25)

    def forward(self, x):
        n = x.shape[0]
        return (
            torch.rand(n),
            torch.randn(n),
            torch.randint(3, 9, (n,)),
            torch.rand_like(x, dtype=torch.float64),
            torch.bernoulli(torch.full((n,), 0.3)),
            torch.randperm(n),
            x.clone().uniform_(2, 4),
            x.clone().normal_(5, 0.5),
            x.clone().exponential_(2.0),
            self.dropout(torch.ones(n)),
            torch.randn_like(x.bfloat16()),
        )


def test_random(tmp_path):
    """The distributions, by their first moments; every run draws anew, and a seed gives the same again."""
    from conftest import run_tool

    module, n = Draws().train(), 20000
    with torch.no_grad():
        program = torch.export.export(module, (torch.zeros(n),))
    torch.export.save(program, tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so")
    assert process.returncode == 0, process.stderr
    model = kiln.load(tmp_path / "model.so")
    first, second = model(torch.zeros(n)), model(torch.zeros(n))
    expected = [
        (0.5, 12**-0.5),
        (0, 1),
        (5.5, (35 / 12) ** 0.5),
        (0.5, 12**-0.5),
        (0.3, 0.21**0.5),
        None,
        (3, 3**-0.5),
        (5, 0.5),
        (0.5, 0.5),
        (1, 3**-0.5),
        (0, 1),
    ]
    for one, other, moments in zip(first, second, expected):
        assert not torch.equal(one, other)
        if moments is None:
            assert torch.equal(one.sort().values, torch.arange(n))
            continue
        mean, deviation = moments
        assert abs(one.double().mean() - mean) < 5 * deviation / n**0.5
        assert abs(one.double().std() - deviation) < 0.03 * max(deviation, 0.1)
        assert abs(torch.corrcoef(torch.stack([one.double(), other.double()]))[0, 1]) < 0.03
    assert set(first[2].tolist()) == {3, 4, 5, 6, 7, 8}
    again = kiln.load(tmp_path / "model.so")
    assert all(torch.equal(a, b) for a, b in zip(first, again(torch.zeros(n))))
    again.set_constant("kiln.random", torch.tensor([7, 0]))
    seeded = again(torch.zeros(n))
    again.set_constant("kiln.random", torch.tensor([7, 0]))
    assert not torch.equal(seeded[0], first[0]) and all(torch.equal(a, b) for a, b in zip(seeded, again(torch.zeros(n))))
