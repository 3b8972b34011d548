"""The command line: flags under headings, --help, and messages about wrong flags.

Needs absl alone, so that --help does not wait seconds for importing TensorFlow.
"""

import atexit
import contextlib
import difflib
import gc
import glob
import logging as python_logging
import math
import os
import shlex
import signal
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from absl import app, flags, logging

from cli import environment
from contract import errors
from terminal import native_log

FLAGS = flags.FLAGS
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
)
_OTHERS = "Flags of every program that uses absl"
_REPEATABLE = ";\n    repeat this option to specify a list of values"  # absl's
_COLUMN = 28  # where the help of a flag begins, if the terminal is wide enough
_LARGEST = 2**63 - 1  # of the integers that TensorFlow computes with
_SIMILARITY = 0.75  # of a flag that is suggested; 1 is equal
_MAX_SUGGESTIONS = 4
# By flag, not by name: a test defines flags of several scripts, one after another.
_heading_of: weakref.WeakKeyDictionary[flags.Flag, str] = weakref.WeakKeyDictionary()
_arguments: list[str] = []  # what is left of the command line without flags


@contextlib.contextmanager
def heading(title: str) -> Iterator[None]:
    """Puts the flags that its block, or function, defines under a heading; can nest."""
    assert title in HEADINGS, title
    before = set(FLAGS)
    yield
    for name in set(FLAGS) - before:
        _heading_of.setdefault(FLAGS[name], title)


def define_float(
    name: str,
    default: float | None,
    help_text: str,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
) -> None:
    """A flag of a number; refuses nan and inf, which pass all bounds of absl."""
    parser = _FiniteParser(lower_bound, upper_bound)
    flags.DEFINE(
        parser, name, default, help_text, serializer=flags.ArgumentSerializer()
    )


class _FiniteParser(flags.FloatParser):
    def parse(self, argument):
        value = super().parse(argument)
        if not math.isfinite(value):
            raise errors.InputError(
                f"{value} is not a finite number; give one such as 0.1"
            )
        return value


def define_shares(name: str, default: str, help_text: str) -> None:
    """A flag of as many numbers, by comma, as its default; they add up to 1."""
    flags.DEFINE(
        *(_SharesParser(default), name, default, help_text),
        serializer=flags.CsvListSerializer(","),
    )


class _SharesParser(flags.ArgumentParser):
    def __init__(self, default):
        self.syntactic_help = f"numbers of 0 to 1, by comma, as in {default}"
        self._example = default

    def parse(self, argument):
        """A tuple of floats."""
        count = self._example.count(",") + 1
        try:
            shares = tuple(map(float, argument.split(",")))
        except ValueError:
            shares = ()
        if len(shares) != count or not all(0 <= share <= 1 for share in shares):
            raise errors.InputError(
                f"needs {count} numbers of 0 to 1, by comma, such as {self._example}"
            )
        if not math.isclose(sum(shares), 1, abs_tol=1e-6):
            raise errors.InputError(
                f"adds up to {sum(shares):.6g}, not to 1; give shares of the whole, "
                f"such as {self._example}"
            )
        return shares


def parse(
    define_flags: Callable[[], None],
    *checks: Callable[[], None],
    serves: bool = False,
    loads_tensorflow: bool = True,
) -> None:
    """Defines the flags and reads the command line; ends on --help or a wrong flag.

    Comes before TensorFlow is imported, for which it calls `expect_tensorflow`, unless
    the program does so itself, where its flags ask for what needs TensorFlow. An error
    of `checks`, which need no TensorFlow, ends the program as it does in `main`.
    """
    define_flags()
    app.define_help_flags()
    about = (sys.modules[define_flags.__module__].__doc__ or "").strip()
    for name, short_name, is_full in (
        ("help", "?", False),
        ("helpshort", "h", False),
        ("helpfull", None, True),
    ):
        flag = _HelpFlag(name, short_name, about, is_full)
        # Of absl's module, as the one that it replaces: run.json does not hold it.
        flags.DEFINE_flag(flag, module_name=app.__name__)
    try:
        _arguments[:] = FLAGS(sys.argv)
    except flags.UnrecognizedFlagError as error:
        _end(_unknown(error.flagname))
    except flags.Error as error:  # in the words of absl
        text = str(error)  # a line for each flag
        text = f"\n{textwrap.indent(text, '  ')}" if "\n" in text else f" {text}"
        _end(f"FATAL Flags parsing error:{text}\nPass --help to see help on flags.")
    sys.excepthook = _explain_interrupt
    with errors.explained():
        for own in _own_flags():
            if isinstance(own.value, int) and abs(own.value) > _LARGEST:
                raise errors.InputError(
                    f"--{own.name}={own.value} is beyond 64 bits; give a smaller one"
                )
        for check in checks:
            check()
    if loads_tensorflow:
        expect_tensorflow(serves=serves)


