"""Settings of how a classifier is made of few labelled rows."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from tasks.settings import fields, fine_tuning, head

FINE_TUNE, VECTORS, CONTRASTIVE = "fine_tune", "vectors", "contrastive"
AUTO = "auto"
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
        "Divide the logits by the number with which the probabilities of training rows "
        "are right that are held out, for a --recipe but fine_tune. The head keeps it.",
        changes=fields.WEIGHTS,
        only_with={"recipe": (VECTORS, CONTRASTIVE, AUTO)},
        only_trains=True,
    )


def refusals(settings: Any) -> Iterator[tuple[Any, str]]:
    """Pairs of a condition and a message, for errors.refuse."""
    recipe = settings.typed("recipe")
    if settings.recipe == FINE_TUNE:
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
