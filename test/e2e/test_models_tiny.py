"""Small configurations of the models of the benchmark, and of the other ways to export them."""

import numpy
import pytest
import torch

import dense
import kiln
import models
from conftest import run_tool

# Of the range of the output; eager's own distance from fp64 is far below it.
TOLERANCE = 1e-4


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    cache = {}

    def get(name):
        if name not in cache:
            folder = models.export(name, tiny=True)
            output = tmp_path_factory.mktemp(name) / "model.so"
            process = run_tool("aot-compile", folder / "model.pt2", "-o", output)
            assert process.returncode == 0, process.stderr[-4000:]
            cache[name] = folder, output
        return cache[name]

    return get


def error_of_range(actual, expected):
    return float(numpy.abs(actual - expected).max() / max(expected.max() - expected.min(), 1e-30))


@pytest.mark.parametrize("name", models.NAMES + models.VARIANTS + dense.NAMES)
def test_matches_eager(compiled, name):
    folder, output = compiled(name)
    model = kiln.load(output)
    inputs = models.load_arrays(folder / "inputs.npz")
    expected = models.load_arrays(folder / "expected.npz")
    actual = model.run(inputs)
    assert [a.shape for a in actual] == [e.shape for e in expected]
    assert max(map(error_of_range, actual, expected)) < TOLERANCE
    assert max(map(error_of_range, actual, models.load_arrays(folder / "reference.npz"))) < TOLERANCE
    again = model.run(inputs)
    assert all(numpy.array_equal(a, b) for a, b in zip(actual, again)), "a second run differs"
    single = kiln.load(output, threads=1).run(inputs)
    assert all(numpy.array_equal(a, b) for a, b in zip(actual, single)), "the number of threads changes the result"


@pytest.mark.parametrize("name", ["bert-base", "gpt2-small", "llama"])
def test_other_inputs(compiled, name):
    """Inputs other than those of the export: nothing of the example may be baked in."""
    _, output = compiled(name)
    module, (ids, mask) = models.build(name, tiny=True)
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(3, 199, ids.shape, generator=generator)
    mask = torch.ones_like(mask)
    mask[:, 9:] = 0
    actual = kiln.load(output).run([ids, mask])
    for got, want in zip(actual, models.flatten(module(ids, mask))):
        assert error_of_range(got.numpy(), want.numpy()) < TOLERANCE


def test_out_of_range_index_is_an_error(compiled):
    """An embedding index is data: out of range it must not read outside of the table."""
    _, output = compiled("bert-base")
    _, (ids, mask) = models.build("bert-base", tiny=True)
    model = kiln.load(output)
    for bad in (200, -1, 1 << 40, -(1 << 62)):
        wrong = ids.clone()
        wrong[0, 3] = bad
        with pytest.raises(kiln.KilnError):
            model(wrong, mask)
    model(ids, mask)
