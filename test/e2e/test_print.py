"""torch.ops.higher_order.print: a compiled model prints what eager mode does, when it runs."""

import contextlib
import io
import os

import pytest
import torch
from torch._higher_order_ops import print as print_op
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import kiln
from conftest import TARGET, Compiled, assert_user_error, clone, run_tool
from guarded import GuardedModel

NAN, INF = float("nan"), float("inf")
DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    *(torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz),
]


def eager_text(module, *inputs):
    with contextlib.redirect_stdout(io.StringIO()) as text, torch.no_grad():
        module(*clone(inputs))
    return text.getvalue()


def check(compiled, capfd, *inputs):
    """The same text as eager mode's, with the same results."""
    expected = eager_text(compiled.module, *inputs)
    assert expected
    capfd.readouterr()
    compiled.model.run(list(clone(inputs)))
    assert capfd.readouterr().out == expected
    return expected


class Formats(torch.nn.Module):
    """Places of each kind, numbers of each kind, and values that other kernels read and write."""

    def __init__(self, lists):
        super().__init__()
        self.lists = lists
        self.register_buffer("count", torch.zeros(2, dtype=torch.int64))

    def forward(self, x, y):
        z = (x + 1).t()
        print_op("{} and {{{}}} of {}%", z, x.shape[0], 50)
        print_op("{1} {0} {1} {name:.3f} {}x".replace("{}", "{{}}"), 2.5, None, name=x.abs().sum())
        print_op("no places", x)
        x.add_(1)
        print_op("written {} {}", x, x[0, 0])
        self.count.add_(2)
        print_op("{c} {b} {n} {text} {f}", c=self.count, b=True, n=x.shape[0] * 2 - 7, text="{é} %d\n", f=1e16)
        print_op("{:.2e} {:.0f} {:.6g} {:.1f}", y.mean(), y[0, 0], x.shape[0] / 3, 7)
        if self.lists:
            print_op("{} {} {}", [1, x.shape[0]], [x[0], y.sum(), y], [0.5, 1.0])
        print_op("{}", (y > 0).any())
        return z * 2


@pytest.mark.parametrize("decomposed", [False, True])
def test_formats(tmp_path, capfd, decomposed):
    """Decomposed programs have print in `with_effects`, with tokens; PyTorch cannot decompose one of a list."""
    torch.manual_seed(0)
    inputs = torch.randn(3, 2), torch.randn(2, 2)
    compiled = Compiled(Formats(lists=not decomposed), inputs, tmp_path, ({0: Dim("n", max=2000)}, {}))
    if decomposed:
        compiled.decompose()
        assert any("with_effects" in str(node.target) for node in compiled.program.graph.nodes)
    for n in (3, 1, 700):
        check(compiled, capfd, torch.randn(n, 2), torch.randn(2, 2))


class Values(torch.nn.Module):
    """Every dtype, with layouts, sizes and values that change how a tensor is printed."""

    def forward(self, bits, x, empty):
        for dtype in DTYPES:
            whole = bits.view(dtype) if dtype != torch.bool else bits > 99
            print_op("{} {}", whole.reshape(-1), whole[0, 0])
        for y in (x, x[::2].t(), x * 1e5, x.round(), torch.zeros_like(x), x[:0], torch.complex(x, -x), x.repeat(9, 40).reshape(9, 20, -1)):
            print_op("{}", y)
        print_op("{} {} {}", empty, empty.t().to(torch.int64), empty.reshape(-1))
        print_op("{}", torch.where(x > 0.5, NAN, torch.where(x < -1, -INF, x)))
        return x * 2


def test_values(compile_model, capfd):
    torch.manual_seed(0)
    inputs = torch.randint(0, 256, (2, 32), dtype=torch.uint8), torch.randn(6, 4), torch.zeros(0, 3)
    compiled = compile_model(Values(), inputs)
    text = check(compiled, capfd, *inputs)
    assert "dtype=torch.float8_e5m2fnuz" in text and "..." in text and "size=(0, 3)" in text
    check(compiled, capfd, torch.randint(0, 256, (2, 32), dtype=torch.uint8), torch.randn(6, 4).double().float() * 1e-3, torch.zeros(0, 3))


class Nested(torch.nn.Module):
    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        (z, _) = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), y))
        return torch._higher_order_ops.map(lambda row: row.exp(), x), z


def test_nested_graphs(tmp_path, capfd):
    """Export writes no print in a nested graph, but an archive can hold one."""
    torch.manual_seed(0)
    x = torch.randn(2, 3)
    program = torch.export.export(Nested(), (x,))
    for name, graph in program.graph_module.named_children():
        argument = [node for node in graph.graph.nodes if node.op == "placeholder"][-1]
        with graph.graph.inserting_after(argument):
            node = graph.graph.call_function(torch.ops.higher_order.print, (name + " {}", argument))
            node.meta["val"] = None
        graph.recompile()
    torch.export.save(program, tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so", *TARGET)
    assert process.returncode == 0, process.stderr
    model, graph = GuardedModel(tmp_path / "model.so", 0), program.graph_module
    names = [name for name, _ in graph.named_children()]
    assert len(names) == 5, names
    true, false, test, body, row = names
    for sign in (1, -1):
        x = sign * torch.rand(2, 3)
        capfd.readouterr()
        model.run([x])
        branch = f"{true if sign > 0 else false} {x}\n"
        states = [(x + sign) * 2**i for i in range(4)]
        loop = "".join(f"{test} {state}\n" + (f"{body} {state}\n" if i < 3 else "") for i, state in enumerate(states))
        assert capfd.readouterr().out == branch + loop + "".join(f"{row} {part}\n" for part in x)


def test_package_and_order(capfd):
    """kiln.compile; prints come before the failure of an assertion behind them; without standard output there is nothing to do."""

    class Failing(torch.nn.Module):
        def forward(self, x):
            print_op("before {}", x)
            torch._check(x.sum().item() < 10, lambda: "too much")
            print_op("after")
            return x + 1

    program = torch.export.export(Failing(), (torch.ones(2),))
    model = kiln.compile(program, target="cuda", gpu_arch="emulator") if TARGET else kiln.compile(program)
    capfd.readouterr()
    model(torch.ones(2))
    assert capfd.readouterr().out == "before tensor([1., 1.])\nafter\n"
    with pytest.raises(kiln.KilnError):
        model(torch.full((2,), 9.0))
    assert capfd.readouterr().out == "before tensor([9., 9.])\n"
    kept = os.dup(1)
    try:
        os.close(1)
        model(torch.ones(2))
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def test_refused(tmp_path):
    class Refused(torch.nn.Module):
        def forward(self, x):
            print_op("{:>8}", x.sum())
            return x + 1

    torch.export.save(torch.export.export(Refused(), (torch.ones(2),)), tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so")
    assert_user_error(process, "print: the spec '>8'", "node 'print_1'", "test_print.py:")
