"""Settings of fine-tuning: passes over labelled rows, the best checkpoint, grids."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from absl import logging

from contract import errors, export_formats
from tasks.settings import fields, training


@dataclasses.dataclass(frozen=True, kw_only=True)
class Passes(training.Training):
    """How often rows are passed over, and at which rates."""

    num_train_epochs: float = fields.training(
        3.0,
        "Total number of training epochs to perform.",
        least=0,
        changes=fields.NOTHING,
        varies=True,
    )
    warmup_proportion: float = fields.training(
        0.1,
        "Share of the training steps with linear warmup of the learning rate.",
        least=0,
        most=1,
        changes=fields.WEIGHTS,
        varies=True,
    )
    layerwise_lr_decay: float = fields.training(
        1.0,
        "Factor of the learning rate from layer to layer, from the head down to the "
        "embeddings, as in ELECTRA, which uses 0.8 or 0.9; 1 for one rate.",
        least=0,
        most=1,
        changes=fields.WEIGHTS,
        varies=True,
    )
    unfreeze_epochs: float = fields.training(
        0.0,
        "Number of epochs until one more layer is trained: first the head alone, "
        "then the top layer, and at last the embeddings, as in ULMFiT, which uses 1; "
        "0 to train all layers at once.",
        least=0,
        most=1000,
        changes=fields.WEIGHTS,
        varies=True,
    )

    lora_rank: int = fields.training(
        0,
        "Rank of LoRA: the kernels of --lora_targets move by a product of two narrow "
        "matrices, heads are trained whole, and all else stays; 0 to train all "
        "weights. The run's directory has the adapter in PEFT's files, too.",
        least=0,
        changes=fields.WEIGHTS,
        varies=True,
    )
    lora_alpha: float = fields.training(
        8.0,
        "Factor of LoRA's products, which are divided by the rank.",
        least=0,
        only_with={"lora_rank": True},
        changes=fields.WEIGHTS,
        varies=True,
    )
    lora_targets: Sequence[str] = fields.training(
        (),
        "Linear layers that LoRA changes, by the ends of their names in transformers, "
        "such as query,value or attention.output.dense; all-linear; or one regular "
        "expression. By default those of queries and values, as in PEFT.",
        only_with={"lora_rank": True},
        changes=fields.WEIGHTS,
    )


# The runs of a grid differ in these, and share data and network.
VARYING = [name for name, row in fields.rows(Passes).items() if row.rules.varies]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuning(Passes):
    """What all commands of fine-tuning have in common."""

    scoring: ClassVar[str] = "do_eval"  # the action that scores dev rows

    do_predict: bool = fields.what_to_do(
        False,
        "Whether to run the model on the test set.",
        changes=fields.NOTHING,
        in_python=False,
    )
    seeds: Sequence[str] = fields.training(
        (),
        "Train once with each of these comma-separated seeds, and print means and "
        "deviations.",
        changes=fields.NOTHING,
        in_python=False,
    )
    grid: str | None = fields.training(
        None,
        "Train once with each combination of values, such as "
        "'learning_rate=2e-5,3e-5;train_batch_size=16,32', each in a separate "
        "directory, and print the best combination. "
        f"Flags that can vary: {', '.join(VARYING)}. With --seeds, each "
        "combination is trained once with each seed.",
        changes=fields.NOTHING,
        in_python=False,
    )
    pad_to_max_length: bool = fields.training(
        False,
        "Pad every batch to --max_seq_length instead of its longest text, and do not "
        "group texts by length. Always on for TPU.",
    )
    group_by_length: bool = fields.training(
        True, "Put texts of similar length into the same batch.", changes=fields.WEIGHTS
    )
    predict_batch_size: int = fields.evaluation(
        8, "Total batch size for predictions.", least=1, changes=fields.ANSWERS
    )
    best_metric: str | None = fields.evaluation(
        None,
        "Score that selects the best checkpoint. With --evaluate_steps, this "
        "checkpoint is evaluated, used for predictions and exported, instead of the "
        "last one.",
        changes=fields.WEIGHTS,
    )
    early_stopping_patience: int = fields.evaluation(
        0,
        "Number of evaluations without a better score, or an equal one with a lower "
        "loss, before training stops; 0 for no early stopping.",
        least=0,
        changes=fields.NOTHING,
        only_trains=True,
    )
    export_format: str = fields.output(
        export_formats.SAVED_MODEL,
        "Format of --do_export. saved_model: a SavedModel in output_dir/export/<n>. "
        "litert: model.tflite in output_dir/export_litert/<n>, for phones and small "
        "machines. onnx: model.onnx in output_dir/export_onnx/<n>, for ONNX Runtime "
        "and OpenVINO, the fastest on a CPU.",
        choices=export_formats.FORMATS,
        changes=fields.NOTHING,
        in_python=False,
    )
    quantization: str = fields.output(
        "none",
        "Weights of a LiteRT or ONNX export. none: float32. dynamic_int8: int8, with "
        "int8 matrix products, a quarter of the size. static_int8, for ONNX and best "
        "in OpenVINO on processors with VNNI: besides, activations have scales, of 300 "
        "rows of the training file or, without --do_train, of the dev file. float16, "
        "for LiteRT: half the size, computed in float32.",
        choices=export_formats.QUANTIZATIONS,
        changes=fields.NOTHING,
        in_python=False,
    )

    @property
    def evaluates(self) -> bool:
        """Whether the end of the run has an evaluation apart from predictions."""
        return getattr(self, "do_eval", False)

    @property
    def trains_head_alone(self) -> bool:
        """Whether the network stays as it is, which a choice of heads decides."""
        return False

    @property
    def kept_states(self) -> str:
        """How states of a frozen network are kept; "" where they are not."""
        return ""

    @property
    def has_named_task(self) -> bool:
        """Whether rows come from a task by name, and not from the user's files."""
        return bool(getattr(self, "tfds_name", None))

    @property
    def has_static_shapes(self) -> bool:
        """Whether every batch is padded to --max_seq_length."""
        return self.is_tpu or self.pad_to_max_length

    @property
    def wanted_splits(self) -> list[str]:
        """Those of "train", "dev" and "test" that the actions of this run need."""
        evaluates = self.evaluates or (
            self.do_train and bool(self.evaluate_steps or self.grid)
        )
        needs_dev = evaluates or self.calibration_split == "dev"
        wanted = {"train": self.do_train, "dev": needs_dev, "test": self.do_predict}
        return [split for split, is_wanted in wanted.items() if is_wanted]

    @property
    def calibration_split(self) -> str:
        """The split that has the rows of --quantization=static_int8; "" without it."""
        if not self.do_export or self.quantization != export_formats.STATIC_INT8:
            return ""
        return "train" if self.do_train else "dev"

    def file_of(self, split: str) -> str:
        """The name of the field with the file of a split."""
        return f"{split}_file"

    @property
    def local_tables(self) -> dict[str, str]:
        """{split: path} of the user's files on this machine that the run needs."""
        if self.has_named_task:
            return {}
        paths = {s: getattr(self, self.file_of(s)) for s in self.wanted_splits}
        return {s: path for s, path in paths.items() if path and "://" not in path}

    @functools.cached_property
    def opened_tables(self) -> dict[str, Any]:
        """{split: table} that `check` has begun to read, and the task goes on with."""
        return {}

    def check(self) -> None:
        """Refuses seeds, patience, a grid or an export that make no sense."""
        super().check()
        export_formats.check(self.export_format, self.quantization)
        usual = {"export_format": export_formats.SAVED_MODEL, "quantization": "none"}
        for name in usual:
            value = getattr(self, name)
            if not self.do_export and value != usual[name]:
                logging.warning(
                    "--%s=%s: nothing is exported; set --do_export, too", name, value
                )
        texts = ",".join(self.seeds)
        dev_file = self.file_of("dev")
        has_dev = getattr(self, dev_file) or getattr(self, "dev_share", 0)
        errors.refuse(
            (
                self.calibration_split == "dev"
                and not (self.has_named_task or has_dev),
                f"--quantization={export_formats.STATIC_INT8} takes scales from rows "
                f"like those that it will answer; set --{dev_file} or --do_train",
            ),
            (
                self.export_server_config
                and self.export_format != export_formats.SAVED_MODEL,
                "--export_server_config is for SavedModels, which TensorFlow Serving "
                "answers texts from; leave it out, or "
                f"--export_format={self.export_format}",
            ),
            (
                not all(re.fullmatch(r"\s*-?[0-9]+\s*", seed) for seed in self.seeds),
                f"--seeds={texts} are not whole numbers; give such as 1,2,3",
            ),
        )
        training.check_seeds("seeds", self.seed_numbers)
        errors.refuse(
            (
                self.early_stopping_patience and not self.evaluate_steps,
                "--early_stopping_patience needs evaluations; set --evaluate_steps",
            ),
            (
                self.combinations()
                and not (self.do_train and getattr(self, self.scoring)),
                "--grid compares the scores of runs that it trains; set --do_train and "
                f"--{self.scoring}",
            ),
        )
        if not self.has_named_task:
            self.check_files(*map(self.file_of, self.wanted_splits))

    @property
    def seed_numbers(self) -> list[int]:
        """The values of --seeds, once `check` has accepted them."""
        return [int(seed) for seed in self.seeds]

    def combinations(self) -> list[dict[str, Any]]:
        """{name: value} of each run of --grid; [] without it.

        The order is that of sorted names and then of the values as they are given. What
        is wrong is refused with the name and what it may be.
        """
        domains: dict[str, list[Any]] = {}
        for part in filter(None, map(str.strip, (self.grid or "").split(";"))):
            name, _, texts = part.partition("=")
            name = name.strip().removeprefix("--")
            self._check_varies(name)
            values = [text.strip() for text in texts.split(",")]
            if not all(values):
                raise errors.InputError(
                    f"--grid: {part!r} lacks a value; write such as {name}=VALUE,VALUE"
                )
            if name in domains:
                raise errors.InputError(
                    f"--grid={self.grid} has {name} twice; give it once"
                )
            domains[name] = []
            for text in values:
                value = self._parsed(name, text)
                if value in domains[name]:
                    raise errors.InputError(
                        f"--grid: {part} has {value} twice; give it once"
                    )
                domains[name].append(value)
        names = sorted(domains)
        if not names:
            return []
        each = itertools.product(*(domains[name] for name in names))
        combinations = [dict(zip(names, values, strict=True)) for values in each]
        for combination in combinations:
            with errors.named(lambda error: f"--grid={self.grid}: {error}"):
                self.with_values(**combination).check_read(combination)
        return combinations

    def _check_varies(self, name: str) -> None:
        if name in VARYING:
            return
        reason = f"--grid cannot vary {name!r}, which is no flag"
        if near := fields.nearest(name, VARYING):
            reason += f"; did you mean {near}?"
        if name == "seed":
            reason = "--grid does not vary seed; give --seeds=1,2,3 beside it"
        elif name in fields.rows(type(self)):
            reason = (
                f"--grid cannot vary {name}, for its runs share all else; run the "
                "script once for each value, with an --output_dir for each"
            )
        end = "" if reason.endswith("?") else "."
        raise errors.InputError(f"{reason}{end} It can vary {', '.join(VARYING)}")

    def _parsed(self, name: str, text: str) -> Any:
        try:
            return fields.parse(fields.rows(type(self))[name], text)
        except ValueError as error:
            raise errors.InputError(f"--grid: {name}={text}: {error}") from error
