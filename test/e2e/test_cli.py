"""Options, stages and exit codes of the tools, and what a produced file holds."""
import json
import os
import re
import subprocess

import numpy
import pytest
import torch

import kiln
from conftest import BIN, assert_user_error, run_tool

EXPORTED = {"kiln_abi_version", "kiln_model_info", "kiln_model_create", "kiln_model_run", "kiln_model_set_constant", "kiln_model_destroy",
            "kiln_last_error", "kiln_model_find_entry", "kiln_session_create", "kiln_session_reset", "kiln_session_clone",
            "kiln_session_destroy", "kiln_session_run"}


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def elf_segments(path):
    """(type, flags, offset, address, bytes in the file, bytes in memory) of each segment."""
    number = r"\s+0x([0-9a-f]+)"
    found = re.findall(rf"^  (\w+){number}{number}{number}{number}{number} ([RWE ]+?) +(?:0x)?[0-9a-f]+$", readelf("-l", path), re.MULTILINE)
    assert found
    return [(kind, flags, *(int(value, 16) for value in (offset, address, stored, size)))
            for kind, offset, address, _, stored, size, flags in found]


def read_code(path, address):
    """The first four bytes of code at an address; None, if there is data."""
    for kind, flags, offset, start, size, _ in elf_segments(path):
        if kind == "LOAD" and "E" in flags and start <= address < start + size:
            return path.read_bytes()[offset + address - start:][:4]
    return None


@pytest.mark.parametrize("tool", ["aot-compile", "aot-run"])
def test_help_and_version(tool):
    for flag in ("--help", "--version"):
        process = run_tool(tool, flag)
        assert process.returncode == 0 and process.stdout.strip() and not process.stderr
    assert tool in run_tool(tool, "--help").stdout


def test_help_names_targets():
    assert re.search(r"--target=.*\n +cpu: the CPU alone\n +cuda: an NVIDIA GPU", run_tool("aot-compile", "--help").stdout)


def test_list_ops():
    """Operators that passes make of others have lowerings, too."""
    support = dict(line.split() for line in run_tool("aot-compile", "--list-ops").stdout.splitlines())
    native = ("relu.default", "add_.Tensor", "lstm.input", "gru_cell.default", "_foreach_add.List", "_foreach_maximum_.Scalar")
    assert {support[f"aten.{name}"] for name in native} == {"native"}
    assert support["aten._foreach_add.List_out"] == support["aten._cudnn_rnn.default"] == "fallback"
    assert support["aten.stride.int"] == "refused"


@pytest.mark.parametrize("arguments", [
    [], ["MODEL", "--nonsense"], ["MODEL", "--emit=nonsense"], ["MODEL", "--target=nonsense"], ["MODEL", "--cpu=nonsense"],
    ["MODEL", "--weights=nonsense"], ["MODEL", "--fallback=nonsense"], ["MODEL", "--int4-layout=nonsense"], ["MODEL", "--jobs=-1"], ["MODEL", "--jobs=many"], ["MODEL", "-O9"],
    ["MODEL", "MODEL"], ["MODEL", "--debug-print=9"], ["MODEL", "-o"], ["MODEL", "-o", "MODEL"], ["MODEL", "--extern=nonsense"],
    ["MODEL", "--target=cuda", "--gpu-arch="], ["MODEL", "--remarks-filter=("], ["MODEL", "--cpu-tune=l2"], ["MODEL", "--cpu-tune=l4=1"],
    ["MODEL", "--cpu-tune=cores=0"], ["MODEL", "--cpu-tune=l2=1} tf32=true"], ["MODEL", "--target=cuda", "--cpu-tune=l2=1048576"]])
def test_bad_options(small_mlp, tmp_path, arguments):
    arguments = [small_mlp.archive if argument == "MODEL" else argument for argument in arguments]
    before = small_mlp.archive.read_bytes()
    assert_user_error(run_tool("aot-compile", *arguments, cwd=tmp_path))
    assert os.listdir(tmp_path) == [] and small_mlp.archive.read_bytes() == before


@pytest.mark.parametrize("tool,arguments,message", [
    ("aot-compile", [], "no input file"), ("aot-compile", ["a.pt2", "b.pt2"], "more than one input file"),
    ("aot-compile", ["a.pt2", "--weight=external"], "unknown"), ("aot-run", [], "no model"), ("aot-run", ["a.so", "b.so"], "more than one input file"),
    ("aot-run", ["a.so", "--repeat=-1"], "--repeat"), ("aot-run", ["a.so", "--input=x"], "unknown")])
