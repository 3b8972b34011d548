"""Tests of run_search.py: builds, files, exact and approximate answers, bad input."""

import contextlib
import functools
import gzip
import json
import pathlib
import shutil
import sqlite3
import sys

import numpy as np
import pytest

import bert_reborn as bert
from contract import errors
from data_pipeline.text import wordpiece
from serving import search, search_encoders, search_index
from terminal import progress
from tests import killed, no_texts, search_runs, tiny

TEXTS = [text for text, _ in tiny.rows(24)]
PROMPTS = {"query": "", "passage": ""}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return str(tiny.write_model(tmp_path_factory.mktemp("models") / "uncased_tiny"))


@pytest.fixture(scope="module")
def texts_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    return str(path)


@pytest.fixture(scope="module")
def built(model_dir, texts_file, tmp_path_factory):
    """An index of the tiny model, written in three steps."""
    path = tmp_path_factory.mktemp("built") / "index"
    build(path, texts_file, model_dir)
    return path


def build(path, texts_file, model_dir, *, rows_at_once=10, **options):
    source = search_encoders.Source(model_dir)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_index, "_ROWS_AT_ONCE", rows_at_once)
        search_index.build(str(path), str(texts_file), source, **options)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def table(monkeypatch):
    """A function that gives the words of a model these vectors {word: [W]}."""

    def set_vectors(vectors, prompts=PROMPTS):
        width = len(next(iter(vectors.values())))
        calls = []

        def encode(texts, report=lambda done: None):
            calls.append(texts)
            rows = np.array([vectors[text] for text in texts], np.float32)
            report(len(texts))
            return unit(rows), 0

        identity = {"digest": "0", "width": width, "pooling": None}
        encoder = search_encoders.Encoder(identity, prompts, encode)
        monkeypatch.setattr(search_encoders, "open_source", lambda source: encoder)
        return calls

    return set_vectors


@pytest.fixture
def random_index(table, tmp_path):
    """A function that builds an index of random vectors; and the vectors."""
    rng = np.random.default_rng(3)
    vectors = {f"t{i}": rng.normal(size=64) for i in range(3000)}
    queries = {f"q{i}": rng.normal(size=64) for i in range(50)}
    table(vectors | queries)
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{word}\n" for word in vectors))

    def make(name, **options):
        build(tmp_path / name, path, "any", rows_at_once=1024, **options)
        return search.Index.open(str(tmp_path / name))

    arrays = (unit(np.array(list(each.values()))) for each in (vectors, queries))
    return make, list(queries), *arrays


def ids(rows):
    return [[text_id for text_id, _, _ in row] for row in rows]


def test_unknown_words_are_printed(table, tmp_path, monkeypatch, capsys, caplog):
    table({"good sea": [1.0, 0.0], "good xyz": [0.0, 1.0]})
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "sea"]
    open_source = search_encoders.open_source
    tokenizer = wordpiece.BertTokenizer(vocab)
    monkeypatch.setattr(
        search_encoders,
        "open_source",
        lambda source: open_source(source)._replace(tokenizer=tokenizer),
    )
    (tmp_path / "texts.txt").write_text("good sea\ngood xyz\n")
    build(tmp_path / "index", tmp_path / "texts.txt", "any")
    assert "texts: of the first 2, 25 % [UNK]\n" in capsys.readouterr().out
    (tmp_path / "texts.txt").write_text("good xyz\n" * 99 + "good sea\n")
    build(tmp_path / "other", tmp_path / "texts.txt", "any")
    assert "50% of 200 tokens are [UNK]" in caplog.text


def test_answers_are_those_of_bert_load(built, model_dir):
    model = bert.load(model_dir, max_seq_length=48)
    queries = ["a great film", "the awful awful sea"]
    cosines = model.similarity(queries, TEXTS)
    index = search.Index.open(str(built))
    assert len(index) == len(TEXTS)
    actual = index.query(queries, top_k=24)
    for row, expected in zip(actual, cosines, strict=True):
        lines = [int(text_id) - 1 for text_id, _, _ in row]
        assert sorted(lines) == [*range(24)]
        assert [text for _, text, _ in row] == [TEXTS[line] for line in lines]
        # Batches of other lengths sum in another order.
        np.testing.assert_allclose(
            [cosine for *_, cosine in row], expected[lines], atol=1e-5
        )
        assert [c for *_, c in row] == sorted((c for *_, c in row), reverse=True)
    assert ids(index.query(queries[0], top_k=3)) == ids([actual[0][:3]])
    assert index.query([]) == []
    assert len(index.query("a film", top_k=1000)[0]) == 24


