import functools

import numpy as np
import pytest

from contract import features
from data_pipeline.seq2seq import graph, results, split

ROWS = "source\ttarget\nTwenty  -  six\t26\none\t1\ntwenty\t2 one xyz\n"


def decide(data, tokenizer, **outputs):
    decode = functools.partial(graph.decode, tokenizer, data.tokens)
    return results.decide(data, outputs, decode)


def test_rows_become_ids(load, capsys):
    train, dev = load({"train": ROWS, "dev": ROWS}).values()
    assert train.packed.tokens.tolist() == [2, 1, 12, 7, 3, 2, 4, 3, 2, 1, 3]
    assert train.packed.splits.tolist() == [0, 5, 8, 11]
    assert train.target_ids.tolist() == [9, 11, 3, 8, 3, 9, 4, 1, 3]
    assert train.target_splits.tolist() == [0, 3, 5, 9]
    assert train.target_ids.dtype == np.int32
    # Of training rows, which may be many, only ids stay.
    assert (train.sources, train.target_texts, train.spelled) == ((), (), ())
    assert dev.sources[0] == "Twenty  -  six" and dev.target_texts[2] == "2 one xyz"
    assert train.names(np.array([2, 0]))[0].endswith("train.tsv:4")
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("train: 3 pairs from ")
    assert out[0].endswith(
        "train.tsv (reads 'source', 'target'); sources of 3.7 tokens on average, "
        "0 cut to 16, 40 % [UNK]; targets of 3.0, 0 cut to 8, 16.7 % [UNK]"
    )
    (train,) = load({"train": ROWS}, lengths=(4, 3)).values()
    assert train.packed.lengths.tolist() == [4, 3, 3]
    assert train.target_ids.tolist() == [9, 11, 3, 8, 3, 9, 4, 3]
    assert (
        "1 cut to 4, 50 % [UNK]; targets of 2.7, 1 cut to 3" in capsys.readouterr().out
    )
    summary = train.summary()
    assert (summary.count, summary.unit, summary.cut) == (3, "pairs", 1)
    assert summary.lengths.tolist() == [4, 3, 3]


def test_chunks_are_put_together(load, monkeypatch):
    whole = load({"dev": ROWS})["dev"]
    monkeypatch.setattr(split, "CHUNK_ROWS", 2)
    parts = load({"dev": ROWS})["dev"]
    assert parts.digest() == whole.digest()
    assert parts.spelled == whole.spelled and parts.sources == whole.sources
    assert parts.lines.tolist() == [2, 3, 4]


def test_digest_follows_ids(load):
    def digest(text, **options):
        return load({"train": text}, **options)["train"].digest()

    assert digest(ROWS) == digest(ROWS.replace("  -  ", " - "))  # equal ids
    others = [
        digest(ROWS.replace("one\t1", "one\t2")),
        digest(ROWS.replace("one\t1", "two\t1")),
        digest(ROWS, lengths=(16, 3)),
        digest(ROWS, tokens=features.DecoderTokens(4, 3)),
    ]
    assert len({digest(ROWS), *others}) == 5


@pytest.mark.parametrize("role", ["source", "target"])
def test_texts_without_a_token_are_refused(load, role):
    row = {"source": "one", "target": "1"} | {role: "\u200d"}
    text = f"one\t1\n{row['source']}\t{row['target']}\n"
    with pytest.raises(ValueError, match=f"tsv:2: the {role} has no token"):
        load({"train": text})


def test_test_rows_need_no_targets(load, tokenizer, capsys):
    data = load({"test": "one\ntwo six\n"})["test"]
    assert not data.has_targets and data.num_cut_targets == 0
    assert data.digest().startswith("2 pairs, digest ")
    assert "test: 2 sources from " in capsys.readouterr().out
    written = decide(data, tokenizer, ids=np.array([[8, 3, -1], [9, 11, 12]]))
    assert written.texts == ["1", "26 -"] and written.num_tokens.tolist() == [1, 3]
    assert written.results("test") == {} and written.losses is None


def test_what_was_written_is_scored(load, tokenizer):
    data = load({"dev": ROWS})["dev"]
    ids = np.array([[9, 11, 3, -1], [8, 3, 9, 9], [9, 4, 1, 3]])
    written = decide(data, tokenizer, ids=ids, losses=np.array([0.5, 1.0, 2.0]))
    # [UNK] is not xyz, and what follows an end token does not count.
    assert written.texts == ["26", "1", "2 one [UNK]"]
    assert written.rows.shares["exact_match"].tolist() == [1.0, 1.0, 0.0]
    named = written.results("eval")
    assert named["eval_exact_match"] == pytest.approx(2 / 3)
    assert named["eval_rouge1"] == pytest.approx((1 + 1 + 2 / 3) / 3)
    # The mean over tokens, as in training: 3, 2 and 4 of them.
    assert named["eval_loss"] == pytest.approx((1.5 + 2 + 8) / 9)
    assert set(named) == {f"eval_{name}" for name in (*results.NAMES, "loss")}
