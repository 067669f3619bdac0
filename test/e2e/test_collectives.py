"""Programs of several processes, under mpirun: collectives one by one, tensor-parallel language models, processes that are lost."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy
import pytest
import torch
import torch.distributed._functional_collectives
from torch import nn

import kiln
import rank_models
from conftest import BIN, ROOT, TARGET, assert_user_error, run_tool

MPIRUN = shutil.which("mpirun")
IS_OPEN_MPI = bool(MPIRUN) and "Open MPI" in subprocess.run([MPIRUN, "--version"], capture_output=True, text=True).stdout
needs_mpi = pytest.mark.skipif(not IS_OPEN_MPI, reason="no mpirun of Open MPI (openmpi-bin)")
pytestmark = pytest.mark.skipif(bool(TARGET), reason="Open MPI computes on CPUs")
RANK = "$OMPI_COMM_WORLD_RANK"
ops = torch.ops._c10d_functional


def mpirun(ranks, script, env=None, timeout=120, options=()):
    """Runs a script of the shell in several processes; RANK is which of them it is."""
    command = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *options, "-n", str(ranks), "sh", "-c", script]
    known = {**os.environ, "OMPI_MCA_rmaps_base_oversubscribe": "1", **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=known)


def compile_archive(folder, module, inputs, shapes, *options):
    """The archive and the model, which one process alone cannot load."""
    archive, path = folder / "model.pt2", folder / "model.so"
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=shapes), archive)
    process = run_tool("aot-compile", archive, "-o", path, *options)
    assert process.returncode == 0, process.stderr[-3000:]
    return archive, path


def run_ranks(folder, ranks, model, inputs, **options):
    """What each process gives for its inputs."""
    for rank, values in enumerate(inputs):
        numpy.savez(folder / f"in.{rank}.npz", **{str(i): to_numpy(value) for i, value in enumerate(values)})
    script = f"exec {BIN / 'aot-run'} {model} --threads 1 --inputs {folder}/in.{RANK}.npz --outputs {folder}/out.{RANK}.npz"
    process = mpirun(ranks, script, **options)
    assert process.returncode == 0, process.stderr[-3000:]
    results = [numpy.load(folder / f"out.{rank}.npz") for rank in range(ranks)]
    return [[result[str(i)] for i in range(len(result.files))] for result in results]


def to_numpy(tensor):
    return tensor.view(torch.uint16).numpy().view("V2") if tensor.dtype == torch.bfloat16 else tensor.numpy()


def to_torch(array, like):
    if like.dtype == torch.bfloat16:
        return torch.from_numpy(array.view(numpy.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


REDUCTIONS = ("sum", "avg", "min", "max", "product")


class Everything(nn.Module):
    """Every collective: of floats in every reduction, of the other dtypes, of data that is only moved, in place and several at once."""

    def __init__(self, ranks):
        super().__init__()
        self.ranks = ranks

    def forward(self, rows, floats, others, flags):
        n, group = self.ranks, "0"
        results = [ops.all_gather_into_tensor(rows, n, group), ops.broadcast(rows, n - 1, group)]
        for x in floats:
            results += [ops.all_reduce(x, name, group) for name in REDUCTIONS]
            results += [ops.reduce_scatter_tensor(x, name, n, group) for name in ("avg", "max")]
        for x in others:
            results += [ops.all_reduce(x, name, group) for name in ("sum", "min", "max", "product")]
            results += [ops.reduce_scatter_tensor(x, "sum", n, group), ops.all_gather_into_tensor(x, n, group)]
        results += [ops.all_reduce(flags, name, group) for name in ("sum", "min", "max", "product")]
        results += ops.all_reduce_coalesced([floats[0], others[0]], "sum", group)
        results += [ops.all_to_all_single(floats[0], [4] * n, [4] * n, group)]
        results += [ops.all_gather_into_tensor(torch.complex(floats[0], -floats[0]), n, group)]
        results = [ops.wait_tensor(result) for result in results]
        own = floats[0].clone()
        ops.all_reduce_(own, "sum", group)
        ops.broadcast_(own, 0, group)
        # A transposed input, and a result that is a part of another tensor.
        turned = ops.all_reduce(rows.t() + 1, "sum", group)
        results += ops.reduce_scatter_tensor_coalesced([floats[0], others[0]], "sum", n, group)
        results += ops.all_gather_into_tensor_coalesced([floats[0], others[0]], n, group)
        return [*results, own, turned, torch.cat([ops.all_reduce(rows, "max", group), rows], dim=1)]


def expect(rank, inputs):
    """The same of all processes' inputs, by PyTorch in one process."""
    n = len(inputs)

    def combine(tensors, name):
        stacked = torch.stack(tensors)
        if stacked.dtype == torch.bool:
            return stacked.any(0) if name in ("sum", "max") else stacked.all(0)
        if name in ("min", "max"):
            return stacked.amin(0) if name == "min" else stacked.amax(0)
        wide = stacked.double() if stacked.is_floating_point() else stacked
        whole = wide.prod(0) if name == "product" else wide.sum(0)
        return (whole / n if name == "avg" else whole).to(stacked.dtype)

    def of(pick, name):
        return combine([pick(values) for values in inputs], name)

    def part(tensor):
        return tensor.chunk(n)[rank]

    rows, floats, others, flags = inputs[rank]
    results = [torch.cat([values[0] for values in inputs]), inputs[-1][0]]
    for i in range(len(floats)):
        results += [of(lambda v, i=i: v[1][i], name) for name in REDUCTIONS]
        results += [part(of(lambda v, i=i: v[1][i], name)) for name in ("avg", "max")]
    for i in range(len(others)):
        results += [of(lambda v, i=i: v[2][i], name) for name in ("sum", "min", "max", "product")]
        results += [part(of(lambda v, i=i: v[2][i], "sum")), torch.cat([values[2][i] for values in inputs])]
    results += [of(lambda v: v[3], name) for name in ("sum", "min", "max", "product")]
    results += [of(lambda v: v[1][0], "sum"), of(lambda v: v[2][0], "sum")]
    results += [torch.cat([values[1][0][4 * rank : 4 * rank + 4] for values in inputs])]
    results += [torch.cat([torch.complex(values[1][0], -values[1][0]) for values in inputs])]
    results += [part(of(lambda v: v[1][0], "sum")), part(of(lambda v: v[2][0], "sum"))]
    results += [torch.cat([values[1][0] for values in inputs]), torch.cat([values[2][0] for values in inputs])]
    results += [of(lambda v: v[1][0], "sum"), of(lambda v: v[0].t() + 1, "sum")]
    return [*results, torch.cat([of(lambda v: v[0], "max"), rows], dim=1)]


