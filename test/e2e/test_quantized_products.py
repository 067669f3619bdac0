"""Products of dequantized operands: summed as small integers, with weights that stay as small as they are."""

import pathlib
import re
import subprocess

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

from conftest import TARGET, assert_user_error, cpu_options, run_tool

q = torch.ops.quantized_decomposed
I8, U8 = torch.int8, torch.uint8
TILES = [] if TARGET else ["native-tiles"]
CPUS = pytest.mark.parametrize("cpu", ["native", "x86-64-v3", *TILES])
# Instructions for products of bytes without AVX-512, where the machine has them.
VNNI = ["alderlake"] if " avx_vnni " in pathlib.Path("/proc/cpuinfo").read_text() else []


def some(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) * 3


class Weights(torch.nn.Module):
    """Weights [n, …] as exporters of quantized models hold them."""

    def __init__(self, *shape):
        super().__init__()
        weight = some(*shape)
        self.register_buffer("scales", weight.abs().flatten(1).amax(1) / 127)
        self.register_buffer("zeros", torch.zeros(shape[0], dtype=torch.int64))
        self.register_buffer("weight", q.quantize_per_channel(weight, self.scales, self.zeros, 0, -127, 127, I8))

    def forward(self):
        return q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, I8)


class Linear(torch.nn.Module):
    """Activations of a known range, as signed and as unsigned integers, or of the range that they have."""

    def __init__(self, n, k):
        super().__init__()
        self.weights = Weights(n, k)
        self.bias = torch.nn.Parameter(some(n))

    def forward(self, x):
        results, weight = [], self.weights()
        for args in ((0.037, 3, -128, 127, I8), (0.041, 120, 0, 255, U8), (0.05, 0, 0, 255, U8)):
            a = q.dequantize_per_tensor(q.quantize_per_tensor(x, *args), *args)
            results.append(torch.relu(torch.nn.functional.linear(a, weight, self.bias)))
        for bounds in ((-128, 127, I8), (0, 255, U8)):
            scale, zero = q.choose_qparams(x, *bounds[:2], 1e-5, bounds[2])
            a = q.dequantize_per_tensor(q.quantize_per_tensor(x, scale, zero, *bounds), scale, zero, *bounds)
            results.append(torch.nn.functional.linear(a, weight, self.bias))
        return results


@CPUS
@pytest.mark.parametrize("n, k", [(48, 64), (24, 19), (9, 130)])
def test_linear(compile_and_compare, cpu, n, k):
    """The sum has whole groups of four steps, or part of one at its end."""
    rows = {0: torch.export.Dim.DYNAMIC}
    compiled = compile_and_compare(
        Linear(n, k), (some(5, k),), (rows,), rtol=2e-5, atol=2e-4, more_inputs=[(some(2, k),), (some(37, k),)], options=cpu_options(cpu)
    )
    assert compiled.model is not None


class Products(torch.nn.Module):
    """Sums as large as they get, in which instructions that saturate would."""

    def __init__(self, k, n):
        super().__init__()
        weight = torch.randint(-128, 128, (k, n), dtype=I8, generator=torch.Generator().manual_seed(k))
        weight[:, 0], weight[:, 1] = 127, -128
        self.register_buffer("weight", weight)

    def forward(self, x):
        return torch._int_mm(x, self.weight), torch._int_mm(x, self.weight.T.contiguous().T)


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", *VNNI])
@pytest.mark.parametrize("k", [64, 20])
def test_integer_product(compile_and_compare, cpu, k):
    def rows(count):
        x = torch.randint(-128, 128, (count, k), dtype=I8, generator=torch.Generator().manual_seed(count))
        x[0], x[1] = -128, 127
        return (x,)

    compiled = compile_and_compare(
        Products(k, 40),
        rows(17),
        ({0: torch.export.Dim.DYNAMIC},),
        rtol=0,
        atol=0,
        more_inputs=[rows(2), rows(50)],
        options=cpu_options(cpu),
    )
    if cpu in VNNI and not TARGET:
        code = subprocess.run(["objdump", "-d", compiled.path], capture_output=True, text=True, check=True).stdout
        assert "vpdpbusd" in code and "zmm" not in code


