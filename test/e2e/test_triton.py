"""Triton kernels in the graph: imported, launched and refused. The emulator runs C functions in their place (triton_archives.py)."""

import importlib.util
import json
import random
import subprocess
import zipfile

import pytest
import torch
from torch import nn
from torch.export import Dim

import kiln
import triton_archives
from conftest import BIN, EMULATED, ROOT, assert_user_error, run_tool
from triton_archives import MEMBER, launch, save


def blocks(size, block):
    return (size + block - 1) // block


def add(x, y):
    out, n = torch.empty_like(x), x.numel()
    return launch("add_kernel", [(blocks(n, 256),)], ["out"], x=x, y=y, out=out, n=n, scale=0.5)["out"]


def softmax(x):
    out = torch.empty(x.shape)
    return launch("softmax_kernel", [(x.shape[0],)], ["out"], x=x, out=out, stride=x.stride(0), columns=x.shape[1])["out"]


def mm(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n)
    grid = [(blocks(m, rows), blocks(n, columns)) for rows, columns in ((64, 32), (32, 16))]
    return launch("mm_kernel", grid, ["c"], a=a, b=b, c=c, M=m, N=n, K=k, sam=a.stride(0), sbn=b.stride(1), scm=n)["c"]


TILES = (((), 100 << 10), (("-DROWS=32", "-DCOLUMNS=16"), 1024))


class Add(nn.Module):
    def forward(self, x, y):
        return torch.relu(add(x + 1, y))


def compile(path, tmp_path):
    model = tmp_path / "model.so"
    result = run_tool("aot-compile", path, "-o", model, *EMULATED)
    assert result.returncode == 0, result.stderr
    return kiln.load(model)


def export(module, inputs, **options):
    return torch.export.export(module, inputs, **options)


def test_fusion_and_sizes(tmp_path):
    """Operators around a launch are fused as ever, and its grid follows the sizes."""
    n = Dim("n", min=0, max=4096)
    program = export(Add(), (torch.randn(5, 8), torch.randn(5, 8)), dynamic_shapes=({0: n}, {0: n}))
    model = compile(save(program, tmp_path / "add.pt2"), tmp_path)
    for rows in (5, 1, 0, 97):
        x, y = torch.randn(rows, 8), torch.randn(rows, 8)
        torch.testing.assert_close(model(x, y), torch.relu(x + 1 + 0.5 * y))


class Views(nn.Module):
    """Tensors that lie in memory otherwise than row after row."""

    def forward(self, x, y):
        product = mm(x[:, :24], y.t()[:24])  # rows with gaps, columns of which rows are contiguous
        return softmax((product * 2)[:, 1:]), softmax(x.t()[:, :7].contiguous()), add(x.t(), x.t() + 1)


def test_views(tmp_path):
    n, m = Dim("n", min=8, max=512), Dim("m", min=3, max=512)
    program = export(Views(), (torch.randn(40, 32), torch.randn(20, 32)), dynamic_shapes=({0: n}, {0: m}))
    model = compile(save(program, tmp_path / "views.pt2", TILES), tmp_path)
    for rows, columns in ((40, 20), (9, 65), (130, 3)):
        x, y = torch.randn(rows, 32), torch.randn(columns, 32)
        product = (x[:, :24] @ y.t()[:24] * 2)[:, 1:]
        expected = product.softmax(1), x.t()[:, :7].softmax(1), x.t() + 0.5 * (x.t() + 1)
        torch.testing.assert_close(model(x, y), expected, rtol=1e-5, atol=1e-5)


