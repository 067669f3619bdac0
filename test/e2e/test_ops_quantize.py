"""Numbers as small integers."""
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers the operators

q = torch.ops.quantized_decomposed


def some(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) * 3


class Model(torch.nn.Module):
    """As an exporter of quantized models writes it: int8 weights by channel, activations by tensor."""

    def __init__(self):
        super().__init__()
        weight = some(12, 8)
        self.register_buffer("scales", weight.abs().amax(1) / 127)
        self.register_buffer("zeros", torch.zeros(12, dtype=torch.int64))
        self.register_buffer("weight", q.quantize_per_channel(weight, self.scales, self.zeros, 0, -127, 127, torch.int8))

    def forward(self, x):
        activation = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.037, 3, -128, 127, torch.int8), 0.037, 3, -128, 127, torch.int8)
        weight = q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = torch.nn.functional.linear(activation, weight)
        return y, q.quantize_per_tensor(y, 0.11, 128, 0, 255, torch.uint8)


def test_quantized_linear(compile_and_compare):
    compile_and_compare(Model(), (some(5, 8),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), more_inputs=[(some(2, 8),), (some(33, 8),)])


def test_quantize(compile_and_compare):
    class All(torch.nn.Module):
        def forward(self, x, h, scale, zero, scales, zeros):
            a = q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
            b = q.quantize_per_channel(h, scales, zeros, 1, 0, 200, torch.uint8)
            c = q.quantize_per_tensor(x, 0.001, -7, -30000, 30000, torch.int16)
            return (a, b, c, q.dequantize_per_tensor.tensor(a, scale, zero, -128, 127, torch.int8), q.dequantize_per_channel(b, scales, zeros, 1, 0, 200, torch.uint8),
                    q.dequantize_per_channel(b, scales, None, 1, 0, 200, torch.uint8), q.dequantize_per_tensor(c, 0.001, -7, -30000, 30000, torch.int16),
                    q.dequantize_per_tensor(a, 0.3, 5, -128, 127, torch.int8, out_dtype=torch.bfloat16), torch.fake_quantize_per_tensor_affine(x, 0.1, 4, 0, 15),
                    torch.fake_quantize_per_tensor_affine(x, scale.float(), zero.int(), 0, 15), torch.fake_quantize_per_channel_affine(x, scales, zeros.int() % 16, 1, 0, 15))
    inputs = (some(6, 4), some(6, 4).bfloat16(), torch.tensor(0.05, dtype=torch.float64), torch.tensor(2), torch.tensor([0.02, 0.3, 0.04, 1.0]), torch.tensor([100, 0, 90, 7]))
    compile_and_compare(All(), inputs, rtol=0, atol=1e-6)


def test_int8_weights(compile_and_compare):
    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randint(-127, 128, (32, 64), dtype=torch.int8, generator=torch.Generator().manual_seed(0)))
            self.register_buffer("scales", torch.rand(32, generator=torch.Generator().manual_seed(1)))

        def forward(self, x):
            return torch.ops.aten._weight_int8pack_mm(x, self.weight, self.scales)
    compile_and_compare(Product(), (some(4, 64),), atol=1e-3)
