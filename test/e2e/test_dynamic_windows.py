"""Convolutions and pools over images whose size is known when the model runs."""

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import kiln

CLOSE = dict(rtol=1e-4, atol=1e-4)


class Convolutions(torch.nn.Module):
    """Windows of every kind: few channels and many, strides, dilations, groups, one channel a group, no padding, an operand that is computed."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 24, 7, stride=2, padding=3)
        self.usual = torch.nn.Conv2d(24, 20, 3, padding=1)
        self.spread = torch.nn.Conv2d(20, 32, 3, padding=2, dilation=2, stride=(1, 2))
        self.both = torch.nn.Conv2d(32, 16, (3, 2), padding=(3, 1), dilation=(3, 1), stride=2)
        self.bare = torch.nn.Conv2d(24, 12, 3)
        self.groups = torch.nn.Conv2d(24, 36, 3, padding=1, groups=3)
        self.each = torch.nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.each_stride = torch.nn.Conv2d(24, 24, 5, padding=2, stride=2, groups=24)
        self.many = torch.nn.Conv2d(24, 80, 3, padding=1)

    def forward(self, x):
        stem = self.stem(x)
        y = self.usual(F.relu(stem))
        z = self.spread(y)
        return stem, y, z, self.both(z.sigmoid()), self.bare(stem), self.groups(stem), self.each(z), self.each_stride(stem), self.many(stem)


class Pools(torch.nn.Module):
    def forward(self, x):
        return (
            F.max_pool2d(x, 3, stride=2, padding=1),
            F.max_pool2d(x, 2),
            F.max_pool2d(x, 3, stride=1, padding=1),
            F.avg_pool2d(x, 3, stride=2, padding=1),
            F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False),
            F.max_pool2d(x, 5, stride=3, padding=2),
            F.avg_pool2d(x, (2, 3)),
        )


SIZES = [(1, 11, 11), (2, 12, 37), (1, 64, 17), (3, 33, 34), (1, 13, 61), (2, 97, 40)]


@pytest.mark.parametrize("threads", [1, 2])
def test_convolutions(compile_model, threads):
    torch.manual_seed(0)
    dims = {0: Dim("batch", min=1, max=8), 2: Dim("height", min=11, max=400), 3: Dim("width", min=11, max=400)}
    compiled = compile_model(Convolutions(), (torch.randn(2, 3, 30, 41),), dynamic_shapes=(dims,), threads=threads)
    for batch, height, width in SIZES:
        compiled.check((torch.randn(batch, 3, height, width),), **CLOSE)


@pytest.mark.parametrize("channels", [1, 3, 16, 40])
def test_pools(compile_model, channels):
    """Channels last in memory from the second convolution on; with few of them, along the rows."""
    torch.manual_seed(0)
    dims = {0: Dim("batch", min=1, max=8), 2: Dim("height", min=6, max=400), 3: Dim("width", min=6, max=400)}
    module = torch.nn.Sequential(torch.nn.Conv2d(3, channels, 1), Pools())
    compiled = compile_model(module, (torch.randn(2, 3, 30, 41),), dynamic_shapes=(dims,))
    for batch, height, width in [(1, 6, 6), (1, 6, 7), (2, 9, 8), *SIZES]:
        compiled.check((torch.randn(batch, 3, height, width),), **CLOSE)


def test_sequence(compile_model):
    """One dimension, of any length."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Conv1d(8, 10, 5, padding=2), torch.nn.GELU(), torch.nn.Conv1d(10, 48, 3, stride=2, padding=1))
    compiled = compile_model(
        layers, (torch.randn(2, 8, 30),), dynamic_shapes=({0: Dim("batch", min=1, max=8), 2: Dim("length", min=4, max=4000)},)
    )
    for batch, length in [(1, 4), (2, 5), (3, 31), (1, 256), (1, 1021)]:
        compiled.check((torch.randn(batch, 8, length),), **CLOSE)


def test_only_width_is_open(compile_model):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(4, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, padding=1, stride=2), torch.nn.MaxPool2d(2)
    )
    for open_dim, rows in ((3, [(20, 9), (20, 33), (20, 120)]), (2, [(8, 24), (18, 24), (65, 24)])):
        compiled = compile_model(layers, (torch.randn(1, 4, 20, 24),), dynamic_shapes=({open_dim: Dim("size", min=8, max=400)},))
        for height, width in rows:
            compiled.check((torch.randn(1, 4, height, width),), **CLOSE)


