"""docs/troubleshooting.md: each message that it explains stands in the source."""

import ast
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
FOLDERS = "cli contract data_pipeline modeling reports serving training"
ELLIPSIS = "…"


def messages(markdown):
    """The messages of entries that begin with one, without those of TensorFlow."""
    return re.findall(r"^\* `([^`]+)`", markdown, re.M)


@functools.cache
def templates():
    """Every string of the source, with an ellipsis for each value in it."""
    texts = [(ROOT / "Makefile").read_text("utf-8")]
    for folder in FOLDERS.split():
        for path in (ROOT / folder).rglob("*.py"):
            texts += strings(path.read_text("utf-8"))
    return texts


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
    parts = [re.escape(part) for part in message.split(ELLIPSIS)]
    return any(re.search("[^\n]*?".join(parts), text) for text in texts)


def test_every_message_stands_in_the_source():
    listed = messages(PAGE)
    assert len(listed) > 50 and len({*listed}) == len(listed)
    assert [each for each in listed if not stands_in(each, templates())] == []


def test_other_messages_are_noticed():
    page = "* `a=… exceeds …; lower it`<br>\n  `no message`\n* TensorFlow's `OOM`\n"
    assert messages(page) == ["a=… exceeds …; lower it"]
    texts = strings('raise E(f"--a={a} exceeds "\n  f"{b}; lower it")')
    assert stands_in(messages(page)[0], texts)
    assert not stands_in("a=… exceeds …; raise it", texts)
    assert not stands_in("lower it, a=…", texts)


def test_every_entry_has_a_cause_and_a_remedy():
    entries = re.split(r"^\* ", PAGE, flags=re.M)[1:]
    assert [each for each in entries if not re.search(r"<br>\n  \S", each)] == []
    assert len(entries) > len(messages(PAGE))
