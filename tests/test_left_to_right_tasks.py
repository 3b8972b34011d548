"""Tags and answers by networks that read from left to right, from end to end."""

import json

import pytest

from serving import predictor
from tests import tiny, tiny_gpt, tiny_questions

LEARN = ("--learning_rate=3e-3", "--num_train_epochs=20", "--train_batch_size=8")


@pytest.fixture(scope="module")
def gpt_2(shared_file, tmp_path_factory):
    vocab_file = shared_file("golden/gpt2/tiny_model/encoder.json")
    return tiny_gpt.write(tmp_path_factory.mktemp("models") / "gpt2", vocab_file)


@pytest.mark.slow
def test_gpt_2_answers_with_text_as_written(gpt_2, tmp_path):
    tiny_questions.version_1(tmp_path / "train.json", 32)
    tiny_questions.version_1(tmp_path / "dev.json", 8, start=32)
    tiny.succeed(
        *("run_squad", *tiny_gpt.flags(gpt_2), "--max_query_length=8 --doc_stride=16"),
        f"--train_file={tmp_path}/train.json --do_train --max_seq_length=64",
        f"--predict_file={tmp_path}/dev.json --do_predict --do_export",
        *(f"--output_dir={tmp_path}", *LEARN),
    )
    answers = json.loads((tmp_path / "predictions.json").read_text())
    paragraphs = json.loads((tmp_path / "dev.json").read_text())["data"][0][
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
def test_lstms_find_where_there_is_no_answer(tmp_path):
    model = tmp_path / "model"
    tiny.write_model(model, num_hidden_layers=1, attention="causal")
    tiny_questions.version_2(tmp_path / "train.json", 60)
    tiny_questions.version_2(tmp_path / "dev.json", 20, start=60)
    out, limits = tmp_path / "out", ("--max_query_length=4", "--doc_stride=8")
    done = tiny.run_script(
        *("run_squad", f"--pretrained={model}", *limits, "--max_seq_length=32"),
        "--version_2_with_negative --do_train --do_predict --do_export",
        f"--train_file={tmp_path}/train.json --output_dir={out}",
        f"--predict_file={tmp_path}/dev.json --answer_aligner=words",
        "--head=bilstm --bilstm_layers=1 --bilstm_units=32 --learning_rate=1e-2",
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
