"""label_errors.csv and to_label.csv, cell by cell."""

import csv
import io

import numpy as np
import pytest

from contract import outcomes
from data_pipeline.classification import labels, review_tables, split
from data_pipeline.tables import labelled

CLASSES = labels.Labels(("no", "yes", "ja"))
TOPICS = labels.Labels(("a", "b"), "multi_label", "|")


def rows_of(path, text, label_set=CLASSES):
    path.write_text(text)
    layout = labelled.Layout(leaves_out=True)
    table = labelled.read_table(str(path), layout, labels_required=False)
    has_labels = table.labels and (label_set == TOPICS or "" not in table.labels)
    ids = label_set.encode(table) if has_labels else None
    return split.LabelledSplit(table.path, None, table, ids, label_set)


def scored(shares, decisions):
    shares = np.array(shares, np.float32)
    return outcomes.Scored(
        predictions=np.array(decisions),
        probabilities=shares,
        losses=np.ones(len(shares)),
    )


def cells(text, delimiter=","):
    assert text.startswith("\ufeff") and text.endswith("\r\n")
    return list(csv.reader(io.StringIO(text[1:], newline=""), delimiter=delimiter))


def test_labels_that_are_not_predicted_are_listed_least_believed_first(tmp_path):
    text = "text,label\none,no\n=two,yes\n\nthree,ja\nfour,no\nfive,yes\n"
    data = rows_of(tmp_path / "a.csv", text.replace("\n\n", "\n,\n"))
    shares = [[0.3, 0.5, 0.2], [0.7, 0.1, 0.2], [0, 0.1, 0.9]]
    shares += [[0.35, 0.4, 0.25], [0.29, 0.42, 0.29]]
    seen = scored(shares, [1, 0, 2, 1, 1])
    table = [*review_tables.label_errors(data, seen)]
    assert cells(review_tables.text(data, table)) == [
        ["rank", "line", "given_label", "suggested_label", "self_confidence", "text"],
        ["1", "3", "yes", "no", "0.100000", "'=two"],
        ["2", "2", "no", "yes", "0.300000", "one"],
        ["3", "6", "no", "yes", "0.350000", "four"],
    ]
    believed = scored(np.eye(3)[data.label_ids], data.label_ids)
    assert len([*review_tables.label_errors(data, believed)]) == 1


def test_pairs_with_semicolons_have_both_texts_and_decimal_commas(tmp_path):
    data = rows_of(tmp_path / "a.csv", "text_a;text_b;label\none;1;no\ntwo;2;yes\n")
    seen = scored([[0.25, 0.5, 0.25], [0, 1, 0]], [1, 1])
    text = review_tables.text(data, review_tables.label_errors(data, seen))
    header, row = cells(text, ";")
    assert header[-2:] == ["text_a", "text_b"]
    assert row == ["1", "2", "no", "yes", "0,250000", "one", "1"]


def test_of_several_labels_the_one_that_is_believed_least_counts(tmp_path):
    text = "text,label\none,a\ntwo,\nthree,a|b\n"
    data = rows_of(tmp_path / "a.csv", text, TOPICS)
    shares = [[0.9, 0.2], [0.1, 0.6], [0.3, 0.7]]
    sure = review_tables.self_confidence(data.label_ids, np.array(shares))
    np.testing.assert_allclose(sure, [0.8, 0.4, 0.3])
    seen = scored(shares, [[1, 0], [0, 1], [0, 1]])
    _, *rows = review_tables.label_errors(data, seen)
    assert [row[1:4] for row in rows] == [["4", "a|b", "b"], ["3", "", "b"]]


def test_decisions_that_are_near_another_have_a_small_margin():
    shares = np.array([[0.5, 0.3, 0.2], [0.4, 0.2, 0.4], [0.05, 0.9, 0.05]])
    one = review_tables.margins(shares, has_one_label=True, threshold=0.5)
    np.testing.assert_allclose(one, [0.2, 0.0, 0.85])
    several = review_tables.margins(shares, has_one_label=False, threshold=0.25)
    np.testing.assert_allclose(several, [0.05, 0.05, 0.2])


def test_texts_in_doubt_come_first_and_near_doubles_do_not():
    """Rows 0 and 1 are doubles, 4 is one of a row that has a label."""
    vectors = np.array([[1, 0, 0], [2, 0.01, 0], [0, 1, 0], [0.6, 0.8, 0], [0, 0, 3.0]])
    known = np.array([[0, 0, 1.0]])
    doubt = np.array([0.9, 0.95, 0.5, 0.9, 1.0])
    assert review_tables.choose(doubt, vectors, known) == [1, 2, 3]
    # 3 has 0.9 * (1 - 0.6) beside row 1, less than the 0.5 of row 2.
    assert review_tables.choose(doubt, vectors, np.zeros((0, 3))) == [4, 1, 2, 3]
    sure = np.array([0.1, 0.05, 0.5, 0.9, 0.0])
    assert review_tables.choose(sure, vectors, known) == [3, 2, 0]


def test_many_texts_are_compared_with_all_known_ones():
    rng = np.random.default_rng(1)
    vectors, known = rng.normal(size=(300, 64)), rng.normal(size=(600, 64))
    known[[3, 599]] = vectors[[7, 8]]
    chosen = review_tables.choose(np.ones(300), vectors, known)
    assert len(chosen) == len({*chosen}) == 200
    assert not {7, 8} & {*chosen}


def test_texts_to_label_have_a_column_to_fill_that_training_reads(tmp_path):
    data = rows_of(tmp_path / "a.csv", "text\none\n-two\nthree\n")
    seen = scored([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [1, 0, 0]], [0, 2, 0])
    margin = np.array([0.2, 0.5, 1.0])
    text = review_tables.text(data, review_tables.to_label(data, seen, [1, 0], margin))
    assert cells(text) == [
        ["rank", "line", "label", "suggested_label", "margin", "text"],
        ["1", "3", "", "ja", "0.500000", "'-two"],
        ["2", "2", "", "no", "0.200000", "one"],
    ]
    read = rows_of(tmp_path / "b.csv", text.replace(",,ja", ",yes,ja"))
    assert read.table.labels == ["yes", ""]
    assert read.table.text_a == ["'-two", "one"]


def test_a_file_that_a_person_filled_is_not_replaced(tmp_path):
    path = tmp_path / "to_label.csv"
    review_tables.refuse_filled(str(path))
    empty = "\ufeffrank,line,label,suggested_label,margin,text\n1,3,,ja,0.5,two\n"
    path.write_text(empty, encoding="utf-8")
    review_tables.refuse_filled(str(path))
    others = empty.replace(",,", ",yes,"), empty.replace(",label,", ",mark,"), "a\n"
    for text in (*others, empty.replace(",,", ";yes;").replace(",", ";")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"to_label.csv: has \d rows? that a pers"):
            review_tables.refuse_filled(str(path))
        assert review_tables.unfilled(str(path)) == str(tmp_path / "to_label-2.csv")
    (tmp_path / "to_label-2.csv").write_text(others[0], encoding="utf-8")
    assert review_tables.unfilled(str(path)) == str(tmp_path / "to_label-3.csv")
    path.write_text(empty, encoding="utf-8")
    assert review_tables.unfilled(str(path)) == str(path)
