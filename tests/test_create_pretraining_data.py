"""The script from end to end: engines, interruptions, mistakes, and its statistics."""

import collections
import json
import os
import shutil
import signal
import time

import numpy as np
import pytest
from absl import flags
from absl import logging as absl_logging

from data_pipeline.pretraining import metadata
from tests import full_disk, tiny, tiny_corpus


@pytest.fixture
def place(tmp_path):
    return tiny_corpus.write(tmp_path)


# --- Flags.

ORIGINAL = {
    **dict.fromkeys(("input_file", "output_file", "vocab_file")),
    **{"do_lower_case": True, "do_whole_word_mask": False, "max_seq_length": 128},
    **{"max_predictions_per_seq": 20, "random_seed": 12345, "dupe_factor": 10},
    **{"masked_lm_prob": 0.15, "short_seq_prob": 0.1},
}


def test_flags_of_the_original_have_their_defaults():
    with tiny.flags_of(tiny_corpus.SCRIPT) as names:
        defaults = {name: flags.FLAGS[name].default for name in names}
    assert {name: defaults[name] for name in ORIGINAL} == ORIGINAL
    for name, default in ORIGINAL.items():
        assert type(defaults[name]) is type(default)


# --- What it makes.


def outputs(directory):
    """Bytes of everything but the input."""
    names = tiny_corpus.listing(directory)
    return {name: (directory / name).read_bytes() for name in names}


def test_records_have_the_features_of_the_original(place):
    done = tiny_corpus.create(place)
    assert (done.code, done.err) == (0, "")
    records = tiny_corpus.raw(place / "out.tfrecord")
    found = tiny_corpus.parse(records)
    count = len(records)
    assert {name: values.shape for name, values in found.items()} == {
        "input_ids": (count, 32),
        "input_mask": (count, 32),
        "segment_ids": (count, 32),
        "masked_lm_positions": (count, 5),
        "masked_lm_ids": (count, 5),
        "masked_lm_weights": (count, 5),
        "next_sentence_labels": (count, 1),
    }
    lengths = found["input_mask"].sum(1)
    assert np.array_equal(found["input_mask"], np.arange(32) < lengths[:, None])
    assert not found["input_ids"][found["input_mask"] == 0].any()
    assert found["masked_lm_weights"].sum(1).tolist() == [
        min(5, max(1, round(length * 0.15))) for length in lengths.tolist()
    ]
    assert f"  instances = {count}\n" in done.out
    assert f"wrote {place}/out.tfrecord\n" in done.out
    said = metadata.read(f"{place}/out.tfrecord")
    assert (said.num_instances, said.dupe_factor) == (count, 3)
    assert said.num_bytes == (place / "out.tfrecord").stat().st_size


def test_flags_of_masking(place):
    outputs_of = []
    for settings in (
        {"do_whole_word_mask": True},
        {"masking": "whole_word"},
        {"masking": "word_piece"},
    ):
        tiny_corpus.create(place, **settings)
        outputs_of.append(outputs(place))
    assert outputs_of[0] == outputs_of[1] != outputs_of[2]
    assert tiny_corpus.create(place, mask_proportions="1,0,0").code == 0
    written = metadata.read(f"{place}/out.tfrecord")
    assert written.mask_proportions == (1.0, 0.0, 0.0)
    arrays = tiny_corpus.parse(tiny_corpus.raw(place / "out.tfrecord"))
    places = arrays["masked_lm_positions"]
    hidden = np.take_along_axis(arrays["input_ids"], places, 1)
    is_chosen = arrays["masked_lm_weights"] > 0
    assert is_chosen.sum() > 100
    assert (hidden[is_chosen] == tiny_corpus.VOCAB.index("[MASK]")).all()


def test_unmasked_records_use_the_text_once(place):
    assert tiny_corpus.create(place, masking="none", dupe_factor=None).code == 0
    said = metadata.read(f"{place}/out.tfrecord")
    assert (said.dupe_factor, said.max_predictions_per_seq) == (1, 0)
    assert said.masked_lm_prob == 0.0 and said.masking == "none"
    found = tiny_corpus.parse(tiny_corpus.raw(place / "out.tfrecord"))
    assert "masked_lm_ids" not in found
    assert not (found["input_ids"] == tiny_corpus.VOCAB.index("[MASK]")).any()
    tiny_corpus.create(place, masking="none", dupe_factor=4)
    assert metadata.read(f"{place}/out.tfrecord").dupe_factor == 4


OF_MASKED_LM = {"max_predictions_per_seq": None, "dupe_factor": None}


