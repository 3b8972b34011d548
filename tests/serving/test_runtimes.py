"""Tests of serving/runtimes.py: exports answer as the SavedModel of the same model.

Graphs of ONNX, layer by layer: test_onnx_graph.py.
"""

import contextlib
import os
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import errors, tf_serving
from contract import features as feature_names
from data_pipeline.batches import packing
from data_pipeline.classification import encoding
from data_pipeline.text import wordpiece
from modeling import losses, models
from modeling.features import head_config
from serving import export, formats, onnx_runtime, predictor, runtimes
from tests import daily
from tests.modeling import random_weights
from tests.serving import networks, test_export
from training.distribution import processor

CONFIG = test_export.CONFIG
ELMO, GPT = random_weights.ELMO, random_weights.GPT
BILSTM = {"head": "bilstm"}
LARGE = networks.config_for(  # as of XLM-RoBERTa large
    (),
    vocab_size=250002,
    hidden_size=1024,
    num_hidden_layers=24,
    intermediate_size=4096,
    max_position_embeddings=514,
)
ROUNDING = 1e-5  # of float32; the runtimes multiply in another order


def save(module, directory, export_format, quantization="none", files=None, **others):
    return formats.save(
        module,
        str(directory),
        files or {},
        model=module.stages.forward.model,
        export_format=export_format,
        quantization=quantization,
        **others,
    )


def assert_equal_answers(actual, expected):
    for answer, other in zip(actual, expected, strict=True):
        assert list(answer) == list(other) and answer["label"] == other["label"]
        ours, theirs = answer["probabilities"], other["probabilities"]
        assert list(ours) == list(theirs)
        values = [*ours.values()], [*theirs.values()]
        np.testing.assert_allclose(*values, atol=ROUNDING)


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    return test_export.make("classification", 1, folder / "export")


@pytest.fixture(
    scope="module", params=daily.params(runtimes.RUNTIMES, lambda name: name == "onnx")
)
def classifier(saved_model, request):
    exported, module = saved_model
    label_map = exported.version_dir / tf_serving.EXTRA_DIR / "label_map.json"
    files = {"label_map.json": label_map.read_text()}
    folder = exported.version_dir.parents[1]
    path = save(module, folder, request.param, files=files)
    assert path == str(folder / f"export_{request.param}" / "1")
    return exported, pathlib.Path(path)


def test_classifier_answers_as_its_saved_model(classifier):
    exported, path = classifier
    whole = predictor.Predictor(str(exported.version_dir))
    small = predictor.Predictor(str(path.parent))  # the newest version
    assert (small.labels, small.text_names) == (whole.labels, whole.text_names)
    expected = whole.predict(test_export.TEXTS)
    assert_equal_answers(small.predict(test_export.TEXTS), expected)
    assert len({answer["label"] for answer in expected}) > 1
    for text, answer in zip(test_export.TEXTS, expected, strict=True):
        assert_equal_answers(small.predict([text]), [answer])  # another shape
    assert small.predict([]) == []
    with pytest.raises(ValueError, match="takes text for each example, 2 given"):
        small.predict(["a"], ["b"])
    with pytest.raises(ValueError, match="choose among serving_default"):
        predictor.Predictor(str(path.parent), "ids")


def test_damaged_export_of_an_earlier_version_is_one_line(classifier, tmp_path):
    for name in (
        runtimes.RUNTIMES[runtimes.format_of(classifier[1])].MODEL,
        "tokenizer",
    ):
        version = pathlib.Path(shutil.copytree(classifier[1], tmp_path / name))
        (version / runtimes.CHECKSUMS).unlink()  # earlier exports have none
        (damaged,) = version.glob(f"{name}*")
        damaged.write_bytes(damaged.read_bytes()[:99])
        with pytest.raises(ValueError, match=r"cannot be loaded \(.*again, or export"):
            predictor.Predictor(str(version))


