"""The list of files in docs/design.md is that of a forward pass, as Python runs it."""

import pathlib
import re
import sys

import numpy as np

from modeling import models
from modeling.configs import config

ROOT = pathlib.Path(__file__).parents[1]
MOST_FILES, MOST_LINES = 5, 900
CONFIG = config.BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=8,
    type_vocab_size=2,
)
IDS = np.array([[1, 5, 6, 2]], np.int32)
INPUTS = {"input_ids": IDS, "input_mask": IDS // IDS, "segment_ids": 0 * IDS}


def entered_files(function, *arguments):
    """The files of this repository, below its root, whose functions a call enters."""
    entered = set()

    def note(frame, event, _):
        if event == "call":
            entered.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(*arguments)
    finally:
        sys.setprofile(before)
    paths = map(pathlib.Path, entered)
    ours = (path.relative_to(ROOT) for path in paths if path.is_relative_to(ROOT))
    return {path.as_posix() for path in ours if path.parts[0] != ".venv"}


def listed_files(section):
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    items = re.search(rf"<!-- traced: {section} -->\n+((?:\* .*\n)+)", text)[1]
    return re.findall(r"^\* `(.+)`$", items, re.MULTILINE)


def check(section, entered, most_files, most_lines):
    """Asserts that the files entered are those listed, and not too much to read."""
    listed = listed_files(section)
    assert entered == {*listed}
    assert len(listed) <= most_files
    lines = [len((ROOT / path).read_text().splitlines()) for path in listed]
    assert sum(lines) <= most_lines, dict(zip(listed, lines, strict=True))


def test_forward_pass_enters_the_files_of_the_list():
    model = models.BertClassifier(CONFIG, 3)
    model.build()
    entered = entered_files(model, INPUTS)
    check("forward pass", entered, MOST_FILES, MOST_LINES)
