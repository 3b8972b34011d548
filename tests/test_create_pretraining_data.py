"""The script from end to end: engines, interruptions, mistakes, and its statistics."""

import gzip
import json
import shutil
import signal

import numpy as np
import pytest
from absl import logging as absl_logging

from data_pipeline.pretraining import batches, masking, metadata
from data_pipeline.text import wordpiece
from tests import daily, full_disk, tiny, tiny_corpus


@pytest.fixture
def place(tmp_path):
    return tiny_corpus.write(tmp_path)


# --- Words that spaces separate.

CHINESE = [
    "我们 使用 语言 模型 来 预测 下 一 个 词 的 概率 。",
    "银行 的 利率 今天 没有 变化 ， 人们 在 河边 散步 。",
]


@pytest.fixture
def chinese(tmp_path):
    characters = dict.fromkeys("".join(CHINESE).replace(" ", ""))
    vocab = [*tiny.SPECIAL, *characters]
    (tmp_path / "vocab.txt").write_text("\n".join(vocab) + "\n")
    (tmp_path / "text.txt").write_text("\n".join(CHINESE * 40) + "\n")
    return tmp_path, vocab


def hidden_words(vocab, arrays):
    """Whether each word is hidden in whole, in part or not, as a set of shares."""
    shares = set()
    words = [word for line in CHINESE for word in line.split() if len(word) > 1]
    for row, weights in enumerate(arrays["masked_lm_weights"]):
        places = set(arrays["masked_lm_positions"][row][weights > 0].tolist())
        text = "".join(f"{vocab[i]:.1}" for i in tiny_corpus.restored(arrays)[row])
        for word in words:
            first = text.find(word)
            if first >= 0:
                shares.add(len(places & {first, first + 1}) / 2)
    return shares


def test_segmented_words_are_hidden_in_whole(chinese, caplog):
    place, vocab = chinese
    settings = {"masking": "whole_word", "sentence_task": "none", "dupe_factor": 4}
    warning = "92 % of the tokens are Chinese characters, each a word"
    arrays = {}
    for is_segmented in (True, False):
        name = f"{is_segmented}.tfrecord"
        flag = {"segmented_words": "true"} if is_segmented else {}
        done = tiny_corpus.create(place, output=name, **settings, **flag)
        assert done.code == 0, done.err
        assert (warning in done.log) != is_segmented, done.log
        arrays[is_segmented] = tiny_corpus.parse(tiny_corpus.raw(place / name))
        assert metadata.read(f"{place}/{name}").segmented_words == is_segmented
    assert hidden_words(vocab, arrays[True]) == {0, 1}
    assert hidden_words(vocab, arrays[False]) == {0, 0.5, 1}
    texts = [tiny_corpus.restored(values) for values in arrays.values()]
    assert np.array_equal(*texts) and texts[0].max() < len(vocab)
    unmasked = tiny_corpus.create(place, output="none.tfrecord", masking="none")
    assert unmasked.code == 0 and "Chinese" not in unmasked.log
    tokenizer = wordpiece.BertTokenizer(vocab)
    sizes = {"max_seq_length": 32, "vocab_size": len(vocab), "spare_rows": 0}
    for kind in ("word_piece", "whole_word"):
        caplog.clear()
        rule = masking.Rule(kind, 0.15, 5)
        files = {"input_file": f"{place}/none.tfrecord"}
        batches.load(files, tokenizer, rule, **sizes)
        assert ("create_pretraining_data.py --segmented_words" in caplog.text) == (
            kind == "whole_word"
        )


def test_segmented_words_are_refused_where_none_are(chinese):
    place, _ = chinese
    for flags_, message in (
        ({"masking": "none"}, "--masking is none; set --masking=whole_word, span or"),
        ({}, "--masking is word_piece; set --masking=whole_word, span or ngram"),
        (
            {"objective": "left_to_right"},
            "--segmented_words is read with --objective=masked_lm",
        ),
    ):
        supplied = tiny_corpus.arguments(
            place,
            dupe_factor=None,
            segmented_words="true",
            max_predictions_per_seq=None,
            **flags_,
        )
        assert message in tiny.refuse(tiny_corpus.SCRIPT, *supplied)
    text = (place / "text.txt").read_text()
    (place / "text.txt").write_text(text.replace(" ", ""))
    supplied = tiny_corpus.arguments(place, segmented_words="true", masking="span")
    error = tiny.refuse(tiny_corpus.SCRIPT, *supplied)
    assert "text.txt: words have 19.5 tokens on average" in error


