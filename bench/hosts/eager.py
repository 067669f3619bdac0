"""Runs a model in eager PyTorch under the commands of protocol.h. Usage: eager.py NAME tiny|published THREADS"""

import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch

import models


def serve(function, inputs):
    """Obeys the commands until there are no more; times are of all threads together with KILN_BENCH_CPU."""
    now = time.process_time_ns if os.environ.get("KILN_BENCH_CPU") else time.perf_counter_ns
    function(*inputs)
    print("ready", flush=True)
    for line in sys.stdin:
        command, *count = line.split()
        if command == "run":
            times = []
            for _ in range(int(count[0])):
                start = now()
                function(*inputs)
                times.append(now() - start)
            print(*times, flush=True)
        else:
            status = pathlib.Path("/proc/self/status").read_text().splitlines()
            print(next(line.split()[1] for line in status if line.startswith("VmHWM")), flush=True)


def main():
    name, size, threads = sys.argv[1:]
    models.quiet()
    torch.set_num_threads(int(threads))
    module, inputs = models.build(name, size == "tiny")
    with torch.inference_mode():
        serve(module, inputs)


if __name__ == "__main__":
    main()