def test_left_to_right_records_are_full_and_can_be_masked_later(place):
    flags_ = {"objective": "left_to_right", "num_shards": 2, **OF_MASKED_LM}
    done = tiny_corpus.create(place, **flags_)
    assert (done.code, done.err) == (0, "")
    names = [f"out.tfrecord-{i:05}-of-00002" for i in range(2)]
    found = tiny_corpus.parse(tiny_corpus.raw(*(place / name for name in names)))
    assert "masked_lm_ids" not in found
    assert f"  instances = {len(found['input_ids'])}\n" in done.out
    assert "  words = " in done.out and "  bytes = " in done.out
    assert found["input_mask"].mean() > 0.95
    for name in names:
        said = metadata.read(f"{place}/{name}")
        assert (said.objective, said.masking) == ("left_to_right", "none")
        assert (said.dupe_factor, said.sentence_task) == (1, "none")


def test_shards_and_lists_of_files(place):
    tiny_corpus.create(place, output="a,b,c")
    by_list = [tiny_corpus.raw(place / name) for name in ("a", "b", "c")]
    tiny_corpus.create(place, output="d", num_shards=3)
    shards = [f"d-{i:05}-of-00003" for i in range(3)]
    assert [tiny_corpus.raw(place / name) for name in shards] == by_list
    sizes = [len(records) for records in by_list]
    assert max(sizes) - min(sizes) <= 4 and min(sizes) > 100
    tiny_corpus.create(place, output="e,f", num_shards=2)
    assert {"e-00001-of-00002", "f-00000-of-00002"} <= set(tiny_corpus.listing(place))


def test_few_predictions_are_warned_of_once(place):
    warned = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(absl_logging, "warning", lambda *said: warned.append(said))
        tiny_corpus.create(place, max_predictions_per_seq=4)
        assert len(warned) == 1 and "max_predictions_per_seq" in warned[0][0]
        assert warned[0][1:] == (4, 32, 0.15, 5)
        tiny_corpus.create(place, max_predictions_per_seq=5)
        tiny_corpus.create(place, max_predictions_per_seq=4, masking="none")
        assert len(warned) == 1


# --- Engines.


def expected_of(place, **flags_):
    """What one worker makes without interruption, by name; it is removed again."""
    done = tiny_corpus.create(place, **flags_)
    assert done.code == 0, done.err
    expected = outputs(place)
    for name in expected:
        (place / name).unlink()
    return expected


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_and_continued_on_two_workers_gives_the_same_files(place):
    expected = expected_of(place, output="a,b")
    work_dir = place / "a.incomplete"
    # A disk that is full: one line, nothing half written under a final name.
    job = tiny_corpus.Started(place, output="a,b", num_workers=2, file_bytes=50_000)
    code, said = job.wait()
    assert code == 2
    assert said.count("\nerror: ") == 1 and "Traceback" not in said
    assert "File too large" in said and "run the same command again" in said
    assert all(".incomplete" in name for name in tiny_corpus.listing(place))
    shutil.rmtree(work_dir)
    for count in (3, 25):  # files in the work directory at which it is killed
        job = tiny_corpus.Started(place, output="a,b", num_workers=2)
        wait_until(
            lambda n=count: work_dir.exists() and len(list(work_dir.iterdir())) > n
        )
        left = job.workers()
        assert job.kill()[0] == -9 and len(left) == 2
        assert work_dir.exists() and "a" not in tiny_corpus.listing(place)
        wait_until(lambda pids=left: not any(map(tiny_corpus.is_running, pids)), 10)
    code, said = tiny_corpus.Started(place, output="a,b", num_workers=2).wait()
    assert code == 0, said
    assert outputs(place) == expected


