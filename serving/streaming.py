"""Lines of examples to lines of answers: in order, as they come, in bounded memory."""

import collections
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from contract import errors, json_files
from serving import answers as answer_rows

# Texts that wait for the model, which gets those of similar length together.
LOOK_AHEAD_LINES = 2048
LOOK_AHEAD_BYTES = 2**24
BATCH_LINES = 32
BATCH_BYTES = 2**18  # of long contexts few go through the network together
MAX_LINE_BYTES = 2**24
# Seconds that a text waits for others before the model gets it.
PAUSE_SECONDS = 0.05
_BLOCK_BYTES = 2**16
_SHOWN = 60  # characters of a wrong line that an error repeats
_LONG_TEXT = "context"  # not repeated beside its answer

# Columns of texts -> an answer for each row; ValueError if a row has none.
Predict = Callable[..., Sequence[dict[str, Any]]]


class Example(NamedTuple):
    """One line: its texts, or an error; other keys are passed on to the answer."""

    number: int
    texts: tuple[str, ...] = ()
    passed: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    error: str = ""


def split(read: Callable[[], bytes]) -> Iterator[bytes]:
    """Lines of what `read` returns until it returns nothing, without their ends.

    A line longer than MAX_LINE_BYTES is cut to a beginning that is longer than that.
    """
    parts: list[bytes] = []
    size = 0
    while block := read():
        *pieces, tail = block.split(b"\n")
        for piece in pieces:
            yield b"".join([*parts, piece])
            parts, size = [], 0
        if tail and size <= MAX_LINE_BYTES:
            parts.append(tail)
            size += len(tail)
    if parts:
        yield b"".join(parts)


def parse(line: bytes, number: int, names: Sequence[str], input_format: str) -> Example:
    """The example in a line; the first has number 1.

    Args:
        names: the model's texts, such as question and context.
        input_format: "jsonl", an object with `names` or a string for one name, and a
            list under a name that occurs several times; or "lines", text with tabs
            between the texts.
    """
    try:
        text = _decode(line, is_first=number == 1)
        parse_text = _parse_tabs if input_format == "lines" else _parse_json
        return Example(number, *parse_text(text, names))
    except ValueError as error:
        return Example(number, error=str(error))


def _decode(line, *, is_first):
    if len(line) > MAX_LINE_BYTES:
        raise errors.InputError(f"longer than {MAX_LINE_BYTES} bytes; give less text")
    line = line.removesuffix(b"\r")
    if is_first:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise errors.InputError(
            f"not UTF-8 at byte {error.start}; convert the file, e.g. with iconv"
        ) from error


def _parse_tabs(text, names):
    texts = tuple(text.split("\t"))
    if len(texts) != len(names):
        raise errors.InputError(
            f"{len(texts)} texts; give {', '.join(names)}, with a tab between two"
        )
    return texts, {}


def _parse_json(text, names):
    value = _load_json(text)
    if isinstance(value, str) and len(names) == 1:
        value = {names[0]: value}
    if not isinstance(value, dict):
        raise errors.InputError(
            f"{text[:_SHOWN]!r} is no object with {', '.join(names)}"
        )
    texts = []
    for name, count in collections.Counter(names).items():
        entry = value.get(name)
        several = entry if count > 1 and isinstance(entry, list) else [entry]
        if len(several) != count or not all(isinstance(v, str) for v in several):
            shown = f"{json.dumps(entry):.{_SHOWN}}" if name in value else "absent"
            wanted = "a string" if count == 1 else f"a list of {count} strings"
            raise errors.InputError(f"{name} is {shown}; give {wanted}")
        texts += several
    passed = {key: value[key] for key in value if key not in names}
    return tuple(texts), passed


def _load_json(text):
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            object_pairs_hook=json_files.distinct,
        )
        if "\\ud" in text.lower():  # which alone can bring half of a pair
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        raise errors.InputError(
            "half of a surrogate pair is not Unicode; give both halves or none"
        ) from error
    except RecursionError as error:
        raise errors.InputError("not JSON: nested too deep") from error
    except ValueError as error:
        raise errors.InputError(
            f"not JSON: {error}: {text[:_SHOWN]!r}; give --input_format=lines for "
            "plain text"
        ) from error


def _refuse_constant(name):
    raise errors.InputError(f"{name} is no number of JSON")


