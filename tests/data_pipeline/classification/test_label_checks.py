"""What is printed and refused of labels before training."""

import dataclasses

import numpy as np
import pytest

from data_pipeline import findings
from data_pipeline.classification import label_checks, sources
from data_pipeline.tables import labelled
from tests import shown
from tests.refusals import refused


def table(*values, texts=None, seconds=None, path="train.csv"):
    count = len(values)
    return labelled.Table(
        path=path,
        text_a=texts or [f"text {n}" for n in range(count)],
        text_b=seconds,
        labels=list(values),
        example_ids=[str(n) for n in range(count)],
        lines=list(range(2, count + 2)),
    )


def inspected(*values, problem_type="classification", **options):
    rows = {"train": table(*values)}
    return label_checks.inspect(rows, problem_type, **options)


def texts_of(kind, *values, **options):
    found = inspected(*values, **options)
    return [each.text for each in found if each.kind == kind]


GOOD = ["good"] * 8 + ["bad"] * 6


def test_labels_are_counted_in_one_line_and_nothing_else_is_printed():
    (note,) = inspected(*GOOD)
    assert note == findings.Finding("train.csv", "2 labels: good 8, bad 6")
    many = [name for name in "abcdefghijk" for _ in range(5)]
    (note,) = inspected(*many)
    assert note.text.endswith(
        "11 labels: a 5, b 5, c 5, d 5, e 5, f 5, g 5, h 5 and 3 more"
    )


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (["Billing"] * 9 + ["billing"] * 6 + ["Billing "] * 5, "'Billing' (9) and "),
        (["1"] * 9 + ["1.0"] * 5 + ["0"] * 5, "'1' (9) and '1.0' (5) are"),
        (["1"] * 9 + ["01"] * 5 + ["0"] * 5, "'1' (9) and '01' (5) are"),
        (["New York"] * 9 + ["New  York"] * 5, "'New York' (9) and 'New  York' (5)"),
        (["Café"] * 9 + ["Cafe\u0301"] * 5, "are spellings of one label"),
    ],
)
def test_labels_alike_are_refused_unless_they_are_named(values, shown):
    (fault,) = texts_of("fault", *values)
    assert shown in fault and "write them alike" in fault
    with refused("train.csv: ", "; or name every label that is meant with --labels"):
        label_checks.choose({"train": table(*values)}, sources.Source(), None)
    assert not texts_of("fault", *values, has_names=True)


@pytest.mark.parametrize(
    "names",
    [
        ("a", "b"),
        ("1", "10"),
        ("1", "1.5"),
        # As floats these are equal.
        ("12345678901234567890", "12345678901234567891"),
        ("C", "C#"),
        ("Infinity", "inf"),
        ("snan", "SNaN2"),
    ],
)
def test_other_labels_are_not_alike(names):
    assert not texts_of("fault", *[name for name in names for _ in range(6)])


def test_several_labels_alike_are_found_in_rows_of_multi_label():
    rows = ["joy,Anger"] * 6 + ["anger"] * 6 + [""] * 6
    (fault,) = texts_of("fault", *rows, problem_type="multi_label")
    assert "'Anger' (6) and 'anger' (6)" in fault


@pytest.mark.parametrize(
    "cell",
    ["['joy', 'anger']", '["joy"]', "[1 0 0]", "[0. 1.]", "('a', 'b',)", "[]", "{'a'}"],
)
@pytest.mark.parametrize("problem_type", ["classification", "multi_label"])
def test_printed_lists_are_refused(cell, problem_type):
    values = [*GOOD, cell, *GOOD, cell]
    (fault,) = texts_of("fault", *values, problem_type=problem_type)
    assert fault.startswith("train.csv:16: label ") and "printed list (2 rows)" in fault
    assert "--problem_type=multi_label" in fault and "JSONL" in fault


