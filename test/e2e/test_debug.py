"""Debug printing of compiled models (--debug-print), on CPUs and in the emulator."""

import json
import os
import subprocess

import numpy
import pytest
import torch
from torch.export import Dim

import kiln
from conftest import EMULATED, ROOT, TARGET, assert_user_error, run_tool


class Shown(torch.nn.Module):
    """Products, maps, a nested graph, a call of the runtime, a number and a size that only a run has."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x, factor: int):
        y = torch.relu(self.linear(x)) * factor
        z = torch.cond(y.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (y,))
        return torch.linalg.svdvals(z), z.to(torch.bfloat16)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("debug")
    module, x = Shown().eval(), torch.randn(3, 6)
    numpy.savez(folder / "in.npz", **{"0": x.numpy(), "1": 3})
    with torch.no_grad():
        shapes = {"x": {0: Dim("n", min=1, max=64)}, "factor": Dim.DYNAMIC}
        torch.export.save(torch.export.export(module, (x, 3), dynamic_shapes=shapes), folder / "model.pt2")
        return folder, module(x, 3)


def build(folder, name, *options):
    process = run_tool("aot-compile", folder / "model.pt2", "-o", folder / name, *options)
    assert process.returncode == 0, process.stderr
    return folder / name


def execute(path, **env):
    return run_tool("aot-run", path, "--inputs", path.parent / "in.npz", env=env)


def launches(text):
    return [line[3:-3].split(" - ") for line in text.splitlines() if line.startswith("[  ")]


def read_index(folder):
    return [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("target", [(), EMULATED], ids=["cpu", "cuda"])
def test_levels(program, tmp_path, target):
    if TARGET and not target:
        pytest.skip("the CPU's turn is without KILN_TEST_TARGET")
    folder, expected = program
    path = build(folder, "shown.so", "--debug-print=3", *target)
    process = execute(path)
    assert process.returncode == 0, process.stderr
    steps = launches(process.stderr)
    # Each kernel before and after, in order; the graph's that was not taken is not among them.
    assert [step[0] for step in steps] == ["before_launch", "after_launch"] * (len(steps) // 2)
    assert steps[::2] == [["before_launch", *step[1:]] for step in steps[1::2]]
    nodes = " ".join(step[2] for step in steps)
    assert "node 'linear'" in nodes and "node 'sin'" in nodes and "test_debug.py:" in nodes and "cos" not in nodes
    assert any(step[1].startswith("kiln_linalg") for step in steps), steps

    process = execute(path, KILN_DEBUG_PRINT="2")
    first, *rest = process.stderr.split("[  ")[1:]
    assert first.startswith("inputs - x  ]:\n[[") and "Number of elements: 18\nSize: [3, 6]\nDtype: float32\nMean value: " in first
    assert rest[0].startswith("inputs - factor  ]:\n3\nNumber of elements: 1\nSize: []\nDtype: int64\n")
    assert process.stderr.count("[  before_launch") == process.stderr.count("[  after_launch") > len(steps)
    last = process.stderr.rpartition("[  after_launch - ")[2]
    assert "Size: [3, 4]\nDtype: bfloat16\n" in process.stderr and "Std value: " in last
    assert execute(path, KILN_DEBUG_PRINT="0").stderr == ""

    saved = tmp_path / "saved"
    for _ in range(2):
        process = execute(path, KILN_DEBUG_PRINT="1", KILN_DEBUG_DIR=str(saved))
        assert process.returncode == 0 and process.stderr == "", process.stderr
    assert sorted(path.name for path in saved.iterdir()) == ["run0", "run1"]
    rows = read_index(saved / "run1")
    assert len(rows) == len(list((saved / "run1").iterdir())) - 1
    arrays = [numpy.load(saved / "run1" / row["file"]) for row in rows]
    assert all(list(array.shape) == row["shape"] for array, row in zip(arrays, rows))
    results = {(row["name"], row["dtype"]): array for array, row in zip(arrays, rows) if row["time"] == "after_launch"}
    assert numpy.array_equal(arrays[0], numpy.load(folder / "in.npz")["0"]) and arrays[1] == 3
    values = [torch.from_numpy(array) for (_, dtype), array in results.items() if dtype == "float32"]
    assert any(value.shape == expected[0].shape and torch.allclose(value, expected[0], atol=1e-5) for value in values)
    bits = [torch.from_numpy(array.view("int16")).view(torch.bfloat16) for (_, dtype), array in results.items() if dtype == "bfloat16"]
    assert any(value.shape == expected[1].shape and torch.allclose(value, expected[1], atol=1e-2) for value in bits)


def test_filter_and_errors(program, tmp_path):
    folder, _ = program
    path = build(folder, "all.so", "--debug-print=3", *TARGET)
    name = launches(execute(path).stderr)[0][1]
    path = build(folder, "one.so", "--debug-print=2", f"--debug-filter={name}", *TARGET)
    assert {step[1] for step in launches(execute(path).stderr) if step[0] != "inputs"} == {name}

    def refuse(*options):
        return run_tool("aot-compile", folder / "model.pt2", "-o", tmp_path / "none.so", *options, *TARGET)

    assert_user_error(refuse("--debug-print=1", f"--debug-filter={name},{name}x"), f"--debug-filter={name}x", f"near ones are {name}")
    assert_user_error(refuse("--debug-filter=" + name), "--debug-filter", "--debug-print")
    assert_user_error(refuse("--debug-print=4"), "--debug-print=4: expected 0, 1, 2 or 3")
    assert not (tmp_path / "none.so").exists()

    for env, message in [
        ({"KILN_DEBUG_PRINT": "7"}, "KILN_DEBUG_PRINT=7: expected 0, 1, 2 or 3"),
        ({"KILN_DEBUG_PRINT": "3"}, "was compiled with --debug-print=2"),
        ({"KILN_DEBUG_PRINT": "1"}, "KILN_DEBUG_DIR is not set"),
        ({"KILN_DEBUG_PRINT": "1", "KILN_DEBUG_DIR": "/proc/none"}, "KILN_DEBUG_DIR: cannot write /proc/none: "),
    ]:
        process = execute(path, **env)
        assert process.returncode == 1 and message in process.stderr, process.stderr


def test_off_leaves_nothing(program):
    folder, _ = program
    plain = build(folder, "plain.so", *TARGET).read_bytes()
    assert build(folder, "plain.so", "--debug-print=0", *TARGET).read_bytes() == plain
    assert b"KILN_DEBUG" not in plain
    assert b"KILN_DEBUG" in build(folder, "names.so", "--debug-print=3", *TARGET).read_bytes()


@torch.library.custom_op("kilndebug::crash", mutates_args=())
def crash(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@crash.register_fake
def _(x):
    return torch.empty_like(x)


def test_the_kernel_that_crashes(tmp_path):
    class Crashing(torch.nn.Module):
        def forward(self, x):
            return crash(x.cumsum(0)).cumsum(0)

    torch.export.save(torch.export.export(Crashing(), (torch.randn(4),)), tmp_path / "model.pt2")
    numpy.savez(tmp_path / "in.npz", **{"0": numpy.ones(4, "float32")})
    (tmp_path / "crash.c").write_text("int crash(void) { __builtin_trap(); }\n")
    subprocess.run(["cc", f"-I{ROOT / 'include'}", "-fPIC", "-c", "crash.c"], cwd=tmp_path, check=True)
    operator = "--custom-op=kilndebug::crash(Tensor x) -> Tensor=crash"
    path = build(tmp_path, "model.so", "--debug-print=3", operator, f"--link={tmp_path / 'crash.o'}", *TARGET)
    process = execute(path)
    assert process.returncode < 0
    steps = launches(process.stderr)
    assert len(steps) == 3 and steps[-1][:2] == ["before_launch", "crash"] and "node 'crash'" in steps[-1][2], process.stderr


def save_run(folder, *tensors):
    """A saved run: (time, kernel, role, name, dtype, array) for each tensor."""
    folder.mkdir(parents=True)
    lines = []
    for i, (time, kernel, role, name, dtype, array) in enumerate(tensors):
        numpy.save(folder / f"{i}.npy", array)
        row = {"step": i, "time": time, "kernel": kernel, "where": "node 'n'", "role": role, "name": name, "dtype": dtype, "index": 0}
        lines.append(json.dumps({**row, "file": f"{i}.npy", "shape": list(array.shape)}) + "\n")
    (folder / "index.jsonl").write_text("".join(lines))


def compare(a, b, *options):
    process = run_tool("aot-run", "--compare-debug", a, b, *options)
    assert (process.returncode == 2) == bool(process.stderr), process
    return process.returncode, process.stdout + process.stderr


def test_compare_saved_runs(program, tmp_path):
    folder, _ = program
    path = build(folder, "saved.so", "--debug-print=1", *TARGET)
    for _ in range(2):
        assert execute(path, KILN_DEBUG_DIR=str(tmp_path / "runs")).returncode == 0
    a, b = tmp_path / "runs" / "run0", tmp_path / "runs" / "run1"
    assert compare(a, b)[0] == 0
    # A later tensor is changed, and what a result's memory holds before does not matter.
    rows = read_index(b)
    changed = [row for row in rows if row["time"] == "after_launch" and row["dtype"] == "float32" and row["role"] == "result"][-1]
    for row in rows:
        if row is changed or (row["time"] == "before_launch" and row["role"] == "result"):
            array = numpy.load(b / row["file"])
            array.reshape(-1).view("uint8")[-1] ^= 0x80  # the sign
            numpy.save(b / row["file"], array)
    status, text = compare(a, b)
    value = numpy.load(a / changed["file"]).reshape(-1)[-1]
    assert status == 1
    assert f"first difference: {changed['name']}, result {changed['index']} of {changed['kernel']} after launch {changed['step']}" in text
    assert changed["where"] in text and f" {numpy.float32(value):.9g} and {-numpy.float32(value):.9g}\n" in text
    assert compare(tmp_path / "runs", b) == (
        2,
        f"aot-run: error: {tmp_path / 'runs'}: 2 runs have been saved here; name one of them, such as {a}\n",
    )


def test_compare_values(tmp_path):
    def check(name, status, dtype, a, b, *options):
        for side, array in (("a", a), ("b", b)):
            save_run(tmp_path / name / side / "run7", ("after_launch", "map_0", "result", "buf", dtype, numpy.asarray(array)))
        got, text = compare(tmp_path / name / "a", tmp_path / name / "b", *options)
        assert got == status, text
        return text

    nan, inf = float("nan"), float("inf")
    check("special", 0, "float64", [nan, inf, -inf, 0.0], [nan, inf, -inf, -0.0])
    assert "largest absolute error inf at [0]" in check("nan", 1, "float64", [nan, 1], [1, nan])
    check("inf", 1, "float64", [inf], [1.0], "--rtol=1")
    text = check("worst", 1, "float32", numpy.array([[1, 2], [100, 4]], "float32"), numpy.array([[1, 3], [102, 4]], "float32"))
    assert "float32 [2, 2], 2 of 4 elements differ\n  first at [0, 1]: 2 and 3\n" in text
    assert "largest absolute error 2 at [1, 0]: 100 and 102\n  largest relative error 0.3333 at [0, 1]: 2 and 3\n" in text
    check("near", 0, "float32", numpy.array([1, 100], "float32"), numpy.array([1.5, 101], "float32"), "--rtol=0.01", "--atol=0.5")
    assert "9223372036854775807 and 9223372036854775806" in check("int64", 1, "int64", numpy.array([2**63 - 1]), numpy.array([2**63 - 2]))
    assert "True and False" in check("bool", 1, "bool", [True], [False])
    assert "1+2j and 1-2j" in check("complex", 1, "complex64", numpy.array([1 + 2j], "complex64"), numpy.array([1 - 2j], "complex64"))
    assert "1 and 2" in check("bf16", 1, "bfloat16", numpy.array([b"\x80\x3f"], "V2"), numpy.array([b"\x00\x40"], "V2"))
    assert "1-2j and 1+0j" in check("complex32", 1, "complex32", numpy.array([b"\0\x3c\0\xc0"], "V4"), numpy.array([b"\0\x3c\0\0"], "V4"))
    check("empty", 0, "float32", numpy.zeros((0, 3), "float32"), numpy.zeros((0, 3), "float32"))
    # Other sizes are another layout, unless they are an input's.
    assert "have no tensor in common" in check("sizes", 2, "float32", numpy.zeros(3, "float32"), numpy.zeros(4, "float32"))
    for side, size in (("a", 3), ("b", 4)):
        save_run(tmp_path / "inputs" / side, ("inputs", "inputs", "operand", "x", "float32", numpy.zeros(size, "float32")))
    status, text = compare(tmp_path / "inputs" / "a", tmp_path / "inputs" / "b")
    assert status == 1 and "first difference: x, an input of the model\n  float32 [3] and float32 [4]\n" in text


def test_compare_bad_runs(tmp_path):
    good = tmp_path / "good"
    save_run(good, ("after_launch", "map_0", "result", "buf", "float32", numpy.zeros(3, "float32")))
    (tmp_path / "none").mkdir()
    assert "no run has been saved here" in compare(good, tmp_path / "none")[1]
    assert "No such file" in compare(tmp_path / "missing", good)[1]
    line = (good / "index.jsonl").read_text()
    for name, text in {
        "json": "{",
        "array": "[]\n",
        "key": line.replace('"kernel"', '"kernle"'),
        "path": line.replace("0.npy", "../good/0.npy"),
        "type": line.replace('"step": 0', '"step": "0"'),
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.jsonl").write_text(text)
        assert f"{tmp_path / name / 'index.jsonl'}: line 1 is not that of a saved tensor" in compare(good, tmp_path / name)[1]
    (good / "0.npy").write_bytes((good / "0.npy").read_bytes()[:-1])
    assert "which is not the size of its data" in compare(good, good)[1]
    (good / "0.npy").unlink()
    assert "0.npy: No such file" in compare(good, good)[1]


class Layers(torch.nn.Module):
    """Kernels whose values are fused, folded and laid out in other ways than the nodes'."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 16)
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x, factor: int, *, scale):
        self.runs.add_(1)
        x = torch.relu(self.norm(self.conv(x))).permute(0, 2, 3, 1)
        # Draws nothing when it is no training.
        x = torch.dropout(torch.nn.functional.gelu(self.first(x)), 0.5, self.training).flatten(1, 2)
        attended = torch.softmax(self.second(x) @ x.transpose(1, 2), -1) @ x
        values, indices = attended.sum(1).topk(3)
        branch = torch.cond(values.sum() > 1e9, lambda t: t.sin(), lambda t: t.exp(), (attended,))
        scale.mul_(2)
        return values * factor, indices, branch.to(torch.bfloat16).cumsum(1), scale, attended.mean(1) > 0, torch.view_as_complex(x[..., :2])