def make_inputs(rank, ranks, rows):
    torch.manual_seed(rank)
    floats = [torch.randn(4 * ranks, 3).to(dtype) for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)]
    for x in floats:  # what is special in one process, and what is too small or too large for f16
        x[rank, 0], x[4, 1], x[5, 2] = float("nan"), float("inf"), 6e-8 * (rank + 1)
    others = [
        torch.randint(0 if dtype == torch.uint8 else -100, 100, (2 * ranks, 5)).to(dtype)
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    ]
    return torch.randn(rows, 2), floats, others, torch.rand(3, 4) > 0.5


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 4])
def test_everything(tmp_path, ranks):
    rows = torch.export.Dim("rows", min=0, max=300000)
    shapes = ({0: rows}, [{}] * 4, [{}] * 5, {})
    _, model = compile_archive(tmp_path, Everything(ranks), make_inputs(0, ranks, 6), shapes)
    for count in (6, 0, 1, 300000):  # the last one in pieces
        inputs = [make_inputs(rank, ranks, count) for rank in range(ranks)]
        flat = [[values[0], *values[1], *values[2], values[3]] for values in inputs]
        results = run_ranks(tmp_path, ranks, model, flat)
        for rank, result in enumerate(results):
            expected = expect(rank, inputs)
            assert len(result) == len(expected)
            for i, (actual, wanted) in enumerate(zip(result, expected)):
                tolerance = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(wanted.dtype, 1e-6)
                tensor = to_torch(actual, wanted)
                torch.testing.assert_close(
                    tensor, wanted, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda text, i=i: f"result {i}: {text}"
                )
        # All of them have the same bits where they have the same values.
        for i in range(2, 7):
            assert all(result[i].tobytes() == results[0][i].tobytes() for result in results)


