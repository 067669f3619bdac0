"""Operators that are a few maps and reductions each: products, diagonals, losses of margins, histograms, quantiles, integrals."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from test_ops_pointwise import some

NAN, INF = float("nan"), float("inf")


def products(x, y, v, z):
    return (
        torch.inner(x, y),
        torch.tensordot(x, y, ([1], [1])),
        torch.tensordot(x, y, 0),
        torch.kron(x, y[:2, :3]),
        torch.kron(v, x),
        torch.vdot(v, v),
        torch.linalg.vecdot(x, y[:1]),
        torch.linalg.vecdot(z, z.mH.mT, dim=0),
        torch.addr(x, x[:, 0], v, beta=2, alpha=-0.5),
        torch.linalg.cross(x[:, :3], y[:1, :3]),
        torch.cross(x[:, 1:4], y[:4, :3], dim=1),
        torch.linalg.multi_dot([x, y.T, x, v]),
        torch.linalg.multi_dot([x, x.T, y.T.T]),
        (x @ y.T).matrix_power(3),
        torch.linalg.vander(v, N=4),
        torch.linalg.vander(v[0], N=2),
        z.mH,
        torch.adjoint(z) @ z,
        F.linear(z, z),
        torch.einsum("ij,kj->ik", z, z),
        torch.baddbmm(z[:1, :1].reshape(1, 1, 1), z.expand(2, 4, 5), z.mT.expand(2, 5, 4), beta=0.2 + 0.4j, alpha=-1.2j),
    )


def diagonals(x, v):
    return (
        torch.diag(v),
        torch.diag(v, -2),
        torch.diag(x, 1),
        torch.diag_embed(x, 1, 0, 2),
        torch.diag_embed(x, -2),
        torch.diagflat(x, 1),
        torch.block_diag(x, v, x[:1, :2]),
        torch.linalg.diagonal(x, offset=-1),
        torch.cartesian_prod(v, v[:2]),
        *torch.atleast_2d(v, x),
        *x.hsplit([2]),
        *x.vsplit(2),
        *x.tensor_split([2], 1),
        x.sum_to_size(1, 5),
        x.sum_to_size(5),
        x.clone().fill_diagonal_(3),
        x.reshape(-1, 2).clone().fill_diagonal_(-2, wrap=True),
        x[:3, :3, None].repeat(1, 1, 3).fill_diagonal_(0.5),
        x.t().contiguous().int().fill_diagonal_(7),
    )


def margins(x, y, t):
    signs = torch.where(y > 0, 1.0, -1.0)
    return (
        F.hinge_embedding_loss(x, signs),
        F.margin_ranking_loss(x, y, signs, 0.5),
        F.soft_margin_loss(x, signs, reduction="sum"),
        F.poisson_nll_loss(x, y.abs() * 3, full=True),
        F.cosine_embedding_loss(x, y, signs[:, 0], 0.1),
        F.triplet_margin_loss(x, y, y.flip(0), swap=True),
        F.multi_margin_loss(x, t, p=2, weight=y[0].abs(), reduction="none"),
        F.multilabel_margin_loss(x, torch.stack([t, t - 1, -torch.ones_like(t), t, t], 1)),
        torch.pdist(x),
        torch.renorm(x, 1.5, 0, 1.0),
        torch.dist(x, y, -1.0),
        F.pairwise_distance(x, y, p=INF),
        F.cosine_similarity(x, y, 0),
        F.rrelu(x),
    )


def orders(x, q):
    rows = torch.where(x > 1, NAN, x)
    return (
        x.quantile(q, dim=1),
        x.quantile(0.3),
        x.quantile(q, dim=0, keepdim=True, interpolation="nearest"),
        rows.quantile(q, dim=1, interpolation="higher"),
        rows.nanquantile(q, dim=1),
        x.nanquantile(0.5, dim=0, interpolation="midpoint"),
        *torch.histogram(x, 4),
        *torch.histogram(x, torch.tensor([-1.0, 0.0, 0.5, 2.0]), density=True),
        torch.histogramdd(x[:, :2], [3, 2]).hist,
        # What a decomposition makes of it.
        *torch.ops.aten._histogramdd_bin_edges(x[:, :2], [3, 2]),
        torch.ops.aten._histogramdd_from_bin_cts(x[:, :2], [3, 2], weight=x[:, 2], density=True),
        torch.ops.aten._histogramdd_from_bin_tensors(x[:, :2], [torch.tensor([-1.0, 0.0, 2.0])] * 2),
    )


def integrals(x, v):
    return (
        torch.trapezoid(x),
        torch.trapezoid(x, dx=0.5, dim=0),
        torch.trapezoid(x, v),
        torch.cumulative_trapezoid(x, v),
        torch.cumulative_trapezoid(x, dx=2.0, dim=0),
        *torch.gradient(x),
        *torch.gradient(x, spacing=0.5, edge_order=2),
        *torch.gradient(x, spacing=(v,), dim=1, edge_order=2),
        torch.diff(x[:, :1]),
        torch.diff(x, n=2),
    )


def areas(x, y, v):
    """Sums of neighbours wrap around in their own dtype, and an infinite sample at an end leaves no area."""
    far = torch.where(x[:2] > 100, INF, x[:2].float())
    return (
        *[
            f(t, *at)
            for f in (torch.trapezoid, torch.cumulative_trapezoid)
            for t in (x, y, far)
            for at in ((), (v,), (v.float(),), (x[1],))
        ],
        *torch.gradient(y, edge_order=2),
        *torch.gradient(v),
        *torch.gradient(v, spacing=0.5, edge_order=2),
        *torch.gradient(v, spacing=(torch.tensor([0, 1, 3, 4, 9]),), edge_order=2),
        *torch.gradient(v[:3], spacing=(torch.tensor([36, 104, -45], dtype=torch.int8),), edge_order=2),
        *torch.gradient(far[1], spacing=(torch.tensor([0.0, 1.0, 3.0, 4.0, 9.0]),)),
        F.poisson_nll_loss(v, v.flip(0), reduction="none"),
        F.poisson_nll_loss(y, y.flip(0).abs(), log_input=False),
        F.cosine_embedding_loss(y, y.flip(0), torch.tensor([1, -1, 1]), reduction="none"),
        *[F.pairwise_distance(t, t.flip(0), eps=eps) for t in (x, y, far) for eps in (1e-6, 0.0)],
        F.triplet_margin_loss(x, x.flip(0), x.flip(1), reduction="none"),
        torch.trapezoid(x[:, :1]),
        torch.trapezoid(x[:, :0]),
        torch.trapezoid(y[None].expand(2, *y.shape), x, dim=1),
        torch.cumulative_trapezoid(y, dx=2.5, dim=0),
    )


def segments(x, lengths, rows):
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    return (
        *[torch.segment_reduce(x, how, lengths=lengths) for how in ("sum", "mean", "max", "min", "prod")],
        torch.segment_reduce(x, "mean", offsets=offsets, initial=2),
        torch.segment_reduce(x[:2], "max", lengths=rows, axis=1),
        torch.segment_reduce(x, "sum", offsets=offsets.clamp(min=1), unsafe=True, initial=-1.5),
        torch.segment_reduce(x.bfloat16(), "mean", lengths=lengths),
    )


INPUTS = {
    segments: lambda: (some(6, 5), torch.tensor([2, 0, 3, 1]), torch.tensor([[1, 4, 0], [0, 2, 3]])),
    products: lambda: (some(4, 5), some(4, 5), some(5), torch.complex(some(4, 5), some(4, 5))),
    diagonals: lambda: (some(4, 5), some(5)),
    margins: lambda: (some(4, 5), some(4, 5), torch.tensor([2, 1, 4, 3])),
    orders: lambda: (some(6, 7), torch.tensor([0.0, 0.25, 0.9, 1.0])),
    integrals: lambda: (some(4, 6), some(6).cumsum(0)),
    areas: lambda: (
        torch.randint(0, 256, (3, 5), dtype=torch.uint8),
        torch.randint(-(2**31), 2**31, (3, 5), dtype=torch.int32),
        torch.randint(-128, 128, (5,), dtype=torch.int8),
    ),
}


@pytest.mark.parametrize("family", INPUTS, ids=lambda family: family.__name__)
def test_family(check_calls, family):
    check_calls(family, INPUTS[family](), rtol=2e-5, atol=2e-5)


class Dynamic(torch.nn.Module):
    def forward(self, x, y):
        return (
            torch.inner(x, y),
            torch.diag_embed(x, 1),
            torch.block_diag(x, y),
            torch.pdist(x),
            torch.trapezoid(x, dim=0),
            torch.cumulative_trapezoid(x),
            x.quantile(0.25, dim=0),
            F.soft_margin_loss(x, y),
            torch.renorm(x, 2, 0, 0.5),
            F.pairwise_distance(x, y),
            torch.tensordot(x, y, 2),
            F.unfold(x[None, None], 2, padding=1),
            torch._safe_softmax(x, 0),
        )


def test_dynamic_sizes(compile_and_compare):
    shapes = {0: Dim("n", min=3, max=64), 1: Dim("m", min=3, max=64)}
    compile_and_compare(
        Dynamic(),
        (some(4, 6), some(4, 6)),
        dynamic_shapes={"x": shapes, "y": shapes},
        rtol=2e-5,
        atol=2e-5,
        more_inputs=[(some(7, 3), some(7, 3)), (some(3, 17), some(3, 17))],
    )


def test_parts_of_floats(check_calls):
    values = torch.tensor([0.0, -0.0, 1.0, -2.5, 1e-45, -1e-40, 3e38, INF, -INF, NAN, 0.3333, 65504.0, 6e-8, 6.1e-5])
    cases = [(values.to(dtype), values.flip(0).to(dtype)) for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16)]
    check_calls(
        lambda a, b: (torch.nextafter(a, b), torch.nextafter(b, a), *torch.frexp(torch.where(a.isfinite(), a, 0.75)), a.float_power(2)),
        *cases,
        rtol=0,
        atol=0,
    )
    check_calls(lambda x, n: torch.ldexp(x, n), (some(5), torch.tensor([1, -3, 0, 20, -20])), rtol=0, atol=0)
    z = torch.complex(some(5), some(5))
    check_calls(
        lambda x, z, n: (torch.ldexp(z, n), torch.ldexp(x, z), torch.ldexp(z, z.to(torch.complex128))),
        (some(5), z, torch.arange(-2, 3)),
        rtol=2e-6,
        atol=2e-6,
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8], ids=str)
def test_common_divisors(check_calls, dtype):
    a, b = torch.tensor([0, 12, 7, 100, 36, 0, 1]).to(dtype), torch.tensor([0, 18, 0, 75, 12, 5, 127]).to(dtype)
    check_calls(lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)), (a, b), (-a, b))


def test_complex_reductions(check_calls):
    z = torch.complex(some(4, 5), some(4, 5))
    special = torch.tensor([complex(-INF, 1), complex(0, 0), complex(NAN, 0), complex(2, -3)])
    check_calls(
        lambda z: (
            z.var(),
            z.std(1),
            *torch.var_mean(z, 0),
            torch.linalg.vector_norm(z, 3, 1),
            torch.linalg.vector_norm(z, INF),
            z.logsumexp(0),
            torch.logcumsumexp(z, 1),
            torch.dist(z, z * 2),
            torch.lerp(z, z * 2, 0.7),
            F.silu(z),
            torch.isclose(z, z + 1e-9),
            torch.fft.hfftn(z),
            torch.fft.hfft2(z, norm="ortho"),
            torch.fft.ihfftn(z.real),
            torch.fft.ihfft2(z.imag),
        ),
        z,
        rtol=1e-5,
        atol=1e-5,
    )
    check_calls(lambda z, w: torch.logaddexp(z, w), (special, special.flip(0)), (z, z.conj().resolve_conj()), rtol=1e-5, atol=1e-5)


def test_complex_convolution(check_calls):
    z = torch.complex(some(2, 4, 9), some(2, 4, 9))
    check_calls(
        lambda z, w: (F.conv1d(z, w, padding=1, stride=2), F.conv1d(z, w[:, :2], groups=2)),
        (z, torch.complex(some(6, 4, 3), some(6, 4, 3))),
    )


def test_questions_of_dtypes_and_shapes(compile_and_compare):
    """Python has its answer when it exports; the program still asks."""

    class Ask(torch.nn.Module):
        def forward(self, x, i):
            y = x + 1 if x.is_same_size(i) else x
            z = i * 2 if torch.can_cast(x.dtype, i.dtype) else i * 3
            return (
                y,
                z,
                i.to(torch.result_type(x, i)),
                i.to(torch.result_type(i, 1.5)),
                x.to(torch.result_type(1j, x)),
                i.to(torch.result_type(1, 2.5)),
                x.to(torch.promote_types(x.dtype, torch.float64)),
            )

    compile_and_compare(Ask(), (some(3, 4), torch.arange(12).reshape(3, 4)))


def test_complex_powers_of_two(compile_and_compare):
    class Scale(torch.nn.Module):
        def forward(self, x, z, n, b):
            return (
                torch.ldexp(z, n),
                torch.ldexp(x, z),
                torch.ldexp(n, z),
                torch.ldexp(z, z),
                torch.ldexp(z.to(torch.complex128), x),
                b * 1j,
                b + z[0],
            )

    z = torch.complex(some(6), some(6, seed=1))
    compile_and_compare(Scale(), (some(6, seed=2), z, torch.tensor([0, 3, -2, 30, -140, 1]), some(6).bfloat16()), rtol=1e-5, atol=1e-6)


def test_running_statistics(compile_and_compare):
    """Training updates buffers, which the next run reads."""
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.InstanceNorm1d(4, track_running_stats=True, affine=True))

    class Trained(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, x):
            y = F.batch_norm(x, self.inner[0].running_mean, self.inner[0].running_var, training=True, momentum=0.3)
            y = F.instance_norm(y, self.inner[1].running_mean, self.inner[1].running_var, momentum=0.2)
            return (
                y,
                self.inner[0].running_mean * 1,
                self.inner[0].running_var * 1,
                self.inner[1].running_mean * 1,
                self.inner[1].running_var * 1,
            )

    # Eager mode and export share the module's buffers, so that only one run is comparable.
    compiled_inputs = (some(3, 4, 6),)
    compile_and_compare(Trained(), compiled_inputs, rtol=1e-5, atol=1e-5)


def test_cross_entropy(check_calls):
    scores, classes, weight = some(5, 4, 3), torch.randint(0, 4, (5, 3)), some(4).abs()
    classes[0, 1] = -100
    check_calls(
        lambda x, t, w: (
            tuple(F.cross_entropy(x, t, w, label_smoothing=0.2, reduction=reduction) for reduction in ("none", "mean", "sum"))
            + (
                F.cross_entropy(x, t, label_smoothing=0.1),
                F.cross_entropy(x, x.softmax(1), w, label_smoothing=0.3),
                F.cross_entropy(x[0, :, 0], x[1, :, 0].softmax(0)),
            )
        ),
        (scores, classes, weight),
    )


def test_frequencies_and_ranges(check_calls):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch.range
        check_calls(
            lambda x: (
                tuple(
                    f(n, d, dtype=dtype)
                    for n in (1, 8, 9)
                    for d, dtype in ((1.0, None), (0.3, torch.float64), (2.0, torch.bfloat16))
                    for f in (torch.fft.fftfreq, torch.fft.rfftfreq)
                )
                + (
                    torch.range(0, 5, 2),
                    torch.range(0, 4.9, 0.7, dtype=torch.float64),
                    torch.range(5, 0, -2, dtype=torch.int64),
                    torch.range(1, 4),
                    x,
                )
            ),
            some(2),
            rtol=1e-6,
            atol=0,
        )


def test_linear_cross_entropy(compile_and_compare):
    """The batch is not cut here; only results are as if it were."""

    class Losses(torch.nn.Module):
        def forward(self, x, w, t, b, c):
            options = torch.nn.modules.linear_cross_entropy_options.LinearCrossEntropyOptions(batch_chunk_size=4)
            loss = lambda *args, **named: F.linear_cross_entropy(*args, **named, options=options)
            return (
                loss(x, w, t),
                loss(x, w, t, linear_bias=b, weight=c, reduction="sum"),
                loss(x, w, t, weight=c, ignore_index=2),
                loss(x[0], w, t[0]),
                loss(x, w, t, linear_bias=b, weight=c, reduction="none"),
                loss(x, w, t, ignore_index=1, reduction="none"),
                loss(x.double(), w.double(), t),
            )

    classes = torch.randint(0, 6, (11,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        compile_and_compare(Losses(), (some(11, 8), some(6, 8), classes, some(6), some(6).abs()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer(compile_and_compare, norm_first):
    """The operator that TransformerEncoderLayer calls for inference, with each kind of mask; a row that is masked whole is NaN."""

    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            size = dict(batch_first=True, norm_first=norm_first, dropout=0)
            self.layers = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(12, 3, 20, activation=name, **size) for name in ("relu", "gelu")
            )

        def forward(self, x, pad):
            length = x.shape[1]
            later = torch.ones(length, length, dtype=torch.bool).triu(1)
            either = (later | pad[:, None, None]).expand(-1, 3, -1, -1)
            return [
                torch._transformer_encoder_layer_fwd(x, 12, 3, *self.weights(layer), mask, kind)
                for layer, mask, kind in zip(
                    list(self.layers) * 2, (None, pad, later, torch.zeros(either.shape).masked_fill(either, -torch.inf)), (None, 1, 0, 2)
                )
            ]

        def weights(self, layer):
            attention = layer.self_attn
            yield from (attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias)
            yield from (layer.activation is torch.nn.functional.gelu, norm_first, 1e-5)
            for module in (layer.norm1, layer.norm2, layer.linear1, layer.linear2):
                yield from (module.weight, module.bias)

    def inputs(batch, length):
        pad = torch.arange(length) >= torch.arange(batch, 0, -1)[:, None]
        pad[-1] = True
        return torch.randn(batch, length, 12), pad

    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", max=64)
    with torch.no_grad():
        shapes = ({0: batch, 1: length},) * 2
        compile_and_compare(Layers().eval(), inputs(3, 5), shapes, more_inputs=[inputs(2, 7), inputs(1, 1)])


class NativeAttention(torch.nn.Module):
    """With the weights of all heads, with their mean and without; masks of each kind; one input three times, and three."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(12, 3, batch_first=True)

    def attend(self, query, key, value, *rest):
        of = self.attention
        weights = of.in_proj_weight, of.in_proj_bias, of.out_proj.weight, of.out_proj.bias
        return torch._native_multi_head_attention(query, key, value, 12, 3, *weights, *rest)

    def forward(self, x, y, pad):
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return (
            *self.attend(x, x, x, None, True, True),
            *self.attend(x, x, x, later, True, False, 0),
            self.attend(x, x, x, pad, False, False, 1)[0],
            *self.attend(y, x, x),
            *self.attend(y, x + 1, x * 2, None, True, False),
        )


