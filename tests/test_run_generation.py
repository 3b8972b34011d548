"""run_generation.py from end to end, on a tiny GPT-2 and on recorded ones."""

import json
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from data_pipeline.text import opening
from serving import predictor
from tests import tiny, tiny_gpt
from tests.serving import exported_ops


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return tiny_gpt.write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def run(model_dir):

    def call(*arguments, pretrained=model_dir):
        done = tiny.run_script(
            "run_generation", f"--pretrained={pretrained}", *arguments
        )
        assert done.code == 0, done.err
        return done.out

    return call


def rows(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def results(printed):
    lines = [line.split(" = ") for line in printed.splitlines() if " = " in line]
    return {name: float(value) for name, value in lines}


@pytest.mark.slow
def test_texts_are_streamed_as_files_have_them_whatever_stands_beside(run, tmp_path):
    request = ("--prompt=The sea", "--max_new_tokens=20", "--seed=3", "--top_p=0.95")
    streamed = run(*request)
    run(*request, f"--output_file={tmp_path / 'a.jsonl'}")
    (row,) = rows(tmp_path / "a.jsonl")
    assert streamed == f"The sea{row['text']}\n"
    assert row["prompt"] == "The sea" and 10 < row["num_tokens"] <= 20
    prompts = ["a", "much longer", "grün", "a"]
    (tmp_path / "prompts.txt").write_text("".join(f"{p}\n" for p in prompts))
    request = ("--max_new_tokens=12", "--num_samples=2", "--temperature=1.3")
    supplied = f"--prompt_file={tmp_path / 'prompts.txt'}"
    path = tmp_path / "a.jsonl"
    run(*request, supplied, f"--output_file={path}")
    actual = rows(path)
    run(*request, supplied, f"--output_file={path}", "--batch_size=3")
    assert rows(path) == actual
    assert [(row["prompt"], row["sample"]) for row in actual] == [
        (prompt, sample) for prompt in prompts for sample in range(2)
    ]
    # The same prompt in another row draws other tokens, and so does another sample.
    assert len({row["text"] for row in actual if row["prompt"] == "a"}) == 4


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(model_dir):
    script = pathlib.Path(__file__).parents[1] / "run_generation.py"
    request = (f"--pretrained={model_dir}", "--prompt=a", "--max_new_tokens=40")
    command = [sys.executable, str(script), *request]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()
        shown = process.stderr.read().decode()
    assert process.returncode == 128 + signal.SIGPIPE
    assert "Traceback" not in shown and "BrokenPipe" not in shown


@pytest.mark.slow
def test_scores_are_those_of_the_export(run, tmp_path):
    out = tmp_path / "out"
    options = ("--max_new_tokens=12", "--temperature=0")
    run("--do_export", f"--output_dir={out}", *options)
    version = out / "export" / "1"
    actual, compiled = exported_ops.operations(version)
    assert actual <= exported_ops.ALLOWED | exported_ops.OF_TENSORFLOW_TEXT
    assert not compiled
    texts = ["The sea", "", "grün und weiß"]
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in texts if text))
    run(
        f"--prompt_file={tmp_path / 'a.txt'}",
        f"--output_file={tmp_path / 'b.jsonl'}",
        *options,
    )
    written = [row["text"] for row in rows(tmp_path / "b.jsonl")]
    answers = predictor.Predictor(str(out / "export"), "generate").predict(texts)
    assert [answers[i]["generated"] for i in (0, 2)] == written
    assert answers[1]["num_tokens"] > 0

    run(f"--score_file={tmp_path / 'a.txt'}", f"--output_file={tmp_path / 'c.jsonl'}")
    scored = predictor.Predictor(str(out / "export"), "score").predict(texts)
    for row, answer in zip(rows(tmp_path / "c.jsonl"), scored[::2], strict=True):
        nlls = row["nll_of_each_token"]
        np.testing.assert_allclose(answer["token_nll"], nlls, rtol=1e-4)
        assert answer["nll"] == pytest.approx(row["nll"], rel=1e-5)
        assert answer["perplexity"] == pytest.approx(row["perplexity"], rel=1e-5)
        assert len(answer["pieces"]) == row["num_tokens"]
    assert scored[1]["num_tokens"] == 0 and scored[1]["token_nll"] == []


@pytest.mark.slow  # every day tests/modeling/ has the numbers of these weights
def test_texts_of_really_trained_weights_are_the_recorded_ones(
    run, shared_file, tmp_path
):
    recorded = json.loads(shared_file("golden/gpt2/trained_small.json").read_text())
    weights = shared_file("data/others/tarotble_gpt2")
    prompts = [row["prompt"] for row in recorded["greedy"]]
    (tmp_path / "a.txt").write_text("".join(f"{prompt}\n" for prompt in prompts))
    run(
        f"--prompt_file={tmp_path / 'a.txt'} --temperature=0",
        f"--max_new_tokens=24 --output_file={tmp_path / 'a.jsonl'}",
        pretrained=weights,
    )
    texts = [row["prompt"] + row["text"] for row in rows(tmp_path / "a.jsonl")]
    tokenizer = opening.open_vocabulary(str(weights / "vocab.json"))
    for text, row in zip(texts, recorded["greedy"], strict=True):
        assert text.startswith(tokenizer.decode(row["greedy_ids"]))

    texts = [row["text"] for row in recorded["perplexity"]]
    (tmp_path / "b.txt").write_text("".join(f"{text}\n" for text in texts))
    run(
        f"--score_file={tmp_path / 'b.txt'}",
        f"--output_file={tmp_path / 'b.jsonl'}",
        pretrained=weights,
    )
    for row, expected in zip(
        rows(tmp_path / "b.jsonl"), recorded["perplexity"], strict=True
    ):
        assert row["ids"] == expected["ids"][1:]
        assert row["perplexity"] == pytest.approx(expected["perplexity"], rel=1e-4)
        assert row["mean_nll"] == pytest.approx(expected["mean_nll"], rel=1e-5)


def test_perplexities_are_those_of_the_release(run, shared_file, tmp_path):
    recorded = json.loads(shared_file("golden/gpt2/perplexity.json").read_text())
    lines = [json.dumps({"text": row["text"]}) for row in recorded]
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    printed = run(
        f"--score_file={tmp_path / 'a.jsonl'}",
        f"--output_file={tmp_path / 'b.jsonl'}",
        pretrained=shared_file("golden/gpt2/tiny_model"),
    )
    nll = 0.0
    for row, expected in zip(rows(tmp_path / "b.jsonl"), recorded, strict=True):
        assert row["ids"] == expected["ids"]
        nlls = expected["nll_of_each_token"]
        np.testing.assert_allclose(row["nll_of_each_token"], nlls, rtol=1e-4)
        for name in ("perplexity", "bits_per_byte", "mean_nll"):
            assert row[name] == pytest.approx(expected[name], rel=1e-4)
        nll += sum(nlls)
    assert results(printed)["nll"] == pytest.approx(nll, rel=1e-5)


@pytest.mark.parametrize("flag", ["prompt_file", "score_file"])
def test_input_is_not_overwritten(model_dir, tmp_path, flag):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"prompt": "a", "text": "a", "mine": 1}\n')
    given = f"--pretrained={model_dir} --{flag}={path} --output_file={tmp_path}/./"
    error = tiny.refuse("run_generation", given + path.name)
    assert f"is --{flag} and would be overwritten" in error
    assert rows(path) == [{"prompt": "a", "text": "a", "mine": 1}]
