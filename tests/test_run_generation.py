"""run_generation.py from end to end, on a tiny GPT-2 and on recorded ones."""

import json
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.text import opening
from serving import client, predictor
from serving.protocol import servables
from tests import tiny, tiny_gpt
from tests.serving import exported_ops, model_server


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return tiny_gpt.write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def run(model_dir):
    """A function of arguments that must end well; returns what was printed."""

    def call(*arguments, pretrained=model_dir):
        done = tiny.run_script(
            "run_generation", f"--pretrained={pretrained}", *arguments
        )
        assert done.code == 0, done.err
        return done.out

    return call


def refused(model_dir, *arguments):
    done = tiny.run_script("run_generation", f"--pretrained={model_dir}", *arguments)
    assert done.code == 2
    return done.err


def rows(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def results(printed):
    lines = [line.split(" = ") for line in printed.splitlines() if " = " in line]
    return {name: float(value) for name, value in lines}


def test_a_text_is_streamed_as_a_file_has_it(run, tmp_path):
    asked = ("--prompt=The sea", "--max_new_tokens=20", "--seed=3", "--top_p=0.95")
    streamed = run(*asked)
    run(*asked, f"--output_file={tmp_path / 'a.jsonl'}")
    (row,) = rows(tmp_path / "a.jsonl")
    assert streamed == f"The sea{row['text']}\n"
    assert row["prompt"] == "The sea" and 10 < row["num_tokens"] <= 20


def test_texts_do_not_depend_on_what_stands_beside_them(run, tmp_path):
    prompts = ["a", "much longer", "grün", "a"]
    (tmp_path / "prompts.txt").write_text("".join(f"{p}\n" for p in prompts))
    asked = ("--max_new_tokens=12", "--num_samples=2", "--temperature=1.3")
    given = f"--prompt_file={tmp_path / 'prompts.txt'}"
    path = tmp_path / "a.jsonl"
    run(*asked, given, f"--output_file={path}")
    found = rows(path)
    run(*asked, given, f"--output_file={path}", "--batch_size=3")
    assert rows(path) == found
    assert [(row["prompt"], row["sample"]) for row in found] == [
        (prompt, sample) for prompt in prompts for sample in range(2)
    ]
    # The same prompt in another row draws other tokens, and so does another sample.
    assert len({row["text"] for row in found if row["prompt"] == "a"}) == 4


@pytest.mark.slow
def test_several_texts_are_printed_as_the_release_prints_them(run, tmp_path):
    prompts = ["a", "much longer", "grün", "a"]
    given = f"--prompt_file={tmp_path / 'prompts.txt'}"
    (tmp_path / "prompts.txt").write_text("".join(f"{p}\n" for p in prompts))
    printed = run("--max_new_tokens=12", "--temperature=0", given).split(" SAMPLE ")
    texts = [part.split("\n", 1)[1] for part in printed[1:]]
    assert texts[0].rstrip("=\n ") == texts[3].rstrip("=\n ")
    for prompt, text in zip(prompts, texts, strict=True):
        assert text.startswith(prompt) and len(text) > len(prompt) + 4


@pytest.mark.slow
def test_a_text_stops_before_a_stop_text(run):
    asked = ("--prompt=The sea", "--max_new_tokens=24", "--temperature=0")
    whole = run(*asked).removesuffix("\n")
    stop = whole[12:14]
    assert run(*asked, f"--stop={stop}") == whole[: whole.index(stop, 7)] + "\n"


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(model_dir):
    script = pathlib.Path(__file__).parents[1] / "run_generation.py"
    asked = (f"--pretrained={model_dir}", "--prompt=a", "--max_new_tokens=40")
    command = [sys.executable, str(script), *asked]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 128 + signal.SIGPIPE
    assert "Traceback" not in said and "BrokenPipe" not in said


def test_without_a_prompt_a_text_is_as_long_as_the_context(run, tmp_path):
    path = tmp_path / "a.jsonl"
    run("--nostop_at_end", f"--output_file={path}")
    (row,) = rows(path)
    assert (row["prompt"], row["num_tokens"], row["ended"]) == ("", 48, False)


def test_wrong_input_is_one_line(model_dir, tmp_path):
    def error(*arguments):
        return refused(model_dir, *arguments)

    assert "a prompt of 40 tokens and 24 new ones" in error(f"--prompt={'a' * 40}")
    assert "the prompt is empty; write one" in error("--prompt= ")
    path = tmp_path / "a.txt"
    path.write_text(f"{'a' * 60}\n")
    asked = (f"--score_file={path}", "--score_as=last_word")
    assert "a.txt:1: ['aaaa" in error(*asked) and "is one word" in error(*asked)
    path.write_text(f"{'a' * 60} b\n")
    assert "does not fit into the network's context of 48" in error(*asked)
    bert = tiny.write_model(tmp_path / "bert")
    assert "the network reads in both directions" in refused(bert, "--prompt=a")


@pytest.mark.slow
def test_scores_are_those_of_the_export(run, tmp_path):
    """Greedy and sampled texts, and losses, by one SavedModel and by the script."""
    out = tmp_path / "out"
    options = ("--max_new_tokens=12", "--temperature=0")
    run("--do_export", f"--output_dir={out}", *options)
    version = out / "export" / "1"
    found, compiled = exported_ops.operations(version)
    assert found <= exported_ops.ALLOWED | exported_ops.OF_TENSORFLOW_TEXT
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

    run(
        f"--score_file={tmp_path / 'a.txt'}",
        f"--output_file={tmp_path / 'c.jsonl'}",
    )
    scored = predictor.Predictor(str(out / "export"), "score").predict(texts)
    for row, answer in zip(rows(tmp_path / "c.jsonl"), scored[::2], strict=True):
        nlls = row["nll_of_each_token"]
        np.testing.assert_allclose(answer["token_nll"], nlls, rtol=1e-4)
        assert answer["nll"] == pytest.approx(row["nll"], rel=1e-5)
        assert answer["perplexity"] == pytest.approx(row["perplexity"], rel=1e-5)
        assert len(answer["pieces"]) == row["num_tokens"]
    assert scored[1]["num_tokens"] == 0 and scored[1]["token_nll"] == []
    signatures = tf.saved_model.load(str(version)).signatures
    check_sample(signatures["sample"], texts[::2], run)
    check_ids(signatures, answers, scored)
    opened = servables.open_version(str(version))
    servables.warm(opened, str(version))
    with model_server.serving("writer", {1: opened}) as server:
        calls = client.connect(server.rest, "writer", 0, 30, by_rest=True)
        assert client.predict(calls, "generate", [texts]) == answers
        nlls = [row["nll"] for row in client.predict(calls, "score", [texts])]
        np.testing.assert_allclose(nlls, [row["nll"] for row in scored], rtol=1e-6)


def check_ids(signatures, answers, scored):
    """Ids in and out, beside texts."""
    tokenizer = tiny_gpt.tokenizer()
    ids = tf.constant([[*b"The sea", 0, 0]])
    mask = tf.constant([[1] * 7 + [0] * 2])
    found = signatures["generate_ids"](input_ids=ids, input_mask=mask)
    new = [index for index in found["generated_ids"][0].numpy().tolist() if index >= 0]
    assert tokenizer.decode(new) == answers[0]["generated"]
    ids = tf.pad(ids, [[0, 0], [1, 0]], constant_values=tokenizer.document_end_id)
    mask = tf.pad(mask, [[0, 0], [1, 0]], constant_values=1)
    found = signatures["score_ids"](input_ids=ids, input_mask=mask)
    assert found["nll"].numpy()[0] == pytest.approx(scored[0]["nll"], rel=1e-5)
    assert found["num_tokens"].numpy()[0] == 7
    assert not found["token_nll"][0, 7:].numpy().any()


def check_sample(sample, texts, run):
    """Draws follow from a row's own seed, and are those of the script."""

    def drawn(texts, seeds, temperature):
        count = len(texts)
        return (
            sample(
                text=tf.constant(texts),
                seed=tf.constant(seeds, tf.int64),
                temperature=tf.constant(temperature, tf.float32),
                top_k=tf.constant([0] * count),
                top_p=tf.constant([1.0] * count),
            )["generated"]
            .numpy()
            .tolist()
        )

    first = drawn([*texts, texts[0]], [5, 6, 6], [1.0, 1.0, 0.0])
    assert drawn(texts[:1], [5], [1.0]) == first[:1] != first[2:]
    assert drawn(texts[:1], [6], [1.0]) != first[:1]
    printed = run(f"--prompt={texts[0]}", "--max_new_tokens=12", "--seed=5")
    assert printed == f"{texts[0]}{first[0].decode()}\n"


def test_a_labelled_table_is_classified_without_training(run, tmp_path):
    table = [("good film", "pos"), ("bad film", "neg"), ("good", "pos")]
    path = tiny.write_tsv(tmp_path / "a.tsv", ("text", "label"), table)
    printed = run(
        f"--score_file={path} --score_as=labels --template={{text}}: {{label}}",
        f"--label_words=pos=+,neg=- --output_file={tmp_path / 'a.jsonl'}",
        f"--examples_file={path} --num_examples=1 --keep_end",
    )
    found = rows(tmp_path / "a.jsonl")
    chosen = [row["choice"]["part"] for row in found]
    right = np.mean([c == row["label"] for c, row in zip(chosen, found, strict=True)])
    assert results(printed)["accuracy"] == pytest.approx(right)
    assert set(results(printed)) == {"num_cases", "accuracy", "f1_macro", "mcc"}
    assert found[0]["texts"][0].endswith("\n\ngood film: -")


@pytest.mark.slow
def test_a_left_to_right_bert_writes_and_scores(run, tmp_path):
    bert = tiny.write_model(tmp_path / "bert", attention="causal")
    asked = ("--prompt=the film", "--max_new_tokens=8", "--temperature=0")
    printed = run(*asked, "--nostop_at_end", pretrained=bert)
    assert printed.startswith("the film ") and len(printed.split()) > 4
    (tmp_path / "a.txt").write_text("the film was good\na\n")
    scores = results(run(f"--score_file={tmp_path / 'a.txt'}", pretrained=bert))
    assert scores["num_tokens"] == 5 and 20 < scores["perplexity"] < 120


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
