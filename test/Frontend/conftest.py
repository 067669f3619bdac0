"""Fixtures of the frontend's tests: export a program, change the archive, import it."""

import json
import os
import pathlib
import subprocess
import zipfile

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build"))
IMPORT = BUILD / "bin" / "import-pt2"


def import_module(path):
    """The module that the archive is imported as, as text."""
    process = subprocess.run([IMPORT, path], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def import_all(paths):
    """For each archive `ok` or the error. One process imports them all: a crash fails the test."""
    process = subprocess.run([IMPORT, "--check", *map(str, paths)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-4000:]
    lines = process.stdout.splitlines()
    assert len(lines) == len(paths), "an error is not one line"
    return lines


class Archive:
    """The members of a .pt2 file, by their names without the root folder."""

    def __init__(self, path):
        self.path = path
        with zipfile.ZipFile(path) as archive:
            self.members = {info.filename.split("/", 1)[1]: archive.read(info) for info in archive.infolist()}

    def json(self, name="models/model.json"):
        return json.loads(self.members[name])

    def write(self, path, changes=None, compression=zipfile.ZIP_STORED, root="program/"):
        """Writes the archive with the members that `changes` names replaced, or left out where that is None."""
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, data in {**self.members, **(changes or {})}.items():
                if isinstance(data, (dict, list)):
                    data = json.dumps(data)
                if data is not None:
                    archive.writestr(zipfile.ZipInfo(root + name), data, compression)
        return path


@pytest.fixture
def export(tmp_path):
    """Exports a module and returns the archive."""

    def run(module, inputs, decompose=False, **options):
        program = torch.export.export(module, inputs, **options)
        if decompose:
            program = program.run_decompositions({})
        path = tmp_path / f"{type(module).__name__}.pt2"
        torch.export.save(program, path)
        return Archive(path)

    return run
