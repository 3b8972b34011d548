"""An optimizer that evaluates averages of weights needs a class, and nothing else."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from modeling.checkpoints import checkpoint
from tests.training import steps
from training import loop, run, run_plan
from training.optimizers import bert_adam

SHARE = 0.6  # of the averages before


class Averaged(bert_adam.BertAdam):
    """BertAdam beside exponential means of the weights, which are evaluated."""

    def slots_of(self, variable):
        return {**super().slots_of(variable), "to_mean": 0.0}

    def _update(self, path, variable, slots, gradient, numbers):
        *moments, to_mean = slots
        before = tf.convert_to_tensor(variable)
        super()._update(path, variable, moments, gradient, numbers)
        to_mean.assign(SHARE * (to_mean + before - variable))

    def evaluation_weights(self):
        return [(v, v + slots["to_mean"]) for v, slots in self.named_slots()]


def values(model):
    return [np.array(each) for each in model.trainable_variables]


@pytest.fixture
def train(build_classifier, classifier_batch, tmp_path):
    def start(num_train_steps, kind=Averaged, directory="run", **plan):
        keras.utils.clear_session()
        model, seen = build_classifier(), []
        (tmp_path / directory).mkdir(exist_ok=True)

        def evaluate():
            seen.append(values(model))
            return {"score": plan["scores"][len(seen) - 1]} if "scores" in plan else {}

        made = steps.plan(
            tmp_path / directory,
            timetable=run_plan.Timetable(
                num_train_steps=num_train_steps,
                learning_rate=lambda step: 0.01,
                save_steps=2,
                evaluate_steps=2,
                best_metric="score" if "scores" in plan else "",
            ),
            optimizer=kind,
        )
        training = loop.Training(
            model=model,
            origin="random",
            objective=losses.classifier("classification"),
            batches_from=lambda step: tf.data.Dataset.from_tensors(
                classifier_batch
            ).repeat(),
            evaluate=evaluate,
        )
        return run.train(made, training), model, seen

    return start


def read(path, name="bert/pooler/dense/kernel"):
    return tf.train.load_checkpoint(str(path)).get_tensor(name)


def assert_equal(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def moved(actual, expected):
    pairs = zip(actual, expected, strict=True)
    return max(np.abs(a - b).max() for a, b in pairs)


@pytest.mark.slow
def test_averages_are_evaluated_saved_and_left_in_the_model(train, tmp_path):
    _, plain, plainly = train(4, bert_adam.BertAdam, "plain")
    _, model, seen = train(4)
    # The same weights are trained, and others are seen.
    name = "bert/pooler/dense/kernel"
    trained = read(tmp_path / "run/model.ckpt-4", f"{name}/trained")
    np.testing.assert_array_equal(trained, read(tmp_path / "plain/model.ckpt-4"))
    assert moved(seen[1], plainly[1]) > 1e-3
    assert_equal(values(model), seen[1])
    assert_equal(values(plain), plainly[1])
    assert moved([read(tmp_path / "run/model.ckpt-4")], [trained]) > 1e-3
    # Another program finds the averages, and takes nothing else for weights.
    report = checkpoint.load(plain, str(tmp_path / "run/model.ckpt-4"))
    assert (report.missing, report.unused) == ((), ())
    assert_equal(values(plain), seen[1])


@pytest.mark.slow
def test_run_goes_on_from_what_was_trained(train, tmp_path):
    _, _, whole = train(4)
    train(2, directory="parts")
    _, model, rest = train(4, directory="parts")
    assert_equal(rest[-1], whole[-1])
    assert_equal(values(model), whole[-1])
    # With nothing left to do it ends with the same.
    _, model, seen = train(4, directory="parts")
    assert seen == []
    assert_equal(values(model), whole[-1])


@pytest.mark.slow
def test_best_checkpoint_is_that_of_the_averages(train):
    step, model, seen = train(6, scores=[0.1, 0.9, 0.2])
    assert step == 4
    assert_equal(values(model), seen[1])
    assert moved(seen[1], seen[2]) > 1e-3
