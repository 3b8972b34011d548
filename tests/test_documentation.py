"""The documentation names only commands, flags, files and links that exist."""

import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PAGE_NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

# Answers with the flags of several programs at the price of one start of TensorFlow:
# each program runs in a fork, and asking for --helpxml ends it once its flags are
# defined, wherever it defines them. Input: names of scripts and modules, as JSON.
LIST_FLAGS = """
import contextlib, io, json, os, runpy, sys, tempfile
from xml.etree import ElementTree
import keras, tensorflow
for name in json.load(sys.stdin):
    pid = os.fork()
    if pid == 0:
        sys.argv = [name, "--helpxml"]
        sys.path.insert(0, os.getcwd())
        with contextlib.redirect_stdout(io.StringIO()) as page:
            with contextlib.suppress(SystemExit):
                if name.endswith(".py"):
                    runpy.run_path(name, run_name="__main__")
                else:
                    runpy.run_module(name, run_name="__main__", alter_sys=True)
        flags = {}
        for flag in ElementTree.fromstring(page.getvalue()).iter("flag"):
            flags[flag.findtext("name")] = flag.findtext("type")
        print(json.dumps([name, flags]), flush=True)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"{name} --helpxml failed")
"""


def bash_commands(markdown):
    """The simple commands of the ```bash blocks, as lists of words."""
    found = []
    for block in re.findall(r"^ *```bash\n(.*?)^ *```", markdown, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = []
            for token in lexer:
                if set(token) <= set(";&|()<>"):
                    found.append(words)
                    words = []
                else:
                    words.append(token)
            found.append(words)
    return [words for words in found if words]


def our_program(words):
    """(script or module, its arguments) of a command that runs one of ours, or None."""
    for place, word in enumerate(words):
        if re.fullmatch(r"(.*/)?python[0-9.]*", word):
            rest = words[place + 1 :]
            if rest[:1] == ["-m"] and (ROOT / rest[1].split(".")[0]).is_dir():
                return rest[1], rest[2:]
            if rest and rest[0].endswith(".py"):
                return rest[0], rest[1:]
    return None


def programs(markdown):
    return [found for words in bash_commands(markdown) if (found := our_program(words))]


def unknown_flags(arguments, defined):
    """The flags among arguments that are not in defined, a dict of name to type."""
    unknown = []
    for argument in arguments:
        if argument == "--":
            break
        name = argument.lstrip("-").split("=")[0]
        if not argument.startswith("-") or not name or name[0].isdigit():
            continue
        negated = defined.get(name.removeprefix("no")) == "bool"
        if name not in defined and not (name.startswith("no") and negated):
            unknown.append(argument)
    return unknown


@functools.cache
def defined_flags():
    """Name of each documented program to its flags, each flag to its type."""
    wanted = {name for page in PAGES for name, _ in programs(page.read_text("utf-8"))}
    wanted = sorted(name for name in wanted if program_exists(name))
    done = subprocess.run(
        [sys.executable, "-c", LIST_FLAGS],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(line) for line in done.stdout.splitlines())


def program_exists(name):
    path = name if name.endswith(".py") else name.replace(".", "/") + ".py"
    return (ROOT / path).is_file()


def missing_samples(markdown, root):
    named = re.findall(r"(?<![\w/])sample_data(?:/[\w.*-]*[\w*])*", markdown)
    return sorted({name for name in named if not any(root.glob(name))})


def anchors(markdown):
    """The anchors that the headings of a page get."""
    prose = re.sub(r"^ *```.*?^ *```", "", markdown, flags=re.M | re.S)
    titles = re.findall(r"^#+ +(.*?) *#*$", prose, re.M)
    plain = [re.sub(r"[^\w\- ]", "", title.lower()) for title in titles]
    return {title.replace(" ", "-") for title in plain}


def broken_links(markdown, page):
    prose = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", markdown, flags=re.M | re.S)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)", prose):
        if re.match(r"[a-z]+:", link):  # another site; looking needs a network
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (
            anchor
            and target.suffix == ".md"
            and anchor not in anchors(target.read_text("utf-8"))
        ):
            broken.append(link)
    return broken


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_page_names_only_what_exists(name):
    markdown = (ROOT / name).read_text("utf-8")
    assert broken_links(markdown, ROOT / name) == []
    assert missing_samples(markdown, ROOT) == []
    assert [n for n, _ in programs(markdown) if not program_exists(n)] == []


@pytest.mark.parametrize(
    "name", [n for n in PAGE_NAMES if programs((ROOT / n).read_text("utf-8"))]
)
def test_commands_of_page_use_defined_flags(name):
    for program, arguments in programs((ROOT / name).read_text("utf-8")):
        unknown = unknown_flags(arguments, defined_flags()[program])
        assert not unknown, f"{program} has no {unknown}"


def test_commands_are_found_in_every_dress():
    markdown = """
```bash
export A=1  # a comment
TF_CONFIG='{"a": 1}' .venv/bin/python run_a.py \\
  --x=1 "two words" && python3 -m tests.b --noy | head
pip install x
```

```
python not_bash.py
```
"""
    assert [our_program(words) for words in bash_commands(markdown)] == [
        None,
        ("run_a.py", ["--x=1", "two words"]),
        ("tests.b", ["--noy"]),
        None,
        None,
    ]


def test_unknown_flags_are_found():
    defined = {"do_train": "bool", "rate": "float"}
    known = ["--do_train", "--nodo_train", "-rate=1", "--rate", "-3", "text"]
    assert unknown_flags(known, defined) == []
    wrong = ["--do_trian", "--norate", "--notes=x"]
    assert unknown_flags([*known, *wrong, "--", "--x"], defined) == wrong


def test_flags_are_listed_by_running_the_program(tmp_path):
    (tmp_path / "run_a.py").write_text(
        "from absl import app, flags\n"
        "def main(_):\n    raise AssertionError('ran')\n"
        "if __name__ == '__main__':\n"
        "    flags.DEFINE_bool('do_train', False, 'Trains.')\n"
        "    app.run(main)\n"
    )
    stub = "import sys\nsys.modules['keras'] = sys.modules['tensorflow'] = sys\n"
    done = subprocess.run(
        [sys.executable, "-c", stub + LIST_FLAGS],
        input='["run_a.py"]',
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    name, flags = json.loads(done.stdout)
    assert (name, flags["do_train"]) == ("run_a.py", "bool")
    assert "rate" not in flags


def test_missing_samples_are_found(tmp_path):
    (tmp_path / "sample_data").mkdir()
    (tmp_path / "sample_data" / "a.tsv").touch()
    good = "`sample_data/a.tsv`, sample_data/*.tsv. See sample_data/. my_sample_data/x"
    assert missing_samples(good, tmp_path) == []
    assert missing_samples("--x=sample_data/b.tsv.", tmp_path) == ["sample_data/b.tsv"]


def test_broken_links_are_found(tmp_path):
    page = tmp_path / "a.md"
    page.write_text("# One: `two`-three\n\n```bash\n# no heading\n```\n")
    good = "[a](a.md) [b](#one-two-three) [c](https://a.b/c) `[d](e)`"
    assert broken_links(good, page) == []
    wrong = "[a](b.md) [b](a.md#no-heading) [c](#four)"
    assert broken_links(wrong, page) == ["b.md", "a.md#no-heading", "#four"]
