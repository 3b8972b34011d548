"""Questions answered by networks that are not BERT, in files and served."""

import json

import numpy as np
import pytest

from serving import predictor
from tests import elmo_files, tiny, tiny_gpt, tiny_questions

HEAD = "--head=bilstm --bilstm_layers=1 --bilstm_units=32"
# {network: flags of training}
LEARN = {
    "elmo": (
        f"{HEAD} --freeze_encoder --layer_mix=learned --split_words=punctuation "
        "--learning_rate=2e-2 --num_train_epochs=25 --train_batch_size=16"
    ),
    "gpt_2": "--learning_rate=3e-3 --num_train_epochs=20 --train_batch_size=8",
    "left_to_right": (
        f"{HEAD} --version_2_with_negative --answer_aligner=words "
        "--learning_rate=1e-2 --num_train_epochs=12 --train_batch_size=8"
    ),
}


def model_flags(network, directory, shared_file):
    if network == "elmo":
        return [f"--pretrained={elmo_files.write_release(directory)}"]
    if network == "gpt_2":
        vocab_file = shared_file("golden/gpt2/tiny_model/encoder.json")
        return tiny_gpt.flags(tiny_gpt.write(directory, vocab_file))
    tiny.write_model(directory, num_hidden_layers=1, attention="causal")
    return [f"--pretrained={directory}"]


@pytest.mark.slow
@pytest.mark.parametrize("network", LEARN)
def test_answers_in_files_are_those_that_are_served(network, tmp_path, shared_file):
    is_elmo, has_nulls = network == "elmo", network == "left_to_right"
    write = tiny_questions.version_2 if has_nulls else tiny_questions.version_1
    write(tmp_path / "train.json", 60)
    dev = json.loads(write(tmp_path / "dev.json", 20, start=60).read_text())
    rows = dev["data"][0]["paragraphs"]
    out, length = tmp_path / "out", 64 if network == "gpt_2" else 32
    limits = "--do_predict --max_query_length=8 --doc_stride=8"
    limits += f" --max_seq_length={length}"
    tiny.succeed(
        *("run_squad", *model_flags(network, tmp_path / "model", shared_file), limits),
        f"--train_file={tmp_path}/train.json --predict_file={tmp_path}/dev.json",
        f"--output_dir={out} --do_train --do_export {LEARN[network]}",
    )
    results = tiny.eval_results(out)
    if network != "gpt_2":  # whose weights are random
        names = ("HasAns_f1", "NoAns_f1") if has_nulls else ("f1",)
        assert min(results[name] for name in names) > 90
    assert is_elmo != bool(list(out.glob("*.tf_record")))
    answers = json.loads((out / "predictions.json").read_text())
    if is_elmo:  # the run's directory answers texts as people write them
        for row in rows:
            row["context"] = row["context"].replace(" ", ", ", 1) + "!"
            row["qas"][0]["answers"] = []
        (tmp_path / "odd.json").write_text(json.dumps(dev))
        tiny.succeed(
            *("run_squad", f"--pretrained={out} --output_dir={tmp_path}/again", limits),
            f"--predict_file={tmp_path}/odd.json",
        )
        answers = json.loads((tmp_path / "again" / "predictions.json").read_text())
        signs = [answer in tiny_questions.SIGNS for answer in answers.values()]
        assert np.mean(signs) > 0.8  # without the commas beside them
    served = predictor.Predictor(str(out / "export")).predict(
        [row["qas"][0]["question"] for row in rows], [row["context"] for row in rows]
    )
    assert [row["answer"] for row in served] == [*answers.values()]
    for answer, row in zip(served, rows, strict=True):
        if answer["answer"]:
            text = row["context"][answer["start"] : answer["end"]]
            assert text == answer["answer"]
