#!/usr/bin/env python3
"""Compiles an exported model with AOTInductor: aoti.py MODEL.pt2 PACKAGE.pt2 default|freezing
Prints the seconds that the compilation itself took, with empty caches; importing and loading are not counted."""

import os
import sys
import tempfile
import time


def main():
    source, package, setting = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="aoti-") as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        import models

        models.quiet()
        import torch
        import torch._inductor

        program = torch.export.load(source)
        torch._inductor.config.freezing = setting == "freezing"
        start = time.perf_counter()
        with torch.no_grad():  # freezing is left out without a word where gradients are on
            torch._inductor.aoti_compile_and_package(program, package_path=package)
        print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
