"""The programs of the benchmark do what they say; nothing is timed here."""

import argparse
import os
import re
import subprocess
import sys

import pytest

import figures
import figures_convolutions
import figures_extern
import figures_kernels
import figures_low_precision
import figures_prediction
import figures_saturation
import figures_scale
import kernels
import low_precision
import measure
import models
import peers
import table
import workers
from conftest import BUILD


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Folder of the tiny MLP, with the caches of the benchmark in a folder of their own."""
    patch = pytest.MonkeyPatch()
    patch.setattr(peers, "CACHE", tmp_path_factory.mktemp("bench"))
    patch.setattr(peers, "BIN", peers.pathlib.Path(os.environ["KILN_COMPILER"]).parent)
    yield peers.model("mlp", tiny=True)
    patch.undo()


def test_compile_is_cached(tiny):
    library, seconds = peers.kiln(tiny)
    assert (library, seconds) == peers.kiln(tiny)
    assert peers.errors(tiny)[0] < 1e-5


def test_size_of_weights(tiny):
    assert peers.weight_bytes(tiny) == 4 * (24 * 16 + 16 + 16 * 16 + 16 + 16 * 5 + 5)


@pytest.mark.parametrize("system", ["kiln", "kiln-reuse", "kiln-winograd", "kiln@x86-64-v3", "eager", "package-numpy", "package-torch"])
def test_worker(tiny, system):
    worker = workers.Worker(peers.command(system, "mlp", True, 1), 1)
    times = worker.run(7)
    assert len(times) == 7 and min(times) > 0
    assert worker.peak_bytes() > 1 << 20
    assert set(workers.interleave({"one": worker}, 0.01, rounds=2)) == {"one"}
    worker.close()
    assert worker.process.returncode == 0


def test_torch_compile(tiny, tmp_path):
    worker = workers.Worker([sys.executable, peers.HOSTS / "dynamo.py", "kiln", tmp_path, "mlp", "tiny", 1], 1, preamble=1)
    assert int(worker.preamble[0].split()[0]) > max(worker.run(3)) > 0
    assert list(tmp_path.glob("*/*.so"))
    worker.close()


def test_cpu_time_that_stands_still():
    assert workers.lower_quartile([0.0, *[2.0] * 8, 5.0]) == 2.0


@pytest.mark.skipif(not (BUILD / "lib" / "libkiln_onednn.so").exists(), reason="built without oneDNN")
def test_own_contracts(tiny):
    """The first contract of the tiny MLP by Kiln, by its generator for oneDNN, and by oneDNN itself."""
    contracts = figures_extern.contracts(tiny)
    assert contracts == [("matmul", 0, 1, n, k, 1, 1, 1) for n, k in ((5, 16), (16, 16), (16, 24))]
    assert all(seconds > 0 for seconds in figures_extern._measure(contracts[0], 0.01).values())


def test_convolutions(tiny, capsys):
    (contract, _) = figures_convolutions.TINY["tiny"]
    measured = {"family": "tiny", **figures_convolutions._measure(contract, 0.01)}
    goals = measure.Goals()
    figures_convolutions.show({" ".join(map(str, contract)): measured}, goals)
    assert "3x3 3->8 of 9x20, padding 1" in capsys.readouterr().out
    assert len(goals.rows) == 4 and all(goal["value"] > 0 for goal in goals.rows)


def test_low_precision(tiny, monkeypatch, tmp_path, capsys):
    """A token by quantized weights beside fp32 and the rate of memory; engines that are not there are named."""
    monkeypatch.setattr(low_precision, "CACHE", tmp_path)
    monkeypatch.setattr(figures_low_precision, "SYSTEMS", ["kiln", "kiln-f32", "openvino", "llama.cpp"])
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda package: None)
    options = argparse.Namespace(programs=["decode-int4-g32"], tiny=True, threads=[1], seconds=0.01)
    results = figures_low_precision.measure(options)
    row = results["decode-int4-g32"]
    weights = 2 * 128 * (2 * 4 * 32 + 2 * 2 * 32 + 3 * 256) + 160 * 128
    assert row["bytes"] == weights * 9 // 16 and row["threads-1"]["rate"] > 1e8
    assert {*row["threads-1"]["median"]} == {"kiln", "kiln-f32"}
    assert re.search("no openvino: .* not installed\n.*no llama.cpp: .* not installed", capsys.readouterr().out)


def test_low_precision_table(capsys):
    times = {"kiln": 2.0, "kiln-f32": 8.0, "openvino": 1.0, "llama.cpp": 3.0}
    goals = measure.Goals()
    figures_low_precision.show({"decode-int8": {"bytes": 10, "threads-1": {"median": times, "rate": 6.25}}}, goals)
    (row,) = (line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("decode-int8"))
    assert row == ["decode-int8", "2000", "-", "0.25", "-", "-", "1000", "-", "3000", "0.50x", "behind", "0.80"]
    assert [(goal["value"], goal["met"]) for goal in goals.rows] == [(1.5, True), (0.8, False)]


def test_saturation(monkeypatch, capsys):
    """Kiln's sums of bytes are exact; engines that are not there are named."""
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda package: None)
    results = figures_saturation.measure(None)
    assert {*results} == {"kiln", "kiln@x86-64-v3", "torch"}
    assert results["kiln"] == results["kiln@x86-64-v3"] == 8290560
    assert re.search("no openvino: .* not installed\n.*no onnxruntime: .* not installed", capsys.readouterr().out)
    assert figures_saturation.tabulate({"openvino": 4194176.0})[1] == [["OpenVINO", "4194176", "saturated"]]


