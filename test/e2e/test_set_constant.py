"""Replaced parameters and buffers: whatever compilation has made of them, the model computes with the new ones."""

import re

import pytest
import torch
import torch.nn.functional as F

import kiln


class Block(torch.nn.Module):
    """Convolutions with folded batch norms and a shortcut."""

    def __init__(self):
        super().__init__()
        self.first, self.first_norm = torch.nn.Conv2d(3, 24, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(24)
        self.depthwise, self.depthwise_norm = torch.nn.Conv2d(24, 24, 3, 1, 1, groups=24, bias=False), torch.nn.BatchNorm2d(24)
        self.second, self.second_norm = torch.nn.Conv2d(24, 24, 1), torch.nn.BatchNorm2d(24)
        self.up = torch.nn.ConvTranspose2d(24, 5, 2, 2)

    def forward(self, x):
        x = F.relu(self.first_norm(self.first(x)))
        y = F.hardtanh(self.depthwise_norm(self.depthwise(x)), 0, 6)
        return self.up(F.relu(self.second_norm(self.second(y)) + x))


class Language(torch.nn.Module):
    """A table that is looked up and, tied, multiplied by; positions that are looked up at compile time; a weight made of two."""

    def __init__(self):
        super().__init__()
        self.table, self.places = torch.nn.Embedding(50, 24), torch.nn.Embedding(12, 24)
        self.register_buffer("ids", torch.arange(2, 9))
        self.norm, self.attend = torch.nn.LayerNorm(24), torch.nn.Linear(24, 72)
        self.mixed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(24, 40))
        self.narrow = torch.nn.Linear(40, 24, bias=False)
        self.register_buffer("frequencies", torch.rand(8))
        self.head = torch.nn.Linear(24, 50, bias=False)
        self.head.weight = self.table.weight
        self.unused = torch.nn.Parameter(torch.rand(3))

    def forward(self, tokens):
        x = self.norm(self.table(tokens) + self.places(self.ids))
        q, k, v = self.attend(x).chunk(3, -1)
        angles = torch.arange(7.0)[:, None] * self.frequencies
        q = q * torch.cat([angles.cos(), angles.sin(), angles.cos()], -1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + self.narrow(F.gelu(self.mixed(x))))


def new_value(name, old):
    if old.dtype == torch.int64:
        return torch.randint(0, 12, old.shape) if old.dim() else old + 1
    # Sums of such products stay of one size, layer after layer.
    value = torch.randn(old.shape) / old[0].numel() ** 0.5 if old.dim() > 1 else torch.randn(old.shape)
    return value.abs() + 0.5 if "running_var" in name or "norm" in name else value


def some_image():
    return (torch.randn(2, 3, 15, 14),)


def some_tokens():
    return (torch.randint(0, 50, (2, 7)),)


def replace_all(compiled, inputs, threads=1, model=None):
    model, module = model or kiln.load(compiled.path, threads=threads), compiled.module
    names = [entry["name"] for entry in model.constants]
    state = module.state_dict(keep_vars=True)
    assert set(names) >= set(dict(module.named_parameters()))
    for name in names:
        old = state[name]
        new = new_value(name, old)
        with torch.no_grad():
            old.copy_(new)
            expected = module(*inputs)
        # Half of them are not contiguous.
        model.set_constant(name, new.t().contiguous().t() if new.dim() == 2 else new)
        torch.testing.assert_close(model(*inputs), expected, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("weights", ["embed", "external"])
def test_convolutions(compile_model, weights):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 15, 14)
    compiled = compile_model(Block(), (x,), options=[f"--weights={weights}"])
    replace_all(compiled, (x,), threads=2)


