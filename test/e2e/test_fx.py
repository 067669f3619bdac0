"""--emit=fx: the emitted torch.fx.GraphModule gives what the shared object gives, bit for bit, and is a graph that PyTorch's passes take."""

import copy
import runpy

import pytest
import torch
from torch.export import Dim
from torch.fx.passes.shape_prop import ShapeProp

import kiln
from conftest import assert_user_error, clone, leaves, run_tool

CONTROL = torch.ops.higher_order


class Emitted:
    """A module exported, and compiled to a shared object and to a graph."""

    def __init__(self, module, inputs, folder, dynamic_shapes=None, options=()):
        with torch.no_grad():
            program = torch.export.export(module, clone(inputs), dynamic_shapes=dynamic_shapes)
        self.module, self.archive, self.options = module, folder / "model.pt2", options
        torch.export.save(program, self.archive)
        for output in ("model.so", "graph.py"):
            process = run_tool(
                "aot-compile", self.archive, "-o", folder / output, f"--emit={'fx' if output.endswith('py') else 'so'}", *options
            )
            assert process.returncode == 0 and not process.stderr, process.stderr[-4000:]
        self.library = kiln.load(folder / "model.so", threads=1)
        self.path = folder / "graph.py"
        self.graph = self.load()
        assert all("val" in node.meta for part in self.graph.modules() for node in part.graph.nodes)

    def load(self):
        return runpy.run_path(str(self.path))["load"]()

    def targets(self):
        return {node.target for part in self.graph.modules() for node in part.graph.nodes if node.op == "call_function"}

    def check(self, *inputs, graph=None):
        """Same bits as the shared object's, and close to eager's; inputs that are written are the same afterwards."""
        for_library, for_eager = clone(inputs), clone(inputs)
        got = (self.graph if graph is None else graph)(*inputs)
        # The package gives the exported structure, and numbers as Python's.
        want = leaves(self.library(*for_library))
        with torch.no_grad():
            eager = leaves(self.module(*for_eager))
        assert isinstance(got, tuple) and len(got) == len(want) == len(eager)
        for a, b, c in zip(got, want, eager):
            b = torch.as_tensor(b, dtype=a.dtype)
            assert a.shape == b.shape and torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))
            torch.testing.assert_close(a, torch.as_tensor(c, dtype=a.dtype), rtol=1e-4, atol=1e-4, equal_nan=True)
        for a, b in zip(inputs, for_library):
            assert not isinstance(a, torch.Tensor) or torch.equal(a, b)
        return got


def test_static_and_its_uses(tmp_path):
    class Static(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 5)
            self.register_buffer("runs", torch.zeros(2))

        def forward(self, x):
            self.runs.add_(1)
            y = self.fc(x)
            return torch.cat([y, y.softmax(-1)], 1), self.runs + 1, None, x.transpose(0, 1)

    emitted = Emitted(Static(), (torch.randn(4, 8),), tmp_path)
    graph, x = emitted.graph, torch.randn(4, 8)
    assert torch.ops.kiln.launch.default in emitted.targets() and torch.empty_strided in emitted.targets()
    # Each module counts its own runs; an output that is None has its place.
    first, again, other = graph(x), graph(x), emitted.load()(x)
    assert first[2] is None and len(first) == 4
    assert (first[1][0], again[1][0], other[1][0]) == (2, 3, 2)
    assert torch.equal(first[0], leaves(emitted.library(x))[0]) and first[3].stride() == (1, 8)
    # Strides of all kinds, a tensor in the middle of its storage.
    for strided in (torch.randn(8, 4).T, torch.randn(6, 8)[1:5], torch.randn(4, 16)[:, ::2], torch.randn(1, 8).expand(4, 8)):
        assert torch.equal(graph(strided)[0], graph(strided.contiguous())[0])
    # Graphs are copied, changed, interpreted and compiled.
    ShapeProp(graph).propagate(x)
    changed = torch.fx.Transformer(copy.deepcopy(graph)).transform()
    changed.graph.eliminate_dead_code()
    changed.recompile()
    for user in (changed, torch.fx.Interpreter(graph).run, torch.compile(graph, backend="eager", fullgraph=True)):
        assert torch.equal(user(x)[0] if callable(user) else None, first[0])


@pytest.fixture(scope="module")
def relu(tmp_path_factory):
    shapes = {"input": {0: Dim("n", min=2, max=6)}}
    return Emitted(torch.nn.ReLU(), (torch.randn(4, 8),), tmp_path_factory.mktemp("relu"), shapes)


