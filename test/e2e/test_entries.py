"""Several programs in one model: entries over one set of weights, with buffers in common where that is said."""

import copy
import json
import os
import re

import pytest
import torch
from torch.export.pt2_archive._package import package_pt2

import kiln
from conftest import TARGET, assert_user_error, run_tool

OPTIONS = dict(option.lstrip("-").replace("-", "_").split("=") for option in TARGET)
VOCABULARY, WIDTH, ROWS = 90, 128, 32
NEAR = dict(rtol=1e-4, atol=1e-4)


class Decoder(torch.nn.Module):
    """Tokens attend to all that are in the cache. The table is also the head."""

    def __init__(self, width=WIDTH):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(VOCABULARY, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)
        self.register_buffer("cache", torch.zeros(ROWS, width))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, tokens, positions):
        self.cache.index_copy_(0, positions, self.table(tokens))
        self.count += tokens.shape[0]
        x = (self.cache[positions] @ self.cache.T).softmax(-1) @ self.cache
        x = x + self.down(self.up(x).relu())
        return x @ self.table.weight.T, self.count.clone()


class Reader(torch.nn.Module):
    """Reads what the others write."""

    def __init__(self, decoder):
        super().__init__()
        self.register_buffer("cache", decoder.cache)

    def forward(self, scale):
        return self.cache.sum(0) * scale


def call(tokens, first=0):
    return torch.tensor(tokens), torch.arange(first, first + len(tokens))


