"""Exports for LiteRT: the network in model.tflite, its texts in a graph beside it.

model.tflite maps token ids to numbers, in any program that has LiteRT. The way from
text to ids and from numbers to answers needs strings, for which LiteRT has no
operations: it is a SavedModel without weights.
"""

import importlib.util
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any

import joblib
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from contract import errors, tf_serving
from contract import features as feature_names
from serving import export
from serving.protocol import servables

MODEL = "model.tflite"  # the name that TF Serving's --prefer_tflite_model looks for
TEXTS = "texts"  # the SavedModel beside it
_NETWORK = "ids"  # the signature of MODEL
_KEPT = "kept_"  # parts of the state of `encode` for `finish`


def write(module: export.ServedModel, directory: str, quantization: str) -> None:
    """Writes one version; `quantization` is "none", "dynamic_int8" or "float16"."""
    tf.saved_model.save(
        tf.Module(),
        os.path.join(directory, TEXTS),
        signatures=_text_signatures(module.stages),
    )
    path = os.path.join(directory, MODEL)
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(_converted(module, quantization))


def _converted(module, quantization):
    """The network as the bytes of a flatbuffer; batch and length are free."""
    ids = export.ids_function(module.stages.forward, module.stages.ids_shape)
    network = export.ServedModel(module.variables, ids=ids)
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(network, directory, signatures=network.signatures())
        converter = tf.lite.TFLiteConverter.from_saved_model(
            directory, signature_keys=[_NETWORK]
        )
        if quantization != "none":  # weights become int8, sums are exact
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        return converter.convert()


def _text_signatures(stages):
    """`encode`, texts to features, and `finish`, numbers to answers.

    Between them a caller runs the network on the features, and adds its outputs to the
    other outputs of `encode`.
    """
    states: list[Any] = []

    def encode(*texts):
        features, state = stages.encode(*texts)
        states[:] = [state]
        return {**features, **_flatten(state)}

    def finish(**arrays):
        flat = [arrays[name] for name in _flatten(states[0])]
        state = tf.nest.pack_sequence_as(states[0], flat, expand_composites=True)
        return stages.finish(state, {name: arrays[name] for name in outputs})

    encoding = export.text_function(encode, *stages.text_names).get_concrete_function()
    network = export.ids_function(stages.forward, stages.ids_shape)
    outputs = network.get_concrete_function().structured_outputs
    encoded = encoding.structured_outputs
    needed = outputs | {k: v for k, v in encoded.items() if k.startswith(_KEPT)}
    specs = {k: tf.TensorSpec(v.shape, v.dtype, k) for k, v in needed.items()}
    finishing = tf.function(finish).get_concrete_function(**specs)
    return {"encode": encoding, "finish": finishing}


def _flatten(state):
    flat = tf.nest.flatten(state, expand_composites=True)
    return {f"{_KEPT}{index}": value for index, value in enumerate(flat)}


def check_installed() -> None:
    """Raises InputError where LiteRT is missing."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise errors.InputError(
            "LiteRT exports are run with a package that is not installed: "
            "pip install ai-edge-litert"
        )


class Network:
    """The network of an export: features int32 [B, S] -> {name: float32 array}.

    Shapes may change from call to call. Threads take turns, since an interpreter has
    one set of tensors.
    """

    def __init__(self, directory: str):
        check_installed()
        from ai_edge_litert import interpreter

        with tf.io.gfile.GFile(os.path.join(directory, MODEL), "rb") as file:
            content = file.read()
        opened = interpreter.Interpreter(
            model_content=content, num_threads=joblib.cpu_count()
        )
        self._run = opened.get_signature_runner(_NETWORK)
        self._lock = threading.Lock()
        # A damaged file is noticed when its operations are prepared, not before.
        shapes = {k: v["shape"] for k, v in self._run.get_input_details().items()}
        self._run(**{name: np.zeros(shape, np.int32) for name, shape in shapes.items()})

    def __call__(self, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
        names = feature_names.ENCODER_INPUTS
        arrays = {name: np.asarray(features[name], np.int32) for name in names}
        rows, *lengths = arrays[names[0]].shape
        if not rows:  # LiteRT has no tensors without elements
            filling = np.zeros([1, *(max(size, 1) for size in lengths)], np.int32)
            arrays = dict.fromkeys(names, filling)
        with self._lock:
            return {k: v[:rows] for k, v in self._run(**arrays).items()}


def is_in(directory: str) -> bool:
    """Whether a version is a LiteRT export."""
    return tf.io.gfile.exists(os.path.join(directory, MODEL))


def open_version(directory: str) -> servables.Version:
    """Loads one export, whose texts, network and answers are one signature."""
    network = Network(directory)
    texts = servables.open_version(os.path.join(directory, TEXTS))
    encode, finish = texts.signatures["encode"], texts.signatures["finish"]

    def call(_, arrays):
        encoded = texts.call("encode", arrays)
        kept = {k: v for k, v in encoded.items() if k.startswith(_KEPT)}
        return texts.call("finish", {**_run(network, encoded), **kept})

    whole = meta_graph_pb2.SignatureDef(
        inputs=encode.inputs, outputs=finish.outputs, method_name=encode.method_name
    )
    return servables.Version({tf_serving.DEFAULT_SIGNATURE: whole}, call)


def _run(network, encoded):
    """As `export.Stages.run`."""
    features = {name: encoded[name] for name in feature_names.ENCODER_INPUTS}
    count, *lengths = features[feature_names.INPUT_MASK].shape
    rows = export.slice_rows(int(np.prod(lengths)))
    slices = [
        network({name: grid[i : i + rows] for name, grid in features.items()})
        for i in range(0, count or 1, rows)
    ]
    return {k: np.concatenate([part[k] for part in slices]) for k in slices[0]}


def open_network(path: str) -> Callable[..., dict[str, tf.Tensor]]:
    """`Network` in the form of a model's call."""
    network = Network(path)

    def forward(features, training=False):
        return {k: tf.constant(v) for k, v in network(features).items()}

    return forward


def describe_size(module: export.ServedModel, path: str) -> str:
    """The size of an export beside that of its weights."""
    before = sum(v.dtype.size * v.shape.num_elements() for v in module.variables)
    after = sum(
        tf.io.gfile.stat(os.path.join(folder, name)).length
        for folder, _, names in tf.io.gfile.walk(path)
        for name in names
    )
    return f"{after / 1e6:.1f} MB, {after / before:.0%} of {before / 1e6:.1f}"
