"""Names of Python arguments in the place of flags, for messages that a notebook shows.

The packages name flags, which bert_reborn.py has as arguments of its functions.
"""

import contextlib
import dataclasses
import functools
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from data_pipeline import findings
from data_pipeline.tables import memory_rows
from tasks.settings import fields, tables

_Function = TypeVar("_Function", bound=Callable[..., Any])
_LINES = re.compile(r"(?<=:)\d+(?=: )|(?<=\bline )\d+|(?<=\blines )\d+(?:, \d+)*")
_OR = re.compile(r" or --(\w+)")
_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]+(e-?[0-9]+)?")

_SAME = """allow_empty_text check_case check_tokenizer do_lower_case head labels
masking max_seq_length problem_type layers pooling export_format quantization top_k"""
_ARGUMENTS = {
    **{name: name for name in (*fields.rows(tables.Columns), *_SAME.split())},
    "output_dir": "directory",
    "overwrite": "overwrite=True",
    "allow_empty_text": "allow_empty_text=True",
    "nocheck_case": "check_case=False",
    "nocheck_tokenizer": "check_tokenizer=False",
}


@contextlib.contextmanager
def in_python(
    arguments: Mapping[str, str] = types.MappingProxyType(_ARGUMENTS),
    rows: Mapping[str, tuple[str, Any]] = types.MappingProxyType({}),
) -> Iterator[None]:
    """Errors of its block name `arguments`, by flag, and `rows` as in `of_rows`."""
    try:
        yield
    except (ValueError, FloatingPointError) as error:
        if error.args and isinstance(error.args[0], str):
            text = of_rows(spelled(error.args[0], arguments), rows)
            error.args = (text, *error.args[1:])
        raise


def of_rows(text: str, rows: Mapping[str, tuple[str, Any]]) -> str:
    """A message on files of rows in memory, with their names and their own index.

    `rows` are those, with their name, by the path of the file.
    """
    for path, (name, each) in rows.items():
        if path in text:
            has_index = memory_rows.has_index(each)
            text = text.replace(path, name)
            text = text.replace("'null'", "NaN" if has_index else "None")
            if has_index and text.startswith(f"{name}:"):
                text = _LINES.sub(functools.partial(_with_index, each.index), text)
    return text


def _with_index(index: Any, lines: re.Match[str]) -> str:
    places = [int(line) - 1 for line in lines[0].split(", ")]
    if not all(0 <= place < len(index) for place in places):
        return lines[0]  # words of the user
    return f"{lines[0]} (index {', '.join(str(index[place]) for place in places)})"


class Stream:
    """A stream whose text is that of `spelled` and `of_rows`."""

    def __init__(
        self,
        stream: Any,
        rows: Mapping[str, tuple[str, Any]],
        arguments: Mapping[str, str],
    ):
        self._stream, self._rows, self._arguments = stream, rows, arguments

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        text = spelled(text, self._arguments)
        return self._stream.write(of_rows(text, self._rows))


def show(noticed: Iterable[findings.Finding]) -> None:
    """Prints findings as `findings.show`, with arguments for flags."""
    for each in noticed:
        texts = dataclasses.asdict(each).items()
        findings.show(
            [findings.Finding(**{k: spelled(v, _ARGUMENTS) for k, v in texts})]
        )


def in_errors(function: _Function) -> _Function:
    """A function whose errors name arguments, with values as Python has them."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with in_python():
            return function(*arguments, **options)

    return call  # type: ignore[return-value]


def spelled(text: str, arguments: Mapping[str, str]) -> str:
    """A message with the `arguments` of Python in the place of these flags.

    Of two flags to choose from, one whose argument is "" is left out.
    """
    text = _OR.sub(lambda m: m[0] if arguments.get(m[1], m[1]) else "", text)
    argument = functools.partial(_argument, arguments)
    return re.sub(r"(?<!\.py )--(\w+)(?:=([\w./-]*\w))?", argument, text)


def _argument(arguments: Mapping[str, str], flag: re.Match[str]) -> str:
    name, value = flag.groups()
    if not arguments.get(name):
        return flag[0]
    if value and not _NUMBER.fullmatch(value):
        value = value.title() if value in ("true", "false") else f'"{value}"'
    argument, _, usual = arguments[name].partition("=")
    value = value or usual
    return f"{argument}={value}" if value else argument
