"""The three files of a pretrained model, by the directory that holds them."""

import dataclasses
import difflib
import functools
import os
import pathlib
from typing import NamedTuple

from absl import logging

from contract import errors, file_names, hub_ids, json_files, remote_files
from modeling.checkpoints import (
    checkpoint,
    foreign_files,
    hugging_face,
    keras_files,
    names,
    sentence_transformers,
    tf_keras_h5,
)
from modeling.configs import config as config_lib
from modeling.configs import config_files
from modeling.networks import catalogue

_RELEASED = [each.config_file for each in catalogue.NETWORKS if each.config_file]
# BERT's own goes before the library's, and those of others after it.
CONFIG_FILES = (
    _RELEASED[0],
    file_names.HUGGING_FACE_CONFIG,
    *(name.removeprefix("*") for name in _RELEASED[1:]),
)
SPARE_ROWS = 127  # some releases round their table up to a multiple of 8 to 128 rows


class ModelFiles(NamedTuple):
    """The files of a network and how they are read; "" where there is none."""

    config_file: str = ""
    vocab_file: str = ""
    init_checkpoint: str = ""  # as of checkpoint.find; "" for random weights
    do_lower_case: bool | None = None  # None where the directory leaves it open
    # Whether init_checkpoint may lack layers; None where nothing is trained.
    allows_missing: bool | None = None
    # How words of ELMo and of word pieces are found; None: as the directory has it.
    split_words: str | None = None
    check_tokenizer: bool = True  # as `checks` of opening.open_vocabulary
    check_case: bool = True  # whether to compare do_lower_case with the vocabulary


def locate(spec, name="--pretrained"):
    """Finds config, vocabulary and weights in a directory.

    Args:
        spec: directory of a release of BERT, ALBERT, GPT, GPT-2 or ELMo, of Hugging
            Face's files, of an earlier run, or the id of a model on Hugging Face's hub
            such as google-bert/bert-base-uncased, which is downloaded once.
        name: its name in messages.

    Raises:
        ValueError: neither, or a file is missing; names it.
    """
    files = look_in(spec, name)
    needs_words = not catalogue.of_config_file(files.config_file).reads_characters
    if not files.config_file or (needs_words and not files.vocab_file):
        others = "--bert_config_file, --vocab_file and --init_checkpoint one by one"
        others = f", or give {others}" if name == "--pretrained" else ""
        raise errors.InputError(f"{name}={spec}: {_explain_missing(files)}{others}")
    return files._replace(init_checkpoint=checkpoint.find(files.init_checkpoint))


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
    lacks = f"there is no {' or '.join(CONFIG_FILES[:2])} in it"
    if is_there(directory):
        sizes = checkpoint.open_file(directory).sizes()
        kind = sizes.get(names.KIND, catalogue.USUAL.kind)
        return f"{lacks}, and the weights are of {kind}; add the config of this model"
    return f"{lacks}; {whole}"


def look_in(spec, name="--pretrained"):
    """Config and vocabulary as in `locate`, "" where absent, and the directory itself.

    Raises:
        ValueError: there is no such directory or model on the hub, or its settings
            cannot be read.
    """
    directory = os.fspath(spec)
    if not remote_files.is_dir(directory):
        directory = _download(directory, name)

    def first(names):
        paths = [os.path.join(directory, name) for name in names]
        return next((path for path in paths if remote_files.exists(path)), "")

    def only(pattern):
        paths = remote_files.matching(directory, pattern)
        return paths[0] if len(paths) == 1 else ""

    try:  # first, because early releases have a config.json of the modules, too
        directory = sentence_transformers.locate_transformer(directory)
    except ValueError:  # which matters for vectors of texts alone
        if not first(CONFIG_FILES):
            raise
    longer = (only(name) for name in _RELEASED if "*" in name)
    config_file = first(CONFIG_FILES) or next(filter(None, longer), "")
    # A vocabulary without its merges is less than a tokenizer.json.
    whole = [name for name, merges in file_names.MERGES.items() if first([merges])]
    whole += file_names.SENTENCEPIECE
    vocab_file = first(
        [file_names.VOCAB, *whole, file_names.TOKENIZER, *file_names.MERGES]
    )
    # Such as 30k-clean.model of Google's ALBERT.
    vocab_file = vocab_file or only(catalogue.of_config_file(config_file).vocabulary)
    return ModelFiles(config_file, vocab_file, directory, _lower_case(directory))


