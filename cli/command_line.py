"""The command line: flags under headings, --help, and messages about wrong flags.

Flags are made of the fields of a command's settings, and read back once. Needs absl
alone, so that --help does not wait seconds for importing TensorFlow.
"""

import contextlib
import logging as python_logging
import math
import os
import signal
import sys
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from absl import app, flags, logging

from cli import environment
from contract import characters, errors
from tasks.settings import fields

Settings = TypeVar("Settings", bound=fields.Settings)
_arguments: list[str] = []  # what is left of the command line without flags


def define(kind: type[fields.Settings]) -> flags.FlagValues:
    """The flags of the fields, and those of absl."""
    values = flags.FlagValues()
    for module, defined in flags.FLAGS.flags_by_module_dict().items():
        for flag in defined if module.startswith("absl.") else ():
            values[flag.name] = flag
            values.register_flag_by_module(module, flag)
    for name, row in fields.rows(kind).items():
        _define(values, row)
        values.register_key_flag_for_module(row.rules.heading, values[name])
    return values


def _define(values: flags.FlagValues, row: fields.Row) -> None:
    rules: Any = row.rules
    define: Any = flags  # whose overloads do not take such arguments
    own: Any = {"module_name": row.rules.heading, "flag_values": values}
    default = None if row.default is fields.REQUIRED else row.default
    named: Any = row.name, default, rules.help
    if rules.choices:
        define.DEFINE_enum(row.name, default, [*rules.choices], rules.help, **own)
    elif row.kind is bool:
        define.DEFINE_bool(*named, **own)
    elif row.kind is int:
        define.DEFINE_integer(*named, rules.least, rules.most, **own)
    elif row.kind is float:
        parser = _FiniteParser(rules.least, rules.most)
        write: Any = flags.ArgumentSerializer()
        define.DEFINE(parser, *named, serializer=write, **own)
    elif row.kind is tuple:
        shares = _SharesParser(row)
        define.DEFINE(shares, *named, serializer=flags.CsvListSerializer(","), **own)
    elif row.kind is not str:
        define_list = (
            define.DEFINE_multi_string if rules.repeats else define.DEFINE_list
        )
        define_list(row.name, [*row.default], rules.help, **own)
    else:
        define.DEFINE_string(*named, **own)
    if row.default is fields.REQUIRED:
        flags.mark_flag_as_required(row.name, values)


class _FiniteParser(flags.FloatParser):
    def parse(self, argument):
        value = super().parse(argument)
        if not math.isfinite(value):
            raise errors.InputError(
                f"{value} is not a finite number; give one such as 0.1"
            )
        return value


class _SharesParser(flags.ArgumentParser):
    def __init__(self, row):
        example = ",".join(map(str, row.default))
        self.syntactic_help = f"numbers of 0 to 1, by comma, as in {example}"
        self._row = row

    def parse(self, argument):
        """A tuple of floats."""
        return fields.shares(self._row, argument)


def parse(kind: type[Settings], about: str | None) -> Settings:
    """Reads the command line into settings; ends on --help or a wrong flag.

    `about` is what --help begins with. Nothing here needs TensorFlow.
    """
    environment.open_closed_streams()
    app.define_help_flags()
    values = define(kind)
    about = (about or "").strip()
    for name, short_name, write in (
        ("help", "?", lambda: print(help_text(about, values))),
        ("helpshort", "h", lambda: print(help_text(about, values))),
        ("helpfull", None, lambda: print(f"{about}\n\n{values.get_help()}")),
        ("helpxml", None, lambda: values.write_help_in_xml_format(sys.stdout)),
    ):
        flag = _HelpFlag(name, short_name, write)
        flags.DEFINE_flag(flag, values, module_name=app.__name__)
    try:
        _arguments[:] = values(sys.argv)
    except flags.Error as error:  # in the words of absl, and with its exit code
        text = str(error)  # a line for each flag
        text = f"\n{textwrap.indent(text, '  ')}" if "\n" in text else f" {text}"
        sys.stderr.write(f"FATAL Flags parsing error:{text}\n")
        sys.stderr.write("Pass --help to see help on flags.\n")
        sys.exit(1)
    flags.FLAGS.mark_as_parsed()  # absl's own have their values
    sys.excepthook = _explain_interrupt
    with errors.explained():
        given = {name: values[name].value for name in fields.rows(kind)}
        given = {name: v for name, v in given.items() if values[name].present}
        _check_characters(given)
        settings = kind(**given)
        try:
            os.getcwd()
        except FileNotFoundError:
            raise errors.InputError(
                "the current folder was removed; change to one that is there, by cd"
            ) from None
        if not kind.takes_arguments:
            _refuse_arguments()
        if sys.stdin is None and "-" in [*_arguments[1:], *given.values()]:
            raise errors.InputError("-: standard input is closed; name a file")
        settings.check()
    return settings


