"""Tests of training/loop.py with stand-ins for what runs, saves and reports."""

import json
import math
import signal
import time

import pytest

from contract import errors
from tests.training import steps
from training import interruption, loop, run_plan, train_step
from training.distribution import devices


def table(num_train_steps=10, save_steps=4, log_steps=100, **changes):
    return run_plan.Timetable(
        num_train_steps=num_train_steps,
        learning_rate=lambda step: step / 16,  # exact in float32
        save_steps=save_steps,
        log_steps=log_steps,
        **changes,
    )


def without_schedule(state):
    names = ("num_train_steps", "learning_rate")
    return {name: value for name, value in state.items() if name not in names}


class Stage:
    """Remembers what the loop does.

    Losses and norms are those of `losses` and `norms` by step, the first being 1, and
    a call ends where one is not finite or where `stop_requested` is not 0.
    """

    def __init__(self, losses=(), scores=(), norms=(), stop_requested=None, skipped=0):
        self.calls, self.saved, self.reported = [], [], []
        self.evaluated_at, self.messages, self.results = [], [], []
        self.losses, self.norms, self.scores = dict(losses), dict(norms), list(scores)
        self.stop_requested, self.skipped = (
            stop_requested or (lambda step: 0.0),
            skipped,
        )

    def train_steps(self, iterator, rates, count, step, scaling):
        assert len(rates) == self.num_rates  # another length would be traced anew
        step, batches, stop, loss, norm = int(step), [], 0.0, 1.0, 1.0
        while len(batches) < int(count) and math.isfinite(loss + norm) and not stop:
            batches.append(next(iterator))
            done = step + len(batches)
            stop = float(self.stop_requested(done))
            loss, norm = self.losses.get(done, 1.0), self.norms.get(done, 1.0)
        rates = (rates.numpy()[: len(batches)] * 16).tolist()
        self.calls.append((step, batches, rates))
        results = {"loss": loss, "gradient_norm": norm, "examples": 1, "tokens": 1}
        halved = train_step.Scaling(scaling.scale / 2, scaling.good_steps + 3)
        results |= {"steps": len(batches), "stop": stop, "skipped": self.skipped}
        return results, halved

    def save(self, step, state):
        self.saved.append((step, without_schedule(state)))
        return f"run/model.ckpt-{step}"

    def train(self, step, results, learning_rate):
        self.reported.append((step, learning_rate * 16))
        self.results.append(results)

    def evaluated(self, step, scores):
        self.evaluated_at.append(step)

    def say(self, text):
        self.messages.append(text)

    def evaluate(self):
        score = self.scores.pop(0)
        return {"accuracy": score() if callable(score) else score}

    def run(self, timetable, step=0, state=None, evaluates=False, **changes):
        self.num_rates = min(timetable.log_steps, timetable.max_steps_per_call)
        if evaluates:
            changes["evaluate"] = self.evaluate
        plan = steps.plan(
            timetable=timetable, scales_loss=changes.pop("scales_loss", False)
        )
        self.final = loop.Loop(
            plan=plan,
            train_steps=self.train_steps,
            checkpoints=self,
            reporter=self,
            watch=changes.pop("watch", None),
            training=loop.Training(
                model=None, origin="", objective=None, batches_from=None, **changes
            ),
        ).train(range(step, 1000), step, state or {})
        return without_schedule(self.final)

    @property
    def saved_steps(self):
        return [step for step, _ in self.saved]


def test_next_stop_is_the_first_thing_to_do():
    stops = table(13, save_steps=4, log_steps=5, max_steps_per_call=100)
    expected = {0: 4, 3: 4, 4: 5, 5: 8, 8: 10, 9: 10, 10: 12, 12: 13}
    assert {step: stops.next_stop(step) for step in expected} == expected
    traced = table(100, save_steps=40, profile_steps=(10, 12))
    assert [traced.next_stop(step) for step in (0, 10, 12)] == [10, 12, 40]