class Narrow(torch.nn.Module):
    """Bytes up to `most`, with weights that give the largest sums of two products, in a matrix and in padded images."""

    def __init__(self, most):
        super().__init__()
        self.bounds = 1.0, 3, 0, most, U8
        weight = torch.randint(-128, 128, (24, 16, 3, 3), dtype=I8, generator=torch.Generator().manual_seed(most))
        weight[0], weight[1] = 127, -128
        self.register_buffer("weight", weight)

    def forward(self, x):
        pixels = q.quantize_per_tensor(x, *self.bounds)
        weight = q.dequantize_per_tensor(self.weight, 1.0, 0, -128, 127, I8)
        image, pooled = (q.dequantize_per_tensor(y, *self.bounds) for y in (pixels, torch.nn.functional.max_pool2d(pixels, 2)))
        last = torch.nn.functional.linear(image.permute(0, 2, 3, 1), weight[:, :, 0, 0])
        return last, torch.conv2d(image, weight, padding=1), torch.conv2d(pooled, weight, padding=1)


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", *VNNI])
@pytest.mark.parametrize("most", [127, 128, 129, 255])
def test_narrow(compile_and_compare, cpu, most):
    """Sums of two products, which an instruction of AVX2 saturates, fit in 16 bits up to 128."""

    def images(count):
        x = some(count, 16, 6, 8) * 40
        x[0, :, :3], x[0, :, 3:] = 1e9, float("inf")
        x[1, :, 0], x[1, :, 1] = float("nan"), -float("inf")
        return (x,)

    compiled = compile_and_compare(
        Narrow(most), images(5), ({0: torch.export.Dim("n", min=2)},), rtol=0, atol=0, more_inputs=[images(2)], options=cpu_options(cpu)
    )
    if cpu == "x86-64-v3" and not TARGET:
        code = subprocess.run(["objdump", "-d", compiled.path], capture_output=True, text=True, check=True).stdout
        assert ("vpmaddubsw" in code) == (most <= 128)


class Layers(torch.nn.Module):
    """Three layers that differ in scales and zero points, with a residual that is quantized once more."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ModuleList(Weights(512, 512) for _ in range(3))
        for i, weight in enumerate(self.weights):
            weight.scales *= i + 1

    def forward(self, x):
        for i, weight in enumerate(self.weights):
            args = (0.05 * (i + 1), 100 + 9 * i, 0, 255, U8)
            a = q.dequantize_per_tensor(q.quantize_per_tensor(x, *args), *args)
            x = torch.relu(torch.nn.functional.linear(a, weight()) / 80) + a
        return x


@CPUS
@pytest.mark.parametrize("shapes", [None, ({0: torch.export.Dim.DYNAMIC},)])
def test_kernels_differ_in_scales(compile_and_compare, cpu, shapes):
    """Equal layers have the same kernels, which are handed their scales and zero points; the first and the last step are others."""
    more = [(some(2, 512),), (some(9, 512),)] if shapes else []
    compiled = compile_and_compare(Layers(), (some(5, 512),), shapes, rtol=2e-5, atol=2e-4, more_inputs=more, options=cpu_options(cpu))
    if TARGET:
        return
    process = run_tool("aot-compile", compiled.archive, "--emit=wrapper", "-o", "-", *cpu_options(cpu))
    launched = re.findall(r"wrapper\.launch @(\w+)", process.stdout)
    # Words of four bytes are where the bytes are; of two, which are widened, they are made by kernels of their own.
    expected = (4, 3) if " bytes 4 " in process.stdout else (7, 4)
    assert (len(launched), len(set(launched))) == expected, launched


class Convolutions(torch.nn.Module):
    """Padding is the zero point; channels are groups, the first three of them with one that is zero."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = Weights(16, 3, 3, 3), Weights(24, 16, 3, 3), Weights(8, 24, 1, 1)

    def forward(self, x):
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.04, 117, 0, 255, U8), 0.04, 117, 0, 255, U8)
        y = torch.relu(torch.nn.functional.conv2d(x, self.first(), padding=1))
        y = q.dequantize_per_tensor(q.quantize_per_tensor(y, 0.2, 5, -128, 127, I8), 0.2, 5, -128, 127, I8)
        z = torch.nn.functional.conv2d(y, self.second(), stride=2, padding=1)
        z = q.dequantize_per_tensor(q.quantize_per_tensor(z, 1.5, 100, 0, 255, U8), 1.5, 100, 0, 255, U8)
        return torch.nn.functional.conv2d(z, self.third()), torch.nn.functional.max_pool2d(z, 2) + 1


@CPUS
def test_convolutions(compile_and_compare, cpu):
    compile_and_compare(Convolutions(), (some(2, 3, 12, 10),), rtol=1e-4, atol=2e-2, options=cpu_options(cpu))
    shapes = ({0: torch.export.Dim("n", max=8)},)
    compile_and_compare(Convolutions(), (some(3, 3, 9, 9),), shapes, rtol=1e-4, atol=2e-2, more_inputs=[(some(2, 3, 9, 9),)])


