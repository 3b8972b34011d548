"""How messages name many things without growing long."""

from collections.abc import Sequence


def first_of(names: Sequence[str], limit: int = 4) -> str:
    """The first names and the number of the others: a, b, c, d and 24 more."""
    others = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {others} more" if others > 0 else "")


def listing(values: Sequence[str], limit: int = 20) -> str:
    """Values in quotes, each cut to 40 characters: ['a', 'b' and 3 more]."""
    return f"[{first_of([repr(value[:40]) for value in values], limit)}]"
