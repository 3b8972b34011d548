"""README.md beside the weights: a model card in the form of the Hugging Face hub."""

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

from contract import file_names, remote_files
from reports.pages import run_page, usage

# Follows the front matter; its digest is that of all other text.
_MARK = (
    "<!-- Written by {program}, digest {digest}. It is not replaced once changed. -->"
)
_MARKED = re.compile(r"<!-- Written by \S+, digest (\w+)\. .*? -->\n")


def file(record: Mapping[str, Any], directory: str) -> dict[str, list[str]]:
    """{path: [text]} of the card; {} where a person has written the README.md there."""
    path = os.path.join(directory, file_names.MODEL_CARD)
    if remote_files.exists(path):
        with remote_files.open_file(path, "r") as opened:
            if not is_ours(opened.read()):
                print(f"model card: {path} is not ours, so it stays as it is")
                return {}
    return {path: [make_text(record)]}


def is_ours(text: str) -> bool:
    """Whether the text is a card of `make_text` that nobody has changed since."""
    mark = _MARKED.search(text)
    return mark is not None and mark[1] == _digest(text.replace(mark[0], "", 1))


def make_text(record: Mapping[str, Any]) -> str:
    """The card: metadata as YAML between dashes, then Markdown."""
    kind, held_out = usage.KINDS[record["kind"]], record["evaluation"] or {}
    classes: list[dict[str, Any]] = []
    labels: set[str] = set()
    if record["kind"] in ("text-classification", "token-classification"):
        classes = held_out.get("classes", [])
        if not classes:  # no rows were scored
            for data in record["data"].values():
                labels |= {*data.get("labels", ())}
    findings = record.get("findings", ())
    for data in record["data"].values():  # whose places are of this machine
        path = data["path"]
        findings = [each.replace(path, os.path.basename(path)) for each in findings]
    text = run_page.render(
        "card.md",
        record=record,
        kind=kind,
        origin=usage.origin(record),
        held_out=held_out,
        findings=findings,
        tested=record.get("test_evaluation"),
        folds=record.get("cross_validation") or {},
        classes=classes,
        labels=sorted(labels),
        uses=usage.uses(record, f"path/to/{record['name']}"),
        command=_without_places(record["training_command"]),
        page=file_names.REPORT_PAGE,
    )
    mark = _MARK.format(program=kind.program, digest=_digest(text))
    return text.replace("\n---\n", f"\n---\n{mark}\n", 1)


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _without_places(command):
    """The command; of absolute paths the last part."""
    words = []
    for word in shlex.split(command):
        flag, equals, value = word.partition("=")
        places = [_name(place) for place in value.split(",")]
        words.append(f"{flag}{equals}{','.join(places)}")
    return shlex.join(words)


def _name(place):
    is_own = os.path.isabs(place) or place.startswith("~")
    return os.path.basename(place.rstrip("/")) if is_own else place
