"""Exports whose network another runtime runs, with their texts in a graph beside it.

The file of the network maps token ids to numbers, in any program that has the runtime.
The way from text to ids and from numbers to answers needs strings, which runtimes lack:
it is a SavedModel without weights.
"""

import functools
import os
import zlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from contract import atomic_files, errors, file_names, json_files, tf_serving
from contract import features as feature_names
from data_pipeline.batches import packing
from serving import export, litert, onnx_runtime, plain_texts
from serving.protocol import servables

# By --export_format.
RUNTIMES: Mapping[str, ModuleType] = {"litert": litert, "onnx": onnx_runtime}
TEXTS = "texts"  # the SavedModel beside the network
CHECKSUMS = "checksums.json"  # {file: CRC-32 of its bytes}
_KEPT = "kept_"  # parts of the state of `encode` for `finish`


def write(
    module: export.ServedModel,
    directory: str,
    *,
    export_format: str,
    model: Any,
    quantization: str,
    calibration: packing.Packed | None,
) -> None:
    """Writes one version; arguments as of `formats.save`."""
    runtime = RUNTIMES[export_format]
    tf.saved_model.save(
        tf.Module(),
        os.path.join(directory, TEXTS),
        signatures=_text_signatures(module.network_stages()),
    )
    plain_texts.write(module, directory)
    content = runtime.convert(module, model, quantization, calibration)
    with tf.io.gfile.GFile(os.path.join(directory, runtime.MODEL), "wb") as file:
        file.write(content)
    checksums = {
        os.path.relpath(os.path.join(folder, name), directory): _checksum(folder, name)
        for folder, _, names in tf.io.gfile.walk(directory)
        for name in names
    }
    atomic_files.write_json(os.path.join(directory, CHECKSUMS), checksums)


def _checksum(folder, name):
    with tf.io.gfile.GFile(os.path.join(folder, name), "rb") as file:
        return zlib.crc32(file.read())


def _compare_checksums(directory):
    """Raises InputError where a file changed; earlier exports have no checksums."""
    record = os.path.join(directory, CHECKSUMS)
    remedy, checksums = f"copy {directory} again, or export the model again", {}
    if tf.io.gfile.exists(record):
        checksums = json_files.read_object(record, remedy=remedy)
    for name, checksum in checksums.items():
        path = os.path.join(directory, name)
        if not tf.io.gfile.exists(path) or _checksum(directory, name) != checksum:
            raise errors.InputError(f"{path}: is missing or damaged; {remedy}")


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
    finishing = tf.function(finish, autograph=False)
    return {"encode": encoding, "finish": finishing.get_concrete_function(**specs)}


def _flatten(state):
    flat = tf.nest.flatten(state, expand_composites=True)
    return {f"{_KEPT}{index}": value for index, value in enumerate(flat)}


def check_installed(export_format: str, *packages: str) -> None:
    """Raises InputError where a package of a runtime is missing; by default any."""
    needed = packages or RUNTIMES[export_format].PACKAGES
    errors.check_installed(f"--export_format={export_format}", *needed)


def open_network(directory: str) -> Any:
    """The network of an export: features int32 [B, S] -> {name: float32 array}."""
    export_format = format_of(directory)
    runtime = RUNTIMES[export_format]
    check_installed(export_format, runtime.PACKAGES[0])
    _compare_checksums(directory)
    return runtime.Network(directory)


def format_of(directory: str) -> str:
    """The --export_format of a version; "" where it has no file of a runtime."""
    for export_format, runtime in RUNTIMES.items():
        if tf.io.gfile.exists(os.path.join(directory, runtime.MODEL)):
            return export_format
    return ""


def open_rows(directory: str) -> Callable[..., dict[str, np.ndarray]]:
    """A function of features int32 [N, S] or [N, G, S], computed as for texts."""
    network = open_network(directory)
    texts = servables.open_version(os.path.join(directory, TEXTS))
    return _runner(network, texts.signatures["finish"])


