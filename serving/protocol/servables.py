"""Loaded versions of a model by number: what servers of any protocol answer from.

Wrong requests raise the errors of `tf.errors`, whose codes are those of gRPC.
"""

import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from contract import atomic_files, tensorflow_later, tf_serving
from serving.protocol import warmup

_SERVE_TAG = "serve"
Arrays = Mapping[str, np.ndarray]


class Version:
    """One exported model.

    Args:
        signatures: by name, as they lie in the file of a SavedModel.
        call: name of a signature, its inputs -> its outputs, {name: array} each.
    """

    def __init__(
        self,
        signatures: Mapping[str, meta_graph_pb2.SignatureDef],
        call: Callable[[str, Arrays], Arrays],
    ):
        self.signatures = signatures
        self.call = call

    def inputs(self, name: str) -> dict[str, tf.TensorSpec]:
        """The inputs of a signature; the name "" is that of the default one.

        Raises:
            tf.errors.InvalidArgumentError: there is no such signature with inputs.
        """
        name = name or tf_serving.DEFAULT_SIGNATURE
        if not self._specs.get(name):
            known = sorted(key for key, specs in self._specs.items() if specs)
            raise invalid(
                f'Serving signature name: "{name:.80}" not found in signature def; '
                f"there are {', '.join(known)}"
            )
        return self._specs[name]

    @functools.cached_property
    def _specs(self):
        """{signature: {input: TensorSpec}}; they take a tenth of a short request."""
        return {
            name: {key: _spec(info) for key, info in definition.inputs.items()}
            for name, definition in self.signatures.items()
        }

    def text_signatures(self) -> dict[str, dict[str, int]]:
        """{name: inputs} of the signatures that take texts and nothing else.

        Inputs are {name: texts of an example}, 1 for texts [B] and n for [B, n].
        """
        signatures = {}
        for name, specs in self._specs.items():
            counts = {k: _count_texts(spec) for k, spec in specs.items()}
            if counts and all(counts.values()):
                signatures[name] = counts
        return signatures

    def find_texts(
        self, output: str, numbers: Collection[int]
    ) -> tuple[str, list[str], int] | None:
        """The first signature with an output that takes as many texts as a number.

        The output has one width for all rows, unlike that of a tagger.
        Returns the name, the inputs, one text each, and the width; None without one.
        """
        for name, inputs in self.text_signatures().items():
            is_single = {*inputs.values()} == {1} and len(inputs) in numbers
            info = self.signatures[name].outputs.get(output)
            if is_single and info is not None:
                shape = _spec(info).shape  # [B, W]; W is unknown where words have them
                if shape.rank == 2 and shape[1]:
                    return name, sorted(inputs), shape[1]
        return None

    @functools.cached_property
    def joined_signatures(self) -> frozenset[str]:
        """The signatures for which texts of several requests may be computed as one.

        Outputs whose width depends on the longest text of a request are excluded.
        """
        return frozenset(
            name
            for name in self.text_signatures()
            if all(
                _spec(info).shape[1:].is_fully_defined()
                for info in self.signatures[name].outputs.values()
            )
        )

    def predict(self, name: str, arrays: Arrays) -> Arrays:
        """The outputs of a signature; strings are arrays of `bytes` objects.

        Raises:
            tf.errors.OpError: as of `check`, or the model has failed.
        """
        self.check(name, arrays)
        return self.call(name or tf_serving.DEFAULT_SIGNATURE, arrays)

    def check(self, name: str, arrays: Arrays) -> None:
        """Compares inputs with a signature.

        Raises:
            tf.errors.InvalidArgumentError: names, types or shapes of the inputs are
                not those of the signature.
        """
        inputs = self.inputs(name)
        if set(arrays) != set(inputs):
            raise invalid(
                f"inputs are {', '.join(sorted(arrays)) or 'none'}; the signature "
                f"takes {', '.join(sorted(inputs))}"
            )
        for key, spec in inputs.items():
            _check(key, arrays[key], spec)


class Model(NamedTuple):
    """Versions under one name; the largest number answers requests without one.

    `labels` are the names of a classifier's probabilities, in order.
    """

    name: str
    versions: Mapping[int, Version]
    labels: Sequence[str] = ()

    def version(self, name: str, number: int | None = None) -> Version:
        """The version with this number, or the newest.

        Raises:
            tf.errors.NotFoundError: the name or the number is another.
        """
        wanted = max(self.versions) if number is None else number
        if name == self.name and wanted in self.versions:
            return self.versions[wanted]
        known = ", ".join(map(str, sorted(self.versions)))
        request = f"Latest({name:.80})"
        if number is not None:
            request = f"Specific({name:.80}, {number})"
        raise tf.errors.NotFoundError(
            None,
            None,
            f"Servable not found for request: {request}; {self.name} is here, in "
            f"version {known}",
        )


def open_version(directory: str) -> Version:
    """Loads one SavedModel."""
    tensorflow_later.check_docstrings()
    import tensorflow_text  # noqa: F401  (registers the operations of the tokenizer)

    with tf.io.gfile.GFile(os.path.join(directory, "saved_model.pb"), "rb") as file:
        graphs = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs
    (graph,) = (g for g in graphs if _SERVE_TAG in g.meta_info_def.tags)
    loaded = tf.saved_model.load(directory)

    def call(name, arrays):
        tensors = {key: tf.constant(array) for key, array in arrays.items()}
        outputs = loaded.signatures[name](**tensors)
        return {key: value.numpy() for key, value in outputs.items()}

    return Version(dict(graph.signature_def), call)


def number(directory: str) -> int:
    """The number of a version: the name of its directory, or else 1."""
    folder = os.path.basename(directory.rstrip("/"))
    return int(folder) if folder.isdigit() else 1


def warm(version: Version, directory: str) -> None:
    """Answers texts of a few lengths, for the first answers take some seconds.

    An error of the model is a warning.
    """
    try:
        for name, definition in version.signatures.items():
            specs = {key: _spec(info) for key, info in definition.inputs.items()}
            for arrays in warmup.requests(specs):
                version.predict(name, arrays)
    except (ValueError, tf.errors.OpError) as error:
        logging.warning(
            "%s: not all warm-up requests were answered (%s), so first answers may "
            "take longer; export the model again",
            directory,
            atomic_files.reason(error),
        )


def _spec(info):
    return tf.TensorSpec(info.tensor_shape, tf.as_dtype(info.dtype))


def _count_texts(spec):
    """The number of texts of an example in an input; 0 if it takes no texts."""
    if spec.dtype != tf.string or spec.shape.rank not in (1, 2):
        return 0
    return 1 if spec.shape.rank == 1 else spec.shape[1] or 0


def _check(name, array, spec):
    dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
    if dtype != spec.dtype:
        raise invalid(
            f"{name} is of type {dtype.name}, the model takes {spec.dtype.name}"
        )
    if not spec.shape.is_compatible_with(array.shape):
        sizes = [-1 if size is None else size for size in spec.shape.as_list()]
        raise invalid(f"{name} has shape {list(array.shape)}, the model takes {sizes}")


def invalid(text: str) -> tf.errors.InvalidArgumentError:
    """The error of a request that no model could answer."""
    return tf.errors.InvalidArgumentError(None, None, text)
