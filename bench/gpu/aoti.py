"""Compiles programs by AOTInductor with max-autotune, each in a process of its own and all of them at once: one takes minutes, and what of it the CPU
does leaves most cores idle. Kernels are chosen from times that the others disturb."""

import json
import os
import signal
import subprocess
import sys
import time


def compile_one(program, name, folder, machine):
    """Writes NAME.pt2 into the folder, with the weights of measure.prepare."""
    import torch

    from measure import make

    with torch.no_grad():
        module, inputs = make(program, machine)
        exported = torch.export.export(module, tuple(inputs))
        path = folder / f"{name}.part.pt2"
        torch._inductor.aoti_compile_and_package(exported, package_path=str(path), inductor_configs={"max_autotune": True})
    path.rename(folder / f"{name}.pt2")


class Compilers:
    """Processes, one for each program, whose command is `call` of its name. Each writes into the folder its package, or NAME.json with why there is
    none."""

    def __init__(self, call, names, folder):
        self.folder = folder
        self.errors = {name: open(folder / f"{name}.log", "w+") for name in names}
        self.running = {
            name: subprocess.Popen(call(name), stdout=errors, stderr=errors, start_new_session=True) for name, errors in self.errors.items()
        }

    def wait(self, seconds):
        """Returns as soon as all have ended; those that have not by then are ended."""
        end = time.monotonic() + seconds
        for name, process in self.running.items():
            try:
                process.wait(max(0.01, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            print(
                f"aoti {name}: {'compiled' if process.returncode == 0 else f'ended with {process.returncode}'}", file=sys.stderr, flush=True
            )
            if process.returncode:
                self.errors[name].seek(0)
                text = f"it ended with {process.returncode} within {seconds:.0f} s: {self.errors[name].read().strip()[-200:]}"
                (self.folder / f"{name}.json").write_text(json.dumps(text))
