#!/usr/bin/env python3
"""Models with dynamic dimensions: exported once, one shared object each, right at every size that their ranges allow.

    bench/dynamic.py                          export, compile and compare with eager at every size of every model
    bench/dynamic.py --only gpt2-decode       these only (--tiny for the small configurations)

Architectures, dimensions and weights are those of `models.py`; batch and sequence, image size or length of the cache are left open.
Prefill gives logits and the key/value cache of all tokens; decode takes one token more and a cache of any length. The same models
exported for one combination of sizes alone are what the dynamic ones are timed against.
"""

import argparse
import dataclasses
import pathlib
import sys
import typing

import models

CACHE = models.CACHE.parent / "dynamic"


def _encode(self, input_ids, attention_mask):
    return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)


def _cache_tensors(cache):
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def _prefill(self, input_ids, attention_mask):
    result = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=True)
    return (result.logits, *_cache_tensors(result.past_key_values))


def _decode(self, input_ids, attention_mask, past):
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer, (keys, values) in enumerate(zip(past[::2], past[1::2])):
        cache.update(keys, values, layer)
    result = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
    return (result.logits, *_cache_tensors(result.past_key_values))


def _translate(self, input_ids, attention_mask, decoder_input_ids):
    return self.model(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_input_ids, use_cache=False).logits


def _transcribe(self, input_features, decoder_input_ids):
    return self.model(input_features=input_features, decoder_input_ids=decoder_input_ids, use_cache=False).logits


def _classify(self, pixel_values):
    return self.model(pixel_values=pixel_values, return_dict=False)


def _ids(config, batch, length, generator):
    import torch

    return torch.randint(3, config.vocab_size - 1, (batch, length), generator=generator)


def _padding(batch, length, padded, at_end):
    """A mask of ones; row r has r mod 5 zeros, but at least one 1."""
    import torch

    mask = torch.ones(batch, length, dtype=torch.int64)
    for row in range(batch):
        zeros = min(row % 5, padded - 1)
        mask[row, length - zeros : length] = 0 if at_end else 1
        mask[row, :zeros] = 1 if at_end else 0
    return mask


class Text:
    """Tokens and their mask."""

    def inputs(config, sizes, generator):
        batch, length = sizes["batch"], sizes["length"]
        return _ids(config, batch, length, generator), _padding(batch, length, length, True)

    def shapes(config, dims):
        tokens = {0: dims["batch"], 1: dims["length"]}
        return tokens, tokens


class Cached:
    """One token, the mask of all, keys and values of the ones before."""

    def inputs(config, sizes, generator):
        import torch

        batch, past = sizes["batch"], sizes["past"]
        heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
        width = config.hidden_size // config.num_attention_heads
        cache = [torch.randn(batch, heads, past, width, generator=generator) for _ in range(2 * config.num_hidden_layers)]
        return _ids(config, batch, 1, generator), _padding(batch, past + 1, past, False), cache

    def shapes(config, dims):
        cache = {0: dims["batch"], 2: dims["past"]}
        return {0: dims["batch"]}, {0: dims["batch"], 1: dims["past"] + 1}, [cache] * (2 * config.num_hidden_layers)


class Sequences:
    """Tokens with their mask, and the target's tokens."""

    def inputs(config, sizes, generator):
        return (*Text.inputs(config, sizes, generator), _ids(config, sizes["batch"], sizes["target"], generator))

    def shapes(config, dims):
        return (*Text.shapes(config, dims), {0: dims["batch"], 1: dims["target"]})


class Speech:
    """Features of 30 s of audio, and the text's tokens."""

    def inputs(config, sizes, generator):
        import torch

        batch = sizes["batch"]
        return (
            torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions, generator=generator),
            _ids(config, batch, sizes["target"], generator),
        )

    def shapes(config, dims):
        return {0: dims["batch"]}, {0: dims["batch"], 1: dims["target"]}


class Image:
    """Pixels, of the size that the model was made for or of any."""

    def inputs(config, sizes, generator):
        import torch

        height, width = (sizes.get(name) or config.image_size for name in ("height", "width"))
        return (torch.randn(sizes["batch"], 3, height, width, generator=generator),)

    def shapes(config, dims):
        return ({axis: dims[name] for axis, name in ((0, "batch"), (2, "height"), (3, "width")) if name in dims},)


