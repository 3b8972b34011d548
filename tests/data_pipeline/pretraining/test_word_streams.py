"""Batches of two streams, equal to those that bilm-tf made (tests/golden/elmo)."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.pretraining import word_streams
from data_pipeline.text import elmo
from tests import elmo_streams, tiny_elmo
from tests.data_pipeline.pretraining.batch_arrays import assert_equal, read

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "elmo"
DIRECTIONS = (("forward", ""), ("backward", "_reverse"))
ROWS, UNROLL = 4, 5


@pytest.fixture(scope="module")
def words():
    vocab = ("<S>", "</S>", "<UNK>", *tiny_elmo.WORDS)
    return word_streams.WordIds(elmo.ElmoTokenizer(vocab))


@pytest.fixture(scope="module")
def text_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("text")
    for number, count in enumerate((20, 11, 14)):
        tiny_elmo.write_sentences(path / f"part-{number}.txt", count, number)
    return path


@pytest.fixture(scope="module")
def sets(text_dir, words):
    specs = {"input_file": f"{text_dir}/part-*.txt"}
    return word_streams.load(specs, words, steps_per_batch=UNROLL)


def training(sets, first, last, seed=3, **context):
    context = {"context": tf.distribute.InputContext(**context)} if context else {}
    return read(sets.training_batches(ROWS, seed, first, last, **context))


def test_batches_are_the_originals():
    record = elmo_streams.record()
    vocab = elmo.read_vocab(str(GOLDEN / "vocab.txt"))
    words = word_streams.WordIds(elmo.ElmoTokenizer(vocab))
    specs = {"input_file": str(GOLDEN / "train_text.txt")}
    sets = word_streams.load(specs, words, steps_per_batch=6)
    for number, actual in enumerate(read(sets.evaluation_batches(2, 3))):
        assert actual["input_mask"].all()
        for name, ending in DIRECTIONS:
            ids = actual["distinct_words"][actual[f"{name}_words"]] - 1
            expected = record[f"batch{number}/tokens_characters{ending}"]
            np.testing.assert_array_equal(ids, expected)
            expected = record[f"batch{number}/next_token_id{ending}"]
            np.testing.assert_array_equal(actual[f"{name}_targets"], expected)


def spelled(features, name):
    """The texts of the rows of a batch."""
    ids = features["distinct_words"][features[f"{name}_words"]]
    actual = [elmo.ElmoTokenizer().ids_to_tokens(row) for row in ids]
    return [" ".join(row) for row in actual]


def test_batches_from_any_step_on_are_those_of_the_whole_run(sets):
    whole = training(sets, 0, 44)
    for step in (1, 7, 40):
        assert_equal(training(sets, step, 44), whole[step:])
    assert (whole[7]["forward_words"] != whole[8]["forward_words"]).any()


def test_epoch_has_each_sentence_once_in_each_direction(sets):
    lengths = sets.train.lengths
    everything = sorted(word_streams.in_order(lengths))
    orders = []
    for direction in (1, 2):
        sentences = word_streams.shuffle(lengths, 3, direction)
        epochs = [[next(sentences) for _ in everything] for _ in range(2)]
        assert [sorted(epoch) for epoch in epochs] == [everything] * 2
        assert epochs[0] != epochs[1]
        orders.append(epochs[0])
    # Other sentences in the same order of files, so that each is read once for both.
    assert orders[0] != orders[1]
    files = [[sentence.file for sentence in order] for order in orders]
    assert files[0] == files[1] and len(set(files[0])) == 3


def test_evaluation_has_each_word_once_and_ends(sets, words):
    count = sets.num_evaluation_batches(ROWS, None)
    assert sets.num_evaluation_batches(ROWS, 2) == 2
    batches = read(sets.evaluation_batches(ROWS, count))
    real = sum(int(features["input_mask"].sum()) for features in batches)
    source = sets.held_out
    assert real == source.num_words + source.count
    assert batches[-1]["input_mask"].any() and not batches[-1]["input_mask"].all()
    for name, _ in DIRECTIONS:
        actual = np.concatenate(
            [f[f"{name}_targets"][f["input_mask"] > 0] for f in batches]
        )
        ends = 1 if name == "forward" else 0
        assert np.count_nonzero(actual == ends) == source.count


def test_parts_have_their_own_words(sets):
    (whole,) = training(sets, 7, 8)
    parts = dataclasses.replace(sets, micro_batches=2)
    (actual,) = training(parts, 7, 8, num_replicas_in_sync=2)
    tables = actual["distinct_words"].reshape(4, -1, 50)
    for name, _ in DIRECTIONS:
        rows = whole["distinct_words"][whole[f"{name}_words"]]
        for row, table in enumerate(tables):
            own = table[actual[f"{name}_words"][row]]
            np.testing.assert_array_equal(own, rows[row])
    hosts = [
        training(
            *(parts, 7, 8),
            num_input_pipelines=2,
            input_pipeline_id=host,
            num_replicas_in_sync=2,
        )[0]
        for host in range(2)
    ]
    for name in ("forward_targets", "backward_targets", "input_mask"):
        joined = np.concatenate([host[name] for host in hosts])
        np.testing.assert_array_equal(joined, whole[name])


def test_long_sentence_goes_on_and_empty_lines_are_counted(tmp_path, words):
    long = " ".join(["boat"] * 23)
    (tmp_path / "a.txt").write_text(f"\n{long}\n   \n\u3000\nit rains\n", "utf-8")
    sets = word_streams.load(
        {"input_file": str(tmp_path / "a.txt")}, words, steps_per_batch=5
    )
    assert sets.describe() == (
        "sentences: 2 of 25 words in 1 file(s); 3 lines without a word are passed over"
    )
    actual = read(sets.evaluation_batches(1, sets.num_evaluation_batches(1, None)))
    text = " ".join(spelled(f, "forward")[0] for f in actual).split()
    assert text[:27] == ["<S>", *long.split(), "<S>", "it", "rains"]


def test_words_are_found_as_the_tokenizer_finds_them(tmp_path):
    (tmp_path / "a.txt").write_text("It rains, often.\n\nBoats\n", "utf-8")
    tokenizer = elmo.ElmoTokenizer(["<S>", "</S>", "<UNK>"], "punctuation")
    words = word_streams.WordIds(tokenizer)
    sets = word_streams.load(
        {"input_file": str(tmp_path / "a.txt")}, words, steps_per_batch=10
    )
    (batch,) = read(sets.evaluation_batches(1, 1))
    (text,) = spelled(batch, "forward")
    assert text.startswith("<S> It rains , often . <S> Boats")


def test_batches_are_named_by_their_sentences(sets, text_dir):
    names = sets.batch_names(ROWS, 3, 0)
    assert len(set(names)) == len(names) >= ROWS
    (features,) = training(sets, 0, 1)
    path, line = names[0].rsplit(":", 1)
    text = pathlib.Path(path).read_text("utf-8").split("\n")[int(line) - 1]
    row = spelled(features, "forward")[0]
    assert f"<S> {text} <S>".startswith(row)
    assert pathlib.Path(path).parent == text_dir
    assert sets.batch_names(ROWS, 3, 30) != names


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n \n", "there is no word in .*bad.txt; give files of sentences"),
        ("ab\ncafé\n".encode("latin-1"), r"bad.txt:2: byte 0xe9.*not UTF-8"),
    ],
)
def test_bad_text_is_named(tmp_path, words, content, message):
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        word_streams.load(
            {"input_file": f"{tmp_path}/bad.txt"}, words, steps_per_batch=5
        )


def test_changed_text_is_explained(tmp_path, words):
    path = tiny_elmo.write_sentences(tmp_path / "a.txt", 10)
    sets = word_streams.load({"input_file": str(path)}, words, steps_per_batch=5)
    path.write_text("gone\n")
    with pytest.raises(tf.errors.OpError) as caught:
        training(sets, 0, 1)
    assert "words, not " in sets.explain(caught.value)
    assert f"{path}:" in sets.explain(caught.value)
    assert sets.explain(KeyError("x")) is None


def test_words_to_predict_need_a_vocabulary():
    for tokenizer in (None, elmo.ElmoTokenizer()):
        with pytest.raises(ValueError, match="--vocab_file is missing; make one"):
            word_streams.WordIds(tokenizer)


def test_a_repeated_word_counts_as_a_line_of_the_vocabulary():
    """Its id is that of the last line, so the softmax has a row for each line."""
    words = word_streams.WordIds(
        elmo.ElmoTokenizer(("<S>", "</S>", "<UNK>", "a", "b", "a"))
    )
    assert words.count == 6
    assert words.target_ids(["a", "b"]).tolist() == [5, 4]