def look_beside(weights, spec=""):
    """Weights for a conversion, and the files beside them, "" where absent.

    `weights` are as in checkpoint.find, `spec` as in `locate`; either may be "". A
    tokenizer.json goes before vocab.txt, which lacks the tokens that were added. The
    config of a .keras file is in it.
    """
    weights = weights and sentence_transformers.locate_transformer(weights)
    path = checkpoint.find(weights) if weights else ""
    directory = path if os.path.isdir(path) else os.path.dirname(path) or "."
    files = look_in(spec or directory)
    path = path or checkpoint.find(files.init_checkpoint)
    if keras_files.is_keras(path):
        files = files._replace(config_file=path)
    tokenizer_file = os.path.join(files.init_checkpoint, file_names.TOKENIZER)
    whole = {*file_names.MERGES, *file_names.SENTENCEPIECE}
    is_whole = os.path.basename(files.vocab_file) in whole
    if os.path.exists(tokenizer_file) and not is_whole:
        files = files._replace(vocab_file=tokenizer_file)
    return files._replace(init_checkpoint=path)


def files(config, tokenizer, *, for_library=False):
    """{file name: text} of config and, if there is a tokenizer, its vocabulary.

    `locate` finds these beside the weights.
    """
    texts = {config.file_name: config.to_json_string()}
    texts |= config.spec.beside(config, for_library)
    return texts if tokenizer is None else texts | tokenizer.files()


def fills_masks(config, path):
    """Whether a checkpoint has all of the head that predicts masked tokens."""
    if not path:
        raise errors.InputError(
            "there is no trained model in --output_dir; add --do_train, or set "
            "--pretrained"
        )
    file = checkpoint.open_file(path, config)
    rows = names.head_rows(config)
    wanted = [row for path, row in rows.items() if path.startswith("masked_lm/")]
    return bool(wanted) and all(row.key(file.format) in file.shapes for row in wanted)


def _lower_case(directory):
    """Whether text is lower-cased, by tokenizer_config.json, tokenizer.json or name."""
    if sentence_transformers.lowers_case(directory):
        return True
    for file, section, key in (
        (file_names.TOKENIZER_CONFIG, None, "do_lower_case"),
        (file_names.TOKENIZER, "normalizer", "lowercase"),
    ):
        path = os.path.join(directory, file)
        settings = json_files.read_object(path) if remote_files.exists(path) else {}
        settings = settings.get(section) if section else settings
        lowers = settings.get(key) if isinstance(settings, dict) else None
        if isinstance(lowers, bool):
            return lowers
        if lowers is not None:
            raise errors.InputError(f"{path}: {key}={lowers!r}; give true or false")
    name = os.path.basename(os.path.normpath(directory))
    if "uncased" in name:
        return True
    return False if "cased" in name else None


def _download(hub_id, name):
    hub_id = hub_ids.check(hub_id, name)
    folder, wanted = os.path.split(hub_id)
    beside = os.listdir(folder) if os.path.isdir(folder) else []
    near = difflib.get_close_matches(wanted, beside, 1)
    hint = f" (did you mean {folder}/{near[0]}?)" if near else ""
    try:
        import huggingface_hub
    except ImportError as error:
        raise errors.InputError(
            f"{name}={hub_id}: no such directory{hint}, and a download needs a package:"
            " pip install huggingface_hub"
        ) from error
    files = [file_names.BERT_CONFIG, file_names.HUGGING_FACE_CONFIG, file_names.HEAD]
    files += [file_names.GENERATION_CONFIG, file_names.SPECIAL_TOKENS]
    files += [foreign_files.ADAPTER]
    # Not GPT-2's and GPT's own names, which would be read before vocab.json.
    usual = {file_names.VOCAB_JSON, file_names.MERGES_TXT}
    older = {*file_names.MERGES, *file_names.MERGES.values()} - usual
    files += [name for name in file_names.OF_TOKENIZERS if name not in older]
    files += hugging_face.WEIGHTS_FILE, hugging_face.INDEX_FILE, hugging_face.SHARDS
    files += sentence_transformers.WRITTEN[:3]
    files += [f"[0-9]_*/{file}" for file in files]
    get = functools.partial(huggingface_hub.snapshot_download, hub_id)
    try:
        directory = get(allow_patterns=files)
        if not any(pathlib.Path(directory).rglob("*.safetensors")):
            get(allow_patterns=[*tf_keras_h5.FILES, tf_keras_h5.SHARDS])
        return directory
    except (OSError, ValueError, huggingface_hub.errors.HfHubHTTPError) as error:
        raise errors.InputError(
            f"{name}={hub_id}: no such directory{hint}, and the hub does not give it "
            f"({str(error).splitlines()[0]})"
        ) from error