@pytest.mark.slow
def test_pooling_changes_the_vectors(model_dir, texts_file, built, tmp_path):
    plain = search.Index.open(str(built)).query("a great film", 24)
    source = search_encoders.Source(model_dir, pooling="cls")
    search_index.build(str(tmp_path / "cls"), texts_file, source)
    rows = search.Index.open(str(tmp_path / "cls")).query("a great film", 24)[0]
    cosines = {text_id: cosine for text_id, _, cosine in rows}
    apart = max(abs(cosines[text_id] - cosine) for text_id, _, cosine in plain[0])
    assert apart > 1e-3


@pytest.mark.parametrize(
    ("prompts", "query", "passage"),
    [
        ({}, "q:", "p:"),
        ({"passage": None, "query": ""}, "", "p:"),
        ({"query": "a ", "passage": "b "}, "a ", "b "),
    ],
)
def test_prompts_stand_before_texts(prompts, query, passage, table, tmp_path):
    words = {query + "x": [1, 0], passage + "y": [1, 1], passage + "z": [0, 1]}
    calls = table(words, prompts={"query": "q:", "passage": "p:"})
    path = tmp_path / "texts.txt"
    path.write_text("y\nz\n")
    build(tmp_path / "index", path, "any", prompts=prompts)
    rows = search.Index.open(str(tmp_path / "index")).query("x")[0]
    assert [text for _, text, _ in rows] == ["y", "z"]
    assert calls == [[passage + "y", passage + "z"], [query + "x"]]


@pytest.mark.slow
def test_modules_of_a_directory_count(model_dir, texts_file, tmp_path):
    directory = tmp_path / "st"
    bert.load(model_dir, max_seq_length=48).save(str(directory), "hugging_face")
    for file, value in {
        "modules.json": [
            {"type": f"sentence_transformers.models.{name}", "path": path}
            for name, path in (("Transformer", ""), ("Pooling", "1_Pooling"))
        ],
        "1_Pooling/config.json": {"pooling_mode_max_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": 6},
        "config_sentence_transformers.json": {
            "prompts": {"query": "sea ", "document": "shop ", "other": "a "},
            "default_prompt_name": "other",
        },
    }.items():
        (directory / file).parent.mkdir(exist_ok=True)
        (directory / file).write_text(json.dumps(value))
    build(tmp_path / "index", texts_file, str(directory))
    settings = search_index.Store(str(tmp_path / "index")).settings
    assert settings["prompts"] == {"query": "sea ", "passage": "shop "}
    vectors = settings["vectors"]
    assert (vectors["pooling"], vectors["max_seq_length"]) == ("max", 6)
    model = bert.load(str(directory))
    corpus = model.embed(TEXTS, prompt="shop ")
    expected = unit(model.embed(["film"], prompt="sea ")) @ unit(corpus).T
    rows = search.Index.open(str(tmp_path / "index")).query("film", 24)[0]
    actual = {int(text_id) - 1: cosine for text_id, _, cosine in rows}
    np.testing.assert_allclose([actual[i] for i in range(24)], expected[0], atol=1e-5)


def test_lines_rows_and_gzip(table, tmp_path):
    table({word: [i + 1, 1] for i, word in enumerate(["a", "b", "b c", "d"])})
    lines = tmp_path / "texts.txt.gz"
    lines.write_bytes(gzip.compress("a\r\n\n \u200b\u0301\nb\n".encode()))
    build(tmp_path / "lines", lines, "any")
    index = search.Index.open(str(tmp_path / "lines"))
    assert len(index) == 2
    rows = index.neighbours("d")[0]
    assert [(row.text_id, row.text, row.line) for row in rows] == [
        ("4", "b", 4),
        ("1", "a", 1),
    ]
    objects = tmp_path / "texts.jsonl"
    objects.write_text(
        '{"_id": "x", "title": "b", "text": "c"}\n'
        '{"text": "a"}\n{"_id": 7, "text": "d"}\n'
    )
    build(tmp_path / "objects", objects, "any")
    index = search.Index.open(str(tmp_path / "objects"))
    assert [(row.text_id, row.text, row.line) for row in index.neighbours("d")[0]] == [
        ("7", "d", 3),
        ("x", "b c", 1),
        ("2", "a", 2),
    ]


