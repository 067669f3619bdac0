"""examples/generate: a language model from transformers to the programs that generate tokens with it."""

import os
import re
import runpy
import subprocess
import sys

import pytest
import torch

import kiln
from conftest import ROOT, run_tool

GENERATE = ROOT / "examples" / "generate"
PROMPTS = [[1, 15, 27], [4, 5], [499]]
LENGTH = 40
STATE = "--share-state=*_cache_*,cumulative_length_*"


def compile_model(folder, scheme, dtype=torch.float32):
    example = runpy.run_path(str(GENERATE / "export.py"))
    module = example["quantize"](example["make_model"]().to(dtype), scheme)
    with torch.no_grad():
        example["package_pt2"](folder / "model.pt2", exported_programs=example["export"](module, LENGTH))
    process = run_tool("aot-compile", folder / "model.pt2", "-o", folder / "model.so", "--weights=external", STATE)
    assert process.returncode == 0 and not process.stderr, process.stderr
    return module


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The model, as module and compiled, and how the two programs are called."""
    folder = tmp_path_factory.mktemp("generate")
    module = compile_model(folder, "f32")
    host = folder / "generate"
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", GENERATE / "generate.cpp"]
    subprocess.run([*command, "-o", host, "-ldl", "-pthread"], check=True)
    assert len((GENERATE / "generate.cpp").read_text().splitlines()) < 200
    return module, folder / "model.so", [[host], [sys.executable, GENERATE / "generate.py"]]


def call(program, model, *options, prompts=PROMPTS):
    words = [word for prompt in prompts for word in ("--prompt", ",".join(map(str, prompt)))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run([*program, model, *words, *map(str, options)], capture_output=True, text=True, env=environment)


def tokens(program, model, *options):
    process = call(program, model, *options)
    assert process.returncode == 0, process.stderr
    return [[int(token) for token in line.split()] for line in process.stdout.splitlines()]


def test_greedy(programs):
    module, model, commands = programs
    expected = [module.generate(torch.tensor([p]), max_new_tokens=20, do_sample=False)[0, len(p) :].tolist() for p in PROMPTS]
    assert len({token for line in expected for token in line}) > 10
    for program in commands:
        assert tokens(program, model, "--tokens", 20) == expected
        end = expected[0][7]
        assert tokens(program, model, "--tokens", 20, "--end", end)[0] == expected[0][: expected[0].index(end) + 1]


@pytest.mark.parametrize(
    "scheme, dtype", [("bf16", torch.float32), ("int8", torch.bfloat16), ("int4", torch.float32), ("8da4w", torch.bfloat16)]
)
def test_schemes(programs, tmp_path, scheme, dtype):
    """Both programs choose tokens whose logits are eager's largest, up to rounding."""
    module = compile_model(tmp_path, scheme, dtype)
    generated = [tokens(program, tmp_path / "model.so", "--tokens", 20) for program in programs[2]]
    assert generated[0] == generated[1]
    for prompt, line in zip(PROMPTS, generated[0], strict=True):
        with torch.no_grad():
            logits = module(torch.tensor([prompt + line]), use_cache=False).logits[0, len(prompt) - 1 : -1].float()
        chosen = logits.gather(1, torch.tensor(line)[:, None])[:, 0]
        assert len(line) == 20 and (logits.amax(1) - chosen).max() < 0.05 * logits.std(), line


def test_sampling(programs):
    """Both programs draw the same; every token is among those that have the share together."""
    module, model, (cpp, python) = programs
    options = ("--tokens", 20, "--top-p", 0.6, "--temperature", 2.5, "--seed", 7)
    drawn = tokens(cpp, model, *options)
    assert tokens(python, model, *options) == drawn
    assert tokens(cpp, model, *options[:-1], 8) != drawn
    chosen = set()
    for prompt, line in zip(PROMPTS, drawn, strict=True):
        with torch.no_grad():
            logits = module(torch.tensor([prompt + line]), use_cache=False).logits[0, len(prompt) - 1 : -1]
        for token, row in zip(line, logits, strict=True):
            shares, order = (row.double() / 2.5).softmax(0).sort(descending=True)
            rank = order.tolist().index(token)
            assert shares[:rank].sum() < 0.6 + 1e-4
            chosen.add(rank)
    assert len(chosen) > 5
    assert tokens(cpp, model, "--tokens", 20, "--top-p", 0) == tokens(cpp, model, "--tokens", 20)


def test_failures(programs):
    _, model, commands = programs
    for program in commands:
        for prompt in ([1, 500], [1, -1]):
            process = call(program, model, prompts=[prompt])
            assert process.returncode == 1 and "index out of range" in process.stderr, process.stderr
        process = call(program, model, "--tokens", LENGTH + 1, prompts=[[3]])
        assert process.returncode == 1 and "index out of range" in process.stderr, process.stderr
        assert call(program, model, "--tokens", LENGTH, prompts=[[3]]).returncode == 0
        assert call(program, model.with_name("missing.so")).returncode == 1


def test_wrong_adapters(programs):
    """Weights that do not fit are refused, with what was expected, and nothing is replaced."""
    _, path, _ = programs
    model = kiln.load(path, threads=1)
    name = next(entry["name"] for entry in model.constants if "q_proj" in entry["name"])
    step = torch.tensor([[1]]), torch.tensor([0])
    before = model.session().entry("decode")(*step)
    for key, value, problem in (
        (name, torch.zeros(3, 64), r"got float32 .3, 64"),
        (name, torch.zeros(64, 64, dtype=torch.bfloat16), "bfloat16"),
        (f"{name}[0:2]", torch.zeros(2, 63), "63"),
        (f"{name}[60:65]", torch.zeros(5, 64), "within"),
        ("lora_A", torch.zeros(64, 64), "lora_A"),
    ):
        with pytest.raises(kiln.KilnError, match=problem):
            model.set_constant(key, value)
    assert torch.equal(torch.as_tensor(model.session().entry("decode")(*step)), torch.as_tensor(before))


def test_sessions(programs):
    """Their caches are apart from the file of weights, no page of which becomes anybody's own."""
    path = programs[1]
    model = kiln.load(path, threads=1)
    sessions = [model.session() for _ in range(3)]
    for session in sessions:
        decode = session.entry("decode")
        for position in range(LENGTH):
            decode(torch.tensor([[position]]), torch.tensor([position]))
    with open("/proc/self/smaps") as file:
        mappings = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", file.read())
    own = [int(re.search(r"Anonymous: +(\d+) kB", text)[1]) for text in mappings if f"{path}.safetensors" in text]
    assert own == [0]
    # A text that begins anew sees nothing of the one before.
    used, fresh = sessions[0].entry("decode"), model.session().entry("decode")
    for position, token in enumerate(PROMPTS[0]):
        step = torch.tensor([[token]]), torch.tensor([position])
        assert torch.equal(used(*step), fresh(*step))
