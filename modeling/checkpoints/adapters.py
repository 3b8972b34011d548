"""LoRA's adapters in the files of PEFT (Hu et al., 2021, arXiv:2106.09685).

To the kernel W of a linear layer an adapter adds scale * A B, [D, r] and [r, F]. Their
modules are named as in Hugging Face's files, and A and B lie transposed there.
"""

import functools
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import safetensors.numpy
from absl import logging

from contract import atomic_files, errors, file_names, json_files, remote_files
from modeling.checkpoints import names, weights_file

ALL_LINEAR = "all-linear"
# Queries and values, or what holds them: of PEFT's table, and of networks it has not.
_USUAL = "query", "value", "query_proj", "value_proj", "q_lin", "v_lin", "q", "v"
_USUAL_JOINED = "in_proj", "c_attn", "Wqkv"
_PREFIX = "base_model.model."
_WRAPPED = re.compile(r"\.(base_layer|modules_to_save)(?=\.)")
_FACTOR = re.compile(r"(.*)\.lora_(?:embedding_)?([AB])(?:\.weight)?")
# Keys of adapter_config.json with any value: read here, shown by tensors, of training.
# With these values of `init_lora_weights` the weights below stay as they are. Others
# must have an empty value.
_KNOWN = re.compile(
    "base_model_name_or_path|lora_alpha|alpha_pattern|use_rslora|r|rank_pattern|bias"
    "|(target|exclude)_modules|modules_to_save|layers_to_transform|layers_pattern"
    "|fan_in_fan_out|task_type|auto_mapping|revision|inference_mode|peft_version"
    "|lora_dropout|megatron_core|qalora_group_size"
)
_DRAWN = True, False, "gaussian", "eva", "orthogonal"
_DONE = {"peft_type": ("LORA",), "init_lora_weights": _DRAWN}
_EMPTY: tuple[Any, ...] = None, False, "", [], {}
_KINDS = "F32", "F16", "BF16", "F64"  # of tensors
_TASKS = {"classifier": "SEQ_CLS", "tagger": "TOKEN_CLS", "span": "QUESTION_ANS"}


def module(row: names.Name) -> str:
    """The name of transformers' module that has a kernel."""
    return row.hugging_face.removesuffix(".weight")


def find_targets(config: Any, wanted: Sequence[str]) -> dict[str, names.Name]:
    """{path: row} of the kernels of a network that have an adapter.

    Args:
        wanted: ends of names of modules, such as query; or one regular expression of
            whole names; or all-linear; () for the usual ones.

    Raises:
        InputError: a name is of no linear layer of the network.
    """
    network, chosen = config.spec, set[str]()
    rows = [*names.network_rows(config), *names.head_rows(config).values()]
    rows = [row for row in rows if row.layout and not network.is_head(row.path)]
    known = {module(row): row for row in rows if row.hugging_face}
    ends = sorted({name.rpartition(".")[2] for name in known})
    errors.refuse(
        (
            not known,
            "--lora_rank is for linear layers that PEFT can name, and a network of "
            f"{network.kind} has none; leave it out",
        )
    )
    for target in wanted or [
        name for name in (*_USUAL, *_USUAL_JOINED) if name in ends
    ]:
        pattern = target if _is_pattern(wanted) else rf"(.*\.)?{re.escape(target)}"
        pattern = ".*" if target == ALL_LINEAR else pattern
        try:
            fits = re.compile(pattern).fullmatch
        except re.error as error:
            raise errors.InputError(
                f"--lora_targets={target} is no regular expression: {error}"
            ) from error
        bare = f"{network.prefix}."
        own = [n for n in known if fits(n) or fits(n.removeprefix(bare))]
        if not own:
            raise errors.InputError(
                f"--lora_targets={target} is no linear layer of {network.kind}; give "
                f"{', '.join(ends)}, or {ALL_LINEAR}"
            )
        chosen.update(own)
    return {row.path: row for name, row in known.items() if name in chosen}


def _is_pattern(wanted):
    """Whether targets are one regular expression, and no names."""
    return len(wanted) == 1 and not re.fullmatch(r"[\w.-]+", wanted[0])


