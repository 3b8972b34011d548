"""SavedModels that take raw text, for TensorFlow Serving; those of classifiers."""

import collections
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from contract import atomic_files, errors, locks, remote_files, tf_serving
from contract import features as feature_names
from serving.protocol import warmup
from terminal import progress

# TF Serving watches a directory for versions: subdirectories named by numbers.
_VERSION = re.compile(r"^[0-9]+/?$")
# Tokens that go through the network at once, padding included. A long text has
# thousands of windows, which would take gigabytes; more at once is no faster on a CPU.
SLICE_TOKENS = 4096
CALL_TOKENS = 192  # that take a CPU about as long as one more slice

# Files with which TensorFlow Serving starts.
SERVER_CONFIG_FOLDER = "config"
_SERVER_MODELS = """\
# For --model_config_file, where the export is mounted as the container's base_path.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
  }}
}}
"""
_SERVER_BATCHING = """\
# For --enable_batching --batching_parameters_file. A request with more rows than
# max_batch_size is refused. Give num_batch_threads the number of the server's cores.
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
num_batch_threads { value: 2 }
max_enqueued_batches { value: 100 }
"""


class Limits(Protocol):
    """Sizes of a network's tables, as its config has them."""

    vocab_size: int
    type_vocab_size: int  # 0 where segments are not read
    max_position_embeddings: int


@dataclasses.dataclass(frozen=True)
class Stages:
    """The way from texts to answers, so that the network may run somewhere else."""

    # Inputs of `encode`, string [B] each; a name that occurs n times is one input,
    # string [B, n].
    text_names: Sequence[str]
    # Texts -> the features of the network, and a state for `finish`.
    encode: Callable[..., tuple[dict[str, tf.Tensor], Any]]
    # Features -> outputs of the network, numbers alone.
    forward: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]
    # The state, outputs -> the answers.
    finish: Callable[[Any, dict[str, tf.Tensor]], dict[str, tf.Tensor]]
    # An example's input_ids: (None,) where features are [B, S], (G, None) where they
    # are [B, G, S], (None, C) where input_ids alone are [B, S, C], of characters.
    ids_shape: Sequence[int | None] = (None,)

    def answer(self, *texts):
        """Texts to answers, in one graph."""
        features, state = self.encode(*texts)
        return self.finish(state, self.run(features))

    def run(self, features):
        """The outputs of `forward`, computed slice after slice of the examples.

        Slices are of examples of similar length, without the padding of all others.
        Features are [N, S], or [N, G, S] where an example is several sequences; outputs
        are [N, ...], or [N, S, ...], 0 where a slice had no token.
        """
        count = tf.shape(features[feature_names.INPUT_MASK])[0]
        features = with_some(features)
        mask = features[feature_names.INPUT_MASK]
        # A small slice takes a GPU as long as a large one.
        place = tf.raw_ops.DeviceIndex(device_names=["CPU"])
        examples = sort(mask, tf.gather([CALL_TOKENS, SLICE_TOKENS], place))
        # Called twice, but one function of the graph, whose weights are packed once.
        attributes = {"_noinline": True}
        network = tf.function(
            self.forward, autograph=False, experimental_attributes=attributes
        )

        def run_slice(start):
            end, longest = examples.end(start), examples.lengths[start]
            rows = examples.order[start:end]
            inputs = {
                name: cut(tf.gather(grid, rows), mask.ndim - 1, longest)
                for name, grid in features.items()
            }
            missing = tf.shape(mask)[-1] - longest
            outputs = network(inputs)
            return end, {name: _pad_tokens(outputs[name], missing) for name in outputs}

        def add_slice(start, outputs):
            end, more = run_slice(start)
            return end, {k: tf.concat([outputs[k], more[k]], axis=0) for k in outputs}

        # The first outside of the loop, which few rows never enter.
        _, outputs = tf.while_loop(
            lambda start, _: start < tf.size(examples.order),
            add_slice,
            run_slice(0),
            parallel_iterations=1,  # memory is that of one
        )
        places = tf.argsort(examples.order)[:count]
        return {name: tf.gather(value, places) for name, value in outputs.items()}


