"""Tests of passages in an index: where they are cut, and what answers have of them."""

import itertools
import json

import numpy as np
import pytest

import bert_reborn as bert
from contract import errors
from data_pipeline.text import wordpiece
from serving import search, search_encoders, search_index, search_passages
from tests import search_runs, tiny
from tests.serving.test_search import refuse

VOCAB = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "a",
    "b",
    "c",
    "##d",
    ",",
    "é",
    "海",
    "sea",
]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)


def cut(text, tokens, stride=None):
    size = search_passages.Size(tokens, stride or tokens)
    (spans,) = search_passages.cut([text], TOKENIZER, size)
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("text", "tokens", "stride", "expected"),
    [
        (" a b ", 2, None, [" a b "]),  # whole, as without passages
        ("a b  c a b", 2, None, ["a b", "c a", "b"]),
        ("a b c a b", 3, 2, ["a b c", "c a b"]),
        ("a b c a b", 3, 1, ["a b c", "b c a", "c a b"]),
        ("a bd c", 2, None, ["a", "bd", "c"]),  # no word is cut
        ("a bdddd c", 2, None, ["a", "bdddd", "c"]),
        ("a,b", 2, None, ["a,", "b"]),
        ("海海 \U0001f600a 海", 2, None, ["海海", "\U0001f600a 海"]),
        ("É a\nb", 2, None, ["É a", "b"]),
    ],
)
def test_texts_are_cut_between_words(text, tokens, stride, expected):
    assert cut(text, tokens, stride) == expected


@pytest.mark.parametrize("stride", [3, 5, 7])
def test_passages_cover_a_text(stride):
    rng = np.random.default_rng(4)
    words = ["a", "bd", "cddd", "sea", ",", "海"]
    text = " ".join(rng.choice(words, 400))
    size = search_passages.Size(7, stride)
    (spans,) = search_passages.cut([text], TOKENIZER, size)
    for (start, end), (following, last) in itertools.pairwise(spans):
        assert start < following <= end + 1 and end < last
        assert not text[end:following].strip()
    assert spans[0][0] == 0 and spans[-1][1] == len(text)
    passages = [text[start:end] for start, end in spans]
    counts = [len(row) for row in TOKENIZER.to_ids(passages)]
    assert max(counts) == 7 and min(counts[:-1]) >= 4


@pytest.fixture(scope="module")
def long_texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    rows = [text for text, _ in tiny.rows(12)]
    texts = {"one": " ".join(rows[:6]), "two": rows[6], "three": " ".join(rows[7:])}
    lines = [json.dumps({"_id": name, "text": text}) for name, text in texts.items()]
    path.write_text("\n".join(lines))
    return path, texts


@pytest.mark.slow
def test_passages_are_searched(long_texts, model_dir, tmp_path, monkeypatch):
    path, texts = long_texts
    source = search_encoders.Source(str(model_dir))
    size = search_passages.Size(6, 4)
    index_dir = str(tmp_path / "index")
    monkeypatch.setattr(search_index, "_ROWS_AT_ONCE", 3)
    search_index.build(index_dir, str(path), source, passages=size)
    index = search.Index.open(index_dir)
    rows = index.neighbours("a great film", 100)[0]
    assert len(rows) == len(index) > 6
    assert {row.text_id for row in rows} == {*texts}
    model = bert.load(model_dir)
    cosines = model.similarity(["a great film"], [row.text for row in rows])[0]
    for row, cosine in zip(rows, cosines, strict=True):
        whole = texts[row.text_id]
        assert whole[row.start : row.start + len(row.text)] == row.text
        assert row.cosine == pytest.approx(cosine, abs=1e-5)
    whole_dir = str(tmp_path / "whole")
    search_index.build(whole_dir, str(path), source)
    plain = search.Index.open(whole_dir).neighbours("a great film")[0]
    assert [(row.start, row.text) for row in plain] == [
        (None, texts[row.text_id]) for row in plain
    ]
    other = search_passages.Size(6, 6)
    message = "passages.stride=4, not 6"
    refuse(message, search_index.build, index_dir, str(path), source, passages=other)


@pytest.mark.slow
def test_command_prints_the_place_of_a_passage(long_texts, model_dir, tmp_path):
    path, texts = long_texts
    flags = f"--index_dir={tmp_path / 'index'}", f"--input_file={path}"
    flags += (f"--pretrained={model_dir}", "--passage_tokens=5", "--top_k=1")
    done = search_runs.run(*flags, "a great film")
    assert done.code == 0, done.err
    first, _, answer = done.out.splitlines()
    assert " passages of 32 numbers in " in first
    done = search_runs.run(flags[0], "--top_k=1", "--json", "a great film")
    (text,) = json.loads(done.out)["texts"]
    start, end = text["start"], text["end"]
    assert texts[text["id"]][start:end] == text["text"]
    place = f"{text['id']} (line {text['line']}), characters {start} to {end}"
    assert answer == f"  {text['cosine']:.4f}  {place}  {text['text']}"
    done = search_runs.run(flags[0], "--top_k=1", "film " * 200)
    assert "queries: 1 cut to 48 tokens (--max_seq_length)\n" in done.err
    assert "cut to" not in search_runs.run(flags[0], "film " * 20).err


@pytest.mark.slow
def test_wrong_sizes_are_refused(long_texts, model_dir, tmp_path):
    path, source = str(long_texts[0]), search_encoders.Source(str(model_dir))
    for size, text in (
        ((47, 47), "--passage_tokens=47, --passage_stride=47: give at most 46 "),
        ((5, 6), "--passage_stride=6: give at most 46 (--max_seq_length=48), and no "),
    ):
        size = search_passages.Size._make(size)
        refuse(text, search_index.build, str(tmp_path), path, source, passages=size)
    most = search_passages.Size(46, 46)
    search_index.build(str(tmp_path / "most"), path, source, passages=most)
    export = search_encoders.Encoder({}, {}, lambda texts: ([], 0))
    with pytest.raises(errors.InputError, match="give --pretrained in place of --exp"):
        search_passages.check(most, export, "")
