import json
import math

import numpy as np
import pytest

from data_pipeline.generation import kinds, perplexity, windows
from tests import byte_tokenizer

TOKENIZER = byte_tokenizer.ByteTokenizer()


def run(cut):
    """A loss of a tenth of each scored id."""
    ids = [np.array(window.ids[window.first :]) for window in cut]
    return [windows.Scores(scored / 10, scored == 97) for scored in ids]


def scored(path, context, stride=0, **how):
    settings = kinds.Settings(TOKENIZER, context, stride=stride)
    return kinds.texts(str(path), settings, **how)


def test_results_are_those_of_all_texts_together(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("ab c\n\nä\n")
    results, lines = scored(path, 16)(run)
    nlls = [sum(text.encode()) / 10 for text in ("ab c", "ä")]
    nll = sum(nlls)
    assert results == {
        **{"num_texts": 2, "num_tokens": 6, "nll": pytest.approx(nll)},
        "mean_nll": pytest.approx(nll / 6),
        "perplexity": pytest.approx(math.exp(nll / 6)),
        "word_perplexity": pytest.approx(math.exp(nll / 3)),
        "bits_per_byte": pytest.approx(nll / math.log(2) / 6),
    }
    rows = [json.loads(line) for line in lines]
    assert [row["place"] for row in rows] == [f"{path}:1", f"{path}:3"]
    assert [row["nll"] for row in rows] == pytest.approx(nlls)
    assert rows[0]["nll_of_each_token"] == [9.7, 9.8, 3.2, 9.9]
    assert rows[1]["ids"] == list("ä".encode())


def test_a_document_is_one_text_whatever_the_stride(tmp_path):
    path = tmp_path / "a.txt"
    content = "one two\n\nthree and four\n"
    path.write_text(content)
    for stride in (0, 1, 7):
        results, _ = scored(path, 8, stride, as_one=True)(run)
        assert results["num_texts"] == 1
        assert results["num_tokens"] == len(content)
        assert results["nll"] == pytest.approx(sum(content.encode()) / 10)
    with pytest.raises(ValueError, match="--stride=8 leaves no token before a window"):
        scored(path, 8, 8, as_one=True)


def test_texts_are_lines_objects_or_files(tmp_path):
    for ends, path in (("\n", tmp_path / "a.txt"), ("\r\n", tmp_path / "b.txt")):
        path.write_bytes(ends.join(["one", "two", ""]).encode())
        texts = [text for text, _ in perplexity.read(str(path), as_one=False)]
        assert texts == ["one", "two"]
        assert perplexity.read(str(path), as_one=True)[0][0] == "one\ntwo\n"
    with pytest.raises(FileNotFoundError, match=r"absent\.txt: .*check the path"):
        perplexity.read(f"{tmp_path}/absent.txt", as_one=True)
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "ab"}\n{"text": "c"}\n')
    rows = perplexity.read(str(path), as_one=False)
    assert rows == [("ab", f"{path}:1"), ("c", f"{path}:2")]
    texts = perplexity.encode(rows, TOKENIZER)
    assert [text.ids for text in texts] == [[256, 97, 98], [256, 99]]
    without = byte_tokenizer.ByteTokenizer(has_end=False)
    with pytest.raises(ValueError, match=r":2: \['c'\] is 1 token, which nothing"):
        perplexity.encode(rows, without)
    (tmp_path / "b.txt").write_text(" \n")
    with pytest.raises(ValueError, match="has no text; give one a line"):
        perplexity.read(str(tmp_path / "b.txt"), as_one=False)
    assert perplexity.exp(1e4) == math.inf
