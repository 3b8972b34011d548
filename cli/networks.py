"""Opens the network that the flags, or a directory, name: config and tokenizer."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from absl import flags

from cli import model_flags
from contract import errors
from data_pipeline.text import base, opening
from modeling.checkpoints import pretrained, warm_start
from modeling.encoder_decoder import config as encoder_decoder_config

FLAGS = flags.FLAGS


class ModelFiles(NamedTuple):
    """The files of a network; init_checkpoint is "" for random weights."""

    config_file: str
    vocab_file: str  # "" where there is none and none is needed
    init_checkpoint: str
    do_lower_case: bool
    # Whether init_checkpoint may lack layers; None where nothing is trained.
    allows_missing: bool | None = None
    # How GPT's and ELMo's words are found; None: as the directory has it.
    gpt_tokenizer: str | None = None
    split_words: str | None = None


class Opened(NamedTuple):
    """A network that is checked against its vocabulary, but not built yet."""

    files: ModelFiles
    tokenizer: base.Tokenizer
    config: Any


def find_files(*, needs_weights: bool = False) -> ModelFiles:
    """The files that flags name, or else those of --pretrained.

    Raises:
        ValueError: one is missing, but for the vocabulary: not every tokenizer has one.
    """
    model_flags.check_named(needs_weights)
    beside = pretrained.Pretrained("", "", "", None)
    if FLAGS.pretrained:
        beside = pretrained.locate(FLAGS.pretrained)
    lowers = FLAGS.do_lower_case
    if beside.do_lower_case is not None and not FLAGS["do_lower_case"].present:
        lowers = beside.do_lower_case
    allows = FLAGS.allow_missing_weights if "allow_missing_weights" in FLAGS else None
    return ModelFiles(
        FLAGS.bert_config_file or beside.config_file,
        FLAGS.vocab_file or beside.vocab_file,
        FLAGS.init_checkpoint or beside.checkpoint,
        lowers,
        allows,
        FLAGS.gpt_tokenizer,
        FLAGS.split_words,
    )


def files_in(
    place: pretrained.Pretrained, do_lower_case: bool | None = None
) -> ModelFiles:
    """The files of a directory; lower-cases unless it or `do_lower_case` says no."""
    if do_lower_case is None:
        do_lower_case = place.do_lower_case is not False
    return ModelFiles(
        place.config_file, place.vocab_file, place.checkpoint, do_lower_case
    )


def open_network(
    files: ModelFiles,
    max_seq_length: int,
    *,
    checks_case: bool,
    for_tasks: bool = True,
    takes_encoder_decoder: bool = False,
) -> Opened:
    """Config and tokenizer; ValueError unless they fit each other and the length.

    Args:
        files: of `find_files` or `files_in`.
        max_seq_length: in tokens; 0 for any.
        checks_case: as in opening.open_tokenizer.
        for_tasks: whether special tokens stand around texts.
        takes_encoder_decoder: as in pretrained.open_config.
    """
    tokenizer = opening.open_tokenizer(files, checks_case=checks_case)
    if for_tasks:
        tokenizer = tokenizer.with_special_tokens()
    config = pretrained.open_config(
        files,
        tokenizer.vocab_size,
        max_seq_length,
        takes_encoder_decoder=takes_encoder_decoder,
    )
    return Opened(files, tokenizer, config)


def open_for_task(
    max_seq_length: int, *, needs_weights: bool = False, **accepted: bool
) -> Opened:
    """`open_network` with the files of the flags."""
    files = find_files(needs_weights=needs_weights)
    return open_network(files, max_seq_length, checks_case=FLAGS.check_case, **accepted)


def open_both_sides(opened: Opened) -> tuple[Opened, Callable[..., tuple[str, int]]]:
    """An encoder-decoder, and what loads its weights; one BERT fills both sides.

    Raises:
        ValueError: the network is neither.
    """
    load, config = weights_loader(), opened.config
    if config.network == "encoder_decoder":
        return opened, load
    if config.network != "bert":
        raise errors.InputError(
            f"{opened.files.config_file}: describes a network of {config.kind}, and a "
            "text is read by one BERT and written by another; give the config.json of "
            "an encoder-decoder, or a BERT for both sides"
        )
    config = encoder_decoder_config.EncoderDecoderConfig.from_berts(
        config,
        config,
        decoder_start_token_id=opened.tokenizer.start_id,
        eos_token_id=opened.tokenizer.end_id,
    )

    def load_both(model, path, *, trains, resumes, **more):
        if trains and path and not resumes:
            return str(warm_start.load(model, path)), 0
        return load(model, path, trains=trains, resumes=resumes, **more)

    return opened._replace(config=config), load_both


def weights_loader() -> Callable[..., tuple[str, int]]:
    """pretrained.load_weights, as --allow_missing_weights has it."""
    allows_missing = FLAGS.allow_missing_weights
    return functools.partial(pretrained.load_weights, allows_missing=allows_missing)
