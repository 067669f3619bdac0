#!/usr/bin/env python3
"""Writes a program of low_precision.py as another engine has it: low_precision_export.py openvino|onnxruntime|llama SOURCE NAME tiny|published TARGET

The engine's own tools quantize the program in fp32: nncf and ONNX Runtime's quantizers that of SOURCE, which is ONNX, and the gguf
package the weights of the decoder."""

import pathlib
import sys
import tempfile

import low_precision
import models

GGUF_TYPES = {"f32": "F32", "bf16": "BF16", "int8": "Q8_0", "int4-g32": "Q4_0", "8da4w": "Q4_0", "8da8w": "Q8_0"}


def _inputs(name, tiny):
    """Inputs of one of the ten models."""
    return models.build(low_precision.network_of(name), tiny)[1]


def openvino(source, name, tiny, target):
    import nncf
    import openvino

    scheme = name.partition("-")[2]
    model = openvino.convert_model(source)
    if low_precision.network_of(name):
        samples = [[value.numpy() for value in some] for some in low_precision.calibration(_inputs(name, tiny))]
        kind = nncf.ModelType.TRANSFORMER if name.startswith(("bert", "vit")) else None
        model = nncf.quantize(model, nncf.Dataset(samples), model_type=kind, subset_size=len(samples))
    elif scheme in ("int8", "8da8w"):
        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    elif "4" in scheme:
        group = 128 if scheme.endswith("g128") else 32
        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT4_SYM, group_size=group, all_layers=True)
    openvino.save_model(model, target, compress_to_fp16=False)


def _fold(source, folder):
    """The program with constants in the place of transposed ones, which quantizers do not look through."""
    import onnxruntime

    options, target = onnxruntime.SessionOptions(), f"{folder}/folded.onnx"
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = target
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "folded.data")
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return target


def onnxruntime(source, name, tiny, target):
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits

    class Reader(quantization.CalibrationDataReader):
        def __init__(self, names):
            self.names, self.samples = names, low_precision.calibration(_inputs(name, tiny))

        def get_next(self):
            some = next(self.samples, None)
            return some and {key: value.numpy() for key, value in zip(self.names, some, strict=True)}

    scheme = name.partition("-")[2]
    with tempfile.TemporaryDirectory(dir=pathlib.Path(target).parent) as folder:
        folded = _fold(source, folder)
        if low_precision.network_of(name):
            names = [value.name for value in onnx.load(folded, load_external_data=False).graph.input]
            options = {
                "weight_type": quantization.QuantType.QInt8,
                "use_external_data_format": True,
                "reduce_range": name.endswith("-narrow"),
            }
            quantization.quantize_static(folded, target, Reader(names), per_channel=True, **options)
        elif name.startswith("product"):
            quantization.quantize_dynamic(folded, target, per_channel=True)
        else:
            bits, group = (8 if scheme in ("int8", "8da8w") else 4), (128 if scheme.endswith("g128") else 32)
            configuration = nbits.DefaultWeightOnlyQuantConfig(block_size=group, is_symmetric=True, accuracy_level=4, bits=bits)
            quantizer = nbits.MatMulNBitsQuantizer(onnx.load(folded), algo_config=configuration)
            quantizer.process()
            quantizer.model.save_model_to_file(target, True)


def _pairs(weight, head):
    """Rows of a projection in the order of engines that turn neighbours, of one that turns halves."""
    rows, columns = weight.shape
    return weight.reshape(rows // head, 2, head // 2, columns).transpose(1, 2).reshape(rows, columns)


def llama(_, name, tiny, target):
    import gguf

    kind = GGUF_TYPES[name.partition("-")[2]]
    sizes = low_precision.TINY if tiny else low_precision.PUBLISHED
    module = low_precision.decoder(tiny)
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(sizes["vocabulary"])
    writer.add_context_length(1024)
    writer.add_embedding_length(sizes["hidden"])
    writer.add_block_count(sizes["layers"])
    writer.add_feed_forward_length(sizes["inner"])
    writer.add_head_count(sizes["heads"])
    writer.add_head_count_kv(sizes["groups"])
    writer.add_rope_dimension_count(sizes["head"])
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    of = {"embedding": "token_embd", "norm": "output_norm", "logits": "output"}
    of |= {"norms.0": "attn_norm", "norms.1": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"}
    of |= {"gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    for key, value in module.named_parameters():
        layer, _, rest = key.removeprefix("layers.").partition(".") if key.startswith("layers.") else ("", "", key)
        part = rest.removesuffix(".weight")
        weight = _pairs(value, sizes["head"]) if part in ("q", "k") else value
        form = gguf.GGMLQuantizationType[kind if value.ndim == 2 else "F32"]
        data = gguf.quants.quantize(weight.contiguous().numpy(), form)
        writer.add_tensor(f"blk.{layer}.{of[part]}.weight" if layer else f"{of[part]}.weight", data, raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    models.quiet()
    import torch

    system, source, name, size, target = sys.argv[1:]
    with torch.no_grad():
        {"openvino": openvino, "onnxruntime": onnxruntime, "llama": llama}[system](source, name, size == "tiny", target)


if __name__ == "__main__":
    main()
