"""kernel.contract against NumPy: every way to read an operand, cut the work and write the result."""

import numpy as np
import pytest

TYPES = {np.float32: "f32", np.float64: "f64", np.float16: "f16", np.int32: "i32", np.int64: "i64"}


def tensor(sizes, element="f32"):
    """`sizes` are numbers or expressions such as "s0"."""
    dims = "".join(f"{s if isinstance(s, int) else '?'}x" for s in sizes)
    if all(isinstance(s, int) for s in sizes):
        return f"tensor<{dims}{element}>"
    return f"tensor<{dims}{element}, #sym.shape<[{', '.join(map(str, sizes))}]>>"


def read(name, index, sizes, rank, element="f32", mask=""):
    dims = ", ".join(f"d{i}" for i in range(rank))
    return f"kernel.read %{name} ({dims}) -> ({index}){mask} : {tensor(sizes, element)} -> {element}"


def contract(
    arguments,
    result,
    batch,
    m,
    n,
    k,
    lhs,
    rhs,
    epilogue="",
    perm=None,
    panel=None,
    schedule=None,
    sum_type="f32",
    element="f32",
    symbols=(),
):
    """`lhs` and `rhs` compute %a and %b, `epilogue` %y from %s (or nothing)."""
    sizes = lambda dims: "[" + ", ".join(map(str, dims)) + "]"
    attributes = f" attributes {{schedule = #cpu.contract<{schedule}>}}" if schedule else ""
    extra = f" perm {list(perm)}" if perm else ""
    extra += f" panel {panel}" if panel else ""
    header = ", ".join(f"%{name}: {tensor(*t)}" for name, t in arguments.items())
    table = ", ".join(f"{s} = {{min = 1, max = 4096}}" for s in symbols)
    module = f"module attributes {{sym.symbols = {{{table}}}}} {{" if symbols else "module {"
    return f"""{module}
kernel.func @contract({header}) -> {tensor(*result)}{attributes} {{
  %r = kernel.contract batch {sizes(batch)} m {sizes(m)} n {sizes(n)} k {sizes(k)}{extra} lhs {{
    {lhs}
    kernel.yield %a : {element}
  }} rhs {{
    {rhs}
    kernel.yield %b : {element}
  }} epilogue {{
  ^bb0(%s: {sum_type}):
    {epilogue}
    kernel.yield {"%y" if epilogue else "%s"} : {result[1] if len(result) > 1 else "f32"}
  }} : {tensor(*result)}
  kernel.return %r : {tensor(*result)}
}} }}
"""


def random(rng, *shape, dtype=np.float32):
    if np.issubdtype(dtype, np.integer):
        return rng.integers(-50, 50, shape, dtype=dtype)
    return rng.standard_normal(shape).astype(dtype)


def check(actual, expected, tolerance=1e-5):
    scale = np.abs(expected).max() + 1e-30
    assert np.isfinite(actual).all()
    assert np.abs(actual - expected).max() / scale < tolerance


