"""Symbolic sizes at the entry of a model: what is solved, what is checked, what the message says."""

import math

import pytest
import torch

import kiln


class Guarded(torch.nn.Module):
    """Export takes the branch that the example takes, and says under which condition."""

    def forward(self, x, y):
        if x.shape[0] > 2 * y.shape[0]:
            return x.sum() + y
        return x.sum() - y


class Aligned(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] % 8 == 0:
            return x * 2
        return x * 3


def test_guards_are_checked_on_every_run(compile_and_compare):
    auto = torch.export.Dim.AUTO
    short = compile_and_compare(
        Guarded(),
        (torch.randn(7), torch.randn(5)),
        ({0: auto}, {0: auto}),
        more_inputs=[(torch.randn(10), torch.randn(5)), (torch.randn(2), torch.randn(64))],
    )
    with pytest.raises(kiln.KilnError, match="y.size"):
        short.model.run([torch.randn(11), torch.randn(5)])
    long = compile_and_compare(
        Guarded(), (torch.randn(17), torch.randn(5)), ({0: auto}, {0: auto}), more_inputs=[(torch.randn(11), torch.randn(5))]
    )
    with pytest.raises(kiln.KilnError, match="y.size"):
        long.model.run([torch.randn(10), torch.randn(5)])
    aligned = compile_and_compare(Aligned(), (torch.randn(16),), ({0: auto},), more_inputs=[(torch.randn(8),), (torch.randn(96),)])
    for size in (12, 15, 17):
        with pytest.raises(kiln.KilnError, match="% 8"):
            aligned.model.run([torch.randn(size)])
    other = compile_and_compare(Aligned(), (torch.randn(15),), ({0: auto},), more_inputs=[(torch.randn(9),)])
    with pytest.raises(kiln.KilnError, match="% 8"):
        other.model.run([torch.randn(24)])


def test_sizes_that_export_has_no_example_of(compile_and_compare):
    """The range of an automatic size begins at 2; the exported module takes 0 and 1, and so does the model unless a recorded size is another."""
    auto = torch.export.Dim.AUTO

    class Attend(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x @ x.mT, -1) @ x + x.mean(0)

    class Pair(torch.nn.Module):
        def forward(self, x):
            return x[:2] + 1

    small = [(torch.randn(1, 4, 3),), (torch.randn(5, 1, 3),), (torch.randn(1, 1, 3),), (torch.randn(5, 0, 3),)]
    compile_and_compare(Attend(), (torch.randn(5, 4, 3),), ({0: auto, 1: auto},), more_inputs=small)
    pair = compile_and_compare(Pair(), (torch.randn(5),), ({0: auto},), more_inputs=[(torch.randn(2),)])
    with pytest.raises(kiln.KilnError, match="expected a size of 2 "):
        pair.model.run([torch.randn(1)])


def test_bounds_that_the_program_gives(compile_and_compare):
    """A size that is at most what it is cut from has a range from 2 on all the same: one token is decoded."""
    auto, rand = torch.export.Dim.AUTO, torch.randn

    class Position(torch.nn.Module):
        def forward(self, table, x):
            return table[: x.shape[0]] + x

    class Cache(torch.nn.Module):
        def forward(self, cache, at, x):
            at = at.item()
            torch._check(at >= 0)
            torch._check(at + x.shape[1] <= cache.shape[1])
            return cache[:, at : at + x.shape[1]] + x

    small = [(rand(16, 4), rand(n, 4)) for n in (1, 0, 16)]
    compile_and_compare(Position(), (rand(16, 4), rand(3, 4)), ({}, {0: auto}), more_inputs=small)
    small = [(rand(b, 16, 4), torch.tensor(at), rand(b, n, 4)) for b, at, n in ((1, 0, 1), (3, 14, 1), (2, 3, 0))]
    shapes = ({0: auto}, {}, {0: auto, 1: auto})
    compile_and_compare(Cache(), (rand(2, 16, 4), torch.tensor(4), rand(2, 3, 4)), shapes, more_inputs=small)


def test_equal_sizes_are_one_symbol(compile_and_compare):
    """Export gives each dimension a symbol and says that they are equal; a wrong size names the input."""
    auto = torch.export.Dim.AUTO

    class Joined(torch.nn.Module):
        def forward(self, x, y):
            return torch.cat([x, x.new_zeros(1)]) + y

    compiled = compile_and_compare(
        Joined(), (torch.randn(6), torch.randn(7)), ({0: auto}, {0: auto}), more_inputs=[(torch.randn(30), torch.randn(31))]
    )
    for x, y in ((6, 6), (6, 8), (7, 6)):
        with pytest.raises(kiln.KilnError, match=rf'input 1 "y": .* dimension 0 is s\d+ \+ 1 = {x + 1}, got {y}'):
            compiled.model.run([torch.randn(x), torch.randn(y)])