def test_first_configuration_with_room(tmp_path):
    class Product(nn.Module):
        def forward(self, a, b):
            return mm(a, b.t())

    inputs = torch.randn(100, 16), torch.randn(70, 16)
    save(export(Product(), inputs), tmp_path / "product.pt2", TILES)
    compile(tmp_path / "product.pt2", tmp_path)
    for room, launched in ((227 << 10, "grid 6 2x3x1 block 128 shared 102400"), (64 << 10, "grid 20 4x5x1 block 64 shared 1024")):
        environment = {"KILN_EMULATOR_LOG": str(tmp_path / "log"), "KILN_EMULATOR_SHARED": str(room)}
        assert run_tool("aot-run", tmp_path / "model.so", env=environment).returncode == 0
        assert f"launch mm_kernel {launched}" in (tmp_path / "log").read_text()
        (tmp_path / "log").unlink()
    result = run_tool("aot-run", tmp_path / "model.so", env={"KILN_EMULATOR_SHARED": "512"})
    assert result.returncode and "mm_kernel needs 1024 bytes of shared memory" in result.stderr


class Bump(nn.Module):
    """A launch that writes what others read as well: before, after and in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(40))

    def forward(self, x):
        bump = lambda x, by: launch("bump_kernel", [(blocks(x.numel(), 128),)], ["x"], x=x, n=x.numel(), by=by, flag=True)["x"]
        once = bump(x, 1.0)
        self.state.copy_(bump(self.state + once.sum(), 2.0))
        x.copy_(bump(once * 2, 3.0))
        return once, x * 2


def test_writes(tmp_path):
    x = torch.randn(40)
    model = compile(save(export(Bump(), (x,)), tmp_path / "bump.pt2"), tmp_path)
    original, own = x.clone(), x.clone()
    once, twice = model(own)
    torch.testing.assert_close(once, original + 1)
    torch.testing.assert_close(own, (original + 1) * 2 + 3)
    torch.testing.assert_close(twice, own * 2)


def test_numbers_out_of_range(tmp_path):
    """A kernel is compiled for numbers of 32 bits, and a grid has its limits."""

    class Strided(nn.Module):
        def forward(self, x):
            size = x.shape[0]
            wide = launch("softmax_kernel", [(1, size)], ["out"], x=x, out=torch.empty(1, 8), stride=size << 24, columns=8)
            return wide["out"]

    program = export(Strided(), (torch.randn(8),), dynamic_shapes=({0: Dim("n", min=8, max=1 << 20)},))
    model = compile(save(program, tmp_path / "strided.pt2"), tmp_path)
    with pytest.raises(kiln.KilnError, match=r"node '.*' \(.*test_triton.py:\d+.*softmax_kernel takes a number of 32 bits, and is given"):
        model(torch.randn(256))
    with pytest.raises(kiln.KilnError, match=r"softmax_kernel would have 70000 blocks in y"):
        model(torch.randn(70000))


# ===-- Refusals -----------------------------------------------------------------------------------===


@pytest.fixture(scope="module")
def program():
    return export(Add(), (torch.randn(5, 8), torch.randn(5, 8)))


def test_cpu(program, tmp_path):
    result = run_tool("aot-compile", save(program, tmp_path / "add.pt2"), "-o", tmp_path / "model.so")
    assert_user_error(result, "triton_kernel_wrapper_functional", "test_triton.py:", "--target=cuda")
    assert not (tmp_path / "model.so").exists()


def test_not_packed(program, tmp_path):
    with triton_archives.pack._saved_as(
        [triton_archives.describe(node, (((), 0),)) for node in triton_archives._triton.find_launches(program)]
    ):
        torch.export.save(program, tmp_path / "add.pt2")
    assert_user_error(run_tool("aot-compile", tmp_path / "add.pt2", *EMULATED), "test_triton.py:", "python -m kiln.pack")


def test_other_architecture(program, tmp_path):
    result = run_tool("aot-compile", save(program, tmp_path / "add.pt2"), "--target=cuda", "--gpu-arch=sm_90")
    assert_user_error(result, "add_kernel", "for sm_90", "--gpu-arch=sm_90", "test_triton.py:")


def config(description):
    return next(iter(description["kernels"].values()))["configs"][0]


def change_config(**fields):
    return lambda description, files: config(description).update(fields)


def change_parameter(i, **fields):
    return lambda description, files: config(description)["parameters"][i].update(fields)


def change_image(**fields):
    return lambda description, files: config(description)["images"][0].update(fields)


def cut_image(description, files):
    for name in files:
        files[name] = files[name][:1000]


DAMAGE = {
    "format": (lambda description, files: description.update(format=2), "is of format 2"),
    "missing": (lambda description, files: config(description).pop("grid"), "missing value at kernels"),
    "inputs": (lambda description, files: next(iter(description["kernels"].values()))["inputs"].pop(), "does not describe this call"),
    "grid": (change_config(grid=[0, 1]), "a grid of 2 dims"),
    "grid of a tensor": (change_config(grid=[0, 5, 5]), "argument 'x': a number of blocks is no integer"),
    "grid beyond": (change_config(grid=[99, 5, 5]), "refers to inputs beyond"),
    "warps": (change_config(warps=1 << 60), "blocks of -1 threads"),
    "alignment": (change_config(alignment=3), "multiples of 3"),
    "function": (change_config(function="a b"), "'a b' is no name"),
    "other function": (change_config(function="sub_kernel"), "no emulator with the function 'sub_kernel'"),
    "no images": (change_config(images=[]), "no images"),
    "beyond": (change_parameter(0, input=99), "refers to inputs beyond"),
    "negative": (change_parameter(0, input=-7), "is input -7"),
    "descriptor": (change_parameter(0, type="tensordesc<fp32[64,64]>"), "the type 'tensordesc<fp32[64,64]>', which is not supported"),
    "dtype": (change_parameter(0, type="*fp16"), "argument 'x': its kernel has been compiled for tensor<*xf16>, not for a tensor of f32"),
    "pointer": (change_parameter(3, type="*fp32"), "argument 'n': its kernel has been compiled for tensor<*xf32>"),
    "number": (change_parameter(0, type="i32"), "argument 'x': its kernel has been compiled for i32"),
    "shared": (change_image(shared=1 << 40), "bytes of shared memory"),
    "kind": (change_image(kind="elf"), "code of the kind 'elf'"),
    "no file": (change_image(file="../model.json"), "the archive has no 'extra/../model.json'"),
    "not for a GPU": (change_image(kind="cubin"), "is no cubin"),
    "cut": (cut_image, "is no emulator"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged(name, program, tmp_path):
    change, message = DAMAGE[name]
    result = run_tool("aot-compile", save(program, tmp_path / "add.pt2", change=change), "-o", tmp_path / "model.so", *EMULATED)
    assert_user_error(result, message)
    assert not (tmp_path / "model.so").exists()


def test_every_field(program, tmp_path):
    """Whatever stands in the description instead: an archive is imported or refused in one line, and nothing crashes."""
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "test" / "Frontend" / "mutate.py")
    mutate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutate)
    with zipfile.ZipFile(save(program, tmp_path / "add.pt2")) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (member,) = (name for name in members if name.endswith(MEMBER))
    documents = [document for _, _, document in mutate.mutations(json.loads(members[member]))]
    documents = random.Random(1).sample(documents, 150)
    for i, document in enumerate(documents):
        with zipfile.ZipFile(tmp_path / f"{i}.pt2", "w") as archive:
            for name, data in {**members, member: json.dumps(document)}.items():
                archive.writestr(name, data)
    command = [BIN / "import-pt2", "--check", *(tmp_path / f"{i}.pt2" for i in range(len(documents)))]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    answers = result.stdout.splitlines()
    assert len(answers) == len(documents) and sum(answer != "ok" for answer in answers) > 100


def test_strides_that_overlap(tmp_path):
    class Windows(nn.Module):
        def forward(self, x):
            return softmax(x.unfold(0, 4, 1))

    result = run_tool("aot-compile", save(export(Windows(), (torch.randn(16),)), tmp_path / "windows.pt2"), *EMULATED)
    assert_user_error(result, "argument 'x': memory of the strides [1, 1]", "test_triton.py:")


def test_one_of_several(tmp_path):
    path = save(export(Add(), (torch.randn(5, 8), torch.randn(5, 8))), tmp_path / "add.pt2")
    result = run_tool("aot-compile", f"--entry=one={path}", f"--entry=two={path}", "-o", tmp_path / "model.so", *EMULATED)
    assert_user_error(result, "entry 'one': Triton kernels are for models of one program")
