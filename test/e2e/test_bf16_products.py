"""Products of bf16 with constant weights, which are multiplied in pairs where the CPU can."""

import pathlib
import subprocess

import pytest
import torch

from conftest import TARGET, cpu_options

CPUINFO = pathlib.Path("/proc/cpuinfo").read_text()
HAS_PAIRS = " avx512_bf16 " in CPUINFO
# The instruction for pairs, in tiles where this machine has them.
PAIRS = "tdpbf16ps" if " amx_bf16 " in CPUINFO else "vdpbf16ps"


def some(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16()


class Products(torch.nn.Module):
    """Sums of an even and of an odd length, rows that are computed where they are read or lie across, experts, f32 between."""

    def __init__(self, n):
        super().__init__()
        self.even, self.odd = torch.nn.Linear(96, n, dtype=torch.bfloat16), torch.nn.Linear(95, n, dtype=torch.bfloat16)
        self.experts = torch.nn.Parameter(some(3, 96, n))
        for linear in (self.even, self.odd):
            torch.nn.init.normal_(linear.weight, generator=torch.Generator().manual_seed(n))

    def forward(self, x):
        wide = x.float().mul(2).bfloat16()
        return (
            self.even(x),
            self.odd(x[:, 1:]),
            self.even(torch.relu(x.flip(1))),
            torch.relu(self.even(wide)) + x[:, :1],
            x.expand(3, *x.shape) @ self.experts,
            (self.even.weight @ x.T),
        )


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3"] + ([] if TARGET else ["native-tiles"]))
@pytest.mark.parametrize("n", [40, 200])
def test_products(compile_and_compare, cpu, n):
    """A row, several, and a number that is known in a run only; the last panel of columns is not full."""
    module = Products(n)
    tolerances = {"rtol": 1.6e-2, "atol": 2e-1, "options": cpu_options(cpu)}
    compile_and_compare(module, (some(1, 96),), **tolerances)
    dynamic = ({0: torch.export.Dim("rows", min=1, max=1000)},)
    compiled = compile_and_compare(module, (some(13, 96),), dynamic, more_inputs=[(some(1, 96),), (some(70, 96),)], **tolerances)
    if cpu == "native" and HAS_PAIRS and not TARGET:
        code = subprocess.run(["objdump", "-d", compiled.path], capture_output=True, text=True, check=True).stdout
        assert PAIRS in code


class Convolutions(torch.nn.Module):
    """Windows in two dims and in one, strides, dilation, groups, an odd number of channels, rows of up to 16 pixels and more."""

    def __init__(self):
        super().__init__()
        nn, options = torch.nn, {"dtype": torch.bfloat16}
        self.plain, self.strided = nn.Conv2d(32, 40, 3, padding=1, **options), nn.Conv2d(40, 74, 3, stride=2, **options)
        self.dilated, self.odd = nn.Conv2d(74, 17, (2, 3), dilation=(1, 2), padding=1, **options), nn.Conv2d(17, 24, 2, **options)
        self.groups, self.sequence = nn.Conv2d(32, 64, 3, groups=2, **options), nn.Conv1d(32, 48, 5, padding=2, **options)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(parameter.numel()))

    def forward(self, x):
        y = torch.relu(self.plain(x))
        z = self.strided(y)
        return y, z, self.odd(self.dilated(z)), self.groups(x), self.sequence(x.flatten(2)) + 1


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3"] + ([] if TARGET else ["native-tiles"]))
def test_convolutions(compile_and_compare, cpu):
    tolerances = {"rtol": 1.6e-2, "atol": 5e-2, "options": cpu_options(cpu)}
    compiled = compile_and_compare(Convolutions().eval(), (some(2, 32, 15, 14),), **tolerances)
    if cpu == "native" and HAS_PAIRS and not TARGET:
        code = subprocess.run(["objdump", "-d", compiled.path], capture_output=True, text=True, check=True).stdout
        assert PAIRS in code
    auto = torch.export.Dim.AUTO
    more = [(some(1, 32, 9, 12),), (some(3, 32, 31, 40),)]
    compile_and_compare(Convolutions().eval(), (some(2, 32, 15, 14),), ({0: auto, 2: auto, 3: auto},), more_inputs=more, **tolerances)


def test_sums_are_f32(compile_model):
    """Long sums are as close to the exact ones as f32 and one rounding to bf16 make them."""
    module, x = torch.nn.Linear(4096, 64, bias=False, dtype=torch.bfloat16), some(6, 4096)
    (result,) = compile_model(module, (x,)).model.run([x])
    exact = (x.double() @ module.weight.detach().double().T).numpy()
    error = abs(torch.as_tensor(result).double().numpy() - exact)
    assert (error <= 2**-8 * abs(exact) + 1e-5 * abs(exact).max()).all()
