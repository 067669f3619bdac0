"""The programs that bench/gpu measures: plain PyTorch, the same on the machine that compiles and on the one with a GPU.

Each has full sizes and tiny ones, which the emulator can run. Weights get their values when a program is made; the
package carries none."""

import dataclasses
import functools

import torch
import torch.nn.functional as F


@dataclasses.dataclass
class Program:
    part: str
    make: object  # () -> (module, inputs), on the CPU
    flops: float = 0
    bytes: float = 0  # that have to be moved, at least
    tolerance: float = 1e-4  # of the relative error, in the Euclidean norm
    bf16: bool = False


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


# ---- Products


def product(m, n, k, dtype=torch.bfloat16, epilogue=None):
    def function(a, b):
        y = a @ b.t()
        return epilogue(y) if epilogue else y

    return Program(
        "contracts",
        lambda: (Function(function), (torch.randn(m, k, dtype=dtype), torch.randn(n, k, dtype=dtype))),
        flops=2.0 * m * n * k,
        bytes=dtype.itemsize * (m * k + n * k + m * n),
        tolerance=1e-2 if dtype.itemsize == 2 else 1e-4,
        bf16=dtype == torch.bfloat16,
    )


def batched(batch, m, n, k):
    dtype = torch.bfloat16
    return Program(
        "contracts",
        lambda: (Function(torch.bmm), (torch.randn(batch, m, k, dtype=dtype), torch.randn(batch, k, n, dtype=dtype))),
        flops=2.0 * batch * m * n * k,
        tolerance=1e-2,
        bf16=True,
    )


# ---- Attention


def attention(heads, queries, keys, depth, causal=False, kv_heads=None):
    kv_heads = kv_heads or heads
    dtype = torch.bfloat16

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv_heads != heads)

    def make():
        return Function(function), (
            torch.randn(1, heads, queries, depth, dtype=dtype),
            torch.randn(1, kv_heads, keys, depth, dtype=dtype),
            torch.randn(1, kv_heads, keys, depth, dtype=dtype),
        )

    return Program(
        "attention",
        make,
        flops=4.0 * heads * queries * keys * depth * (0.5 if causal else 1),
        bytes=4.0 * kv_heads * keys * depth,
        tolerance=2e-2,
        bf16=True,
    )


# ---- What memory limits


def memory(function, shape, dtype=torch.float32, outputs=1.0, extra=()):
    """`outputs`: bytes written, as a share of those read."""

    def make():
        return Function(function), (torch.randn(shape, dtype=dtype), *(torch.randn(other, dtype=dtype) for other in extra))

    count = functools.reduce(lambda a, b: a * b, shape)
    return Program(
        "memory",
        make,
        bytes=dtype.itemsize * count * (1 + outputs),
        tolerance=1e-2 if dtype.itemsize == 2 else 1e-4,
        bf16=dtype == torch.bfloat16,
    )


def rms_norm(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


# ---- Models


class Decoder(torch.nn.Module):
    """A step of a Llama-style decoder: one token, key/value caches that are written in place."""

    def __init__(self, layers, hidden, inner, heads, kv_heads, words):
        super().__init__()
        self.heads, self.kv_heads, self.depth = heads, kv_heads, hidden // heads
        linear = functools.partial(torch.nn.Linear, bias=False, dtype=torch.bfloat16)
        self.words = torch.nn.Embedding(words, hidden)
        self.layers = torch.nn.ModuleList()
        for _ in range(layers):
            layer = torch.nn.Module()
            layer.first, layer.second = torch.nn.Parameter(torch.ones(hidden)), torch.nn.Parameter(torch.ones(hidden))
            layer.query, layer.output = linear(hidden, hidden), linear(hidden, hidden)
            layer.key, layer.value = linear(hidden, kv_heads * self.depth), linear(hidden, kv_heads * self.depth)
            layer.gate, layer.up, layer.down = linear(hidden, inner), linear(hidden, inner), linear(inner, hidden)
            self.layers.append(layer)
        self.norm = torch.nn.Parameter(torch.ones(hidden))
        self.head = linear(hidden, words)

    def rotate(self, x, position):
        half = self.depth // 2
        angle = position[:, None] * 10000.0 ** (-torch.arange(half, device=x.device) / half)
        cosine, sine = angle.cos(), angle.sin()
        a, b = x[..., :half].float(), x[..., half:].float()
        return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1).to(x.dtype)

    def forward(self, tokens, position, keys, values):
        """tokens: [1, t]; position: [t]; keys and values: [layers, 1, kv_heads, length, depth]"""
        t = tokens.shape[1]
        x = self.words(tokens)
        visible = torch.arange(keys.shape[3], device=x.device)[None, :] <= position[:, None]
        for i, layer in enumerate(self.layers):
            y = rms_norm(x, layer.first)
            split = lambda z, heads: z.view(1, t, heads, self.depth).transpose(1, 2)
            q = self.rotate(split(layer.query(y), self.heads), position)
            keys[i].index_copy_(2, position, self.rotate(split(layer.key(y), self.kv_heads), position))
            values[i].index_copy_(2, position, split(layer.value(y), self.kv_heads))
            y = F.scaled_dot_product_attention(q, keys[i], values[i], attn_mask=visible, enable_gqa=self.heads != self.kv_heads)
            x = x + layer.output(y.transpose(1, 2).reshape(1, t, -1))
            y = rms_norm(x, layer.second)
            x = x + layer.down(F.silu(layer.gate(y)) * layer.up(y))
        return self.head(rms_norm(x[:, -1], self.norm))


