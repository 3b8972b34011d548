"""Scripts with BERT's relatives: what is trained, and what is refused."""

import json

import numpy as np
import pytest

import bert_reborn as bert
from tests import tiny, tiny_family

BRIEF = "--max_seq_length=16 --train_batch_size=8 --learning_rate=2e-3"
# Of one network, a pooler or a dense classifier, segments or none, shared layers.
KINDS = ("distilbert", "roberta", "electra", "albert")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A function of a model_type to a directory with a head of masked words."""
    path, known = tmp_path_factory.mktemp("models"), {}

    def find(model_type):
        if model_type not in known:
            known[model_type] = tiny_family.write_model(
                path / model_type, model_type, "pretraining"
            )
        return known[model_type]

    return find


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return tiny.write_tables(tmp_path_factory.mktemp("tables"))


@pytest.mark.slow
@pytest.mark.parametrize("model_type", KINDS)
def test_classifiers_are_trained_and_exported(models, tables, tmp_path, model_type):
    files = [f"--{name}_file={tables}/{name}.tsv" for name in ("train", "dev", "test")]
    tiny.succeed(
        "run_classifier",
        f"--pretrained={models(model_type)} --output_dir={tmp_path} {BRIEF}",
        *("--do_train --do_eval --do_predict --num_train_epochs=30", *files),
    )
    results = (tmp_path / "eval_results.txt").read_text()
    scores = dict(line.split(" = ") for line in results.splitlines())
    assert float(scores["eval_accuracy"]) > 0.9  # a third by chance
    lines = (tmp_path / "test_predictions.jsonl").read_text().splitlines()
    loaded = bert.load(tmp_path, max_seq_length=16)
    texts = [text for text, _ in tiny.rows(10, 66)]
    for line, answer in zip(lines, loaded.predict(texts), strict=True):
        assert json.loads(line)["label"] == answer["label"]
    loaded.save(tmp_path / "hf", "hugging_face")
    raw = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert raw["architectures"][0].endswith("ForSequenceClassification")
    again = bert.load(tmp_path / "hf", max_seq_length=16).predict(texts)
    assert again == loaded.predict(texts)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["roberta", "albert"])
def test_sentence_tasks_are_learned_where_a_network_has_them(
    models, tmp_path, model_type
):
    """RoBERTa's masked words are learned from the same records without them."""
    model = models(model_type)
    words = tiny.FILLERS
    sentences = [" ".join(words[i % 10 :] + words[: i % 10]) for i in range(60)]
    (tmp_path / "corpus.txt").write_text(
        "".join(f"{line}\n" + "\n" * (i % 5 == 4) for i, line in enumerate(sentences))
    )
    vocab = "tokenizer.json" if model_type == "roberta" else "vocab.txt"
    lengths = "--max_seq_length=24 --max_predictions_per_seq=3"
    tiny.succeed(
        "create_pretraining_data",
        f"--input_file={tmp_path}/corpus.txt --output_file={tmp_path}/a.tfrecord",
        f"--vocab_file={model}/{vocab} {lengths} --sentence_task=order --num_workers=1",
    )
    tiny.succeed(
        "run_pretraining",
        f"--pretrained={model} --input_file={tmp_path}/a.tfrecord {lengths}",
        f"--output_dir={tmp_path}/out --do_train --do_eval --num_train_steps=3",
        "--num_warmup_steps=1 --train_batch_size=4 --eval_batch_size=4",
    )
    results = (tmp_path / "out" / "eval_results.txt").read_text()
    assert "masked_lm_accuracy" in results
    assert ("next_sentence_accuracy" in results) == (model_type == "albert")


@pytest.mark.slow
def test_what_relatives_do_not_do_is_refused(models, tables, tmp_path):
    model = models("roberta")
    places = f"--pretrained={model} --output_dir={tmp_path}/out"
    records = tiny.write_records(tmp_path / "records", tiny.records(8))
    config = f"{model}/config.json"
    for script, arguments, message in (
        (
            "run_seq2seq",
            f"{places} --do_train --train_file={tables}/train.tsv "
            "--source_column=text --target_column=label",
            f"{config}: a RoBERTa cannot read and write; give the config.json of an",
        ),
        (
            "run_pretraining",
            f"{places} --do_train --input_file={records} --objective=left_to_right "
            "--max_seq_length=16",
            f"--objective=left_to_right is not for RoBERTa, which {config} describes",
        ),
        (
            "run_generation",
            f"--pretrained={model} --prompt=a",
            f"{config}: a network of both directions cannot write",
        ),
        (
            "run_classifier",
            f"{places} --do_train --train_file={tables}/train.tsv --max_seq_length=49",
            "length 49 because the RoBERTa model was only trained up to sequence "
            f"length 48 ({config}); lower --max_seq_length",
        ),
        (
            "convert_checkpoint",
            f"--input={model} --to=hdf5 --output_dir={tmp_path}/out",
            "hdf5: no format for the weights of RoBERTa; choose one of google, hugging",
        ),
    ):
        error = tiny.refuse(script, *arguments.split())
        assert message in error and error.count("\n") <= 1, script
    vectors = bert.load(model, max_seq_length=16)
    assert np.isfinite(vectors.embed(["the sea"])).all()
    with pytest.raises(ValueError, match="write: RoBERTa is no encoder-decoder"):
        vectors.write(["the sea"])
