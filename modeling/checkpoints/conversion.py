"""One network in several formats: Google's, Hugging Face's and ELMo's HDF5.

Weights are read into a model, which accounts for every name, and written from it. So
each format has a reader and a writer, and none depends on another.
"""

import collections
import dataclasses
import os
import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import tensorflow as tf

from contract import atomic_files, errors, file_names, wording
from modeling import pretrainers, text_encoder
from modeling.checkpoints import (
    checkpoint,
    google,
    hugging_face,
    names,
    places,
    sentence_transformers,
    weights_file,
)
from modeling.configs import config_limits
from modeling.networks.elmo import files as elmo_files

# The weights, by the name that releases give them.
FILES = {
    "google": google.MODEL_PREFIX,
    "hugging_face": hugging_face.WEIGHTS_FILE,
    "hdf5": elmo_files.WEIGHTS_FILE,
}
FORMATS = tuple(FILES)
_BARE_PREFIX = file_names.CHECKPOINT_PREFIX  # as of GPT-2's release and bilm-tf's runs
# Patterns of all names under which weights are written.
WRITTEN = (
    *FILES.values(),
    f"{google.MODEL_PREFIX}.*",
    f"{_BARE_PREFIX}.*",
)
OWN_FILES = (  # and of the files beside them; these may be overwritten
    *places.CONFIG_FILES,
    file_names.GENERATION_CONFIG,
    *file_names.OF_TOKENIZERS,
    file_names.LABEL_MAP,
    file_names.HEAD,
    *sentence_transformers.WRITTEN,
    *WRITTEN,
)
ALWAYS = places.CONFIG_FILES, WRITTEN  # of each a directory has one
_UNNEEDED = ("pooler", "masked_lm", "next_sentence")  # parts, by other tasks


@dataclasses.dataclass(frozen=True)
class Converted:
    """A network that was read.

    `format` and `states` are as in weights_file.WeightsFile, `head` is one of
    pretrainers.HEADS. `modules` are those beside a text_encoder, `classes` those
    of a head, where they have names.
    """

    format: str
    head: str
    model: Any
    report: checkpoint.LoadReport
    states: Mapping[str, str]
    modules: sentence_transformers.SentenceTransformer | None = None
    classes: Any = None

    def __str__(self):
        report = self.report
        parts = collections.Counter(
            self.model.config.spec.part(name.path)
            for name, _ in names.named_variables(self.model)
            if name.google in report.assigned
        )
        counts = ", ".join(f"{part} {count}" for part, count in parts.items())
        lines = [
            f"input: {report.source} ({self.format}), head: {self.head}",
            f"converted: {len(report.assigned)} variables ({counts})",
        ]
        if report.prefixes:
            lines.append(f"prefixes taken off: {', '.join(report.prefixes)}")
        if self.states:
            kinds = sorted(collections.Counter(self.states.values()).items())
            listed = ", ".join(f"{kind} {count}" for kind, count in kinds)
            lines.append(
                f"left out: {wording.count(len(self.states), 'variable')} ({listed}), "
                "which are training states, buffers and copies"
            )
        if report.unused:
            lines.append(f"left over: {checkpoint.list_keys(report.unused)}")
        if report.missing:
            lines.append(f"missing: {', '.join(report.missing)}")
        return "\n".join(lines)


def select_config(config, head):
    """The config of the model of a head; a BERT's for a bare encoder."""
    return config.spec.part_alone(config) if head == "none" else config


def select_part(file, config, model):
    """What an open checkpoint of a config has of a model of `select_config`."""
    rows = [name for name, _ in names.named_variables(model)]
    places = {
        row.key(file.format): (file, theirs)
        for row, theirs in zip(rows, config.spec.rows_of_part(rows), strict=True)
        if theirs.key(file.format) in file.shapes
    }
    return weights_file.Renamed(f"{file.source} (encoder)", file.format, places)


def check_whole(model, head, report):
    """Refuses a model of which a checkpoint has a part incompletely; see LoadReport.

    Raises:
        ValueError: the head is one of CLASS_HEADS and not there, or a variable is
            missing beside others of its part.
    """
    rows = [name for name, _ in names.named_variables(model)]
    part = model.config.spec.part
    has = {part(name.path) for name in rows if name.google in report.assigned}
    if head in pretrainers.CLASS_HEADS and head not in has:
        raise errors.InputError(
            f"--head={head}: {report.source} has the names of another head of "
            f"{model.config.kind}; leave --head out to find it"
        )
    for name in rows:
        if name.google in report.missing and part(name.path) in has:
            raise errors.InputError(
                f"{report.source}: lacks {name.google}, though it has others of the "
                f"{part(name.path)}; copy it again"
            )


def digest(model):
    """Eight hexadecimal digits that differ where weights do."""
    value = 0
    for variable in model.variables:
        value = zlib.crc32(np.ascontiguousarray(variable).tobytes(), value)
    return f"{value:08x}"


def count_rows(config, num_tokens, wanted=0):
    """Rows of the word embeddings; `wanted` is --resize_embeddings, 0 for no more.

    Raises:
        ValueError: rows would be lost, tokens would have none, or more rows would be
            spare than `config_limits.check_sizes` accepts.
    """
    least = max(config.vocab_size, num_tokens)
    if wanted and wanted < least:
        raise errors.InputError(
            f"--resize_embeddings={wanted}: there are {config.vocab_size} rows and "
            f"{num_tokens} tokens; give {least} or more"
        )
    if num_tokens and wanted > num_tokens + config_limits.SPARE_ROWS:
        raise errors.InputError(
            f"--resize_embeddings={wanted}: {num_tokens} tokens leave more than "
            f"{config_limits.SPARE_ROWS} rows to spare; name more in --add_tokens"
        )
    return wanted or least