@torch.no_grad()
def export_decoder(module):
    size = torch.export.Dim("size", min=2, max=ROWS)
    prefill = torch.export.export(module, call(range(8)), dynamic_shapes=({0: size}, {0: size}))
    return {"prefill": prefill, "decode": torch.export.export(module, call([1]))}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The module, a folder with an archive of each of its programs, and `both.pt2` of two."""
    folder = tmp_path_factory.mktemp("entries")
    module = Decoder().eval()
    programs = export_decoder(module)
    package_pt2(folder / "both.pt2", exported_programs=programs)
    programs["read"] = torch.export.export(Reader(module), (torch.tensor(2.0),))
    for name, program in programs.items():
        torch.export.save(program, folder / f"{name}.pt2")
    return module, folder


def compile_entries(folder, output, *options, entries=("prefill", "decode", "read"), state="cache,count"):
    named = [f"--entry={name}={folder / name}.pt2" for name in entries]
    shared = [f"--share-state={state}"] if state else []
    process = run_tool("aot-compile", *named, *shared, "-o", output, *TARGET, *options)
    assert process.returncode == 0, process.stderr
    return process.stderr


@torch.no_grad()
def check(session, module):
    """Two texts, one after the other, and the tokens behind each."""
    prefill, decode = session.entry("prefill"), session.entry("decode")
    module = copy.deepcopy(module)
    for prompt in ([3, 1, 4, 1, 5], [9, 2]):
        torch.testing.assert_close(prefill(*call(prompt)), module(*call(prompt)), **NEAR)
        for i in range(3):
            step = call([7 + i], len(prompt) + i)
            torch.testing.assert_close(decode(*step), module(*step), **NEAR)
    if "read" in session.model.entries:
        read = session.entry("read")
        torch.testing.assert_close(read(torch.tensor(3.0)), module.cache.sum(0) * 3, **NEAR)
    return module


@pytest.mark.parametrize("weights", ["embed", "external"])
def test_files(files, tmp_path, weights):
    module, folder = files
    compile_entries(folder, tmp_path / "model.so", f"--weights={weights}")
    model = kiln.load(tmp_path / "model.so", threads=2)
    assert model.entries == ["prefill", "decode", "read"]
    assert model.info["entry"] is None and [len(entry["inputs"]) for entry in model.info["entries"]] == [2, 2, 1]
    assert "prefill(tokens: int64" in repr(model)
    names = [constant["name"] for constant in model.constants]
    assert len(names) == len(set(names)) and not [name for name in names if ":" in name]
    sessions = [model.session() for _ in range(2)]
    for session in sessions:
        check(session, module)
    sessions[0].reset()
    check(sessions[0], module)
    # A weight is one for all entries.
    changed = copy.deepcopy(module)
    torch.nn.init.normal_(changed.up.weight)
    changed.table.weight.data[4:6] = torch.randn(2, WIDTH)
    model.set_constant("up.weight", changed.up.weight)
    model.set_constant("table.weight[4:6]", changed.table.weight.data[4:6])
    check(model.session(), changed)
    for refused in (model, model.session()):
        with pytest.raises(kiln.KilnError, match="prefill.*decode.*read"):
            refused(torch.tensor(1.0))
    with pytest.raises(kiln.KilnError, match='no entry named "encode": it has "prefill", "decode", "read"'):
        model.session().entry("encode")


def test_archive_of_several(files, tmp_path):
    module, folder = files
    for output in ("a.so", "b.so"):
        process = run_tool("aot-compile", folder / "both.pt2", "--share-state=c*", "-o", tmp_path / output, *TARGET)
        assert process.returncode == 0 and not process.stderr, process.stderr
    assert (tmp_path / "a.so").read_bytes() == (tmp_path / "b.so").read_bytes()
    check(kiln.load(tmp_path / "a.so").session(), module)
    # One of them, by itself or beside others.
    process = run_tool("aot-compile", "--entry", f"decode={folder / 'both.pt2'}", "-o", tmp_path / "decode.so", *TARGET)
    assert process.returncode == 0, process.stderr
    alone = kiln.load(tmp_path / "decode.so")
    assert alone.entries == ["decode"] and alone.info["entry"] == "decode"
    torch.testing.assert_close(alone(*call([1])), copy.deepcopy(module)(*call([1])), **NEAR)


class Shown(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.arange(8.0))

    def forward(self, x):
        return self.kept * x


class Filled(Shown):
    """Writes a buffer that it does not read."""

    def forward(self, x):
        self.kept.fill_(2.0)
        return x + 1


def test_written_and_not_read(tmp_path):
    entries = {"show": tmp_path / "show.pt2", "fill": tmp_path / "fill.pt2"}
    for module, file in zip((Shown(), Filled()), entries.values(), strict=True):
        torch.export.save(torch.export.export(module, (torch.ones(()),)), file)
    model = kiln.compile(entries, tmp_path / "model.so", share_state=["kept"], **OPTIONS)
    written, other = model.session(), model.session()
    assert written.entry("show")(torch.tensor(3.0)).tolist() == [0, 3, 6, 9, 12, 15, 18, 21]
    assert written.entry("fill")(torch.tensor(3.0)).item() == 4
    assert written.entry("show")(torch.tensor(3.0)).tolist() == [6] * 8
    assert other.entry("show")(torch.tensor(1.0)).tolist() == list(range(8))
    written.reset()
    assert written.entry("show")(torch.tensor(1.0)).tolist() == list(range(8))


def test_default(files, tmp_path):
    """`forward`, else `model`, is what functions without an entry run."""
    module, folder = files
    for name in ("model", "forward"):
        entries = {"other": folder / "read.pt2", name: folder / "decode.pt2"}
        model = kiln.compile(entries, tmp_path / f"{name}.so", share_state=["cache"], **OPTIONS)
        assert model.info["entry"] == name and len(model.inputs) == 2
        for one in (model, model.session()):
            torch.testing.assert_close(one(*call([1])), copy.deepcopy(module)(*call([1])), **NEAR)


def test_own_buffers(files, tmp_path):
    """Without --share-state each entry has its own, under its own name."""
    module, folder = files
    warning = compile_entries(folder, tmp_path / "model.so", entries=("prefill", "decode"), state=None)
    assert re.search(r"warning: 'cache' .*'prefill'.*'decode' .as 1 more.: --share-state=cache", warning), warning
    model = kiln.load(tmp_path / "model.so")
    names = [constant["name"] for constant in model.constants]
    assert {"prefill:cache", "decode:cache"} < set(names) and "cache" not in names
    session, modules = model.session(), {name: copy.deepcopy(module) for name in model.entries}
    for _ in range(2):
        for name, step in (("prefill", call([3, 1, 4])), ("decode", call([5], 3))):
            with torch.no_grad():
                torch.testing.assert_close(session.entry(name)(*step), modules[name](*step), **NEAR)
    model.set_constant("decode:count", torch.tensor(40))
    assert model.session().entry("decode")(*call([1]))[1] == 41
    assert model.session().entry("prefill")(*call([1, 2]))[1] == 2


def test_different_weights(files, tmp_path):
    """Two models in one: their parameters have the same names and other values."""
    module, folder = files
    other = Decoder().eval()
    for parameter in other.parameters():
        parameter.data.normal_()
    torch.export.save(export_decoder(other)["decode"], tmp_path / "other.pt2")
    model = kiln.compile({"one": folder / "decode.pt2", "two": tmp_path / "other.pt2"}, **OPTIONS)
    session = model.session()
    for name, eager in (("one", module), ("two", other)):
        with torch.no_grad():
            torch.testing.assert_close(session.entry(name)(*call([5])), copy.deepcopy(eager)(*call([5])), rtol=1e-3, atol=1e-3)
    assert "two:up.weight" in [constant["name"] for constant in model.constants]
    changed = copy.deepcopy(other)
    changed.up.weight.data.fill_(1e-3)
    model.set_constant("two:up.weight", changed.up.weight)
    with torch.no_grad():
        torch.testing.assert_close(model.session().entry("two")(*call([5])), copy.deepcopy(changed)(*call([5])), rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(model.session().entry("one")(*call([5])), copy.deepcopy(module)(*call([5])), **NEAR)


def test_later_weights(files, tmp_path):
    module, folder = files
    compile_entries(folder, tmp_path / "model.so", "--weights=later")
    model = kiln.load(tmp_path / "model.so")
    with pytest.raises(kiln.KilnError, match="has no value"):
        model.session().entry("decode")(*call([1]))
    for name, value in module.state_dict().items():
        model.set_constant(name, value)
    check(model.session(), module)


@pytest.mark.skipif(bool(TARGET), reason="measures files of models for CPUs")
@pytest.mark.parametrize("weights", ["embed", "external"])
def test_size(tmp_path, weights):
    """Weights are packed once for all entries."""
    module = Decoder(768).eval()
    programs = export_decoder(module)
    for name, program in programs.items():
        torch.export.save(program, tmp_path / f"{name}.pt2")
    sizes = []
    for entries, state in ((["decode"], None), (["prefill", "decode"], "cache,count")):
        compile_entries(tmp_path, tmp_path / "model.so", f"--weights={weights}", entries=entries, state=state)
        sizes.append(sum(os.path.getsize(path) for path in tmp_path.glob("model.so*")))
    assert sizes[1] <= 1.02 * sizes[0], sizes


def test_tools(files, tmp_path):
    """aot-run, profiles and debug printing know entries and their kernels by name."""
    module, folder = files
    path = tmp_path / "model.so"
    compile_entries(folder, path, "--debug-print=3")
    process = run_tool("aot-run", path, "--entry=decode", "--repeat=2", f"--profile={tmp_path / 'trace.json'}")
    assert process.returncode == 0, process.stderr
    shown = set(re.findall(r"(\w+\$)\w+", process.stderr + process.stdout))
    assert shown == {"decode$"}, process.stderr[:2000]
    names = [event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if "name" in event]
    assert any(name.startswith("decode$") for name in names) and not any(name.startswith("prefill$") for name in names)
    process = run_tool(
        "aot-run", path, "--entry=prefill", "--sym=s" + re.search(r'"s(\d+)"', run_tool("aot-run", path, "--info").stdout)[1] + "=5"
    )
    assert process.returncode == 0, process.stderr
    for options, message in (
        ([], "--entry chooses one"),
        (["--entry=encode"], "--entry=encode: the model has the entries: prefill, decode, read"),
    ):
        process = run_tool("aot-run", path, *options)
        assert process.returncode == 1 and message in process.stderr, process.stderr


@pytest.mark.parametrize("kind", ["torch", "kernel", "wrapper"])
def test_stages(files, tmp_path, kind):
    """A module of a module for each entry, which the tools read."""
    _, folder = files
    compile_entries(folder, tmp_path / "model.mlir", f"--emit={kind}")
    process = run_tool("kiln-opt", tmp_path / "model.mlir")
    assert process.returncode == 0, process.stderr
    assert re.findall(r"^  module @(\w+)", process.stdout, re.MULTILINE) == ["prefill", "decode", "read"]


@pytest.mark.skipif(bool(TARGET), reason="counts what the host computes")
def test_folded_once(tmp_path):
    """What all entries compute of the weights is computed once: no kernel is compiled for it again."""
    for name, program in export_decoder(Decoder().eval()).items():
        torch.export.save(program, tmp_path / f"{name}.pt2")
    named = [f"--entry={name}={tmp_path / name}.pt2" for name in ("prefill", "decode")]
    process = run_tool("aot-compile", *named, "--emit=kernel", "--share-state=c*", "-o", "-")
    assert process.returncode == 0, process.stderr
    values = [set(re.findall(r"dense_resource<(folded\w*)>", text)) for text in process.stdout.split("module @")[1:]]
    assert len(values) == 2 and values[0] == values[1] and values[0]


@pytest.mark.parametrize("kind", ["json"] if TARGET else ["json", "llvm", "obj"])
def test_other_outputs(files, tmp_path, kind):
    _, folder = files
    compile_entries(folder, tmp_path / "model", f"--emit={kind}")
    contents = (tmp_path / "model").read_bytes()
    assert b"prefill" in contents and b"decode" in contents


def test_bad_options(files, tmp_path):
    _, folder = files

    def refuse(*arguments, parts):
        arguments = [str(argument).replace("@", f"{folder}/") for argument in arguments]
        process = run_tool("aot-compile", *arguments, "-o", tmp_path / "model.so", *TARGET)
        assert_user_error(process, *parts)
        assert not (tmp_path / "model.so").exists()

    two = ("--entry=a=@prefill.pt2", "--entry=b=@decode.pt2")
    refuse("--entry=a", parts=["--entry=a: expected NAME=FILE.pt2"])
    refuse("--entry=a=@decode.pt2", "--entry=a=@read.pt2", parts=["two entries are called 'a'"])
    refuse("--entry=a=@decode.pt2", "--entry=b-c=@read.pt2", parts=["'b-c' is no name for an entry"])
    refuse("--entry=a=@decode.pt2", "--entry=1=@read.pt2", parts=["'1' is no name for an entry"])
    refuse("--entry=b-c=@decode.pt2", parts=["'b-c' is no name for an entry"])
    refuse("--entry=a=@missing.pt2", *two, parts=["missing.pt2"])
    refuse("--entry=encode=@both.pt2", parts=["both.pt2: holds several programs (", "none is called 'encode'"])
    refuse(*two, "--share-state=keys", parts=["--share-state: no entry has a buffer named 'keys'"])
    refuse(*two, "--share-state=[", parts=["--share-state=["])
    refuse(*two, "--share-state=", parts=["--share-state: expected names"])
    refuse("--entry=a=@decode.pt2", "--entry=b=@read.pt2", "--share-state=count", parts=["'count' is in the entry 'a' alone", "'b'"])
    refuse("@decode.pt2", "--share-state=cache", parts=["--share-state: there is one entry, 'model'"])
    process = run_tool("aot-compile", folder / "both.pt2", "--emit=fx", "-o", tmp_path / "model.py")
    assert_user_error(process, "--emit=fx is for one program, and there are 2 (", "--entry decode=")
    refuse("@both.pt2", "--report=" + str(tmp_path / "r.html"), parts=["--report is for one program"])

    programs = export_decoder(Decoder())
    for name, shown in (("a/b", "a/b"), ("../a", "../a"), ("a\nb", r"a\nb"), ("", ""), ("ä" * 90, None)):
        package_pt2(tmp_path / "names.pt2", exported_programs={name: programs["decode"], "prefill": programs["prefill"]})
        refuse(tmp_path / "names.pt2", parts=["is no name for an entry", f"'{shown}'" if shown is not None else r"\303\244'"])

    plain = Reader(Decoder())
    cache = plain._buffers.pop("cache")
    plain.cache = cache
    torch.export.save(torch.export.export(plain, (torch.tensor(2.0),)), tmp_path / "plain.pt2")
    refuse(two[0], f"--entry=p={tmp_path}/plain.pt2", "--share-state=cache", parts=["'cache' is a constant in the entry 'p'"])
    wide = Decoder(64).eval()
    torch.export.save(export_decoder(wide)["decode"], tmp_path / "wide.pt2")
    refuse(
        two[0],
        f"--entry=w={tmp_path}/wide.pt2",
        "--share-state=cache",
        parts=["'cache' is tensor<32x128xf32>", "'a'", "tensor<32x64xf32>", "'w'"],
    )
    begun = Decoder().eval()
    begun.cache.fill_(1)
    torch.export.save(export_decoder(begun)["decode"], tmp_path / "begun.pt2")
    refuse(two[0], f"--entry=w={tmp_path}/begun.pt2", "--share-state=cache", parts=["'cache' begins with other values"])

    class Unknown(torch.nn.Module):
        def forward(self, x):
            return torch.ops.aten._standard_gamma_grad(x, x)

    torch.export.save(torch.export.export(Unknown(), (torch.randn(4, 4),)), tmp_path / "unknown.pt2")
    refuse(two[0], f"--entry=w={tmp_path}/unknown.pt2", parts=["unknown.pt2: entry 'w': ", "aten._standard_gamma_grad"])
