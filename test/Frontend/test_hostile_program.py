"""Damaged programs and archives: each is imported or refused in one line, and never crashes the process.

With a sanitizer build this also finds what happens to be harmless otherwise.
"""

import copy
import random
import struct
import zipfile

import mutate
import pytest
import torch

import programs
from conftest import import_all

MEMBERS = ["models/model.json", "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"]
PROGRAMS = {
    "layers": programs.layers,
    "dynamic": programs.dynamic,
    "branches": lambda: (programs.Branches(), (torch.ones(3),)),
    "mutating": lambda: (programs.Mutating(), (torch.ones(3),), {"decompose": True}),
    "printing": lambda: (programs.Printing(), (torch.ones(3),), {"decompose": True}),
}
# What a program may do without: arguments that have a default, and fields that newer writers added.
OPTIONAL = {
    "kind",
    "is_hop_single_tensor_return",
    "name",
    "is_single_tensor_return",
    "custom_obj_values",
    "sym_float_values",
    "metadata",
    "treespec_namedtuple_fields",
    "verifiers",
    "torch_version",
    "guards_code",
    "hint",
    "index",
    "min_val",
    "max_val",
    "forward_arg_names",
    "signature",
}


@pytest.fixture(params=PROGRAMS)
def archive(request, export):
    module, inputs, *options = PROGRAMS[request.param]()
    return export(module, inputs, **(options[0] if options else {}))


def check(archive, folder, changes):
    """Imports an archive for each (description, member, document) and returns the answers."""
    paths = [
        archive.write(folder / f"{i}.pt2", {member: document, "data/sample_inputs/model.pt": b""})
        for i, (_, member, document) in enumerate(changes)
    ]
    answers = import_all(paths)
    for path, answer in zip(paths, answers):
        assert answer == "ok" or answer.startswith(f"{path}: "), answer
        path.unlink()
    return answers


def test_every_kind_of_damage(archive, tmp_path):
    rng = random.Random(0)
    for member in MEMBERS:
        changes = [((path, what), member, document) for path, what, document in mutate.mutations(archive.json(member))]
        check(archive, tmp_path, rng.sample(changes, min(len(changes), 600)))


def test_missing_fields_are_named(archive, tmp_path):
    document = archive.json()
    places = [
        path
        for path in mutate.paths(document)
        if isinstance(path[-1], str)
        and path[-1] not in OPTIONAL
        and "metadata" not in path
        and "module_call_graph" not in path
        and path[-2:-1] not in [("tensor_values",), ("opset_version",)]
        and path[-2:-1] not in [("range_constraints",), ("sym_int_values",), ("sym_bool_values",)]
        and path[-2:-1] not in [("sym_float_values",)]
    ]
    places = random.Random(1).sample(places, min(len(places), 300))
    answers = check(archive, tmp_path, [(path, MEMBERS[0], mutate.remove(document, path)) for path in places])
    for path, answer in zip(places, answers):
        assert answer != "ok", path
        assert "models/model.json: " in answer, (path, answer)
        parent = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path[:-1]).lstrip(".")
        assert f"missing value at {parent}" in answer or "one alternative of a union" in answer, (path, answer)


@pytest.fixture
def layers(export):
    return export(*programs.layers())


def test_truncated_archives(layers, tmp_path):
    data = layers.path.read_bytes()
    lengths = sorted({*range(64), *range(0, len(data), 97), *range(len(data) - 64, len(data))})
    paths = []
    for length in lengths:
        paths.append(tmp_path / f"{length}.pt2")
        paths[-1].write_bytes(data[:length])
    assert "ok" not in import_all(paths)


