"""docs/flags.md, from the flags themselves: `python -m tests.flags_page` writes it."""

import functools
import pathlib

from absl import flags

from cli import command_line, commands
from tests import tiny

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "flags.md"
# {command of the wheel: its function in cli/commands.py}
COMMANDS = {
    f"bert-{name.replace('_', '-')}": name
    for name, value in vars(commands).items()
    if isinstance(value, functools.partial)
}
# {script: command}; the others run modules of packages.
SCRIPTS = {
    getattr(commands, name).args[0]: command
    for command, name in COMMANDS.items()
    if "." not in getattr(commands, name).args[0]
}
INTRODUCTION = """# Flags

Every flag of every script, generated from the code. `python run_classifier.py --help`
prints those of a script with ranges and choices. A flag can be written `--flag=value`
or `--flag value`; `--flag` and `--noflag` set a switch. Each entry has the default and
the scripts that take the flag; where scripts differ, there are several entries.

In an environment with the installed wheel each script is a command. `bert-predict` is
`python -m serving.predictor`, `bert-serve` the same with `--serve`, `bert-search` is
`python -m serving.search`, and `bert-compare` is `python -m reports.compare`.

"""


def entries():
    """{heading: {(flag, default, help): [scripts]}}, in the order of --help."""
    result = {heading: {} for heading in command_line.HEADINGS}
    for script in SCRIPTS:
        with tiny.flags_of(script):
            for heading in command_line.HEADINGS:
                for flag in flags.FLAGS.get_key_flags_for_module(heading):
                    default = flag.default_as_str or "none"
                    key = flag.name, default.strip("'"), flag.help
                    result[heading].setdefault(key, []).append(script)
    return result


def text():
    """The whole page."""
    lines = [INTRODUCTION + "| script | command |\n|---|---|"]
    lines += [f"| `{name}.py` | `{command}` |" for name, command in SCRIPTS.items()]
    for heading, flags_there in entries().items():
        if not flags_there:  # of programs that are no scripts
            continue
        lines += ["", f"## {heading}", ""]
        for name, default, about in sorted(flags_there):
            scripts = flags_there[name, default, about]
            where = "all" if len(scripts) == len(SCRIPTS) else ", ".join(scripts)
            lines.append(f"* `--{name}` (`{default}`): {about} [{where}]")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
