"""Compiled graphs on disk, by content: `$KILN_CACHE_DIR`, or `~/.cache/kiln`.

A file appears under its final name when it is whole, so any number of processes may look and write at once.
"""

import functools
import hashlib
import os
import pathlib
import platform
import tempfile

from .._compile import find_compiler


def directory():
    return pathlib.Path(os.environ.get("KILN_CACHE_DIR") or pathlib.Path.home() / ".cache" / "kiln")


@functools.cache
def _private_directory():
    """A folder of this process alone, for when no other one can be written."""
    folder = tempfile.TemporaryDirectory(prefix="kiln-")
    return folder, pathlib.Path(folder.name)


@functools.cache
def _describe_cpu():
    """The processor that `--cpu=native` stands for."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "cpu family", "model\t", "stepping", "cache size")))


def describe_compiler():
    """A text that changes when the compiler does."""
    path = os.path.realpath(find_compiler())
    status = os.stat(path)
    return f"{path} {status.st_mtime_ns} {status.st_size}"


def make_key(*parts):
    text = "\0".join((describe_compiler(), _describe_cpu(), *parts))
    return hashlib.sha256(text.encode()).hexdigest()


def _writable_directory():
    root = directory()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return _private_directory()[1]
    return root if os.access(root, os.W_OK | os.X_OK) else _private_directory()[1]


def fetch(key, suffix, build):
    """The path of the file `key`, which `build(path)` writes if it is not there."""
    path = directory() / key[:2] / (key[2:] + suffix)
    if path.exists():
        return str(path)
    root = _writable_directory()
    path = root / key[:2] / (key[2:] + suffix)
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=root) as folder:
            written = os.path.join(folder, "new" + suffix)
            build(written)
            os.replace(written, path)
    return str(path)