@pytest.mark.parametrize(
    ("cell", "what", "remedy"),
    [
        ('{"choices": ["joy", "anger"]}', "a printed object", "or as lists in JSONL"),
        ('{"choices":\n["joy"]}', "a printed object", "--problem_type=multi_label"),
        ('="joy"', "a spreadsheet's formula", "save a spreadsheet with its values"),
        ("#NAME?", "a spreadsheet's error", "save a spreadsheet with its values"),
        ("#REF!", "a spreadsheet's error", "save a spreadsheet with its values"),
        ("#VALUE!", "a spreadsheet's error", "save a spreadsheet with its values"),
    ],
)
@pytest.mark.parametrize("problem_type", ["classification", "multi_label"])
def test_code_of_other_programs_is_refused(cell, what, remedy, problem_type):
    values = [*GOOD, cell, *GOOD, cell]
    (fault,) = texts_of("fault", *values, problem_type=problem_type)
    assert fault.startswith("train.csv:16: label ") and f"is {what} (2 rows)" in fault
    assert remedy in fault
    assert not texts_of("fault", *values, problem_type=problem_type, has_names=True)


@pytest.mark.parametrize("text", ["#NAME?", "#REF!", '="good film"', '=""'])
@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_texts_that_are_code_of_a_spreadsheet_are_warned_of(text, split):
    rows = {
        name: table("a", "b", texts=[f"{name} 1", f"{name} 2"], path=f"{name}.csv")
        for name in ("train", split)
    }
    rows[split].text_a[1] = text
    (warning,) = label_checks.of_texts(rows)
    assert warning.kind == "warning"
    assert warning.text.startswith(f"{split}.csv:3: text {text!r} is a spreadsheet's ")
    assert "(line 3); save the table with its values" in warning.text
    if split != "train":  # also where nothing is trained
        alone = {split: rows[split]}
        assert label_checks.inspect(alone, "classification") == [warning]
    rows[split].text_a[1] = f"see {text}"
    assert not label_checks.of_texts(rows)


@pytest.mark.parametrize("mark", ["|", ";"])
def test_another_separator_of_labels_is_noticed(mark):
    cells = ["Action", f"Action {mark} Comedy", "Drama,Action"] * 6
    (fault,) = texts_of("fault", *cells, problem_type="multi_label")
    assert fault == (
        f"train.csv: 'Action {mark} Comedy' joins labels that stand alone, too; pass "
        f"--label_separator={mark!r}"
    )
    right = {"problem_type": "multi_label", "separator": mark}
    assert not texts_of("fault", *cells[:2] * 6, **right)
    # A sign that joins nothing that stands alone, and a class of its own.
    alone = [cell.replace("Action", "Crime") for cell in cells[1::3]] + ["Action"] * 6
    assert not texts_of("fault", *alone, problem_type="multi_label")
    assert not texts_of("fault", *cells)


@pytest.mark.parametrize("cell", ["[spam]", "(none)", "a [b]", "[", "{x y}"])
def test_words_in_brackets_are_no_printed_lists(cell):
    assert not texts_of("fault", *GOOD, *[cell] * 5)


def test_zeros_and_ones_of_all_labels_are_refused_and_sets_of_both_are_not():
    rows = [("0", "0", "1"), ("1", "0", "0")] * 6
    for values in (rows, [",".join(row) for row in rows]):
        (fault,) = texts_of("fault", *values, problem_type="multi_label")
        assert "train.csv:2: ['0', '0', '1'] has 0 or 1 for each" in fault
        assert "--label_column=NAME,NAME" in fault
    for values in (
        [("0",), ("1",)] * 6,
        [("0", "1"), ("1", "0")] * 6,
        [("0", "2")] * 9,
    ):
        assert not texts_of("fault", *values, problem_type="multi_label")


