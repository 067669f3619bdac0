"""Processes that are measured, and turns among them."""

import os
import statistics
import subprocess
import time

from peers import Unavailable

SETTLE = 0.1  # seconds before a turn: the threads of the process before may still be spinning, those of ONNX Runtime 1.32 for 60 ms


class Worker:
    """A process that runs one system on one model at a given number of threads (the protocol is in hosts/protocol.h).

    With `cpu`, hosts in C time runs by the CPU time of the thread that they are on."""

    def __init__(self, command, threads, preamble=0, cpu=False):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if cpu:
            environment["KILN_BENCH_CPU"] = "1"
        cores = sorted(os.sched_getaffinity(0))[:threads]
        self.command = list(map(str, command))
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        self.times = []
        self.preamble = [self._answer() for _ in range(preamble)]
        self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            error = (self.process.communicate()[1].strip().splitlines() or [f"status {self.process.returncode}"])[-1]
            raise Unavailable(f"{os.path.basename(self.command[0])}: {error[:300]}")
        return line

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._answer()

    def run(self, count):
        """Times of `count` runs in seconds."""
        return [int(field) * 1e-9 for field in self.ask(f"run {count}").split()]

    def peak_bytes(self):
        return int(self.ask("peak")) * 1024

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait()


def interleave(workers, seconds, rounds=12):
    """Times all workers in turns, A B C A B C ..., so that a slow spell of the machine meets every one of them.

    Each takes about `seconds` in all; on a machine so busy that it takes much longer, there are fewer rounds. A turn starts with
    untimed runs: another process has used the caches since. Fills `worker.times`; returns the median of each in seconds."""
    counts, deadline = {}, time.monotonic() + 4 * seconds * len(workers)
    for worker in workers.values():
        once = statistics.median(worker.run(3))
        counts[worker] = max(1, min(20000, round(seconds / rounds / max(once, 1e-7))))
    for done in range(rounds):
        if done >= 3 and time.monotonic() > deadline:
            break
        for worker in workers.values():
            time.sleep(SETTLE)
            worker.run(max(1, counts[worker] // 4))
            worker.times += worker.run(counts[worker])
    return {name: statistics.median(worker.times) for name, worker in workers.items()}


def lower_quartile(times):
    """Of CPU times: whatever else runs on the machine only adds to one, but the clock of a virtual machine can stand still for a while,
    so that the least of many can be 0."""
    return statistics.quantiles(times, n=4)[0]
