"""Tests of reports/pages/record.py."""

import dataclasses

import numpy as np
import pytest

from contract import outcomes
from reports.pages import record
from tests.reports import example_runs
from training import metrics


def with_f1(labels, predictions):
    """Outcomes with f1_macro alone."""
    rows = example_runs.rows(len(labels))

    def rescore(chosen):
        return {"f1_macro": metrics.f1_macro(labels[chosen], predictions[chosen])}

    return dataclasses.replace(
        rows,
        rescore=rescore,
        scores=rescore(np.arange(len(labels))),
        shares={},
        decisions=outcomes.Decisions(
            class_names=example_runs.NAMES, labels=labels, predictions=predictions
        ),
    )


@pytest.mark.parametrize(("rarest", "has_interval"), [(4, False), (5, True)])
def test_mean_of_classes_has_an_interval_where_each_has_five_rows(rarest, has_interval):
    labels = np.repeat([0, 1, 2], [20, 20, rarest])
    predictions = np.where(np.arange(len(labels)) % 7 == 0, 0, labels)
    score = record.evaluation(with_f1(labels, predictions))["scores"]["f1_macro"]
    if has_interval:
        low, high = score["interval"]
        assert low < score["value"] < high
    else:
        assert score["interval"] is None
        assert score["note"] == "a class has fewer than 5 rows"


def test_sequences_are_changed_where_their_values_are(tmp_path):
    """Those of run.json are lists, and those of settings tuples."""
    flags = {"same": [1, 2], "other": ("c",), "none": None, "number": 3}
    defaults = {"same": (1, 2), "other": (), "none": None, "number": 4}
    made = record.build(
        None,
        directory=str(tmp_path),
        flags=flags,
        defaults=defaults,
        answer_flags={"same", "other", "none"},
        data={},
    )
    assert made["changed_flags"] == ["number", "other"]
    assert made["answer_flags"] == ["other"] and made["flags"]["other"] == ["c"]
