"""Compiles and runs the programs of one entry and says for each call how it went.

Programs hold as many calls as compile together. Where a program is refused or fails, it is taken apart: first the calls whose
operators have no lowering, then by dtype, then one by one."""

import os
import re
import subprocess
import sys
import tempfile

import torch

import child
import prepare
import small

for folder in ("python", "test/e2e"):
    sys.path.insert(0, str(prepare.ROOT / folder))
import kiln  # noqa: E402
from guarded import GuardedModel  # noqa: E402

NATIVE, FALLBACK, WRONG, REFUSED, CRASH, NOT_EXPORTED = "native", "fallback", "wrong", "refused", "crash", "not exported"
COMPILE_SECONDS = 300  # of CPU time
# Eager mode's own double precision is exact to six digits or so.
INEXACT = re.compile(r"special\.(bessel_[jy][01]|airy_ai)$")
# What a result may differ from the double precision reference by, in units of eager's own difference.
GOAL = 2
# What a few elements cancel to, or what one score of a softmax decides, is luck, for eager mode as well: calls that are less exact than
# that are judged by as many further draws of their inputs.
DRAWS = 16


class Outcome:
    """How a call went: `detail` says why not, `errors` is how far each result and eager mode's are from the reference, on several draws
    of its inputs if `is_drawn`; with `is_random` only dtypes and shapes were compared; with `is_resized` it was run at other sizes than
    the exported ones, too; of `small` runs at sizes 0 and 1, how many were answered and how many refused."""

    def __init__(self, name, state, detail="", errors=(), is_random=False):
        self.name, self.state, self.detail, self.errors = name, state, detail, list(errors)
        self.is_random, self.is_drawn, self.is_resized, self.small = is_random, False, False, (0, 0)


class Inexact(str):
    """A problem that is a matter of rounding."""


def distance(actual, reference):
    """The largest error, in units of the last place of a value of this size or of the tensor's usual size."""
    finite = torch.isfinite(reference) & torch.isfinite(actual)
    if not finite.any():
        return 0.0
    actual, reference = actual[finite], reference[finite]
    size = reference.abs() + 0.01 * reference.abs().square().mean().sqrt() + 1e-30
    return ((actual - reference).abs() / size).max().item()


def errors(actual, expected, reference):
    """How far `actual` and `expected` are from the reference, and half a place of their type; None where that says nothing."""
    if (
        reference is None
        or not (expected.is_floating_point() or expected.is_complex())
        or reference.shape != expected.shape
        or not expected.numel()
    ):
        return None
    wide = torch.complex128 if expected.is_complex() else torch.float64
    if expected.dtype == wide:
        return None
    reference = reference.to(wide)
    return distance(actual.to(wide), reference), distance(expected.to(wide), reference), torch.finfo(expected.dtype).eps / 2


def units(found):
    """The largest error in units of eager mode's own largest, which counts as half a place at least."""
    ours, eager, halves = zip(*found)
    return max(ours) / max(*eager, *halves)


def error_groups(outcomes):
    """Errors with their outcomes, over all calls of a dtype: a few elements of a single call are exact by luck."""
    groups = {}
    for outcome in outcomes:
        for number, found in enumerate(outcome.errors):
            if found:
                groups.setdefault((outcome.name.split("[")[0], number), []).append((found, outcome))
    return list(groups.values())


def entry_units(outcomes):
    """Units of an entry, and the call that is the least exact. (units, name) or None."""
    return max(
        (
            (units([found for found, _ in group]), max((found, outcome.name) for found, outcome in group)[1])
            for group in error_groups(outcomes)
        ),
        default=None,
    )


def is_tie(positions, expected, values, dim):
    """Both name equal elements, no element twice."""
    if dim is None or expected.dtype != torch.int64 or positions.dim() != values.dim() and positions.dim() != values.dim() - 1:
        return False
    if positions.dim() != values.dim():
        positions, expected = positions.unsqueeze(dim), expected.unsqueeze(dim)
    if ((positions < 0) | (positions >= values.shape[dim])).any() or (positions.sort(dim).values.diff(dim=dim) == 0).any():
        return False
    return torch.allclose(values.gather(dim, positions).double(), values.gather(dim, expected).double(), rtol=0, atol=0, equal_nan=True)


