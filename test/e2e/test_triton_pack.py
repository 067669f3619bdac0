"""python -m kiln.pack, with the real Triton: kernels of all kinds become machine code, which the emulator only looks at. Skipped without it."""

import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
import torch
from torch import nn
from torch.export import Dim

import kiln
from conftest import EMULATED, assert_user_error, run_tool

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

from kiln import _triton, pack  # noqa: E402
from triton_archives import MEMBER, add_stand_ins  # noqa: E402
from triton_models import add, add_kernel, bump, mm, softmax  # noqa: E402

HERE = pathlib.Path(__file__).parent
TILES = (((), 0), (("-DROWS=32", "-DCOLUMNS=16"), 0))


class All(nn.Module):
    def forward(self, x, y):
        product = torch.relu(mm(x, y.t()))
        state = product.sum(0)
        bump(state, 2.0)
        return add(x, x * 2), softmax((product + 1)[:, :50]), state


@pytest.fixture(scope="module")
def program():
    n, m = Dim("n", min=8, max=512), Dim("m", min=51, max=512)
    return torch.export.export(All(), (torch.randn(40, 32), torch.randn(60, 32)), dynamic_shapes=({0: n}, {0: m}))


@pytest.fixture(scope="module")
def packed(program, tmp_path_factory):
    """The archive that the command makes of one that PyTorch has saved, in a process that has not seen the kernels."""
    folder = tmp_path_factory.mktemp("packed")
    torch.export.save(program, folder / "plain.pt2")
    command = [sys.executable, "-m", "kiln.pack", folder / "plain.pt2", "--import", HERE / "triton_models.py", "-o", folder / "packed.pt2"]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    assert result.returncode == 0, result.stderr
    assert "4 launches of Triton kernels for sm_80,sm_90" in result.stdout
    return folder / "packed.pt2"


def describe(path):
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(MEMBER))
        kernels = json.loads(archive.read(name))["kernels"]
        return {key.rpartition("_")[0]: kernel for key, kernel in kernels.items()}


def test_description(packed):
    kernels = describe(packed)
    assert sorted(kernels) == ["add_kernel", "bump_kernel", "mm_kernel", "softmax_kernel"]
    (config,) = kernels["add_kernel"]["configs"]
    assert [(p["name"], p["type"]) for p in config["parameters"]][:5] == [
        ("x", "*fp32"),
        ("y", "*fp32"),
        ("out", "*fp32"),
        ("n", "i32"),
        ("scale", "fp32"),
    ]
    assert config["constants"] == {"BLOCK": "256"} and config["blocks"][1:] == ["1", "1"]
    assert {(image["arch"], image["kind"]) for image in config["images"]} == {("sm_80", "cubin"), ("sm_80", "ptx"), ("sm_90", "cubin")}
    first, second = kernels["mm_kernel"]["configs"]
    assert (first["warps"], second["warps"]) == (4, 2) and first["constants"]["BM"] == "64"
    assert "sak" not in [p["name"] for p in first["parameters"]], "a stride of 1 is a constant"
    assert [p["type"] for p in kernels["bump_kernel"]["configs"][0]["parameters"]][:4] == ["*fp32", "i64", "fp32", "u1"]


def test_machine_code(program, packed, tmp_path):
    """The cubins are in the model; the emulated driver is given them, and says that it runs none."""
    result = run_tool("aot-compile", packed, "-o", tmp_path / "model.so", "--target=cuda", "--gpu-arch=sm_80,sm_90")
    assert result.returncode == 0, result.stderr
    data = (tmp_path / "model.so").read_bytes()
    with zipfile.ZipFile(packed) as archive:
        cubins = {name: archive.read(name) for name in archive.namelist() if name.endswith(".cubin")}
    assert len(cubins) == 10 and all(data.count(cubin) == 1 for cubin in cubins.values())
    pack.save(program, tmp_path / "newest.pt2", ["sm_90"])
    result = run_tool("aot-compile", tmp_path / "newest.pt2", "-o", tmp_path / "older.so", "--target=cuda", "--gpu-arch=sm_80")
    assert_user_error(result, "for sm_80", "--gpu-arch=sm_80", "test_triton_pack.py:")


def test_values(packed, tmp_path):
    """Launches as Triton has specialised them, with C functions for the kernels."""
    result = run_tool("aot-compile", add_stand_ins(packed, tmp_path / "emulated.pt2", TILES), "-o", tmp_path / "model.so", *EMULATED)
    assert result.returncode == 0, result.stderr
    model = kiln.load(tmp_path / "model.so")
    for rows, columns in ((40, 60), (9, 130)):
        x, y = torch.randn(rows, 32), torch.randn(columns, 32)
        product = torch.relu(x @ y.t())
        expected = x + 0.5 * (x * 2), (product + 1)[:, :50].softmax(1), product.sum(0) + 2
        torch.testing.assert_close(model(x, y), expected, rtol=1e-5, atol=1e-5)


