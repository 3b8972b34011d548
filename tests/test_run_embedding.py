"""run_embedding.py from end to end, on a tiny model and rows made for it."""

import functools
import json
import types

import numpy as np
import pytest
import safetensors.numpy
import sklearn.metrics

import bert_reborn as bert
from data_pipeline.text import byte_pairs
from serving import search, search_encoders, search_index
from tests import tiny, tiny_gpt, whole_runs

BRIEF = ("--num_train_epochs=2", "--train_batch_size=8", "--learning_rate=1e-3")
COLUMNS = ("--text_a_column=one", "--text_b_column=two")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("uncased_model")
    # XLA, which the gelu of training needs, takes its time.
    return tiny.write_model(path, hidden_act="relu")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Tables by the kind of their rows, and some that are wrong."""
    directory = tmp_path_factory.mktemp("tables")
    rows = tiny.rows(24)
    pairs = [(text, f"{label} {text}") for text, label in rows]
    tables = {
        "pairs": (("one", "two"), pairs),
        "triplets": (
            ("one", "two", "not"),
            [(*pair, label) for pair, (_, label) in zip(pairs, rows, strict=True)],
        ),
        "scored": (
            ("one", "two", "score"),
            [(*pair, str(i % 6)) for i, pair in enumerate(pairs)],
        ),
        "labelled": (("text", "label"), rows),
        "learned": (
            ("one", "two"),
            [(a, b) for (a, _), (b, _) in zip(rows, tiny.rows(24, 40), strict=True)],
        ),
        "unscored": (("one", "two", "score"), [("bad", "good", "4"), ("a", "b", "x")]),
        "short": (("one", "two", "not"), [("bad", "good", "a"), ("bad", "fine")]),
        "copies": (("one", "two"), [("bad", "good")] * 30),
        "single": (("text",), [(text,) for text, _ in rows]),
        "one": (("text", "label"), [("bad", "no")]),
    }
    for name, (header, table) in tables.items():
        tiny.write_tsv(directory / f"{name}.tsv", header, table)
    return directory


def arguments(model, data, output_dir, train, dev="", *more):
    flags = [f"--pretrained={model}", f"--output_dir={output_dir}", *BRIEF]
    flags += ["--do_train", f"--train_file={data}/{train}.tsv", "--max_seq_length=16"]
    if dev:
        flags += ["--do_eval", f"--dev_file={data}/{dev}.tsv"]
    return [*flags, *more]


KINDS = {
    "pairs": ((*COLUMNS, "--symmetric"), {"mrr_at_10", "recall_at_1"}),
    "triplets": ((*COLUMNS, "--negative_columns=not"), {"triplet_accuracy"}),
    "scored": (
        (*COLUMNS, "--matryoshka_dims=16,4", "--do_export", "--export_format=onnx"),
        {"spearman", "pearson"},
    ),
    "labelled": (("--num_labelled=4", "--do_export"), {"neighbour_accuracy"}),
}


@pytest.fixture(scope="module")
def runs(model_dir, data, tmp_path_factory):
    """A function of a kind of rows to its trained run: what it printed, and where."""

    @functools.cache
    def run(kind):
        output = tmp_path_factory.mktemp(kind)
        flags = (*KINDS[kind][0], "--do_predict", f"--test_file={data}/{kind}.tsv")
        done = tiny.succeed(
            "run_embedding", *arguments(model_dir, data, output, kind, kind, *flags)
        )
        with np.load(output / "test_vectors.npz") as arrays:
            return done, output, dict(arrays)

    return run


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("pairs", marks=pytest.mark.slow),
        pytest.param("triplets", marks=pytest.mark.slow),
        pytest.param("labelled", marks=pytest.mark.slow),
        "scored",
    ],
)
def test_each_kind_of_rows_trains_and_is_scored(kind, runs, data):
    done, output, arrays = runs(kind)
    results, (vectors, ids) = tiny.eval_results(output), arrays.values()
    assert {f"eval_{name}" for name in KINDS[kind][1]} <= results.keys()
    assert "eval_average_precision" not in results
    assert results["global_step"] == 6
    assert f"train: 24 {kind} from {data}/{kind}.tsv" in done.out
    assert vectors.shape[:-1] == (ids.shape if kind != "labelled" else (24,))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1.0, atol=1e-5)
    # Equal texts have equal vectors, whatever their place.
    flat, places = vectors.reshape(ids.size, -1), ids.ravel()
    for text in set(places.tolist()):
        same = flat[places == text]
        np.testing.assert_allclose(
            same, np.broadcast_to(same[:1], same.shape), atol=1e-5
        )


@pytest.mark.slow
def test_few_labels_are_drawn_from_the_training_rows(runs, model_dir, data, tmp_path):
    done, output, _ = runs("labelled")
    accuracies = json.loads((output / "few_labels.json").read_text())
    assert accuracies.keys() == {"logistic_regression", "nearest_label"}
    for name, values in accuracies.items():
        assert 1 / 3 < values["mean"] <= 1 and values["deviation"] > 0
        assert f"{name} of 4 rows a label = {values['mean']:.4f} +- " in done.out
    flags = (*COLUMNS, "--nodo_train", "--num_labelled=4")
    error = tiny.refuse(
        "run_embedding", *arguments(model_dir, data, tmp_path, "pairs", "pairs", *flags)
    )
    assert "--num_labelled=4 is for labelled texts, and the rows are pairs" in error


@pytest.mark.slow
def test_exports_answer_with_the_vectors_of_the_model(runs):
    import tensorflow as tf

    from serving import formats

    _, output, arrays = runs("labelled")
    export = tf.saved_model.load(str(output / "export" / "1"))
    texts = [text for text, _ in tiny.rows(24)]
    for name in ("serving_default", "embed"):
        answers = export.signatures[name](text=tf.constant(texts))
        np.testing.assert_allclose(answers["vector"], arrays["vectors"], atol=1e-5)
    done, output, arrays = runs("scored")
    version = formats.open_version(str(output / "export_onnx" / "1"))
    answers = version.predict("", {"text": np.array(texts, object)})["vector"]
    np.testing.assert_allclose(answers, arrays["vectors"][:, 0], atol=1e-5)
    (line,) = [line for line in done.out.splitlines() if "export_spearman" in line]
    model = tiny.eval_results(output)["eval_spearman"]
    assert float(line.split()[2]) == pytest.approx(model, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("quantization", ["dynamic_int8", "static_int8"])
def test_an_export_is_scored_beside_the_model(quantization, model_dir, data, tmp_path):
    flags = (
        *COLUMNS,
        "--do_export",
        "--export_format=onnx",
        f"--quantization={quantization}",
    )
    done = tiny.succeed(
        "run_embedding",
        *arguments(model_dir, data, tmp_path, "pairs", "scored", *flags),
    )
    model = tiny.eval_results(tmp_path)["eval_spearman"]
    (line,) = [line for line in done.out.splitlines() if "export_spearman" in line]
    assert float(line.split()[2]) == pytest.approx(model, abs=0.05)


@pytest.mark.slow
def test_queries_are_scored_by_the_passages_that_they_find(model_dir, data, tmp_path):
    texts = [text for text, _ in tiny.rows(24)]
    flags = []
    for flag, lines in (
        ("corpus", [f"p{i}\t{text}" for i, text in enumerate(texts)]),
        ("queries", [f"q{i}\t{text}" for i, text in enumerate(texts[:6])]),
        # The first three find their passage at once: it is the same text.
        ("judgements", [f"q{i}\tp{i if i < 3 else i + 9}\t1" for i in range(6)]),
    ):
        (tmp_path / flag).write_text("\n".join(lines) + "\n")
        flags.append(f"--{flag}_file={tmp_path / flag}")
    out, reranker = tmp_path / "out", tmp_path / "reranker_uncased"
    labels = ["no", "yes", "maybe"]
    made = tiny.as_trained(bert.load(model_dir, labels=labels, max_seq_length=48))
    made.save(reranker)
    plain = arguments(model_dir, data, out, "pairs", "", *COLUMNS, "--do_eval")
    more = ("--nodo_train", f"--reranker={reranker}")
    error = tiny.refuse("run_embedding", *plain, *more, *flags)
    assert "one label of ['no', 'yes', 'maybe'], and not by None" in error
    assert "--reranker_label" in error
    more += ("--reranker_label=yes",)
    done = tiny.succeed("run_embedding", *plain, *more, *flags)
    assert f"dev: 6 queries and 24 passages from {tmp_path}/corpus" in done.out
    results = tiny.eval_results(out)
    assert results["eval_recall_at_100"] == 1
    assert 0.5 <= results["eval_mrr_at_10"] < 1
    # Every passage is among the best 100: the order is that of the reranker alone.
    relevant = [i if i < 3 else i + 9 for i in range(6)]
    orders = [
        [i for i, _ in made.rerank(query, texts, label="yes")] for query in texts[:6]
    ]
    pairs = zip(orders, relevant, strict=True)
    ranks = np.array([order.index(place) + 1 for order, place in pairs])
    for name, gains in (("mrr", 1 / ranks), ("ndcg", 1 / np.log2(ranks + 1))):
        value = results[f"eval_reranked_{name}_at_10"]
        assert value == pytest.approx(np.mean(np.where(ranks > 10, 0, gains)))
        assert value != results[f"eval_{name}_at_10"]
    error = tiny.refuse("run_embedding", *plain, *flags, f"--reranker={model_dir}")
    assert "is a BertModel, and no classifier of pairs; train one on pairs" in error
    error = tiny.refuse("run_embedding", *plain, f"--reranker={reranker}")
    assert "ranks passages; set --corpus_file, --queries_file and" in error
    error = tiny.refuse("run_embedding", *plain, "--reranker_label=yes")
    assert "--reranker_label=yes is read with --reranker; add that" in error
    error = tiny.refuse("run_embedding", *plain, *flags[:2])
    assert "--judgements_file belong together; set all of them" in error


@pytest.mark.slow
def test_a_student_gets_the_vectors_of_its_teacher(model_dir, data, tmp_path):
    teacher = tmp_path / "teacher"
    tiny.succeed(
        "run_embedding", *arguments(model_dir, data, teacher, "pairs", "", *COLUMNS)
    )
    distances = []
    for epochs in (1, 30):
        flags = (
            f"--teacher={teacher}",
            "--text_a_column=text",
            f"--num_train_epochs={epochs}",
        )
        flags += (
            "--do_predict",
            f"--test_file={data}/labelled.tsv",
            "--learning_rate=3e-3",
        )
        out = tmp_path / str(epochs)
        done = tiny.succeed(
            "run_embedding", *arguments(model_dir, data, out, "single", "", *flags)
        )
        assert "teacher: 24 texts from" in done.out
        with np.load(out / "test_vectors.npz") as arrays:
            vectors = arrays["vectors"]
        wanted = bert.load(teacher).embed([text for text, _ in tiny.rows(24)])
        distances.append(np.square(vectors - wanted).sum(axis=-1).mean())
    assert distances[1] < 0.5 * distances[0]
    flags = (f"--teacher={teacher}", *COLUMNS, "--loss=in_batch_negatives")
    error = tiny.refuse(
        "run_embedding",
        *arguments(model_dir, data, tmp_path / "b", "pairs", "", *flags),
    )
    assert "beside --teacher=" in error and "leave one out" in error


@pytest.mark.slow
def test_top_layer_of_vectors_waits_for_no_head(model_dir, data, tmp_path):
    """Three steps an epoch; the pooler, which no vector reads, is none."""
    more = ("--unfreeze_epochs=3", "--num_train_epochs=1", *COLUMNS)
    tiny.succeed(
        "run_embedding", *arguments(model_dir, data, tmp_path, "pairs", "", *more)
    )
    end, layers = whole_runs.variables(tmp_path, 3), set()
    for name, value in whole_runs.initial_variables(model_dir).items():
        if name in end and not np.array_equal(end[name], value):
            layers.add(name.split("/")[2])
    assert layers == {"layer_1"}


@pytest.mark.slow
def test_rows_learn_to_find_their_second_text(model_dir, data, tmp_path):
    before = tmp_path / "before"
    plain = [
        *arguments(model_dir, data, before, "learned", "learned", *COLUMNS),
        "--nodo_train",
    ]
    tiny.succeed("run_embedding", *plain)
    more = ("--num_train_epochs=40", "--learning_rate=3e-3", *COLUMNS)
    after = tmp_path / "after"
    tiny.succeed(
        "run_embedding", *arguments(model_dir, data, after, "learned", "learned", *more)
    )
    first, last = (
        tiny.eval_results(path)["eval_mrr_at_10"] for path in (before, after)
    )
    assert last > first + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("export_format", ["onnx", "litert"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_other_runtimes_have_the_vectors_of_the_model(
    export_format, pooling, model_dir, data, tmp_path
):
    from serving import formats

    flags = (f"--pooling={pooling}", f"--export_format={export_format}", "--do_export")
    flags += ("--do_predict", f"--test_file={data}/labelled.tsv")
    tiny.succeed(
        "run_embedding", *arguments(model_dir, data, tmp_path, "labelled", "", *flags)
    )
    with np.load(tmp_path / "test_vectors.npz") as arrays:
        vectors = arrays["vectors"]
    version = formats.open_version(str(tmp_path / f"export_{export_format}" / "1"))
    texts = np.array([text for text, _ in tiny.rows(24)], object)
    np.testing.assert_allclose(
        version.predict("", {"text": texts})["vector"], vectors, atol=1e-5
    )


MISTAKES = {
    ("unscored", "", COLUMNS): "unscored.tsv:3: 'x' is not a finite number",
    ("short", "", (*COLUMNS, "--negative_columns=not")): "short.tsv:3: ",
    ("copies", "", COLUMNS): "a batch has 1 rows, and all",
    ("single", "", ("--text_a_column=text",)): "rows of one text need a label",
    ("labelled", "one", ()): "one.tsv: rows are compared, and there is one",
    ("pairs", "", (*COLUMNS, "--loss=cosent")): "--loss=cosent is not for pairs rows",
    ("scored", "", (*COLUMNS, "--label_column=scores")): (
        "scored.tsv: no label is in the column 'scores' (reads 'one' (text_a), 'two' "
        "(text_b); not read: 'score'); correct --label_column"
    ),
    ("scored", "", (*COLUMNS, "--loss=cosine")): (
        "scored.tsv:7: the score 5 is beyond --largest_score=1, which stands for the "
        "cosine 1; pass --largest_score=5"
    ),
    ("pairs", "", (*COLUMNS, "--triplet_margin=1")): "is for --loss=triplet",
    ("pairs", "", (*COLUMNS, "--matryoshka_dims=8,900")): "900 is not one of 1 to",
    ("pairs", "", ("--text_a_column=one", "--negative_columns=two")): "--text_b_column",
    ("pairs", "", (*COLUMNS, "--rows_per_label=2")): "is for labelled texts, and the",
    ("pairs", "", (*COLUMNS, "--jit_compile=true")): "not compiled by XLA; leave",
    (
        "pairs",
        "",
        (*COLUMNS, "--do_export", "--export_format=onnx", "--pooling=last"),
    ): "onnx has the p",
    ("pairs", "", (*COLUMNS, "--do_eval", "--dev_file=")): "--dev_file is not set",
}


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: f"{case[0]} {case[2]}")
def test_wrong_input_is_named_in_a_line(case, model_dir, data, tmp_path):
    train, dev, flags = case
    error = tiny.refuse(
        "run_embedding", *arguments(model_dir, data, tmp_path, train, dev, *flags)
    )
    assert MISTAKES[case] in error


def test_export_that_a_tokenizer_forbids_is_refused_before_the_training(
    data, tmp_path, monkeypatch
):
    """GPT-1's is no TensorFlow operation, and what is not exported needs none."""
    monkeypatch.setattr(byte_pairs.Gpt2Tokenizer, "in_graph", False)
    model = tiny_gpt.write_model(tmp_path / "gpt")
    flags = arguments(model, data, tmp_path / "out", "pairs", "", *COLUMNS)
    flags.append("--export_format=litert")
    error = tiny.refuse("run_embedding", *flags, "--do_export")
    assert "and GPT's is no TensorFlow operation; leave it out" in error
    assert not (tmp_path / "out").exists()
    done = tiny.succeed("run_embedding", *flags)
    assert "--export_format=litert: nothing is exported; set --do_export" in done.log


