"""Schedules that are measured: what is kept, what bad files do, and results from another machine."""

import hashlib
import json
import os
import re
import runpy
import shutil
import struct
import subprocess

import numpy
import pytest
import torch

import kiln
from conftest import ROOT, TARGET, Mlp, assert_user_error, leaves, run_tool, unseal_results

OPTIONS = ["--autotune-threads=2", "--autotune-candidates=4", "--autotune-seconds=2"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A product and a map that candidates are found for: the module, its inputs and archive."""
    torch.manual_seed(0)
    module, inputs = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.LayerNorm(128)).eval(), (torch.randn(200, 64),)
    archive = tmp_path_factory.mktemp("autotune") / "model.pt2"
    torch.export.save(torch.export.export(module, inputs), archive)
    return module, inputs, archive


@pytest.mark.skipif(bool(TARGET), reason="compares files of models for CPUs")
def test_entries(tmp_path):
    """The kernels of all entries are timed; weights keep the layout that they have in common."""
    module, n = Mlp((784, 256, 10)).eval(), torch.export.Dim("n", min=2, max=64)
    for name, rows, shapes in (("many", 32, ({0: n},)), ("one", 1, None)):
        torch.export.save(torch.export.export(module, (torch.randn(rows, 784),), dynamic_shapes=shapes), tmp_path / f"{name}.pt2")
    named = [f"--entry={name}={tmp_path / name}.pt2" for name in ("many", "one")]
    sizes = []
    for folder, options in (("plain", []), ("tuned", ["--autotune", *OPTIONS, f"--autotune-cache={tmp_path / 'cache'}"])):
        process = run_tool("aot-compile", *named, *options, "-o", tmp_path / f"{folder}.so")
        assert process.returncode == 0 and not process.stderr, process.stderr
        sizes.append((tmp_path / f"{folder}.so").stat().st_size)
    assert list((tmp_path / "cache").iterdir()) and sizes[1] <= 1.1 * sizes[0], sizes
    session = kiln.load(tmp_path / "tuned.so").session()
    for name, rows in (("many", 2), ("many", 64), ("one", 1)):
        x = torch.randn(rows, 784)
        torch.testing.assert_close(session.entry(name)(x), module(x), rtol=1e-4, atol=1e-5)


def tune_into(folder, archive, *options, name="model.so"):
    output = folder / name
    given = {option.split("=")[0] for option in options}
    options = [*(option for option in OPTIONS if option.split("=")[0] not in given), *options]
    return run_tool("aot-compile", archive, "-o", output, f"--autotune-cache={folder / 'cache'}", *options), output


@pytest.fixture(scope="module")
def tuned(exported, tmp_path_factory):
    """A folder with a model that has been tuned, and the cache that this left."""
    folder = tmp_path_factory.mktemp("tuned")
    process, _ = tune_into(folder, exported[2], "--autotune")
    assert process.returncode == 0 and not process.stderr, process.stderr
    return folder


@pytest.fixture(scope="module")
def bundle(exported, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    process, path = tune_into(folder, exported[2], "--autotune=offline", "--cpu=x86-64-v3", name="model.tune")
    assert process.returncode == 0 and not process.stderr, process.stderr
    return path


@pytest.fixture
def cache(tuned, tmp_path):
    """A copy of the cache, for `tune`."""
    return shutil.copytree(tuned / "cache", tmp_path / "cache", copy_function=shutil.copy2)


@pytest.fixture
def tune(exported, tmp_path):
    """tune(*options, name="model.so") -> the process and the path of the output."""

    def run(*options, name="model.so", archive=exported[2]):
        return tune_into(tmp_path, archive, *options, name=name)

    return run


def check(exported, path):
    module, inputs, _ = exported
    torch.testing.assert_close(kiln.load(path, threads=2)(*inputs), module(*inputs).detach(), rtol=1e-4, atol=1e-4)


def seal(text):
    return hashlib.sha256(text.encode()).hexdigest() + "\n" + text


def kernels(cache):
    """The entries of kernels in a cache; those of layouts have names that say so."""
    return sorted(path for path in cache.iterdir() if not path.name.startswith("layout"))


def test_same_cache_same_bytes(exported, tuned, cache, tune):
    check(exported, tuned / "model.so")
    entries = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    assert len(kernels(cache)) == 2 and all(
        unseal_results(path)["seconds"] > 0 and unseal_results(path)["tuned"] for path in kernels(cache)
    )
    process, again = tune("--autotune")
    assert process.returncode == 0 and again.read_bytes() == (tuned / "model.so").read_bytes()
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == entries


def test_several_compilers_share_a_cache(exported, tmp_path):
    command = [os.environ["KILN_COMPILER"], exported[2], "--autotune", *OPTIONS, f"--autotune-cache={tmp_path / 'cache'}"]
    processes = [subprocess.Popen([*command, "-o", tmp_path / f"{i}.so"], stderr=subprocess.PIPE, text=True) for i in range(2)]
    assert all(process.communicate()[1] == "" and process.returncode == 0 for process in processes)
    assert all(unseal_results(path)["seconds"] > 0 for path in kernels(tmp_path / "cache"))  # no temporary files either
    check(exported, tmp_path / "1.so")


def test_schedules_of_the_cache_are_taken(tune, cache):
    """And seen in the IR and in remarks; one that the kernel cannot be run with is measured again."""
    text = tune("--emit=wrapper", "--autotune", name="model.mlir")[1].read_text()
    (schedule,) = re.findall(r"#cpu\.contract<[^>]*>", text)
    other = re.sub(r"(, unroll = \d+)?>$", ", unroll = 3>", schedule)
    for path in kernels(cache):
        path.write_text(seal(json.dumps(unseal_results(path) | {"schedule": other, "ratio": 0.5, "tuned": True, "verified": True})))
    process, output = tune("--emit=wrapper", "--autotune", "--remarks", "--remarks-filter=autotune", name="model.mlir")
    assert process.returncode == 0 and other in output.read_text()
    lines = process.stderr.splitlines()
    assert any("tuned: takes 0.50 of the time with #cpu.contract" in line and other in line for line in lines), lines
    assert sum("what the cache says of it is ignored" in line for line in lines) == 1, lines
    schedules = [unseal_results(path)["schedule"] for path in kernels(cache)]
    assert schedules.count(other) == 1


def damage(path, how):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes({"empty": b"", "cut": path.read_bytes()[:-9], "bit": bytes(data), "other": seal('{"seconds": "many"}').encode()}[how])


def tune_with_damaged(exported, tune, paths):
    """Each of the damaged entries is named by a warning, and replaced."""
    process, output = tune("--autotune")
    assert process.returncode == 0
    lines = sorted(process.stderr.splitlines())
    assert len(lines) == len(paths)
    for line, path in zip(lines, paths):
        assert line.startswith(f"aot-compile: warning: --autotune: ignored the damaged entry '{path}'"), lines
    check(exported, output)
    assert not tune("--autotune")[0].stderr


@pytest.mark.parametrize("damages", [("empty", "cut"), ("bit", "other")])
def test_damaged_kernels(exported, tune, cache, damages):
    entries = kernels(cache)
    for path, how in zip(entries, damages, strict=True):
        damage(path, how)
    tune_with_damaged(exported, tune, entries)
    assert kernels(cache) == entries and all(unseal_results(path)["seconds"] > 0 for path in entries)


@pytest.mark.parametrize("how", ["empty", "bit"])
def test_damaged_layout(exported, tune, cache, how):
    """Measured anew, another layout may win: other kernels are measured for it then."""
    (entry,) = cache.glob("layout-*")
    damage(entry, how)
    tune_with_damaged(exported, tune, [entry])
    assert unseal_results(entry)


def test_cache_that_cannot_be_written(exported, tune, tmp_path):
    (tmp_path / "cache").write_text("a file")
    process, output = tune("--autotune")
    assert process.returncode == 0 and process.stderr.count("\n") == 1 and "cannot write the cache" in process.stderr
    check(exported, output)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--autotune=missing.results"], "cannot read 'missing.results'"),
        (["--autotune-threads=2"], "--autotune-threads: there is no --autotune"),
        (["--autotune", "--autotune-threads=many"], "expected a number"),
        (["--autotune", "--autotune-size=s0"], "expected NAME=VALUE"),
        (["--autotune", "--autotune-seconds=-1"], "expected a time"),
        (["--autotune", "--autotune-candidates=0"], "expected a number"),
        (["--autotune=offline", "--emit=llvm"], "not with --emit"),
        (["--autotune", "--cpu=sapphirerapids"], "this machine does not run code for sapphirerapids"),
    ],
)
def test_bad_options(exported, tmp_path, options, message):
    if "sapphirerapids" in message and "amx_tile" in open("/proc/cpuinfo").read():
        pytest.skip("this machine does")
    process = run_tool("aot-compile", exported[2], "-o", tmp_path / "out.so", *options, cwd=tmp_path)
    assert_user_error(process, message)
    assert os.listdir(tmp_path) == []


# ---- Another machine


def test_offline(exported, bundle, tune, tmp_path):
    results = tmp_path / "model.results"
    measured = run_tool("aot-tune", bundle, "-o", results, "--seconds=0.1", "--threads=1")
    assert measured.returncode == 0 and not measured.stderr, measured.stderr
    kernels = unseal_results(results)["kernels"]
    assert kernels and all(kernel["seconds"] > 0 and len(kernel["candidates"]) > 1 for kernel in kernels)
    assert not [outcome for kernel in kernels for outcome in kernel["candidates"] if "failure" in outcome]

    # The best one is taken, whichever that is.
    text = unseal_results(results)
    for kernel in text["kernels"]:
        kernel["best"] = 1
    results.write_text(seal(json.dumps(text)))
    process, output = tune(f"--autotune={results}", "--cpu=x86-64-v3", "--remarks", "--remarks-filter=autotune")
    assert process.returncode == 0 and process.stderr.count(": tuned on ") == len(kernels), process.stderr
    check(exported, output)
    again = tune(f"--autotune={results}", "--cpu=x86-64-v3", name="again.so")[1]
    assert again.read_bytes() == output.read_bytes()

    before = sorted(os.listdir(tmp_path))

    def refused(*parts, options=("--cpu=x86-64-v3",), contents=None, archive=exported[2]):
        (tmp_path / "other.results").write_bytes((seal(json.dumps(text)) if contents is None else contents).encode())
        assert_user_error(tune(f"--autotune={tmp_path / 'other.results'}", *options, name="out.so", archive=archive)[0], *parts)
        assert sorted(os.listdir(tmp_path)) == sorted([*before, "other.results"])

    refused("is for the target cpu x86-64-v3, not for cpu x86-64-v4", options=["--cpu=x86-64-v4"])
    refused("is for the target cpu x86-64-v3, not for cpu x86-64-v3 l2=", options=["--cpu=x86-64-v3", "--cpu-tune=l2=524288"])
    refused("or they are damaged", contents="")
    refused("or they are damaged", contents=results.read_text()[:-20])
    refused("no such candidate", contents=seal(json.dumps(text | {"kernels": [text["kernels"][0] | {"best": 99}]})))
    refused("it is of another version", contents=seal(json.dumps(text | {"format": "kiln tuning results 0"})))
    refused("not of kiln", contents=seal(json.dumps(text | {"compiler": "kiln 0.0.0"})))
    small = tmp_path.parent / "other.pt2"
    torch.export.save(torch.export.export(Mlp().eval(), (torch.randn(3, 6),)), small)
    refused("is of another model or other sizes", archive=small)
    wrong = json.loads(json.dumps(text))
    wrong["kernels"][0]["candidates"][1]["schedule"] = "#cpu.attention_by_query<lanes = 16, block_keys = 512>"
    refused("cannot be run with", contents=seal(json.dumps(wrong)))
    wrong["kernels"][0]["candidates"][1]["schedule"] = "nonsense"
    refused("cannot be run with", contents=seal(json.dumps(wrong)))


@pytest.mark.parametrize("damage", ["empty", "cut", "bit", "model"])
def test_damaged_bundle(small_mlp, bundle, tmp_path, damage):
    data, path = bytearray(bundle.read_bytes()), tmp_path / "damaged.tune"
    data[len(data) // 3] ^= 4
    path.write_bytes({"empty": b"", "cut": data[:5000], "bit": data, "model": small_mlp.path.read_bytes()}[damage])
    process = run_tool("aot-tune", path, cwd=tmp_path)
    assert process.returncode == 1 and process.stderr.count("\n") == 1 and str(path) in process.stderr, process.stderr
    assert os.listdir(tmp_path) == [path.name]


def test_bundle_for_another_machine(exported, tune, tmp_path):
    if "amx_tile" in open("/proc/cpuinfo").read():
        pytest.skip("this machine runs it")
    process, path = tune("--autotune=offline", "--cpu=sapphirerapids", name="other.tune")
    assert process.returncode == 0, process.stderr
    before = sorted(os.listdir(tmp_path))
    process = run_tool("aot-tune", path, cwd=tmp_path)
    assert process.returncode == 1 and process.stderr.count("\n") == 1, process.stderr
    assert f"'{path}' is for cpu sapphirerapids, and this machine has no " in process.stderr
    assert sorted(os.listdir(tmp_path)) == before


def test_aot_tune_command_line(tmp_path):
    for options in ([], ["missing"], ["a", "b"], ["--nonsense"], ["missing", "--threads=x"], ["missing", "--against=x", "--size=n"]):
        process = run_tool("aot-tune", *options, cwd=tmp_path)
        assert process.returncode == 1 and process.stderr.count("\n") == 1 and process.stderr.startswith("aot-tune: error: ")
    assert os.listdir(tmp_path) == []
    assert run_tool("aot-tune", "--version").stdout.startswith("aot-tune (Kiln)")


# ---- GPUs: the emulator has the role of one

GPU = ("--target=cuda", "--gpu-arch=emulator")


@pytest.fixture(scope="module")
def for_gpu(tmp_path_factory):
    """A product that Hopper has a variant for, a row of sums and a transposed copy."""

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(64, 40).to(torch.bfloat16)

        def forward(self, x):
            y = self.linear(x).float()
            weights = y.softmax(-1)
            return weights, weights.T.contiguous()

    torch.manual_seed(0)
    module, inputs = Module().eval(), (torch.randn(72, 64).to(torch.bfloat16),)
    archive = tmp_path_factory.mktemp("gpu") / "model.pt2"
    torch.export.save(torch.export.export(module, inputs), archive)
    return module, inputs, archive


def check_on_gpu(for_gpu, path):
    module, inputs, _ = for_gpu
    for got, expected in zip(kiln.load(path)(*inputs), module(*inputs)):
        torch.testing.assert_close(got, expected.detach(), rtol=2e-2, atol=2e-2)


def test_offline_for_gpu(for_gpu, tune, tmp_path):
    """A bundle made without a GPU is run on one, and the results decide there."""
    archive, results = for_gpu[2], tmp_path / "model.results"
    none = {"KILN_CUDA_DRIVER": str(tmp_path / "none")}
    process, bundle = tune("--autotune=offline", *GPU, "--autotune-candidates=3", name="model.tune", archive=archive)
    assert process.returncode == 0 and not process.stderr, process.stderr
    measured = run_tool("aot-tune", bundle, "-o", results, "--seconds=0.01")
    assert measured.returncode == 0 and not measured.stderr, measured.stderr
    text = unseal_results(results)
    assert text["device"] == "emulated GPU 0" and text["target"].startswith("cuda sm_90 on ")
    kernels = text["kernels"]
    assert len(kernels) >= 3 and all(kernel["seconds"] > 0 and len(kernel["candidates"]) > 1 for kernel in kernels), kernels
    assert not [outcome for kernel in kernels for outcome in kernel["candidates"] if "failure" in outcome]
    assert any("#cuda.wgmma<" in kernel["candidates"][1]["schedule"] for kernel in kernels)
    for kernel in kernels:
        kernel["best"] = 1
    results.write_text(seal(json.dumps(text)))
    command = [f"--autotune={results}", *GPU, "--remarks", "--remarks-filter=autotune"]
    process, output = tune(*command, archive=archive)
    assert process.returncode == 0 and process.stderr.count("tuned on emulated GPU 0: ") == len(kernels), process.stderr
    assert "variant #cuda.wgmma<" in process.stderr
    check_on_gpu(for_gpu, output)
    assert tune(*command, name="again.so", archive=archive)[1].read_bytes() == output.read_bytes()

    before = sorted(os.listdir(tmp_path))
    process = run_tool("aot-tune", bundle, env={"KILN_EMULATOR_CAPABILITY": "80"}, cwd=tmp_path)
    assert process.returncode == 1 and process.stderr.count("\n") == 1
    assert f"'{bundle}' is for cuda sm_90 on " in process.stderr and ", and this machine's emulated GPU 0 is an sm_80" in process.stderr
    process = run_tool("aot-tune", bundle, env=none, cwd=tmp_path)
    assert process.returncode == 1 and process.stderr.count("\n") == 1 and "not for this machine: no NVIDIA driver" in process.stderr
    assert_user_error(
        tune(f"--autotune={results}", *GPU, "--gpu-tune=sm_80", name="out.so", archive=archive)[0],
        "is for the target cuda sm_90 on ", ", not for cuda sm_80 on ",
    )  # fmt: skip
    for damage in (b"", results.read_bytes()[:-30]):
        (tmp_path / "model.results").write_bytes(damage)
        assert_user_error(tune(f"--autotune={results}", *GPU, name="out.so", archive=archive)[0], "or they are damaged")
    assert sorted(os.listdir(tmp_path)) == before


def test_candidates_for_gpu(for_gpu, tune, tmp_path):
    """Verifiers of attributes refuse tiles that are none: warps have whole instructions."""
    command = ["--autotune=offline", "--target=cuda", "--gpu-arch=sm_80", "--gpu-tune=sm_80", "--ptxas=", "-O0"]
    process, bundle = tune(*command, "--autotune-candidates=40", name="model.tune", archive=for_gpu[2])
    assert process.returncode == 0, process.stderr
    data = bundle.read_bytes()
    manifest = json.loads(data[-80 - struct.unpack("<Q", data[-16:-8])[0] : -80])
    (kernel,) = [kernel for kernel in manifest["kernels"] if "#cuda.mma<" in kernel["candidates"][0]["schedule"]]
    assert len(kernel["candidates"]) > 10
    for candidate in kernel["candidates"]:
        m, n, rows, columns = map(int, re.search(r"m = (\d+), n = (\d+), .*warp = \[(\d+), (\d+)\]", candidate["schedule"]).groups())
        assert m % rows == n % columns == rows % 16 == columns % 8 == 0, candidate


def test_cache_for_gpu(for_gpu, tune, tmp_path):
    """Kernels are tuned on the GPU of this machine, known by its model the next time, and again when that is damaged."""
    archive, few = for_gpu[2], ["--autotune", "--autotune-candidates=2", "--autotune-seconds=0.1", *GPU]
    process, output = tune(*few, archive=archive)
    assert process.returncode == 0 and not process.stderr, process.stderr
    check_on_gpu(for_gpu, output)
    entries = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    assert len(entries) >= 3 and all(unseal_results(path)["seconds"] > 0 for path in entries)
    assert tune(*few, name="again.so", archive=archive)[1].read_bytes() == output.read_bytes()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()} == entries
    damaged = min(entries)
    damaged.write_bytes(damaged.read_bytes()[:-5])
    process, output = tune(*few, archive=archive)
    assert process.returncode == 0 and process.stderr.count("\n") == 1, process.stderr
    assert f"ignored the damaged entry '{damaged}'" in process.stderr and unseal_results(damaged)["seconds"] > 0
    check_on_gpu(for_gpu, output)


def test_no_gpu_to_tune_on(for_gpu, tmp_path):
    for environment, message in (
        ({"KILN_CUDA_DRIVER": str(tmp_path / "none")}, "no NVIDIA driver"),
        ({"KILN_EMULATOR_CAPABILITY": "80"}, "kernels are planned for sm_90, and this machine's emulated GPU 0 is an sm_80"),
    ):
        command = [for_gpu[2], "--autotune", *GPU, "-o", tmp_path / "out.so", f"--autotune-cache={tmp_path / 'cache'}"]
        assert_user_error(run_tool("aot-compile", *command, env=environment), "--autotune: ", message)
    assert os.listdir(tmp_path) == []
    process = run_tool("aot-tune", "--gpu")
    assert process.returncode == 0 and process.stdout == "sm_90 emulated GPU 0\n"


# ---- Sizes that are open


class Rows(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x).sum(1)


def test_dynamic_sizes(tune, tmp_path):
    """Kernels are timed at the sizes of the example, or those that are given."""
    archive = tmp_path / "rows.pt2"
    torch.export.save(torch.export.export(Rows(), (torch.randn(300, 96),), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}}), archive)
    process, output = tune("--autotune", archive=archive)
    assert process.returncode == 0 and not process.stderr, process.stderr
    model = kiln.load(output, threads=2)
    for rows in (2, 7, 48, 300):
        x = torch.randn(rows, 96)
        torch.testing.assert_close(model(x), Rows()(x), rtol=1e-4, atol=1e-4)
    assert len(os.listdir(tmp_path / "cache")) == 1
    (symbol,) = json.loads(run_tool("aot-compile", archive, "--emit=json", "-o", "-").stdout)["symbols"]
    process, _ = tune("--autotune", f"--autotune-size={symbol}=1000", archive=archive)
    assert process.returncode == 0 and not process.stderr
    assert len(os.listdir(tmp_path / "cache")) == 2


def test_ranges_of_sizes(tune, tmp_path):
    """Where different schedules are best at different sizes, each is a kernel, and launches choose; else there is one."""
    torch.manual_seed(0)
    archive, module = tmp_path / "linear.pt2", torch.nn.Linear(96, 64).eval()
    program = torch.export.export(module, (torch.randn(300, 96),), dynamic_shapes={"input": {0: torch.export.Dim.DYNAMIC}})
    torch.export.save(program, archive)
    (symbol,) = json.loads(run_tool("aot-compile", archive, "--emit=json", "-o", "-").stdout)["symbols"]
    sizes = f"--autotune-size={symbol}=2,50,800"
    process, output = tune("--autotune", sizes, "--emit=wrapper", name="model.mlir", archive=archive)
    assert process.returncode == 0 and not process.stderr, process.stderr
    entries = kernels(tmp_path / "cache")
    assert len(entries) == 3  # one for each size

    # As if other schedules had been found.
    plain = run_tool("aot-compile", archive, "--emit=wrapper", "-o", "-").stdout
    contract = re.sub(r"(, unroll = \d+)?>$", "", re.search(r"#cpu\.contract<[^>]*>", plain)[0])

    def fill(schedule):
        for i, path in enumerate(entries):
            path.write_text(
                seal(json.dumps(unseal_results(path) | {"schedule": schedule(i), "ratio": 0.5, "tuned": True, "verified": True}))
            )

    fill(lambda i: "")
    text = tune("--autotune", sizes, "--emit=wrapper", name="model.mlir", archive=archive)[1].read_text()
    assert "alternatives" not in text and "_from_" not in text

    fill(lambda i: f"{contract}, unroll = {2 + i}>")
    process, output = tune(
        "--autotune", sizes, "--emit=wrapper", "--remarks", "--remarks-filter=autotune", name="model.mlir", archive=archive
    )
    text = output.read_text()
    launches = [line for line in text.splitlines() if "alternatives" in line]
    assert len(launches) == 1, text
    # Half way between the values, as a ratio.
    assert re.search(
        rf"alternatives = \[@\w+_from_50, @\w+_from_800\], when = \[#sym.expr<{symbol} - 10>, #sym.expr<{symbol} - 200>\]", launches[0]
    )
    assert len(set(re.findall(r"#cpu.contract<[^>]*unroll = (\d+)", text))) == 3
    assert f"from {symbol} = 50 on: tuned: takes 0.50 of the time" in process.stderr
    loaders = {"model.so": lambda path: kiln.load(path, threads=2), "graph.py": lambda path: runpy.run_path(str(path))["load"]()}
    for name, load in loaders.items():
        process, output = tune("--autotune", sizes, *(["--emit=fx"] if name == "graph.py" else []), name=name, archive=archive)
        assert process.returncode == 0, process.stderr
        model = load(output)
        for rows in (2, 9, 10, 11, 199, 200, 201, 1000):
            x = torch.randn(rows, 96)
            (got,) = leaves(model(x))
            torch.testing.assert_close(got, module(x).detach(), rtol=1e-4, atol=1e-4)

    for options, message in (
        ([f"--autotune-size={symbol}=5,5"], "expected rising values"),
        ([f"--autotune-size={symbol}=5,"], "expected NAME=VALUE"),
        (["--autotune-size=nowhere=5"], "the program has no size of this name"),
    ):
        assert_user_error(tune("--autotune", *options, name="none.so", archive=archive)[0], message)
    assert not (tmp_path / "none.so").exists()


class Chosen(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x[x > 0]) * 2


def test_sizes_that_data_gives(tune, tmp_path):
    """A kernel of such sizes is named in a warning, and keeps the planner's schedule."""
    archive, x = tmp_path / "chosen.pt2", torch.randn(200)
    torch.export.save(torch.export.export(Chosen(), (x,)), archive)
    process, output = tune("--autotune", archive=archive)
    assert process.returncode == 0
    lines = process.stderr.splitlines()
    assert lines and all("keeps the schedule that was reckoned: data gives the size u0" in line for line in lines), lines
    assert all("test_autotune.py" in line and "kernel @" in line for line in lines), lines
    numpy.testing.assert_allclose(kiln.load(output)(x).numpy(), Chosen()(x).numpy(), rtol=1e-5)


# ---- Layouts of operands


class Products(torch.nn.Module):
    """A constant on the right, a product of two activations, and a convolution."""

    def __init__(self):
        super().__init__()
        self.linear, self.convolution = torch.nn.Linear(48, 96), torch.nn.Conv2d(3, 20, 3, stride=2, padding=1)

    def forward(self, x, y, image):
        return self.linear(x).relu(), (x * 2) @ y.transpose(0, 1), self.convolution(image)


LAYOUTS = {  # of x86-64-v3, whose vectors have 8 lanes: panels are planned with 16 columns, those of the convolution with 24; by whether sizes are open
    False: ["order = kept, rhs = copied, panel = 32", "lhs = copied, order = kept, rhs = copied, panel = 24", "order = kept, rhs = kept"],
    True: ["order = kept, rhs = copied", "order = swapped"],
}


@pytest.mark.parametrize("dynamic", [False, True])
def test_layouts_of_the_cache_are_taken(tune, tmp_path, dynamic):
    """Whatever layout is chosen, the results are the same, for all sizes; wrong entries are measured again."""
    torch.manual_seed(0)
    archive, module = tmp_path / "products.pt2", Products().eval()
    inputs = [torch.randn(70, 48), torch.randn(50, 48), torch.randn(1, 3, 21, 30)]
    sizes = [{0: torch.export.Dim.DYNAMIC}, None, {3: torch.export.Dim.DYNAMIC}] if dynamic else None
    torch.export.save(torch.export.export(module, tuple(inputs), dynamic_shapes=sizes), archive)
    options = [
        "--autotune",
        "--cpu=x86-64-v3",
        "--remarks",
        "--remarks-filter=autotune",
        "--autotune-seconds=0.1",
        "--autotune-candidates=1",
    ]
    process, plain = tune(*options, archive=archive, name="plain.so")
    assert process.returncode == 0, process.stderr

    def fill(kind, schedule):
        entries = list((tmp_path / "cache").glob(f"{kind}-*"))
        for path in entries:
            path.write_text(seal(json.dumps(unseal_results(path) | {"schedule": schedule, "ratio": 0.5})))
        return len(entries)

    for text in LAYOUTS[dynamic]:
        layout = f"#cpu.layout<{text}>"
        assert fill("layout", layout) == 3
        tune(*options, archive=archive)  # contracts that cannot have it are measured again, and the model is with all of them
        assert fill("layouts", "chosen")
        process, output = tune(*options, archive=archive)
        assert process.returncode == 0, process.stderr
        assert f"layout {layout}: alone it takes 0.50 of the time, the model with all such layouts 0.50" in process.stderr, process.stderr
        assert output.read_bytes() != plain.read_bytes()
        model = kiln.load(output, threads=2)
        for rows, width in ((70, 30), (2, 7), (131, 64)) if dynamic else ((70, 30),):
            given = [torch.randn(rows, 48), inputs[1], torch.randn(1, 3, 21, width)]
            for got, expected in zip(model(*given), module(*given)):
                torch.testing.assert_close(got, expected.detach(), rtol=1e-4, atol=1e-4)


def test_layouts_are_measured(tune, tmp_path):
    """What is timed of a product alone is that product: each layout computes the same."""
    torch.manual_seed(0)
    archive, module = tmp_path / "products.pt2", Products().eval()
    inputs = torch.randn(70, 48), torch.randn(50, 48), torch.randn(1, 3, 21, 30)
    torch.export.save(torch.export.export(module, inputs), archive)
    options = ["--remarks", "--remarks-filter=autotune", "--autotune-seconds=12", "--autotune-candidates=1"]
    process, output = tune("--autotune", *options, archive=archive)
    assert process.returncode == 0 and "something else" not in process.stderr, process.stderr
    entries = [unseal_results(path) for path in (tmp_path / "cache").glob("layout-*")]
    assert len(entries) == 3 and any(entry["seconds"] > 0 and entry["ratio"] != 1 for entry in entries), entries
    for got, expected in zip(kiln.load(output, threads=2)(*inputs), module(*inputs)):
        torch.testing.assert_close(got, expected.detach(), rtol=1e-4, atol=1e-4)


# ---- Own code and that of external generators

FUNCTIONS = r"""
#include "kiln-c/custom_op.h"
#include <time.h>

/* x + add, after so many microseconds of this thread's. */
static int32_t copy(const DLTensor *x, const DLTensor *y, float add, long microseconds) {
  struct timespec from, to;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  int64_t n = 1;
  for (int i = 0; i < x->ndim; ++i)
    n *= x->shape[i];
  for (int64_t i = 0; i < n; ++i)
    ((float *)y->data)[i] = ((const float *)x->data)[i] + add;
  do
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
  while ((to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000 < microseconds);
  return 0;
}
#define FUNCTION(name, add, microseconds)                                                           \
  int32_t name(const DLTensor *const *inputs, size_t num_inputs, const DLTensor *const *outputs,    \
               size_t num_outputs, const kiln_custom_op_context *context) {                         \
    (void)num_inputs, (void)num_outputs, (void)context;                                             \
    return copy(inputs[0], outputs[0], add, microseconds);                                          \
  }                                                                                                 \
  KILN_SIGNATURE(name, "(f32[n, m]) -> f32[n, m]");
FUNCTION(fast, 0, 0)
FUNCTION(slow, 0, 20000)
FUNCTION(wrong, 1, 0)
"""
TYPE = "tensor<?x?xf32, #sym.shape<[n, m]>>"


def declaration(name, forward, backward):
    """Two operators that undo each other, which a C function then computes as a copy."""
    return f"""func.func private @{name}(%x: {TYPE}) -> {TYPE} attributes {{kernel.extern = {{symbol = "{name}"}}}} {{
  %0 = torch.call "aten.{forward}.default"(%x) args = [#sym.arg<0>] {{node = ""}} : ({TYPE}) -> {TYPE}
  %1 = torch.call "aten.{backward}.default"(%0) args = [#sym.arg<0>] {{node = ""}} : ({TYPE}) -> {TYPE}
  return %1 : {TYPE}
}}
"""


class Copies(torch.nn.Module):
    def forward(self, x):
        return x.tan().atan(), x.sinh().asinh(), x.exp().log()


@pytest.mark.parametrize("dynamic", [False, True])
def test_external_generators_compete(tmp_path, tune, dynamic):
    """The faster of own code and the generator's computes a subgraph, and is known the next time."""
    (tmp_path / "functions.c").write_text(FUNCTIONS)
    functions = tmp_path / "functions.o"
    subprocess.run(["cc", "-O1", "-fPIC", f"-I{ROOT / 'include'}", "-c", tmp_path / "functions.c", "-o", functions], check=True)
    declarations = tmp_path / "declarations.mlir"
    declarations.write_text(declaration("fast", "tan", "atan") + declaration("slow", "sinh", "asinh") + declaration("wrong", "exp", "log"))
    archive, x = tmp_path / "copies.pt2", torch.rand(300, 96)
    sizes = {"x": {0: torch.export.Dim.DYNAMIC}} if dynamic else None
    torch.export.save(torch.export.export(Copies(), (x,), dynamic_shapes=sizes), archive)
    options = [f"--extern=c{{declarations={declarations}}}", f"--link={functions}", "--cpu=native"]
    # One thread is timed by its own clock, which other processes do not disturb.
    command = ["--autotune", "--autotune-threads=1", "--time-passes", "--remarks", "--remarks-filter=autotune", *options]
    process, output = tune(*command, archive=archive)
    assert process.returncode == 0, process.stderr
    assert "extern c: 3 subgraphs, 3 functions, 3 compiled, 2 slower" in process.stderr, process.stderr
    lines = [line for line in process.stderr.splitlines() if "extern extern_c_" in line]
    assert len(lines) == 3
    for name, text in (
        ("fast", "is used: it takes 0."),
        ("slow", "is not used: it takes "),
        ("wrong", "is not used: it computes something else"),
    ):
        assert any(f"extern_c_{name}" in line and text in line for line in lines), lines
    model = kiln.load(output, threads=1)
    for rows in (300, 7) if dynamic else (300,):
        x = torch.rand(rows, 96) / 2
        for got, expected in zip(model(x), Copies()(x)):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    # The cache has it: the same bytes.
    process, again = tune("--autotune", "--autotune-threads=1", *options, name="again.so", archive=archive)
    assert process.returncode == 0 and again.read_bytes() == output.read_bytes()
    # Without, all of it is the generator's.
    process = run_tool("aot-compile", archive, "-o", tmp_path / "all.so", "--time-passes", *options)
    assert process.returncode == 0 and "3 compiled" in process.stderr and "slower" not in process.stderr


class SomeCopies(torch.nn.Module):
    def forward(self, x):
        return x[x > 0].reshape(-1, 1).tan().atan()


def test_external_generators_of_unknown_sizes(tmp_path, tune):
    """What cannot be measured stays with its generator, and a warning names it."""
    functions, declarations = tmp_path / "functions.o", tmp_path / "declarations.mlir"
    declarations.write_text(declaration("fast", "tan", "atan").replace("?x?xf32", "?x1xf32").replace("[n, m]", "[n, 1]"))
    (tmp_path / "functions.c").write_text(FUNCTIONS.replace("f32[n, m]", "f32[n, 1]"))
    subprocess.run(["cc", "-O1", "-fPIC", f"-I{ROOT / 'include'}", "-c", tmp_path / "functions.c", "-o", functions], check=True)
    archive, x = tmp_path / "copies.pt2", torch.rand(30)
    torch.export.save(torch.export.export(SomeCopies(), (x,)), archive)
    process, output = tune("--autotune", f"--extern=c{{declarations={declarations}}}", f"--link={functions}", archive=archive)
    assert process.returncode == 0, process.stderr
    assert (
        "@extern_c_fast" in process.stderr and "is left to its external code generator: nothing says what the size u0 is" in process.stderr
    )
    torch.testing.assert_close(kiln.load(output, threads=1)(x), SomeCopies()(x), rtol=1e-4, atol=1e-4)
