"""Opens a directory as a model with its head; what bert.py returns is made of this."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from cli import networks
from contract import errors
from data_pipeline import label_maps
from data_pipeline.classification import labels
from modeling import pretrainers, sequences
from modeling.checkpoints import (
    checkpoint,
    conversion,
    hugging_face,
    pretrained,
    sentence_transformers,
)
from training import run_directory

_LEAST_TOKENS = 4  # as of --max_seq_length
_USUAL_TOKENS = 128
TEXT_HEADS = ("auto", "text_encoder")  # for which a modules.json counts


class Built(NamedTuple):
    """A model with its weights; `modules` of a TextEncoder, `classes` of a head."""

    model: Any
    classes: label_maps.Classes | None
    report: checkpoint.LoadReport
    modules: sentence_transformers.SentenceTransformer | None = None


def open_directory(
    directory: Any,
    max_seq_length: int | None,
    do_lower_case: bool | None,
    check_case: bool,
    head: str | None = None,
) -> tuple[networks.Opened, int]:
    """The files of a directory, and the length in tokens.

    `head` is None where a new one is made; else the network may be an encoder-decoder.
    A length of None is that of the modules beside the network, of the run, or 128.
    """
    place = pretrained.locate(directory, "directory")
    length, modules = max_seq_length, None
    if length is None and head in TEXT_HEADS:
        modules = sentence_transformers.read(place.checkpoint)
    if length is None:
        length = run_directory.trained_with(directory, "max_seq_length")
        length = length or _USUAL_TOKENS
    is_number = isinstance(length, int) and length is not True
    if not is_number or length < _LEAST_TOKENS:
        raise errors.InputError(
            f"max_seq_length={length!r} is no number of tokens; give "
            f"{_LEAST_TOKENS} or more, [CLS] and [SEP] included"
        )
    opened = networks.open_network(
        networks.files_in(place, do_lower_case),
        0 if modules else length,
        checks_case=check_case,
        takes_encoder_decoder=head is not None,
    )
    if modules:
        positions = opened.config.max_position_embeddings
        length = min(modules.max_seq_length or positions, positions)
    return opened, length


def with_new_head(opened: networks.Opened, classes: label_maps.Classes) -> Built:
    """A classifier for Labels, a tagger for TagNames."""
    path, (_, _, config) = opened.files.init_checkpoint, opened
    if isinstance(classes, labels.Labels):
        num_outputs, settings = classes.num_outputs, _reading(classes)
        model = pretrainers.build("classifier", num_outputs, config, **settings)
    else:
        model = pretrainers.build("tagger", len(classes.names), config)
    return Built(model, classes, checkpoint.load(model, path))


def with_stored_head(opened: networks.Opened, wanted: str) -> Built:
    """The head of the weights; of "auto" without those of pretraining."""
    path, (_, _, config) = opened.files.init_checkpoint, opened
    label_map, file = label_maps.find(path), checkpoint.open_file(path, config)
    head = label_maps.find_head(label_map, wanted)
    head, num_classes = conversion.find_head(file, config, head, path)
    if wanted == "auto" and head == "pretraining":
        head = "none"
    classes = None
    if num_classes:
        tell = functools.partial(hugging_face.read_labels, config, num_classes)
        classes = label_maps.read_classes(label_map, head, num_classes, tell)
        if classes is None and head == "classifier" and tell()[0] != "choice":
            names = hugging_face.placeholder_labels(num_classes)
            classes = label_maps.named(names, tell()[0])
    read = conversion.read(path, config, head, **_reading(classes))
    return Built(read.model, classes, read.report, read.modules)


def _reading(classes: label_maps.Classes | None) -> Mapping[str, Any]:
    """How a classifier with these classes reads the sequences of an example."""
    if not isinstance(classes, labels.Labels):
        return {}
    return {
        "sequences": sequences.choose_kind(classes.problem_type, classes.pair_input)
    }
