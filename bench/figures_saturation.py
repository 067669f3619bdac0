"""Sums of products of bytes: exact, or of parts that were cut off at 16 bits, by each engine on this machine.

AVX2 multiplies bytes in one instruction, vpmaddubsw, which saturates the sum of two products."""

import sys

import numpy

import peers
import table

STEPS, COLUMNS, ROWS = 256, 64, 16
LEFT, RIGHT = 255, 127
EXACT = STEPS * LEFT * RIGHT
ENGINES = {
    "kiln": "Kiln",
    "kiln@x86-64-v3": "Kiln, with AVX2",
    "torch": "PyTorch (oneDNN)",
    "openvino": "OpenVINO",
    "onnxruntime": "ONNX Runtime",
}


def _kiln(cpu):
    """A linear layer as PyTorch's quantization of exported programs makes it."""
    import torch
    import torch.ao.quantization.fx._decomposed  # registers the operators

    sys.path.insert(0, str(peers.ROOT / "python"))
    import kiln

    quantized = torch.ops.quantized_decomposed

    class Linear(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.full((COLUMNS, STEPS), RIGHT, dtype=torch.int8))

        def forward(self, x):
            x = quantized.quantize_per_tensor(x, 1.0, 0, 0, 255, torch.uint8)
            x = quantized.dequantize_per_tensor(x, 1.0, 0, 0, 255, torch.uint8)
            weight = quantized.dequantize_per_tensor(self.weight, 1.0, 0, -128, 127, torch.int8)
            return torch.nn.functional.linear(x, weight)

    inputs = (torch.full((ROWS, STEPS), float(LEFT)),)
    return kiln.compile(torch.export.export(Linear(), inputs), cpu=cpu)(*inputs)[0]


def _torch():
    import torch

    weight = torch.ops.onednn.qlinear_prepack(torch.full((COLUMNS, STEPS), RIGHT, dtype=torch.int8), [ROWS, STEPS])
    left = torch.full((ROWS, STEPS), LEFT, dtype=torch.uint8)
    scales, zeros = torch.ones(COLUMNS), torch.zeros(COLUMNS, dtype=torch.int64)
    return torch.ops.onednn.qlinear_pointwise(left, 1.0, 0, weight, scales, zeros, None, 1.0, 0, torch.float32, "none", [], "")


def _openvino():
    peers.needs("openvino")
    import openvino
    from openvino import opset13 as ops

    def quantized(value, least, most, levels):
        bounds = [ops.constant(numpy.array(bound, numpy.float32)) for bound in (least, most)]
        return ops.fake_quantize(value, *bounds, *bounds, levels)

    x = ops.parameter([ROWS, STEPS], numpy.float32)
    weight = ops.constant(numpy.full((COLUMNS, STEPS), RIGHT, numpy.float32))
    y = ops.matmul(quantized(x, 0.0, 255.0, 256), quantized(weight, -127.0, 127.0, 255), False, True)
    model = openvino.Core().compile_model(openvino.Model([y], [x], "bytes"), "CPU")
    return model(numpy.full((ROWS, STEPS), LEFT, numpy.float32))[0]


def _onnxruntime():
    peers.needs("onnxruntime", "onnx")
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    weight = onnx.numpy_helper.from_array(numpy.full((STEPS, COLUMNS), RIGHT, numpy.int8), "weight")
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, [ROWS, STEPS])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [ROWS, COLUMNS])
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "weight"], ["y"])], "bytes", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": numpy.full((ROWS, STEPS), LEFT, numpy.uint8)})[0]


def measure(options):
    """The sum of STEPS products of LEFT and RIGHT that each engine gives."""
    print("== sums of products of bytes", flush=True)
    run = {"torch": _torch, "openvino": _openvino, "onnxruntime": _onnxruntime}
    results = {}
    for engine in ENGINES:
        try:
            name, _, cpu = engine.partition("@")
            sums = numpy.asarray(_kiln(cpu or "native") if name == "kiln" else run[engine]())
        except peers.Unavailable as error:
            print(f"   no {engine}: {error}", flush=True)
            continue
        assert (sums == sums.flat[0]).all()
        results[engine] = float(sums.flat[0])
    return results


def tabulate(results):
    rows = [[ENGINES[engine], f"{value:.0f}", "exact" if value == EXACT else "saturated"] for engine, value in results.items()]
    return ["", f"sum of {STEPS} products of {LEFT} and {RIGHT}", f"{EXACT} is exact"], rows


def show(results, goals):
    print("\nSums of products of bytes\n")
    print(table.render(*tabulate(results)))
    for engine in ("kiln", "kiln@x86-64-v3"):
        goals.add(f"{ENGINES[engine]}, sum of products of bytes", results[engine] / EXACT, 1, "of what is exact", at_least=True)
