"""What is measured, made ready: Kiln's objects, AOTInductor's packages, the programs that run them. All of it is cached."""

import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import numpy

import models

ROOT = models.ROOT
CACHE = ROOT / ".cache" / "bench"
BIN = ROOT / "build" / "bin"
HOSTS = pathlib.Path(__file__).resolve().parent / "hosts"
AOTI_SETTINGS = ("default", "freezing")


class Unavailable(Exception):
    """Something that a figure needs could not be made; the message says why."""


def instruction_sets():
    """Those of this machine, as the kernel names them, that figures depend on."""
    names = ("avx2", "avx_vnni", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile")
    flags = re.search(r"^flags\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return [name for name in names if flags and name in flags[1].split()]


def _digest(*parts):
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, pathlib.Path):
            with open(part, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        else:
            digest.update(str(part).encode())
    return digest.hexdigest()[:16]


def call(command, what, env=None):
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", env={**os.environ, **(env or {})})
    if process.returncode:
        lines = (process.stderr or process.stdout).strip().splitlines() or [f"status {process.returncode}"]
        raise Unavailable(f"{what}: {lines[-1][:300]}")
    return process.stdout


def model(name, tiny=False):
    """Folder of an exported model, with `inputs.bin` as the hosts read it."""
    folder = models.CACHE / (("tiny-" if tiny else "") + name)
    call([sys.executable, HOSTS.parent / "models.py", "--only", name, *(["--tiny"] if tiny else [])], f"exporting {name}")
    target = folder / "inputs.bin"
    if not target.exists() or target.stat().st_mtime < (folder / "inputs.npz").stat().st_mtime:
        write_inputs(models.load_arrays(folder / "inputs.npz"), target)
    return folder


def write_inputs(arrays, target):
    """Writes inputs as the hosts read them."""
    with open(target, "wb") as file:
        file.write(struct.pack("<q", len(arrays)))
        for array in arrays:
            code = {"i": 0, "f": 2, "u": 4}[array.dtype.kind]  # unsigned integers have the bits of bfloat16
            file.write(struct.pack(f"<{4 + array.ndim}q", code, array.itemsize * 8, array.ndim, *array.shape, array.nbytes))
            file.write(array.tobytes())


def host(name, given=None):
    """Path of a compiled host program; `given` are flags of one in C++."""
    source = HOSTS / f"{name}.cpp" if name == "aoti" or given else HOSTS / f"{name}.c"
    flags = ["-O2", f"-I{ROOT / 'include'}"]
    if name == "aoti":
        torch = pathlib.Path(importlib.util.find_spec("torch").origin).parent  # importing it takes seconds
        flags += [
            "-std=c++20",
            f"-isystem{torch}/include",
            f"-isystem{torch}/include/torch/csrc/api/include",
            f"-L{torch}/lib",
            f"-Wl,-rpath,{torch}/lib,--disable-new-dtags",  # for the libraries that models load, too
        ]
        libraries, compiler = ["-ltorch", "-ltorch_cpu", "-lc10"], "c++"
    elif given:
        flags, libraries, compiler = [*flags, *given[:-1]], given[-1:], "c++"
    else:
        flags += ["-std=gnu11", "-D_GNU_SOURCE", "-O3", "-march=native", "-ffast-math"]
        libraries, compiler = ["-ldl"], "cc"
    program = CACHE / "hosts" / f"{name}-{_digest(source, HOSTS / 'protocol.h', ROOT / 'include/kiln-c/model.h', *flags)}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        call([compiler, *flags, "-o", program, source, *libraries], f"compiling bench/hosts/{source.name}")
    return program


def _compiler():
    compiler = BIN / "aot-compile"
    if not compiler.exists():
        raise Unavailable("build/bin/aot-compile is not built")
    return compiler


def run_compiler(arguments):
    """Its standard output."""
    return call([_compiler(), *arguments], "aot-compile")


def _compile(folder, output, weights="embed", options=()):
    """Seconds that `aot-compile` takes from start to exit."""
    compiler = _compiler()
    with open(folder / "model.pt2", "rb") as file:  # into the page cache
        while file.read(1 << 24):
            pass
    start = time.perf_counter()
    call([compiler, folder / "model.pt2", "-o", output, f"--weights={weights}", "--progress=never", *options], f"aot-compile {folder.name}")
    return time.perf_counter() - start


def compile_seconds(folder):
    """Seconds of a compilation that writes to memory, if there is room: how fast a disk takes the weights is no part of it."""
    memory = pathlib.Path("/dev/shm")
    fits = memory.is_dir() and shutil.disk_usage(memory).free > 2 * (folder / "model.pt2").stat().st_size
    with tempfile.TemporaryDirectory(dir=memory if fits else None) as temporary:
        return _compile(folder, pathlib.Path(temporary) / "model.so")


def kiln(folder, weights="embed", options=(), variant=""):
    """(path of the compiled `.so`, seconds of the compilation); `variant` names what is kept beside another one."""
    output = CACHE / "kiln" / f"{folder.name}-{weights}{variant}" / "model.so"
    record = output.with_suffix(".json")
    key = _digest(_compiler(), folder / "stamp", *options)
    if record.exists() and output.exists():
        cached = json.loads(record.read_text())
        if cached["key"] == key:
            return output, cached["seconds"]
    output.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    seconds = _compile(folder, output, weights, options)
    record.write_text(json.dumps({"key": key, "seconds": seconds}))
    return output, seconds


def tuned(folder, cores, cache=None):
    """(path of the `.so` with tuned schedules, seconds of the compilation) on the first so many cores; without a cache as it is reckoned."""
    output = CACHE / "tuned" / folder.name / ("tuned.so" if cache else "plain.so")
    output.parent.mkdir(parents=True, exist_ok=True)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        return output, _compile(
            folder, output, options=["--autotune", "--autotune-threads=1", f"--autotune-cache={cache}"] if cache else []
        )
    finally:
        os.sched_setaffinity(0, before)


def aoti(folder, setting):
    """(path of AOTInductor's package, seconds of the compilation)."""
    package = CACHE / "aoti" / folder.name / f"{setting}.pt2"
    record = package.with_suffix(".json")
    key = _digest(folder / "stamp", HOSTS.parent / "aoti.py", setting)
    if record.exists() and package.exists():
        cached = json.loads(record.read_text())
        if cached["key"] == key:
            return package, cached["seconds"]
    package.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    output = call(
        [sys.executable, HOSTS.parent / "aoti.py", folder / "model.pt2", package, setting], f"AOTInductor ({setting}) on {folder.name}"
    )
    seconds = float(output.split()[-1])
    record.write_text(json.dumps({"key": key, "seconds": seconds}))
    return package, seconds


def onnx(folder):
    """Path of the model as ONNX."""
    target = CACHE / "onnx" / folder.name / "model.onnx"
    record, key = target.with_suffix(".json"), _digest(folder / "stamp", HOSTS.parent / "onnx_export.py")
    if not (record.exists() and target.exists() and json.loads(record.read_text())["key"] == key):
        target.parent.mkdir(parents=True, exist_ok=True)
        record.unlink(missing_ok=True)
        call([sys.executable, HOSTS.parent / "onnx_export.py", folder / "model.pt2", target], f"exporting {folder.name} to ONNX")
        record.write_text(json.dumps({"key": key}))
    return target


def needs(*packages):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise Unavailable(f"the Python package {package} is not installed")


def command(system, name, tiny, threads):
    """Command line of the process that runs `system` on a model; `kiln@LEVEL` is compiled with --cpu=LEVEL."""
    folder = model(name, tiny)
    size = "tiny" if tiny else "published"
    if system == "eager":
        return [sys.executable, HOSTS / "eager.py", name, size, threads]
    if system == "inductor":
        return [sys.executable, HOSTS / "dynamo.py", "inductor", CACHE / "inductor", name, size, threads]
    if system in ("onnxruntime", "openvino"):
        needs(system, "onnx", "onnxscript")
        return [sys.executable, HOSTS / "onnx_peer.py", system, onnx(folder), folder / "inputs.npz", folder / "expected.npz", threads]
    if system.startswith("kiln@"):
        level = system.removeprefix("kiln@")
        return [host("kiln"), kiln(folder, options=[f"--cpu={level}"], variant=f"-{level}")[0], folder / "inputs.bin", threads]
    if system == "kiln-winograd":
        return [host("kiln"), kiln(folder, options=["--winograd=4"], variant="-winograd")[0], folder / "inputs.bin", threads]
    if system.startswith("package"):
        return [sys.executable, HOSTS / "package.py", kiln(folder)[0], folder / "inputs.npz", system.removeprefix("package-"), threads]
    if system.startswith("kiln"):
        return [host("kiln"), kiln(folder)[0], folder / "inputs.bin", threads, *(["reuse"] if system == "kiln-reuse" else [])]
    return [host("aoti"), aoti(folder, system.removeprefix("aoti-"))[0], folder / "inputs.bin", threads]


def weight_bytes(folder):
    """Bytes of all distinct weights of an exported model."""
    import zipfile

    with zipfile.ZipFile(folder / "model.pt2") as archive:
        return sum(
            info.file_size for info in archive.infolist() if re.search(r"/data/(weights/weight_|constants/tensor_)\d+$", info.filename)
        )


def errors(folder, threads=0):
    """(largest difference of Kiln's outputs from eager, from fp64, and eager's own from fp64), as shares of the output's range."""
    outputs = CACHE / "kiln" / f"{folder.name}-embed" / "outputs.npz"
    call(
        [BIN / "aot-run", kiln(folder)[0], "--inputs", folder / "inputs.npz", "--outputs", outputs, "--threads", threads],
        f"aot-run {folder.name}",
    )
    actual, expected, reference = (models.load_arrays(path) for path in (outputs, folder / "expected.npz", folder / "reference.npz"))
    spans = [max(float(r.max() - r.min()), 1e-30) for r in reference]

    def worst(left, right):
        return max(float(numpy.abs(a - b).max()) / span if a.shape == b.shape else float("inf") for a, b, span in zip(left, right, spans))

    return worst(actual, expected), worst(actual, reference), worst(expected, reference)
