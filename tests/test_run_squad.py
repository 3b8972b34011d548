"""run_squad.py from end to end, on a tiny model and questions made for it."""

import contextlib
import json
import re
import types

import numpy as np
import pytest

from contract import errors
from data_pipeline.batches import packing
from data_pipeline.squad import scores
from serving import predictor
from tests import tiny, tiny_questions

LIMITS = ("--max_seq_length=24", "--max_query_length=4", "--doc_stride=8")
ACTIONS = ("--do_train", "--do_predict")
# Enough to learn which words are answers, in some seconds.
LEARN = ("--learning_rate=2e-3", "--num_train_epochs=12", "--train_batch_size=8")
# Enough to have something that differs from the initial weights.
BRIEF = ("--learning_rate=1e-3", "--num_train_epochs=1", "--train_batch_size=8")


def test_chinese_scores_without_their_package_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(errors.importlib.util, "find_spec", lambda name: None)
    reads = ["--do_predict", "--predict_file=dev.json"]
    reads += ["--pretrained=docs", "--output_dir=output/x"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dev.json").touch()
    (tmp_path / "docs").mkdir()
    chinese = tiny.settings_of("run_squad", "--task_name=cmrc2018", *reads)
    with pytest.raises(ValueError, match=r"=cmrc2018 .*pip install nltk$"):
        chinese.check()
    tiny.settings_of("run_squad", *reads).check()


@pytest.mark.parametrize(
    ("lengths", "num_delimiters", "wanted"),
    [
        ("--max_seq_length=384", 1, 64),
        ("--max_seq_length=68", 1, 64),  # as in the original: one token is left
        ("--max_seq_length=67", 1, 32),
        ("--max_seq_length=68", 2, 32),
        ("--max_seq_length=64", 1, 30),
        ("--max_seq_length=64 --max_query_length=64", 1, 64),
        ("--max_seq_length=64 --max_query_length=61", 1, 61),
        ("--max_seq_length=4", 1, 64),
    ],
)
def test_question_is_shortened_where_its_usual_length_leaves_no_room(
    lengths, num_delimiters, wanted, capsys
):
    special = types.SimpleNamespace(start_id=1, delimiter_ids=(2,) * num_delimiters)
    settings = tiny.settings_of("run_squad", *lengths.split())
    room = settings.max_seq_length - packing.num_special(special, is_pair=True)
    shortened = settings.with_short_questions(room)
    assert shortened.limits()["max_query_length"] == wanted
    shown = f"max_query_length: {wanted}, half of " if wanted in (30, 32) else ""
    out = capsys.readouterr().out
    assert out.startswith(shown) and bool(out) == bool(shown)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A directory with train.json and dev.json, and the same of version 2."""
    path = tmp_path_factory.mktemp("questions")
    for version, write in (
        ("", tiny_questions.version_1),
        ("2", tiny_questions.version_2),
    ):
        write(path / f"train{version}.json", 60)
        write(path / f"dev{version}.json", 20, start=60)
    return path


def files(data, version=""):
    return (
        f"--train_file={data}/train{version}.json",
        f"--predict_file={data}/dev{version}.json",
    )


def squad(model, output_dir, *arguments, **settings):
    places = (f"--pretrained={model}", f"--output_dir={output_dir}")
    return tiny.run_script("run_squad", *places, *LIMITS, *arguments, **settings)


def run(*arguments, **settings):
    done = squad(*arguments, **settings)
    assert done.code == 0, done.err
    return done


@pytest.fixture(scope="module")
def trained(model_dir, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    more = (*ACTIONS, *LEARN, "--save_checkpoints_steps=40")
    return path, run(model_dir, path, *files(data), *more)


@pytest.fixture(scope="module")
def trained_2(model_dir, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained_2")
    more = ("--version_2_with_negative", *ACTIONS, *LEARN)
    more += ("--do_export", "--answer_aligner=words")
    return path, run(model_dir, path, *files(data, "2"), *more, draws=True)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def answers_of(path):
    """{id: right answers} of a file of questions."""
    return {
        qa["id"]: [answer["text"] for answer in qa["answers"]]
        for paragraph in read(path)["data"][0]["paragraphs"]
        for qa in paragraph["qas"]
    }


def test_whole_run_learns_and_scores_its_answers(trained, data):
    path, done = trained
    results = tiny.eval_results(path)
    assert results["exact_match"] > 80 and results["f1"] >= results["exact_match"]
    assert results["global_step"] == 90  # int(60 / 8 * 12)
    gold, predicted = answers_of(data / "dev.json"), read(path / "predictions.json")
    expected = scores.score_v1(gold, predicted)
    assert {name: results[name] for name in expected} == pytest.approx(expected)
    assert f"  f1 = {results['f1']:.4f}\n" in done.out
    assert "newly initialised: cls/squad/output_weights, cls/squad" in done.out
    curves = tiny.events(path / "eval")
    shown = {name: curves[f"eval/{name}"][-1][1] for name in expected}
    assert shown == pytest.approx(expected)
    # Answers stand in the order of the file.
    best = read(path / "nbest_predictions.json")
    assert list(predicted) == list(best) == list(gold)
    for entries in best.values():
        shares = [entry["probability"] for entry in entries]
        assert 1 <= len(shares) <= 20 and shares == sorted(shares)[::-1]
        assert sum(shares) == pytest.approx(1)


@pytest.mark.slow
def test_predictions_do_not_depend_on_padding_and_batches(trained, data, tmp_path):
    path, _ = trained
    more = ("--do_predict", "--pad_to_max_length", "--predict_batch_size=5")
    done = run(path, tmp_path, files(data)[1], *more)
    assert "weights: " in done.out and "model.ckpt-90" in done.out
    assert not (tmp_path / "run.json").exists()
    assert tiny.eval_results(tmp_path) == tiny.eval_results(path)
    assert read(tmp_path / "predictions.json") == read(path / "predictions.json")
    first, second = (
        [entries[0]["start_logit"] for entries in read(file).values()]
        for file in (d / "nbest_predictions.json" for d in (path, tmp_path))
    )
    np.testing.assert_allclose(first, second, atol=1e-5)
    assert np.ptp(first) > 0.01


@pytest.mark.slow
def test_static_int8_reads_the_predict_file_and_leaves_an_export_alone(
    trained, data, tmp_path
):
    flags = "--do_export", "--export_format=onnx", "--quantization=static_int8"
    for number in (1, 2):
        done = run(trained[0], tmp_path, files(data)[1], *flags)
        assert f"export_onnx/{number}" in done.out
    assert [path.name for path in tmp_path.iterdir()] == ["export_onnx"]
    done = squad(trained[0], tmp_path, *flags)
    assert done.code and "set --predict_file or --do_train" in done.err


@pytest.mark.slow
def test_version_2_leaves_questions_without_answers_in_files_and_export(
    trained_2, data
):
    path, done = trained_2
    predicted, odds = read(path / "predictions.json"), read(path / "null_odds.json")
    assert list(odds) == list(predicted)
    gold = answers_of(data / "dev2.json")
    nbest = read(path / "nbest_predictions.json")
    best = {
        name: next((entry["text"] for entry in entries if entry["text"]), "")
        for name, entries in nbest.items()
    }
    expected = scores.score_v2(gold, best, odds)
    expected |= scores.score_v2(gold, predicted)
    results = tiny.eval_results(path)
    assert {name: results[name] for name in expected} == pytest.approx(expected)
    assert results["HasAns_total"] == 13 and results["NoAns_total"] == 7
    assert results["best_f1"] > 80 and "best_f1_thresh" in done.out
    assert all(bool(predicted[name]) == (odds[name] <= 0) for name in odds)
    paragraphs = read(data / "dev2.json")["data"][0]["paragraphs"]
    contexts = [paragraph["context"] for paragraph in paragraphs]
    answers = predictor.Predictor(str(path / "export")).predict(
        [paragraph["qas"][0]["question"] for paragraph in paragraphs], contexts
    )
    assert [answer["answer"] for answer in answers] == list(predicted.values())
    assert set(predicted.values()) == {"", "great", "okay"}
    for answer, context in zip(answers, contexts, strict=True):
        if answer["answer"]:
            assert context[answer["start"] : answer["end"]] == answer["answer"]
    served = [answer["null_odds"] for answer in answers]
    np.testing.assert_allclose(served, list(odds.values()), atol=1e-4)
    tags = tiny.event_tags(path / "eval")
    assert "eval/null_odds_without_an_answer" in tags and "eval/confusion" in tags


@pytest.mark.slow
def test_questions_without_answers_are_answered_and_not_scored(
    trained, tmp_path, model_dir, data
):
    paragraphs = [tiny_questions.question(n, answers=[]) for n in range(3)]
    blind = tiny_questions.write(tmp_path / "blind.json", paragraphs)
    out = tmp_path / "out"
    done = run(trained[0], out, f"--predict_file={blind}", "--do_predict")
    assert "has no right answers, so nothing is scored" in done.out
    assert len(read(out / "predictions.json")) == 3
    assert not (out / "eval_results.txt").exists()
    supplied = (files(data)[0], f"--predict_file={blind}", "--do_train", *BRIEF)
    refused = squad(model_dir, tmp_path / "b", *supplied, "--evaluate_steps=1")
    assert refused.code == 2 and "leave out --evaluate_steps" in refused.err


@pytest.mark.slow
def test_wrong_version_is_warned_of(model_dir, data, tmp_path):
    for version, more, printed in (
        ("", ("--version_2_with_negative",), ["SQuAD 1.1"]),
        ("2", (), ["SQuAD 2.0"]),
        ("", (), []),
    ):
        supplied = (files(data, version)[1], "--do_predict", *more)
        done = squad(model_dir, tmp_path / "out", *supplied)
        assert done.code == 2 and "cls/squad/output_weights" in done.err
        assert re.findall(r"SQuAD \d\.\d", done.log)[:1] == printed


@pytest.mark.parametrize(
    ("has_pieces", "isolates", "is_refused"),
    [(True, True, False), (True, False, True), (False, True, True)],
)
def test_chinese_questions_need_ideographs_that_are_tokens(
    has_pieces, isolates, is_refused
):
    """Else places of answers would be those of other tokens."""
    settings = tiny.settings_of("run_squad", "--task_name=drcd")
    config = types.SimpleNamespace(is_left_to_right=False)
    rules = types.SimpleNamespace(isolates_cjk=isolates)
    tokenizer = types.SimpleNamespace(rules=rules)
    reading = types.SimpleNamespace(head="")
    refused = pytest.raises(ValueError, match=r"^--task_name=drcd cuts texts at each i")
    with refused if is_refused else contextlib.nullcontext():
        settings.check_network(config, tokenizer, reading, has_pieces)
