"""Layers whose weights are small multiples of 1/4, and steps of few bits."""

import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401, defines the operators below

LAYERS = ("linear", "conv1d", "embedding", "layer_norm", "conv2d", "quantized")
_ops = torch.ops.quantized_decomposed


def quantized(x, scale, zero):
    """The values that 8 bits leave of it, which are on a grid of `scale`."""
    x = x.nan_to_num(1).clamp(-999, 999)
    numbers = _ops.quantize_per_tensor(x.float(), scale, zero, -128, 127, torch.int8)
    return _ops.dequantize_per_tensor(numbers, scale, zero, -128, 127, torch.int8).to(x.dtype)


class Quantized(torch.nn.Module):
    """A linear layer whose operands have 8 bits, as PT2E writes it."""

    def __init__(self, rng, width, rows):
        super().__init__()
        self.register_buffer("weight", torch.randint(-9, 10, (rows, width), dtype=torch.int8))
        self.register_buffer("scales", torch.tensor([rng.choice((0.5, 0.25)) for _ in range(rows)]))
        self.register_buffer("zeros", torch.zeros(rows, dtype=torch.int64))
        self.scale, self.zero, self.is_rounded = rng.choice((0.5, 0.25, 0.125)), rng.choice((-3, 0, 2)), rng.random() < 0.5

    def forward(self, x):
        scales = self.scales.float()
        weight = _ops.dequantize_per_channel(self.weight, scales, self.zeros, 0, -128, 127, torch.int8).to(x.dtype)
        y = torch.nn.functional.linear(quantized(x, self.scale, self.zero), weight)
        return quantized(y, 2 * self.scale, self.zero) if self.is_rounded else y


def make_layer(rng, kind, shape):
    """One for an operand of these sizes."""
    width = shape[-1] if shape else 1
    if kind == "linear":
        layer = torch.nn.Linear(width, rng.choice((1, 3, 8, 17, 40)))
    elif kind == "conv1d":
        layer = torch.nn.Conv1d(
            shape[-2], rng.choice((1, 4, 9)), rng.choice((1, 2, 3)), stride=rng.choice((1, 2)), padding=rng.choice((0, 1))
        )
    elif kind == "conv2d":
        layer = torch.nn.Conv2d(shape[-3], rng.choice((2, 5)), rng.choice((1, 3)), padding=rng.choice((0, 1)))
    elif kind == "layer_norm":
        layer = torch.nn.LayerNorm(width)
    elif kind == "quantized":
        layer = Quantized(rng, width, rng.choice((1, 3, 8, 17, 40)))
    else:
        layer = torch.nn.Embedding(7, 4)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randint(-4, 5, parameter.shape) / 4)
    return layer.requires_grad_(False).eval()