def replace_rows(compiled, inputs):
    """Replaces some rows of everything that has rows; returns the names whose rows cannot be replaced alone."""
    model, module = kiln.load(compiled.path, threads=1), compiled.module
    state = module.state_dict(keep_vars=True)
    refused = set()
    for name in [entry["name"] for entry in model.constants if entry["shape"]]:
        old = state[name]
        begin, end = len(old) // 3, len(old) - len(old) // 4
        rows = new_value(name, old)[begin:end]
        with torch.no_grad():
            old[begin:end] = rows
            expected = module(*inputs)
        try:
            model.set_constant(f"{name}[{begin}:{end}]", rows)
        except kiln.KilnError as error:
            assert error.status == 3 and str(error).startswith(f'constant "{name}": its rows cannot be replaced alone'), error
            refused.add(name)
            model.set_constant(name, old.detach())
        torch.testing.assert_close(model(*inputs), expected, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
    return refused


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3"])
def test_rows(compile_model, cpu):
    torch.manual_seed(0)
    (x,), (tokens,) = some_image(), some_tokens()
    refused = replace_rows(compile_model(Block(), (x,), options=[f"--cpu={cpu}"]), (x,))
    assert refused <= {"up.weight"}  # whose taps are turned round
    refused = replace_rows(compile_model(Language(), (tokens,), options=[f"--cpu={cpu}"]), (tokens,))
    assert not refused & {"table.weight", "head.weight", "attend.weight", "narrow.weight", "norm.weight"}


def test_rows_of_values_that_come_later(compile_model):
    tokens = some_tokens()[0]
    compiled = compile_model(Language(), (tokens,), options=["--weights=later"])
    with pytest.raises(kiln.KilnError, match='constant "narrow.weight" has no value whose rows could be replaced'):
        compiled.model.set_constant("narrow.weight[2:4]", torch.ones(2, 40))


def test_rows_alone_are_written(compile_model):
    """Of a packed weight in a file, the pages of the rows' panels become the model's own."""
    compiled = compile_model(torch.nn.Linear(512, 4096, bias=False), (torch.ones(1, 512),), options=["--weights=external"])
    path = str(compiled.path) + ".safetensors"

    def written():
        with open("/proc/self/smaps") as file:
            mapping = file.read().split(path)[1]
        return int(re.search(r"Anonymous: +(\d+) kB", mapping)[1])

    x, row = torch.randn(1, 512), torch.randn(1, 512)
    before = compiled.model(x)
    assert written() == 0
    compiled.model.set_constant("weight[1000:1001]", row)
    assert 0 < written() <= 512
    after = compiled.model(x)
    assert (after != before).nonzero().tolist() == [[0, 1000]]
    torch.testing.assert_close(after[0, 1000], (x @ row.t())[0, 0], rtol=1e-5, atol=1e-4)


def test_language(compile_model):
    torch.manual_seed(0)
    tokens = torch.randint(0, 50, (2, 7))
    compiled = compile_model(Language(), (tokens,))
    replace_all(compiled, (tokens,))


@pytest.mark.parametrize("module, inputs", [(Block, some_image), (Language, some_tokens)])
def test_values_that_come_later(compile_model, module, inputs):
    torch.manual_seed(0)
    inputs = inputs()
    compiled = compile_model(module(), inputs, options=["--weights=later"])
    state = compiled.module.state_dict(keep_vars=True)
    names = sorted(entry["name"] for entry in compiled.model.constants)
    used = [name for name in names if name not in ("unused", "head.weight")]  # one of two names gives both a value
    for name in used:
        with pytest.raises(kiln.KilnError, match='constant "[a-z_.]*" has no value'):
            compiled.model(*inputs)
        compiled.model.set_constant(name, state[name])
    torch.testing.assert_close(compiled.model(*inputs), compiled.module(*inputs).detach(), rtol=1e-4, atol=1e-4)
    # Another model has none of them; one in which they have come in another order, all.
    other = kiln.load(compiled.path)
    for name in reversed(used):
        other.set_constant(name, state[name])
    assert torch.equal(other(*inputs), compiled.model(*inputs))
    with pytest.raises(kiln.KilnError, match="has no value"):
        kiln.load(compiled.path)(*inputs)
    embedded = compile_model(compiled.module, inputs)
    assert torch.equal(embedded.model(*inputs), other(*inputs))
    replace_all(compiled, inputs, model=other)


def test_tied_names_change_together(compile_model):
    torch.manual_seed(0)
    tokens = torch.randint(0, 50, (2, 7))
    compiled = compile_model(Language(), (tokens,))
    for name in ("table.weight", "head.weight"):
        with torch.no_grad():
            compiled.module.table.weight.normal_()
        compiled.model.set_constant(name, compiled.module.table.weight.detach())
        torch.testing.assert_close(compiled.model(tokens), compiled.module(tokens).detach(), rtol=1e-4, atol=1e-4)


def test_an_index_out_of_range_changes_nothing(compile_model):
    torch.manual_seed(0)
    tokens = torch.randint(0, 50, (2, 7))
    compiled = compile_model(Language(), (tokens,))
    before = compiled.model(tokens)
    with pytest.raises(kiln.KilnError, match="index out of range"):
        compiled.model.set_constant("ids", torch.full((7,), 12))
    assert torch.equal(compiled.model(tokens), before)


def test_for_another_cpu(compile_model):
    """The kernels that fold are compiled for the target, not for the machine that compiled."""
    torch.manual_seed(0)
    x = torch.randn(1, 3, 8, 8)
    compiled = compile_model(Block(), (x,), options=["--cpu=x86-64-v3"])
    replace_all(compiled, (x,))
