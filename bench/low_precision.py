"""Programs of low precision: a decoder with the layers of Llama-3.2-1B, quantized networks, products.

    decode-SCHEME    one token after 128 others
    prefill-SCHEME   512 tokens, logits of the last
    NAME-int8        one of the ten models with PyTorch's post-training quantization
    NAME-int8-narrow the same with seven bits for activations (`reduce_range`), as PyTorch advises for CPUs without VNNI
    product-SCHEME   1024 x 1024 x 1024 with a constant right operand

Weights are random (seed 0). A folder of the cache holds what one of models.py does, except for the outputs in fp64."""

import functools

import models

SCHEMES = ["f32", "bf16", "int8", "int4-g32", "int4-g128", "8da4w", "8da8w"]
NETWORKS = ["resnet50", "bert-base", "vit-b16", "mobilenet-v2"]
NARROW = ["resnet50", "bert-base"]
PRODUCTS = ["f32", "bf16", "int8"]
NAMES = [
    *(f"{kind}-{scheme}" for kind in ("decode", "prefill") for scheme in SCHEMES),
    *(f"{network}-int8" for network in NETWORKS),
    *(f"{network}-int8-narrow" for network in NARROW),
    *(f"product-{scheme}" for scheme in PRODUCTS),
]
# Two of the sixteen layers and a small vocabulary: the layers are what a step reads, and they are larger than caches even at four bits.
PUBLISHED = {"layers": 2, "hidden": 2048, "inner": 8192, "heads": 32, "groups": 8, "head": 64, "vocabulary": 4096}
TINY = {"layers": 2, "hidden": 128, "inner": 256, "heads": 4, "groups": 2, "head": 32, "vocabulary": 160}
PAST, PROMPT = 128, 512
CALIBRATION = 2
CACHE = models.ROOT / ".cache" / "low-precision"


def network_of(name):
    """The model that is quantized; none for other programs."""
    network = name.partition("-int8")[0]
    return network if network in NETWORKS else None


def tokens(tiny, kind):
    """Tokens of one call, random; a decoder's past is of as many again as it is long."""
    import torch

    count = {"past": PAST, "prefill": PROMPT, "decode": 1}[kind] // (16 if tiny and kind != "decode" else 1)
    sizes = TINY if tiny else PUBLISHED
    return torch.randint(3, sizes["vocabulary"] - 1, (1, count), generator=torch.Generator().manual_seed(count))


@functools.cache
def _decoder_class():
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, hidden, inner, heads, groups, head, **_):
            super().__init__()
            self.head = head
            self.norms = nn.ModuleList(nn.RMSNorm(hidden, eps=1e-5) for _ in range(2))
            self.q, self.o = nn.Linear(hidden, heads * head, bias=False), nn.Linear(heads * head, hidden, bias=False)
            self.k, self.v = (nn.Linear(hidden, groups * head, bias=False) for _ in range(2))
            self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
            self.down = nn.Linear(inner, hidden, bias=False)

        def forward(self, x, turn, past):
            y = self.norms[0](x)
            q, k, v = (linear(y).unflatten(-1, (-1, self.head)).transpose(1, 2) for linear in (self.q, self.k, self.v))
            q, k = turn(q), turn(k)
            new = torch.stack([k, v])
            if past is not None:
                k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=past is None, enable_gqa=True)
            x = x + self.o(y.transpose(1, 2).flatten(2))
            y = self.norms[1](x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)), new

    class Decoder(nn.Module):
        """Logits of the last token, keys and values of all; `past` are those of the tokens before."""

        def __init__(self, sizes):
            super().__init__()
            self.embedding = nn.Embedding(sizes["vocabulary"], sizes["hidden"])
            self.layers = nn.ModuleList(Layer(**sizes) for _ in range(sizes["layers"]))
            self.norm = nn.RMSNorm(sizes["hidden"], eps=1e-5)
            self.logits = nn.Linear(sizes["hidden"], sizes["vocabulary"], bias=False)
            half = sizes["head"] // 2
            self.register_buffer("frequencies", 500000.0 ** (torch.arange(half) / -half), persistent=False)

        def forward(self, ids, past=None):
            x, caches = self.embedding(ids), []
            first = 0 if past is None else past.shape[3]
            angles = torch.arange(first, first + ids.shape[1])[:, None] * self.frequencies
            cos, sin = (torch.cat([f(angles)] * 2, 1).to(x.dtype) for f in (torch.cos, torch.sin))

            def turn(y):
                left, right = y.chunk(2, -1)
                return y * cos + torch.cat([-right, left], -1) * sin

            for i, layer in enumerate(self.layers):
                x, new = layer(x, turn, None if past is None else past[i])
                caches.append(new)
            return self.logits(self.norm(x[:, -1])), torch.stack(caches)

    return Decoder


