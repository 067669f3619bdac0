"""Long lines of scans, of which blocks have parts and look back for what is in front."""

import re

import torch

from guarded import GuardedModel

EMULATED = ("--target=cuda", "--gpu-arch=emulator")


class Lines(torch.nn.Module):
    """States of all kinds, of lines of known and unknown length: side by side, from data, of several values."""

    def forward(self, x, y, z, n):
        return (
            x.cumsum(-1),
            x.abs().log1p().cumsum(1),
            (x > 0).cumsum(-1),
            x.long().cumsum(-1),
            x.to(torch.complex64).cumsum(-1),
            *x.cummin(-1),
            y.cumsum(0),
            (1 + y / 1000).cumprod(0),
            *y.cummax(0),
            y.logcumsumexp(0),
            y.flip(0).cumsum(0),
            y.double().cumsum(0),
            torch.nonzero(y > 0.5),
            z.cumsum(0),
            z.cummax(0)[1],
            *n.cummax(0),
        )


def example(length):
    torch.manual_seed(length)
    ties = torch.randn(40000).round()
    ties[[30000, 30001, 39000]] = torch.nan
    return torch.randn(2, 20000), torch.randn(length), torch.randn(16400, 3), ties


def looks(log):
    """How many states blocks have said, of parts, groups and lines, and how many groups they have looked past, by kernel."""
    found = re.findall(r"(\w+) publishes (\d+) states and looks past (\d+)\n", log.read_text())
    return {name: (int(states), int(past)) for name, states, past in found}


def flatten(results):
    return [torch.as_tensor(result).clone() for result in results]


def assert_same(first, second):
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one.nan_to_num(7), other.nan_to_num(7))


def test_lines(compile_model, tmp_path, monkeypatch):
    """The same bits come out however far blocks have to look."""
    length = torch.export.Dim("length", min=1, max=10**8)
    compiled = compile_model(Lines(), example(33000), dynamic_shapes=(None, {0: length}, None, None), options=EMULATED)
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    compiled.model = GuardedModel(compiled.path)
    for size in (33000, 1, 4096, 600000):
        log.write_text("")
        compiled.check(example(size), 1e-4, 1e-3)
        found = looks(log)
        assert len(found) >= (9 if size > 4096 else 5), log.read_text()
        assert all(past > states // 8 for states, past in found.values() if states > 100), found
        results = [flatten(compiled.model.run(list(example(size)))) for _ in range(2)]
        assert_same(*results)
        monkeypatch.setenv("KILN_EMULATOR_LOOKS", "0")
        log.write_text("")
        assert_same(results[0], flatten(compiled.model.run(list(example(size)))))
        assert all(past == 0 for _, past in looks(log).values())
        monkeypatch.delenv("KILN_EMULATOR_LOOKS")
    # A GPU whose kernels have no variants has the states' memory, too.
    monkeypatch.setenv("KILN_EMULATOR_CAPABILITY", "80")
    assert_same(results[0], flatten(GuardedModel(compiled.path).run(list(example(size)))))


def test_more_parts_than_flags(compile_model, tmp_path, monkeypatch):
    """Then a part is several pieces, of which a block finds out first what they come to."""

    class Lines(torch.nn.Module):
        def forward(self, x):
            return x.cumsum(1)

    length = torch.export.Dim("length", min=1, max=10**8)
    compiled = compile_model(Lines(), (torch.ones(3, 5000, dtype=torch.int32),), dynamic_shapes=({1: length},), options=EMULATED)
    log = tmp_path / "log"
    monkeypatch.setenv("KILN_EMULATOR_LOG", str(log))
    compiled.model = GuardedModel(compiled.path)
    x = torch.randint(-9, 9, (3, 4096 * 1323), dtype=torch.int32)
    (result,) = compiled.model.run([x])
    assert torch.equal(torch.as_tensor(result), x.cumsum(1))
    # Of each line 662 parts and 20 groups, and what it comes to behind these.
    ((states, _),) = looks(log).values()
    assert states == 3 * (662 + 19 + 20)
