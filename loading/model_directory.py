"""A directory as a model: config, tokenizer, weights, head and labels, each read once.

Scripts, Python and conversion open models here. What lies in a place is looked up in
the table of modeling/checkpoints/places.py first.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from absl import logging

from contract import errors, file_names, json_files, remote_files
from data_pipeline import head_classes, label_maps
from data_pipeline.classification import labels
from data_pipeline.text import opening, vocabulary_files
from modeling import pretrainers, sequences
from modeling.checkpoints import (
    checkpoint,
    conversion,
    hugging_face,
    keras_files,
    names,
    places,
    sentence_transformers,
    weights_file,
)
from modeling.configs import config as config_lib
from modeling.configs import config_files, config_limits
from modeling.features import head_config
from modeling.networks import catalogue
from modeling.networks import spec as spec_lib

_LEAST_TOKENS = 4  # as of --max_seq_length
_USUAL_TOKENS = 128
USUAL_THRESHOLD = 0.5  # as of --multi_label_threshold
# Variables that only one head has, and their head; those of CLASS_HEADS have C rows.
_HEAD_OF = {
    "masked_lm/bias": "pretraining",
    "next_sentence/bias": "pretraining",
    "classifier/logits/bias": "classifier",
    "classifier/out_proj/bias": "classifier",
    "discriminator/logits/bias": "discriminator",
    "tagger/logits/bias": "tagger",
    "span/logits/bias": "span",
}


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """The files of a network and how they are read; "" where there is none."""

    config_file: str = ""
    vocab_file: str = ""
    init_checkpoint: str = ""  # as of places.find; "" for random weights
    do_lower_case: bool | None = None  # None where the directory leaves it open
    # Whether init_checkpoint may lack layers; None where nothing is trained.
    allows_missing: bool | None = None
    # How words of ELMo and of word pieces are found; None: as the directory has it.
    split_words: str | None = None
    check_tokenizer: bool = True  # as `checks` of opening.open_vocabulary
    check_case: bool = True  # whether to compare do_lower_case with the vocabulary
    # What has been read of the files of the tokenizer, while these are opened.
    beside: vocabulary_files.VocabularyFiles | None = dataclasses.field(
        default=None, compare=False, repr=False
    )


def locate(
    spec: Any,
    name: str = "--pretrained",
    *,
    needs_all: bool = True,
    prefers_whole: bool = False,
) -> ModelFiles:
    """Finds config, vocabulary and weights in a directory.

    Args:
        spec: directory of a release of BERT, ALBERT, GPT, GPT-2 or ELMo, of Hugging
            Face's files, of an earlier run, or the id of a model on Hugging Face's hub
            such as google-bert/bert-base-uncased, which is downloaded once.
        name: its name in messages.
        needs_all: whether all must be there; else config and vocabulary may be "", and
            init_checkpoint is the directory itself.
        prefers_whole: whether a tokenizer.json goes before vocab.txt, which lacks the
            tokens that were added.

    Raises:
        ValueError: neither, or a file is missing, or settings cannot be read; names it.
    """
    directory = os.fspath(spec)
    if not remote_files.is_dir(directory):
        directory = places.download(directory, name)
    try:  # first, because early releases have a config.json of the modules, too
        directory = sentence_transformers.locate_transformer(directory)
    except ValueError:  # which matters for vectors of texts alone
        if not places.first(directory, places.CONFIG_FILES):
            raise
    below, base = ModelFiles(), places.find_base(directory)
    if base != directory:  # of an adapter
        below = locate(base, name, needs_all=False, prefers_whole=prefers_whole)
    config_file = places.first(directory, places.CONFIG_PATTERNS) or below.config_file
    network = catalogue.of_config_file(config_file)
    # A vocabulary without its merges is less than a tokenizer.json.
    pairs = file_names.MERGES.items()
    whole = [name for name, merges in pairs if places.first(directory, [merges])]
    whole += *file_names.SENTENCEPIECE, file_names.TOKENIZER, *file_names.MERGES
    vocab_file = places.first(directory, [file_names.VOCAB, *whole, network.vocabulary])
    if prefers_whole and os.path.basename(vocab_file) == file_names.VOCAB:
        vocab_file = places.first(directory, [file_names.TOKENIZER]) or vocab_file
    vocab_file = vocab_file or below.vocab_file
    beside = vocabulary_files.VocabularyFiles(
        vocab_file or config_file or os.path.join(directory, file_names.VOCAB)
    )
    is_lower = sentence_transformers.lowers_case(directory)
    lowers = is_lower or opening.lowers_case(beside)
    title = os.path.basename(os.path.normpath(base))
    if lowers is None and "cased" in title:
        lowers = "uncased" in title
    files = ModelFiles(config_file, vocab_file, directory, lowers, beside=beside)
    if not needs_all:
        return files
    if not config_file or not (vocab_file or network.reads_characters):
        others = "--bert_config_file, --vocab_file and --init_checkpoint one by one"
        others = f", or give {others}" if name == "--pretrained" else ""
        raise errors.InputError(f"{name}={spec}: {_explain_missing(files)}{others}")
    return dataclasses.replace(files, init_checkpoint=places.find(directory))


def _explain_missing(files):
    """The config or vocabulary that a directory lacks, and a remedy."""
    directory, whole = files.init_checkpoint, "unpack the whole release there"
    if files.config_file:  # which may be of another library
        read_config(files.config_file)
        if os.path.basename(files.config_file) != file_names.HUGGING_FACE_CONFIG:
            return f"there is no {file_names.VOCAB} in it; {whole}"
        return (
            f"there is no {file_names.VOCAB} or {file_names.TOKENIZER} in it; save the "
            "tokenizer of the model there, by AutoTokenizer of transformers"
        )
    lacks = f"there is no {' or '.join(places.CONFIG_FILES[:2])} in it"
    if places.is_there(directory):
        sizes = places.open_file(directory).sizes()
        kind = sizes.get(names.KIND, catalogue.USUAL.kind)
        return f"{lacks}, and the weights are of {kind}; add the config of this model"
    return f"{lacks}; {whole}"


def locate_weights(weights: str | None, spec: str | None = None) -> ModelFiles:
    """Weights for a conversion, and the files beside them, "" where absent.

    `weights` are as in places.find, `spec` as in `locate`; either may be None. The
    config of a .keras file is in it.
    """
    path = ""
    if weights:
        path = places.find(sentence_transformers.locate_transformer(weights))
    directory = path if os.path.isdir(path) else os.path.dirname(path) or "."
    files = locate(spec or directory, needs_all=False, prefers_whole=True)
    path = path or places.find(files.init_checkpoint)
    config_file = path if keras_files.is_keras(path) else files.config_file
    return dataclasses.replace(files, init_checkpoint=path, config_file=config_file)


def read_config(path: str) -> Any:
    """The config of any network in a local or remote file; see config_files.read.

    It warns of keys without effect. A .keras file holds a config as well.
    """
    if keras_files.is_keras(path):
        return keras_files.stored_config(path)
    config = config_files.read(path, remote_files.open_file)
    if unknown := config.unknown_keys():
        logging.warning(
            "%s: unknown keys, kept but without effect: %s", path, ", ".join(unknown)
        )
    if config.spec.has_decoder:
        beside = os.path.join(os.path.dirname(path), file_names.GENERATION_CONFIG)
        values = json_files.read_object(beside) if remote_files.exists(beside) else {}
        with config_lib.named(beside if values else path):
            config = config.with_generation(values)
        if ignored := config.ignored_generation():
            logging.warning(
                "%s: generate of Hugging Face uses %s; ignored here, or a flag such as "
                "--do_sample",
                path,
                ", ".join(ignored),
            )
    return config


def open_directory(
    directory: Any,
    max_seq_length: int | None = None,
    head: str | None = None,
    *,
    name: str = "directory",
    **settings: bool | None,
) -> tuple["ModelDirectory", int]:
    """The files of a directory, which messages call `name`, and the length in tokens.

    `settings` replace those of ModelFiles, but for None. `head` is None where a new one
    is made; else the network may be an encoder-decoder.
    A length of None is that of the modules beside the network, of the run or of a
    CrossEncoder, or 128, as far as there are positions.
    """
    files, length = locate(directory, name), max_seq_length
    is_number = isinstance(length, int) and length is not True
    if length is not None and (not is_number or length < _LEAST_TOKENS):
        raise errors.InputError(
            f"max_seq_length={length!r}: give {_LEAST_TOKENS} tokens or more"
        )
    given: Any = {key: value for key, value in settings.items() if value is not None}
    files, takes_pair = dataclasses.replace(files, **given), head is not None
    opened = open_files(files, length or 0, takes_encoder_decoder=takes_pair)
    is_causal = opened.config.is_left_to_right
    chosen = opened.find_head()[0] if is_causal and head == "auto" else head
    if chosen == "language_model":
        # Rows of special tokens would be random, and take a share of each probability.
        opened = open_files(files, length or 0, for_tasks=False)
    if length is None:
        positions = opened.config.max_position_embeddings
        if head in ("auto", "text_encoder") and (modules := opened.modules):
            length = modules.max_seq_length or positions
        trained = opened.run.flags.get("max_seq_length")
        is_known = type(trained) is int and trained >= _LEAST_TOKENS
        length = length or (trained if is_known else None)
        if not length and head == "auto" and opened.is_cross_encoder:
            length = sentence_transformers.read_pair_length(opened.path) or positions
        length = min(length or _USUAL_TOKENS, positions)
    return opened, length


def open_files(
    files: ModelFiles,
    max_seq_length: int = 0,
    *,
    for_tasks: bool = True,
    takes_encoder_decoder: bool = False,
    takes_records: bool = False,
) -> "ModelDirectory":
    """Opens files; ValueError unless they fit each other and the length.

    Special tokens stand around texts `for_tasks`. Where it `takes_records`, a
    vocabulary may be missing.
    """
    tokenizer: Any = None
    config = read_config(files.config_file)
    if files.vocab_file or not takes_records:
        tokenizer = opening.open_tokenizer(files, config)
        tokenizer = tokenizer.with_special_tokens() if for_tasks else tokenizer
    config, weights = open_weights(
        files,
        config,
        tokenizer.vocab_size if tokenizer else None,
        max_seq_length,
        takes_encoder_decoder=takes_encoder_decoder,
    )
    files = dataclasses.replace(files, beside=None)
    return ModelDirectory(files, config, tokenizer, weights)


def open_weights(
    files: ModelFiles,
    config: Any,
    vocab_size: int | None,
    max_seq_length: int,
    *,
    takes_encoder_decoder: bool = False,
) -> tuple[Any, weights_file.WeightsFile | None]:
    """The config, if it fits vocabulary, length, checkpoint and memory; the open file.

    The file is None without a checkpoint; vocab_size may be None. A GPT or GPT-2 gets
    rows for up to 3 special tokens that the vocabulary has and it has not.

    Raises:
        ValueError: as in config_limits.check_sizes, config_limits.check_memory and
            checkpoint.check_file; or it is an encoder-decoder where none is taken.
    """
    if config.spec.has_decoder and not takes_encoder_decoder:
        raise errors.InputError(
            f"{files.config_file}: describes an encoder-decoder; give another network, "
            "or its encoder, which convert_checkpoint.py --head=none writes"
        )
    known = config.vocab_size if vocab_size is None else vocab_size
    more = known - config.vocab_size
    if 0 < more <= config.spec.new_tokens:
        config = dataclasses.replace(config, vocab_size=known)
    # A run that resumes does without its first weights.
    file = places.open_file(files.init_checkpoint, config, is_needed=False)
    config_limits.check_sizes(config, known, files, max_seq_length, file)
    if file:
        checkpoint.check_file(config, file, allows_missing=files.allows_missing)
    config_limits.check_memory(config, files.config_file)
    return config, file


class Run(NamedTuple):
    """The run that trained a model, by its run.json.

    Attributes:
        flags: {flag: value} of its command; {} where they are unknown.
        identity: what must match to resume it; {} where that is unknown.
    """

    flags: Mapping[str, Any]
    identity: Mapping[str, Any]


def read_run(directory: str) -> Run:
    """The Run of a directory, also where that has no run.json, or a damaged one.

    Of a model that was saved without one, what its label_map.json has of it is known.
    """

    def read(name):
        path = os.path.join(directory, name)
        if directory and remote_files.exists(path):
            with contextlib.suppress(ValueError, RecursionError):
                return json_files.read_object(path)
        return {}

    values = read(file_names.RUN)
    flags, identity = (
        known if isinstance(known := values.get(name), dict) else {}
        for name in Run._fields
    )
    if not flags:
        kept = read(file_names.LABEL_MAP)
        for name, make in label_maps.OF_RUN.items():
            with contextlib.suppress(KeyError, TypeError, ValueError):
                flags[name] = make(kept[name])
    return Run(flags, identity)


class ModelDirectory:
    """A network, its tokenizer and its weights, which are opened once and read late.

    The tokenizer is None for work on records; `weights` are those of `files`, where
    they are open already.
    """

    def __init__(
        self,
        files: ModelFiles,
        config: Any,
        tokenizer: Any = None,
        weights: weights_file.WeightsFile | None = None,
    ):
        self.files, self.config, self.tokenizer = files, config, tokenizer
        self.path = files.init_checkpoint  # of the weights
        if weights:
            self.weights = weights

    def __getstate__(self) -> dict[str, Any]:  # an open file has no copy
        return {name: v for name, v in self.__dict__.items() if name != "weights"}

    @functools.cached_property
    def weights(self) -> weights_file.WeightsFile:
        """The open checkpoint."""
        return places.open_file(self.path, self.config)

    @functools.cached_property
    def modules(self) -> sentence_transformers.SentenceTransformer | None:
        """The modules around the weights of a network for vectors of texts."""
        return sentence_transformers.read(self.path)

    @functools.cached_property
    def classes(self) -> label_maps.Classes | None:
        """Those in the label_map.json beside the weights, or None."""
        path = label_maps.find(self.path)
        return head_classes.read(path) if path else None

    @functools.cached_property
    def run(self) -> Run:
        """The run that trained the weights, by the run.json beside them."""
        find = functools.partial(label_maps.find, self.path)
        return read_run(os.path.dirname(find(file_names.RUN) or find()))

    @property
    def threshold(self) -> float:
        """The least probability of each of several labels, by the run that trained."""
        value = self.run.flags.get("multi_label_threshold")
        return value if isinstance(value, float) else USUAL_THRESHOLD

    @property
    def num_texts(self) -> int | None:
        """1 where the weights are of single texts, 2 of pairs or a CrossEncoder.

        None where it is unknown, or there are choices. Earlier versions recorded the
        flags of columns alone.
        """
        flags, identity = self.run
        count = identity.get("num_texts", flags.get("num_texts"))
        if not isinstance(count, int):
            names = "text_a_column", "text_b_column", "choice_columns"
            first, second, choices = map(flags.get, names)
            count = None if first is None or choices else 2 if second else 1
        elif count > 2:
            count -= len(identity.get("labels") or ())
        return count or (2 if self.is_cross_encoder else None)

    @functools.cached_property
    def is_cross_encoder(self) -> bool:
        """Whether the files around the weights are of a CrossEncoder, for pairs."""
        return bool(sentence_transformers.find_activation(self.path, self.config.extra))

    def with_weights(self, path: str) -> "ModelDirectory":
        """The same network with the weights of another place."""
        if path == self.path:
            return self
        files = dataclasses.replace(self.files, init_checkpoint=path)
        return ModelDirectory(files, self.config, self.tokenizer)

    def find_head(self, head: str = "auto") -> tuple[str, int | None]:
        """The head of the weights, by their names if "auto", and C for CLASS_HEADS.

        A classifier and a tagger have the same names, except in Keras' files, and of
        some networks a span has them, too. Unless `head` or the config's
        `architectures` names another, it is a classifier, because the original has no
        tagger. With `modules` it is a text_encoder.

        Raises:
            ValueError: there are several heads, or not this one.
        """
        file, config = self.weights, self.config
        rows, network = names.head_rows(config), config.spec
        keys = {path: rows[path].key(file.format) for path in _HEAD_OF if path in rows}
        held = {_HEAD_OF[path]: key for path, key in keys.items() if key in file.shapes}
        order = keys.get("next_sentence/bias")
        if (
            config.is_left_to_right
            and "pretraining" in held
            and order not in file.shapes
        ):
            held["language_model"] = held.pop("pretraining")
        if "pretraining" in held:
            held[network.pretraining_head] = held.pop("pretraining")
        if head in ("auto", "text_encoder") and self.modules:
            held = {"text_encoder": ""}
        if "discriminator" in held:
            held.pop("pretraining", None)  # of its generator
        architecture = hugging_face.architecture(config)
        shared, ends = held.get("classifier"), spec_lib.ENDINGS
        if alike := [n for n in pretrainers.TASK_HEADS if held.get(n) == shared]:
            known = (n for n in alike if architecture.endswith(ends[(n,)]))
            chosen = head if head in alike else next(known, "classifier")
            held = {n: held[n] for n in held if n == chosen or n not in alike}
        if head == "auto":
            if len(held) > 1:
                raise errors.InputError(
                    f"{file.source}: has several heads, {' and '.join(sorted(held))}; "
                    "choose one by --head"
                )
            if held and architecture not in ("", *catalogue.transformers_classes()):
                raise errors.InputError(
                    f"{file.source}: the head of {architecture} is not known; name one "
                    "by --head, or --head=none for the encoder alone"
                )
            head = next(iter(held), network.usual_head)
        if head == network.free_head:
            return head, None
        if head != "none" and head not in held:
            listed = " and ".join(sorted(held)) or "none"
            raise errors.InputError(
                f"--head={head}: {file.source} has no such head (it has: {listed}); "
                "leave --head out to find it"
            )
        has_classes = head in pretrainers.CLASS_HEADS
        return head, self.count_classes(head) if has_classes else None

    def count_classes(self, head: str) -> int | None:
        """C of a head in the weights; None where they have no such head."""
        file, rows = self.weights, names.head_rows(self.config)
        of_head = [path for path in rows if _HEAD_OF.get(path) == head]
        for path in of_head:
            kernel = rows[path.replace("/bias", "/kernel")].key(file.format)
            bias = file.shapes.get(rows[path].key(file.format))
            shape = file.shapes.get(kernel, ())
            if bias is None:
                continue
            if len(bias) != 1 or bias[0] not in shape:
                raise errors.InputError(
                    f"{file.source}: {kernel} is {list(shape)}, and its bias "
                    f"{list(bias)}; copy it again"
                )
            return bias[0]
        return None

    def stored_head(
        self, head: str, *, goes_on: bool = False
    ) -> label_maps.Head | None:
        """One of pretrainers.CLASS_HEADS; None without weights or that head.

        `goes_on` is as in label_maps.Head: a label_map.json then stands for the
        checkpoint, whose newest file may be damaged.
        """
        if not places.is_there(self.path):
            return None
        count = None
        if not (goes_on and label_maps.find(self.path)):
            count = self.count_classes(head)
            if count is None:
                return None
        return self.read_head(head, count)._replace(goes_on=goes_on)

    def read_head(self, head: str, count: int | None) -> label_maps.Head:
        """A head of `count` classes, as the files beside the weights describe it."""
        find = functools.partial(label_maps.find, self.path)
        source, run = find(file_names.LABEL_MAP), find(file_names.RUN)
        beside = find(file_names.HUGGING_FACE_CONFIG)
        config = self.config
        # A run's config names the classes that it began with.
        if run or (beside and beside != self.files.config_file):
            extra = {} if run else json_files.read_object(beside)
            config = dataclasses.replace(config, extra=extra)
        if classes := self.classes:
            head_classes.check_count(source, classes, count)
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
        head = self.stored_head("tagger" if is_tagger else "classifier")
        return head is not None and head.arrange(classes) != classes.names

    def read(
        self, wanted: str = "auto", *, is_converted: bool = False
    ) -> conversion.Converted:
        """The model with a head, as in `find_head`, and classes.

        Unless it `is_converted`, "auto" leaves the heads of pretraining out, and a
        classifier without names of classes gets Hugging Face's.
        """
        head, file_classes = wanted, None
        with contextlib.suppress(ValueError):  # which is raised where they are needed
            file_classes = self.classes
        if wanted == "auto" and file_classes:
            is_tagger = label_maps.kind(file_classes) == label_maps.TAGGING
            head = "tagger" if is_tagger else wanted
        head, count = self.find_head(head)
        if wanted == "auto" and head == "pretraining" and not is_converted:
            head = "none"
        classes = self.read_head(head, count).classes if count else None
        built = self.build(head, count, **(_reading(classes) if classes else {}))
        if count and head == "classifier" and classes is None and not is_converted:
            kind, _ = hugging_face.read_labels(self.config, count)
            if kind != "choice":
                placeholders = hugging_face.placeholder_labels(count)
                classes = head_classes.named(placeholders, kind)
        return dataclasses.replace(built, classes=classes)

    def build(
        self, head: str, num_classes: int | None = None, **settings: Any
    ) -> conversion.Converted:
        """Builds the model with one of pretrainers.HEADS, and assigns the weights.

        `settings` are further arguments of the model, beside those in a head.json. The
        pooler and one head for pretraining may be missing. An encoder-decoder without
        its head is its encoder.

        Raises:
            ValueError: the weights cannot be read, are of another config, or lack a
                part of it.
        """
        file, config = self.weights, self.config
        checkpoint.check_file(config, file)
        if (depth := file.sizes()[names.DEPTH]) > config.num_blocks:
            key = config.key_in_file(config.blocks_field)
            raise errors.InputError(
                f"{file.source}: has {depth} layers, but its config has {key}="
                f"{config.num_blocks}; give the config file of this checkpoint"
            )
        if head in pretrainers.TASK_HEADS:
            settings = {"reading": head_config.read_beside(file.source), **settings}
        modules = self.modules if head == "text_encoder" else None
        beside = None
        if modules:
            settings = {"text_vectors": modules.text_vectors, **settings}
            sentence_transformers.check(modules, config, file)
            beside = checkpoint.open_projections(modules, config, file)
        is_choice = hugging_face.stated_problem_type(config) == "choice"
        if head == "classifier" and is_choice and config.spec.choice_class(config):
            settings = {"sequences": "compared", **settings}
        part = conversion.select_config(config, head)
        with checkpoint.drawing_after():
            model = pretrainers.build(head, num_classes, part, **settings)
            if type(model.config) is not type(config):
                file = conversion.select_part(file, config, model)
            report = checkpoint.assign(model, file, beside)
        conversion.check_whole(model, head, report)
        kind, states = self.weights.format, self.weights.states
        return conversion.Converted(kind, head, model, report, states, modules)

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
            report = checkpoint.assign(model, self.weights, starts_head=starts)
        kind, states = self.weights.format, self.weights.states
        return conversion.Converted(kind, head, model, report, states, None, classes)


def _reading(classes: label_maps.Classes) -> Mapping[str, Any]:
    """How a classifier with these classes reads the sequences of an example."""
    if not isinstance(classes, labels.Labels):
        return {}
    kind = sequences.choose_kind(
        classes.problem_type, classes.pair_input, classes.window_logits
    )
    return {"sequences": kind}
