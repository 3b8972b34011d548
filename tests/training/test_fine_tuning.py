"""Tests of training/fine_tuning.py: what is done under which name."""

import types

import pytest

from training import fine_tuning


@pytest.mark.parametrize(
    ("split", "name"), [("dev", "evaluating: batch"), ("test", "predicting: batch")]
)
def test_progress_says_whether_rows_are_evaluated_or_predicted(
    monkeypatch, split, name
):
    """The bar of --do_eval read "predicting"."""
    seen = []

    def predict(examples, batch_size, **options):
        seen.append((examples, batch_size, options))
        return "outputs"

    monkeypatch.setattr(fine_tuning, "predictor", lambda *_: predict)
    task = types.SimpleNamespace(
        splits={split: "rows"},
        outputs=lambda model: model,
        score=lambda *arguments: arguments,
    )
    score = fine_tuning._scorer(task, settings=None, model=None)
    assert score(split, 8) == (split, "outputs", 8)
    assert seen == [("rows", 8, {"name": name})]
