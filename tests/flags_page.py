"""docs/flags.md, from the flags themselves: `python -m tests.flags_page` writes it."""

import pathlib
import re

from cli import command_line
from tasks.settings import fields
from tests import tiny

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "flags.md"
# {command of the wheel: the module that it runs}
COMMANDS = dict(
    re.findall(
        r'^(bert-\S+) = "bert_reborn\.(\w+):',
        (tiny.ROOT / "pyproject.toml").read_text(),
        re.MULTILINE,
    )
)
PROGRAMS = [
    "run_classifier",
    "run_squad",
    "run_tagger",
    "run_seq2seq",
    "run_embedding",
    "run_generation",
    "run_pretraining",
    "create_pretraining_data",
    "build_vocab",
    "extract_features",
    "convert_checkpoint",
    "run_predictor",
    "run_search",
    "score_sentences",
    "compare_runs",
]
assert {*PROGRAMS} == {*COMMANDS.values()}
# Names of several programs, the largest group first.
SERVERS = ["run_predictor", "run_search"]
RUNS = [n for n in PROGRAMS if n.startswith("run_") and n not in SERVERS]
GROUPS = {
    "every run": RUNS,
    "training": [name for name in RUNS if name != "run_generation"],
    "fine-tuning": [
        name for name in RUNS if name not in ("run_generation", "run_pretraining")
    ],
    "servers": SERVERS,
}
INTRODUCTION = """# Flags

Every flag of every program, generated from the code. `python run_classifier.py --help`
prints the flags of one program with their ranges. A flag can be written `--flag=value`
or `--flag value`; `--flag` and `--noflag` set a switch. Each entry has the default and
the programs that take the flag; where programs differ, there are several entries. `~/`
at the beginning of a path is your home directory.

In an environment with the installed wheel, the command in the second column runs the
program in every directory. `bert-serve` is `bert-predict --serve`. The programs in
`examples/` and `benchmarks/` print their flags with `--help`.

"""


def entries():
    """{heading: {(flag, default, help): [programs]}}, in the order of --help."""
    result = {heading: {} for heading in fields.HEADINGS}
    for program in PROGRAMS:
        kind = tiny.settings_class(program)
        values = command_line.define(kind)
        for name, row in fields.rows(kind).items():
            default = (values[name].default_as_str or "none").strip("'") or "empty"
            about = values[name].help.replace("\n    ", " ")
            key = name, default, about
            result[row.rules.heading].setdefault(key, []).append(program)
    return result


def shorten(programs):
    """Names of programs, or of groups of them, separated by commas."""
    names, left = [], list(programs)
    for group, members in GROUPS.items():
        if set(members) <= set(left):
            names.append(group)
            left = [name for name in left if name not in members]
    return ", ".join(names + left)


def expand(text):
    """The programs that `shorten` has written."""
    names = text.split(", ")
    return [program for name in names for program in GROUPS.get(name, [name])]


def text():
    """The whole page."""
    lines = [INTRODUCTION + "| program | command |\n|---|---|"]
    for program in PROGRAMS:
        typed = f"python {program}.py"
        names = [name for name, module in COMMANDS.items() if module == program]
        lines.append(f"| `{typed}` | {', '.join(f'`{name}`' for name in names)} |")
    lines += ["", "Programs that share a flag are named together:", ""]
    for group, members in GROUPS.items():
        lines.append(f"* {group}: {', '.join(members)}.")
    for heading, flags_there in entries().items():
        lines += ["", f"## {heading}", ""]
        for name, default, about in sorted(flags_there):
            programs = shorten(flags_there[name, default, about])
            lines.append(f"* `--{name}` (`{default}`): {about} [{programs}]")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
