"""The smallest model, through every way of calling it."""

import concurrent.futures

import numpy
import pytest
import torch

import kiln
from conftest import Mlp


@pytest.mark.parametrize("sizes", [(6, 4), (24, 16, 16, 5), (784, 512, 512, 10), (1, 1), (17, 31, 3)])
@pytest.mark.parametrize("batch", [1, 5])
def test_sizes(compile_and_compare, sizes, batch):
    torch.manual_seed(0)
    compile_and_compare(Mlp(sizes), (torch.randn(batch, sizes[0]),))


@pytest.mark.parametrize("options", [("--cpu=x86-64-v3",), ("-O0",), ("-O3",), ("--jobs=1",), ("--weights=external",)])
def test_options(compile_and_compare, options):
    torch.manual_seed(0)
    compile_and_compare(Mlp((33, 65, 7)), (torch.randn(9, 33),), options=options)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_thread_counts_agree(compile_model, threads):
    torch.manual_seed(0)
    x = torch.randn(64, 96)
    one = compile_model(Mlp((96, 128, 40)), (x,), threads=1)
    assert torch.equal(one.model(x), kiln.load(one.path, threads=threads)(x))


def test_numpy_in_numpy_out(small_mlp):
    x = numpy.random.default_rng(0).standard_normal((3, 6)).astype("float32")
    y = small_mlp.model(x)
    assert isinstance(y, numpy.ndarray) and y.shape == (3, 4) and y.dtype == numpy.float32
    expected = small_mlp.module(torch.from_numpy(x)).detach().numpy()
    numpy.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_outputs_outlive_the_call(small_mlp):
    inputs = [torch.randn(3, 6) for _ in range(8)]
    outputs = [small_mlp.model(x) for x in inputs]
    for x, y in zip(inputs, outputs):
        torch.testing.assert_close(y, small_mlp.module(x).detach(), rtol=1e-5, atol=1e-5)


def test_strided_input(small_mlp):
    x = torch.randn(6, 3).t()
    torch.testing.assert_close(small_mlp.model(x), small_mlp.module(x).detach(), rtol=1e-5, atol=1e-5)
    wide = torch.randn(3, 12)[:, ::2]
    torch.testing.assert_close(small_mlp.model(wide), small_mlp.module(wide).detach(), rtol=1e-5, atol=1e-5)
    row = torch.randn(1, 6).expand(3, 6)
    torch.testing.assert_close(small_mlp.model(row), small_mlp.module(row).detach(), rtol=1e-5, atol=1e-5)


def test_misaligned_input(small_mlp):
    x = torch.randn(3 * 6 + 1)[1:].view(3, 6)
    torch.testing.assert_close(small_mlp.model(x), small_mlp.module(x).detach(), rtol=1e-5, atol=1e-5)


def test_set_constant(compile_model):
    torch.manual_seed(0)
    compiled = compile_model(Mlp((6, 8, 4)), (torch.randn(3, 6),))
    other = Mlp((6, 8, 4)).eval()
    assert {entry["name"] for entry in compiled.model.constants} == set(dict(other.named_parameters()))
    for name, value in other.named_parameters():
        compiled.model.set_constant(name, value)
    x = torch.randn(3, 6)
    torch.testing.assert_close(compiled.model(x), other(x).detach(), rtol=1e-5, atol=1e-5)
    with pytest.raises(kiln.KilnError, match="layers.0.bias"):
        compiled.model.set_constant("layers.0.bias", torch.zeros(2, 2))
    with pytest.raises(kiln.KilnError, match="nowhere"):
        compiled.model.set_constant("nowhere", torch.zeros(2, 2))


def test_concurrent_runs(small_mlp):
    inputs = [torch.randn(3, 6) for _ in range(64)]
    expected = [small_mlp.module(x).detach() for x in inputs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            for y, want in zip(pool.map(small_mlp.model, inputs), expected):
                torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-5)


def test_two_models_in_one_process(compile_model):
    torch.manual_seed(0)
    a, b = compile_model(Mlp((6, 8, 4)), (torch.randn(3, 6),)), compile_model(Mlp((5, 2)), (torch.randn(1, 5),))
    x, y = torch.randn(3, 6), torch.randn(1, 5)
    for _ in range(3):
        torch.testing.assert_close(a.model(x), a.module(x).detach(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(b.model(y), b.module(y).detach(), rtol=1e-5, atol=1e-5)


def test_compile_from_python(tmp_path):
    torch.manual_seed(0)
    module, x = Mlp().eval(), torch.randn(3, 6)
    program = torch.export.export(module, (x,))
    temporary = kiln.compile(program, threads=1)
    torch.testing.assert_close(temporary(x), module(x).detach(), rtol=1e-5, atol=1e-5)
    kept = kiln.compile(program, tmp_path / "kept.so", cpu="native", weights="external")
    assert (tmp_path / "kept.so.safetensors").exists()
    torch.testing.assert_close(kept(x), module(x).detach(), rtol=1e-5, atol=1e-5)
    with pytest.raises(kiln.KilnError, match="aot-compile: error: "):
        kiln.compile(tmp_path / "missing.pt2")