def pack(w, panel):
    """[n, k] in panels."""
    n, k = w.shape
    padded = np.zeros((-(-n // panel) * panel, k), w.dtype)
    padded[:n] = w
    return padded.reshape(-1, panel, k).transpose(0, 2, 1)


def linear(m, n, k, panel=None, schedule=None, transposed=False, epilogue=""):
    """x @ wᵀ, packed or not; `transposed` reads w as [k, n]."""
    arguments = {"x": ((m, k),), "w": ((k, n) if transposed else (n, k),)}
    rhs = "%b = " + read("w", "d2, d1" if transposed else "d1, d2", arguments["w"][0], 3)
    if panel:
        arguments["w"] = ((-(-n // panel), k, panel),)
        rhs = "%b = " + read("w", f"d1 floordiv {panel}, d2, d1 mod {panel}", arguments["w"][0], 3)
    return contract(
        arguments,
        ((m, n),),
        [],
        [m],
        [n],
        [k],
        "%a = " + read("x", "d0, d2", (m, k), 3),
        rhs,
        epilogue=epilogue,
        panel=panel,
        schedule=schedule,
    )


SIZES = [(1, 1, 1), (1, 1000, 300), (5, 100, 50), (13, 33, 7), (14, 32, 64), (128, 96, 65), (197, 80, 100)]


@pytest.mark.parametrize("m,n,k", SIZES)
@pytest.mark.parametrize("form", ["packed", "rows", "columns"])
def test_linear(run, m, n, k, form):
    rng = np.random.default_rng(0)
    x, w = random(rng, m, k), random(rng, n, k)
    panel = (128 if m == 1 else 32) if form == "packed" else None
    data = {"packed": pack(w, panel or 1), "rows": w, "columns": w.T}[form]
    check(run(linear(m, n, k, panel, transposed=form == "columns"), [x, data]), x @ w.T)


def cut(tile, lanes, block, **others):
    """A schedule: `tile` are rows and columns, `block` rows, columns and steps of the sum."""
    numbers = dict(
        tile_rows=tile[0], vectors=tile[1] // lanes, lanes=lanes, block_rows=block[0], block_columns=block[1], block_sums=block[2], **others
    )
    return ", ".join(f"{name} = {value}" for name, value in numbers.items())


# Lanes of other instruction sets, cut sums, narrow blocks, tiles that do not divide anything.
@pytest.mark.parametrize(
    "tile,lanes,block,others",
    [
        ((6, 16), 8, (12, 16, 100), {}),
        ((4, 32), 16, (8, 32, 32), {"epilogue": "memory"}),
        ((14, 32), 16, (1000, 1000, 33), {"epilogue": "memory"}),
        ((1, 32), 4, (1, 32, 100), {"epilogue": "memory"}),
        ((3, 32), 1, (7, 64, 100), {}),
        ((5, 32), 8, (1000, 64, 40), {"epilogue": "memory", "lhs": "matrix", "lhs_padding": 3}),
    ],
)
@pytest.mark.parametrize("form", ["packed", "rows", "columns"])
def test_schedules(run, tile, lanes, block, others, form):
    rng = np.random.default_rng(1)
    m, n, k = 29, 83, 100
    x, w = random(rng, m, k), random(rng, n, k)
    panel = tile[1]
    if form == "packed":
        others = {**others, "prefetch": "l1" if lanes == 16 else "l2"}
    elif lanes == 8 or (lanes > 1 and form == "rows"):
        others = {**others, "turn": "rhs"}
    schedule = cut(tile, lanes, block, **others)
    data = {"packed": pack(w, panel), "rows": w, "columns": w.T}[form]
    text = linear(m, n, k, panel if form == "packed" else None, schedule, transposed=form == "columns")
    for threads in (1, 2):
        check(run(text, [x, data], threads=threads), x @ w.T)


# Sums that are turned: lanes of every instruction set, groups of one column to all of a panel, rows and columns that nothing
# divides, a cut sum, a copied left operand, and sums that are shorter than a vector, or empty.
@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (1, 83, 100), (4, 16, 64), (7, 3, 33), (29, 83, 100), (3, 1, 500), (2, 5, 0)])
@pytest.mark.parametrize(
    "rows,sums,lanes,block,others",
    [
        (4, 16, 16, (8, 32, 1000), {}),
        (1, 16, 16, (1000, 16, 1000), {}),
        (3, 12, 8, (6, 64, 1000), {}),
        (2, 2, 4, (2, 1000, 1000), {"epilogue": "memory"}),
        (2, 5, 2, (4, 10, 48), {"epilogue": "memory"}),
        (4, 4, 16, (8, 48, 40), {"epilogue": "memory", "lhs": "matrix", "lhs_padding": 3}),
    ],
)
def test_turned_sums(run, m, n, k, rows, sums, lanes, block, others):
    rng = np.random.default_rng(11)
    x, w = random(rng, m, k), random(rng, n, k)
    schedule = cut((rows, lanes), lanes, block, **others, turn="sums", tile_sums=sums)
    for threads in (1, 2):
        check(run(linear(m, n, k, schedule=schedule), [x, w], threads=threads), x @ w.T)


# Right operands that are read where they are: lanes that columns do not fill, several tiles, a cut sum, a copied left operand.
@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (1, 83, 100), (29, 83, 100), (3, 3, 500), (13, 16, 5), (2, 5, 0)])
@pytest.mark.parametrize(
    "tile,lanes,block,others",
    [
        ((12, 32), 16, (24, 32, 1000), {}),
        ((1, 96), 16, (4, 96, 1000), {}),
        ((4, 4), 4, (8, 8, 1000), {"unroll": 1}),
        ((6, 16), 8, (12, 16, 40), {"epilogue": "memory"}),
        ((5, 16), 16, (10, 32, 33), {"epilogue": "memory", "lhs": "matrix", "lhs_padding": 3}),
    ],
)
def test_right_operand_in_place(run, m, n, k, tile, lanes, block, others):
    if n == 1:
        n = 2  # one column has no lanes to read
    rng = np.random.default_rng(12)
    x, w = random(rng, m, k), random(rng, k, n)
    text = linear(m, n, k, schedule=cut(tile, lanes, block, **others, rhs="direct"), transposed=True)
    for threads in (1, 2):
        check(run(text, [x, w], threads=threads), x @ w)


GELU = """%h = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %t = math.tanh %s : f32
    %u = arith.addf %t, %one : f32
    %v = arith.mulf %u, %s : f32
    %y = arith.mulf %v, %h : f32"""


@pytest.mark.parametrize("m,n,k", [(4, 1024, 1024), (3, 1280, 2003), (1, 3301, 1003), (2, 33024, 99)])
def test_streams(run, m, n, k):
    """Right operands that are read some rows at a time, since they are large or their rows share sets of the caches."""
    rng = np.random.default_rng(m)
    x, w = random(rng, m, k), random(rng, k, n)
    check(run(linear(m, n, k, transposed=True), [x, w], threads=2), x.astype(np.float64) @ w)


@pytest.mark.parametrize("schedule", [None, cut((12, 32), 16, (24, 32, 64), epilogue="memory"), cut((12, 32), 16, (24, 32, 150))])
def test_long_epilogue(run, schedule):
    rng = np.random.default_rng(2)
    x, w = random(rng, 40, 150), random(rng, 70, 150)
    s = (x @ w.T).astype(np.float64)
    check(run(linear(40, 70, 150, 32, schedule, epilogue=GELU), [x, pack(w, 32)]), 0.5 * s * (1 + np.tanh(s)))


def test_epilogue_reads(run):
    """A bias along n, a residual, a row's factor and a transposed result."""
    rng = np.random.default_rng(3)
    m, n, k = 37, 50, 20
    x, w, bias, other, row = (random(rng, *s) for s in ((m, k), (n, k), (n,), (m, n), (m,)))
    epilogue = f"""%c = {read("bias", "d1", (n,), 3)}
    %o = {read("other", "d0, d1", (m, n), 3)}
    %f = {read("row", "d0", (m,), 3)}
    %p = arith.mulf %s, %f : f32
    %q = arith.addf %p, %c : f32
    %y = arith.addf %q, %o : f32"""
    text = contract(
        {"x": ((m, k),), "w": ((n, k),), "bias": ((n,),), "other": ((m, n),), "row": ((m,),)},
        ((n, m),),
        [],
        [m],
        [n],
        [k],
        "%a = " + read("x", "d0, d2", (m, k), 3),
        "%b = " + read("w", "d1, d2", (n, k), 3),
        epilogue,
        perm=(1, 0),
    )
    check(run(text, [x, w, bias, other, row]), (x @ w.T * row[:, None] + bias + other).T)


# Tiles and panels that do not divide anything, a cut sum, and rows of an open number.
@pytest.mark.parametrize(
    "schedule",
    [
        None,
        cut((5, 32), 16, (10, 32, 100)),
        cut((6, 16), 8, (12, 16, 48), epilogue="memory"),
        cut((4, 32), 16, (8, 32, 100), epilogue="memory"),
    ],
)
@pytest.mark.parametrize("rows", [37, "s0"])
def test_fetched_epilogue(run, schedule, rows):
    rng = np.random.default_rng(13)
    m, n, k = 37, 50, 100
    panel = 16 if schedule and "lanes = 8" in schedule else 32
    x, w, other = random(rng, m, k), random(rng, n, k), random(rng, m, n)
    if rows == "s0" and schedule and "block_sums = 48" in schedule:
        schedule = schedule.replace("block_sums = 48", f"block_sums = {k}")  # such rows have no cut sum
    arguments = {"x": ((rows, k),), "w": ((-(-n // panel), k, panel),), "other": ((rows, n),)}
    text = contract(
        arguments,
        ((rows, n),),
        [],
        [rows],
        [n],
        [k],
        "%a = " + read("x", "d0, d2", (rows, k), 3),
        "%b = " + read("w", f"d1 floordiv {panel}, d2, d1 mod {panel}", arguments["w"][0], 3),
        f"""%o = {read("other", "d0, d1", (rows, n), 3)}
    %y = arith.addf %s, %o : f32""",
        panel=panel,
        schedule=schedule and schedule + ", epilogue_prefetch = l1",
        symbols=("s0",) if rows == "s0" else (),
    )
    inputs = [x, pack(w, panel), other]
    check(run(text, inputs, symbols={"s0": m}) if rows == "s0" else run(text, inputs), x @ w.T + other)


def test_prologue(run):
    """Rows are normalised first: the left operand is computed once a row, into scratch."""
    rng = np.random.default_rng(4)
    m, n, k = 30, 40, 100
    x, w = random(rng, m, k), random(rng, n, k)
    lhs = f"""%z = arith.constant 0.0 : f32
    %l = kernel.reduce [{k}] init(%z : f32) {{
      %e = {read("x", "d0, d3", (m, k), 4)}
      %e2 = arith.mulf %e, %e : f32
      kernel.yield %e2 : f32
    }} combine {{
    ^bb0(%p: f32, %q: f32):
      %t = arith.addf %p, %q : f32
      kernel.yield %t : f32
    }} : f32
    %root = math.rsqrt %l : f32
    %v = {read("x", "d0, d2", (m, k), 3)}
    %a = arith.mulf %v, %root : f32"""
    expected = x / np.linalg.norm(x, axis=1, keepdims=True) @ w.T
    for schedule in (None, cut((12, 32), 16, (12, 32, 48), lhs="matrix", epilogue="memory")):
        text = contract(
            {"x": ((m, k),), "w": ((n, k),)}, ((m, n),), [], [m], [n], [k], lhs, "%b = " + read("w", "d1, d2", (n, k), 3), schedule=schedule
        )
        check(run(text, [x, w]), expected)


def test_batches_and_groups_of_dims(run):
    """Two batch dims, one of them shared on the right; m and n of two dims; heads moved outwards."""
    rng = np.random.default_rng(5)
    x, w = random(rng, 2, 3, 5, 7, 24), random(rng, 3, 4, 10, 24)
    text = contract(
        {"x": ((2, 3, 5, 7, 24),), "w": ((3, 4, 10, 24),)},
        ((2, 4, 3, 5, 7, 10),),
        [2, 3],
        [5, 7],
        [4, 10],
        [24],
        "%a = " + read("x", "d0, d1, d2, d3, d6", (2, 3, 5, 7, 24), 7),
        "%b = " + read("w", "d1, d4, d5, d6", (3, 4, 10, 24), 7),
        perm=(0, 4, 1, 2, 3, 5),
    )
    check(run(text, [x, w]), np.einsum("bgmnk,ghok->bhgmno", x, w))


def test_no_dims(run):
    """A dot product, and an outer product."""
    rng = np.random.default_rng(6)
    x, w = random(rng, 50), random(rng, 50)
    text = contract(
        {"x": ((50,),), "w": ((50,),)}, ((),), [], [], [], [50], "%a = " + read("x", "d0", (50,), 1), "%b = " + read("w", "d0", (50,), 1)
    )
    check(run(text, [x, w]), x @ w)
    text = contract(
        {"x": ((50,),), "w": ((50,),)},
        ((50, 50),),
        [],
        [50],
        [50],
        [],
        "%a = " + read("x", "d0", (50,), 2),
        "%b = " + read("w", "d1", (50,), 2),
    )
    check(run(text, [x, w]), np.outer(x, w))


@pytest.mark.parametrize(
    "dtype,sum_type,tolerance", [(np.float64, "f64", 1e-13), (np.float16, "f32", 1e-5), (np.int32, "i32", 1e-9), (np.int64, "i64", 1e-9)]
)
def test_types(run, dtype, sum_type, tolerance):
    rng = np.random.default_rng(7)
    m, n, k = 20, 45, 33
    element = TYPES[dtype]
    x, w = random(rng, m, k, dtype=dtype), random(rng, n, k, dtype=dtype)
    text = contract(
        {"x": ((m, k), element), "w": ((n, k), element)},
        ((m, n), sum_type),
        [],
        [m],
        [n],
        [k],
        "%a = " + read("x", "d0, d2", (m, k), 3, element),
        "%b = " + read("w", "d1, d2", (n, k), 3, element),
        sum_type=sum_type,
        element=element,
    )
    check(run(text, [x, w]), x.astype(np.float64) @ w.astype(np.float64).T, tolerance)


@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (8, 32, 16), (37, 70, 1000), (100, 31, 513)])
def test_symbolic_sizes(run, m, n, k):
    rng = np.random.default_rng(8)
    x, w = random(rng, m, k), random(rng, n, k)
    text = contract(
        {"x": (("s0", "s2"),), "w": (("s1", "s2"),)},
        (("s0", "s1"),),
        [],
        ["s0"],
        ["s1"],
        ["s2"],
        "%a = " + read("x", "d0, d2", ("s0", "s2"), 3),
        "%b = " + read("w", "d1, d2", ("s1", "s2"), 3),
        symbols=("s0", "s1", "s2"),
    )
    check(run(text, [x, w], symbols={"s0": m, "s1": n, "s2": k}), x @ w.T)


def test_too_narrow_sum(run):
    text = contract(
        {"x": ((2, 2), "f64"), "w": ((2, 2), "f64")},
        ((2, 2),),
        [],
        [2],
        [2],
        [2],
        "%a = " + read("x", "d0, d2", (2, 2), 3, "f64"),
        "%b = " + read("w", "d1, d2", (2, 2), 3, "f64"),
        element="f64",
    )
    done = run(text, [np.zeros((2, 2))] * 2, check=False)
    assert done.returncode != 0 and "the sum is narrower than its operands" in done.stderr


@pytest.mark.parametrize("m", [1, 2, 3, 7, 11, 12, 13, 14, 23, 24, 25, 28, 29, 31, 97, 128, 251])
@pytest.mark.parametrize(
    "k,schedule",
    [
        (17, ""),
        (64, cut((12, 16), 8, (36, 16, 16), epilogue="memory")),
        (64, cut((12, 16), 8, (36, 16, 16), epilogue="memory", share_tiles="true")),
    ],
)
def test_symbolic_rows(run, m, k, schedule):
    """Tiles of every height, the sum in one block or cut, rows in one task or in several."""
    rng = np.random.default_rng(m)
    n = 40
    x, w, bias = random(rng, m, k), random(rng, n, k), random(rng, n)
    epilogue = "%c = " + read("bias", "d1", (n,), 3) + "\n    %y = arith.addf %s, %c : f32"
    text = contract(
        {"x": (("s0", k),), "w": ((n, k),), "bias": ((n,),)},
        (("s0", n),),
        [],
        ["s0"],
        [n],
        [k],
        "%a = " + read("x", "d0, d2", ("s0", k), 3),
        "%b = " + read("w", "d1, d2", (n, k), 3),
        epilogue,
        symbols=("s0",),
        schedule=schedule or None,
    )
    check(run(text, [x, w, bias], symbols={"s0": m}), x @ w.T + bias)


@pytest.mark.parametrize("parts", [1, 2, 5, 100])
@pytest.mark.parametrize("size", [1, 3, 10, "s0"])
@pytest.mark.parametrize(
    "others",
    [{"rhs": "direct"}, {"lhs": "matrix", "epilogue": "memory"}, {"turn": "rhs"}, {}],
    ids=["direct", "staged", "turned", "panels"],
)
def test_parts(run, parts, size, others):
    """A task has any number of blocks of a batch's products, in whatever way operands are read; threads share tasks."""
    rng = np.random.default_rng(11)
    count, m, n, k = (7 if size == "s0" else size), 9, 20, 13
    x, bias = random(rng, count, m, k), random(rng, count)
    w = random(rng, count, *((n, k) if "turn" in others else (k, n)))
    block = (5, 16, 4 if others.get("epilogue") else k)
    text = contract(
        {"x": ((size, m, k),), "w": ((size, *w.shape[1:]),), "bias": ((size,),)},
        ((size, m, n),),
        [size],
        [m],
        [n],
        [k],
        "%a = " + read("x", "d0, d1, d3", (size, m, k), 4),
        "%b = " + read("w", "d0, d2, d3" if "turn" in others else "d0, d3, d2", (size, *w.shape[1:]), 4),
        "%c = " + read("bias", "d0", (size,), 4) + "\n    %y = arith.addf %s, %c : f32",
        symbols=("s0",) if size == "s0" else (),
        schedule=cut((5, 16), 8, block, **others, parts=parts),
    )
    expected = x @ (w.swapaxes(1, 2) if "turn" in others else w) + bias[:, None, None]
    symbols = {"s0": count} if size == "s0" else None
    for threads in (1, 3):
        check(run(text, [x, w, bias], symbols=symbols, threads=threads), expected)


@pytest.mark.parametrize("lanes,rows", [(2, 2), (2, 8), (4, 1), (4, 2), (4, 4), (8, 2), (16, 4)])
@pytest.mark.parametrize("tiles,steps", [(1, 1), (3, 1), (2, 5), (1, 9)])
@pytest.mark.parametrize("others", [{"rhs": "direct"}, {"turn": "rhs"}], ids=["direct", "turned"])
def test_vector_rows(run, lanes, rows, tiles, steps, others):
    """Rows side by side in a vector, with an epilogue that reads along rows, columns and neither; the bits are those of other schedules."""
    rng = np.random.default_rng(12)
    tile, count, n, k = 2 * rows, 5, lanes, steps * lanes
    m = tile * tiles
    x, row, column = random(rng, count, m, k), random(rng, m), random(rng, n)
    w = random(rng, count, *((n, k) if "turn" in others else (k, n)))
    x[1, 0, 0], x[2, m - 1, k - 1], w[3, 0, 0] = np.nan, np.inf, -np.inf
    epilogue = f"""%c = {read("row", "d1", (m,), 4)}
    %d = {read("column", "d2", (n,), 4)}
    %e = arith.mulf %s, %c : f32
    %y = arith.addf %e, %d : f32"""

    def product(schedule):
        text = contract(
            {"x": ((count, m, k),), "w": (w.shape,), "row": ((m,),), "column": ((n,),)},
            ((count, m, n),),
            [count],
            [m],
            [n],
            [k],
            "%a = " + read("x", "d0, d1, d3", (count, m, k), 4),
            "%b = " + read("w", "d0, d2, d3" if "turn" in others else "d0, d3, d2", w.shape, 4),
            epilogue,
            schedule=schedule,
        )
        return run(text, [x, w, row, column])

    actual = product(cut((tile, lanes), lanes, (m, n, k), **others, parts=2, vector_rows=rows))
    with np.errstate(invalid="ignore"):
        expected = (x @ (w.swapaxes(1, 2) if "turn" in others else w)) * row[:, None] + column
    assert np.array_equal(np.isnan(actual), np.isnan(expected))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(actual, product(cut((1, lanes), lanes, (m, n, k), **others)))


def test_no_vector_rows(run):
    """Rows do not share a vector whose lanes are not the columns."""
    text = linear(8, 8, 8, schedule=cut((8, 4), 4, (8, 8, 8), rhs="direct", vector_rows=2), transposed=True)
    done = run(text, [np.zeros((8, 8), np.float32)] * 2, check=False)
    assert done.returncode != 0 and "the columns are not as many as the lanes" in done.stderr
