"""Tests of data_pipeline/pretraining/source.py."""

import pathlib

import pytest
import tensorflow as tf

from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import metadata
from data_pipeline.pretraining import source as source_lib
from tests.data_pipeline import tiny_records

GIVEN = {
    "max_seq_length": tiny_records.LENGTH,
    "max_predictions_per_seq": tiny_records.PREDICTIONS,
    "vocab_size": len(tiny_records.VOCAB),
    "spare_rows": 7,
}


def refusal(files, **changes):
    with pytest.raises(ValueError) as raised:
        source_lib.check_records(files, **(GIVEN | changes))
    assert "\n" not in str(raised.value)
    return str(raised.value)


# Finding files.


def test_files_are_found_by_names_and_globs(tmp_path):
    names = ["b-1", "b-0", "a-0", "b-0.metadata.json", "b-2.incomplete"]
    names += ["b-3.metadata.json.incomplete", "b-4.incomplete-77"]
    for name in names:
        (tmp_path / name).write_text("")
    (tmp_path / "b-5").mkdir()
    spec = f"{tmp_path}/b-*, {tmp_path}/a-0,"
    wanted = [str(tmp_path / name) for name in ("b-0", "b-1", "a-0")]
    assert source_lib.find(spec) == wanted


# Opening them.


@pytest.mark.parametrize("has_masks", [True, False])
def test_source_says_what_the_records_hold(tmp_path, has_masks):
    about = {"sentence_task": "order"}
    if not has_masks:
        about |= {"masking": "none", "max_predictions_per_seq": 0}
    paths = [
        tiny_records.write_numbered(tmp_path / "a", 0, 3, about=about),
        tiny_records.write_numbered(tmp_path / "b", 3, 8, about=about),
    ]
    actual = source_lib.check_records(
        paths, **GIVEN, vocab=tiny_records.VOCAB, do_lower_case=True
    )
    assert actual == source_lib.RecordSource(
        files=tuple(paths),
        counts=(3, 5),
        splits=tuple((0, pathlib.Path(path).stat().st_size) for path in paths),
        sentence_task="order",
        has_masks=has_masks,
        max_seq_length=8,
        max_predictions_per_seq=2,
        vocab_size=20,
    )


OTHER_VOCAB = [*tiny_records.VOCAB[:-1], "z"]
OURS = tiny_records.METADATA["vocab_digest"]
# Metadata of two files, or None; what the run has; and the message.
REFUSED = [
    *(
        (
            [{}, {name: value}],
            {"flag": "eval_input_file"},
            f"--eval_input_file: the records of {{0}} have {name}="
            f"{tiny_records.METADATA[name]}, those of {{1}} {name}={value};",
        )
        for name, value in (
            *(("max_seq_length", 16), ("max_predictions_per_seq", 3)),
            *(("masking", "span"), ("sentence_task", "order")),
            *(("do_lower_case", False), ("vocab_size", 21), ("vocab_digest", "0123")),
        )
    ),
    *(
        (
            [about],
            {name: value},
            f"--{name}={value}, but the records of {{0}} have {name}={ours}; give "
            f"--{name}={ours}, or make the records again",
        )
        for about, name, value, ours in (
            ({}, "max_seq_length", 128, 8),
            (None, "max_predictions_per_seq", 20, 2),
        )
    ),
    *(
        (
            [{}],
            {"vocab_size": size},
            f"{{0}} have a vocabulary of 20, and the network vocab_size={size}; give "
            "the --bert_config_file",
        )
        for size in (19, 20 + 8)
    ),
    (
        [{}],
        {"vocab": OTHER_VOCAB},
        f"the records of {{0}} were made with another vocabulary ({OURS}) than "
        f"--vocab_file ({metadata.vocab_digest(OTHER_VOCAB)});",
    ),
    ([None], {"vocab_size": 7}, "{0}: record 2 has input_ids=7, not 0 to 6; give the"),
    ([None], {"type_vocab_size": 1}, "{0}: record 0 has segment_ids=1, not 0 to 0;"),
    ([{}], {"do_lower_case": False}, "the records of {0} have do_lower_case=True"),
]


@pytest.mark.parametrize(("about", "changes", "message"), REFUSED)
def test_records_that_do_not_fit_are_refused(tmp_path, about, changes, message):
    files = [
        tiny_records.write_numbered(tmp_path / str(i), 0, 3, about=one)
        for i, one in enumerate(about)
    ]
    assert message.format(*files) in refusal(files, **changes)


def test_records_that_fit_are_opened(tmp_path):
    """What is unknown is not checked, and a table may be rounded up by 7 rows."""
    for about, changes in (
        ({}, {"vocab_size": 20 + 7}),
        (None, {"vocab_size": 8, "do_lower_case": False}),
    ):
        path = tiny_records.write_numbered(tmp_path / "a", 0, 3, about=about)
        assert source_lib.check_records([path], **GIVEN | changes).counts == (3,)
        (tmp_path / "a.metadata.json").unlink(missing_ok=True)


