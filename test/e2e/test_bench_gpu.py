"""bench/gpu: the package is made and run with tiny programs in the emulator; nothing that is timed here means anything."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, pack_gpu_bench

FOLDER = ROOT / "bench" / "gpu"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    out = tmp_path_factory.mktemp("gpu") / "package"
    process = pack_gpu_bench(out, "^cumsum|^bert|f32", "^none")
    assert "MiB of at most 64" in process.stdout
    return out


def run(package, out, *options):
    """The package's own copy of the script, as on a machine that has nothing of this repository."""
    process = subprocess.run(
        [sys.executable, package / "run", "--seconds", "0.02", "--out", out, "--name", "dry", *options],
        capture_output=True,
        text=True,
        cwd=out,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    results = json.loads((out / "dry.json").read_text()) if (out / "dry.json").exists() else None
    return process, results


def test_results(package, tmp_path):
    """Weights are those of the program there, not those that were compiled; a page and a JSON file come out."""
    process, results = run(package, tmp_path)
    assert process.returncode == 0, process.stderr[-3000:]
    rows = {row["name"]: row for row in results["rows"]}
    assert set(rows) == {"contract-f32-20x30x40", "cumsum", "bert"}
    for row in rows.values():
        assert row["right"] and row["repeats"] and row["ms"] > 0 and row["peers"]["eager"] > 0, row
    assert rows["cumsum"]["peers"]["copy"] > 0 and rows["cumsum"]["copied"] == 2 * 4 * 600
    kernels = rows["contract-f32-20x30x40"]["kernels"]
    assert kernels["eager"][0]["kernel"].startswith("aten::") and kernels["eager"][0]["us"] > 0 and "kiln" in kernels
    assert list(rows["bert"]["kernels"]) == ["kiln"] and "kernels" not in rows["cumsum"]
    page = (tmp_path / "dry.md").read_text()
    assert "| contract-f32-20x30x40 | eager | aten::" in page
    assert "dry mode" in page and "| bert | right |" in page and ("ncu is not installed" in page or "## Nsight Compute" in page)


def test_profiler_that_ends_the_process(package, tmp_path):
    """What has been measured of the program is there, and right."""
    broken = tmp_path / "package"
    shutil.copytree(package, broken)
    with open(broken / "machine.py", "a") as script:
        script.write("\n\ndef profile(machine, systems, seconds):\n    os._exit(3)\n")
    process, results = run(broken, tmp_path, "--programs", "contract")
    (row,) = results["rows"]
    assert process.returncode == 0 and row["right"] and row["peers"]["eager"] > 0, process.stderr
    assert row["kernels"] == "the profiler did not come to its end" and "unfinished" not in row


@pytest.fixture
def gpu_modules(monkeypatch):
    """The modules of bench/gpu can be imported. Some have names that modules of bench/ have, too, which come back afterwards."""
    names = [path.stem for path in FOLDER.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(FOLDER)
    yield
    for name in names:
        sys.modules.pop(name, None)


def test_errors(gpu_modules):
    """A wrong element among many and a wrong row of small numbers are small in the norm, not in their row; bits are compared as such."""
    import torch

    from measure import ROWS, bits, errors, have_same_bits

    want = torch.randn(2000, 500)
    want[7] *= 1e-2
    got = want + 1e-6 * torch.randn(2000, 500)
    norm, row = errors(got, want)
    assert norm < 2e-6 and row < 1e-3
    for i, off in ((3, 2.0), (7, 2e-2)):
        wrong = got.clone()
        wrong[i, 5] += off
        norm, row = errors(wrong, want)
        assert norm < 1e-2 and row > 1 > ROWS * 1e-2
    assert errors(got[:3], want) == errors(torch.full_like(want, float("nan")), want) == (float("inf"),) * 2
    assert errors(torch.tensor([1, 2]), torch.tensor([1, 3])) == (float("inf"),) * 2
    assert errors(torch.zeros(0), torch.zeros(0)) == errors(torch.tensor(2.0), torch.tensor(2.0)) == (0, 0)
    assert errors(torch.tensor([[1j, 2]]), torch.tensor([[1j, 3]]))[1] > 0.5
    first = bits([torch.tensor([0.0, float("nan")]), torch.arange(3)])
    assert have_same_bits(first, bits([torch.tensor([0.0, float("nan")]), torch.arange(3)]))
    assert not have_same_bits(first, bits([torch.tensor([-0.0, float("nan")]), torch.arange(3)]))


def test_seeded_numbers(gpu_modules):
    """The same on every machine: these bits are part of what a package is."""
    from seeded import draw

    numbers = draw(1, (100, 1000), "float32")
    assert abs(numbers.mean()) < 0.01 and abs(numbers.std() - 1) < 0.01 and draw(1, (2,), "float32").tobytes() == numbers[0, :2].tobytes()
    assert (draw(2, (3,), "float16") != draw(3, (3,), "float16")).any()
    assert draw(1, (3,), "float32").tobytes().hex() == "c41df83e79d08fbd9006763f"


def test_failures_are_rows(package, tmp_path):
    """A wrong result, a model that cannot be loaded, and one that ends its process: the others run all the same."""
    broken = tmp_path / "package"
    shutil.copytree(package, broken)
    (broken / "bert.so").write_bytes(b"no library")
    source = tmp_path / "abort.c"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { abort(); }\n")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", broken / "cumsum.so"], check=True)
    process, results = run(broken, tmp_path, "--no-times")
    assert process.returncode == 1 and "bert" in process.stderr and "cumsum" in process.stderr
    rows = {row["name"]: row for row in results["rows"]}
    assert "not a compiled model" in rows["bert"]["failed"] and "the process ended with -6" in rows["cumsum"]["failed"]
    assert rows["contract-f32-20x30x40"]["right"] and "ms" not in rows["contract-f32-20x30x40"]
    assert "| bert | failed: " in (tmp_path / "dry.md").read_text()