@dataclasses.dataclass
class Model:
    base: str  # of models.TRANSFORMERS, or of WHOLE
    forward: typing.Callable
    kind: type  # what makes its inputs
    dims: dict  # name: (smallest, largest)
    sizes: list  # what is compared, a tuple in the order of `dims` each
    timed: list  # what is timed
    largest: dict = dataclasses.field(default_factory=dict)  # of the small configuration, where less than `dims`
    strict: bool = False  # export through dynamo: the other way guards on what it cannot prove


_TEXT = {"batch": (1, 64), "length": (2, 512)}
_TEXT_SIZES = [(1, 2), (1, 17), (2, 32), (1, 64), (3, 31), (4, 12), (1, 128), (2, 100), (7, 7), (1, 512)]
_TEXT_TIMED = [(1, 128), (1, 31), (4, 64)]
_CACHE = {"batch": (1, 64), "past": (1, 1000)}
_CACHE_SIZES = [(1, 1), (1, 17), (2, 32), (1, 64), (3, 31), (4, 12), (1, 127), (2, 100), (7, 7), (1, 997)]
_CACHE_TIMED = [(1, 127), (1, 700), (4, 61)]
_SEQUENCES = {"batch": (1, 64), "length": (2, 512), "target": (2, 512)}
_SEQUENCES_SIZES = [(1, 2, 2), (1, 17, 5), (2, 32, 8), (1, 64, 64), (3, 31, 13), (4, 12, 20), (1, 127, 3), (2, 7, 100), (1, 512, 31)]
_SPEECH_SIZES = [(1, 2), (1, 4), (1, 17), (2, 31), (3, 5), (1, 61), (2, 2), (2, 9), (1, 448)]
_BATCH_SIZES = [(1,), (2,), (3,), (4,), (5,), (7,), (8,), (11,)]
_IMAGE_SIZES = [(1, 33, 33), (1, 224, 224), (2, 64, 96), (3, 37, 53), (1, 127, 224), (4, 33, 34), (2, 160, 128), (1, 97, 331)]

MODELS = {
    "bert-base": Model("bert-base", _encode, Text, _TEXT, _TEXT_SIZES, _TEXT_TIMED, {"length": 128}),
    "gpt2-prefill": Model("gpt2-small", _prefill, Text, _TEXT, _TEXT_SIZES, _TEXT_TIMED, {"length": 128}),
    "gpt2-decode": Model("gpt2-small", _decode, Cached, _CACHE, _CACHE_SIZES, _CACHE_TIMED, {"past": 127}),
    "llama-prefill": Model("llama", _prefill, Text, _TEXT, _TEXT_SIZES, _TEXT_TIMED, {"length": 128}),
    "llama-decode": Model("llama", _decode, Cached, _CACHE, _CACHE_SIZES, _CACHE_TIMED, {"past": 127}, strict=True),
    "t5-small": Model(
        "t5", _translate, Sequences, _SEQUENCES, _SEQUENCES_SIZES, [(1, 128, 16), (1, 31, 31), (4, 64, 12)], {"length": 128, "target": 128}
    ),
    "whisper-tiny": Model(
        "whisper", _transcribe, Speech, {"batch": (1, 16), "target": (2, 448)}, _SPEECH_SIZES, [(1, 4), (1, 64), (2, 17)], {"target": 64}
    ),
    "vit-b16": Model("vit-b16", _classify, Image, {"batch": (1, 64)}, _BATCH_SIZES, [(1,), (2,), (5,)]),
    "resnet50": Model(
        "resnet50",
        _classify,
        Image,
        {"batch": (1, 64), "height": (33, 1024), "width": (33, 1024)},
        _IMAGE_SIZES,
        [(1, 224, 224), (2, 127, 160), (1, 331, 97)],
    ),
}
# Whole models where models.py has the encoder alone: (model class, the encoder's name, more of the configuration).
WHOLE = {
    "t5": ("T5ForConditionalGeneration", "t5-encoder", dict(decoder_start_token_id=0)),
    "whisper": ("WhisperForConditionalGeneration", "whisper-encoder", {}),
}


