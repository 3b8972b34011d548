import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_pipeline import findings, label_maps
from data_pipeline.batches import batching
from data_pipeline.classification import labels
from data_pipeline.tagging import files, schemes, scores
from data_pipeline.tagging import windows as sentence_windows
from data_pipeline.text import wordpiece
from tests import tiny

PIECES = "a b c ##b ##c . 中"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)


def sentences(*texts, documents=None):
    words = [text.split(" ") for text in texts]
    return files.Sentences(
        path="a.conll",
        tag_path="a.conll",
        file_format="conll",
        words=words,
        tags=None,
        documents=np.array(documents or [0] * len(texts), np.int32),
        lines=[[1] * len(row) for row in words],
    )


def cut(rows_of_words, max_seq_length=8, **options):
    windows = sentence_windows.make_windows(
        rows_of_words, TOKENIZER, max_seq_length=max_seq_length, **options
    )
    assert windows.packed.first_lengths.tolist() == windows.packed.lengths.tolist()
    return windows


def read(windows):
    """The tokens of each window, * before the one that a word is predicted from."""
    packed, places = windows.packed, set(windows.word_places.tolist())
    tokens = [
        "*" * (place in places) + token
        for place, token in enumerate(TOKENIZER.ids_to_tokens(packed.tokens))
    ]
    texts = [
        " ".join(tokens[start:end]) for start, end in itertools.pairwise(packed.splits)
    ]
    assert all(t.startswith("[CLS] ") and t.endswith(" [SEP]") for t in texts)
    return [text[6:-6] for text in texts]


@pytest.mark.parametrize(
    ("texts", "max_seq_length", "stride", "expected"),
    [
        ("abc b|c. 中", 8, 0, "*a ##b ##c *b|*c . *中"),
        # Words 4 and 5 are in both: 1 and 0 tokens behind them, 0 and 1 before them.
        ("a b c a b c a b c a", 8, 4, "*a *b *c *a *b c|b *c *a *b *c *a"),
        # Six tokens fit; the third word would be cut in the first window.
        ("ab abc abc ab a", 8, 6, "*a ##b *a ##b ##c|*a ##b ##c *a ##b *a"),
        ("a b c a b c a", 6, 1, "*a *b *c a|b c *a b|c a *b c|a b *c *a"),
        (
            "abc abc a b a b c abc",
            9,
            2,
            "*a ##b ##c *a ##b ##c a|a ##b ##c *a *b a b|a b *a *b c|a b *c *a ##b ##c",
        ),
        # Windows that predict nothing are left out.
        (
            "ab a abc a abcb abcb abcb abcb ab",
            5,
            2,
            "*a ##b *a|*a ##b ##c|*a" + 4 * "|*a ##b ##c" + "|*a ##b",
        ),
        # Words of which nothing is left are unknown.
        ("a abcb b|a \u200b b", 5, 1, "*a|*a ##b ##c|*b|*a *[UNK] *b"),
    ],
)
def test_sentences_are_cut_into_windows_of_whole_words(
    texts, max_seq_length, stride, expected
):
    windows = cut(sentences(*texts.split("|")), max_seq_length, stride=stride)
    assert read(windows) == expected.split("|")
    counts = [len(text.split(" ")) for text in texts.split("|")]
    assert windows.word_splits.tolist() == np.cumsum([0, *counts]).tolist()
    assert len(windows.word_places) == sum(counts)
    assert windows.packed.num_truncated == texts.count("abcb")


@pytest.mark.parametrize(
    ("texts", "documents", "max_seq_length", "stride", "expected"),
    [
        # Four tokens fit. One side has the room that the other lacks tokens for.
        ("a b|c|a c|b b", "0001", 6, 0, "*a *b c a|a b *c a|b c *a *c|*b *b"),
        # Of "abc", two tokens would fit on the left of "a"; "bbb" fits on its right.
        (
            "abc|a|bbb abc",
            "111",
            6,
            0,
            "*a ##b ##c a|*a b ##b ##b|a *b ##b ##b|*a ##b ##c",
        ),
        (
            "ab a b c abc a|b|abc ab a",
            "001",
            9,
            2,
            "*a ##b *a *b c|a b *c *a ##b ##c *a|b c a ##b ##c a *b|"
            "*a ##b ##c *a ##b *a",
        ),
    ],
)
def test_documents_fill_windows(texts, documents, max_seq_length, stride, expected):
    rows = sentences(*texts.split("|"), documents=list(map(int, documents)))
    windows = cut(rows, max_seq_length, stride=stride, document_context=True)
    assert read(windows) == expected.split("|")
    plain = cut(rows, max_seq_length, stride=stride)
    np.testing.assert_array_equal(windows.sentence_index, plain.sentence_index)


