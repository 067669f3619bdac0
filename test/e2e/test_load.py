"""Loading: on CPUs that a model was not compiled for, from memory, with a file of weights that others read."""

import ctypes
import json
import os
import pathlib
import re
import subprocess

import pytest
import safetensors.torch
import torch

import kiln
from conftest import BIN, run_tool


def run_mlp(small_mlp, model):
    x = torch.randn(3, 6)
    torch.testing.assert_close(model(x), small_mlp.module(x).detach(), rtol=1e-5, atol=1e-5)


def test_another_cpu(small_mlp, compile_file):
    """A CPU that lacks what a model's code may use is told so before any of that code runs."""
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    cpu, lacks = ("diamondrapids", "egpr") if " avx512_fp16 " in flags else ("sapphirerapids", "avx512fp16")
    output = compile_file(f"--cpu={cpu}")
    process = run_tool("aot-run", output)
    assert process.returncode == 1 and re.search(
        rf"the CPU '{cpu}', and this machine, .*, lacks .*\b{lacks}\b.*: compile it with --cpu=", process.stderr
    )
    with pytest.raises(kiln.KilnError, match=lacks) as caught:
        kiln.load(output)
    (level,) = re.findall(r"compile it with (--cpu=[\w-]+)", str(caught.value))
    # A host calls only the runtime before that, which is no newer than x86-64-v2.
    library = ctypes.CDLL(str(output))
    assert library.kiln_abi_version() == small_mlp.model.info["abi"]
    sections = subprocess.run(["readelf", "-W", "-d", "-r", output], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"\((PRE)?INIT(_ARRAY)?\)|IRELATIV", sections)
    run_mlp(small_mlp, kiln.load(compile_file(level, name="other.so")))


def in_memory(contents):
    """A path of a file that is in memory alone, and its descriptor."""
    file = os.memfd_create("model")
    os.write(file, contents)
    return f"/proc/self/fd/{file}", file


def test_from_memory(small_mlp, compile_file):
    path, file = in_memory(compile_file().read_bytes())
    model = kiln.load(path)
    run_mlp(small_mlp, model)
    process = subprocess.run([BIN / "aot-run", path], pass_fds=[file], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    # The path is one that has been loaded, of another file now.
    external = compile_file("--weights=external", name="external.so")
    os.close(file)
    other, file = in_memory(external.read_bytes())
    assert other == path
    weights = external.with_name("external.so.safetensors")
    # This file's spelling of the path.
    where = re.escape(f"/proc/self/fd/./{file}")
    with pytest.raises(kiln.KilnError, match=f"^{where}.safetensors: cannot open the model's weights: .*: give weights_path$"):
        kiln.load(path)
    run_mlp(small_mlp, kiln.load(path, weights=weights))
    weights_path, weights_file = in_memory(weights.read_bytes())
    weights.unlink()
    model = kiln.load(path, weights=weights_path)
    os.close(weights_file)
    run_mlp(small_mlp, model)
    os.close(file)


class Various(torch.nn.Module):
    """State that is used as it is, tied, packed and folded, and a buffer of each dtype."""

    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(50, 24), torch.nn.Linear(24, 50, bias=False)
        self.head.weight = self.table.weight
        self.narrow = torch.nn.Linear(24, 24)
        self.conv, self.norm = torch.nn.Conv1d(24, 24, 3, padding=1), torch.nn.BatchNorm1d(24)
        floats = [torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.complex128]
        integers = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
        self.dtypes = ["some_" + str(dtype).split(".")[1] for dtype in floats + integers]
        for name, dtype in zip(self.dtypes, floats + integers, strict=True):
            self.register_buffer(name, (torch.randn(5) if dtype in floats else torch.randint(0, 100, (5,))).to(dtype))
        self.register_buffer("flags", torch.rand(5) > 0.5)
        self.register_buffer("none", torch.ones(0, 3))

    def forward(self, tokens):
        x = self.narrow(self.table(tokens))
        x = self.norm(self.conv(x.transpose(1, 2))).transpose(1, 2)
        one = tokens[0, 0] >= 0
        buffers = [getattr(self, name)[tokens[0] % 5] for name in self.dtypes]
        return self.head(x), self.flags & one, self.none + one.float(), *buffers


def test_replaced(tmp_path):
    """A file that is compiled anew is another model, while the former one goes on."""

    class Multiple(torch.nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            return x * self.factor

    x = torch.ones(2)
    models = [kiln.compile(torch.export.export(Multiple(factor), (x,)), tmp_path / "model.so") for factor in (2, 3, 5)]
    for model, factor in zip(models, (2, 3, 5)):
        torch.testing.assert_close(model(x), x * factor)
    torch.testing.assert_close(kiln.load(tmp_path / "model.so")(x), x * 5)


def test_weights_are_safetensors(compile_model):
    torch.manual_seed(0)
    tokens = torch.randint(0, 50, (2, 7))
    compiled = compile_model(Various().eval(), (tokens,), options=["--weights=external"])
    state = compiled.module.state_dict()
    path = compiled.path.with_name("model.so.safetensors")
    stored = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, "pt") as file:
        notes = file.metadata()
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    assert (8 + length) % 4096 == 0 and list(header["__metadata__"])[0] == "kiln.hash"
    assert all(entry["data_offsets"][0] % 64 == 0 for name, entry in header.items() if not name.startswith(("__", "kiln.padding")))
    for name in [*compiled.module.dtypes, "flags", "narrow.bias"]:
        value = torch.view_as_real(state[name]) if state[name].is_complex() else state[name]
        assert stored[name].dtype == value.dtype and torch.equal(stored[name].view(torch.uint8), value.view(torch.uint8)), name
    assert notes["head.weight"] == "table.weight" and torch.equal(stored["table.weight"], state["table.weight"])
    # Elements of panels, in some order, and zeros behind the last column.
    for name in ("narrow.weight", "conv.weight", "table.weight"):
        packed = stored[f"kiln.packed.{name}"].flatten()
        assert torch.equal(packed[packed != 0].sort().values, state[name].flatten().sort().values), name
    assert {"norm.running_var", "norm.weight"} in [set(notes[name].split(", ")) for name in stored if name.startswith("kiln.folded")]
    assert set(stored) == set(header) - {"__metadata__"}
