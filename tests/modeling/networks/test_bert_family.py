"""BERT's relatives: recorded outputs and gradients of transformers, and invariances.

The weights of the recorded cases have a deviation of 0.4, so that outputs are of order
1; 1e-5 is the rounding of float32, and a change that must be seen is 0.01 or more.
"""

import dataclasses
import functools
import json

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from contract import errors
from data_pipeline.batches import sharing
from loading import model_directory
from modeling import kernels, kernels_tf, models, pretrainers, sequences
from modeling.checkpoints import comparison, conversion, names
from modeling.configs import config_files
from modeling.features import attention_maps, head_config, text_vectors
from modeling.networks import catalogue
from tasks import conversion as conversion_task
from tests import daily, family_weights, read_model

ROUNDING, VISIBLE = 1e-5, 1e-2
CASES = family_weights.read_cases()
CASES |= family_weights.read_cases(family_weights.MPNET)
NETWORKS = ("distilbert", "roberta", "electra", "albert", "mpnet")
# Of what distances do not touch, those of MPNet take their time with `-m slow`.
BUT_MPNET = daily.params(NETWORKS, lambda network: network != "mpnet")
# One with and one without segments; a factorized table, and distances.
TWO_DAILY = daily.params(NETWORKS, lambda network: network in ("albert", "mpnet"))
READS_SEGMENTS = ("electra", "albert")
TWO_SEGMENTS = "roberta-Model-types_2"
TASKS = ("QuestionAnswering", "TokenClassification", "MultipleChoice")
# Names of outputs here.
LOGITS = ("logits", "masked_lm_logits", "replaced_logits")
OUTPUTS = {
    "prediction_logits": "masked_lm_logits",
    "sop_logits": "next_sentence_logits",
    "seq_relationship_logits": "next_sentence_logits",
    "pooler_output": "pooled_output",
}


def write_case(name, directory):
    """Writes a case into a folder of its name; returns it with its config."""
    CASES[name].write(directory / name)
    return directory / name, model_directory.read_config(
        directory / name / "config.json"
    )


@pytest.fixture(scope="module")
def open_case(tmp_path_factory):
    """A function of the name of a case to a Converted of fresh variables."""

    def read(name, **settings):
        written = write_case(name, tmp_path_factory.mktemp("case"))
        return read_model.read(*written, **settings)

    return read


def features_of(case):
    return {name: tf.constant(value) for name, value in case.features().items()}


FEATURES = features_of(CASES["albert-ForPreTraining"])  # two segments, and padding
IS_REAL = FEATURES["input_mask"].numpy().astype(bool)


def make(network, head="classifier", num_classes=3, *, stddev=None, **changes):
    """A model of a network, of wide initial values; `changes` are of its config."""
    config = config_files.from_values(
        dataclasses.asdict(read_config(network)) | {"initializer_range": 0.4}
    )
    fields = {key: changes.pop(key) for key in [*changes] if hasattr(config, key)}
    keras.utils.set_random_seed(3)
    config = dataclasses.replace(config, **fields)
    model = pretrainers.build(head, num_classes, config, **changes)
    for variable in model.trainable_variables if stddev is None else ():
        if not variable.path.endswith("gamma"):
            # Keras numbers models of one kind, in a process.
            name = variable.path.split("/", 1)[1]
            noise = tf.random.stateless_normal(variable.shape, [len(name), 2])
            variable.assign_add(0.2 * noise)
    return model


@functools.cache
def read_config(network):
    raw = CASES[f"{network}-Model"].config
    return catalogue.of_model_type(network).config.from_dict(raw)


def seed_of(number):
    return tf.constant([1, number], tf.int64)


