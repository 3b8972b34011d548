"""Batches of two streams, equal to those that bilm-tf made (tests/golden/elmo)."""

import dataclasses
import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.pretraining.streams import batches as stream_batches
from data_pipeline.pretraining.streams import files as sentence_files
from data_pipeline.pretraining.streams import rows as stream_rows
from data_pipeline.tables import text_rows
from data_pipeline.text import elmo
from tests import elmo_streams, tiny_elmo

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "elmo"
DIRECTIONS = (("forward", ""), ("backward", "_reverse"))
ROWS, UNROLL = 4, 5


@pytest.fixture(scope="module")
def words():
    vocab = ("<S>", "</S>", "<UNK>", *tiny_elmo.WORDS)
    return sentence_files.WordIds(elmo.ElmoTokenizer(vocab))


@pytest.fixture(scope="module")
def text_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("text")
    for number, count in enumerate((20, 11, 14)):
        tiny_elmo.write_sentences(path / f"part-{number}.txt", count, number)
    return path


@pytest.fixture(scope="module")
def sets(text_dir, words):
    specs = {"input_file": f"{text_dir}/part-*.txt"}
    return stream_batches.load(specs, words, steps_per_batch=UNROLL)


def arrays(dataset):
    return [{k: v.numpy() for k, v in features.items()} for features in dataset]


def training(sets, first, last, seed=3, **context):
    context = {"context": tf.distribute.InputContext(**context)} if context else {}
    return arrays(sets.training_batches(ROWS, seed, first, last, **context))


def assert_equal(found, expected):
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            np.testing.assert_array_equal(one[name], value, err_msg=name)


def test_batches_are_the_originals():
    record = elmo_streams.record()
    vocab = elmo.read_vocab(str(GOLDEN / "vocab.txt"))
    words = sentence_files.WordIds(elmo.ElmoTokenizer(vocab))
    specs = {"input_file": str(GOLDEN / "train_text.txt")}
    sets = stream_batches.load(specs, words, steps_per_batch=6)
    for number, found in enumerate(arrays(sets.evaluation_batches(2, 3))):
        assert found["input_mask"].all()
        for name, ending in DIRECTIONS:
            ids = found["distinct_words"][found[f"{name}_words"]] - 1
            expected = record[f"batch{number}/tokens_characters{ending}"]
            np.testing.assert_array_equal(ids, expected)
            expected = record[f"batch{number}/next_token_id{ending}"]
            np.testing.assert_array_equal(found[f"{name}_targets"], expected)


def filled_by_rows(sentences, batches):
    """Which token is where, by the original's rule: [(sentence, place)] by row."""
    left = [[] for _ in range(ROWS)]
    sentences = iter(sentences)
    for _ in range(batches):
        batch = []
        for row in range(ROWS):
            found = []
            while len(found) < UNROLL:
                if not left[row]:
                    sentence = next(sentences)
                    left[row] = [(sentence, i) for i in range(sentence.length + 1)]
                count = UNROLL - len(found)
                found += left[row][:count]
                del left[row][:count]
            batch.append(found)
        yield batch


def test_rows_take_sentences_as_they_end(sets):
    lengths = sets.train.lengths
    stream = stream_rows.WordStream(
        stream_rows.assign_rows(stream_rows.shuffle(lengths, 3, 1), ROWS, UNROLL),
        ROWS,
        UNROLL,
    )
    expected = filled_by_rows(stream_rows.shuffle(lengths, 3, 1), 60)
    for number, batch in enumerate(expected):
        for segments, row in zip(stream.seek(number), batch, strict=True):
            begin = number * UNROLL
            found = [
                (segment.sentence, place - segment.start)
                for segment in segments
                for place in range(
                    max(begin, segment.start), min(begin + UNROLL, segment.end)
                )
            ]
            assert found == row


def spelled(words, features, name):
    """The texts of the rows of a batch."""
    ids = features["distinct_words"][features[f"{name}_words"]]
    found = [elmo.ElmoTokenizer().ids_to_tokens(row) for row in ids]
    return [" ".join(row) for row in found]


