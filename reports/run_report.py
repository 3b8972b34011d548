"""What a run leaves to look at when it has ended: pages with the pictures that suit."""

from typing import Any

from contract import outcomes
from reports import pictures
from reports.measures import class_scores
from reports.pages import run_page

_AS_TABLE = {"confusion"}  # which can be read aloud, and searched


def say(rows: outcomes.Outcomes, kind: str) -> None:
    """Prints the scores of each class of texts, and what the predictions warn of."""
    if rows.decisions is not None and kind == "text-classification":
        chosen = rows.decisions
        named = chosen.class_names, chosen.labels, chosen.predictions
        print(f"classes of the {rows.split} rows:")
        print("\n".join(class_scores.lines(*class_scores.collect(*named))))
    if rows.warning:
        print(f"warning: {rows.split} rows: {rows.warning}")


def write(rows: outcomes.Outcomes | None, directory: str, **facts: Any) -> None:
    """As run_page.write, with pictures of the rows."""
    run_page.write(rows, directory, pictures=_drawn(rows), **facts)


def write_all(directory: str) -> None:
    """As run_page.write_all."""
    run_page.write_all(directory)


def _drawn(rows):
    if rows is None:
        return []
    from reports import figures  # matplotlib takes most of a second

    return [
        {
            "title": name.replace("_", " ").capitalize(),
            "description": picture.description,
            "svg": figures.svg(picture.draw()),
        }
        for name, picture in pictures.of(rows).items()
        if name not in _AS_TABLE
    ]
