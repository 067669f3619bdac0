"""Compiled graphs on disk, by content: `$KILN_CACHE_DIR`, or `~/.cache/kiln`.

A file is named after what it was made of and after its own bytes. It appears when it is whole and is read before it is used, so
any number of processes may look, write and remove at once, and what something has damaged is written anew. Files that were not
used for longest are removed when there are more than `$KILN_CACHE_SIZE` bytes.
"""

import contextlib
import functools
import hashlib
import os
import pathlib
import platform
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable

from .._compile import find_compiler

_DEFAULT_SIZE = 4 << 30
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_STALE = 24 * 3600  # seconds after which a file that is being written has been given up

_since_scan: dict[pathlib.Path, int] = {}  # bytes that this process has written to a folder since it looked how full that is


def directory() -> pathlib.Path:
    return pathlib.Path(os.environ.get("KILN_CACHE_DIR") or pathlib.Path.home() / ".cache" / "kiln")


def size_limit() -> int:
    """Bytes that the cache may hold; 0: any number."""
    text = os.environ.get("KILN_CACHE_SIZE", "")
    if not text:
        return _DEFAULT_SIZE
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if match is None:
        warnings.warn(f"KILN_CACHE_SIZE={text!r} is no number of bytes (such as 500M or 2G)", stacklevel=2)
        return _DEFAULT_SIZE
    return int(match[1]) << _UNITS[match[2]]


@functools.cache
def _private_directory() -> tuple[object, pathlib.Path]:
    """A folder of this process alone, for when no other one can be written."""
    folder = tempfile.TemporaryDirectory(prefix="kiln-")
    return folder, pathlib.Path(folder.name)


@functools.cache
def _describe_cpu() -> str:
    """The processor that `--cpu=native` stands for."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "cpu family", "model\t", "stepping", "cache size")))


def describe_compiler() -> str:
    """A text that changes when the compiler does."""
    path = os.path.realpath(find_compiler())
    status = os.stat(path)
    return f"{path} {status.st_mtime_ns} {status.st_size}"


def make_key(*parts: str) -> str:
    text = "\0".join((describe_compiler(), _describe_cpu(), *parts))
    return hashlib.sha256(text.encode()).hexdigest()


def _writable_directory() -> pathlib.Path:
    root = directory()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return _private_directory()[1]
    return root if os.access(root, os.W_OK | os.X_OK) else _private_directory()[1]


def _hash(path: str | pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=16).hexdigest()


def _find(root: pathlib.Path, key: str, suffix: str) -> str | None:
    """The file `key`; one whose bytes are not what they were is removed."""
    folder, prefix = root / key[:2], key[2:] + "-"
    try:
        names = [name for name in os.listdir(folder) if name.startswith(prefix) and name.endswith(suffix)]
    except OSError:
        return None
    for name in names:
        path = folder / name
        with contextlib.suppress(OSError):
            if _hash(path) == name[len(prefix) : -len(suffix)]:
                with contextlib.suppress(OSError):  # a cache of another user's
                    os.utime(path)
                return str(path)
            path.unlink()
    return None


def remove(path: str) -> None:
    """Removes a file, if nobody else has."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def _prune(root: pathlib.Path, kept: pathlib.Path, limit: int) -> None:
    """Removes the files that were not used for longest, until the others take nine tenths of the limit; `kept` stays."""
    files, total, now = [], 0, time.time()
    for path in root.glob("*/*"):
        with contextlib.suppress(OSError):  # others remove files, too
            status = path.stat()
            if not path.parent.name.startswith(".new-"):
                files.append((status.st_mtime_ns, status.st_size, str(path)))
                total += status.st_size
            elif now - status.st_mtime > _STALE:  # its process is gone
                shutil.rmtree(path.parent, ignore_errors=True)
    if not limit or total <= limit:
        return
    for _, size, name in sorted(files):
        if name != str(kept):
            remove(name)
            total -= size
        if total <= limit * 9 // 10:
            return


def _keep_small(root: pathlib.Path, written: pathlib.Path) -> None:
    """Looks how full the cache is: when a process writes to it first, and after every so many bytes."""
    limit, before = size_limit(), _since_scan.get(root)
    since = (before or 0) + written.stat().st_size
    if before is None or 0 < limit // 32 <= since:
        _since_scan[root] = 0
        _prune(root, written, limit)
    else:
        _since_scan[root] = since


def fetch(key: str, suffix: str, build: Callable[[str], None]) -> str:
    """The path of the file `key`, which `build(path)` writes if it is not there."""
    found = _find(directory(), key, suffix)
    if found is not None:
        return found
    root = _writable_directory()
    if root != directory() and (found := _find(root, key, suffix)) is not None:
        return found
    with tempfile.TemporaryDirectory(prefix=".new-", dir=root) as folder:
        new = os.path.join(folder, "new" + suffix)
        build(new)
        path = root / key[:2] / f"{key[2:]}-{_hash(new)}{suffix}"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        os.replace(new, path)
    with contextlib.suppress(OSError):
        _keep_small(root, path)
    return str(path)