def test_pairs_of_0_and_1_are_scored_as_classes(model_dir, data, tmp_path):
    rows = [line.split("\t") for line in (data / "scored.tsv").read_text().split("\n")]
    header, *rows = [row for row in rows if len(row) == 3]
    labels = [int(int(row[2]) > 2) for row in rows]
    dev = [(*row[:2], str(label)) for row, label in zip(rows, labels, strict=True)]
    tiny.write_tsv(tmp_path / "dev.tsv", header, dev)
    flags = arguments(model_dir, data, tmp_path / "out", "pairs", "", *COLUMNS)
    flags += ["--nodo_train", "--do_eval", "--do_predict"]
    flags += [f"--{split}_file={tmp_path}/dev.tsv" for split in ("dev", "test")]
    tiny.succeed("run_embedding", *flags)
    results = tiny.eval_results(tmp_path / "out")
    with np.load(tmp_path / "out" / "test_vectors.npz") as arrays:
        cosines = np.sum(np.prod(arrays["vectors"], axis=1), axis=-1)
    precision = sklearn.metrics.average_precision_score(labels, cosines)
    assert results["eval_average_precision"] == pytest.approx(precision)
    is_one = cosines >= results["eval_accuracy_threshold"] + 1e-6  # of float32
    accuracy = np.mean(is_one == np.array(labels))
    assert results["eval_accuracy"] == pytest.approx(accuracy, abs=1.5 / 24)
    assert {"eval_f1", "eval_f1_threshold", "eval_spearman"} < results.keys()


