"""The compiler where the system fails it: memory, files, disks, signals. It ends with a line and a status; its output is the one that
was there, the new one or none."""

import functools
import os
import random
import resource
import signal
import subprocess
import time

import injection
import pytest
import torch
from torch.export.pt2_archive._package import package_pt2

BIN = injection.BUILD / "bin"
# The number that scripts/soak asks for.
SAMPLES = int(os.environ.get("KILN_FAULTS_SAMPLES", "0"))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))

    def forward(self, x):
        return self.layers(x)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("mlp") / "model.pt2"
    torch.manual_seed(0)
    torch.export.save(torch.export.export(Mlp().eval(), (torch.randn(3, 6),)), path)
    return path


@pytest.fixture(scope="module")
def compiled(archive):
    """What the compiler makes where nothing fails, and how long that takes."""
    output = archive.with_name("whole.so")
    begin = time.monotonic()
    assert compile_file(archive, output).returncode == 0
    return output.read_bytes(), time.monotonic() - begin


def compile_file(archive, output, *options, env=None, **more):
    command = [BIN / "aot-compile", archive, "-o", output, "--jobs=2", *options]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, env={**os.environ, **(env or {})}, **more)


def assert_refused(process, folder, *kept):
    """Status and line of an error; nothing in the folder but what was there, and a reproducer that the line names."""
    lines = [line for line in process.stderr.splitlines() if line.startswith("aot-compile: error: ")]
    assert process.returncode in (1, 2) and len(lines) == 1, (process.returncode, process.stderr[-2000:])
    left = {name for name in os.listdir(folder) if name not in process.stderr}
    assert left == set(kept), (left, process.stderr)


# ---- calls that fail


class Counted(Mlp):
    """With a buffer that two programs share."""

    def __init__(self, number):
        super().__init__()
        self.number = number
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x):
        self.count += super().forward(x).sum(0) * self.number
        return self.count.clone()


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """An archive of two programs, and options for them."""
    path = tmp_path_factory.mktemp("several") / "model.pt2"
    modules = {f"program{number}": Counted(number).eval() for number in (1, 2)}
    modules["program2"].layers = modules["program1"].layers
    package_pt2(path, exported_programs={name: torch.export.export(module, (torch.ones(3, 6),)) for name, module in modules.items()})
    return path, "--share-state=count"


def inject(archive, folder, whole, kinds, at, and_later, *options):
    """Compiles with a fault; returns how many calls there were, and whether the compiler has refused."""
    control = injection.open_control()
    control.arm(kinds, at, and_later)
    output = folder / "model.so"
    process = compile_file(archive, output, *options, env={**injection.environment(control), "TMPDIR": str(folder)})
    calls, function = control.disarm(), control.function.decode()
    os.unlink(control.path)
    try:
        if process.returncode == 0:
            assert output.read_bytes() == whole
            output.unlink()
            assert os.listdir(folder) == [] and not (at >= 0 and process.stderr and "error" in process.stderr)
        else:
            assert_refused(process, folder)
    except AssertionError as error:
        raise AssertionError(f"call {at}, {function}{', and all after it' * and_later}: {error}") from error
    for name in os.listdir(folder):
        os.unlink(folder / name)
    return calls, process.returncode != 0


@pytest.mark.parametrize("kinds", [injection.MEMORY, injection.SYSTEM], ids=["memory", "system"])
def test_failing_calls(archive, compiled, tmp_path, kinds):
    """Places that are drawn, early ones more often than late ones: there are a million of them."""
    check_failing_calls(tmp_path, kinds, archive, compiled[0])


@pytest.mark.parametrize("kinds", [injection.MEMORY, injection.SYSTEM], ids=["memory", "system"])
def test_failing_calls_of_several_programs(several, tmp_path, kinds):
    archive, *options = several
    whole = archive.with_name("whole.so")
    assert compile_file(archive, whole, *options).returncode == 0
    check_failing_calls(tmp_path, kinds, archive, whole.read_bytes(), *options)


def check_failing_calls(folder, kinds, archive, whole, *options):
    calls, _ = inject(archive, folder, whole, kinds, -1, False, *options)
    draw = random.Random(SAMPLES)
    refused = 0
    for sample in range(SAMPLES or 5):
        at = int(calls ** draw.random()) if sample % 2 else draw.randrange(calls)
        refused += inject(archive, folder, whole, kinds, at, sample % 3 == 2, *options)[1]
    assert calls > 10 and refused


# ---- disks


