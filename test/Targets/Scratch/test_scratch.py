"""A target outside of Kiln's folders (scratch-target.cpp): its code is right, and what it has no code for is refused by name."""

import os
import pathlib
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build")) / "bin" / "scratch-target"
sys.path.insert(0, str(ROOT / "python"))

import kiln  # noqa: E402


def compile_model(module, inputs, shapes, folder, rows):
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=shapes), folder / "model.pt2")
    return subprocess.run([TOOL, folder / "model.pt2", folder / "model.so", str(rows)], capture_output=True, text=True)


class Scores(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.linspace(-1, 1, 5))

    def forward(self, x):
        return torch.softmax(x * self.scale.exp(), dim=-1), (x > 0).any(dim=0)


def test_right_with_any_rows(tmp_path):
    for rows in (1, 3):
        done = compile_model(Scores(), (torch.randn(4, 5),), ({0: torch.export.Dim("n")},), tmp_path, rows)
        assert done.returncode == 0, done.stderr
        assert f"#scratch.rows<{rows}>" in done.stdout
        model = kiln.load(tmp_path / "model.so")
        for n in (2, 3, 4, 17):
            x = torch.randn(n, 5)
            for got, expected in zip(model(x), Scores()(x), strict=True):
                torch.testing.assert_close(torch.from_dlpack(got), expected)


class Product(torch.nn.Module):
    def forward(self, x):
        return x @ x.T


def test_other_ops_are_refused_by_name(tmp_path):
    done = compile_model(Product(), (torch.randn(4, 5),), None, tmp_path, 1)
    assert done.returncode == 1
    for part in ("node 'matmul'", "test_scratch.py", "the target scratch: no code for kernel.contract"):
        assert part in done.stderr, done.stderr