def largest(actual, expected):
    """The largest difference, divided by the largest value if that exceeds 1."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    return np.abs(actual - expected).max() / max(1, np.abs(expected).max())


def paired(model, case):
    """{name: (our output, theirs)} at real tokens; ours are tensors."""
    features = features_of(case)
    is_real = case.inputs["attention_mask"].astype(bool)
    encoded, pairs = model.encode(sequences.as_rows(features), None), {}
    outputs = encoded if type(model) is models.BertModel else model(features)
    for key, expected in case.outputs.items():
        if key == "hidden_states":
            # That of the embeddings is the input of the first block, also of E -> D.
            states = tf.stack([encoded["embedding_output"], *encoded["layer_outputs"]])
            pairs[key] = states, expected
        elif key == "logits":
            (ours,) = [name for name in LOGITS if name in outputs]
            pairs[key] = outputs[ours], expected
        else:
            pairs[key] = outputs[OUTPUTS.get(key, key)], expected
    for key, (ours, theirs) in pairs.items():
        axis = int(key == "hidden_states")
        if theirs.shape[axis : axis + 2] == is_real.shape:
            mask = tf.constant(is_real)
            theirs = theirs[:, is_real] if axis else theirs[is_real]
            pairs[key] = tf.boolean_mask(ours, mask, axis), theirs
    return pairs


@pytest.mark.parametrize(
    "name",
    daily.params(
        sorted(CASES.keys() - {TWO_SEGMENTS}),
        # Heads of tasks are the same for every network.
        lambda name: name.startswith("roberta") or not name.endswith(TASKS),
    ),
)
def test_outputs_are_those_of_transformers(open_case, name):
    read = open_case(name)
    assert read.report.unused == ()
    # Their classes for one task lack what it does not need.
    idle = ("/pooler/", "/seq_relationship/")
    assert all(any(part in key for part in idle) for key in read.report.missing)
    pairs = paired(read.model, CASES[name])
    assert pairs.keys() == CASES[name].outputs.keys()
    for ours, theirs in pairs.values():
        assert largest(ours, theirs) < ROUNDING
    # Every variable of the file moves an output.
    rows = [r for r in names.named_variables(read.model) if len(r[0].hugging_face)]
    with tf.GradientTape() as tape:
        pairs = paired(read.model, CASES[name])
        total = sum(tf.reduce_sum(tf.sin(ours) ** 2) for ours, _ in pairs.values())
    slopes = tape.gradient(total, [variable.value for _, variable in rows])
    for (row, _), slope in zip(rows, slopes, strict=True):
        # Except for the sum of all scores, which a softmax ignores.
        if row.google in read.report.assigned and not row.path.endswith("key/bias"):
            assert tf.reduce_max(tf.abs(tf.convert_to_tensor(slope))) > 1e-4, row.path


def test_robertas_tokens_are_of_the_first_segment(open_case):
    """As its tokenizers have it, also where the table has a second one."""
    model, case = open_case(TWO_SEGMENTS).model, CASES[TWO_SEGMENTS]
    segments = case.inputs["token_type_ids"]
    embedded = np.asarray(model.encode(features_of(case), None)["embedding_output"])
    expected, mask = case.outputs["hidden_states"][0], case.inputs["attention_mask"]
    first, second = ((segments == number) & (mask == 1) for number in (0, 1))
    assert largest(embedded[first], expected[first]) < ROUNDING
    assert np.abs(embedded - expected)[second].max(axis=-1).min() > VISIBLE
    # With the second row in place of the first the others are equal.
    table = model.network.embeddings.token_type_embeddings
    table.assign(table.numpy()[::-1])
    embedded = np.asarray(model.encode(features_of(case), None)["embedding_output"])
    assert largest(embedded[second], expected[second]) < ROUNDING


# {model type: how its names and classes begin} of those with RoBERTa's network.
KIN = {"camembert": ("roberta", "Camembert")}
KIN["data2vec-text"] = "data2vec_text", "Data2VecText"


@pytest.mark.parametrize("model_type", KIN)
@pytest.mark.parametrize("head", ["ForMaskedLM", "ForSequenceClassification"])
def test_kin_of_roberta_has_its_outputs(tmp_path, model_type, head):
    case, (prefix, kind) = CASES[f"roberta-{head}"], KIN[model_type]
    weights = {
        key.replace("roberta.", f"{prefix}."): value
        for key, value in family_weights.draw(case.shapes).items()
    }
    raw = {**case.config, "model_type": model_type, "architectures": [kind + head]}
    (tmp_path / "config.json").write_text(json.dumps(raw))
    safetensors.numpy.save_file(weights, tmp_path / "model.safetensors")
    config_file = tmp_path / "config.json"
    read = read_model.read(tmp_path, model_directory.read_config(config_file))
    assert not read.report.unused
    for ours, theirs in paired(read.model, case).values():
        assert largest(ours, theirs) < ROUNDING
    left_out = {"left_out": read.report.missing}
    conversion.write_directory(tmp_path / "a", read.model, "hugging_face", **left_out)
    written = safetensors.numpy.load_file(tmp_path / "a" / "model.safetensors")
    assert written.keys() == weights.keys()
    assert all(np.array_equal(written[key], weights[key]) for key in weights)
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == (
        model_type,
        [kind + head],
    )
    # The names of the other are not taken for its own.
    others = {key.replace(f"{prefix}.", "bert."): v for key, v in weights.items()}
    safetensors.numpy.save_file(others, tmp_path / "model.safetensors")
    with pytest.raises(errors.InputError):
        read_model.read(tmp_path, read.model.config)


@pytest.mark.parametrize("network", BUT_MPNET)
def test_segments_are_read_where_a_network_has_them(network):
    model = make(network)
    others = {**FEATURES, "segment_ids": 1 - FEATURES["segment_ids"]}
    moved = np.abs(model(FEATURES)["logits"] - model(others)["logits"]).max()
    assert moved > VISIBLE if network in READS_SEGMENTS else moved == 0


def loss_of(name, model, case):
    """The loss of transformers."""
    features, labels = features_of(case), case.labels
    outputs, entropy = model(features), tf.nn.sparse_softmax_cross_entropy_with_logits
    if "replaced_logits" in outputs:
        wanted = labels["labels"].astype(np.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(
            wanted, outputs["replaced_logits"]
        )
        return tf.reduce_mean(losses[features["input_mask"] == 1])
    if "logits" in outputs:
        return tf.reduce_mean(entropy(labels["labels"], outputs["logits"]))
    is_masked = labels["labels"] >= 0
    logits = outputs["masked_lm_logits"][is_masked]
    loss = tf.reduce_mean(entropy(labels["labels"][is_masked], logits))
    if "sentence_order_label" in labels:
        order = outputs["next_sentence_logits"]
        loss += tf.reduce_mean(entropy(labels["sentence_order_label"], order))
    return loss


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n].loss is not None])
def test_losses_and_gradients_are_those_of_transformers(open_case, name):
    model, case = open_case(name).model, CASES[name]
    rows = names.named_variables(model)
    with tf.GradientTape() as tape:
        loss = loss_of(name, model, case)
    np.testing.assert_allclose(loss, case.loss, rtol=1e-6)
    slopes = tape.gradient(loss, [variable.value for _, variable in rows])
    ours = {
        row.hugging_face: row.to_hugging_face(tf.convert_to_tensor(slope).numpy())
        for (row, _), slope in zip(rows, slopes, strict=True)
        if slope is not None
    }
    for key, expected in case.gradients.items():
        assert largest(ours[key], expected) < ROUNDING, key
        is_blind = any(part in key for part in (".key.bias", ".k_lin.bias", ".k.bias"))
        assert np.abs(expected).max() > (0 if is_blind else 1e-5), key


@pytest.mark.parametrize(
    "name",
    daily.params(
        sorted(CASES),
        lambda name: name.endswith(("ForMaskedLM-untied", "ForPreTraining")),
    ),
)
def test_files_are_written_back_as_they_were(tmp_path, name):
    directory, config = write_case(name, tmp_path)
    read = read_model.read(directory, config)
    target = tmp_path / "back"
    conversion.write_directory(
        target, read.model, "hugging_face", left_out=read.report.missing
    )
    before, after = (
        safetensors.numpy.load_file(folder / "model.safetensors")
        for folder in (directory, target)
    )
    if "Model" in name:  # which they write without the prefix of the network
        after = {key.split(".", 1)[1]: value for key, value in after.items()}
    assert after.keys() == before.keys()
    idle = ["predictions.bias", "lm_head.bias"] if "untied" in name else []
    for key, value in before.items():
        if not key.endswith(tuple(idle)):  # a bias that nothing reads
            np.testing.assert_array_equal(after[key], value, err_msg=key)
    raw = json.loads((target / "config.json").read_text())
    ignored = {"dtype", "transformers_version"}  # of the program that wrote it
    for key, value in CASES[name].config.items():
        assert key in ignored or raw.get(key, False) == value, key
    again = read_model.read(target, model_directory.read_config(target / "config.json"))
    assert comparison.compare(read.model, again.model, read.report.missing) == 0


@pytest.mark.parametrize("network", BUT_MPNET)
@pytest.mark.parametrize(
    "head",
    [
        "classifier",
        pytest.param("pretraining", marks=pytest.mark.slow),
        pytest.param("span", marks=pytest.mark.slow),
    ],
)
def test_checkpoint_of_google_holds_the_same(tmp_path, network, head):
    model = make(network, head)
    conversion.write_directory(tmp_path, model, "google")
    again = conversion_task.read_again(tmp_path, "auto")
    assert type(again) is type(model)
    assert again.config.network_alone() == model.config.network_alone()
    assert comparison.compare(model, again) == 0
    changed = again.trainable_variables[0]
    changed.assign_add(tf.ones_like(changed))
    with pytest.raises(ValueError, match="was not kept"):
        comparison.compare(model, again)


def sequence(model, features, positions=None, seed=None):
    return np.asarray(model.encode(features, seed, positions)["sequence_output"])


@pytest.mark.parametrize("network", TWO_DAILY)
def test_sequences_that_share_rows_are_as_apart(network):
    model = make(network, "none")
    short = {name: grid[:, :4] for name, grid in FEATURES.items()}
    halves = {name: tf.concat([grid, grid], 0) for name, grid in short.items()}
    padded = {name: tf.pad(grid, [[0, 0], [0, 4]]) for name, grid in halves.items()}
    (packed,) = sharing.share_rows(tf.data.Dataset.from_tensors(padded), 1, None)
    assert packed["packed_sources"].shape[0] < 4
    is_real = padded["input_mask"].numpy().astype(bool)
    expected, actual = (sequence(model, each)[is_real] for each in (padded, packed))
    assert largest(actual, expected) < ROUNDING
    # Unless positions do not begin anew.
    starts = packed["packed_sources"] + 1
    moved = sequence(model, {**packed, "packed_sources": starts})[is_real]
    assert np.abs(moved - expected).max() > VISIBLE


@pytest.mark.parametrize("network", TWO_DAILY)
def test_chosen_positions_have_the_outputs_of_all(network):
    model, positions = make(network, "none"), tf.constant([[0, 5, 2], [0, 3, 1]])
    every = sequence(model, FEATURES)
    picked = np.take_along_axis(every, positions.numpy()[..., None], axis=1)
    assert largest(sequence(model, FEATURES, positions), picked) < ROUNDING
    other = sequence(model, FEATURES, positions[:, ::-1])
    assert np.abs(other - picked).max() > VISIBLE


def gradients(model, seed):
    with tf.GradientTape() as tape:
        outputs = model(FEATURES, training=True, seed=seed_of(seed))
        total = tf.reduce_sum(tf.sin(outputs["logits"]) ** 2)
    values = tape.gradient(total, [v.value for v in model.trainable_variables])
    return [tf.convert_to_tensor(v).numpy() for v in values if v is not None]


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_recomputed_blocks_have_equal_gradients(network):
    rates = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2}
    plain, again = (make(network, recompute=is_on, **rates) for is_on in (False, True))
    expected = gradients(plain, 1)
    for ours, theirs in zip(gradients(again, 1), expected, strict=True):
        assert largest(ours, theirs) < ROUNDING
    others = zip(gradients(again, 2), expected, strict=True)
    assert max(largest(*pair) for pair in others) > VISIBLE


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_bfloat16_gives_nearly_the_same(set_policy, network):
    settings = {"initializer_range": 0.1, "stddev": 0.1}
    expected = make(network, **settings)(FEATURES)["logits"]
    set_policy("mixed_bfloat16")
    model = make(network, **settings)
    actual = model(FEATURES)["logits"]
    assert {v.dtype for v in model.trainable_variables} == {"float32"}
    assert actual.dtype == tf.float32
    # With less nothing was computed in the half type at all.
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    assert 0.02 < error / 2.0**-8 < 5


@pytest.mark.parametrize("network", BUT_MPNET)
def test_joined_projections_compute_the_same_by_one_copy(network):
    model = make(network, num_hidden_layers=3)
    apart = model(FEATURES)["logits"]
    with kernels_tf.joined_projections(model) as variables:
        joined = model(FEATURES)["logits"]
        sizes = [tf.size(variable).numpy() for variable in variables]
        kernels_there = [v for v in variables if tuple(v.shape) in ((8, 24), (8, 16))]
        kernels_there[0].assign_add(tf.ones_like(kernels_there[0]))
        moved = model(FEATURES)["logits"]
    assert largest(joined, apart) < ROUNDING
    assert np.abs(moved - joined).max() > VISIBLE
    assert len(kernels_there) == model.config.num_blocks
    # As many numbers as without them.
    assert sum(sizes) == sum(np.size(variable) for variable in model.variables)
    assert largest(model(FEATURES)["logits"], apart) == 0


def test_passes_of_albert_share_weights_and_not_dropout():
    model = make("albert", hidden_dropout_prob=0.5, num_hidden_layers=3)
    first, second, third = model.network.blocks
    assert first.block is second.block is third.block
    hidden = tf.random.stateless_normal([2, 8, 8], [1, 2])
    bias = kernels.attention_bias(FEATURES["input_mask"])

    def run(block, seed=None):
        seed = None if seed is None else seed_of(seed)
        return np.asarray(block(hidden, bias, None, seed=seed))

    np.testing.assert_array_equal(run(first), run(third))
    outputs = [run(block, seed) for seed in (4, 5) for block in (first, second, third)]
    for number, output in enumerate(outputs):
        block = (first, second, third)[number % 3]
        np.testing.assert_array_equal(run(block, 4 + number // 3), output)
        for other in outputs[:number]:
            assert np.abs(other - output).max() > VISIBLE
    grouped = make("albert", num_hidden_groups=2, num_hidden_layers=3).network
    assert [each.block.index for each in grouped.blocks] == [0, 0, 1]


@pytest.mark.parametrize("network", TWO_DAILY)
def test_heads_read_mixed_layers_and_segments(network):
    reading = head_config.HeadConfig(
        layer_mix="learned", head="bilstm", bilstm_layers=1, bilstm_units=4
    )
    model = make(network, "span", None, reading=reading)
    assert model.source.adds_segments == (network not in READS_SEGMENTS)
    states = np.asarray(model.source.layer_states(FEATURES))
    outputs = model.encode(FEATURES, None)
    wanted = [outputs["embedding_output"], *outputs["layer_outputs"]]
    assert largest(states, np.stack(wanted, axis=2)) == 0
    logits = model(FEATURES)["start_logits"]
    others = {**FEATURES, "segment_ids": 1 - FEATURES["segment_ids"]}
    assert np.abs(model(others)["start_logits"] - logits).max() > 1e-3
    model.layer_mix.logits.assign([9.0, 0.0, 0.0])
    assert np.abs(model(FEATURES)["start_logits"] - logits).max() > 1e-3


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("network", TWO_DAILY)
def test_vectors_of_texts_are_pooled(network, pooling):
    projection = text_vectors.Projection(5, "tanh")
    how = text_vectors.TextVectors(pooling, True, (projection,))
    model = make(network, "text_encoder", None, text_vectors=how)
    hidden, mask = sequence(model, FEATURES), IS_REAL[..., None]
    pooled = (hidden * mask).sum(1) / mask.sum(1)
    pooled = hidden[:, 0] if pooling == "cls" else pooled
    (layer,) = model.projections
    vectors = np.tanh(pooled @ layer.kernel.numpy() + layer.bias.numpy())
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert largest(model(FEATURES)["vectors"], vectors) < ROUNDING


@pytest.mark.parametrize("network", TWO_DAILY)
def test_attention_maps_are_those_of_the_layers(network):
    model = make(network, "none")
    mask, outputs = FEATURES["input_mask"], model.encode(FEATURES, None)
    maps = np.asarray(attention_maps.compute(model.network, outputs, mask))
    expected = np.broadcast_to(IS_REAL[:, None, None], maps.shape[:4])
    np.testing.assert_allclose(maps.sum(-1), expected, atol=ROUNDING)
    bias = model.network.bias(mask)
    inputs = [outputs["embedding_output"], *outputs["layer_outputs"]]
    for number, block in enumerate(model.network.blocks):
        _, _, value = block.attention.project(inputs[number], inputs[number])
        mixed = tf.transpose(tf.matmul(maps[:, number], value), (0, 2, 1, 3))
        mixed = block.attention.output_projection(tf.reshape(mixed, (2, 8, 8)))
        actual = block.attention(inputs[number], bias)
        assert largest(mixed[IS_REAL], actual[IS_REAL]) < ROUNDING
    assert np.abs(maps[:, 0] - maps[:, 1]).max() > VISIBLE
