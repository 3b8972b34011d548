"""Compares two runs: scores with intervals, rows that only one gets right, flags."""

if __name__ == "__main__":  # as which it was the command before
    raise SystemExit("the command is: python compare_runs.py")


import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from contract import atomic_files, errors, wording
from reports.measures import confidence
from reports.pages import record, run_page

SHOWN_ROWS = 20
_TEXT_COLUMNS = 100  # of a row on a terminal
# Flags in which two runs differ without a difference.
_NO_MATTER = frozenset({"output_dir", "overwrite_output_dir"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score:
    """A score of two runs."""

    name: str
    first: float
    second: float
    interval: tuple[float, float] | None  # of second minus first
    note: str = ""  # the reason where there is none

    @property
    def difference(self) -> float:
        """Second minus first."""
        return self.second - self.first

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.interval is not None and not (
            self.interval[0] <= 0 <= self.interval[1]
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two runs, first and second."""

    names: tuple[str, str]  # the directories, as the command names them
    kind: str
    split: str
    rows: tuple[int, int]  # their number
    shared: int  # rows that both have
    resamples: int
    scores: Sequence[Score]  # without intervals where the rows are not the same
    # Rows that both, only the first, only the second, and neither get right; None for
    # a regression.
    counts: tuple[int, int, int, int] | None
    p: float | None  # of McNemar's test
    flags: Mapping[str, tuple[Any, Any]]  # those that differ
    # Rows that only one run gets right, as record.py keeps errors.
    only_first: Sequence[Mapping[str, Any]]
    only_second: Sequence[Mapping[str, Any]]


def compare(
    first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[str, str]
) -> Comparison:
    """Compares two records; raises InputError where they cannot be compared."""
    one, other = first["evaluation"], second["evaluation"]
    for name, run in zip(names, (one, other), strict=True):
        if not run:
            raise errors.InputError(
                f"{name}: has scored no rows; run it with --do_eval, or --do_predict "
                "of rows with labels"
            )
    if first["kind"] != second["kind"]:
        raise errors.InputError(
            f"{names[0]} is a run of {first['kind']} and {names[1]} of "
            f"{second['kind']}; name two runs of one task"
        )
    places = {key: i for i, key in enumerate(other["keys"])}
    pairs = [(i, places[k]) for i, k in enumerate(one["keys"]) if k in places]
    rows = len(one["keys"]), len(other["keys"])
    if not pairs:
        raise errors.InputError(
            f"{names[0]} and {names[1]} share none of their {rows[0]} and {rows[1]} "
            "rows; evaluate both on one file"
        )
    is_same = (len(pairs), len(pairs)) == rows
    scores, resamples = _scores(one, other, is_same)
    counts, p, only = None, None, ((), ())
    if one["is_correct"] and other["is_correct"]:
        counts, only = _verdicts(one, other, pairs)
        p = confidence.mcnemar(counts[1], counts[2])
    flags = {
        name: (first["flags"].get(name), second["flags"].get(name))
        for name in sorted({*first["flags"], *second["flags"]} - _NO_MATTER)
        if first["flags"].get(name) != second["flags"].get(name)
    }
    return Comparison(
        names=names,
        kind=first["kind"],
        split=one["split"],
        rows=rows,
        shared=len(pairs),
        resamples=resamples,
        scores=scores,
        counts=counts,
        p=p,
        flags=flags,
        only_first=only[0],
        only_second=only[1],
    )


def _scores(one, other, is_same):
    """The scores of both, and over how many resamples their intervals are."""
    scores, resamples = [], 0
    for name, score in one["scores"].items():
        theirs = other["scores"].get(name, {"value": None})
        if score["value"] is None or theirs["value"] is None:
            continue
        interval, note = None, "not known" if is_same else "not known: different rows"
        if is_same and name in one["resampled"] and name in other["resampled"]:
            # Draws follow from the rows, so these are pairs.
            both = [run["resampled"][name] for run in (one, other)]
            resamples = min(map(len, both))  # older records had as many as time allowed
            first, second = (np.array(run[:resamples], np.float64) for run in both)
            change = second - first
            interval = confidence.interval(change)
            note = confidence.why_no_interval(change)
        values = {"first": score["value"], "second": theirs["value"]}
        scores.append(Score(name=name, **values, interval=interval, note=note))
    return scores, resamples


def _verdicts(one, other, pairs):
    right = [(one["is_correct"][i], other["is_correct"][j]) for i, j in pairs]
    counts = tuple(right.count(c) for c in ((1, 1), (1, 0), (0, 1), (0, 0)))
    texts = [{row["key"]: row for row in run["errors"]} for run in (one, other)]
    only: tuple[list[Any], list[Any]] = ([], [])
    for (i, _), verdict in zip(pairs, right, strict=True):
        if verdict[0] != verdict[1]:
            wrong = 0 if verdict[1] else 1  # which run's errors hold the row
            row = texts[wrong].get(one["keys"][i])
            if row:  # else it was too many to keep
                only[1 - wrong].append(row)
    worst = [sorted(rows, key=lambda row: -row["loss"])[:SHOWN_ROWS] for rows in only]
    return counts, worst


def lines(compared: Comparison) -> Iterator[str]:
    """The lines for a terminal."""
    names, counts = compared.names, compared.rows
    yield f"first:  {names[0]}, {counts[0]} rows of {compared.split}"
    yield f"second: {names[1]}, {counts[1]} rows; both have {compared.shared}"
    yield ""
    table = [("score", "first", "second", "difference", "95 % interval", "")]
    for score in compared.scores:
        interval = score.note
        if score.interval:
            interval = f"{score.interval[0]:+.4f} to {score.interval[1]:+.4f}"
        pair = f"{score.first:.4f}", f"{score.second:.4f}"
        clear = "clear" if score.is_clear else ""
        cells = (score.name, *pair, f"{score.difference:+.4f}", interval, clear)
        table.append(cells)
    yield from (f"  {line}" for line in wording.columns(table))
    if compared.resamples:
        yield f"paired bootstrap over the rows, {compared.resamples} resamples"
    if compared.counts and compared.p is not None:
        both, first, second, neither = compared.counts
        yield ""
        yield (
            f"right: both {both}, only the first {first}, only the second {second}, "
            f"neither {neither}; McNemar's exact test: p = {compared.p:.4g}"
        )
    yield ""
    yield "flags that differ:" if compared.flags else "no flag differs"
    changed = [(f"--{n}", str(a), str(b)) for n, (a, b) in compared.flags.items()]
    yield from (f"  {line}" for line in wording.columns(changed))
    only = {"first": compared.only_first, "second": compared.only_second}
    for number, (which, rows) in enumerate(only.items(), start=1):
        if rows and compared.counts:
            count = f"{len(rows)} of {compared.counts[number]}"
            yield ""
            yield f"rows that only the {which} run gets right ({count}):"
        for row in rows:
            text = " | ".join(" ".join(t.split()) for t in row["texts"])
            yield f"  {text[:_TEXT_COLUMNS]}"
            yield f"    expected: {row['expected']}, predicted: {row['predicted']}"


def show(directories: Sequence[str], output_file: str | None = None) -> None:
    """Prints the comparison of two runs, and writes it as a page."""
    if len(directories) != 2:
        raise errors.InputError(
            f"{len(directories)} directories given; give those of two runs"
        )
    if output_file:
        atomic_files.check_writable(output_file)
    first, second = directories
    compared = compare(record.read(first), record.read(second), (first, second))
    print("\n".join(lines(compared)))
    if output_file:
        page = run_page.render("comparison.html", comparison=compared)
        atomic_files.write_text(output_file, page)
        print(f"page: {output_file}")
