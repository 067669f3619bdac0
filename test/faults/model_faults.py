#!/usr/bin/env python3
"""Every call of the system that a compiled model makes fails once, then it and all later ones.

    test/faults/model_faults.py NAME...      tiny configurations of the reference models (bench/models.py); default: all

A model is created, run, given a new constant, run again and destroyed. Where a call fails, status and message have to say why,
nothing may be left, and the next call has to give the right result. A second round has the options' allocator fail instead. With
--target=cuda the model's driver is the emulator.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile

import injection

sys.path[:0] = [str(injection.ROOT / "bench"), str(injection.ROOT / "python")]

import numpy  # noqa: E402

import kiln  # noqa: E402

EMULATOR = injection.BUILD / "test/Targets/CUDA/emulator/libcuda.so.1"


class FailingAllocator:
    """The allocator of kiln_options: the block with the number `at` is refused."""

    def __init__(self):
        allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
        deallocate = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
        self.alloc, self.dealloc = allocate(self.allocate), deallocate(self.deallocate)
        self.blocks, self.calls, self.at, self.and_later = {}, 0, -1, False

    def allocate(self, context, size, align):
        call, self.calls = self.calls, self.calls + 1
        if self.at >= 0 and (call >= self.at if self.and_later else call == self.at):
            return None
        memory = ctypes.create_string_buffer(size + align)
        address = (ctypes.addressof(memory) + align - 1) // align * align
        self.blocks[address] = memory
        return address

    def deallocate(self, context, address, size, align):
        del self.blocks[address]


class Faults:
    """Counts and fails the calls of one model's library, or of its allocator."""

    def __init__(self, control, allocator):
        self.control, self.allocator = control, allocator

    def arm(self, at, and_later=False):
        if self.allocator:
            self.allocator.calls, self.allocator.at, self.allocator.and_later = 0, at, and_later
        else:
            self.control.arm(injection.MEMORY | injection.SYSTEM, at, and_later)

    def disarm(self):
        if self.allocator:
            self.allocator.at = -1
            return self.allocator.calls
        return self.control.disarm()

    def live(self):
        return (*self.control.live(), len(self.allocator.blocks) if self.allocator else 0)

    def function(self):
        return "alloc" if self.allocator else self.control.function.decode()


def find_range(path):
    """The addresses that the library is mapped at."""
    with open("/proc/self/maps") as file:
        places = [line.split()[0].split("-") for line in file if line.rstrip().endswith(path)]
    return min(int(begin, 16) for begin, _ in places), max(int(end, 16) for _, end in places)


class Watched(kiln.Model):
    """A model that allocates with `allocator`, if that is one."""

    allocator = None

    def _make_options(self, threads, weights):
        options = super()._make_options(threads, weights)
        if self.allocator:
            options.alloc = ctypes.cast(self.allocator.alloc, ctypes.c_void_p)
            options.dealloc = ctypes.cast(self.allocator.dealloc, ctypes.c_void_p)
        return options


def use(path, inputs, expected, constant, faults, at, and_later):
    """Uses a model from creation to end; returns (calls, failed calls)."""
    failed = []

    def step(call):
        if failed:
            return call()
        try:
            return call()
        except kiln.KilnError as error:
            failed.append(error)
            faults.disarm()
            assert str(error) and 0 < error.status < 7, (error.status, str(error))
            return call()

    faults.arm(at, and_later)
    model = step(lambda: Watched(path, threads=2))
    check(step(lambda: model.run(inputs)), expected[0])
    step(lambda: model.set_constant(*constant))
    check(step(lambda: model.run(inputs)), expected[1])
    model.close()
    return faults.disarm(), len(failed)


def check(outputs, expected):
    assert all(numpy.array_equal(a, e, equal_nan=e.dtype.kind in "fc") for a, e in zip(outputs, expected))


def get_expected(path, inputs):
    """A parameter with new values, and the results without and with it."""
    model = kiln.load(path, threads=2)
    results = [[output.copy() for output in model.run(inputs)]]
    entry = next(entry for entry in model.constants if entry["dtype"] == "float32" and entry["shape"])
    constant = entry["name"], numpy.full(entry["shape"], 0.5, "float32")
    model.set_constant(*constant)
    return constant, [*results, [output.copy() for output in model.run(inputs)]]


def run(path, folder):
    """In a process of its own, with preload.c."""
    control = injection.open_control(os.environ["KILN_FAULTS"])
    with numpy.load(os.path.join(folder, "inputs.npz")) as arrays:
        inputs = [arrays[str(i)] for i in range(len(arrays.files))]
    constant, expected = get_expected(path, inputs)
    control.begin, control.end = find_range(path)
    for allocator in (None, FailingAllocator()):
        Watched.allocator = allocator
        faults = Faults(control, allocator)
        use(path, inputs, expected, constant, faults, -1, False)
        before = faults.live()
        calls, _ = use(path, inputs, expected, constant, faults, -1, False)
        refused = 0
        for and_later in (False, True):
            for at in range(calls):
                _, failed = use(path, inputs, expected, constant, faults, at, and_later)
                refused += failed
                if faults.live() != before:
                    sys.exit(f"{faults.function()} fails{', and all after it' * and_later}: left {faults.live()}, before {before}")
        assert calls and refused
        print(f"{'alloc' if allocator else 'system'}: {calls} calls, {2 * calls} faults, {refused} made a call fail", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        return run(*arguments.run)
    import models  # which needs torch

    options = ["--target=cuda", "--gpu-arch=emulator"] if arguments.target == "cuda" else []
    for name in arguments.names or models.NAMES:
        print(f"== {name}", flush=True)
        if run_all(models.export(name, tiny=True), options):
            sys.exit(f"{name}: failed")


def run_all(folder, options):
    """Compiles the model of a folder and fails its calls in another process, whose exit status is returned."""
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(os.path.realpath(work), "model.so")
        compiler = injection.BUILD / "bin" / "aot-compile"
        subprocess.run([compiler, folder / "model.pt2", "-o", path, "--weights=external", *options], check=True)
        control = injection.open_control()
        environment = {**os.environ, **injection.environment(control), "KILN_CUDA_DRIVER": str(EMULATOR)}
        status = subprocess.run([sys.executable, __file__, "--run", path, str(folder)], env=environment).returncode
        os.unlink(control.path)
        return status


if __name__ == "__main__":
    main()
