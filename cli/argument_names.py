"""Names of Python arguments in the place of flags, for messages that a notebook shows.

The packages name flags, which bert_reborn.py has as arguments of its functions.
"""

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SAME = """check_case check_tokenizer do_lower_case head labels max_seq_length
problem_type layers pooling export_format quantization top_k"""
_ARGUMENTS = {
    **{name: name for name in _SAME.split()},
    "output_dir": "directory",
    "reranker_label": "label",
    "overwrite": "overwrite=True",
    "nocheck_case": "check_case=False",
    "nocheck_tokenizer": "check_tokenizer=False",
}
# Those that are keys of `columns`, of tables.Layout.
_KEYS = {
    **{f"{name}_column": name for name in ("text_a", "text_b", "label")},
    **{"choice_columns": "choices", "id_column": "example_id"},
    **{name: name for name in ("has_header", "file_format", "delimiter", "quote")},
}


def in_errors(function: _Function) -> _Function:
    """A function whose ValueErrors name arguments, with values as Python has them."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except ValueError as error:
            if error.args and isinstance(error.args[0], str):
                text = re.sub(r"(?<!\.py )--(\w+)(?:=(\w+))?", _argument, error.args[0])
                error.args = (text, *error.args[1:])
            raise

    return call  # type: ignore[return-value]


def _argument(flag: re.Match[str]) -> str:
    name, value = flag.groups()
    if value and not value.isdecimal():
        value = value.title() if value in ("true", "false") else f'"{value}"'
    if name in _KEYS:
        return f'columns={{"{_KEYS[name]}": {value or "..."}}}'
    if name not in _ARGUMENTS:
        return flag[0]
    return _ARGUMENTS[name] + (f"={value}" if value else "")
