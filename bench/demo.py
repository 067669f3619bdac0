"""What scripts/demo shows: BERT-base from PyTorch to one shared object, beside PyTorch and AOTInductor."""

import argparse
import os
import sys
import time

import models
import peers
import table
import workers

TOLERANCE = 1e-4


class Step:
    """Says what is going on, and how long it took."""

    def __init__(self, text):
        self.text = text

    def __enter__(self):
        print(f"== {self.text} ... ", end="", flush=True)
        self.start = time.perf_counter()

    def __exit__(self, kind, error, _):
        print("failed" if kind else f"{time.perf_counter() - self.start:.1f} s", flush=True)
        if kind is peers.Unavailable:
            print(f"   {error}", flush=True)


def measure(systems, name, tiny, seconds, threads):
    running = {}
    try:
        for system in systems:
            running[system] = workers.Worker(peers.command(system, name, tiny, threads), threads)
        return workers.interleave(running, seconds)
    finally:
        for worker in running.values():
            worker.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="bert-base", choices=models.NAMES)
    parser.add_argument("--tiny", action="store_true", help="a small configuration")
    parser.add_argument("--seconds", type=float, default=4, help="how long each is timed")
    options = parser.parse_args()
    name = options.model
    threads = len(os.sched_getaffinity(0))

    with Step(f"exporting {name} with torch.export"):
        folder = peers.model(name, options.tiny)
    with Step("compiling it with aot-compile"):
        library, seconds = peers.kiln(folder)
    with Step("running it with aot-run and comparing with PyTorch"):
        error, error64, eager64 = peers.errors(folder)
    systems, compile_seconds, size = ["kiln", "eager"], {"kiln": seconds}, {"kiln": library.stat().st_size}
    try:
        with Step("compiling it with AOTInductor (about a minute)"):
            package, compile_seconds["aoti-default"] = peers.aoti(folder, "default")
            peers.host("aoti")
            size["aoti-default"] = package.stat().st_size
            systems.append("aoti-default")
    except peers.Unavailable:
        pass
    with Step(f"timing them in turns on {threads} thread{'s' if threads > 1 else ''}"):
        latency = measure(systems, name, options.tiny, options.seconds, threads)

    titles = {"kiln": "Kiln", "eager": "PyTorch", "aoti-default": "AOTInductor"}
    rows = [
        [
            titles[system],
            table.number(error, 2) if system == "kiln" else "-" if system != "eager" else "0",
            table.milliseconds(latency[system]),
            table.ratio(latency[system] / latency["kiln"]),
            table.number(compile_seconds.get(system)) if system in compile_seconds else "-",
            table.megabytes(size.get(system)),
        ]
        for system in systems
    ]
    print(f"\n{name}, fp32, {threads} threads; weights {table.megabytes(peers.weight_bytes(folder))} MB\n")
    print(table.render(["", "max error", "latency ms", "of Kiln's", "compile s", "file MB"], rows))
    print(
        f"\nmax error: largest difference from eager PyTorch, as a share of the output's range; from an fp64 run it is "
        f"{table.number(error64, 2)},\nand eager's own {table.number(eager64, 2)}. The compiled model is {os.path.relpath(library)}."
    )
    if min(error, error64) > TOLERANCE:
        print(f"demo: error: the outputs differ by more than {TOLERANCE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except peers.Unavailable:
        sys.exit(1)
