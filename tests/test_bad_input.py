"""Mistakes that people make: one line says what is wrong and what to do, at once.

Each case starts run_classifier.py on good input with one thing wrong with it.
"""

import json
import shutil

import pytest

from modeling.checkpoints import google
from tests import tiny


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "uncased_tiny"
    return tiny.write_model(path, num_hidden_layers=1)


@pytest.fixture
def place(model_dir, tmp_path):
    """A directory with a model, tables and an output directory that has a file."""
    shutil.copytree(model_dir, tmp_path / "model")
    tiny.write_tables(tmp_path, train=6, dev=3, test=3)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "eval_results.txt").write_text("eval_accuracy = 1.0\n")
    return tmp_path


class Flags(dict):
    """The flags of a run; a value of None leaves a flag out."""

    def arguments(self):
        return [
            f"--{name}={value}" for name, value in self.items() if value is not None
        ]


@pytest.fixture
def good(place):
    return Flags(
        bert_config_file=place / "model" / "bert_config.json",
        vocab_file=place / "model" / "vocab.txt",
        init_checkpoint=place / "model" / "bert_model.ckpt",
        train_file=place / "train.tsv",
        dev_file=place / "dev.tsv",
        test_file=place / "test.tsv",
        output_dir=place / "out",
        max_seq_length=16,
        train_batch_size=2,
        do_train=True,
    )


def assert_refused(place, wrong, *words):
    """The run ends before it has done anything, with one line that has all words."""
    before = tiny.listing(place)
    done = tiny.run_classifier(*wrong.arguments())
    assert done.code == 2, done.err
    assert done.err.startswith("error: ") and done.err.count("\n") == 1, done.err
    assert [word for word in words if str(word) not in done.err] == [], done.err
    assert "step" not in done.out
    assert tiny.listing(place) == before


