"""ops_metadata.json says of every overload what the compiler does with it."""

import json
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "generator"))

import metadata  # noqa: E402
from native_functions import native_functions  # noqa: E402

COMPILER = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build")) / "bin/aot-compile"


@pytest.fixture(scope="module")
def text():
    return metadata.render(COMPILER)


@pytest.fixture(scope="module")
def entries(text):
    return {f"{entry['op']}.{entry['overload']}": entry for entry in json.loads(text)}


def test_every_overload_once(text, entries):
    assert len(entries) == len(json.loads(text)) == len(native_functions().by_name)
    assert len(text.splitlines()) == len(entries) + 2, "a line for each, so that two builds can be compared"


def test_entries(entries):
    dtypes = ["bfloat16", "bool", "complex128", "complex64", "float16", "float32", "float64", "int16", "int32", "int64", "int8", "uint8"]
    assert set(dtypes) <= set(entries["add.Tensor"].pop("dtypes"))
    assert entries["add.Tensor"] == {
        "op": "add",
        "overload": "Tensor",
        "status": "native",
        "key": "supported",
        "functional": None,
        "dynamic_shapes": True,
    }
    assert entries["add_.Tensor"]["functional"] == entries["add.out"]["functional"] == "add.Tensor"
    assert entries["relu.default"]["status"] == "native" and entries["relu_.default"]["functional"] == "relu.default"
    assert entries["linalg_svd.default"]["status"] == "native" and entries["linalg_svd.default"]["key"] == "autograd"
    assert entries["_standard_gamma.default"]["status"] == "fallback"
    assert "complex64" not in entries["relu.default"]["dtypes"]
    assert not entries["nonzero.default"]["dynamic_shapes"] and not entries["unique_dim.default"]["dynamic_shapes"]
    assert entries["nonzero.default"]["status"] == "native"


def test_counts(entries):
    """Base operators whose results can be written where the caller wants them, and what is left to nobody."""
    out_forms = {
        entry["functional"]
        for name, entry in entries.items()
        if entry["key"] == "supported"
        and entry["functional"]
        and native_functions().by_name[name.removesuffix(".default")].func.arguments.out
    }
    assert len(out_forms) >= 525
    # How tensors lie in memory is not what it was.
    assert {name.split(".")[0] for name, entry in entries.items() if entry["status"] == "refused"} == {
        "_has_same_storage_numel",
        "_reshape_alias",
        "is_contiguous",
        "is_set_to",
        "set_",
        "storage_offset",
        "stride",
        "sym_is_contiguous",
        "sym_stride",
    }
