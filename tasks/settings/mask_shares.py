"""Settings of how tokens are masked, of records and of batches."""

from typing import Any

from tasks.settings import fields


def field(heading: str, tokens: str, **rules: Any) -> Any:
    """The field of the shares of `tokens` that are masked, replaced and kept."""
    return fields.field(
        heading,
        (0.8, 0.1, 0.1),
        f"Shares of the {tokens} that become [MASK], become any token of the "
        "vocabulary, and stay unchanged; they add up to 1.",
        **rules,
    )
