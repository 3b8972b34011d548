"""Opens the network that the flags name: config, tokenizer and weights."""

from typing import Any

from absl import flags

from cli import model_flags
from data_pipeline import label_maps
from modeling.checkpoints import pretrained
from training import model_directory

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
    allows = FLAGS.allow_missing_weights if "allow_missing_weights" in FLAGS else None
    return with_flags(beside)._replace(
        init_checkpoint=FLAGS.init_checkpoint or beside.init_checkpoint,
        allows_missing=allows,
    )


def with_flags(beside: pretrained.ModelFiles) -> pretrained.ModelFiles:
    """Files of a directory, with those that flags name in their place."""
    lowers = beside.do_lower_case
    if lowers is None or FLAGS["do_lower_case"].present:
        lowers = FLAGS.do_lower_case
    return beside._replace(
        config_file=FLAGS.bert_config_file or beside.config_file,
        vocab_file=FLAGS.vocab_file or beside.vocab_file,
        do_lower_case=lowers,
        split_words=FLAGS.split_words,
        check_tokenizer=FLAGS.check_tokenizer,
        check_case=FLAGS.check_case,
    )


def open_for_task(
    max_seq_length: int = 0, *, needs_weights: bool = False, **accepted: bool
) -> model_directory.ModelDirectory:
    """model_directory.open_files with the files of the flags."""
    files = find_files(needs_weights=needs_weights)
    return model_directory.open_files(files, max_seq_length, **accepted)


def open_named(
    flag: str, head: str | None, max_seq_length: int | None = None
) -> tuple[model_directory.ModelDirectory, int]:
    """model_directory.open_directory for a further model, such as --teacher."""
    return model_directory.open_directory(
        FLAGS[flag].value,
        max_seq_length,
        head,
        name=f"--{flag}",
        check_case=FLAGS.check_case,
        check_tokenizer=FLAGS.check_tokenizer,
    )


def load_weights(
    model: Any,
    path: str,
    classes: label_maps.Classes | None = None,
    *,
    trains: bool,
    resumes: bool,
) -> tuple[str, int]:
    """pretrained.load_weights, as --allow_missing_weights has it.

    The head of a model with other `classes` than the weights stays new.
    """
    starts = False
    if trains and not resumes:
        files = pretrained.ModelFiles(init_checkpoint=path)
        opened = model_directory.ModelDirectory(files, model.config)
        starts = opened.starts_head(classes)
    return pretrained.load_weights(
        model,
        path,
        trains=trains,
        resumes=resumes,
        allows_missing=FLAGS.allow_missing_weights,
        starts_head=starts,
    )