def test_every_step_is_done_once_with_its_batch_and_rate():
    stage = Stage()
    assert stage.run(table()) == {"step": 10}
    assert stage.calls == [
        (0, [0, 1, 2, 3], [0, 1, 2, 3]),
        (4, [4, 5, 6, 7], [4, 5, 6, 7]),
        (8, [8, 9], [8, 9]),
    ]
    assert stage.saved == [(4, {}), (8, {}), (10, {})]
    assert stage.reported == [(4, 3), (8, 7), (10, 9)]
    assert stage.evaluated_at == [] and stage.messages == []
    rate = table().learning_rate(9)
    assert stage.final == {"step": 10, "num_train_steps": 10, "learning_rate": rate}


def test_resumed_run_goes_on_with_its_step():
    stage = Stage()
    stage.run(table(), step=4)
    assert stage.calls[0] == (4, [4, 5, 6, 7], [4, 5, 6, 7])
    assert stage.saved_steps == [8, 10]
    finished = Stage()
    assert finished.run(table(), step=10, state={"best_step": 3}) == {
        "best_step": 3,
        "step": 10,
    }
    assert finished.calls == finished.saved == []


def test_best_checkpoint_is_saved_when_it_is_found():
    stage = Stage(scores=[0.5, 0.7, 0.7, 0.6])
    final = stage.run(
        table(save_steps=100, evaluate_steps=3, best_metric="accuracy"), evaluates=True
    )
    assert stage.evaluated_at == [3, 6, 9, 10]
    assert final == {
        "step": 10,
        "evaluated_step": 10,
        "best_step": 6,
        "best_score": 0.7,
        "evaluations_since_best": 2,
    }
    # An equal score is no better one; the last step is saved whatever it is.
    assert stage.saved_steps == [3, 6, 10]
    assert stage.saved[1][1]["best_step"] == 6


@pytest.mark.parametrize(
    ("metric", "kept"), [("accuracy", [3, 6]), ("", [3, 6, 9, 10])]
)
def test_evaluations_that_may_be_the_last_are_kept(metric, kept):
    actual = []
    stage = Stage(scores=[0.5, 0.7, 0.6, 0.7])
    made = table(save_steps=100, evaluate_steps=3, best_metric=metric)
    stage.run(made, evaluates=True, on_evaluated=actual.append)
    assert actual == kept


def test_of_losses_the_lowest_is_best():
    losses = table(save_steps=100, evaluate_steps=3, best_metric="loss")
    scores = iter([{"loss": x} for x in (0.5, 0.7, 0.4, 0.6)])
    final = Stage().run(losses, evaluate=scores.__next__)
    assert final["best_step"] == 9 and final["best_score"] == 0.4


def judged(scores, losses=None, patience=0, metric="pearson", step=0, state=None):
    """A run of evaluations at 3, 6, 9 and 10, or fewer."""
    rows = [{metric: score} for score in scores]
    for row, loss in zip(rows, losses or (), strict=bool(losses)):
        row[loop.ROWS_LOSS] = loss
    made = table(
        save_steps=100, evaluate_steps=3, best_metric=metric, patience=patience
    )
    stage = Stage()
    remaining = iter(rows)
    final = stage.run(made, step, state, evaluate=remaining.__next__)
    assert next(remaining, None) is None  # each was made
    return final, stage


NAN = math.nan


@pytest.mark.parametrize(
    ("scores", "losses", "best"),
    [
        ([NAN] * 4, [4, 3, 1, 2], 9),  # none is defined, so the loss decides
        ([NAN] * 4, None, 10),  # or, without one, the last step
        ([NAN, -0.5, NAN, -0.6], [1, 4, 0, 2], 6),  # a defined one is better
        ([0.75] * 4, [4, 3, 1, 2], 9),  # of equal ones the lower loss
        ([0.75] * 4, None, 3),
        ([0.5, 0.75, 0.75, 0.5], [9, 3, 2, 1], 9),
        ([0.5, 0.75, 0.75, 0.5], [9, 2, 3, 1], 6),
        ([0.5, 0.75, 0.7, 0.6], [1, 9, 2, 3], 6),  # different ones need no loss
        ([0.0, 0.0, -0.0, 0.0], [4, 4, 3, 3], 9),
    ],
)
def test_undefined_and_equal_scores_are_told_apart_by_the_loss(scores, losses, best):
    final, stage = judged(scores, losses)
    assert final["best_step"] == best
    assert final.get("best_loss") == (losses and losses[[3, 6, 9, 10].index(best)])
    # The same with an interruption after each evaluation.
    for step, state in stage.saved[:-1]:
        count = [3, 6, 9, 10].index(step) + 1
        state = json.loads(json.dumps(state))  # as a checkpoint has it
        rest = losses and losses[count:]
        again, _ = judged(scores[count:], rest, step=step, state=state)
        assert again["best_step"] == best