def test_bad_command_line(tool, arguments, message):
    """One line that says what is wrong, whatever LLVM's parser has to say."""
    process = run_tool(tool, *arguments)
    assert process.returncode == 1 and not process.stdout
    assert process.stderr.startswith(f"{tool}: error: ") and process.stderr.count("\n") == 1 and message in process.stderr.lower(), process.stderr


@pytest.mark.parametrize("stage,text", [("torch", "torch.call"), ("kernel", "kernel."), ("wrapper", "wrapper.program")])
def test_emit_stage_reads_back(compile_file, stage, text):
    """The text of every stage is what kiln-opt reads and prints again."""
    output = compile_file(f"--emit={stage}", name="stage.mlir")
    assert text in output.read_text()
    process = run_tool("kiln-opt", output)
    assert process.returncode == 0, process.stderr
    assert text in process.stdout


def test_emit_llvm(compile_file):
    assert re.search(r"^define ", compile_file("--emit=llvm", name="model.ll").read_text(), re.M)


def test_emit_obj(compile_file):
    assert "REL (Relocatable file)" in readelf("-h", compile_file("--emit=obj", name="model.o"))


def test_emit_json(compile_file, small_mlp):
    info = json.loads(compile_file("--emit=json", name="model.json").read_text())
    assert info == small_mlp.model.info
    assert info["target"] == "cpu" and info["abi"] == 2 and info["compiler"]
    assert info["inputs"] == [{"name": "x", "dtype": "float32", "shape": [3, 6], "device": "cpu"}]
    (output,) = info["outputs"]
    assert (output["dtype"], output["shape"], output["device"]) == ("float32", [3, 4], "cpu")
    shapes = {entry["name"]: (entry["dtype"], entry["shape"]) for entry in info["constants"]}
    assert shapes == {name: ("float32", list(value.shape)) for name, value in small_mlp.module.named_parameters()}
    assert info["symbols"] == {}


@pytest.mark.parametrize("emit,suffix", [("so", ".so"), ("obj", ".o"), ("llvm", ".ll"), ("json", ".json"), ("torch", ".mlir"),
                                         ("kernel", ".mlir"), ("wrapper", ".mlir")])
