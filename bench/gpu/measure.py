"""One program: compared with PyTorch in higher precision, then timed beside PyTorch's own ways."""

import contextlib
import copy
import json

import torch
from machine import Compiled, interleave, profile

# The largest error of a row may be so much larger than the norm's: rounding is far from even, but an element that is wrong is off by
# about the row's root mean square.
ROWS = 10
# Instead of a row's kernels: somebody looks for them.
PROFILING = "the profiler did not come to its end"


def move(value, device):
    return value.to(device) if isinstance(value, torch.Tensor) else value


def widen(value):
    """float64 where the reference fits the memory in it; attention's scores would not, nor do its fast kernels take it."""
    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype.itemsize < 4 else value


def flatten(outputs):
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def errors(got, want):
    """(the difference in the Euclidean norm, as a share of the reference's; the largest one in a row, as a share of the row's root mean square).
    Integers have to be equal. The norm of a large result does not see an element that is wrong, nor a row of small numbers; its own row does."""
    infinite = float("inf"), float("inf")
    if got.shape != want.shape:
        return infinite
    if not got.is_floating_point() and not got.is_complex():
        return (0.0, 0.0) if torch.equal(got.to(want.dtype), want) else infinite
    got, want = (torch.view_as_real(value).flatten(-2) if value.is_complex() else value for value in (got.to(want.dtype), want))
    if not torch.isfinite(got).all():
        return infinite
    if got.numel() == 0:
        return 0.0, 0.0
    norm = float(torch.linalg.vector_norm(got - want) / torch.linalg.vector_norm(want).clamp_min(1e-30))
    got, want = (value.reshape(-1, value.shape[-1]) if value.dim() else value.reshape(1, 1) for value in (got, want))
    rows = want.square().mean(-1).sqrt()
    floor = want.square().mean().sqrt() * 1e-3  # a row of zeros
    return norm, float(((got - want).abs().amax(-1) / rows.maximum(floor).clamp_min(1e-30)).max())


def bits(values):
    """Copies that are compared bit by bit: NaNs and signs of zeros count."""
    return [value.detach().clone().contiguous().reshape(-1).view(torch.uint8) for value in values]


def have_same_bits(first, second):
    return len(first) == len(second) and all(torch.equal(a, b) for a, b in zip(first, second))


@contextlib.contextmanager
def attention_backend(name):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, name)):
        yield


def largest(inputs):
    return max((value for value in inputs if isinstance(value, torch.Tensor)), key=lambda value: value.numel())


def load_aoti(name, folder):
    """What aoti.py has made."""
    reason = folder / f"{name}.json"
    if reason.exists():
        raise RuntimeError(json.loads(reason.read_text()))
    return torch._inductor.aoti_load_package(str(folder / f"{name}.pt2"))


def peers(program, module, inputs, machine, wanted, load):
    """(name -> call, of those that work here; name -> why another one does not). What compiles does so when it is first called, but AOTInductor has: `load` loads what it has made."""
    calls = {"eager": lambda: module}
    if program.part == "memory":
        copied = largest(inputs)
        target = torch.empty_like(copied)
        calls["copy"] = lambda: lambda *_: target.copy_(copied)
    if not machine.emulated:
        if program.part == "contracts":

            def cublaslt(*inputs):
                torch.backends.cuda.preferred_blas_library("cublaslt")
                try:
                    return module(*inputs)
                finally:
                    torch.backends.cuda.preferred_blas_library("default")

            calls["cublaslt"] = lambda: cublaslt
        if program.part == "attention":
            for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):

                def attend(*inputs, name=name):
                    with attention_backend(name):
                        return module(*inputs)

                calls[name.lower()] = lambda attend=attend: attend
        if program.part in ("memory", "models", "decode"):
            if "compile" in wanted:
                calls["torch.compile"] = lambda: torch.compile(module)
            if "autotune" in wanted:
                calls["max-autotune"] = lambda: torch.compile(module, mode="max-autotune-no-cudagraphs")
        if program.part in ("models", "decode") and "aoti" in wanted:
            calls["aoti"] = load
    works, failed = {}, {}
    while calls:
        name = next(iter(calls))
        try:
            call = calls.pop(name)()
            call(*inputs)
            machine.synchronize()
            works[name] = lambda call=call: call(*inputs)
        except Exception as problem:  # whatever a peer throws
            failed[name] = f"{type(problem).__name__}: {str(problem).splitlines()[0][:200]}" if str(problem) else type(problem).__name__
    return works, failed