def limit_files(size):
    """For a child process: writes beyond this size of a file fail, as on a disk that is full."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("options", [(), ("--weights=external",), ("--emit=kernel",), ("--emit=fx",)], ids=" ".join)
def test_full_disk(archive, tmp_path, options):
    """A limit of the size of files, lower each time, is an error that names the file."""
    output = tmp_path / ("model.py" if "--emit=fx" in options else "model.so")
    assert compile_file(archive, output, *options).returncode == 0
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    for path in tmp_path.iterdir():
        path.unlink()
    for size in {0, *(size - 1 for size in sizes)}:
        process = compile_file(archive, output, *options, preexec_fn=limit_files(size))
        assert process.returncode == 1 and "File too large" in process.stderr, (size, process.returncode, process.stderr)
        assert ".tmp-" not in process.stderr
        assert_refused(process, tmp_path)


def test_small_disk(archive, compiled, tmp_path):
    """A file system that is too small for the output."""
    script = f'mount -t tmpfs -o size=8k none "{tmp_path}" && cd "{tmp_path}" && "$@"; status=$?; ls -A "{tmp_path}"; exit $status'
    command = ["unshare", "-m", "bash", "-c", script, "bash", BIN / "aot-compile", archive, "-o", tmp_path / "model.so"]
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no name spaces of its own")
    process = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert process.returncode == 1 and "No space left on device" in process.stderr and process.stdout == "", (
        process.stderr,
        process.stdout,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("aot-compile", "ARCHIVE", "--emit=kernel", "-o", "-"),
        ("aot-compile", "--list-ops"),
        ("aot-run", "MODEL", "--info"),
        ("aot-run", "MODEL"),
    ],
    ids=" ".join,
)
def test_full_standard_output(archive, compiled, arguments):
    tool, *rest = ({"ARCHIVE": archive, "MODEL": archive.with_name("whole.so")}.get(one, one) for one in arguments)
    with open("/dev/full", "w") as full:
        process = subprocess.run([BIN / tool, *rest], stdout=full, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 1 and process.stderr == f"{tool}: error: cannot write to standard output: No space left on device\n"


# ---- signals


def start(archive, output):
    command = [BIN / "aot-compile", archive, "-o", output, "--jobs=2"]
    # A shell's background jobs ignore it, and what they start.
    handle = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=handle)


def wait_for_group(process):
    """Until the compiler's child has ended, too."""
    process.wait()
    for _ in range(1000):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError("the compiler's child goes on")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_killed(archive, compiled, tmp_path, number):
    """At any moment: the output is the older one or the new one; and its child ends with the compiler, which leaves nothing."""
    whole, seconds = compiled
    draw = random.Random(number)
    output = tmp_path / "model.so"
    states = set()
    for sample in range(SAMPLES or 4):
        older = sample % 2 == 1
        if older:
            output.write_bytes(b"older")
        process = start(archive, output)
        time.sleep(1.2 * seconds * draw.random())
        process.send_signal(number)
        wait_for_group(process)
        content = output.read_bytes() if output.exists() else None
        assert content == whole or content == (b"older" if older else None)
        states.add(content == whole)
        output.unlink(missing_ok=True)
        assert os.listdir(tmp_path) == []
    assert not SAMPLES or states == {False, True}


def test_killed_at_each_file(archive, tmp_path):
    """Right after each file comes to be."""
    control = injection.open_control()
    environment = injection.environment(control)
    files = 0
    while True:
        control.arm(injection.INTERRUPT, files)
        process = compile_file(archive, tmp_path / "model.so", "--weights=external", env=environment)
        if control.disarm() <= files:
            break
        assert process.returncode == -signal.SIGTERM and os.listdir(tmp_path) == [], files
        files += 1
    os.unlink(control.path)
    assert process.returncode == 0 and files >= 2


def test_killed_with_its_child(archive, compiled, tmp_path):
    """Nothing can remove what a compiler had begun to write then; the output is whole or none nevertheless."""
    whole, seconds = compiled
    draw = random.Random(0)
    output = tmp_path / "model.so"
    for _ in range(SAMPLES or 3):
        process = start(archive, output)
        time.sleep(1.2 * seconds * draw.random())
        os.killpg(process.pid, signal.SIGKILL)
        wait_for_group(process)
        assert not output.exists() or output.read_bytes() == whole
        output.unlink(missing_ok=True)
        assert all(name.startswith("model.so.tmp-") for name in os.listdir(tmp_path))


def test_killed_child(archive, tmp_path):
    """What the system kills for want of memory is the child: a line says so."""
    process = subprocess.Popen([BIN / "aot-compile", archive, "-o", tmp_path / "model.so"], stderr=subprocess.PIPE, text=True)
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    while not (found := open(children).read().split()):
        assert process.poll() is None
    os.kill(int(found[0]), signal.SIGKILL)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 2 and "was killed (is there enough memory?)" in text and text.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_one_output_of_several(archive, compiled, tmp_path):
    """Compilers that write the same file: it is whole all the time."""
    output = tmp_path / "model.so"
    running = [start(archive, output) for _ in range(3)]
    while any(process.poll() is None for process in running):
        assert not output.exists() or output.read_bytes() == compiled[0]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert output.read_bytes() == compiled[0] and os.listdir(tmp_path) == ["model.so"]
