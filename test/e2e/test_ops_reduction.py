"""Reductions and what is made of them: dimensions, empty and huge domains, NaN, ties, normalisation, softmax."""

import pytest
import torch
import torch.nn.functional as F

from test_ops_pointwise import integers, some

REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "prod": lambda x, *a, **k: torch.prod(x, *a, **k),
    "var": torch.var,
    "std": torch.std,
    "var_biased": lambda x, *a, **k: torch.var(x, *a, correction=0, **k),
    "logsumexp": torch.logsumexp,
    "norm": lambda x, *a, **k: torch.linalg.vector_norm(x, 2, *a, **k),
    "norm1": lambda x, *a, **k: torch.linalg.vector_norm(x, 1, *a, **k),
}
WHOLE = ["sum", "mean", "amax", "amin", "prod", "var", "std", "norm"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keepdim", [False, True])
def test_one_dimension(check_calls, name, keepdim):
    reduce = REDUCTIONS[name]
    x = some(7, 5, 33)
    check_calls(lambda x: tuple(reduce(x, dim, keepdim=keepdim) for dim in (0, 1, 2, -1)), x, x.permute(2, 0, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shared_reductions(check_calls, dtype):
    """What many elements share is computed once, by kernels of its own: along dims in front of others, with NaN and infinities."""
    x = some(2, 12, 31, 40).to(dtype)
    x[0, 3, 2, 1], x[0, 5, 4, 3], x[1, :, 6, 7] = float("nan"), float("inf"), -float("inf")
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    check_calls(
        lambda x: (
            torch.softmax(x, 1),
            torch.log_softmax(x, 1),
            (x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, keepdim=True) + 1e-5),
            x == x.amax((0, 1), keepdim=True),
            F.normalize(x, dim=1),
            F.batch_norm(x, None, None, training=True),
        ),
        x,
        x.permute(0, 1, 3, 2),
        x.contiguous(memory_format=torch.channels_last),
        **tolerance,
    )


STREAMED = {
    torch.float32: lambda x: (
        x.sum(0),
        x.amax(0),
        x.argmin(0),
        x.var(0),
        torch.softmax(x, 0),
        x.logsumexp(0),
        torch.median(x.sum(1), 0)[0],
    ),
    torch.float64: lambda x: (x.mean(0), *x.max(0), torch.log_softmax(x, 0), torch.linalg.vector_norm(x, 2, 0)),
    torch.bfloat16: lambda x: (x.sum(0), x.amax(0), torch.softmax(x, 0)),
    torch.int64: lambda x: (x.sum(0), *x.min(0), x.prod(0), x.argmax(0)),
    torch.uint8: lambda x: (x.sum(0), x.amax(0), x.to(torch.float32).mean(0)),
    torch.bool: lambda x: (x.sum(0), x.any(0), x.all(0)),
}


@pytest.mark.parametrize("dtype", STREAMED)
@pytest.mark.parametrize("shape", [(40, 30, 256), (67, 20, 1024), (3, 50, 17, 512)])
def test_streamed_reductions(check_calls, dtype, shape):
    """Elements that are reduced are a multiple of a page apart, more than caches have lines for: rows of a matrix, planes of an image."""
    shape = (*shape[:-1], shape[-1] * 4 // min(dtype.itemsize, 4))
    x = some(*shape).to(dtype) if dtype.is_floating_point else integers(dtype, *shape)
    if len(shape) == 4:
        x = x.transpose(0, 1)  # what is reduced is inside
    if dtype.is_floating_point:
        x[5, 2, 7], x[6, 1, 9], x[:, 0, 1] = float("nan"), float("inf"), -float("inf")
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    check_calls(STREAMED[dtype], x, **tolerance)


@pytest.mark.parametrize("name", [name for name in REDUCTIONS if name != "prod"])
def test_many_dimensions(check_calls, name):
    reduce = REDUCTIONS[name]
    check_calls(
        lambda x: (reduce(x, (0, 1)), reduce(x, (0, 2)), reduce(x, (-1, -2)), reduce(x, (0, 1, 2))), some(4, 9, 21), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", WHOLE)
def test_everything(check_calls, name):
    reduce = REDUCTIONS[name]
    inputs = [some(5), some(3, 17), some(2, 3, 4)]
    check_calls((lambda x: reduce(x)), *inputs, rtol=1e-4, atol=1e-5)


def test_long(check_calls):
    """So long that running sums in fp32 would be tens of units in the last place away."""

    def function(x):
        return (
            x.sum(-1),
            x.mean(-1),
            x.amax(-1),
            x.sum(0),
            x.mean(0),
            x.sum(),
            x.mean(),
            x.nansum(0),
            F.mse_loss(x, x * 0.5),
            F.l1_loss(x, x * 0.5),
            x.logsumexp(-1) * 0.1,
            torch.special.logsumexp(x, 0) * 0.1,
        )

    x = some(3, 100001, low=0, high=1)
    check_calls(function, x, x.t().contiguous(), rtol=5e-7, atol=0)
    check_calls(lambda x: F.group_norm(x, 2), some(1, 4, 50000, low=0, high=1), rtol=1e-6, atol=5e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_norms_of_matrices(check_calls, dtype):
    norm, matrix_norm, infinity = torch.linalg.norm, torch.linalg.matrix_norm, float("inf")

    def function(x):
        matrices = [
            matrix_norm(x, order, dims, keepdim=keep)
            for order in (1, -1, infinity, -infinity, "fro")
            for dims in ((-2, -1), (2, 0))
            for keep in (False, True)
        ]
        return (
            *matrices,
            norm(x),
            norm(x, dim=(0, 1)),
            norm(x, 1, (1, 2)),
            norm(x, "fro", (0, 1)),
            norm(x[0], -1),
            norm(x[0], "fro"),
            norm(x[0, 0], 3),
            norm(x[0, 0], 0),
        )

    check_calls(function, some(4, 5, 6).to(dtype) + (1j if dtype.is_complex else 0), rtol=1e-5, atol=1e-5)
    check_calls(lambda x: (norm(x, 1), norm(x, infinity), norm(x), norm(x, -1)), torch.zeros(0, 3, dtype=dtype))


def test_norms_of_one_element(check_calls):
    """The magnitude of the element, where its square or power would not be finite, or 0."""

    def function(x):
        norms = [torch.linalg.vector_norm(x, order, dim) for order in (2, 3, 0.5, -2, 1, 0) for dim in (1, (1, 2))]
        return *norms, F.normalize(x, dim=1), torch.linalg.vector_norm(x[:1, 0, 0], 2)

    x = torch.tensor([3e38, -1e30, 1e-30, -1e-44, 0.0, -2.0, float("inf"), float("nan")]).reshape(8, 1, 1)
    check_calls(function, x, rtol=1e-6, atol=0)


def test_empty(check_calls):
    check_calls(lambda x: (x.sum(0), x.sum(1), x.prod(0), x.sum(), x.any(0), x.all(0), x.mean(0)), some(0, 3))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_integers(check_calls, dtype):
    check_calls(
        lambda x: (x.sum(0), x.sum(), x.prod(1), x.amax(0), x.any(1), x.all(1), x.any(), x.all()), integers(dtype, 4, 7, low=-3, high=3)
    )


def test_index_of_extreme(check_calls):
    """Ties give the first one; NaN is the largest and the smallest."""
    ties = torch.tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [0.0, float("nan"), 5.0, float("nan")]])

    def function(x):
        return (
            x.argmax(-1),
            x.argmin(-1),
            x.argmax(0, keepdim=True),
            x.argmax(),
            *x.max(1),
            *x.min(1, keepdim=True),
            *x.max(0),
            *torch.aminmax(x, dim=1),
        )

    check_calls(function, ties, some(9, 33), torch.zeros(3, 1))


def test_not_a_number(check_calls):
    x = some(4, 6)
    x[1, 2] = float("nan")
    x[2, 3] = float("inf")
    check_calls(lambda x: (x.sum(-1), x.amax(-1), x.amin(-1), x.mean(0), x.amax(0)), x)


@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 3, 129), (1, 1), (4, 1000)])
def test_softmax(check_calls, shape):
    check_calls(
        lambda x: (F.softmax(x, -1), F.log_softmax(x, -1), F.softmax(x, 0), F.softmin(x, -1)),
        some(*shape, low=-20, high=20),
        rtol=1e-5,
        atol=1e-6,
    )


