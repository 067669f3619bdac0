"""What real programs are imported as."""

import json
import re
import struct
import zipfile

import pytest
import torch
from torch import nn

import programs
from conftest import Archive, import_all, import_module


def calls(text):
    return re.findall(r'torch\.call "([^"]+)"', text)


def resource(text, name):
    """The bytes of a resource, less the alignment that precedes them."""
    (blob,) = re.findall(rf'^ *"?{re.escape(name)}"?: "0x([0-9A-F]+)"', text, re.M)
    return bytes.fromhex(blob)[4:]


@pytest.fixture
def layers(export):
    return export(*programs.layers())


def test_signature(layers):
    text = import_module(layers.path)
    (signature,) = re.findall(r"func\.func @main\((.*?)\) -> \((.*)\) \{$", text, re.M)
    assert signature[0].count("%arg") == 1, "constant inputs are not arguments"
    assert 'tensor<2x4xf32> {torch.name = "x", torch.strides = #sym.shape<[4, 1]>}' in signature[0]
    types = re.findall(r"(tensor<[^>]*>|none)(?: \{[^}]*\})?", signature[1])
    assert types == ["tensor<2x4xf64>", "none", "tensor<i64>", "tensor<2xi32>", "tensor<2x1x4xf32>"]
    assert "torch.none : none" in text and "torch.number 7 : i64 -> tensor<i64>" in text
    assert f'torch.program = "{layers.path.stem}"' in text


def call_signature(path):
    """torch.signature, or None."""
    found = re.findall(r'torch\.signature = "((?:[^"\\]|\\.)*)"', import_module(path))
    return json.loads(re.sub(r"\\([0-9A-F]{2}|.)", lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else m[1], found[0])) if found else None


def test_call_signature(export, tmp_path):
    class Called(nn.Module):
        def forward(self, pair, flag, *, scale=1.0, name="a"):
            return {"sum": pair[0] * scale + pair[1]["y"], "rest": [pair[0].shape[0], None, 2.5]}

    x = torch.randn(3)
    archive = export(Called(), ((x, {"y": x}), True), kwargs=dict(scale=2.0, name='"'))
    pair, leaf = ["builtins.tuple", "null", [None, ["builtins.dict", '["y"]', [None]]]], None
    called = {
        "arguments": [
            "builtins.tuple",
            "null",
            [["builtins.tuple", "null", [pair, leaf]], ["builtins.dict", '["scale", "name"]', [leaf, leaf]]],
        ],
        "names": ["pair", "flag", "scale", "name"],
        "inputs": [0, 1, {"value": True}, {"value": 2, "dtype": "float64"}, {"value": '"'}],
        "results": ["builtins.dict", '["sum", "rest"]', [leaf, ["builtins.list", "null", [leaf] * 3]]],
        "numbers": [False, True, False, True],
    }
    assert call_signature(archive.path) == called
    # What does not fit the graph, or is of another format, is left out.
    document = archive.json()
    signature = document["graph_module"]["module_call_graph"][0]["signature"]
    version, tree = json.loads(signature["in_spec"])
    deep = tree
    for _ in range(5000):
        deep = {"type": "builtins.tuple", "context": "null", "children_spec": [deep]}
    leaves = tree["children_spec"][0]["children_spec"]
    changes = ["", "[1", "[]", "{}", [2, tree], [1, tree, tree], [1, leaves[1]], [1, {**tree, "children_spec": tree["children_spec"][:1]}]]
    changes += [[1, {**tree, "type": 7}], [1, {**tree, "children_spec": None}], [1, {**leaves[1], "children_spec": [leaves[1]] * 5}]]
    for position, change in enumerate([*changes, None, 5, {"a": 1}]):
        if isinstance(change, list):
            change = json.dumps(change)
        document["graph_module"]["module_call_graph"][0]["signature"] = {**signature, "in_spec": change}
        assert call_signature(archive.write(tmp_path / f"{position}.pt2", {"models/model.json": document})) is None, change
    text = json.dumps(version)
    for _ in range(5000):
        text = f"[{text}]"
    for name, change in (("in_spec", text), ("forward_arg_names", 3), ("out_spec", signature["in_spec"])):
        document["graph_module"]["module_call_graph"][0]["signature"] = {**signature, name: change}
        assert call_signature(archive.write(tmp_path / f"{name}.pt2", {"models/model.json": document})) is None, name