class Sorted(NamedTuple):
    """Examples by their length, the longest first, and where a slice ends; int32."""

    order: Any  # [N]
    lengths: Any  # [N], in this order, 1 or more
    sequences: Any  # G, of each example
    most_padding: Any  # tokens, before which a slice ends
    most_tokens: int  # with which it ends

    def end(self, start):
        """The end of the slice that begins at a place of the order."""
        longest = self.lengths[start]
        padding = tf.cumsum((longest - self.lengths[start:]) * self.sequences)
        alike = tf.reduce_sum(tf.cast(padding <= self.most_padding, tf.int32))
        tokens = 1 + self.sequences * longest
        return start + tf.minimum(alike, 1 + self.most_tokens // tokens)


class Slices(NamedTuple):
    """Sorted examples in parts that are computed at once.

    All int32, tensors or arrays.
    """

    order: Any  # [N]
    lengths: Any  # [N], in this order, 1 or more
    starts: Any  # [K], places in the order
    ends: Any  # [K]

    def rows(self, index):
        """The examples of a slice, and the length of its longest."""
        start = self.starts[index]
        return self.order[start : self.ends[index]], self.lengths[start]


def sort(mask, most_padding, most_tokens=None) -> Sorted:
    """The examples of an input_mask [N, S] or [N, G, S], N 1 or more.

    A slice ends with `most_tokens`, by default SLICE_TOKENS, or before it has
    `most_padding` tokens of padding; it has an example at least. Its end is found when
    it begins, for one loop less takes less time for one text.
    """
    sequences = tf.reduce_prod(tf.shape(mask)[1:-1])
    places = mask * tf.range(1, tf.shape(mask)[-1] + 1)
    lengths = tf.maximum(tf.reduce_max(places, range(1, mask.shape.rank)), 1)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    lengths = tf.gather(lengths, order)
    most = SLICE_TOKENS if most_tokens is None else most_tokens
    return Sorted(order, lengths, sequences, most_padding, most)


def plan_slices(mask, most_padding, most_tokens=None) -> Slices:
    """All slices; arguments as of `sort`."""
    examples = sort(mask, most_padding, most_tokens)

    def add_end(start, ends):
        end = examples.end(start)
        return end, tf.concat([ends, [end]], axis=0)

    _, ends = tf.while_loop(
        lambda start, _: start < tf.size(examples.order),
        add_end,
        (0, tf.zeros([0], tf.int32)),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
    )
    starts = tf.concat([[0], ends[:-1]], axis=0)
    return Slices(examples.order, examples.lengths, starts, ends)


def with_some(features):
    """Features with a row and a token more where they have none, for convolutions."""
    padded = {}
    for name, grid in features.items():
        missing = tf.maximum(1 - tf.shape(grid), 0)
        padded[name] = tf.pad(grid, tf.stack([tf.zeros_like(missing), missing], axis=1))
        padded[name].set_shape(grid.shape)
    return padded


def cut(grid, axis, size):
    """A grid of tokens, whose `axis` ends after `size`."""
    return grid[(slice(None),) * axis + (slice(size),)]


def _pad_tokens(value, count):
    """An output with `count` zeros behind its tokens, if it is one of tokens."""
    if value.shape.rank < 2 or value.shape[1] is not None:
        return value
    return tf.pad(value, [[0, 0], [0, count], *[[0, 0]] * (value.shape.rank - 2)])


class TextEncoder(Protocol):
    """The way from texts to features, as encoding.Encoder has it."""

    tokenizer: Any
    max_seq_length: int
    # text_a [B], text_b [B] -> {input_ids, input_mask, segment_ids}, as in training;
    # None for a tokenizer that is no TensorFlow operation.
    served: Callable[..., Any] | None
    text_names: Sequence[str]  # see `Stages`, as ids_shape
    ids_shape: Sequence[int | None]


class ServedModel(tf.Module):
    """Signatures over the variables of one model: tf.functions with input specs.

    `stages` are those of `serving_default`, for formats that hold the network alone.
    """

    encoder: TextEncoder | None = None  # of one or two texts an example

    def __init__(
        self,
        variables: Iterable[tf.Variable],
        stages: Stages | None = None,
        **functions,
    ):
        super().__init__()
        self._tracked = list(variables)
        self.stages = stages
        self.functions = functions

    def network_stages(self) -> Stages:
        """The stages; InputError where a signature is more than one network."""
        if self.stages is None:
            raise errors.InputError(
                "only a SavedModel holds this model; leave --export_format out"
            )
        return self.stages

    def signatures(self):
        """The concrete functions that a server offers, by name."""
        return {
            name: function.get_concrete_function()
            for name, function in self.functions.items()
        }


class TextModel(ServedModel):
    """Signatures of a model of texts: `serving_default` takes text, `ids` features.

    Args:
        encoder: without `served`, `ids` is the only signature.
        forward: features -> outputs.
        finish: (), outputs -> what is answered; see `Stages.finish`.
        limits: see `ids_function`.
        names: of further signatures that are `serving_default`.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        forward: Callable,
        variables: Iterable[tf.Variable],
        finish: Callable,
        limits: Limits | None = None,
        names: Sequence[str] = (),
    ):
        encode, shape = encoder.served, encoder.ids_shape
        ids = ids_function(lambda grids: finish((), forward(grids)), shape, limits)
        if encode is None:
            super().__init__(variables, ids=ids)
            return
        whole = Stages(
            encoder.text_names,
            lambda *texts: (encode(*texts), ()),
            forward,
            finish,
            shape,
        )
        default = text_function(whole.answer, *encoder.text_names)
        functions = dict.fromkeys(("serving_default", *names), default)
        super().__init__(variables, whole, **functions, ids=ids)
        self.encoder = encoder


class TextClassifier(TextModel):
    """A TextModel whose `forward` returns `probabilities` float32 [B, C].

    It may return other outputs of an export of the network alone. `label_names` are C
    names for `label`; () where an example has no single label.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        forward: Callable,
        variables: Iterable[tf.Variable],
        label_names: Sequence[str],
        limits: Limits | None = None,
    ):
        name = namer(label_names)

        def finish(_, outputs):
            return name(outputs["probabilities"])

        super().__init__(encoder, forward, variables, finish, limits)


