"""kernel.map: shapes, access patterns, element types, masks, indices from data."""

import ml_dtypes
import numpy as np
import pytest

from conftest import pointwise

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def view(source, target, expression, element="f32"):
    """A map that reads its only operand through an index map."""

    def tensor(shape):
        return "tensor<" + "".join(f"{size}x" for size in shape) + element + ">"

    dims = ", ".join(f"d{i}" for i in range(len(target)))
    scalar = {"ui8": "i8"}.get(element, element)
    return f"""
kernel.func @view(%x: {tensor(source)}) -> {tensor(target)} {{
  %r = kernel.map {{
    %a = kernel.read %x ({dims}) -> ({expression}) : {tensor(source)} -> {scalar}
    kernel.yield %a : {scalar}
  }} : {tensor(target)}
  kernel.return %r : {tensor(target)}
}}
"""


@pytest.mark.parametrize(
    "shape",
    [(), (1,), (3,), (16,), (31,), (32,), (1000,), (65536,), (3, 5), (4, 1), (128, 768), (7, 33), (2, 3, 4, 5), (1, 1, 1), (0,), (4, 0, 3)],
)
def test_shapes(run, shape):
    x, y = normal(*shape), normal(*shape)
    actual = run(pointwise("    %y = arith.addf %x0, %x1 : f32", ["f32", "f32"], shape), [x, y])
    np.testing.assert_array_equal(actual, x + y)


@pytest.mark.parametrize(
    "source,target,expression,function",
    [
        ((33, 70), (70, 33), "d1, d0", lambda x: x.T),
        ((5, 7, 9), (9, 5, 7), "d1, d2, d0", lambda x: x.transpose(2, 0, 1)),
        ((64, 48), (2, 48, 32), "32*d0 + d2, d1", lambda x: x.reshape(2, 32, 48).transpose(0, 2, 1)),
        ((1000,), (1000,), "999 - d0", lambda x: x[::-1]),
        ((7, 50), (7, 50), "d0, 49 - d1", lambda x: x[:, ::-1]),
        ((1000,), (500,), "2*d0 + 1", lambda x: x[1::2]),
        ((1001,), (500,), "2*d0", lambda x: x[:1000:2]),
        ((1000,), (334,), "3*d0", lambda x: x[::3]),
        ((8, 100), (4, 2, 100), "2*d0 + d1, d2", lambda x: x.reshape(4, 2, 100)),
        ((6, 40), (240,), "d0 floordiv 40, d0 mod 40", lambda x: x.reshape(-1)),
        ((240,), (40, 6), "6*d0 + d1", lambda x: x.reshape(40, 6)),
        ((40,), (40, 3), "d0", lambda x: np.repeat(x[:, None], 3, 1)),
        ((3,), (40, 3), "d1", lambda x: np.repeat(x[None], 40, 0)),
        ((40,), (40, 64), "d0", lambda x: np.repeat(x[:, None], 64, 1)),
        ((25,), (100,), "d0 floordiv 4", lambda x: np.repeat(x, 4)),
        ((4,), (1024,), "d0 floordiv 256", lambda x: np.repeat(x, 256)),
        ((7,), (100,), "d0 mod 7", lambda x: np.resize(x, 100)),
        ((2, 6, 10, 10), (2, 10, 10, 6), "d0, d3, d1, d2", lambda x: x.transpose(0, 2, 3, 1)),
        ((2, 12, 10, 8), (2, 10, 96), "d0, d2 floordiv 8, d1, d2 mod 8", lambda x: x.transpose(0, 2, 1, 3).reshape(2, 10, 96)),
    ],
)
def test_views(run, source, target, expression, function):
    x = normal(*source)
    np.testing.assert_array_equal(run(view(source, target, expression), [x]), function(x))


