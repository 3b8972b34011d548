import collections
import dataclasses
import importlib
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline import findings, label_maps
from data_pipeline.batches import batching
from data_pipeline.classification import encoding, labels, sources
from data_pipeline.classification import split as row_splits
from data_pipeline.tables import labelled
from data_pipeline.text import wordpiece
from tests import tiny
from tests.refusals import refused

ORIGINAL = pathlib.Path(__file__).parents[1] / "original_tasks"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "a", "##s", "."]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
METRICS = {"classification": ("accuracy",), "multi_label": ("f1_micro",)}
HEADER = ("text", "label")
TASKS = (
    "data_pipeline.classification.soft_labels",
    "data_pipeline.embedding.split",
    "data_pipeline.seq2seq.split",
    "data_pipeline.squad.windows",
    "data_pipeline.tagging.windows",
    "training.feature_cache",
)
ROWS = [("a good film", "pos"), ("bad films .", "neg"), ("good good good", "pos")]


@pytest.fixture
def source(tmp_path):
    def make(layout=None, **options):
        files = {
            name: str(
                tiny.write_tsv(tmp_path / f"{name}.tsv", HEADER, options.pop(name))
            )
            for name in {"train", "dev", "test"} & options.keys()
        }
        columns = (
            dict(zip(("text_a", "label"), HEADER, strict=True))
            if layout is None
            else layout
        )
        return sources.Source(files=files, layout=labelled.Layout(**columns), **options)

    return make


def load(source, splits, **settings):
    settings |= {"default_metrics": METRICS, "show": findings.show}
    settings.setdefault("head", None)
    return row_splits.load(source, splits, TOKENIZER, 16, **settings)


def test_rows_become_tokens_and_label_ids(source, capsys):
    data = load(source(train=ROWS, dev=ROWS[:1]), ["train", "dev"])
    train = data.splits["train"].packed
    starts = zip(train.splits[:-1], train.splits[1:], strict=True)
    assert [train.tokens[slice(*ends)].tolist() for ends in starts] == [
        [2, 7, 4, 6, 3],
        [2, 5, 6, 8, 9, 3],
        [2, 4, 4, 4, 3],
    ]
    assert data.label_set == labels.Labels(("neg", "pos"))
    assert data.splits["train"].label_ids.tolist() == [1, 0, 1]
    assert data.splits["dev"].label_ids.tolist() == [1]
    assert data.metrics == ("accuracy",)
    assert data.problem_type == "classification" and not data.encode.has_pairs
    out = capsys.readouterr().out
    assert "train: 3 examples from " in out
    assert "5.3 tokens on average, 0 cut to 16" in out


def test_trained_weights_take_as_many_texts_as_they_were_trained_on(source):
    """An export alone has no rows, and its command line seldom names the columns."""
    classes = labels.Labels(("neg", "pos"))
    names, kind = classes.names, classes.problem_type
    head = label_maps.Head("model", 2, kind, names, True, classes)
    for num_texts in (None, 1, 2):
        data = load(source(), [], num_texts=num_texts, head=head)
        assert len(data.encode.text_names) == (num_texts or 1)
    assert load(source(test=ROWS), ["test"], num_texts=1, head=head)
    message = r"test\.tsv: single texts, and the weights were trained on pairs"
    with pytest.raises(ValueError, match=message):
        load(source(test=ROWS), ["test"], num_texts=2, head=head)
    columns = {"text_a": "sentence", "text_b": "sentence", "label": "label"}
    message = "--text_b_column: pairs, and the weights were trained on single texts"
    with pytest.raises(ValueError, match=message):
        load(source(columns), [], num_texts=1, head=head)


def unknown(count):
    """Twenty rows of ten words, of which so many are unknown."""
    text = "xyz " * count + "good " * (10 - count)
    return [(text, label) for label in ("pos", "neg") * 10]


def test_unknown_words_are_printed_and_refused_above_a_half(source, capsys, caplog):
    load(source(train=unknown(0)), ["train"])
    assert "0 cut to 16\n" in capsys.readouterr().out and not caplog.records
    load(source(train=unknown(5)), ["train"])
    assert "0 cut to 16, 50 % [UNK]\n" in capsys.readouterr().out
    assert "train.tsv: 50% of 200 tokens are [UNK]" in caplog.text
    with pytest.raises(ValueError, match=r"dev\.tsv: 60% of 200.*--nocheck_tokenizer"):
        load(source(train=unknown(0), dev=unknown(6)), ["train", "dev"])