# --- What it makes.


def outputs(directory):
    """Bytes of everything but the input."""
    names = tiny_corpus.listing(directory)
    return {name: (directory / name).read_bytes() for name in names}


def test_records_have_the_features_of_the_original(place):
    done = tiny_corpus.create(place)
    assert (done.code, done.err) == (0, "")
    records = tiny_corpus.raw(place / "out.tfrecord")
    arrays = tiny_corpus.parse(records)
    count = len(records)
    assert {name: values.shape for name, values in arrays.items()} == {
        "input_ids": (count, 32),
        "input_mask": (count, 32),
        "segment_ids": (count, 32),
        "masked_lm_positions": (count, 5),
        "masked_lm_ids": (count, 5),
        "masked_lm_weights": (count, 5),
        "next_sentence_labels": (count, 1),
    }
    lengths = arrays["input_mask"].sum(1)
    assert np.array_equal(arrays["input_mask"], np.arange(32) < lengths[:, None])
    assert not arrays["input_ids"][arrays["input_mask"] == 0].any()
    assert arrays["masked_lm_weights"].sum(1).tolist() == [
        min(5, max(1, round(length * 0.15))) for length in lengths.tolist()
    ]
    assert f"  instances = {count}\n" in done.out
    assert f"wrote {place}/out.tfrecord\n" in done.out
    written = metadata.read(f"{place}/out.tfrecord")
    assert (written.num_instances, written.dupe_factor) == (count, 3)
    assert written.num_bytes == (place / "out.tfrecord").stat().st_size


@pytest.mark.slow
def test_words_end_where_the_flag_or_the_files_say(place):
    digests = []
    for setting, flag in (
        ({}, None),
        ({}, "whitespace"),
        ({"split_words": "whitespace"}, None),
    ):
        (place / "tokenizer_config.json").write_text(json.dumps(setting))
        assert tiny_corpus.create(place, split_words=flag).code == 0
        digests.append(metadata.read(f"{place}/out.tfrecord").vocab_digest)
    assert digests[0] != digests[1] == digests[2]
    (place / "tokenizer_config.json").unlink()


@pytest.mark.slow
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


@pytest.mark.slow
def test_unmasked_records_use_the_text_once(place, monkeypatch):
    warned = []
    monkeypatch.setattr(absl_logging, "warning", lambda *args: warned.append(args))
    assert tiny_corpus.create(place, masking="none", dupe_factor=None).code == 0
    written = metadata.read(f"{place}/out.tfrecord")
    assert (written.dupe_factor, written.max_predictions_per_seq) == (1, 0)
    assert written.masked_lm_prob == 0.0 and written.masking == "none"
    arrays = tiny_corpus.parse(tiny_corpus.raw(place / "out.tfrecord"))
    assert "masked_lm_ids" not in arrays
    assert not (arrays["input_ids"] == tiny_corpus.VOCAB.index("[MASK]")).any()
    tiny_corpus.create(place, masking="none", dupe_factor=4, max_predictions_per_seq=4)
    assert metadata.read(f"{place}/out.tfrecord").dupe_factor == 4
    assert warned == []
    # With masks, so few predictions are warned of.
    tiny_corpus.create(place, max_predictions_per_seq=4)
    ((text, *numbers),) = warned
    assert "max_predictions_per_seq" in text and numbers == [4, 5]


def test_left_to_right_records_are_full_and_can_be_masked_later(place):
    flags_ = {"max_predictions_per_seq": None, "dupe_factor": None, "num_shards": 2}
    done = tiny_corpus.create(place, objective="left_to_right", **flags_)
    assert (done.code, done.err) == (0, "")
    names = [f"out.tfrecord-{i:05}-of-00002" for i in range(2)]
    arrays = tiny_corpus.parse(tiny_corpus.raw(*(place / name for name in names)))
    assert "masked_lm_ids" not in arrays
    assert f"  instances = {len(arrays['input_ids'])}\n" in done.out
    assert "  words = " in done.out and "  bytes = " in done.out
    assert arrays["input_mask"].mean() > 0.95
    for name in names:
        written = metadata.read(f"{place}/{name}")
        assert (written.objective, written.masking) == ("left_to_right", "none")
        assert (written.dupe_factor, written.sentence_task) == (1, "none")