@pytest.mark.parametrize(
    "element,dtype",
    [
        ("f64", np.float64),
        ("f16", np.float16),
        ("i64", np.int64),
        ("i32", np.int32),
        ("i16", np.int16),
        ("i8", np.int8),
        ("ui8", np.uint8),
        ("i1", np.bool_),
        ("bf16", ml_dtypes.bfloat16),
        ("complex<f32>", np.complex64),
        ("complex<f64>", np.complex128),
    ],
)
def test_element_types(run, element, dtype):
    for shape in [(5,), (37, 100)]:
        x = (RNG.normal(size=shape) * 50).astype(dtype)
        if np.issubdtype(dtype, np.complexfloating):
            x = x + 1j * x[::-1]
        if element == "bf16":
            actual = run(view(shape, shape[::-1], ", ".join(["d0"] if len(shape) == 1 else ["d1", "d0"]), element), [x.view("V2")]).view(
                dtype
            )
        else:
            actual = run(view(shape, shape[::-1], ", ".join(["d0"] if len(shape) == 1 else ["d1", "d0"]), element), [x])
        np.testing.assert_array_equal(actual, x.T)


def test_conversions(run):
    x = (RNG.normal(size=1001) * 100).astype(np.float32)
    body = """
    %i = arith.fptosi %x0 : f32 to i64
    %j = arith.sitofp %i : i64 to f32
    %y = arith.subf %x0, %j : f32"""
    np.testing.assert_array_equal(run(pointwise(body, ["f32"], x.shape), [x]), x - np.trunc(x))
    body = "    %y = arith.truncf %x0 : f32 to bf16"
    x[:5] = [np.inf, -np.inf, np.nan, 0.0, 1e-40]
    actual = run(pointwise(body, ["f32"], x.shape, "bf16"), [x]).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(actual.astype(np.float32), x.astype(ml_dtypes.bfloat16).astype(np.float32))
    half = x.astype(ml_dtypes.bfloat16)
    actual = run(pointwise("    %y = arith.extf %x0 : bf16 to f32", ["bf16"], x.shape), [half.view("V2")])
    np.testing.assert_array_equal(actual, half.astype(np.float32))
    body = """
    %z = arith.constant 0.0 : f32
    %y = arith.cmpf ogt, %x0, %z : f32"""
    np.testing.assert_array_equal(run(pointwise(body, ["f32"], x.shape, "i1"), [x]), x > 0)


def test_complex_arithmetic(run):
    x = normal(300) + 1j * normal(300)
    y = normal(300) + 1j * normal(300)
    body = "    %y = complex.mul %x0, %x1 : complex<f32>"
    actual = run(pointwise(body, ["complex<f32>"] * 2, x.shape, "complex<f32>"), [x, y])
    np.testing.assert_allclose(actual, x * y, rtol=1e-5)


@pytest.mark.parametrize("op", ["divsi", "remsi", "divui", "floordivsi", "ceildivsi"])
def test_integer_division_never_traps(run, op):
    x = np.array([7, -7, np.iinfo(np.int64).min, 5, 0, np.iinfo(np.int64).min, 9], np.int64)
    y = np.array([2, 2, -1, 0, 0, 0, -4], np.int64)
    actual = run(pointwise(f"    %y = arith.{op} %x0, %x1 : i64", ["i64"] * 2, x.shape, "i64"), [x, y])
    expected = {"divsi": [3, -3, -2], "remsi": [1, -1, 1], "floordivsi": [3, -4, -3], "ceildivsi": [4, -3, -2]}
    if op in expected:
        assert [actual[0], actual[1], actual[6]] == expected[op]


def test_pad(run):
    text = """
kernel.func @pad(%x: tensor<5x40xf32>) -> tensor<9x50xf32> {
  %r = kernel.map {
    %zero = arith.constant -1.0 : f32
    %in = kernel.inside (d0, d1) -> (d0 - 2, d1 - 3) bounds [5, 40]
    %a = kernel.read %x (d0, d1) -> (d0 - 2, d1 - 3) if %in else(%zero : f32) : tensor<5x40xf32> -> f32
    kernel.yield %a : f32
  } : tensor<9x50xf32>
  kernel.return %r : tensor<9x50xf32>
}
"""
    x = normal(5, 40)
    np.testing.assert_array_equal(run(text, [x]), np.pad(x, ((2, 2), (3, 7)), constant_values=-1))


