"""docs/migration.md: its Python blocks are one program, its C++ block is a host of the model that they compile, its links lead somewhere."""

import os
import re
import subprocess
import sys

import pytest
import torch

from conftest import ROOT

PAGE = (ROOT / "docs" / "migration.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("migration")
    code = "\n".join(["import torch", "torch.manual_seed(0)", *blocks("python")])
    code += "\ntorch.save(module(torch.full((2, 16), 0.5)), 'expected.pt')\n"
    (path / "page.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "page.py"], cwd=path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


def test_python(folder):
    assert len(blocks("python")) == 3
    assert {path.name for path in folder.iterdir()} >= {"model.pt2", "model.so", "aoti.so"}


def test_cpp(folder):
    (code,) = blocks("cpp")
    (folder / "page.cpp").write_text(code)
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(["c++", "-std=c++17", *warnings, f"-I{ROOT / 'include'}", "page.cpp", "-o", "host", "-ldl"], cwd=folder, check=True)
    done = subprocess.run(["./host"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *scores, message = done.stdout.splitlines()
    torch.testing.assert_close(
        torch.tensor([float(line) for line in scores]), torch.load(folder / "expected.pt").ravel(), rtol=1e-4, atol=1e-5
    )
    assert message.startswith('input 0 "x": expected float32 [') and message.endswith("got float32 [4, 8]"), message


def test_links():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_names():
    """Functions and options of Kiln that the page speaks of are there."""
    headers = "".join((ROOT / "include" / "kiln-c" / name).read_text() for name in ("model.h", "model.hpp"))
    for name in re.findall(r"\bkiln_\w+", PAGE):
        assert name in headers, name
    options = (ROOT / "tools" / "aot-compile" / "aot-compile.cpp").read_text()
    for name in re.findall(r"`--([a-z-]+)", PAGE):
        assert f'"{name}"' in options, name
