"""Tests of training/loop.py with stand-ins for what runs, saves and reports."""

import pytest

from training import loop


def plan(num_train_steps=10, save_steps=4, log_steps=100, **changes):
    return loop.Plan(
        num_train_steps=num_train_steps,
        learning_rate=lambda step: step / 16,  # exact in float32
        save_steps=save_steps,
        log_steps=log_steps,
        **changes,
    )


class Stage:
    """Remembers what the loop does; the loss is what `losses` says, by last step."""

    def __init__(self, losses=(), scores=(), norm=1.0):
        self.calls, self.saved, self.reported = [], [], []
        self.evaluated_at, self.said = [], []
        self.losses, self.scores, self.norm = dict(losses), list(scores), norm

    def train_steps(self, iterator, rates, count, step):
        assert len(rates) == self.num_rates  # another length would be traced anew
        batches = [next(iterator) for _ in range(int(count))]
        rates = (rates.numpy()[: len(batches)] * 16).tolist()
        self.calls.append((int(step), batches, rates))
        loss = self.losses.get(int(step) + len(batches), 1.0)
        return {"loss": loss, "gradient_norm": self.norm, "examples": 1, "tokens": 1}

    def save(self, step, state):
        self.saved.append((step, dict(state)))

    def train(self, step, results, learning_rate):
        self.reported.append((step, learning_rate * 16))

    def evaluated(self, step, scores):
        self.evaluated_at.append(step)

    def say(self, text):
        self.said.append(text)

    def run(self, run_plan, step=0, state=None, evaluates=False):
        self.num_rates = min(run_plan.log_steps, run_plan.max_steps_per_call)

        def evaluate():
            return {"accuracy": self.scores.pop(0)}

        return loop.train(
            self.train_steps,
            range(step, 1000),
            run_plan,
            step=step,
            state=state or {},
            checkpoints=self,
            reporter=self,
            evaluate=evaluate if evaluates else None,
        )

    @property
    def saved_steps(self):
        return [step for step, _ in self.saved]


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 4), (3, 4), (4, 5), (5, 8), (8, 10), (9, 10), (10, 12), (12, 13)],
)
def test_next_stop_is_the_first_thing_to_do(step, expected):
    stops = plan(13, save_steps=4, log_steps=5, max_steps_per_call=100)
    assert stops.next_stop(step) == expected


def test_next_stop_counts_evaluations_and_calls():
    assert plan(100, save_steps=40, evaluate_steps=7).next_stop(8) == 14
    assert plan(100, save_steps=40, max_steps_per_call=3).next_stop(8) == 11


def test_every_step_is_done_once_with_its_batch_and_rate():
    stage = Stage()
    assert stage.run(plan()) == {"step": 10}
    assert stage.calls == [
        (0, [0, 1, 2, 3], [0, 1, 2, 3]),
        (4, [4, 5, 6, 7], [4, 5, 6, 7]),
        (8, [8, 9], [8, 9]),
    ]
    assert stage.saved == [(4, {}), (8, {}), (10, {})]
    assert stage.reported == [(4, 3), (8, 7), (10, 9)]
    assert stage.evaluated_at == [] and stage.said == []


def test_last_step_is_saved_once():
    stage = Stage()
    stage.run(plan(8))
    assert stage.saved_steps == [4, 8]


def test_resumed_run_goes_on_with_its_step():
    stage = Stage()
    stage.run(plan(), step=4)
    assert stage.calls[0] == (4, [4, 5, 6, 7], [4, 5, 6, 7])
    assert stage.saved_steps == [8, 10]
    finished = Stage()
    assert finished.run(plan(), step=10, state={"best_step": 3}) == {
        "best_step": 3,
        "step": 10,
    }
    assert finished.calls == finished.saved == []


def test_logging_stops_do_not_save():
    stage = Stage()
    stage.run(plan(log_steps=3))
    assert [step for step, _ in stage.reported] == [3, 4, 6, 8, 9, 10]
    assert stage.saved_steps == [4, 8, 10]


def test_best_checkpoint_is_saved_when_it_is_found():
    stage = Stage(scores=[0.5, 0.7, 0.7, 0.6])
    final = stage.run(
        plan(save_steps=100, evaluate_steps=3, best_metric="accuracy"), evaluates=True
    )
    assert stage.evaluated_at == [3, 6, 9, 10]
    assert final == {
        "step": 10,
        "best_step": 6,
        "best_score": 0.7,
        "evaluations_since_best": 2,
    }
    # An equal score is no better one; the last step is saved whatever it is.
    assert stage.saved_steps == [3, 6, 10]
    assert stage.saved[1][1]["best_step"] == 6


def test_of_losses_the_lowest_is_best():
    stage = Stage(scores=[0.5, 0.7, 0.4, 0.6])
    run_plan = plan(save_steps=100, evaluate_steps=3, best_metric="accuracy")
    losses = plan(save_steps=100, evaluate_steps=3, best_metric="loss")
    assert stage.run(run_plan, evaluates=True)["best_step"] == 6

    final = loop.train(
        stage.train_steps,
        range(1000),
        losses,
        step=0,
        state={},
        checkpoints=stage,
        reporter=stage,
        evaluate=iter([{"loss": x} for x in (0.5, 0.7, 0.4, 0.6)]).__next__,
    )
    assert final["best_step"] == 9 and final["best_score"] == 0.4


def test_without_a_metric_none_is_best():
    """Pretraining: what is evaluated decides nothing."""
    stage = Stage(scores=[0.5, 0.7, 0.4, 0.6])
    final = stage.run(plan(save_steps=100, evaluate_steps=3), evaluates=True)
    assert stage.evaluated_at == [3, 6, 9, 10] and final == {"step": 10}
    assert stage.saved == [(10, {})]


def test_stops_early_and_says_so():
    stage = Stage(scores=[0.5, 0.4, 0.45, 0.9])
    early = plan(
        20, save_steps=100, evaluate_steps=3, best_metric="accuracy", patience=2
    )
    final = stage.run(early, evaluates=True)
    assert final["step"] == 9 and final["best_step"] == 3
    assert stage.saved_steps == [3, 9]  # the last, so that resuming knows it is over
    assert stage.said == [
        "stopped at step 9: no better accuracy than 0.5000 (step 3) in 2 evaluations"
    ]
    resumed = Stage(scores=[0.9])
    state = dict(stage.saved[-1][1])
    assert resumed.run(early, step=9, state=state, evaluates=True) == final
    assert resumed.calls == []


def test_patience_survives_a_resumed_run():
    stage = Stage(scores=[0.4, 0.9])
    early = plan(
        20, save_steps=100, evaluate_steps=3, best_metric="accuracy", patience=2
    )
    state = {"best_step": 3, "best_score": 0.5, "evaluations_since_best": 1}
    assert stage.run(early, step=6, state=state, evaluates=True)["step"] == 9


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_loss_that_is_no_number_stops_and_saves_nothing(bad):
    stage = Stage(losses={8: bad}, scores=[0.5, 0.6])
    with pytest.raises(FloatingPointError) as caught:
        stage.run(plan(evaluate_steps=4, best_metric="accuracy"), evaluates=True)
    text = str(caught.value)
    assert text.startswith(f"the loss is {bad} in steps 5 to 8; the last checkpoint is")
    assert "of step 4" in text and "lower --learning_rate" in text
    assert stage.saved_steps == [4] and stage.evaluated_at == [4]


def test_gradient_that_is_no_number_stops_too():
    with pytest.raises(FloatingPointError, match="the gradient_norm is nan in steps 1"):
        Stage(norm=float("nan")).run(plan())