def compare(actual, case, is_random, tolerances, dim_of_ties=None, comparable=None):
    """(what differs or None, errors of each result). `comparable` makes of results what does not depend on a choice."""
    if len(actual) != len(case.expected):
        return f"{len(actual)} results instead of {len(case.expected)}", []
    actual = list(map(torch.as_tensor, actual))
    for number, (got, want) in enumerate(zip(actual, case.expected)):
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"result {number} is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}", []
    if is_random:
        return None, []
    expected, reference = case.expected, case.reference
    if comparable:
        actual, expected, reference = comparable(actual), comparable(expected), reference and comparable(reference)
    found = []
    for number, (got, want) in enumerate(zip(actual, expected)):
        found.append(errors(got, want, reference[number] if reference and len(reference) == len(actual) else None))
        try:
            torch.testing.assert_close(got, want, equal_nan=True, **tolerances.get(want.dtype, {}))
        except AssertionError as error:
            if is_tie(got, want, case.inputs[0], dim_of_ties):
                continue
            special = not torch.equal(torch.isfinite(got), torch.isfinite(want))
            if special or found[-1] is None or units(found[-1:]) > GOAL:
                lines = [line for line in str(error).splitlines() if line.strip()]
                problem = f"result {number}: " + " ".join(lines[:3])[:200]
                return problem if special or found[-1] is None else Inexact(problem), found
    return None, found


def as_torch(output):
    """A tensor of what came as an array of numpy's, which lacks some dtypes."""
    if isinstance(output, torch.Tensor) or not hasattr(output, "dtype"):
        return output
    if output.dtype.name in ("bfloat16", "complex32") or output.dtype.name.startswith("float8"):
        return torch.from_numpy(output.view(f"int{8 * output.dtype.itemsize}")).view(getattr(torch, output.dtype.name))
    return torch.from_numpy(output)


def load(library):
    """A model whose reads beside its inputs end the process, which is a crash."""
    return GuardedModel(library, threads=1)


def run_calls(library, parts, tolerances, comparable):
    """Outcomes of the calls of one library. `parts`: (name, case, is_random, dim_of_ties) in the order of the program. `tolerances`:
    for dtypes that are not compared as torch.testing does. `comparable`: as of `compare`."""
    inputs = [tensor for _, case, *_ in parts for tensor in prepare.clone(case.inputs)]
    try:
        outputs = [output for output in load(library).run(inputs) if output is not None]
    except kiln.KilnError as error:
        raise RuntimeError(prepare.short(error)) from error
    if not inputs:  # nothing said that torch tensors are wanted
        outputs = [as_torch(output) for output in outputs]
    outcomes = []
    for name, case, is_random, dim_of_ties in parts:
        count = len(case.expected)
        problem, found = compare(outputs[:count], case, is_random, tolerances, dim_of_ties, comparable)
        outcomes.append(Outcome(name, WRONG if problem else NATIVE, problem or "", found, is_random))
        del outputs[:count]
    return outcomes


def run_draws(library, cases, tolerances, dim_of_ties, comparable):
    """The problem and the errors of each of `cases`, which are those of one call."""
    model = load(library)
    answers = []
    for case in cases:
        outputs = [output for output in model.run(prepare.clone(case.inputs)) if output is not None]
        answers.append(compare(outputs, case, False, tolerances, dim_of_ties, comparable))
    return answers


def run_small(library, cases, first, part, tolerances, comparable):
    """What is wrong of a call whose outputs start at `first`, how many of `cases` (`small.Small.cases`) the model answers, and how many it refuses."""
    model = load(library)
    problem, answered, refused = None, 0, 0
    for inputs, case in cases:
        try:
            outputs = [output for output in model.run(prepare.clone(inputs)) if output is not None]
        except kiln.KilnError:
            refused += 1
            continue
        answered += 1
        found, _ = compare(outputs[first : first + len(case.expected)], case, part.is_random, tolerances, None, comparable)
        if found and not isinstance(found, Inexact):
            problem = problem or f"at {[list(tensor.shape) for tensor in case.inputs]}: {found}"
    return problem, answered, refused


def runs(archive, cases):
    """PyTorch runs the exported program: what export asserts of sizes that data gives is not always so, and some sizes it keeps from changing."""
    try:
        torch.export.load(archive).module()(*[tensor for case in cases for tensor in prepare.clone(case.inputs)])
        return True
    except Exception:
        return False