def test_cat(run):
    text = """
kernel.func @cat(%x: tensor<6x40xf32>, %y: tensor<6x21xf32>) -> tensor<6x61xf32> {
  %r = kernel.map {
    %zero = arith.constant 0.0 : f32
    %in = kernel.inside (d0, d1) -> (d1) bounds [40]
    %in2 = kernel.inside (d0, d1) -> (d1 - 40) bounds [21]
    %b = kernel.read %y (d0, d1) -> (d0, d1 - 40) if %in2 else(%zero : f32) : tensor<6x21xf32> -> f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) if %in else(%b : f32) : tensor<6x40xf32> -> f32
    kernel.yield %a : f32
  } : tensor<6x61xf32>
  kernel.return %r : tensor<6x61xf32>
}
"""
    x, y = normal(6, 40), normal(6, 21)
    np.testing.assert_array_equal(run(text, [x, y]), np.concatenate([x, y], 1))


def test_causal_mask(run):
    text = """
kernel.func @causal(%x: tensor<50x70xf32>) -> tensor<50x70xf32> {
  %r = kernel.map {
    %i = kernel.index (d0, d1) -> (d0)
    %j = kernel.index (d0, d1) -> (d1)
    %keep = arith.cmpi sle, %j, %i : i64
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<50x70xf32> -> f32
    %m = arith.constant 0xFF800000 : f32
    %s = arith.select %keep, %a, %m : f32
    kernel.yield %s : f32
  } : tensor<50x70xf32>
  kernel.return %r : tensor<50x70xf32>
}
"""
    x = normal(50, 70)
    np.testing.assert_array_equal(run(text, [x]), np.where(np.tri(50, 70, dtype=bool), x, -np.inf))


EMBEDDING = """
kernel.func @embedding(%w: tensor<100x{width}xf32>, %i: tensor<37xi64>) -> tensor<37x{width}xf32> {{
  %r = kernel.map {{
    %k = kernel.read %i (d0, d1) -> (d0) : tensor<37xi64> -> i64
    %a = kernel.read %w (d0, d1, d2) -> (d2, d1) values(%k) : tensor<100x{width}xf32> -> f32
    kernel.yield %a : f32
  }} : tensor<37x{width}xf32>
  kernel.return %r : tensor<37x{width}xf32>
}}
"""


@pytest.mark.parametrize("width", [1, 3, 64, 100])
def test_embedding(run, width):
    w, i = normal(100, width), RNG.integers(0, 100, 37)
    np.testing.assert_array_equal(run(EMBEDDING.format(width=width), [w, i]), w[i])


@pytest.mark.parametrize("width", [1, 3, 64])
@pytest.mark.parametrize("index", [100, -1, 2**62, -(2**63)])
def test_index_out_of_range(run, width, index):
    w, i = normal(100, width), RNG.integers(0, 100, 37)
    i[20] = index
    done = run(EMBEDDING.format(width=width), [w, i], check=False)
    assert done.returncode == 1 and "out of range" in done.stderr


def test_index_into_nothing(run):
    text = EMBEDDING.format(width=3).replace("100x3", "0x3")
    done = run(text, [normal(0, 3), np.zeros(37, np.int64)], check=False)
    assert done.returncode == 1 and "out of range" in done.stderr


def test_masked_index(run):
    text = """
kernel.func @take(%w: tensor<100xf32>, %i: tensor<61xi64>) -> tensor<61xf32> {
  %r = kernel.map {
    %zero = arith.constant 0 : i64
    %other = arith.constant -1.0 : f32
    %k = kernel.read %i (d0) -> (d0) : tensor<61xi64> -> i64
    %ok = arith.cmpi sge, %k, %zero : i64
    %a = kernel.read %w (d0, d1) -> (d1) values(%k) if %ok else(%other : f32) : tensor<100xf32> -> f32
    kernel.yield %a : f32
  } : tensor<61xf32>
  kernel.return %r : tensor<61xf32>
}
"""
    w, i = normal(100), RNG.integers(-50, 100, 61)
    np.testing.assert_array_equal(run(text, [w, i]), np.where(i >= 0, w[i], -1).astype(np.float32))