def test_changed_bit_of_any_file_is_refused(classifier, tmp_path):
    version = pathlib.Path(shutil.copytree(classifier[1], tmp_path / "version"))
    model = runtimes.RUNTIMES[runtimes.format_of(str(version))].MODEL
    names = [model, "tokenizer.json", "assets.extra/label_map.json"]
    for name in (*names, "texts/saved_model.pb"):
        content = (version / name).read_bytes()
        changed = bytearray(content)
        changed[len(content) // 2] ^= 1
        for damaged in (bytes(changed), content + b"\n"):
            (version / name).write_bytes(damaged)
            with pytest.raises(errors.InputError) as caught:
                predictor.Predictor(str(version))
            assert str(caught.value).startswith(f"{version / name}: is missing or dam")
            assert "export the model again" in str(caught.value)
        (version / name).write_bytes(content)
    assert predictor.Predictor(str(version)).predict("a")
    (version / "tokenizer.json").unlink()
    with pytest.raises(errors.InputError, match=r"tokenizer.json: is missing or dam"):
        predictor.Predictor(str(version))


def test_network_takes_slices_of_rows_of_similar_length(classifier, monkeypatch):
    exported, path = classifier
    expected = predictor.Predictor(str(exported.version_dir)).predict(test_export.TEXTS)
    counts, network = [], runtimes.open_network(str(path))

    def counting(features):
        counts.append(features["input_ids"].shape)
        return network(features)

    monkeypatch.setattr(runtimes, "open_network", lambda path: counting)
    monkeypatch.setattr(export, "SLICE_TOKENS", 20)
    monkeypatch.setattr(export, "CALL_TOKENS", 3)
    small = runtimes.open_version(str(path))
    columns = {"text": np.array(test_export.TEXTS, object)}
    actual = small.predict("", columns)["probabilities"]
    assert counts == [(1, 10), (2, 6), (2, 3)]
    wanted = [list(answer["probabilities"].values()) for answer in expected]
    np.testing.assert_allclose(actual, wanted, atol=ROUNDING)
    assert np.abs(np.roll(wanted, 2, axis=0) - wanted).max() > 1e-3
    none = small.predict("", {"text": np.array([], object)})
    assert none["probabilities"].shape == (0, 3)
    assert len(counts) == 4
    # Padding costs less than a call, where a call takes long.
    counting.call_tokens = 20
    padded = runtimes.open_version(str(path)).predict("", columns)["probabilities"]
    assert counts[4:] == [(2, 10), (3, 5)]
    np.testing.assert_allclose(padded, wanted, atol=ROUNDING)
    del counting.call_tokens, counts[4:]
    # Rows that would depend on each other, as in int8, are computed one by one.
    counting.has_independent_rows = False
    alone = runtimes.open_version(str(path)).predict("", columns)["probabilities"]
    assert counts[4:] == [(1, 10), (1, 6), (1, 5), (1, 3), (1, 2)]
    np.testing.assert_allclose(alone, wanted, atol=ROUNDING)
    # Several at once, where the network has a `map`, in the order of the texts.
    counting.map = lambda texts: [counting(each) for each in texts[::-1]][::-1]
    at_once = runtimes.open_version(str(path)).predict("", columns)["probabilities"]
    assert counts[9:] == counts[8:3:-1]
    np.testing.assert_array_equal(at_once, alone)


def centred_classifier():
    """A classifier so large that its weights are quantized: from 1024 elements on."""
    keras.utils.set_random_seed(4)
    sizes = {"vocab_size": 3000, "hidden_size": 128, "intermediate_size": 512}
    shape = networks.config_for((), initializer_range=0.2, **sizes)
    network = models.BertClassifier(shape, 3)
    network.build()
    ids = tf.random.stateless_uniform([7, 9], [1, 2], 0, 500, tf.int32)
    mask = tf.sequence_mask([9, 3, 1, 9, 5, 8, 2], 9, tf.int32)
    features = {"input_ids": ids * mask, "input_mask": mask, "segment_ids": 0 * mask}
    head = network.classifier.logits
    kernel = tf.random.stateless_normal(head.kernel.shape, [1, 4], stddev=0.1)
    head.kernel.assign(kernel)
    head.bias.assign(-tf.reduce_mean(network(features)["logits"], axis=0))
    return network, features


def served(network):
    tokenizer = wordpiece.BertTokenizer(["[UNK]", "[CLS]", "[SEP]", "a"])
    return export.TextClassifier(
        encoding.Encoder(tokenizer, 9),
        losses.WithProbabilities("classification", network),
        [variable.value for variable in network.variables],
        ("a", "b", "c"),
    )


def examples_of(features, rows=slice(None)):
    """The packed rows of features."""
    ids, mask = (np.asarray(features[n])[rows] for n in ("input_ids", "input_mask"))
    lengths = mask.sum(axis=1)
    tokens = ids[mask.astype(bool)].astype(np.int32)
    return packing.Packed(tokens, packing.row_splits(lengths), lengths)


@pytest.mark.parametrize("flags", ["avx2", "avx2 avx512_vnni"])  # of OpenVINO
def test_static_int8_has_scales_of_the_rows_that_it_is_given(
    flags, tmp_path, monkeypatch
):
    monkeypatch.setattr(processor, "instruction_sets", lambda: {*flags.split()})
    engine = "open_openvino" if "vnni" in flags else "open_onnxruntime"
    called = []
    running = getattr(onnx_runtime, engine)

    def opening(content):
        if opened := running(content):
            called.append(engine)
        return opened

    monkeypatch.setattr(onnx_runtime, engine, opening)
    network, features = centred_classifier()
    expected = tf.nn.softmax(network(features)["logits"])
    assert np.ptp(expected, axis=0).max() > 0.4

    def error(rows, folder):
        path = save(
            served(network),
            tmp_path / folder,
            "onnx",
            "static_int8",
            calibration=examples_of(features, rows),
        )
        running = runtimes.open_network(path)
        takes_long = engine == "open_openvino"
        assert (running.call_tokens > export.CALL_TOKENS) == takes_long
        actual = running(features)["probabilities"]
        for row in range(7):  # neighbours change nothing
            alone = running({k: v[row : row + 1] for k, v in features.items()})
            np.testing.assert_allclose(
                alone["probabilities"][0], actual[row], atol=ROUNDING
            )
        assert called.pop()
        return np.abs(actual - expected).max()

    of_all = error(slice(None), "all")
    assert 1e-3 < of_all < 0.04
    # Larger activations than those of one token are cut.
    assert error(slice(2, 3), "one") > 1.1 * of_all
    with pytest.raises(errors.InputError, match="calibrates scales on rows; give some"):
        save(served(network), tmp_path, "onnx", "static_int8")


# Errors are the largest of 7 rows. With the seeds 4 to 15 in the place of 4, of a
# softmax that varies by 0.42 to 0.65, LiteRT's dynamic int8 moves it by 0.008 to 0.039,
# float16 by 0.00016 to 0.00072.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("export_format", "quantization", "size", "smallest_error", "largest_error"),
    [
        ("litert", "dynamic_int8", 0.3, 1e-3, 0.04),
        ("onnx", "dynamic_int8", 0.3, 1e-3, 0.04),
        pytest.param("litert", "float16", 0.55, 5e-5, 1e-3, marks=pytest.mark.slow),
    ],
)
def test_quantization_makes_exports_smaller_and_coarser(
    export_format, quantization, size, smallest_error, largest_error, tmp_path, capsys
):
    network, features = centred_classifier()
    variables = [variable.value for variable in network.variables]
    path = save(served(network), tmp_path, export_format, quantization)
    assert capsys.readouterr().out.startswith(f"{quantization}: ")
    before = 4 * sum(variable.shape.num_elements() for variable in variables)
    file = os.path.join(path, runtimes.RUNTIMES[export_format].MODEL)
    assert os.path.getsize(file) < size * before

    expected = tf.nn.softmax(network(features)["logits"])
    assert np.ptp(expected, axis=0).max() > 0.4
    running = runtimes.open_network(path)
    actual = running(features)["probabilities"]
    assert smallest_error <= np.abs(actual - expected).max() < largest_error
    # Neighbours do not change how LiteRT rounds a row; ONNX Runtime has one scale.
    distance = max(
        np.abs(
            running({k: v[row : row + 1] for k, v in features.items()})["probabilities"]
            - actual[row]
        ).max()
        for row in range(7)
    )
    assert distance < ROUNDING if export_format == "litert" else distance > ROUNDING


