"""Runs a compiled model through the Python package under the commands of protocol.h. Usage: package.py MODEL.so INPUTS.npz numpy|torch THREADS"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import numpy

import kiln


def main():
    path, arrays, kind, threads = sys.argv[1:]
    with numpy.load(arrays) as file:
        inputs = [file[name] for name in file.files]
    if kind == "torch":
        import torch

        inputs = [torch.from_numpy(array) for array in inputs]
    model = kiln.load(path, int(threads))
    model(*inputs)
    print("ready", flush=True)
    for line in sys.stdin:
        command, *count = line.split()
        if command == "run":
            times = []
            for _ in range(int(count[0])):
                start = time.perf_counter_ns()
                model(*inputs)
                times.append(time.perf_counter_ns() - start)
            print(*times, flush=True)
        else:
            status = pathlib.Path("/proc/self/status").read_text().splitlines()
            print(next(line.split()[1] for line in status if line.startswith("VmHWM")), flush=True)


if __name__ == "__main__":
    main()