class ShortRows(torch.nn.Module):
    """Windows over rows of 14 and 7 pixels, two of which are multiplied at a time in tiles; an odd number of them, and a rest of the sum."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Weights(148, 64, 3, 3), Weights(40, 148, 3, 3)

    def forward(self, x):
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.04, 117, 0, 255, U8), 0.04, 117, 0, 255, U8)
        y = torch.nn.functional.conv2d(x, self.first(), padding=1)
        y = q.dequantize_per_tensor(q.quantize_per_tensor(y, 1.5, 100, 0, 255, U8), 1.5, 100, 0, 255, U8)
        return y, torch.nn.functional.conv2d(y, self.second(), stride=2, padding=1)


@CPUS
def test_short_rows(compile_and_compare, cpu):
    """A number that is quantized at a tie may be the next integer."""
    compiled = compile_and_compare(ShortRows(), (some(2, 64, 9, 14),), rtol=1e-4, atol=1.6, options=cpu_options(cpu))
    if cpu in TILES:
        text = run_tool("aot-compile", compiled.archive, "--emit=wrapper", "-o", "-", *cpu_options(cpu)).stdout
        assert len(re.findall("tile_axes = 2, block_axes = 2, unit = tiles", text)) == 2, text


class Padded(torch.nn.Module):
    """A depthwise convolution of an image that was padded before it was quantized, as TensorFlow's networks are."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Weights(24, 8, 1, 1), Weights(24, 1, 3, 3)

    def forward(self, x):
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.04, 117, 0, 255, U8), 0.04, 117, 0, 255, U8)
        y = torch.nn.functional.pad(torch.nn.functional.conv2d(x, self.first()).clamp(-3, 9), (0, 1, 2, 1), value=0.5)
        y = q.dequantize_per_tensor(q.quantize_per_tensor(y, 0.05, 70, 0, 255, U8), 0.05, 70, 0, 255, U8)
        return torch.nn.functional.conv2d(y, self.second(), stride=2, groups=24)


@CPUS
def test_padded_before_quantized(compile_and_compare, cpu):
    """What is quantized at a tie may be the next integer: the product before it is rounded otherwise."""
    compiled = compile_and_compare(Padded(), (some(2, 8, 12, 10),), rtol=1e-4, atol=0.5, options=cpu_options(cpu))
    if not TARGET:
        text = run_tool("aot-compile", compiled.archive, "--emit=wrapper", "-o", "-", *cpu_options(cpu)).stdout
        assert "[2, 12, 10, 24], [2880, 240, 24, 1], ui8" in text, text


