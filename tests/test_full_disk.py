"""Predictions that do not fit on the disk: one line, exit code 2, nothing by halves."""

import pytest

from data_pipeline.classification import predictions
from data_pipeline.squad import answer_choice
from data_pipeline.tagging import tag_predictions, tag_sets
from modeling import config, models
from modeling.checkpoints import google
from tests import full_disk, tiny, tiny_questions, tiny_tags

TAGS = ["O", *(f"{letter}-{label}" for letter in "BI" for label in tiny.LABELS)]
# What writes the predictions of a script, its model, and flags that ask for them.
SCRIPTS = {
    "run_classifier": (
        (predictions, "write"),
        lambda shape: models.BertClassifier(shape, len(tiny.LABELS)),
        ["--test_file={}/test.tsv", f"--labels={','.join(tiny.LABELS)}"],
        {"test_results.tsv", "test_predictions.jsonl", "label_map.json"},
    ),
    "run_squad": (
        (answer_choice, "write"),
        models.BertSpanPredictor,
        ["--predict_file={}/dev.json", "--max_query_length=4", "--doc_stride=8"],
        {"predictions.json", "nbest_predictions.json"},
    ),
    "run_tagger": (
        (tag_predictions, "write_all"),
        lambda shape: models.BertTagger(shape, len(TAGS)),
        ["--test_file={}/test.conll"],
        {"test_tags.conll", "test_predictions.jsonl"},
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with a model and what the scripts predict."""
    path = tmp_path_factory.mktemp("uncased")
    tiny.write_model(path / "model", num_hidden_layers=1)
    tiny.write_tables(path)
    tiny_tags.write_splits(path)
    tiny_questions.version_1(path / "dev.json", 6)
    return path


@pytest.mark.parametrize("script", SCRIPTS)
def test_predictions_are_whole_or_absent(place, tmp_path, monkeypatch, script):
    (module, name), build, flags, written = SCRIPTS[script]
    weights, out = tmp_path / "trained.ckpt", tmp_path / "out"
    shape = config.BertConfig.from_json_file(place / "model" / "bert_config.json")
    model = build(shape)
    model.build()
    google.save(weights, model)
    if script == "run_tagger":
        names = tag_sets.map_text(tag_sets.TagSet(tuple(TAGS), "BIO"))
        (tmp_path / "label_map.json").write_text(names)
    arguments = [
        *(flag.format(place) for flag in flags),
        f"--pretrained={place}/model",
        f"--init_checkpoint={weights}",
        f"--output_dir={out}",
        "--do_predict",
        "--max_seq_length=24",
    ]
    write = getattr(module, name)
    before = {}

    def write_on_a_full_disk(*given):
        before.update(tiny.listing(out))
        with full_disk.full_disk(after=150):
            return write(*given)

    monkeypatch.setattr(module, name, write_on_a_full_disk)
    done = tiny.run_script(script, *arguments)
    assert done.code == 2, done.err
    line = done.err.splitlines()[-1]
    assert line.startswith(f"error: {out}/"), done.err
    assert "File too large" in line and "make room" in line
    assert "Traceback" not in done.err and "predictions: " not in done.out
    assert tiny.listing(out) == before and not written & before.keys()
