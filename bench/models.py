#!/usr/bin/env python3
"""The ten models that Kiln is measured on, exported from PyTorch.

    bench/models.py                       export every model that is not in the cache yet
    bench/models.py --only bert-base unet these only (--tiny for the small configurations); those of dense.py, too
    bench/models.py --ops                 a histogram of the operators of each exported graph
    bench/models.py --calls               every distinct operator call with the shapes of its arguments

Weights are random (seed 0), dimensions the published ones, fp32, batch 1, exported with `torch.export.export` as they are.
A folder of the cache holds
    model.pt2        torch.export.save of the program
    inputs.npz       inputs in calling order, keyed "0", "1", ...
    expected.npz     outputs of eager PyTorch in fp32
    reference.npz    outputs of the same weights and inputs in fp64: says whether eager itself is the worse one
    flops            floating-point operations of its products and convolutions, as PyTorch counts them
"""

import argparse
import collections
import hashlib
import logging
import os
import pathlib
import sys
import warnings

import dense
import kernels

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "models"
SEQUENCE = 128
TINY_SEQUENCE = 12

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

# name: (model class, configuration class, published dimensions, tiny dimensions, kind of input).
# The defaults of most configuration classes are the published base model already.
_TEXT = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=200)
_STAGES = dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], num_labels=10)
TRANSFORMERS = {
    "bert-base": ("BertModel", "BertConfig", {}, dict(_TEXT, max_position_embeddings=128), "text"),
    "gpt2-small": ("GPT2LMHeadModel", "GPT2Config", {}, dict(n_embd=64, n_layer=2, n_head=4, vocab_size=200, n_positions=128), "text"),
    "vit-b16": (
        "ViTForImageClassification",
        "ViTConfig",
        dict(num_labels=1000),
        dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8, num_labels=10),
        "image",
    ),
    "resnet50": ("ResNetForImageClassification", "ResNetConfig", dict(num_labels=1000), dict(_STAGES, embedding_size=16), "image"),
    "mobilenet-v2": (
        "MobileNetV2ForImageClassification",
        "MobileNetV2Config",
        dict(num_labels=1001),
        dict(depth_multiplier=0.25, image_size=64, num_labels=10),
        "image",
    ),
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        dict(
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=4,
            num_attention_heads=32,
            num_key_value_heads=8,
            vocab_size=32000,
            max_position_embeddings=4096,
        ),
        dict(_TEXT, num_key_value_heads=2, max_position_embeddings=128),
        "text",
    ),
    "t5-encoder": (
        "T5EncoderModel",
        "T5Config",
        dict(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8),
        dict(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=200),
        "text",
    ),
    "whisper-encoder": (
        "WhisperModel",
        "WhisperConfig",
        dict(
            d_model=384,
            encoder_layers=4,
            encoder_attention_heads=6,
            encoder_ffn_dim=1536,
            decoder_layers=4,
            decoder_attention_heads=6,
            decoder_ffn_dim=1536,
        ),
        dict(
            d_model=64,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=128,
            decoder_ffn_dim=128,
            vocab_size=200,
            max_source_positions=30,
            max_target_positions=64,
            num_mel_bins=16,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=3,
        ),
        "audio",
    ),
    "convnext-tiny": ("ConvNextForImageClassification", "ConvNextConfig", dict(num_labels=1000), _STAGES, "image"),
}
NAMES = ["bert-base", "gpt2-small", "vit-b16", "resnet50", "mobilenet-v2", "llama", "t5-encoder", "whisper-encoder", "convnext-tiny", "mlp"]
# Variants for the tests. Without an attention mask, attention takes another path (`is_causal`, no bias); exported outside
# of `no_grad`, code under a local `no_grad` becomes a nested graph (`wrap_with_set_grad_enabled`).
VARIANTS = ["bert-base-unmasked", "gpt2-small-unmasked", "llama-unmasked", "t5-encoder-unmasked", "llama-grad"]
# Besides: "mlp-narrow", the MLP with next to no arithmetic, whose time is what a call costs.


