"""Sizes 0 and 1 of dynamic dimensions, which export has no example of: a model answers as the exported program does, or refuses."""

import dataclasses
import re

import torch

import prepare

# PyTorch gives a result of no elements another shape than its own rule for shapes, or what no one has written; of no classes it makes NaN
# here, and a mean there.
EMPTY = re.compile(r"addmv$|nn\.functional\.(conv|linear_cross_entropy|multi_margin_loss$|multilabel_margin_loss$)")


def sizes_below_two(hints, takes_empty):
    """Of symbols and the sizes that they have in the example: all of them 1, all 0, and single ones."""
    for size in (1, 0) if takes_empty else (1,):
        yield dict.fromkeys(hints, size)
        if len(hints) > 1:
            for symbol in hints:
                yield {**hints, symbol: size}


def shape_at(value, sizes):
    """The shape of `value`; None where it has none, or a symbol is beyond its range, whose lower bound counts from 3 on, as in PyTorch's own check."""
    for size in value.shape:
        for symbol in size.node.expr.free_symbols if isinstance(size, torch.SymInt) else ():
            known = size.node.shape_env.var_to_range[symbol]
            if symbol not in sizes or known.lower > max(sizes[symbol], 2) or known.upper < sizes[symbol]:
                return None
    shape = [int(size.node.expr.subs(sizes)) if isinstance(size, torch.SymInt) else size for size in value.shape]
    return None if min(shape, default=0) < 0 else shape


class Small:
    """The exported program of `parts`, calls of the workspace's entry in their order."""

    def __init__(self, workspace, archive, parts):
        program = torch.export.load(archive)
        self.workspace, self.parts, self.module = workspace, parts, program.module()
        self.values = prepare.input_values(program)

    def cases(self, position):
        """For each choice of small sizes that the operator and the program take of the call at `position`, all inputs of the program and the case of
        that call, as the program answers it."""
        before = [tensor for part in self.parts[:position] for tensor in part.case.inputs]
        behind = [tensor for part in self.parts[position + 1 :] for tensor in part.case.inputs]
        part = self.parts[position]
        values = self.values[len(before) : len(before) + len(part.case.inputs)]
        found, hints = [], prepare.symbols_of(values)
        for sizes in sizes_below_two(hints, not EMPTY.match(self.workspace.entry.name)) if hints else ():
            shapes = [shape_at(value, sizes) for value in values]
            if None in shapes:
                continue
            inputs = [prepare.resize(tensor, shape) for tensor, shape in zip(part.case.inputs, shapes)]
            every = [*before, *inputs, *behind]
            case = prepare.make_case(self.workspace.entry, self.workspace.calls()[part.name], inputs)
            try:
                expected = case and prepare.results(self.module(*prepare.clone(every))[position])
            except Exception:
                continue
            if case:
                found.append((every, dataclasses.replace(case, expected=expected)))
        return found
