"""kernel.reduce inside kernel.map: along rows, along columns, unrolled windows, several at once."""

import numpy as np
import pytest

RNG = np.random.default_rng(0)

COMBINE = {
    "sum": ("0.0", "arith.addf"),
    "prod": ("1.0", "arith.mulf"),
    "max": ("0xFF800000", "arith.maximumf"),
    "min": ("0x7F800000", "arith.minimumf"),
}


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def tensor(shape, element="f32"):
    return "tensor<" + "".join(f"{size}x" for size in shape) + element + ">"


def reduce(result, name, extents, source, expression, kind="sum"):
    """kernel.reduce of one read of `source`; `result` is the rank of the map around it."""
    init, op = COMBINE[kind]
    dims = ", ".join(f"d{i}" for i in range(result + len(extents)))
    sizes = ", ".join(map(str, extents))
    return f"""
    %init_{name[1:]} = arith.constant {init} : f32
    {name} = kernel.reduce [{sizes}] init(%init_{name[1:]} : f32) {{
      %a = kernel.read %x ({dims}) -> ({expression}) : {tensor(source)} -> f32
      kernel.yield %a : f32
    }} combine {{
    ^bb0(%a: f32, %b: f32):
      %c = {op} %a, %b : f32
      kernel.yield %c : f32
    }} : f32"""


def kernel(source, target, body, value, schedule=None):
    attributes = f" attributes {{schedule = #cpu.map<{schedule}>}}" if schedule else ""
    return f"""
kernel.func @reduce(%x: {tensor(source)}) -> {tensor(target)}{attributes} {{
  %r = kernel.map {{{body}
    kernel.yield {value} : f32
  }} : {tensor(target)}
  kernel.return %r : {tensor(target)}
}}
"""