class Ahead:
    """Reads lines in a thread, a bounded number ahead of the one that is taken."""

    def __init__(self, lines: Iterable[bytes], max_lines: int, max_bytes: int):
        self._max_lines, self._max_bytes = max_lines, max_bytes
        self._lines: collections.deque[bytes] = collections.deque()
        self._num_bytes = 0
        self._is_over = False
        self._error: BaseException | None = None
        self._change = threading.Condition()
        # A read can wait for ever, and must not keep the process from ending.
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines):
        try:
            for line in lines:
                with self._change:
                    self._lines.append(line)
                    self._num_bytes += len(line)
                    self._change.notify()
                    self._change.wait_for(lambda: self._has_room() or self._is_over)
                    if self._is_over:
                        return
        except BaseException as error:
            self._error = error
        self.stop()

    def _has_room(self):
        few = len(self._lines) < self._max_lines
        return few and self._num_bytes < self._max_bytes

    def take(self, pause_seconds: float | None) -> list[bytes]:
        """The lines read after a full look-ahead, a pause or the end; [] at the end.

        An error of reading is raised after the lines before it.
        """
        with self._change:
            self._change.wait_for(lambda: self._lines or self._is_over)
            self._change.wait_for(
                lambda: not self._has_room() or self._is_over, pause_seconds
            )
            lines = list(self._lines)
            self._lines.clear()
            self._num_bytes = 0
            self._change.notify()
        if not lines and self._error:
            raise self._error
        return lines

    def stop(self) -> None:
        """Ends the thread before its next line."""
        with self._change:
            self._is_over = True
            self._change.notify_all()


def answers(
    lines: Iterable[bytes],
    names: Sequence[str],
    predict: Predict,
    *,
    input_format: str = "jsonl",
    look_ahead_lines: int = LOOK_AHEAD_LINES,
    pause_seconds: float | None = PAUSE_SECONDS,
    first_line: int = 0,
) -> Iterator[dict[str, Any]]:
    """Yields an answer for each line, in the order of the lines.

    It has the line's keys, without a context, and the model's answer; or `error`, and
    `line`, the number from 1 after the `first_line` lines before these. Without a pause
    a look-ahead is always full, so batches do not depend on the speed of reading.
    """
    ahead = Ahead(lines, look_ahead_lines, LOOK_AHEAD_BYTES)
    number = first_line
    try:
        while taken := ahead.take(pause_seconds):
            examples = [
                parse(line, number + i, names, input_format)
                for i, line in enumerate(taken, start=1)
            ]
            number += len(examples)
            del taken
            yield from _in_order(examples, names, predict)
    finally:
        ahead.stop()


def _in_order(examples, names, predict):
    """Answers of a look-ahead, each as soon as all before it are there."""
    first = examples[0].number
    ready: dict[int, dict[str, Any]] = {
        example.number: _failed(example, example.error)
        for example in examples
        if example.error
    }
    done = 0
    for batch in _batches([example for example in examples if not example.error]):
        for example, answer in zip(batch, _answer(batch, predict), strict=True):
            ready[example.number] = _join(example, names, answer)
        while first + done in ready:
            yield ready.pop(first + done)
            done += 1
    yield from (ready[key] for key in sorted(ready))


def _batches(examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Examples of similar length, the shortest first."""
    ranked = sorted(examples, key=lambda example: sum(map(len, example.texts)))
    batch: list[Example] = []
    size = 0
    for example in ranked:
        length = sum(map(len, example.texts))
        if batch and (len(batch) == BATCH_LINES or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(example)
        size += length
    if batch:
        yield batch


def _answer(batch, predict):
    """An answer for each example, or an error where the model fails."""
    columns = [list(column) for column in zip(*(e.texts for e in batch), strict=True)]
    try:
        return predict(*columns)
    except ValueError as error:
        if len(batch) == 1:
            return [_failed(batch[0], str(error))]
    return [answer for example in batch for answer in _answer([example], predict)]


def _failed(example, error):
    return {"error": error, "line": example.number}


def _join(example, names, answer):
    if "error" in answer:
        return answer
    if taken := sorted(example.passed.keys() & {*answer, "error"}):
        keys = ", ".join(taken)
        return _failed(example, f"{keys} is a key of the answer; name it otherwise")
    texts = answer_rows.by_name(names, example.texts)
    texts.pop(_LONG_TEXT, None)
    return {**example.passed, **texts, **answer}
