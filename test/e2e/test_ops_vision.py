"""torchvision's own operators, against what their CPU kernels compute, written out here: torchvision need not be installed."""

import math

import numpy as np
import pytest
import torch
from torch.export import Dim

from conftest import run_tool
from test_unbacked import Function

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
)
library = torch.library.Library("torchvision", "FRAGMENT")
for schema in SCHEMAS:
    library.define(schema)
vision = torch.ops.torchvision


# ===-- References -------------------------------------------------------------------------------===#


def greatest(a, b):
    """std::max: of numbers that are not ordered, the first."""
    return np.where(a < b, b, a)


def least(a, b):
    return np.where(b < a, b, a)


@torch.library.impl(library, "nms", "CPU")
def nms(dets, scores, iou_threshold):
    boxes = dets.numpy()
    zero = boxes.dtype.type(0)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order = scores.sort(stable=True, descending=True).indices.tolist()
    kept, suppressed = [], np.zeros(len(boxes), bool)
    with np.errstate(all="ignore"):
        for place, i in enumerate(order):
            if suppressed[i]:
                continue
            kept.append(i)
            rest = np.array(order[place + 1 :], int)
            sides = [
                greatest(zero, least(boxes[i, high], boxes[rest, high]) - greatest(boxes[i, low], boxes[rest, low]))
                for low, high in ((0, 2), (1, 3))
            ]
            shared = sides[0] * sides[1]
            overlap = shared / (areas[i] + areas[rest] - shared)
            suppressed[rest[overlap.astype(np.float64) > iou_threshold]] = True
    return torch.tensor(kept, dtype=torch.int64)


@torch.library.register_fake("torchvision::nms", lib=library)
def _(dets, scores, iou_threshold):
    return dets.new_empty([torch.library.get_ctx().new_dynamic_size()], dtype=torch.int64)