class Groups(torch.nn.Module):
    """Activations with a range for each row, weights of four bits with a scale for each `group` steps."""

    def __init__(self, n, k, group, bounds=(-128, 127, I8)):
        super().__init__()
        self.group, self.bounds = group, bounds
        self.register_buffer("weight", torch.randint(-8, 8, (n, k), dtype=I8, generator=torch.Generator().manual_seed(group)))
        self.weight[0], self.weight[-1] = -8, 7
        self.register_buffer("scales", some(n, k // group).abs() / 8)

    def quantize(self, x):
        low, high, dtype = self.bounds
        least, most = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
        scale = (most - least).clamp(min=1e-5) / (high - low)
        zero = low - torch.round(least / scale).to(torch.int32)
        return q.quantize_per_token(x, scale, zero, *self.bounds), scale, zero

    def forward(self, x):
        a = q.dequantize_per_token(*self.quantize(x), *self.bounds, torch.float32)
        weight = self.weight.unflatten(1, (-1, self.group)).to(torch.float32) * self.scales.unsqueeze(2)
        return torch.nn.functional.linear(a, weight.flatten(1))


def exactly(module, x):
    """The product in f64 of what the module quantizes."""
    a, scale, zero = module.quantize(x)
    weight = module.weight.double().unflatten(1, (-1, module.group)) * module.scales.double().unsqueeze(2)
    return (a.double() - zero.double()) * scale.double() @ weight.flatten(1).T


class SeveralGroups(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        sizes = [(256, 32), (256, 128), (240, 40), (96, 8)]
        self.layers = torch.nn.ModuleList(Groups(n, *size) for size in sizes)
        self.layers.append(Groups(n, 256, 64, (0, 255, U8)))

    def forward(self, x):
        return [layer(x[..., : layer.weight.shape[1]]) for layer in self.layers]


def skewed(*shape):
    """Rows whose zero points are in the middle and at either end, and one of the largest integers alone."""
    x = some(*shape)
    x[-1] = -x[-1].abs()
    x[0] = x[0].abs()
    x[shape[0] // 2, 1:] = 1
    return x


# Vectors of 512 bits without products of bytes.
@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", *([] if TARGET else ["native,-avx512vnni"]), *VNNI])
@pytest.mark.parametrize("n", [72, 2, 1])
def test_groups(compile_and_compare, cpu, n):
    """Nothing saturates; rows of a known number, one and several, and of an unknown one."""
    module = SeveralGroups(n)
    for rows in (1, 13):
        compile_and_compare(module, (skewed(rows, 256),), rtol=2e-5, atol=2e-4, options=cpu_options(cpu))
    more = [(skewed(1, 256),), (skewed(2, 256),), (skewed(43, 256),)]
    rows = ({0: torch.export.Dim("rows", min=1, max=1000)},)
    compile_and_compare(module, (skewed(5, 256),), rows, rtol=2e-5, atol=2e-4, more_inputs=more, options=cpu_options(cpu))


@pytest.mark.parametrize("mean", [0, 4])
def test_groups_are_exact(compile_model, mean):
    """The sum of a group is that of integers, whatever its zero point is: errors are no larger than the module's own."""
    module, x = Groups(48, 2048, 32), some(16, 2048)
    module.weight = (module.weight + mean).clamp(-8, 7)
    model, eager = compile_model(module, (x.abs(),)).model, module(x.abs())
    error = [(torch.as_tensor(y).double() - exactly(module, x.abs())).abs().max() for y in (model.run([x.abs()])[0], eager)]
    assert error[0] <= 2 * error[1]


class HalfGroups(Groups):
    """The same in bf16, as language models have it: ranges, scales and what is dequantized are rounded."""

    def forward(self, x):
        a = q.dequantize_per_token(*self.quantize(x), *self.bounds, torch.bfloat16)
        weight = self.weight.unflatten(1, (-1, self.group)).bfloat16() * self.scales.bfloat16().unsqueeze(2)
        return torch.nn.functional.linear(a, weight.flatten(1))


@pytest.mark.parametrize("rows", [1, 40])
def test_groups_of_halves(compile_and_compare, rows):
    compiled = compile_and_compare(HalfGroups(72, 256, 32), (skewed(rows, 256).bfloat16().float(),), rtol=2**-6, atol=1)
    if not TARGET:
        text = run_tool("aot-compile", compiled.archive, "--emit=wrapper", "-o", "-").stdout
        assert "k [8, 4, 2, 4]" in text, text


def test_size_of_weights(compile_model):
    """A byte for each weight: panels are made again from what replaces it, and its zero points are checked without it."""
    compiled = compile_model(Linear(512, 1024), (some(4, 1024),))
    small = compile_model(Linear(48, 64), (some(4, 64),))
    assert compiled.path.stat().st_size - small.path.stat().st_size < 1.25 * 512 * 1024


def test_weights_are_replaced(compile_model):
    """The sums of the weights are computed again; zero points other than zero are refused."""
    module, x = Linear(16, 64), some(4, 64)
    model = compile_model(module, (x,)).model
    other = torch.randint(-127, 128, (16, 64), dtype=I8, generator=torch.Generator().manual_seed(1))
    model.set_constant("weights.weight", other)
    module.weights.weight = other
    for got, want in zip(model.run([x]), module(x)):
        torch.testing.assert_close(torch.as_tensor(got), want, rtol=2e-5, atol=2e-4)
    if TARGET:  # products on GPUs take any zero points
        return
    with pytest.raises(RuntimeError, match="weights with zero points other than 0"):
        model.set_constant("weights.zeros", torch.ones(16, dtype=torch.int64))
        model.run([x])


@pytest.mark.parametrize("scale", [float("inf"), float("nan")])
def test_bad_scales(tmp_path, scale):
    """A number that no quantizer gives is refused where the program has it."""

    class Bad(torch.nn.Module):
        def forward(self, x):
            return q.dequantize_per_tensor(x, scale, 0, -128, 127, I8)

    torch.export.save(torch.export.export(Bad(), (torch.zeros(4, dtype=I8),)), tmp_path / "bad.pt2")
    process = run_tool("aot-compile", tmp_path / "bad.pt2", "-o", tmp_path / "bad.so")
    assert_user_error(process, "dequantize_per_tensor", "a scale that is zero or not finite", "test_quantized_products.py")
