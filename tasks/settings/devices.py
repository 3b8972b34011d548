"""Settings of the devices that a run uses, and of how they compute."""

import dataclasses
from typing import Any

from contract import errors
from tasks.settings import fields

# Types of mixed precision, and their names in Keras.
PRECISIONS = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
# Fields with paths that a TPU elsewhere must be able to read or write.


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneDevice(fields.Settings):
    """Of commands that compute on the first device that there is."""

    require_gpu: bool = fields.devices(
        False, "Refuse to run if no GPU is available.", changes=fields.NOTHING
    )
    mixed_precision: str | None = fields.devices(
        None,
        "Data type of the computation; weights stay in float32. By default everything "
        "is float32. With float16, training scales the loss dynamically.",
        choices=list(PRECISIONS),
    )

    @property
    def dtype_policy(self) -> str:
        """Keras' name for --mixed_precision."""
        return PRECISIONS.get(self.mixed_precision or "", "float32")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Devices(OneDevice):
    """The original's settings of TPUs, and those of other devices."""

    distribution_strategy: str = fields.devices(
        "auto",
        "Distribution over devices; auto uses all GPUs of the host, and all hosts in "
        "TF_CONFIG.",
        choices=["auto", "one_device", "mirrored", "multi_worker_mirrored", "tpu"],
        changes=fields.NOTHING,
    )
    use_tpu: bool = fields.devices(
        False,
        "Run on a TPU; needs tensorflow-tpu 2.20.0, its last release.",
        changes=fields.NOTHING,
    )
    tpu_name: str | None = fields.devices(
        None, "Name of the Cloud TPU, or local.", changes=fields.NOTHING
    )
    tpu_zone: str | None = fields.devices(
        None, "Zone of the Cloud TPU.", changes=fields.NOTHING
    )
    gcp_project: str | None = fields.devices(
        None, "Project of the Cloud TPU.", changes=fields.NOTHING
    )
    master: str | None = fields.devices(
        None, "Address of the TPU master.", changes=fields.NOTHING
    )
    num_tpu_cores: int = fields.devices(
        8,
        "Accepted and ignored; the number of cores is read from the TPU.",
        changes=fields.NOTHING,
    )
    virtual_cpus: int = fields.devices(
        0,
        "Number of virtual devices to make of the CPU, to rehearse a run on many "
        "devices; 0 for one device.",
        least=0,
        most=1024,
        changes=fields.NOTHING,
    )
    jit_compile: str = fields.devices(
        "auto",
        "Compile the forward and backward pass with XLA. auto: on TPU, and on GPU if "
        "all batches have the same length.",
        choices=["auto", "true", "false"],
        changes=fields.NOTHING,
    )

    @property
    def is_tpu(self) -> bool:
        """True for a TPU, which needs batches of one shape."""
        return self.use_tpu or self.distribution_strategy == "tpu"

    @property
    def tpu_address(self) -> str:
        """Where the TPU is; local by default."""
        return self.tpu_name or self.master or "local"

    @property
    def strategy_kind(self) -> str:
        """--distribution_strategy, or tpu where --use_tpu is set."""
        return "tpu" if self.use_tpu else self.distribution_strategy

    def check(self) -> None:
        """Refuses contradictions, and files that the TPU would not see."""
        super().check()
        kind = self.distribution_strategy
        if self.use_tpu and kind not in ("auto", "tpu"):
            raise errors.InputError(
                f"--use_tpu and --distribution_strategy={kind} contradict each other; "
                "leave out one of them"
            )
        if self.is_tpu and self.tpu_address != "local":
            self._check_remote_paths()

    def _check_remote_paths(self) -> None:
        for name, row in fields.rows(type(self)).items():
            paths = getattr(self, name) if row.rules.on_workers else None
            for path in (paths or "").split(","):
                if path and not path.startswith("gs://"):
                    raise errors.InputError(
                        f"--{name}={path} is on this machine, where the TPU at "
                        f"--tpu_name={self.tpu_address} cannot see it; copy it to a "
                        "bucket (gs://)"
                    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingDevices(Devices):
    """Of commands that train."""

    recompute: bool = fields.devices(
        False,
        "Recompute the activations of each layer in the backward pass instead of "
        "keeping them. This needs a third more computation, and memory for one layer "
        "instead of all.",
        changes=fields.NOTHING,
    )
    deterministic: bool = fields.devices(
        False,
        "Use only operations with reproducible results, also on GPU, where some are "
        "slower.",
        changes=fields.NOTHING,
    )

    def describe(self, model: Any) -> str:
        """How a model computes, for the head of a log."""
        parts = [model.compute_dtype]
        if model.compute_dtype != model.variable_dtype:
            parts[0] += f", weights {model.variable_dtype}"
        names = ("recompute", "deterministic")
        return "; ".join([*parts, *(name for name in names if getattr(self, name))])