def test_reproducible(program, packed, tmp_path):
    (tmp_path / "packed.pt2").unlink(missing_ok=True)
    pack.save(program, tmp_path / "packed.pt2")
    assert describe(tmp_path / "packed.pt2") == describe(packed)


def test_compile(program, tmp_path):
    """kiln.compile packs by itself. Only on a GPU is there something to load."""
    model = kiln.compile(program, tmp_path / "model.so", target="cuda", gpu_arch="sm_90")
    with pytest.raises(kiln.KilnError, match="add_kernel|mm_kernel|CUDA|PTX"):
        model(torch.randn(40, 32), torch.randn(60, 32))
    with pytest.raises(kiln.KilnError, match=r"triton_kernel_wrapper_functional.*--target=cuda"):
        kiln.compile(program, tmp_path / "cpu.so")


# ===-- Refusals -----------------------------------------------------------------------------------===


@triton.jit
def scratch_kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), tl.undefined(BLOCK))


def refuse(program, *parts, gpu_arch=("sm_90",)):
    with pytest.raises(kiln.KilnError) as error:
        _triton.compile_calls(_triton.expose_launches(program), gpu_arch)
    for part in ("node 'triton_kernel_wrapper_functional_proxy'", "test_triton_pack.py:", *parts):
        assert part in str(error.value), error.value
    assert "\n" not in str(error.value)


def test_clusters():
    tuned = triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_ctas=2)], key=[])(add_kernel)

    class Launch(nn.Module):
        def forward(self, x):
            out = torch.empty_like(x)
            torch.library.wrap_triton(tuned)[(1,)](x, x, out, x.numel(), 0.5)
            return out

    with _triton._some_driver():
        program = torch.export.export(Launch(), (torch.randn(64),))
    refuse(program, "clusters of blocks (num_ctas)")


def test_hooks():
    """PyTorch refuses most of them where a program is exported."""
    with pytest.raises(_triton._Refused, match="pre_hook"):
        _triton._options(triton.Config({}, pre_hook=print))
    hooked = triton.jit(scratch_kernel.fn)
    hooked.add_pre_run_hook(print)
    with pytest.raises(_triton._Refused, match="pre_run_hooks"):
        _triton._split(hooked)


def test_does_not_compile():
    class Launch(nn.Module):
        def forward(self, x):
            torch.library.wrap_triton(scratch_kernel)[(1,)](x, BLOCK=64)
            return x + 1

    with _triton._some_driver():
        program = torch.export.export(Launch(), (torch.randn(64),))
    refuse(program, f"Triton {triton.__version__} does not compile it for sm_90")


def test_other_version(program, monkeypatch):
    """Triton whose kernels have one more parameter than is known here."""
    compile = _triton._compile

    def change(*arguments):
        compiled = compile(*arguments)
        compiled.asm["ptx"] = compiled.asm["ptx"].replace("_param_0,", "_param_0,\n\t.param .u32 more,", 1)
        return compiled

    monkeypatch.setattr(_triton, "_compile", change)
    with pytest.raises(kiln.KilnError, match="this version is not supported"):
        _triton.compile_calls(_triton.expose_launches(program), ["sm_90"])


@pytest.mark.parametrize("feature", ["global_scratch_size", "profile_scratch_size", "launch_cooperative_grid", "launch_pdl", "tmem_size"])
def test_features(feature):
    metadata = type("Metadata", (), {feature: 1})()
    with pytest.raises(_triton._Refused, match="which is not supported|is not supported"):
        _triton._check_features(metadata)


def test_tensor_descriptors(program):
    exposed = _triton.expose_launches(program)
    node = _triton.find_launches(exposed)[0]
    node.kwargs = {**node.kwargs, "tma_descriptor_metadata": {"a": ("stable", ([64, 64],))}}
    with pytest.raises(kiln.KilnError, match="it takes TMA descriptors"):
        _triton.compile_calls(exposed, ["sm_90"])


def command(*arguments):
    try:
        return pack.main([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code


def test_command(program, packed, tmp_path, capsys):
    torch.export.save(program, tmp_path / "plain.pt2")
    torch.export.save(torch.export.export(nn.ReLU(), (torch.randn(3),)), tmp_path / "none.pt2")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "cut.pt2").write_bytes(packed.read_bytes()[:1000])
    for arguments, message in (
        ((packed,), "is packed already"),
        ((tmp_path / "none.pt2",), "launches no Triton kernels"),
        ((tmp_path / "missing.pt2",), "No such file"),
        ((tmp_path / "cut.pt2",), "not a zip file"),
        ((tmp_path / "plain.pt2", "--import", tmp_path / "broken.py"), "ZeroDivisionError"),
        ((tmp_path / "plain.pt2", "--gpu-arch", "sm_70"), "--gpu-arch=sm_70: expected a list of sm_80"),
    ):
        output = tmp_path / "output.pt2"
        assert command(*arguments, "-o", output) == 1
        error = capsys.readouterr().err
        assert error.startswith("kiln.pack: error: ") and message in error and error.count("\n") == 1, error
        assert not output.exists()