def test_chunks_do_not_show(source, monkeypatch):
    table = source(train=ROWS * 5).read("train")
    encode = encoding.Encoder(TOKENIZER, 5)
    whole = encoding.featurize(table, encode)
    monkeypatch.setattr(encoding, "_CHUNK_CHARACTERS", 4 * encoding._ROW_CHARACTERS)
    pieces = encoding.featurize(table, encode)
    for name in ("tokens", "splits", "first_lengths"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name))
    assert pieces.num_truncated == whole.num_truncated == 5


def test_chunks_of_long_texts_have_few_rows(monkeypatch):
    """Tokenizing takes 20 bytes for each character: 8 GB for 8,192 rows of 50 kB."""
    sizes, pack = [], encoding.Encoder.pack

    def sized(self, *columns):
        sizes.append([len(text) for text in columns[0]])
        return pack(self, *columns)

    monkeypatch.setattr(encoding.Encoder, "pack", sized)
    monkeypatch.setattr(encoding, "_CHUNK_CHARACTERS", 12_000)
    texts = ["good " * 1000, "good", "bad " * 500, *["good bad"] * 5, "bad " * 9000, ""]
    encode = encoding.Encoder(TOKENIZER, 5)
    packed = encoding.pack("tokenizing: row", encode, texts, None)
    assert sizes == [[5000, 4], [2000, 8, 8, 8], [8, 8], [36000], [0]]
    whole = pack(encode, texts, None)
    for name in ("tokens", "splits", "first_lengths"):
        np.testing.assert_array_equal(getattr(packed, name), getattr(whole, name))
    assert packed.num_truncated == whole.num_truncated == 3


def test_digest_tells_rows_apart(source):
    def digest(rows):
        return load(source(train=rows), ["train"]).splits["train"].digest()

    assert digest(ROWS) == digest(list(ROWS))
    assert digest(ROWS).startswith("3 examples, digest ")
    relabelled = [*ROWS[:2], ("good good good", "neg")]
    others = [ROWS[::-1], relabelled, [*ROWS[:2], ("good good bad", "pos")]]
    assert len({digest(ROWS), *map(digest, others)}) == 4


