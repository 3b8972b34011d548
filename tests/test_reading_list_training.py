"""The lists of files in docs/design.md are those of training steps, as they run.

A step's model is left out: tests/test_reading_list.py has its forward pass.
"""

import logging

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses, models, pretrainers
from tests import test_reading_list as reading_list
from training import optimizers, train_step

MOST_FILES, MOST_LINES = 7, 1500
CONFIG, INPUTS = reading_list.CONFIG, reading_list.INPUTS
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
    """A forward and a backward pass, as a step has them."""
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


@pytest.mark.parametrize(
    "section",
    ["training step", pytest.param("pretraining step", marks=pytest.mark.slow)],
)
def test_step_enters_the_files_of_the_list(section, monkeypatch):
    # A script that ran before in this process filters what TensorFlow logs.
    monkeypatch.setattr(logging.getLogger("tensorflow"), "filters", [])
    make_model, objective, batch = STEPS[section]
    model, optimizer = make_model(), optimizers.BertAdam()
    model.build()
    optimizer.build(model.trainable_variables)
    step = train_step.TrainStep(
        model,
        optimizer,
        objective,
        tf.distribute.get_strategy(),
        seed=1,
        jit_compile=False,
    )
    entered = reading_list.entered_files(run_step, step, batch)
    entered -= reading_list.entered_files(run_model, model, batch)
    entered -= {"tests/test_reading_list_training.py"}
    reading_list.check(section, entered, MOST_FILES, MOST_LINES)