# Text of train.tsv (bytes), further flags, and what the line has to say.
TABLES = {
    "unknown label": (
        b"text\tlabel\na film\tgood\nthe sea\tbad\nit was\tgod\n",
        {"labels": "bad,good"},
        ["train.tsv:4", "'god'", "closest: 'good'", "['bad', 'good']", "--labels"],
    ),
    "empty text": (
        b"text\tlabel\na film\tgood\n \tbad\n",
        {},
        ["train.tsv:3", "text_a is empty", "--allow_empty_text"],
    ),
    "too few columns": (
        b"text\tlabel\na film\tgood\nthe sea\n",
        {},
        ["train.tsv:3", "1 columns", "column 1 (label)", "correct the row"],
    ),
    "no such column": (
        b"text\tlabel\na film\tgood\nthe sea\tbad\n",
        {"label_column": "labbel"},
        ["train.tsv", "'labbel'", "['text', 'label']", "choose"],
    ),
    "invalid UTF-8": (
        b"text\tlabel\na film\tgood\nthe s\xe9a\tbad\n",
        {},
        ["train.tsv:3", "0xe9", "number 6", "convert the file to UTF-8"],
    ),
    "UTF-16": (
        "text\tlabel\na film\tgood\n".encode("utf-16"),
        {},
        ["train.tsv:1", "0xff", "convert the file to UTF-8"],
    ),
    "empty file": (b"", {}, ["train.tsv", "is empty", "one row per example"]),
    "only a header": (
        b"text\tlabel\n",
        {},
        ["train.tsv", "no rows", "one per example"],
    ),
    "blank line": (
        b"text\tlabel\na film\tgood\n\nthe sea\tbad\n",
        {},
        ["train.tsv:3", "blank line", "remove it"],
    ),
    "no header": (
        b"a film\tgood\nthe sea\tbad\n",
        {},
        ["train.tsv:1", "'a film'", "--text_a_column"],
    ),
    "one label": (
        b"text\tlabel\na film\tgood\nthe sea\tgood\n",
        {},
        ["classification needs 2 labels or more", "'good'", "--labels"],
    ),
    "label that is no number": (
        b"text\tscore\na film\t1.5\nthe sea\tnan\n",
        {"problem_type": "regression"},
        ["train.tsv:3", "'nan'", "finite number", "correct the row"],
    ),
    "quote in CSV": (
        b'text,label\n"a film,good\nthe sea,bad\n',
        {"file_format": "csv"},
        ["train.tsv:2", "CSV", "close each quote"],
    ),
    "line that is no JSON": (
        b'{"text": "a film", "label": "good"}\n{"text": the sea}\n',
        {"file_format": "jsonl"},
        ["train.tsv:2", "the sea", "JSON object", '{"text": "...", "label": "..."}'],
    ),
    "too few rows for a step": (
        b"text\tlabel\na film\tgood\nthe sea\tbad\n",
        {"train_batch_size": 32},
        ["2 training examples", "--train_batch_size=32", "lower the batch size"],
    ),
    "epochs without end": (
        b"text\tlabel\na film\tgood\nthe sea\tbad\n",
        {"num_train_epochs": 1e20},
        ["--num_train_epochs=1e+20 of 2 training", "more than 2,147,483,647", "lower"],
    ),
    "class without rows": (
        b"text\tlabel\na film\tgood\nthe sea\tbad\n",
        {"labels": "bad,fine,good", "class_weights": "balanced"},
        ["--class_weights=balanced", "'fine'", "add some"],
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_bad_table_is_refused(place, good, case):
    content, flags, words = TABLES[case]
    (place / "train.tsv").write_bytes(content)
    assert_refused(place, Flags(good | flags), *words)


# Content that looks odd and is none: it trains.
FINE = {
    "byte-order mark": b"\xef\xbb\xbftext\tlabel\na film\tgood\nthe sea\tbad\n",
    "CRLF": b"text\tlabel\r\na film\tgood\r\nthe sea\tbad\r\n",
    "quote": b'text\tlabel\n"a film\tgood\nthe "sea\tbad\n',
    "no last line feed": b"text\tlabel\na film\tgood\nthe sea\tbad",
    "BOM, CRLF and no header": b"\xef\xbb\xbfa film\tgood\r\nthe sea\tbad\r\n",
}


@pytest.mark.slow
def test_odd_tables_are_read(place, good):
    """All of them as dev sets of one model; cells are tested with the reader.

    And labels of test rows are not needed: neither is the column, nor that the model
    knows them.
    """
    flags = Flags(good, do_eval=True, do_predict=True, num_train_epochs=1)
    odd = list(FINE.items())
    (place / "train.tsv").write_bytes(odd[0][1])
    (place / "test.tsv").write_text("text\na film\nthe sea\n")
    flags["dev_file"] = flags["train_file"]
    done = tiny.run_classifier(*flags.arguments())
    assert done.code == 0, done.err
    expected = tiny.eval_results(place / "out")
    predicted = tiny.predictions(place / "out")
    assert "test_accuracy" not in done.out and len(predicted) == 2
    assert json.loads((place / "out" / "label_map.json").read_text()) == {
        "0": "bad",
        "1": "good",
        "problem_type": "classification",
    }
    (place / "test.tsv").write_text("text\tlabel\na film\t?\nthe sea\t?\n")
    for name, content in odd[1:]:
        (place / "dev.tsv").write_bytes(content)
        flags = Flags(good, do_eval=True, do_train=None, dev_file=place / "dev.tsv")
        if b"text" not in content:
            flags.update(text_a_column=0, label_column=1, has_header="false")
        flags["do_predict"] = True if name == "CRLF" else None
        done = tiny.run_classifier(*flags.arguments())
        assert done.code == 0, done.err
        assert "test_accuracy" not in done.out
        if name != "quote":  # which is a word of its own, [UNK] here
            assert tiny.eval_results(place / "out") == expected, name
    for row, before in zip(tiny.predictions(place / "out"), predicted, strict=True):
        assert row == {**before, "given": "?"}


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("bert_config_file", ["no such file", "beside the checkpoint"]),
        ("vocab_file", ["no such file", "beside the checkpoint"]),
        ("init_checkpoint", ["no checkpoint there", "bert_model.ckpt"]),
        ("train_file", ["no such file", "check the path"]),
    ],
)
def test_missing_file_is_refused(place, good, flag, words):
    good[flag] = place / "absent.xyz"
    if flag == "train_file":
        good[flag] = place / "absent.tsv"
    assert_refused(place, good, good[flag], *words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model/bert_config.json", ["bert_config.json"]),
        ("model/vocab.txt", ["vocab.txt"]),
        ("model/bert_model.ckpt.index", ["bert_model.ckpt", "copy"]),
        ("train.tsv.gz", ["train.tsv.gz", "complete, readable file"]),
    ],
)
def test_unreadable_file_is_refused(place, good, name, words):
    (place / name).write_bytes(b"\x8b\x1f\xfe not what it should be \xff" * 3)
    if name == "train.tsv.gz":
        good["train_file"] = place / name
    assert_refused(place, good, *words)


