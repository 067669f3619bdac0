"""Small configurations of models with dynamic dimensions: one shared object each, compared with eager at every size."""

import pytest

import dynamic
from conftest import run_tool

TOLERANCE = 1e-4  # of the range of the output


@pytest.mark.parametrize("name", dynamic.MODELS)
def test_matches_eager_at_every_size(name, tmp_path):
    output = tmp_path / "model.so"
    process = run_tool("aot-compile", dynamic.export(name, tiny=True) / "model.pt2", "-o", output)
    assert process.returncode == 0, process.stderr[-4000:]
    rows = dynamic.rows(name, tiny=True)
    assert len({tuple(row.values()) for row in rows}) >= 8
    errors = {str(row): error for row, error in dynamic.compare(name, output, tiny=True, threads=1)}
    assert {row: error for row, error in errors.items() if not error < TOLERANCE} == {}