class Resizes(torch.nn.Module):
    """To a given size, to the size of another image, by factors whose product with a size is a whole number or not."""

    def forward(self, x, like):
        sizes = [(5, 9), like.shape[2:]]
        answer = [F.interpolate(x, size, mode=mode) for mode in ("nearest", "nearest-exact", "area") for size in sizes]
        answer += [
            F.interpolate(x, size, mode=mode, align_corners=corners)
            for mode in ("bilinear", "bicubic")
            for corners in (False, True)
            for size in sizes
        ]
        answer += [F.interpolate(x, scale_factor=2.0, mode=mode) for mode in ("nearest", "bilinear")]
        answer += [F.interpolate(x, scale_factor=1.7, mode=mode) for mode in ("nearest", "nearest-exact", "bicubic")]
        # Small images keep or double their sizes.
        answer += [F.interpolate(x, scale_factor=factor, mode=mode) for factor in (1.05, 2.04) for mode in ("nearest", "bilinear")]
        answer.append(F.interpolate(x[0], scale_factor=1.05))
        answer += [F.interpolate(x, size, mode=mode, antialias=True) for mode in ("bilinear", "bicubic") for size in sizes]
        answer.append(F.interpolate(x, like.shape[2:], mode="bilinear", align_corners=True, antialias=True))
        return answer + [F.interpolate(x[0], scale_factor=3.0), F.interpolate(x[0], like.shape[3], mode="linear")]


def test_resizes(compile_model):
    """Which inputs an antialiased output covers depends on the last bit of 4.2 * 3.5 - 4.2, from 21 to 5."""
    torch.manual_seed(0)
    auto = torch.export.Dim.AUTO
    compiled = compile_model(
        Resizes(), (torch.randn(2, 3, 8, 11), torch.randn(1, 1, 6, 17)), dynamic_shapes=({0: auto, 2: auto, 3: auto}, {2: auto, 3: auto})
    )
    for batch, height, width, *like in [(2, 8, 11, 6, 17), (3, 13, 21, 5, 5), (7, 13, 21, 2, 40), (2, 100, 3, 33, 7), (2, 2, 2, 64, 64)]:
        compiled.check((torch.randn(batch, 3, height, width), torch.randn(1, 1, *like)), rtol=1e-4, atol=2e-5)


class Elements(torch.nn.Module):
    def forward(self, x):
        smaller = F.interpolate(x, scale_factor=0.6)
        return smaller, torch.arange(7) % smaller.numel()


def test_number_of_elements(compile_model):
    """Export says of it that it is a product of truncated floats."""
    auto = torch.export.Dim.AUTO
    compiled = compile_model(Elements(), (torch.randn(2, 3, 8, 11),), dynamic_shapes={"x": {0: auto, 2: auto, 3: auto}})
    for sizes in [(2, 3, 8, 11), (5, 3, 9, 13), (3, 3, 4, 5)]:
        compiled.check((torch.randn(sizes),), 0, 0)


class RoundedProducts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x, y):
        smaller, again = F.interpolate(x, scale_factor=0.7), F.interpolate(x * 2, scale_factor=0.7, mode="bilinear")
        twice = F.interpolate(smaller, scale_factor=(0.29, 1.9), mode="bilinear")
        steps = torch.arange(0.5, y.shape[0], 0.7)
        return smaller + again, self.conv(smaller), twice, smaller.flatten(1).sum(1), steps * 2, torch.cat([steps, y])


def test_rounded_products(compile_model):
    """No fraction rounds as 0.7 in floats does: 0.7 of 10 is 7.0. Such sizes are computed when the model runs."""
    auto = torch.export.Dim.AUTO
    dynamic = {"x": {0: auto, 2: auto, 3: auto}, "y": {0: auto}}
    compiled = compile_model(RoundedProducts(), (torch.randn(2, 3, 10, 11), torch.randn(5)), dynamic_shapes=dynamic)
    for batch, height, width, length in [(1, 10, 10, 8), (2, 20, 30, 15), (3, 100, 70, 1), (2, 13, 6, 600)]:
        compiled.check((torch.randn(batch, 3, height, width), torch.randn(length)), rtol=1e-4, atol=2e-5)


class Product(torch.nn.Module):
    def forward(self, x):
        return torch.arange(0.1 * x.shape[0] * x.shape[1]) + x.sum()


