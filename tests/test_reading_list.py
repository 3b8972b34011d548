"""The lists of files in docs/design.md are those of a forward pass and of steps."""

import logging
import pathlib
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses, models, pretrainers
from modeling.configs import config
from tasks import classifier
from training import run_plan, train_step
from training.optimizers import bert_adam

ROOT = pathlib.Path(__file__).parents[1]
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
    return {p.as_posix() for p in ours if p.parts[0] not in (".venv", "tests")}


def listed_files(section):
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    items = re.search(rf"<!-- traced: {section} -->\n+((?:\* .*\n)+)", text)[1]
    return re.findall(r"^\* `(.+)`$", items, re.MULTILINE)


def check(section, entered, most_files):
    """Asserts that the files entered are those listed, and not too much to read."""
    listed = listed_files(section)
    assert entered == {*listed}
    assert len(listed) <= most_files


def test_reading_list_has_the_bases_of_a_task():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\d+\. `(.+)`$", text, re.MULTILINE)
    assert all((ROOT / path).is_file() for path in listed)
    bases = [base.__module__ for base in classifier.ClassifierTask.__mro__]
    files = {f"{module.replace('.', '/')}.py" for module in bases}
    ours = {file for file in files if (ROOT / file).is_file()}
    assert ours <= {*listed} and len(ours) == 2


def test_forward_pass_enters_the_files_of_the_list():
    model = models.BertClassifier(CONFIG, 3)
    model.build()
    entered = entered_files(model, INPUTS)
    check("forward pass", entered, most_files=5)


ONE = np.ones(1, np.int32)
STEPS = {
    "training step": (
        lambda: models.BertClassifier(CONFIG, 3),
        losses.classifier("classification"),
        {**INPUTS, "label_ids": ONE},
    ),
    "pretraining step": (
        lambda: pretrainers.BertPretrainer(CONFIG),
        losses.pretraining(),
        {
            **INPUTS,
            "masked_lm_positions": np.array([[1, 2]], np.int32),
            "masked_lm_ids": np.array([[3, 4]], np.int32),
            "masked_lm_weights": np.ones((1, 2), np.float32),
            "next_sentence_labels": ONE,
        },
    ),
}


def run_model(model, batch):
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True, seed=tf.constant([1, 0], tf.int64))
        total = tf.add_n([tf.reduce_sum(value) for value in outputs.values()])
    tape.gradient(total, [each.value for each in model.trainable_variables])


def run_step(step, batch):
    step(
        iter(tf.data.Dataset.from_tensors(batch)),
        tf.constant([0.01]),
        tf.constant(1),
        tf.constant(0, tf.int64),
        train_step.Scaling.from_state({}),
    )


@pytest.mark.slow
@pytest.mark.parametrize("section", STEPS)
def test_step_enters_the_files_of_the_list(section, monkeypatch):
    # A script that ran before in this process filters what TensorFlow logs.
    monkeypatch.setattr(logging.getLogger("tensorflow"), "filters", [])
    make_model, objective, batch = STEPS[section]
    model, optimizer = make_model(), bert_adam.BertAdam()
    model.build()
    optimizer.build(model.trainable_variables)
    plan = run_plan.Plan(output_dir="", seed=1, strategy=tf.distribute.get_strategy())
    step = train_step.TrainStep(plan, model, optimizer, objective)
    entered = entered_files(run_step, step, batch)
    entered -= entered_files(run_model, model, batch)
    check(section, entered, most_files=7)


def test_the_steps_of_rows_and_lines_are_where_the_tables_say():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| (`.*`) \| (`[\w/]+\.py.*`) \| ", text, re.M)
    assert len(steps) > 14
    for names, files in steps:
        named = re.findall(r"`([^`]+)`", files)
        places = [(ROOT / "data_pipeline" / file, ROOT / file) for file in named]
        paths = [path for pair in places for path in pair if path.is_file()]
        assert len(paths) == len(named)
        read = "".join(path.read_text(encoding="utf-8") for path in paths)
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", names):
            assert re.search(rf"^ *(?:def|class) {name}\b", read, re.M), (name, files)
