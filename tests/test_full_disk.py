"""Results that do not fit on the disk: one line, exit code 2, nothing by halves."""

import pytest

from contract import atomic_files
from data_pipeline.batches import tf_records
from data_pipeline.classification import predictions
from data_pipeline.squad import choice
from data_pipeline.tagging import predictions as tag_predictions
from data_pipeline.tagging import schemes
from modeling import models
from modeling.checkpoints import google
from modeling.configs import config
from serving import export
from tests import full_disk, tiny, tiny_questions, tiny_tags
from training import tensorboard

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
        (choice, "write"),
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


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=[] if script == "run_tagger" else pytest.mark.slow)
        for script in SCRIPTS
    ],
)
def test_predictions_are_whole_or_absent(place, tmp_path, monkeypatch, script):
    (module, name), build, flags, written = SCRIPTS[script]
    weights, out = tmp_path / "trained.ckpt", tmp_path / "out"
    shape = config.BertConfig.from_json_file(place / "model" / "bert_config.json")
    model = build(shape)
    model.build()
    google.save(weights, model)
    if script == "run_tagger":
        names = schemes.map_text(schemes.TagNames(tuple(TAGS), "BIO"))
        (tmp_path / "label_map.json").write_text(names)
    arguments = [
        *(flag.format(place) for flag in flags),
        f"--pretrained={place}/model",
        f"--init_checkpoint={weights}",
        f"--output_dir={out}",
        "--do_predict",
        "--max_seq_length=24",
    ]
    before = fill_disk(monkeypatch, module, name, out)
    done = tiny.run_script(script, *arguments)
    assert_refused(done, f"{out}/")
    assert "predictions: " not in done.out
    assert tiny.listing(out) == before and not written & before.keys()


def fill_disk(monkeypatch, module, name, out, of_path="", after=150):
    """The disk is full in calls of a function, those for one path if it is given.

    Returns what lies in the directory `out`, once it is called.
    """
    write, before = getattr(module, name), {}

    def write_on_a_full_disk(*given, **options):
        if not str(given[0]).endswith(of_path):
            return write(*given, **options)
        before.update(tiny.listing(out))
        with full_disk.full_disk(after=after):
            return write(*given, **options)

    monkeypatch.setattr(module, name, write_on_a_full_disk)
    return before


def assert_refused(done, path):
    assert done.code == 2, done.err
    line = done.err.splitlines()[-1]
    assert line.startswith(f"error: {path}"), done.err
    assert "File too large" in line and "make room" in line
    assert "Traceback" not in done.err and "node" not in line


# What writes each file, and flags of a run that writes it; no file is small enough.
WRITERS = {
    "eval.tf_record": (tf_records, "write", "", ["--do_eval"], 150),
    "eval": (tensorboard.Reporter, "write", "", ["--do_eval"], 10),
    "export/1": (export, "save", "", ["--do_export"], 30_000),
    "seeds.json": (
        *(atomic_files, "write_text", "seeds.json"),
        *(["--do_eval", "--seeds=1,2"], 150),
    ),
}


DAILY_FILES = ("eval.tf_record", "export/1")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=[] if file in DAILY_FILES else pytest.mark.slow)
        for file in WRITERS
    ],
)
def test_what_a_run_writes_is_whole_or_absent(place, tmp_path, monkeypatch, file):
    """Records, curves, exports and summaries; TF Serving finds no half of a version."""
    module, name, of_path, flags, after = WRITERS[file]
    weights, out = tmp_path / "trained.ckpt", tmp_path / "out"
    shape = config.BertConfig.from_json_file(place / "model" / "bert_config.json")
    model = models.BertClassifier(shape, len(tiny.LABELS))
    model.build()
    google.save(weights, model)
    before = fill_disk(monkeypatch, module, name, out, of_path, after)
    done = tiny.run_classifier(
        f"--pretrained={place}/model",
        f"--init_checkpoint={weights}",
        f"--output_dir={out}",
        f"--dev_file={place}/dev.tsv",
        f"--labels={','.join(tiny.LABELS)}",
        "--max_seq_length=24",
        *flags,
    )
    assert_refused(done, f"{out}/{file}: cannot be written")
    left = tiny.listing(out).keys() - before.keys()
    assert all("tfevents" in path for path in left)
    assert not (out / "export").exists() or not list((out / "export").iterdir())
