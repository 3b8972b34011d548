"""Opens a directory as a model with its head; what bert.py returns is made of this."""

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from contract import errors, file_names, json_files, remote_files
from data_pipeline import label_maps
from data_pipeline.classification import labels
from data_pipeline.text import base, opening
from modeling import pretrainers, sequences
from modeling.checkpoints import (
    checkpoint,
    conversion,
    hugging_face,
    pretrained,
    sentence_transformers,
)

_LEAST_TOKENS = 4  # as of --max_seq_length
_USUAL_TOKENS = 128


class Opened(NamedTuple):
    """A network that is checked against its vocabulary, but not built yet."""

    files: pretrained.ModelFiles
    tokenizer: base.Tokenizer
    config: Any


class Built(NamedTuple):
    """A model with its weights; `modules` of a TextEncoder, `classes` of a head."""

    model: Any
    classes: label_maps.Classes | None
    report: checkpoint.LoadReport
    modules: sentence_transformers.SentenceTransformer | None = None


def open_network(
    files: pretrained.ModelFiles,
    max_seq_length: int,
    *,
    for_tasks: bool = True,
    takes_encoder_decoder: bool = False,
) -> Opened:
    """Config and tokenizer; ValueError unless they fit each other and the length.

    Args:
        files: of cli.networks.find_files, or of pretrained.locate.
        max_seq_length: in tokens; 0 for any.
        for_tasks: whether special tokens stand around texts.
        takes_encoder_decoder: as in pretrained.open_config.
    """
    tokenizer = opening.open_tokenizer(files)
    if for_tasks:
        tokenizer = tokenizer.with_special_tokens()
    config = pretrained.open_config(
        files,
        tokenizer.vocab_size,
        max_seq_length,
        takes_encoder_decoder=takes_encoder_decoder,
    )
    return Opened(files, tokenizer, config)


def open_directory(
    directory: Any,
    max_seq_length: int | None = None,
    head: str | None = None,
    *,
    name: str = "directory",
    **settings: bool | None,
) -> tuple[Opened, int]:
    """The files of a directory, which messages call `name`, and the length in tokens.

    `settings` replace those of pretrained.ModelFiles, but for None. `head` is None
    where a new one is made; else the network may be an encoder-decoder.
    A length of None is that of the modules beside the network, or of the run, or 128,
    as far as there are positions.
    """
    files, length = pretrained.locate(directory, name), max_seq_length
    is_number = isinstance(length, int) and length is not True
    if length is not None and (not is_number or length < _LEAST_TOKENS):
        raise errors.InputError(
            f"max_seq_length={length!r}: give {_LEAST_TOKENS} tokens or more"
        )
    given: Any = {key: value for key, value in settings.items() if value is not None}
    files, takes_pair = files._replace(**given), head is not None
    opened = open_network(files, length or 0, takes_encoder_decoder=takes_pair)
    if length is None:
        positions = opened.config.max_position_embeddings
        if head in ("auto", "text_encoder"):
            modules = sentence_transformers.read(files.init_checkpoint)
            length = (modules.max_seq_length or positions) if modules else None
        trained = trained_with(directory, "max_seq_length")
        is_known = type(trained) is int and trained >= _LEAST_TOKENS
        length = length or (trained if is_known else _USUAL_TOKENS)
        length = min(length, positions)
    return opened, length


def trained_with(directory: str, flag: str) -> Any:
    """The value of a flag in the run.json of a directory; None where there is none."""
    path = os.path.join(directory, file_names.RUN)
    if not remote_files.exists(path):
        return None
    with contextlib.suppress(ValueError, RecursionError):  # of a damaged file
        values = json_files.read_object(path).get("flags")
        return values.get(flag) if isinstance(values, dict) else None
    return None


def count_texts(directory: str) -> int | None:
    """1 for a directory whose run.json names the column of one text; None: unknown."""
    names = "text_a_column", "text_b_column", "choice_columns"
    one, *others = (trained_with(directory, name) for name in names)
    return 1 if one is not None and not any(others) else None


