"""The programs of examples/hosts, each built and run if its language's compiler is installed, and the header for C++."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy
import pytest
import torch

from conftest import BIN, ROOT, run_tool

HOSTS = ROOT / "examples" / "hosts"
INCLUDE = f"-I{ROOT / 'include'}"
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
# The compiler that is looked for, how it is called in the example's folder, and how the program is called.
LANGUAGES = {
    "c": ("cc", ["cc", "-std=c11", *WARNINGS, INCLUDE, "main.c", "-o", "{host}", "-ldl"], ["{host}"]),
    "cpp": ("c++", ["c++", "-std=c++17", *WARNINGS, INCLUDE, "main.cpp", "-o", "{host}", "-ldl"], ["{host}"]),
    "rust": ("rustc", ["rustc", "--edition", "2021", "-D", "warnings", "src/main.rs", "-o", "{host}"], ["{host}"]),
    "go": ("go", ["go", "build", "-o", "{host}", "."], ["{host}"]),
    "csharp": ("mcs", ["mcs", "-warnaserror", "Kiln.cs", "Main.cs", "-out:{host}"], ["mono", "{host}"]),
    "python": (sys.executable, [sys.executable, "-m", "py_compile", "main.py"], [sys.executable, "main.py"]),
}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)).eval()
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(module, (torch.ones(2, 3, 8, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "model.pt2")
    process = run_tool("aot-compile", folder / "model.pt2", "-o", folder / "model.so")
    assert process.returncode == 0, process.stderr
    return folder / "model.so", module(torch.ones(1, 3, 8, 8)).detach().numpy().ravel()


@pytest.mark.parametrize("language", LANGUAGES)
def test_example(language, classifier, tmp_path):
    compiler, build, run = LANGUAGES[language]
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler}")
    model, expected = classifier
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "GOCACHE": str(tmp_path / "cache"),
        "PYTHONPYCACHEPREFIX": str(tmp_path),
    }

    def call(command, *arguments):
        command = [word.format(host=tmp_path / "host") for word in command]
        return subprocess.run([*command, *map(str, arguments)], cwd=HOSTS / language, capture_output=True, text=True, env=environment)

    built = call(build)
    assert built.returncode == 0, built.stderr
    process = call(run, model)
    assert process.returncode == 0, process.stderr
    numpy.testing.assert_allclose([float(line) for line in process.stdout.split()], expected, rtol=1e-5, atol=2e-6)
    # No model, no shared object, and a shared object that is none.
    (tmp_path / "empty.so").touch()
    for wrong in (tmp_path / "missing.so", tmp_path / "empty.so", BIN.parent / "test" / "Targets" / "CUDA" / "emulator" / "libcuda.so.1"):
        process = call(run, wrong)
        assert process.returncode in (1, 2), (process.returncode, process.stderr)
        assert process.stderr.strip()


def test_header_for_cpp(classifier, tmp_path):
    model, expected = classifier
    program = tmp_path / "program"
    source = pathlib.Path(__file__).with_name("model_hpp.cpp")
    subprocess.run(["c++", "-std=c++17", *WARNINGS, INCLUDE, source, "-o", program, "-ldl"], check=True)
    process = subprocess.run([program, model, *map(str, expected)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
