"""Settings of commands: typed fields, of which flags and arguments of Python are made.

@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling(Settings):
    temperature: float = fields.text(1.0, "Divisor of the logits.", least=0)
    top_k: int = fields.text(0, "Most tokens.", only_with={"do_sample": True})
"""

import copy
import dataclasses
import difflib
import functools
import glob
import math
import numbers
import os
import re
import shlex
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar, NamedTuple, TypeVar

from contract import errors, programs, remote_files

# In the order of --help.
HEADINGS = (
    "What to do",
    "Data",
    "Model and vocabulary",
    "Vectors",
    "Text",
    "Scores",
    "Records",
    "Training",
    "Evaluation and checkpoints",
    "Answers",
    "Output",
    "Devices",
    "Processes",
    "Server",
)
# What a field may change; see Rules.
WEIGHTS, ANSWERS = frozenset({"weights"}), frozenset({"answers"})
BOTH, NOTHING = WEIGHTS | ANSWERS, frozenset[str]()
REQUIRED = dataclasses.MISSING  # the default of what must be given
_LARGEST = 2**63 - 1  # of the integers that TensorFlow computes with
_USER = re.compile(r"((?:^|,)\s*)(~[^/,]*/[^,]*)")  # in paths by comma
_PROJECT = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir)
_RULES = "rules"
_SWITCH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})
_ROWS: dict[type, dict[str, "Row"]] = {}
Own = TypeVar("Own", bound="Settings")


class Rules(NamedTuple):
    """What a field is, beside its type and default.

    Attributes:
        least, most: bounds of a number.
        choices: the texts that there are.
        path: whether it holds a path, or several by comma.
        is_directory: whether it is a directory, without a / at its end.
        is_config: whether configs/NAME.json is a file of this project as well.
        repeats: whether the flag may be given several times, once for each value.
        only_with: {name of another field: value, or tuple of values, or True} without
            which this one is not read; it is refused then.
        changes: what another value leads to. WEIGHTS: other weights after a step, so a
            run goes on with the same value alone. ANSWERS: other answers of a trained
            directory, so the command that predicts repeats it.
        varies: whether the runs of a grid may differ in it.
        on_workers: whether workers of a TPU read or write the path.
        only_trains: whether a run that trains nothing refuses it, or computes more with
            it.
        in_python: whether `fit` takes it; others are arguments there, or of runs that
            return no single model.
    """

    heading: str
    help: str
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    path: bool = False
    is_config: bool = False
    is_directory: bool = False
    repeats: bool = False
    only_with: Mapping[str, Any] = _NOTHING
    changes: frozenset[str] = BOTH
    varies: bool = False
    on_workers: bool = False
    only_trains: bool = False
    in_python: bool = True


class Row(NamedTuple):
    """A field by its name; `kind` is bool, int, float, str, Sequence or tuple."""

    name: str
    kind: type
    default: Any
    rules: Rules


def field(heading: str, default: Any, help_text: str, **rules: Any) -> Any:
    """A field of Settings; `rules` are those of Rules."""
    assert heading in HEADINGS, heading
    own = Rules(heading, help_text, **rules)
    return dataclasses.field(default=default, metadata={_RULES: own})


def again(kind: type["Settings"], name: str, default: Any, **rules: Any) -> Any:
    """The field of another class with this default, and with other `rules`."""
    own = rows(kind)[name].rules._replace(**rules)
    return dataclasses.field(default=default, metadata={_RULES: own})


