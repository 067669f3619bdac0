"""Kiln: ahead-of-time compiled PyTorch programs.

    import kiln
    model = kiln.compile(torch.export.export(module, inputs), "model.so")   # calls aot-compile
    model = kiln.load("model.so")                                          # needs neither torch nor the compiler
    outputs = model(*inputs)

Arguments and results are those of the exported program, in the same containers. Inputs are torch tensors, numpy arrays or Python
scalars and are borrowed, not copied; an input that the program mutates is written in place. Outputs are torch tensors when any
input is one, numpy arrays otherwise; they own their memory.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import debug
    from ._compile import compile
    from ._entry import KilnError
    from ._model import Model, Session, load
    from ._tools import get_include

__all__ = ["KilnError", "Model", "Session", "compile", "debug", "get_include", "load"]

_HOMES = {"compile": "kiln._compile", "KilnError": "kiln._entry", "get_include": "kiln._tools"}


def __getattr__(name: str) -> object:
    """Names are imported when they are used first: not every program needs all that they need."""
    import importlib

    if name not in __all__:
        raise AttributeError(f"module 'kiln' has no attribute {name!r}")
    if name == "debug":
        return importlib.import_module("kiln.debug")
    value = globals()[name] = getattr(importlib.import_module(_HOMES.get(name, "kiln._model")), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
