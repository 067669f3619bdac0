"""Constants behind random chains of views and maps, in front of everything that reads tensors: folded when the model is compiled,
and again when they are replaced."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch._higher_order_ops.map import map as map_loop
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import kiln
from conftest import TARGET

FLOATS = (torch.float32, torch.float32, torch.float32, torch.bfloat16, torch.float64)
OTHERS = (torch.int64, torch.int8, torch.bool, torch.complex64)


def make_value(shape, dtype):
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(-9, 9, shape).to(dtype)
    return torch.randn(shape, dtype=torch.float64 if not dtype.is_complex else dtype).to(dtype)


# Each takes (a generator, a tensor of at least one dim) and returns a function of such a tensor.


def permute(pick, t):
    order = pick.sample(range(t.dim()), t.dim())
    return lambda t: t.permute(order)


def reshape(pick, t):
    if t.dim() == 1 and t.shape[0] % 2 == 0:
        return lambda t: t.reshape(2, t.shape[0] // 2)
    dim = pick.randrange(max(t.dim() - 1, 1))
    return lambda t: t.flatten(dim, min(dim + 1, t.dim() - 1))


def slice_one(pick, t):
    dim = pick.randrange(t.dim())
    start, step = pick.randrange(max(t.shape[dim] // 2, 1)), pick.choice((1, 1, 2))
    return lambda t: t[(slice(None),) * dim + (slice(start, None, step),)]


def flip(pick, t):
    dim = pick.randrange(t.dim())
    return lambda t: t.flip(dim)


def expand(pick, t):
    dim = pick.randrange(t.dim() + 1)
    sizes = [*t.shape[:dim], 2, *t.shape[dim:]]
    return lambda t: t.unsqueeze(dim).expand(sizes)


def pad(pick, t):
    left, right = pick.randrange(3), pick.randrange(3)
    return lambda t: F.pad(t, (left, right), value=1)


def cat(pick, t):
    dim = pick.randrange(t.dim())
    return lambda t: torch.cat([t, t.flip(dim)], dim)


def roll(pick, t):
    dim = pick.randrange(t.dim())
    return lambda t: t.roll(1, dim)


def relu(pick, t):
    return torch.logical_not if t.dtype == torch.bool else lambda t: t * t if t.is_complex() else t.relu()


def scale(pick, t):
    return lambda t: t ^ True if t.dtype == torch.bool else t * 2 + 1


def softmax(pick, t):
    dim = pick.randrange(t.dim())
    return lambda t: t.softmax(dim) if t.is_floating_point() else t.sum(dim, keepdim=True).to(t.dtype) + t


VIEWS = (permute, permute, reshape, slice_one, flip, expand, pad, cat, roll)
LINKS = (*VIEWS, relu, scale, softmax)


def real(t):
    return t.real if t.is_complex() else t


def matrix(t):
    return t if t.dim() == 2 else t.reshape(t.shape[0], -1) if t.numel() else t.reshape(t.shape[0], 0)


# Each: (the shape of the run's input for a matrix of r rows and c columns, the result for the matrix and the input).
PRODUCTS = {
    "left": (lambda r, c: (c, 7), lambda t, x: t @ x),
    "right": (lambda r, c: (5, r), lambda t, x: x @ t),
    "linear": (lambda r, c: (20, c), lambda t, x: F.linear(x, t)),
    "bias": (lambda r, c: (r, 3), lambda t, x: torch.addmm(t, x, x[:1].t().expand(3, t.shape[1]))),
    "kernel": (lambda r, c: (2, c, 4, 5), lambda t, x: F.conv2d(x, t[:, :, None, None])),
    "window": (lambda r, c: (1, 1, 9, 8), lambda t, x: F.conv2d(x, t.reshape(1, 1, *t.shape), padding=tuple(t.shape))),
    "image": (lambda r, c: (3, 1, 2, 2), lambda t, x: F.conv2d(t[None, None], x, padding=1)),
    "query": (lambda r, c: (1, 2, 6, c), lambda t, x: F.scaled_dot_product_attention(t.expand(1, 2, *t.shape), x, x)),
    "key": (lambda r, c: (1, 2, r, c), lambda t, x: F.scaled_dot_product_attention(x, t.expand(1, 2, *t.shape), x)),
    "value": (lambda r, c: (1, 2, r, 4), lambda t, x: F.scaled_dot_product_attention(x, x, t.expand(1, 2, *t.shape))),
    "mask": (
        lambda r, c: (1, 2, max(r, c), 4),
        lambda t, x: F.scaled_dot_product_attention(x[:, :, : t.shape[0]], x[:, :, : t.shape[1]], x[:, :, : t.shape[1]], t),
    ),
    "softmax": (lambda r, c: (r, c), lambda t, x: (t + x).softmax(0)),
}
READS = {
    "sum": (lambda r, c: (c,), lambda t, x: t.sum(0) + x),
    "sort": (lambda r, c: (c,), lambda t, x: torch.sort(real(t + x), stable=True, dim=0)[0]),
    "cumsum": (lambda r, c: (c,), lambda t, x: (t + x).cumsum(1)),
    "index": (lambda r, c: (r, c), lambda t, x: t[(real(x)[:, 0] * 7).long().abs() % t.shape[0]]),
    "scatter": (lambda r, c: (r, c), lambda t, x: t.scatter(0, (real(x) * 7).long().abs() % t.shape[0], x.to(t.dtype))),
    "target": (lambda r, c: (r, c), lambda t, x: x.index_add(0, real(t)[:, 0].long().abs() % t.shape[0], x)),
    "while": (
        lambda r, c: (r, c),
        lambda t, x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, (y + t.flip(0)).to(y.dtype)), (torch.tensor(0), x))[1],
    ),
    "scan": (lambda r, c: (4, r, c), lambda t, x: scan(lambda y, one: (y + one, (y * 2 + t.flip(0)).to(y.dtype)), x[0].clone(), x)[1]),
    "map": (lambda r, c: (4, r, c), lambda t, x: map_loop(lambda one, u: one + u.flip(0), x, t)),
    "cond": (
        lambda r, c: (r, c),
        lambda t, x: torch.cond(
            real(x).sum() > 0, lambda t, x: (t.flip(0) + x).contiguous(), lambda t, x: (x + t.flip(0) * 2).contiguous(), (t, x)
        ),
    ),
}


class Chains(torch.nn.Module):
    """Each constant with its links and its use; run input i belongs to constant i."""

    def __init__(self, seed, count):
        super().__init__()
        pick = random.Random(seed)
        self.chains, self.inputs = [], []
        for number in range(count):
            isFloat = pick.random() < 0.7
            dtype = pick.choice(FLOATS if isFloat else OTHERS)
            shape = [pick.choice((1, 2, 3, 4, 6, 16, 17)) for _ in range(pick.choice((1, 2, 2, 3, 3, 4)))]
            constant = make_value(shape, dtype)
            kind = pick.choice(("parameter", "buffer", "lifted", "mutated")) if isFloat else "buffer"
            if kind == "parameter":
                self.register_parameter(f"c{number}", torch.nn.Parameter(constant, requires_grad=False))
            elif kind == "lifted":
                setattr(self, f"c{number}", [constant])
            else:
                self.register_buffer(f"c{number}", constant)
            links, t = [], constant
            for link in (pick.choice(LINKS) for _ in range(pick.randrange(5))):
                if t.numel() > 4096:
                    link = slice_one
                links.append(link(pick, t))
                t = links[-1](t)
            t = matrix(t)
            uses = {**PRODUCTS, **READS} if isFloat else READS
            use = pick.choice(list(uses))
            size, apply = uses[use]
            self.inputs.append(make_value(size(*t.shape), torch.float32 if dtype == torch.bool else dtype))
            self.chains.append((kind, links, apply, use))

    def forward(self, *inputs):
        results = []
        for number, (x, (kind, links, apply, _)) in enumerate(zip(inputs, self.chains)):
            constant = getattr(self, f"c{number}")
            t = constant[0] if kind == "lifted" else constant
            for link in links:
                t = link(t)
            results.append(apply(matrix(t), x))
            if kind == "mutated":
                constant.add_(1)
        return results


def check(model, module, inputs, seed):
    with torch.no_grad():
        expected = module(*inputs)
    for number, (got, want) in enumerate(zip(model(*inputs), expected)):
        kind, _, _, use = module.chains[number]
        wide = want.dtype == torch.bfloat16
        torch.testing.assert_close(
            got,
            want,
            rtol=3e-2 if wide else 1e-4,
            atol=1e-1 if wide else 1e-4,
            equal_nan=True,
            msg=lambda text, case=f"seed {seed}, constant {number} ({kind}) as {use}": f"{case}: {text}",
        )


@pytest.mark.parametrize("seed", range(4))
def test_chains(compile_model, seed):
    torch.manual_seed(seed)
    module = Chains(seed, 16)
    compiled = compile_model(module, tuple(module.inputs))
    model = kiln.load(compiled.path)
    check(model, module, module.inputs, seed)
    for name, constant in module.named_buffers():
        constant.copy_(make_value(constant.shape, constant.dtype))
        model.set_constant(name, constant)
    for name, constant in module.named_parameters():
        constant.data.copy_(make_value(constant.shape, constant.dtype))
        model.set_constant(name, constant.detach())
    check(model, module, module.inputs, seed)


class Repeated(torch.nn.Module):
    """One weight in many layers, in both branches of a condition, in a loop and behind it."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(192, 192)  # whole panels on every CPU
        self.first, self.conv = torch.nn.Conv2d(12, 96, 3, padding=1), torch.nn.Conv2d(96, 96, 3, padding=1)

    def forward(self, x):
        for _ in range(4):
            x = F.gelu(self.linear(x))
        x = torch.cond(x.sum() > 0, lambda x: self.linear(x).relu(), lambda x: self.linear(x - 1), (x,))
        image = self.first(x[:64].reshape(1, 12, 32, 32))
        return self.linear(x), self.linear(x[:1]), self.conv(self.conv(image).relu())


