"""`compile` and `fit` of Keras do what the loop of this project does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import heads, losses
from training import steps
from training.optimization import keras_schedule, lamb, loss_scale, optimizer, schedule

RATES = {"learning_rate": 0.05, "num_train_steps": 6, "num_warmup_steps": 2}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


NO_GRADIENT = "key/bias"  # but rounding: softmax ignores what all keys have alike


def weights(model):
    return [
        np.asarray(variable)
        for variable in model.trainable_variables
        if not variable.path.endswith(NO_GRADIENT)
    ]


def furthest(first, second):
    return max(np.abs(a - b).max() for a, b in zip(first, second, strict=True))


def by_loop(model, dataset, num_steps):
    """The weights after some steps of the loop of this project."""
    adam = optimizer.BertAdam()
    adam.build(model.trainable_variables)
    run = steps.train_function(
        *(model, adam, losses.classifier("classification")),
        *(tf.distribute.get_strategy(),),
        seed=1,
        jit_compile=False,
    )
    rate = schedule.linear_with_warmup(**RATES)
    rates = tf.constant([rate(step) for step in range(num_steps)], tf.float32)
    start = tf.constant(0, tf.int64)
    run(iter(dataset), rates, tf.constant(num_steps), start, loss_scale.of({}))
    return weights(model)


def compiled(model):
    model.compile(
        optimizer=optimizer.BertAdam(keras_schedule.LinearWithWarmup(**RATES)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


@pytest.mark.slow
def test_fit_saved_in_between_equals_the_loop(
    build_classifier, classifier_batch, tmp_path, monkeypatch
):
    monkeypatch.setattr(heads, "HEAD_DROPOUT", 0.0)  # whatever the config says
    order = np.random.default_rng(4).integers(0, 8, (6, 4))
    rows = {name: value[order] for name, value in classifier_batch.items()}
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    pairs = dataset.map(lambda batch: (batch, batch["label_ids"]))
    wanted = by_loop(build_classifier(**STILL), dataset, 6)

    model = compiled(build_classifier(**STILL))
    model.fit(pairs.take(3), shuffle=False, verbose=0)
    halfway = weights(model)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.05 * (1 - 3 / 6))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again.optimizer, optimizer.BertAdam)
    again.fit(pairs.skip(3), shuffle=False, verbose=0)
    assert furthest(weights(again), wanted) < 1e-6
    assert furthest(halfway, wanted) > 1e-2  # so the last three steps count
    assert int(again.optimizer.iterations) == 6
    assert float(again.optimizer.learning_rate) == 0.0


@pytest.mark.parametrize("num_warmup_steps", [0, 3])
def test_schedule_has_the_rates_of_the_loop(num_warmup_steps):
    arguments = {**RATES, "num_warmup_steps": num_warmup_steps}
    made = keras_schedule.LinearWithWarmup(**arguments)
    made = type(made).from_config(made.get_config())
    rate = schedule.linear_with_warmup(**arguments)
    found = [float(made(tf.constant(step, tf.int64))) for step in range(9)]
    assert found == [float(np.float32(rate(step))) for step in range(9)]
    assert len(set(found)) > 3 and found[6:] == [0.0, 0.0, 0.0]


def test_schedule_refuses_more_warm_up_than_steps():
    with pytest.raises(ValueError, match="num_train_steps=3, num_warmup_steps=4"):
        keras_schedule.LinearWithWarmup(1.0, 3, 4)


@pytest.mark.parametrize("kind", [optimizer.BertAdam, lamb.BertLamb])
def test_optimizer_is_made_again_with_its_schedule(kind):
    made = kind(keras_schedule.LinearWithWarmup(**RATES), weight_decay_rate=0.3)
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(made)
    )
    assert type(again) is kind and again.weight_decay_rate == 0.3
    again.iterations.assign(1)
    assert float(again.learning_rate) == pytest.approx(0.025)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_fit_learns_in_mixed_precision(build_classifier, classifier_batch, policy):
    keras.config.set_dtype_policy(policy)
    try:
        model = build_classifier(**STILL)
        model.compile(
            optimizer=optimizer.BertAdam(0.01),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        labels = classifier_batch["label_ids"]
        found = model.fit(classifier_batch, labels, epochs=20, verbose=0).history
    finally:
        keras.config.set_dtype_policy("float32")
    assert found["loss"][-1] < 0.7 * found["loss"][0]
    assert all(v.dtype == "float32" for v in model.trainable_variables)