def test_native_attention(compile_and_compare):
    def inputs(batch, length):
        pad = (torch.arange(length) > 2).expand(batch, length).contiguous()
        return torch.randn(batch, length, 12), torch.randn(batch, length, 12), pad

    torch.manual_seed(0)
    batch, length = (torch.export.Dim(name, max=64) for name in ("batch", "length"))
    with torch.no_grad():
        shapes = ({0: batch, 1: length},) * 3
        compile_and_compare(NativeAttention().eval(), inputs(3, 5), shapes, more_inputs=[inputs(2, 7), inputs(1, 1)])


def test_unpooling_and_columns(check_calls):
    x = some(2, 3, 6, 8)
    check_calls(
        lambda x: (
            F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
            F.unfold(x, (2, 3), dilation=(1, 2), padding=1, stride=2),
            F.fold(F.unfold(x, 3, stride=2, padding=1), (6, 8), 3, stride=2, padding=1),
            F.interpolate(x.to(torch.uint8), scale_factor=2),
            F.avg_pool2d((x * 10).to(torch.int64), 2),
        ),
        x,
    )


def test_circular_padding_of_a_part(check_calls):
    check_calls(
        lambda x: (
            F.pad(x, (-2, 3, 0, 0), mode="circular"),
            F.pad(x, (2, -1, -1, 2), mode="circular"),
            F.pad(x, (-1, -2, 1, 1), mode="circular"),
        ),
        some(2, 3, 5, 6)[:, :, :4],
        rtol=0,
        atol=0,
    )