@functools.cache
def export_programs(folder):
    """Writes NAME.RANK.pt2 of Llama and BERT cut among 2 and 4 processes to folders of these names; once for all tests."""
    folder.mkdir()
    script = pathlib.Path(rank_models.__file__)
    subprocess.run([sys.executable, script, folder, "2", "4"], check=True, capture_output=True, timeout=300)
    return folder


def compile_programs(tmp_path_factory, *options):
    """A folder with NAME.RANK.so of them."""
    folder = tmp_path_factory.mktemp("compiled")
    for archive in export_programs(tmp_path_factory.getbasetemp() / "ranks").glob("*/*.pt2"):
        ranks = archive.parent.name
        (folder / ranks).mkdir(exist_ok=True)
        process = run_tool("aot-compile", archive, "-o", folder / ranks / f"{archive.stem}.so", f"--ranks={ranks}", *options)
        assert process.returncode == 0, process.stderr[-3000:]
    return folder


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    return compile_programs(tmp_path_factory)


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", list(rank_models.BUILD))
def test_language_model(programs, tmp_path, name, ranks):
    """As many processes give what one gives, for sizes other than export's, too."""
    module = rank_models.BUILD[name]()
    for rows in (12, 31):
        ids = rank_models.ids(rows)
        results = run_ranks(tmp_path, ranks, f"{programs}/{ranks}/{name}.{RANK}.so", [[ids]] * ranks)
        expected = module(ids)
        for result in results:
            torch.testing.assert_close(torch.from_numpy(result[0]), expected, rtol=1e-4, atol=1e-4)
            assert numpy.array_equal(result[0], results[0][0])


@pytest.fixture(scope="session")
def sum_of_rows(tmp_path_factory):
    class Sum(nn.Module):
        def forward(self, x):
            return ops.wait_tensor(ops.all_reduce(x, "sum", "0"))

    shapes = {"x": {0: torch.export.Dim("n", min=1, max=100)}}
    return compile_archive(tmp_path_factory.mktemp("sum"), Sum(), (torch.randn(4, 3),), shapes, "--ranks=2")


def assert_failures(process, number, *parts):
    """Lines of processes that write at the same time may be mixed."""
    assert process.stderr.count("aot-run: error: ") == number, process.stderr
    assert all(process.stderr.count(part) == number for part in parts), process.stderr


@needs_mpi
def test_sizes_differ(sum_of_rows, tmp_path):
    """Every process says which of them differ, and the next run with the same sizes works."""
    for rank, rows in enumerate((4, 7)):
        numpy.savez(tmp_path / f"in.{rank}.npz", **{"0": numpy.ones((rows, 3), numpy.float32)})
    process = mpirun(2, f"{BIN / 'aot-run'} {sum_of_rows[1]} --inputs {tmp_path}/in.{RANK}.npz; exit 0")
    assert_failures(process, 2, "process 0 has 12 elements, process 1 has 21 elements", "node 'all_reduce'", "test_collectives.py")


class SumOfSum(nn.Module):
    def forward(self, x):
        return ops.all_reduce(ops.all_reduce(x, "sum", "0"), "sum", "0")


@needs_mpi
def test_other_programs(sum_of_rows, tmp_path):
    """The first collective is the same, but what comes behind it is not."""
    _, model = compile_archive(tmp_path, SumOfSum(), (torch.randn(4, 3),), {"x": {0: torch.export.Dim("n", min=1, max=100)}}, "--ranks=2")
    script = f'if [ "{RANK}" = 0 ]; then model={model}; else model={sum_of_rows[1]}; fi; {BIN / "aot-run"} $model; exit 0'
    assert_failures(mpirun(2, script), 2, "processes 0 and 1 are at different collectives: they run other programs")


@needs_mpi
def test_communicators_of_the_host(sum_of_rows, tmp_path):
    host = tmp_path / "host"
    source = pathlib.Path(__file__).with_name("mpi_host.c")
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", "-o", host, source, "-ldl", "-l:libmpi.so.40"]
    subprocess.run(command, check=True)
    process = mpirun(4, f"{host} {sum_of_rows[1]}")
    assert process.returncode == 0, process.stderr
    assert sorted(process.stdout.splitlines()) == [f"rank {rank}: {value}" for rank, value in enumerate((1, 1, 5, 5)) for _ in range(2)]


