"""Everything in an archive is hostile: the compiler refuses it in one line, never crashes, leaves no output behind."""

import concurrent.futures
import copy
import io
import itertools
import json
import os
import re
import struct
import warnings
import zipfile

import pytest
import torch

import kiln
from conftest import ROOT, Mlp, assert_user_error, run_tool


class Archive:
    """The members of a .pt2 file, to be changed and written again."""

    def __init__(self, path):
        with zipfile.ZipFile(path) as archive:
            self.members = {info.filename: archive.read(info) for info in archive.infolist()}

    def find(self, suffix):
        (name,) = [name for name in self.members if name.endswith(suffix)]
        return name

    def json(self, suffix):
        return json.loads(self.members[self.find(suffix)])

    def write(self, path, changes=None, compression=zipfile.ZIP_STORED):
        """Writes the archive with the members `changes` names replaced, or left out where the value is None."""
        changes = {self.find(suffix): value for suffix, value in (changes or {}).items()}
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, data in self.members.items():
                data = changes.get(name, data)
                if data is not None:
                    archive.writestr(zipfile.ZipInfo(name), json.dumps(data) if isinstance(data, dict) else data, compression)
        return path


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("archive") / "model.pt2"
    torch.export.save(torch.export.export(Mlp((6, 4)).eval(), (torch.randn(3, 6),)), path)
    return Archive(path)


@pytest.fixture
def refuse(tmp_path):
    """Compiles a file, expects a user error that names the file, and no output."""

    def check(path, *parts):
        output = tmp_path / "out" / "model.so"
        output.parent.mkdir(exist_ok=True)
        assert_user_error(run_tool("aot-compile", path, "-o", output), os.path.basename(path), *parts)
        assert os.listdir(output.parent) == []

    return check


def test_archive_is_sound(archive, tmp_path):
    """The archives as these tests write them compile, stored or deflated."""
    outputs = set()
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        source, output = archive.write(tmp_path / "model.pt2", compression=compression), tmp_path / "model.so"
        process = run_tool("aot-compile", source, "-o", output)
        assert process.returncode == 0, process.stderr
        outputs.add(output.read_bytes())
    assert len(outputs) == 1


def test_missing_file(refuse, tmp_path):
    refuse(tmp_path / "nowhere.pt2")


def test_folder(refuse, tmp_path):
    (tmp_path / "folder.pt2").mkdir()
    refuse(tmp_path / "folder.pt2")


@pytest.mark.parametrize("content", [b"", b"x", b"not a zip archive at all\n" * 100, b"PK\x03\x04" + b"\0" * 200, b"\x7fELF" + b"\0" * 100])
def test_not_a_zip(refuse, tmp_path, content):
    path = tmp_path / "text.pt2"
    path.write_bytes(content)
    refuse(path)