def test_one_hot(check_calls):
    check_calls(
        lambda x: F.one_hot(x, 9), torch.randint(0, 9, (3, 4)), torch.tensor(8), torch.zeros(0, 2, dtype=torch.int64), rtol=0, atol=0
    )


def test_many_distinct_elements(check_calls):
    check_calls(lambda x: torch.unique(x, return_inverse=True, return_counts=True), torch.randint(0, 3000, (9000,)), rtol=0, atol=0)


def test_distributions(compile_model):
    """What is drawn has the shares that the weights say."""

    class Draws(torch.nn.Module):
        def forward(self, weights, x):
            return (
                torch.multinomial(weights, 4000, replacement=True),
                torch.multinomial(weights, 2),
                torch.randn(4000, dtype=torch.complex64),
                F.alpha_dropout(x, 0.25, training=True),
                F.rrelu(-x.abs(), 0.1, 0.3, training=True),
            )

    weights, x = torch.tensor([1.0, 0.0, 3.0, 4.0]), torch.randn(4000)
    drawn, pair, complex_normal, dropped, leaky = (
        torch.as_tensor(value) for value in compile_model(Draws(), (weights, x)).model.run([weights, x])
    )
    shares = torch.bincount(drawn, minlength=4) / 4000
    assert (shares - weights / 8).abs().max() < 0.04 and shares[1] == 0
    assert pair[0] != pair[1] and 1 not in pair
    assert abs(complex_normal.abs().square().mean() - 1) < 0.1 and abs(complex_normal.mean()) < 0.05
    assert abs(dropped.mean()) < 0.1 and abs(dropped.std() - 1) < 0.1
    slopes = leaky / -x.abs()
    assert slopes.min() >= 0.1 - 1e-3 and slopes.max() <= 0.3 + 1e-3 and abs(slopes.mean() - 0.2) < 0.01