class Adapter:
    """An adapter in a directory, which changes the tensors of a model.

    What it holds whole, of a head or of biases, takes the place of the model's.

    Raises:
        InputError: it is of another kind than LoRA, or has a setting that is not done.
    """

    def __init__(self, directory: str):
        path = os.path.join(directory, file_names.ADAPTER_CONFIG)
        self.source = os.path.join(directory, file_names.ADAPTER_WEIGHTS)
        usual = {"peft_type": None, "lora_alpha": 8}
        self._config = {**usual, **json_files.read_object(path)}
        self.base = str(self._config.get("base_model_name_or_path") or "")
        for key, value in self._config.items():
            done: tuple[Any, ...] = _DONE.get(key, _EMPTY)
            if not _KNOWN.fullmatch(key) and value not in done:
                raise errors.InputError(
                    f"{path}: {key}={value!r:.80} is not done, of an adapter of PEFT; "
                    "merge it and its model by merge_and_unload(), and save the result "
                    "by save_pretrained() elsewhere"
                )
        alphas = self._config.get("alpha_pattern") or {}
        try:
            self._alphas = [(_ends(name), alpha) for name, alpha in alphas.items()]
        except (AttributeError, re.error) as error:
            raise errors.InputError(
                f"{path}: alpha_pattern={alphas!r:.80} are no patterns and their "
                f"factors ({error}); correct it"
            ) from error
        for alpha in (self._config["lora_alpha"], *(a for _, a in self._alphas)):
            if isinstance(alpha, bool) or not isinstance(alpha, int | float):
                raise errors.InputError(f"{path}: lora_alpha={alpha!r} is no number")
        raised = OSError, safetensors.SafetensorError
        remedy = "save it by save_pretrained() of PEFT"
        with weights_file.readable(self.source, "safetensors file", raised, remedy):
            self._file = safetensors.safe_open(self.source, framework="numpy")
        self._whole: dict[str, str] = {}  # {name of a tensor: its key}
        self._pairs: dict[str, dict[str, str]] = {}  # {module: {"A": key, "B": key}}
        for key in list(self._file.keys()):
            name = _WRAPPED.sub("", key.removeprefix(_PREFIX))
            if (kind := self._file.get_slice(key).get_dtype()) not in _KINDS:
                raise errors.InputError(
                    f"{self.source}: {key} is of {kind}; save it in one of "
                    f"{', '.join(_KINDS)}"
                )
            if match := _FACTOR.fullmatch(name):
                self._pairs.setdefault(match[1], {})[match[2]] = key
            else:
                self._whole[name] = key
        if not (self._pairs or self._whole):
            raise errors.InputError(
                f"{self.source}: holds no tensor, and {path} describes an adapter; "
                "save it by save_pretrained() of PEFT"
            )

    def merged(
        self,
        stored: Mapping[str, tuple[Any, str]],
        modern: Callable[[Iterable[str]], Mapping[str, str]],
        network: Any,
    ) -> dict[str, tuple[Any, str]]:
        """{name of a tensor: (open file, its key there)} of the model with the adapter.

        `stored` is the same of the model alone; `modern` maps names to those of today.

        Raises:
            InputError: a part of the adapter is of no tensor of the model.
        """
        whole, places = modern(self._whole), dict(stored)
        places |= {whole[name]: (self._file, key) for name, key in self._whole.items()}
        kernels = modern([f"{module}.weight" for module in self._pairs])
        rows = [row for row in network.layer_rows(0) if row.layout == "convolution"]
        wide = tuple(row.hugging_face.partition(".0.")[2] for row in rows)
        for module, keys in self._pairs.items():
            key = kernels[f"{module}.weight"]
            is_wide = "lora_embedding" in keys.get("A", "") or key.endswith(wide)
            if key not in places or len(keys) < 2:
                raise self._unfit(module, "no weight, or not both of A and B")
            if "lora_embedding" in keys["A"] and key in network.ties().keys.values():
                logging.warning(
                    "%s: %s changes the words that a head predicts as well, as after "
                    "merge_and_unload() of PEFT; before it, PEFT's model predicts "
                    "them by those of the model below",
                    self.source,
                    module,
                )
            if key in network.read_whole:
                logging.warning(
                    "%s: %s counts, as after merge_and_unload() of PEFT; before it, "
                    "PEFT's model reads the table below without the adapter",
                    self.source,
                    module,
                )
            added = functools.partial(self._added, module, is_wide)
            places[key] = _Sum(*places[key], added), key
        return places

    def _added(self, module, is_wide, shape):
        """What is added to the weight of a module, float32 of its shape."""
        down, up = (
            np.asarray(self._file.get_tensor(self._pairs[module][which]), np.float32)
            for which in "AB"
        )
        rank, known = len(down), (a for fits, a in self._alphas if fits(module))
        alpha = next(known, self._config["lora_alpha"])
        scale = alpha / (math.sqrt(rank) if self._config.get("use_rslora") else rank)
        if is_wide:
            down, up = up.T, down.T
        if up.shape[1] != len(down) or (len(up), down.shape[1]) != tuple(shape):
            raise self._unfit(module, f"a weight of {list(shape)}")
        return np.float32(scale) * (up @ down)

    def _unfit(self, module, wrong):
        return errors.InputError(
            f"{self.source}: {module} has {wrong} in the model below; give the model "
            "that the adapter was trained on"
        )


