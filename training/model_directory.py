"""A directory as a model with its head, for bert_reborn.py and the scripts."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any

from contract import errors, file_names, json_files, remote_files
from data_pipeline import head_classes, label_maps
from data_pipeline.classification import labels
from data_pipeline.text import base, opening
from modeling import pretrainers, sequences
from modeling.checkpoints import (
    checkpoint,
    conversion,
    hugging_face,
    pretrained,
    sentence_transformers,
    weights_file,
)

_LEAST_TOKENS = 4  # as of --max_seq_length
_USUAL_TOKENS = 128
USUAL_THRESHOLD = 0.5  # as of --multi_label_threshold


class ModelDirectory:
    """A network, its tokenizer and its weights, which are opened once and read late.

    The tokenizer is None for work on records; `weights` are those of `files`, where
    they are open already.
    """

    def __init__(
        self,
        files: pretrained.ModelFiles,
        config: Any,
        tokenizer: Any = None,
        weights: weights_file.WeightsFile | None = None,
    ):
        self.files, self.config, self.tokenizer = files, config, tokenizer
        self._weights = weights

    def __getstate__(self) -> dict[str, Any]:  # an open file has no copy
        return {**self.__dict__, "_weights": None}

    @property
    def path(self) -> str:
        """The path of the weights."""
        return self.files.init_checkpoint

    @property
    def weights(self) -> Any:
        """The open checkpoint."""
        self._weights = self._weights or checkpoint.open_file(self.path, self.config)
        return self._weights

    @functools.cached_property
    def modules(self) -> sentence_transformers.SentenceTransformer | None:
        """The modules around the weights of a network for vectors of texts."""
        return sentence_transformers.read(self.path)

    @property
    def threshold(self) -> float:
        """The least probability of each of several labels, by the run that trained."""
        run = label_maps.find(self.path, file_names.RUN)
        value = run and trained_with(os.path.dirname(run), "multi_label_threshold")
        return value if isinstance(value, float) else USUAL_THRESHOLD

    @property
    def num_texts(self) -> int | None:
        """What count_texts finds beside the weights; 2 for a CrossEncoder."""
        run = label_maps.find(self.path, file_names.RUN)
        count = count_texts(os.path.dirname(run)) if run else None
        return count or (2 if self.is_cross_encoder else None)

    @functools.cached_property
    def is_cross_encoder(self) -> bool:
        """Whether the files around the weights are of a CrossEncoder, for pairs."""
        return bool(sentence_transformers.find_activation(self.path, self.config.extra))

    def with_weights(self, path: str) -> "ModelDirectory":
        """The same network with the weights of another place."""
        if path == self.path:
            return self
        files = self.files._replace(init_checkpoint=path)
        return ModelDirectory(files, self.config, self.tokenizer)

    def find_head(self, head: str, *, goes_on: bool = False) -> label_maps.Head | None:
        """One of pretrainers.CLASS_HEADS; None without weights or that head.

        `goes_on` is as in label_maps.Head: a label_map.json then stands for the
        checkpoint, whose newest file may be damaged.
        """
        if not pretrained.is_there(self.path):
            return None
        count = None
        if not (goes_on and label_maps.find(self.path)):
            count = conversion.count_classes(self.weights, self.config, head)
            if count is None:
                return None
        return self.read_head(head, count)._replace(goes_on=goes_on)

    def read_head(self, head: str, count: int | None) -> label_maps.Head:
        """A head of `count` classes, as the files beside the weights describe it."""
        find = functools.partial(label_maps.find, self.path)
        source, run = find(file_names.LABEL_MAP), find(file_names.RUN)
        beside = find(file_names.HUGGING_FACE_CONFIG)
        config = self.config
        if run or beside:  # a run's config names the classes that it began with
            extra = {} if run else json_files.read_object(beside)
            config = dataclasses.replace(config, extra=extra)
        classes: label_maps.Classes | None
        if source:
            classes = head_classes.read(source, count)
            kind, count = label_maps.kind(classes), classes.num_outputs
        else:
            kind, names = hugging_face.read_labels(config, count)
            kind = kind if head == "classifier" else ""
            has_names = names or kind == "regression"  # or placeholders alone
            classes = head_classes.named(names, kind) if has_names else None
            if kind == "regression":
                read = sentence_transformers.read_activation
                activation = read(self.path, config.extra)
                classes = labels.Labels((), kind, activation=activation)
            kind = hugging_face.stated_problem_type(config)
            kind = label_maps.TAGGING if hugging_face.is_tagger(config) else kind
        assert count is not None
        usual = hugging_face.placeholder_labels(count)
        names = classes.names if classes else usual
        source = source or (beside if classes else "") or self.path
        return label_maps.Head(source, count, kind, names, names != usual, classes)

    def starts_head(self, classes: label_maps.Classes | None) -> bool:
        """Whether the weights' head is of other classes, or in another order."""
        if classes is None:
            return False
        is_tagger = label_maps.kind(classes) == label_maps.TAGGING
        head = self.find_head("tagger" if is_tagger else "classifier")
        return head is not None and head.arrange(classes) != classes.names

    def build_new(self, classes: label_maps.Classes) -> conversion.Converted:
        """Builds a classifier for Labels, a tagger for TagNames.

        Its rows are those of the weights where these have the same classes.
        """
        head = "classifier" if isinstance(classes, labels.Labels) else "tagger"
        outputs, reading = classes.num_outputs, _reading(classes)
        checkpoint.check_file(self.config, self.weights)
        starts = self.starts_head(classes)
        with checkpoint.drawing_after():
            model = pretrainers.build(head, outputs, self.config, **reading)
            report = checkpoint.assign(
                model, self.weights, self.path, starts_head=starts
            )
        kind, states = self.weights.format, self.weights.states
        return conversion.Converted(kind, head, model, report, states, None, classes)

    def read_stored(
        self, wanted: str, *, pretrains: bool = True
    ) -> conversion.Converted:
        """The model with its head and classes.

        Unless it `pretrains`, "auto" leaves the heads of pretraining out.
        """
        is_tagger = label_maps.is_of_tagger(label_maps.find(self.path))
        head = "tagger" if wanted == "auto" and is_tagger else wanted
        head, count = conversion.find_head(self.weights, self.config, head, self.path)
        if wanted == "auto" and head == "pretraining" and not pretrains:
            head = "none"
        classes = self.read_head(head, count).classes if count else None
        settings = _reading(classes)
        read = conversion.read(self.path, self.config, head, self.weights, **settings)
        return dataclasses.replace(read, classes=classes)

    def build_stored(self, wanted: str) -> conversion.Converted:
        """Builds the head of the weights; of "auto" without those of pretraining."""
        read = self.read_stored(wanted, pretrains=False)
        if read.classes is not None or read.head != "classifier":
            return read
        num_classes = read.model.num_classes
        problem_type, _ = hugging_face.read_labels(self.config, num_classes)
        if problem_type == "choice":
            return read
        names = hugging_face.placeholder_labels(num_classes)
        return dataclasses.replace(
            read, classes=head_classes.named(names, problem_type)
        )