def find_head(
    path: str, config: Any, head: str, *, goes_on: bool = False
) -> label_maps.Head | None:
    """One of pretrainers.CLASS_HEADS in weights; None without weights or that head.

    `goes_on` is as in label_maps.Head: a label_map.json then stands for the checkpoint,
    whose newest file may be damaged.
    """
    if not pretrained.is_there(path):
        return None
    count = None
    if not (goes_on and label_maps.find(path)):
        file = checkpoint.open_file(path, config)
        if (count := conversion.count_classes(file, config, head)) is None:
            return None
    return read_head(path, config, head, count)._replace(goes_on=goes_on)


def read_head(path: str, config: Any, head: str, count: int | None) -> label_maps.Head:
    """A head of `count` classes in weights, as the files beside them describe it."""
    files = file_names.LABEL_MAP, file_names.HUGGING_FACE_CONFIG, file_names.RUN
    source, beside, run = (label_maps.find(path, name) for name in files)
    if run or beside:  # a run's config names the classes that it began with
        extra = {} if run else json_files.read_object(beside)
        config = dataclasses.replace(config, extra=extra)
    classes: label_maps.Classes | None
    if source:
        classes = label_maps.read_classes(source, count)
        kind, count = label_maps.kind(classes), classes.num_outputs
    else:
        kind, names = hugging_face.read_labels(config, count)
        kind = kind if head == "classifier" else ""
        has_names = names or kind == "regression"  # or placeholders alone
        classes = label_maps.named(names, kind) if has_names else None
        kind = hugging_face.stated_problem_type(config)
        kind = label_maps.TAGGING if hugging_face.is_tagger(config) else kind
    assert count is not None
    usual = hugging_face.placeholder_labels(count)
    names = classes.names if classes else usual
    source = source or (beside if classes else "") or path
    return label_maps.Head(source, count, kind, names, names != usual, classes)


def starts_head(path: str, config: Any, classes: label_maps.Classes | None) -> bool:
    """Whether weights have a head, and it is of other classes or in another order."""
    if classes is None:
        return False
    is_tagger = label_maps.kind(classes) == label_maps.TAGGING
    head = find_head(path, config, "tagger" if is_tagger else "classifier")
    return head is not None and head.arrange(classes) != classes.names


def with_new_head(opened: Opened, classes: label_maps.Classes) -> Built:
    """A classifier for Labels, a tagger for TagNames.

    Its rows are those of the weights where these have the same classes.
    """
    path, config = opened.files.init_checkpoint, opened.config
    head = "classifier" if isinstance(classes, labels.Labels) else "tagger"
    model = pretrainers.build(head, classes.num_outputs, config, **_reading(classes))
    starts = starts_head(path, config, classes)
    return Built(model, classes, checkpoint.load(model, path, starts_head=starts))


def with_stored_head(opened: Opened, wanted: str) -> Built:
    """The head of the weights; of "auto" without those of pretraining."""
    path, config = opened.files.init_checkpoint, opened.config
    read, classes = read_stored_head(path, config, wanted, pretrains=False)
    if classes is None and read.head == "classifier":
        num_classes = read.model.num_classes
        problem_type, _ = hugging_face.read_labels(config, num_classes)
        if problem_type != "choice":
            names = hugging_face.placeholder_labels(num_classes)
            classes = label_maps.named(names, problem_type)
    return Built(read.model, classes, read.report, read.modules)


def read_stored_head(
    path: str, config: Any, wanted: str, *, pretrains: bool = True
) -> tuple[conversion.Converted, label_maps.Classes | None]:
    """A checkpoint with its head, and its classes where they have names.

    Unless it `pretrains`, "auto" leaves the heads of pretraining out.
    """
    file = checkpoint.open_file(path, config)
    head = label_maps.find_head(label_maps.find(path), wanted)
    head, num_classes = conversion.find_head(file, config, head, path)
    if wanted == "auto" and head == "pretraining" and not pretrains:
        head = "none"
    classes = None
    if num_classes:
        classes = read_head(path, config, head, num_classes).classes
    return conversion.read(path, config, head, **_reading(classes)), classes


def _reading(classes: label_maps.Classes | None) -> Mapping[str, Any]:
    """How a classifier with these classes reads the sequences of an example."""
    if not isinstance(classes, labels.Labels):
        return {}
    kind = sequences.choose_kind(classes.problem_type, classes.pair_input)
    return {"sequences": kind}
