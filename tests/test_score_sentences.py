"""score_sentences.py: scores are those of one token after the other."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

import bert_reborn as bert
from data_pipeline.generation import minimal_pairs
from tests import tiny, tiny_gpt

SENTENCES = ["the cat sat", "a dog ran to the hat .", "the", "cat dog cat ran a"]


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return tiny.write_model(
        tmp_path_factory.mktemp("models") / "bert", tiny.LETTERS, num_hidden_layers=1
    )


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return tiny_gpt.write_model(tmp_path_factory.mktemp("models") / "gpt")


def log_shares(logits):
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def by_hand(loaded, text, masking):
    """Each token of a text, by a sequence of its own."""
    special = loaded.tokenizer
    ids = [special.start_id, *special.to_ids([text])[0], special.end_id]
    continues, scores = special.continues_word(), []
    for place in range(1, len(ids) - 1):
        hidden, end = np.array([ids], np.int32), place + 1
        while masking == "word" and continues[ids[end]]:
            end += 1
        if masking != "none":
            hidden[0, place:end] = special.mask_id
        inputs = {"input_ids": hidden, "input_mask": hidden * 0 + 1}
        inputs |= {"segment_ids": hidden * 0, "masked_lm_positions": [[place]]}
        inputs = {name: tf.constant(value) for name, value in inputs.items()}
        logits = loaded.model(inputs)["masked_lm_logits"].numpy()[0, 0]
        scores.append(log_shares(logits.astype(np.float64))[ids[place]])
    return scores


@pytest.mark.parametrize(
    "masking", ["token", "word", pytest.param("none", marks=pytest.mark.slow)]
)
def test_scores_are_those_of_one_token_after_the_other(masked, masking):
    loaded = bert.load(masked, head="pretraining")
    texts = [*SENTENCES, "catdog xyz"]  # words of several pieces
    each = [by_hand(loaded, text, masking) for text in texts]
    actual = loaded.score(texts, masking=masking)
    np.testing.assert_allclose(actual, [*map(np.sum, each)], rtol=1e-5)
    means = loaded.score(texts, masking=masking, mean=True)
    np.testing.assert_allclose(means, [*map(np.mean, each)], rtol=1e-5)
    others = {"token": "word", "word": "none", "none": "token"}
    assert abs(loaded.score(texts[-1:], masking=others[masking]) - actual[-1])[0] > 1e-4


def test_equal_texts_have_equal_scores(masked):
    """To the last bit, whatever batch they would be in."""
    loaded, sizes = bert.load(masked, head="pretraining"), []
    score = loaded._score_tokens

    def counting(batch):
        sizes.append(len(batch["input_ids"]))
        return score(batch)

    loaded.__dict__["_score_tokens"] = counting
    texts = ["the cat sat", "a", *["the cat sat"] * 40, "the cat ran"]
    actual = loaded.score(texts)
    assert sum(sizes) == sum(len(loaded.tokens(text)) - 2 for text in {*texts})
    assert {*actual[2:-1]} == {actual[0]} != {actual[-1]}


@pytest.mark.parametrize("head", ["language_model", "auto"])
def test_network_from_left_to_right_predicts_as_run_generation(causal, tmp_path, head):
    texts = ["The sea", "a", "The river runs."]
    (tmp_path / "in.txt").write_text("\n".join(texts))
    place = f"--pretrained={causal} --output_file={tmp_path}/out.jsonl"
    done = tiny.run_script("run_generation", f"{place} --score_file={tmp_path}/in.txt")
    assert done.code == 0, done.err
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    wanted = [-json.loads(line)["nll"] for line in lines]
    actual = bert.load(causal, head=head).score(texts)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5)
    done = tiny.run_script("score_sentences", f"{place} --input_file={tmp_path}/in.txt")
    (printed,) = re.findall(r"^mean_score = (.+)$", done.out, re.MULTILINE)
    assert float(printed) == pytest.approx(np.mean(wanted), rel=1e-5)


def test_command_writes_what_python_returns(masked, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join([*SENTENCES, "", "  "]))
    done = tiny.run_script(
        "score_sentences",
        f"--pretrained={masked} --input_file={tmp_path}/in.txt --batch_size=3",
        f"--output_file={tmp_path}/out.jsonl",
    )
    assert done.code == 0, done.err
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["text"] for row in rows] == SENTENCES
    assert rows[1]["place"] == f"{tmp_path}/in.txt:2"
    loaded = bert.load(masked, head="pretraining")
    wanted = loaded.score(SENTENCES)
    np.testing.assert_allclose([row["score"] for row in rows], wanted, rtol=1e-5)
    sums = [sum(row["score_of_each_token"]) for row in rows]
    np.testing.assert_allclose(sums, wanted, atol=1e-4)
    assert rows[0]["tokens"] == loaded.tokens(SENTENCES[0])[1:-1]
    (printed,) = re.findall(r"^mean_score = (.+)$", done.out, re.MULTILINE)
    assert float(printed) == pytest.approx(np.mean(wanted), rel=1e-5)


def test_pairs_are_won_by_the_likelier_and_a_tie_is_lost(masked, tmp_path):
    loaded = bert.load(masked, head="pretraining")
    scores = loaded.score(SENTENCES[:2], mean=True)
    low, high = np.array(SENTENCES[:2])[np.argsort(scores)]
    rows = [("a", high, low), ("b", low, high), ("b", high, low), ("b", low, low)]
    keys = "UID", "sentence_good", "sentence_bad"
    lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    call = f"--pretrained={masked} --mean"
    done = tiny.run_script(
        "score_sentences",
        f"{call} --input_file={tmp_path}/pairs.jsonl --pairs=blimp",
        f"--output_file={tmp_path}/out.jsonl",
    )
    assert done.code == 0, done.err
    assert "a         1      1.0000" in done.out, done.out
    assert "b         3      0.3333" in done.out
    assert "accuracy = 0.5\n" in done.out
    written = [*map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())]
    assert [row["is_right"] for row in written] == [True, False, True, False]
    for form, accuracy in (("zorro", 0.0), ("good_first", 1.0)):
        (tmp_path / "one.txt").write_text(f"{high}\n{low}\n")
        files = f"{call} --input_file={tmp_path}/o*.txt --pairs={form}"
        assert (
            f"accuracy = {accuracy}\n" in tiny.run_script("score_sentences", files).out
        )


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("a\nb\nc\n", "--pairs=zorro", "has 3 lines, and a pair has two"),
        ("a\n\n", "--pairs=zorro", "in.txt:2: is empty"),
        (
            "a b\nb\n",
            "--pairs=blimp",
            "in.txt:1: a b is no object with sentence_good and sentence_bad; for two "
            "lines a pair give --pairs=zorro, or good_first where",
        ),
        ("\n", "", "no sentence; give one a line"),
        ("a\n" + "cat " * 60, "", "and the network reads 48; shorten it"),
        ("a b\n", "--output_file={d}/in.txt", "would be overwritten"),
    ],
)
def test_mistake_is_one_line(masked, tmp_path, text, more, message):
    (tmp_path / "in.txt").write_text(text)
    done = tiny.run_script(
        "score_sentences",
        f"--pretrained={masked} --input_file={tmp_path}/in.txt",
        *filter(None, [more.format(d=tmp_path)]),
    )
    assert done.code == 2 and message in done.err, (done.code, done.err)
    assert [p.name for p in tmp_path.iterdir()] == ["in.txt"]


def test_objects_need_both_sentences(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"sentence_good": "a"}\n')
    with pytest.raises(ValueError, match=r"a.jsonl:1: 'sentence_bad' is missing"):
        minimal_pairs.read([str(tmp_path / "a.jsonl")], "blimp")
    with pytest.raises(ValueError, match="two lines a pair; give --pairs=blimp"):
        minimal_pairs.read([str(tmp_path / "a.jsonl")], "zorro")
    (tmp_path / "b.txt").write_text('{"sentence_good": "a", "sentence_bad": "b"}\n')
    (pair,) = minimal_pairs.read([str(tmp_path / "b.txt")], "blimp")
    assert pair == ("b", "a", "b", f"{tmp_path}/b.txt:1")
    (tmp_path / "c.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="no pair; give other files"):
        minimal_pairs.read([str(tmp_path / "c.jsonl")], "blimp")


def test_networks_that_predict_nothing_are_refused(masked, causal, tmp_path):
    (tmp_path / "in.txt").write_text("a b\n")
    call = f"--pretrained={causal} --input_file={tmp_path}/in.txt --masking=word"
    done = tiny.run_script("score_sentences", call)
    assert "reads from left to right, without masks" in done.err
    with pytest.raises(ValueError, match='masking="word": the network reads from left'):
        bert.load(causal).score(["a b"], masking="word")
    bare = tmp_path / "bare"
    bert.load(masked, head="none").save(bare)
    call = f"--pretrained={bare} --input_file={tmp_path}/in.txt"
    line = tiny.run_script("score_sentences", call).err
    assert "has no head that predicts tokens; give a network as it was" in line
    with pytest.raises(ValueError, match="predicts no tokens; load a pretrained"):
        bert.load(masked, head="none").score(["a"])
    with pytest.raises(ValueError, match="masking='all' is none of token, word, none"):
        bert.load(masked, head="pretraining").score(["a"], masking="all")