def test_full_disk_is_one_line_and_goes_on_afterwards(place):
    settings = {"max_seq_length": 256, "small": False}
    expected = expected_of(place, **settings)
    size = len(expected["out.tfrecord"])
    # While cutting, while writing pieces, and while joining them.
    stages = {size // 100: "part", size // 9: "file-00000", size // 2: "out.tfrecord."}
    for file_bytes, stage in stages.items():
        with full_disk.full_disk(file_bytes):
            done = tiny_corpus.create(place, **settings)
        assert done.code == 2 and done.err.count("\n") == 1
        assert done.err.startswith("error: ") and "File too large" in done.err
        assert stage in done.err and f"{place}/out.tfrecord.incomplete" in done.err
        left = set(tiny_corpus.listing(place))
        assert not left & {"out.tfrecord", "out.tfrecord.metadata.json"}
    assert tiny_corpus.create(place, **settings).code == 0
    assert outputs(place) == expected


@pytest.mark.slow
def test_ctrl_c_is_one_line_and_goes_on_afterwards(place):
    expected = expected_of(place, output="a,b")
    started = tiny_corpus.Started(place, output="a,b", num_workers=2, dupe_factor=300)
    wait_until(lambda: list(place.glob("a.incomplete/unit-*")))
    os.kill(started.process.pid, signal.SIGINT)
    code, said = started.wait()
    assert code == 130
    said = said[said.index("interrupted") :]
    assert said.count("\n") == 1 and "Traceback" not in said, said
    assert "a.incomplete: run the same command again to go on" in said
    shutil.rmtree(place / "a.incomplete")
    assert tiny_corpus.create(place, output="a,b").code == 0
    assert outputs(place) == expected


def test_beam_makes_the_same_records(place):
    pytest.importorskip("apache_beam")
    expected = expected_of(place, output="a,b", dupe_factor=1)
    done = tiny_corpus.create(
        place,
        output="a,b",
        dupe_factor=1,
        engine="beam",
        beam_option="--runner=DirectRunner",
    )
    assert done.code == 0, done.err
    assert outputs(place) == expected
    assert "documents = 50" in done.out


# --- Mistakes.


def assert_one_line(done, *words):
    assert done.code == 2, done.out
    assert done.err.startswith("error: ") and done.err.count("\n") == 1, done.err
    assert [word for word in words if str(word) not in done.err] == [], done.err


def test_texts_without_a_token_are_refused(place):
    (place / "text.txt").write_bytes(b"\x00\n\n\xff\n\xe2\x80\x8b\n")
    (place / "other.txt").write_bytes(b"\n \n\t\n\xc2\xa0\n")
    (place / "empty.txt").write_bytes(b"")
    files = ",".join(f"{place}/{name}.txt" for name in ("text", "other", "empty"))
    done = tiny_corpus.create(place, input_file=files)
    assert_one_line(done, "3 files hold no document", "one sentence a line")
    assert tiny_corpus.listing(place) == ["empty.txt", "other.txt"]


ODD_TEXTS = {
    "one sentence": (b"w1 w2 w3", 3),
    "one token": (b"w1\n", 3),
    "long line": (b" ".join(b"w%d" % i for i in range(2000)) + b"\n\nw2001\n", 6),
    "invalid UTF-8": (b"\xff\xfew1 \xc3w2\nw3\n\n\xe6\n\nw4\xff\n", None),
}


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_odd_text_is_read(place, name):
    text, count = ODD_TEXTS[name]
    (place / "text.txt").write_bytes(text)
    done = tiny_corpus.create(place, small=False)
    assert done.code == 0, done.err
    records = tiny_corpus.raw(place / "out.tfrecord")
    assert count is None or len(records) == count
    found = tiny_corpus.parse(records)
    assert (found["input_mask"].sum(1) <= 32).all()
    if name == "invalid UTF-8":
        ids = tiny_corpus.restored(found)[found["input_mask"] == 1]
        first = tiny_corpus.FIRST_WORD
        assert set(ids) == {2, 3, *range(first + 1, first + 5)}


def write_vocab(place, change):
    tokens = filter(None, map(change, tiny_corpus.VOCAB))
    (place / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))


def _without_mask(place):
    write_vocab(place, lambda token: token.replace("[MASK]", ""))


def _cased(place):
    write_vocab(place, lambda token: token.replace("w", "W"))