def test_solved_sizes(compile_and_compare):
    """A symbol that inputs only show as 2*s, 3*s + 1 or s*t."""
    dim = torch.export.Dim("s", min=2, max=100)

    class Halves(torch.nn.Module):
        def forward(self, x, y):
            return x.reshape(-1, 2).sum(1), y[1:].reshape(-1, 2).sum(1) * 2

    compiled = compile_and_compare(
        Halves(),
        (torch.randn(6), torch.randn(7)),
        ({0: 2 * dim}, {0: 2 * dim + 1}),
        more_inputs=[(torch.randn(4), torch.randn(5)), (torch.randn(194), torch.randn(195))],
    )
    for x, y in ((5, 6), (6, 8), (2, 3), (202, 203)):
        with pytest.raises(kiln.KilnError, match='"(x|y)"'):
            compiled.model.run([torch.randn(x), torch.randn(y)])


def test_strided_inputs_of_dynamic_sizes(compile_and_compare):
    auto = torch.export.Dim.AUTO

    class Padded(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.pad(x, (1, 2, 0, 3), value=5.0), torch.nn.functional.pad(x.transpose(0, 1), (2, 1)) * 2

    base = torch.randn(9, 30, 40)
    compile_and_compare(
        Padded(),
        (base[:3, :4, :5],),
        ({0: auto, 1: auto, 2: auto},),
        more_inputs=[(torch.randn(2, 7, 3),), (base[1:9, ::3, ::2],), (base.permute(2, 0, 1),)],
    )


def test_strides_that_the_program_computes_with(compile_and_compare):
    """They are read from the input, and must be the ones that export has recorded."""
    auto = torch.export.Dim.AUTO

    class Stride(torch.nn.Module):
        def forward(self, x, y):
            return x + y * x.stride(0), y.new_zeros(x.stride(0) + 1)

    def rows(count, total, kept):
        return torch.randn(count, total, 8)[:, :kept]

    compiled = compile_and_compare(
        Stride(),
        (rows(5, 6, 4), torch.randn(5, 4, 8)),
        ({0: auto, 1: auto}, {0: auto, 1: auto}),
        more_inputs=[(rows(3, 9, 7), torch.randn(3, 7, 8)), (rows(2, 30, 2), rows(2, 5, 2))],
    )
    turned = torch.randn(5, 8, 6)[:, :, :4].transpose(1, 2)
    with pytest.raises(kiln.KilnError, match=r'input 0 "x": expected strides \[s\d+, 8, 1\] = \[48, 8, 1\], got \[48, 1, 6\]'):
        compiled.model.run([turned, torch.randn(5, 4, 8)])
    with pytest.raises(kiln.KilnError, match=r"stride\(\)"):  # export has assumed gaps between the rows
        compiled.model.run([torch.randn(5, 4, 8), torch.randn(5, 4, 8)])


def test_integers_are_symbols(compile_and_compare):
    class Split(torch.nn.Module):
        def forward(self, x, rows: int, columns: int):
            return x.reshape(rows, columns) * rows, x[columns:]

    compiled = compile_and_compare(
        Split(),
        (torch.randn(12), 3, 4),
        ({0: torch.export.Dim.AUTO}, torch.export.Dim.AUTO, torch.export.Dim.AUTO),
        more_inputs=[(torch.randn(35), 5, 7), (torch.randn(26), 13, 2)],
    )
    with pytest.raises(kiln.KilnError):
        compiled.model.run([torch.randn(12), 3, 5])
    with pytest.raises(kiln.KilnError):
        compiled.model.run([torch.randn(12), -3, -4])


def test_memory_of_given_sizes(compile_and_compare):
    """`arena_bytes` says what a run of some size allocates."""
    layers = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64)
    )
    model = compile_and_compare(layers, (torch.randn(3, 64),), ({0: torch.export.Dim("rows", min=1, max=999)},)).model
    (symbol,) = model.symbols
    for rows in (5, 997):
        needed = eval(model.info["arena_bytes"], {symbol: rows})
        assert 4 * rows * (128 + 256) <= needed < 4 * rows * (128 + 256) + 4096
        model.run([torch.randn(rows, 64)])
        assert any(size == needed for _, size in model.allocator.blocks.values()), (needed, model.allocator.blocks.values())