def test_as_many_classes_as_rows_are_refused():
    names = [f"name {n}" for n in range(20)]
    (fault,) = texts_of("fault", *names)
    assert fault.startswith("train.csv: 20 labels in 20 rows; choose another")
    assert "--problem_type=regression" in fault
    for values in (names[:9], names[:14] + ["x"] * 6):
        assert not texts_of("fault", *values)
    assert not texts_of("fault", *names, has_names=True)


def test_small_classes_are_warned_of_unless_all_are():
    warnings = texts_of("warning", *GOOD, "rare", "odd", "odd")
    assert warnings == [
        "train.csv: 2 of 4 labels have fewer than 5 rows: rare 1, odd 2"
    ]
    assert not texts_of("warning", "a", "b", "a", "b")


def test_all_findings_come_at_once():
    rows = {
        "train": table(*GOOD, "Good", "None", "[1 0]", "x", texts=["same"] * 18),
        "dev": table("good", texts=["same"], path="dev.csv"),
    }
    kinds = [each.kind for each in label_checks.inspect(rows, "classification")]
    assert sorted(kinds) == ["fault"] * 2 + ["note"] + ["warning"] * 4
    with pytest.raises(ValueError, match=r"printed list.*\n.*spellings of"):
        findings.refuse(label_checks.inspect(rows, "classification"))


def test_equal_numbers_of_any_split_are_warned_of():
    def warnings(dev, test=("1", "2")):
        rows = {
            "train": table("1.5", "2", "3", "4"),
            "dev": table(*dev, texts=[f"dev {i}" for i, _ in enumerate(dev)], path="d"),
            "test": table(*test, texts=["x", "y"], path="t"),
        }
        return [each.text for each in label_checks.inspect(rows, "regression")]

    assert warnings(["3", "2.5"]) == []
    wanted = "all labels are '3.0'; nothing can be learned or scored"
    assert warnings(["3.0", "3", "3.00"]) == [f"d: {wanted}"]
    assert warnings(["3.0"] * 2, ("3.0", "3")) == [f"d: {wanted}", f"t: {wanted}"]


def test_texts_with_two_labels_and_training_texts_in_the_dev_rows(capsys):
    rows = {
        "train": table("a", "b", "a", "b", texts=["x", "y", "x", "x"]),
        "dev": table("a", "b", texts=["new", "y"], path="dev.csv"),
    }
    two, both = label_checks.of_texts(rows, lambda label: label)
    assert two.text == ("train.csv: 1 text with two labels: lines 2 ('a') and 5 ('b')")
    assert both.text.startswith(
        "dev.csv: 1 of 2 dev rows are training rows, too (line 3)"
    )
    # Pairs are one text only where both texts are.
    rows = {
        "train": table("a", "b", texts=["x", "x"], seconds=["1", "2"]),
        "dev": table("a", texts=["x"], seconds=["3"], path="dev.csv"),
    }
    assert not label_checks.of_texts(rows, lambda label: label)
    # The order of labels in a cell has no meaning.
    values, texts = ["a,b", "b,a"] * 5, ["x"] * 10
    for kind, count in (("multi_label", 1), ("classification", 2)):
        same = label_checks.inspect({"train": table(*values, texts=texts)}, kind)
        assert len(same) == count


def test_numbers_of_a_regression():
    def warnings(*values):
        return texts_of("warning", *values, problem_type="regression")

    assert warnings(*["3.0"] * 4) == [
        "train.csv: all labels are '3.0'; nothing can be learned or scored"
    ]
    assert (
        "the only labels are 0, 1; for classes leave --problem_type"
        in warnings(*["0", "1"] * 4)[0]
    )
    assert not warnings(*map(str, range(6)))
    assert not warnings("3.0")


def left_out(capsys, *values, problem_type="classification", names=()):
    kept, found = label_checks.with_labels(table(*values), problem_type, names)
    findings.show(found)
    printed = capsys.readouterr().out
    assert (len(kept.labels) < len(values)) == ("left out" in printed)
    assert [text.split()[1] for text in kept.text_a] == [
        str(line - 2) for line in kept.lines
    ]
    return sorted({*values} - {*kept.labels})