@needs_mpi
def test_lost_in_a_run(sum_of_rows, tmp_path):
    """The second run of a process whose sibling ends after the first one; from then on each run fails at once."""
    script = tmp_path / "run.py"
    script.write_text(
        "import os, sys, time, numpy, kiln\n"
        f"model = kiln.load({str(sum_of_rows[1])!r}, threads=1)\n"
        "x = numpy.ones((4, 3), numpy.float32)\n"
        "assert (model(x) == 2).all()\n"
        "if os.environ['OMPI_COMM_WORLD_RANK'] == '1': os.kill(os.getpid(), 9)\n"
        "for limit in (20, 0.5):\n"
        "    begin = time.monotonic()\n"
        "    try: model(x)\n"
        "    except kiln.KilnError as error: print(error.status, str(error), time.monotonic() - begin < limit, flush=True)\n"
        "os._exit(0)\n"
    )
    process = mpirun(
        2,
        f"{sys.executable} {script}",
        env={"KILN_COLLECTIVE_TIMEOUT": "1500", "PYTHONPATH": str(ROOT / "python")},
        options=("--mca", "orte_abort_on_non_zero_status", "0", "--enable-recovery"),
        timeout=60,
    )
    first, second = process.stdout.splitlines()
    assert "not all processes came within 1500 ms" in first and first.endswith("True"), process.stdout
    assert "have lost each other before" in second and second.endswith("True"), process.stdout


@needs_mpi
@pytest.mark.parametrize("end", ["exit 0", "kill -9 $$", "sleep 20"])
def test_lost_process(sum_of_rows, tmp_path, end):
    """A process that never comes: the other one has a status in time, whatever has become of it."""
    numpy.savez(tmp_path / "in.npz", **{"0": numpy.ones((4, 3), numpy.float32)})
    run = f"{BIN / 'aot-run'} {sum_of_rows[1]} --inputs {tmp_path}/in.npz"
    begin = time.monotonic()
    process = mpirun(
        2,
        f'if [ "{RANK}" = 1 ]; then {end}; fi; timeout 60 {run}; echo status $?; kill $PPID',
        env={"KILN_COLLECTIVE_TIMEOUT": "1500"},
        options=("--mca", "orte_abort_on_non_zero_status", "0", "--enable-recovery"),
    )
    assert time.monotonic() - begin < 30
    assert "status 1" in process.stdout, (process.stdout, process.stderr)


@needs_mpi
def test_wrong_number_of_processes(sum_of_rows):
    process = mpirun(3, f"{BIN / 'aot-run'} {sum_of_rows[1]}; exit 0")
    assert_failures(process, 3, "a group '0' of 2 processes, and MPI_COMM_WORLD has 3: mpirun -n 2")


def test_no_library(sum_of_rows, monkeypatch, tmp_path):
    monkeypatch.setenv("KILN_MPI_LIBRARY", str(tmp_path / "libmpi.so"))
    with pytest.raises(kiln.KilnError, match=r"cannot load Open MPI.*Install it \(openmpi-bin\)"):
        kiln.load(sum_of_rows[1])


def test_other_mpi(sum_of_rows, tmp_path):
    """A library whose handles are numbers, such as MPICH, is refused before anything of it is called."""
    source, library = tmp_path / "mpi.c", tmp_path / "libmpi.so"
    source.write_text("#include <stdlib.h>\nint MPI_Init_thread(void) { abort(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    process = run_tool("aot-run", sum_of_rows[1], env={"KILN_MPI_LIBRARY": str(library)})
    assert process.returncode == 1 and "is not Open MPI" in process.stderr, process.stderr


def test_unknown_number_of_processes(sum_of_rows, tmp_path):
    process = run_tool("aot-compile", sum_of_rows[0], "-o", tmp_path / "model.so")
    assert_user_error(
        process, "all_reduce", "the program does not say how many processes the group '0' has (--ranks)", "test_collectives.py"
    )
