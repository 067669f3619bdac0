"""Compiled models where the system fails them: the smallest of the reference models; model_faults.py takes all of them."""

import model_faults
import pytest

import models


@pytest.mark.parametrize("options", [[], ["--target=cuda", "--gpu-arch=emulator"]], ids=["cpu", "cuda"])
def test_every_call_fails(options, capfd):
    assert model_faults.run_all(models.export("mlp", tiny=True), options) == 0
    assert capfd.readouterr().out.count("faults") == 2