def test_copies_of_a_text_come_by_line(table, tmp_path):
    rng = np.random.default_rng(1)
    copy = rng.normal(size=48)
    other = copy + 1e-3 * rng.normal(size=48)
    calls = table({"copy": copy, "other": other, "query": copy + rng.normal(size=48)})
    path = tmp_path / "texts.txt"
    path.write_text("copy\n" * 9001)
    build(tmp_path / "index", path, "any", rows_at_once=4096)
    assert [len(texts) for texts in calls] == [1, 1, 1]
    index = search.Index.open(str(tmp_path / "index"))
    first = [str(line) for line in range(1, 8)]
    assert ids(index.query(["query"], 7)) == [first]
    assert ids(index.query(["query", "copy"] * 2, 7)) == [first] * 4
    # The twin: a text that is nearer than the copies comes before them.
    path.write_text("copy\n" * 9000 + "other\n")
    build(tmp_path / "twin", path, "any", rows_at_once=4096)
    nearest = search.Index.open(str(tmp_path / "twin")).query(["other"], 7)
    assert ids(nearest) == [["9001", *first[:6]]]


@pytest.mark.parametrize("quantization", search_index.QUANTIZATIONS)
def test_index_finds_what_all_products_have(random_index, quantization):
    make, names, vectors, queries = random_index
    index = make("index", quantization=quantization)
    cosines = queries @ vectors.T
    expected = np.argsort(-cosines, axis=1)[:, :10]
    rows = index.query(names, 10)
    same = [
        len({f"t{i}" for i in best} & {text for _, text, _ in row})
        for best, row in zip(expected, rows, strict=True)
    ]
    assert np.mean(same) >= 9.9
    actual = np.array([[cosine for *_, cosine in row] for row in rows])
    places = [[int(text_id) - 1 for text_id, _, _ in row] for row in rows]
    # float32 whatever is searched: int8 alone is off by 1e-3.
    exact = np.take_along_axis(cosines, np.array(places), 1)
    np.testing.assert_allclose(actual, exact, atol=1e-6)
    if quantization == "int8":
        values = search_index.quantize(vectors.astype(np.float32))
        near = queries @ (values["values"] * values["scale"][:, None]).T
        assert 1e-4 < np.abs(near - cosines).max() < 1e-2
        alone = np.argsort(-near, axis=1)[:, :10]
        assert (alone != expected).any()  # ranks need the float32 vectors


def test_int8_of_a_vector_without_length_is_zero():
    values = search_index.quantize(np.array([[0, 0], [3, -1.5]], np.float32))
    np.testing.assert_array_equal(values["values"], [[0, 0], [127, -64]])
    np.testing.assert_allclose(values["scale"], [0, 3 / 127])


def test_graph_finds_most_neighbours(random_index, tmp_path):
    pytest.importorskip("faiss")
    from serving import search_graph

    make, names, *_ = random_index
    index = make("index")
    with pytest.raises(
        errors.InputError, match=r"graph.faiss: cannot be read .*build the "
    ):
        index.query(names, 10, approximate=True)
    search_graph.build(index._store)
    exact, near = (
        index.neighbours(names, 10, approximate=value) for value in (False, True)
    )
    same = [len({*a} & {*b}) for a, b in zip(exact, near, strict=True)]
    assert np.mean(same) >= 9
    flags = f"--index_dir={tmp_path / 'part'}", "--approximate", "--top_k=2"
    words = tmp_path / "part.txt"
    words.write_text("t1\nt2\nt3\n")
    done = search_runs.run(*flags, f"--input_file={words}", "--pretrained=any", "t3")
    assert done.out.splitlines()[1:3] == ["t3", "  1.0000  line 3  t3"], done.err
    assert search_runs.run(*flags, "t2").out.startswith("t2\n  1.0000  line 2  t2\n")
    shutil.copy(tmp_path / "part" / "graph.faiss", tmp_path / "index")
    other = search.Index.open(str(tmp_path / "index"))
    with pytest.raises(errors.InputError, match="has 3 vectors, and the index 3000; "):
        other.query(names, approximate=True)
    (tmp_path / "index" / "graph.faiss").write_bytes(b"broken")
    damaged = search.Index.open(str(tmp_path / "index"))
    with pytest.raises(errors.InputError, match="cannot be read") as caught:
        damaged.query(names, approximate=True)
    assert "\n" not in str(caught.value)