def make(program, machine):
    """(module, inputs), with the same values in every process."""
    torch.manual_seed(1)
    module, inputs = program.make()
    return module.to(machine.name).eval(), [move(value, machine.name) for value in inputs]


def prepare(program, entry, package, machine, scratch):
    """(module, inputs, the compiled model and inputs of its own), all where the machine computes."""
    module, inputs = make(program, machine)
    own = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    return module, inputs, Compiled(package, entry, module, own, machine, scratch)


def results(got, compiled):
    """What a run has written: outputs, and the inputs that it may have changed."""
    return [*got, *(value for value in compiled.inputs if isinstance(value, torch.Tensor))]


def run_again(inputs, compiled, machine, outputs):
    """The bits of one more run, with the inputs as they were, into outputs that are poisoned: what nobody writes shows."""
    for value in outputs:
        value.fill_(float("nan")) if value.is_floating_point() else value.fill_(1)
    for a, b in zip(compiled.inputs, inputs):
        if isinstance(a, torch.Tensor):
            a.copy_(b)
    compiled()
    machine.synchronize()
    return bits(results(outputs, compiled))


def compare(program, module, inputs, compiled, machine):
    """(The largest errors of an output or of an input that is written, and whether the same bits come again; the outputs; their bits)"""
    wide = copy.deepcopy(module).float() if any(p.dtype.itemsize < 4 for p in module.parameters()) else module
    wide_inputs = [widen(value.clone() if isinstance(value, torch.Tensor) else value) for value in inputs]
    want = flatten(wide(*wide_inputs))
    got = compiled.first()
    machine.synchronize()
    pairs = list(zip(got, want, strict=True))
    pairs += [(a, b) for a, b in zip(compiled.inputs, wide_inputs) if isinstance(a, torch.Tensor) and a.is_floating_point()]
    found = [errors(a, b) for a, b in pairs]
    norm, row = max(norm for norm, _ in found), max(row for _, row in found)
    first = bits(results(got, compiled))
    verdict = {
        "error": norm,
        "tolerance": program.tolerance,
        "row_error": row,
        "row_tolerance": ROWS * program.tolerance,
        "right": norm <= program.tolerance and row <= ROWS * program.tolerance,
        "repeats": have_same_bits(run_again(inputs, compiled, machine, got), first),
    }
    return verdict, got, first


def measure(program, entry, package, machine, scratch, options):
    """Rows of the results, each with all of the one before: what is right, then what is fast."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        module, inputs, compiled = prepare(program, entry, package, machine, scratch)
        verdict, outputs, first = compare(program, module, inputs, compiled, machine)
        row = {"name": entry["name"], "part": program.part, "flops": program.flops, "bytes": program.bytes, **verdict}
        yield row
        if program.part == "check" or options.no_times:
            return
        row.update(ms=interleave(machine, {"kiln": compiled}, options.seconds / 4)["kiln"])
        yield row
        works, failed = peers(program, module, inputs, machine, options.peers, lambda: load_aoti(entry["name"], options.aoti))
        times = interleave(machine, {"kiln": compiled, **works}, options.seconds)
        # Thousands of runs later, in the order and at the rate at which they are timed.
        row["repeats"] = row["repeats"] and have_same_bits(run_again(inputs, compiled, machine, outputs), first)
    row.update(ms=times.pop("kiln"), peers=times, failed_peers=failed)
    if "copy" in times:
        row["copied"] = 2 * largest(inputs).numel() * largest(inputs).element_size()  # read and written
    yield row
    if program.part != "memory" and options.profile_seconds:  # one kernel, whose time is the call's
        yield {**row, "kernels": PROFILING}
        systems = {"kiln": compiled, **(works if program.part in ("contracts", "attention") else {})}
        with torch.no_grad():
            row["kernels"] = profile(machine, systems, options.profile_seconds)
        yield row


def run_once(program, entry, package, machine, scratch, repeats):
    """For compute-sanitizer and profilers: the compiled model alone."""
    with torch.no_grad():
        _, _, compiled = prepare(program, entry, package, machine, scratch)
        for _ in range(repeats):
            compiled.first()
        machine.synchronize()
