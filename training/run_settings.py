"""Settings of one run, which all that a run consists of reads."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from training import layer_rates, loop
from training.distribution import devices
from training.optimizers import clipped


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How to run, whatever the task; tasks/run_plans.py makes it of settings.

    Attributes:
        init_checkpoint: source of the initial weights; "" for random ones.
        overwrite: whether training replaces another run in the directory.
        plan: when training does what; None without training.
        dtype_policy: Keras' name for the dtype in which layers compute.
        optimizer: makes an optimizer, unbuilt.
        layers: rates by layer; None for the same rate everywhere.
        batch_size: of all replicas together.
        micro_batches: parts of a batch that are computed one after another.
        packs_sequences: whether sequences of a batch share rows, as in batches.sharing.
        max_to_keep: number of newest checkpoints to keep.
        identity: what besides data and seed must match to resume a run.
        flags: {flag: value} for run.json, as is `command`.
        describe: model -> how it computes, for the log.
        length_flag: the flag that makes a run longer, for messages.
    """

    output_dir: str
    init_checkpoint: str = ""
    seed: int
    trains: bool = True
    overwrite: bool = False
    plan: loop.Plan | None
    strategy: tf.distribute.Strategy
    jit_compile: bool = False
    dtype_policy: str = "float32"
    optimizer: Callable[[], clipped.ClippedOptimizer]
    layers: layer_rates.LayerRates | None = None
    batch_size: int
    micro_batches: int = 1
    scales_loss: bool = False
    packs_sequences: bool = False
    max_to_keep: int = 5
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    command: str = ""
    describe: Callable[[Any], str] = lambda model: model.compute_dtype
    length_flag: str = "--num_train_epochs"

    @property
    def writes(self) -> bool:
        """Whether this process writes files; one of several does."""
        return devices.is_chief(self.strategy)