def test_graph_that_shows_removed_texts_alone_is_not_asked(random_index):
    make, names, *_ = random_index
    index = make("index")
    exact = index.neighbours(names[:3], 10)
    seen = []

    def find(queries, count):
        """As of a graph whose nodes near the first query were removed."""
        places = index._exact(queries, count)
        places[0, 5:] = -1
        seen.append(len(queries))
        return places

    index.__dict__["_approximate"] = find
    assert index.neighbours(names[:3], 10, approximate=True) == exact and seen == [3]
    index.__dict__["_approximate"] = lambda q, count: np.full([len(q), count], -1)
    assert index.neighbours(names[:3], 10, approximate=True) == exact


def contents(path):
    """The rows and settings of an index as SQL, and the bytes of its other files."""
    with contextlib.closing(sqlite3.connect(path / "index.sqlite")) as db:
        return [*db.iterdump()], {**tiny.listing(path), "index.sqlite": b""}


@pytest.mark.parametrize("name", ["_encode", "_write_array"])
@pytest.mark.parametrize("quantization", search_index.QUANTIZATIONS)
def test_killed_build_goes_on_with_the_same_bytes(
    quantization, name, texts_file, tmp_path, monkeypatch, table
):
    rng, options = np.random.default_rng(2), {"quantization": quantization}
    calls = table({text: rng.normal(size=16) for text in TEXTS})
    whole, path = tmp_path / "whole", tmp_path / "index"
    build(whole, texts_file, "any", **options)
    with killed.at_call(search_index, name, number=2, after=True):
        build(path, texts_file, "any", **options)
    with pytest.raises(errors.InputError, match="there is no whole index; build it"):
        search.Index.open(str(path))
    other = {"prompts": {"query": "a"}}
    refuse("prompts.query='', not 'a'; ", build, path, texts_file, "any", **other)
    calls.clear()
    build(path, texts_file, "any", **options)
    # Two arrays are written for each ten texts.
    done = 10 if (name, quantization) == ("_write_array", "int8") else 20
    assert calls == [TEXTS[i : i + 10] for i in range(done, 24, 10)]
    assert contents(path) == contents(whole)
    calls.clear()
    build(path, texts_file, "any", **options)
    assert calls == [] and contents(path) == contents(whole)


def refuse(text, function, *arguments, **options):
    with pytest.raises(errors.InputError) as caught:
        function(*arguments, **options)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_search_ends_between_batches_of_queries(built, monkeypatch):
    monkeypatch.setattr(search, "_QUERIES", 2)
    index, answers = search.Index.open(str(built)), iter([True, True, False])
    rows = index.neighbours(TEXTS[:6], 3, is_wanted=lambda: next(answers))
    assert rows == index.neighbours(TEXTS[:6], 3)[:4]


def test_vectors_in_memory_change_no_bit(built, monkeypatch):
    index = search.Index.open(str(built))
    expected, sizes = index.neighbours(TEXTS, 3), []
    for size in (1, 50, 10**9):
        monkeypatch.setattr(search, "_CANDIDATES", size)
        assert index.neighbours(TEXTS, 3) == expected
    gather = search_index.Store.gather

    def counted(store, places):
        sizes.append(len(places))
        return gather(store, places)

    monkeypatch.setattr(search_index.Store, "gather", counted)
    monkeypatch.setattr(search, "_CANDIDATES", 1)
    index.neighbours(TEXTS, 3)
    assert len(sizes) == len(TEXTS)  # a query at a time


