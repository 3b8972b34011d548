"""Opens the network that the flags name: config, tokenizer and weights."""

from collections.abc import Callable
from typing import Any

from absl import flags

from cli import model_flags
from contract import errors
from data_pipeline import label_maps
from modeling.checkpoints import pretrained, warm_start
from modeling.encoder_decoder import config as encoder_decoder_config
from training import loading

FLAGS = flags.FLAGS


def find_files(*, needs_weights: bool = False) -> pretrained.ModelFiles:
    """The files that flags name, or else those of --pretrained.

    Raises:
        ValueError: one is missing, but for the vocabulary: not every tokenizer has one.
    """
    model_flags.check_named(needs_weights)
    beside = pretrained.ModelFiles()
    if FLAGS.pretrained:
        beside = pretrained.locate(FLAGS.pretrained)
    lowers = FLAGS.do_lower_case
    if beside.do_lower_case is not None and not FLAGS["do_lower_case"].present:
        lowers = beside.do_lower_case
    allows = FLAGS.allow_missing_weights if "allow_missing_weights" in FLAGS else None
    return pretrained.ModelFiles(
        FLAGS.bert_config_file or beside.config_file,
        FLAGS.vocab_file or beside.vocab_file,
        FLAGS.init_checkpoint or beside.init_checkpoint,
        lowers,
        allows,
        FLAGS.split_words,
        FLAGS.check_tokenizer,
        FLAGS.check_case,
    )


def open_for_task(
    max_seq_length: int, *, needs_weights: bool = False, **accepted: bool
) -> loading.Opened:
    """`open_network` with the files of the flags."""
    files = find_files(needs_weights=needs_weights)
    return loading.open_network(files, max_seq_length, **accepted)


def open_both_sides(
    opened: loading.Opened,
) -> tuple[loading.Opened, Callable[..., tuple[str, int]]]:
    """An encoder-decoder, and what loads its weights; one BERT fills both sides.

    Raises:
        ValueError: the network is neither.
    """
    load, config = weights_loader(), opened.config
    if config.network == "encoder_decoder":
        return opened, load
    if config.kind != "BERT":
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


def weights_loader(classes: label_maps.Classes | None = None) -> Callable[..., Any]:
    """pretrained.load_weights, as --allow_missing_weights has it.

    The head of a model with other `classes` than the weights stays new.
    """
    allows = FLAGS.allow_missing_weights

    def load(model: Any, path: str, **stage: bool) -> tuple[str, int]:
        begins = stage["trains"] and not stage["resumes"]
        starts = begins and loading.starts_head(path, model.config, classes)
        options = {"allows_missing": allows, "starts_head": starts}
        return pretrained.load_weights(model, path, **stage, **options)

    return load
