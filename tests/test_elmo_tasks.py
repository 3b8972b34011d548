"""Tags and labels by an ELMo, from text to served answers."""

import json

import numpy as np
import pytest

from serving import predictor
from tests import elmo_files, tiny, tiny_questions


def run(script, *arguments):
    return tiny.succeed(script, *arguments, "--max_seq_length=16")


@pytest.mark.slow
def test_questions_are_answered_by_frozen_words(tmp_path):
    """Served as in files, and again from the run's directory."""
    model = elmo_files.write_release(tmp_path / "model")
    tiny_questions.version_1(tmp_path / "train.json", 60)
    tiny_questions.version_1(tmp_path / "dev.json", 20, start=60)
    paragraphs = json.loads((tmp_path / "dev.json").read_text())
    for row in paragraphs["data"][0]["paragraphs"]:  # as if people had written them
        row["context"] = row["context"].replace(" ", ", ", 1) + "!"
        row["qas"][0]["answers"] = []
    (tmp_path / "odd.json").write_text(json.dumps(paragraphs))
    out, limits = tmp_path / "out", ("--max_query_length=4", "--doc_stride=6")
    common = (*limits, "--do_predict", "--split_words=punctuation")
    run(
        *("run_squad", f"--pretrained={model}", f"--output_dir={out}", *common),
        f"--train_file={tmp_path}/train.json --do_train --do_export",
        f"--predict_file={tmp_path}/dev.json --freeze_encoder",
        "--layer_mix=learned --head=bilstm --bilstm_layers=1",
        "--bilstm_units=32 --learning_rate=2e-2 --num_train_epochs=25",
        "--train_batch_size=16",
    )
    assert tiny.eval_results(out)["f1"] > 90
    assert not list(out.glob("*.tf_record"))
    run(
        "run_squad",
        f"--pretrained={out} --output_dir={tmp_path}/again",
        *(f"--predict_file={tmp_path}/odd.json", "--do_predict", *limits),
    )
    answers = json.loads((tmp_path / "again" / "predictions.json").read_text())
    rows = paragraphs["data"][0]["paragraphs"]
    served = predictor.Predictor(str(out / "export")).predict(
        [row["qas"][0]["question"] for row in rows], [row["context"] for row in rows]
    )
    assert [row["answer"] for row in served] == [*answers.values()]
    signs = [answer in tiny_questions.SIGNS for answer in answers.values()]
    assert np.mean(signs) > 0.8  # without the commas beside them