def test_pieces(package, tmp_path):
    """A program that does not end is ended; what there was no time for another run does, and nothing else again."""
    process, results = run(package, tmp_path, "--no-times", "--minutes", "0")
    assert process.returncode == 1 and [row["failed"] for row in results["rows"]] == 3 * ["no time was left"]
    broken = tmp_path / "package"
    shutil.copytree(package, broken)
    source = tmp_path / "sleep.c"
    source.write_text("#include <unistd.h>\n__attribute__((constructor)) static void wait(void) { sleep(600); }\n")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", broken / "cumsum.so"], check=True)
    process, results = run(broken, tmp_path, "--no-times", "--limit", "20", "--programs", "c", "--after", tmp_path / "dry.json")
    rows = {row["name"]: row for row in results["rows"]}
    assert process.returncode == 1 and set(rows) == {"contract-f32-20x30x40", "cumsum"} and rows["contract-f32-20x30x40"]["right"]
    assert rows["cumsum"]["failed"] == "it was ended after 20 s"
    process, results = run(package, tmp_path, "--no-times", "--after", tmp_path / "dry.json")
    assert [row["name"] for row in results["rows"]] == ["contract-f32-20x30x40", "cumsum", "bert"] and results["rows"][2]["right"]
    assert process.stdout.count("error") == 1  # bert alone has been run
    manifest = json.loads((broken / "manifest.json").read_text())
    (broken / "manifest.json").write_text(json.dumps({**manifest, "commit": "another"}))
    process, _ = run(broken, tmp_path, "--after", tmp_path / "dry.json")
    assert process.returncode == 1 and "the package's is another" in process.stderr


def test_no_driver(package, tmp_path, monkeypatch):
    monkeypatch.setenv("KILN_CUDA_DRIVER", "/none/libcuda.so.1")
    process, results = run(package, tmp_path, "--programs", "cumsum")
    assert process.returncode == 1 and "no NVIDIA driver" in results["rows"][0]["failed"]


def test_peers(monkeypatch, gpu_modules):
    """A peer that does not work here is left out."""
    import measure
    from programs import Program

    class Machine:
        emulated = False

        def synchronize(self):
            pass

    def fail():
        raise RuntimeError("no compiler\nanywhere")

    monkeypatch.setattr(measure.torch, "compile", lambda module, mode=None: module)
    works, failed = measure.peers(Program("models", None), lambda x: x + 1, (2,), Machine(), ["compile", "aoti"], fail)
    assert {name: call() for name, call in works.items()} == {"eager": 3, "torch.compile": 3}
    assert failed == {"aoti": "RuntimeError: no compiler"}
    assert list(measure.peers(Program("models", None), lambda x: x + 1, (2,), Machine(), [], fail)[0]) == ["eager"]


def test_aoti(tmp_path, monkeypatch, gpu_modules):
    """What AOTInductor compiles beside others is loaded; of what fails or takes too long, the reason is."""
    import aoti
    import measure

    commands = {"good": f"touch {tmp_path}/good.pt2", "bad": "echo no such op; exit 3", "slow": "sleep 60"}
    compilers = aoti.Compilers(lambda name: ["sh", "-c", commands[name]], list(commands), tmp_path)
    compilers.wait(2)
    monkeypatch.setattr(measure.torch._inductor, "aoti_load_package", lambda path: path)
    assert measure.load_aoti("good", tmp_path) == str(tmp_path / "good.pt2")
    for name, reason in (("bad", "ended with 3 within 2 s: no such op"), ("slow", "ended with -9")):
        with pytest.raises(RuntimeError, match=reason):
            measure.load_aoti(name, tmp_path)