def open_version(directory: str) -> servables.Version:
    """Loads one export, whose texts, network and answers are one signature."""
    network = open_network(directory)
    texts = servables.open_version(os.path.join(directory, TEXTS))
    encode, finish = texts.signatures["encode"], texts.signatures["finish"]
    plain = _open_plain(directory, texts)
    run = _runner(network, finish)

    def call(_, arrays):
        if plain and (features := plain.encode(arrays)):
            return plain.finish(run(features))
        encoded = texts.call("encode", arrays)
        kept = {k: v for k, v in encoded.items() if k.startswith(_KEPT)}
        return texts.call("finish", {**run(encoded), **kept})

    whole = meta_graph_pb2.SignatureDef(
        inputs=encode.inputs, outputs=finish.outputs, method_name=encode.method_name
    )
    signatures = {tf_serving.DEFAULT_SIGNATURE: whole}
    return servables.Version(signatures, call)


def _open_plain(directory, texts):
    """The PlainTexts of an export, or None where it has none."""
    if not tf.io.gfile.exists(os.path.join(directory, file_names.TOKENIZER)):
        return None
    names, label_names = sorted(texts.signatures["encode"].inputs), None
    finish = texts.signatures["finish"]
    if "label" in finish.outputs:  # each, where it alone is probable
        count = finish.inputs["probabilities"].tensor_shape.dim[-1].size
        numbers = dict.fromkeys(finish.inputs, np.eye(count, dtype=np.float32))
        label_names = texts.call("finish", numbers)["label"]
    return plain_texts.PlainTexts(directory, names, label_names)


@functools.cache
def _plan_slices(rank: int) -> Any:
    """export.plan_slices for masks of a rank: one for all would forget their rank."""
    return tf.function(export.plan_slices, autograph=False, reduce_retracing=True)


def _runner(network, finish):
    """`_run` of a network; the signature `finish` takes its outputs."""
    are_independent = getattr(network, "has_independent_rows", True)
    dims = {name: info.tensor_shape.dim for name, info in finish.inputs.items()}
    token_outputs = {n for n, dim in dims.items() if len(dim) > 1 and dim[1].size == -1}
    most_tokens = export.SLICE_TOKENS if are_independent else 0
    return functools.partial(_run, network, token_outputs, most_tokens)


def _run(network, token_outputs, most_tokens, encoded):
    """As `export.Stages.run`; `token_outputs` are the names of those that are [N, S].

    With `most_tokens` 0, rows that are not independent are computed one by one.
    """
    features = {name: encoded[name] for name in feature_names.ENCODER_INPUTS}
    mask = features[feature_names.INPUT_MASK]
    count, size = len(mask), mask.shape[-1]
    if not mask.size:  # runtimes refuse tensors without elements
        features = {
            name: np.zeros([max(size, 1) for size in grid.shape], grid.dtype)
            for name, grid in features.items()
        }
    padding = mask.size - np.count_nonzero(mask)
    is_slice = count < 2 or mask.size <= most_tokens
    call_tokens = getattr(network, "call_tokens", export.CALL_TOKENS)
    if is_slice and padding <= call_tokens:
        # One slice, which TensorFlow need not find.
        return {name: value[:count] for name, value in network(features).items()}
    planned = _plan_slices(mask.ndim)(mask, call_tokens, most_tokens)
    slices = export.Slices._make(each.numpy() for each in planned)
    cuts = [slices.rows(index) for index in range(len(slices.ends))]
    inputs = [
        {
            name: export.cut(grid[rows], mask.ndim - 1, longest)
            for name, grid in features.items()
        }
        for rows, longest in cuts
    ]
    compute = getattr(network, "map", None) or functools.partial(map, network)
    parts = list(compute(inputs))
    for outputs, (_, longest) in zip(parts, cuts, strict=True):
        for name in token_outputs & outputs.keys():
            missing, rank = size - longest, outputs[name].ndim
            widths = [(0, missing * (axis == 1)) for axis in range(rank)]
            outputs[name] = np.pad(outputs[name], widths)
    places = np.argsort(slices.order)
    return {k: np.concatenate([part[k] for part in parts])[places] for k in parts[0]}


def describe_size(module: export.ServedModel, path: str) -> str:
    """The size of an export beside that of its weights."""
    before = sum(v.dtype.size * v.shape.num_elements() for v in module.variables)
    after = sum(
        tf.io.gfile.stat(os.path.join(folder, name)).length
        for folder, _, names in tf.io.gfile.walk(path)
        for name in names
    )
    return f"{after / 1e6:.1f} MB, {after / before:.0%} of {before / 1e6:.1f}"