@pytest.mark.parametrize("wrong", ["size", "rank", "dtype"])
def test_wrong_inputs(relu, wrong):
    x = {"size": torch.randn(4, 9), "rank": torch.randn(4, 8, 1), "dtype": torch.randn(4, 8).double()}
    with pytest.raises(RuntimeError, match="expected|Expected"):
        relu.graph(x[wrong])
    for rows in (2, 6):
        relu.check(torch.randn(rows, 8))
    for rows in (0, 1, 7):
        with pytest.raises(RuntimeError, match=r'input 0 "input", dimension 0: expected s\d+ in \[2, 6\]'):
            relu.graph(torch.randn(rows, 8))


def test_dynamic_sizes_views_and_numbers(tmp_path):
    class Dynamic(torch.nn.Module):
        def forward(self, x, y, n):
            halves = (x.reshape(-1, 2, 4).sum(1) * 1.5).view(torch.int32)
            z = torch.cat([x, y, x[: y.shape[0] // 2]])
            return halves, z[n:], z.shape[0] // 3, z.flip(0).T

    rows, more = Dim("rows", max=64), Dim("more", min=4, max=64)
    shapes = {"x": {0: 2 * rows}, "y": {0: more}, "n": Dim.DYNAMIC}
    emitted = Emitted(Dynamic(), (torch.randn(12, 4), torch.randn(10, 4), 3), tmp_path, shapes)
    assert all(isinstance(node.meta["val"], torch.SymInt) for node in emitted.graph.graph.nodes if node.name == "n")
    for x, y, n in ((12, 10, 3), (4, 4, 2), (64, 5, 4), (128, 64, 9)):
        emitted.check(torch.randn(x, 4), torch.randn(y, 4), n)
    compiled = torch.compile(emitted.graph, backend="eager", fullgraph=True, dynamic=True)
    emitted.check(torch.randn(14, 4), torch.randn(11, 4), 5, graph=compiled)
    with pytest.raises(RuntimeError, match="input 0"):
        emitted.graph(torch.randn(13, 4), torch.randn(10, 4), 3)


def test_numbers_out_of_range(tmp_path):
    class Limited(torch.nn.Module):
        def forward(self, x, n):
            torch._check(n <= x.shape[0])
            return x[:n] * 2, x.new_zeros(n)

    shapes = {"x": {0: Dim("rows", min=2, max=9)}, "n": Dim.DYNAMIC}
    emitted = Emitted(Limited(), (torch.randn(6, 4), 3), tmp_path, shapes)
    compiled = torch.compile(emitted.graph, backend="eager", dynamic=True)
    for graph in (emitted.graph, compiled, torch.fx.Interpreter(emitted.graph).run):
        emitted.check(torch.randn(6, 4), 6, graph=graph)
        for n, message in ((-1, 'input 1 "n": expected s'), (7, r"expected n <= x\.size"), (1 << 62, 'input 1 "n": expected s')):
            with pytest.raises(RuntimeError, match=message):
                graph(torch.randn(6, 4), n)


def test_mutated_inputs(tmp_path):
    class Mutating(torch.nn.Module):
        def forward(self, x, y):
            x.mul_(2).add_(y)
            y[:, 1] = x[:, 0]
            return x.sum(1), x

    emitted = Emitted(Mutating(), (torch.randn(4, 6), torch.randn(4, 6)), tmp_path)
    emitted.check(torch.randn(4, 6), torch.randn(4, 6))
    emitted.check(torch.randn(6, 4).T, torch.randn(8, 6)[::2])
    assert torch.ops.aten.copy_.default in emitted.targets()
    compiled = torch.compile(emitted.graph, backend="aot_eager", fullgraph=True)
    emitted.check(torch.randn(4, 6), torch.randn(4, 6), graph=compiled)


def test_names_are_names(tmp_path):
    """Text of an archive is never code: not that of inputs, of weights or of messages."""

    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer('w"), print("', torch.randn(4))
            self.register_buffer("0", torch.randn(4))

        def forward(self, g, lambda_, *, torch):
            weights = dict(self.named_buffers())
            return g * weights['w"), print("'] + lambda_ - weights["0"] * torch

    module = Odd()
    program = torch.export.export(module, (torch.randn(4), torch.randn(4)), {"torch": torch.randn(4)})
    torch.export.save(program, tmp_path / "odd.pt2")
    process = run_tool("aot-compile", tmp_path / "odd.pt2", "-o", tmp_path / 'a "b" fx.py', "--emit=fx")
    assert process.returncode == 0, process.stderr
    graph = runpy.run_path(str(tmp_path / 'a "b" fx.py'))["load"]()
    inputs = [torch.randn(4) for _ in range(3)]
    torch.testing.assert_close(graph(*inputs)[0], module(*inputs[:2], torch=inputs[2]))


def test_data_dependent_sizes(tmp_path):
    class Selects(torch.nn.Module):
        def forward(self, x, i):
            n = i.item()
            torch._check(n >= 0)
            torch._check(n <= x.shape[0])
            return x[x > 0], x.nonzero(), x[:n] + 1, n * 2

    emitted = Emitted(Selects(), (torch.randn(12), torch.tensor(3)), tmp_path, {"x": {0: Dim("n", min=2)}, "i": None})
    for x in (torch.randn(12), -torch.ones(7), torch.ones(30)):
        emitted.check(x, torch.tensor(4))
    with pytest.raises(RuntimeError, match="u0"):
        emitted.graph(torch.randn(3), torch.tensor(4))


def test_kernels_of_several_sizes(tmp_path):
    class Parts(torch.nn.Module):
        def forward(self, x, kind):
            rows = [torch.where(kind == i)[0] for i in range(3)]
            return [torch.tanh(x[part]).flip(0) * part.shape[0] for part in rows]

    emitted = Emitted(Parts(), (torch.randn(12, 5), torch.arange(12) % 3), tmp_path, None)
    for kind in (torch.arange(12) // 5, torch.ones(12, dtype=torch.int64)):
        emitted.check(torch.randn(12, 5), kind)


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, p, x):
        n = x.shape[0]
        return torch.cond(
            p, lambda x: self.fc(x).relu() * n, lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), (x,)
        ), torch.cond(n > 4, lambda x: x + 1, lambda x: x - 1, (x,))


class Loops(torch.nn.Module):
    def forward(self, n, x, w):
        from torch._higher_order_ops import scan, while_loop

        i, y = while_loop(lambda i, y: i < n, lambda i, y: (i + 1, torch.tanh(y @ w)), (torch.zeros((), dtype=torch.int64), x))
        carry, stacked = scan(lambda c, s: ((c * 0.5 + s) @ w, c.cos()), torch.zeros(4), x)
        return i, y, carry, stacked


def test_branches(tmp_path):
    emitted = Emitted(Branches(), (torch.tensor(True), torch.randn(5, 4)), tmp_path, {"p": None, "x": {0: Dim("n", min=2)}})
    assert CONTROL.cond in emitted.targets()
    for p in (True, False):
        for x in (torch.ones(3, 4), -torch.ones(9, 4)):
            emitted.check(torch.tensor(p), x)
    compiled = torch.compile(emitted.graph, backend="eager", dynamic=True)
    emitted.check(torch.tensor(False), torch.randn(6, 4), graph=compiled)


def test_loops(tmp_path):
    emitted = Emitted(Loops(), (torch.tensor(3), torch.randn(5, 4), torch.randn(4, 4)), tmp_path)
    assert CONTROL.while_loop in emitted.targets()
    for n in (0, 1, 4):
        emitted.check(torch.tensor(n), torch.randn(5, 4), torch.randn(4, 4))


@pytest.mark.parametrize("dynamic", [False, True])
def test_loops_of_any_length(tmp_path, dynamic):
    """The LU factorisation of an inverse goes over the columns of its matrices, which may have none."""

    class Inverse(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x)

    n = Dim("n", min=0)
    x = torch.eye(3).repeat(2, 1, 1) if dynamic else torch.zeros(2, 0, 0)
    emitted = Emitted(Inverse(), (x,), tmp_path, {"x": {1: n, 2: n}} if dynamic else None)
    assert not dynamic or CONTROL.scan in emitted.targets()
    for size in (0, 1, 5) if dynamic else (0,):
        emitted.check(torch.randn(2, size, size) + 9 * torch.eye(size))


def test_prints(tmp_path, capfd):
    class Printing(torch.nn.Module):
        def forward(self, x):
            y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))
            CONTROL.print("{} {{{n}}} {s:.3f} {} %", y, x[0, 0], n=x.shape[0], s=y.sum())
            CONTROL.print("{}", [y[0, 0]])
            return y.exp()

    emitted = Emitted(Printing(), (torch.randn(3, 2),), tmp_path, ({0: Dim("n", max=9)},))
    emitted.graph.graph.eliminate_dead_code()
    emitted.graph.recompile()
    for n in (3, 1):
        capfd.readouterr()
        emitted.check(torch.randn(n, 2))
        lines = capfd.readouterr().out.splitlines()
        assert len(lines) == 3 * (n + 1) and sorted(lines) == sorted(lines[: n + 1] * 3), lines