def test_damaged_headers(layers, tmp_path):
    data = layers.write(tmp_path / "plain.pt2").read_bytes()
    directory = data.index(b"PK\x01\x02")
    rng = random.Random(2)
    paths = []
    for i in range(400):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            if i % 2:
                position = rng.randrange(directory, len(data))
            else:
                position = data.index(b"PK\x03\x04", rng.randrange(directory // 2)) + rng.randrange(30)
            damaged[position] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        paths.append(tmp_path / f"{i}.pt2")
        paths[-1].write_bytes(damaged)
    import_all(paths)


def refusal(archive, tmp_path, changes, **options):
    (answer,) = import_all([archive.write(tmp_path / "changed.pt2", changes, **options)])
    assert answer.startswith(f"{tmp_path / 'changed.pt2'}: "), answer
    return answer.split(": ", 1)[1]


def test_not_an_archive(tmp_path):
    (tmp_path / "a.pt2").write_bytes(b"not a zip" * 100)
    with zipfile.ZipFile(tmp_path / "b.pt2", "w") as archive:
        archive.writestr("x/readme.txt", "hello")
    a, b, c = import_all([tmp_path / "a.pt2", tmp_path / "b.pt2", tmp_path / "c.pt2"])
    assert "not a .pt2 archive" in a
    assert "holds no exported program" in b
    assert "No such file" in c


@pytest.mark.parametrize("member", [*MEMBERS, "data/weights/weight_0", "data/constants/tensor_0"])
def test_missing_member(layers, tmp_path, member):
    answer = refusal(layers, tmp_path, {member: None})
    assert member in answer or "no exported program" in answer


@pytest.mark.parametrize(
    "member, text, reason",
    [
        ("byteorder", b"big", "byteorder is 'big'"),
        ("archive_version", b"7", "archive_version is '7'"),
        ("archive_format", b"zip", "archive_format is 'zip'"),
    ],
)
def test_foreign_archive(layers, tmp_path, member, text, reason):
    assert reason in refusal(layers, tmp_path, {member: text})


def test_schema_version(layers, tmp_path):
    program = layers.json()
    program["schema_version"] = {"major": 9, "minor": 0}
    assert "schema version 9.0 is not supported (expected 8.x)" in refusal(layers, tmp_path, {MEMBERS[0]: program})
    program["schema_version"] = {"major": 8, "minor": 999}
    (answer,) = import_all([layers.write(tmp_path / "newer.pt2", {MEMBERS[0]: program})])
    assert answer == "ok"


@pytest.mark.parametrize(
    "text, reason",
    [
        (b"", "unexpected end"),
        (b"{", "expected a key"),
        (b'{"a": 1} x', "unexpected text"),
        (b'{"a": 01}', "expected a value"),
        (b'{"schema_version": {"major": 99999999999999999999, "minor": 0}}', "more than 64 bits"),
        (b'{"a": "\xff"}', "invalid UTF-8"),
        (b'{"a": "\n"}', "control character"),
        (b'{"a": "\\x"}', "bad escape"),
        (b"[" * 100000, "nested too deeply"),
        (b'{"a":' * 100000, "nested too deeply"),
        (b"[]", "expected object"),
    ],
)
def test_bad_json(layers, tmp_path, text, reason):
    answer = refusal(layers, tmp_path, {MEMBERS[0]: text})
    assert answer.startswith("models/model.json: ") and reason in answer


def weight(layers, change):
    config = layers.json(MEMBERS[1])
    change(config["config"]["table"])
    return {MEMBERS[1]: config}


def test_short_weight(layers, tmp_path):
    (path,) = {meta["path_name"] for name, meta in layers.json(MEMBERS[1])["config"].items() if name == "table"}
    member = f"data/weights/{path}"
    answer = refusal(layers, tmp_path, {member: layers.members[member][:-1]})
    assert "'table': needs 12 elements of 4 bytes" in answer and "has 47 bytes" in answer


@pytest.mark.parametrize(
    "change, reason",
    [
        (
            lambda meta: meta.update(use_pickle=True),
            "a tensor subclass, which the archive holds pickled: save program.run_decompositions({})",
        ),
        (lambda meta: meta.update(path_name="weight_99"), "no member 'data/weights/weight_99'"),
        (lambda meta: meta.update(path_name="../../etc/passwd"), "no member"),
        (lambda meta: meta["tensor_meta"].update(dtype=8), "the graph expects"),
        (lambda meta: meta["tensor_meta"].update(sizes=[{"as_int": 4}, {"as_int": 3}]), "the graph expects"),
        (lambda meta: meta["tensor_meta"].update(storage_offset={"as_int": 1}), "needs 13 elements"),
        (lambda meta: meta["tensor_meta"].update(storage_offset={"as_int": -1}), "storage offset"),
        (lambda meta: meta["tensor_meta"].update(strides=[{"as_int": 2**62}, {"as_int": 1}]), "more than 2^63"),
        (lambda meta: meta["tensor_meta"].update(strides=[{"as_int": -4}, {"as_int": 1}]), "stride"),
        (lambda meta: meta["tensor_meta"].update(layout=1), "not strided"),
        (lambda meta: meta["tensor_meta"].update(dtype=0), "scalar type 0"),
    ],
)
def test_bad_weight(layers, tmp_path, change, reason):
    assert reason in refusal(layers, tmp_path, weight(layers, change))


def test_bool_of_other_bytes(layers, tmp_path):
    meta = layers.json(MEMBERS[2])["config"]["constant"]
    answer = refusal(layers, tmp_path, {f"data/constants/{meta['path_name']}": bytes([1, 2, 0, 1])})
    assert "neither 0 nor 1" in answer


def test_expanded_weight_is_bounded(layers, tmp_path):
    program, config = layers.json(), layers.json(MEMBERS[1])
    sizes, zeros = [{"as_int": 2**13}] * 4, [{"as_int": 0}] * 4
    program["graph_module"]["graph"]["tensor_values"]["b_table"].update(sizes=sizes, strides=zeros)
    config["config"]["table"]["tensor_meta"].update(sizes=sizes, strides=zeros)
    assert "takes more than 4 GiB of memory beyond its own size (--max-unpacked)" in refusal(
        layers, tmp_path, {MEMBERS[0]: program, MEMBERS[1]: config}
    )


def test_too_large_tensor(layers, tmp_path):
    program = layers.json()
    program["graph_module"]["graph"]["tensor_values"]["relu"].update(sizes=[{"as_int": 2**40}] * 2)
    answer = refusal(layers, tmp_path, {MEMBERS[0]: program})
    assert "node 'relu'" in answer and "more than 2^63 bytes" in answer


def test_inflated_size_is_not_believed(layers, tmp_path):
    path = layers.write(tmp_path / "deflated.pt2", compression=zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    header = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02"))
    while b"models/model.json" not in data[header : header + 100]:
        header = data.index(b"PK\x01\x02", header + 4)
    struct.pack_into("<I", data, header + 24, 0xFFFFFFF0)
    path.write_bytes(data)
    (answer,) = import_all([path])
    assert "model.json" in answer and answer != "ok"


def node(program, target):
    return next(n for n in program["graph_module"]["graph"]["nodes"] if n["target"].endswith(target))


def broken(layers, change):
    program = copy.deepcopy(layers.json())
    change(program)
    return {MEMBERS[0]: program}


@pytest.mark.parametrize(
    "change, parts",
    [
        (
            lambda p: node(p, "relu.default")["inputs"][0]["arg"]["as_tensor"].update(name="nowhere"),
            ["node 'relu' (", "programs.py:", "refers to 'nowhere', which is not defined", "'self' of aten.relu.default"],
        ),
        (lambda p: node(p, "relu.default")["outputs"][0]["as_tensor"].update(name="linear"), ["'linear' is defined twice"]),
        (lambda p: node(p, "relu.default")["outputs"][0]["as_tensor"].update(name="nowhere"), ["'nowhere' is not in tensor_values"]),
        (lambda p: node(p, "relu.default")["inputs"].clear(), ["argument 'self' of aten.relu.default is missing"]),
        (lambda p: node(p, "relu.default")["inputs"][0].update(name="x"), ["aten.relu.default has no argument 'x'"]),
        (lambda p: node(p, "relu.default")["inputs"].append(node(p, "relu.default")["inputs"][0]), ["is given twice"]),
        (
            lambda p: node(p, "split.Tensor")["inputs"][1].update(arg={"as_string": "two"}),
            ["argument 'split_size' of aten.split.Tensor cannot be \"two\""],
        ),
        (lambda p: node(p, "cat.default")["inputs"][0].update(arg={"as_ints": [1, 2]}), ["ok"]),
        (lambda p: p["graph_module"]["graph"]["outputs"][0]["as_tensor"].update(name="nowhere"), ["refers to 'nowhere'"]),
        (lambda p: p["graph_module"]["graph"]["inputs"].pop(), ["expected one for each input of the graph"]),
        (lambda p: p["graph_module"]["graph"]["inputs"].reverse(), ["input_specs[0]"]),
    ],
)
def test_bad_reference(layers, tmp_path, change, parts):
    (answer,) = import_all([layers.write(tmp_path / "changed.pt2", broken(layers, change))])
    for part in parts:
        assert part in answer


def test_messages_are_one_sane_line(layers, tmp_path):
    def change(program):
        node(program, "relu.default")["inputs"][0]["arg"]["as_tensor"].update(name="a\nb\x1b[31m" + "c" * 10**6)

    (answer,) = import_all([layers.write(tmp_path / "changed.pt2", broken(layers, change))])
    assert len(answer) < 3000 and "\x1b" not in answer and "a b" in answer


@pytest.mark.parametrize(
    "text",
    [
        "Add(" * 5000 + ")" * 5000,
        "Symbol('d0', integer=True)",
        "Pow(Symbol('s0'), Integer(1000000))",
        "Mul(" + ", ".join(f"Add(Symbol('a{i}'), Symbol('b{i}'))" for i in range(40)) + ")",
        "Max(" + ", ".join(f"Symbol('s{i}')" for i in range(2000)) + ")",
        "Integer(99999999999999999999)",
        "Symbol('s0'",
        "sqrt(Symbol('s0'))",
        "FloorDiv(Symbol('s0'), Integer(0))",
        "Float('1.5', precision=53)",
        "Symbol('min')",
        "",
        "(" * 10**6,
    ],
    ids=lambda text: text[:20],
)
def test_bad_expression(export, tmp_path, text):
    module, inputs, options = programs.dynamic()
    archive = export(module, inputs, **options)
    program = archive.json()
    program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0] = {"as_expr": {"expr_str": text, "hint": None}}
    assert "node 'x': cannot read expression" in refusal(archive, tmp_path, {MEMBERS[0]: program})
