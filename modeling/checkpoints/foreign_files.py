"""What other programs leave in a directory: what it is, and what to do about it.

Every way to open a model looks here first.
"""

import os
import re
from collections.abc import Iterable, Mapping

from contract import errors, json_files, remote_files, wording
from modeling.networks import catalogue

_ADAPTER = (
    "it is of an adapter of PEFT, which changes what its model answers: merge the two "
    "by merge_and_unload(), and save the result by save_pretrained() elsewhere"
)
ADAPTER = "adapter_config.json"
# Files that change what the model beside them computes.
_ADAPTERS = ADAPTER, "adapter_model.safetensors", "adapter_model.bin"
_PICKLED = ".pt", ".pth", ".jl", ".joblib", ".pkl", ".pickle"
# Endings of files that are not read, often because opening them can run code, and what
# to do about them; docs/checkpoints.md has the commands. The first one counts.
_UNREAD = {
    _ADAPTERS: _ADAPTER,
    ("zero_to_fp32.py",): (
        "the weights lie in parts of DeepSpeed; run it, with --safe_serialization"
    ),
    ("onnx", "openvino", "openvino_model.bin", "openvino_model.xml"): (
        "it runs the network and cannot be opened as weights; give the model from "
        "which it was made"
    ),
    (*_PICKLED, ".bin", ".bin.index.json", ".msgpack"): (
        "save it as model.safetensors where you trust it: docs/checkpoints.md"
    ),
    (".weights.h5",): (
        "it holds weights alone: load them into their model in Python, and save it as "
        "model.keras; of a preset of KerasHub give the original release"
    ),
    (".h5", ".weights"): (
        "it holds weights of Keras 2; of bert4keras, load them into their model there "
        'and call model.save_weights_as_checkpoint("bert_model.ckpt")'
    ),
    ("saved_model.pb",): (
        "it is a SavedModel; give the checkpoint of the same model, or the --output_dir"
        " of its run"
    ),
    ("params_shapes.json",): (
        "it is of GPT's release of 2018; give Hugging Face's openai-gpt"
    ),
}
_TRAINER_STATE = "trainer_state.json"  # of a Trainer of transformers
# Names of tensors that are a part of a weight, or of a model inside another one.
_PARTS = {
    r"^base_model\.model\.|\.(lora_\w+|base_layer|modules_to_save)\.": _ADAPTER,
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


def check(path: str) -> None:
    """Raises ForeignError for an adapter in a directory, or beside weights."""
    directory = path if remote_files.is_dir(path) else os.path.dirname(path)
    paths = (os.path.join(directory, file) for file in _ADAPTERS)
    _refuse(*filter(remote_files.exists, paths))


def check_others(path: str) -> None:
    """Raises ForeignError for a file, or a directory without weights, of the table."""
    if remote_files.is_dir(path):
        _refuse_trainer(path)
        _refuse(*remote_files.matching(path, "*"))
    elif remote_files.exists(path):
        _refuse(path)


def _refuse(*paths):
    """Names the first of the paths that is in the table."""
    for endings, remedy in _UNREAD.items():
        for path in paths:
            if os.path.basename(path).endswith(endings):
                raise ForeignError(f"{path} is not read ({remedy})")


def _refuse_trainer(directory):
    """Names the checkpoints of a Trainer in a directory, and the best of them."""
    paths = remote_files.matching(directory, "checkpoint-[0-9]*")
    paths = sorted(filter(remote_files.is_dir, paths), key=lambda p: (len(p), p))
    if not paths:
        return
    folders, which = [*map(os.path.basename, paths)], "one of them"
    for place in (paths[-1], directory):
        state = os.path.join(place, _TRAINER_STATE)
        values = json_files.read_object(state) if remote_files.exists(state) else {}
        best = re.split(r"[/\\]", f"{values.get('best_model_checkpoint')}")[-1]
        if best in folders:
            which = f"{best}, the best one by {state}"
    raise ForeignError(
        f"{directory} holds no weights but those of a training in "
        f"{wording.first_of(folders)}; give the directory of {which}"
    )


def check_tensors(source: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
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