def test_softmax_extremes(check_calls):
    inf = float("inf")
    x = torch.tensor([[1e30, 0.0, 1.0], [-inf, 0.0, 1.0], [-inf, -inf, 3.0], [-1e30, -1e30, -1e30], [88.0, 89.0, 90.0], [-inf, -inf, -inf]])
    check_calls(lambda x: (F.softmax(x, -1), F.log_softmax(x, -1)), x)


@pytest.mark.parametrize("width", [1, 5, 64, 100, 769])
def test_layer_norm(check_calls, width):
    norm = torch.nn.LayerNorm(width)
    torch.nn.init.normal_(norm.weight), torch.nn.init.normal_(norm.bias)
    check_calls(
        lambda x: (norm(x), F.layer_norm(x, (width,)), F.layer_norm(x, (width,), norm.weight)),
        some(3, 7, width),
        modules=[norm],
        rtol=1e-4,
        atol=1e-5,
    )


def test_layer_norm_of_two_dimensions(check_calls):
    check_calls(lambda x: F.layer_norm(x, (4, 6), eps=1e-3), some(5, 4, 6), some(2, 3, 4, 6))


def test_layer_norm_far_from_zero(check_calls):
    """A mean much larger than the deviation: the variance must not be a difference of two large numbers."""
    check_calls(lambda x: F.layer_norm(x, (256,)), some(3, 256) + 1000, rtol=1e-3, atol=1e-3)


