"""What a run leaves to look at when it has ended: pages with the pictures that suit."""

from typing import Any

from reports import examined
from reports.pages import run_page


def write(rows: examined.Examined | None, directory: str, **facts: Any) -> None:
    """As run_page.write, with pictures of the rows."""
    run_page.write(rows, directory, pictures=[], **facts)


def write_all(directory: str) -> None:
    """As run_page.write_all."""
    run_page.write_all(directory)
