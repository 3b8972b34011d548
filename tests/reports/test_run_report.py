"""What a run prints of its rows beside the scores."""

import dataclasses

from reports import run_report
from tests.reports import example_runs


def test_scores_of_classes_and_the_warning_are_printed(capsys):
    rows = dataclasses.replace(example_runs.rows(), warning="all are bad; train longer")
    run_report.print_scores(rows, "text-classification")
    lines = capsys.readouterr().out.splitlines()
    assert lines.pop(0) == "classes of the dev rows:"
    assert lines[0].split() == [
        "class",
        "rows",
        "predicted",
        "precision",
        "recall",
        "F1",
    ]
    assert lines[1].split() == ["bad", "20", "20", "0.8000", "0.8000", "0.8000"]
    assert lines[4].split() == ["macro", "average", "0.8000", "0.8000", "0.8000"]
    assert lines[6:] == ["warning: dev rows: all are bad; train longer"]


def test_other_tasks_print_the_warning_alone(capsys):
    rows = dataclasses.replace(example_runs.rows(), warning="every word is tagged 'O'")
    run_report.print_scores(rows, "token-classification")
    assert capsys.readouterr().out == "warning: dev rows: every word is tagged 'O'\n"
    run_report.print_scores(example_runs.rows(), "token-classification")
    assert capsys.readouterr().out == ""
