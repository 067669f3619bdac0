#!/usr/bin/env python3
"""Runs programs of the tests on a GPU, which KILN_TEST_PACKAGE has kept (test/e2e/conftest.py), and compares with what PyTorch made
of them.

  replay.py FOLDER... [--out JSON] [--jobs N] [--seconds S]

Each program is a folder with model.so and its calls, 0.pt and so on. It runs with all tensors in the host's memory and, where it can,
with all of them on the GPU; both have to be right and to have the same bits. Programs run in processes of their own, a few in one: what
a crash leaves goes on in another. Prints a line for each failure and, last, `programs: N passed, N failed`."""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

FOLDER = pathlib.Path(__file__).resolve().parent
SHARE = 24  # programs of a process


def compare(got, want, rtol, atol):
    import torch

    got = got.cpu()
    if want.dtype.itemsize == 1 and want.dtype.is_floating_point and got.dtype == want.dtype:
        got, want = got.float(), want.float()
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)


def call(model, made, device):
    """The results of one call, compared; their bits."""
    import torch

    from measure import bits

    inputs = [place(value, device) if isinstance(value, torch.Tensor) else value for value in made["inputs"]]
    outputs = [torch.as_tensor(value) for value in model.run(inputs) if value is not None]
    assert len(outputs) == len(made["expected"]), f"{len(outputs)} outputs, expected {len(made['expected'])}"
    for got, want in zip(outputs, made["expected"]):
        compare(got, want, made["rtol"], made["atol"])
    for got, want in zip(inputs, made["written"]):
        if isinstance(want, torch.Tensor):
            compare(got, want, made["rtol"], made["atol"])
    return bits([value.cpu().resolve_conj().resolve_neg() for value in outputs])


def place(value, device):
    """A copy of a tensor in memory of the same strides."""
    import torch

    if value.is_conj() or value.is_neg():
        return value.clone().to(device)
    memory = torch.empty(0, dtype=torch.uint8).set_(value.untyped_storage()).clone().to(device)
    return torch.empty(0, dtype=value.dtype, device=device).set_(
        memory.untyped_storage(), value.storage_offset(), value.shape, value.stride()
    )


def run_program(folder):
    import torch

    from kiln._model import Model
    from measure import have_same_bits

    calls = sorted(folder.glob("*.pt"), key=lambda path: int(path.stem))
    first = None
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        model = Model(folder / "model.so")
        found = [value for path in calls for value in call(model, torch.load(path, weights_only=False), device)]
        if first and not have_same_bits(first, found):
            return f"other bits with tensors on {device}"
        first = found
    return "right"


def child(folders):
    sys.path[:0] = [str(FOLDER)]
    import torch

    torch.set_num_threads(1)
    for folder in map(pathlib.Path, folders):
        print(json.dumps({"begins": folder.name}), flush=True)
        try:
            verdict = run_program(folder)
        except BaseException as problem:
            verdict = f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"
        print(json.dumps({"name": folder.name, "verdict": verdict}), flush=True)
    os._exit(0)


def work(queue, lock, results, options):
    """Takes shares until there are none."""
    while time.monotonic() < options.end:
        with lock:
            share = [queue.popleft() for _ in range(min(SHARE, len(queue)))]
        if not share:
            return
        process = subprocess.Popen(
            [sys.executable, __file__, "--child", *map(str, share)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        watch = threading.Timer(min(60, max(1, options.end - time.monotonic())), process.kill)
        watch.start()
        begun = None
        for line in process.stdout:
            entry = json.loads(line) if line.startswith("{") else {}
            begun = entry.get("begins", begun)
            if "verdict" in entry:
                results[entry["name"]], begun = entry["verdict"], None
                share = [folder for folder in share if folder.name != entry["name"]]
        code = process.wait()
        watch.cancel()
        if begun:
            results[begun] = f"the process ended with {code}"
            share = [folder for folder in share if folder.name != begun]
        with lock:
            queue.extend(share)


def main():
    parser = argparse.ArgumentParser(prog="bench/gpu/replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, help="file of the results, JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=120, help="begins nothing new after this")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child)
    options.end = time.monotonic() + options.seconds
    programs = sorted(
        path.parent.resolve() for folder in options.folders for path in folder.rglob("model.so") if (path.parent / "0.pt").exists()
    )
    queue, lock, results = collections.deque(programs), threading.Lock(), {}
    threads = [threading.Thread(target=work, args=(queue, lock, results, options)) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = {name: verdict for name, verdict in sorted(results.items()) if verdict != "right"}
    for name, verdict in failed.items():
        print(f"{name}: {verdict}")
    if options.out:
        options.out.write_text(json.dumps(dict(sorted(results.items())), indent=0) + "\n")
    if left := len(programs) - len(results):
        print(f"no time was left for {left}")
    print(f"programs: {len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or left or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
