"""Settings of queries and passages: prompts, poolings, and who ranks once more."""

import dataclasses
from typing import Any

from tasks.settings import fields


def prompt(texts: str, **rules: Any) -> Any:
    """The field of a text before others, which are `texts`."""
    text = f"Text to put before each {texts}. By default that of the model, or none."
    return fields.data(None, text, **rules)


def reranker(heading: str, help_text: str) -> Any:
    """The field of a directory that ranks passages once more."""
    return fields.field(heading, None, help_text, path=True, changes=fields.ANSWERS)


def reranker_label(heading: str) -> Any:
    """The field of its label."""
    return fields.field(
        heading,
        None,
        "Label of --reranker whose probability ranks passages; by default the last of "
        "two.",
        only_with={"reranker": True},
        changes=fields.ANSWERS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextPooling(fields.Settings):
    """How the vector of a text is made of those of its tokens."""

    pooling: str | None = fields.vectors(
        None,
        "Vector of a text: cls is that of the first token, mean and max are over all "
        "tokens, last is that of the last one. By default that of the model, or mean.",
        choices=["cls", "mean", "max", "last"],
        changes=fields.ANSWERS,
    )
