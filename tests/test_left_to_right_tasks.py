"""Tags and answers by networks that read from left to right, from end to end."""

import json

import pytest

from modeling.configs import gpt_config
from serving import predictor
from tests import tiny, tiny_gpt, tiny_questions, tiny_tags

LEARN = ("--learning_rate=3e-3", "--num_train_epochs=20", "--train_batch_size=8")


@pytest.fixture(scope="module")
def gpt_2(shared_file, tmp_path_factory):
    vocab_file = shared_file("golden/gpt2/tiny_model/encoder.json")
    return tiny_gpt.write(tmp_path_factory.mktemp("models") / "gpt2", vocab_file)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    directory = tmp_path_factory.mktemp("questions")
    tiny_questions.version_1(directory / "train.json", 32)
    tiny_questions.version_1(directory / "dev.json", 8, start=32)
    return directory


def squad(model, questions, output_dir, *more):
    return tiny.run_script(
        "run_squad",
        *tiny_gpt.flags(model),
        f"--train_file={questions}/train.json --do_train --max_seq_length=64",
        f"--predict_file={questions}/dev.json --do_predict --doc_stride=16",
        *("--max_query_length=8", f"--output_dir={output_dir}", *more),
    )


@pytest.mark.slow
def test_gpt_2_answers_with_text_as_written(gpt_2, questions, tmp_path):
    done = squad(gpt_2, questions, tmp_path, "--do_export", *LEARN)
    assert done.code == 0, done.err
    answers = json.loads((tmp_path / "predictions.json").read_text())
    paragraphs = json.loads((questions / "dev.json").read_text())["data"][0][
        "paragraphs"
    ]
    contexts = [paragraph["context"] for paragraph in paragraphs]
    asked = [paragraph["qas"][0]["question"] for paragraph in paragraphs]
    ids = [paragraph["qas"][0]["id"] for paragraph in paragraphs]
    for question, context in zip(ids, contexts, strict=True):
        assert answers[question] and answers[question] in context
    served = predictor.Predictor(str(tmp_path / "export")).predict(asked, contexts)
    assert [row["answer"] for row in served] == [answers[i] for i in ids]
    for row, context in zip(served, contexts, strict=True):
        assert context[row["start"] : row["end"]] == row["answer"]


@pytest.mark.slow
@pytest.mark.parametrize("network", ["gpt", "bert"])
def test_lstms_say_where_there_is_no_answer(network, tmp_path):
    """From left to right on word pieces; a GPT is frozen, a BERT is trained."""
    model = tmp_path / "model"
    tiny.write_model(model, num_hidden_layers=1, attention="causal")
    flags = [f"--pretrained={model}"]
    if network == "gpt":
        config = gpt_config.GptConfig(
            vocab_size=len((model / "vocab.txt").read_text().split()),
            norm_first=True,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=32,
        )
        (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
        flags = [f"--bert_config_file={tmp_path}/config.json", "--freeze_encoder"]
        flags += [f"--vocab_file={model}/vocab.txt"]
    tiny_questions.version_2(tmp_path / "train.json", 60)
    tiny_questions.version_2(tmp_path / "dev.json", 20, start=60)
    out, limits = tmp_path / "out", ("--max_query_length=4", "--doc_stride=8")
    done = tiny.run_script(
        *("run_squad", *flags, *limits, "--max_seq_length=32", "--head=bilstm"),
        "--version_2_with_negative --do_train --do_predict --do_export",
        f"--train_file={tmp_path}/train.json --output_dir={out}",
        f"--predict_file={tmp_path}/dev.json --answer_aligner=words",
        "--bilstm_layers=1 --bilstm_units=32 --learning_rate=1e-2",
        "--num_train_epochs=12 --train_batch_size=8",
    )
    assert done.code == 0, done.err
    results = tiny.eval_results(out)
    assert results["HasAns_f1"] > 90 and results["NoAns_f1"] > 90
    answers = json.loads((out / "predictions.json").read_text())
    data = json.loads((tmp_path / "dev.json").read_text())["data"][0]["paragraphs"]
    served = predictor.Predictor(str(out / "export")).predict(
        [row["qas"][0]["question"] for row in data], [row["context"] for row in data]
    )
    assert [row["answer"] for row in served] == [*answers.values()]


@pytest.mark.slow
def test_gpt_2_tags_words_in_files_and_served(gpt_2, tmp_path):
    data = tiny_tags.write_splits(tmp_path / "tags")
    done = tiny.run_script(
        "run_tagger",
        *tiny_gpt.flags(gpt_2),
        *(f"--{split}_file={data}/{split}.conll" for split in ("train", "dev", "test")),
        *("--do_train", "--do_eval", "--do_predict", "--do_export", *LEARN),
        f"--max_seq_length=64 --output_dir={tmp_path}/out",
    )
    assert done.code == 0, done.err
    assert tiny.eval_results(tmp_path / "out")["eval_accuracy"] > 0.6
    rows = tiny.predictions(tmp_path / "out")
    served = predictor.Predictor(str(tmp_path / "out" / "export")).predict(
        [" ".join(row["words"]) for row in rows]
    )
    for row, expected in zip(served, rows, strict=True):
        assert row["words"] == expected["words"]
        assert row["tags"] == expected["tags"]


def test_what_suits_no_network_from_left_to_right_is_refused(
    gpt_2, questions, tmp_path
):
    for flag, word in (
        ("--version_2_with_negative", "first token, which sees nothing in a network"),
        ("--answer_aligner=original", "tokens of this vocabulary are none"),
    ):
        done = squad(gpt_2, questions, tmp_path / "out", flag)
        assert done.code == 2 and done.err.count("\n") == 1, done.err
        assert word in done.err and "leave it out" in done.err


def test_gpts_own_tokenizer_is_in_no_export(shared_file, questions, tmp_path):
    encoder = shared_file("golden/gpt/tiny_model/encoder_bpe_40000.json")
    config = json.loads(shared_file("golden/gpt/hugging_face/config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = tiny.run_script(
        "run_squad",
        f"--bert_config_file={tmp_path}/config.json --vocab_file={encoder}",
        f"--train_file={questions}/train.json --do_train --do_export",
        "--max_seq_length=24 --max_query_length=8 --doc_stride=8",
        f"--output_dir={tmp_path}/out",
    )
    assert done.code == 2 and "the tokenizer of GPT is no TensorFlow" in done.err