def test_moments_far_from_zero(check_calls):
    """In double precision, as ATen's: single gives three digits here."""

    def function(x):
        grouped = torch.ops.aten.native_group_norm(x, None, None, 2, 6, 39, 3, 1e-5)[1:]
        return (
            *torch.var_mean(x, 1),
            *torch.std_mean(x),
            torch.std(torch.complex(x, -x)),
            F.batch_norm(x, None, None, training=True),
            *grouped,
        )

    check_calls(function, some(2, 6, 39) + 3000, rtol=1e-5, atol=1e-4)


def test_sums_of_what_repeats(check_calls):
    """The body of such a reduction is outside of it."""

    def function(x):
        wide = x.expand(20, 3, 16, 2)
        return wide.sum(0) + x[0, 0], wide.sum((0, 1)), wide.prod(1).sum(0)

    check_calls(function, some(16, 2), torch.complex(some(16, 2), some(16, 2)), some(16, 2).long(), rtol=1e-5, atol=1e-5)


def test_logcumsumexp_of_many(check_calls):
    check_calls(lambda x: (x.logcumsumexp(0), torch.complex(x, x).logcumsumexp(0)), some(2000), rtol=1e-6, atol=1e-6)


def test_rms_norm(check_calls):
    norm = torch.nn.RMSNorm(48)
    torch.nn.init.normal_(norm.weight)
    check_calls(
        lambda x: (norm(x), norm.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))), some(2, 5, 48), modules=[norm]
    )


def test_rms_norm_of_complex_numbers(check_calls):
    check_calls(
        lambda x, w: (F.rms_norm(x, (6,), w), F.rms_norm(x.to(torch.complex128), (5, 6), eps=0.3)),
        (torch.complex(some(3, 5, 6), some(5, 6)), torch.complex(some(6), some(1))),
    )


def test_hash(check_calls):
    """Bits of f64, or of i64 for integers: exact."""
    x = some(4, 5, 6)
    x[0, 0, 0], x[1, 0, 0] = float("nan"), -0.0
    check_calls(
        lambda x: (
            tuple(
                torch.hash_tensor(y)
                for y in (
                    x,
                    x.double(),
                    x.nan_to_num().bfloat16(),
                    x.nan_to_num().half(),
                    x.nan_to_num().to(torch.int8),
                    x.nan_to_num().long(),
                    x > 0,
                    (x > 0).to(torch.uint8),
                )
            )
            + (torch.hash_tensor(x, dim=1), torch.hash_tensor(x, dim=(0, -1), keepdim=True))
        ),
        x,
        rtol=0,
        atol=0,
    )


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_group_norm(check_calls, groups):
    norm = torch.nn.GroupNorm(groups, 8)
    torch.nn.init.normal_(norm.weight), torch.nn.init.normal_(norm.bias)
    check_calls(norm, some(2, 8, 5, 3), some(1, 8, 10), modules=[norm], rtol=1e-4, atol=1e-5)


def test_batch_norm(check_calls):
    norm = torch.nn.BatchNorm2d(6).eval()
    for tensor in (norm.weight, norm.bias, norm.running_mean):
        torch.nn.init.normal_(tensor)
    torch.nn.init.uniform_(norm.running_var, 0.5, 2)
    check_calls(norm, some(2, 6, 5, 3), modules=[norm])
    check_calls(lambda x: F.relu(norm(x) + x), some(1, 6, 4, 4), modules=[norm])


def test_functional_batch_norm(check_calls):
    """The forms that return the new running statistics, which decomposed training graphs call."""
    aten = torch.ops.aten

    def legit(x, weight, bias, mean, var, training):
        return aten._native_batch_norm_legit_functional(x, weight, bias, mean, var, training, 0.2, 1e-5)

    for training in (True, False):
        case = (some(3, 4, 5), some(4), some(4), some(4), some(4).abs(), training)
        check_calls(lambda *a: legit(*a) if a[-1] else legit(*a)[::3], case, rtol=1e-4, atol=1e-5)
    check_calls(lambda x, mean, var: legit(x, None, None, mean, var, True)[3:], (some(7, 2), some(2), some(2).abs()))
    check_calls(
        lambda *a: [r for i, r in enumerate(aten._batch_norm_with_update_functional(*a, 0.1, 1e-5)) if i != 3],
        (some(3, 4, 5, 2), some(4), some(4), some(4), some(4).abs()),
        rtol=1e-4,
        atol=1e-5,
    )


def test_chained_reductions(check_calls):
    """A reduction of a reduction, and the same one read twice."""

    def function(x):
        row = x.sum(-1, keepdim=True)
        centred = x - row / x.shape[-1]
        return centred.pow(2).mean(-1).amax(0), row.sum(), centred / (centred.std(-1, keepdim=True) + 1)

    check_calls(function, some(4, 5, 37), rtol=1e-4, atol=1e-5)