class Windows(torch.nn.Module):
    """All windows of y.shape[0] elements, on the same memory."""

    def forward(self, x, y):
        return torch.as_strided(x, (y.shape[0], 3), (1, 1)) * 2


def test_that_elements_lie_in_memory_is_checked_where_only_a_run_can_tell(compile_and_compare):
    auto = torch.export.Dim.AUTO
    compiled = compile_and_compare(
        Windows(),
        (torch.randn(9), torch.randn(5)),
        ({0: auto}, {0: auto}),
        more_inputs=[(torch.randn(5), torch.randn(3)), (torch.randn(40), torch.randn(38))],
    )
    with pytest.raises(kiln.KilnError, match="as_strided lie outside") as error:
        compiled.model.run([torch.randn(9), torch.randn(8)])
    assert error.value.status == 6


class Unrelated(torch.nn.Module):
    """Sizes that have to fit, of which export says nothing."""

    def forward(self, x, index, image, weight):
        grouped = torch.nn.functional.conv1d(image, weight, groups=4)
        return x.gather(1, index), x.amax(0), grouped, torch.nn.functional.conv1d(image, weight[:, :, :-1], groups=4, padding="same")


def test_sizes_that_have_to_fit(compile_and_compare):
    def inputs(rows, columns, indices, outputs, width):
        return torch.randn(rows, columns), torch.randint(columns, indices), torch.randn(2, 8, 16), torch.randn(outputs, 2, width)

    torch.manual_seed(0)
    auto = torch.export.Dim.AUTO
    shapes = {0: auto, 1: auto}
    compiled = compile_and_compare(
        Unrelated(),
        inputs(5, 4, (3, 6), 8, 4),
        (shapes, shapes, {2: auto}, {0: auto, 2: auto}),
        more_inputs=[inputs(3, 9, (3, 2), 12, 4), inputs(2, 7, (2, 9), 4, 6)],
    )
    for bad, message in (
        (inputs(2, 4, (3, 6), 8, 4), r"index.size\(\)\[0\] <= x"),
        (inputs(5, 4, (3, 6), 10, 4), r"weight.size\(\)\[0\] % 4"),
    ):
        with pytest.raises(kiln.KilnError, match=message):
            compiled.model.run(list(bad))


