"""Scores of retrieval where queries are passages, computed by hand."""

import math

import numpy as np
import pytest

from data_pipeline.embedding import corpora, split
from modeling.checkpoints import checkpoint, places, sentence_transformers
from modeling.features import text_vectors
from tasks import embedding_rows
from tests import tiny

PASSAGES = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]
QUERIES = [[1.0, 0.0], [0.6, 0.8]]  # nearest to passages 0, 1, 2 and to 1, 2, 0


def texts(query_ids):
    data = corpora.RetrievalData(
        query_ids=query_ids,
        queries=["first", "second"],
        passage_ids=["a", "b", "c"],
        passages=["one", "two", "three"],
        relevant=[{1: 1.0}, {2: 2.0}],
    )
    return split.RetrievalSplit("corpus", None, data)


SECOND = 1 / math.log2(3)  # what a relevant passage adds in the second place


@pytest.mark.parametrize(
    ("query_ids", "ndcg", "mrr"),
    [
        (["x", "y"], SECOND, 1 / 2),
        (["a", "b"], 1.0, 1.0),  # both have an own passage, the nearest one
        (["a", "y"], (1 + SECOND) / 2, 3 / 4),
        (["x", "b"], (1 + SECOND) / 2, 3 / 4),
        (["b", "c"], SECOND, 1 / 2),  # relevant passages, and so no own ones
    ],
)
def test_own_passages_are_not_ranked(query_ids, ndcg, mrr):
    rows = texts(query_ids)
    scored = embedding_rows.score(rows, np.array([*QUERIES, *PASSAGES]))
    assert scored.scores["ndcg_at_10"] == pytest.approx(ndcg, abs=1e-12)
    assert scored.scores["mrr_at_10"] == pytest.approx(mrr, abs=1e-12)
    assert scored.scores["recall_at_100"] == 1.0
    # A reranker that holds each query for its own best answer.
    order = {"one": 3.0, "two": 2.0, "three": 1.0}
    if query_ids[1] == "b":
        order = {"one": 1.0, "two": 3.0, "three": 2.0}

    def rerank(_, passages):
        return np.array([order[passage] for passage in passages])

    reranked = embedding_rows.evaluate(rows, rerank, scored)
    places = {"a": 0, "b": 1, "c": 2}
    values = []
    for query, gain in enumerate(rows.data.relevant):
        own = places.get(query_ids[query])
        ranked = sorted(range(3), key=lambda i: -order[rows.data.passages[i]])
        (relevant,) = gain
        ranked = [place for place in ranked if place != own or place == relevant]
        values.append(1 / (1 + ranked.index(relevant)))
    assert reranked["eval_reranked_mrr_at_10"] == pytest.approx(np.mean(values))


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        ({"passage": "p: "}, "new: ", {"passage": "new: ", "document": "new: "}),
        ({"passage": "p: "}, None, {"passage": "p: ", "document": "p: "}),
        (
            {"document": "d: ", "query": "q: "},
            None,
            {"document": "d: ", "query": "q: "},
        ),
        ({}, "new: ", {"document": "new: "}),
        ({}, None, {}),
    ],
)
def test_prompts_of_passages_have_every_name_that_the_model_has(
    before, given, after, monkeypatch
):
    kept = sentence_transformers.SentenceTransformer(
        text_vectors=text_vectors.TextVectors(), prompts=before
    )
    monkeypatch.setattr(sentence_transformers, "read", lambda path: kept)
    for name in ("check", "check_products"):
        monkeypatch.setattr(sentence_transformers, name, lambda *_: None)
    monkeypatch.setattr(checkpoint, "open_projections", lambda *_: None)
    monkeypatch.setattr(places, "open_file", lambda *_: None)
    flags = [] if given is None else [f"--passage_prompt={given}"]
    settings = tiny.settings_of("run_embedding", *flags)
    chosen = embedding_rows.choose_vectors(settings, "directory", None)
    assert chosen.prompts == after
    assert chosen.usual_prompts()["passage"] == (after.get("document") or "")