def test_score_of_an_export_is_that_of_its_answers(tmp_path, monkeypatch):
    """Rows of dynamic int8 are computed one by one, whatever batch is scored."""
    monkeypatch.setattr(onnx_runtime, "open_openvino", None)  # which has no such scales
    network, features = centred_classifier()
    path = save(served(network), tmp_path, "onnx", "dynamic_int8")
    scored, together = formats.open_network(path), runtimes.open_network(path)
    actual = scored(features)["probabilities"].numpy()
    assert np.abs(together(features)["probabilities"] - actual).max() > 1e-4
    for row in range(7):
        cut = features["input_mask"][row].numpy().sum()
        alone = {k: v[row : row + 1, :cut] for k, v in features.items()}
        np.testing.assert_array_equal(
            together(alone)["probabilities"], actual[row : row + 1]
        )


def test_windows_of_a_text_are_calibrated_a_slice_at_a_time(monkeypatch):
    monkeypatch.setattr(export, "SLICE_TOKENS", 10)
    lengths = np.array([3, 4, 2, 0, 1])
    tokens = np.arange(lengths.sum(), dtype=np.int32)
    splits = packing.row_splits(lengths)
    text = packing.Packed(tokens, splits, lengths, num_sequences=5)
    rows = [*onnx_runtime._calibration_rows(text)]
    assert [each["input_ids"].shape for each in rows] == [(2, 4), (2, 4), (1, 4)]
    ids = np.concatenate([each["input_ids"][each["input_mask"] > 0] for each in rows])
    np.testing.assert_array_equal(ids, tokens)


