"""Runs a model under torch.compile, with the commands of protocol.h. Usage: dynamo.py BACKEND CACHE NAME tiny|published THREADS

BACKEND is "kiln" or "inductor"; with "-frozen", weights are constants: Kiln's option "freeze", Inductor's setting "freezing".
Compiled graphs are kept in the folder CACHE. A line with the nanoseconds of the first call, and of them those in the backend, after
PyTorch's tracing, comes before "ready": imports are not in it."""

import os
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[2] / "python")]


TIMERS = {"kiln": "kiln_compile", "inductor": "compile_fx.<locals>.fw_compiler_base"}


def main():
    backend, cache, name, size, threads = sys.argv[1:]
    backend, _, frozen = backend.partition("-")
    os.environ.update(KILN_CACHE_DIR=cache, TORCHINDUCTOR_CACHE_DIR=cache)
    import eager
    import torch
    import torch._inductor.compile_fx
    from torch._dynamo.utils import compilation_time_metrics

    import kiln.dynamo  # noqa: F401
    import models

    models.quiet()
    torch.set_num_threads(int(threads))
    module, inputs = models.build(name, size == "tiny")
    with torch.no_grad():
        torch._inductor.config.freezing = bool(frozen)
        compiled = torch.compile(module, backend=backend, options={"freeze": True} if frozen and backend == "kiln" else None)
        start = time.perf_counter_ns()
        compiled(*inputs)
        first = time.perf_counter_ns() - start
        print(first, round(sum(compilation_time_metrics.get(TIMERS[backend], [])) * 1e9), flush=True)
        eager.serve(compiled, inputs)


if __name__ == "__main__":
    main()
