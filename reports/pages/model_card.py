"""README.md beside the weights: a model card in the form of the Hugging Face hub."""

import hashlib
import html
import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

import jinja2
import tensorflow as tf
import yaml

from contract import file_names
from reports.pages import usage

# Follows the front matter; its digest is that of all other text.
_MARK = (
    "<!-- Written by {script}, digest {digest}. It is not replaced once changed. -->"
)
_MARKED = re.compile(r"<!-- Written by \S+, digest (\w+)\. .*? -->\n")


def file(record: Mapping[str, Any], directory: str) -> dict[str, list[str]]:
    """{path: [text]} of the card; {} where a person has written the README.md there."""
    path = os.path.join(directory, file_names.MODEL_CARD)
    if tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path) as opened:
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
    front = yaml.safe_dump(metadata(record), sort_keys=False, allow_unicode=True)
    head, body = f"---\n{front}---\n", _body(record)
    script = usage.KINDS[record["kind"]].script
    mark = _MARK.format(script=script, digest=_digest(head + body))
    return f"{head}{mark}\n{body}"


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """The front matter for the hub; neither license nor language is known."""
    front: dict[str, Any] = {
        "library_name": "keras",
        "pipeline_tag": record["kind"],
        "tags": ["bert", "tensorflow", "keras"],
    }
    held_out = record["evaluation"]
    if not held_out:
        return front
    scores = {
        n: s["value"] for n, s in held_out["scores"].items() if s["value"] is not None
    }
    data = record["data"].get(held_out["split"], {})
    name = os.path.basename(data.get("path", "")) or held_out["split"]
    result = {
        "task": {"type": record["kind"]},
        "dataset": {"name": name, "type": name, "split": held_out["split"]},
        "metrics": [
            {"type": metric, "value": round(value, 4), "name": metric.replace("_", " ")}
            for metric, value in scores.items()
        ],
    }
    front["metrics"] = sorted(set(scores) - {"loss"})
    front["model-index"] = [{"name": record["name"], "results": [result]}]
    return front


def _body(record: Mapping[str, Any]) -> str:
    kind = usage.KINDS[record["kind"]]
    evaluations = [record["evaluation"], record.get("test_evaluation")]
    classes: list[dict[str, Any]] = []
    labels: set[str] = set()
    if record["kind"] in ("text-classification", "token-classification"):
        classes = (record["evaluation"] or {}).get("classes", [])
        if not classes:  # no rows were scored
            for data in record["data"].values():
                labels |= {*data.get("labels", ())}
    words = map(shlex.quote, _without_places(record["training_command"]))
    command = " \\\n  ".join([f"{next(words)} {next(words)}", *words])
    return _TEMPLATES.get_template("card.md.jinja").render(
        record=record,
        kind=kind,
        verb="pretrained" if kind.script == "run_pretraining.py" else "fine-tuned",
        origin=usage.origin(record),
        evaluations=[each for each in evaluations if each] if evaluations[0] else [],
        classes=classes,
        labels=sorted(labels),
        uses=usage.uses(record, f"path/to/{record['name']}"),
        command=command,
        page=file_names.REPORT_PAGE,
    )


def _cell(name: str) -> str:
    """A name as a line or table of Markdown has it, whatever its letters."""
    text = html.escape(" ".join(name.split()), quote=False)
    return re.sub(r"[\\|`\[]", r"\\\g<0>", text)


def _code(name: str) -> str:
    """A name within backticks, in a line or table."""
    return " ".join(name.split()).replace("`", "'").replace("|", "\\|")


def _fence(code: str) -> str:
    """The backticks around a block of code, more than it has in a row."""
    return "`" * max(3, *(len(run) + 1 for run in re.findall("`+", code)), 3)


_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {"cell": _cell, "code": _code, "fence": _fence}
_TEMPLATES.filters["name"] = os.path.basename


def _without_places(command):
    """The words of the command; of absolute paths the last part."""
    words = []
    for word in shlex.split(command):
        flag, equals, value = word.partition("=")
        places = [_name(place) for place in value.split(",")]
        words.append(f"{flag}{equals}{','.join(places)}")
    return words


def _name(place):
    is_own = os.path.isabs(place) or place.startswith("~")
    return os.path.basename(place.rstrip("/")) if is_own else place