def test_default_output_name(small_mlp, tmp_path, emit, suffix):
    source = tmp_path / "some.model.pt2"
    source.write_bytes(small_mlp.archive.read_bytes())
    process = run_tool("aot-compile", source.name, f"--emit={emit}", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    (output,) = [name for name in os.listdir(tmp_path) if name != source.name and not name.endswith(".safetensors")]
    assert output.startswith("some.model") and output.endswith(suffix)


def test_rebuild_is_identical(small_mlp, tmp_path):
    """The same bytes from the same input, wherever they are written and however many jobs write them."""
    contents = set()
    for number, options in enumerate([(), (), ("--jobs=1",), ("--jobs=2",)]):
        output = tmp_path / str(number) / "model.so"
        output.parent.mkdir()
        assert run_tool("aot-compile", small_mlp.archive, "-o", output, *options).returncode == 0
        contents.add(output.read_bytes())
    assert len(contents) == 1


def test_so_needs_libc_alone(small_mlp):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", small_mlp.path))
    assert set(needed) <= {"libc.so.6"}


def test_so_exports_the_abi_alone(small_mlp):
    symbols = [line.split() for line in readelf("--dyn-syms", small_mlp.path).splitlines() if re.match(r"\s*\d+:", line)]
    defined = {fields[7].split("@")[0] for fields in symbols if fields[6] != "UND" and len(fields) > 7}
    assert defined == EXPORTED


def test_so_is_hardened(small_mlp, compile_file):
    """RELRO with all symbols bound at once, no page that is writable or data and executable, marks for control-flow enforcement."""
    for path in (small_mlp.path, compile_file("--target=cuda", "--gpu-arch=emulator"), compile_file("--debug-print=2", "--weights=external")):
        segments = elf_segments(path)
        kinds = {kind for kind, *_ in segments}
        assert "GNU_RELRO" in kinds and "GNU_STACK" in kinds
        for kind, flags, *_ in segments:
            assert not {"W", "E"} <= set(flags) and (kind != "GNU_STACK" or "E" not in flags), (kind, flags)
        # No byte of a page with code belongs to another segment.
        pages = [(flags, range(address >> 12, (address + size + 4095) >> 12), range(offset >> 12, (offset + stored + 4095) >> 12))
                 for kind, flags, offset, address, stored, size in segments if kind == "LOAD"]
        for code in (page for page in pages if "E" in page[0]):
            for other in (page for page in pages if page is not code):
                for which in (1, 2):
                    assert not set(code[which]) & set(other[which]), "code and data share a page"
        dynamic = readelf("-d", path)
        assert "BIND_NOW" in dynamic and "TEXTREL" not in dynamic and not re.search(r"R(UN)?PATH.*\[[^/$]", dynamic)
        assert re.search(r"x86 feature: IBT, SHSTK", readelf("-n", path))


def test_addresses_in_so_are_branch_targets(small_mlp, compile_file):
    """Whatever a pointer of the file leads to in its code, and whatever the file exports, starts with endbr64."""
    for path in (small_mlp.path, compile_file("--debug-print=2")):
        targets = [read_code(path, int(word, 16)) for word in re.findall(r"R_X86_64_RELATIVE\s+([0-9a-f]+)", readelf("-r", path))]
        targets = [target for target in targets if target]
        exported = [line.split() for line in readelf("--dyn-syms", path).splitlines() if "GLOBAL" in line and "UND" not in line]
        assert len(exported) == len(EXPORTED) and len(targets) > 2
        targets += [read_code(path, int(fields[1], 16)) for fields in exported]
        assert set(targets) == {b"\xf3\x0f\x1e\xfa"}


@pytest.fixture
def sandbox_test():
    """The test's own program, which knows whether this kernel has what a sandbox needs."""
    if subprocess.run([BIN / "sandbox-test"], capture_output=True).returncode == 77:
        pytest.skip("this kernel has no Landlock")
    return BIN / "sandbox-test"


def test_sandbox(small_mlp, compile_file, tmp_path, sandbox_test):
    """The same bytes, and nothing left in the folder for temporary files."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for options in ((), ("--target=cuda", "--gpu-arch=emulator"), ("--weights=external", f"--save-temps={tmp_path / 'temps'}")):
        outputs = []
        for sandbox in ((), ("--sandbox",)):
            output = tmp_path / ("inside" if sandbox else "outside") / "model.so"
            output.parent.mkdir(exist_ok=True)
            process = run_tool("aot-compile", small_mlp.archive, "-o", output, *options, *sandbox, env={"TMPDIR": str(temporary)})
            assert process.returncode == 0 and not process.stderr, process.stderr
            outputs.append(output.read_bytes())
        assert outputs[0] == outputs[1]
    assert not list(temporary.iterdir())


def test_sandbox_refuses(small_mlp, tmp_path, sandbox_test):
    output = tmp_path / "model.so"
    for options, said in ((("--extern=c{x}",), "--sandbox: not with --extern"), (("--autotune",), "--sandbox: not with --autotune"),
                          (("--target=cuda", "--ptxas=/bin/true"), "--sandbox: not with --ptxas"),
                          (("-o", tmp_path / "nowhere" / "model.so"), "cannot open")):
        place = () if "-o" in options else ("-o", output)
        assert_user_error(run_tool("aot-compile", small_mlp.archive, *place, "--sandbox", *options), said)
    assert_user_error(run_tool("aot-compile", tmp_path / "no.pt2", "-o", output, "--sandbox"), "no.pt2")
    for missing, said in (("landlock", "no Landlock"), ("seccomp", "no seccomp filters")):
        command = [sandbox_test, "--without", missing, BIN / "aot-compile", small_mlp.archive, "-o", output, "--sandbox"]
        assert_user_error(subprocess.run(list(map(str, command)), capture_output=True, text=True), "--sandbox: ", said)
    assert not output.exists()


def test_so_is_small(compile_file):
    """All but the weights stays below a megabyte."""
    assert compile_file("--weights=external").stat().st_size < 1 << 20


def test_external_weights(small_mlp, compile_file, tmp_path):
    output = compile_file("--weights=external")
    weights = tmp_path / "model.so.safetensors"
    x = torch.randn(3, 6)
    expected = small_mlp.module(x).detach()
    torch.testing.assert_close(kiln.load(output)(x), expected, rtol=1e-5, atol=1e-5)
    moved = tmp_path / "elsewhere.bin"
    weights.rename(moved)
    torch.testing.assert_close(kiln.load(output, weights=moved)(x), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(kiln.KilnError, match="weights"):
        kiln.load(output)
    weights.write_bytes(moved.read_bytes()[:-1])
    with pytest.raises(kiln.KilnError, match="weights"):
        kiln.load(output)


def test_links(compile_file, tmp_path):
    """What lies beside a model in the place of its weights is a file with them, or is refused at once."""
    output = compile_file("--weights=external")
    weights, moved, other = tmp_path / "model.so.safetensors", tmp_path / "moved", tmp_path / "other"
    weights.rename(moved)
    other.write_bytes(b"a secret" * 10000)
    weights.symlink_to(moved)
    with pytest.raises(kiln.KilnError, match="is a symbolic link, which is not followed: give weights_path"):
        kiln.load(output)
    kiln.load(output, weights=weights)
    for make in (lambda: weights.hardlink_to(other), lambda: os.mkfifo(weights), weights.mkdir):
        weights.unlink()
        make()
        for path in (None, weights):
            with pytest.raises(kiln.KilnError, match="not a weights file") as caught:
                kiln.load(output, weights=path)
            assert "secret" not in str(caught.value)


def test_save_temps(compile_file, tmp_path):
    compile_file(f"--save-temps={tmp_path / 'temps'}")
    assert len(os.listdir(tmp_path / "temps")) >= 3


def test_time_passes(small_mlp, tmp_path):
    process = run_tool("aot-compile", small_mlp.archive, "-o", tmp_path / "model.so", "--time-passes")
    assert process.returncode == 0 and "Total" in process.stdout + process.stderr


def test_print_ir(small_mlp, tmp_path):
    """MLIR's options reach the passes that write kernels, fold constants and make code for GPUs."""
    names = ["cpu-choose-schedule", "cpu-emit-kernels", "wrapper-lower-to-llvm"]
    for options, passes in ((map("--mlir-print-ir-after={}".format, names), names),
                            (["--target=cuda", "--gpu-arch=sm_90,emulator", "--mlir-print-ir-after-all"],
                             ["cuda-emit-kernels", "cuda-emulate"]),
                            (["--target=cuda", "--gpu-arch=sm_90", "--mlir-print-ir-after=convert-nvvm-to-llvm"], ["convert-nvvm-to-llvm"])):
        process = run_tool("aot-compile", small_mlp.archive, "-o", tmp_path / "model.so", "--mlir-disable-threading", "--mlir-timing", *options)
        assert process.returncode == 0, process.stderr
        for name in passes:
            assert re.search(rf"IR Dump After \S+ \({name}\)", process.stderr), name
        assert "Execution time report" in process.stderr


def test_remarks(small_mlp, tmp_path, compile_file):
    """Decisions in words, for all passes or some; the file is the same."""
    def get_lines(*options):
        process = run_tool("aot-compile", small_mlp.archive, "-o", tmp_path / "said.so", "--remarks", *options)
        assert process.returncode == 0, process.stderr
        return process.stderr.splitlines()

    lines = get_lines()
    assert len(lines) == len(set(lines)) and all(line.startswith("aot-compile: remark: node '") for line in lines)
    assert any(re.search(r"node '.*: right operand packed into panels of \d+ columns \[cpu-pack-contracts\]$", line) for line in lines)
    planned = [re.search(r"kernel @(\w+): #[a-z_.]+<.*>, about \d+ cycles: .* \[cpu-choose-schedule\]$", line)[1]
               for line in lines if line.endswith("[cpu-choose-schedule]")]
    assert planned and len(planned) == len(set(planned))
    packed = get_lines("--remarks-filter=cpu-pack.*")
    assert packed and all(line.endswith("[cpu-pack-contracts]") for line in packed)
    with_file = compile_file(f"--remarks={tmp_path / 'said.yaml'}", name="with.so")
    text = (tmp_path / "said.yaml").read_text()
    assert re.search(r"^  - Cycles: +'?\d+'?$", text, re.M), text
    assert "--- !Passed" in text and "Pass:            cpu-pack-contracts" in text
    assert with_file.read_bytes() == (tmp_path / "said.so").read_bytes() == compile_file().read_bytes()
    assert_user_error(run_tool("aot-compile", small_mlp.archive, "-o", tmp_path / "model.so", f"--remarks={tmp_path / 'none' / 'said.yaml'}"))


def test_quiet_by_default(small_mlp, tmp_path):
    """Not on a terminal, a compile that succeeds says nothing."""
    process = run_tool("aot-compile", small_mlp.archive, "-o", tmp_path / "model.so")
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def test_cpu_levels(small_mlp, compile_file):
    """AVX2 code holds no AVX-512 register."""
    output = compile_file("--cpu=x86-64-v3")
    code = subprocess.run(["/usr/lib/llvm-22/bin/llvm-objdump", "-d", "--no-show-raw-insn", output], capture_output=True, text=True,
                          check=True).stdout
    assert "%ymm" in code and "%zmm" not in code
    x = torch.randn(3, 6)
    torch.testing.assert_close(kiln.load(output)(x), small_mlp.module(x).detach(), rtol=1e-5, atol=1e-5)


def test_cpu_tune(small_mlp, tmp_path, compile_file):
    """Numbers of the CPU that are named on the command line are in the IR, and change plans; the model computes the same."""
    tuned = ("--cpu=x86-64-v3", "--cpu-tune=l1=16384,l2=65536,tile_sums=2,fma_units=1")
    texts = []
    for options in (tuned[:1], tuned):
        process = run_tool("aot-compile", small_mlp.archive, "--emit=wrapper", "-o", "-", *options)
        assert process.returncode == 0, process.stderr
        texts.append(process.stdout)
    assert 'cpu.target = #cpu.target<cpu = "x86-64-v3", ' in texts[0] and "l1 = 32768, l2 = 1048576," in texts[0]
    assert "l1 = 16384, l2 = 65536," in texts[1]
    schedules = [re.findall(r"schedule = (#\S+<.*?>)", text) for text in texts]
    assert len(schedules[0]) == len(schedules[1]) and schedules[0] != schedules[1]
    x = torch.randn(3, 6)
    torch.testing.assert_close(kiln.load(compile_file(*tuned))(x), small_mlp.module(x).detach(), rtol=1e-5, atol=1e-5)


def test_native_cpu_of_tests(tmp_path):
    """KILN_TEST_CPU is what `native` is short for. Constants are folded by code for the model's CPU, which this machine may be more than."""
    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 1001))

        def forward(self, x):
            return x * self.weight.exp().sum(1)
    torch.export.save(torch.export.export(Sum(), (torch.ones(4),)), tmp_path / "sum.pt2")
    models = []
    for options, cpu in (((), "x86-64-v3"), (("--cpu=native",), "x86-64-v3"), (("--cpu=x86-64-v3",), ""), (("--cpu=x86-64-v3",), "x86-64-v3")):
        process = run_tool("aot-compile", tmp_path / "sum.pt2", "-o", tmp_path / "sum.so", *options, env={"KILN_TEST_CPU": cpu})
        assert process.returncode == 0, process.stderr
        models.append((tmp_path / "sum.so").read_bytes())
    assert all(model == models[0] for model in models)
    for cpu, problem in (("x86-64-v2", "below x86-64-v3"), ("z80", "unknown CPU 'z80'")):
        for options, env in (((), cpu), ((f"--cpu={cpu}",), "")):
            assert_user_error(run_tool("aot-compile", tmp_path / "sum.pt2", "-o", tmp_path / "no.so", *options, env={"KILN_TEST_CPU": env}), problem)