def sample(image, y, x):
    """image [C, H, W] at a place whose coordinates are clamped into it."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return image.new_zeros(len(image))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    rows = [image[:, row, left] * (1 - u) + image[:, row, right] * u for row in (top, bottom)]
    return rows[0] * (1 - v) + rows[1] * v


def bins(input, rois, scale, pooled, ratio, offset, is_whole):
    """For each region the sums of the samples of all channels, [C, pooled…], and how many there are."""
    for region in rois.tolist():
        starts, lengths = [], []
        for low, high in ((2, 4), (1, 3)):
            start, end = region[low] * scale - offset, region[high] * scale - offset
            starts.append(start)
            lengths.append(max(end - start, 1) if is_whole else end - start)
        sizes = [length / n for length, n in zip(lengths, pooled)]
        counts = [ratio if ratio > 0 else math.ceil(size) for size in sizes]
        result = input.new_zeros(input.shape[1], *pooled)
        for i in range(pooled[0]):
            for j in range(pooled[1]):
                for k in range(counts[0]):
                    for m in range(counts[1]):
                        y = starts[0] + i * sizes[0] + (k + 0.5) * sizes[0] / counts[0]
                        x = starts[1] + j * sizes[1] + (m + 0.5) * sizes[1] / counts[1]
                        result[:, i, j] += sample(input[int(region[0])], y, x)
        yield result, counts[0] * counts[1]


@torch.library.impl(library, "roi_align", "CPU")
def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    output = input.new_empty(len(rois), input.shape[1], pooled_height, pooled_width)
    offset = 0.5 if aligned else 0.0
    found = bins(input.double(), rois.double(), spatial_scale, (pooled_height, pooled_width), sampling_ratio, offset, not aligned)
    for place, (total, count) in zip(output, found):
        place.copy_(total / max(count, 1))
    return output


@torch.library.register_fake("torchvision::roi_align", lib=library)
def _(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return input.new_empty(rois.shape[0], input.shape[1], pooled_height, pooled_width)


@torch.library.impl(library, "ps_roi_align", "CPU")
def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    channels = input.shape[1] // (pooled_height * pooled_width)
    output = input.new_empty(len(rois), channels, pooled_height, pooled_width)
    own = torch.arange(input.shape[1]).view(channels, pooled_height, pooled_width)
    y, x = torch.meshgrid(torch.arange(pooled_height), torch.arange(pooled_width), indexing="ij")
    found = bins(input.double(), rois.double(), spatial_scale, (pooled_height, pooled_width), sampling_ratio, 0.5, False)
    for place, (total, count) in zip(output, found):
        place.copy_(total[own, y, x] / count)
    return output, own.to(torch.int32).expand(output.shape).clone()


@torch.library.register_fake("torchvision::ps_roi_align", lib=library)
def _(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    output = input.new_empty(rois.shape[0], input.shape[1] // (pooled_height * pooled_width), pooled_height, pooled_width)
    return output, torch.empty_like(output, dtype=torch.int32)


@torch.library.impl(library, "deform_conv2d", "CPU")
def deform_conv2d(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, parts, use_mask):
    (batch, channels, height, width), (rows, _, *kernel), places = input.shape, weight.shape, offset.shape[2:]
    elements = kernel[0] * kernel[1]
    moved = offset.view(batch, parts, elements, 2, *places)
    i, j = (at.flatten().view(-1, 1, 1) for at in torch.meshgrid(*map(torch.arange, kernel), indexing="ij"))
    y = torch.arange(places[0]).view(-1, 1) * stride_h - pad_h + i * dilation_h + moved[:, :, :, 0]
    x = torch.arange(places[1]) * stride_w - pad_w + j * dilation_w + moved[:, :, :, 1]
    near = (y > -1) & (y < height) & (x > -1) & (x < width)
    images = input.view(batch, parts, channels // parts, height * width)
    columns = 0
    for row in (y.floor(), y.floor() + 1):
        for column in (x.floor(), x.floor() + 1):
            inside = near & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            share = torch.where(near, (1 - (y - row).abs()) * (1 - (x - column).abs()), 0).unsqueeze(2)
            at = torch.where(inside, row * width + column, 0).long().view(batch, parts, 1, elements * math.prod(places))
            value = images.gather(3, at.expand(-1, -1, channels // parts, -1))
            value = value.view(batch, parts, channels // parts, elements, *places)
            columns = columns + share * torch.where(inside.unsqueeze(2), value, 0)
    if use_mask:
        columns = columns * mask.view(batch, parts, 1, elements, *places)
    columns = columns.reshape(batch, groups, channels // groups * elements, math.prod(places))
    product = weight.view(1, groups, rows // groups, -1) @ columns
    return product.reshape(batch, rows, *places) + bias.view(1, -1, 1, 1)


@torch.library.register_fake("torchvision::deform_conv2d", lib=library)
def _(input, weight, offset, *rest):
    return input.new_empty(input.shape[0], weight.shape[0], *offset.shape[2:])


# ===-- Boxes ------------------------------------------------------------------------------------===#


def some_boxes(n, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    boxes = torch.rand(n, 4, generator=generator, dtype=dtype) * 50
    boxes[:, 2:] += boxes[:, :2]
    return boxes, torch.rand(n, generator=generator, dtype=dtype)


def kept(threshold):
    def function(boxes, scores):
        numbers = vision.nms(boxes, scores, threshold)
        return numbers, boxes[numbers], scores[numbers]

    return Function(function)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nms(compile_and_compare, dtype):
    """Any number of boxes; equal scores keep their order; NaN and infinity; a threshold that f32 does not have."""
    boxes, scores = some_boxes(30, 1, dtype)
    boxes[3, 1] = boxes[9, 2] = scores[5] = float("nan")
    boxes[7, 2] = boxes[8, 0] = float("inf")
    boxes[11] = boxes[12]
    boxes[13, 2:] = boxes[13, :2]
    ties = some_boxes(100, 2, dtype)
    more = [some_boxes(n, n, dtype) for n in (0, 1, 300)] + [(boxes, scores), (ties[0], (ties[1] * 4).round())]
    n = Dim.AUTO
    compile_and_compare(kept(0.3), some_boxes(40, 0, dtype), (({0: n}, {0: n}),), rtol=0, atol=0, more_inputs=more)


def test_nms_at_its_threshold(compile_and_compare):
    """An overlap of exactly the threshold, in the f32 that it is computed in, does not suppress."""
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 7], [0, 0, 10, 5], [20, 0, 30, 10], [20, 0, 30, 1]])
    scores = torch.tensor([5.0, 4, 3, 2, 1])
    for threshold in (0.7, float(np.float32(0.7)), 0.5, 0.1, float(np.float32(0.1)), 0.0, 1.0, -1.0):
        compile_and_compare(kept(threshold), (boxes, scores), rtol=0, atol=0)


# ===-- Regions ----------------------------------------------------------------------------------===#


def some_regions(n, images, size=50.0, seed=0):
    """Some of them reach outside, some are empty or turned around."""
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(n, 4, generator=generator) * size - 5
    corners[: n - 2, 2:] += corners[: n - 2, :2]
    number = torch.randint(0, images, (n, 1), generator=generator)
    return torch.cat([number, corners], 1)


@pytest.mark.parametrize("aligned", [True, False])
def test_roi_align(compile_and_compare, aligned):
    """A given number of samples, or as many as a bin has elements."""

    def function(x, regions):
        return [vision.roi_align(x, regions, 0.25, 4, 3, ratio, aligned) for ratio in (2, 3, 0, -1)]

    torch.manual_seed(0)
    n = Dim.AUTO
    more = [
        (torch.randn(3, 2, 11, 13), some_regions(3, 3, 150.0, 1)),
        (torch.randn(1, 5, 40, 7), some_regions(9, 1, 5.0, 2)),
        (torch.randn(1, 2, 1, 1), some_regions(4, 1, 8.0, 3)),
        (torch.randn(1, 2, 8, 8), torch.empty(0, 5)),
    ]
    inputs = (torch.randn(2, 3, 20, 30), some_regions(6, 2))
    compile_and_compare(Function(function), inputs, (({0: n, 1: n, 2: n, 3: n}, {0: n}),), more_inputs=more)


def test_samples_nowhere(compile_and_compare):
    """Coordinates that are NaN or infinite are in no image, whatever its first element is."""
    x = torch.randn(1, 2, 8, 8)
    x[0, :, 0, 0] = float("nan")
    regions = torch.tensor([[0, 1, float("nan"), 9, 9], [0, 1e9, 1, 2e9, 5], [0, 1, 1, 5, float("inf")], [0, 2, 2, 6, 6]])
    compile_and_compare(Function(lambda x, r: vision.roi_align(x, r, 1.0, 2, 2, 2, True)), (x, regions))


def test_too_many_samples(compile_model):
    model = compile_model(Function(lambda x, r: vision.roi_align(x, r, 1.0, 1, 1, 0, True)), (torch.randn(1, 1, 4, 4), torch.ones(1, 5)))
    regions = torch.tensor([[0, 0, 0, 1e9, 1]])
    with pytest.raises(RuntimeError, match="a region with more than a million samples along a side"):
        model.model.run([torch.randn(1, 1, 4, 4), regions])


def test_ps_roi_align(compile_and_compare):
    def function(x, regions):
        return [*vision.ps_roi_align(x, regions, 0.25, 3, 2, 2), *vision.ps_roi_align(x, regions, 0.5, 3, 2, 0)]

    torch.manual_seed(0)
    compile_and_compare(Function(function), (torch.randn(2, 12, 20, 30), some_regions(6, 2)))
    n = Dim.AUTO
    more = [(torch.randn(1, 6, 9, 5), some_regions(4, 1, seed=5))]
    shapes = (({0: n, 2: n, 3: n}, {0: n}),)
    compile_and_compare(Function(function), (torch.randn(2, 6, 20, 30), some_regions(6, 2)), shapes, more_inputs=more)


# ===-- Deformable convolution -------------------------------------------------------------------===#


def deformed(n, channels, rows, size, kernel, stride=1, pad=0, dilation=1, groups=1, parts=1, masked=True, dtype=torch.float32):
    torch.manual_seed(0)
    places = [(one + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for one in size]
    mask = torch.rand(n, parts * kernel * kernel, *places, dtype=dtype) if masked else torch.zeros(n, 1, dtype=dtype)
    return (
        torch.randn(n, channels, *size, dtype=dtype),
        torch.randn(rows, channels // groups, kernel, kernel, dtype=dtype),
        torch.randn(n, 2 * parts * kernel * kernel, *places, dtype=dtype) * 2,
        mask,
        torch.randn(rows, dtype=dtype),
        *(stride, stride, pad, pad, dilation, dilation, groups, parts, masked),
    )


def test_deform_conv2d(check_calls):
    check_calls(
        vision.deform_conv2d,
        deformed(1, 4, 6, (10, 12), 3, pad=1, masked=False),
        deformed(2, 4, 6, (10, 12), 3, pad=1),
        deformed(2, 8, 6, (11, 12), 3, stride=2, pad=1, dilation=2, groups=2, parts=4),
        deformed(1, 4, 8, (10, 12), 1, groups=4, parts=2),
        deformed(1, 4, 4, (5, 6), 3, dtype=torch.float64),
        deformed(0, 4, 4, (5, 6), 3),
        rtol=1e-4,
        atol=1e-4,
    )


def test_dynamic_deform_conv2d(compile_and_compare):
    """Places that are far outside, and those that no comparison finds inside, beside what is not finite."""

    def function(x, weight, offset, mask, bias):
        return vision.deform_conv2d(x, weight, offset, mask, bias, 1, 1, 1, 1, 1, 1, 1, 1, True)

    inputs, other = deformed(2, 4, 6, (10, 12), 3, pad=1)[:5], deformed(1, 4, 6, (7, 5), 3, pad=1)[:5]
    other[2][0, :4, 0, 0] = torch.tensor([float("nan"), 1e9, -float("inf"), -1e9])
    other[0][0, 0, 0, 0] = float("inf")
    n = Dim.AUTO
    shapes = (({0: n, 2: n, 3: n}, None, {0: n, 2: n, 3: n}, {0: n, 2: n, 3: n}, None),)
    compile_and_compare(Function(function), inputs, shapes, rtol=1e-4, atol=1e-4, more_inputs=[other])


# ===-- Refusals ---------------------------------------------------------------------------------===#


@pytest.mark.parametrize(
    "function, inputs, message",
    [
        (lambda b, s: vision.nms(b, s, 0.5), (torch.ones(3, 4).half(), torch.ones(3).half()), "not both of f32 or of f64"),
        (lambda x, r: vision.roi_align(x, r, 1.0, 2, 2, 2, True), (torch.ones(1, 1, 4, 4).half(), torch.ones(1, 5).half()), "not both"),
        (lambda b, s: vision.nms(b, s, 0.5), (torch.ones(3, 5), torch.ones(3)), "four numbers for each score"),
    ],
)
def test_refused(tmp_path, function, inputs, message):
    exported = torch.export.export(Function(function), inputs)
    torch.export.save(exported, tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so")
    assert process.returncode == 1
    assert message in process.stderr and "node '" in process.stderr and ".py:" in process.stderr
