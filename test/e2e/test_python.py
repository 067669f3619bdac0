"""The Python package where it does not need a model of its own."""
import gc
import subprocess
import sys

import numpy
import pytest
import torch

import kiln
from conftest import ROOT


@pytest.mark.parametrize("path", ["/nowhere/model.so", "/etc/hostname", "/"])
def test_load_of_something_else(path):
    with pytest.raises(kiln.KilnError, match="not a compiled model"):
        kiln.load(path)


def test_describes_itself(small_mlp):
    assert "x: float32[3, 6]" in repr(small_mlp.model)
    assert [entry["name"] for entry in small_mlp.model.inputs] == ["x"]


def test_errors_carry_message_and_status(small_mlp):
    with pytest.raises(kiln.KilnError, match="x") as error:
        small_mlp.model(torch.zeros(3, 7))
    assert error.value.status == 2
    with pytest.raises(kiln.KilnError) as error:
        small_mlp.model()
    assert error.value.status == 1


@pytest.mark.parametrize("value", ["text", None, [1.0], object(), torch.zeros(3, 6).to_sparse(), numpy.zeros((3, 6), ">f4"),
                                   numpy.zeros((3, 6), "U4"), numpy.zeros((3, 6), "O")])
def test_values_that_are_no_tensors(small_mlp, value):
    with pytest.raises(TypeError):
        small_mlp.model(value)


def test_output_memory_is_freed(small_mlp):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    compiled, x = small_mlp.model, torch.zeros(3, 6)
    for _ in range(2000):
        compiled(x), compiled(x.numpy())
    gc.collect()
    before = resident()
    for _ in range(20000):
        compiled(x), compiled(x.numpy())
    gc.collect()
    assert resident() - before < 8 << 20


def test_views_keep_the_memory(small_mlp):
    x = numpy.ones((3, 6), "float32")
    whole = small_mlp.model(x)
    expected, view = whole.copy(), whole[1:]
    del whole
    gc.collect()
    [small_mlp.model(x * 2) for _ in range(50)]
    numpy.testing.assert_array_equal(view, expected[1:])


def test_works_without_torch(small_mlp):
    """Loading and calling imports numpy alone."""
    script = ("import sys; sys.modules['torch'] = None\n"
              f"sys.path.insert(0, {str(ROOT / 'python')!r})\n"
              "import kiln, numpy\n"
              f"print(kiln.load({str(small_mlp.path)!r})(numpy.zeros((3, 6), 'float32')).shape)\n")
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.stdout.strip() == "(3, 4)", process.stderr


def test_close(small_mlp):
    model = kiln.load(small_mlp.path)
    model.close()
    model.close()
    with pytest.raises(kiln.KilnError):
        model(torch.zeros(3, 6))