def test_constants(layers):
    text = import_module(layers.path)
    tied = r'\{aliases = \["second\.weight"\], kind = "parameter"\}'
    assert re.search(rf'torch\.constant "first\.weight" = .* {tied}', text)
    assert re.search(r'torch\.constant "hidden" = .* \{kind = "buffer", transient\}', text)
    assert re.search(r'torch\.constant "table" = .* : tensor<3x4xf32> \{kind = "buffer"\}', text)
    assert re.search(r'torch\.constant "constant" = .* : tensor<4xi1> \{kind = "constant"\}', text)
    assert resource(text, "table") == struct.pack("<12f", *range(12))
    assert resource(text, "turned") == struct.pack("<6f", 0, 3, 1, 4, 2, 5), "a transposed view is made contiguous"
    assert resource(text, "constant") == bytes([1, 0, 1, 1])


class Views(nn.Module):
    """Buffers in one storage."""

    def __init__(self):
        super().__init__()
        table = torch.arange(12.0).reshape(4, 3)
        views = {"left": table[:, 0], "right": table[:, 1:], "row": table[2], "none": table[:0]}
        for name, view in (views | {"repeated": table[1, 2].expand(5)}).items():
            self.register_buffer(name, view)

    def forward(self, x):
        return [x + buffer.sum() for buffer in self.buffers()]


def test_overlapping_views(export):
    """Elements decide, not the ranges that they are in."""
    text = import_module(export(Views(), (torch.ones(()),)).path)
    found = dict(re.findall(r'torch\.constant "(\w+)" = .* \{kind = "buffer"(?:, overlaps = \[(.*?)\])?\}', text))
    assert {name: sorted(re.findall(r"\w+", others)) for name, others in found.items()} == {
        "left": ["row"],
        "right": ["repeated", "row"],
        "row": ["left", "right"],
        "none": [],
        "repeated": ["right"],
    }


def test_arguments(layers):
    text = import_module(layers.path)
    assert '"aten.split.Tensor"(%10) args = [#sym.arg<0>, 2, 1]' in text
    assert re.search(r'%\d+:2 = torch\.call "aten\.split\.Tensor"', text)
    assert re.search(r'"aten\.cat\.default"\(%11#0, %11#1\) args = \[\[#sym\.arg<0>, #sym\.arg<1>\], 1\]', text)
    assert re.search(
        r'"aten\.to\.dtype"\(%\d+\) args = '
        r"\[#sym\.arg<0>, #sym\.dtype<f64>, false, false, #sym\.memory_format<contiguous>\]",
        text,
    )
    assert re.search(
        r'"aten\.full\.default"\(\) args = '
        r'\[\[2, 4\], 0x7FF0000000000000 : f64, unit, unit, #sym\.device<"cpu">, false\]',
        text,
    )
    assert re.search(r'"aten\.index\.Tensor"\(%\d+, %\d+\) args = \[#sym\.arg<0>, \[#sym\.arg<1>\]\]', text)
    assert re.search(r'"aten\.add\.Tensor"\(%\d+, %\d+\) args = \[#sym\.arg<0>, #sym\.arg<1>, 1\]', text)


def test_locations(layers):
    text = import_module(layers.path)
    (line,) = re.findall(r'torch\.call "aten\.cat\.default".* loc\((#loc\d+)\)$', text, re.M)
    (frame,) = re.findall(rf'^{line} = loc\("cat"\((#loc\d+)\)\)$', text, re.M)
    assert re.search(rf'^{frame} = loc\("[^"]*programs\.py":\d+:0\)$', text, re.M)
    assert "nn/modules/linear.py" not in text, "the line of the model, not of PyTorch"


