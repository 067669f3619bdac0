"""Processes in which calls of the system fail: the writing side of preload.c."""

import ctypes
import mmap
import os
import pathlib
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build"))
LIBRARY = BUILD / "lib" / "faults-preload.so"
MEMORY, SYSTEM, INTERRUPT = 1, 2, 4


class Control(ctypes.Structure):
    """The struct `control` of preload.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("active", "kinds", "at", "and_later")),
        *((name, ctypes.c_uint64) for name in ("begin", "end")),
        *((name, ctypes.c_int64) for name in ("calls", "hits", "blocks", "mapped", "files", "threads")),
        ("function", ctypes.c_char * 32),
    ]

    def live(self):
        """What the watched library has allocated, mapped, opened and started, and not given back."""
        return self.blocks, self.mapped, self.files, self.threads

    def arm(self, kinds, at, and_later=False):
        """The call with this number, counted from here on, fails, or it and all later ones; -1: none."""
        self.active = 0
        self.kinds, self.at, self.and_later = kinds, at, and_later
        self.calls = self.hits = 0
        self.function = b""
        self.active = 1

    def disarm(self):
        """Returns how many calls there were."""
        self.active = 0
        return self.calls


def open_control(path=None):
    """The control of this process (its KILN_FAULTS), or of those that are started with `environment(control)`."""
    if path is None:
        handle, path = tempfile.mkstemp(prefix="kiln-faults-")
        os.ftruncate(handle, mmap.PAGESIZE)
    else:
        handle = os.open(path, os.O_RDWR)
    memory = mmap.mmap(handle, mmap.PAGESIZE)
    os.close(handle)
    control = Control.from_buffer(memory)
    control.path = path
    return control


def environment(control):
    """For processes whose calls are counted."""
    return {"LD_PRELOAD": str(LIBRARY), "KILN_FAULTS": control.path}
