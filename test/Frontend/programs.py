"""Small programs that between them use most of what a .pt2 file can hold."""

import torch
from torch import nn


class Layers(nn.Module):
    """Parameters (two of them tied), buffers, lists, optional tensors, dtypes, None and a constant as outputs."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("table", torch.arange(12.0).reshape(3, 4))
        self.register_buffer("hidden", torch.ones(4), persistent=False)
        self.register_buffer("turned", torch.arange(6.0).reshape(2, 3).t())
        self.constant = torch.tensor([True, False, True, True])

    def forward(self, x, flag, optional, scale):
        y = self.second(torch.relu(self.first(x)))
        a, b = torch.split(y, 2, dim=1)
        y = torch.cat([a, b], dim=1) * scale + self.hidden
        y = torch.where(self.constant, y, self.table[torch.tensor([0, 1])])
        y = y.to(torch.float64, memory_format=torch.contiguous_format) + torch.full((2, 4), float("inf"))
        if flag:
            y = y + self.turned.sum()
        return {"y": y, "none": None, "seven": 7}, torch.zeros(2, dtype=torch.int32, device="cpu"), x[:, None]


class Dynamic(nn.Module):
    """Symbolic sizes, computed sizes, an unbacked symbol and a float read from data."""

    def forward(self, x, y):
        n = x.shape[0]
        z = x.reshape(n // 2, 2, -1).sum(1)
        count = y.max().item()
        torch._check(count >= 1)
        torch._check(count <= 1000)
        padded = torch.nn.functional.pad(z, (0, n % 3))
        return padded, torch.ones(count), torch.nonzero(y), x * x.sum().item(), n * 2 + 1


class Branches(nn.Module):
    """Nested graphs."""

    def forward(self, x):
        def positive(x):
            return torch.cond(x.mean() > 1, lambda x: x * 2, lambda x: x * 3, (x,))

        def body(i, x):
            return i + 1, x * 2

        x = torch.cond(x.sum() > 0, positive, lambda x: x - 1, (x,))
        _, x = torch.while_loop(lambda i, x: i < 3, body, (torch.tensor(0), x))
        return x


class Mutating(nn.Module):
    """A buffer and an input that are assigned."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.steps.add_(1)
        x.mul_(2)
        return x + self.steps


class Printing(nn.Module):
    """Effects: tokens order them once the program has been decomposed."""

    def forward(self, x):
        torch.ops.higher_order.print("{} of {n}", x, n=x.shape[0])
        torch.ops.higher_order.print("{:.2f}", x.sum())
        return x + 1


def layers():
    return Layers(), (torch.randn(2, 4), True, None, 0.5)


def dynamic():
    batch = torch.export.Dim("batch", min=2, max=64)
    shapes = {"x": {0: 2 * batch}, "y": {0: torch.export.Dim.AUTO}}
    return Dynamic(), (torch.randn(6, 4), torch.tensor([1, 2, 0])), {"dynamic_shapes": shapes}
