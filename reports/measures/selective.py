"""From which probability on a prediction needs no person, by rows held out."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from contract import wording

SHARES = 0.01, 0.02, 0.05, 0.1  # of wrong answers, that are promised
LEVEL = 0.9  # probability that a promise holds
_DIGITS = 6  # of probabilities, as predictions have them
COLUMNS = (
    "wrong, at most",
    "from the probability",
    "answered alone",
    "handed to a person",
    "wrong of these rows",
)
# How to use a row of the table.
USE = (
    "answer alone where the largest of a text's probabilities is at least the number "
    "of the second column"
)


def promise(
    confidences: np.ndarray, is_right: np.ndarray, share: float
) -> dict[str, Any]:
    """The least threshold above which no more than a share of answers is wrong.

    With probability LEVEL over the held-out rows, the share of wrong answers among new
    texts whose prediction has at least the probability `threshold` is at most `share`.
    That holds of each share by itself, of texts that come as these rows did, and if
    surer answers are not wrong more often. It is a fixed sequence of "Learn then Test"
    (Angelopoulos et al., 2021): of the n surest rows the errors are binomial, given the
    probability of the next one; that more than `share` are wrong is rejected where a
    binomial of n and `share` has so few errors with at most 1 - LEVEL. The first n is a
    quarter of the rows, or the fewest that can show it, and n grows while that is
    rejected.

    Args:
        confidences: of the predictions, float [N], 0 to 1.
        is_right: bool [N].

    Returns:
        wrong_at_most: `share`. threshold: None where no row is answered alone.
        answered, wrong: counts of held-out rows. needed: the fewest rows that can show
        it, if all are right.
    """
    needed = math.ceil(math.log(1 - LEVEL) / math.log1p(-share))
    count = len(confidences)
    known = np.round(np.asarray(confidences, np.float64), _DIGITS)
    order = np.argsort(-known, kind="stable")
    sure, wrong = known[order], ~np.asarray(is_right, bool)[order]
    ends = np.flatnonzero(np.diff(sure, append=-1.0)) + 1  # where equal ones end
    ends = ends[ends >= max(needed, count // 4)]
    holds = _tails(wrong, share)[ends - 1] <= 1 - LEVEL
    length = len(holds) if holds.all() else int(holds.argmin())
    answered, threshold = int(ends[length - 1]) if length else 0, None
    if answered:  # above the first row that is not
        below = sure[answered] + 10.0**-_DIGITS if answered < count else 0.0
        threshold = round(float(below), _DIGITS)
    return {
        "wrong_at_most": share,
        "threshold": threshold,
        "answered": answered,
        "wrong": int(wrong[:answered].sum()),
        "needed": needed,
    }


def promises(confidences: np.ndarray, is_right: np.ndarray) -> list[dict[str, Any]]:
    """`promise` of each of SHARES."""
    return [promise(confidences, is_right, share) for share in SHARES]


def _tails(wrong: np.ndarray, share: float) -> np.ndarray:
    """P(Bin(n, share) <= errors of the first n rows) for n of 1 to N, float [N]."""
    # From n to n + 1 by the rule of Pascal; scipy.special takes a second to import.
    number = np.arange(len(wrong) + 1)
    errors = np.concatenate([[0], np.cumsum(wrong)])
    logs = np.cumsum(np.log(np.maximum(number, 1)))  # of factorials
    chosen = logs[number] - logs[errors] - logs[number - errors]
    masses = np.exp(
        chosen + errors * math.log(share) + (number - errors) * math.log1p(-share)
    )
    return 1 + np.cumsum(np.where(wrong, masses[1:], 0.0) - share * masses[:-1])


def cells(row: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """The cells of COLUMNS for a promise by `count` rows, or why there is none."""
    promised = f"{100 * row['wrong_at_most']:g} %"
    if row["threshold"] is None:
        reason = "too many errors, or too few rows, to promise it"
        if count < row["needed"]:
            reason = f"too few rows to promise {promised}: {row['needed']} are needed"
        return promised, "none", "0.0 %", "100.0 %", reason
    share, wrong = row["answered"] / count, row["wrong"] / row["answered"]
    return (
        promised,
        f"{row['threshold']:.{_DIGITS}f}",
        f"{100 * share:.1f} %",
        f"{100 - 100 * share:.1f} %",
        f"{100 * wrong:.1f} % ({row['wrong']} of {row['answered']})",
    )


def lines(rows: Sequence[Mapping[str, Any]], count: int) -> Iterator[str]:
    """The table of `promises` by `count` rows for a terminal, and how to use it."""
    table = [COLUMNS, *(cells(row, count) for row in rows)]
    yield from (f"  {line}" for line in wording.columns(table))
    if any(row["threshold"] is not None for row in rows):
        yield f"  to use a row, {USE}"