@pytest.mark.slow
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


# --- Engines.


def expected_of(place, **flags_):
    """What one worker makes without interruption, by name; it is removed again."""
    done = tiny_corpus.create(place, **flags_)
    assert done.code == 0, done.err
    expected = outputs(place)
    for name in expected:
        (place / name).unlink()
    return expected


def summary_of(text):
    """What is printed about the records, but for the time."""
    lines = [line for line in text.splitlines() if line.startswith("  ")]
    assert len(lines) >= 8
    return [line for line in lines if "seconds" not in line]


def start(server, place, **flags):
    """The script as a process, whose files are a and b."""
    arguments = tiny_corpus.arguments(place, output="a,b", **flags)
    return server.start(tiny_corpus.SCRIPT, *arguments, constants=tiny_corpus.SIZES)


@pytest.mark.slow
def test_two_commands_at_once_make_the_same_records(place, forked_server):
    expected = expected_of(place, output="a,b")
    both = [start(forked_server, place, num_workers=n) for n in (1, 2)]
    for job in both:
        assert "\nerror: " not in job.succeed()
    assert outputs(place) == expected


def test_full_disk_is_one_line_and_goes_on_afterwards(place):
    settings = {"max_seq_length": 256, "small": False}
    expected = expected_of(place, **settings)
    size = len(expected["out.tfrecord"])
    # While cutting, while writing pieces, and while joining them.
    stages = {size // 100: "part", size // 8: "file-00000", size // 2: "out.tfrecord."}
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
def test_ctrl_c_is_one_line_and_goes_on_afterwards(place, forked_server):
    expected = expected_of(place, output="a,b")
    job = start(forked_server, place, num_workers=2, dupe_factor=300)
    job.until(lambda: list(place.glob("a.incomplete/unit-*")))
    job.send(signal.SIGINT)
    assert job.code() == 130, job.text()
    text = job.text()
    text = text[text.index("interrupted") :]
    assert text.count("\n") == 1 and "Traceback" not in text, text
    assert "a.incomplete: run the same command again to go on" in text
    shutil.rmtree(place / "a.incomplete")
    assert tiny_corpus.create(place, output="a,b").code == 0
    assert outputs(place) == expected


@pytest.mark.slow
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
    here = tiny_corpus.create(place, output="c,d", dupe_factor=1)
    assert summary_of(done.out) == summary_of(here.out)


# --- Mistakes.


def assert_one_line(done, *words):
    assert done.code == 2, done.out
    assert done.err.startswith("error: ") and done.err.count("\n") == 1, done.err
    assert [word for word in words if str(word) not in done.err] == [], done.err


def test_texts_without_a_token_are_refused(place):
    (place / "text.txt").write_bytes(b"\x00\n\n\xe2\x80\x8b\n")
    (place / "other.txt").write_bytes(b"\n \n\t\n\xc2\xa0\n")
    (place / "empty.txt").write_bytes(b"")
    files = ",".join(f"{place}/{name}.txt" for name in ("text", "other", "empty"))
    done = tiny_corpus.create(place, input_file=files)
    assert_one_line(done, "3 files hold no document", "one sentence a line")
    assert tiny_corpus.listing(place) == ["empty.txt", "other.txt"]


ENCODED = {  # the text, of which the vocabulary spells most; words of the message
    "UTF-16": (
        "w1 w2\n".encode("utf-16"),
        [
            "text.txt:1: is not UTF-8; it looks like UTF-16: ",
            "iconv -f UTF-16 -t UTF-8",
        ],
    ),
    "WINDOWS-1252": (
        b"w1 w2\n" * 97 + b"w3 caf\xe9 w4\n" * 2,
        ["2 of 99 lines of --input_file are not UTF-8: ", "text.txt:98: byte 0xe9, "],
    ),
    "packed": (
        b"w1 w2\n\xe4\xf6 w3 w3 w4 w5 w6\n",
        ["1 of 2 lines", "text.txt.gz:2: ", "iconv -f WINDOWS-1252"],
    ),
    "unknown": (
        b"w1 never seen\n" * 10,
        ["66.7% of the tokens of --input_file are [UNK]", "--nocheck_tokenizer"],
    ),
}


@pytest.mark.parametrize("name", daily.params(ENCODED, "unknown".__ne__))
def test_text_that_would_be_misread_is_refused(place, name):
    data, words = ENCODED[name]
    path = place / "text.txt"
    tiny_corpus.create(place)  # records of before do not make it right
    path.write_bytes(data)
    if name == "packed":
        path.unlink()
        path = place / "text.txt.gz"
        path.write_bytes(gzip.compress(data))
    before = tiny.listing(place)
    done = tiny_corpus.create(place, input_file=path)
    assert_one_line(done, *words)
    assert tiny.listing(place) == before
    if name == "unknown":
        done = tiny_corpus.create(place, check_tokenizer=False)
        assert done.code == 0 and "unknown_token_share = 0.66667\n" in done.out
        assert "unknown_token_share=0.667: the vocabulary does not" in done.log


def test_few_invalid_lines_are_counted_and_left_out(place):
    text = (place / "text.txt").read_bytes()
    expected = expected_of(place, small=False)
    (place / "text.txt").write_bytes(text.replace(b" ", b"\xff \xc3", 1))
    done = tiny_corpus.create(place, output="other", small=False)
    lines = text.count(b"\n")
    assert f"1 of {lines} lines of --input_file are not UTF-8; their" in done.log
    assert outputs(place)["other"] == expected["out.tfrecord"]


# The text of sentences of five words, and a part of the warning; "" for none.
UNUSUAL = {
    "one document": ("{0}\n" * 60, "no blank line separates documents, so random"),
    "two documents": ("{0}\n" * 60 + "\n" + "{0}\n" * 60, ""),
    "a sentence a document": ("{0}\n\n" * 60, "random_next_share=1.000 is far fr"),
    "paragraphs": (("{0} " * 30 + "\n") * 9 + "\n" + "{0}\n{0}\n", "text is cut"),
    "foreign words": (
        "{0} who\n{0}\n" * 30 + "\n{0}\n" * 9,
        "unknown_token_share=0.08",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_records_are_warned_of(place, name):
    text, part = UNUSUAL[name]
    (place / "text.txt").write_text(text.replace("{0}", "w1 w2 w3 w4 w5"))
    done = tiny_corpus.create(place, small=False)
    assert done.code == 0 and part in done.log
    if not part:
        assert done.log == ""
    # A file without blank lines is cut into ranges, and no warning is left out.
    many = tiny_corpus.create(place)
    assert (name == "one document") == ("no blank line" in many.log)
    if name == "one document":
        again = tiny_corpus.create(place, sentence_task="order")
        assert "blank line" not in again.log and "random_next" not in again.out


def test_shares_are_counted_exactly(place):
    def printed(text, **flags_):
        (place / "text.txt").write_text(text)
        done = tiny_corpus.create(place, **flags_)
        assert done.code == 0, done.err
        return dict(x[2:].split(" = ") for x in done.out.splitlines() if " = " in x)

    lines = printed("w1 w2 what\nw3\n\n" * 40)
    arrays = tiny_corpus.parse(tiny_corpus.raw(place / "out.tfrecord"))
    random = arrays["next_sentence_labels"].mean()
    assert lines["random_next_share"] == f"{random:.5f}" and 0.3 < random < 0.8
    assert lines["unknown_token_share"] == "0.25000"
    assert lines["used_token_share"] == "1.00000"
    # A pair has room for 29 tokens.
    lines = printed(
        (" ".join(["w5"] * 40) + "\n\n") * 20, sentence_task="order", short_seq_prob=0
    )
    assert lines["used_token_share"] == f"{29 / 40:.5f}"
    assert "random_next_share" not in lines
    left = {"objective": "left_to_right", "dupe_factor": None}
    left["max_predictions_per_seq"] = None
    lines = printed("w1 w2 what w3\n" * 20, **left)
    assert lines["unknown_token_share"] == "0.25000"
    assert not {"used_token_share", "random_next_share"} & lines.keys()


# What is replaced in the vocabulary, and by what; flags; words of the message.
MISTAKES = {
    "no mask": ("[MASK]\n", "", {}, ["lacks [MASK]", "build_vocab.py"]),
    "cased": ("w", "W", {}, ["cased vocabulary", "--do_lower_case=false"]),
    "uncased": ("", "", {"do_lower_case": False}, ["uncased", "--nocheck_case"]),
    **{
        name: ("", "", {"output_file": path}, words)
        for name, path, words in (
            ("one file twice", "{0}/a,{0}/a", ["twice"]),
            ("input", "{0}/text.txt", ["would be overwritten"]),
            ("directory", "{0}", ["is a directory; name the file"]),
            ("not writable", "{0}/a,{0}/text.txt/b", ["b: cannot be written", "anoth"]),
            ("no output", " , ", ["names no file"]),
        )
    },
    **{
        name: ("", "", {name: path}, ["none", "no such file"])
        for name, path in (
            ("input_file", "{0}/text.txt,{0}/none.txt"),
            ("vocab_file", "{0}/none"),
        )
    },
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_one_line_and_touches_nothing(place, name):
    old, new, changes, words = MISTAKES[name]
    vocab = (place / "vocab.txt").read_text()
    (place / "vocab.txt").write_text(vocab.replace(old, new))
    before = tiny.listing(place)
    changes = {
        key: value.format(place) if isinstance(value, str) else value
        for key, value in changes.items()
    }
    assert_one_line(tiny_corpus.create(place, **changes), *words)
    assert tiny.listing(place) == before
    if name == "cased":
        assert tiny_corpus.create(place, check_case=False).code == 2
        for flag in ("check_case", "do_lower_case"):  # W1 is not w1
            flags_ = {flag: False, "check_tokenizer": False}
            assert tiny_corpus.create(place, **flags_).code == 0


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

    spec = metadata.spec(128, 20)
    batches = tf.data.TFRecordDataset(str(path)).batch(2048)
    parts = [tf.io.parse_example(batch, spec) for batch in batches]
    arrays = {name: np.concatenate([p[name].numpy() for p in parts]) for name in spec}
    is_real, is_second = arrays["input_mask"] == 1, arrays["segment_ids"] == 1
    length, second = is_real.sum(1), is_second.sum(1)
    is_chosen = arrays["masked_lm_weights"] > 0
    now = np.take_along_axis(arrays["input_ids"], arrays["masked_lm_positions"], 1)
    now, true = now[is_chosen], arrays["masked_lm_ids"][is_chosen]
    is_mask, is_same = now == vocab.index("[MASK]"), now == true
    is_piece = np.array([token.startswith("##") for token in vocab])
    result = {
        "instances": len(length),
        "random_next_share": arrays["next_sentence_labels"].mean(),
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


def far_off(actual, expected):
    """What differs by more than three standard errors of a difference."""
    expected = expected | expected["kind_share"] | expected["length_quantiles"]
    return {
        name: (actual[name], expected[name])
        for name, deviation in (DEVIATIONS | QUANTILES).items()
        if abs(actual[name] - expected[name]) > 3 * 2**0.5 * deviation
    }


def test_numbers_are_those_of_the_original(shared_file, tmp_path):
    text = shared_file("golden/pretraining/text.txt")
    vocab_file = shared_file("data/vocab/bert-base-uncased-vocab.txt")
    vocab = vocab_file.read_text("utf-8").split("\n")
    golden = shared_file("golden/pretraining/original_statistics.json")
    original = json.loads(golden.read_text())["stats"]

    def run(**changes):
        path = tmp_path / "out"
        arguments = {"input_file": text, "vocab_file": vocab_file, "output_file": path}
        arguments |= {"dupe_factor": 5, "num_workers": 1, **changes}
        arguments = [f"--{name}={value}" for name, value in arguments.items()]
        assert tiny.run_script(tiny_corpus.SCRIPT, *arguments).code == 0
        return statistics(path, vocab)

    pieces, words = run(), run(do_whole_word_mask=True)
    assert far_off(pieces, original["word_piece"]) == {}
    assert far_off(words, original["whole_word"]) == {}
    # Would it notice?
    assert "continuation_masked_share" in far_off(words, original["word_piece"])
    shorter = far_off(run(short_seq_prob=0.25, dupe_factor=2), original["word_piece"])
    assert {"length_mean", "full_length_share"} <= shorter.keys()
