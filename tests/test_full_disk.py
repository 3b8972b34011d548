"""Results that do not fit on the disk: one line, exit code 2, nothing by halves."""

import pytest

from data_pipeline import label_maps
from data_pipeline.batches import tf_records
from data_pipeline.tagging import schemes, scores
from modeling import models
from modeling.checkpoints import google
from modeling.configs import config
from serving import export
from tests import full_disk, tiny, tiny_tags

TAGS = ["O", *(f"{letter}-{label}" for letter in "BI" for label in tiny.LABELS)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("uncased")
    tiny.write_model(path / "model", num_hidden_layers=1)
    tiny.write_tables(path)
    tiny_tags.write_splits(path)
    return path


def save_weights(place, model_type, num_classes, path):
    shape = config.BertConfig.from_json_file(place / "model" / "bert_config.json")
    model = model_type(shape, num_classes)
    model.build()
    google.save(path, model)


def test_predictions_are_whole_or_absent(place, tmp_path, monkeypatch):
    weights, out = tmp_path / "trained.ckpt", tmp_path / "out"
    save_weights(place, models.BertTagger, len(TAGS), weights)
    names = label_maps.text(schemes.TagNames(tuple(TAGS), "BIO"))
    (tmp_path / "label_map.json").write_text(names)
    before = fill_disk(monkeypatch, scores, "write_all", out)
    done = tiny.run_script(
        "run_tagger",
        f"--pretrained={place}/model --init_checkpoint={weights}",
        f"--test_file={place}/test.conll --output_dir={out} --do_predict",
        "--max_seq_length=24",
    )
    assert_refused(done, f"{out}/")
    assert "predictions: " not in done.out
    assert tiny.listing(out) == before
    assert not {"test_tags.conll", "test_predictions.jsonl"} & before.keys()


def fill_disk(monkeypatch, module, name, out, after=150):
    """The disk is full in calls of a function; returns what `out` holds before them."""
    write, before = getattr(module, name), {}

    def write_on_a_full_disk(*arguments, **options):
        before.update(tiny.listing(out))
        with full_disk.full_disk(after=after):
            return write(*arguments, **options)

    monkeypatch.setattr(module, name, write_on_a_full_disk)
    return before


def assert_refused(done, path):
    assert done.code == 2, done.err
    line = done.err.splitlines()[-1]
    assert line.startswith(f"error: {path}"), done.err
    assert "File too large" in line and "make room" in line
    assert "Traceback" not in done.err and "node" not in line


def test_export_names_no_file_that_it_does_not_write(place, tmp_path):
    weights = tmp_path / "trained.ckpt"
    save_weights(place, models.BertClassifier, len(tiny.LABELS), weights)
    line = tiny.refuse(
        "run_classifier",
        f"--pretrained={place}/model --init_checkpoint={weights} --do_export",
        f"--output_dir={place}/dev.tsv/out --max_seq_length=24",
        f"--labels={','.join(tiny.LABELS)}",
    )
    assert line.startswith(f"error: --output_dir={place}/dev.tsv/out: cannot be writ")
    assert "eval_results" not in line and "make room" not in line


# What writes each file, and flags of a run that writes it; no file is small enough.
WRITERS = {
    "eval.tf_record": (tf_records, "write", "--do_eval", 150),
    "export/1": (export, "save", "--do_export", 30_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("file", WRITERS)
def test_what_a_run_writes_is_whole_or_absent(place, tmp_path, monkeypatch, file):
    module, name, action, after = WRITERS[file]
    weights, out = tmp_path / "trained.ckpt", tmp_path / "out"
    save_weights(place, models.BertClassifier, len(tiny.LABELS), weights)
    before = fill_disk(monkeypatch, module, name, out, after)
    done = tiny.run_classifier(
        f"--pretrained={place}/model --init_checkpoint={weights} {action}",
        f"--output_dir={out} --dev_file={place}/dev.tsv --max_seq_length=24",
        f"--labels={','.join(tiny.LABELS)}",
    )
    assert_refused(done, f"{out}/{file}: cannot be written")
    left = tiny.listing(out).keys() - before.keys()
    assert all("tfevents" in path for path in left)
    assert not (out / "export").exists() or not list((out / "export").iterdir())
