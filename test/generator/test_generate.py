"""What is generated is what is committed, and nothing is written for nothing."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "generator"))

import schema_table  # noqa: E402
import variants  # noqa: E402
from files import Files  # noqa: E402
from native_functions import native_functions  # noqa: E402

TABLE = "lib/Dialect/Torch/AtenSchema.inc"


def run(*arguments):
    return subprocess.run([sys.executable, ROOT / "generator/generate.py", *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with everything that is generated."""
    root = tmp_path_factory.mktemp("generated")
    process = run("--root", root)
    assert process.returncode == 0, process.stderr
    return root


def generated(root):
    return sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())


def test_no_drift(written):
    """If this fails, run generator/generate.py."""
    assert pathlib.Path(TABLE) in generated(written)
    for path in generated(written):
        assert (ROOT / path).read_text() == (written / path).read_text(), f"{path} is out of date: run generator/generate.py"


def test_dry_run_lists_and_writes_nothing(written, tmp_path):
    process = run("--dry-run", "--root", tmp_path)
    assert process.returncode == 0 and process.stdout.split() == [str(path) for path in generated(written)]
    assert generated(tmp_path) == []


def test_only_what_changed_is_written(written):
    """A second run writes nothing; a changed file is written, and --check says what is different."""
    table = written / TABLE
    before = {path: (written / path).stat().st_mtime_ns for path in generated(written)}
    text = table.read_text()
    table.write_text(text.replace("alpha=1", "alpha=2"))
    check = run("--check", "--root", written)
    assert check.returncode == 1 and TABLE in check.stdout and "alpha=2" in check.stdout and "out of date" in check.stdout
    process = run("--root", written)
    assert process.returncode == 0 and process.stdout.split() == [TABLE]
    assert table.read_text() == text
    after = {path: (written / path).stat().st_mtime_ns for path in generated(written)}
    assert {path for path in before if after[path] != before[path]} == {pathlib.Path(TABLE)}


def test_errors_write_nothing(tmp_path):
    ops = tmp_path / "ops.yaml"
    ops.write_text("backend: PrivateUse1\nsupported: [relux]\n")
    process = run("--ops", ops, "--root", tmp_path / "root")
    assert process.returncode == 1 and not (tmp_path / "root").exists()
    assert process.stderr == f"{ops}:2: unknown operator 'relux'; did you mean 'relu'?\n"
    process = run("--ops", tmp_path / "none.yaml", "--root", tmp_path / "root")
    assert process.returncode == 1 and "none.yaml" in process.stderr


def test_files(tmp_path):
    files = Files(tmp_path)
    files.add("a/one.txt", "1\n2\n")
    assert files.changed() == files.write() == [tmp_path / "a/one.txt"]
    assert files.changed() == files.write() == [] and files.differences() == []
    (tmp_path / "a/one.txt").write_text("1\n3\n")
    assert files.differences() == ["--- a/one.txt", "+++ a/one.txt (generated)", "@@ -2 +2 @@", "-3", "+2"]


def test_every_registered_overload_is_there():
    import torch

    names = {line.split("(")[0].lstrip('"') for line in (ROOT / TABLE).read_text().splitlines()}
    missing = []
    for name in torch._C._dispatch_get_all_op_names():
        namespace, rest = name.split("::")
        base, _, overload = rest.partition(".")
        if namespace == "aten" and f"aten.{base}.{overload or 'default'}" not in names:
            missing.append(name)
    # Leftovers of TorchScript that no exported program has.
    assert [name for name in missing if "quantized_" not in name] == ["aten::get_gradients"]


def test_duplicates_are_refused():
    with pytest.raises(SystemExit, match="more than one line for aten.a.default"):
        schema_table.text_lines(["aten.a.default() -> ()", "aten.a.default(int x) -> ()"], "somewhere")


def test_names():
    assert schema_table.qualify("add.Tensor(Tensor self) -> Tensor") == "aten.add.Tensor(Tensor self) -> Tensor"
    assert schema_table.qualify("relu(Tensor self) -> Tensor") == "aten.relu.default(Tensor self) -> Tensor"


def test_variants():
    """An in-place or out= form and its functional one take the same arguments, in the same order."""
    natives = native_functions()
    forms = dict(line.strip('"').removesuffix("\\n").split(" ") for line in variants.render(natives).splitlines()[1:])
    assert forms["aten.add.out"] == forms["aten.add_.Tensor"] == "aten.add.Tensor"
    assert forms["aten.dropout_.default"] == "aten.dropout.default"
    assert forms["aten.topk.values"] == "aten.topk.default"
    assert "aten.resize_.default" in forms and "aten.polygamma_.default" not in forms
    by_name = {schema_table.qualified(name): function.func for name, function in natives.by_name.items()}
    for form, functional in forms.items():
        if not form.startswith("aten."):
            continue
        own, other = by_name[form], by_name[functional]
        names = [argument.name for argument in own.arguments.flat_all]
        names = names[: len(names) - len(own.arguments.out)]
        # What makes a tensor of nothing is not told its dtype and device when `out` says them.
        options = other.arguments.tensor_options.all() if other.arguments.tensor_options and own.arguments.out else []
        expected = [argument.name for argument in other.arguments.flat_all if argument not in options]
        assert names[1:] == expected[1:] and len(names) == len(expected), form