NLI = ["entailment", "neutral", "contradiction"]
NUMBERS = ["0", "1", "2"] * 20


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([*NLI, "-", "-"], ["-"]),
        (
            [*NLI, "", "nan", "NaN", "null", "?", "<NA>"],
            ["", "<NA>", "?", "NaN", "nan", "null"],
        ),
        ([*NUMBERS, "-1"], ["-1"]),
        ([*NUMBERS, *["-1"] * 10], []),  # not rare
        (["-1", "0", "1", "0", "1"] * 9, []),  # grades
        (["-1", "1"] * 9, []),
        ([*["1", "2", "3"] * 20, "-1"], []),  # classes are not numbered from 0
        (["+", "-", "0"] * 3, []),
        (["yes", "-"] * 3, []),  # one class alone would be left
        ([*NLI, "None", "NA", "N/A"], []),  # names of classes
        ([("a", "b"), ("c", "d"), "-"], ["-"]),
    ],
)
def test_placeholders_are_left_out_and_counted(capsys, values, wanted):
    assert left_out(capsys, *values) == wanted


def test_named_labels_are_kept_and_other_placeholders_are_not(capsys):
    values = [*NLI, "-", "-1", "None", ""]
    assert left_out(capsys, *values, names=NLI) == ["", "-", "-1", "None"]
    assert left_out(capsys, *values, names=[*NLI, "-"]) == ["", "-1", "None"]
    grades = ["-1", "1", "nan"]
    assert left_out(capsys, *grades, problem_type="regression") == ["nan"]
    assert left_out(capsys, "0", "1", "-1", problem_type="choice") == ["-1"]
    # An empty cell has none of the labels.
    sets = ["a,b", "", "null"]
    assert left_out(capsys, *sets, problem_type="multi_label") == ["null"]


def test_rows_without_any_label_are_refused():
    with refused("train.csv: no row has a label ('-' 2, '' 1)", "--label_column"):
        label_checks.with_labels(table("-", "-", ""), "classification", NLI)
    _, (note,) = label_checks.with_labels(table(*NLI, "", "-", "-"), "classification")
    assert note.text == (
        "train.csv: left out 3 rows without a label ('-' 2, '' 1), lines 5, 6, 7; for "
        "a class of that name, name all with --labels"
    )


def test_labels_of_a_run_come_from_the_rows_that_are_kept():
    source = sources.Source()
    rows = {"train": table(*NLI * 6, "-"), "dev": table(*NLI, "-", path="dev.csv")}
    kept, label_set, asked, _ = label_checks.choose(rows, source, None)
    assert label_set.names == asked == tuple(sorted(NLI))
    assert [len(each.labels) for each in kept.values()] == [18, 3]
    named = sources.Source(label_spec=(*NLI, "-"))
    kept, _, asked, _ = label_checks.choose(rows, named, None)
    assert asked == (*NLI, "-")
    assert [len(each.labels) for each in kept.values()] == [19, 4]


def test_a_look_at_files_shows_all_faults(tmp_path, capsys):
    lines = [f"text {n},{label}" for n, label in enumerate(GOOD + ["Good"] * 5)]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *lines]))
    (tmp_path / "dev.csv").write_text("text,label\nnew,fine\ntext 1,good\n")
    files = {
        split: str(tmp_path / f"{split}.csv") for split in ("train", "dev", "test")
    }
    source = sources.Source(files=files)
    assert shown.look(source, files) == 3
    printed = capsys.readouterr().out
    assert "test.csv: no such file" in printed
    assert "'good' (8) and 'Good' (5) are spellings" in printed
    assert "dev.csv:2: label 'fine' is not one of" in printed
    assert "warning: " in printed and "dev.csv: 1 of 2 dev rows are" in printed
    # Test rows need no labels; a table of one class is a fault.
    (tmp_path / "test.csv").write_text("text\nnew\n")
    (tmp_path / "one.csv").write_text("text,label\na,good\nb,good\n")
    one = sources.Source(files={**files, "train": str(tmp_path / "one.csv")})
    assert shown.look(one, ["train", "test"]) == 1
    assert "classification needs 2 labels or more" in capsys.readouterr().out
    (tmp_path / "dev.csv").write_text("text,label\nnew,good\n")
    named = sources.Source(files=files, label_spec="good,bad,Good")
    assert shown.look(named, ["train", "dev", "test"]) == 0


