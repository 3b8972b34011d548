"""Settings of how a classifier is made of few labelled rows."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from tasks.settings import fields, fine_tuning, head

FINE_TUNE, VECTORS, CONTRASTIVE = "fine_tune", "vectors", "contrastive"
AUTO = "auto"
_OTHERS = VECTORS, CONTRASTIVE, AUTO
_FEW_STEPS, _FEW_ROWS = 100, 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(fields.Settings):
    """How a classifier is trained."""

    recipe: str = fields.training(
        FINE_TUNE,
        "How to train. fine_tune: as google-research/bert, in as many steps as epochs "
        "have. For few rows: vectors: a regression on the vectors of a network that "
        "stays as it is. contrastive: texts of one label are brought near each other "
        "first. auto: what is best of these and of two long fine-tunings, by "
        "cross-validation on the training rows.",
        choices=[FINE_TUNE, VECTORS, CONTRASTIVE, AUTO],
        changes=fields.WEIGHTS,
        only_trains=True,
    )
    calibrate: bool = fields.training(
        False,
        "Divide the logits by the number with which probabilities of rows are right "
        "that are not learned: of dev rows with --recipe=fine_tune, with others of "
        "training rows that are held out. The head keeps it.",
        changes=fields.WEIGHTS,
        only_trains=True,
    )
    label_errors: bool = fields.training(
        False,
        "Hold training rows out, for a --recipe but fine_tune, and write those whose "
        "label is not what is predicted to label_errors.csv. --recipe=auto, "
        "--calibrate and runs without dev rows do so anyway.",
        changes=fields.NOTHING,
        only_with={"recipe": _OTHERS},
        only_trains=True,
    )


def refusals(settings: Any) -> Iterator[tuple[Any, str]]:
    """Pairs of a condition and a message, for errors.refuse."""
    recipe, unlabelled = settings.typed("recipe"), settings.typed("unlabelled_file")
    is_usual = settings.recipe == FINE_TUNE
    yield (
        settings.unlabelled_file and is_usual and not settings.teacher,
        f"{unlabelled} is read with --teacher, or --recipe={' or '.join(_OTHERS)}; add "
        "one of them, or leave it out",
    )
    if is_usual:
        yield (
            settings.calibrate and not (settings.do_train and settings.do_eval),
            f"--calibrate with {recipe} divides by what dev rows need, after training; "
            "add --do_train, --do_eval and dev rows, or leave it out",
        )
        after = "evaluate_steps", "grid", "lora_rank", "teacher", "choice_columns"
        yield from (
            (
                settings.calibrate and getattr(settings, name),
                f"--calibrate with {recipe} changes the head of one text or pair after "
                f"the last step; leave it or {settings.typed(name)} out",
            )
            for name in after
        )
        return
    yield (
        not settings.do_train,
        f"{recipe} trains a model; add --do_train, or leave it out",
    )
    decided = {*fine_tuning.VARYING, *fields.rows(head.HeadChoice)}
    others = "grid", "evaluate_steps", "teacher", "lm_loss_weight", "label_smoothing"
    yield from (
        (
            name in settings.given and getattr(settings, name),
            f"{settings.typed(name)} is for --recipe={FINE_TUNE}, and {recipe} decides "
            "it; leave one of them out",
        )
        for name in (*sorted(decided), *others, "pack_sequences")
    )
    yield (
        settings.choice_columns or settings.jit_compile == "true" or settings.is_tpu,
        f"{recipe} is for texts and pairs that are not compiled by XLA; leave "
        "--choice_columns, --jit_compile=true and --use_tpu out",
    )


def hint(num_rows: int, num_steps: int) -> str:
    """A line where so few rows are trained for so few steps that little is learned."""
    is_few = num_rows < _FEW_ROWS and num_steps < _FEW_STEPS
    return f"{num_steps} steps are few; see --recipe" if is_few else ""