@pytest.mark.parametrize("name,preamble", [("peak", 1), ("mlp", 0)])
def test_yardsticks(tiny, name, preamble):
    worker = workers.Worker([peers.host(name)], 1, preamble)
    assert min(worker.run(3)) > 0
    worker.close()


def test_start(tiny):
    process = subprocess.run(list(map(str, [peers.host("start"), *peers.command("kiln", "mlp", True, 1)])), capture_output=True, text=True)
    assert process.returncode == 0 and float(process.stdout) > 0, process.stderr


def test_failures_are_reported(tiny):
    with pytest.raises(peers.Unavailable, match="nowhere.so"):
        workers.Worker([peers.host("kiln"), "/nowhere.so", tiny / "inputs.bin", 1], 1)
    with pytest.raises(peers.Unavailable, match="aot-compile"):
        peers.kiln(tiny, options=["--nonsense"])


def test_export_is_cached():
    folder = models.export("mlp", tiny=True)
    before = (folder / "model.pt2").stat().st_mtime_ns
    assert models.export("mlp", tiny=True) == folder and (folder / "model.pt2").stat().st_mtime_ns == before


def test_tables():
    assert table.render(["", "a"], [["x", "1"], ["long", "22"]]) == "       a\n----  --\nx      1\nlong  22"
    assert [table.number(value) for value in (None, 0, 1.23456, 123456, 0.0123, 1.5e-7)] == [
        "-",
        "0",
        "1.23",
        "123456",
        "0.0123",
        "1.50e-07",
    ]
    assert table.geometric_mean([1, 4]) == 2 and table.geometric_mean([]) is None


def test_latency_marks_what_is_behind(capsys, tmp_path, monkeypatch):
    times = {"kiln": 2.0, "aoti-default": 4.0, "aoti-freezing": 5.0, "openvino": 1.0, "kiln@x86-64-v3": 3.0}
    goals = measure.Goals()
    measured = {"some": {"flops": 2e9, "threads-1": {"median": times, "peak_flops": 4e9}}}
    figures.show_latency(measured, goals)
    (row,) = (line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("some"))
    assert row == ["some", "2000", "4000", "5000", "1000", "3000", "0.50x", "2.00x", "behind", "0.50x", "-"]
    assert [goal["met"] for goal in goals.rows] == [True, True, False, False, None]
    begin = "<!-- Written by bench/run --only latency --document, threads-1, AVX2 -->"
    monkeypatch.setattr(table, "DOCUMENT", tmp_path / "page.md")
    table.DOCUMENT.write_text(f"{begin}\nstale\n{table.END}\n")
    results = {"machine": {"cpu": "a CPU", "cores": 2, "isa": ["avx2"], "time": "today", "load": 1}}
    figures.document_latency(results | {"latency": measured}, "latency")
    text = table.DOCUMENT.read_text()
    assert "stale" not in text and "| some | 2000 | 4000 | 5000 | 1000 | 3000 | 0.50x | 2.00x behind | 0.50x | - |" in text
    table.DOCUMENT.write_text(f"<!-- Written by bench/run --document, AVX2 -->\nstale\n{table.END}\n")
    figures.document_goals(results | {"goals": goals.rows})
    assert "| latency, worst of models, 1 thread | 2.00 | <= 1 | of the best peer | missed |" in table.DOCUMENT.read_text()


def test_peers_that_are_not_installed(tiny, monkeypatch):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda package: None)
    with pytest.raises(peers.Unavailable, match="package openvino is not installed"):
        peers.command("openvino", "mlp", True, 1)


def test_kernels(tiny, monkeypatch, capsys):
    """Every kind of limit is a rate or a time beside which a kernel's own can be put."""
    some = ("32x32x32, 64 times", "softmax, 256x256", "gelu, 1024x1024")
    monkeypatch.setattr(kernels, "KERNELS", {name: kernels.KERNELS[name] for name in some})
    results, goals = figures_kernels.measure(argparse.Namespace(seconds=0.05)), measure.Goals()
    assert all({"kiln", "kiln-reuse", "eager"} == set(row["seconds"]) and row["limit"] > 0 for row in results.values())
    figures_kernels.show(results, goals)
    assert [row["figure"].rpartition(": ")[2] for row in goals.rows] == list(some) and all(row["value"] > 0 for row in goals.rows)
    capsys.readouterr()
    row = {"seconds": {"kiln-reuse": 2.0}, "limit": 1.0}
    assert [figures_kernels.figure(name, row) for name in some] == [0.5, 2.0, 2.0]
    assert figures_kernels.figure(some[0], {"seconds": {}, "limit": 1.0}) is None