def test_wrong_queries_are_refused(built):
    index = search.Index.open(str(built))
    refuse("query 2: ' \\u200b' has no token; ", index.query, ["a", " \u200b"])
    refuse("query 1: '' has no token; ", index.query, "")
    refuse("top_k=0 is no whole number of 1 or more", index.query, "a", 0)
    refuse("texts: 3 is no string", index.query, ["a", 3])
    refuse("top_k='5' is no whole number of 1 or more", index.query, "a", "5")
    few = functools.partial(index.query, num_candidates="5")
    refuse("num_candidates='5' is no whole number of 1 or more", few, "a")
    no_texts.refused("texts", index.query)


@pytest.mark.slow
def test_index_of_another_model_is_refused(built, model_dir, tmp_path):
    opens = search.Index.open
    other = tiny.write_model(tmp_path / "other_uncased", hidden_size=16)
    renamed = shutil.copytree(model_dir, tmp_path / "renamed_uncased")
    vocab = (renamed / "vocab.txt").read_text().split()
    for source, text in (
        (search_encoders.Source(str(other)), "its vectors have digest="),
        (search_encoders.Source(pooling="cls"), "have pooling=mean, and those of"),
    ):
        refuse(text, opens, str(built), source)
    same = opens(str(built), search_encoders.Source(str(renamed)))
    assert same.query("a film") == opens(str(built)).query("a film")
    vocab[7], vocab[8] = vocab[8], vocab[7]
    (renamed / "vocab.txt").write_text("\n".join(vocab))
    source = search_encoders.Source(str(renamed))
    refuse("its vectors have digest=", opens, str(built), source)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("00000.vectors.npy", None, "00000.vectors.npy: cannot be read ("),
        ("00000.vectors.npy", b"", "00000.vectors.npy: cannot be read ("),
        ("00000.vectors.npy", 1500, "00000.vectors.npy: cannot be read ("),
        ("00000.vectors.npy", np.zeros((23, 32), "f4"), "it has float32 (23, 32), not"),
        ("00000.vectors.npy", np.zeros((24, 32)), "it has float64 (24, 32), not fl"),
        ("00000.vectors.npy", np.array([{}] * 24, object), "vectors.npy: cannot be re"),
        ("00000.vectors.npy", np.full((24, 32), np.nan, "f4"), "corpus vector 0, "),
        ("index.sqlite", b"{" * 5000, "index.sqlite: cannot be read (file is not a "),
        ("index.sqlite", 9000, "index.sqlite: cannot be read (database disk image is "),
        ("index.sqlite", b"", "there is no whole index; build it by --input_file"),
        ("index.sqlite", None, "holds no index but 00000.vectors.npy; "),
    ],
)
def test_damaged_file_is_one_line(name, content, text, built, tmp_path):
    path = shutil.copytree(built, tmp_path / "index")
    (path / name).unlink()
    if isinstance(content, np.ndarray):
        np.save(path / name, content)
    elif isinstance(content, int):
        (path / name).write_bytes((built / name).read_bytes()[:content])
    elif content is not None:
        (path / name).write_bytes(content)
    refuse(text, lambda: search.Index.open(str(path)).query(TEXTS[:2], 24))


def test_index_of_another_version_is_refused(built, texts_file, tmp_path, table):
    table({"a": [1.0, 0.0]})
    path = shutil.copytree(built, tmp_path / "index")
    with contextlib.closing(sqlite3.connect(path / "index.sqlite")) as db:
        db.execute("PRAGMA user_version = 9")
    message = "index.sqlite: user_version=9 is not that of an index of this version, 2;"
    for use in (search.Index.open, lambda path: build(path, texts_file, "any")):
        refuse(message, use, str(path))
    for name in ("index.json", "building.json"):  # of version 1
        path = tmp_path / name
        path.mkdir()
        (path / name).write_text('{"format_version": 1}')
        message = "holds an index of an earlier version; remove the directory, and "
        for use in (search.Index.open, lambda path: build(path, texts_file, "any")):
            refuse(message, use, str(path))
        assert [*path.iterdir()] == [path / name]


