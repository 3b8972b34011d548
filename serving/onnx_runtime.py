"""The network of an ONNX export: model.onnx maps token ids to numbers.

ONNX Runtime runs it, or OpenVINO.
"""

import importlib.util
import os
import tempfile
import threading
import types
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

import numpy as np
import tensorflow as tf

from contract import cores, errors, export_formats
from contract import features as feature_names
from data_pipeline.batches import packing
from modeling import losses
from modeling import sequences as windows
from serving import export
from training.distribution import processor

PACKAGES = ("onnxruntime", "onnx")  # the first runs, both write
MODEL = "model.onnx"
_CALIBRATED = 300  # examples
_MAX_BYTES = 2**31  # of a protobuf, also before it is quantized
# export.CALL_TOKENS of int8 in OpenVINO, which compiles each new shape for 15 ms.
_INT8_CALL_TOKENS = 600


def check(config: Any, reading: Any, sequences: str) -> None:
    """Raises InputError for models whose graph is not written here."""
    problem = ""
    if not config.spec.onnx or config.is_left_to_right:
        problem = f"{config.kind} is not written as ONNX"
    elif not (reading.is_plain or reading.pooling):
        problem = "ONNX has no --layer_mix and no --head"
    elif sequences not in ("single", *windows.OF_WINDOWS):
        problem = "examples of several sequences are not written as ONNX"
    elif reading.pooling == "last":
        problem = "ONNX has no pooling of the last token"
    elif (size := 4 * config.num_weights()) >= _MAX_BYTES:
        problem = f"its weights have {size / 1e9:.1f} GB, of 2.1 that a file may have"
    if problem:
        raise errors.InputError(
            "--export_format=onnx is for BERT with the head of the original, and "
            f"{problem}; leave it out: a SavedModel holds this model"
        )


def convert(
    module: export.ServedModel,
    model: Any,
    quantization: str,
    calibration: packing.Packed | None,
) -> bytes:
    """The network as a protobuf; batch and length are free.

    `quantization` is "none", "dynamic_int8" or "static_int8", whose scales hold the
    activations of 300 of the examples `calibration`, or of all if there are fewer.
    """
    from serving import onnx_graph  # needs the package onnx

    forward, problem_type = module.network_stages().forward, None
    if isinstance(forward, losses.WithProbabilities):
        problem_type = forward.problem_type
    is_static = quantization == export_formats.STATIC_INT8
    proto = onnx_graph.build(model, problem_type, quantization)
    if quantization == "none":
        return proto.SerializeToString()
    from onnxruntime import quantization as quantizers

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, MODEL)
        settings = {
            "per_channel": True,
            "reduce_range": True,  # 7 bits: sums of 8 overflow in AVX2
        }
        if is_static:
            rows = _calibration_rows(calibration)
            quantizers.quantize_static(
                proto,
                path,
                types.SimpleNamespace(get_next=lambda: next(rows, None)),
                op_types_to_quantize=["MatMul"],
                nodes_to_exclude=onnx_graph.products_of_activations(proto),
                extra_options={"OpTypesToExcludeOutputQuantization": ["MatMul"]},
                **settings,
            )
        else:
            options = {"DefaultTensorType": 1}  # fused operations give floats
            quantizers.quantize_dynamic(proto, path, extra_options=options, **settings)
        with open(path, "rb") as file:
            return file.read()


def _calibration_rows(examples):
    """Features int32 [N, S] of some examples, from the first to the last."""
    count = min(len(examples), _CALIBRATED)
    for index in np.linspace(0, len(examples) - 1, count, dtype=np.int64):
        grids = packing.gather(examples, index[np.newaxis])
        rows = {
            name: np.reshape(grids[name], [-1, grids[name].shape[-1]])
            for name in feature_names.ENCODER_INPUTS
        }
        count, length = rows[feature_names.INPUT_MASK].shape
        at_once = max(1, export.SLICE_TOKENS // max(1, length))  # of a text's windows
        for begin in range(0, count, at_once):
            yield {k: grid[begin : begin + at_once] for k, grid in rows.items()}


class Network:
    """The network of an export: features int32 [B, S] -> {name: float32 array}.

    Shapes may change from call to call, and threads may call at once. OpenVINO runs
    float32 weights where it is installed, as it takes up to a sixth less time, and
    static int8 where the processor multiplies int8.

    Attributes:
        has_independent_rows: whether the outputs of a row are those of the row alone;
            dynamic int8 has one scale for the numbers of all rows.
        call_tokens: that take about as long as one more call.
        map: a function of a list of features, a text each, to their outputs; None
            where calls have whole batches.
    """

    def __init__(self, directory: str):
        with tf.io.gfile.GFile(os.path.join(directory, MODEL), "rb") as file:
            content = file.read()
        self.has_independent_rows = b"DynamicQuantize" not in content
        is_static = self.has_independent_rows and b"DequantizeLinear" in content
        # OpenVINO computes dynamic int8 in float32, and not of all networks.
        is_slow = not self.has_independent_rows or (
            is_static and not _has_int8_products()
        )
        openvino = None if is_slow else open_openvino(content)
        self._run = openvino or open_onnxruntime(content)
        is_compiled = is_static and openvino is not None
        self.call_tokens = _INT8_CALL_TOKENS if is_compiled else export.CALL_TOKENS
        self.map = None if self.has_independent_rows else _text_by_text(content)

    def __call__(self, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return self._run(_as_read(features))


def _as_read(features):
    return {
        name: np.asarray(features[name], np.int32)
        for name in feature_names.ENCODER_INPUTS
    }


def _has_int8_products() -> bool:
    """Whether the processor has instructions that OpenVINO multiplies int8 by."""
    return bool({"avx512_vnni", "avx_vnni"} & processor.instruction_sets())


def _text_by_text(content):
    """`map` of a Network: a core computes a text, as two of one wait for each other."""
    run = open_onnxruntime(content, num_threads=1)
    pool = futures.ThreadPoolExecutor(cores.usable())
    return lambda texts: pool.map(lambda each: run(_as_read(each)), texts)


def open_onnxruntime(
    content: bytes, num_threads: int | None = None
) -> Callable[..., dict[str, np.ndarray]]:
    """A function of arrays by name; by default it has a thread for each core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads or cores.usable()
    session = onnxruntime.InferenceSession(
        content,
        options,
        providers=["CPUExecutionProvider"],
        # The fused norm takes twice the time of a sum and a norm.
        disabled_optimizers=["SkipLayerNormFusion"],
    )
    names = [output.name for output in session.get_outputs()]
    return lambda arrays: dict(zip(names, session.run(None, arrays), strict=True))


def open_openvino(content: bytes) -> Callable[..., dict[str, np.ndarray]] | None:
    """A function of arrays by name; None where OpenVINO is not installed, or fails."""
    if importlib.util.find_spec("openvino") is None:
        return None
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": cores.usable(),
        "INFERENCE_PRECISION_HINT": "f32",  # also where the processor has bfloat16
        "PERFORMANCE_HINT": "LATENCY",
    }
    core = openvino.Core()
    try:
        model = core.read_model(content, b"")
        names = [output.any_name for output in model.outputs]  # compiled, it has others
        read = {name for port in model.inputs for name in port.get_names()}
        compiled = core.compile_model(model, "CPU", settings)
    except RuntimeError:
        return None
    own = threading.local()  # a request serves one thread

    def run(arrays):
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        # Where segments are not read, OpenVINO has no such input.
        results = own.request.infer({n: a for n, a in arrays.items() if n in read})
        # Copies, since the next call writes into the same memory.
        return {name: results[i].copy() for i, name in enumerate(names)}

    return run