def test_missing_package_is_named_with_the_remedy(classifier, monkeypatch):
    path = str(classifier[1])
    monkeypatch.setattr(errors.importlib.util, "find_spec", lambda name: None)
    is_litert = runtimes.format_of(path) == "litert"
    runs, writes = ("ai-edge-litert",) * 2
    if not is_litert:
        runs, writes = "onnxruntime", "onnxruntime onnx"
    with pytest.raises(ValueError, match=f"not installed: pip install {runs}$"):
        predictor.Predictor(path)
    with pytest.raises(ValueError, match=f"not installed: pip install {writes}$"):
        formats.check(runtimes.format_of(path), CONFIG, head_config.ORIGINAL)
    formats.check("saved_model", CONFIG, head_config.ORIGINAL)
    assert formats.open_network("a path") is None


@pytest.mark.parametrize(
    ("export_format", "config", "values", "sequences", "message"),
    [
        ("litert", ELMO, {}, "single", "for the LSTMs of an ELMo; leave it out"),
        ("litert", GPT, BILSTM, "single", "for the LSTMs of --head=bilstm; leave"),
        ("litert", CONFIG, {}, "compared", ""),
        ("onnx", ELMO, {}, "single", "ELMo is not written as ONNX; leave it out"),
        ("onnx", GPT, {}, "single", "is not written as ONNX"),
        ("onnx", LARGE, {}, "single", r"weights have 2\.2 GB, of 2\.1 that a file"),
        ("onnx", CONFIG, BILSTM, "single", "no --layer_mix and no --head"),
        ("onnx", CONFIG, {}, "compared", "examples of several sequences are not"),
        ("onnx", CONFIG, {}, "single", ""),
    ],
)
def test_models_are_refused_before_training(
    export_format, config, values, sequences, message
):
    reading = head_config.HeadConfig(**values)
    formats.check("saved_model", config, reading, sequences)
    refusal = pytest.raises(ValueError, match=message or None)
    with refusal if message else contextlib.nullcontext():
        formats.check(export_format, config, reading, sequences)


def test_slices_of_batches_of_different_rank_do_not_change_each_other(monkeypatch):
    """Masks of texts [B, S] and of choices [B, C, S], in any order, in one process."""
    monkeypatch.setattr(export, "CALL_TOKENS", 4)

    def network(features):
        return {"size": features["input_mask"].sum(axis=-1).astype(np.float32)}

    for shape in ((5, 9), (3, 2, 11), (6, 7), (4, 2, 8), (2, 3, 5), (5, 9)):
        mask = np.ones(shape, np.int32)
        mask[1:, ..., 3:] = 0
        features = {name: mask for name in feature_names.ENCODER_INPUTS}
        outputs = runtimes._run(network, (), True, features)
        np.testing.assert_array_equal(outputs["size"], mask.sum(axis=-1))
