"""Programs of one kernel each, for what it is limited by: multiply-adds, memory, or what a function costs. fp32, one thread."""

import collections

# What a kernel is held to: `limit` is one of "fma", "read", "copy" and "eager", `work` the floating-point operations or bytes, and
# `goal` the least share of that rate; with "copy" the most time, with "eager" the most of eager PyTorch's.
Kernel = collections.namedtuple("Kernel", "family limit work goal build")


def _linear(rows, columns, steps, layers=1):
    """Weights that are constants; several layers one after the other."""

    def build(torch):
        chain = (torch.nn.Linear(steps, columns, bias=False) for _ in range(layers))
        return torch.nn.Sequential(*chain), (torch.randn(rows, steps),)

    return build


def _call(function, *shapes):
    """A function of tensors."""

    def build(torch):
        class Call(torch.nn.Module):
            def forward(self, *inputs):
                return function(torch, *inputs)

        return Call(), tuple(torch.randn(*shape) for shape in shapes)

    return build


def _product(rows, columns, steps, goal, layers=1):
    name = f"{rows}x{columns}x{steps}{f', {layers} times' if layers > 1 else ''}"
    work = 2 * rows * columns * steps * layers
    return {name: Kernel("products", "fma", work, goal, _linear(rows, columns, steps, layers))}


def _batched(count, side, goal=0.7):
    """Products of small matrices, both of them inputs."""
    shape = (count, side, side)
    build = _call(lambda torch, x, y: x @ y, shape, shape)
    return {f"{count} of {side}x{side}x{side}": Kernel("small products", "fma", 2 * count * side**3, goal, build)}


def _operands(name, function, *shapes, goal=0.85):
    """A product of two inputs, 256 rows, columns and steps."""
    return {f"256x256x256, {name}": Kernel("products", "fma", 2 * 256**3, goal, _call(function, *shapes))}


def _attention(heads, length, features, causal=False):
    shape = (1, heads, length, features)

    def attend(torch, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    name = f"{heads} heads, {length} of {features}{', causal' if causal else ''}"
    work = 4 * heads * length * length * features // (2 if causal else 1)
    return {name: Kernel("attention", "fma", work, 0.75, _call(attend, shape, shape, shape))}


def _rows(name, function, rows, columns):
    """Reads and writes each element once, as a copy does."""
    work = 4 * rows * columns
    return {f"{name}, {rows}x{columns}": Kernel("rows", "copy", work, 1.1, _call(function, (rows, columns)))}


def _norm(kind):
    def norm(torch, x):
        function = torch.nn.functional.layer_norm if kind == "layer" else torch.nn.functional.rms_norm
        return function(x, x.shape[-1:])

    return norm


def _function(name, function):
    return {f"{name}, 1024x1024": Kernel("functions", "eager", 1 << 20, 1, _call(function, (1024, 1024)))}


KERNELS = {
    **_product(1024, 1024, 1024, 0.95),
    **_product(128, 3072, 768, 0.95),
    **_product(512, 512, 512, 0.85),
    **_product(256, 256, 256, 0.85),
    # One after the other: a call costs more than the smallest of them.
    **_product(128, 128, 128, 0.85, layers=8),
    **_product(64, 64, 64, 0.85, layers=32),
    **_product(32, 32, 32, 0.85, layers=64),
    **_operands("two inputs", lambda torch, x, y: x @ y, (256, 256), (256, 256)),
    **_operands("left transposed", lambda torch, x, y: x.mT @ y, (256, 256), (256, 256)),
    **_operands("right transposed", lambda torch, x, y: x @ y.mT, (256, 256), (256, 256)),
    **_operands("every other column", lambda torch, x, y: x[:, ::2] @ y[:, ::2], (256, 512), (256, 512)),
    **_batched(4096, 4),
    **_batched(1024, 8),
    **_batched(256, 16),
    **_batched(96, 32),
    **_batched(24, 64),
    "1x8192x8192": Kernel("matrix times vector", "read", 4 * 8192 * 8192, 0.9, _linear(1, 8192, 8192)),  # more than caches hold
    **_attention(12, 128, 64),
    **_attention(12, 512, 64),
    **_attention(8, 1024, 128),
    **_attention(12, 1024, 64, causal=True),
    **_rows("softmax", lambda torch, x: torch.softmax(x, -1), 256, 256),
    **_rows("softmax", lambda torch, x: torch.softmax(x, -1), 4096, 1024),
    **_rows("layer norm", _norm("layer"), 256, 256),
    **_rows("layer norm", _norm("layer"), 4096, 1024),
    **_rows("rms norm", _norm("rms"), 256, 256),
    **_rows("rms norm", _norm("rms"), 4096, 1024),
    **_rows("add", lambda torch, x: x + 1, 4096, 1024),
    **_function("exp", lambda torch, x: torch.exp(x)),
    **_function("tanh", lambda torch, x: torch.tanh(x)),
    **_function("erf", lambda torch, x: torch.erf(x)),
    **_function("gelu", lambda torch, x: torch.nn.functional.gelu(x)),
}
# As they are named among all programs, whose folders have these names.
PREFIX = "kernel "
NAMES = [PREFIX + name for name in KERNELS]


def build(name):
    """(module in eval mode, tuple of inputs)."""
    import torch

    module, inputs = KERNELS[name.removeprefix(PREFIX)].build(torch)
    return module.eval().requires_grad_(False), inputs