class Halves(torch.nn.Module):
    """What LLVM takes apart where a CPU has no instructions for narrow numbers: masks, strides, choices, conversions."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(33, 47)

    def forward(self, x, image):
        return (
            self.linear(x),
            x.amax(1),
            x.amax(0),
            x.var(1),
            x.cummax(1)[0],
            torch.maximum(x, x[:1]),
            x[:, ::3] * 2,
            x.flip(1),
            x.t().contiguous(),
            F.pad(x, (2, 3)),
            torch.where(x > 0, x, -x),
            F.max_pool2d(image, 3, 2, 1),
            x.long().to(x.dtype),
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_halves_without_instructions(compile_and_compare, dtype):
    torch.manual_seed(0)
    inputs = torch.randn(7, 33).to(dtype), torch.randn(2, 5, 11, 9).to(dtype)
    compile_and_compare(
        Halves().to(dtype),
        inputs,
        ({0: Dim("rows", min=1, max=100)}, None),
        rtol=2e-2,
        atol=2e-2,
        more_inputs=[(torch.randn(20, 33).to(dtype), inputs[1])],
        options=["--cpu=x86-64-v3"],
    )


def test_lists(compile_and_compare):
    """Operators on lists are those on each of their tensors."""

    class Lists(torch.nn.Module):
        def forward(self, x, y, z, n):
            a, b, w = [x, y, z], [x[:1] * 2, y + 1, z.abs()], [x * 0.5, y * 0.1, z * 0.2]
            f = torch
            new = [
                f._foreach_add(a, b, alpha=2),
                f._foreach_add(a, 3),
                f._foreach_add(a, [1.0, 2.0, 3.5]),
                f._foreach_add(a, y[0, 0], alpha=-1),
                f._foreach_sub(a, b),
                f._foreach_mul(a, b),
                f._foreach_mul(a, y[0, 0]),
                f._foreach_div(a, [2.0, 3.0, 4.0]),
                f._foreach_div([n], 2),
                f._foreach_clamp_min(a, 0.5),
                f._foreach_clamp_max(a, b),
                f._foreach_maximum(a, b),
                f._foreach_minimum(a, [0.1, 0.2, 0.3]),
                f._foreach_pow(b, 2),
                f._foreach_pow(2.0, a),
                f._foreach_pow(f._foreach_abs(a), b),
                f._foreach_lerp(a, w, 0.3),
                f._foreach_lerp(a, w, w),
                f._foreach_addcmul(a, w, w, 0.5),
                f._foreach_addcdiv(a, w, f._foreach_add(f._foreach_abs(w), 1), [1.0, 2.0, 3.0]),
                f._foreach_norm(a),
                f._foreach_norm(a, 1),
                f._foreach_max([y, z]),
                f._foreach_neg(a),
                f._foreach_sqrt(f._foreach_abs(a)),
                f._foreach_sigmoid(a),
                f._foreach_erf(a),
                f._foreach_sign(a),
                f._foreach_exp(a),
                f._foreach_reciprocal(b),
                torch.ops.aten._foreach_zero(a),
            ]
            # An optimizer's step, written to inputs and to what was made of them; views see it.
            p, g, m = [x, z], [x.cos(), z.sin()], [x * 0, z * 0]
            view = m[0].t()
            f._foreach_mul_(m, 0.9)
            f._foreach_lerp_(m, g, 0.1)
            f._foreach_addcmul_(m, g, g, value=0.2)
            f._foreach_addcdiv_(p, m, f._foreach_add(f._foreach_abs(g), 1e-3), value=-0.01)
            f._foreach_clamp_min_(p, -1.5)
            f._foreach_copy_(g, p)
            f._foreach_pow_([g[0]], 3)
            f._foreach_zero_([g[1]])
            f._foreach_neg_([m[0], m[0]])
            return new, p, g, m, view * 1

    n = torch.export.Dim("n", min=2, max=50)

    def inputs(rows):
        return some(rows, 5), some(2, 3, seed=1), some(4, seed=2), torch.arange(rows)

    compile_and_compare(Lists(), inputs(3), dynamic_shapes=({0: n}, {}, {}, {0: n}), more_inputs=[inputs(7)])
