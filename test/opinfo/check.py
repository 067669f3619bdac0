"""Compiles and runs the programs of one entry and says for each call how it went.

Programs hold as many calls as compile together. Where a program is refused or fails, it is taken apart: first the calls whose
operators have no lowering, then by dtype, then one by one."""
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import traceback

import torch

import prepare

sys.path.insert(0, str(prepare.ROOT / "python"))
import kiln  # noqa: E402

NATIVE, WRONG, REFUSED, CRASH = "native", "wrong", "refused", "crash"
COMPILE_SECONDS, RUN_SECONDS = 300, 60
# Eager mode's own double precision is exact to six digits or so.
INEXACT = re.compile(r"special\.(bessel_[jy][01]|airy_ai)$")
# What a result may differ from the double precision reference by, in units of eager's own difference.
GOAL = 2


class Outcome:
    """How a call went: `detail` says why not, `units` how far from the reference it is in units of eager's own error."""

    def __init__(self, name, state, detail="", units=None):
        self.name, self.state, self.detail, self.units = name, state, detail, units


def distance(actual, reference):
    """The largest error, in units of the last place of a value of this size or of the tensor's usual size."""
    finite = torch.isfinite(reference) & torch.isfinite(actual)
    if not finite.any():
        return 0.0
    actual, reference = actual[finite], reference[finite]
    size = reference.abs() + 0.01 * reference.abs().square().mean().sqrt() + 1e-30
    return ((actual - reference).abs() / size).max().item()


def error_units(actual, expected, reference):
    """The error of `actual` in units of that of `expected`, which counts as half a place at least."""
    if reference is None or not (expected.is_floating_point() or expected.is_complex()) or reference.shape != expected.shape or not expected.numel():
        return None
    half = torch.finfo(expected.dtype).eps / 2
    wide = torch.complex128 if expected.is_complex() else torch.float64
    if expected.dtype == wide:
        return None
    reference = reference.to(wide)
    return distance(actual.to(wide), reference) / max(distance(expected.to(wide), reference), half)


def compare(actual, case, is_random, tolerances):
    """(what differs or None, error units or None)"""
    if len(actual) != len(case.expected):
        return f"{len(actual)} results instead of {len(case.expected)}", None
    worst = None
    for number, (got, want) in enumerate(zip(actual, case.expected)):
        got = torch.as_tensor(got)
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"result {number} is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}", None
        if is_random:
            continue
        units = error_units(got, want, case.reference[number] if case.reference and len(case.reference) == len(actual) else None)
        worst = max(filter(lambda value: value is not None, (worst, units)), default=None)
        try:
            torch.testing.assert_close(got, want, equal_nan=True, **tolerances.get(want.dtype, {}))
        except AssertionError as error:
            special = not torch.equal(torch.isfinite(got), torch.isfinite(want))
            if special or units is None or units > GOAL:
                lines = [line for line in str(error).splitlines() if line.strip()]
                return f"result {number}: " + " ".join(lines[:3])[:200], worst
    return None, worst


def as_torch(output):
    """A tensor of what came as an array of numpy's, which lacks some dtypes."""
    if isinstance(output, torch.Tensor) or not hasattr(output, "dtype"):
        return output
    if output.dtype.name == "bfloat16":
        return torch.from_numpy(output.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(output)


def run(library, parts, tolerances):
    """Outcomes of the calls of one library. `parts`: (name, case, is_random) in the order of the program. `tolerances`: for
    dtypes that are not compared as torch.testing does."""
    model = kiln.load(library, threads=1)
    inputs = [tensor for _, case, _ in parts for tensor in prepare.clone(case.inputs)]
    outputs = [output for output in model.run(inputs) if output is not None]
    if not inputs:  # nothing said that torch tensors are wanted
        outputs = [as_torch(output) for output in outputs]
    outcomes = []
    for name, case, is_random in parts:
        count = len(case.expected)
        problem, units = compare(outputs[:count], case, is_random, tolerances)
        outcomes.append(Outcome(name, WRONG if problem else NATIVE, problem or "", units))
        del outputs[:count]
    return outcomes


def in_child(function, *arguments):
    """The function's value, computed in a process of its own; a RuntimeError that says how it ended otherwise."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(RUN_SECONDS)
        try:
            answer = function(*arguments)
        except BaseException as error:
            answer = RuntimeError(prepare.short(error) if isinstance(error, kiln.KilnError) else traceback.format_exc(limit=-2)[-300:])
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(answer, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    if status or not data:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        raise ChildProcessError(signal.Signals(number).name if number else f"status {status}")
    answer = pickle.loads(data)
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


class Checker:
    def __init__(self, compiler, options):
        self.compiler, self.options = compiler, options

    def entry(self, workspace):
        """Outcomes of all calls that export."""
        loaded = workspace.load()
        return self.solve(workspace, loaded.prepared), loaded.not_exported

    def compile(self, archive, library):
        """None, or (state, what the compiler said)."""
        command = [self.compiler, str(archive), "-o", library, "--progress=never", "--jobs=1", *self.options]
        try:
            process = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS)
        except subprocess.TimeoutExpired:
            return CRASH, f"the compiler took more than {COMPILE_SECONDS} s"
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
                    refused = [Outcome(one.name, REFUSED, "; ".join(f"{target}: it has no lowering" for target in one.targets if target in missing))
                               for one in without]
                    return refused + self.solve(workspace, rest)
                return self.take_apart(workspace, parts, problem)
            tolerances = {torch.float64: {"rtol": 1e-5, "atol": 1e-5}} if INEXACT.match(workspace.entry.full_name) else {}
            try:
                outcomes = in_child(run, library, [(one.name, one.case, one.is_random) for one in parts], tolerances)
                if any(one.resized for one in parts):
                    other = in_child(run, library, [(one.name, one.resized or one.case, one.is_random) for one in parts], tolerances)
                    for first, second in zip(outcomes, other):
                        if first.state == NATIVE and second.state != NATIVE:
                            first.state, first.detail = second.state, "at other sizes: " + second.detail
                        first.units = max(filter(lambda value: value is not None, (first.units, second.units)), default=None)
                return outcomes
            except ChildProcessError as error:
                return self.take_apart(workspace, parts, (CRASH, f"the model ended with {error}"))
            except RuntimeError as error:
                return self.take_apart(workspace, parts, (WRONG, str(error)))

    def take_apart(self, workspace, parts, problem):
        """Solves smaller groups; a single call has the problem."""
        if len(parts) == 1:
            return [Outcome(parts[0].name, *problem)]
        groups = {}
        for one in parts:
            groups.setdefault(one.name.split("[")[0], []).append(one)
        smaller = list(groups.values()) if len(groups) > 1 else [[one] for one in parts]
        return [result for group in smaller for result in self.solve(workspace, group, problem)]