def test_batches_from_any_step_on_are_those_of_the_whole_run(sets):
    whole = training(sets, 0, 44)
    for step in (1, 7, 40):
        assert_equal(training(sets, step, 44), whole[step:])
    assert (whole[7]["forward_words"] != whole[8]["forward_words"]).any()


def test_dealing_leaves_out_what_ends_before_the_first_batch(sets):
    lengths = sets.train.lengths

    def dealt(first_batch, number=400):
        sentences = stream_rows.shuffle(lengths, 3, 1)
        segments = stream_rows.assign_rows(sentences, ROWS, UNROLL, first_batch)
        return list(itertools.islice(segments, number))

    every = dealt(0)
    for batch in (1, 9, 30):
        later = dealt(batch, 50)
        wanted = [segment for segment in every if segment.end > batch * UNROLL]
        assert later == wanted[:50] and len(wanted) > 50
        assert (later[0] != every[0]) == (batch > 1)
        assert isinstance(later[0].sentence, stream_rows.Sentence)


def test_hosts_share_whole_rows(sets):
    context = tf.distribute.InputContext(3, 0, 3)
    with pytest.raises(ValueError, match="batch of 8 rows cannot be cut into equal"):
        sets.training_batches(8, 1, 0, 1, context)


def test_epoch_has_each_sentence_once_in_each_direction(sets):
    lengths = sets.train.lengths
    everything = sorted(stream_rows.in_order(lengths))
    orders = []
    for direction in (1, 2):
        sentences = stream_rows.shuffle(lengths, 3, direction)
        epochs = [[next(sentences) for _ in everything] for _ in range(2)]
        assert [sorted(epoch) for epoch in epochs] == [everything] * 2
        assert epochs[0] != epochs[1]
        orders.append(epochs[0])
    # Other sentences in the same order of files, so that each is read once for both.
    assert orders[0] != orders[1]
    files = [[sentence.file for sentence in order] for order in orders]
    assert files[0] == files[1] and len(set(files[0])) == 3


def test_files_are_read_once_an_epoch_and_skipped_ones_not_at_all(sets, monkeypatch):
    read = []
    lines = text_rows.lines

    def counted(path):
        read.append(path)
        return lines(path)

    monkeypatch.setattr(text_rows, "lines", counted)
    words = sum(len(found[found > 0]) + found.sum() for found in sets.train.lengths)
    steps = int(words // (ROWS * UNROLL)) - 3  # of one epoch, but for its end
    training(sets, 0, steps)
    assert sorted(read) == sorted(sets.train.files)
    read.clear()
    training(sets, steps - 1, steps)
    assert read and set(read) < set(sets.train.files)


def test_evaluation_has_each_word_once_and_ends(sets, words):
    count = sets.num_evaluation_batches(ROWS, None)
    assert sets.num_evaluation_batches(ROWS, 2) == 2
    batches = arrays(sets.evaluation_batches(ROWS, count))
    real = sum(int(features["input_mask"].sum()) for features in batches)
    source = sets.held_out
    assert real == source.num_words + source.count
    assert batches[-1]["input_mask"].any() and not batches[-1]["input_mask"].all()
    for name, _ in DIRECTIONS:
        found = np.concatenate(
            [f[f"{name}_targets"][f["input_mask"] > 0] for f in batches]
        )
        ends = 1 if name == "forward" else 0
        assert np.count_nonzero(found == ends) == source.count


def test_parts_have_their_own_words(sets):
    (whole,) = training(sets, 7, 8)
    parts = dataclasses.replace(sets, micro_batches=2)
    (found,) = training(parts, 7, 8, num_replicas_in_sync=2)
    tables = found["distinct_words"].reshape(4, -1, 50)
    for name, _ in DIRECTIONS:
        rows = whole["distinct_words"][whole[f"{name}_words"]]
        for row, table in enumerate(tables):
            own = table[found[f"{name}_words"][row]]
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
    sets = stream_batches.load(
        {"input_file": str(tmp_path / "a.txt")}, words, steps_per_batch=5
    )
    assert sets.describe() == (
        "sentences: 2 of 25 words in 1 file(s); 3 lines without a word are passed over"
    )
    found = arrays(sets.evaluation_batches(1, sets.num_evaluation_batches(1, None)))
    text = " ".join(spelled(words, f, "forward")[0] for f in found).split()
    assert text[:27] == ["<S>", *long.split(), "<S>", "it", "rains"]


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("whitespace", "<S> It rains, often. <S> Boats"),
        ("punctuation", "<S> It rains , often . <S> Boats"),
    ],
)
def test_words_are_found_as_the_tokenizer_finds_them(tmp_path, words, split, expected):
    (tmp_path / "a.txt").write_text("It rains, often.\n\nBoats\n", "utf-8")
    tokenizer = elmo.ElmoTokenizer(["<S>", "</S>", "<UNK>"], split)
    words = sentence_files.WordIds(tokenizer)
    sets = stream_batches.load(
        {"input_file": str(tmp_path / "a.txt")}, words, steps_per_batch=5
    )
    found = arrays(sets.evaluation_batches(1, sets.num_evaluation_batches(1, None)))
    text = " ".join(spelled(words, f, "forward")[0] for f in found)
    assert text.startswith(f"{expected} <S>") or text == expected