def test_build_reports_batches_and_counts_cut_texts(
    model_dir, texts_file, tmp_path, monkeypatch, capsys
):
    reports = []

    class Recorded(progress.Progress):
        def __call__(self, done, total, *texts, **counts):
            reports.append((self._name, done, total))

    monkeypatch.setattr(progress, "Progress", Recorded)
    monkeypatch.setattr(search_encoders, "_BATCH_TEXTS", 4)
    source = search_encoders.Source(model_dir, max_seq_length=4)
    path = tmp_path / "index"
    monkeypatch.setattr(search_index, "_ROWS_AT_ONCE", 10)
    search_index.build(str(path), texts_file, source)
    assert capsys.readouterr().out == "texts: 24 cut to 4 tokens (--max_seq_length)\n"
    done = [done for name, done, total in reports if (name, total) == _ENCODING]
    assert done == [0, 2, 6, 10, 10, 12, 16, 20, 20, 24, 24]
    search_index.build(str(path), texts_file, source)
    assert "texts: 24 cut to 4 " in capsys.readouterr().out
    assert search.Index.open(str(path))._encoder.identity["max_seq_length"] == 4
    err = capsys.readouterr().err
    assert f"loading {model_dir}, the model that {path} names\n" in err


_ENCODING = ("encoding: text", 24)


def test_double_ids_and_vectors_that_are_not_finite_are_refused(table, tmp_path):
    table({"a": [1, 0], "b": [0, 1], "nan": [np.nan, 1]})
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"_id": "x", "text": "a"}\n{"_id": "x", "text": "b"}\n')
    message = "texts.jsonl:2: id 'x' is already that of line 1; give each row another"
    refuse(message, build, tmp_path / "index", texts, "any")
    texts.write_text('{"text": "a"}\n{"_id": 1, "text": "b"}\n')
    refuse("2: id '1' is already that", build, tmp_path / "index", texts, "any")
    texts.write_text('{"text": "a"}\n{"text": "nan"}\n')
    refuse("line 2: its vector is not finite; ", build, tmp_path / "i", texts, "any")
    texts.write_text('{"text": "a"}\n{"text": "b"}\n')
    build(tmp_path / "index", texts, "any")
    assert len(search_index.Store(str(tmp_path / "index"))) == 2


def test_queries_file_without_lines_is_refused(built, tmp_path):
    (tmp_path / "queries.txt").write_text("")
    queries = f"--queries_file={tmp_path}/queries.txt"
    done = search_runs.run(f"--index_dir={built}", queries)
    assert (done.code, done.out) == (2, "")
    assert "queries.txt: write a query on a line\n" in done.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--queries_file={path}/queries.txt"], "queries.txt: write a query on a line"),
        (["good", " "], "query 2: ' ' has no token; "),
        (["--approximate"], "--approximate needs a package that is not installed: "),
    ],
)
def test_mistake_is_found_before_the_build(tmp_path, monkeypatch, more, message):
    (tmp_path / "queries.txt").write_text("")
    (tmp_path / "texts.txt").write_text("t1\nt2\n")
    monkeypatch.setitem(sys.modules, "faiss", None)
    index = f"--index_dir={tmp_path}/index", f"--input_file={tmp_path}/texts.txt"
    more = [each.format(path=tmp_path) for each in more]
    done = search_runs.run(*index, "--pretrained=any", *more)
    assert done.code == 2 and message in done.err
    assert not (tmp_path / "index").exists()


def test_wrong_places_and_inputs_are_refused(model_dir, texts_file, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    file = tmp_path / "texts.jsonl"
    for path, content, text in (
        (tmp_path / "full", "", "full holds no index but thesis.txt; name a new or "),
        (file, "", "texts.jsonl is a file; name a new or empty"),
        ("gs://bucket/index", "", "and an index is mapped into memory; name a new or "),
        (tmp_path / "new", "", "has no text with a token; give a file with a text a"),
        (tmp_path / "new", '{"text": " "}\n', "has no text with a token"),
        (
            tmp_path / "new",
            '{"_id": 1}\n',
            'texts.jsonl:1: {"_id": 1} has no id or no text',
        ),
        (
            tmp_path / "new",
            '{"_id": [], "text": "a"}\n',
            "has no id or no text; write {",
        ),
        (tmp_path / "new", '"a"\n', "texts.jsonl:1: "),
    ):
        file.write_text(content)
        refuse(text, build, path, file, model_dir)
    file.write_text('{"_id": 1}\n')
    with pytest.raises(ValueError, match=r'"text": "\.\.\."}$'):  # no id, tab, text
        build(tmp_path / "new", file, model_dir)
    for name in ("t.csv", "t.TSV.gz", "t.parquet"):
        table = tmp_path / name
        table.write_text("text\na\n")
        message = f"{name} is a table; write its texts to a .txt file"
        refuse(message, build, tmp_path / "new", table, model_dir)
    assert not (tmp_path / "new").exists()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "index.sqlite").touch()
    build(tmp_path / "begun", texts_file, model_dir)
    assert [*(tmp_path / "full").iterdir()] == [tmp_path / "full" / "thesis.txt"]


