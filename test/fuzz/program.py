"""Random programs as data: lines of Python over named tensors, the inputs, and what is known of each value.

A value is *exact* if every way to compute it gives the same bits: it comes from small multiples of 1/64 by operations that do not
round. Only exact values may decide something (a comparison, an index, a branch), so that a difference in rounding never becomes
another choice, and exact results are compared bit for bit."""

import copy
import dataclasses
import re
import types

import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from layers import quantized

# The names of dtypes in programs: narrow ones are f64 in the reference.
NARROW = {"F": torch.float32, "B": torch.bfloat16, "H": torch.float16}
CONTROL = {"cond": torch.cond, "while_loop": while_loop, "scan": scan, "quantized": quantized}
NAME = re.compile(r"\b[vx]\d+\b")
GRID, LIMIT = 64, 4096  # exact floats are multiples of 1/GRID below LIMIT
MAX_ELEMENTS, MAX_DIMS = 1 << 13, 6  # an outer product of two is still small


class Unsuitable(Exception):
    """The program, or one of its steps, is not one to compare."""


@dataclasses.dataclass(frozen=True)
class Step:
    """Lines of Python. They define `result`, or write their operands if that is empty."""

    text: str
    result: str = ""
    is_exact: bool = False  # of exact operands
    decides: tuple = ()  # operands that must be exact
    entry: int = 0

    def operands(self):
        return [name for name in dict.fromkeys(NAME.findall(self.text)) if name != self.result]


@dataclasses.dataclass(frozen=True)
class Input:
    """A tensor per set of sizes, all of the same rank; `dynamic` are its dims that export leaves open."""

    name: str
    tensors: tuple
    dynamic: tuple = ()


def run_cond(predicate, then, otherwise, operands):
    return (then if predicate else otherwise)(*operands)


def run_while_loop(condition, body, operands):
    while condition(*operands):
        operands = body(*operands)
    return operands


def run_scan(step, state, rows):
    results = []
    for row in rows:
        state, result = step(state, row)
        results.append(result)
    return state, torch.stack(results)


# Eager mode compiles a branch before it runs it.
PLAIN_CONTROL = {"cond": run_cond, "while_loop": run_while_loop, "scan": run_scan, "quantized": quantized}


def duplicate(tensor, dtype=None):
    """A tensor of the same elements in memory of the same order."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype or tensor.dtype)
    return copy.copy_(tensor)


def widen(tensor):
    return duplicate(tensor, torch.float64 if tensor.dtype in NARROW.values() else None)


class Values:
    """The tensors of one run: as the program computes them, and with f64 in the place of narrower floats."""

    def __init__(self, inputs, index, modules):
        wide = {name: copy.deepcopy(module).double() for name, module in modules.items()}
        self.given = {
            "torch": torch,
            **PLAIN_CONTROL,
            **NARROW,
            "self": types.SimpleNamespace(**modules),
            **{i.name: duplicate(i.tensors[index]) for i in inputs},
        }
        self.wide = {
            "torch": torch,
            **PLAIN_CONTROL,
            **dict.fromkeys(NARROW, torch.float64),
            "self": types.SimpleNamespace(**wide),
            **{i.name: widen(i.tensors[index]) for i in inputs},
        }

    def run(self, text):
        for names in (self.given, self.wide):
            exec(text, names)


def looks_exact(given, wide):
    """The same in both precisions, and on the grid."""
    if given.shape != wide.shape:
        return False
    if not given.is_floating_point():
        return torch.equal(given, wide)
    given, wide = given.double(), wide.double()
    finite = given[torch.isfinite(given)]
    return torch.equal(given.nan_to_num(5e9), wide.nan_to_num(5e9)) and bool(
        ((finite * GRID).round() == finite * GRID).all() and (finite.abs() < LIMIT).all()
    )


def drift(given, wide):
    """How far rounding has taken a value from its double precision, relative to the largest element."""
    given, wide = given.double(), wide.double()
    if given.shape != wide.shape:
        raise Unsuitable("sizes that depend on rounding")
    finite = torch.isfinite(given) & torch.isfinite(wide)
    if not torch.equal(torch.isnan(given), torch.isnan(wide)) or not torch.equal(torch.isinf(given), torch.isinf(wide)):
        raise Unsuitable("rounding decides what is finite")
    if not finite.any():
        return 0.0
    size = wide[finite].abs().max().item()
    return (given - wide)[finite].abs().max().item() / max(size, 1e-30)


class Execution:
    """What is known after some of a program's steps: the tensors at every set of sizes, and which are exact."""

    def __init__(self, inputs, modules):
        self.modules = modules
        self.runs = [Values(inputs, index, modules) for index in range(len(inputs[0].tensors))]
        self.exact = {i.name: all(looks_exact(run.given[i.name], run.wide[i.name]) for run in self.runs) for i in inputs}

    def forget(self, name):
        """Takes a result back."""
        self.exact.pop(name, None)
        for run in self.runs:
            run.given.pop(name, None)
            run.wide.pop(name, None)

    def add_module(self, name, module):
        self.modules[name] = module
        for run in self.runs:
            setattr(run.given["self"], name, module)
            setattr(run.wide["self"], name, copy.deepcopy(module).double())

    def renew(self, inputs, index):
        """Inputs as they are given to another call."""
        for i in inputs:
            for run in self.runs:
                run.given[i.name], run.wide[i.name] = duplicate(i.tensors[index]), widen(i.tensors[index])
            self.exact[i.name] = all(looks_exact(run.given[i.name], run.wide[i.name]) for run in self.runs)

    def values(self, name):
        return [(run.given[name], run.wide[name]) for run in self.runs]

    def __getitem__(self, name):
        """As the exported sizes give it."""
        return self.runs[0].given[name]

    def aliases(self, names):
        """Those names, and all others of the same memory."""
        storages = {self[name].untyped_storage().data_ptr() for name in names if self[name].numel()}
        return {name for name in self.exact if self[name].untyped_storage().data_ptr() in storages} | set(names)

    def add(self, step):
        """Runs a step. Raises if it does not run, or makes something that is not to be compared."""
        if not all(self.exact[name] for name in step.decides):
            raise Unsuitable("rounding would decide")
        operands = step.operands()
        for run in self.runs:
            run.run(step.text)
        changed = [step.result] if step.result else sorted(self.aliases(operands))
        of_exact = step.is_exact and all(self.exact[name] for name in operands)
        for name in changed:
            tensors = self.values(name)
            for given, _ in tensors:
                if not isinstance(given, torch.Tensor) or given.numel() > MAX_ELEMENTS or given.dim() > MAX_DIMS:
                    raise Unsuitable("not a small tensor")
            self.exact[name] = of_exact and all(looks_exact(*pair) for pair in tensors)
            if self.exact[name]:
                continue
            for given, wide in tensors:
                if given.is_floating_point() and drift(given, wide) > (1e-4 if given.dtype == torch.float32 else 0.1):
                    raise Unsuitable("badly conditioned")
                if not given.is_floating_point() and not torch.equal(given, wide):
                    raise Unsuitable("rounding has decided")


