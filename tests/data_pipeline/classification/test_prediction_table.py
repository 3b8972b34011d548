"""test_predictions.csv, cell by cell."""

import csv
import io

import numpy as np
import pytest

from contract import outcomes
from data_pipeline.classification import labels, prediction_table, split
from data_pipeline.tables import labelled

CLASSES = labels.Labels(("no", "yes", "ja"))
TOPICS = labels.Labels(("a", "b"), "multi_label", "|")
NUMBERS = labels.Labels((), "regression")
CHOICES = labels.Labels(("0", "1"), "choice")
SHARES = [[0.25, 0.5, 0.25], [0.1, 0.2, 0.7]]


def read(path, text, layout=None):
    path.write_bytes(text.encode())
    return labelled.read_table(path, layout or labelled.Layout(), labels_required=False)


def written(table, label_set=CLASSES, shares=SHARES, decisions=(1, 2), losses=None):
    """The text of the file."""
    data = split.LabelledSplit(table.path, None, table, np.array([1, 1]), label_set)
    scored = outcomes.Scored(
        predictions=np.array(decisions),
        probabilities=np.array(shares, np.float32),
        losses=losses,
    )
    (lines,) = prediction_table.files(data, scored).values()
    return "".join(lines)


def cells(text, delimiter=","):
    assert text.startswith("\ufeff") and text.encode().startswith(b"\xef\xbb\xbf")
    assert text.endswith("\r\n")
    return list(csv.reader(io.StringIO(text[1:], newline=""), delimiter=delimiter))


def test_all_columns_of_the_input_stand_before_the_predictions(tmp_path):
    rows = [
        'Ticket;Description;Kunde;label;"Größe, cm";;=SUM(A1)',
        '007;"ei ""x""\nzwei";=1+1;yes; 1,5;;-3',
        "008;+49 30;@me;no;;x;'",
    ]
    table = read(
        tmp_path / "a.csv",
        "\r\n".join(rows) + "\r\n;;;;;;\r\n",
        labelled.Layout(text_a="Description", label="label", has_header=True),
    )
    text = written(table, losses=np.ones(2))
    # A file with semicolons is answered with semicolons and decimal commas.
    assert cells(text, ";") == [
        [
            "Ticket",
            "Description",
            "Kunde",
            "label",
            "Größe, cm",
            "",
            "=SUM(A1)",
            "predicted_label",
            "predicted_probability",
            "predicted_correctly",
        ],
        ["007", 'ei "x"\nzwei', "=1+1", "yes", " 1,5", "", "-3", "yes", "0,5", "TRUE"],
        ["008", "+49 30", "@me", "no", "", "x", "'", "ja", "0,7", "FALSE"],
    ]
    assert '\r\n007;"ei ""x""\nzwei";=1+1;' in text  # quoted where it must be


def test_names_of_predictions_are_those_of_no_column(tmp_path):
    text = (
        "text,predicted_label,label,predicted_probability_2\na b,no,x,1\nc d,no,y,2\n"
    )
    first = written(read(tmp_path / "a.csv", text))
    assert cells(first)[0] == [
        *("text", "predicted_label", "label", "predicted_probability_2"),
        *("predicted_label_3", "predicted_probability_3"),
    ]
    assert cells(first)[1] == ["a b", "no", "x", "1", "yes", "0.5"]
    # The file is read as it was written, the mark aside.
    second = cells(written(read(tmp_path / "b.csv", first)))
    assert second[0][-2:] == ["predicted_label_4", "predicted_probability_4"]
    assert [row[:6] for row in second] == cells(first)


def test_columns_without_names_have_roles_and_numbers(tmp_path):
    layout = labelled.Layout(text_a=2, label=-1, has_header=False)
    table = read(tmp_path / "a.tsv", 'i\t"a, b\tx y\tyes\nj\tc\tz\tno\n', layout)
    assert cells(written(table))[:2] == [
        [
            "column 0",
            "column 1",
            "text_a",
            "label",
            "predicted_label",
            "predicted_probability",
        ],
        ["i", '"a, b', "x y", "yes", "yes", "0.5"],
    ]


def test_objects_have_the_keys_of_all_rows(tmp_path):
    text = (
        '{"text": "x", "n": 1.50, "tags": ["ä", 2]}\n'
        '{"text": "y", "new": null, "n": true}\n'
    )
    table = read(tmp_path / "a.jsonl", text)
    rows = cells(written(table, TOPICS, [[0.75, 0.5], [0.25, 0]], [[1, 1], [0, 0]]))
    assert rows == [
        [
            "text",
            "n",
            "tags",
            "new",
            "predicted_labels",
            "probability a",
            "probability b",
        ],
        ["x", "1.5", '["ä", 2]', "", "a|b", "0.75", "0.5"],
        ["y", "true", "", "", "", "0.25", "0.0"],
    ]


def test_numbers_and_choices(tmp_path):
    table = read(tmp_path / "a.csv", "text,score\nx y,1\nz,2\n")
    numbers = np.array([3.14, -1], np.float32)
    assert cells(written(table, NUMBERS, [[3.14], [-1]], numbers, np.ones(2))) == [
        ["text", "score", "predicted_score"],
        ["x y", "1", "3.14"],
        ["z", "2", "-1.0"],
    ]
    layout = labelled.Layout(text_a="text", choices=("p", "q"), has_header=True)
    table = read(tmp_path / "b.csv", "text,p,q\nx y,one,two\nz,three,four\n", layout)
    assert cells(written(table, CHOICES, [[0.25, 0.75], [1, 0]], [1, 0]))[1:] == [
        ["x y", "one", "two", "1", "0.75", "two"],
        ["z", "three", "four", "0", "1.0", "three"],
    ]


def test_written_scores_are_read_again(tmp_path):
    table = read(tmp_path / "a.csv", "text;score\nx y;1,5\nz;2,25\nu;3\n")
    scores = np.array([0.2852978, 1.125, -3], np.float32)
    text = written(table, NUMBERS, scores[:, None], scores)
    assert "z;2,25;1,125\r\n" in text
    for column, wanted in (("score", [1.5, 2.25, 3]), ("predicted_score", scores)):
        layout = labelled.Layout(label=column)
        again = read(tmp_path / "b.csv", text, layout)
        assert NUMBERS.encode(again).tolist() == list(wanted)


def test_rows_that_were_left_out_are_not_in_the_table(tmp_path):
    layout = labelled.Layout(
        text_a=1, has_header=True, keep_rows=(0, "de"), is_published=True
    )
    text = "language\ttext\nen\tone\nde\tzwei\tmore\nde\tdrei\n"
    rows = cells(written(read(tmp_path / "a.tsv", text, layout)))
    assert [row[:4] for row in rows] == [
        ["language", "text", "column 2", "predicted_label"],
        ["de", "zwei", "more", "yes"],
        ["de", "drei", "", "ja"],
    ]


@pytest.mark.parametrize("change", ["text,n\nx,1\nz,2\n", "text,n\nx,1\n", None])
def test_changed_input_is_noticed(tmp_path, capsys, change):
    path = tmp_path / "a.csv"
    table = read(path, "text,n\nx,1\ny,2\n")
    assert len(cells(written(table))) == 3
    path.unlink() if change is None else path.write_text(change)
    data = split.LabelledSplit(table.path, None, table, None, CLASSES)
    scored = outcomes.Scored(predictions=np.array([1, 2]))
    assert prediction_table.files(data, scored) == {}
    where = "" if change is None else ":3: has changed"
    warning = f"warning: no test_predictions.csv: {path}{where}"
    assert warning in capsys.readouterr().out