def test_truncated(archive, tmp_path):
    """Cut at a hundred places; a cut leaves no central directory, so every one is refused."""
    whole = archive.write(tmp_path / "whole.pt2").read_bytes()
    cases = [(f"cut at {end}", whole[:end]) for end in range(1, len(whole), max(1, len(whole) // 100))]
    assert run_all(tmp_path, cases, accepted=False) == []


def test_damaged_bytes(archive, tmp_path):
    """Single bytes changed all over the file: refused, or compiled where only weights changed; never a crash."""
    whole = archive.write(tmp_path / "whole.pt2").read_bytes()
    cases = []
    for at in range(0, len(whole), max(1, len(whole) // 150)):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        cases.append((f"byte {at}", bytes(damaged)))
    assert run_all(tmp_path, cases, accepted=True) == []


@pytest.mark.parametrize("member", ["models/model.json", "data/weights/model_weights_config.json", "weights/weight_0"])
def test_missing_member(archive, refuse, tmp_path, member):
    refuse(archive.write(tmp_path / "model.pt2", {member: None}), member.split("/")[-2] if member.endswith(".json") else "weight_0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "3",
        '{"graph_module": ',
        "{}",
        "\0\0",
        '{"a": "\ud800"}'.encode("utf-8", "surrogatepass"),
        "[" * 100000,
        '{"a":' * 100000,
    ],
)
def test_broken_json(archive, refuse, tmp_path, text):
    refuse(archive.write(tmp_path / "model.pt2", {"models/model.json": text}), "model.json")


@pytest.mark.parametrize("major", [0, 7, 9, 1 << 40, -8])
def test_unknown_schema_version(archive, refuse, tmp_path, major):
    model = archive.json("models/model.json")
    model["schema_version"]["major"] = major
    refuse(archive.write(tmp_path / "model.pt2", {"models/model.json": model}), "version")


@pytest.mark.parametrize("size", [0, 1, 92, 95])
def test_weight_shorter_than_its_shape(archive, refuse, tmp_path, size):
    """6*4 floats are 96 bytes; a storage may be longer than what a weight looks at."""
    refuse(archive.write(tmp_path / "model.pt2", {"weights/weight_0": b"\0" * size}), "weight_0")


@pytest.mark.parametrize(
    "field,value",
    [
        ("sizes", [{"as_int": 1 << 40}, {"as_int": 1 << 40}]),
        ("sizes", [{"as_int": -4}, {"as_int": 6}]),
        ("strides", [{"as_int": 1 << 62}, {"as_int": 1}]),
        ("strides", [{"as_int": -6}, {"as_int": 1}]),
        ("storage_offset", {"as_int": 1}),
        ("storage_offset", {"as_int": -1}),
        ("storage_offset", {"as_int": (1 << 63) - 1}),
        ("dtype", 99),
        ("dtype", 0),
        ("dtype", -1),
    ],
)
def test_weight_outside_of_its_bytes(archive, refuse, tmp_path, field, value):
    weights = archive.json("model_weights_config.json")
    weights["config"]["layers.0.weight"]["tensor_meta"][field] = value
    refuse(archive.write(tmp_path / "model.pt2", {"model_weights_config.json": weights}), "layers.0.weight")


def test_weight_path_leaves_the_archive(archive, refuse, tmp_path):
    for path in ("../../../etc/passwd", "/etc/passwd", "weight_99", "", "weight_0\0"):
        weights = archive.json("model_weights_config.json")
        weights["config"]["layers.0.weight"]["path_name"] = path
        refuse(archive.write(tmp_path / "model.pt2", {"model_weights_config.json": weights}))


def test_pickled_weight(archive, refuse, tmp_path):
    weights = archive.json("model_weights_config.json")
    weights["config"]["layers.0.weight"]["use_pickle"] = True
    refuse(archive.write(tmp_path / "model.pt2", {"model_weights_config.json": weights}), "layers.0.weight")


@pytest.mark.parametrize("code", [0, 9, 11, 99, -7, 1 << 33])
def test_unsupported_dtype(archive, refuse, tmp_path, code):
    model = archive.json("models/model.json")
    model["graph_module"]["graph"]["tensor_values"]["x"]["dtype"] = code
    refuse(archive.write(tmp_path / "model.pt2", {"models/model.json": model}))


class Unsupported(torch.nn.Module):
    def forward(self, x):
        x = torch.ops.kiln_test.first(x)  # a call without a lowering
        x = x + 1
        return torch.ops.kiln_test.second(x)  # a call without a lowering


@pytest.fixture(scope="session")
def unsupported(tmp_path_factory):
    for name in ("first", "second"):
        operator = torch.library.custom_op(f"kiln_test::{name}", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
        operator.register_fake(torch.empty_like)
    path = tmp_path_factory.mktemp("unsupported") / "unsupported.pt2"
    torch.export.save(torch.export.export(Unsupported(), (torch.randn(3),)), path)
    return path


def test_operator_without_lowering(unsupported, refuse):
    """All of them at once, each with the line of Python that calls it."""
    with open(__file__) as source:
        lines = [number for number, text in enumerate(source, 1) if text.endswith("# a call without a lowering\n")]
    refuse(unsupported, "kiln_test.first", "kiln_test.second", *(f"test_bad_input.py:{line}" for line in lines))


@pytest.mark.parametrize("output", ["/nowhere/at/all/model.so", "/proc/model.so", "/", "."])
def test_unwritable_output(archive, tmp_path, output):
    path = archive.write(tmp_path / "model.pt2")
    assert_user_error(run_tool("aot-compile", path, "-o", output, cwd=tmp_path), output)


def test_failed_compile_over_an_older_output(archive, tmp_path):
    """A refused model leaves what lay there as it was, or nothing; never half a file."""
    output = tmp_path / "model.so"
    output.write_text("older")
    process = run_tool("aot-compile", archive.write(tmp_path / "model.pt2", {"weights/weight_0": b""}), "-o", output)
    assert_user_error(process)
    assert not output.exists() or output.read_text() == "older"


# ---- every field of every JSON file: removed, or of another type


def places(value, path=()):
    """Every position in a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from places(child, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def changed(value, path, replacement):
    value = copy.deepcopy(value)
    parent = at(value, path[:-1])
    if replacement is REMOVED:
        del parent[path[-1]]
    else:
        parent[path[-1]] = replacement
    return value


REMOVED = object()
REPLACEMENTS = {
    "removed": REMOVED,
    "null": None,
    "string": "surprise",
    "empty string": "",
    "negative": -1,
    "large": (1 << 63) - 1,
    "too large": 1 << 70,
    "float": 1.5,
    "boolean": True,
    "list": [],
    "list of lists": [[[]]],
    "object": {},
    "other object": {"as_surprise": {"name": "x"}},
}
FILES = ["models/model.json", "model_weights_config.json", "model_constants_config.json"]
BATCH = 2  # processes at a time
EVERY = 1 if os.environ.get("KILN_ALL_FIELDS") else 4  # which fields are replaced by one thing; scripts/soak replaces all


def run_all(folder, cases, accepted):
    """Compiles every (label, archive bytes), a process each; returns a line for each that did anything but be refused in one
    line (or, where `accepted`, compile) and leave nothing behind but the output of a success."""

    def one(case):
        number, (label, data) = case
        scratch = folder / f"case-{number}"
        scratch.mkdir()
        source, output = scratch / "model.pt2", scratch / "model.so"
        source.write_bytes(data)
        process = run_tool("aot-compile", source, "-o", output, "-O0", "--jobs=1", timeout=60)
        left = sorted(set(os.listdir(scratch)) - {"model.pt2"})
        lines = process.stderr.splitlines()
        try:
            if process.returncode == 0 and accepted:
                return None if left == ["model.so"] else f"{label}: left {left}"
            if process.returncode != 1:
                return f"{label}: status {process.returncode}: {process.stderr[-300:]}"
            if len(lines) != 1 or not lines[0].startswith("aot-compile: error: "):
                return f"{label}: {process.stderr[-300:]!r}"
            return f"{label}: left {left}" if left else None
        finally:
            for name in os.listdir(scratch):
                os.unlink(scratch / name)
            scratch.rmdir()

    with concurrent.futures.ThreadPoolExecutor(BATCH) as pool:
        return [line for line in pool.map(one, enumerate(cases)) if line]


def packed(archive, suffix, text):
    buffer = io.BytesIO()
    archive.write(buffer, {suffix: text})
    return buffer.getvalue()


@pytest.mark.parametrize("kind", REPLACEMENTS)
@pytest.mark.parametrize("suffix", FILES)
def test_every_field(archive, tmp_path, suffix, kind):
    whole = archive.json(suffix)
    replacement, first = REPLACEMENTS[kind], list(REPLACEMENTS).index(kind) % EVERY
    cases = [
        (f"{suffix} {'.'.join(map(str, path))} {kind}", packed(archive, suffix, json.dumps(changed(whole, path, replacement))))
        for path in itertools.islice(places(whole), first, None, EVERY)
    ]
    assert run_all(tmp_path, cases, accepted=True) == []


# Without these a program means nothing: removed or of the wrong type, they must be refused, not guessed.
REQUIRED = [
    "graph_module",
    "graph_module.graph",
    "graph_module.graph.inputs",
    "graph_module.graph.outputs",
    "graph_module.graph.nodes",
    "graph_module.graph.tensor_values",
    "graph_module.graph.nodes.0.target",
    "graph_module.graph.nodes.0.inputs",
    "graph_module.graph.nodes.0.outputs",
    "graph_module.graph.tensor_values.x.dtype",
    "graph_module.graph.tensor_values.x.sizes",
    "graph_module.signature",
    "graph_module.signature.input_specs",
    "graph_module.signature.output_specs",
    "schema_version",
    "schema_version.major",
]


@pytest.mark.parametrize("field", REQUIRED)
@pytest.mark.parametrize("kind", ["removed", "null", "boolean", "float", "string", "other object"])
def test_required_field(archive, refuse, tmp_path, field, kind):
    if kind == "string" and field.endswith("target"):
        pytest.skip("a string is the right type")
    path = [int(key) if key.isdigit() else key for key in field.split(".")]
    model = changed(archive.json("models/model.json"), path, REPLACEMENTS[kind])
    refuse(archive.write(tmp_path / "model.pt2", {"models/model.json": model}))


@pytest.mark.parametrize("name", ["nowhere", "", "x\ny", "\u202e", "x" * 100000])
def test_bad_reference(archive, refuse, tmp_path, name):
    model = archive.json("models/model.json")
    model["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = name
    refuse(archive.write(tmp_path / "model.pt2", {"models/model.json": model}))


def test_cyclic_use(archive, refuse, tmp_path):
    """A node that reads its own result."""
    model = archive.json("models/model.json")
    node = model["graph_module"]["graph"]["nodes"][0]
    node["inputs"][0]["arg"]["as_tensor"]["name"] = node["outputs"][0]["as_tensor"]["name"]
    refuse(archive.write(tmp_path / "model.pt2", {"models/model.json": model}))


def test_wrong_shape_metadata(archive, tmp_path):
    """Result metadata that contradicts the operands is refused, or corrected; the output is never written past its end."""
    model = archive.json("models/model.json")
    name = model["graph_module"]["graph"]["nodes"][0]["outputs"][0]["as_tensor"]["name"]
    cases = []
    for sizes in ([1], [3, 5], [3, 4, 1], [1 << 31, 1 << 31], [0, 4], [3, 1 << 62], []):
        copied = copy.deepcopy(model)
        value = copied["graph_module"]["graph"]["tensor_values"][name]
        value["sizes"] = [{"as_int": size} for size in sizes]
        value["strides"] = [{"as_int": 1} for _ in sizes]
        cases.append((f"sizes {sizes}", packed(archive, "models/model.json", json.dumps(copied))))
    assert run_all(tmp_path, cases, accepted=True) == []


def test_negative_strides(archive, refuse, tmp_path):
    """No tensor of PyTorch has one: neither inputs nor results."""
    model = archive.json("models/model.json")
    for name, value in model["graph_module"]["graph"]["tensor_values"].items():
        copied = copy.deepcopy(model)
        copied["graph_module"]["graph"]["tensor_values"][name]["strides"][0] = {"as_int": -1}
        if value["strides"]:
            refuse(archive.write(tmp_path / f"{name}.pt2", {"models/model.json": copied}), "negative stride -1")


def test_zip_sizes_that_lie(archive, tmp_path):
    """Local and central headers that claim more bytes than there are."""
    whole = archive.write(tmp_path / "whole.pt2").read_bytes()
    cases = []
    for signature, offsets in (
        (b"PK\x01\x02", (20, 24, 28, 30, 42)),
        (b"PK\x03\x04", (18, 22, 26, 28)),
        (b"PK\x05\x06", (8, 10, 12, 16, 20)),
    ):
        start = whole.find(signature)
        for offset in offsets:
            for value in (0xFFFF, 0x7FFF):
                damaged = bytearray(whole)
                struct.pack_into("<H", damaged, start + offset, value)
                cases.append((f"{signature!r}+{offset} = {value:#x}", bytes(damaged)))
    assert run_all(tmp_path, cases, accepted=True) == []


def test_symbolic_sizes(archive, tmp_path):
    """Sizes written as expressions that are no expressions."""
    texts = [
        "",
        "Symbol(",
        "Symbol('s0')",
        "Integer(1, 2)",
        "Integer('x')",
        "Add()" * 3,
        "Mul(" * 5000,
        "Pow(Integer(2), Integer(100000))",
        "FloorDiv(Integer(1), Integer(0))",
        "Mod(Integer(1), Integer(0))",
        "__import__('os')",
        "Symbol('\0')",
        "Integer(" + "9" * 5000 + ")",
    ]
    cases = []
    for text in texts:
        model = archive.json("models/model.json")
        value = model["graph_module"]["graph"]["tensor_values"]["x"]
        value["sizes"][0] = {"as_expr": {"expr_str": text, "hint": {"as_int": 3}}}
        cases.append((text[:40], packed(archive, "models/model.json", json.dumps(model))))
    assert run_all(tmp_path, cases, accepted=True) == []


def test_not_a_file(refuse, tmp_path):
    """What may never end is not read."""
    os.mkfifo(tmp_path / "pipe")
    refuse(tmp_path / "pipe", "not a regular file")
    refuse("/dev/zero", "not a regular file")


def add_member(archive, path, name, data, compression=zipfile.ZIP_STORED):
    archive.write(path)
    with zipfile.ZipFile(path, "a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is there already
        file.writestr(zipfile.ZipInfo(name), data, compression)
    return path


def test_duplicate_member(archive, refuse, tmp_path):
    for suffix in ("models/model.json", "weights/weight_0"):
        name = archive.find(suffix)
        refuse(add_member(archive, tmp_path / "model.pt2", name, archive.members[name]), "is there twice")


def test_archive_that_is_two(archive, refuse, tmp_path):
    refuse(add_member(archive, tmp_path / "model.pt2", "other/models/model.json", "{}"), "more than one root folder")


def test_zip_bomb(archive, tmp_path):
    """A weight may look at a part of its storage, which is inflated whole."""
    bomb = {"weights/weight_0": archive.members[archive.find("weights/weight_0")] + bytes(64 << 20)}
    path, output = archive.write(tmp_path / "model.pt2", bomb, zipfile.ZIP_DEFLATED), tmp_path / "model.so"
    assert path.stat().st_size < 1 << 20
    assert run_tool("aot-compile", path, "-o", output).returncode == 0
    output.unlink()
    process = run_tool("aot-compile", path, "-o", output, "--max-unpacked=0")
    assert_user_error(process, "weight_0: the archive takes more than 0 GiB of memory beyond its own size (--max-unpacked)")
    for number in ("-1", "many", "1.5", str(1 << 60)):
        assert_user_error(run_tool("aot-compile", path, "-o", output, f"--max-unpacked={number}"), "expected a number of GiB")
    assert not output.exists()


def test_overlapping_weight(archive, tmp_path):
    """Elements of a weight that share bytes are copied apart; a weight that is written to may not share them."""
    weights = archive.json("model_weights_config.json")
    weights["config"]["layers.0.weight"]["tensor_meta"]["strides"] = [{"as_int": 1}, {"as_int": 1}]
    path = archive.write(tmp_path / "model.pt2", {"model_weights_config.json": weights})
    compiled = tmp_path / "model.so"
    assert run_tool("aot-compile", path, "-o", compiled).returncode == 0
    x = torch.randn(3, 6)
    stored = torch.frombuffer(bytearray(archive.members[archive.find("weights/weight_0")]), dtype=torch.float32)
    bias = torch.frombuffer(bytearray(archive.members[archive.find("weights/weight_1")]), dtype=torch.float32)
    expected = torch.nn.functional.linear(x, stored.as_strided((4, 6), (1, 1)), bias)
    torch.testing.assert_close(kiln.load(compiled)(x), expected)


def test_ranks(archive, refuse, tmp_path):
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    x = torch.randn([1] * 61 + [2, 3, 2])
    path = tmp_path / "deep.pt2"
    torch.export.save(torch.export.export(Double(), (x,)), path)
    assert run_tool("aot-compile", path, "-o", tmp_path / "deep.so").returncode == 0
    assert torch.equal(kiln.load(tmp_path / "deep.so")(x), x * 2)
    for rank in (65, 70000):
        program = archive.json("models/model.json")
        meta = next(iter(program["graph_module"]["graph"]["tensor_values"].values()))
        meta.update(sizes=[{"as_int": 1}] * rank, strides=[{"as_int": 1}] * rank)
        refuse(archive.write(tmp_path / "model.pt2", {"models/model.json": program}), f"rank {rank}")


def test_huge_sizes(archive, tmp_path):
    """Products that do not fit are refused, whatever is declared of which tensor."""
    program = archive.json("models/model.json")
    values = program["graph_module"]["graph"]["tensor_values"]
    cases = []
    for name in values:
        for sizes in ([1 << 31, 1 << 31], [1 << 62, 6], [(1 << 63) - 1, 2], [3, 1 << 31], [-1, 6], [-(1 << 63), 6], [0, 1 << 62]):
            changed = copy.deepcopy(program)
            changed["graph_module"]["graph"]["tensor_values"][name]["sizes"] = [{"as_int": size} for size in sizes]
            data = archive.write(tmp_path / "model.pt2", {"models/model.json": changed}).read_bytes()
            cases.append((f"{name} {sizes}", data))
    assert run_all(tmp_path, cases, accepted=False) == []


def test_tensors_that_fit_alone(refuse, tmp_path):
    """Each has an address for every byte; all that are alive at once have not."""

    class Sorted(torch.nn.Module):
        def forward(self, x):
            once = x.expand(1 << 38, 1 << 20).sort(0).values
            return (once + once.sort(1).values).sort(0).values.sum()

    torch.export.save(torch.export.export(Sorted(), (torch.ones(1 << 20),)), tmp_path / "sorted.pt2")
    refuse(tmp_path / "sorted.pt2", "the arena is larger than 64 bits can address")


def test_sizes_that_overflow_in_a_run(tmp_path):
    """Sizes of a run whose products overflow are a status: of an output, of what is in between, and of sums of both."""

    class Outer(torch.nn.Module):
        def forward(self, x, y):
            z = x[:, None] * y[None, :]
            return torch.cat([z, z]).sum(0) + z.flip(0).sum()

    rows, columns = torch.export.Dim("rows", min=2), torch.export.Dim("columns", min=2)
    program = torch.export.export(Outer(), (torch.ones(3), torch.ones(4)), dynamic_shapes=({0: rows}, {0: columns}))
    torch.export.save(program, tmp_path / "outer.pt2")
    assert run_tool("aot-compile", tmp_path / "outer.pt2", "-o", tmp_path / "outer.so").returncode == 0
    model = kiln.load(tmp_path / "outer.so", threads=1)

    def many(count):
        return torch.ones(1).as_strided((count,), (0,))

    assert model(torch.ones(3), torch.ones(4)).shape == (4,)
    for a, b in ((1 << 31, 1 << 31), (1 << 33, 1 << 29), (1 << 61, 2), (2, 1 << 61), ((1 << 61) - 1, (1 << 61) - 1)):
        with pytest.raises((kiln.KilnError, MemoryError, ValueError)):
            model(many(a), many(b))
    assert model(torch.ones(3), torch.ones(4)).shape == (4,)


def test_claims_of_docs_have_tests():
    """Tests and fuzzers that docs/security.md names are there; each of the vulnerabilities of other readers has one."""
    text = (ROOT / "docs" / "security.md").read_text()
    sources = {path.name: path.read_text() for path in (ROOT / "test").rglob("test_*.py")}
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 30
    assert [name for name in sorted(named) if f"def {name}(" not in "".join(sources.values())] == []
    assert set(re.findall(r"`(test_\w+\.py)`", text)) <= sources.keys()
    targets = {path.stem.removeprefix("fuzz-") for path in (ROOT / "test" / "fuzz" / "targets").glob("fuzz-*")}
    assert set(re.findall(r"fuzzer `([\w-]+)`", text)) <= targets
    published = [line for line in text.splitlines() if line.startswith("| CVE-")]
    assert len(published) == 9 and all("(`test_" in line for line in published)
