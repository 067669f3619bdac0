"""Programs of several processes on GPUs: NCCL's calls, in emulators that meet each other as their GPUs would."""

import os
import pathlib
import signal
import subprocess
import sys

import numpy
import pytest
import torch
import torch.distributed._functional_collectives
from torch import nn

import rank_models
import test_collectives
from conftest import BIN, EMULATED, EMULATOR, ROOT, run_tool
from test_collectives import Everything, expect, make_inputs, needs_mpi, to_numpy, to_torch

NCCL = EMULATOR.parent / "libnccl.so.2"
RANK = test_collectives.RANK
ops = torch.ops._c10d_functional


@pytest.fixture(autouse=True)
def library(monkeypatch, tmp_path):
    """Emulators meet in files of the test's folder."""
    monkeypatch.setenv("KILN_NCCL_LIBRARY", str(NCCL))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("KILN_COLLECTIVE_TIMEOUT", "60000")
    for name in ("RANK", "WORLD_SIZE", "NCCL_COMM_ID", "KILN_NCCL_ID_FILE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def launch(folder, ranks, command, started=None, **env):
    """Starts processes as torchrun does, and returns them when they have ended. command(rank) is what each runs."""
    known = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "WORLD_SIZE": str(ranks), "KILN_NCCL_ID_FILE": str(folder / "id"), **env}
    processes = [
        subprocess.Popen(
            list(map(str, command(rank))), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**known, "RANK": str(rank)}
        )
        for rank in (range(ranks) if started is None else started)
    ]
    try:
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [subprocess.CompletedProcess(each.args, each.returncode, *output) for each, output in zip(processes, outputs)]


def run_ranks(folder, model, inputs, **env):
    """What each process gives for its inputs. model(rank) is what it runs."""
    for rank, values in enumerate(inputs):
        numpy.savez(folder / f"in.{rank}.npz", **{str(i): to_numpy(value) for i, value in enumerate(values)})
    files = [("--inputs", folder / f"in.{rank}.npz", "--outputs", folder / f"out.{rank}.npz") for rank in range(len(inputs))]
    for process in launch(folder, len(inputs), lambda rank: (BIN / "aot-run", model(rank), *files[rank]), **env):
        assert process.returncode == 0, process.stderr[-3000:]
    results = [numpy.load(folder / f"out.{rank}.npz") for rank in range(len(inputs))]
    return [[result[str(i)] for i in range(len(result.files))] for result in results]


def compile_archive(folder, module, inputs, shapes, *options):
    return test_collectives.compile_archive(folder, module, inputs, shapes, *EMULATED, *options)[1]


