"""Tests of searches whose texts a classifier of pairs orders once more."""

import json

import numpy as np
import pytest

import bert_reborn as bert
from serving import reranking, search, search_encoders, search_index
from tests import search_runs, tiny
from tests.serving.test_search import refuse

TEXTS = [text for text, _ in tiny.rows(24)]
QUERIES = ["a great film", "the awful awful sea"]
WIDE = {"initializer_range": 1.0}  # so that scores are apart


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reranking")


@pytest.fixture(scope="module")
def model_dir(folder):
    return str(tiny.write_model(folder / "uncased_tiny", **WIDE))


@pytest.fixture(scope="module")
def index_dir(folder, model_dir):
    (folder / "texts.txt").write_text("\n".join(TEXTS))
    source, path = search_encoders.Source(model_dir), str(folder / "index")
    search_index.build(path, str(folder / "texts.txt"), source)
    return path


@pytest.fixture(scope="module")
def pairs(folder, model_dir):
    """A classifier of pairs, and its directory."""
    rows = folder / "pairs.tsv"
    cells = [(t, f"the {t}", ("no", "yes")[i % 2]) for i, t in enumerate(TEXTS)]
    tiny.write_tsv(rows, ("text_a", "text_b", "label"), cells)
    flags = f"--pretrained={model_dir} --output_dir={folder}/pairs_uncased --do_train"
    flags += " --text_a_column=text_a --text_b_column=text_b --label_column=label"
    flags += " --num_train_epochs=1 --train_batch_size=6 --max_seq_length=32"
    flags += " --learning_rate=0.1"
    tiny.succeed("run_classifier", flags, f"--train_file={rows}")
    directory = str(folder / "pairs_uncased")
    return bert.load(directory), directory


@pytest.fixture(scope="module")
def export(pairs):
    directory = pairs[1]
    flags = f"--pretrained={directory} --output_dir={directory}/exported --do_export"
    tiny.succeed("run_classifier", flags, "--max_seq_length=32")
    return f"{directory}/exported/export"


@pytest.mark.slow
def test_candidates_are_ordered_by_the_reranker(index_dir, pairs):
    model, index = pairs[0], search.Index.open(index_dir)
    rows = index.neighbours(QUERIES, 3, reranker=model.rerank)
    near = index.neighbours(QUERIES, 15)
    for query, row, candidates in zip(QUERIES, rows, near, strict=True):
        order = model.rerank(query, [n.text for n in candidates])
        expected = [candidates[i]._replace(score=score) for i, score in order[:3]]
        assert row == expected
    assert [[n.text_id for n in row] for row in rows] != [
        [n.text_id for n in row[:3]] for row in near
    ]
    few = index.neighbours(QUERIES, 3, reranker=model.rerank, num_candidates=1)
    assert [{n.text_id for n in row} for row in few] == [
        {n.text_id for n in row[:3]} for row in near
    ]
    tuples = index.query(QUERIES[0], 3, reranker=model.rerank)
    assert tuples == [[(n.text_id, n.text, n.score) for n in rows[0]]]


@pytest.mark.parametrize(
    ("top_k", "number", "expected"),
    [
        (1, None, 5),
        (5, None, 25),
        (20, None, 100),
        (50, None, 100),
        (200, None, 200),
        (5, 7, 7),
        (5, 3, 5),
        (1, 500, 500),
    ],
)
def test_number_of_candidates(top_k, number, expected):
    assert search.count_candidates(top_k, number) == expected


@pytest.mark.slow
def test_search_ends_between_queries_that_are_reranked(index_dir, pairs):
    index, wanted = search.Index.open(index_dir), iter([True, True, False])
    options = {"reranker": pairs[0].rerank, "is_wanted": lambda: next(wanted)}
    rows = index.neighbours(QUERIES, 2, **options)
    assert rows == index.neighbours(QUERIES, 2, reranker=pairs[0].rerank)[:1]


