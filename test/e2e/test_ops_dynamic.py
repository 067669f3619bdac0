"""Operators at sizes that only the run knows, with arguments computed from sizes, as models write them: many in one program."""

import pytest
import torch
import torch.nn.functional as F

AUTO = torch.export.Dim.AUTO
CLOSE = dict(rtol=1e-4, atol=1e-4)


def to_multiples(x, n):
    """Padded so that n divides height and width."""
    return F.pad(x, (0, (n - x.shape[3] % n) % n, 0, (n - x.shape[2] % n) % n))


def positive(x):
    return x @ x.transpose(1, 2) + 9 * torch.eye(x.shape[1])


def rotary(x):
    angles = torch.outer(torch.arange(x.shape[1]).float(), 1e4 ** (-torch.arange(4) / 4))
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([x[..., :4] * cos - x[..., 4:] * sin, x[..., 4:] * cos + x[..., :4] * sin], -1)


def shifted(x):
    y = x.clone()
    y[:, 1:] = x[:, :-1]
    return y


def heads_of_unknown_size(x):
    mask = torch.ones(x.shape[2], x.shape[2]).triu(-2).bool()
    mask[1] = False
    wide = x.repeat(1, 1, 1, 600) * 0.1
    return (
        F.scaled_dot_product_attention(x, x, x),
        F.scaled_dot_product_attention(x, x[:, :2], x[:, 2:], is_causal=True, enable_gqa=True),
        F.scaled_dot_product_attention(x, x, x, mask, scale=0.3),
        F.scaled_dot_product_attention(wide, wide, x, mask.float()),
        F.scaled_dot_product_attention(x.bfloat16(), x.bfloat16(), x.bfloat16()).float() * 0.002,
    )


def written_reshaped(x):
    """What lies in memory row by row is reshaped without a copy."""
    y = x.clone()
    y.reshape(-1, 8)[0] = 1
    y.flatten()[::3] += 1
    y.contiguous().view(-1)[-1] = 5
    y.transpose(1, 2).reshape(-1).mul(2)
    return y, y.ravel() * 2