def check_files(*names: str, remedy: str = "check the path") -> None:
    """Raises ValueError where flags name local files that are not there.

    Each holds a path, or several and patterns, by comma; a prefix of a checkpoint is a
    path, too. Other places are for TensorFlow to look at, and "-" is standard input.
    """
    for name in names:
        value = FLAGS[name].value or ""
        parts = [value] if is_there(value) else map(str.strip, value.split(","))
        for path in filter(None, parts):
            if not is_there(path):
                raise errors.InputError(f"--{name}={path}: no such file; {remedy}")


def is_there(path: str) -> bool:
    """Whether a path is local and there, or elsewhere, where this does not look."""
    if path == "-" or "://" in path:
        return True
    return any(map(os.path.exists, (path, f"{path}.index"))) or bool(glob.glob(path))


def expect_tensorflow(*, serves: bool = False) -> None:
    """Prepares environment and screen for an import; `serves` as in `environment`."""
    # Python's last collections would look at its million objects for seconds.
    atexit.register(gc.freeze)
    is_quiet = FLAGS.verbosity < 1
    _announce_tensorflow(environment.prepare(is_quiet=is_quiet, serves=serves))


def _explain_interrupt(kind, error, trace):
    """Ctrl-C before `main` is one line, as it is in `main`."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("\ninterrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)


def _announce_tensorflow(settings: dict[str, str]) -> None:
    """The first line of a program, before the import; its own lines are filtered."""
    if FLAGS.verbosity >= 1:
        text = " ".join(f"{name}={value}" for name, value in settings.items())
        print(f"environment: {text}", file=sys.stderr)
    if "tensorflow" in sys.modules:
        return
    if FLAGS.verbosity < 1:
        native_log.begin()
        logging.get_absl_handler().python_handler.setStream(sys.stderr)
    print("loading TensorFlow ...", file=sys.stderr, flush=True)


def run(main: Callable[[list[str]], object], *, unwinds: bool = False) -> None:
    """Runs `main` with what `parse` has left, as absl's app.run does.

    If it `unwinds`, SIGTERM is an exception there, so that unfinished files go.
    """
    if unwinds:
        signal.signal(
            signal.SIGTERM, lambda number, _: sys.exit(errors.SIGNALLED + number)
        )
    app.run(main, flags_parser=lambda _: _arguments)


def help_text(about: str, *, is_full: bool = False) -> str:
    """What --help prints: `about`, filled unless indented, and the flags by heading."""
    width = flags.get_help_width()
    found = [FLAGS[name] for name in FLAGS if FLAGS[name].name == name]
    blocks = [
        paragraph if paragraph.startswith(" ") else textwrap.fill(paragraph, width)
        for paragraph in about.split("\n\n")
    ]
    for title in (*HEADINGS, _OTHERS) if is_full else HEADINGS:
        entries = [
            _entry(flag, width)
            for flag in found
            if _heading_of.get(flag, _OTHERS) == title
        ]
        if entries:
            blocks.append("\n".join([f"{title}:", *entries]))
    if not is_full:
        blocks.append("--helpfull adds the flags of absl, such as --verbosity.")
    return "\n\n".join(blocks)


def values() -> dict[str, object]:
    """Every flag of the program with its value, for run.json."""
    return {flag.name: flag.value for flag in _own_flags()}


def defaults() -> dict[str, object]:
    """The same as they are where nothing is given."""
    return {flag.name: flag.default for flag in _own_flags()}


def command() -> str:
    """The command line that gives the flags these values, for run.json."""
    given = [flag.serialize() for flag in _own_flags() if flag.present]
    return shlex.join(["python", os.path.basename(sys.argv[0]), *given])


@contextlib.contextmanager
def changed(values: Mapping[str, object]) -> Iterator[None]:
    """Gives flags other values while its block runs."""
    before = {name: FLAGS[name].value for name in values}
    try:
        for name, value in values.items():
            FLAGS[name].value = value
        yield
    finally:
        for name, value in before.items():
            FLAGS[name].value = value


def quiet_libraries() -> None:
    """Leaves warnings and errors of the libraries, unless --verbosity asks for more."""
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
        logger = python_logging.getLogger("tensorflow")
        logger.setLevel("WARNING")
        logger.addFilter(_is_for_the_reader)


def _is_for_the_reader(record: python_logging.LogRecord) -> bool:
    """Several seeds or a grid train several models, each with traces of its own."""
    return "triggered tf.function retracing" not in record.getMessage()


class _HelpFlag(flags.BooleanFlag):
    """Prints the help and ends the program, with the exit code of absl's own."""

    def __init__(self, name, short_name, about, is_full):
        super().__init__(
            name, False, "Show this help.", short_name, allow_override=True
        )
        self._about = about
        self._is_full = is_full

    def parse(self, argument):
        super().parse(argument)
        if self.value:
            print(help_text(self._about, is_full=self._is_full))
            sys.exit(1)