@pytest.mark.slow
def test_directory_and_export_score_as_bert_load(pairs, export):
    model, *paths = *pairs, export
    passages = TEXTS[:12]
    expected = model.rerank(QUERIES[0], passages)
    no = model.rerank(QUERIES[0], passages, label="no")
    assert np.ptp([score for _, score in expected]) > 1e-3
    for path in paths:
        actual = reranking.open_source(path, None, 5).rerank(QUERIES[0], passages)
        for rows, wanted in (
            (actual, expected),
            (reranking.open_source(path, "no").rerank(QUERIES[0], passages), no),
        ):
            assert dict(rows) == pytest.approx(dict(wanted), abs=1e-5)
            order = [score for _, score in rows]
            assert order == sorted(order, reverse=True)
        refuse(
            "one label of ['no', 'yes'], and not by 'odd'; set --reranker_label",
            reranking.open_source,
            path,
            "odd",
        )


@pytest.mark.slow
def test_models_of_another_kind_are_refused_by_name(folder, model_dir, index_dir):
    refuse(
        f"--reranker={model_dir}: is a BertModel, and no classifier of pairs; train ",
        reranking.open_source,
        model_dir,
        None,
    )
    refuse("--reranker=/nowhere: ", reranking.open_source, "/nowhere", None)
    rows = folder / "single.tsv"
    tiny.write_tsv(rows, ("text", "label"), tiny.rows(6))
    flags = f"--pretrained={model_dir} --output_dir={folder}/one_uncased --do_train"
    flags += f" --train_file={rows} --num_train_epochs=1 --train_batch_size=6"
    flags += " --max_seq_length=16 --do_export"  # the header names the columns
    tiny.succeed("run_classifier", flags)
    message = "was trained on single texts; train one on pairs"
    refuse(message, reranking.open_source, f"{folder}/one_uncased", None)
    loaded = bert.load(f"{folder}/one_uncased")
    with pytest.raises(ValueError, match="made for single texts"):
        loaded.rerank("a query", TEXTS[:2], label="good")
    export = f"{folder}/one_uncased/export"
    message = f"--reranker={export}: takes text, and is no classifier of pairs; train"
    refuse(message, reranking.open_source, export, None)
    # Before a build of hours.
    new = folder / "new"
    flags = f"--index_dir={new}", f"--input_file={folder}/texts.txt", "a"
    done = search_runs.run(*flags, f"--pretrained={model_dir}", f"--reranker={export}")
    assert done.code == 2 and message in done.err and not new.exists()


@pytest.mark.slow
def test_command_prints_both_scores(index_dir, pairs, export):
    model, directory = pairs
    index = search.Index.open(index_dir)
    (expected,) = index.neighbours(QUERIES[0], 2, reranker=model.rerank)
    best, flags = expected[0], (f"--index_dir={index_dir}", "--top_k=2")
    for path in (directory, export):
        done = search_runs.run(*flags, f"--reranker={path}", "--json", QUERIES[0])
        assert done.code == 0, done.err
        texts = json.loads(done.out)["texts"]
        assert [text["id"] for text in texts] == [n.text_id for n in expected]
        assert [*texts[0]] == ["id", "line", "cosine", "score", "text"]
        assert texts[0]["score"] == pytest.approx(best.score, abs=1e-5)
    done = search_runs.run(*flags, f"--reranker={directory}", QUERIES[0])
    line = f"  {best.score:.4f}  {best.cosine:.4f}  line {best.line}  {best.text}"
    assert done.out.splitlines()[:2] == [QUERIES[0], line]
    more = f"--reranker={directory}", "--reranker_label=no", "--num_candidates=2"
    rows = search_runs.run(*flags, *more, "--json", QUERIES[0]).out
    near = index.neighbours(QUERIES[0], 2)[0]
    texts = json.loads(rows)["texts"]
    assert {text["id"] for text in texts} == {n.text_id for n in near}
    no = dict(model.rerank(QUERIES[0], [n.text for n in near], label="no"))
    assert [t["score"] for t in texts] == pytest.approx(sorted(no.values())[::-1])
    done = search_runs.run(flags[0], f"--reranker={directory}")
    assert done.code == 2 and "give --input_file=FILE for a build, " in done.err
    done = search_runs.run(
        flags[0], f"--reranker={directory}", "--add", f"--input_file={__file__}"
    )
    assert done.code == 2 and f"--reranker={directory} is for queries; " in done.err


def test_no_passages_have_no_ranks():
    """As where another process has removed those that were found."""
    called = []
    ranker = reranking.Reranker(lambda *texts: called.append(texts), "")
    assert ranker.rerank("a query", []) == [] and not called