def test_symbols(export):
    module, inputs, options = programs.dynamic()
    text = import_module(export(module, inputs, **options).path)
    (batch,) = re.findall(r"%arg0: tensor<\?x4xf32, #sym\.shape<\[2\*(s\d+), 4\]>>", text)
    assert re.search(rf"sym\.symbols = \{{.*{batch} = \{{max = 64 : i64, min = 2 : i64\}}", text)
    assert re.search(rf"torch\.ranges = \[\{{expr = #sym\.expr<2\*{batch}>, max = 128 : i64, min = 4 : i64\}}\]", text)
    assert not [target for target in calls(text) if "sym_size" in target or target == "_operator.floordiv"]
    assert f"#sym.expr<(2*{batch}) mod 3>" in text
    assert re.search(
        r'"aten\.item\.default".* \{defines = \["u0"\], node = "item", values = \[#sym\.expr<u0>\]\} : '
        r"\(tensor<i64>\) -> tensor<i64>",
        text,
    )
    assert re.search(r'"aten\.nonzero\.default".* \{defines = \["u1"\], node = "nonzero"\}', text)
    assert re.search(r'"_operator\.ge"\(\) args = \[#sym\.expr<u0>, 1\].* : \(\) -> tensor<i1>', text)
    assert re.search(r'"aten\._assert_scalar\.default"\(%\d+\) args = \[#sym\.scalar<0>, "', text)
    assert re.search(
        r'"aten\.mul\.Tensor"\(%arg0, %\d+\) args = \[#sym\.arg<0>, #sym\.scalar<1>\]'
        r".*tensor<f64>\)",
        text,
    )
    assert re.search(rf"torch\.number #sym\.expr<4\*{batch} \+ 1> -> tensor<i64>", text)


def test_what_is_assumed_of_strides(export):
    """It matters where the program computes with strides: inputs of any layout are taken."""
    auto = torch.export.Dim.AUTO

    class Sum(nn.Module):
        def forward(self, x, y):
            return x + y

    class Stride(nn.Module):
        def forward(self, x, y):
            return x + y * x.stride(0)

    def rows(x):
        return x[:, :4]

    def columns(x):
        return x[:, :, :4]

    for module, view, assumed, is_kept in (
        (Sum(), rows, "stride", False),
        (Sum(), columns, "_base", False),
        (Stride(), rows, "stride", True),
        (Stride(), columns, "_base", False),
    ):
        archive = export(module, (view(torch.randn(5, 6, 8)), view(torch.randn(5, 6, 8))), dynamic_shapes=({0: auto, 1: auto},) * 2)
        assert any(assumed in guard for guard in archive.json()["guards_code"]), "export assumes no such thing"
        (guards,) = re.findall(r"torch\.guards = \[(.*?)\], ", import_module(archive.path))
        assert (assumed in guards) == is_kept, guards
        assert "x.size()[1] == y.size()[1]" in guards


def test_guards_on_what_an_input_is_a_view_of(export):
    """They are dropped, whatever they compare; so are those on strides if all that could see them is whether a result is a copy."""
    auto = torch.export.Dim.AUTO

    class Flat(nn.Module):
        def forward(self, x):
            return x.reshape(-1) * 2

    class Written(nn.Module):
        def forward(self, x):
            x.reshape(-1).add_(1)
            return x * 2

    strided = torch.randn(5, 7, 2, 7)[..., 1::2]
    archive = export(Flat(), (strided,), dynamic_shapes=({2: auto},))
    assert sum("_base" in guard for guard in archive.json()["guards_code"]) > 1
    assert "torch.guards" not in import_module(archive.path)
    columns = torch.randn(6, 8, 10)[:3, ::2, 2:]
    for module, is_kept in ((Flat(), False), (Written(), True)):
        archive = export(module, (columns,), dynamic_shapes=({0: auto, 1: auto, 2: auto},))
        assert any("stride" in guard for guard in archive.json()["guards_code"])
        assert ("x.stride()[1] != x.size()[2]" in import_module(archive.path)) == is_kept