def quiet():
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)


def randomise_constants(module):
    """Gives every parameter and statistic that initialises to one value (biases, norm scales, layer scales of 1e-6)
    random values: as they are, they would hide whole blocks from a comparison and invite folding them away."""
    import torch

    with torch.no_grad():
        for name, tensor in list(module.named_parameters()) + list(module.named_buffers()):
            if not tensor.is_floating_point() or tensor.numel() < 2 or not bool((tensor == tensor.flatten()[0]).all()):
                continue
            if name.endswith("running_var"):
                tensor.copy_(0.5 + torch.rand_like(tensor))
            else:
                tensor.add_(0.1 * torch.randn_like(tensor))


def _wrap(model, kind):
    """A module with positional tensor inputs that returns a tuple of tensors."""
    import torch

    class Text(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)

    class UnmaskedText(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids=input_ids, return_dict=False)

    class Image(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixel_values):
            return self.model(pixel_values=pixel_values, return_dict=False)

    class Audio(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_features):
            return (self.model(input_features).last_hidden_state,)

    class Waves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_values):
            return (self.model(input_values).last_hidden_state,)

    return {"text": Text, "unmasked": UnmaskedText, "image": Image, "audio": Audio, "waves": Waves}[kind]()


def build(name, tiny=False):
    """(module in eval mode, tuple of inputs) of one model or variant."""
    import torch

    import low_precision  # which imports this file

    torch.manual_seed(0)
    if name in kernels.NAMES:
        return kernels.build(name)
    if name in ("mlp", "mlp-narrow"):
        sizes = [24, 16, 16, 5] if tiny else [784, 512, 512, 10] if name == "mlp" else [8, 8, 8, 8]
        layers = [torch.nn.Linear(sizes[0], sizes[1])]
        for fan_in, fan_out in zip(sizes[1:], sizes[2:]):
            layers += [torch.nn.ReLU(), torch.nn.Linear(fan_in, fan_out)]
        return torch.nn.Sequential(*layers).eval().requires_grad_(False), (torch.randn(1, sizes[0]),)
    if name in low_precision.NAMES:
        return low_precision.build(name, tiny)
    if name in dense.NAMES:
        return dense.build(name, tiny, _wrap, randomise_constants)
    import transformers

    base = name.removesuffix("-unmasked").removesuffix("-grad")
    model_class, config_class, published, small, kind = TRANSFORMERS[base]
    config = getattr(transformers, config_class)(**(small if tiny else published))
    config.use_cache = False
    model = getattr(transformers, model_class)(config)
    if base == "whisper-encoder":
        model = model.get_encoder()
    randomise_constants(model)
    generator = torch.Generator().manual_seed(1)
    if kind == "text":
        length = TINY_SEQUENCE if tiny else SEQUENCE
        ids = torch.randint(3, config.vocab_size - 1, (1, length), generator=generator)
        mask = torch.ones(1, length, dtype=torch.int64)
        mask[:, -length // 8 :] = 0
        inputs = (ids, mask)
        if name.endswith("-unmasked"):
            kind, inputs = "unmasked", (ids,)
    elif kind == "image":
        side = small.get("image_size", 64) if tiny else 224
        inputs = (torch.randn(1, 3, side, side, generator=generator),)
    else:
        inputs = (torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions, generator=generator),)
    return _wrap(model, kind).eval().requires_grad_(False), inputs


def flatten(outputs):
    """The tensors of a result, in order."""
    from torch.utils import _pytree

    return [x for x in _pytree.tree_leaves(outputs) if x is not None]


def _double(x):
    return x.double() if x.is_floating_point() else x


def stamp_of(*files):
    """What an export depends on: the files that make it, and PyTorch."""
    import torch

    text = b"".join(pathlib.Path(file).read_bytes() for file in files) + torch.__version__.encode()
    return hashlib.sha256(text).hexdigest()


