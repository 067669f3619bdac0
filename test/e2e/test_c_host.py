"""A C program loads a model with dlopen alone."""

import pathlib
import subprocess

import numpy
import pytest
import torch

from conftest import ROOT

SOURCE = pathlib.Path(__file__).with_name("host.c")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{ROOT / 'include'}"]


@pytest.fixture(scope="session")
def host(tmp_path_factory):
    program = tmp_path_factory.mktemp("host") / "host"
    subprocess.run(["cc", *FLAGS, "-D_GNU_SOURCE", "-o", program, SOURCE, "-ldl", "-lpthread"], check=True)
    return program


def test_run(host, small_mlp):
    process = subprocess.run([host, small_mlp.path, "0.5"], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    expected = small_mlp.module(torch.full((3, 6), 0.5)).detach().numpy().ravel()
    numpy.testing.assert_allclose([float(line) for line in process.stdout.split()], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("header", ["model.h", "custom_op.h"])
def test_header_stands_alone(tmp_path, language, header):
    source = tmp_path / "only.c"
    source.write_text(2 * f'#include "kiln-c/{header}"\n' + "int main(void) { return KILN_OK; }\n")
    flags = FLAGS if language == "c" else [f"-I{ROOT / 'include'}", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc" if language == "c" else "c++", "-x", language, *flags, "-fsyntax-only", source], check=True)