def test_labels_stand_at_first_pieces():
    rows = sentences("abc b", "c. 中")
    windows = cut(rows, tag_ids=np.array([4, 5, 6, 7], np.int32))
    labels = windows.targets()["label_ids"].to_list()
    assert labels == [[-1, 4, -1, -1, 5, -1], [-1, 6, -1, 7, -1]]
    assert cut(rows).targets() == {}
    (batch,) = batching.batches(
        windows.packed, np.array([[1, 0]], np.int32), targets=windows.targets()
    )
    assert batch["label_ids"].numpy().tolist() == [
        [-1, 6, -1, 7, -1, -1],
        [-1, 4, -1, -1, 5, -1],
    ]


def test_outputs_come_back_by_word():
    rows = sentences("a b c a b c a b c a", "b", "abc ab")
    tags = np.arange(13, dtype=np.int32) % 5
    windows = cut(rows, max_seq_length=7, tag_ids=tags)
    labels = windows.targets()["label_ids"].to_tensor(-1, shape=[None, 9]).numpy()
    # A model that is sure of the right tag, and predicts 4 where nothing is wanted.
    outputs = np.eye(5, dtype=np.float32)[labels] * 0.75
    by_word = windows.by_word(outputs)
    ids = by_word.argmax(axis=-1)
    assert ids.tolist() == tags.tolist()
    assert windows.by_sentence(ids) == [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4], [0], [1, 2]]
    moved = np.roll(outputs, 1, axis=1)
    assert windows.by_word(moved).argmax(axis=-1).tolist() != tags.tolist()


def test_outputs_of_other_windows_are_refused():
    windows = cut(sentences("a b", "c"))
    with pytest.raises(ValueError, match=r"\(3, 4, 5\) are not of 2 windows"):
        windows.by_word(np.zeros((3, 4, 5)))
    with pytest.raises(ValueError, match="not of 2 windows of 4"):
        windows.by_word(np.zeros((2, 3, 5)))


@pytest.mark.parametrize(
    ("max_seq_length", "stride", "message"),
    [
        (2, 0, "--max_seq_length=2 leaves no token"),
        (8, 7, r"--window_stride=7 is outside 0\.\.6"),
        (8, -1, r"--window_stride=-1 is outside 0\.\.6"),
    ],
)
def test_bad_lengths_are_refused(max_seq_length, stride, message):
    with pytest.raises(ValueError, match=message):
        cut(sentences("a b"), max_seq_length, stride=stride)


WORDS = st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=12)


@settings(max_examples=40)
@given(st.lists(WORDS, min_size=1, max_size=3), st.integers(4, 12), st.data())
def test_each_word_is_predicted_once_and_stitched_to_its_place(texts, length, data):
    stride = data.draw(st.integers(0, length - 3))
    windows = cut(sentences(*map(" ".join, texts)), length, stride=stride)
    packed, words = windows.packed, list(itertools.chain.from_iterable(texts))
    first_pieces = [row[0] for row in TOKENIZER.tokenize(words).to_list()]
    assert packed.tokens[windows.word_places].tolist() == first_pieces
    assert (np.diff(windows.word_places) > 0).all()
    assert packed.lengths.max() <= length
    outputs = np.arange(len(packed) * length).reshape(len(packed), length)
    flat = np.concatenate(
        [row[:count] for row, count in zip(outputs, packed.lengths, strict=True)]
    )
    stitched = windows.by_word(outputs)
    assert stitched.tolist() == flat[windows.word_places].tolist()


LETTERS = wordpiece.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"])