def decoder(part, tokens, length, layers, hidden, inner, heads, kv_heads, words):
    def make():
        module = Decoder(layers, hidden, inner, heads, kv_heads, words).to(torch.bfloat16)
        caches = [torch.randn(layers, 1, kv_heads, length, hidden // heads, dtype=torch.bfloat16) for _ in range(2)]
        first = 0 if tokens > 1 else length - 1
        return module, (torch.randint(0, words, (1, tokens)), torch.arange(first, first + tokens), *caches)

    weights = layers * (2 * hidden * hidden + 2 * hidden * hidden * kv_heads // heads + 3 * hidden * inner) + words * hidden
    caches = 2 * layers * kv_heads * length * hidden // heads
    return Program(part, make, flops=2.0 * tokens * weights, bytes=2.0 * (weights + caches), tolerance=4e-2, bf16=True)


class Encoder(torch.nn.Module):
    """BERT's shape: embeddings, then layers that normalise behind the addition; ViT's, over patches; or GPT-2's, in which nothing looks ahead and the
    last token is a distribution over words."""

    def __init__(self, layers, hidden, heads, words=0, image=0, patch=16, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        if image:
            self.patches = torch.nn.Conv2d(3, hidden, patch, patch)
            self.positions = torch.nn.Parameter(torch.randn((image // patch) ** 2, hidden))
        else:
            self.words = torch.nn.Embedding(words, hidden)
            self.positions = torch.nn.Parameter(torch.randn(512, hidden))
        self.layers = torch.nn.ModuleList()
        for _ in range(layers):
            layer = torch.nn.Module()
            layer.first, layer.second = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
            layer.mixed, layer.output = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
            layer.up, layer.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)
            self.layers.append(layer)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) if x.is_floating_point() else self.words(x)
        batch, count, hidden = x.shape
        x = x + self.positions[:count]
        for layer in self.layers:
            q, k, v = layer.mixed(x).view(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(batch, count, hidden)
            x = layer.first(x + layer.output(y))
            x = layer.second(x + layer.down(F.gelu(layer.up(x), approximate="tanh" if self.causal else "none")))
        return x[:, -1] @ self.words.weight.t() if self.causal else x


def encoder(batch, count, dtype=torch.float32, image=0, **sizes):
    def make():
        module = Encoder(image=image, **sizes).to(dtype)
        return module, (torch.randn(batch, 3, image, image, dtype=dtype) if image else torch.randint(0, sizes["words"], (batch, count)),)

    tokens = batch * (count or (image // sizes.get("patch", 16)) ** 2)
    return Program(
        "models",
        make,
        flops=2.0 * tokens * sizes["layers"] * 12 * sizes["hidden"] ** 2,
        tolerance=4e-2 if dtype.itemsize == 2 else 1e-3,
        bf16=dtype == torch.bfloat16,
    )


class Bottleneck(torch.nn.Module):
    def __init__(self, inner, outer, width, stride):
        super().__init__()
        conv = functools.partial(torch.nn.Conv2d, bias=False)
        self.body = torch.nn.Sequential(
            conv(inner, width, 1),
            torch.nn.BatchNorm2d(width),
            torch.nn.ReLU(),
            conv(width, width, 3, stride, 1),
            torch.nn.BatchNorm2d(width),
            torch.nn.ReLU(),
            conv(width, outer, 1),
            torch.nn.BatchNorm2d(outer),
        )
        self.side = (
            torch.nn.Sequential(conv(inner, outer, 1, stride), torch.nn.BatchNorm2d(outer))
            if stride > 1 or inner != outer
            else torch.nn.Identity()
        )

    def forward(self, x):
        return F.relu(self.body(x) + self.side(x))


def resnet(batch, image, width, depths):
    def make():
        layers, inner = (
            [torch.nn.Conv2d(3, width, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(width), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)],
            width,
        )
        for stage, depth in enumerate(depths):
            for i in range(depth):
                layers.append(Bottleneck(inner, 4 * width << stage, width << stage, 2 if stage and not i else 1))
                inner = 4 * width << stage
        layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(inner, 1000)]
        return torch.nn.Sequential(*layers).eval(), (torch.randn(batch, 3, image, image),)

    return Program("models", make, tolerance=1e-3)


# ---- Small programs with kernels of every kind: compared, and run under compute-sanitizer


def parts(x, tokens, table):
    y = F.layer_norm(x, x.shape[-1:]) + F.gelu(x) + table[tokens]
    return (
        y,
        torch.softmax(y, -1),
        y.t().contiguous(),
        x.cumsum(0),
        x.cumsum(1),
        x.sort(-1, descending=True)[0],
        x.topk(3)[1],
        x.sum((0, 1)),
        x.argmax(-1),
        torch.zeros_like(x).index_add(0, tokens % x.shape[0], x),
        x.to(torch.float64).exp().to(torch.complex128).abs(),
        x.flatten().cumsum(0),
        x.flatten().sort()[0],
    )


def small_products(a, b, images, filters):
    half = a.to(torch.float16), b.to(torch.float16)
    return (
        a @ b.t(),
        a[:2] @ b.t(),
        half[0] @ half[1].t(),
        (a.to(torch.bfloat16) @ b.to(torch.bfloat16).t()).float(),
        F.relu(torch.bmm(a.expand(3, *a.shape), b.t().expand(3, *b.t().shape))),
        F.conv2d(images, filters, padding=1, stride=2),
    )


def small_attention(q, k, v, mask):
    attend = F.scaled_dot_product_attention
    half = [t.to(torch.bfloat16) for t in (q, k, v)]
    return (
        attend(q, k, v),
        attend(q, q, q, is_causal=True),
        attend(q, k, v, attn_mask=mask),
        attend(q[:, :, :1], k, v),
        attend(*half),
        attend(half[0], half[0], half[0], is_causal=True),
    )


def checks(rows):
    def make_parts():
        return Function(parts), (torch.randn(rows, 48), torch.randint(0, 20, (rows,)), torch.randn(20, 48))

    def make_products():
        return Function(small_products), (torch.randn(rows + 3, 96), torch.randn(70, 96), torch.randn(2, 3, 9, 11), torch.randn(8, 3, 3, 3))

    def make_attention():
        return Function(small_attention), (
            torch.randn(2, 3, rows, 64),
            torch.randn(2, 3, rows + 5, 64),
            torch.randn(2, 3, rows + 5, 64),
            torch.randn(rows, rows + 5),
        )

    return {
        "check-parts": Program("check", make_parts, tolerance=1e-4),
        "check-products": Program("check", make_products, tolerance=1e-2),
        "check-attention": Program("check", make_attention, tolerance=1e-2),
    }


def programs(tiny=False):
    """name -> Program"""
    bf16, f32 = torch.bfloat16, torch.float32
    if tiny:
        return {
            "contract-64x64x64": product(64, 64, 64),
            "contract-f32-20x30x40": product(20, 30, 40, f32),
            "contract-gelu-16x64x32": product(16, 64, 32, epilogue=F.gelu),
            "attention-32": attention(2, 32, 32, 32),
            "attention-32-causal": attention(2, 32, 32, 32, causal=True),
            "attention-step": attention(4, 1, 40, 32, kv_heads=2),
            "pointwise": memory(lambda x: F.gelu(x) * 2 + 1, (64, 64)),
            "softmax": memory(lambda x: x.softmax(-1), (8, 100)),
            "transpose": memory(lambda x: x.t().contiguous(), (260, 130)),
            "cumsum": memory(lambda x: x.cumsum(-1), (3, 200)),
            "sort": memory(lambda x: x.sort(-1)[0], (3, 100)),
            "decode-step": decoder("decode", 1, 20, 2, 64, 128, 4, 2, 50),
            "llama-prefill": decoder("models", 7, 7, 2, 64, 128, 4, 2, 50),
            "bert": encoder(1, 9, layers=1, hidden=32, heads=2, words=50),
            "gpt2": encoder(1, 9, layers=1, hidden=32, heads=2, words=50, causal=True),
            "resnet": resnet(1, 32, 4, (1, 1)),
            **checks(9),
        }
    gib = 1 << 30
    return {
        "contract-4096": product(4096, 4096, 4096),
        "contract-8192": product(8192, 8192, 8192),
        "contract-gelu-4096": product(4096, 4096, 4096, epilogue=F.gelu),
        "contract-128x4096x4096": product(128, 4096, 4096),
        "contract-128x14336x4096": product(128, 14336, 4096),
        "contract-16x4096x4096": product(16, 4096, 4096),
        "contract-1x4096x14336": product(1, 4096, 14336),
        "contract-512x512x16384": product(512, 512, 16384),
        "contract-4096x4096x512": product(4096, 4096, 512),
        "contract-3072x3072x4096": product(3072, 3072, 4096),
        "contract-batch-64x512": batched(64, 512, 512, 512),
        "contract-f32-2048": product(2048, 2048, 2048, f32),
        "attention-4096": attention(16, 4096, 4096, 128),
        "attention-4096-causal": attention(16, 4096, 4096, 128, causal=True),
        "attention-16384": attention(16, 16384, 16384, 128),
        "attention-16384-causal": attention(16, 16384, 16384, 128, causal=True),
        "attention-gqa-4096-causal": attention(32, 4096, 4096, 128, causal=True, kv_heads=8),
        "attention-step-8192": attention(32, 1, 8192, 128, kv_heads=8),
        "pointwise-f32": memory(lambda x: F.gelu(x) * 2 + 1, (gib // 8,)),
        "pointwise-bf16": memory(lambda x: F.silu(x), (gib // 4,), bf16),
        "transpose-f32": memory(lambda x: x.t().contiguous(), (16384, 8192)),
        "transpose-bf16": memory(lambda x: x.t().contiguous(), (16384, 16384), bf16),
        "channels-last-bf16": memory(lambda x: x.permute(0, 2, 3, 1).contiguous() + 1, (64, 256, 128, 128), bf16),
        "layernorm-bf16": memory(lambda x: F.layer_norm(x, (4096,)), (65536, 4096), bf16),
        "rmsnorm-bf16": memory(rms_norm, (65536, 4096), bf16, extra=((4096,),)),
        "softmax-f32": memory(lambda x: x.softmax(-1), (32768, 4096)),
        "sum-f32": memory(lambda x: x.sum(), (gib // 4,), outputs=0),
        "row-sums-f32": memory(lambda x: x.sum(-1), (65536, 4096), outputs=0),
        "cumsum-rows-f32": memory(lambda x: x.cumsum(-1), (4096, 32768)),
        "cumsum-long-f32": memory(lambda x: x.cumsum(-1), (1 << 24,)),
        "sort-rows-f32": memory(lambda x: x.sort(-1)[0], (4096, 4096)),
        "sort-long-f32": memory(lambda x: x.sort(-1)[0], (1 << 20,)),
        "decode-step": decoder("decode", 1, 1024, 8, 2048, 8192, 32, 8, 32000),
        "llama-prefill": decoder("models", 512, 512, 8, 2048, 8192, 32, 8, 32000),
        "bert-base-f32": encoder(1, 128, layers=12, hidden=768, heads=12, words=30522),
        "bert-base-bf16": encoder(8, 128, bf16, layers=12, hidden=768, heads=12, words=30522),
        "gpt2-bf16": encoder(8, 128, bf16, layers=12, hidden=768, heads=12, words=50257, causal=True),
        "vit-b16-bf16": encoder(8, 0, bf16, image=224, layers=12, hidden=768, heads=12),
        "resnet50-f32": resnet(8, 224, 64, (3, 4, 6, 3)),
        **checks(130),
    }
