"""Tests of tasks/fine_tuning.py."""

import dataclasses
from unittest import mock

import numpy as np
import pytest

from contract import errors, outcomes
from tasks import fine_tuning
from tests.training import steps
from training import loop, run, run_plan


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_refused(value):
    """-inf is padding."""
    outputs = {"logits": np.array([[0.5, -np.inf]]), "ids": np.array([1])}
    fine_tuning.check_finite(outputs, "dev")
    outputs["logits"][0, 0] = value
    with pytest.raises(errors.NotFinite, match="logits for the dev rows are not"):
        fine_tuning.check_finite(outputs, "dev")


def test_evaluations_of_training_have_the_mean_loss_of_their_rows(tmp_path):
    """Beside the scores: of equal ones the lower loss is best."""
    scored = outcomes.Scored(
        predictions=(), scores={"f1": 0.5}, losses=np.array([1.0, 4.0])
    )
    table = run_plan.Timetable(num_train_steps=1, learning_rate=float, save_steps=1)
    task = mock.Mock(splits={"train": mock.MagicMock()})
    passed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "train", lambda _, training: passed.append(training))
        how = steps.plan(tmp_path, timetable=table)
        evaluation = mock.Mock(return_value=scored)
        fine_tuning.FineTuningTask.train(task, mock.Mock(), how, "", evaluation)
        assert passed[0].evaluate() == {"f1": 0.5, loop.ROWS_LOSS: 2.5}
        evaluation.return_value = dataclasses.replace(scored, losses=None)
        assert passed[0].evaluate() == {"f1": 0.5}