def open_files(
    files: pretrained.ModelFiles,
    max_seq_length: int = 0,
    *,
    for_tasks: bool = True,
    takes_encoder_decoder: bool = False,
    takes_records: bool = False,
) -> ModelDirectory:
    """Opens files; ValueError unless they fit each other and the length.

    Special tokens stand around texts `for_tasks`. Where it `takes_records`, a
    vocabulary may be missing.
    """
    tokenizer: Any = None
    config = pretrained.read_config(files.config_file)
    if files.vocab_file or not takes_records:
        tokenizer = open_tokenizer(files, config)
        tokenizer = tokenizer.with_special_tokens() if for_tasks else tokenizer
    config, weights = pretrained.open_weights(
        files,
        config,
        tokenizer.vocab_size if tokenizer else None,
        max_seq_length,
        takes_encoder_decoder=takes_encoder_decoder,
    )
    return ModelDirectory(files, config, tokenizer, weights)


def open_tokenizer(files: pretrained.ModelFiles, config: Any) -> base.Tokenizer:
    """The tokenizer of files, as the network of the config reads texts."""
    options = config.to_dict() if config.spec.reads_characters else None
    return opening.open_tokenizer(files, options)


def open_directory(
    directory: Any,
    max_seq_length: int | None = None,
    head: str | None = None,
    *,
    name: str = "directory",
    **settings: bool | None,
) -> tuple[ModelDirectory, int]:
    """The files of a directory, which messages call `name`, and the length in tokens.

    `settings` replace those of pretrained.ModelFiles, but for None. `head` is None
    where a new one is made; else the network may be an encoder-decoder.
    A length of None is that of the modules beside the network, of the run or of a
    CrossEncoder, or 128, as far as there are positions.
    """
    files, length = pretrained.locate(directory, name), max_seq_length
    is_number = isinstance(length, int) and length is not True
    if length is not None and (not is_number or length < _LEAST_TOKENS):
        raise errors.InputError(
            f"max_seq_length={length!r}: give {_LEAST_TOKENS} tokens or more"
        )
    given: Any = {key: value for key, value in settings.items() if value is not None}
    files, takes_pair = files._replace(**given), head is not None
    opened = open_files(files, length or 0, takes_encoder_decoder=takes_pair)
    if length is None:
        positions = opened.config.max_position_embeddings
        if head in ("auto", "text_encoder") and (modules := opened.modules):
            length = modules.max_seq_length or positions
        trained = trained_with(directory, "max_seq_length")
        is_known = type(trained) is int and trained >= _LEAST_TOKENS
        length = length or (trained if is_known else None)
        if not length and head == "auto" and opened.is_cross_encoder:
            length = sentence_transformers.read_pair_length(opened.path) or positions
        length = min(length or _USUAL_TOKENS, positions)
    return opened, length


def trained_with(directory: str, flag: str) -> Any:
    """The value of a flag in the run.json of a directory; None where there is none."""
    return _read_run(directory, "flags").get(flag)


def _read_run(directory: str, key: str) -> Mapping[str, Any]:
    path = os.path.join(directory, file_names.RUN)
    if not remote_files.exists(path):
        return {}
    with contextlib.suppress(ValueError, RecursionError):  # of a damaged file
        values = json_files.read_object(path).get(key)
        return values if isinstance(values, dict) else {}
    return {}


def count_texts(directory: str) -> int | None:
    """1 where run.json is of single texts, 2 of pairs; choices do not count.

    None where it is unknown. Earlier versions recorded the flags of columns alone.
    """
    identity = _read_run(directory, "identity")
    count = identity.get("num_texts")
    if isinstance(count, int):
        return count if count < 3 else count - len(identity.get("labels") or ())
    names = "text_a_column", "text_b_column", "choice_columns"
    first, second, choices = (trained_with(directory, name) for name in names)
    return None if first is None or choices else 2 if second else 1


def _reading(classes: label_maps.Classes | None) -> Mapping[str, Any]:
    """How a classifier with these classes reads the sequences of an example."""
    if not isinstance(classes, labels.Labels):
        return {}
    kind = sequences.choose_kind(classes.problem_type, classes.pair_input)
    return {"sequences": kind}