def test_operators_of_libraries(tmp_path):
    """A fallback with nested arguments and several results, one whose results say how large they are, and a function of the runtime's."""

    class Fallbacks(torch.nn.Module):
        def forward(self, x, i):
            u, s, v = torch.linalg.svd(x.reshape(4, -1), full_matrices=False)
            padded = torch.ops.aten._pdist_forward(x, 2.0)
            values, inverse = torch.ops.aten._unique(i, True, True)
            return s, padded, values, inverse, torch.ops.aten.index_put(x, [None, i], x[:, :1])

    emitted = Emitted(Fallbacks(), (torch.randn(4, 6), torch.tensor([1, 3, 1])), tmp_path, options=("--fallback=torch",))
    emitted.check(torch.randn(4, 6), torch.tensor([2, 2, 0]))


def test_libraries_of_others(tmp_path):
    """The library beside a module is its own, and stays so as long as a process uses it."""
    emitted = Emitted(torch.nn.ReLU(), (torch.randn(4),), tmp_path)
    archive, first, other = emitted.archive, emitted.path.with_suffix(".so"), tmp_path / "other.py"
    torch.export.save(torch.export.export(torch.nn.Tanh(), (torch.randn(5),)), archive)
    assert run_tool("aot-compile", archive, "-o", other, "--emit=fx").returncode == 0
    copied = tmp_path / "copied.py"
    copied.write_text(other.read_text().replace("other.so", "copied.so"))
    for library, message in ((first, "another module"), (tmp_path / "model.so", "not the library")):
        copied.with_suffix(".so").unlink(missing_ok=True)
        copied.with_suffix(".so").write_bytes(library.read_bytes())
        with pytest.raises(RuntimeError, match=message):
            runpy.run_path(str(copied))["load"]()
        copied = copied.rename(tmp_path / "again.py")
        copied.write_text(copied.read_text().replace("copied.so", "again.so"))
    other.with_suffix(".so").replace(first)
    with pytest.raises(RuntimeError, match="has changed"):
        emitted.load()


