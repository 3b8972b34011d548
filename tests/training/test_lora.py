"""LoRA: what is trained, as PEFT trains it, and what a run leaves."""

import json

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from modeling import heads, losses, pretrainers
from modeling.checkpoints import names
from tests import family_weights
from tests.modeling import random_weights
from tests.refusals import refused
from tests.training import steps
from training import loop, lora, run, run_plan
from training.optimizers import bert_adam, muon

IDS = np.int32([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 0, 0]])
FEATURES = {"input_ids": IDS, "input_mask": np.int32(IDS > 0), "segment_ids": 0 * IDS}
QUERY = "bert/block_1/attention/query/kernel"
# After three steps of peft 0.21 below BertAdam's formula, at a rate of 0.01.
LOSSES = [0.8963198661804199, 0.8419748544692993, 0.7914477586746216]
A = [[0.4510719, 0.3401334, 0.134881], [0.1110452, 0.7700638, -0.2619512]]
B = [[-0.1153988, -0.1143417], [0.1043892, 0.0969822], [-0.1070258, -0.1192235]]
BIAS = [0.4484703, -0.69438, 0.7512439]


def make_lora(*targets, rank=2, alpha=3.0):
    return lora.Lora(rank, alpha, targets, "models/base")


@pytest.fixture
def small_bert(tiny_config):
    """A classifier whose weights are drawn by their names in transformers."""
    import dataclasses

    config = dataclasses.replace(
        tiny_config,
        vocab_size=13,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=8,
        hidden_act="gelu_erf",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = pretrainers.build("classifier", 3, config)
    rows = names.named_variables(model)
    shapes = {r.hugging_face: r.to_hugging_face(np.asarray(v)).shape for r, v in rows}
    weights = family_weights.draw(shapes)
    for row, variable in rows:
        variable.assign(row.from_hugging_face(weights[row.hugging_face]))
    return model


def arrays(model):
    return {r.path: np.asarray(v) for r, v in names.named_variables(model)}


def test_three_steps_move_adapters_and_head_as_peft_does(small_bert, monkeypatch):
    monkeypatch.setattr(heads, "HEAD_DROPOUT", 0.0)
    model, before = small_bert, arrays(small_bert)
    plan = make_lora()
    with plan.freezing(model):
        optimizer = lora.LowRank(bert_adam.BertAdam(), plan, model.config, seed=1)
        optimizer.build(model.trainable_variables)
        slots = {
            names.relative_path(kernel): own for kernel, own in optimizer.named_slots()
        }
        theirs = {
            path: path.replace("bert/block_", "bert.encoder.layer.")
            .replace("/attention/", ".attention.self.")
            .replace("/kernel", ".lora_A.weight")
            for path, own in slots.items()
            if "lora_A" in own
        }
        assert len(theirs) == 4  # queries and values of two layers
        drawn = family_weights.draw(dict.fromkeys(theirs.values(), (2, 8)), seed=2)
        for path, name in theirs.items():
            slots[path]["lora_A"].assign(drawn[name].T)
        step = steps.make(model, losses.classifier("classification"), optimizer)
        batch = {**FEATURES, "label_ids": np.int32([2, 0])}
        found = [
            steps.call(step, steps.repeat(batch), [0.01], step=number)[0]["loss"]
            for number in range(3)
        ]
    np.testing.assert_allclose(found, LOSSES, rtol=2e-6)
    own = {name: np.asarray(value) for name, value in slots[QUERY].items()}
    np.testing.assert_allclose(own["lora_A"].T[:, :3], A, atol=1e-6)
    np.testing.assert_allclose(own["lora_B"].T[:3], B, atol=1e-6)
    after = arrays(model)
    np.testing.assert_allclose(after["classifier/logits/bias"], BIAS, atol=1e-6)
    moved = {path for path in after if (after[path] != before[path]).any()}
    assert moved == {*theirs, "classifier/logits/kernel", "classifier/logits/bias"}
    np.testing.assert_array_equal(own["lora_base"], before[QUERY])
    product = before[QUERY] + 1.5 * own["lora_A"] @ own["lora_B"]
    np.testing.assert_allclose(after[QUERY], product, atol=1e-6)
    assert all(variable.trainable for variable in model.trainable_variables)
    assert len(model.trainable_variables) == len(before)  # no longer frozen
    assert {*own} == {
        *("lora_A", "lora_A/adam_m", "lora_A/adam_v", "lora_base"),
        *("lora_B", "lora_B/adam_m", "lora_B/adam_v"),
    }


def test_adapters_begin_as_peft_draws_them_by_the_seed(small_bert):
    def draw(seed):
        plan = make_lora("all-linear", rank=64)
        with plan.freezing(small_bert):
            made = lora.LowRank(bert_adam.BertAdam(), plan, small_bert.config, seed)
            made.build(small_bert.trainable_variables)
        return [own for _, own in made.named_slots() if "lora_A" in own]

    first, again, other = draw(1), draw(1), draw(2)
    assert len(first) == 13  # the pooler, and six in each layer
    for own, same, third in zip(first, again, other, strict=True):
        values = np.asarray(own["lora_A"])
        bound = len(values) ** -0.5
        assert 0.9 * bound < np.abs(values).max() <= bound
        np.testing.assert_allclose(values.std(), bound / 3**0.5, rtol=0.1)
        np.testing.assert_array_equal(values, same["lora_A"])
        assert (values != third["lora_A"]).mean() > 0.99
        assert not np.asarray(own["lora_B"]).any()
    flat = [np.asarray(own["lora_A"]).ravel()[:8] for own in first]
    assert len({tuple(each) for each in flat}) == 13  # each has values of its own


def test_muon_which_would_have_no_kernel_is_refused(small_bert):
    plan = make_lora()
    with plan.freezing(small_bert):
        made = lora.LowRank(muon.Muon(), plan, small_bert.config, seed=1)
        with refused("--optimizer=muon is for kernels of a Transformer's blocks"):
            made.build(small_bert.trainable_variables)


@pytest.mark.slow
def test_wide_kernels_of_gpt_are_moved_and_written_as_theirs(tmp_path):
    model = random_weights.random_model(random_weights.GPT_2, "classifier")
    kernel = "gpt/block_0/attention/query_key_value/kernel"
    before, plan = arrays(model)[kernel], make_lora()
    training = loop.Training(
        model=model,
        origin="random",
        objective=losses.classifier("classification"),
        batches_from=lambda step: tf.data.Dataset.from_tensors(
            {**FEATURES, "label_ids": np.int32([2, 0])}
        ).repeat(),
    )
    timetable = run_plan.Timetable(
        num_train_steps=2, learning_rate=lambda step: 0.01, save_steps=9
    )
    plan = steps.plan(tmp_path, timetable=timetable, lora=make_lora(), batch_size=2)
    assert run.train(plan, training) == 2
    tensors = safetensors.numpy.load_file(tmp_path / "adapter_model.safetensors")
    name = "base_model.model.transformer.h.0.attn.c_attn"
    down, up = (tensors[f"{name}.lora_{which}.weight"] for which in "AB")
    assert down.shape == (2, 32) and up.shape == (96, 2)
    product = before[0] + 1.5 * (up @ down).T
    np.testing.assert_allclose(arrays(model)[kernel][0], product, atol=1e-6)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert settings["fan_in_fan_out"] and settings["target_modules"] == ["c_attn"]
    assert settings["modules_to_save"] == ["score"] and settings["lora_alpha"] == 3.0
