"""Plans of memory: host programs of exported programs run on poisoned memory, and damaged plans are refused."""

import os
import random
import re

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop

from conftest import TARGET, run_tool

Dim = torch.export.Dim


class Join(torch.nn.Module):
    """Parts of a concatenation, results in place of operands, and the last product in reused memory."""

    def forward(self, x, y):
        a, b = x @ x.T, y @ x.T
        joined = torch.cat([a.softmax(-1), b, a.sum(0, keepdim=True)])
        c = (joined @ a).relu() * 2
        return joined, c.softmax(0) @ a, (c + 1).sum()


class Data(torch.nn.Module):
    """Sizes that data gives, twice, with memory for each."""

    def forward(self, x):
        rows = x[x.sum(-1) > 0]
        flat = rows.reshape(-1)
        chosen = flat[flat > 0.5]
        return rows.softmax(0) @ x.T[:, :2], chosen.cumsum(0), chosen.sum()


class Branches(torch.nn.Module):
    """Branches with memory of their own, one of another branch, results of sizes that they find out."""

    def forward(self, x, p, q):
        def inner(x):
            return ((x @ x.transpose(0, 1)).softmax(-1) @ x).relu()

        def outer(x):
            return torch.cond(q, inner, lambda x: x.cos() + x.sum(0), (x,)) @ x.transpose(0, 1) @ x

        y = torch.cond(p, outer, lambda x: x * 2, (x,))
        rows = torch.cond(p, lambda x: x[x[:, 0] > 0], lambda x: x[:1] * 3, (x,))
        return y, rows.sum(0)


class Loops(torch.nn.Module):
    """Carried values and slices: a while loop, and a scan that stacks."""

    def forward(self, n, x):
        def body(i, x):
            return i - 1, (x @ x.T).softmax(-1) @ x

        i, y = while_loop(lambda i, x: i > 0, body, (n, x))
        last, all = torch._higher_order_ops.scan(lambda c, s: ((c + s).tanh(), c * s), x[0], y, dim=0)
        return i, last, all