def decoder(tiny):
    """The module in fp32; its weights are the same in every scheme before they are quantized."""
    import torch

    torch.manual_seed(0)
    return _decoder_class()(TINY if tiny else PUBLISHED).eval().requires_grad_(False)


def quantize(module, scheme):
    """The module with weights of a scheme, by torchao where these are integers; what is not f32 is bf16."""
    import torch

    if scheme == "f32":
        return module
    module = module.to(torch.bfloat16)
    if scheme == "bf16":
        return module
    from torchao import quantization

    group = quantization.PerGroup(128 if scheme.endswith("g128") else 32)
    if scheme == "int8":
        configuration = quantization.Int8WeightOnlyConfig()
    elif scheme == "8da8w":
        configuration = quantization.Int8DynamicActivationInt8WeightConfig()
    elif scheme == "8da4w":
        configuration = quantization.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=group)
    else:
        configuration = quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=group)
    quantization.quantize_(module, configuration)
    return module


def _network(name, tiny, is_narrow):
    """One of the ten models, quantized with the ranges of some random inputs."""
    import torch
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    module, inputs = models.build(name, tiny)
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(reduce_range=is_narrow))
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantizer)
    for some in calibration(inputs):
        prepared(*some)
    return convert_pt2e(prepared), inputs


def calibration(inputs):
    """Inputs of the same kinds, those of the measurement among them."""
    import torch

    generator = torch.Generator().manual_seed(2)
    yield inputs
    for _ in range(CALIBRATION - 1):
        yield tuple(torch.randn(x.shape, generator=generator) if x.is_floating_point() else x for x in inputs)


def _product(scheme):
    import torch

    class Integers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randint(-128, 128, (1024, 1024), dtype=torch.int8))

        def forward(self, x):
            return torch._int_mm(x, self.weight)

    if scheme == "int8":
        return Integers(), (torch.randint(-128, 128, (1024, 1024), dtype=torch.int8),)
    dtype = torch.bfloat16 if scheme == "bf16" else torch.float32
    return torch.nn.Linear(1024, 1024, bias=False, dtype=dtype).requires_grad_(False), (torch.randn(1024, 1024, dtype=dtype),)


def build(name, tiny=False):
    """(module in eval mode, tuple of inputs) of one program."""
    import torch

    torch.manual_seed(0)
    kind, _, scheme = name.partition("-")
    if kind == "product":
        return _product(scheme)
    if kind not in ("decode", "prefill"):
        return _network(network_of(name), tiny, is_narrow=name.endswith("-narrow"))
    module = decoder(tiny)
    past = module(tokens(tiny, "past"))[1] if kind == "decode" else None
    module = quantize(module, scheme)
    if past is None:
        return module, (tokens(tiny, kind),)
    return module, (tokens(tiny, kind), past if scheme == "f32" else past.bfloat16())


def export(name, tiny, folder):
    """Exports a program, whose weights become plain tensors, unless the folder has it already."""
    import numpy
    import torch

    stamp = folder / "stamp"
    if stamp.exists() and stamp.read_text() == models.stamp_of(__file__, models.__file__):
        return
    models.quiet()
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    with torch.no_grad():
        module, inputs = build(name, tiny)
        outputs = models.flatten(module(*inputs))
        torch.export.save(torch.export.export(module, inputs).run_decompositions({}), folder / "model.pt2")
    for file, tensors in (("inputs", inputs), ("expected", outputs)):
        arrays = {str(i): array_of(tensor) for i, tensor in enumerate(tensors)}
        numpy.savez(folder / f"{file}.npz", **arrays)
    stamp.write_text(models.stamp_of(__file__, models.__file__))


def array_of(tensor):
    """NumPy has no bfloat16: such an array holds the same bits as unsigned integers."""
    import torch

    return tensor.contiguous().view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.contiguous().numpy()


def weight_bytes(name, tiny=False):
    """Bytes that a decode step has to read: the layers' matrices and the one of the logits, with the scales of a scheme.

    Scales and zero points of integers count as what they take at least: a bf16 for each group, and nothing for each row."""
    sizes = TINY if tiny else PUBLISHED
    hidden, inner, vocabulary = sizes["hidden"], sizes["inner"], sizes["vocabulary"]
    rows = 2 * sizes["heads"] * sizes["head"] + 2 * sizes["groups"] * sizes["head"] + 3 * inner
    elements = sizes["layers"] * hidden * rows + vocabulary * hidden
    bits = {"f32": 32, "bf16": 16, "int8": 8, "int4-g32": 4 + 16 / 32, "int4-g128": 4 + 16 / 128, "8da4w": 4 + 16 / 32, "8da8w": 8}
    return int(elements * bits[name.partition("-")[2]] / 8)