# ---- aot-run


def save(path, **arrays):
    numpy.savez(path, **arrays)
    return path


def test_run_files(small_mlp, tmp_path):
    x = torch.randn(3, 6)
    expected = small_mlp.module(x).detach().numpy()
    for key in ("0", "x"):
        process = run_tool("aot-run", small_mlp.path, "--inputs", save(tmp_path / "in.npz", **{key: x.numpy()}), "--outputs",
                           tmp_path / "out.npz")
        assert process.returncode == 0, process.stderr
        with numpy.load(tmp_path / "out.npz") as outputs:
            assert outputs.files == ["0"]
            numpy.testing.assert_allclose(outputs["0"], expected, rtol=1e-5, atol=1e-5)


def test_run_compressed_and_fortran_inputs(small_mlp, tmp_path):
    x = numpy.asfortranarray(torch.randn(3, 6).numpy())
    numpy.savez_compressed(tmp_path / "in.npz", **{"0": x})
    process = run_tool("aot-run", small_mlp.path, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert process.returncode == 0, process.stderr
    with numpy.load(tmp_path / "out.npz") as outputs:
        numpy.testing.assert_allclose(outputs["0"], small_mlp.module(torch.from_numpy(x)).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_run_json(small_mlp, tmp_path):
    process = run_tool("aot-run", small_mlp.path, "--repeat", "5", "--warmup", "2", "--threads", "1", "--json", tmp_path / "run.json")
    assert process.returncode == 0, process.stderr
    result = json.loads((tmp_path / "run.json").read_text())
    assert set(result) >= {"load_ms", "first_run_ms", "latency_ms", "runs", "threads", "peak_rss_mb", "outputs"}
    assert set(result["latency_ms"]) == {"min", "median", "p90", "p99"}
    assert (result["runs"], result["threads"], len(result["outputs"])) == (5, 1, 1)


@pytest.mark.parametrize("options, text", [
    (["--rtol=1"], "--rtol has no effect without --compare-debug"), (["--atol", "1e-3"], "--atol has no effect without --compare-debug"),
    (["--info", "--json", "a"], "--json has no effect with --info"), (["--info", "--profile=a"], "--profile has no effect with --info"),
    (["--inputs=a", "--seed=1"], "--seed has no effect with --inputs"), (["--inputs=a", "--sym=s0=1"], "--sym has no effect with --inputs"),
    (["--warmup=2"], "--warmup has no effect without timed runs (--repeat)"),
    (["--profile=a", "--repeat=0"], "--profile has no effect without timed runs (--repeat)"),
    (["--compare-debug", "b", "--info"], "--info has no effect with --compare-debug"),
    (["--compare-debug", "b", "--threads=1"], "--threads has no effect with --compare-debug")])
def test_run_options_without_effect(small_mlp, options, text):
    process = run_tool("aot-run", small_mlp.path, *options)
    assert (process.returncode, process.stderr) == (2 if "--compare-debug" in options else 1, f"aot-run: error: {text}\n")


def test_run_info(small_mlp):
    process = run_tool("aot-run", small_mlp.path, "--info")
    assert process.returncode == 0 and "float32" in process.stdout


@pytest.mark.parametrize("arrays", [
    {}, {"0": numpy.zeros((3, 7), "float32")}, {"0": numpy.zeros((3, 6), "float64")}, {"0": numpy.zeros(18, "float32")},
    {"other": numpy.zeros((3, 6), "float32")}, {"0": numpy.zeros((3, 6), "float32"), "1": numpy.zeros(1)}])
def test_run_wrong_inputs(small_mlp, tmp_path, arrays):
    process = run_tool("aot-run", small_mlp.path, "--inputs", save(tmp_path / "in.npz", **arrays), "--outputs", tmp_path / "out.npz")
    assert process.returncode == 1
    assert process.stderr.startswith("aot-run: error: ")
    assert not (tmp_path / "out.npz").exists()


def test_run_broken_files(small_mlp, tmp_path):
    whole = save(tmp_path / "in.npz", **{"0": numpy.zeros((3, 6), "float32")}).read_bytes()
    broken = tmp_path / "broken.npz"
    for content in (b"", b"text", whole[:100], whole[: len(whole) // 2], whole.replace(b"float", b"flout"), whole.replace(b"'<f4'", b"'|O8'"),
                    whole.replace(b"(3, 6)", b"(9, 6)"), whole.replace(b"NUMPY", b"NUMPI")):
        broken.write_bytes(content)
        process = run_tool("aot-run", small_mlp.path, "--inputs", broken)
        assert process.returncode == (0 if content == whole else 1), process.stderr
    for path in (tmp_path / "nowhere.so", broken, "/"):
        assert run_tool("aot-run", path).returncode == 1


def test_run_scalars_and_mutation(compile_model, tmp_path):
    class Mutating(torch.nn.Module):
        def forward(self, x, scale):
            x.add_(1)
            return x * scale

    compiled = compile_model(Mutating(), (torch.zeros(2, 3), torch.tensor(2.0)))
    process = run_tool("aot-run", compiled.path, "--inputs",
                       save(tmp_path / "in.npz", **{"0": numpy.ones((2, 3), "float32"), "1": numpy.float32(3)}), "--outputs",
                       tmp_path / "out.npz")
    assert process.returncode == 0, process.stderr
    with numpy.load(tmp_path / "out.npz") as outputs:
        assert set(outputs.files) == {"0", "mutated_0"}
        assert (outputs["0"] == 6).all() and (outputs["mutated_0"] == 2).all()

