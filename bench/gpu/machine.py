"""The machine that a program runs on: a GPU, or the emulator with PyTorch on the CPU beside it."""

import ctypes as C
import os
import platform
import statistics
import subprocess
import time
import zlib

import torch

from kiln import _abi, _call
from kiln._model import Model


class Gpu:
    name, emulated, activity = "cuda", False, torch.profiler.ProfilerActivity.CUDA

    def describe(self):
        properties = torch.cuda.get_device_properties(0)
        try:
            query = subprocess.run(
                ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem", "--format=csv,noheader"], capture_output=True, text=True
            ).stdout.strip()
        except OSError:
            query = "no nvidia-smi"
        return {
            "gpu": properties.name,
            "memory_gib": round(properties.total_memory / (1 << 30), 1),
            "multiprocessors": properties.multi_processor_count,
            "l2_mib": properties.L2_cache_size >> 20,
            "driver, clocks": query,
            "copy_gb_s": self.measure_copy(),
        }

    def measure_copy(self):
        """GB/s of a copy of 1 GiB, read and written bytes together."""
        source = torch.randn(1 << 28, device="cuda")
        target = torch.empty_like(source)
        target.copy_(source)
        return round(2 * 4 * source.numel() / statistics.median(self.time(lambda: target.copy_(source), 5) for _ in range(7)) / 1e6)

    def synchronize(self):
        torch.cuda.synchronize()

    def stream(self):
        return torch.cuda.current_stream().cuda_stream or None

    def time(self, call, repeats):
        """Milliseconds of one call."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / repeats


class Emulated:
    name, emulated, activity = "cpu", True, torch.profiler.ProfilerActivity.CPU

    def describe(self):
        return {"gpu": "none: the emulator"}

    def synchronize(self):
        pass

    def stream(self):
        return None

    def time(self, call, repeats):
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return 1e3 * (time.perf_counter() - begin) / repeats


def describe(machine):
    return {
        **machine.describe(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "cpu cores": len(os.sched_getaffinity(0)),
        "time": time.strftime("%Y-%m-%d %H:%M"),
    }


class Compiled:
    """A model of the package with the weights of `module`, its call made ready: outputs are written again and again."""

    def __init__(self, package, entry, module, inputs, machine, scratch):
        weights = None
        if entry["has_weights"]:
            weights = scratch / f"{entry['name']}.weights"
            expand = zlib.decompressobj()
            with open(package / f"{entry['name']}.weights.z", "rb") as source, open(weights, "wb") as target:
                while chunk := source.read(1 << 20):
                    target.write(expand.decompress(chunk))
                target.write(expand.flush())
        self.model = Model(package / f"{entry['name']}.so", weights=weights)
        state = dict(module.state_dict())
        for constant in self.model.constants:
            if constant["name"] in state:
                self.model.set_constant(constant["name"], state[constant["name"]].cpu())
        if weights:
            weights.unlink()
        self.machine, self.inputs = machine, inputs
        described = [_call.describe(value, None) for value in inputs]
        self.pointers = (C.POINTER(_abi.DLTensor) * max(1, len(inputs)))(*(C.pointer(tensor) for tensor, _ in described))
        self.slots = (_abi.ManagedPointer * len(self.model.outputs))()
        self.kept = described

    def first(self):
        """The outputs of the first run, which stay this model's."""
        outputs = self.model.run(self.inputs)
        self.outputs = outputs
        managed = []
        for i, output in enumerate(outputs):
            tensor, _ = _call.describe(output, None)
            managed.append(_abi.DLManagedTensorVersioned(1, 0, None, C.CFUNCTYPE(None, _abi.ManagedPointer)(), 0, tensor))
            self.slots[i] = C.pointer(managed[-1])
        self.managed = managed
        return outputs

    def __call__(self):
        status = self.model._library.kiln_model_run(
            self.model._handle, self.pointers, len(self.inputs), self.slots, len(self.slots), self.machine.stream()
        )
        if status:
            self.model._check(status)


def profile(machine, systems, seconds, most=100):
    """name -> the kernels that a call launches, each with the microseconds of one call, as PyTorch's profiler sees them."""
    found = {}
    for name, call in systems.items():
        end, calls = time.monotonic() + seconds / len(systems), 0
        with torch.profiler.profile(activities=[machine.activity]) as taken:
            while calls == 0 or (calls < most and time.monotonic() < end):
                call()
                machine.synchronize()
                calls += 1
        rows = []
        for event in taken.key_averages():
            us = event.self_cpu_time_total if machine.emulated else event.self_device_time_total
            if us > 0:
                rows.append({"kernel": event.key[:120], "calls": event.count / calls, "us": round(us / calls, 3)})
        found[name] = sorted(rows, key=lambda row: -row["us"])[:16]
    return found


def interleave(machine, systems, seconds):
    """name -> milliseconds of a call: medians of rounds in which all take turns."""
    repeats = {}
    for name, call in systems.items():
        for _ in range(3):
            call()
        machine.synchronize()
        repeats[name] = max(1, int(20 / max(machine.time(call, 1), 1e-3)))  # 20 ms a turn
    times = {name: [] for name in systems}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(next(iter(times.values()))) < 3:
        for name, call in systems.items():
            call()
            times[name].append(machine.time(call, min(repeats[name], 1000)))
    return {name: statistics.median(each) for name, each in times.items()}