def test_products_with_floats(compile_and_compare):
    """1.7 * size is 17 * size / 10, up to where that is known to be so."""

    class Scaled(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.interpolate(x, scale_factor=1.7)

    compiled = compile_and_compare(
        Scaled(),
        (torch.randn(1, 2, 7),),
        ({2: torch.export.Dim.AUTO},),
        more_inputs=[(torch.randn(1, 2, size),) for size in (2, 10, 20, 123)],
    )
    with pytest.raises(kiln.KilnError, match=r"in \[0, 65536\]"):
        compiled.model.run([torch.randn(1, 2, 65537)])


class Rows(torch.nn.Module):
    """What needs elements of a dim that may have none: a named Dim begins at 0."""

    def forward(self, x, y, z, w):
        put = x.clone()
        put[:, -2] = 1.0
        return (
            x[:, 0].relu(),
            put,
            y.select_scatter(y[:, 0] * 2, 1, 1),
            y.amax(1),
            z.squeeze(0),
            z[0],
            torch.cond(x.sum() > 0, lambda w: w[:, -1] * 2, lambda w: w.sum(1) + 1, (w,)),
        )


def test_rows_of_a_dim_that_may_be_empty(compile_and_compare):
    """Checked before anything is computed; in a branch, if it is taken."""

    def inputs(rows=2, columns=5, layers=3, others=4, sign=1):
        return torch.ones(2, rows, 4) * sign, torch.randn(2, columns, 4), torch.randn(layers, 3), torch.randn(2, others, 4)

    dims = [torch.export.Dim(name) for name in ("rows", "columns", "layers", "others")]
    compiled = compile_and_compare(
        Rows(),
        inputs(9),
        ({1: dims[0]}, {1: dims[1]}, {0: dims[2]}, {1: dims[3]}),
        more_inputs=[inputs(2, others=1), inputs(3, 2, 2, sign=-1), inputs(5, 3, 7, 1, sign=-1)],
    )
    assert torch.equal(torch.as_tensor(compiled.model.run(list(inputs(others=0, sign=-1)))[-1]), torch.ones(2, 4))
    for bad, message in (
        (inputs(0), r"index -2 is not inside dim 1 of size s\d+ \(node 'select.* = 0 \(dimension 1 of input 0 \"x\"\)"),
        (inputs(1), r"index -2 is not inside dim 1 .* = 1 \(dimension 1 of input 0 \"x\"\)"),
        (inputs(columns=1), r"index outside of the dim .* = 1 \(dimension 1 of input 1 \"y\"\)"),
        (inputs(layers=0), r"index 0 is not inside dim 0 .* \(dimension 0 of input 2 \"z\"\)"),
        (inputs(layers=1), r"left a dim that is of size 1 .* \(dimension 0 of input 2 \"z\"\)"),
        (inputs(others=0), r"index -1 is not inside dim 1 .* = 0 \(dimension 1 of input 3 \"w\"\)"),
    ):
        with pytest.raises(kiln.KilnError, match=message) as error:
            compiled.model.run(list(bad))
        assert error.value.status == 6


class Normalized(torch.nn.Module):
    """Sizes that only a guard, or nothing but the operator itself, says to be those of the parameters."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 3)

    def forward(self, x, y, weight):
        part = x.chunk(3, 0)[1][None, None]
        pair = y[: y.shape[0] // 2 * 2].reshape(2, -1)
        return torch.nn.functional.layer_norm(part, [2], torch.ones(2)), self.layer(part) @ pair.new_ones(3, 1), pair @ weight


def test_sizes_that_guards_fix(compile_and_compare):
    auto = torch.export.Dim.AUTO
    compiled = compile_and_compare(
        Normalized(),
        (torch.randn(4), torch.randn(9), torch.randn(4, 3)),
        ({0: auto}, {0: auto}, {0: auto}),
        more_inputs=[(torch.randn(4), torch.randn(14), torch.randn(7, 3))],
    )
    for bad in ((torch.randn(5), torch.randn(9), torch.randn(4, 3)), (torch.randn(4), torch.randn(9), torch.randn(5, 3))):
        with pytest.raises(kiln.KilnError):
            compiled.model.run(list(bad))


def test_examples_that_are_views(compile_and_compare):
    """Nothing that export says of `x._base`, or of strides that the program does not see, restricts the inputs."""
    auto = torch.export.Dim.AUTO

    class Plain(torch.nn.Module):
        def forward(self, x, y):
            return x * 2, y.reshape(-1) + y.shape[0]

    x, y = torch.randn(5, 7, 2, 7)[..., 1::2], torch.randn(6, 8, 10)[:3, ::2, 2:]
    compile_and_compare(
        Plain(),
        (x, y),
        ({2: auto}, {0: auto, 1: auto, 2: auto}),
        more_inputs=[(torch.randn(5, 7, 3, 3), torch.randn(4, 3, 3)), (torch.randn(5, 7, 9, 6)[..., ::2], y.permute(2, 0, 1))],
    )


class Quotients(torch.nn.Module):
    """Export writes (n // 100) // -3 as n // -300, in the sizes of all that comes of it."""

    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        a = (n // 100) // -3 + 9
        ones = torch.ones(a, 3)
        return (
            a,
            ones.t() * 2,
            torch.cat([ones, x[: 2 * a].reshape(-1, 2).sum(1)[:, None].expand(-1, 3)]),
            ones.t().reshape(-1),
            torch.ones(2, a).t().contiguous(),
            torch.cond(x.sum() > 0, lambda ones: (ones * 2).t(), lambda ones: ones.t() + 1, (ones,)),
            torch.zeros((3 * n + m) // 100 // -3 + 90),
            torch.zeros(n // m // -m + 30),
            torch.zeros((n // 7) // -7 % -3 + 9),
            torch.zeros(max(n // -7, -5) + 9),
            torch.zeros(-(-n // 7) % -5 + 9),
            n // -7 * 2,
        )


def test_quotients_of_negative_divisors(compile_and_compare):
    auto = torch.export.Dim.AUTO

    def inputs(n, m):
        return torch.randn(n), torch.randn(m)

    compile_and_compare(
        Quotients(),
        inputs(37, 5),
        ({0: auto}, {0: auto}),
        more_inputs=[inputs(*sizes) for sizes in ((300, 17), (599, 20), (1000, 90), (1201, 33))],
    )


class FloatGuards(torch.nn.Module):
    """`int(...)` of a float makes its value a constant: a condition on the size remains, as do those of the branches."""

    def forward(self, u, v, w, x, y, z):
        side = int((y.shape[0] - 1) ** 0.5)
        return (
            u * int(2 ** (u.shape[0] / 4)),
            v * 2 if (v.shape[0] / 7) ** 1.5 > 3 else v * 3,
            w * 2 if 0.3 * w.shape[0] > 4.1 else w * 3,
            x.new_zeros(int(x.shape[0] / 3 * 1.5)) + x.sum(),
            y[1:].reshape(side, -1),
            z * int(z.shape[0] ** (1 / 3)),
        )


def test_conditions_with_floats(compile_and_compare):
    auto = torch.export.Dim.AUTO
    sizes = dict(u=16, v=40, w=16, x=16, y=17, z=30)

    def inputs(**others):
        return tuple(torch.randn(size) for size in {**sizes, **others}.values())

    compiled = compile_and_compare(FloatGuards(), inputs(), ({0: auto},) * 6, more_inputs=[inputs(v=5000, w=200000, y=25, z=63)])
    guards = compiled.program._guards_code
    assert sum("**" in guard or "/ 3" in guard or "0.3*" in guard for guard in guards) == 6
    for name in sizes:
        allowed = []
        for size in range(1, 90):
            flat = inputs(**{name: size})
            holds = size > 1 and all(eval(guard, {"torch": torch, "math": math, "L": dict(zip(sizes, flat))}) for guard in guards)
            try:
                compiled.model.run(list(flat))
                assert holds, f"{name} = {size}"
                allowed.append(size)
            except kiln.KilnError:
                assert not holds, f"{name} = {size}"
        assert 1 <= len(allowed) < 89


class FloatSizes(torch.nn.Module):
    def forward(self, x):
        n = x.shape[0]
        root, part = torch.sym_int(n**0.5), torch.sym_int(n / 3 * 1.5)
        return (
            x.new_zeros(root),
            x.new_ones(part + 1, 2).t() * root,
            torch.nn.functional.interpolate(x[None, None], scale_factor=1.37, recompute_scale_factor=True),
            x[: torch.sym_int(n * 0.7)] + part,
        )


def test_sizes_from_floats(compile_and_compare):
    """Computed when the model runs, as Python computes them."""
    compile_and_compare(
        FloatSizes(),
        (torch.randn(16),),
        ({0: torch.export.Dim.AUTO},),
        more_inputs=[(torch.randn(size),) for size in (24, 25, 99, 100, 143, 144, 1000, 10000)],
    )


class Roots(torch.nn.Module):
    def forward(self, n: int):
        return torch.sym_int(n**0.5), torch.sym_int(n ** (1 / 3)), torch.sym_int(n / 3 * 1.5), n ** (1 / 3), n**1.5, n**-0.5


def test_roots_are_rounded_as_in_python(compile_and_compare):
    """27 ** (1 / 3) is 3.0, and a size made of it is not 2."""
    model = compile_and_compare(Roots(), (16,), (torch.export.Dim.AUTO,)).model
    numbers = [*range(8, 300), *(k**3 for k in range(7, 200)), *(k * k - 1 for k in range(20, 400)), *(10**k for k in range(3, 15))]
    for n in numbers:
        got = [torch.as_tensor(value).item() for value in model.run([n])]
        *integers, root, power, inverse = Roots()(n)
        assert got[:3] == [int(value) for value in integers], n
        for value, expected in zip(got[3:], (root, power, inverse)):
            assert abs(value - expected) <= math.ulp(expected), n


class Ratios(torch.nn.Module):
    def forward(self, x, y):
        scale = 1.0 if y.shape[0] / x.shape[0] > 1.7 else 2.0
        wide = torch.nn.functional.interpolate(x[None, None], size=torch.sym_int(x.shape[0] * (y.shape[0] / 7)))
        return x * scale, y.new_zeros(int((x.shape[0] * y.shape[0]) ** 0.5)), wide * 2 if math.ceil(-x.shape[0] / y.shape[0]) == 0 else wide


def test_conditions_with_floats_of_several_sizes(compile_and_compare):
    """Evaluated on every run."""
    auto = torch.export.Dim.AUTO
    compiled = compile_and_compare(
        Ratios(),
        (torch.randn(4), torch.randn(9)),
        ({0: auto}, {0: auto}),
        more_inputs=[(torch.randn(x), torch.randn(y)) for x, y in ((3, 13), (3, 14), (2, 20), (4, 12))],
    )
    for x, y, text in ((6, 8, "1.7"), (4, 13, "0.5"), (3, 11, "0.5")):
        with pytest.raises(kiln.KilnError, match=rf"expected .*{text}") as error:
            compiled.model.run([torch.randn(x), torch.randn(y)])
        assert error.value.status == 6
