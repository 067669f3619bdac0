"""Results have the same bits on any number of threads, wherever tensors lie, and in whatever batch a row is."""

import functools
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import kiln
import models
from conftest import TARGET, Compiled

pytestmark = pytest.mark.skipif(bool(TARGET), reason="threads and batches of CPUs")
MOST = 64
# Many small tasks, so that small programs are divided, too.
DIVIDED = ("--cpu-tune=task_time=1,least_task=1,task_cycles=64",)


class Rows(nn.Module):
    """Operators of every family, each of which computes row i of its result from row i of its inputs."""

    def __init__(self):
        super().__init__()
        self.narrow, self.wide, self.one = nn.Linear(37, 10), nn.Linear(37, 130), nn.Linear(37, 1)
        self.norm, self.table = nn.LayerNorm(37), nn.Embedding(50, 24)
        self.conv, self.strided = nn.Conv2d(3, 20, 3, padding=1), nn.Conv2d(3, 6, 5, stride=2, dilation=2)
        self.depthwise, self.pointwise, self.transposed = (
            nn.Conv2d(20, 20, 3, groups=20),
            nn.Conv2d(20, 9, 1),
            nn.ConvTranspose2d(3, 4, 3, 2),
        )
        self.batch_norm, self.group_norm = nn.BatchNorm2d(20), nn.GroupNorm(5, 20)
        self.heads, self.lstm, self.gru = (
            nn.MultiheadAttention(24, 3, batch_first=True),
            nn.LSTM(24, 12, batch_first=True),
            nn.GRU(24, 5, batch_first=True),
        )

    def pointwise_results(self, x, y):
        yield from (x + y * 3, torch.exp(x), torch.tanh(x), torch.erf(x), F.gelu(x), torch.sigmoid(y), F.softplus(x), torch.sin(x * 100))
        yield from (torch.log(y.abs()), torch.pow(y.abs(), x), torch.rsqrt(y.abs()), torch.atan2(x, y), F.silu(x) / y, torch.lgamma(y))

    def reductions(self, x, y):
        yield from (
            torch.softmax(x, -1),
            torch.log_softmax(y, -1),
            torch.logsumexp(x, -1),
            x.sum(-1),
            x.mean(-1),
            x.std(-1),
            y.norm(dim=-1),
        )
        yield from (
            x.cumsum(-1),
            y.prod(-1),
            x.sort(-1).values,
            y.topk(5, -1).values,
            x.amax(-1),
            F.cosine_similarity(x, y),
            torch.cdist(x[:, :, None], y[:, :, None]),
        )
        yield from (self.norm(x), F.rms_norm(y, (37,)), self.norm(self.wide(x)[:, 3:40] + y))

    def products(self, x, y, ids):
        rows = self.table(ids)
        yield from (
            self.narrow(x),
            self.one(y),
            F.gelu(self.wide(x)),
            self.narrow(torch.softmax(y, -1)),
            (x[:, None] @ y[:, :, None]).flatten(1),
        )
        yield from (
            x[:, :, None] @ y[:, None],
            rows @ rows.mT,
            rows.mT @ rows,
            rows @ self.table.weight[:7].t(),
            torch.einsum("bsd,bs->bd", rows, x[:, :11]),
        )
        yield from (
            self.heads(rows, rows, rows, need_weights=False)[0],
            F.scaled_dot_product_attention(rows, rows, rows * 2, is_causal=True),
        )
        yield from (self.lstm(rows)[0], self.gru(rows)[0][:, -1], F.embedding_bag(ids, self.table.weight, mode="sum"))

    def images(self, image):
        features = F.relu(self.conv(image))
        yield from (features, self.strided(image), self.depthwise(features), self.pointwise(features), self.transposed(image))
        yield from (F.gelu(self.batch_norm(features)), self.group_norm(features), F.max_pool2d(features, 3, 2), F.avg_pool2d(image, 2))
        yield from (features.mean((2, 3)), F.adaptive_avg_pool2d(image, 4), F.interpolate(image, scale_factor=1.7, mode="bilinear"))

    def forward(self, x, y, image, ids):
        return [*self.pointwise_results(x, y), *self.reductions(x, y), *self.products(x, y, ids), *self.images(image)]


def inputs():
    generator = torch.Generator().manual_seed(0)
    some = functools.partial(torch.randn, generator=generator)
    x, y = some(MOST, 37), some(MOST, 37)
    x[3, 4], x[9, 0], y[9, 1] = torch.nan, torch.inf, -torch.inf
    return x, y, some(MOST, 3, 19, 23), torch.randint(0, 50, (MOST, 11), generator=generator)


def run(path, tensors, threads):
    return [torch.as_tensor(output).clone() for output in kiln.load(path, threads=threads).run(list(tensors))]


def differing(first, second):
    """Numbers of the outputs that have other bits in the one than in the other."""
    equal = [torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) for a, b in zip(first, second, strict=True)]
    return [number for number, same in enumerate(equal) if not same]


def shifted(tensor, elements):
    """A copy that begins `elements` elements behind an aligned address."""
    memory = torch.empty(tensor.numel() + elements + 64, dtype=tensor.dtype)
    aligned = -(memory.data_ptr() // memory.element_size()) % 64
    copy = memory[(aligned + elements) % 64 :][: tensor.numel()].view(tensor.shape)
    return copy.copy_(tensor)


@pytest.fixture(scope="module", params=[(), DIVIDED], ids=["usual", "divided"])
def rows_path(request, tmp_path_factory):
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=MOST)
    compiled = Compiled(Rows().eval(), inputs(), tmp_path_factory.mktemp("rows"), ({0: batch},) * 4, request.param)
    return compiled.path


def test_batches(rows_path):
    """A row's results do not depend on the batch that it is in."""
    tensors = inputs()
    whole = run(rows_path, tensors, 1)
    for begin, end in ((0, 1), (9, 10), (63, 64), (0, 2), (3, 10), (31, 38)):
        part = run(rows_path, [tensor[begin:end].clone() for tensor in tensors], 1)
        assert differing(part, [output[begin:end] for output in whole]) == [], (begin, end)


def test_threads(rows_path):
    tensors = inputs()
    for rows in (MOST, 7):
        tensors = [tensor[:rows].clone() for tensor in tensors]
        first = run(rows_path, tensors, 1)
        for threads in (2, 3, 5, 8):
            for _ in range(3):
                assert differing(run(rows_path, tensors, threads), first) == [], threads


def test_alignments(rows_path):
    tensors = inputs()
    first = run(rows_path, tensors, 1)
    for elements in (1, 3, 8, 13):
        assert differing(run(rows_path, [shifted(tensor, elements) for tensor in tensors], 2), first) == [], elements


@pytest.mark.parametrize("name", ["bert-base", "mobilenet-v2", "convnext-tiny"])
def test_models(name, tmp_path):
    """Tiny configurations, divided among threads and with inputs that are not aligned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, tensors = models.build(name, tiny=True)
        path = Compiled(module.eval(), tensors, tmp_path / name, options=DIVIDED).path
    first = run(path, tensors, 1)
    for threads in range(2, 9):
        moved = [shifted(tensor, threads) for tensor in tensors]
        assert differing(run(path, moved, threads), first) == [], threads