def read_config(path):
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


def open_weights(
    files, config, vocab_size, max_seq_length, *, takes_encoder_decoder=False
):
    """The config, if it fits vocabulary, length, checkpoint and memory; the open file.

    The file is None without a checkpoint; vocab_size may be None. A GPT or GPT-2 gets
    rows for up to 3 special tokens that the vocabulary has and it has not.

    Raises:
        ValueError: as in `check_sizes`, `check_memory` and checkpoint.check_file; or
            it is an encoder-decoder where none is taken.
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
    file = None
    if is_there(files.init_checkpoint):
        file = checkpoint.open_file(files.init_checkpoint, config)
    check_sizes(config, known, files, max_seq_length, file)
    if file:
        checkpoint.check_file(config, file, allows_missing=files.allows_missing)
    check_memory(config, files.config_file)
    return config, file


def is_there(path):
    """Whether there is a checkpoint; a run that resumes does without its first one.

    Raises:
        ForeignError: something else is there.
    """
    try:
        return bool(path and checkpoint.find(path))
    except foreign_files.ForeignError:
        raise
    except ValueError:
        return False


def check_segments(config, path):
    """Refuses pairs of texts for a network whose table has one segment.

    Differs from google-research/bert: Pairs of texts are refused where
    `type_vocab_size` is 1. The original adds nothing for the tokens of the second
    segment.
    """
    if config.type_vocab_size == 1:
        raise errors.InputError(
            f"{path}: type_vocab_size is 1, and the examples are pairs of texts; give "
            "single texts or another model"
        )


def check_memory(config, path):
    """Refuses a network whose weights alone need more than the machine's memory."""
    needed = 4 * config.num_weights()  # bytes of float32
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on every system
        return
    if needed > memory:
        raise errors.InputError(
            f"{path}: {config.num_weights():,} weights are {needed / 1e9:,.0f} GB, and "
            f"this machine has {memory / 1e9:,.0f} GB; correct the sizes, such as "
            f"num_hidden_layers={config.num_hidden_layers}"
        )


def check_sizes(config, vocab_size, files, max_seq_length, file=None):
    """Refuses a vocabulary or a length that the network has no embeddings for.

    More than SPARE_ROWS rows without a token are right where an open `file` has them.
    """
    more = 0 if config.spec.reads_characters else config.vocab_size - vocab_size
    if not 0 <= more <= SPARE_ROWS:
        sizes = (
            f"{files.vocab_file} has {vocab_size} entries, added ones included, but "
            f"{files.config_file} has vocab_size={config.vocab_size}"
        )
        sizes_there = file.sizes() if file else {}
        rows = map(sizes_there.get, ("vocab_size", "encoder.vocab_size"))
        if more < 0 or config.vocab_size not in rows:
            raise errors.InputError(f"{sizes}; give the two files of one release")
        logging.warning("%s; the %d last rows are of no token", sizes, more)
    if config.spec.has_decoder and config.num_outputs != config.vocab_size:
        raise errors.InputError(
            f"{files.config_file}: the encoder has {config.vocab_size} tokens, the "
            f"decoder {config.num_outputs}; give a model whose sides share them"
        )
    if max_seq_length > config.max_position_embeddings:
        raise errors.InputError(
            f"Cannot use sequence length {max_seq_length} because the {config.kind} "
            f"model was only trained up to sequence length "
            f"{config.max_position_embeddings} ({files.config_file}); lower "
            "--max_seq_length"
        )
