"""Kiln: ahead-of-time compiled PyTorch programs.

    import kiln
    model = kiln.compile(torch.export.export(module, inputs), "model.so")   # calls aot-compile
    model = kiln.load("model.so")                                          # needs neither torch nor the compiler
    outputs = model(*inputs)

Inputs are torch tensors, numpy arrays or Python scalars and are borrowed, not copied; an input that the program mutates is
written in place. Outputs are torch tensors when any input is one, numpy arrays otherwise; they own their memory.
"""

from . import debug
from ._compile import compile  # the name that users expect
from ._model import KilnError, Model, load
from ._tools import get_include

__all__ = ["KilnError", "Model", "compile", "debug", "get_include", "load"]