IMAGES = [  # [batch, 4, height, width]
    lambda x: F.adaptive_avg_pool2d(x, (x.shape[3] // 2, x.shape[2] // 2)),
    lambda x: (F.adaptive_max_pool2d(x, (3, 2)), F.lp_pool2d(x, 2, 2)),
    lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1),
    lambda x: (to_multiples(x, 8), F.pixel_unshuffle(to_multiples(x, 2), 2)),
    lambda x: to_multiples(x, 4).unflatten(3, (-1, 4)).unflatten(2, (-1, 4)).permute(0, 2, 4, 3, 5, 1).flatten(0, 1),
    lambda x: (F.pad(x, (1, 2, 2, 1), mode="reflect"), F.pad(x, (1, 2, 2, 1), mode="circular"), F.pad(x, (1, 2, 2, 1), mode="replicate")),
    lambda x: torch.stack(torch.meshgrid(torch.arange(x.shape[2]), torch.arange(x.shape[3]), indexing="ij")),
    lambda x: (torch.roll(x, (x.shape[2] // 2, -1), (2, 3)), torch.rot90(x, 1, (2, 3)), torch.fft.fftshift(x, dim=(2, 3))),
    lambda x: F.conv_transpose2d(x, torch.ones(4, 3, 3, 3), stride=2, padding=1, output_padding=1),
    lambda x: (F.group_norm(x, 2), F.instance_norm(x), F.local_response_norm(x, 3), F.channel_shuffle(x, 2)),
    lambda x: x.unfold(2, 3, 1).unfold(3, 3, 2).mean((-1, -2)),
    lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=x.shape[2:]),
    lambda x: F.interpolate(x[:, :, ::2, ::2], x.shape[2:]),
    lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False),
    heads_of_unknown_size,
]

SEQUENCES = [  # [batch, length, 8]
    lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    lambda x: (torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])).clamp(-4, 4) + x.shape[1],
    lambda x: torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1) + x @ x.transpose(1, 2),
    lambda x: (x.topk(x.shape[1] // 2, 1).values, x.kthvalue(x.shape[1] // 2, 1).values, x.sort(1, descending=True).values),
    lambda x: (x.cumsum(1), x.cummax(1), x.logcumsumexp(1), x.cumprod(1), x.diff(dim=1), torch.trapezoid(x, dim=1)),
    lambda x: F.embedding(torch.arange(x.shape[1]), torch.arange(256.0).view(64, 4)),
    lambda x: (x.repeat(1, x.shape[0], 2), x.repeat_interleave(3, 1), x.tile((x.shape[1], 1, 1)), x.flip(1)),
    lambda x: (x.split([x.shape[1] // 2, x.shape[1] - x.shape[1] // 2], 1), x.narrow(1, x.shape[1] // 3, x.shape[1] // 3)),
    lambda x: (x[:, -1], x[:, x.shape[1] // 2], x[:, -x.shape[1] // 2 :], x[:, ::3], x[:, torch.arange(x.shape[1] - 1, -1, -1)]),
    lambda x: (
        x.gather(1, x.argsort(1)),
        torch.zeros_like(x).scatter(1, x.argsort(1), x),
        torch.zeros_like(x).scatter_reduce(1, x.argsort(1), x, "amax"),
    ),
    lambda x: torch.zeros(4, 8).index_add(0, torch.arange(x.shape[1]) % 4, x[0]),
    lambda x: (x.index_put((torch.arange(x.shape[0]),), torch.tensor(1.0)), shifted(x)),
    lambda x: (x.select_scatter(x[:, 0] * 0, 1, x.shape[1] - 1), x.slice_scatter(x[:, :-1], 1, 1)),
    lambda x: (x.std(1), x.var(1, correction=0), x.norm(dim=1), x.median(1).values, x.quantile(0.3, 1), x.mode(1).values),
    lambda x: (x.amax(1), x.argmax(1), x.aminmax(dim=1), x.prod(1), x.any(1), x.all(1)),
    lambda x: (F.layer_norm(x, x.shape[1:]), F.rms_norm(x, (8,)), x.softmax(1), x.log_softmax(1)),
    lambda x: (
        F.cross_entropy(x[:, 0], torch.arange(x.shape[0])),
        F.smooth_l1_loss(x, -x),
        F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"),
    ),
    lambda x: (torch.cdist(x, x), torch.einsum("btd,bsd->bts", x, x)),
    lambda x: F.conv1d(x.transpose(1, 2), torch.ones(6, 8, 3), padding=1, stride=2),
    lambda x: torch.fft.rfft(x, dim=1).abs(),
    lambda x: (
        x.histc(8, -2, 2),
        torch.bucketize(x, torch.linspace(-1, 1, 9)),
        torch.searchsorted(x.sort(1).values[..., 0].contiguous(), x[..., 1].contiguous()),
    ),
    lambda x: (torch.diag_embed(x[:, :, 0]), positive(x).diagonal(dim1=1, dim2=2)),
    lambda x: x.masked_fill(torch.arange(x.shape[1])[:, None] > 2, 0),
    lambda x: x.contiguous().as_strided((x.shape[0], x.shape[1] - 2, 3, 8), (x.shape[1] * 8, 8, 8, 1)),
    lambda x: F.interpolate(x.transpose(1, 2), size=x.shape[1] * 2, mode="linear"),
    lambda x: (torch.linalg.solve(positive(x), x), torch.linalg.inv(positive(x)), torch.linalg.cholesky(positive(x))),
    lambda x: (
        rotary(x),
        x.movedim(0, 2).reshape(-1, x.shape[0]),
        x.reshape(x.shape[0], x.shape[1], 2, -1).transpose(1, 2).reshape(-1, x.shape[1], 4),
    ),
    lambda x: ((x > 0).nonzero(), torch.unique((x[..., 0] * 2).round())),
    lambda x: (
        torch.cat([x @ x.transpose(1, 2)] * 2),
        torch.cat([x[:, 0].cumsum(0), x[0], x[:, 0].cumsum(0)]),
        torch.stack([x.sum(1)] * 3),
    ),
    written_reshaped,
    lambda x: torch.tensor([x.shape[0], x.shape[1]]) * torch.tensor([1.5, x.shape[1]]),
    lambda x: (x / x.shape[1] ** 0.5, torch.ones(x.shape[1], 1) * x.shape[1] / (x.shape[0] + 1)),
]


class All(torch.nn.Module):
    """Each function has an input of its own, so that what export assumes for one concerns that one alone."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *inputs):
        return [leaf for function, x in zip(self.functions, inputs) for leaf in torch.utils._pytree.tree_leaves(function(x))]


@pytest.mark.parametrize(
    "functions,dims,sizes",
    [(IMAGES, (0, 2, 3), [(2, 4, 8, 10), (3, 4, 11, 7), (5, 4, 16, 16)]), (SEQUENCES, (0, 1), [(2, 6, 8), (3, 9, 8), (4, 17, 8)])],
    ids=["images", "sequences"],
)
def test_all(compile_and_compare, functions, dims, sizes):
    torch.manual_seed(0)
    first, *others = [tuple(torch.randn(size) for _ in functions) for size in sizes]
    compile_and_compare(All(functions), first, (tuple({dim: AUTO for dim in dims} for _ in functions),), more_inputs=others, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_heads_of_unknown_size(compile_model, dtype):
    """Weights of half precision are not rounded before they meet the values: most results are the nearest ones."""

    class Attention(torch.nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x)

    x = torch.randn(2, 3, 40, 24, generator=torch.Generator().manual_seed(0)).to(dtype)
    compiled = compile_model(Attention(), (x,), ((AUTO,) * 4,))
    nearest = Attention()(x.double()).to(dtype)
    assert (compiled.model(x) == nearest).float().mean() > 0.99


def test_heads_without_features(compile_and_compare):
    """Their scores are zeros, and the result a mean."""

    class Attention(torch.nn.Module):
        def forward(self, x, y):
            return F.scaled_dot_product_attention(x, x, y)

    few = [(torch.randn(1, 2, 3, n), torch.randn(1, 2, 3, 4)) for n in (5, 1, 0)]
    compile_and_compare(Attention(), few[0], ({3: AUTO}, {}), more_inputs=few[1:], **CLOSE)


@pytest.mark.parametrize("antialias", [False, True])
def test_bytes_of_unknown_size(compile_and_compare, antialias):
    """Weights of 16 bits, whose number of fractional bits is found in the run: exact."""

    class Resize(torch.nn.Module):
        def forward(self, x, like):
            resized = [
                F.interpolate(x, like.shape[2:], mode=mode, align_corners=corners, antialias=antialias)
                for mode in ("bilinear", "bicubic")
                for corners in (False, True)
            ]
            return (
                *resized,
                F.interpolate(x, scale_factor=0.37, mode="bilinear", antialias=antialias),
                F.interpolate(x, scale_factor=1.6, mode="bicubic", antialias=antialias),
            )

    sizes = [((20, 30), (10, 45)), ((41, 40), (41, 80)), ((64, 65), (33, 7))]
    cases = [
        tuple(torch.randint(0, 256, (1, 2, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)) for size in pair)
        for pair in sizes
    ]
    compile_and_compare(Resize(), cases[0], ({2: AUTO, 3: AUTO},) * 2, more_inputs=cases[1:], rtol=0, atol=0)