def _refuse_arguments() -> None:
    """Refuses words beside the flags; `true` after a switch says what it is."""
    stray = [word for word in _arguments[1:] if word.lower() != "true"]
    if stray:
        raise errors.InputError(
            f"{stray[0]!r:.80} belongs to no flag; remove it (the value of a switch "
            "stands after =, as in --do_train=false)"
        )
    del _arguments[1:]


def _check_characters(given: dict[str, Any]) -> None:
    typed = {f"--{name}": value for name, value in given.items()}
    for place, value in {**typed, "an argument": _arguments[1:]}.items():
        for word in value if isinstance(value, list) else [value]:
            # The name of a file that is there may have any bytes.
            is_text = isinstance(word, str)
            if is_text and not all(map(fields.is_there, word.split(","))):
                characters.check(word, place)


def load_tensorflow(*, serves: bool = False) -> None:
    """Prepares environment and screen, and imports; `serves` as in `environment`."""
    with errors.explained():
        environment.check_backend()
    is_quiet = logging.get_verbosity() < 1
    _announce_tensorflow(environment.prepare(is_quiet=is_quiet, serves=serves))
    environment.import_tensorflow()


def _explain_interrupt(kind, error, trace):
    """Ctrl-C before `main` is one line, as it is in `main`."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("\ninterrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)


def _announce_tensorflow(settings: dict[str, str]) -> None:
    """The first line of a program, before the import, whose lines are hidden."""
    if logging.get_verbosity() >= 1:
        text = " ".join(f"{name}={value}" for name, value in settings.items())
        print(f"environment: {text}", file=sys.stderr)
    if "tensorflow" in sys.modules:
        return
    with contextlib.suppress(OSError):  # nobody reads it
        print("loading TensorFlow ...", file=sys.stderr, flush=True)


def run(
    main: Callable[..., object], settings: fields.Settings, *, unwinds: bool = False
) -> None:
    """Runs `main` with the settings and what is left of the command line.

    If it `unwinds`, signals are exceptions there, as Ctrl-C always is, so that
    unfinished files go.
    """
    errors.heed(errors.STOP_SIGNALS if unwinds else (signal.SIGINT,))

    def explained(argv: list[str]) -> None:
        quiet_libraries()
        with errors.explained():
            settings.check_schemes()
            main(settings, *argv[1:])

    app.run(explained, flags_parser=lambda _: _arguments)


def help_text(about: str, values: flags.FlagValues) -> str:
    """The text of --help: `about`, filled unless indented, and flags by heading."""
    width = flags.get_help_width()
    blocks = [
        paragraph if paragraph.startswith(" ") else textwrap.fill(paragraph, width)
        for paragraph in about.split("\n\n")
    ]
    sections = (values.module_help(title).strip() for title in fields.HEADINGS)
    blocks += [section for section in sections if section]
    return "\n\n".join([*blocks, "--helpfull adds the flags of absl."])


def quiet_libraries() -> None:
    """Hides what libraries log below warnings, unless --verbosity is set."""
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
        logger = python_logging.getLogger("tensorflow")
        logger.setLevel("WARNING")
        logger.addFilter(is_for_the_reader)


def is_for_the_reader(record: python_logging.LogRecord) -> bool:
    """Several seeds or a grid train several models, each with traces of its own."""
    return "triggered tf.function retracing" not in record.getMessage()


class _HelpFlag(flags.BooleanFlag):
    """Writes the help and ends the program, with the exit code of absl's own."""

    def __init__(self, name, short_name, write):
        about = {"helpfull": "Show help on all flags.", "helpxml": "The same as XML."}
        text = about.get(name, "Show this help.")
        super().__init__(name, False, text, short_name, allow_override=True)
        self._write = write

    def parse(self, argument):
        super().parse(argument)
        if self.value:
            with errors.explained():  # a reader such as `head` may leave early
                self._write()
                sys.stdout.flush()
            sys.exit(1)