def _own_flags() -> list[flags.Flag]:
    return [FLAGS[name] for name in FLAGS if FLAGS[name] in _heading_of]


def _entry(flag: flags.Flag, width: int) -> str:
    """Name and help of a flag, side by side where the name is short enough."""
    column = min(_COLUMN, width // 3)
    name = f"  --[no]{flag.name}" if flag.boolean else f"  --{flag.name}"
    text, facts = flag.help, []
    if isinstance(flag, flags.EnumFlag):
        choices = flag.parser.enum_values
        text = text.removeprefix(f"<{'|'.join(choices)}>: ")
        facts.append(f"one of {', '.join(filter(None, choices))}")
    elif flag.parser.syntactic_help:
        facts.append(flag.parser.syntactic_help)
    if isinstance(flag, flags.MultiFlag):
        text = text.removesuffix(_REPEATABLE)
        facts.append("can be repeated")
    if flag.default not in (None, "", []):
        default = str(flag.default_as_str).strip("'")
        facts.append(f"default {default}")
    elif flag.validators:  # all that ours have want a value
        facts.append("required")
    if facts:
        text += f" ({'; '.join(facts)})"
    indent = " " * column
    text = textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    if len(name) + 2 > column:
        return f"{name}\n{text}"
    return name.ljust(column) + text[column:]


def _unknown(name: str) -> str:
    main = sys.modules["__main__"]
    program = main.__spec__.name if main.__spec__ else os.path.basename(sys.argv[0])
    near = [f"--{found}" for found in near_names(name, FLAGS)]
    remedy = f"did you mean {' or '.join(near)}?" if near else "--help lists all"
    return f"error: --{name} is no flag of {program}; {remedy}"


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Those that are spelled like `name` or contain it, whatever its - and _."""
    spelled = {found.replace("_", ""): found for found in sorted(known)}
    wanted = name.replace("-", "").replace("_", "")
    found = difflib.get_close_matches(wanted, spelled, cutoff=_SIMILARITY)
    if len(wanted) > 2:
        found += [other for other in spelled if wanted in other and other not in found]
    return [spelled[other] for other in found[:_MAX_SUGGESTIONS]]


def _end(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.exit(1)  # as absl does


def numbers(name: str, kind: Callable[[str], Any]) -> list[Any]:
    """The values of a list flag; ValueError if one is no finite number."""
    given = flags.FLAGS[name].value or []
    try:
        found = [kind(value) for value in given]
        if not all(map(math.isfinite, found)):
            raise errors.InputError(f"they are {found}")
        return found
    except ValueError as error:
        raise errors.InputError(
            f"--{name}={','.join(given)} are not finite numbers ({error}); separate "
            "them by commas"
        ) from error