def test_other_texts_or_model_do_not_continue_an_index(
    built, model_dir, texts_file, tmp_path
):
    path = shutil.copytree(built, tmp_path / "index")
    texts = tmp_path / "texts.txt"
    texts.write_text(pathlib.Path(texts_file).read_text() + "a\n")
    refuse(": texts.num_texts=24, not 25; texts.", build, path, texts, model_dir)
    refuse(
        "texts.txt: quantization='none', not 'int8'; name a new directory, or remove",
        build,
        path,
        texts_file,
        model_dir,
        quantization="int8",
    )
    assert tiny.listing(path) == tiny.listing(built)


@pytest.fixture(scope="module")
def exported(model_dir, tmp_path_factory):
    output = tmp_path_factory.mktemp("run")
    files = (
        f"--pretrained={model_dir} --output_dir={output}/out --do_export --do_predict"
    )
    rows = output / "pairs.tsv"
    tiny.write_tsv(rows, ("query", "passage"), [(t, f"a {t}") for t in TEXTS])
    tiny.succeed("run_embedding", files, f"--test_file={rows} --max_seq_length=48")
    return output / "out" / "export"


@pytest.mark.parametrize(
    "flags",
    [
        ("pretrained",),
        pytest.param(("pretrained", "export_dir"), marks=pytest.mark.slow),
    ],
)
def test_commands_build_and_search(flags, model_dir, texts_file, tmp_path, request):
    answers = {}
    queries = tmp_path / "queries.txt"
    queries.write_text("a great film\nthe sea\n")
    places = {flag: model_dir for flag in flags}
    if "export_dir" in flags:
        places["export_dir"] = exported = request.getfixturevalue("exported")
    for flag, place in places.items():
        index = f"--index_dir={tmp_path / flag}"
        done = search_runs.run(
            f"--{flag}={place}", f"--input_file={texts_file}", index, "the shop"
        )
        assert done.code == 0, done.err
        first, query, *rows = done.out.splitlines()
        assert first.startswith(f"index: {tmp_path / flag}, 24 texts of 32 numbers in ")
        assert query == "the shop" and len(rows) == 5
        done = search_runs.run(
            index, f"--queries_file={queries}", "--json", "--top_k=3"
        )
        answers[flag] = [json.loads(line) for line in done.out.splitlines()]
        assert [row["query"] for row in answers[flag]] == ["a great film", "the sea"]
        plain = search_runs.run(index, "--top_k=1", "a great film").out.splitlines()
        best = answers[flag][0]["texts"][0]
        assert plain == [
            "a great film",
            f"  {best['cosine']:.4f}  line {best['line']}  {TEXTS[best['line'] - 1]}",
        ]
    built = f"--index_dir={tmp_path / 'pretrained'}"
    done = search_runs.run(built)
    assert "give --input_file=FILE for a build, --serve, or queries" in done.err
    if "export_dir" not in flags:
        return
    for one, two in zip(*answers.values(), strict=True):
        for a, b in zip(one["texts"], two["texts"], strict=True):
            assert abs(a["cosine"] - b["cosine"]) < 1e-5  # sums in another order
    done = search_runs.run(built, f"--export_dir={exported}", "a")
    assert done.code == 2 and done.err.count("error: ") == 1
    assert "its vectors have digest=" in done.err and done.err.count("\n") == 1


def test_export_without_vectors_is_refused(texts_file, tmp_path):
    import tensorflow as tf

    from serving import export

    function = export.text_function(lambda text: {"n": tf.strings.length(text)}, "text")
    module = export.ServedModel([], serving_default=function)
    export.save(module, str(tmp_path / "export"), {})
    source = search_encoders.Source(export_dir=str(tmp_path / "export"))
    refuse(
        "does not return one vector for a text; give an export of run_embedding.py",
        search_index.build,
        str(tmp_path / "index"),
        texts_file,
        source,
    )
