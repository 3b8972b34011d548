"""Minutes and steps to plans, from what short runs said."""

import json
import math

import pytest

from experiments import commands, plans

FAST = plans.Speed(0.1, 16.0, rows=3200, tokens_per_step=1000.0)
SLOW = plans.Speed(0.3, 20.0, rows=320, tokens_per_step=2000.0)


def seconds(plan, networks, runs, seeds, jobs):
    """What a plan takes, computed run by run."""
    evaluations = (commands.EVALUATIONS - 1) * commands.EVALUATED_BATCHES * 0.4
    total = sum(
        networks[name].seconds(steps + evaluations)
        for name, steps in plan.steps.items()
    )
    for task, speed in runs:
        steps = plan.epochs[task] * speed.rows / commands.TASK_BATCH
        total += speed.seconds(steps, seeds)
    return total / jobs


def test_a_plan_fills_the_minutes_and_networks_read_the_same():
    networks = {"fast": FAST, "slow": SLOW}
    runs = [("large", FAST), ("small", SLOW), ("large", SLOW)]
    runs = [
        (t, s if t == "small" else plans.dataclasses.replace(s, rows=3200))
        for t, s in runs
    ]
    shares = {"large": 1.0, "small": 1.0}
    plan = plans.by_minutes(25, 200, networks, runs, shares=shares, seeds=3, jobs=2)
    assert plan.epochs["small"] == 10.0  # no more is of use
    for name, steps in plan.steps.items():
        assert steps % commands.EVALUATIONS == 0
        read = steps * networks[name].tokens_per_step
        assert read == pytest.approx(plan.tokens, rel=0.01)
    taken = 200 + seconds(plan, networks, runs, 3, 2)
    assert taken == pytest.approx(25 * 60 * 0.96, rel=0.01)
    longer = plans.by_minutes(120, 200, networks, runs, shares=shares, seeds=3, jobs=2)
    assert longer.epochs["large"] == 10.0
    taken = 200 + seconds(longer, networks, runs, 3, 2)  # pretraining has the rest
    assert taken == pytest.approx(120 * 60 * 0.96, rel=0.01)


def test_a_task_has_its_share_of_the_time():
    def epochs(long):
        runs = [("long", FAST), ("long", FAST), ("short", FAST)]
        shares = {"long": long, "short": 0.5}
        options = {"shares": shares, "seeds": 1, "jobs": 1}
        return plans.by_minutes(20, 0, {"fast": FAST}, runs, **options).epochs

    equal, more = epochs(0.5), epochs(2.0)
    assert equal["long"] == pytest.approx(equal["short"], rel=0.001)
    assert more["long"] == pytest.approx(4 * more["short"], rel=0.01)
    total = 2 * equal["long"] + equal["short"]  # the time of all is the same
    assert 2 * more["long"] + more["short"] == pytest.approx(total, rel=0.01)


def test_too_few_minutes_say_how_many_it_takes():
    options = {"shares": {"t": 1.0}, "seeds": 3, "jobs": 1}
    with pytest.raises(
        ValueError, match=r"--minutes=2 are too few: .* take (\d+)"
    ) as e:
        plans.by_minutes(2, 0, {"a": FAST}, [("t", SLOW)] * 9, **options)
    enough = int(str(e.value).split("take ")[1].split()[0])
    plans.by_minutes(enough, 0, {"a": FAST}, [("t", SLOW)] * 9, **options)


def test_steps_are_those_of_the_first_network():
    plan = plans.by_steps(1000, 2.5, {"a": FAST, "b": SLOW}, ["x", "y"])
    assert plan == plans.Plan({"a": 1000, "b": 496}, {"x": 2.5, "y": 2.5}, 1e6)


def test_a_written_plan_is_read(tmp_path):
    assert plans.read(str(tmp_path)) is None
    plan = plans.by_steps(80, 1.0, {"a": FAST}, ["x"])
    plans.write(str(tmp_path), plan)
    assert plans.read(str(tmp_path)) == plan


GOOD = {"steps": {"a": 80}, "epochs": {"x": 1}, "tokens": 5.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{",
            r"cannot be read \(.*\); remove the file, and the next command plans anew",
        ),
        ("null", "the file holds no JSON object; remove"),
        (json.dumps({"steps": {}, "epochs": {}}), "is not a map of steps, epochs, tok"),
        (json.dumps(GOOD | {"steps": 5}), "steps are not a map of a; remove"),
        (json.dumps(GOOD | {"steps": {"b": 80}}), "steps are not a map of a; remove"),
        (json.dumps(GOOD | {"epochs": {}}), "epochs are not a map of x; remove"),
        (
            json.dumps(GOOD | {"steps": {"a": -5}}),
            "steps of a are -5, not a positive wh",
        ),
        (
            json.dumps(GOOD | {"steps": {"a": 1.5}}),
            "steps of a are 1.5, not a positive",
        ),
        (
            json.dumps(GOOD | {"steps": {"a": "9"}}),
            "steps of a are '9', not a positive",
        ),
        (
            json.dumps(GOOD | {"epochs": {"x": math.nan}}),
            "epochs of x are nan, not a po",
        ),
        (
            json.dumps(GOOD | {"epochs": {"x": True}}),
            "epochs of x are True, not a posi",
        ),
        (json.dumps(GOOD | {"tokens": math.inf}), "tokens are inf, not a positive num"),
    ],
)
def test_what_is_no_plan_is_refused_by_its_path(tmp_path, text, said):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(ValueError, match=f"^{tmp_path}/plan.json: {said}"):
        plans.read(str(tmp_path), ["a"], ["x"])
    (tmp_path / "plan.json").write_text(json.dumps(GOOD))
    assert plans.read(str(tmp_path), ["a"], ["x"]) == plans.Plan(**GOOD)


@pytest.mark.parametrize("folder", ["", "seed-2"])
def test_speed_is_that_of_the_later_steps(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    record = {
        "curves": {
            "train/loss": [[5, 1.0], [10, 1.0], [15, 1.0], [20, 1.0]],
            "train/examples_per_second": [[5, 1], [10, 2], [15, 80], [20, 80]],
            "train/tokens_per_second": [[5, 9], [10, 22], [15, 800], [20, 1600]],
        },
        "flags": {"train_batch_size": 8},
        "data": {"train": {"count": 77}},
    }
    (tmp_path / folder / "report.json").write_text(json.dumps(record))
    found = plans.speed(str(tmp_path), 12.0)
    assert found == plans.Speed(0.1, 10.0, 77, 100.0)
    assert found.seconds(30, times=2) == pytest.approx(10 * 1.3 + 2 * 3)


def test_tokens_of_a_step_are_those_of_any_machine(tmp_path):
    counts = [971, 1013, 1024, 968, 999, 1001]  # tokens of a step of 8 rows

    def found(machine):
        rates = [(7.1 * machine, 7.1 * machine * count / 8) for count in counts]
        examples, tokens = (
            [[step, float(f"{rate[part]:.6g}")] for step, rate in enumerate(rates, 1)]
            for part in (0, 1)
        )
        record = {
            "curves": {
                "train/examples_per_second": examples,
                "train/tokens_per_second": tokens,
            },
            "flags": {"train_batch_size": 8},
            "data": {},
        }
        (tmp_path / "report.json").write_text(json.dumps(record))
        return plans.speed(str(tmp_path), 1.0).tokens_per_step

    assert found(1.0) == found(0.0437) == found(13.1) == sum(counts) / len(counts)
