"""Archives that each version of PyTorch from 2.8 on has written. archives/export.py makes them, with what eager mode computed."""

import io
import pathlib
import tarfile

import numpy
import pytest

from conftest import TARGET, run_tool
from guarded import GuardedModel

FOLDER = pathlib.Path(__file__).parent / "archives"
VERSIONS = [path.name[len("torch-") : -len(".tar.xz")] for path in sorted(FOLDER.glob("torch-*.tar.xz"))]
NAMES = ["mlp", "dynamic", "mutating", "mutating-decomposed", "branches", "types", "layers", "layers-decomposed", "nested"]


def read(version):
    with tarfile.open(FOLDER / f"torch-{version}.tar.xz") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}


@pytest.fixture(scope="module")
def files():
    return {version: read(version) for version in VERSIONS}


def test_every_version_is_there(files):
    assert {tuple(version.split(".")[:2]) for version in VERSIONS} >= {("2", str(minor)) for minor in range(8, 16)}
    for contents in files.values():
        assert sorted(contents) == sorted(f"{name}.{suffix}" for name in NAMES for suffix in ("pt2", "npz"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", VERSIONS)
def test_archive(files, tmp_path, version, name):
    archive, library = tmp_path / "model.pt2", tmp_path / "model.so"
    archive.write_bytes(files[version][f"{name}.pt2"])
    process = run_tool("aot-compile", archive, "-o", library, *TARGET)
    assert process.returncode == 0 and not process.stderr, process.stderr
    model = GuardedModel(library, 2)
    arrays = numpy.load(io.BytesIO(files[version][f"{name}.npz"]))
    runs = {key.split("/")[0] for key in arrays}
    for run in sorted(runs):

        def values(kind, run=run):
            return {int(key.split("/")[2]): arrays[key] for key in arrays if key.startswith(f"{run}/{kind}/")}

        inputs, outputs, after = values("in"), values("out"), values("after")
        flat = [inputs[i] for i in range(len(inputs))]
        actual = [output for output in model.run(flat) if output is not None]
        model.allocator.check()
        assert len(actual) == len(outputs)
        for i, value in enumerate(actual):
            value = numpy.asarray(value)
            assert value.shape == outputs[i].shape and value.dtype == outputs[i].dtype
            numpy.testing.assert_allclose(value, outputs[i], rtol=1e-5, atol=1e-5, err_msg=f"output {i} of run {run}")
        for i, value in enumerate(flat):
            numpy.testing.assert_allclose(value, after.get(i, inputs[i]), rtol=1e-5, atol=1e-5, err_msg=f"input {i} of run {run}")