def test_refusals(tmp_path):
    archive = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.randn(4),)), archive)
    assert_user_error(run_tool("aot-compile", archive, "--emit=fx", "-o", tmp_path / "m.so"), "NAME.py")
    assert_user_error(run_tool("aot-compile", archive, "--emit=fx", "-o", "-"), "not text")
    assert_user_error(run_tool("aot-compile", archive, "--emit=fx", "--target=cuda", "-o", tmp_path / "m.py"), "--target=cuda")
    assert_user_error(run_tool("aot-compile", archive, "--emit=fx", "--debug-print=1", "-o", tmp_path / "m.py"), "--debug-print")
    assert not (tmp_path / "m.so").exists() and not (tmp_path / "m.py").exists()


def test_direct_calls_of_the_operator(tmp_path):
    """The operator checks what it is given: sizes, strides, dtypes, counts, names."""
    emitted = Emitted(torch.nn.ReLU(), (torch.randn(4, 8),), tmp_path)
    (node,) = [node for node in emitted.graph.graph.nodes if node.target is torch.ops.kiln.launch.default]
    library, kernel = node.args[:2]
    x = torch.randn(4, 8)
    launch, out = torch.ops.kiln.launch.default, torch.empty(4, 8)
    launch(library, kernel, [x], [out], [])
    assert torch.equal(out, x.relu())
    for ins, outs, symbols in (
        ([x[:3]], [out], []),
        ([x.T.contiguous().T], [out], []),
        ([x.double()], [out], []),
        ([x, x], [out], []),
        ([x], [out], [1]),
        ([], [out], []),
    ):
        with pytest.raises(RuntimeError, match="expected"):
            launch(library, kernel, ins, outs, symbols)
    with pytest.raises(RuntimeError, match="expected"):
        launch(library, "another", [x], [out], [])