class Checker:
    """`fallback`: further options for calls that are refused without them, or None."""

    def __init__(self, compiler, options, fallback):
        self.compiler, self.options, self.fallback = compiler, options, fallback

    def entry(self, workspace):
        """Outcomes of all calls that export, and why the others do not."""
        loaded = workspace.load()
        outcomes = self.solve(workspace, loaded.prepared)
        for group in error_groups(outcomes):
            is_inexact = units([found for found, _ in group]) > GOAL
            for found, outcome in group:
                if units([found]) > GOAL and (is_inexact or outcome.state == WRONG):
                    self.draw_again(workspace, loaded.prepared, outcome)
        refused = {one.name: one.detail for one in outcomes if one.state == REFUSED}
        if refused and self.fallback is not None:
            checker = Checker(self.compiler, self.options + self.fallback, None)
            again = checker.solve(workspace, [one for one in loaded.prepared if one.name in refused])
            for one in again:
                if one.state == NATIVE:
                    one.state, one.detail = FALLBACK, refused[one.name]
            outcomes = [one for one in outcomes if one.state != REFUSED] + again
        not_exported = [(one.name, one.detail) for one in outcomes if one.state == NOT_EXPORTED]
        return [one for one in outcomes if one.state != NOT_EXPORTED], loaded.not_exported + not_exported

    def draw_again(self, workspace, prepared, outcome):
        """Adds to the errors of a call those on other draws of its inputs: their elements in another order."""
        (one,) = [one for one in prepared if one.name == outcome.name]
        generator = torch.Generator().manual_seed(0)
        cases = prepare.redraw(workspace.entry, workspace.calls()[one.name], one.case.inputs, DRAWS, generator)
        if not cases or outcome.is_drawn:
            return
        outcome.is_drawn = True
        with tempfile.TemporaryDirectory(prefix="kiln-opinfo-") as folder:
            library = os.path.join(folder, "model.so")
            if self.compile(workspace.saved([one.name]), library):
                return
            try:
                answers = child.call(
                    run_draws, library, cases, self.tolerances(workspace), workspace.tie_dim(one.name), workspace.comparable()
                )
            except (ChildProcessError, RuntimeError) as error:
                outcome.state, outcome.detail = WRONG, f"with its inputs in another order: {error}"
                return
        for problem, found in answers:
            if problem and not isinstance(problem, Inexact):
                outcome.state, outcome.detail = WRONG, f"with its inputs in another order: {problem}"
            outcome.errors += [None] * (len(found) - len(outcome.errors))
            for number, now in enumerate(found):
                before = outcome.errors[number]
                outcome.errors[number] = tuple(map(max, before, now)) if before and now else before or now
        if isinstance(outcome.detail, Inexact) and all(found is None or units([found]) <= GOAL for found in outcome.errors):
            outcome.state, outcome.detail = NATIVE, ""

    @staticmethod
    def tolerances(workspace):
        return {torch.float64: {"rtol": 1e-5, "atol": 1e-5}} if INEXACT.match(workspace.entry.full_name) else {}

    def compile(self, archive, library):
        """None, or (state, what the compiler said)."""
        command = [self.compiler, str(archive), "-o", library, "--progress=never", "--jobs=1", *self.options]
        process = subprocess.run(command, capture_output=True, text=True, errors="replace", preexec_fn=lambda: child.limit(COMPILE_SECONDS))
        if process.returncode == 0:
            return None
        text = process.stderr.strip()
        if process.returncode == 1:
            return REFUSED, re.sub(r"^aot-compile: error: \S+: (cannot compile )?", "", text.splitlines()[-1] if text else "")
        return CRASH, f"the compiler ended with status {process.returncode}: {text[-300:]}"

    def solve(self, workspace, parts, blame=None):
        """Outcomes of the calls; `blame` is what became of a larger program that held them."""
        if not parts:
            return []
        names = [one.name for one in parts]
        try:
            archive = workspace.saved(names)
        except Exception as error:
            return self.take_apart(workspace, parts, blame or (CRASH, "exported with others but not so: " + prepare.short(error)))
        with tempfile.TemporaryDirectory(prefix="kiln-opinfo-") as folder:
            library = os.path.join(folder, "model.so")
            problem = self.compile(archive, library)
            if problem:
                missing = set(re.findall(r"([\w.:]+): it has no lowering", problem[1])) if problem[0] == REFUSED else set()
                without = [one for one in parts if missing.intersection(one.targets)]
                if without:
                    rest = [one for one in parts if one not in without]
                    refused = [
                        Outcome(
                            one.name, REFUSED, "; ".join(f"{target}: it has no lowering" for target in one.targets if target in missing)
                        )
                        for one in without
                    ]
                    return refused + self.solve(workspace, rest)
                return self.take_apart(workspace, parts, problem)
            tolerances = self.tolerances(workspace)
            ties = [workspace.tie_dim(one.name) for one in parts]

            def run_with(resized):
                """Outcomes of a run in which the calls of `resized` have other sizes."""
                return child.call(
                    run_calls,
                    library,
                    [(one.name, one.resized if one in resized else one.case, one.is_random, dim) for one, dim in zip(parts, ties)],
                    tolerances,
                    workspace.comparable(),
                )

            try:
                outcomes = run_with([])
            except ChildProcessError as error:
                return self.take_apart(workspace, parts, (CRASH, f"the model ended with {error}"))
            except RuntimeError as error:
                if len(parts) == 1 and not runs(archive, [parts[0].case]):
                    return [Outcome(parts[0].name, NOT_EXPORTED, "the exported program does not run either")]
                return self.take_apart(workspace, parts, (WRONG, str(error)))
            self.run_resized(archive, parts, outcomes, run_with)
            if workspace.dynamic:
                self.run_small(archive, library, parts, outcomes, workspace)
            return outcomes

    def run_small(self, archive, library, parts, outcomes, workspace):
        """Runs at sizes of 0 and 1 what was right, each call by itself."""
        try:
            program = small.Small(workspace, archive, parts)
        except Exception:  # PyTorch does not load every archive that it saves
            return
        first = 0
        for position, (part, outcome) in enumerate(zip(parts, outcomes)):
            if outcome.state == NATIVE:
                try:
                    cases = child.call(program.cases, position)
                except (ChildProcessError, RuntimeError):  # PyTorch's
                    cases = []
                try:
                    problem, *outcome.small = child.call(
                        run_small, library, cases, first, part, self.tolerances(workspace), workspace.comparable()
                    )
                    if problem:
                        outcome.state, outcome.detail = WRONG, problem
                except (ChildProcessError, RuntimeError) as error:
                    outcome.state, outcome.detail = CRASH, f"at sizes of 0 or 1: {error}"
            first += len(part.case.expected)

    def run_resized(self, archive, parts, outcomes, run_with):
        """Runs at other sizes what was right at the exported ones: all calls at once, or one by one where that fails."""
        pending = [one for one, outcome in zip(parts, outcomes) if one.resized and outcome.state == NATIVE]
        groups = [pending] if pending else []
        while groups:
            group = groups.pop()
            problem = None
            try:
                others = run_with(group)
            except ChildProcessError as error:
                problem = CRASH, f"at other sizes: the model ended with {error}"
            except RuntimeError as error:
                problem = WRONG, f"at other sizes: {error}"
            if problem and len(group) > 1:
                groups += [[one] for one in group]
                continue
            if problem and not runs(archive, [one.resized if one in group else one.case for one in parts]):
                continue
            for number, one in enumerate(parts):
                if one not in group:
                    continue
                outcome = outcomes[number]
                outcome.is_resized = True
                if problem:
                    outcome.state, outcome.detail = problem
                    continue
                outcome.errors += others[number].errors
                if others[number].state != NATIVE and not isinstance(
                    others[number].detail, Inexact
                ):  # which counts in the units of the entry
                    outcome.state, outcome.detail = others[number].state, "at other sizes: " + others[number].detail

    def take_apart(self, workspace, parts, problem):
        """Solves smaller groups; a single call has the problem."""
        if len(parts) == 1:
            return [Outcome(parts[0].name, *problem)]
        groups = {}
        for one in parts:
            groups.setdefault(one.name.split("[")[0], []).append(one)
        smaller = list(groups.values()) if len(groups) > 1 else [[one] for one in parts]
        return [result for group in smaller for result in self.solve(workspace, group, problem)]