def test_no_record_at_all_is_refused(tmp_path):
    empty, full = (
        tiny_records.write_numbered(tmp_path / name, 0, count, about={})
        for name, count in (("a", 0), ("b", 1))
    )
    text = refusal([empty, empty])
    assert text.startswith(f"--input_file: no record in {empty} and 1 more;")
    assert source_lib.check_records([empty, full], **GIVEN).counts == (0, 1)
    text = refusal([full], is_masked=False)
    assert f"but the records of {full} are masked; make them again" in text


def test_damage_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(source_lib, "_SCANNED_RECORDS", 3)
    path = tiny_records.write_numbered(tmp_path / "a", 0, 8)
    source = source_lib.check_records([path], **GIVEN)
    assert source.find_damage(path) is None
    begin = tiny_records.starts(path)[4]
    data = bytearray(pathlib.Path(path).read_bytes())
    data[begin + 40] ^= 1
    pathlib.Path(path).write_bytes(data)
    assert source.find_damage(path) == (
        f"{path}: damaged between records 3 and 5 (corrupted record at {begin + 12}); "
        "copy the file again, or make it again"
    )


# Records of other programs.


def test_records_of_other_programs_are_read_and_named(tmp_path, capsys):
    rows = [tiny_records.values(number) for number in range(3)]
    unmasked = [tiny_records.values(number, has_masks=False) for number in range(3)]
    for row in unmasked:
        del row["next_sentence_labels"]  # as ELECTRA's
    for records, parts in (
        (rows, ["read as next_sentence_labels, sentence_task=next, masked"]),
        ([row | {"masked_lm_weights": [1, 0]} for row in rows], ["integer weights"]),
        (unmasked, ["no next_sentence_labels", "sentence_task=none, not masked"]),
    ):
        path = tiny_records.write(tmp_path / "a", records)
        source = source_lib.check_records([path], **GIVEN)
        text = capsys.readouterr().out
        assert all(part in text for part in ["--input_file: 1 file without", *parts])
        assert source.has_masks == (records is not unmasked)
        actual = source.parse_checked([tiny_records.serialized(row) for row in records])
        assert set(actual) == {*unmasked[0], "next_sentence_labels"} | (
            set(metadata.PREDICTIONS) if source.has_masks else set()
        )
        for name, values in actual.items():
            wanted = [row[name] for row in rows]
            if name == "next_sentence_labels" and records is unmasked:
                wanted = [[0]] * 3
            assert values.numpy().reshape(3, -1).tolist() == wanted, name
    tiny_records.write_numbered(tmp_path / "b", 0, 3, about={})
    source_lib.check_records([str(tmp_path / "b")], **GIVEN)
    assert capsys.readouterr().out == ""


def test_files_of_two_programs_are_refused(tmp_path):
    rows = [tiny_records.values(number) for number in range(3)]
    paths = [
        tiny_records.write(tmp_path / "a", rows),
        tiny_records.write(
            tmp_path / "b", [row | {"masked_lm_weights": [1, 0]} for row in rows]
        ),
    ]
    text = refusal(paths)
    assert f"the records of {paths[0]} have next_sentence_labels, those of" in text
    assert f"{paths[1]} next_sentence_labels, integer weights; give files of" in text


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [
        ("input_ids", -1, 19),
        ("input_mask", 2, 1),
        ("masked_lm_positions", 8, 7),
        ("masked_lm_ids", 1 << 40, 19),
        pytest.param("input_ids", 20, 19, marks=pytest.mark.slow),
        pytest.param("segment_ids", 2, 1, marks=pytest.mark.slow),
        pytest.param("next_sentence_labels", 2, 1, marks=pytest.mark.slow),
    ],
)
def test_value_out_of_range_is_named_with_its_record(tmp_path, name, value, most):
    rows = [tiny_records.values(number) for number in range(5)]
    rows[3][name] = [*rows[3][name][:-1], value]
    path = tiny_records.write(tmp_path / "a", rows, about={})  # is not probed
    source = source_lib.check_records([path], **GIVEN, type_vocab_size=2)
    serialized = [tiny_records.serialized(row) for row in rows]
    assert len(source.parse_checked(serialized[:3])) == 7
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        source.parse_checked(serialized)
    sets = record_batches.RecordSets(source, source, None)
    text = f"{path}: record 3 has {name}={value}, not 0 to {most}; give the config"
    assert sets.explain(raised.value).startswith(text)
    with pytest.raises(tf.errors.InvalidArgumentError):  # in the pipeline, too
        list(sets.training_batches(5, 1, 0, 1))
    tiny_records.write(path, [*rows[:3], rows[4]], about={})
    assert sets.explain(raised.value) is None