def limits(name, tiny):
    """{dim: (smallest, largest)}"""
    model = MODELS[name]
    return {dim: (least, min(most, model.largest.get(dim, most) if tiny else most)) for dim, (least, most) in model.dims.items()}


def rows(name, tiny, timed=False):
    """The combinations of sizes that are compared, or timed, as dictionaries."""
    most = limits(name, tiny)
    return [
        {dim: min(size, most[dim][1]) for dim, size in zip(most, row, strict=True)}
        for row in (MODELS[name].timed if timed else MODELS[name].sizes)
    ]


def build(name, tiny=False):
    """(module in eval mode, its configuration)"""
    import torch
    import transformers

    torch.manual_seed(0)
    model = MODELS[name]
    whole_class, base, more = WHOLE.get(model.base, (None, model.base, {}))
    model_class, config_class, published, small, _ = models.TRANSFORMERS[base]
    config = getattr(transformers, config_class)(**(small if tiny else published), **more)
    instance = getattr(transformers, whole_class or model_class)(config)
    models.randomise_constants(instance)

    class Wrapper(torch.nn.Module):
        forward = model.forward

        def __init__(self):
            super().__init__()
            self.model = instance

    return Wrapper().eval().requires_grad_(False), config


def inputs(name, config, row, seed=1):
    """Nested inputs of the given sizes."""
    import torch

    return MODELS[name].kind.inputs(config, row, torch.Generator().manual_seed(seed))


def export(name, tiny=False, row=None, folder=None, force=False):
    """Exports one model into the cache unless it is there already, for the sizes of `row` alone if that is given; returns its folder."""
    import torch

    title = "-".join([*(["tiny"] if tiny else []), name, *(map(str, row.values()) if row else ["dynamic"])])
    folder = pathlib.Path(folder) if folder else CACHE / title
    stamp, current = folder / "stamp", models.stamp_of(models.__file__, __file__)
    if not force and stamp.exists() and stamp.read_text() == current:
        return folder
    models.quiet()
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    module, config = build(name, tiny)
    shapes = None
    if not row:
        dims = {dim: torch.export.Dim(dim, min=least, max=most) for dim, (least, most) in limits(name, tiny).items()}
        shapes = MODELS[name].kind.shapes(config, dims)
    example = row or {dim: 3 + 34 * i for i, dim in enumerate(limits(name, tiny))}
    with torch.no_grad():
        program = torch.export.export(module, inputs(name, config, example), dynamic_shapes=shapes, strict=MODELS[name].strict)
    torch.export.save(program, folder / "model.pt2")
    stamp.write_text(current)
    return folder


def compare(name, library, tiny=False, threads=0):
    """Yields (sizes, largest difference from eager as a share of the output's range) for all sizes that are compared."""
    import torch

    import kiln

    module, config = build(name, tiny)
    model = kiln.load(library, threads=threads)
    for row in rows(name, tiny):
        example = inputs(name, config, row)
        with torch.no_grad():
            expected = models.flatten(module(*example))
        actual = model.run(models.flatten(example))
        same = [a.shape for a in actual] == [e.shape for e in expected]
        yield (
            row,
            max(float((a - e).abs().max() / (e.max() - e.min()).clamp(min=1e-30)) for a, e in zip(actual, expected))
            if same
            else float("inf"),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS, metavar="NAME", help="these models (default: all)")
    parser.add_argument("--tiny", action="store_true", help="small configurations of the same architectures")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="largest difference allowed, as a share of the output's range")
    options = parser.parse_args()
    sys.path.insert(0, str(models.ROOT / "python"))
    import peers

    failures = 0
    for name in options.only:
        library, seconds = peers.kiln(export(name, options.tiny))
        print(f"{name}: compiled in {seconds:.1f} s", flush=True)
        for row, error in compare(name, library, options.tiny):
            failures += not error <= options.tolerance
            print(
                f"  {' '.join(f'{dim} {size}' for dim, size in row.items())}: {error:.1e}{'' if error <= options.tolerance else ' WRONG'}",
                flush=True,
            )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