@pytest.mark.parametrize("kind", COMBINE)
@pytest.mark.parametrize("rows,columns", [(1, 1), (4, 3), (3, 7), (5, 16), (7, 100), (3, 128), (2, 1000), (4, 4096)])
def test_rows(run, kind, rows, columns):
    x = normal(rows, columns)
    text = kernel(x.shape, [rows], reduce(1, "%s", [columns], x.shape, "d0, d1", kind), "%s")
    np.testing.assert_allclose(run(text, [x]), getattr(np, kind)(x.astype(np.float64), axis=1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("lanes,copies", [([1, 1], [1, 1]), ([4, 16], [16, 2]), ([64, 8], [1, 8]), ([256, 256], [4, 4])])
@pytest.mark.parametrize("columns", [1, 5, 100, 1000])
def test_shapes(run, lanes, copies, columns):
    """Two reductions in one loop, with other lanes and copies than those that suit them."""
    x = normal(5, columns)
    body = reduce(1, "%s", [columns], x.shape, "d0, d1") + reduce(1, "%m", [columns], x.shape, "d0, d1", "max")
    text = kernel(x.shape, [5], body + "\n    %r = arith.addf %s, %m : f32", "%r", f"reduce_lanes = {lanes}, reduce_copies = {copies}")
    np.testing.assert_allclose(run(text, [x]), x.sum(1, dtype=np.float64) + x.max(1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows,columns", [(3, 7), (100, 5), (100, 33), (70, 128), (3, 1000), (1000, 3)])
def test_columns(run, rows, columns):
    x = normal(rows, columns)
    text = kernel(x.shape, [columns], reduce(1, "%s", [rows], x.shape, "d1, d0"), "%s")
    np.testing.assert_allclose(run(text, [x]), x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "shape,axes",
    [
        ((2, 3, 7, 7), (2, 3)),
        ((2, 9, 9, 20), (1, 2)),
        ((4, 5, 6), (0, 2)),
        ((3, 50, 4), (1,)),
        ((8, 100), (0, 1)),
        ((2, 64, 56, 56), (2, 3)),
    ],
)
def test_axes(run, shape, axes):
    x = normal(*shape)
    kept = [i for i in range(len(shape)) if i not in axes]
    order = {axis: f"d{i}" for i, axis in enumerate(kept + list(axes))}
    expression = ", ".join(order[i] for i in range(len(shape)))
    target = [shape[i] for i in kept]
    body = reduce(len(kept), "%s", [shape[i] for i in axes], shape, expression)
    np.testing.assert_allclose(run(kernel(shape, target, body, "%s"), [x]), x.sum(axes, dtype=np.float64), rtol=1e-5, atol=1e-3)


def test_nan_and_infinity(run):
    x = normal(4, 100)
    x[1, 50], x[2, 99], x[3, 3] = np.nan, np.inf, -np.inf
    for kind in ("max", "min", "sum"):
        text = kernel(x.shape, [4], reduce(1, "%s", [100], x.shape, "d0, d1", kind), "%s")
        np.testing.assert_allclose(run(text, [x]), getattr(np, kind)(x, axis=1), rtol=1e-4)


@pytest.mark.parametrize("columns", [1, 5, 16, 100, 768])
def test_softmax(run, columns):
    x = 5 * normal(6, columns)
    body = (
        reduce(2, "%m", [columns], x.shape, "d0, d2", "max")
        + f"""
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [{columns}] init(%zero : f32) {{
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : {tensor(x.shape)} -> f32
      %d = arith.subf %a, %m : f32
      %e = math.exp %d : f32
      kernel.yield %e : f32
    }} combine {{
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    }} : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : {tensor(x.shape)} -> f32
    %d = arith.subf %a, %m : f32
    %e = math.exp %d : f32
    %r = arith.divf %e, %s : f32"""
    )
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(run(kernel(x.shape, x.shape, body, "%r"), [x]), e / e.sum(1, keepdims=True), rtol=2e-6, atol=1e-9)


def test_nested_invariant(run):
    """The mean inside the variance's body leaves it, and both copies become one."""
    x = normal(8, 300)
    mean = """
      %n{i} = arith.constant 300.0 : f32
      %zero{i} = arith.constant 0.0 : f32
      %sum{i} = kernel.reduce [300] init(%zero{i} : f32) {{
        %a = kernel.read %x ({dims}) -> (d0, {last}) : tensor<8x300xf32> -> f32
        kernel.yield %a : f32
      }} combine {{
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        kernel.yield %c : f32
      }} : f32
      %mean{i} = arith.divf %sum{i}, %n{i} : f32"""
    body = (
        mean.format(i=0, dims="d0, d1, d2", last="d2")
        + """
    %v = kernel.reduce [300] init(%zero0 : f32) {"""
        + mean.format(i=1, dims="d0, d1, d2, d3", last="d3")
        + """
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x300xf32> -> f32
      %d = arith.subf %a, %mean1 : f32
      %e = arith.mulf %d, %d : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x300xf32> -> f32
    %d = arith.subf %a, %mean0 : f32
    %var = arith.divf %v, %n0 : f32
    %rstd = math.rsqrt %var : f32
    %r = arith.mulf %d, %rstd : f32"""
    )
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    np.testing.assert_allclose(run(kernel(x.shape, x.shape, body, "%r"), [x]), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows,columns", [(5, 1), (5, 17), (3, 1000), (40, 3)])
def test_argmax(run, rows, columns):
    """Two values reduced together; the first of equal ones wins."""
    x = RNG.integers(0, 20, (rows, columns)).astype(np.float32)
    text = f"""
kernel.func @argmax(%x: {tensor(x.shape)}) -> ({tensor([rows])}, {tensor([rows], "i64")}) {{
  %r:2 = kernel.map {{
    %low = arith.constant 0xFF800000 : f32
    %far = arith.constant 9223372036854775807 : i64
    %v:2 = kernel.reduce [{columns}] init(%low, %far : f32, i64) {{
      %a = kernel.read %x (d0, d1) -> (d0, d1) : {tensor(x.shape)} -> f32
      %i = kernel.index (d0, d1) -> (d1)
      kernel.yield %a, %i : f32, i64
    }} combine {{
    ^bb0(%a: f32, %i: i64, %b: f32, %j: i64):
      %gt = arith.cmpf ogt, %a, %b : f32
      %eq = arith.cmpf oeq, %a, %b : f32
      %lt = arith.cmpi slt, %i, %j : i64
      %first = arith.andi %eq, %lt : i1
      %take = arith.ori %gt, %first : i1
      %c = arith.select %take, %a, %b : f32
      %k = arith.select %take, %i, %j : i64
      kernel.yield %c, %k : f32, i64
    }} : f32, i64
    kernel.yield %v#0, %v#1 : f32, i64
  }} : {tensor([rows])}, {tensor([rows], "i64")}
  kernel.return %r#0, %r#1 : {tensor([rows])}, {tensor([rows], "i64")}
}}
"""
    values, indices = run(text, [x], num_outputs=2)
    np.testing.assert_array_equal(values, x.max(1))
    np.testing.assert_array_equal(indices, x.argmax(1))


def test_logical_any(run):
    x = RNG.integers(0, 40, (20, 33)) == 0
    text = f"""
kernel.func @any(%x: {tensor(x.shape, "i1")}) -> {tensor([20], "i1")} {{
  %r = kernel.map {{
    %false = arith.constant false
    %v = kernel.reduce [33] init(%false : i1) {{
      %a = kernel.read %x (d0, d1) -> (d0, d1) : {tensor(x.shape, "i1")} -> i1
      kernel.yield %a : i1
    }} combine {{
    ^bb0(%a: i1, %b: i1):
      %c = arith.ori %a, %b : i1
      kernel.yield %c : i1
    }} : i1
    kernel.yield %v : i1
  }} : {tensor([20], "i1")}
  kernel.return %r : {tensor([20], "i1")}
}}
"""
    np.testing.assert_array_equal(run(text, [x]), x.any(1))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels_last", [True, False])
def test_depthwise(run, stride, channels_last):
    """A reduction over a 3x3 window inside the loop in vectors, with padding."""
    c, h = 40, 14
    oh = (h + 2 - 3) // stride + 1
    x, w = normal(c, h, h), normal(c, 3, 3)
    order = (lambda a: a.transpose(1, 2, 0)) if channels_last else (lambda a: a)
    source, target = order(x).shape, (oh, oh, c) if channels_last else (c, oh, oh)
    i, j, k = ("d0", "d1", "d2") if channels_last else ("d1", "d2", "d0")
    y_at, x_at = f"{stride}*{i} + d3 - 1", f"{stride}*{j} + d4 - 1"
    at = f"{y_at}, {x_at}, {k}" if channels_last else f"{k}, {y_at}, {x_at}"
    body = f"""
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [3, 3] init(%zero : f32) {{
      %in = kernel.inside (d0, d1, d2, d3, d4) -> ({y_at}, {x_at}) bounds [{h}, {h}]
      %a = kernel.read %x (d0, d1, d2, d3, d4) -> ({at}) if %in else(%zero : f32) : {tensor(source)} -> f32
      %b = kernel.read %w (d0, d1, d2, d3, d4) -> ({k}, d3, d4) : {tensor(w.shape)} -> f32
      %m = arith.mulf %a, %b : f32
      kernel.yield %m : f32
    }} combine {{
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    }} : f32"""
    text = kernel(source, target, body, "%s").replace("(%x:", f"(%w: {tensor(w.shape)}, %x:")
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    expected = sum(
        padded[:, a : a + stride * oh : stride, b : b + stride * oh : stride] * w[:, a, b][:, None, None]
        for a in range(3)
        for b in range(3)
    )
    np.testing.assert_allclose(run(text, [w, order(x)]), order(expected), rtol=1e-5, atol=1e-5)


def test_transposed_depthwise(run):
    """A window whose mask divides by the stride. Rows and columns are one loop in vectors, and all lanes of its last vector
    are past the last row of the input: a test that is to be made in spite of that."""
    x, w = normal(3, 8, 3), normal(3, 3, 3)
    h, v = "(d1 - d3)", "(d2 - d4)"
    body = f"""
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [3, 3] init(%zero : f32) {{
      %in = kernel.inside (d0, d1, d2, d3, d4) -> ({h} mod 2, {v} mod 3, {h} floordiv 2, {v} floordiv 3) bounds [1, 1, 8, 3]
      %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, {h} floordiv 2, {v} floordiv 3) if %in else(%zero : f32) : {tensor(x.shape)} -> f32
      %b = kernel.read %w (d0, d1, d2, d3, d4) -> (d0, d3, d4) : {tensor(w.shape)} -> f32
      %m = arith.mulf %a, %b : f32
      kernel.yield %m : f32
    }} combine {{
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    }} : f32"""
    text = kernel(x.shape, (3, 17, 9), body, "%s").replace("(%x:", f"(%w: {tensor(w.shape)}, %x:")
    expected = np.zeros((3, 17, 9))
    for i, j in np.ndindex(8, 3):
        expected[:, 2 * i : 2 * i + 3, 3 * j : 3 * j + 3] += x[:, i, j, None, None].astype(np.float64) * w
    np.testing.assert_allclose(run(text, [w, x]), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows,columns", [(3, 5), (2, 64), (5, 1000), (4, 0), (100, 17)])
def test_symbolic(run, rows, columns):
    text = """
module attributes {sym.symbols = {s0 = {min = 0, max = 100000}, s1 = {min = 0, max = 100000}}} {
kernel.func @sum(%x: tensor<?x?xf32, #sym.shape<[s0, s1]>>) -> tensor<?x?xf32, #sym.shape<[s0, s1]>> {
  %r = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [s1] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x?xf32, #sym.shape<[s0, s1]>> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<?x?xf32, #sym.shape<[s0, s1]>> -> f32
    %d = arith.subf %a, %s : f32
    kernel.yield %d : f32
  } : tensor<?x?xf32, #sym.shape<[s0, s1]>>
  kernel.return %r : tensor<?x?xf32, #sym.shape<[s0, s1]>>
}
}
"""
    x = normal(rows, columns)
    actual = run(text, [x], symbols={"s0": rows, "s1": columns})
    np.testing.assert_allclose(actual, x - x.sum(1, keepdims=True), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype,element", [(np.int64, "i64"), (np.float64, "f64"), (np.int32, "i32")])
def test_types(run, dtype, element):
    x = (RNG.normal(size=(9, 77)) * 100).astype(dtype)
    op = "arith.addf" if element.startswith("f") else "arith.addi"
    zero = "0.0" if element.startswith("f") else "0"
    text = kernel(x.shape, [9], reduce(1, "%s", [77], x.shape, "d0, d1"), "%s").replace("f32", element)
    text = text.replace("arith.addf", op).replace("constant 0.0", f"constant {zero}")
    np.testing.assert_allclose(run(text, [x]), x.sum(1), rtol=1e-12)