class State(torch.nn.Module):
    """Buffers and inputs that the program writes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        self.total += self.layer(x).sum(0)
        x[1:] = x[:-1] * self.total
        return x.softmax(0) @ x.T


class Updates(torch.nn.Module):
    """An operator of a library that writes its argument."""

    def forward(self, x, i, v):
        y = (x @ x.T).softmax(-1)
        return torch.ops.aten._index_put_impl_(y, [i], v @ v.T, True, False) @ x


s0, s1 = Dim("s0", min=3, max=64), Dim("s1", min=2, max=64)
X = torch.randn(6, 6)
CASES = {
    "join": (Join(), (X, torch.randn(3, 6)), None),
    "join_dynamic": (Join(), (X, torch.randn(3, 6)), ({0: s0}, {0: s1})),
    "data": (Data(), (X,), ({0: s0},)),
    "branches": (Branches(), (X, torch.tensor(True), torch.tensor(False)), ({0: s0}, None, None)),
    "loops": (Loops(), (torch.tensor(3), X), (None, {0: s0})),
    "state": (State(), (torch.randn(3, 4),), ({0: s0},)),
    "updates": (Updates(), (X, torch.tensor([0, 2]), torch.randn(2, 6)), None),
}


@pytest.fixture(scope="module", params=CASES)
def plan(request, tmp_path_factory):
    """The wrapper program of a case, as the verifier has let it pass."""
    module, inputs, dynamic_shapes = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    program = torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes, strict=False)
    torch.export.save(program, folder / "model.pt2")
    compiled = run_tool("aot-compile", folder / "model.pt2", "--emit=wrapper", "--fallback=torch", *TARGET, "-o", folder / "program.mlir")
    assert compiled.returncode == 0, compiled.stderr[-2000:]
    return folder / "program.mlir"


def interpret(program, runs=8):
    return run_tool("kiln-opt", program, f"--wrapper-interpret-memory=runs={runs}", "--mlir-print-op-on-diagnostic=false", "-o", os.devnull)


def verify(program):
    return run_tool("kiln-opt", program, "--wrapper-verify", "--mlir-print-op-on-diagnostic=false", "-o", os.devnull)


def test_runs_on_poisoned_memory(plan):
    done = interpret(plan, runs=16)
    assert done.returncode == 0, done.stderr[-2000:]
    finished, runs = map(int, re.search(r"(\d+) of (\d+) runs come to the end", done.stderr).groups())
    assert runs == 16 and finished >= 8, done.stderr
    assert verify(plan).returncode == 0


# Ways to damage a plan. Each takes the lines and the number of one that the expression matches.


def move_place(lines, i, random):
    """A buffer begins elsewhere."""
    lines[i] = re.sub(
        r"alloc at ([^:]*?)(?= :| in )",
        lambda m: f"alloc at {random.choice(['0', m[1] + ' - 64', m[1] + ' + 64', '2*(' + m[1] + ')'])}",
        lines[i],
    )


def free_early(lines, i, random):
    """A buffer ends before its last use."""
    line = lines.pop(i)
    name = re.search(r"(%\w+) :", line)[1]
    made = max(k for k in range(i) if re.match(rf"\s*{name} = wrapper\.(alloc|reuse)", lines[k]))
    lines.insert(random.randint(made + 1, i), line)


def drop(lines, i, random):
    """What a later step reads is not computed, or an output is not."""
    del lines[i]


def swap(lines, i, random):
    """A step comes before another one."""
    line = lines.pop(i)
    lines.insert(max(i - random.randint(1, 4), 0), line)


def shift_view(lines, i, random):
    """A view lies elsewhere in its buffer."""
    lines[i] = re.sub(r"offset ([^:]*?)(?= :)", lambda m: f"offset {m[1]} + {random.randint(1, 5)}", lines[i])


def shrink_arena(lines, i, random):
    lines[i] = re.sub(r"(arena_bytes = #sym.expr<)([^>]*)>", r"\g<1>\2 - 64>", lines[i])


def shrink_segment(lines, i, random):
    lines[i] = re.sub(r"(reserve \d+, )(.*)", r"\1\2 - 64", lines[i])


DAMAGE = [
    (r"= wrapper\.alloc at", move_place),
    (r"wrapper\.free", free_early),
    (r"wrapper\.(launch|copy|extern_call|call|if|while|for)", drop),
    (r"wrapper\.(launch|copy|extern_call|call|if|while|for|define)", swap),
    (r"= wrapper\.view", shift_view),
    (r"arena_bytes = #sym.expr<(?!0>)", shrink_arena),
    (r"wrapper\.reserve", shrink_segment),
]


def test_damaged_plans_are_refused(plan, tmp_path):
    """Whatever is wrong in a run is refused for all sizes; so is each kind of damage somewhere."""
    chance = random.Random(plan.parent.name)
    text = plan.read_text().splitlines()
    wrong, missed = {}, []
    for pattern, damage in DAMAGE:
        places = [i for i, line in enumerate(text) if re.search(pattern, line)]
        for i in chance.sample(places, min(len(places), 6)):
            lines = list(text)
            damage(lines, i, chance)
            program = tmp_path / "damaged.mlir"
            program.write_text("\n".join(lines))
            run = interpret(program)
            # What does not parse or breaks an op's constraint never gets to a verifier of programs.
            if not run.returncode or re.search(r"error: ('wrapper|expected|use of|operand)|no run comes", run.stderr):
                continue
            refused = verify(program)
            wrong[damage.__name__] = wrong.get(damage.__name__, 0) + 1
            if not refused.returncode:
                missed.append((damage.__name__, text[i].strip()[:200], run.stderr[:300]))
    assert not missed, missed
    assert sum(wrong.values()) >= 3, wrong
