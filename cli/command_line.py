"""The command line: flags under headings, --help, and messages about wrong flags.

Needs absl alone, so that --help does not wait seconds for importing TensorFlow.
"""

import contextlib
import difflib
import glob
import logging as python_logging
import math
import os
import re
import shlex
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from absl import app, flags, logging

from cli import environment
from contract import characters, errors, programs, remote_files
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
    "Server",
)
# Flags of paths, beside those whose names end in _file or _dir.
_PATHS = {"add_tokens", "init_checkpoint", "input", "labels", "pretrained", "reranker"}
_PATHS |= {"teacher"}
_LARGEST = 2**63 - 1  # of the integers that TensorFlow computes with
_arguments: list[str] = []  # what is left of the command line without flags


@contextlib.contextmanager
def heading(title: str) -> Iterator[None]:
    """Puts the flags that its block, or function, defines under a heading; can nest."""
    assert title in HEADINGS, title
    before = set(FLAGS)
    yield
    have_one = own_flags()
    for name in FLAGS:
        if name not in before and FLAGS[name] not in have_one:
            FLAGS.register_key_flag_for_module(title, FLAGS[name])


def own_flags() -> list[flags.Flag]:
    """The flags that have a heading: all of the program but absl's."""
    return [
        flag for title in HEADINGS for flag in FLAGS.get_key_flags_for_module(title)
    ]


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
    serializer = flags.CsvListSerializer(",")
    parser = _SharesParser(default)
    flags.DEFINE(parser, name, default, help_text, serializer=serializer)


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
    *checks: Callable[[], object],
    serves: bool = False,
    loads_tensorflow: bool = True,
) -> None:
    """Defines the flags and reads the command line; ends on --help or a wrong flag.

    Then it imports TensorFlow by `expect_tensorflow`, unless the program does so
    itself, where its flags ask for what needs TensorFlow. An error
    of `checks`, which need no TensorFlow, ends the program as it does in `main`.
    """
    environment.open_closed_streams()
    define_flags()
    app.define_help_flags()
    about = (sys.modules[define_flags.__module__].__doc__ or "").strip()
    for name, short_name in (("help", "?"), ("helpshort", "h")):
        flag = _HelpFlag(name, short_name, about)
        flags.DEFINE_flag(flag, module_name=app.__name__)  # as the one it replaces
    try:
        _arguments[:] = FLAGS(sys.argv)
    except flags.Error as error:  # in the words of absl, and with its exit code
        text = str(error)  # a line for each flag
        text = f"\n{textwrap.indent(text, '  ')}" if "\n" in text else f" {text}"
        sys.stderr.write(f"FATAL Flags parsing error:{text}\n")
        sys.stderr.write("Pass --help to see help on flags.\n")
        sys.exit(1)
    sys.excepthook = _explain_interrupt
    if "output_dir" in FLAGS and FLAGS.output_dir:  # paths below are printed
        FLAGS["output_dir"].value = FLAGS.output_dir.rstrip("/") or "/"
    with errors.explained():
        typed = {f"--{own.name}": own.value for own in own_flags()}
        for place, value in {**typed, "an argument": _arguments[1:]}.items():
            for word in value if isinstance(value, list) else [value]:
                # The name of a file that is there may have any bytes.
                if isinstance(word, str) and not all(map(is_there, word.split(","))):
                    characters.check(word, place)
        for own in own_flags():
            if isinstance(own.value, int) and abs(own.value) > _LARGEST:
                raise errors.InputError(
                    f"--{own.name}={own.value} is beyond 64 bits; give a smaller one"
                )
        values = _arguments[1:] + [own.value for own in own_flags()]
        try:
            os.getcwd()
        except FileNotFoundError:
            raise errors.InputError(
                "the current folder was removed; change to one that is there, by cd"
            ) from None
        if sys.stdin is None and "-" in values:
            raise errors.InputError("-: standard input is closed; name a file")
        if loads_tensorflow:
            environment.check_backend()
        _expand_paths()
        for check in checks:
            check()
    if loads_tensorflow:
        expect_tensorflow(serves=serves)
        with errors.explained():
            _check_schemes()


@contextlib.contextmanager
def program(
    name: str, define_flags: Callable[[], None], values: Mapping[str, Any]
) -> Iterator[None]:
    """Has the flags of a program, with values of Python, while its block runs.

    The flags of this process, which may be another program's, come back after it.
    Raises InputError for a name that is no flag, or a value that the flag refuses.
    """
    process, arguments = dict(FLAGS.__dict__), sys.argv
    own = flags.FlagValues()
    for module, defined in FLAGS.flags_by_module_dict().items():
        for flag in defined if module.startswith("absl.") else ():
            own[flag.name] = flag
    FLAGS.__dict__.update(own.__dict__)
    try:
        define_flags()
        known = [flag.name for flag in own_flags()]
        for key in values:
            if key not in known:
                near = "".join(difflib.get_close_matches(key, known, 1))
                raise errors.InputError(
                    f"{key} is no flag of {name}; "
                    + (f"did you mean {near}?" if near else "see docs/flags.md")
                )
        typed = [f"--{key}={_spell(key, value)}" for key, value in values.items()]
        sys.argv = [name, *typed]
        try:
            FLAGS(sys.argv)
        except flags.Error as error:
            raise errors.InputError(str(error).removeprefix("flag --")) from None
        _expand_paths()
        _check_schemes()
        yield
    finally:
        FLAGS.__dict__.update(process)
        sys.argv = arguments


