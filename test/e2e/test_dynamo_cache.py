"""The cache of graphs that torch.compile(backend="kiln") compiles: shared, bounded, and never trusted."""

import concurrent.futures
import hashlib
import multiprocessing
import os
import pathlib
import random
import subprocess
import sys

import pytest
import torch

import kiln.dynamo
from conftest import ROOT, TARGET
from kiln.dynamo import _cache

pytestmark = pytest.mark.skipif(bool(TARGET), reason="the tensors of these graphs are on the CPU")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test's own, and a process that has not seen it."""
    monkeypatch.setenv("KILN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("KILN_CACHE_SIZE", raising=False)
    monkeypatch.setattr(_cache, "_since_scan", {})
    torch._dynamo.reset()
    return tmp_path / "cache"


def key_of(name):
    return hashlib.sha256(str(name).encode()).hexdigest()


def fetch(name, data=b"content", suffix=".txt"):
    """(bytes of the entry, whether it had to be made)"""
    made = []
    path = _cache.fetch(key_of(name), suffix, lambda path: made.append(pathlib.Path(path).write_bytes(data)))
    return pathlib.Path(path).read_bytes(), bool(made)


def test_entries(cache):
    assert fetch("a") == (b"content", True) and fetch("a", b"other") == (b"content", False)
    assert fetch("b", b"") == (b"", True) and fetch("b", b"x") == (b"", False)
    assert fetch("a", b"so", ".so") == (b"so", True)
    with pytest.raises(ZeroDivisionError):
        _cache.fetch(key_of("c"), ".txt", lambda path: 1 // 0)
    assert fetch("c") == (b"content", True)
    assert len(list(cache.rglob("*.*"))) == 4 and not list(cache.glob(".new-*"))


@pytest.mark.parametrize("damage", [b"", b"cont", b"Content", b"content "])
def test_damaged_entries(cache, damage):
    """Whatever has become of an entry, it is made anew, under the same name."""
    fetch("a")
    (path,) = cache.rglob("*.txt")
    path.write_bytes(damage)
    assert fetch("a") == (b"content", True) and fetch("a") == (b"content", False)
    assert list(cache.rglob("*.txt")) == [path]


def test_least_recently_used_are_removed(cache, monkeypatch):
    monkeypatch.setenv("KILN_CACHE_SIZE", "10k")
    for number in range(10):
        fetch(number, bytes(1000))
        (path,) = cache.rglob(key_of(number)[2:] + "*")
        os.utime(path, (1000 + number, 1000 + number))
    assert not fetch(0)[1], "used again: now the newest"
    stale, recent = cache / ".new-stale", cache / ".new-recent"
    for folder in (stale, recent):
        folder.mkdir()
        (folder / "new.so").write_bytes(b"part")
    os.utime(stale / "new.so", (1000, 1000))
    fetch("big", bytes(4000))
    left = [number for number in range(10) if list(cache.rglob(key_of(number)[2:] + "*"))]
    assert left == [0, 6, 7, 8, 9] and not fetch("big")[1]
    assert recent.exists() and not stale.exists()
    fetch("too big", bytes(20000))
    assert not fetch("too big")[1] and len(list(cache.rglob("*.txt"))) == 1, "what has just been made stays"


def test_size_limit(monkeypatch, cache):
    for text, size in (("", 4 << 30), ("0", 0), ("123", 123), ("5k", 5 << 10), ("2 GiB", 2 << 30), ("3MB", 3 << 20), ("1T", 1 << 40)):
        monkeypatch.setenv("KILN_CACHE_SIZE", text)
        assert _cache.size_limit() == size
    for text in ("much", "-1", "1.5G", "G"):
        monkeypatch.setenv("KILN_CACHE_SIZE", text)
        with pytest.warns(UserWarning, match="KILN_CACHE_SIZE"):
            assert _cache.size_limit() == 4 << 30
    monkeypatch.setenv("KILN_CACHE_SIZE", "0")
    for number in range(20):
        fetch(number, bytes(100))
    assert len(list(cache.rglob("*.txt"))) == 20


def test_folder_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv("KILN_CACHE_DIR", "/proc/none/cache")
    assert fetch("a") == (b"content", True) and fetch("a") == (b"content", False)


def crowd(seed):
    """One of several processes; returns how many entries were removed by others before it could read them."""
    rng, lost = random.Random(seed), 0
    for _ in range(300):
        number = rng.randrange(12)
        data = b"%d " % number * 500
        path = pathlib.Path(_cache.fetch(f"{number:064}", ".txt", lambda path, data=data: pathlib.Path(path).write_bytes(data)))
        try:
            assert path.read_bytes() == data
        except FileNotFoundError:
            lost += 1
    return lost


def test_many_processes(cache, monkeypatch):
    """At once in a cache that is too small: nobody ever sees anything but whole entries."""
    monkeypatch.setenv("KILN_CACHE_SIZE", "5000")
    with concurrent.futures.ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as pool:
        assert sum(pool.map(crowd, range(4))) < 1200
    assert not list(cache.glob(".new-*")) and sum(path.stat().st_size for path in cache.rglob("*.txt")) < 10000


SECOND = """
import sys, torch, kiln.dynamo
from kiln import _compile
if sys.argv[1] == "warm":
    kiln.dynamo.run_compiler = None
torch.manual_seed(3)
model = torch.nn.Linear(5, 6)
print(torch.compile(model, backend="kiln", options={"fallback": "none"})(torch.ones(2, 5)).detach().sum().item())
"""


def test_second_process_is_warm(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SECOND)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "KILN_CACHE_DIR": str(tmp_path / "cache")}

    def start(how):
        return subprocess.Popen([sys.executable, str(script), how], env=environment, stdout=subprocess.PIPE, text=True)

    cold = [start("cold"), start("cold")]  # at once, into the same empty cache
    texts = [process.communicate(timeout=100)[0] for process in cold]
    warm = start("warm")
    texts.append(warm.communicate(timeout=100)[0])
    assert [process.returncode for process in (*cold, warm)] == [0, 0, 0]
    assert len(set(texts)) == 1 and texts[0]
    assert not list((tmp_path / "cache").glob(".new-*"))


@pytest.mark.parametrize("damage", [lambda data: b"no library", lambda data: data[: len(data) // 2], lambda data: data[:-9] + bytes(9)])
def test_damaged_library(cache, monkeypatch, damage):
    """A library that is cut off would end the process with a signal where it is mapped."""

    def run():
        torch._dynamo.reset()
        torch.testing.assert_close(
            torch.compile(function, backend="kiln", options={"fallback": "none"})(torch.ones(3)), function(torch.ones(3))
        )

    def function(x):
        return torch.erf(x) * 3

    run()
    (path,) = cache.rglob("*.so")
    other = cache.parent / "other" / path.relative_to(cache)  # the loader knows the first path
    other.parent.mkdir(parents=True)
    other.write_bytes(damage(path.read_bytes()))
    monkeypatch.setenv("KILN_CACHE_DIR", str(cache.parent / "other"))
    run()
    assert other.read_bytes() == path.read_bytes()


def test_removed_before_it_is_loaded(cache, monkeypatch):
    removed = []

    def remove_first(path, *rest):
        if not removed:
            removed.append(path)
            _cache.remove(path)
        return graph(path, *rest)

    graph = kiln.dynamo.CompiledGraph
    monkeypatch.setattr(kiln.dynamo, "CompiledGraph", remove_first)
    x = torch.ones(3)
    torch.testing.assert_close(torch.compile(torch.tan, backend="kiln", options={"fallback": "none"})(x), torch.tan(x))
    assert removed