def compile_to_debug(program, **options):
    return kiln.compile(program, **{"debug_print": 1, **dict(option[2:].replace("-", "_").split("=") for option in TARGET), **options})


def test_compare_with_eager():
    torch.manual_seed(0)
    module, x, scale = Layers().eval(), torch.randn(2, 3, 6, 6), torch.ones(2)
    shapes = {"x": {0: Dim("n", min=1, max=8)}, "factor": Dim.DYNAMIC, "scale": None}

    def export():
        with torch.no_grad():
            return torch.export.export(module, (x, 3), {"scale": scale.clone()}, dynamic_shapes=shapes)

    program = export()
    model = compile_to_debug(program)
    assert kiln.debug.compare(program, model, x, 3, scale=scale) is None
    assert kiln.debug.compare(program, model.path, torch.randn(3, 3, 6, 6), 4, scale=torch.zeros(2)) is None
    assert torch.equal(scale, torch.ones(2)) and "KILN_DEBUG_DIR" not in os.environ
    nans = torch.full_like(x, float("nan"))
    assert kiln.debug.compare(program, model, nans, 3, scale=scale) is None
    # The first to leave eager's values if a parameter is another one: the last op that its kernel computes.
    expected = {"conv.weight": "relu", "norm.bias": "relu", "first.bias": "gelu", "second.weight": "linear_1"}
    for name, node in expected.items():
        parameter = module.get_parameter(name)
        with torch.no_grad():
            parameter.view(-1)[0] += 0.01
        found = kiln.debug.compare(export(), model, x, 3, scale=scale)
        assert found.node == node and found.kernel and found.error > found.allowed > 0, found
        assert abs(found.value - found.reference) == found.error and abs(found.eager - found.reference) < found.allowed
        assert f"node '{node}' (aten.{node.partition('_')[0]}.default, " in str(found) and "test_debug.py:" in str(found)
        with torch.no_grad():
            parameter.view(-1)[0] -= 0.01