def _spell(name: str, value: Any) -> str:
    if isinstance(value, Mapping | Set):
        kind = type(value).__name__
        raise errors.InputError(f"{name}: a {kind} has no order; give a list")
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def path_flags() -> list[flags.Flag]:
    """The flags that hold a path, or several by comma."""
    return [
        flag
        for flag in own_flags()
        if (flag.name in _PATHS or flag.name.endswith(("_file", "_dir")))
        and isinstance(flag.value, str)
    ]


def _expand_paths() -> None:
    def expanded(match: re.Match[str]) -> str:
        return match[1] + remote_files.expand(match[2])

    for flag in path_flags():
        flag.value = re.sub(r"((?:^|,)\s*)(~[^/,]*/[^,]*)", expanded, str(flag.value))


def _check_schemes() -> None:
    for flag in path_flags():
        for path in str(flag.value).split(","):
            remote_files.check_scheme(path.strip(), f"--{flag.name}={path}")


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


def refuse(*rows: tuple[object, str]) -> None:
    """Raises ValueError with the text of the first row whose condition holds.

    Each module of flags has its contradictions in such rows.
    """
    for is_wrong, text in rows:
        if is_wrong:
            raise errors.InputError(text)


def is_there(path: str) -> bool:
    """Returns True for a local path that is there, and for any remote one."""
    if path == "-" or "://" in path:
        return True
    return any(map(os.path.exists, (path, f"{path}.index"))) or bool(glob.glob(path))


def expect_tensorflow(*, serves: bool = False) -> None:
    """Prepares environment and screen, and imports; `serves` as in `environment`."""
    is_quiet = FLAGS.verbosity < 1
    _announce_tensorflow(environment.prepare(is_quiet=is_quiet, serves=serves))
    environment.import_tensorflow()


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
    with contextlib.suppress(OSError):  # nobody reads it
        print("loading TensorFlow ...", file=sys.stderr, flush=True)


def run(main: Callable[[list[str]], object], *, unwinds: bool = False) -> None:
    """Runs `main` with what `parse` has left, as absl's app.run does.

    If it `unwinds`, signals are exceptions there, as Ctrl-C always is, so that
    unfinished files go.
    """
    errors.heed(errors.STOP_SIGNALS if unwinds else (signal.SIGINT,))
    app.run(main, flags_parser=lambda _: _arguments)


def help_text(about: str) -> str:
    """The text of --help: `about`, filled unless indented, and flags by heading."""
    width = flags.get_help_width()
    blocks = [
        paragraph if paragraph.startswith(" ") else textwrap.fill(paragraph, width)
        for paragraph in about.split("\n\n")
    ]
    sections = (FLAGS.module_help(title).strip() for title in HEADINGS)
    blocks += [section for section in sections if section]
    return "\n\n".join([*blocks, "--helpfull adds the flags of absl."])


def values() -> dict[str, object]:
    """Every flag of the program with its value, for run.json."""
    return {flag.name: flag.value for flag in own_flags()}


def defaults() -> dict[str, object]:
    """Every flag of the program with its default."""
    return {flag.name: flag.default for flag in own_flags()}


def command() -> str:
    """The command line that gives the flags these values, for run.json."""
    present = [flag.serialize() for flag in own_flags() if flag.present]
    program = os.path.basename(sys.argv[0]).removesuffix(".py")
    return " ".join([programs.command(program), shlex.join(present)]).rstrip()


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
    """Hides what libraries log below warnings, unless --verbosity is set."""
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
        logger = python_logging.getLogger("tensorflow")
        logger.setLevel("WARNING")
        logger.addFilter(is_for_the_reader)


def is_for_the_reader(record: python_logging.LogRecord) -> bool:
    """Several seeds or a grid train several models, each with traces of its own."""
    return "triggered tf.function retracing" not in record.getMessage()


class _HelpFlag(flags.BooleanFlag):
    """Prints the help and ends the program, with the exit code of absl's own."""

    def __init__(self, name, short_name, about):
        super().__init__(
            name, False, "Show this help.", short_name, allow_override=True
        )
        self._about = about

    def parse(self, argument):
        super().parse(argument)
        if self.value:
            with errors.explained():  # a reader such as `head` may leave early
                print(help_text(self._about), flush=True)
            sys.exit(1)


def numbers(name: str, kind: Callable[[str], Any]) -> list[Any]:
    """The values of a list flag; ValueError if one is no finite number."""
    texts = FLAGS[name].value or []
    try:
        values = [kind(text) for text in texts]
        if not all(map(math.isfinite, values)):
            raise errors.InputError(f"they are {values}")
        return values
    except ValueError as error:
        raise errors.InputError(
            f"--{name}={','.join(texts)} are not finite numbers ({error}); separate "
            "them by commas"
        ) from error
