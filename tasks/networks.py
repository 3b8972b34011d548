"""Opens the network that the settings name: config, tokenizer and weights."""

from typing import Any

from data_pipeline import label_maps
from modeling.checkpoints import pretrained
from tasks.settings import model as model_settings
from training import model_directory


def find_files(settings: model_settings.Model) -> pretrained.ModelFiles:
    """The files that the settings name, or else those of --pretrained.

    Raises:
        InputError: one is missing, but for the vocabulary: not every tokenizer has one.
    """
    settings.check_named()
    beside = pretrained.ModelFiles()
    if settings.pretrained:
        beside = pretrained.locate(settings.pretrained)
    allows = getattr(settings, "allow_missing_weights", None)
    return with_settings(settings, beside)._replace(
        init_checkpoint=settings.init_checkpoint or beside.init_checkpoint,
        allows_missing=allows,
    )


def with_settings(
    settings: Any, beside: pretrained.ModelFiles
) -> pretrained.ModelFiles:
    """Files of a directory, with those that the settings name in their place."""
    lowers = beside.do_lower_case
    if lowers is None or "do_lower_case" in settings.given:
        lowers = settings.do_lower_case
    return beside._replace(
        config_file=settings.bert_config_file or beside.config_file,
        vocab_file=settings.vocab_file or beside.vocab_file,
        do_lower_case=lowers,
        split_words=settings.split_words,
        check_tokenizer=settings.check_tokenizer,
        check_case=settings.check_case,
    )


def open_for_task(
    settings: model_settings.Model, max_seq_length: int = 0, **accepted: bool
) -> model_directory.ModelDirectory:
    """model_directory.open_files with the files of the settings."""
    files = find_files(settings)
    return model_directory.open_files(files, max_seq_length, **accepted)


def open_named(
    settings: Any, flag: str, head: str | None, max_seq_length: int | None = None
) -> tuple[model_directory.ModelDirectory, int]:
    """model_directory.open_directory for a further model, such as --teacher."""
    return model_directory.open_directory(
        getattr(settings, flag),
        max_seq_length,
        head,
        name=f"--{flag}",
        check_case=settings.check_case,
        check_tokenizer=settings.check_tokenizer,
    )


def load_weights(
    settings: Any,
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
        allows_missing=settings.allow_missing_weights,
        starts_head=starts,
    )
