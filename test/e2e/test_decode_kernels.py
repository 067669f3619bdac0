"""A decoding step on a GPU: few launches for each layer, and the values are eager's."""

import re

import pytest
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

import kiln
from conftest import EMULATED, assert_assembles, run_tool

LENGTH = 160  # keys in two parts


def make(layers, dtype):
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 320, "num_attention_heads": 8, "num_key_value_heads": 2}
    config = LlamaConfig(vocab_size=200, num_hidden_layers=layers, initializer_range=0.1, **sizes)
    return LlamaForCausalLM(config).to(dtype).eval()


def export(model, path, length=LENGTH):
    cache = {"batch_size": 1, "max_cache_len": length}
    model.generation_config = GenerationConfig(use_cache=True, cache_implementation="static", max_length=length, cache_config=cache)
    module = TorchExportableModuleForDecoderOnlyLM(model, batch_size=1, max_cache_len=length)
    torch.export.save(module.export(input_ids=torch.zeros(1, 1, dtype=torch.long), cache_position=torch.zeros(1, dtype=torch.long)), path)


def count_launches(path):
    """The launches from one layer's attention to the next one's."""
    process = run_tool("aot-compile", path, "--target=cuda", "--gpu-arch=sm_90", "--emit=wrapper", "-o", "-")
    assert process.returncode == 0, process.stderr
    names = re.findall(r"wrapper\.launch @(\w+)", process.stdout)
    places = [i for i, name in enumerate(names) if name.startswith("attention")]
    assert len(places) == 3
    assert places[2] - places[1] == places[1] - places[0], names
    return places[1] - places[0]


# 64 parts of attention are put together by a launch of their own.
@pytest.mark.parametrize("length, count", [(LENGTH, 6), (8192, 7)])
def test_launches_of_a_layer(tmp_path, length, count):
    export(make(3, torch.bfloat16), tmp_path / "model.pt2", length)
    assert count_launches(tmp_path / "model.pt2") == count


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_tokens(tmp_path, dtype):
    model = make(2, dtype)
    export(model, tmp_path / "model.pt2")
    process = run_tool("aot-compile", tmp_path / "model.pt2", "-o", tmp_path / "model.so", *EMULATED)
    assert process.returncode == 0, process.stderr
    compiled = kiln.load(tmp_path / "model.so")
    tokens = torch.randint(0, 200, (1, 150))
    with torch.no_grad():
        expected = model(tokens, use_cache=False).logits[0]
    for position in (*range(8), *range(120, 132)):
        if position == 120:  # as a prompt would, before keys fill more than one part
            for skipped in range(8, 120):
                compiled(tokens[:, skipped : skipped + 1], torch.tensor([skipped]))
        actual = compiled(tokens[:, position : position + 1], torch.tensor([position]))
        tolerance = 1e-4 if dtype == torch.float32 else 6e-2
        torch.testing.assert_close(actual[0, 0].float(), expected[position].float(), rtol=tolerance, atol=tolerance)


def test_assembles(tmp_path):
    export(make(1, torch.bfloat16), tmp_path / "model.pt2")
    assert_assembles(tmp_path / "model.pt2", tmp_path)