@pytest.fixture
def modules(model_dir, tmp_path):
    """A function of settings to a directory of sentence-transformers: maxima."""

    def make(folder="", width=32, units=0, **settings):
        directory = tmp_path / "modules"
        bert.load(model_dir, max_seq_length=16).save(directory, "hugging_face")
        kinds = [("Transformer", folder), ("Pooling", "1_Pooling")]
        if units:
            kinds.append(("Dense", "2_Dense"))
            (directory / "2_Dense").mkdir()
            weights = {"linear.weight": np.zeros((8, 32), np.float32)}
            path = directory / "2_Dense" / "model.safetensors"
            safetensors.numpy.save_file(weights, path)
        for file, value in {
            "modules.json": [
                {"type": f"sentence_transformers.models.{kind}", "path": path}
                for kind, path in kinds
            ],
            "1_Pooling/config.json": {
                "pooling_mode": "max",
                "word_embedding_dimension": width,
            },
            "config_sentence_transformers.json": settings,
            "2_Dense/config.json": {
                "in_features": width,
                "out_features": units,
                "bias": False,
            },
        }.items():
            (directory / file).parent.mkdir(exist_ok=True)
            (directory / file).write_text(json.dumps(value))
        return directory

    return make


@pytest.mark.slow
def test_similarity_and_size_of_a_directory_are_followed(modules, data, tmp_path):
    """Products of the leading 8 values are scored, trained, written and searched."""
    place = modules(similarity_fn_name="dot", truncate_dim=8)
    out = tmp_path / "out"
    flags = arguments(place, data, out, "scored", "scored", *COLUMNS, "--do_export")
    tiny.succeed("run_embedding", *flags, "--num_train_epochs=1")
    trained, results = bert.load(out), tiny.eval_results(out)
    rows = [line.split("\t") for line in (data / "scored.tsv").read_text().split("\n")]
    rows = [row for row in rows[1:] if len(row) == 3]
    first, second = (trained.embed([row[i] for row in rows]) for i in (0, 1))
    assert first.shape == (24, 8)
    products, labels = np.sum(first * second, axis=1), [float(row[2]) for row in rows]
    cosines = products / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    pearson = np.corrcoef(products, labels)[0, 1]
    assert results["eval_pearson"] == pytest.approx(pearson, abs=1e-4)
    assert abs(np.corrcoef(cosines, labels)[0, 1] - pearson) > 1e-3
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{row[1]}\n" for row in rows))
    wanted = trained.similarity([rows[0][0]], [row[1] for row in rows])[0]
    order = np.argsort(-wanted, kind="stable")[:5]
    indices = {}
    for name, source in (
        ("directory", search_encoders.Source(str(out))),
        ("export", search_encoders.Source(export_dir=str(out / "export"))),
    ):
        indices[name] = str(tmp_path / name)
        search_index.build(indices[name], str(texts), source)
        nearest = search.Index.open(indices[name]).query(rows[0][0])[0]
        np.testing.assert_allclose([s for *_, s in nearest], wanted[order], rtol=1e-4)
    settings = out / "config_sentence_transformers.json"
    settings.write_text('{"truncate_dim": 8}')
    with pytest.raises(ValueError, match=r"similarity=dot, and those of .*=None; give"):
        search.Index.open(indices["directory"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 64}, "reads vectors of 64 numbers, and hidden_size"),
        (
            {"units": 2**31},
            "(8, 32)}, and the modules before want {'linear.weight': (21",
        ),
        ({"folder": "0_T"}, "0_T; copy the directory"),
        (
            {"similarity_fn_name": "euclidean"},
            "similarity_fn_name is euclidean, and texts are ranked by cosine or dot",
        ),
    ],
)
def test_modules_have_to_fit_the_network(modules, data, tmp_path, settings, message):
    flags = arguments(
        modules(**settings), data, tmp_path / "out", "pairs", "", *COLUMNS
    )
    assert message in tiny.refuse("run_embedding", *flags)
    assert not (tmp_path / "out").exists()