def test_of_equal_losses_that_are_the_metric_the_first_stays():
    losses = [0.5, 0.25, 0.25, 0.25]
    assert judged(losses, losses, metric="loss")[0]["best_step"] == 6
    # A run of an earlier version goes on, whose best loss is not known.
    state = {"best_step": 3, "best_score": 0.75, "evaluated_step": 3}
    final, _ = judged([0.75, 0.5, 0.75], [0.1, 0.1, 0.1], step=3, state=state)
    assert final["best_step"] == 3 and final["evaluations_since_best"] == 3


def test_early_stopping_follows_the_loss_where_the_score_is_none(caplog):
    final, stage = judged([NAN, NAN, NAN], [4, 5, 5], patience=2)
    assert final["step"] == 9 and final["best_step"] == 3
    assert stage.messages == [
        "stopped at step 9: no better loss than 4.0000 (step 3) in 2 evaluations"
    ]
    (warning,) = caplog.messages  # once
    assert warning == (
        "step 3: pearson is not defined, since labels or predictions of the dev rows "
        "are all equal; the lowest loss is best"
    )
    assert judged([NAN] * 4, [4, 3, 2, 1], patience=1)[0]["step"] == 10
    assert judged([0.5] * 4, [4, 3, 2, 1], patience=1)[0]["step"] == 10
    assert judged([0.5] * 2, [4, 4], patience=1)[0]["step"] == 6


def test_stops_early_and_says_so():
    stage = Stage(scores=[0.5, 0.4, 0.45, 0.9])
    early = table(
        20, save_steps=100, evaluate_steps=3, best_metric="accuracy", patience=2
    )
    final = stage.run(early, evaluates=True)
    assert final["step"] == 9 and final["best_step"] == 3
    assert stage.saved_steps == [3, 9]  # the last, so that resuming knows it is over
    assert stage.messages == [
        "stopped at step 9: no better accuracy than 0.5000 (step 3) in 2 evaluations"
    ]
    resumed = Stage(scores=[0.9])
    state = dict(stage.saved[-1][1])
    assert resumed.run(early, step=9, state=state, evaluates=True) == final
    assert resumed.calls == []
    # Evaluations before an interruption count.
    state |= {"evaluations_since_best": 1, "evaluated_step": 6}
    again = Stage(scores=[0.4, 0.9]).run(early, step=6, state=state, evaluates=True)
    assert again["step"] == 9


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_loss_that_is_no_number_stops_and_saves_nothing(bad):
    """The batch of step 6 is number 5 counted from 0."""
    named = Stage(losses={6: bad})
    with pytest.raises(errors.NotFinite, match="step 6, of the batch train-5; the"):
        named.run(table(), names=lambda step: [f"train-{step}"])
    stage = Stage(losses={6: bad}, scores=[0.5, 0.6])
    with pytest.raises(errors.NotFinite) as caught:
        stage.run(table(evaluate_steps=4, best_metric="accuracy"), evaluates=True)
    assert f"the loss is {bad} at step 6, " in str(caught.value)
    assert "of step 4: lower --learning_rate and start again" in str(caught.value)
    assert stage.saved_steps == [4] and stage.evaluated_at == [4]
    assert stage.reported == [(4, 3)]


def test_loss_scale_is_part_of_the_state():
    """The stand-in halves it in each call and adds 3 to the good steps."""
    stage = Stage(skipped=1)
    final = stage.run(table(), scales_loss=True)
    assert final == {"step": 10, "loss_scale": 2.0**12, "good_steps": 9}
    assert stage.saved[0] == (4, {"loss_scale": 2.0**14, "good_steps": 3})
    shown = [(r["loss_scale"], r["skipped_steps"]) for r in stage.results]
    assert shown == [(2.0**14, 1.0), (2.0**13, 1.0), (2.0**12, 1.0)]
    resumed = Stage()
    assert resumed.run(table(), *stage.saved[0], scales_loss=True) == final
    # The last call is of two steps, both of which are skipped here.
    stage = Stage(skipped=2)
    stage.run(table(), scales_loss=True)
    assert [step for step, _ in stage.reported] == [4, 8]