def test_directory_in_place_of_a_table_is_refused(place, good):
    good["train_file"] = place / "folder.tsv"
    good["train_file"].mkdir()
    assert_refused(place, good, "folder.tsv", "cannot be read")


def test_file_in_place_of_the_output_directory_is_refused(place, good):
    good["output_dir"] = place / "dev.tsv"
    assert_refused(place, good, "--output_dir", "dev.tsv", "directory")


def change_config(place, **changes):
    path = place / "model" / "bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"vocab_size": 300},
            ["vocab.txt has 46 entries", "vocab_size=300", "of one release"],
        ),
        (
            {"hidden_size": 16, "intermediate_size": 64},
            ["bert_model.ckpt", "hidden_size=16 (the file has 32)", "config file of"],
        ),
        (
            {"hidden_size": 31},
            ["bert_config.json", "hidden_size=31", "num_attention_heads=2", "correct"],
        ),
        (
            {"hidden_act": "swish"},
            ["bert_config.json", "swish", "must be one of"],
        ),
        (
            {"max_position_embeddings": 12},
            ["sequence length 16", "up to sequence length 12", "--max_seq_length"],
        ),
    ],
)
def test_parts_that_disagree_are_refused(place, good, changes, words):
    change_config(place, **changes)
    assert_refused(place, good, *words)


def test_length_above_the_positions_is_refused(place, good):
    good["max_seq_length"] = 49
    words = ("sequence length 49", "up to sequence length 48", "bert_config.json")
    assert_refused(place, good, *words, "lower --max_seq_length")


def test_vocabulary_of_another_model_is_refused(place, good):
    path = place / "model" / "vocab.txt"
    path.write_text(path.read_text() + "".join(f"word{i}\n" for i in range(9)))
    assert_refused(place, good, "vocab.txt has 55 entries", "vocab_size=46")


@pytest.mark.parametrize("is_cased", [True, False])
def test_case_that_contradicts_the_vocabulary_is_refused(place, good, is_cased):
    words = [f"{letter}{i}" for i in range(150) for letter in "abcd"]
    if is_cased:
        words = [
            word.capitalize() if i % 4 == 0 else word for i, word in enumerate(words)
        ]
    path = place / "model" / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in [*tiny.SPECIAL, *words]))
    change_config(place, vocab_size=len(words) + len(tiny.SPECIAL))
    good["do_lower_case"] = is_cased
    kind = "a cased vocabulary" if is_cased else "an uncased vocabulary"
    said = str(is_cased).lower()
    remedy = f"--do_lower_case={str(not is_cased).lower()}"
    assert_refused(place, good, f"--do_lower_case={said}", path, kind, remedy)