def csv_source(tmp_path, content, **options):
    path = tmp_path / "train.csv"
    path.write_text(content, "utf-8")
    test = tmp_path / "test.csv"
    return sources.Source(files={"train": str(path), "test": str(test)}, **options)


def csv_of(values, *more):
    lines = [f"text {n},{label}" for n, label in enumerate(values)]
    return "\n".join(["text,label", *lines, *more]) + "\n"


def test_a_refused_file_is_one_fault_beside_a_dev_share(tmp_path, capsys):
    source = csv_source(tmp_path, "text\nno label\n", dev_share=0.2)
    assert shown.look(source, ["train", "dev"]) == 1
    assert capsys.readouterr().out.count("--label_column") == 1


def test_a_look_warns_of_test_labels_that_no_score_can_have(tmp_path, capsys):
    source = csv_source(tmp_path, csv_of(GOOD))
    for label, is_warned in (("fine", True), ("good", False), ("", False)):
        (tmp_path / "test.csv").write_text(f"text,label\nnew,{label}\n")
        assert shown.look(source, ["train", "test"]) == 0
        printed = capsys.readouterr().out
        assert ("warning: the test rows are not scored" in printed) == is_warned
        assert ("label 'fine' is not one of" in printed) == is_warned


def test_two_labels_are_shown_in_whichever_part_of_a_file_they_are():
    texts = [f"text {n}" for n in range(8)]
    whole = table(*"abababab", texts=texts[:6] + texts[4:5] * 2)
    (two,) = label_checks.of_texts({"train": whole}, lambda label: label)
    for dev_rows in ([5, 6], [4, 6, 7], [4, 5, 6, 7], [0]):
        is_dev = np.isin(np.arange(8), dev_rows)
        parts = {
            "train": labelled.take(whole, ~is_dev),
            "dev": labelled.take(whole, is_dev),
        }
        assert label_checks.of_texts(parts, lambda label: label)[0] == two
    # A placeholder is no second label, and neither is a label in another file.
    train = table(*"abab")
    for label, path in (("-", "train.csv"), ("b", "dev.csv")):
        dev = table("a", label, texts=["x", "x"], path=path)
        assert not label_checks.of_texts(
            {"train": train, "dev": dev}, lambda cell: cell
        )


def test_rows_without_a_label_are_counted_for_each_part_of_a_file(tmp_path, capsys):
    source = csv_source(tmp_path, csv_of(NLI * 10 + ["-"] * 5), dev_share=0.2)
    assert shown.look(source, ["train", "dev"]) == 0
    printed = capsys.readouterr().out
    assert "left out 4 training rows without a label ('-' 4)" in printed
    assert "left out 1 dev row without a label ('-' 1)" in printed


def test_a_look_shows_the_labels_beside_faults_of_reading(tmp_path, capsys):
    content = csv_of(GOOD + ["Good"] * 5, "one, two,good", " ,bad", "three", "a,b,c,d")
    source = csv_source(tmp_path, content)
    assert shown.look(source, ["train"]) == 2
    printed = capsys.readouterr().out
    assert printed.count("reads 'text' (text_a), 'label'") == 1
    faults = [t for t in printed.splitlines() if "fault: " in t]
    assert "train.csv:21: 3 cells, line 1 has 2 (also lines 23, 24); quote" in faults[0]
    assert "'good' (8) and 'Good' (5) are spellings" in faults[1]
    assert "train.csv: left out 1 row without text, line 22\n" in printed
    # One fault of reading is shown once.
    source = csv_source(tmp_path, csv_of(GOOD, "", "x,good"))
    assert shown.look(source, ["train"]) == 1