@pytest.mark.parametrize("shape", [None, {"x": {0: torch.export.Dim("rows", min=64, max=4096)}}], ids=["static", "dynamic"])
def test_stored_once(compile_model, shape):
    torch.manual_seed(0)
    module, x = Repeated(), torch.randn(96, 192)
    compiled = compile_model(module, (x,), dynamic_shapes=shape, options=["--weights=external"])
    stored = sum(constant.numel() for constant in module.state_dict().values()) * 4
    assert compiled.path.with_name("model.so.safetensors").stat().st_size < stored + 8192  # the file's head, and alignment
    model = kiln.load(compiled.path)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(model(x), module(x), rtol=1e-4, atol=1e-4)
            for name, constant in module.state_dict().items():
                constant.normal_(std=0.1)
                model.set_constant(name, constant)


class Tied(torch.nn.Module):
    """The table of an embedding is the weight of the head, whose last panel is not full."""

    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(4099, 64), torch.nn.Linear(64, 4099, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        return self.head(self.table(tokens)), self.table.weight[tokens - 4096].relu()


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3"])
def test_tied_table(compile_model, cpu):
    torch.manual_seed(0)
    module, tokens = Tied(), torch.tensor([0, 1, 4097, 4098])
    compiled = compile_model(module, (tokens,), options=["--weights=external", f"--cpu={cpu}"])
    if not TARGET:
        assert compiled.path.with_name("model.so.safetensors").stat().st_size < 4224 * 64 * 4 + 8192
    model = kiln.load(compiled.path)
    for name in ("table.weight", "head.weight"):
        torch.testing.assert_close(model(tokens), module(tokens), rtol=1e-4, atol=1e-4)
        module.table.weight.data.normal_()
        model.set_constant(name, module.table.weight.detach())
    torch.testing.assert_close(model(tokens), module(tokens), rtol=1e-4, atol=1e-4)
    for wrong in (4099, 4100, 4127, 4128, -4, 1 << 40):
        with pytest.raises(kiln.KilnError, match="out of range"):
            model(torch.tensor([0, 1, wrong, 2]))
            model(tokens)  # which a GPU's error may wait for


VALUES = (0.0, -0.0, 1.0, -1.0, 0.5, float("inf"), float("-inf"), float("nan"))
OF_ONE = "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt erf erfc floor ceil trunc round abs sgn sigmoid reciprocal angle"
OF_TWO = "atan2 pow fmod remainder hypot copysign maximum minimum fmax fmin div logaddexp"


class Special(torch.nn.Module):
    """Functions of numbers that are known when the model is compiled, inside of kernels: folded, one by one."""

    def forward(self, x):
        def number(value):
            return torch.full((1,), value, dtype=x.dtype)

        results = [torch.cat([getattr(torch, name)(number(value)) for value in VALUES]) for name in OF_ONE.split()]
        few = [value for value in VALUES if value not in (0.5, float("-inf"))]
        for name in OF_TWO.split():
            results.append(torch.cat([getattr(torch, name)(number(a), number(b)) for a in few for b in few]))
        return results


def test_special_values_fold(compile_model):
    x = torch.zeros(1)
    model = kiln.load(compile_model(Special(), (x,)).path)
    names = OF_ONE.split() + OF_TWO.split()
    for name, actual, expected in zip(names, model(x), Special()(x), strict=True):
        actual = torch.from_dlpack(actual) if not isinstance(actual, torch.Tensor) else actual
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-7, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")
        if not name.endswith(("max", "min", "imum")):  # where zeros of both signs are equal
            assert torch.equal(actual.signbit() | actual.isnan(), expected.signbit() | expected.isnan()), name


class Interpolated(torch.nn.Module):
    """A table of another size than the image, as position embeddings are."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("table", torch.randn(1, 5, 6, 16))

    def forward(self, x):
        return x + F.interpolate(self.table, scale_factor=1.5, mode="bilinear", align_corners=True)


def test_interpolated_constant(compile_and_compare):
    compile_and_compare(Interpolated(), (torch.randn(2, 5, 9, 24),))