def test_product_of_three_floats():
    """sympy has sorted the factors, and they round differently in another order."""
    program = torch.export.export(Product(), (torch.randn(5, 6),), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    with pytest.raises(kiln.KilnError, match="(?s)node 'arange'.*cannot read expression .*Mul"):
        kiln.compile(program)


def test_antialiased_ties(check_calls):
    check_calls(lambda x: F.interpolate(x, (5, 5), mode="bilinear", antialias=True), torch.randn(7, 5, 13, 21), torch.randn(1, 2, 13, 21))


def padded(x):
    return F.conv1d(x, torch.ones(2, x.shape[1], 3), padding=1)


# A call, the shape of its input and the dim that may be empty; it is refused, or computed, as in eager mode.
SMALL = {
    "conv1d": (padded, (2, 8, 9), 2),
    "conv1d_batch": (padded, (2, 8, 9), 0),
    "conv2d": (lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3), padding=2), (2, 3, 8, 8), 2),
    "depthwise": (lambda x: F.conv2d(x, torch.ones(3, 1, 3, 3), padding=2, groups=3), (2, 3, 8, 8), 3),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, torch.ones(3, 4, 3, 3), padding=1), (2, 3, 8, 8), 2),
    "max_pool1d_channels": (lambda x: F.max_pool1d(x, 2), (2, 3, 9), 1),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2, padding=1), (2, 3, 9), 2),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, padding=1), (2, 3, 8, 8), 3),
    "max_pool2d_channels": (lambda x: F.max_pool2d(x, 2), (2, 3, 8, 8), 1),
    "max_pool2d_batch": (lambda x: F.max_pool2d(x, 2), (2, 3, 8, 8), 0),
    "max_pool2d_indices": (lambda x: F.max_pool2d(x, 2, return_indices=True)[1], (3, 8, 8), 0),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, padding=1), (2, 3, 8, 8), 2),
    "avg_pool2d_channels": (lambda x: F.avg_pool2d(x, 2), (2, 3, 8, 8), 1),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, padding=1), (3, 4, 4, 4), 1),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 2), (2, 3, 9), 2),
    "adaptive_avg_pool1d_mean": (lambda x: F.adaptive_avg_pool1d(x, 1), (2, 3, 9), 2),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (2, 3, 8, 8), 2),
    "adaptive_avg_pool2d_mean": (lambda x: F.adaptive_avg_pool2d(x, 1), (2, 3, 8, 8), 3),
    "adaptive_avg_pool2d_channels": (lambda x: F.adaptive_avg_pool2d(x, 2), (2, 3, 8, 8), 1),
    "adaptive_avg_pool3d_channels": (lambda x: F.adaptive_avg_pool3d(x, 2), (2, 3, 4, 4, 4), 1),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 2), (2, 3, 9), 2),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), (2, 3, 8, 8), 2),
    "adaptive_max_pool2d_channels": (lambda x: F.adaptive_max_pool2d(x, 2), (2, 3, 8, 8), 1),
    "replicate": (lambda x: F.pad(x, (3, 2), mode="replicate"), (2, 3, 9), 2),
    "unfold": (lambda x: F.unfold(x, 3), (2, 3, 8, 8), 1),
    "nearest_channels": (lambda x: F.interpolate(x, scale_factor=2), (2, 3, 8, 8), 1),
    "bilinear_channels": (lambda x: F.interpolate(x, size=(3, 4), mode="bilinear"), (2, 3, 8, 8), 1),
    "bilinear_batch": (lambda x: F.interpolate(x, size=(3, 4), mode="bilinear"), (2, 3, 8, 8), 0),
    "antialias_channels": (lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), (2, 3, 8, 8), 1),
    "grid_sample": (lambda x: F.grid_sample(x, torch.zeros(2, 2, 2, 2), align_corners=False), (2, 3, 8, 8), 2),
    "fft": (lambda x: torch.fft.fft(x).real, (3, 9), 1),
    "rfft": (lambda x: torch.fft.rfft(x).imag, (3, 9), 1),
    "quantile": (lambda x: x.quantile(0.5, 1), (3, 9), 0),
    "topk": (lambda x: x.topk(1, 1)[0], (3, 9), 1),
    "argmax": (lambda x: x.argmax(1), (3, 9), 1),
    "linear_of_transposed": (lambda x: F.linear(x.transpose(1, 2), torch.ones(4, 8)).relu(), (2, 8, 9), 2),
}


@pytest.mark.parametrize("name", SMALL)
def test_empty_dims(name):
    function, shape, dim = SMALL[name]

    class Small(torch.nn.Module):
        def forward(self, x):
            return function(x)

    program = torch.export.export(Small(), (torch.rand(shape),), dynamic_shapes=({dim: torch.export.Dim("size", min=0, max=100)},))
    model = kiln.compile(program)
    for size in (1, 0):
        x = torch.rand(*shape[:dim], size, *shape[dim + 1 :])
        try:
            expected = program.module()(x)
        except (RuntimeError, IndexError):
            with pytest.raises(kiln.KilnError) as error:
                model(x)
            assert error.value.status in (1, 2, 6)
        else:
            torch.testing.assert_close(model(x), expected, equal_nan=True)


def test_gradients_of_a_maximum_at_indices_of_other_sizes(compile_and_compare):
    """The sizes are the same when the model runs, or it says that they are not."""

    class Backward(torch.nn.Module):
        def forward(self, gradient, x, indices):
            return torch.ops.aten.max_pool2d_with_indices_backward(gradient, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)

    def inputs(batch, images):
        x = torch.rand(batch, 3, 8, 8)
        return torch.rand(batch, 3, 4, 4), x, F.max_pool2d(torch.rand(images, 3, 8, 8), 2, return_indices=True)[1]

    batch = torch.export.Dim("batch", max=9)
    compiled = compile_and_compare(
        Backward(), inputs(2, 2), dynamic_shapes=({0: batch}, {0: batch}, {0: torch.export.Dim.AUTO}), more_inputs=[inputs(4, 4)]
    )
    for images in (2, 4):
        with pytest.raises(kiln.KilnError, match="indices of another shape"):
            kiln.load(compiled.path)(*inputs(3, images))
