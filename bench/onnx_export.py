#!/usr/bin/env python3
"""Writes an exported program as ONNX, weights beside it: onnx_export.py MODEL.pt2 MODEL.onnx"""

import sys


def main():
    import models

    models.quiet()
    import torch

    source, target = sys.argv[1:]
    torch.onnx.export(torch.export.load(source), dynamo=True, verbose=False).save(target, external_data=True)


if __name__ == "__main__":
    main()