def namer(label_names: Sequence[str]) -> Callable[[Any], dict[str, Any]]:
    """A function of probabilities [B, C] to a classifier's answers; see there."""
    labels = tf.constant(label_names, tf.string) if label_names else None

    def name(probabilities):
        results = {"probabilities": probabilities}
        if labels is not None:
            best = tf.argmax(probabilities, axis=-1)
            results["label"] = tf.gather(labels, best)  # [B]
        return results

    return name


def text_function(function: Callable, *names: str):
    """A tf.function of texts under these names; see `Stages.text_names`."""
    specs = [
        tf.TensorSpec([None, count] if count > 1 else [None], tf.string, name=name)
        for name, count in collections.Counter(names).items()
    ]
    return tf.function(function, specs, autograph=False)


def ids_function(
    function: Callable,
    ids_shape: Sequence[int | None] = (None,),
    limits: Limits | None = None,
):
    """A tf.function of the features of an encoder, int32; see `Stages.ids_shape`.

    With `limits`, features that the network cannot read raise InvalidArgumentError.
    """
    names = feature_names.ENCODER_INPUTS
    shapes = dict.fromkeys(names, ids_shape[: ids_shape.index(None) + 1])
    shapes[feature_names.INPUT_IDS] = ids_shape

    def compute(*arrays):
        features = dict(zip(names, arrays, strict=True))
        if limits is not None:
            is_character = ids_shape[-1] is not None
            features = check_ids(features, limits, reads_characters=is_character)
        outputs = function(with_some(features))
        count = tf.shape(arrays[0])[0]
        return {name: value[:count] for name, value in outputs.items()}

    specs = [tf.TensorSpec([None, *shapes[n]], tf.int32, name=n) for n in names]
    return tf.function(compute, specs, autograph=False)