def test_two_results(run):
    text = """
kernel.func @two(%x: tensor<50x33xf32>) -> (tensor<50x33xf32>, tensor<50x33xi1>) {
  %r:2 = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<50x33xf32> -> f32
    %z = arith.constant 0.0 : f32
    %m = arith.maximumf %a, %z : f32
    %c = arith.cmpf ogt, %a, %z : f32
    kernel.yield %m, %c : f32, i1
  } : tensor<50x33xf32>, tensor<50x33xi1>
  kernel.return %r#0, %r#1 : tensor<50x33xf32>, tensor<50x33xi1>
}
"""
    x = normal(50, 33)
    x[3, 4] = np.nan
    relu, positive = run(text, [x], num_outputs=2)
    np.testing.assert_array_equal(relu, np.maximum(x, 0))
    np.testing.assert_array_equal(positive, x > 0)


@pytest.mark.parametrize("rows,columns", [(1, 1), (3, 50), (64, 64), (200, 1000), (0, 5)])
def test_symbolic_shape(run, rows, columns):
    text = """
module attributes {sym.symbols = {s0 = {min = 0, max = 100000}, s1 = {min = 0, max = 100000}}} {
kernel.func @add(%x: tensor<?x?xf32, #sym.shape<[s0, s1]>>, %b: tensor<?xf32, #sym.shape<[s1]>>)
    -> tensor<?x?xf32, #sym.shape<[s1, s0]>> {
  %r = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<?x?xf32, #sym.shape<[s0, s1]>> -> f32
    %c = kernel.read %b (d0, d1) -> (d0) : tensor<?xf32, #sym.shape<[s1]>> -> f32
    %s = arith.addf %a, %c : f32
    kernel.yield %s : f32
  } : tensor<?x?xf32, #sym.shape<[s1, s0]>>
  kernel.return %r : tensor<?x?xf32, #sym.shape<[s1, s0]>>
}
}
"""
    x, b = normal(rows, columns), normal(columns)
    actual = run(text, [x, b], symbols={"s0": rows, "s1": columns})
    np.testing.assert_array_equal(actual, (x + b).T)


@pytest.mark.parametrize("shape", [(3, 36, 160), (1, 16, 16), (2, 17, 3), (1, 5, 101), (2, 1, 40), (0, 20, 20)])
@pytest.mark.parametrize("element,dtype", [("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("i8", np.int8)])
def test_turned(run, shape, element, dtype):
    """Squares of a transposition, with rows that are padded in front and a second result."""
    batch, channels, pixels = shape
    source, target = f"{batch}x{pixels}x{channels}x{element}", f"{batch}x{channels}x{pixels + 1}x{element}"
    turn = [0, 1] if 1 in (batch, channels) else [1]  # a loop of one step is one with its neighbour
    add, zero = ("arith.addi", "0") if element == "i8" else ("arith.addf", "0.0")
    text = f"""
kernel.func @turned(%x: tensor<{source}>) -> (tensor<{target}>, tensor<{target}>)
    attributes {{schedule = #cpu.map<vector = [2], lanes = 8, columns = 16, turn = {turn}>}} {{
  %r:2 = kernel.map {{
    %z = arith.constant {zero} : {element}
    %i = kernel.inside (d0, d1, d2) -> (d2 - 1) bounds [{pixels}]
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2 - 1, d1) if %i else(%z : {element}) : tensor<{source}> -> {element}
    %b = {add} %a, %a : {element}
    kernel.yield %a, %b : {element}, {element}
  }} : tensor<{target}>, tensor<{target}>
  kernel.return %r#0, %r#1 : tensor<{target}>, tensor<{target}>
}}
"""
    x = (normal(batch, pixels, channels) * 9).astype(dtype)
    once, twice = run(text, [x], num_outputs=2, threads=2)
    expected = np.pad(x.transpose(0, 2, 1), ((0, 0), (0, 0), (1, 0)))
    np.testing.assert_array_equal(once, expected)
    np.testing.assert_array_equal(twice, expected + expected)


def test_threads_agree(run):
    x, y = normal(500, 700), normal(500, 700)
    text = pointwise("    %y = arith.addf %x0, %x1 : f32", ["f32", "f32"], x.shape)
    np.testing.assert_array_equal(run(text, [x, y], threads=2), x + y)