class Small(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def test_compare_rounding():
    """What cancels, ties or overflows is rounding; random numbers are not looked at."""

    def values(x, n):
        mean = x.double().mean(-1, keepdim=True).float()
        half = (x.half() * 60000).cumsum(-1)
        return (
            x - mean,
            (x - x.roll(1)).sum(),
            half,
            n // 3,
            x.to(torch.float32).argsort(),
            torch.rand_like(x) + x,
            torch.view_as_real(x + 1j),
        )

    torch.manual_seed(1)
    inputs = (torch.randn(4, 1000) + 1000, torch.arange(5))
    program = torch.export.export(Small(values), inputs)
    assert kiln.debug.compare(program, compile_to_debug(program), *inputs) is None
    number = torch.export.export(Small(lambda x: x.sum().item()), (torch.randn(100),))
    assert kiln.debug.compare(number, compile_to_debug(number), torch.randn(100)) is None
    # Numbers that no rounding explains.
    wrong = torch.export.export(Small(lambda x, n: values(x, n + 3)), inputs)
    found = kiln.debug.compare(wrong, compile_to_debug(program), *inputs)
    assert found.target == "aten.floor_divide.default" and (found.value, found.eager, found.allowed) == (0, 1, 0), found


def test_compare_errors():
    x = torch.randn(3)
    program = torch.export.export(Small(lambda x: x.sin()), (x,))
    with pytest.raises(ValueError, match="compiled without debug printing: compile it with debug_print=1"):
        kiln.debug.compare(program, compile_to_debug(program, debug_print=0), x)
    model = compile_to_debug(program)
    with pytest.raises(TypeError, match="expected arguments of the structure"):
        kiln.debug.compare(program, model)
    with pytest.raises(TypeError, match=r"expected the keyword arguments \[\], got \['y'\]"):
        kiln.debug.compare(program, model, x, y=x)
    with pytest.raises(kiln.KilnError, match="expected float32"):
        kiln.debug.compare(program, model, x.double())
    random = torch.export.export(Small(lambda x: torch.rand_like(x).exp()), (x,))
    with pytest.raises(ValueError, match="nothing to compare: all that the model computes, such as node 'exp', depends on random numbers"):
        kiln.debug.compare(random, compile_to_debug(random), x)


def test_compare_memory():
    """Memory that is written to is no longer random, and what random numbers are written to is, under whatever name."""

    def fill(x, n):
        y = torch.empty(3, n.item())
        y.fill_(2)
        y[0] += x
        return y * 3, torch.full_like(torch.rand(3), 2.0) + x, torch.empty_like(x).copy_(x).exp()

    x, n = torch.randn(3), torch.tensor(3)
    program = torch.export.export(Small(fill), (x, n))
    assert kiln.debug.compare(program, compile_to_debug(program), x, n) is None
    wrong = torch.export.export(Small(lambda x, n: fill(x + 0.5, n)), (x, n))
    assert kiln.debug.compare(wrong, compile_to_debug(program), x, n) is not None

    def draw(x):
        y = torch.zeros(4, 3)
        y[1].uniform_()
        part = torch.empty(4)
        part[:2].fill_(1)
        return y + x, part, x.sin()

    program = torch.export.export(Small(draw), (x,))
    assert kiln.debug.compare(program, compile_to_debug(program), x) is None
    wrong = torch.export.export(Small(lambda x: draw(x + 0.5)), (x,))
    assert kiln.debug.compare(wrong, compile_to_debug(program), x).target == "aten.sin.default"