def check_ids(features, limits, *, reads_characters=False):
    """The features, after assertions that the network has a row for each of them."""
    ids, mask, segments = (features[name] for name in feature_names.ENCODER_INPUTS)
    shape, positions = tf.shape(mask), limits.max_position_embeddings
    has_one_shape = tf.reduce_all(tf.shape(segments) == shape)
    has_one_shape &= tf.reduce_all(tf.shape(ids)[: mask.shape.rank] == shape)
    has_token = (shape[-1] > 0) | (shape[0] == 0)
    conditions = {
        "the inputs differ in shape; give each token one of each": has_one_shape,
        "input_ids have no token; give the special ones where there is no text": (
            has_token
        ),
        f"input_ids have more tokens than {positions}, the positions of the model; "
        "give fewer": shape[-1] <= min(positions, tf.int32.max),
        "input_mask is not 1 for a token and 0 for padding": _is_below(mask, 2),
    }
    if not reads_characters:
        text = f"from 0 to {limits.vocab_size - 1}, the rows of the vocabulary"
        is_row = _is_below(ids, limits.vocab_size)
        conditions[f"input_ids are not all {text}"] = is_row
    if limits.type_vocab_size:
        text = f"segment_ids are not all from 0 to {limits.type_vocab_size - 1}"
        conditions[text] = _is_below(segments, limits.type_vocab_size)
    checks = [tf.debugging.Assert(holds, [text]) for text, holds in conditions.items()]
    with tf.control_dependencies(checks):  # else the network may fail before
        return {name: tf.identity(value) for name, value in features.items()}


def _is_below(values, size):
    return tf.reduce_all((values >= 0) & (values < size))


def write_saved_model(module: ServedModel, directory: str) -> None:
    """Writes the module with its signatures, and requests to warm them up."""
    signatures = module.signatures()
    tf.saved_model.save(module, directory, signatures=signatures)
    extra = os.path.join(directory, tf_serving.EXTRA_DIR)
    tf.io.gfile.makedirs(extra)
    warmup.write(os.path.join(extra, warmup.FILE_NAME), signatures)


def save(
    module: ServedModel,
    export_dir: str,
    files: Mapping[str, str],
    server_config: bool = False,
    write: Callable[[ServedModel, str], None] = write_saved_model,
) -> str:
    """Writes the next version, complete or absent; returns its directory.

    Args:
        export_dir: holds versions 1, 2, ... (TF Serving's --model_base_path).
        files: {name: text} for clients, written beside the model.
        server_config: whether to write the files with which a server starts.
        write: writes the model in some format.

    Raises:
        OSError: the version cannot be written.
        InputError: TensorFlow would read `export_dir` as a pattern, or another process
            exports into it.
    """
    remote_files.refuse_patterns(export_dir, "export_dir")
    with locks.directory(export_dir, f"export_dir={export_dir}"):
        target = os.path.join(export_dir, str(latest_version(export_dir) + 1))
        temporary = os.path.join(export_dir, "incomplete")
        _remove(temporary)  # of a process that was killed
        try:
            with progress.waiting(f"exporting {target}"):
                extra = os.path.join(temporary, tf_serving.EXTRA_DIR)
                tf.io.gfile.makedirs(extra)
                for name, text in files.items():
                    with tf.io.gfile.GFile(os.path.join(extra, name), "w") as file:
                        file.write(text)
                write(module, temporary)
            tf.io.gfile.rename(temporary, target)
        except tf.errors.OpError as error:
            raise atomic_files.unwritable(target, error) from error
        finally:
            _remove(temporary)
    if server_config:
        write_server_config(export_dir)
    return target


def write_server_config(export_dir: str) -> None:
    """Writes models.config and batching_parameters.txt to `config` beside the export.

    The model has the name of the directory that holds both.
    """
    output_dir = os.path.dirname(export_dir.rstrip("/"))
    name = os.path.basename(os.path.abspath(output_dir))
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    folder = os.path.join(output_dir, SERVER_CONFIG_FOLDER)
    texts = {
        "models.config": _SERVER_MODELS.format(name=quoted),
        "batching_parameters.txt": _SERVER_BATCHING,
    }
    atomic_files.write({os.path.join(folder, n): [t] for n, t in texts.items()})


def _remove(directory: str) -> None:
    if tf.io.gfile.isdir(directory):
        tf.io.gfile.rmtree(directory)


def versions(export_dir: str) -> dict[int, str]:
    """{number: directory} of the versions below a directory; 00000007 is 7."""
    if not tf.io.gfile.isdir(export_dir):
        return {}
    names = [n for n in tf.io.gfile.listdir(export_dir) if _VERSION.match(n)]
    return {int(n.rstrip("/")): os.path.join(export_dir, n.rstrip("/")) for n in names}


def latest_version(export_dir: str) -> int:
    """The largest version below a directory, or 0."""
    return max(versions(export_dir), default=0)