def test_average_precision_selects_the_checkpoint_of_pairs_of_0_and_1():
    from data_pipeline.embedding import split
    from tasks import embedding_rows

    def names(kind, labels):
        texts = split.TextSplit("", None, None, kind, None, np.float32(labels))
        return embedding_rows.score_names(texts)

    assert names("scored", [0, 1, 1])[0] == "average_precision"
    for labels in ([0, 1, 0.5], [1, 1], [0, 2]):
        assert names("scored", labels) == ("spearman", "pearson")
    assert names("labelled", [0, 1]) == ("neighbour_accuracy",)
    assert embedding_rows.score_names(None) == ()


def test_equal_numbers_of_the_dev_rows_are_warned_of():
    from data_pipeline.embedding import split
    from tests.data_pipeline.classification import test_label_checks

    def warned(kind, *labels):
        table = test_label_checks.table(*labels)
        rows = split.TextSplit("", None, table, kind, None, np.zeros(len(labels)))
        found = split.oddities({"dev": rows})
        return "all labels are '1.0'; nothing can" in "".join(f.text for f in found)

    assert warned("scored", "1.0", "1") and not warned("scored", "1.0", "2")
    assert not warned("labelled", "1.0", "1.0")


@pytest.mark.parametrize(("batch_size", "has_hint"), [(20, True), (21, False)])
def test_rows_that_are_alone_with_their_label_are_named(batch_size, has_hint, capsys):
    from tasks import embedding_rows

    labels = np.repeat(np.arange(20), 2)
    embedding_rows._hint_at_labels(labels, batch_size)
    out = capsys.readouterr().out
    assert bool(out) == has_hint
    # The share of such rows, by drawing batches.
    rng = np.random.default_rng(0)
    draws = rng.permuted(np.tile(labels, (4000, 1)), axis=1)[:, :batch_size]
    alone = (draws[:, :, None] == draws[:, None]).sum(axis=2) == 1
    assert np.mean(alone) == pytest.approx(0.5, abs=0.03)
    assert (np.mean(alone) > 0.5) == has_hint
    if has_hint:
        assert out.startswith("hint: 20 labels in 40 rows: 51% of the rows in a batch")
        assert "--rows_per_label=2" in out
        assert out.count("\n") == 1