def test_batches_are_named_by_their_sentences(sets, text_dir, words):
    names = sets.batch_names(ROWS, 3, 0)
    assert len(set(names)) == len(names) >= ROWS
    (features,) = training(sets, 0, 1)
    path, line = names[0].rsplit(":", 1)
    text = pathlib.Path(path).read_text("utf-8").split("\n")[int(line) - 1]
    row = spelled(words, features, "forward")[0]
    assert f"<S> {text} <S>".startswith(row)
    assert pathlib.Path(path).parent == text_dir
    assert sets.batch_names(ROWS, 3, 30) != names


BAD_TEXT = {
    "missing": (None, "--input_file=.*: there is no such file; give files of sent"),
    "empty": (b"\n \n", "there is no word in .*bad.txt; give files of sentences"),
    "latin": ("ab\ncafé\n".encode("latin-1"), r"bad.txt:2: byte 0xe9.*not UTF-8"),
}


@pytest.mark.parametrize("case", BAD_TEXT)
def test_bad_text_is_named(case, tmp_path, words):
    content, said = BAD_TEXT[case]
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match=said):
        stream_batches.load({"input_file": str(path)}, words, steps_per_batch=5)


def test_changed_text_is_explained(tmp_path, words):
    path = tiny_elmo.write_sentences(tmp_path / "a.txt", 10)
    sets = stream_batches.load({"input_file": str(path)}, words, steps_per_batch=5)
    path.write_text("gone\n")
    with pytest.raises(tf.errors.OpError) as caught:
        training(sets, 0, 1)
    assert "words, where there were" in sets.explain(caught.value)
    assert f"{path}:" in sets.explain(caught.value)
    assert sets.explain(KeyError("x")) is None


def test_digest_tells_text_and_words(sets, words, text_dir):
    other = sentence_files.WordIds(elmo.ElmoTokenizer(("<S>", "</S>", "<UNK>", "a")))
    again, fewer, renamed = (
        stream_batches.load({"input_file": spec}, ids, steps_per_batch=UNROLL).digest()
        for spec, ids in (
            (f"{text_dir}/part-*.txt", words),
            (f"{text_dir}/part-[01].txt", words),
            (f"{text_dir}/part-*.txt", other),
        )
    )
    assert again == sets.digest() and len({again, fewer, renamed}) == 3


def test_words_to_predict_need_a_vocabulary():
    for tokenizer in (None, elmo.ElmoTokenizer()):
        with pytest.raises(ValueError, match="--vocab_file is missing; its words"):
            sentence_files.WordIds(tokenizer)


def test_a_repeated_word_counts_as_a_line_of_the_vocabulary():
    """Its id is that of the last line, so the softmax has a row for each line."""
    words = sentence_files.WordIds(
        elmo.ElmoTokenizer(("<S>", "</S>", "<UNK>", "a", "b", "a"))
    )
    assert words.count == 6
    assert words.target_ids(["a", "b"]).tolist() == [5, 4]