def test_scale_that_helps_nothing_stops_the_run():
    stage, state = Stage(), {"loss_scale": 2.0, "good_steps": 0}
    message = "scale is 0.5 at step 8, .* of step 4: use --mixed_precision=bfloat16"
    with pytest.raises(errors.NotFinite, match=message):
        stage.run(table(), state=state, scales_loss=True)
    assert stage.saved_steps == [4]


def test_run_that_is_asked_to_stop_saves_first():
    stage = Stage(stop_requested=lambda step: step == 6)
    with pytest.raises(errors.Stopped) as caught:
        stage.run(table())
    assert caught.value.number == signal.SIGTERM
    assert stage.saved == [(4, {}), (6, {})] and stage.reported[-1] == (6, 5)
    assert stage.messages == [
        "asked to stop (SIGTERM): saved run/model.ckpt-6 at step 6 of 10; the same "
        "command goes on from there"
    ]
    resumed = Stage()
    assert resumed.run(table(), *stage.saved[-1]) == {"step": 10}
    assert resumed.calls == [(6, [6, 7], [6, 7]), (8, [8, 9], [8, 9])]


SCORES = [0.5, 0.7, 0.6, 0.65]
EVALUATED = table(save_steps=100, evaluate_steps=3, best_metric="accuracy")


def test_evaluation_is_broken_off_and_done_first_later(send):
    """At step 6: the resumed run ends as one that nobody interrupted."""

    def interrupted():
        send(signal.SIGINT)
        time.sleep(20)

    whole = Stage(scores=SCORES)
    final = whole.run(EVALUATED, evaluates=True)
    stage = Stage(scores=[SCORES[0], interrupted])
    with interruption.Interruption() as watch, pytest.raises(errors.Stopped) as caught:
        stage.run(EVALUATED, evaluates=True, watch=watch)
    assert caught.value.number == signal.SIGINT
    assert stage.messages == [
        "asked to stop (SIGINT): saved run/model.ckpt-6 at step 6 of 10; the same "
        "command goes on from there"
    ]
    step, state = stage.saved[-1]
    assert step == 6 and state["evaluated_step"] == state["best_step"] == 3
    resumed = Stage(scores=SCORES[1:])
    with interruption.Interruption() as watch:
        again = resumed.run(EVALUATED, step, state, True, watch=watch)
    assert again == final and final["best_step"] == 6
    assert resumed.evaluated_at == [6, 9, 10] and resumed.calls[0][0] == 6
    assert stage.saved[:1] + resumed.saved == whole.saved


def test_last_evaluation_is_done_even_if_no_step_is_left():
    stage = Stage(scores=[0.9])
    state = {"evaluated_step": 9, "best_step": 6, "best_score": 0.7}
    final = stage.run(EVALUATED, 10, state, evaluates=True)
    assert stage.calls == [] and stage.evaluated_at == [10]
    assert final["best_step"] == 10 and final["best_score"] == 0.9
    assert stage.saved == [(10, {k: v for k, v in final.items() if k != "step"})]


def test_evaluation_that_others_take_part_in_is_finished(send, monkeypatch):
    monkeypatch.setattr(devices, "has_workers", lambda strategy: True)

    def interrupted():
        send()
        while float(watch.stop_requested) == 0.0:
            time.sleep(0.01)
        return SCORES[1]

    stage = Stage(
        scores=[SCORES[0], interrupted],
        stop_requested=lambda step: float(watch.stop_requested),
    )
    with interruption.Interruption() as watch, pytest.raises(errors.Stopped):
        stage.run(EVALUATED, evaluates=True, watch=watch)
    assert stage.evaluated_at == [3, 6] and stage.calls[-1] == (6, [6], [6])
    step, state = stage.saved[-1]
    assert step == 7 and state["evaluated_step"] == state["best_step"] == 6
