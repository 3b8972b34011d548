"""Opens the network that the flags name: config, tokenizer and weights."""

from typing import Any

from absl import flags

from cli import model_flags
from data_pipeline import label_maps
from modeling.checkpoints import pretrained
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
        FLAGS.gpt_tokenizer,
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
    begins = trains and not resumes
    return pretrained.load_weights(
        model,
        path,
        trains=trains,
        resumes=resumes,
        allows_missing=FLAGS.allow_missing_weights,
        starts_head=begins and loading.starts_head(path, model.config, classes),
    )
