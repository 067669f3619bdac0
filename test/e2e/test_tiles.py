"""Products in tiles (AMX): the instructions for tiles are calls of functions that do the same (test/Targets/CPU/tiles)."""

import re
import subprocess

import pytest
import torch

from conftest import TARGET, TILES, cpu_options, run_tool

pytestmark = pytest.mark.skipif(bool(TARGET), reason="tiles are a CPU's")
CPUS = pytest.mark.parametrize("cpu", TILES)
I8 = torch.int8


def some(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16()


def schedules(compiled, cpu, folder):
    """What the kernels of products multiply in."""
    process = run_tool("aot-compile", compiled.archive, "-o", folder / "kernels.mlir", "--emit=wrapper", *cpu_options(cpu))
    assert process.returncode == 0, process.stderr
    found = re.findall(r"schedule = #cpu.contract<([^>]*)>", (folder / "kernels.mlir").read_text())
    return ["tiles" if "unit = tiles" in one else "vectors" for one in found]


class Products(torch.nn.Module):
    """Sums of whole tiles, of shorter ones, with a rest (37 words), and of a number of steps that is odd; a batch."""

    def __init__(self, n):
        super().__init__()
        self.weights = torch.nn.ParameterList(some(n, k) for k in (96, 80, 74, 95))
        self.batch = torch.nn.Parameter(some(3, 96, n))

    def forward(self, x):
        products = [torch.nn.functional.linear(x[:, : w.shape[1]], w) for w in self.weights]
        return *products, torch.relu(x).expand(3, *x.shape) @ self.batch, torch.nn.functional.gelu(products[0]) + products[1][:, :1]


@CPUS
@pytest.mark.parametrize("n", [9, 40, 100])
def test_bf16(compile_and_compare, cpu, n):
    """Rows of any number: up to four are multiplied in vectors, then there is half a tile, a whole one, two that overlap, several."""
    rows = ({0: torch.export.Dim("rows", min=0, max=1000)},)
    more = [(some(m, 96),) for m in (0, 1, 2, 3, 4, 5, 16, 17, 31, 32, 33, 63, 65, 200)]
    compile_and_compare(Products(n), (some(13, 96),), rows, rtol=1.6e-2, atol=2e-1, more_inputs=more, options=cpu_options(cpu))


@CPUS
def test_numbers_of_rows(compile_and_compare, tmp_path, cpu):
    for m, unit in ((2, "vectors"), (4, "vectors"), (5, "tiles"), (16, "tiles"), (20, "tiles"), (33, "tiles"), (100, "tiles")):
        compiled = compile_and_compare(
            torch.nn.Linear(96, 48, dtype=torch.bfloat16), (some(m, 96),), rtol=1.6e-2, atol=2e-2, options=cpu_options(cpu)
        )
        assert schedules(compiled, cpu, tmp_path) == [unit], m


@CPUS
def test_accuracy(compile_model, cpu):
    """Against sums in f64: no further from them than twice what eager is."""
    module, x = torch.nn.Linear(2048, 64, dtype=torch.bfloat16), some(50, 2048)
    (result,) = compile_model(module, (x,), options=cpu_options(cpu)).model.run([x])
    exact = torch.nn.functional.linear(x.double(), module.weight.detach().double(), module.bias.detach().double())
    with torch.no_grad():
        eager = (module(x).double() - exact).abs().max()
    assert (torch.as_tensor(result).double() - exact).abs().max() <= 2 * eager


class Operands(torch.nn.Module):
    """Right operands that each run has anew: in a batch, in one that all of it shares, with steps next to each other, columns of an open number."""

    def forward(self, x, y, z):
        return x @ y, x @ y[0], x @ z.transpose(1, 2), torch.relu(x * 2) @ y, y.transpose(1, 2) @ x.transpose(1, 2)


@CPUS
def test_operands_of_a_run(compile_and_compare, tmp_path, cpu):
    def inputs(m, n):
        return some(2, m, 64), some(2, 64, n), some(2, n, 64)

    compiled = compile_and_compare(Operands(), inputs(70, 48), rtol=1.6e-2, atol=1e-1, options=cpu_options(cpu))
    assert "tiles" in schedules(compiled, cpu, tmp_path)
    m, n = torch.export.Dim("m", min=2), torch.export.Dim("n", min=2)
    more = [inputs(*sizes) for sizes in ((2, 3), (33, 20), (100, 17))]
    compile_and_compare(
        Operands(), inputs(70, 48), ({1: m}, {2: n}, {1: n}), rtol=1.6e-2, atol=1e-1, more_inputs=more, options=cpu_options(cpu)
    )


@CPUS
def test_rows_have_the_same_bits(compile_model, cpu):
    """Whatever batch they are in."""
    model = compile_model(Products(40), (some(13, 96),), ({0: torch.export.Dim("rows", min=1)},), options=cpu_options(cpu)).model
    x = some(70, 96)
    together = [torch.as_tensor(result) for result in model.run([x])]
    for first, end in ((0, 1), (17, 19), (20, 24), (30, 47), (37, 70)):
        for one, result in zip(model.run([x[first:end]]), together):
            assert torch.equal(torch.as_tensor(one), result.narrow(-2, first, end - first))


class Integers(torch.nn.Module):
    """The sums of tiles, and one with a rest."""

    def __init__(self):
        super().__init__()
        for k in (64, 40, 148):
            weight = torch.randint(-128, 128, (k, 48), dtype=I8, generator=torch.Generator().manual_seed(k))
            weight[:, 0], weight[:, 1] = 127, -128
            self.register_buffer(f"w{k}", weight)

    def forward(self, x):
        return [torch._int_mm(x[:, :k].contiguous(), getattr(self, f"w{k}")) for k in (64, 40, 148)]


@CPUS
def test_integers(compile_and_compare, cpu):
    def rows(count):
        x = torch.randint(-128, 128, (count, 148), dtype=I8, generator=torch.Generator().manual_seed(count))
        x[0], x[-1] = -128, 127
        return (x,)

    more = [rows(m) for m in (2, 3, 4, 5, 16, 18, 32, 33, 64, 130)]
    compile_and_compare(
        Integers(), rows(17), ({0: torch.export.Dim.DYNAMIC},), rtol=0, atol=0, more_inputs=more, options=cpu_options(cpu), threads=2
    )


@pytest.mark.parametrize("cpu", ["sapphirerapids", "graniterapids"])
def test_code(compile_model, tmp_path, cpu):
    """Tiles are configured once, and neither kept nor fetched anywhere but in operands and sums."""

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(256, 64, dtype=torch.bfloat16)
            self.register_buffer("weight", torch.ones(64, 48, dtype=I8))

        def forward(self, x, y):
            return self.linear(x), torch._int_mm(y, self.weight)

    inputs = (some(64, 256), torch.ones(64, 64, dtype=I8))
    program = torch.export.export(Both(), inputs)
    torch.export.save(program, tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so", f"--cpu={cpu}")
    assert process.returncode == 0, process.stderr
    code = subprocess.run(["objdump", "-d", tmp_path / "model.so"], capture_output=True, text=True, check=True).stdout
    counts = {name: len(re.findall(rf"\b{name}\b", code)) for name in ("ldtilecfg", "tilerelease", "tdpbf16ps", "tdpbusd", "tilestored")}
    # Four sums each, two tiles of columns at a time; columns 32 to 48 of the second are one.
    assert counts == {"ldtilecfg": 2, "tilerelease": 2, "tdpbf16ps": 4, "tdpbusd": 6, "tilestored": 10}
