"""How the programs of this project are started, in a checkout and installed."""

import csv
import io
from typing import Any

PACKAGE = (__package__ or "").rpartition(".")[0]  # of a wheel; "" in a checkout


def command(program: str) -> str:
    """The beginning of a command line for a program such as `run_classifier`."""
    module = f"{PACKAGE}.{program}" if PACKAGE else program
    return f"python -m {module}" if "." in module else f"python {module}.py"


def spell(name: str, value: Any) -> str:
    """A flag with a value, as on a command line."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    if isinstance(value, list | tuple):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(value)
        value = line.getvalue()
    return f"--{name}={value}"