what_to_do, data, model, vectors, text, scores, records = (
    functools.partial(field, heading) for heading in HEADINGS[:7]
)
training, evaluation, answers, output, devices, processes, server = (
    functools.partial(field, heading) for heading in HEADINGS[7:]
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a command; subclasses have the fields.

    Attributes:
        given: the names of the fields that were passed, and have no default then.

    Raises:
        InputError: there is no such field, or a value has the wrong type, is out of
            bounds or no choice.
    """

    program: ClassVar[str] = ""  # that has these flags, without .py
    takes_arguments: ClassVar[bool] = False  # words beside flags
    given: frozenset[str] = dataclasses.field(init=False, repr=False, compare=False)

    def __new__(cls, **given: Any):
        """Keeps what is `given`, which __init__ cannot tell from defaults."""
        _check_names(cls, given)
        known = rows(cls)
        if given.keys() == known.keys():  # by dataclasses.replace, which passes all
            given = {n: v for n, v in given.items() if v != known[n].default}
        made = super().__new__(cls)
        object.__setattr__(made, "given", frozenset(given))
        return made

    def __post_init__(self) -> None:
        self._set({name: getattr(self, name) for name in self.given})

    def _set(self, values: Mapping[str, Any]) -> None:
        known = rows(type(self))
        for name, value in values.items():
            object.__setattr__(self, name, _checked(known[name], value))

    def with_values(self: Own, **values: Any) -> Own:
        """Settings with other values, which count as given as before."""
        _check_names(type(self), values)
        made = copy.copy(self)
        made._set(values)
        return made

    def check(self) -> None:
        """Raises InputError where fields contradict one another; needs no TensorFlow.

        Subclasses add to it what they refuse.
        """
        self.check_read(self.given)

    def check_read(self, names: Collection[str]) -> None:
        """Raises InputError for a field of these that is not read beside the others."""
        for row in rows(type(self)).values():
            needs = row.rules.only_with if row.name in names else _NOTHING
            for other, wanted in needs.items():
                if not _holds(getattr(self, other), wanted):
                    raise errors.InputError(
                        f"{self.typed(row.name)} {_condition(other, wanted)}"
                    )

    def that_change(self, what: frozenset[str]) -> dict[str, Any]:
        """{name: value} of the fields that change WEIGHTS, or ANSWERS."""
        known = rows(type(self))
        return {
            n: v for n, v in self.values().items() if what <= known[n].rules.changes
        }

    def command(self) -> str:
        """The command line that gives these settings."""
        words = [
            programs.spell(name, each)
            for name, value in self.values().items()
            if name in self.given
            for each in (value if rows(type(self))[name].rules.repeats else [value])
        ]
        return " ".join([programs.command(self.program), shlex.join(words)]).rstrip()

    def typed(self, name: str) -> str:
        """The flag with its value, as on a command line."""
        return programs.spell(name, getattr(self, name))

    def values(self) -> dict[str, Any]:
        """{name: value} in the order of --help."""
        return {name: getattr(self, name) for name in in_order(type(self))}

    def defaults(self) -> dict[str, Any]:
        """{name: default}."""
        known = rows(type(self))
        return {name: known[name].default for name in in_order(type(self))}

    def numbers(self, name: str, kind: Callable[[str], Any]) -> list[Any]:
        """The values of a sequence; InputError if one is no finite number."""
        texts = getattr(self, name)
        try:
            values = [kind(text) for text in texts]
            if not all(map(math.isfinite, values)):
                raise errors.InputError(f"they are {values}")
            return values
        except ValueError as error:
            raise errors.InputError(
                f"--{name}={','.join(texts)} are not finite numbers ({error}); "
                "separate them by commas"
            ) from error

    def check_files(self, *names: str, remedy: str = "check the path") -> None:
        """Raises InputError where fields name local files that are not there.

        Each holds a path, or several and patterns, by comma; a prefix of a checkpoint
        is a path, too. Other places are for TensorFlow to look at, and "-" is standard
        input.
        """
        for name in names:
            value = getattr(self, name) or ""
            parts = [value] if is_there(value) else map(str.strip, value.split(","))
            for path in filter(None, parts):
                if not is_there(path):
                    raise errors.InputError(f"--{name}={path}: no such file; {remedy}")

    def check_schemes(self) -> None:
        """Raises InputError for a path of an unknown file system; needs TensorFlow."""
        for name, row in rows(type(self)).items():
            for path in (
                (getattr(self, name) or "").split(",") if row.rules.path else ()
            ):
                remote_files.check_scheme(path.strip(), f"--{name}={path}")


def rows(kind: type[Settings]) -> dict[str, Row]:
    """{name: Row} of the fields of a class of Settings, those of its bases first."""
    if kind not in _ROWS:
        hints = typing.get_type_hints(kind)
        _ROWS[kind] = {
            each.name: Row(
                each.name, _kind(hints[each.name]), each.default, each.metadata[_RULES]
            )
            for each in dataclasses.fields(kind)
            if _RULES in each.metadata
        }
    return _ROWS[kind]


def in_order(kind: type[Settings]) -> tuple[str, ...]:
    """The names of the fields in the order of --help."""
    places = {
        name: HEADINGS.index(row.rules.heading) for name, row in rows(kind).items()
    }
    return (*sorted(places, key=places.__getitem__),)


def nearest(name: str, names: Iterable[str]) -> str:
    """The name that one is a misspelling of, or "" where none is near."""
    return "".join(difflib.get_close_matches(name, [*names], 1))


def _check_names(kind, names):
    for name in names:
        if name not in rows(kind):
            near = nearest(name, rows(kind))
            raise errors.InputError(
                f"{name} is no setting of {kind.program or kind.__name__}; "
                + (f"did you mean {near}?" if near else "see docs/flags.md")
            )


def parse(row: Row, text: str) -> Any:
    """The value that a text is, of a bool, a number or a choice.

    Raises ValueError where it is none.
    """
    if row.kind is bool:
        if text.lower() not in _SWITCH:
            raise ValueError("give true or false")
        return _SWITCH[text.lower()]
    if row.kind in (int, float):
        return _number(row, row.kind(text))
    return _checked(row, text)


def shares(row: Row, value: Any) -> tuple[float, ...]:
    """Numbers, or text of them by comma, that add up to 1; as many as the default."""
    example = ",".join(map(str, row.default))
    try:
        each = value.split(",") if isinstance(value, str) else value
        made = tuple(map(float, each))
    except (TypeError, ValueError):
        made = ()
    if len(made) != len(row.default) or not all(0 <= share <= 1 for share in made):
        raise errors.InputError(
            f"needs {len(row.default)} numbers of 0 to 1, by comma, such as {example}"
        )
    if not math.isclose(sum(made), 1, abs_tol=1e-6):
        raise errors.InputError(
            f"adds up to {sum(made):.6g}, not to 1; give shares of the whole, such as "
            f"{example}"
        )
    return made


def is_there(path: str) -> bool:
    """Returns True for a local path that is there, and for any remote one."""
    if path == "-" or "://" in path:
        return True
    return any(map(os.path.exists, (path, f"{path}.index"))) or bool(
        glob.glob(path)  # noqa: TID251  as a user has typed it
    )


def _kind(hint):
    """The type of a value that is not None."""
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    if isinstance(hint, types.UnionType):
        (hint,) = parts
    return typing.get_origin(hint) or hint


def _holds(value, wanted):
    if wanted is True:
        return bool(value)
    return value in (wanted if isinstance(wanted, tuple) else (wanted,))


def _condition(name, wanted):
    if wanted is False:
        return f"is not read with --{name}; leave one of them out"
    values = wanted if isinstance(wanted, tuple) else (wanted,)
    value = "" if wanted is True else f"={' or '.join(values)}"
    return f"is read with --{name}{value}; add that, or leave it out"


def _checked(row: Row, value: Any) -> Any:
    """A value of its type, within bounds; paths have ~ expanded."""
    if getattr(value, "ndim", None) == 0:  # a number or a switch of NumPy
        value = value.item()
    rules, place = row.rules, f"--{row.name}={value}"
    if value is None and row.default is None:
        return None
    if row.kind in (int, float):
        return _number(row, value)
    if row.kind is bool:
        if not isinstance(value, bool):
            raise errors.InputError(f"{row.name}={value!r} is neither True nor False")
        return value
    if row.kind is tuple:
        return shares(row, value)
    is_list = row.kind is not str
    if isinstance(value, Mapping | Set) or (is_list and not hasattr(value, "__iter__")):
        kind = type(value).__name__
        raise errors.InputError(f"{row.name}: a {kind} has no order; give a list")
    if is_list:
        if isinstance(value, str):
            value = value.split(",") if value else ()
        return tuple(_text(row, each) for each in value)
    if isinstance(value, list | tuple):
        value = ",".join(_text(row, each) for each in value)
    if value is None and not rules.choices:
        raise errors.InputError(f"{place} is no text; leave it out for the default")
    value = str(value) if value is None else _text(row, value)
    if rules.choices and value not in rules.choices:
        raise errors.InputError(f"{place} is none of {', '.join(rules.choices)}")
    if rules.is_config and os.path.dirname(value) == "configs":
        packaged = os.path.join(_PROJECT, value)
        is_ours = not os.path.exists(value) and os.path.exists(packaged)
        return os.path.abspath(packaged) if is_ours else value
    if rules.path:
        if rules.is_directory:
            value = value.rstrip("/") or value[:1]
        value = _USER.sub(lambda m: m[1] + remote_files.expand(m[2]), value)
    return value


def _text(row, value):
    """A text, a path, or the text of a number, such as of a column, or of a switch."""
    if not isinstance(value, str | os.PathLike | numbers.Real):
        raise errors.InputError(f"{row.name}={value!r:.40} is no text; give one")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(row, value):
    rules, place = row.rules, f"--{row.name}={value}"
    wanted = numbers.Integral if row.kind is int else numbers.Real
    if isinstance(value, bool) or not isinstance(value, wanted):
        kind = "whole number" if row.kind is int else "number"
        raise errors.InputError(f"{row.name}={value!r} is no {kind}")
    try:
        value = row.kind(value)
    except OverflowError:
        raise errors.InputError(f"{place:.40} is beyond any number") from None
    if not math.isfinite(value):
        raise errors.InputError(f"{place} is not a finite number; give one such as 0.1")
    if abs(value) > _LARGEST and row.kind is int:
        raise errors.InputError(f"{place} is beyond 64 bits; give a smaller one")
    for bound, is_beyond, word in (
        (rules.least, rules.least is not None and value < rules.least, "below"),
        (rules.most, rules.most is not None and value > rules.most, "above"),
    ):
        if is_beyond:
            raise errors.InputError(f"{place} is {word} {bound}; give another number")
    return value
