"""Exports a model whose weights are codes of one byte: an embedding of codes, looked up in a table and scaled."""

import sys

import torch
from torch.export import Dim


class Decode(torch.nn.Module):
    """x @ decode(codes).t(), where decode(c) = scale * table[c]."""

    def __init__(self, columns=64, rows=32):
        super().__init__()
        self.register_buffer("table", torch.linspace(-1, 1, 256).sign() * torch.linspace(-1, 1, 256) ** 2)
        self.register_buffer("scale", torch.tensor(0.125))
        self.linear = torch.nn.Linear(columns, rows)

    def decode(self, codes):
        return self.table[codes.to(torch.int64)] * self.scale

    def forward(self, codes, more):
        return self.linear(self.decode(codes)) + self.decode(more)


def export(path):
    model = Decode().eval()
    codes = torch.randint(0, 256, (5, 64), dtype=torch.uint8)
    more = torch.randint(0, 256, (5, 32), dtype=torch.uint8)
    n = Dim("n", min=1, max=4096)
    torch.export.save(torch.export.export(model, (codes, more), dynamic_shapes=({0: n}, {0: n})), path)
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    export(sys.argv[1] if len(sys.argv) > 1 else "decode.pt2")
