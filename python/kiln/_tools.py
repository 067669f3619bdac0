"""The compiler's tools: those inside a wheel, or those built in the checkout that this file lies in."""

import os
import pathlib
import sys
from typing import NoReturn


def find_tool(name: str) -> str | None:
    """Path of a tool, or None."""
    here = pathlib.Path(__file__).resolve().parent
    for tool in (here / "bin" / name, here.parents[1] / "build" / "bin" / name):
        if os.access(tool, os.X_OK):
            return str(tool)
    return None


def get_include() -> str:
    """Path of the folder to search for `kiln-c/model.h` and the other C headers."""
    here = pathlib.Path(__file__).resolve().parent
    return str(next(folder for folder in (here / "include", here.parents[1] / "include") if folder.is_dir()))


def _run(name: str) -> NoReturn:
    tool = find_tool(name)
    if tool is None:
        sys.exit(f"{name}: error: this installation of the Python package has no compiler: install Kiln's wheel, or build a checkout")
    os.execv(tool, [tool, *sys.argv[1:]])


def aot_compile() -> NoReturn:
    _run("aot-compile")


def aot_run() -> NoReturn:
    _run("aot-run")


def kiln_opt() -> NoReturn:
    _run("kiln-opt")