def grow(model, vocab_size):
    """A built model like `model` with `vocab_size` rows; `model`, if it has them.

    A new row is the mean of the rows before it, in the masked-LM bias too, so the logit
    of a new token is the mean of all others and takes little from them.
    """
    if vocab_size == model.config.vocab_size:
        return model
    config = model.config.with_vocab_size(vocab_size)
    grown = type(model).from_config(
        {**model.get_config(), "config": dataclasses.asdict(config)}
    )
    grown.build()
    weights, targets = names.named_variables(model), names.named_variables(grown)
    for (_, variable), (_, target) in zip(weights, targets, strict=True):
        value = np.asarray(variable)
        if more := target.shape[0] - len(value):
            tokens, others = np.split(value, [model.config.vocab_size])
            mean = tokens.mean(axis=0, dtype=np.float64).astype(np.float32)
            new = np.broadcast_to(mean, (more, *mean.shape))
            value = np.concatenate([tokens, new, others])  # others are GPT's positions
        target.assign(value)
    return grown


def check_target(config, target):
    """Refuses a format that does not hold the network of a config; names the others."""
    known = config.spec.targets
    if target not in known:
        raise errors.InputError(
            f"{target}: no format for the weights of {config.kind}; choose one of "
            f"{', '.join(known)}"
        )


def write(directory, model, target, *, left_out=(), **kept):
    """Writes the weights of a model in one format, and config.json for Hugging Face.

    `target` is one of `FORMATS`; `left_out`, labels and problem type are as in
    hugging_face.save.

    Raises:
        OSError: the files cannot be written.
        ValueError: as in `check_target` and elmo_files.save.
    """
    check_target(model.config, target)
    is_bare = target == "google" and not model.config.spec.has_google_release
    file = _BARE_PREFIX if is_bare else FILES[target]
    path = os.path.join(directory, file)
    if target == "hdf5":  # whose errors name the file
        elmo_files.save(path, model)
        return
    try:
        if target == "google":
            google.save(path, model, left_out)
        else:
            apart = sentence_transformers.save_projections(directory, model)
            left_out = *left_out, *apart
            hugging_face.save(directory, model, left_out=left_out, **kept)
    except (OSError, safetensors.SafetensorError, tf.errors.OpError) as e:
        raise atomic_files.unwritable(directory, e) from e


def files_of(config, tokenizer, *, for_library=False):
    """{file name: text} of config and, if there is a tokenizer, its vocabulary."""
    texts = {config.file_name: config.to_json_string()}
    texts |= config.spec.beside(config, for_library)
    return texts if tokenizer is None else texts | tokenizer.files()


def write_directory(
    directory, model, target, *, tokenizer=None, files=(), modules=None, **kept
):
    """As `write`, with all files of a model beside the weights.

    `tokenizer` is None for no vocabulary, `files` are further texts by name, `modules`
    is a sentence_transformers.SentenceTransformer with a TextEncoder's prompts.
    """
    write(directory, model, target, **kept)
    config = hugging_face.describe(
        model, kept.get("left_out", ()), kept.get("problem_type", "")
    )
    texts = files_of(config, tokenizer, for_library=target == "hugging_face")
    if target == "google":
        texts = config.spec.as_released(config, texts)
    if target == "hugging_face":
        del texts[config.file_name]  # config.json lies there already
        if tokenizer:
            texts |= hugging_face.tokenizer_files(config, tokenizer)
    texts |= model.reading.files()
    if isinstance(model, text_encoder.TextEncoder):
        texts |= sentence_transformers.files(model, modules)
    for name, text in {**texts, **dict(files)}.items():
        path = pathlib.Path(directory, name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))


def copy_random(model, missing):
    """Copies {name: array} of random variables that no output of the task depends on.

    These are the pooler of a model whose head does not read it, and the heads for
    pretraining; `missing` are Google names of the variables that a file lacks.
    """
    needs_all = model.num_classes is not None and model.uses_pooler
    rows = [] if needs_all else names.named_variables(model)
    part = model.config.spec.part
    return {
        name.google: np.array(variable)
        for name, variable in rows
        if name.google in missing and part(name.path) in _UNNEEDED
    }


def copy_needed(model, missing):
    """Copies {name: array} of random variables that answers depend on, and of the head.

    These are all that `copy_random` leaves, and the head that fills a [MASK]. It is {}
    where there are none.
    """
    unneeded, part = copy_random(model, missing), model.config.spec.part
    rows, needed, heads = names.named_variables(model), {}, {}
    for name, variable in rows:
        is_random = name.google in missing and name.google not in unneeded
        if is_random or (name.google in missing and part(name.path) == "masked_lm"):
            needed[name.google] = np.array(variable)
        elif name.path.startswith(names.CLASS_LAYERS):
            heads[name.google] = np.array(variable)
    return needed | heads if needed else {}


def list_unchanged(model, arrays):
    """The names whose variables still equal their `arrays`, {Google name: array}."""
    variables = google.variables(model)
    return [name for name in arrays if np.array_equal(arrays[name], variables[name])]