TOOL = """#!/bin/sh
case "$*" in *memcheck*padding*) echo "error: unrecognised option '--padding'"; exit 1;; *racecheck*) echo "RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"; exit 86;; *synccheck*) exit 1;; *initcheck*) sleep 9;; esac
echo "ERROR SUMMARY: 0 errors"
"""
PROFILER = """#!/bin/sh
case "$*" in *pipe_tensor*) echo "==ERROR== no such metric"; exit 1;; esac
cat <<END
==PROF== Connected
"ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread"
"","","ns","register/thread"
"0","contract_0","1234","126"
==PROF== Disconnected
END
"""


def test_tools(tmp_path, gpu_modules):
    import report
    import tools

    for name, text in (("sanitizer", TOOL), ("profiler", PROFILER)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    rows = tools.sanitize(str(tmp_path / "sanitizer"), ["check-parts"], lambda name: ["true", name], 2)
    assert [(row["tool"], row["state"], row["errors"]) for row in rows] == [
        ("memcheck", "clean", 0),
        ("racecheck", "found", 2),
        ("synccheck", "failed", None),
        ("initcheck", "timed out", None),
    ]
    profiles = tools.profile(str(tmp_path / "profiler"), ["contract"], lambda name: ["true", name], 2)
    assert (
        len(profiles[0]["kernels"]) == 1
        and profiles[0]["state"] == "profiled"
        and profiles[0]["kernels"][0]["ns"] == "1234"
        and profiles[0]["kernels"][0]["registers"] == "126"
    )
    attention = {
        "name": "attention-4096",
        "part": "attention",
        "flops": 4e11,
        "bytes": 1e8,
        "error": 1e-3,
        "right": True,
        "repeats": True,
        "ms": 1.0,
        "peers": {},
    }
    model = {
        "name": "bert",
        "part": "models",
        "flops": 0,
        "bytes": 0,
        "error": 1e-3,
        "right": True,
        "repeats": True,
        "ms": 2.0,
        "peers": {"eager": 9.0, "torch.compile": 4.0},
        "failed_peers": {"aoti": "RuntimeError"},
    }
    contract = {
        "name": "contract-4096",
        "part": "contracts",
        "flops": 2.0 * 4096**3,
        "bytes": 1e8,
        "error": 1e-3,
        "right": True,
        "repeats": True,
        "ms": 0.2,
        "peers": {"eager": 0.18, "cublaslt": 0.17},
    }
    memory = {
        "name": "pointwise",
        "part": "memory",
        "flops": 0,
        "bytes": 1e9,
        "error": 0,
        "right": True,
        "repeats": True,
        "ms": 0.4,
        "peers": {"copy": 0.25, "eager": 0.5},
        "copied": 1e9,
    }
    goals = lambda rows, **machine: [(value, goal, met) for _, value, goal, met in report.goals({"rows": rows, "machine": machine})]
    assert goals([contract, memory]) == [(0.17 / 0.2, 0.85, True), (0.25 / 0.4, 0.9, False)]
    decode = {**memory, "name": "decode", "part": "decode", "peers": {}}
    assert goals([decode]) == [] and goals([decode], copy_gb_s=5000) == [(0.5, 0.8, False)]
    assert goals([attention, model, {**model, "ms": 32.0}]) == [
        (400.0, 500, False),
        (2.0, 1.0, True),
        (0.125, 1.0, False),
        (pytest.approx(0.5), 1.0, False),
    ]
    package = [
        {"name": "bert", "compile_s": 4.4, "bytes": 3 << 19, "has_weights": True},
        {"name": "vit", "failed": "an error\nof two lines"},
    ]
    page = report.page(
        {
            "tiny": False,
            "arch": "sm_90",
            "commit": "none",
            "machine": {"gpu": "a GPU", "time": "now"},
            "package": package,
            "rows": [contract, memory, model, {**memory, "name": "late", "unfinished": "it was\nended"}],
            "sanitizer": rows,
            "profile": profiles,
        }
    )
    assert "| late | right, it was ended |" in page
    assert "687 TFLOP/s" in page and "2500 GB/s" in page and "| check-parts | racecheck | found | 2 |" in page and "registers 126" in page
    assert (
        "| bert | right | 1.0e-03 | 2 |  | eager 9, torch.compile 4, aoti failed | 4.4 s, 1.50 MiB |" in page
        and "| vit | not compiled: an error of two lines |" in page
    )
