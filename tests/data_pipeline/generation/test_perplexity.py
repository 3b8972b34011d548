import json
import math

import numpy as np
import pytest

from data_pipeline.generation import perplexity
from tests import byte_tokenizer

TOKENIZER = byte_tokenizer.ByteTokenizer()


def run(cut):
    """A loss of a tenth of each scored id."""
    ids = [np.array(window.ids[window.first :]) for window in cut]
    return [scored / 10 for scored in ids]


def scored(path, context, stride=0, **how):
    texts = perplexity.ScoredTexts(str(path), TOKENIZER, context, stride=stride, **how)
    return texts.results(run)


def test_results_are_those_of_all_texts_together(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("ab c\n\nä\n")
    results, lines = scored(path, 16)
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
        results, _ = scored(path, 8, stride, as_one=True)
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


@pytest.mark.parametrize("count", [2, 8, 9, 11, 30])
@pytest.mark.parametrize("stride", [1, 3, 7])
def test_each_token_is_scored_once_in_a_window_that_fits(count, stride):
    ids = list(range(100, 100 + count))
    actual = perplexity.sliding(ids, 8, stride)
    scored = [index for window in actual for index in window.ids[window.first :]]
    assert scored == ids[1:]
    assert all(len(window.ids) <= 8 and window.first >= 1 for window in actual)
    # All but the first read as much as fits, or as the stride leaves.
    assert all(window.first >= 8 - stride for window in actual[1:])


def test_losses_come_back_to_their_windows():
    rng = np.random.default_rng(0)
    sizes = [5, 2, 9, 3, 9, 4, 2]
    cut = [
        perplexity.Window(
            rng.integers(1, 99, size).tolist(), int(rng.integers(1, size))
        )
        for size in sizes
    ]
    batches = []

    def score(features):
        ids, mask = features["input_ids"].numpy(), features["input_mask"].numpy()
        batches.append(mask.sum(axis=1).tolist())
        assert not ids[mask == 0].any()
        return np.where(mask[:, 1:], ids[:, 1:] + ids[:, :-1] / 100, np.nan)

    actual = perplexity.run(cut, score, 3)
    assert batches == [[9, 9, 5], [4, 3, 2], [2]]
    for window, losses in zip(cut, actual, strict=True):
        ids = np.array(window.ids)
        expected = (ids[1:] + ids[:-1] / 100)[window.first - 1 :]
        np.testing.assert_allclose(losses, expected)
