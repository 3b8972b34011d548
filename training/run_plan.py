"""The one record of a run: what to do, when and how, which all parts of it read."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from training import layer_rates, metrics
from training import lora as lora_lib
from training.distribution import devices
from training.optimizers import bert_adam, clipped


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timetable:
    """When a run does its work, in optimizer steps.

    Attributes:
        learning_rate: rate of each step, counted from 0.
        save_steps: steps between checkpoints; the last step always saves.
        max_steps_per_call: most steps in one call on the devices.
        evaluate_steps: steps between evaluations, 0 for none.
        best_metric: decides what is best, by `metrics.sign`. Of equal scores, and of
            those that are not defined, the lower loss is best.
        patience: evaluations without a better score before the run stops; 0: never.
        profile_steps: the steps at which a trace begins and ends, or ().
    """

    num_train_steps: int
    learning_rate: Callable[[int], float]
    save_steps: int
    log_steps: int = 20
    max_steps_per_call: int = 1000
    evaluate_steps: int = 0
    best_metric: str = ""
    patience: int = 0
    profile_steps: Sequence[int] = ()

    def rates(self, step: int) -> list[float]:
        """Rates of the steps from `step` on, as many as one call does at most."""
        count = min(self.log_steps, self.max_steps_per_call)
        return [self.learning_rate(step + i) for i in range(count)]

    def next_stop(self, step: int) -> int:
        """The next step at which the host has something to do."""
        stops = [self.num_train_steps, step + self.max_steps_per_call]
        for period in (self.save_steps, self.log_steps, self.evaluate_steps):
            if period:
                stops.append(step - step % period + period)
        return min([*stops, *(s for s in self.profile_steps if s > step)])

    def evaluates_at(self, step: int) -> bool:
        """Whether a run with evaluations has one at this step."""
        is_last = step == self.num_train_steps
        if not self.evaluate_steps or step == 0:
            return False
        return is_last or step % self.evaluate_steps == 0

    def is_over(self, step: int, state: dict[str, Any]) -> bool:
        """Whether the last step is reached, or early stopping ends the run."""
        if 0 < self.patience <= state.get("evaluations_since_best", 0):
            return True
        return step >= self.num_train_steps

    def is_better(self, score: float, loss: float | None, best: Any) -> bool:
        """Whether an evaluation is better than that of the state `best`, if any is.

        A score that is not defined counts as none. Without losses the first of equal
        scores is best, and the last of those that are not defined.
        """
        if "best_step" not in best:
            return True
        sign = metrics.sign(self.best_metric)
        values = score, best["best_score"]
        new, old = (-math.inf if math.isnan(v) else sign * v for v in values)
        if new != old:
            return new > old
        if loss is None or "best_loss" not in best:
            return math.isnan(score)
        return loss < best["best_loss"]

    def best(self, state: Mapping[str, Any]) -> tuple[str, float]:
        """The name and value of what the best evaluation is best by."""
        if math.isnan(state["best_score"]) and "best_loss" in state:
            return "loss", state["best_loss"]
        return self.best_metric, state["best_score"]


class Combination(NamedTuple):
    """One of the runs that a grid compares: {flag: value} that differ, and its plan."""

    values: Mapping[str, Any]
    plan: "Plan"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How to do a task, whatever it is; tasks/run_plans.py makes it of settings.

    Attributes:
        init_checkpoint: source of the initial weights; "" for random ones.
        overwrite: whether training replaces another run in the directory.
        timetable: when training does what; None without training.
        seeds, combinations: for grid; without seeds that of the plan.
        dtype_policy: Keras' name for the dtype in which layers compute.
        optimizer, optimizer_arguments: its class, and its arguments by name.
        rewrites_graphs: whether TensorFlow's Grappler rewrites the graphs of steps.
        layers: rates by layer; None for the same rate everywhere.
        lora: what is trained of the network by LoRA; None for all of it.
        batch_size: of all replicas together.
        micro_batches: parts of a batch that are computed one after another.
        packs_sequences: whether sequences of a batch share rows, as in batches.sharing.
        pad_to: length of every batch in tokens, or None for its longest text.
        max_to_keep: number of newest checkpoints to keep.
        max_eval_steps: most batches of an evaluation of pretraining; None for all.
        feature_cache: a feature_cache.FeatureCache for frozen networks, or None.
        writes_records: whether a run writes its features, as fine-tuning has them.
        identity: what besides data and seed must match to resume a run.
        flags: {flag: value} for run.json, as is `command`.
        default_flags: {flag: value} of a command line without flags, for the report.
        describe: model -> how it computes, for the log.
        length_flag: the flag that makes a run longer, for messages.
    """

    output_dir: str
    seed: int
    strategy: tf.distribute.Strategy
    init_checkpoint: str = ""
    overwrite: bool = False
    trains: bool = True
    evaluates: bool = False
    predicts: bool = False
    exports: bool = False
    reports: bool = False
    timetable: Timetable | None = None
    seeds: Sequence[int] = ()
    combinations: Sequence[Combination] = ()
    jit_compile: bool = False
    rewrites_graphs: bool = True
    dtype_policy: str = "float32"
    optimizer: type[clipped.ClippedOptimizer] = bert_adam.BertAdam
    optimizer_arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    layers: layer_rates.LayerRates | None = None
    lora: lora_lib.Lora | None = None
    batch_size: int = 32
    micro_batches: int = 1
    scales_loss: bool = False
    packs_sequences: bool = False
    group_by_length: bool = True
    pad_to: int | None = None
    max_to_keep: int = 5
    eval_batch_size: int = 8
    predict_batch_size: int = 8
    max_eval_steps: int | None = None
    feature_cache: Any = None
    writes_records: bool = True
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    default_flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    command: str = ""
    describe: Callable[[Any], str] = lambda model: model.compute_dtype
    length_flag: str = "--num_train_epochs"

    @property
    def writes(self) -> bool:
        """Whether this process writes files; one of several does."""
        return devices.is_chief(self.strategy)
