"""Convolutions computed by Winograd's tiles, where an option allows it."""

import re

import pytest
import torch
import torch.nn.functional as F

import kiln
from conftest import run_tool

# How much further results may be off than those of sums of products: docs/numerics.md.
BOUNDS = {2: 2, 4: 4}


class Convolutions(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x)) - 0.25
        return x


def convolution(channels, features, **options):
    return torch.nn.Conv2d(channels, features, 3, **options)


def rms(x):
    return x.double().square().mean().sqrt().item()


def compile_both(model, x, folder, tile, dynamic_shapes=None, options=()):
    """The library with tiles, and the one without; the former has some, and the latter none."""
    torch.export.save(torch.export.export(model.eval(), (x,), dynamic_shapes=dynamic_shapes), folder / "model.pt2")
    paths = []
    for name, more in (("tiles", [f"--winograd={tile}"]), ("sums", [])):
        for emit, suffix in ((["--emit=wrapper"], "mlir"), ([], "so")):
            process = run_tool("aot-compile", folder / "model.pt2", "-o", folder / f"{name}.{suffix}", *more, *options, *emit)
            assert process.returncode == 0, process.stderr
        text = (folder / f"{name}.mlir").read_text()
        assert ("#cpu.winograd<" in text) == (name == "tiles")
        paths.append(kiln.load(folder / f"{name}.so"))
    return paths


def compare(model, tiles, sums, x, tile):
    exact = model.double()(x.double())
    model.float()
    bound = max(rms(sums(x) - exact), rms(exact) * 2**-24)
    assert rms(tiles(x) - exact) <= BOUNDS[tile] * bound


# Channels in front make the first layer's image channels last.
CASES = {
    "whole": ([convolution(16, 64, padding=1), convolution(64, 64, padding=1)], (2, 16, 16, 24)),
    "tails": ([convolution(16, 33, padding=1), convolution(33, 20), convolution(20, 5, padding=2)], (1, 16, 13, 18)),
    "many": ([convolution(32, 128, padding=1), convolution(128, 256, padding=1)], (1, 32, 28, 28)),
    "small": ([convolution(64, 64, padding=1), convolution(64, 64, padding=1)], (3, 64, 5, 11)),
    "row": ([convolution(64, 64, padding=1), convolution(64, 64, padding=(1, 0))], (1, 64, 2, 70)),
}


@pytest.mark.parametrize("cpu", [(), ("--cpu=x86-64-v3",)], ids=["native", "avx2"])
@pytest.mark.parametrize("tile", BOUNDS)
@pytest.mark.parametrize("case", CASES)
def test_shapes(case, tile, cpu, tmp_path):
    layers, shape = CASES[case]
    model, x = Convolutions(layers), torch.randn(shape)
    compare(model, *compile_both(model, x, tmp_path, tile, options=cpu), x, tile)


@pytest.mark.parametrize("tile", BOUNDS)
def test_dynamic(tile, tmp_path):
    """Any batch, height and width, down to those without elements; a row has the same bits in every batch."""
    model = Convolutions([convolution(32, 64, padding=1), convolution(64, 40, padding=1)])
    dims = {0: torch.export.Dim("n", max=64), 2: torch.export.Dim("h", max=300), 3: torch.export.Dim("w", max=300)}
    tiles, sums = compile_both(model, torch.randn(2, 32, 20, 24), tmp_path, tile, dynamic_shapes=(dims,))
    for shape in ((1, 20, 24), (3, 1, 1), (2, 57, 3), (7, 8, 8), (2, 5, 130)):
        x = torch.randn(shape[0], 32, *shape[1:])
        compare(model, tiles, sums, x, tile)
        assert torch.equal(tiles(x)[-1:], tiles(x[-1:]))


def test_threads(tmp_path):
    model, x = Convolutions([convolution(64, 64, padding=1)] * 2), torch.randn(1, 64, 50, 50)
    tiles, _ = compile_both(model, x, tmp_path, 4)
    expected = tiles(x)
    for threads in (1, 2, 3, 8):
        assert torch.equal(kiln.load(tmp_path / "tiles.so", threads=threads)(x), expected)


def test_weights_can_be_replaced(tmp_path):
    """What tiles are multiplied with is computed again."""
    model, x = Convolutions([convolution(32, 32, padding=1)] * 2), torch.randn(1, 32, 20, 20)
    tiles, _ = compile_both(model, x, tmp_path, 4)
    weight = torch.randn(32, 32, 3, 3) / 16
    tiles.set_constant("layers.0.weight", weight)
    with torch.no_grad():
        model.layers[0].weight.copy_(weight)
    torch.testing.assert_close(tiles(x), model(x), rtol=1e-4, atol=1e-4)


def test_not_finite_pixels_stay_in_their_tiles(tmp_path):
    x = torch.randn(1, 32, 24, 24)
    tiles, sums = compile_both(Convolutions([convolution(32, 32, padding=1)] * 2), x, tmp_path, 4)
    x[0, 0, 3, 3] = float("inf")
    close = (tiles(x) - sums(x)).abs() < 1e-3
    assert close[:, :, 16:].all() and not tiles(x)[:, :, :8, :8].isfinite().all()


def test_bad_options(tmp_path):
    for options, message in (
        (("--winograd=3",), "--winograd=3: expected 2 or 4"),
        (("--winograd=4", "--target=cuda"), "--winograd is for --target=cpu"),
        (("--winograd=x",), "'x' value invalid"),
    ):
        process = run_tool("aot-compile", tmp_path / "model.pt2", *options)
        assert process.returncode == 1 and re.search(re.escape(message), process.stderr), process.stderr
