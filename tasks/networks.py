"""Opens the network that the settings name: config, tokenizer and weights."""

import dataclasses
from collections.abc import Callable
from typing import Any

from absl import logging

from contract import wording
from data_pipeline import label_maps
from loading import model_directory
from modeling.checkpoints import checkpoint, names
from tasks.settings import model as model_settings


def find_files(
    settings: Any, beside: model_directory.ModelFiles | None = None
) -> model_directory.ModelFiles:
    """The files that the settings name, or else those `beside` or of --pretrained.

    Raises:
        InputError: one is missing, but for the vocabulary: not every tokenizer has one.
    """
    if beside is None:
        settings.check_named()
        beside = model_directory.ModelFiles()
        if settings.pretrained:
            beside = model_directory.locate(settings.pretrained)
    lowers = beside.do_lower_case
    if lowers is None or "do_lower_case" in settings.given:
        lowers = settings.do_lower_case
    named = getattr(settings, "init_checkpoint", None)
    return dataclasses.replace(
        beside,
        config_file=settings.bert_config_file or beside.config_file,
        vocab_file=settings.vocab_file or beside.vocab_file,
        init_checkpoint=named or beside.init_checkpoint,
        allows_missing=getattr(settings, "allow_missing_weights", None),
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
    *,
    trains: bool,
    resumes: bool,
    classes: label_maps.Classes | None = None,
    fill: Callable[[Any, str], Any] | None = None,
) -> tuple[str, int]:
    """Loads the weights that a run begins with; random without a path.

    The file may lack the head of a model that `trains`, and any part of it with
    --allow_missing_weights. The head of a model with other `classes` than the weights
    stays new. A run that `resumes` loads its weights later, with their moments.

    Args:
        fill: what loads the model where it trains and does not resume, of another
            network's weights; returns a report.

    Returns:
        The source of the weights, for people, and the step they were trained for.
    """
    options: dict[str, Any] = {"allows_missing": settings.allow_missing_weights}
    if not trains:
        report = checkpoint.load_trained(model, path, **options)
        return str(report), report.global_step or 0
    if resumes or not path:
        return "random: neither --init_checkpoint nor --pretrained is set", 0
    if fill:
        report = fill(model, path)
    else:
        files = model_directory.ModelFiles(init_checkpoint=path)
        opened = model_directory.ModelDirectory(files, model.config)
        options["starts_head"] = opened.starts_head(classes)
        report = checkpoint.load(model, path, file=opened.weights, **options)
    if settings.values().get("lora_rank"):
        _warn_of_random(settings, model, report)
    return str(report), 0


def _warn_of_random(settings, model, report):
    """Names what LoRA does not train and no file has given."""
    rows = [row for row, _ in names.named_variables(model)]
    own = {row.google for row in rows if not model.config.spec.is_head(row.path)}
    random = [name for name in report.missing if name in own]
    if not model.uses_pooler:
        random = [name for name in random if "/pooler/" not in name]
    if random:
        logging.warning(
            "%s leaves what is new below heads at random values: %s; give weights that "
            "have them, or leave the flag out to train all",
            settings.typed("lora_rank"),
            wording.first_of(random),
        )


def load_network(model: Any, path: str, **_: bool) -> tuple[str, int]:
    """As `load_weights`, where heads and pooler may be missing and nothing trains."""
    report = checkpoint.load(model, path)
    return str(report), report.global_step or 0