def test_labels_come_from_the_most_specific_source(source):
    made = source(train=ROWS)
    table = made.read("train")
    named = source(train=ROWS, label_spec="pos,neg")
    task = sources.Source(task_name="mrpc", data_dir=str(ORIGINAL / "mrpc"))
    known = tiny.head_of(labels.Labels(("x", "y")))
    for head in (None, known):  # of other classes, so that another head is started
        for each, names in ((task, "01"), (named, ("pos", "neg"))):
            label_set, asked = each.label_set(table, head)
            assert label_set.names == asked == tuple(names)
        assert made.label_set(table, head)[0].names == ("neg", "pos")
    assert made.label_set(None, known)[0].names == ("x", "y")
    assert named.label_set(None, None)[0].names == ("pos", "neg")
    with pytest.raises(ValueError, match=r"--labels, or train first"):
        made.label_set(None, None)
    # Those of a trained model stand, with their kind, which a flag may not repeat.
    trained = labels.Labels(("x", "y"), "multi_label", "|")
    known = tiny.head_of(trained)
    assert source(label_spec="x,y").label_set(None, known)[0] == trained
    for made, words in (
        (source(label_spec="y,z"), "--labels: ['y', 'z'] are not the labels that"),
        (source(problem_type="regression"), "trained for multi_label (run/label_map"),
        (task, "trained for multi_label (run/label_map.json) and the rows are for cla"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            made.label_set(None, known)
    message = "--task_name=mrpc: ['0', '1'] are not the labels that the model was "
    message += "trained with, ['x', 'y'] (run/label_map.json); leave the flag out"
    with pytest.raises(ValueError, match=re.escape(message)):
        task.label_set(None, tiny.head_of(labels.Labels(("x", "y"))))


def test_task_has_its_own_metrics_and_pairs():
    task = sources.Source(task_name="MRPC", data_dir=str(ORIGINAL / "mrpc"))
    data = load(task, ["dev", "test"])
    assert data.metrics == ("accuracy", "f1")
    assert data.encode.has_pairs
    assert data.splits["test"].label_ids is None
    assert set(data.splits["dev"].label_ids) <= {0, 1}
    assert task.has_pairs and not sources.Source(task_name="cola").has_pairs
    assert sources.Source(layout=labelled.Layout(text_a="a", text_b="b")).has_pairs


def test_dev_rows_are_a_share_of_each_class(source, capsys):
    counts = {"pos": 20, "neg": 10, "odd": 3, "one": 1}
    rows = [
        (f"film {label} {number}", label)
        for label, count in counts.items()
        for number in range(count)
    ]
    made = source(train=rows, dev_share=0.2)
    data = load(made, ("train", "dev"))
    assert collections.Counter(data.splits["dev"].table.labels) == dict(
        pos=4, neg=2, odd=1
    )
    lines = {split: data.splits[split].table.lines for split in ("train", "dev")}
    assert sorted(lines["train"] + lines["dev"]) == list(range(2, 36))
    assert data.splits["dev"].names(np.array([0])) == [
        f"{data.splits['dev'].table.path}:{lines['dev'][0]} (id {lines['dev'][0] - 2})"
    ]
    out = capsys.readouterr().out
    assert "dev: 7 examples from" in out and out.count(": reads ") == 1
    # The same rows whenever they are read, alone or beside the others; not the first.
    assert dataclasses.replace(made).read("dev").lines == lines["dev"]
    assert lines["dev"] != [2, 3, 4, 5, 22, 23, 32]
    # At least one row of a class is trained on.
    assert "one" in data.splits["train"].table.labels
    half = source(train=rows, dev_share=0.5)
    assert collections.Counter(half.read("dev").labels) == dict(pos=10, neg=5, odd=2)
    assert "one" in half.read("train").labels

    numbers = [(f"film {number}", f"{number}.5") for number in range(10)]
    made = source(train=numbers, dev_share=0.3, problem_type="regression")
    assert len(made.read("dev").lines) == 3 and len(made.read("train").lines) == 7
    with pytest.raises(ValueError, match=r"--dev_share=0.04 of 10 rows \(.* raise it"):
        source(train=numbers, dev_share=0.04, problem_type="regression").read("dev")

    with pytest.raises(ValueError, match="the dev rows are needed and --dev_file is"):
        source(train=ROWS).read("dev")
    tfds = sources.Source(tfds_name="glue/sst2", files={"dev": ""})
    with pytest.raises(ValueError, match="and --tfds_dev_split is not set"):
        tfds.read("dev")


@pytest.mark.parametrize(
    ("problem_type", "last"), [("classification", 32), ("regression", 33)]
)
def test_a_dev_share_of_different_texts_is_that_of_earlier_versions(
    source, problem_type, last
):
    grades = ["3"] * 20 + ["2"] * 10 + ["1"] * 3 + ["0"]
    rows = [(f"film {n}", grade) for n, grade in enumerate(grades)]
    dev = source(train=rows, dev_share=0.2, problem_type=problem_type).read("dev")
    assert [line - 2 for line in dev.lines] == [2, 4, 11, 19, 23, 25, last]


def test_equal_texts_are_in_one_part_of_a_dev_share():
    def parts(rows, share=0.2):
        names = "text_a", "text_b", "label"
        dicts = [dict(zip(names, row, strict=True)) for row in rows]
        made = sources.Source(files={"train": dicts}, dev_share=share)
        return made.read("train"), made.read("dev")

    # Pairs are equal where both texts are; a text with two labels is in one part, too.
    texts = [(f"a {n}", f"b {m}") for n in range(10) for m in range(5)]
    rows = [(*pair, "pn"[n % 2]) for n, pair in enumerate(texts) for _ in range(3)]
    rows += [(*texts[0], "n"), (*texts[1], "p")]
    train, dev = parts(rows)
    assert not {*train.texts()} & {*dev.texts()}
    assert {*train.text_a} & {*dev.text_a}
    # 5 texts of each label alone, and one of the two that have both.
    assert sorted(collections.Counter(dev.labels).values()) == [16, 18]
    assert parts(rows)[1].lines == dev.lines
    # What all rows of a class share stays with the training rows.
    train, dev = parts([("same", "text", "p")] * 9 + rows)
    assert ("same", "text") not in dev.texts() and len(dev.lines) == 34
    with refused("--dev_share=0.5 of 9 rows", "equal texts together, is not one row"):
        parts([("same", "text", "p")] * 9, 0.5)


def test_rows_without_text_are_left_out_of_all_but_test_rows(source, capsys):
    rows = [*ROWS, ("", "pos"), (" ", "neg")]
    made = source(train=rows, dev=rows, test=rows)
    data = load(made, ["train", "dev"])
    assert [len(data.splits[name]) for name in ("train", "dev")] == [3, 3]
    printed = capsys.readouterr().out
    assert printed.count(".tsv: left out 2 rows without text, lines 5, 6\n") == 2
    with refused("test.tsv:5: text_a is empty, as in line 6", "--allow_empty_text"):
        made.read("test")
    layout = {"text_a": "text", "label": "label", "allow_empty_text": True}
    kept = source(layout, train=rows, test=rows)
    assert [len(kept.read(name).lines) for name in ("train", "test")] == [5, 5]
    shared = source(train=rows * 2, dev_share=0.5)
    assert len(shared.read("train").lines) + len(shared.read("dev").lines) == 6
    nulls = [{"text": None, "label": "a"}, {"text": "x", "label": "a"}]
    assert sources.Source(files={"train": nulls}).read("train").text_a == ["x"]


def test_a_run_keeps_the_warnings_of_its_rows_for_the_report(source):
    rows = [*ROWS, ("good good good", "neg")]
    data = load(source(train=rows, dev=rows[:1]), ["train", "dev"])
    two, both = data.findings
    assert two.endswith("1 text with two labels: lines 4 ('pos') and 5 ('neg')")
    assert both.endswith("too (line 2), which raises the scores")


@pytest.mark.parametrize(
    ("cells", "problem_type", "counts"),
    [
        (["", ""], "classification", {}),
        (["pos", "neg"], "classification", {"pos": 1, "neg": 1}),
        (["fine", "pos"], "classification", {}),  # not scored
        (["pos,neg", ""], "multi_label", {"pos": 1, "neg": 1}),
    ],
)
def test_labels_of_the_report_have_names(source, cells, problem_type, counts):
    made = source(
        train=ROWS,
        test=[("a film", cell) for cell in cells],
        problem_type=problem_type,
    )
    data = load(made, ["train", "test"])
    assert data.splits["test"].summary().labels == counts


# Files of the rows ("nice", pos) and ("bad", neg), whatever their names and headers.
JSONL = '{"%s": "nice", "label": "pos"}\n{"%s": "bad", "label": "neg"}\n'
CELLS = "nice,pos\nbad,neg\n"
MIXES = [
    ({}, JSONL % (("text",) * 2), "text,label\n" + CELLS, ""),
    (
        {"text_a": "tweet"},
        "label\ttweet\npos\tnice\nneg\tbad\n",
        "tweet\nnice\nbad",
        "",
    ),
    # By number a usual name is one of a header.
    ({"text_a": 0, "label": 1}, "text,label\n" + CELLS, "nice\nbad\n", ""),
    ({"text_a": 0, "label": 1}, CELLS, "text\nnice\nbad\n", ""),
    (
        {"text_a": 0, "label": 1},
        "tweet,label\n" + CELLS,
        "nice\nbad\n",
        "train.csv:1: ['tweet', 'label'] are not the usual names of columns; if they",
    ),
    (
        {"text_a": 0, "label": 1},
        *(CELLS, JSONL % (("text",) * 2)),
        "no column '0' (text_a); its columns are ['text', 'label']; choose one",
    ),
]


@pytest.mark.parametrize(("layout", "train", "test", "error"), MIXES)
def test_each_file_says_whether_it_has_a_header(tmp_path, layout, train, test, error):
    files = {}
    for split, text in (("train", train), ("test", test)):
        ending = "jsonl" if text[0] == "{" else "tsv" if "\t" in text else "csv"
        files[split] = str(tmp_path / f"{split}.{ending}")
        pathlib.Path(files[split]).write_text(text)
    made = sources.Source(files=files, layout=labelled.Layout(**layout))
    if error:
        with pytest.raises(ValueError, match=re.escape(error)):
            load(made, files)
        return
    data = load(made, files)
    assert [rows.table.text_a for rows in data.splits.values()] == [["nice", "bad"]] * 2
    assert data.splits["train"].table.labels == ["pos", "neg"]


def test_other_forms_and_labels_stop_a_run_but_not_a_prediction(source):
    made = source(train=ROWS, layout={})
    pairs = pathlib.Path(made.files["train"]).with_name("pairs.tsv")
    header = ("text_a", "text_b", "label")
    made.files["dev"] = str(tiny.write_tsv(pairs, header, [("a", "b", "pos")]))
    with pytest.raises(ValueError, match="give all pairs of texts, or all single ones"):
        load(made, ["train", "dev"])
    strange = [("good", "odd"), ("bad", "neg"), ("a", "pos")]
    with pytest.raises(ValueError, match="label 'odd' is not one of"):
        load(source(train=ROWS, dev=strange), ["train", "dev"])
    data = load(source(train=ROWS, test=strange), ["train", "test"])
    assert data.splits["test"].label_ids is None
    assert data.splits["test"].table.labels == ["odd", "neg", "pos"]


def test_sets_of_labels_are_kept_as_their_labels(source):
    rng = np.random.default_rng(1)
    sets = [rng.choice(400, size, replace=False) for size in rng.integers(0, 9, 300)]
    rows = [("good", "|".join(map(str, ids))) for ids in sets] + [("bad", "399|3|3")]
    many = source(
        train=rows,
        dev=rows[-1:],
        problem_type="multi_label",
        separator="|",
        label_spec=",".join(map(str, range(400))),
    )
    data = load(many, ["train", "dev"])
    wanted = np.zeros([301, 400], np.float32)
    for row, ids in enumerate([*sets, [399, 3]]):
        wanted[row, ids] = 1.0
    kept = data.splits["train"].label_ids
    assert kept.ids.nbytes + kept.splits.nbytes < wanted.nbytes / 40
    assert (np.asarray(kept) == wanted).all() and kept.shape == wanted.shape
    assert data.splits["dev"].label_ids.tolist() == wanted[-1:].tolist()
    examples = data.examples("train")
    (batch,) = examples.batches(np.array([[7, 300, -1, 0]], np.int32), None)
    label_ids = batch["label_ids"]
    assert label_ids.dtype == tf.float32 and label_ids.shape == (4, 400)
    assert (label_ids.numpy() == wanted[[7, 300, 0, 0]]).all()
    assert data.metrics == ("f1_micro",)
    dense = dataclasses.replace(data.splits["train"], label_ids=wanted)
    assert dense.digest() == data.splits["train"].digest()
    (other,) = dense.examples().batches(np.array([[7]], np.int32), None)
    assert (other["label_ids"].numpy() == label_ids[:1].numpy()).all()


def test_repr_is_one_line_without_texts(source):
    """Notebooks show it, and are passed on."""
    rows = [(f"a good film {i}", f"class {i % 6}") for i in range(60)]
    data = load(source(train=rows, dev=rows[:7]), ["train", "dev"])
    kind = "LabelledData: classification, train 60, dev 7 rows, 6 labels"
    assert repr(data) == f"<{kind}: class 0, class 1, class 2, class 3 and 2 more>"
    train = data.splits["train"]
    assert repr(train) == f"<LabelledSplit: 60 examples of {train.path}>"
    assert repr(train.table) == f"<Table: 60 rows of {train.path}>"
    assert repr(data.examples("dev")) == "<Examples: 7 examples>"
    assert repr(train.packed) == "<Packed: 60 examples, 360 tokens>"
    summary = repr(train.summary())
    assert "count=60" in summary and "class 0" not in summary and "[" not in summary


def subclasses(base):
    """All of them that this project's modules define."""
    for kind in base.__subclasses__():
        yield kind
        yield from subclasses(kind)


def test_no_split_or_examples_of_any_task_has_another_repr():
    for module in TASKS:
        importlib.import_module(module)
    for base in (batching.Split, batching.Examples):
        kinds = [*subclasses(base)]
        assert len(kinds) >= 4
        assert {kind.__repr__ for kind in kinds} == {base.__repr__}, kinds


@pytest.mark.parametrize(("label", "is_warned"), [("", False), ("other", True)])
def test_test_rows_with_empty_labels_are_no_warning(source, caplog, label, is_warned):
    data = load(source(train=ROWS, test=[("a film", label)]), ["train", "test"])
    assert data.splits["test"].label_ids is None
    assert ("the test rows are not scored" in caplog.text) == is_warned
