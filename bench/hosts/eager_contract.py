"""Runs a product or convolution in eager PyTorch, one thread, under the commands of protocol.h. Usage: eager_contract.py KIND NUMBER..."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch
from eager import serve

import figures_extern


def main():
    kind, *numbers = sys.argv[1:]
    torch.set_num_threads(1)
    module, inputs = figures_extern.module((kind, *map(int, numbers)))
    with torch.inference_mode():
        serve(module.eval(), inputs)


if __name__ == "__main__":
    main()