def test_windows_are_named_by_line(tmp_path):
    """Sentences begin in lines 3, 7, 16 and 23, after a comment and a mark."""
    rows = ["# a comment", "-DOCSTART- O"]
    for number, text in enumerate(["a b c", "d e f g h i j a", "b c d e", "f"]):
        rows += [f"{word} O" for word in text.split()]
        rows += [""] * (1 + number // 2 * 2)
    assert [rows[at - 1] for at in (3, 7, 16, 23)] == ["a O", "d O", "b O", "f O"]
    path = tmp_path / "train.conll"
    path.write_text("\n".join(rows), "utf-8")
    sentences = sentence_windows.read({"train": str(path)}, files.Layout())
    tag_set = schemes.TagNames(("O", "X"), "plain")
    limits = {"accepts_unknown": False, "max_seq_length": 7}
    data = sentence_windows.load(sentences, tag_set, LETTERS, **limits)["train"]
    assert len(data) == 5
    assert data.names(np.array([4, 2, 0, 1, 3], np.int32)) == [
        f"{path}:23 (window 1 of 1)",
        f"{path}:7 (window 2 of 2)",
        f"{path}:3 (window 1 of 1)",
        f"{path}:7 (window 1 of 2)",
        f"{path}:16 (window 1 of 1)",
    ]


TRAINING = ["B-x I-x O O", "O B-y O B-x I-x O", "O O"]
NEIGHBOURS = ["B-y B-y I-y O B-x", "O B-x"]
# The same spans as IOB1 spells them: of B-y only the second begins where I would go on.
IOB1_TRAINING = ["I-x I-x O O", "O I-y O I-x I-x O", "O O"]
IOB1_NEIGHBOURS = ["I-y B-y I-y O I-x", "O I-x"]


def write(path, rows):
    lines = []
    for row in rows:
        tags = row.split()
        lines += [f"{'abcdef'[i]} {tag}" for i, tag in enumerate(tags)] + [""]
    path.write_text("\n".join(lines))
    return str(path)


def open_files(directory, train=TRAINING, dev=NEIGHBOURS, *, names=(), scheme="auto"):
    paths = {
        "train": write(directory / "train.conll", train),
        "dev": write(directory / "dev.conll", dev),
    }
    show = {"show": findings.show}
    splits = sentence_windows.read(paths, files.Layout(), **show)
    tag_set = sentence_windows.find_tags(
        splits["train"], names=names, scheme=scheme, head=None, **show
    )
    limits = {"accepts_unknown": False, "max_seq_length": 12, **show}
    return tag_set, sentence_windows.load(splits, tag_set, LETTERS, **limits)


def decide(data, tag_set, predicted):
    ids = np.zeros((len(data), 12), np.int32)
    for row, tags in zip(ids, predicted, strict=True):
        row[1 : 1 + len(tags)] = [tag_set.names.index(tag) for tag in tags]
    outputs = {"ids": ids, "probabilities": np.full(ids.shape, 0.9)}
    return scores.decide(data, outputs, tag_set)


def test_files_of_iob1_are_learned_and_scored_as_bio(tmp_path, capsys):
    expected_set, expected = open_files(tmp_path)
    assert "respelled" not in capsys.readouterr().out
    tag_set, data = open_files(tmp_path, IOB1_TRAINING, IOB1_NEIGHBOURS)
    out = capsys.readouterr().out
    assert out.count("0 words cut to fit, 3 tags respelled by the scheme BIO\n") == 2
    assert tag_set == expected_set
    assert tag_set == schemes.TagNames(("O", "B-x", "B-y", "I-x", "I-y"), "BIO")
    ids = [*(1, 3, 0, 0), *(0, 2, 0, 1, 3, 0), *(0, 0)]
    assert data["train"].tag_ids.tolist() == ids
    assert data["dev"].tag_ids.tolist() == [2, 2, 4, 0, 1, 0, 1]
    for name, rows in data.items():
        assert rows.digest() == expected[name].digest()
        assert rows.sentences.tags == expected[name].sentences.tags
    # Of four spans the last two are right.
    predicted = [["B-y", "I-y", "I-y", "O", "B-x"], ["O", "I-x"]]
    tagged = decide(data["dev"], tag_set, predicted)
    assert tagged == decide(expected["dev"], tag_set, predicted)
    assert tagged.predictions == [["B-y", "I-y", "I-y", "O", "B-x"], ["O", "B-x"]]
    assert (tagged.scores["precision"], tagged.scores["recall"]) == (2 / 3, 2 / 4)
    assert tagged.scores["f1"] == pytest.approx(4 / 7)
    right = dict.fromkeys(("f1", "precision", "recall"), 1.0) | {"support": 2}
    wrong = dict.fromkeys(("f1", "precision", "recall"), 0.0) | {"support": 2}
    assert tagged.others == {
        f"{name}_{kind}": value
        for kind, values in {"x": right, "y": wrong}.items()
        for name, value in values.items()
    }


def test_tags_that_a_list_cannot_spell_are_scored(tmp_path, capsys):
    names = ("PAD", "O", "B-x", "I-x", "I-y")
    tag_set, data = open_files(tmp_path, ["B-x I-x O"], NEIGHBOURS, names=names)
    assert tag_set == schemes.TagNames(names, "BIO")
    assert data["dev"].tag_ids.tolist() == [-1, -1, 4, 1, 2, 1, 2]
    out = capsys.readouterr().out
    assert out.count(", 2 tags scored that the model cannot predict\n") == 1
    tags = [["I-y", "I-y", "I-y", "O", "B-x"], ["O", "B-x"]]
    scored = decide(data["dev"], tag_set, tags)
    wrong = dict.fromkeys(("f1_y", "precision_y", "recall_y"), 0.0)
    assert scored.others.items() >= {**wrong, "support_y": 2}.items()
    assert scored.scores["recall"] == 2 / 4
    with pytest.raises(ValueError, match=r"dev\.conll:2: tag 'S-x' is not of .* BIO "):
        open_files(tmp_path, dev=["O S-x"])
    with pytest.raises(ValueError, match=r"train\.conll:3: --labels lacks 'B-y'"):
        open_files(tmp_path, ["B-x I-x B-y"], names=names)


def test_trained_runs_keep_their_tags(tmp_path):
    tag_set = schemes.TagNames(("O", "B-x", "I-x"), "BIO")
    path = tmp_path / "label_map.json"
    path.write_text(label_maps.text(tag_set))

    def find(names=(), scheme="auto"):
        head = tiny.head_of(tag_set, str(path))
        return sentence_windows.find_tags(None, names=names, scheme=scheme, head=head)

    assert find() == find(scheme="BIO") == tag_set
    classifier = tiny.head_of(labels.Labels(("a", "b")))
    with pytest.raises(ValueError, match=r"label_map.json: has no tags; give"):
        sentence_windows.find_tags(None, names=(), scheme="auto", head=classifier)
    with pytest.raises(ValueError, match=r"--tag_scheme=BIOES is not what .* BIO "):
        find(scheme="BIOES")
    with pytest.raises(
        ValueError, match=r"--labels: \['O', 'B-x'\] are not .* 'I-x'\]"
    ):
        find(names=("O", "B-x"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*TRAINING, "O B_y"], r"conll:17: .* BIO, but not 'B_y' \(line 17\); spell"),
        (
            ["tag O", *TRAINING, "b-x B-x b-x"],
            r"'tag' \(line 1\), 'b-x' \(line 19\); sp",
        ),
        (["B_x I_x O"], r"'B_x' \(line 1\), 'I_x' \(line 2\); .* --tag_scheme=plain"),
    ],
)
def test_tags_beside_a_scheme_are_refused_with_their_lines(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        open_files(tmp_path, rows)
    tag_set, _ = open_files(tmp_path, rows, rows, scheme="plain")
    assert tag_set.scheme == "plain"


def test_scheme_is_printed_and_a_first_tag_that_may_be_a_header(tmp_path, capsys):
    open_files(tmp_path)
    out = capsys.readouterr().out
    assert "labels: scheme BIO, 5 tags: O, B-x, B-y, I-x, I-y\n" in out
    assert "header" not in out
    open_files(tmp_path, ["HEAD N V", "N V"], ["N"])
    out = capsys.readouterr().out
    assert "labels: scheme plain, 3 tags: HEAD, N, V\n" in out
    assert "train.conll:1: 'HEAD' is a tag of this line alone; remove" in out
    open_files(tmp_path, ["N N V", "N V"], ["N"])
    assert "header" not in capsys.readouterr().out


def test_tags_have_the_order_of_a_stored_head(tmp_path, capsys):
    train = sentence_windows.read(
        {"train": write(tmp_path / "t.conll", TRAINING)}, files.Layout()
    )
    names = ("I-y", "B-x", "O", "I-x", "B-y")
    head = tiny.head_of(schemes.TagNames(names, "BIO"))

    def find(head, train=train["train"], names=()):
        how = {"scheme": "auto", "head": head, "show": findings.show}
        return sentence_windows.find_tags(train, names=names, **how)

    assert find(head) == schemes.TagNames(names, "BIO")
    out = capsys.readouterr().out
    assert f"labels: {[*names]}, in the order of" in out
    assert f"{tmp_path}/t.conll has ['O', 'B-x', 'B-y', 'I-x', 'I-y']" in out
    listed = head._replace(source="hf/config.json", problem_type="")
    assert find(listed, None).names == find(listed, None, sorted(names)).names == names
    # Without names of its own the head has those that are asked for.
    unnamed = listed._replace(
        names=tuple(f"LABEL_{i}" for i in range(5)), is_named=False, classes=None
    )
    assert find(unnamed, None, names) == schemes.TagNames(names, "BIO")
    assert "are assumed to be ['I-y', 'B-x'" in capsys.readouterr().out
    assert find(unnamed).names == ("O", "B-x", "B-y", "I-x", "I-y")
    with pytest.raises(ValueError, match=r"name the tags; give --labels"):
        find(unnamed, None)
    classes = tiny.head_of(labels.Labels(names), "w/config.json")
    assert find(classes).names == ("O", "B-x", "B-y", "I-x", "I-y")
    assert "new head for tagging" in capsys.readouterr().out