def test_autotune(tiny, tmp_path):
    """A full cache gives the same file again, and no others are left."""
    tuned, _ = peers.tuned(tiny, 2, tmp_path)
    before = tuned.read_bytes()
    assert peers.tuned(tiny, 2, tmp_path)[0] == tuned and tuned.read_bytes() == before
    plain, _ = peers.tuned(tiny, 2)
    assert sorted(path.name for path in plain.parent.iterdir()) == ["plain.so", "tuned.so"]


def test_autotune_table(tmp_path, monkeypatch):
    """Between its marks a document gets the table of a run, with another compiler's models beside it where there are any."""
    row = {"without": 0.5, "cold": 9.0, "warm": 0.75, "same": False, "run": {"before": 3e-3, "plain": 2.2e-3, "tuned": 2e-3}}
    same = row | {"same": True, "run": {"plain": 1e-3, "tuned": 1.1e-3}}
    machine = {"cpu": "a CPU", "cores": 2, "isa": ["avx2", "avx512f"], "time": "today", "load": 1}
    monkeypatch.setattr(table, "DOCUMENT", tmp_path / "page.md")
    begin, end = "<!-- Written by bench/run --only autotune --document -->", table.END
    table.DOCUMENT.write_text(f"before\n{begin}\nstale\n{end}\nbehind\n")
    for _ in range(2):
        measure.document_table({"machine": machine, "autotune": {"one": row, "two": same}}, "autotune")
    text = table.DOCUMENT.read_text()
    assert (
        text.startswith(f"before\n{begin}\n\na CPU, 2 cores, avx2 avx512f, today, load 1 ")
        and text.endswith(f"{end}\nbehind\n")
        and "stale" not in text
    )
    cells = {
        line.split(" | ")[0].strip("| "): [cell.strip(" |") for cell in line.split(" | ")[1:]] for line in text.splitlines() if "|" in line
    }
    assert [cells["one"][i] for i in (3, 4, 6)] == ["1.10x", "1.50x", "9.00"] and cells["two"][3:5] == ["same bytes", "-"], cells
    assert cells["geometric mean"][3:5] == ["1.05x", "1.50x"]
    measure.document_table({"machine": machine | {"isa": ["avx2"]}, "autotune": {"one": row}}, "autotune")
    assert table.DOCUMENT.read_text().endswith(text.removeprefix("before\n")) and ", AVX2 -->\n\na CPU" in table.DOCUMENT.read_text()
    table.DOCUMENT.write_text("nothing")
    with pytest.raises(ValueError, match="page.md has no section that begins with .* autotune "):
        measure.document_table({"machine": machine, "autotune": {"one": row}}, "autotune")


def test_prediction(tiny, monkeypatch, capsys):
    """Every kernel that a run launches has a time by the planner, whose clock is this machine's."""
    options = argparse.Namespace(models=["mlp"], tiny=True)
    results = figures_prediction.measure(options)
    assert len(results["mlp"]) == 3 and all(0 < predicted < 1 and 0 < measured < 1 for measured, predicted in results["mlp"].values())
    goals = measure.Goals()
    figures_prediction.show({"mlp": {"a": (2.0, 1.0), "b": (1.0, 1.25), "c": (1.0, None)}}, goals)
    assert goals.rows[0]["value"] == 0.375
    assert re.search(r"mlp +3 +1 +0.375 +0.333 +0.75x", capsys.readouterr().out)


def test_scale(tiny, tmp_path, monkeypatch):
    """A recurrence that is unrolled without PyTorch is the one that PyTorch unrolls, and the table has a row for it."""
    archive, nodes = figures_scale.export("recurrence", 4)
    longer, more = figures_scale.export("recurrence", 6)
    assert (nodes, more) == (47, 67) and figures_scale._unroll(archive, 4, 6, tmp_path / "model.pt2") == more
    programs = [peers.run_compiler([path, "--emit=wrapper", "-o", "-"]) for path in (longer, tmp_path / "model.pt2")]
    texts = [re.sub(r'"add_\w+"|wrapper.comment.*', "", program) for program in programs]
    assert texts[0] == texts[1]
    results = {name: figures_scale._measure(archive, nodes, runs=1) for name in ("recurrence 4", "again")}
    row = results["again"]
    assert row["launches"] >= 8 > row["kernels"] > 1 and row["bytes"] > row["weights"] == 4 * 2 * 65 * 64 and row["cpu"] > 0
    headings, rows = figures_scale.tabulate(results)
    assert [name for name, *_ in rows] == list(results) and all(len(row) == len(headings) for row in rows)
