"""docs/troubleshooting.md: each message that it explains stands in the source."""

import ast
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
FOLDERS = "cli contract data_pipeline loading modeling reports serving tasks training"
ELLIPSIS = "…"


def messages(markdown):
    """The messages of entries that begin with one, without those of TensorFlow."""
    return re.findall(r"^\* `([^`]+)`", markdown, re.M)


@functools.cache
def templates():
    """The strings of each file of the source, with an ellipsis for each value in it."""
    files = [[(ROOT / "Makefile").read_text("utf-8")]]
    for folder in FOLDERS.split():
        for path in (ROOT / folder).rglob("*.py"):
            files.append(strings(path.read_text("utf-8")))
    return files


def strings(code):
    texts = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.JoinedStr):
            parts = (getattr(part, "value", None) for part in node.values)
            texts.append("".join(p if isinstance(p, str) else ELLIPSIS for p in parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


def stands_in(message, texts):
    """Whether a file has the message, or problem and remedy as those of a finding."""

    def has(text):
        form = "[^\n]*?".join(map(re.escape, text.split(ELLIPSIS)))
        return any(re.search(form, each) for each in texts)

    return has(message) or all(map(has, filter(None, message.split("; "))))


def test_every_message_stands_in_the_source():
    listed = messages(PAGE)
    assert len(listed) > 50 and len({*listed}) == len(listed)
    absent = [m for m in listed if not any(stands_in(m, f) for f in templates())]
    assert absent == []


def test_other_messages_are_noticed():
    page = "* `a=… exceeds …; lower it`<br>\n  `no message`\n* TensorFlow's `OOM`\n"
    assert messages(page) == ["a=… exceeds …; lower it"]
    texts = strings('raise E(f"--a={a} exceeds "\n  f"{b}; lower it")')
    assert stands_in(messages(page)[0], texts)
    assert not stands_in("a=… exceeds …; raise it", texts)
    assert not stands_in("lower it, a=…", texts)
    texts = strings('text = f"has {a} cells"\nfault(text, "quote cells")')
    assert stands_in("has … cells; quote cells", texts)
    assert not stands_in("has … cells; remove cells", texts)


def test_every_entry_has_a_cause_and_a_remedy():
    entries = re.split(r"^\* ", PAGE, flags=re.M)[1:]
    assert [each for each in entries if not re.search(r"<br>\n  \S", each)] == []
    assert len(entries) > len(messages(PAGE))
