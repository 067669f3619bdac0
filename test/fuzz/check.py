"""Compiles a random program and compares it with the exported program, in a process of its own."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import torch

from program import Execution, Unsuitable, duplicate

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("test/opinfo", "test/e2e", "python"):
    sys.path.insert(0, str(ROOT / folder))
os.environ.setdefault("KILN_COMPILER", str(ROOT / "build" / "bin" / "aot-compile"))
os.environ.setdefault("KILN_CUDA_DRIVER", str(ROOT / "build" / "test" / "Targets" / "CUDA" / "emulator" / "libcuda.so.1"))

import child  # noqa: E402
import kiln  # noqa: E402
from guarded import GuardedModel  # noqa: E402

RIGHT, UNSUITABLE, REFUSED, WRONG, STATUS, BROKEN, CRASH = "right", "unsuitable", "refused", "wrong", "status", "internal error", "crash"
BAD = (REFUSED, WRONG, STATUS, BROKEN, CRASH)
# A rounded result may differ from double precision by so many times what eager mode's does, and by so many last places of its largest element.
FACTOR, PLACES = 16, 64
EXPORT_SECONDS = 15  # of CPU time: what torch.export deduces of sizes may have no end


class Verdict:
    def __init__(self, state, detail="", sets=0):
        self.state, self.detail, self.sets = state, detail, sets

    def kind(self):
        """Equal for verdicts of one cause, as far as the text tells."""
        return self.state, re.sub(r"[\d.e+-]+", "#", self.detail)[:60]


def export(program):
    model = program.module()
    inputs = tuple(duplicate(i.tensors[0]) for i in program.arguments())
    shapes = tuple({dim: torch.export.Dim.AUTO for dim in i.dynamic} for i in program.arguments())
    return torch.export.export(model, inputs, dynamic_shapes=shapes if any(shapes) else None)


def take_too_long(*_):
    raise TimeoutError("takes too long")


def export_to(program, path):
    """Exports it to a file as well. Raises Unsuitable if that cannot be."""
    signal.signal(signal.SIGPROF, take_too_long)
    signal.setitimer(signal.ITIMER_PROF, EXPORT_SECONDS)
    try:
        exported = export(program)
        torch.export.save(exported, path)
    except Exception as error:
        raise Unsuitable(f"export: {str(error).splitlines()[0][:100] if str(error) else type(error).__name__}") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return exported


def excludes(exported, inputs):
    """The exported program was traced for other sizes: export takes 0 and 1 for special."""
    placeholders = {node.name: node.meta["val"] for node in exported.graph.nodes if node.op == "placeholder"}
    for name, tensor in zip(exported.graph_signature.user_inputs, inputs):
        for recorded, size in zip(placeholders[name].shape, tensor.shape):
            if not isinstance(recorded, int):
                allowed = exported.range_constraints.get(recorded.node.expr)
                if allowed and not allowed.lower <= size <= allowed.upper:
                    return True
    return False


def compare(name, got, want, wide, is_exact):
    """Why a result is wrong, or None."""
    got = torch.as_tensor(got)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{name} is {str(got.dtype)[6:]}{list(got.shape)} instead of {str(want.dtype)[6:]}{list(want.shape)}"
    if not want.numel():
        return None
    if is_exact or not want.is_floating_point():
        differs = (got != want) & ~((got != got) & (want != want))
        if differs.any():
            at = tuple(differs.nonzero()[0].tolist())
            return f"{name}{list(at)} is {got[at].item()} instead of {want[at].item()} ({int(differs.sum())} of {want.numel()} differ)"
        return None
    # Nothing wider than float64 says how much a program makes of its roundings.
    eps = torch.finfo(want.dtype).eps * (64 if want.dtype == torch.float64 else 1)
    got, want, wide = got.double(), want.double(), wide.double()
    if not torch.equal(torch.isnan(got), torch.isnan(want)) or not torch.equal(torch.isinf(got), torch.isinf(want)):
        return f"{name} is not finite at other places"
    finite = torch.isfinite(want)
    if not finite.any():
        return None
    size = want[finite].abs().max().item()
    allowed = FACTOR * (want - wide)[finite].abs().max().item() + PLACES * eps * size + 1e-30
    error = (got - want)[finite].abs().max().item()
    return f"{name} differs by {error:.3g} where {allowed:.3g} is allowed" if error > allowed else None


def compile_model(folder, arguments):
    """The model, or a verdict."""
    library = os.path.join(folder, "model.so")
    command = [os.environ["KILN_COMPILER"], *arguments, "-o", library, "--progress=never"]
    process = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=folder)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"status {process.returncode}"]
        line = next((line for line in lines if "error" in line), lines[-1])
        return Verdict(REFUSED if process.returncode == 1 else BROKEN, line.replace(folder + "/", "").replace("aot-compile: error: ", ""))
    return GuardedModel(library, 2)


def check_here(program, flags):
    """The verdict on a program. The process may end on the way."""
    execution = program.execute()
    with tempfile.TemporaryDirectory(prefix="kiln-fuzz-") as folder:
        archive = os.path.join(folder, "model.pt2")
        exported = export_to(program, archive)
        model = compile_model(folder, [archive, *flags])
        if isinstance(model, Verdict):
            return model
    reference = exported.module()
    compared = 0
    for index in range(len(program.inputs[0].tensors)):
        run = execution.runs[index]
        eager = [duplicate(i.tensors[index]) for i in program.inputs]
        if excludes(exported, eager):
            continue
        try:
            expected = reference(*eager)
        except Exception:
            continue  # sizes that the exported program excludes
        inputs = [duplicate(i.tensors[index]) for i in program.inputs]
        sizes = " at other sizes" if index else ""
        try:
            outputs = model.run(inputs)
        except kiln.KilnError as error:
            return Verdict(STATUS, f"{error}{sizes}")
        model.allocator.check()
        for name, got, want in [*zip(program.outputs, outputs, expected), *zip([i.name for i in program.inputs], inputs, eager)]:
            if want.shape != run.given[name].shape or want.dtype != run.given[name].dtype:
                continue  # export itself has changed the program
            if problem := compare(name, got, want, run.wide[name], execution.exact[name]):
                return Verdict(WRONG, problem + sizes)
        compared += 1
    return Verdict(RIGHT, sets=compared)


def check_entries(program, flags):
    """Calls every entry three times, in a session and a clone of it."""
    parts = [program.part(entry) for entry in program.entries()]
    known = [{i.name for i in part.buffers()} for part in parts]
    shared = sorted({name for name in program.state if sum(name in names for names in known) > 1})
    with tempfile.TemporaryDirectory(prefix="kiln-fuzz-") as folder:
        archives = [os.path.join(folder, f"{number}.pt2") for number in range(len(parts))]
        exported = [export_to(part, archive) for part, archive in zip(parts, archives)]
        arguments = [f"--share-state={','.join(shared)}"] if shared else []
        arguments += [f"--entry=e{number}={archive}" for number, archive in enumerate(archives)]
        model = compile_model(folder, [*arguments, *flags])
        if isinstance(model, Verdict):
            return model
    session, references, compared = model.session(), [one.module() for one in exported], 0
    execution = Execution(program.inputs, program.modules)
    for turn in range(3):
        for number, part in enumerate(parts):
            where = f" in call {turn + 1} of entry {number}"
            execution.renew(program.arguments(), 0)
            try:
                for step in part.steps:
                    execution.add(step)
            except Exception:
                return Verdict(RIGHT, sets=compared)
            eager, inputs = ([duplicate(i.tensors[0]) for i in program.arguments()] for _ in range(2))
            expected = references[number](*eager)
            try:
                outputs = session.entry(f"e{number}").run(inputs)
            except kiln.KilnError as error:
                return Verdict(STATUS, f"{error}{where}")
            model.allocator.check()
            run = execution.runs[0]
            for name, got, want in [*zip(part.outputs, outputs, expected), *zip([i.name for i in program.arguments()], inputs, eager)]:
                if want.shape != run.given[name].shape or want.dtype != run.given[name].dtype:
                    continue
                if problem := compare(name, got, want, run.wide[name], execution.exact[name]):
                    return Verdict(WRONG, problem + where)
            for name in shared:
                for reference, names in zip(references, known):
                    if name in names and name in known[number]:
                        reference.get_buffer(name).copy_(references[number].get_buffer(name))
            compared += 1
        if turn == 1:
            session = session.clone()
    return Verdict(RIGHT, sets=compared)


def check(program, flags=()):
    try:
        return child.call(check_entries if program.state else check_here, program, list(flags))
    except ChildProcessError as error:
        return Verdict(CRASH, str(error))
    except RuntimeError as error:
        line = str(error).strip().splitlines()[-1]
        return Verdict(UNSUITABLE if "Unsuitable" in str(error) else WRONG, line.removeprefix("program.Unsuitable: "))


__all__ = ["BAD", "RIGHT", "Unsuitable", "Verdict", "check"]
