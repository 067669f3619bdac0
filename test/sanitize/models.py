#!/usr/bin/env python3
"""The tiny models with a sanitizer in their generated code, on several threads, beside what PyTorch computed.

test/sanitize/models.py address|memory|thread [NAME...]"""

import os
import subprocess
import sys
import tempfile

import numpy
import sanitized
import torch

NAMES = ("bert-base", "gpt2-small", "vit-b16", "resnet50", "mobilenet-v2", "llama", "t5-encoder", "whisper-encoder", "convnext-tiny", "mlp")


def arrays(path):
    with numpy.load(path) as file:
        return [torch.from_numpy(file[str(i)]) for i in range(len(file.files))]


def main():
    kind, names = sys.argv[1], sys.argv[2:] or NAMES
    os.environ["KILN_SANITIZE"] = kind
    for name in names:
        subprocess.run(
            [sys.executable, sanitized.ROOT / "bench" / "models.py", "--tiny", "--only", name], check=True, stdout=subprocess.DEVNULL
        )
        folder = sanitized.ROOT / ".cache" / "models" / f"tiny-{name}"
        with tempfile.TemporaryDirectory(prefix="kiln-sanitize-") as temporary:
            library = f"{temporary}/model.so"
            subprocess.run([sanitized.COMPILER, folder / "model.pt2", "-o", library], check=True)
            for threads in (1, 4):
                outputs = sanitized.Model(library, kind, threads).run(arrays(folder / "inputs.npz"))
                torch.testing.assert_close(outputs, arrays(folder / "expected.npz"), rtol=1e-3, atol=1e-3)
        print(f"{name}: right", flush=True)


if __name__ == "__main__":
    main()
