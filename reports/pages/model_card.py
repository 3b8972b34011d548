"""README.md beside the weights: a model card in the form of the Hugging Face hub."""

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import yaml

from contract import file_names
from reports.pages import usage

# Follows the front matter; says whether the rest is as it was written.
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
    return {path: [text_of(record)]}


def is_ours(text: str) -> bool:
    """Whether `text_of` wrote it, and nobody has changed it since."""
    mark = _MARKED.search(text)
    return mark is not None and mark[1] == _digest(text.replace(mark[0], "", 1))


def text_of(record: Mapping[str, Any]) -> str:
    """The card: metadata as YAML between dashes, then Markdown."""
    front = yaml.safe_dump(metadata(record), sort_keys=False, allow_unicode=True)
    head, body = f"---\n{front}---\n", _body(record)
    script = usage.KINDS[record["kind"]].script
    mark = _MARK.format(script=script, digest=_digest(head + body))
    return f"{head}{mark}\n{body}"


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the hub reads. Neither license nor language is known, so neither is said."""
    found: dict[str, Any] = {
        "library_name": "keras",
        "pipeline_tag": record["kind"],
        "tags": ["bert", "tensorflow", "keras"],
    }
    held_out = record["evaluation"]
    if not held_out:
        return found
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
    found["metrics"] = sorted(set(scores) - {"loss"})
    found["model-index"] = [{"name": record["name"], "results": [result]}]
    return found


def _body(record):
    kind, origin = usage.KINDS[record["kind"]], usage.origin(record)
    from_where = f" from `{origin}`" if origin else ""
    parts = [
        f"# {record['name']}\n",
        f"{kind.title} with BERT, fine-tuned{from_where} with `{kind.script}`, "
        f"{record['step']} steps.\n",
        "No license is stated here: that of the weights it began with and of the data "
        "decides. Add `license:` above before you publish it.\n",
    ]
    if kind.script == "run_pretraining.py":
        parts[1] = parts[1].replace("fine-tuned", "pretrained")
    if record["evaluation"]:
        parts += ["## Scores\n", _scores(record["evaluation"])]
        if tested := record.get("test_evaluation"):
            parts.append(_scores(tested))
    if labels := _labels(record):
        parts += ["## Labels\n", labels]
    if record["data"]:
        parts += ["## Data\n", _data(record)]
    parts.append("## Use\n")
    for use in usage.uses(record, f"path/to/{record['name']}"):
        parts.append(f"{use.title}:\n\n```{use.language}\n{use.code}\n```\n")
    program, script, *words = map(
        shlex.quote, _without_places(record["training_command"])
    )
    command = " \\\n  ".join([f"{program} {script}", *words])
    parts += ["## Training\n", f"```bash\n{command}\n```\n"]
    parts.append(f"`{file_names.REPORT_PAGE}` has curves, errors and all settings.\n")
    return "\n".join(parts)


def _scores(held_out):
    lines = ["| score | value | 95 % interval |", "|---|---|---|"]
    for name, score in held_out["scores"].items():
        if score["value"] is None:
            continue
        low_high = score["interval"]
        between = "{:.4f} to {:.4f}".format(*low_high) if low_high else score["note"]
        lines.append(f"| {name} | {score['value']:.4f} | {between} |")
    intro = f"On {held_out['rows']} rows ({held_out['split']}):\n\n"
    if held_out["warning"]:
        intro = f"Warning: {held_out['warning']}.\n\n{intro}"
    return intro + "\n".join(lines) + "\n"


def _labels(record):
    """What a classifier answers, with scores of each where rows were scored."""
    if record["kind"] not in ("text-classification", "token-classification"):
        return ""
    if not (classes := (record["evaluation"] or {}).get("classes")):
        known = {n for data in record["data"].values() for n in data.get("labels", ())}
        return "".join(f"* {_cell(name)}\n" for name in sorted(known))
    lines = ["| label | rows | precision | recall | F1 |", "|---|---|---|---|---|"]
    for row in classes:
        scores = " | ".join(
            f"{row[name]:.4f}" for name in ("precision", "recall", "f1")
        )
        lines.append(f"| {_cell(row['name'])} | {row['rows']} | {scores} |")
    return "\n".join(lines) + "\n"


def _cell(name):
    """A label as a table of Markdown has it, whatever its letters."""
    return " ".join(name.split()).replace("\\", "\\\\").replace("|", "\\|")


def _data(record):
    lines = ["| split | file | count |", "|---|---|---|"]
    for split, data in record["data"].items():
        name = os.path.basename(data["path"])
        lines.append(f"| {split} | `{name}` | {data['count']} {data['unit']} |")
    return "\n".join(lines) + "\n"


def _without_places(command):
    """The words of the command, with paths of one's own machine cut to their names."""
    words = []
    for word in shlex.split(command):
        flag, equals, value = word.partition("=")
        places = [_name(place) for place in value.split(",")]
        words.append(f"{flag}{equals}{','.join(places)}")
    return words


def _name(place):
    is_own = os.path.isabs(place) or place.startswith("~")
    return os.path.basename(place.rstrip("/")) if is_own else place