def test_a_list_of_one_label_is_the_label_in_every_split():
    def rows():
        return {
            name: table(("a",), ("b",), "a", path=f"{name}.jsonl")
            for name in ("train", "dev", "test")
        }

    kept, label_set, *_ = label_checks.choose(rows(), sources.Source(), None)
    assert label_set.names == ("a", "b")
    assert [each.labels for each in kept.values()] == [["a", "b", "a"]] * 3
    several = sources.Source(problem_type="multi_label")
    sets = label_checks.choose(rows(), several, None).rows
    assert sets["train"].labels == sets["test"].labels == [("a",), ("b",), "a"]
    two = {"train": table(("a", "b"), ("a",), "b")}
    with refused("train.csv:2: label ('a', 'b') is not one label"):
        label_checks.choose(two, sources.Source(), None)


@pytest.mark.parametrize("values", [None, ["", ""], ["-", "null"]])
def test_test_rows_without_labels_have_no_scores_to_raise(values):
    texts = ["text 0", "text 1"]
    test = table("", "", texts=texts, path="test.csv")
    rows = {"train": table(*"ab"), "test": dataclasses.replace(test, labels=values)}
    assert not label_checks.of_texts(rows)
    rows["test"] = dataclasses.replace(test, labels=["a", ""])
    (warning,) = label_checks.of_texts(rows)
    assert warning.text == (
        "test.csv: 2 of 2 test rows are training rows, too (lines 2, 3), which raises "
        "the scores"
    )


def test_a_no_break_space_is_spelled_out():
    (fault,) = texts_of("fault", *["bad"] * 6, *["bad\xa0"] * 5)
    assert "'bad' (6) and 'bad<no-break space>' (5) are spellings" in fault


@pytest.mark.parametrize("sign", ["\u200b", "\ufeff", "\0", "\u00ad", "\ufe0f"])
def test_invisible_characters_make_spellings_of_one_label(sign):
    (fault,) = texts_of("fault", *["bad"] * 6, *[f"bad{sign}"] * 5)
    assert f"'bad' (6) and {f'bad{sign}'!r} (5) are spellings" in fault
    assert not texts_of("fault", *["bad"] * 6, *[f"bad{sign}"] * 5, has_names=True)
    (fault,) = texts_of("fault", *["bad", "good"] * 6, *[sign] * 5)
    assert f"{sign!r} (5): a label without a visible character; empty" in fault


@pytest.mark.parametrize("mark", ["|", ";"])
def test_classes_that_join_others_are_warned_of_and_a_look_ends_with_them(
    tmp_path, capsys, mark
):
    values = ["x", "y", f"x{mark} y"] * 6

    def noticed(*values, **options):
        rows = {"train": table(*values)}
        chosen = label_checks.choose(rows, sources.Source(**options), None)
        return [each.text for each in chosen.noticed if each.kind != findings.NOTE]

    (warning,) = noticed(*values)
    assert warning == (
        f"train.csv: 'x{mark} y' is a class beside those that it joins (6 rows); for "
        "several labels of a row pass --problem_type=multi_label "
        f"--label_separator={mark!r}"
    )
    source = csv_source(tmp_path, csv_of(values))
    assert shown.look(source, ["train"]) == 1
    assert "is a class beside those" in capsys.readouterr().out
    # Names that are stated, parts that are no labels, and signs that stand in names.
    assert not noticed(*values, label_spec=("x", "y", f"x{mark} y"))
    assert not noticed(*["x", "z", f"x{mark} y"] * 6)
    for sign in "/,+&":
        assert not noticed(*["x", "y", f"x{sign}y"] * 6)