def test_scores_fit_the_largest_one_of_float32():
    from tasks import embedding_rows

    rows = types.SimpleNamespace(path="t", table=types.SimpleNamespace(lines=[2, 3]))
    for largest in (0.3, 1.0, 5.0):
        rows.labels = np.array([-largest, largest], np.float32)
        embedding_rows._check_scores(rows, largest)
        rows.labels[1] *= np.float32(1.1)
        with pytest.raises(
            ValueError, match=f"t:3: .*pass --largest_score={1.1 * largest:g}"
        ):
            embedding_rows._check_scores(rows, largest)


@pytest.mark.slow
def test_hard_negatives_are_found_and_kept(model_dir, data, tmp_path):
    """A run with the mined texts as a column has the same weights."""
    mined, named = tmp_path / "mined", tmp_path / "named"
    flags = (*COLUMNS, "--hard_negatives=2", "--negative_margin=0")
    command = arguments(model_dir, data, mined, "learned", "", *flags)
    done = tiny.succeed("run_embedding", *command)
    assert "hard negatives: 48 texts, " in done.out
    lines = (mined / "hard_negatives.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    keys = ["anchor", "positive", "negative_1", "negative_2"]
    assert len(rows) == 24 and all([*row] == keys for row in rows)
    assert all(len({*row.values()}) >= 3 for row in rows)
    tiny.write_tsv(tmp_path / "rows.tsv", keys, [[*row.values()] for row in rows])
    columns = ["--text_a_column=anchor", "--text_b_column=positive"]
    columns += ["--negative_columns=negative_1,negative_2"]
    tiny.succeed(
        "run_embedding", *arguments(model_dir, tmp_path, named, "rows", "", *columns)
    )
    weights = [whole_runs.variables(path, 6) for path in (mined, named)]
    whole_runs.assert_equal(*weights)
    # The same command goes on, with the negatives that it had.
    done = tiny.succeed("run_embedding", *command)
    assert "hard negatives:" not in done.out
    assert (mined / "hard_negatives.jsonl").read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("train", "flags", "message"),
    [
        ("scored", COLUMNS, "--hard_negatives=1 is for pairs, and the rows of"),
        ("triplets", (*COLUMNS, "--negative_columns=not"), "is for pairs alone; leave"),
        ("pairs", (*COLUMNS, "--hard_negatives=40"), "=40, and there are "),
    ],
)
def test_hard_negatives_that_cannot_be_are_refused(
    train, flags, message, model_dir, data, tmp_path
):
    flags = ("--hard_negatives=1", *flags)
    command = arguments(model_dir, data, tmp_path, train, "", *flags)
    assert message in tiny.refuse("run_embedding", *command)
