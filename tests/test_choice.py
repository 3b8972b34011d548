"""run_classifier.py where an example is several sequences, from end to end."""

import json

import numpy as np
import pytest

import bert_reborn as bert
from serving import predictor, streaming
from tests import tiny, tiny_gpt

CHOICES = ("one", "two", "three")
LENGTH = 16


def published(count, start=0):
    """(context, three answers, name of the right one): which says "great"."""
    rows = []
    for i in range(start, start + count):
        words = [tiny.FILLERS[(i * 7 + j * 3) % 10] for j in range(9)]
        answers = [
            f"{sign} {' '.join(words[k : k + 1 + (i + k) % 3])}"
            for k, sign in enumerate(("awful", "great", "okay"))
        ]
        order = [(i + k) % 3 for k in range(3)]
        right = CHOICES[order.index(1)]
        rows.append((" ".join(words[: 2 + i % 4]), *(answers[k] for k in order), right))
    return rows


@pytest.fixture(scope="module")
def table_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tables")
    header, start = ("text", *CHOICES, "label"), 0
    for name, count in (("train", 24), ("dev", 9), ("test", 7)):
        tiny.write_tsv(directory / f"{name}.tsv", header, published(count, start))
        start += count
    return directory


def arguments(model, tables, *splits):
    return [
        f"--pretrained={model}",
        f"--max_seq_length={LENGTH}",
        *(f"--{split}_file={tables}/{split}.tsv" for split in splits),
    ]


def shares(path):
    lines = (path / "test_results.tsv").read_text().splitlines()
    return np.array([[float(cell) for cell in line.split("\t")] for line in lines])


@pytest.mark.slow
def test_a_choice_is_learned_and_exported(model_dir, table_dir, tmp_path):
    trained = tmp_path
    tiny.succeed(
        *("run_classifier", *arguments(model_dir, table_dir, "train", "dev", "test")),
        f"--choice_columns={','.join(CHOICES)} --output_dir={trained}",
        "--do_train --do_eval --do_predict --do_export",
        "--learning_rate=3e-3 --num_train_epochs=12 --train_batch_size=8",
    )
    assert tiny.eval_results(trained)["eval_accuracy"] == 1.0
    assert json.loads((trained / "label_map.json").read_text()) == {
        **{"0": "one", "1": "two", "2": "three"},
        "problem_type": "choice",
    }
    actual = shares(trained)
    assert actual.shape == (7, 3)
    np.testing.assert_allclose(actual.sum(axis=1), 1.0, atol=1e-6)
    table = (table_dir / "test.tsv").read_text().splitlines()[1:]
    for values, shown, line in zip(
        actual, tiny.predictions(trained), table, strict=True
    ):
        context, *answers, right = line.split("\t")
        assert (shown["text_a"], shown["choices"]) == (context, answers)
        assert shown["label"] == right == CHOICES[values.argmax()] and shown["correct"]
    rows = tiny.predictions(trained)
    opened = predictor.Predictor(str(trained / "export"))
    assert opened.text_names == ["context", "choices", "choices", "choices"]
    columns = [[row["text_a"] for row in rows]]
    columns += [[row["choices"][i] for row in rows] for i in range(3)]
    actual = opened.predict(*columns)
    served = [[row["probabilities"][name] for name in CHOICES] for row in actual]
    np.testing.assert_allclose(served, shares(trained), atol=1e-5)
    assert [row["label"] for row in actual] == [row["label"] for row in rows]
    # A line of a stream has a list of answers.
    lines = [
        json.dumps({"context": rows[0]["text_a"], "choices": rows[0]["choices"]}),
        json.dumps({"context": "a", "choices": ["b"]}),
    ]
    first, second = streaming.answers(
        [line.encode() for line in lines], opened.text_names, opened.predict
    )
    assert first["label"] == rows[0]["label"] and first["choices"] == rows[0]["choices"]
    assert "give a list of 3 strings" in second["error"]
    loaded = bert.load(trained, max_seq_length=LENGTH)
    contexts, answers = zip(*((r["text_a"], r["choices"]) for r in rows), strict=True)
    actual = loaded.predict(contexts, choices=answers)
    python = [[row["probabilities"][name] for name in CHOICES] for row in actual]
    np.testing.assert_allclose(python, served, atol=1e-5)
    assert loaded.predict([], choices=[]) == opened.predict([], [], [], []) == []
    with pytest.raises(ValueError, match="choices: 1 for a text; give 3"):
        loaded.predict(["a"], choices=[["b"]])
    with pytest.raises(ValueError, match="choices: 0 for a text; give 3"):
        loaded.predict(["a"])


@pytest.mark.slow
def test_gpt_2_chooses_from_text_to_served_text(shared_file, table_dir, tmp_path):
    vocab_file = shared_file("golden/gpt2/tiny_model/encoder.json")
    model = tiny_gpt.write(tmp_path / "model", vocab_file)
    flags = [
        f"--bert_config_file={model}/config.json",
        f"--vocab_file={model}/encoder.json",
        *arguments(model, table_dir, "train", "dev", "test")[2:],
        *(f"--choice_columns={','.join(CHOICES)}", "--max_seq_length=60"),
        *("--lm_loss_weight=0.5", "--train_batch_size=8", "--learning_rate=3e-3"),
        *("--num_train_epochs=12", f"--output_dir={tmp_path}/out", "--log_steps=1"),
    ]
    actions = ("--do_train", "--do_eval", "--do_predict", "--do_export")
    done = tiny.run_classifier(*flags, *actions)
    assert done.code == 0, done.err
    assert tiny.eval_results(tmp_path / "out")["eval_accuracy"] > 0.5
    points = tiny.events(tmp_path / "out" / "train")
    loss, classifier_loss, lm_loss = (
        [value for _, value in points[f"train/{name}"]]
        for name in ("loss", "classifier_loss", "lm_loss")
    )
    assert lm_loss[-1] < lm_loss[0]
    weighted = classifier_loss[0] + 0.5 * lm_loss[0]
    assert loss[0] == pytest.approx(weighted, rel=1e-5)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    rows = len(json.loads(vocab_file.read_text())) + 3  # GPT's special tokens
    assert config["vocab_size"] == rows
    shown = tiny.predictions(tmp_path / "out")
    columns = [[row["text_a"] for row in shown]]
    columns += [[row["choices"][i] for row in shown] for i in range(3)]
    actual = predictor.Predictor(str(tmp_path / "out" / "export")).predict(*columns)
    served = [[row["probabilities"][name] for name in CHOICES] for row in actual]
    np.testing.assert_allclose(served, shares(tmp_path / "out"), atol=1e-5)
    loaded = bert.load(tmp_path / "out", max_seq_length=60)
    ids = loaded.encode(["a"], choices=[["b", "b", "b"]])["input_ids"].numpy()
    assert ids.shape[:2] == (1, 3)
    assert loaded.tokenizer.ids_to_tokens(ids[0, 0]) == [
        *("_start_", "a", "_delimiter_", "b", "_classify_")
    ]
