"""The model of a step's costs: by hand, against the real network, and as documented."""

import dataclasses
import math
import re

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from benchmarks import cost_model
from modeling import pretrainers
from modeling.configs import config as config_lib
from tests import tiny

Batch = cost_model.Batch
TINY = config_lib.BertConfig(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=10,
    max_position_embeddings=16,
    type_vocab_size=2,
)
HARDWARE = cost_model.Hardware(
    gpu_teraflops=100.0,
    utilisation=0.5,
    link_gb_per_second=10.0,
    nic_gbit_per_second=40.0,  # 5 GB/s
    gpus_per_host=8,
    record_bytes_per_token=6.5,
    read_microseconds=3.0,
    parse_microseconds=19.0,
)


def released(size):
    return config_lib.BertConfig.from_json_file(
        tiny.ROOT / "configs" / f"bert_{size}.json"
    )


def products_of(model, shape, predictions, trains=False):
    """Operations of all matrix products in the graph of one pass, by their shapes."""
    features = {
        name: tf.TensorSpec(shape, tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    if predictions:
        masked = tf.TensorSpec((shape[0], predictions), tf.int32)
        features["masked_lm_positions"] = masked

    @tf.function
    def run(features):
        if not trains:
            return model(features)
        seed = tf.constant([1, 2], tf.int64)
        with tf.GradientTape() as tape:
            outputs = model(features, training=True, seed=seed)
        return tape.gradient(outputs, [v.value for v in model.trainable_variables])

    total = 0
    for node in run.get_concrete_function(features).graph.get_operations():
        if node.type in ("MatMul", "BatchMatMulV2"):
            transposed = "adj_x" if node.type == "BatchMatMulV2" else "transpose_a"
            inner = node.inputs[0].shape[-2 if node.get_attr(transposed) else -1]
            total += 2 * math.prod(node.outputs[0].shape) * inner
        else:
            assert "MatMul" not in node.type and "Einsum" not in node.type
    return total


def test_model_counts_what_the_network_has_and_does():
    """Variables and matrix products of the real network, of pretraining and of a
    classifier; the product of segment_ids with its two rows is not in the model."""
    pretrainer = pretrainers.build("pretraining", None, TINY)
    sizes = [np.prod(variable.shape) for variable in pretrainer.trainable_variables]
    assert cost_model.parameters(TINY) == sum(sizes)
    segments = 2 * (3 * 8) * 2 * 6
    counted = cost_model.forward_operations(TINY, Batch(3, 8, 4))
    assert products_of(pretrainer, (3, 8), 4) == counted + segments
    # Backwards as well; segment_ids need no gradient.
    counted = cost_model.training_operations(TINY, Batch(3, 8, 4))
    assert products_of(pretrainer, (3, 8), 4, trains=True) == counted + 2 * segments
    classifier = pretrainers.build("classifier", 2, TINY)
    counted = cost_model.forward_operations(TINY, Batch(3, 8))
    assert products_of(classifier, (3, 8), 0) == counted + segments


def test_released_networks_have_their_parameters():
    assert cost_model.parameters(released("base")) == 110_106_428
    assert cost_model.parameters(released("large")) == 336_226_108


def test_operations_of_a_tiny_step_by_hand():
    """Of one sequence of 8 tokens, 4 of them masked."""
    first = 8 * (4 * 6 * 6 + 2 * 6 * 10)  # four maps and the feed-forward layer
    first += 2 * 8 * 8 * 6  # scores, and sums of values
    last = 8 * 2 * 6 * 6  # keys and values
    last += 5 * (2 * 6 * 6 + 2 * 6 * 10) + 2 * 5 * 8 * 6  # of [CLS] and 4 tokens
    heads = 6 * 6 + 6 * 2 + 4 * (6 * 6 + 6 * 11)
    assert first == 2880 and last == 2016 and heads == 456
    found = cost_model.training_operations(TINY, Batch(1, 8, 4))
    assert found == 3 * 2 * (2880 + 2016 + 456)
    assert cost_model.training_operations(TINY, Batch(7, 8, 4)) == 7 * found


def test_gpus_send_twice_what_they_have_but_their_own():
    gradients = 4 * 110_106_428
    assert cost_model.sent_bytes(gradients, 8) == 770_744_996
    assert cost_model.sent_bytes(gradients, 1) == 0
    assert cost_model.sent_bytes(gradients, 64) == pytest.approx(867.1e6, rel=1e-4)


def test_slowest_way_decides_how_long_an_exchange_takes():
    def seconds(gpus, **changes):
        hardware = dataclasses.replace(HARDWARE, **changes)
        return cost_model.exchange_seconds(8e9, gpus, hardware)

    assert seconds(8) == pytest.approx(14e9 / 10e9)
    assert seconds(16) == pytest.approx(15e9 / 10e9)  # 8 cards, together 40 GB/s
    assert seconds(16, nic_gbit_per_second=4.0) == pytest.approx(15e9 / 4e9)
    assert seconds(8, nic_gbit_per_second=4.0) == seconds(8)  # within a host


def test_step_waits_for_the_slowest():
    base = released("base")
    one, eight = (
        cost_model.step(base, Batch(128, 128, 20), gpus, HARDWARE) for gpus in (1, 8)
    )
    operations = cost_model.training_operations(base, Batch(128, 128, 20))
    assert one.seconds == one.compute_seconds == pytest.approx(operations / 50e12)
    assert one.waits_for == "compute"
    assert eight.exchange_seconds == pytest.approx(0.0770744996)
    assert eight.seconds == one.seconds + eight.exchange_seconds
    slow = dataclasses.replace(HARDWARE, link_gb_per_second=1.0)
    assert cost_model.step(base, Batch(128, 128), 8, slow).waits_for == "exchange"
    slow = dataclasses.replace(HARDWARE, parse_microseconds=1000.0)
    step = cost_model.step(base, Batch(128, 128, 20), 8, slow)
    assert step.waits_for == "input"
    assert step.seconds == step.input_seconds == pytest.approx(1024 * 1003e-6)


def test_input_costs_what_was_measured():
    """The table of docs/distributed.md: CPU ms a batch of 32 records a host."""
    measured = {1: 0.7, 8: 1.4, 64: 6.3}
    one_a_host = dataclasses.replace(HARDWARE, gpus_per_host=1)
    for hosts, milliseconds in measured.items():
        step = cost_model.step(TINY, Batch(32, 128), hosts, one_a_host)
        assert 1e3 * step.input_seconds == pytest.approx(milliseconds, rel=0.08)
        assert step.read_bytes == hosts * 32 * 128 * 6.5


def test_memory_grows_with_the_square_of_the_length_by_the_weights_of_attention():
    assert cost_model.state_bytes(TINY, 4) == 16 * cost_model.parameters(TINY)
    assert cost_model.state_bytes(TINY, 2) == 18 * cost_model.parameters(TINY)
    minilm = dataclasses.replace(
        TINY, hidden_size=384, intermediate_size=1536, num_attention_heads=12
    )
    short, middle, long = (
        cost_model.activation_bytes(minilm, Batch(1, length), 4)
        for length in (128, 256, 384)
    )
    # One whole layer; the last one computes a single position.
    assert long - 2 * middle + short == 2 * 128**2 * 12 * 8
    token = 68 * 384 + 12 * 128 * 8  # in float32, the inner layer being 4 * 384
    embeddings_and_keys = (3 * 4 + 3 * 4) * 384
    assert short == 128 * (token + embeddings_and_keys) + token
    half = cost_model.activation_bytes(minilm, Batch(1, 128), 2)
    assert half == 128 * (38 * 384 + 12 * 128 * 6 + 16 * 384) + (
        38 * 384 + 12 * 128 * 6
    )


@pytest.fixture
def flag_values():
    with tiny.flags_of("benchmarks.cost_model"):
        flags.FLAGS(["cost_model"])
        yield flags.FLAGS


def test_documented_table_is_what_the_command_prints(flag_values, capsys, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    cost_model.main([])
    page = (tiny.ROOT / "docs" / "distributed.md").read_text("utf-8")
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 2 + 6
    assert printed in page
    flag_values.utilisation = 0.7
    cost_model.main([])
    assert capsys.readouterr().out not in page


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gpus", ["8", "0"], r"--gpus=0 is not a whole number of 1 or more"),
        ("max_seq_length", 600, r"--max_seq_length=600 exceeds .*=512 in .*base.json"),
        ("bert_config_files", ["none.json"], r"none.json: no such file"),
    ],
)
def test_wrong_flag_is_one_line(name, value, message, flag_values, capsys, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    setattr(flag_values, name, value)
    with pytest.raises(SystemExit, match="2"):
        cost_model.main([])
    found = capsys.readouterr()
    (line,) = found.err.splitlines()
    assert re.search(message, line) and not found.out
