"""Runs a model in an engine under the commands of protocol.h.

Usage: onnx_peer.py onnxruntime|openvino MODEL INPUTS.npz EXPECTED.npz THREADS [TOLERANCE [PRECISION]]

Outputs further than TOLERANCE (by default a hundredth) of their range from the expected ones end the process: what computes something
else is no peer. PRECISION is what OpenVINO may compute in, by default f32."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import numpy
from eager import serve

import models


def onnxruntime_session(path, threads, _):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [argument.name for argument in session.get_inputs()]
    return lambda *inputs: session.run(None, dict(zip(names, inputs)))


def openvino_request(path, threads, precision):
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
    request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    count = len(request.model_outputs)

    def run(*inputs):
        request.infer(list(inputs), share_inputs=True)
        return [request.get_output_tensor(i).data for i in range(count)]

    return run


def main():
    system, path, inputs, expected, threads, *rest = sys.argv[1:]
    tolerance, precision = [*rest, *["0.01", "f32"][len(rest) :]]
    run = {"onnxruntime": onnxruntime_session, "openvino": openvino_request}[system](path, int(threads), precision)
    inputs = models.load_arrays(inputs)
    for actual, wanted in zip(run(*inputs), models.load_arrays(expected), strict=True):
        if not numpy.abs(actual - wanted).max() <= float(tolerance) * (wanted.max() - wanted.min()):
            sys.exit(f"{system} computes something else")
    serve(run, inputs)


if __name__ == "__main__":
    main()
