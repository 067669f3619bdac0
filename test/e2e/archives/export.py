"""Exports the programs of test_archives.py with the PyTorch at hand: torch-VERSION.tar.xz, beside this file or in the folder given.

For each program NAME.pt2 and NAME.npz, in which `K/in/I` and `K/out/I` are the flat inputs and outputs of the K-th run, and
`K/after/I` what an input became that the program writes."""

import copy
import io
import pathlib
import sys
import tarfile

import numpy
import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree


class Mlp(nn.Module):
    """Parameters, two of them one."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.LayerNorm(6)
        self.second.weight = self.first.weight

    def forward(self, x):
        return torch.softmax(self.second(self.norm(torch.relu(self.first(x)))), -1)


class Dynamic(nn.Module):
    """Sizes that are expressions, an integer as input, and sizes and a float that data gives."""

    def forward(self, x, y, n):
        rows = x.shape[0]
        pairs = x.reshape(rows // 2, 2, -1).sum(1)
        count = y.max().item()
        torch._check(count >= 1)
        torch._check(count <= 100)
        joined = torch.cat([pairs, pairs.flip(0)[: rows // 4]])
        return joined, torch.ones(count) * n, torch.nonzero(y), x * x.sum().item(), rows * 2 + n


class Mutating(nn.Module):
    """Buffers that keep what they became, and an input that is written."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x, cache):
        self.steps.add_(1)
        cache[:, 1].add_(x.sum())
        return self.norm(x) * self.steps, self.norm.running_mean + 0


class Branches(nn.Module):
    """Nested graphs: branches, a loop, and a region without gradients."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.5, 2.5, -1.0]))

    def forward(self, x, flag):
        def body(i, x):
            return i + 1, x * 1.25

        x = torch.cond(flag, lambda x: x.sin() * self.scale, lambda x: x.cos() + x.shape[0], (x,))
        with torch.no_grad():
            x = x + self.scale
        _, x = torch.while_loop(lambda i, x: (i < 4) & (x.sum() < 100), body, (torch.tensor(0), x))
        return x


class Types(nn.Module):
    """Constants of every dtype and layout: transposed, a part of something larger, empty, a number."""

    dtypes = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]

    def __init__(self):
        super().__init__()
        for dtype in self.dtypes:
            self.register_buffer(f"of_{dtype}".replace(".", "_"), (torch.arange(6) * 21).reshape(2, 3).to(dtype))
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("phase", torch.tensor([1 + 2j, -0.5j, 3], dtype=torch.complex64))
        self.register_buffer("turned", torch.arange(6.0).reshape(3, 2).t())
        self.register_buffer("part", torch.arange(20.0)[5:17:2].reshape(2, 3))
        self.register_buffer("small", torch.tensor([0.5, -2.0, 448.0]).to(torch.float8_e4m3fn))
        self.register_buffer("hidden", torch.full((3,), 0.125), persistent=False)
        self.nothing = nn.Parameter(torch.empty(0, 3))
        self.constant = torch.tensor([3, 1, 2])

    def forward(self, x, i):
        wide = [getattr(self, f"of_{dtype}".replace(".", "_")) for dtype in self.dtypes]
        sums = [(value + i).to(torch.float64) for value in wide]
        real = torch.where(self.mask, x, -x) + self.turned * self.part + self.hidden + self.small.to(torch.float32)
        return *sums, real, x * self.phase, torch.cat([x, self.nothing]), x[:, self.constant - 1], ~self.mask, wide[7] // 2


class Layers(nn.Module):
    """Convolution, normalisation and attention."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        y = nn.functional.gelu(self.norm(self.convolution(x))).flatten(2).transpose(1, 2)
        return self.attention(y, y, y, need_weights=False)[0]


class Nested(nn.Module):
    """Arguments and results that hold others, keywords, None and a number."""

    def forward(self, pair, *, table):
        a, b = pair
        return {"sum": a + table["x"], "none": None, "two": 2, "rest": [b * table["y"], (a - b).abs()]}


def programs():
    """name -> module, runs (args, kwargs), options of export, whether it is decomposed before it is saved"""
    torch.manual_seed(0)
    rows, wide = Dim("rows", min=2, max=64), Dim("wide", min=2, max=50)
    y = torch.tensor([0, 2, 3, 0])
    dynamic = [
        ((torch.randn(8, 3), y, 5), {}),
        ((torch.randn(16, 7), torch.tensor([1]), 2), {}),
        ((torch.randn(12, 2), torch.zeros(9, dtype=torch.int64) + 4, 3), {}),
    ]
    shapes = ({0: 4 * rows, 1: wide}, {0: Dim("length", min=1)}, Dim.DYNAMIC)
    nested = [(((torch.randn(2, 3), torch.randn(2, 3)),), {"table": {"x": torch.randn(3), "y": torch.randn(2, 1)}})]
    images = [((torch.randn(2, 2, 8, 8),), {})]
    return {
        "mlp": (Mlp(), [((torch.randn(3, 6),), {})], {"strict": True}, False),
        "dynamic": (Dynamic(), dynamic, {"dynamic_shapes": shapes}, False),
        "mutating": (Mutating().train(), [((torch.randn(4, 3), torch.zeros(2, 2)), {})] * 2, {}, False),
        "mutating-decomposed": (Mutating().train(), [((torch.randn(4, 3), torch.zeros(2, 2)), {})] * 2, {}, True),
        "branches": (Branches(), [((torch.randn(3), torch.tensor(flag)), {}) for flag in (True, False)], {}, False),
        "types": (Types(), [((torch.randn(2, 3), torch.tensor(7, dtype=torch.int16)), {})], {}, False),
        "layers": (Layers().eval(), images, {"dynamic_shapes": ({0: Dim("batch", min=1)},)}, False),
        "layers-decomposed": (Layers().eval(), images, {}, True),
        "nested": (Nested(), nested, {}, False),
    }


def leaves(value):
    return [leaf for leaf in pytree.tree_leaves(value) if leaf is not None]


def main(folder):
    version = torch.__version__.split("+")[0]
    path = pathlib.Path(folder) / f"torch-{version}.tar.xz"
    with tarfile.open(path, "w:xz", preset=9) as archive:

        def add(name, data):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))

        for name, (module, runs, options, decomposed) in programs().items():
            args, kwargs = copy.deepcopy(runs[0])
            program = torch.export.export(copy.deepcopy(module), args, kwargs, **options)
            if decomposed:
                program = program.run_decompositions({})
            saved = io.BytesIO()
            torch.export.save(program, saved)
            add(f"{name}.pt2", saved.getvalue())
            arrays = {}
            for run, (args, kwargs) in enumerate(copy.deepcopy(runs)):
                flat = leaves((args, kwargs))
                for i, leaf in enumerate(flat):
                    arrays[f"{run}/in/{i}"] = numpy.array(leaf)
                with torch.no_grad():
                    outputs = leaves(module(*args, **kwargs))
                for i, leaf in enumerate(outputs):
                    arrays[f"{run}/out/{i}"] = numpy.array(leaf)
                for i, leaf in enumerate(flat):
                    if not numpy.array_equal(numpy.array(leaf), arrays[f"{run}/in/{i}"]):
                        arrays[f"{run}/after/{i}"] = numpy.array(leaf)
            expected = io.BytesIO()
            numpy.savez(expected, **arrays)
            add(f"{name}.npz", expected.getvalue())
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
