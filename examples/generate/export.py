"""Exports a language model of Hugging Face's transformers with a static cache as two programs: `prefill` reads two or more
tokens at any positions, `decode` one.

    python export.py model.pt2 [--model FOLDER] [--length 128] [--scheme bf16]

Without --model it is a tiny Llama with random weights. Schemes of integers are torchao's."""

import argparse

import torch
from torch.export.pt2_archive._package import package_pt2
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM


def make_model(folder=None):
    if folder:
        return AutoModelForCausalLM.from_pretrained(folder).eval()
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=500, tie_word_embeddings=True, initializer_range=0.3, **sizes)).eval()


def quantize(model, scheme):
    if scheme == "bf16":
        return model.to(torch.bfloat16)
    if scheme == "f32":
        return model.float()
    from torchao import quantization

    four_bits = {"weight_dtype": torch.int4}
    configurations = {
        "int8": lambda: quantization.Int8WeightOnlyConfig(),
        "int4": lambda: quantization.IntxWeightOnlyConfig(**four_bits, granularity=quantization.PerGroup(32)),
        "8da4w": lambda: quantization.Int8DynamicActivationIntxWeightConfig(**four_bits, weight_granularity=quantization.PerGroup(32)),
    }
    quantization.quantize_(model, configurations[scheme]())
    return model


def export(model, length):
    cache = {"batch_size": 1, "max_cache_len": length}
    model.generation_config = GenerationConfig(use_cache=True, cache_implementation="static", max_length=length, cache_config=cache)
    module = TorchExportableModuleForDecoderOnlyLM(model, batch_size=1, max_cache_len=length)

    def trace(count, shapes=None):
        inputs = {"input_ids": torch.zeros(1, count, dtype=torch.long), "cache_position": torch.arange(count)}
        # Makes plain tensors of torchao's, which archives hold pickled.
        return module.export(**inputs, dynamic_shapes=shapes).run_decompositions({})

    count = torch.export.Dim("count", min=2, max=length)
    return {"prefill": trace(8, {"input_ids": {1: count}, "cache_position": {0: count}}), "decode": trace(1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--model", help="a folder that from_pretrained reads")
    parser.add_argument("--length", type=int, default=128, help="positions of the cache")
    parser.add_argument("--scheme", choices=["f32", "bf16", "int8", "int4", "8da4w"], default="f32", help="of the weights")
    arguments = parser.parse_args()
    model = quantize(make_model(arguments.model), arguments.scheme)
    package_pt2(arguments.output, exported_programs=export(model, arguments.length))
