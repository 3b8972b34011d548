"""Lines of CSV files that people open in a spreadsheet."""

import csv
import types
from typing import Any

from data_pipeline.tables import numbers

MARK = "\ufeff"  # by which a spreadsheet reads UTF-8, and not the letters of Windows
_CODE = ("=", "+", "-", "@", "\t", "\r")  # begin what a spreadsheet computes


class Writer:
    """Makes lines as in RFC 4180.

    Where the input has semicolons, they have them, too, and numbers a decimal comma: so
    do spreadsheets of countries in which the comma is no separator.

    Args:
        delimiter: of the input; None for other rows than those of a file.

    Attributes:
        line: cells -> a line.
    """

    def __init__(self, delimiter: str | None):
        self._delimiter = ";" if delimiter == ";" else ","
        # A writer returns what the `write` of its file does.
        lines = types.SimpleNamespace(write=str)
        self.line = csv.writer(lines, delimiter=self._delimiter).writerow

    def number(self, value: Any) -> str:
        """A number as the spreadsheets of the input read it."""
        return str(value).replace(".", "," if self._delimiter == ";" else ".")


def guarded(text: str) -> str:
    """A text that is no formula: an apostrophe stands before what begins as one.

    Numbers stay (OWASP, "CSV Injection").
    """
    is_code = text.startswith(_CODE) and not numbers.is_number(text)
    return f"'{text}" if is_code else text