class _Sum:
    """A tensor of an open file and what is added, read as of safetensors.safe_open."""

    def __init__(self, file, key, delta):
        self._file, self._key, self._delta = file, key, delta

    def get_slice(self, _):
        return self._file.get_slice(self._key)

    def get_tensor(self, _):
        value = self._file.get_tensor(self._key).astype(np.float32)
        return value + self._delta(value.shape)


def is_there(directory: str) -> bool:
    """Whether weights are of an adapter, too; those of a run have it in already."""
    both = file_names.ADAPTER_CONFIG, file_names.ADAPTER_WEIGHTS
    settings, weights, is_run = (
        remote_files.exists(os.path.join(directory, name))
        for name in (*both, file_names.RUN)
    )
    return settings and weights and not is_run


def _ends(pattern):
    """A function of a module: whether PEFT finds a pattern at the end of its name."""
    return re.compile(rf"(.*\.)?({pattern})$").match


def write(
    directory: str,
    model: Any,
    pairs: Mapping[str, tuple[np.ndarray, np.ndarray]],
    lora: Any,
) -> None:
    """Writes PEFT's two files: of A and B of a training.lora.Lora, and of heads.

    `pairs` are {path: ([D, r], [r, F])}. A head that transformers has not is left out.
    """
    network, tensors = model.config.spec, {}
    rows = find_targets(model.config, lora.targets)
    for row, variable in names.named_variables(model):
        if row.path.split("/")[0] in _TASKS and row.hugging_face:
            tensors[row.hugging_face] = row.to_hugging_face(np.asarray(variable))
    heads = sorted({key.split(".")[0] for key in tensors})
    head = next((part for part in _TASKS if hasattr(model, part)), "")
    is_choice = getattr(model, "sequences", "single") != "single"
    ends = set()
    for path, (down, up) in pairs.items():
        # Without a head names are those of the network alone.
        name = module(rows[path]).removeprefix("" if head else f"{network.prefix}.")
        ends.add(name.rpartition(".")[2])
        tensors |= {f"{name}.lora_A.weight": down.T, f"{name}.lora_B.weight": up.T}
    is_named = lora.targets and ALL_LINEAR not in lora.targets
    given = [*lora.targets] if is_named else sorted(ends)
    config = {
        "peft_type": "LORA",
        "task_type": None if is_choice else _TASKS.get(head, "FEATURE_EXTRACTION"),
        "base_model_name_or_path": lora.base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": given[0] if _is_pattern(given) else given,
        "modules_to_save": heads or None,
        "bias": "none",
        "fan_in_fan_out": any(rows[path].layout == "convolution" for path in pairs),
        "inference_mode": True,
    }
    data = safetensors.numpy.save(
        {f"{_PREFIX}{k}": np.ascontiguousarray(v) for k, v in tensors.items()},
        metadata={"format": "pt"},
    )
    atomic_files.write_bytes(os.path.join(directory, file_names.ADAPTER_WEIGHTS), data)
    atomic_files.write_json(os.path.join(directory, file_names.ADAPTER_CONFIG), config)
