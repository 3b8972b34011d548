"""CrossEncoders of sentence-transformers: one number for a pair, mostly its sigmoid.

The expected numbers are those of its `predict`: of the logit the activation that the
files name, or a sigmoid where they name none.
"""

import json
import shutil

import numpy as np
import pytest

import bert_reborn as bert
from loading import model_directory
from serving import formats, predictor, reranking, search_encoders
from serving.protocol import servables
from serving.server import tasks
from tests import daily, tiny
from tests.refusals import refused
from tests.serving.server import running

QUERY, PASSAGES = "a great film", [text for text, _ in tiny.rows(6)]
TORCH = "torch.nn.modules."
SIGMOID, IDENTITY = f"{TORCH}activation.Sigmoid", f"{TORCH}linear.Identity"
TRANSFORMER = "sentence_transformers.base.modules.transformer.Transformer"
TASK = {"transformer_task": "sequence-classification", "module_output_name": "scores"}
OLDEST = "sbert_ce_default_activation_function"


def new(**more):
    """config_sentence_transformers.json as 5.4 and later write it."""
    return {"model_type": "CrossEncoder", "prompts": {}, **more}


# {name: (keys of config.json, config_sentence_transformers.json, whether the number is
# a sigmoid)}; the latter comes with a modules.json.
FORMS = {
    "plain": ({}, None, False),
    "plain_regression": ({"problem_type": "regression"}, None, False),
    "new": ({}, new(activation_fn=SIGMOID), True),
    "new_without": ({}, new(), True),
    "new_null": ({}, new(activation_fn=None), True),
    "new_identity": (
        {"sentence_transformers": {"activation_fn": SIGMOID}},
        new(activation_fn=IDENTITY),
        False,
    ),
    "version_4": ({"sentence_transformers": {"activation_fn": SIGMOID}}, None, True),
    "version_4_without": ({"sentence_transformers": {"version": "4.1.0"}}, None, True),
    "version_4_identity": (
        {"sentence_transformers": {"activation_fn": IDENTITY}, OLDEST: SIGMOID},
        None,
        False,
    ),
    "version_2": ({OLDEST: SIGMOID}, None, True),
    "version_2_identity": ({OLDEST: "torch.nn.Identity"}, None, False),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A classifier of one label, as transformers saves it, and its logits."""
    path = tmp_path_factory.mktemp("models")
    tiny.write_model(path / "google", num_hidden_layers=1, initializer_range=1.0)
    model = bert.classifier(path / "google", problem_type="regression").loaded
    for variable in model.model.classifier.variables:
        variable.assign(variable * 10)  # so that scores are apart
    model.save(path / "hf", "hugging_face")
    (path / "hf" / "label_map.json").unlink()
    put(path / "hf" / "config.json", problem_type=None)
    inputs = model.encode([QUERY] * len(PASSAGES), PASSAGES)
    logits = np.asarray(model.model(inputs, training=False)["logits"])[:, 0]
    assert np.ptp(logits) > 1.0
    return path / "hf", logits.astype(np.float64)


def put(path, value=None, **more):
    kept = json.loads(path.read_text()) if value is None else value
    path.write_text(json.dumps({**kept, **more} if isinstance(kept, dict) else kept))


def scaled(logits, is_sigmoid):
    return 1.0 / (1.0 + np.exp(-logits)) if is_sigmoid else logits


def write(source, root, form, place=""):
    keys, settings, is_sigmoid = FORMS[form]
    place = place if settings else ""
    shutil.copytree(source[0], root / place)
    put(root / place / "config.json", **keys)
    if settings:
        put(root / "modules.json", [{"type": TRANSFORMER, "path": place}])
        put(root / "config_sentence_transformers.json", settings)
        put(root / place / "sentence_bert_config.json", TASK)
    return root, scaled(source[1], is_sigmoid)


def in_order(ranked):
    assert ranked == sorted(ranked, key=lambda row: -row[1])
    return [score for _, score in sorted(ranked)]


@pytest.mark.parametrize("form", FORMS)
def test_files_name_the_activation(source, tmp_path, form, caplog):
    path, _ = write(source, tmp_path / "model", form)
    opened, _ = model_directory.open_directory(path, head="auto")
    classes = opened.stored_head("classifier").classes
    assert classes.problem_type == "regression"
    assert classes.activation == ("sigmoid" if FORMS[form][2] else "")
    assert "without effect" not in caplog.text


@pytest.mark.parametrize(
    "form", daily.params(FORMS, lambda form: form in ("plain", "new"))
)
def test_scores_are_those_of_the_library(source, tmp_path, form):
    path, expected = write(source, tmp_path / "model", form, form[:3])
    model, same = bert.load(path), {"rtol": 0, "atol": 1e-6}
    pairs = [QUERY] * len(PASSAGES), PASSAGES
    rows = model.predict(*pairs)
    np.testing.assert_allclose([row["score"] for row in rows], expected, **same)
    assert in_order(model.rerank(QUERY, PASSAGES)) == [row["score"] for row in rows]
    loss = "BinaryCrossentropy" if FORMS[form][2] else "MeanSquaredError"
    assert type(model.model.make_loss()).__name__ == loss  # of Keras' fit
    scores = reranking.open_source(str(path), None).scores(*pairs)
    np.testing.assert_allclose(scores, expected, **same)
    for name in ("google", "hugging_face"):
        model.save(tmp_path / name, name)
        assert bert.load(tmp_path / name).classes == model.classes


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "new"])
def test_scripts_score_as_the_library(source, tmp_path, form):
    path, expected = write(source, tmp_path / "model", form, "0_Transformer")
    pairs = [QUERY] * len(PASSAGES), PASSAGES
    cells = [*zip(*pairs, expected, strict=True)]
    tiny.write_tsv(tmp_path / "rows.tsv", ("text_a", "text_b", "label"), cells)
    flags = f"--pretrained={path} --problem_type=regression --text_a_column=text_a"
    flags += f" --text_b_column=text_b --output_dir={tmp_path}/out --max_seq_length=32"
    flags += f" --do_predict --test_file={tmp_path}/rows.tsv --label_column=label"
    flags += f" --do_eval --dev_file={tmp_path}/rows.tsv"
    tiny.succeed("run_classifier", flags)
    scores = [row["score"] for row in tiny.predictions(tmp_path / "out")]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
    results = tiny.eval_results(tmp_path / "out")
    assert results["eval_loss"] < 1e-10 and results["eval_pearson"] > 0.9999
    if form == "new":  # whose files tell that it is for pairs
        flags = f"--pretrained={path} --output_dir={tmp_path}/out --problem_type="
        flags += "regression --max_seq_length=32 --do_export"
        tiny.succeed("run_classifier", flags)
        exports = (tmp_path / "out" / "export",)
        exports += (bert.classifier(path).export(tmp_path / "classifier"),)
        for export in exports:
            rows = predictor.Predictor(export).predict(*pairs)
            scores = [row["score"] for row in rows]
            np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)
    flags = f"--input={path} --to=google --output_dir={tmp_path}/google"
    tiny.succeed("convert_checkpoint", flags)
    scores = in_order(bert.load(tmp_path / "google").rerank(QUERY, PASSAGES))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)


def test_settings_of_a_cross_encoder_that_are_not_computed_are_refused(
    source, tmp_path
):
    path, _ = write(source, tmp_path / "model", "new")
    settings = path / "config_sentence_transformers.json"
    for kind in (f"{TORCH}activation.Tanh", "own.Sigmoid", 3):
        put(settings, new(activation_fn=kind))
        for open_model in (bert.load, lambda p: reranking.open_source(str(p), None)):
            with refused(f"{settings}: activation_fn is {kind}", "Identity, Sigmoid"):
                open_model(path)
    put(settings, new())
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense")]
    modules = [{"type": f"sentence_transformers.{k}", "path": p} for k, p in modules]
    put(path / "modules.json", modules)
    with refused(f"{path}/modules.json: the modules of this CrossEncoder are", "Dense"):
        bert.load(path)
    put(path / "modules.json", modules[:1])
    put(path / "sentence_bert_config.json", {"transformer_task": "text-generation"})
    with refused('transformer_task is "text-generation"'):
        bert.load(path)


def test_length_is_that_of_its_tokenizer(source, tmp_path):
    for form, expected in (("version_4", 20), ("new", 20), ("plain", 48)):
        path, _ = write(source, tmp_path / form, form)
        put(path / "tokenizer_config.json", model_max_length=20)
        assert bert.load(path).max_seq_length == expected
    assert bert.load(path, max_seq_length=30).max_seq_length == 30


@pytest.mark.slow
def test_vectors_are_those_of_its_network(source, tmp_path):
    path, _ = write(source, tmp_path / "model", "new")
    model = bert.load(path, head="none", max_seq_length=48)
    encoder = search_encoders.open_source(search_encoders.Source(str(path)))
    expected = model.embed(PASSAGES, normalize=True)
    actual, _ = encoder.encode(PASSAGES)
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@pytest.mark.slow
def test_training_is_for_the_number_itself(source, tmp_path):
    path, _ = write(source, tmp_path / "model", "new")
    rows = [{"text_a": QUERY, "text_b": text, "label": 2.0} for text in PASSAGES]
    model = bert.classifier(path, problem_type="regression", max_seq_length=32)
    before = in_order(model.rerank(QUERY, PASSAGES))
    np.testing.assert_allclose(before, scaled(source[1], True), rtol=0, atol=1e-6)
    model.fit(rows, num_train_epochs=1, learning_rate=1e-30, train_batch_size=6)
    after = in_order(model.rerank(QUERY, PASSAGES))
    np.testing.assert_allclose(after, source[1], rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["saved_model", "onnx", "litert"])
def test_exports_score_as_the_directory(source, tmp_path, form):
    path, expected = write(source, tmp_path / "model", "version_4_without")
    columns = {"text_a_column": "a", "text_b_column": "b", "max_seq_length": 32}
    model = bert.classifier(path, problem_type="regression", **columns)
    version = formats.open_version(
        model.export(tmp_path / "export", export_format=form)
    )
    with running.running(servables.Model("pairs", {1: version})) as server:
        body = {"query": QUERY, "documents": PASSAGES}
        status, _, answer = server.request(tasks.RERANK, body)
    assert status == 200
    rows = [(row["index"], row["relevance_score"]) for row in answer["results"]]
    np.testing.assert_allclose(in_order(rows), expected, rtol=0, atol=1e-6)
    bert.load(path).export(tmp_path / "other", export_format=form)
    for place in ("export", "other"):
        opened = reranking.open_source(str(tmp_path / place), None)
        scores = in_order(opened.rerank(QUERY, PASSAGES))
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
        (row,) = predictor.Predictor(str(tmp_path / place)).predict(QUERY, PASSAGES[0])
        assert row["score"] == pytest.approx(expected[0], abs=1e-6)