@pytest.mark.parametrize("action", ["do_eval", "do_predict", "do_export"])
def test_evaluation_without_a_trained_head_is_refused(place, good, action):
    good.update(do_train=None, labels="bad,fine,good")
    good[action] = True
    words = ("bert_model.ckpt", "lacks output_weights, output_bias", "--do_train")
    assert_refused(place, good, *words)


def test_evaluation_without_labels_is_refused(place, good):
    good.update(do_train=None, do_predict=True)
    assert_refused(place, good, "what the labels are", "--labels", "label_map.json")


def test_head_of_another_number_of_labels_is_refused(place, good):
    from modeling import models
    from modeling.configs import config

    shape = config.BertConfig.from_json_file(good["bert_config_file"])
    model = models.BertClassifier(shape, 5)
    model.build()
    good["init_checkpoint"] = place / "five.ckpt"
    google.save(good["init_checkpoint"], model)
    good.update(do_train=None, do_eval=True, labels="bad,fine,good")
    assert_refused(place, good, "five.ckpt", "lacks output_weights", "number of labels")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"do_train": None}, ["`do_train`", "must be True"]),
        ({"output_dir": None}, ["--output_dir is missing"]),
        ({"train_file": None}, ["--train_file is not set", "--task_name"]),
        ({"vocab_file": None}, ["--vocab_file is missing", "--pretrained"]),
        ({"task_name": "MRPX"}, ["Task not found: MRPX", "mrpc"]),
        ({"labels": "bad,good,bad"}, ["--labels", "'bad'", "remove one"]),
        ({"class_weights": "1,2"}, ["--class_weights=1,2", "2 numbers for 3 classes"]),
        ({"class_weights": "1,2,x"}, ["--class_weights=1,2,x", "'x'", "correct it"]),
        ({"early_stopping_patience": 2}, ["set --evaluate_steps"]),
        (
            {"evaluate_steps": 2, "best_metric": "bleu"},
            ["--best_metric=bleu", "accuracy", "loss"],
        ),
        ({"seeds": "1,two"}, ["--seeds=1,two", "whole numbers"]),
        ({"seeds": "1,1"}, ["--seeds=1,1 has 1 twice", "give it once"]),
        ({"seed": "99999999999999999999"}, ["is no seed", "up to 4294967295"]),
        ({"pretrained": "nowhere"}, ["--pretrained=nowhere", "no such directory"]),
        ({"text_b_column": "label"}, ["--text_a_column"]),
        ({"quantization": "float16"}, ["--quantization=float16", "=litert"]),
        (
            {"export_format": "litert", "export_server_config": True},
            ["--export_server_config is for SavedModels", "=litert"],
        ),
    ],
)
def test_flags_that_make_no_sense_are_refused(place, good, flags, words):
    assert_refused(place, Flags(good | flags), *words)


def test_labels_of_dev_rows_have_to_be_known_before_training(place, good):
    (place / "dev.tsv").write_text("text\tlabel\na film\tterrible\n")
    good["do_eval"] = True
    assert_refused(place, good, "dev.tsv:2", "'terrible'", "--labels")


def test_output_directory_of_another_run_is_refused(place, good):
    out = place / "out"
    identity = {"seed": 7, "max_seq_length": 128}
    (out / "run.json").write_text(json.dumps({"identity": identity}))
    words = ("another run", "seed was 7 and is 1", "--overwrite_output_dir")
    assert_refused(place, good, out, *words)


def test_directory_in_the_place_of_run_json_is_refused(place, good):
    (place / "out" / "run.json").mkdir()
    assert_refused(place, good, "run.json: cannot be read", "--overwrite_output_dir")


def test_deep_run_json_is_refused(place, good):
    (place / "out" / "run.json").write_text('{"identity":' * 50_000)
    assert_refused(place, good, "run.json: cannot be read", "--overwrite_output_dir")


def test_damaged_run_json_is_refused(place, good):
    (place / "out" / "run.json").write_text('{"identity": ')
    assert_refused(place, good, "run.json", "--overwrite_output_dir")