def test_integers_beyond_64_bits(export):
    """As bounds they say nothing."""

    class Kept(nn.Module):
        def forward(self, x):
            kept = x[x.sum(1) > 0]
            return kept[kept > 1]

    archive = export(Kept(), (torch.randn(13, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    document = archive.json()
    ranges = document["range_constraints"]
    (name,) = [name for name, value in ranges.items() if value["max_val"] and value["max_val"] > 2**63]
    assert f"{name} = {{min = 0 : i64}}" in import_module(archive.path)
    ranges[name] = {"min_val": -(2**80), "max_val": 2**63}
    other = archive.write(archive.path.parent / "other.pt2", {"models/model.json": document})
    assert f"{name} = {{}}" in import_module(other)
    for wrong in ({"min_val": 2**64, "max_val": None}, {"min_val": 0, "max_val": -(2**64)}):
        ranges[name] = wrong
        (answer,) = import_all([archive.write(archive.path.parent / "wrong.pt2", {"models/model.json": document})])
        assert f"an integer of more than 64 bits at range_constraints.{name}." in answer


def test_ranges_from_two_on(export):
    """Export has no example of sizes 0 and 1, which the exported module takes; what data gives keeps its range."""

    class Chosen(nn.Module):
        def forward(self, x, y, n):
            count = n.item()
            torch._check(count >= 2)
            return x * 2, y * 2, torch.ones(count)

    auto, few, many = torch.export.Dim.AUTO, torch.export.Dim("few", min=2, max=9), torch.export.Dim("many", min=3)
    for dim, least, imported in ((auto, 2, 0), (few, 2, 2), (many, 3, 3)):
        archive = export(Chosen(), (torch.randn(5), torch.randn(5), torch.tensor(4)), dynamic_shapes=({0: dim}, None, None))
        ranges = {name[0]: (name, value["min_val"]) for name, value in archive.json()["range_constraints"].items()}
        assert ranges["s"][1] == least and ranges["u"][1] == 2, "export gives other ranges"
        text = import_module(archive.path)
        assert re.search(rf"{ranges['s'][0]} = {{(max = 9 : i64, )?min = {imported} : i64", text)
        assert f"{ranges['u'][0]} = {{min = 2 : i64" in text


def test_scalar_input(export):
    class Scale(nn.Module):
        def forward(self, x, n):
            return x * n

    shapes = {"x": None, "n": torch.export.Dim.DYNAMIC}
    text = import_module(export(Scale(), (torch.ones(3), 4), dynamic_shapes=shapes).path)
    (symbol,) = re.findall(r'%arg1: tensor<i64> \{torch\.name = "n", torch\.value = #sym\.expr<(s\d+)>\}', text)
    assert f'"aten.mul.Tensor"(%arg0) args = [#sym.arg<0>, #sym.expr<{symbol}>]' in text


def test_nested_graphs(export):
    text = import_module(export(programs.Branches(), (torch.ones(3),)).path)
    functions = re.findall(r"func\.func private @(\w+)", text)
    assert len(functions) == len(set(functions)) == 6
    assert re.search(
        r'torch\.higher_order "cond"\(%\d+, %arg0\) args = '
        r"\[#sym\.arg<0>, @\w+, @\w+, \[#sym\.arg<1>\]\]",
        text,
    )
    assert re.search(
        r'torch\.higher_order "while_loop"\(%\d+, %\d+\) args = '
        r"\[@\w+, @\w+, \[#sym\.arg<0>, #sym\.arg<1>\], \[\]\]",
        text,
    )


def test_symbolic_operand_of_branch(export):
    class Branch(nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return torch.cond(x.sum() > 0, lambda x: x + n, lambda x: x - n, (x,))

    text = import_module(export(Branch(), (torch.ones(3),), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}}).path)
    (symbol,) = re.findall(r"%arg0: tensor<\?xf32, #sym\.shape<\[(s\d+)\]>>", text)
    assert re.search(rf'torch\.higher_order "cond".* args = \[.*\[#sym\.expr<{symbol}>, #sym\.arg<1>\]\]', text)
    assert len(re.findall(rf"tensor<i64> \{{torch\.name = \"\w+\", torch\.value = #sym\.expr<{symbol}>\}}", text)) == 2


def test_mutation_stays_as_written(export):
    text = import_module(export(programs.Mutating(), (torch.ones(3),)).path)
    assert calls(text) == ["aten.add_.Tensor", "aten.mul_.Tensor", "aten.add.Tensor"]
    assert "torch.mutates" not in text


def test_functionalised_mutation(export):
    text = import_module(export(programs.Mutating(), (torch.ones(3),), decompose=True).path)
    (results,) = re.findall(r"func\.func @main\(.*?\) -> \((.*)\) \{$", text, re.M)
    assert re.findall(r'tensor<[^>]*> \{(?:torch\.mutates = "(\w+)")?', results) == ["", "steps", "x"]
    assert 'torch.mutates_kind = "buffer"' in results and 'torch.mutates_kind = "input"' in results
    assert re.search(r'torch\.constant "steps" = .* \{kind = "buffer", mutated\}', text)


def test_effects(export, tmp_path):
    """Tokens leave nothing: nodes are in order."""
    archive = export(programs.Printing(), (torch.ones(3),), decompose=True)
    plain, effects = (import_module(path) for path in (export(programs.Printing(), (torch.ones(3),)).path, archive.path))
    prints = r'torch\.higher_order "print"\(.*\) args = (\[.*\]) \{(?:names|node)'
    assert re.findall(prints, effects) == re.findall(prints, plain) and len(re.findall(prints, plain)) == 2
    signature = r"func\.func @main\((.*?)\) ->"
    assert len(re.findall(r"%arg\d", *re.findall(signature, effects))) == 1 and "token" not in effects
    program = archive.json()
    for node in program["graph_module"]["graph"]["nodes"]:
        if node["target"].endswith("with_effects"):
            node["inputs"][1]["arg"]["as_operator"] = "torch.ops.higher_order.other"
    (answer,) = import_all([archive.write(tmp_path / "other.pt2", {"models/model.json": program})])
    assert "node 'with_effects' (" in answer and answer.endswith("with_effects of torch.ops.higher_order.other is not supported")


def test_custom_operator(export):
    @torch.library.custom_op("kiln_test::twice", mutates_args=())
    def twice(x: torch.Tensor, times: int) -> torch.Tensor:
        return x * times

    twice.register_fake(lambda x, times: torch.empty_like(x))

    class Custom(nn.Module):
        def forward(self, x):
            return twice(x, 2)

    text = import_module(export(Custom(), (torch.ones(3),)).path)
    assert ('torch.call "kiln_test.twice.default"(%arg0) args = [#sym.arg<0>, 2] {names = ["x", "times"], node = "twice"}') in text


ELEMENT_TYPES = {
    torch.uint8: "ui8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.complex64: "complex<f32>",
    torch.bool: "i1",
    torch.float64: "f64",
}


@pytest.mark.parametrize("dtype", ELEMENT_TYPES, ids=str)
def test_element_types(export, dtype):
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("c", torch.tensor([0, 1, 1, 0]).to(dtype))

        def forward(self, x):
            return x, self.c

    text = import_module(export(Constant(), (torch.ones(1),)).path)
    assert f"tensor<4x{ELEMENT_TYPES[dtype]}>" in text
    buffer = torch.tensor([0, 1, 1, 0]).to(dtype).view(torch.uint8).numpy().tobytes()
    assert resource(text, "c") == buffer


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_compression_and_root_do_not_matter(layers, tmp_path, compression):
    first = layers.write(tmp_path / "a.pt2", compression=compression, root="some name/")
    second = layers.write(tmp_path / "b.pt2", compression=compression, root="some name/")
    assert import_module(first) == import_module(second)
    strip = lambda text: re.sub(r"torch\.program = \"[^\"]*\"|0[xX]\w+", "", text)
    assert strip(import_module(first)) == strip(import_module(layers.path))
    assert resource(import_module(first), "turned") == resource(import_module(layers.path), "turned")


def test_zip64(layers, tmp_path):
    path = tmp_path / "large.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in layers.members.items():
            with archive.open("root/" + name, "w", force_zip64=True) as member:
                member.write(data)
    assert import_all([path]) == ["ok"]
    assert Archive(path).members == layers.members
