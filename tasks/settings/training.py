"""Settings of what to do, and of training: batches, rate, when to save and evaluate.

The original's keep name, default and meaning; new defaults change nothing.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from contract import errors
from tasks.settings import devices, fields, model
from training import schedule
from training.optimizers import choices

_LARGEST_SEED = 2**32 - 1  # of keras.utils.set_random_seed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exports(fields.Settings):
    """Whether to write an export."""

    do_export: bool = fields.what_to_do(
        False,
        "Whether to write a SavedModel to output_dir/export/<n>.",
        changes=fields.NOTHING,
        in_python=False,
    )
    export_server_config: bool = fields.output(
        False,
        "With --do_export: also write models.config and batching_parameters.txt to "
        "output_dir/config, to start TensorFlow Serving with them.",
        changes=fields.NOTHING,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluates(fields.Settings):
    """Whether to evaluate on held-out rows."""

    do_eval: bool = fields.what_to_do(
        False,
        "Whether to run eval on the dev set.",
        changes=fields.NOTHING,
        in_python=False,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PackSequences(fields.Settings):
    """Whether sequences share rows of the network."""

    pack_sequences: bool = fields.training(
        False,
        "Put several sequences of a training batch into one row of the network, so "
        "that little is computed for padding. Losses and gradients stay the same. "
        "For records of short texts, and for --pad_to_max_length and TPU; texts "
        "grouped by length have little padding anyway.",
        changes=fields.WEIGHTS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSmoothing(fields.Settings):
    """Of losses over classes."""

    label_smoothing: float = fields.training(
        0.0,
        "Share of the target of the training loss that all classes have alike; the "
        "label has the rest. Evaluation reports the loss without it.",
        least=0,
        most=0.99,
        changes=fields.WEIGHTS,
        only_trains=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(Exports, devices.TrainingDevices, model.Model):
    """How to train, whatever for, and when to save and to evaluate."""

    do_train: bool = fields.what_to_do(
        False,
        "Whether to run training.",
        changes=fields.NOTHING,
        in_python=False,
    )
    output_dir: str | None = fields.output(
        None,
        "Output directory for checkpoints and results.",
        path=True,
        is_directory=True,
        changes=fields.NOTHING,
        on_workers=True,
    )
    allow_missing_weights: bool = fields.model(
        False,
        "Accept an initial checkpoint that lacks layers or embeddings, and train "
        "these from random values.",
        changes=fields.NOTHING,
    )
    overwrite_output_dir: bool = fields.output(
        False,
        "Replace another run in --output_dir, instead of resuming or refusing it.",
        changes=fields.NOTHING,
    )
    save_checkpoints_steps: int = fields.evaluation(
        1000, "Number of steps between checkpoints.", least=1, changes=fields.NOTHING
    )
    keep_checkpoint_max: int = fields.evaluation(
        5,
        "Maximum number of recent checkpoints to keep. Fine-tuning also keeps the best "
        "one.",
        least=1,
        changes=fields.NOTHING,
    )
    iterations_per_loop: int = fields.evaluation(
        1000,
        "Maximum number of steps that the devices run in one call.",
        least=1,
        changes=fields.NOTHING,
    )
    log_steps: int = fields.evaluation(
        20,
        "Number of steps between points in TensorBoard. If it is not set, a run of "
        "fewer than 400 steps uses a twentieth of its steps.",
        least=1,
        changes=fields.NOTHING,
    )
    evaluate_steps: int = fields.evaluation(
        0,
        "Number of steps between evaluations during training; 0 for none.",
        least=0,
        changes=fields.NOTHING,
        only_trains=True,
    )
    eval_batch_size: int = fields.evaluation(
        8, "Total batch size for eval.", least=1, changes=fields.NOTHING
    )
    profile_steps: Sequence[str] = fields.evaluation(
        (),
        "First and last step of a trace for the profiler of TensorBoard, such as "
        "20,30.",
        changes=fields.NOTHING,
    )
    train_batch_size: int = fields.training(
        32,
        "Total batch size for training, over all devices and micro-batches.",
        least=1,
        changes=fields.WEIGHTS,
        varies=True,
    )
    gradient_accumulation_steps: int = fields.training(
        1,
        "Number of micro-batches that a batch is split into, if it does not fit into "
        "memory. The result is the same as for the whole batch.",
        least=1,
        changes=fields.NOTHING,
    )
    learning_rate: float = fields.training(
        5e-5,
        "Peak learning rate of the optimizer.",
        least=0,
        changes=fields.WEIGHTS,
        varies=True,
    )
    optimizer: str = fields.training(
        "adam",
        choices.describe(),
        choices=list(choices.OPTIMIZERS),
        changes=fields.WEIGHTS,
        varies=True,
    )
    learning_rate_schedule: str = fields.training(
        "linear",
        "Learning rate after the warmup. linear: as in google-research/bert. "
        "gpt_linear, gpt_cosine, gpt_constant: as in GPT, linearly to 0, along a "
        "cosine to 0, or constant.",
        choices=list(schedule.SCHEDULES),
        changes=fields.WEIGHTS,
        varies=True,
    )
    adam_bias_correction: bool = fields.training(
        False,
        "Correct the bias of Adam's moments in the first steps, as in the Adam paper; "
        "google-research/bert does not correct it.",
        changes=fields.WEIGHTS,
        varies=True,
    )
    weight_decay_rate: float = fields.training(
        0.01,
        "Weight decay: in each step, kernels and tables lose this share of "
        "themselves times the learning rate.",
        least=0,
        changes=fields.WEIGHTS,
        varies=True,
    )
    seed: int = fields.training(
        1,
        "Random seed for initial values, data order and dropout.",
        changes=fields.NOTHING,
    )
    write_report: bool = fields.output(
        True,
        "Write report.html and report.json with the settings and scores of the run, "
        "and a model card (README.md) beside the weights.",
        changes=fields.NOTHING,
    )
    report_title: str | None = fields.output(
        None,
        "Title of report.html, instead of the task and the file that was scored.",
        changes=fields.NOTHING,
    )

    @property
    def packs_sequences(self) -> bool:
        """The value of --pack_sequences, where a command has it."""
        return getattr(self, "pack_sequences", False)

    @property
    def seed_numbers(self) -> list[int]:
        """The seeds of several runs; [] for one."""
        return []

    def combinations(self) -> list[dict[str, Any]]:
        """{name: value} of each run of a grid; [] for one run."""
        return []

    @property
    def has_static_shapes(self) -> bool:
        """Whether all batches have one shape."""
        return self.is_tpu or not self.packs_sequences  # records have one length

    def check(self) -> None:
        """Refuses a run without an action or an --output_dir."""
        actions = ("do_train", "do_eval", "do_predict", "do_export")
        names = [name for name in actions if hasattr(self, name)]
        if not any(getattr(self, name) for name in names):
            *others, last = (f"`{name}`" for name in names)
            raise errors.InputError(
                f"At least one of {', '.join(others)} or {last} must be True."
            )
        if not self.output_dir:
            raise errors.InputError(
                "--output_dir is missing; name a directory for the results"
            )
        super().check()
        check_seeds("seed", [self.seed])

    def check_packing(self, config: Any, *, reads_plainly: bool = True) -> None:
        """Refuses --pack_sequences where the model cannot pack."""
        errors.refuse(
            (
                self.packs_sequences and not config.spec.packs_rows,
                "--pack_sequences is for BERT and GPT, and this network is "
                f"{config.kind}; leave it out",
            ),
            (
                self.packs_sequences and not reads_plainly,
                "--pack_sequences is for the linear head on the last layer; leave it "
                "out, or leave out the choices of layers and heads",
            ),
        )

    def steps_between_logs(self, num_train_steps: int) -> int:
        """Fewer where a short run would have fewer than 20 points."""
        if "log_steps" in self.given:
            return self.log_steps
        return min(self.log_steps, max(1, num_train_steps // 20))

    def steps_to_profile(self, num_train_steps: int) -> tuple[int, ...]:
        """The steps of --profile_steps, or (); refused unless they are in the run."""
        texts = self.profile_steps
        steps = tuple(int(t) for t in texts if re.fullmatch(r"\s*[0-9]+\s*", t))
        if not texts:
            return ()
        typed = self.typed("profile_steps")
        if len(steps) != 2 or len(texts) != 2 or steps[0] >= steps[1]:
            raise errors.InputError(
                f"{typed} are not two ascending steps; give such as 20,30"
            )
        if self.do_train and steps[1] > num_train_steps:
            raise errors.InputError(
                f"{typed} ends after the last step of this run, {num_train_steps}; "
                "give earlier ones, or train longer"
            )
        return steps


def check_seeds(name: str, seeds: Sequence[int]) -> None:
    """Refuses seeds unless they are different, and random generators take them."""
    typed = f"--{name}={','.join(map(str, seeds))}"
    for seed in seeds:
        if not 0 <= seed <= _LARGEST_SEED:
            raise errors.InputError(
                f"{typed}: {seed} is no seed; give 0 or more, up to {_LARGEST_SEED}"
            )
        if seeds.count(seed) > 1:
            raise errors.InputError(f"{typed} has {seed} twice; give it once")
