"""Tensors in a file of weights that are no whole weights of a network."""

import re
from collections.abc import Iterable, Mapping

from contract import errors, wording
from modeling.networks import catalogue

ADAPTER = (
    "it is of an adapter of PEFT, which changes what its model answers: merge the two "
    "by merge_and_unload(), and save the result by save_pretrained() elsewhere"
)
# Names of tensors that are a part of a weight, or of a model inside another one.
_PARTS = {
    r"^base_model\.model\.|\.(lora_\w+|base_layer|modules_to_save)\.": ADAPTER,
    r"(^|\.)(prefix_encoder|prompt_encoder|prompt_embeddings|soft_prompt)\b": (
        "it is put before each text and changes what the model answers, and is not "
        "read; give the model without"
    ),
    r"\.parametrizations\.": (
        "it is a part of a weight; save the model after "
        "torch.nn.utils.parametrize.remove_parametrizations"
    ),
}
_EMPTY = (
    "DeepSpeed's ZeRO-3 leaves it empty in each process; write the weights by "
    "zero_to_fp32.py of the training's checkpoint"
)
_LAYER = re.compile(r".*?[._/]\d+[./]")
# Checkpoints of TensorFlow have slots of optimizers in the layers, too; PyTorch's not.
_ADDED = re.compile(r"^[^/]*$|adapter|lora", re.IGNORECASE)


class ForeignError(errors.InputError):
    """What lies in a place is of another program."""


def check(source: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ForeignError for a part of a weight, and for an empty one."""
    for key, shape in shapes.items():
        parts = (why for pattern, why in _PARTS.items() if re.search(pattern, key))
        is_empty = 0 in shape and catalogue.layer_number(key) is not None
        if why := next(parts, _EMPTY if is_empty else ""):
            raise ForeignError(f"{source}: {key} is not read ({why})")


def check_left_over(source: str, used: Iterable[str], unused: Iterable[str]) -> None:
    """Raises ForeignError for tensors in layers that have no variable for them."""
    layers = {match[0] for match in map(_LAYER.match, used) if match}
    # A decoder alone computes without its attention to an encoder.
    added = [key for key in unused if _ADDED.search(key) and "cross" not in key]
    others = ((key, _LAYER.match(key)) for key in added)
    inside = [key for key, match in others if match and match[0] in layers]
    if inside:
        raise ForeignError(
            f"{source}: {wording.first_of(inside)} in the layers are of no variable of "
            "this network, as those of adapters or of quantized weights, and change "
            "what it computes; merge them into the weights, or save the model without"
        )