def count_flops(module, inputs):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # fused attention is not counted
        module(*inputs)
    return counter.get_total_flops()


def export(name, tiny=False, folder=None, force=False):
    """Exports one model into the cache unless it is there already; returns its folder."""
    import numpy
    import torch

    folder = pathlib.Path(folder) if folder else CACHE / (("tiny-" if tiny else "") + name)
    stamp = folder / "stamp"
    depends = stamp_of(__file__, kernels.__file__ if name in kernels.NAMES else dense.__file__)
    if not force and stamp.exists() and stamp.read_text() == depends:
        return folder
    quiet()
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    module, inputs = build(name, tiny)
    with torch.no_grad():
        outputs = flatten(module(*inputs))
        with torch.set_grad_enabled(name.endswith("-grad")):
            torch.export.save(torch.export.export(module, inputs), folder / "model.pt2")
        (folder / "flops").write_text(str(count_flops(module, inputs)))
        reference = flatten(module.double()(*map(_double, inputs)))
    for file, tensors in (("inputs", inputs), ("expected", outputs), ("reference", reference)):
        numpy.savez(folder / f"{file}.npz", **{str(i): t.numpy() for i, t in enumerate(tensors)})
    stamp.write_text(depends)
    return folder


def load_arrays(path):
    """The arrays of an .npz keyed "0", "1", ... in order."""
    import numpy

    with numpy.load(path) as archive:
        return [archive[str(i)] for i in range(len(archive.files))]


def _nodes(module, prefix=""):
    for node in module.graph.nodes:
        if node.op == "call_function":
            yield prefix, node
        elif node.op == "get_attr" and hasattr(getattr(module, node.target, None), "graph"):
            yield from _nodes(getattr(module, node.target), prefix + node.target + ".")


def _describe(value):
    """An argument as short text: tensors as `f32[1, 128]`, everything else as it is."""
    import torch

    if isinstance(value, torch.fx.Node):
        value = value.meta.get("val", value)
    if isinstance(value, torch.Tensor):
        short = str(value.dtype).removeprefix("torch.").replace("float", "f").replace("int", "i").replace("ui", "u")
        strides = "" if value.is_contiguous() else f" strides {list(value.stride())}"
        return f"{short}{list(value.shape)}{strides}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_describe, value)) + "]"
    return repr(value)


def histogram(program):
    """Counter of operator names of an exported program, nested graphs included."""
    return collections.Counter(str(node.target) for _, node in _nodes(program.graph_module))


def calls(program):
    """Counter of distinct operator calls, as text."""
    lines = collections.Counter()
    for prefix, node in _nodes(program.graph_module):
        arguments = [_describe(a) for a in node.args] + [f"{k}={_describe(v)}" for k, v in node.kwargs.items()]
        lines[f"{prefix}{node.target}({', '.join(arguments)}) -> {_describe(node.meta.get('val'))}"] += 1
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these models (default: all ten)")
    parser.add_argument("--tiny", action="store_true", help="small configurations of the same architectures")
    parser.add_argument("--out", type=pathlib.Path, default=CACHE, help="where to export to (default: .cache/models)")
    parser.add_argument("--force", action="store_true", help="export again what the cache holds")
    parser.add_argument("--ops", action="store_true", help="print the operators of each graph")
    parser.add_argument("--calls", action="store_true", help="print every distinct operator call")
    options = parser.parse_args()
    import torch

    for name in options.only or NAMES:
        folder = export(name, options.tiny, options.out / (("tiny-" if options.tiny else "") + name), options.force)
        size = (folder / "model.pt2").stat().st_size
        print(f"{name}: {folder / 'model.pt2'} ({size / 1e6:.1f} MB)", flush=True)
        if options.ops or options.calls:
            quiet()
            program = torch.export.load(folder / "model.pt2")
            counts = histogram(program) if options.ops else calls(program)
            for target, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
                print(f"  {count:5d}  {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