@pytest.mark.parametrize("ranks", [2, 4])
def test_everything(tmp_path, ranks, emulated_calls):
    """In every dtype that NCCL has. It leaves a NaN out of minima and maxima, so there is none."""
    rows = torch.export.Dim("rows", min=0, max=3000)

    def make(rank, count):
        x, floats, others, flags = make_inputs(rank, ranks, count)
        return (
            x,
            [each.nan_to_num(0, float("inf"), -float("inf")) for each in floats],
            [each for each in others if each.dtype != torch.int16],
            flags,
        )

    model = compile_archive(tmp_path, Everything(ranks), make(0, 6), ({0: rows}, [{}] * 4, [{}] * 4, {}))
    for count in (6, 0, 3000):
        inputs = [make(rank, count) for rank in range(ranks)]
        emulated_calls("nccl")
        results = run_ranks(tmp_path, lambda rank: model, [[x, *floats, *others, flags] for x, floats, others, flags in inputs])
        calls = " ".join(emulated_calls("nccl"))
        assert all(f"{name} count" in calls for name in ("AllReduce", "ReduceScatter", "AllGather", "Broadcast", "exchange"))
        for rank, result in enumerate(results):
            expected = expect(rank, inputs)
            assert len(result) == len(expected)
            for i, (actual, wanted) in enumerate(zip(result, expected)):
                tolerance = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(wanted.dtype, 1e-6)
                torch.testing.assert_close(
                    to_torch(actual, wanted), wanted, rtol=tolerance, atol=tolerance, msg=lambda text, i=i: f"result {i}: {text}"
                )
        for i in range(2, 7):
            assert all(result[i].tobytes() == results[0][i].tobytes() for result in results)
    assert not list(tmp_path.glob("*id*")) and not list(tmp_path.glob("nccl-*"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    return test_collectives.compile_programs(tmp_path_factory, *EMULATED)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", list(rank_models.BUILD))
def test_language_model(programs, tmp_path, name, ranks):
    """As many processes give what one gives, for sizes other than export's, too; and all have the same bits."""
    module = rank_models.BUILD[name]()
    for rows in (12, 31) if ranks == 2 else (17,):
        ids = rank_models.ids(rows)
        results = run_ranks(tmp_path, lambda rank: f"{programs}/{ranks}/{name}.{rank}.so", [[ids]] * ranks)
        for result in results:
            torch.testing.assert_close(torch.from_numpy(result[0]), module(ids), rtol=1e-4, atol=1e-4)
            assert numpy.array_equal(result[0], results[0][0])


@needs_mpi
def test_started_by_mpirun(programs, tmp_path):
    """Then MPI tells the processes of each other."""
    ids = rank_models.ids(9)
    results = test_collectives.run_ranks(tmp_path, 2, f"{programs}/2/llama.{RANK}.so", [[ids]] * 2)
    for result in results:
        torch.testing.assert_close(torch.from_numpy(result[0]), rank_models.BUILD["llama"]()(ids), rtol=1e-4, atol=1e-4)


class Sum(nn.Module):
    def forward(self, x):
        return ops.wait_tensor(ops.all_reduce(x * 2, "sum", "0"))


@pytest.fixture(scope="session")
def sum_of_rows(tmp_path_factory):
    shapes = {"x": {0: torch.export.Dim("n", min=1, max=100)}}
    return compile_archive(tmp_path_factory.mktemp("sum"), Sum(), (torch.randn(4, 3),), shapes, "--ranks=2")


@pytest.fixture(scope="session")
def sum_of_four(tmp_path_factory):
    """All sizes are known."""
    return compile_archive(tmp_path_factory.mktemp("sum"), Sum(), (torch.randn(4, 3),), None, "--ranks=2")


PROLOGUE = """
import os, signal, sys, numpy, kiln
rank = int(os.environ["RANK"])
model = kiln.load(sys.argv[1])
x = numpy.full((4, 3), rank + 1, numpy.float32)

def attempt(x):
    try:
        return str(model(x)[0, 0])
    except kiln.KilnError as error:
        return f"{error.status} {error}"
"""


def run_script(folder, model, body, **options):
    script = folder / "run.py"
    script.write_text(PROLOGUE + body)
    return launch(folder, 2, lambda rank: (sys.executable, script, model), **options)


def test_sizes_differ(sum_of_rows, tmp_path):
    """Every process says which of them differ, and the next run with the same sizes works."""
    body = "print(attempt(x), attempt(numpy.ones((4 + 3 * rank, 3), numpy.float32)), attempt(x[:2]), sep='\\n')\n"
    for process in run_script(tmp_path, sum_of_rows, body):
        first, second, third = process.stdout.splitlines()
        assert first == third == "6.0", process.stdout
        assert second.startswith("2 ") and "process 0 has 12 elements, process 1 has 21 elements" in second, second
        assert "all_reduce" in second and "test_collectives_cuda.py" in second, second


def test_other_programs(sum_of_rows, tmp_path):
    """The first collective is the same, but what comes behind it is not."""
    shapes = {"x": {0: torch.export.Dim("n", min=1, max=100)}}
    other = compile_archive(tmp_path, test_collectives.SumOfSum(), (torch.randn(4, 3),), shapes, "--ranks=2")
    for process in launch(tmp_path, 2, lambda rank: (BIN / "aot-run", other if rank else sum_of_rows)):
        assert process.returncode == 1 and "at different collectives: they run other programs" in process.stderr, process.stderr


def test_lost_in_a_run(sum_of_four, tmp_path):
    """A process ends behind the first run. The other one's kernel on the GPU waits for it until the communicator is aborted."""
    body = "print(attempt(x))\nif rank: os.kill(os.getpid(), 9)\nprint(attempt(x), attempt(x), sep='\\n')\n"
    process, killed = run_script(tmp_path, sum_of_four, body, KILN_COLLECTIVE_TIMEOUT="8000")
    first, *others = process.stdout.splitlines()
    assert killed.returncode == -signal.SIGKILL and process.returncode == 0, process.stderr
    assert first == "6.0" and len(others) == 2, process.stdout
    assert all(each.startswith("5 ") and "not all processes came within 8000 ms" in each for each in others), process.stdout


def test_network_fails(sum_of_four, tmp_path):
    """What NCCL reports of a collective that is under way ends it before the time is over."""
    body = "print(attempt(x))\nif rank: os.kill(os.getpid(), 9)\nprint(attempt(x))\n"
    process, _ = run_script(tmp_path, sum_of_four, body, KILN_EMULATOR_NCCL_ERROR="2")
    first, second = process.stdout.splitlines()
    assert first == "6.0" and second.startswith("5 ") and "remote process exited or there was a network error" in second, process.stdout


def test_lost_process(sum_of_rows, tmp_path):
    """One that never comes: the other one cannot create the model, whichever it is."""
    (first,) = launch(tmp_path, 2, lambda rank: (BIN / "aot-run", sum_of_rows), started=[0], KILN_COLLECTIVE_TIMEOUT="1000")
    assert first.returncode == 1 and "not all processes came within 1000 ms" in first.stderr, first.stderr
    assert not (tmp_path / "id").exists()
    (second,) = launch(tmp_path, 2, lambda rank: (BIN / "aot-run", sum_of_rows), started=[1], KILN_COLLECTIVE_TIMEOUT="1000")
    assert second.returncode == 1 and "process 0 has not written" in second.stderr, second.stderr


CAPTURE = """
import ctypes as C
from kiln import _abi
driver = C.CDLL(os.environ["KILN_CUDA_DRIVER"])
driver.cuInit(0)
context = C.c_void_p()
driver.cuDevicePrimaryCtxRetain(C.byref(context), 0)
driver.cuCtxPushCurrent_v2(context)
stream, graph, made = C.c_void_p(), C.c_void_p(), C.c_void_p()
assert driver.cuStreamCreate(C.byref(stream), 1) == 0
memory = [C.c_ulonglong(), C.c_ulonglong()]
for each in memory:
    assert driver.cuMemAlloc_v2(C.byref(each), C.c_size_t(48)) == 0
tensors = [_abi.make_tensor(each.value, "float32", (4, 3), (3, 1), (_abi.CUDA, 0)) for each in memory]

def put(array):
    assert driver.cuMemcpyHtoD_v2(memory[0], array.ctypes.data_as(C.c_void_p), C.c_size_t(48)) == 0
    assert driver.cuStreamSynchronize(None) == 0

def get():
    array = numpy.empty((4, 3), numpy.float32)
    assert driver.cuMemcpyDtoHAsync_v2(array.ctypes.data_as(C.c_void_p), memory[1], C.c_size_t(48), stream) == 0
    assert driver.cuStreamSynchronize(stream) == 0
    return array[3, 2]

def run():
    inputs = (C.POINTER(_abi.DLTensor) * 1)(C.pointer(tensors[0]))
    output = _abi.DLManagedTensorVersioned(1, 0, None, C.CFUNCTYPE(None, _abi.ManagedPointer)(), 0, tensors[1])
    model._check(model._library.kiln_model_run(model._handle, inputs, 1, (_abi.ManagedPointer * 1)(C.pointer(output)), 1, stream))

put(x)
run()
values = [get()]
assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
run()
assert driver.cuStreamEndCapture(stream, C.byref(graph)) == 0
assert driver.cuGraphInstantiateWithFlags(C.byref(made), graph, C.c_ulonglong(0)) == 0
for factor in (10, 100):
    put(x * factor)
    assert driver.cuGraphLaunch(made, stream) == 0
    values.append(get())
run()
print(values + [get()])
"""


@pytest.mark.parametrize("model", ["sum_of_rows", "sum_of_four"])
def test_captured(model, request, tmp_path):
    """A run on the caller's stream waits for nothing but to compare sizes, and becomes a part of a graph of the caller's."""
    for process in run_script(tmp_path, request.getfixturevalue(model), CAPTURE):
        assert process.returncode == 0, process.stderr[-3000:]
        assert process.stdout.split() == ["[np.float32(6.0),", "np.float32(60.0),", "np.float32(600.0),", "np.float32(600.0)]"]


def test_communicators_of_the_host(sum_of_rows, tmp_path):
    host = tmp_path / "host"
    source = pathlib.Path(__file__).with_name("nccl_host.c")
    folders = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'runtime'}"]
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", *folders, "-o", host, source, "-ldl"], check=True)
    processes = launch(tmp_path, 4, lambda rank: (host, sum_of_rows, EMULATOR, NCCL))
    assert all(process.returncode == 0 for process in processes), [process.stderr for process in processes]
    assert [process.stdout for process in processes] == ["rank 0: 2\n", "rank 1: 2\n", "rank 2: 10\n", "rank 3: 10\n"]
    for process in launch(
        tmp_path, 4, lambda rank: (host, sum_of_rows, EMULATOR, NCCL), GROUP="4", KILN_NCCL_ID_FILE=str(tmp_path / "other")
    ):
        assert process.returncode == 1 and "a group '0' of 2 processes, and the host's communicator has 4" in process.stderr


def test_identifier_of_the_environment(sum_of_rows, tmp_path):
    """NCCL makes the same identifier everywhere if NCCL_COMM_ID says where process 0 is."""
    body = "print(attempt(x))\n"
    for process in run_script(tmp_path, sum_of_rows, body, KILN_NCCL_ID_FILE="", NCCL_COMM_ID="127.0.0.1:29501"):
        assert process.stdout == "6.0\n", process.stderr


@pytest.mark.parametrize(
    "env, problem",
    [
        ({"KILN_NCCL_LIBRARY": "/nowhere/libnccl.so"}, "cannot load NCCL: /nowhere/libnccl.so"),
        ({"KILN_EMULATOR_NCCL": "2900"}, "NCCL 2.9.0 is too old: this needs 2.14.0 or newer"),
        ({}, "nothing says which of them this is: start them by mpirun, or by torchrun with KILN_NCCL_ID_FILE"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "the processes have no way to find each other: KILN_NCCL_ID_FILE has to name a file"),
        ({"RANK": "0", "WORLD_SIZE": "3"}, "a group '0' of 2 processes, and this is process 0 of 3: start as many"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK=one: expected a number of a process"),
        ({"RANK": "0", "WORLD_SIZE": "2", "KILN_NCCL_ID_FILE": "/nowhere/id"}, "KILN_NCCL_ID_FILE: cannot write /nowhere/id"),
        ({"RANK": "1", "WORLD_SIZE": "2", "KILN_NCCL_ID_FILE": __file__}, "is not that of process 0 of these"),
    ],
)
def test_refused_environments(sum_of_rows, env, problem):
    process = run_tool("aot-run", sum_of_rows, env=env)
    assert process.returncode == 1 and problem in process.stderr, process.stderr


def test_refused_dtype(tmp_path):
    model = compile_archive(tmp_path, Sum(), (torch.ones(4, 3, dtype=torch.int16),), None, "--ranks=2")
    process = run_tool("aot-run", model, env={"RANK": "0", "WORLD_SIZE": "2", "KILN_NCCL_ID_FILE": str(tmp_path / "id")})
    assert process.returncode == 1 and "all_reduce: NCCL does not combine int16: cast it to int32 before" in process.stderr, process.stderr
    assert "test_collectives_cuda.py" in process.stderr
