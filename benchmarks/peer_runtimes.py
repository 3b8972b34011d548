"""The peer's classifier in the runtimes that people serve it with.

ONNX Runtime, with its own fusions and with int8 weights, and OpenVINO. Needs onnx,
onnxruntime and openvino, in the Python of the peer.
"""

import os
import tempfile
import types

import onnxruntime
import openvino
import torch
from onnxruntime import quantization
from onnxruntime.transformers import optimizer

from contract import cores

INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


def open_model(model, engine, mode):
    """A function like `model`: int64 tensors [B, S] by name -> an object with `logits`.

    `engine` is "onnxruntime" or "openvino", `mode` "", "fused" or "int8".
    """
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.onnx")
        _export(model, path)
        if mode == "fused":
            config = model.config
            fused = optimizer.optimize_model(
                path,
                "bert",
                num_heads=config.num_attention_heads,
                hidden_size=config.hidden_size,
                opt_level=1,
            )
            fused.save_model_to_file(path)
        if mode == "int8":
            quantization.quantize_dynamic(path, path, per_channel=True)
        run = {"onnxruntime": _onnxruntime, "openvino": _openvino}[engine](path)

    def call(**batch):
        arrays = {name: batch[name].numpy() for name in INPUTS}
        return types.SimpleNamespace(logits=torch.from_numpy(run(arrays)))

    return call


def _export(model, path):
    """Writes model.onnx with free sizes of batch and length."""

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            return self.model(**dict(zip(INPUTS, inputs, strict=True))).logits

    ids = torch.ones(2, 16, dtype=torch.int64)
    torch.onnx.export(
        Logits(),
        (ids, ids, ids),
        path,
        input_names=INPUTS,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in INPUTS},
        opset_version=17,
        dynamo=False,
    )


def _onnxruntime(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores.usable()
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    return lambda arrays: session.run(None, arrays)[0]


def _openvino(path):
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": cores.usable(),
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    request = compiled.create_infer_request()
    return lambda arrays: request.infer(arrays)[0].copy()