MISTAKES = {
    "no mask": (_without_mask, {}, ["lacks [MASK]", "build_vocab.py"]),
    "cased": (_cased, {}, ["cased vocabulary", "--do_lower_case=false"]),
    "uncased": (None, {"do_lower_case": False}, ["uncased", "--nocheck_case"]),
    "a length that no network has": (  # it padded each record to a billion tokens
        None,
        {"max_seq_length": 10**9},
        ["=1000000000 exceeds 1048576, more tokens t", "max_position_embeddings of"],
    ),
    **{
        name: (None, {"output_file": path}, words)
        for name, path, words in (
            ("one file twice", "{0}/a,{0}/a", ["twice"]),
            ("input", "{0}/text.txt", ["would be overwritten"]),
            ("input, again", "{0}/none/../text.txt", ["would be overwritten"]),
            ("directory", "{0}", ["is a directory; name the file"]),
            ("name of a directory", "{0}/a/", ["is a directory"]),
            ("not writable", "{0}/a,{0}/text.txt/b", ["b: cannot be written", "anoth"]),
            ("no output", " , ", ["names no file"]),
        )
    },
    "no file": (
        None,
        {"input_file": "{0}/text.txt,{0}/none.txt"},
        ["none.txt", "no such file"],
    ),
    "no vocabulary": (None, {"vocab_file": "{0}/none"}, ["none", "no such file"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_one_line_and_touches_nothing(place, name):
    spoil, changes, words = MISTAKES[name]
    if spoil:
        spoil(place)
    before = tiny.listing(place)
    changes = {
        key: value.format(place) if isinstance(value, str) else value
        for key, value in changes.items()
    }
    assert_one_line(tiny_corpus.create(place, **changes), *words)
    assert tiny.listing(place) == before


def test_cased_vocabulary_is_taken_if_meant(place):
    _cased(place)
    assert tiny_corpus.create(place, check_case=False).code == 0
    assert tiny_corpus.create(place, do_lower_case=False).code == 0


# --- The numbers of the original, on a megabyte of English.

# Standard deviation over 16 seeds of ours (1,097,912 bytes of 60 documents, 5 passes),
# as documents of a pass share their target and records are not independent.
DEVIATIONS = {
    "instances": 241,
    "random_next_share": 0.0104,
    "length_mean": 1.52,
    "full_length_share": 0.029,
    "masked_per_instance_mean": 0.223,
    "masked_share_of_tokens": 3.2e-5,
    "segment_a_mean": 0.785,
    "segment_b_mean": 0.763,
    "continuation_masked_share": 0.0006,
    "mask": 0.00083,
    "random": 0.00059,
    "same": 0.00059,
}
QUANTILES = {"0.01": 3.7, "0.05": 6.8, "0.1": 13.7, "0.25": 0.1, "0.5": 0.1}


def statistics(path, vocab):
    """The numbers of original_statistics.json, of one file of records."""
    import tensorflow as tf

    lengths = collections.defaultdict(lambda: 20) | {"next_sentence_labels": 1}
    lengths |= dict.fromkeys(["input_ids", "input_mask", "segment_ids"], 128)
    places = ["masked_lm_positions", "masked_lm_ids", "masked_lm_weights"]
    spec = {
        name: tf.io.FixedLenFeature(
            [lengths[name]], tf.float32 if name == places[2] else tf.int64
        )
        for name in [*lengths, *places]
    }
    batches = tf.data.TFRecordDataset(str(path)).batch(2048)
    parts = [tf.io.parse_example(batch, spec) for batch in batches]
    found = {name: np.concatenate([p[name].numpy() for p in parts]) for name in spec}
    is_real, is_second = found["input_mask"] == 1, found["segment_ids"] == 1
    length, second = is_real.sum(1), is_second.sum(1)
    is_chosen = found["masked_lm_weights"] > 0
    now = np.take_along_axis(found["input_ids"], found["masked_lm_positions"], 1)
    now, true = now[is_chosen], found["masked_lm_ids"][is_chosen]
    is_mask, is_same = now == vocab.index("[MASK]"), now == true
    is_piece = np.array([token.startswith("##") for token in vocab])
    result = {
        "instances": len(length),
        "random_next_share": found["next_sentence_labels"].mean(),
        "length_mean": length.mean(),
        "full_length_share": (length == 128).mean(),
        "masked_per_instance_mean": is_chosen.sum(1).mean(),
        "masked_share_of_tokens": is_chosen.sum() / length.sum(),
        "segment_a_mean": (length - second - 2).mean(),
        "segment_b_mean": (second - 1).mean(),
        "continuation_masked_share": is_piece[true].mean(),
        "mask": is_mask.mean(),
        "random": (~is_mask & ~is_same).mean(),
        "same": (is_same & ~is_mask).mean(),
    }
    return result | {q: np.quantile(length, float(q)) for q in QUANTILES}


def far_off(found, expected):
    """What differs by more than three standard errors of a difference."""
    expected = expected | expected["kind_share"] | expected["length_quantiles"]
    return {
        name: (found[name], expected[name])
        for name, deviation in (DEVIATIONS | QUANTILES).items()
        if abs(found[name] - expected[name]) > 3 * 2**0.5 * deviation
    }


def test_numbers_are_those_of_the_original(shared_file, tmp_path):
    text = shared_file("golden/pretraining/text.txt")
    vocab_file = shared_file("data/vocab/bert-base-uncased-vocab.txt")
    vocab = vocab_file.read_text("utf-8").split("\n")
    golden = shared_file("golden/pretraining/original_statistics.json")
    original = json.loads(golden.read_text())["stats"]

    def run(**changes):
        path = tmp_path / "out"
        given = {"input_file": text, "vocab_file": vocab_file, "output_file": path}
        given |= {"dupe_factor": 5, "num_workers": 1, **changes}
        given = [f"--{name}={value}" for name, value in given.items()]
        assert tiny.run_script(tiny_corpus.SCRIPT, *given).code == 0
        return statistics(path, vocab)

    pieces, words = run(), run(do_whole_word_mask=True)
    assert far_off(pieces, original["word_piece"]) == {}
    assert far_off(words, original["whole_word"]) == {}
    # Would it notice?
    assert "continuation_masked_share" in far_off(words, original["word_piece"])
    shorter = far_off(run(short_seq_prob=0.25, dupe_factor=2), original["word_piece"])
    assert {"length_mean", "full_length_share"} <= shorter.keys()
