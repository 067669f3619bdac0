"""The table of operator schemas is what the installed PyTorch has."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "generator" / "schema_table.py"
TABLE = ROOT / "lib/Dialect/Torch/AtenSchema.inc"
sys.path.insert(0, str(GENERATOR.parent))

import schema_table  # noqa: E402


def run(*arguments):
    return subprocess.run([sys.executable, GENERATOR, *map(str, arguments)], capture_output=True, text=True)


def test_no_drift():
    process = run("--check")
    assert process.returncode == 0, process.stdout


def test_check_sees_a_difference(tmp_path):
    changed = tmp_path / "table.inc"
    changed.write_text(TABLE.read_text().replace("alpha=1", "alpha=2"))
    process = run("--check", "-o", changed)
    assert process.returncode == 1 and "out of date" in process.stdout


def test_unchanged_file_is_not_written(tmp_path):
    table = tmp_path / "table.inc"
    assert run("-o", table).returncode == 0
    before = table.stat().st_mtime_ns
    assert run("-o", table).returncode == 0
    assert table.stat().st_mtime_ns == before and table.read_text() == TABLE.read_text()


def test_every_registered_overload_is_there():
    import torch

    names = {line.split("(")[0].lstrip('"') for line in TABLE.read_text().splitlines()}
    missing = []
    for name in torch._C._dispatch_get_all_op_names():
        namespace, rest = name.split("::")
        base, _, overload = rest.partition(".")
        if namespace == "aten" and f"aten.{base}.{overload or 'default'}" not in names:
            missing.append(name)
    # Leftovers of TorchScript that no exported program has.
    assert [name for name in missing if "quantized_" not in name] == ["aten::get_gradients"]


def test_duplicates_are_refused():
    with pytest.raises(SystemExit, match="more than one schema for aten.a.default"):
        schema_table.render(["aten.a.default() -> ()", "aten.a.default(int x) -> ()"])


def test_names():
    assert schema_table.qualified("add.Tensor(Tensor self) -> Tensor", "aten").startswith("aten.add.Tensor(")
    assert schema_table.qualified("relu(Tensor self) -> Tensor", "aten").startswith("aten.relu.default(")