@dataclasses.dataclass(frozen=True)
class Program:
    """`modules` are the layers that it calls, by name; `outputs` the names of its results. Inputs in `state` are buffers: the entries of
    the steps are programs of their own then, which have these in common."""

    inputs: tuple
    steps: tuple
    outputs: tuple
    modules: dict
    state: tuple = ()

    def execute(self):
        execution = Execution(self.inputs, self.modules)
        for step in self.steps:
            execution.add(step)
        return execution

    def entries(self):
        return sorted({step.entry for step in self.steps})

    def part(self, entry):
        """One entry alone."""
        steps = tuple(step for step in self.steps if step.entry == entry)
        defined = {step.result for step in steps}
        return dataclasses.replace(self, steps=steps, outputs=tuple(name for name in self.outputs if name in defined))

    def arguments(self):
        return tuple(i for i in self.inputs if i.name not in self.state)

    def buffers(self):
        """The state that the steps know."""
        operands = {name for step in self.steps for name in step.operands()}
        return tuple(i for i in self.inputs if i.name in self.state and i.name in operands)

    def source(self, name="forward"):
        """The function, as a person would write it."""
        lines = [f"def {name}(self, {', '.join(i.name for i in self.arguments())}):"]
        lines += [f"    {i.name} = self.{i.name}" for i in self.buffers()]
        for step in self.steps:
            lines += ["    " + line for line in step.text.splitlines()]
        results = ", ".join(self.outputs) or f"{self.inputs[0].name} * 1"
        return "\n".join([*lines, f"    return {results},"])

    def describe(self):
        """Source with the inputs' sizes."""
        lines = [
            f"# {i.name}: {str(i.tensors[0].dtype)[6:]}, sizes {' or '.join(str(list(t.shape)) for t in i.tensors)}"
            + (f", strides {i.tensors[0].stride()}" if not i.tensors[0].is_contiguous() else "")
            + (f", dynamic {list(i.dynamic)}" if i.dynamic else "")
            for i in self.inputs
        ]
        functions = [self.part(e).source(f"entry{e}") for e in self.entries()] if self.state else [self.source()]
        lines += [f"# {name} = {str(module).splitlines()[0]}" for name, module in self.modules.items() if f"self.{name}(" in self.source()]
        return "\n".join([*lines, *functions])

    def module(self):
        names = {"torch": torch, **CONTROL, **NARROW}
        exec(self.source(), names)
        model = type("Model", (torch.nn.Module,), {"forward": names["forward"]})()
        for name, layer in self.modules.items():
            if f"self.{name}(" in self.source():
                setattr(model, name, layer)
        for i in self.buffers():
            model.register_buffer(i.name, duplicate(i.tensors[0]))
        return model.eval()
