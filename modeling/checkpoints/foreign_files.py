"""What other programs leave in a directory: what it is, and what to do about it.

Every way to open a model looks here first.
"""

import os
import re
from collections.abc import Iterable, Mapping

from contract import errors, json_files, remote_files, wording
from modeling.checkpoints import names

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
# Names of tensors of a model that is wrapped, and not saved as itself.
_WRAPPED = re.compile(r"^base_model\.model\.|\.(lora_\w+|base_layer|modules_to_save)\.")
_PARAMETRIZED = ".parametrizations."
_LAYER = re.compile(r".*?[._/]\d+[./]")
# Checkpoints of TensorFlow have slots of optimizers in the layers, too; PyTorch's not.
_ADDED = re.compile(r"^[^/]*$|adapter|lora", re.IGNORECASE)


class ForeignError(errors.InputError):
    """What lies in a place is of another program."""


def check(path: str) -> None:
    """Refuses files in a directory, or beside weights, that change what these compute.

    Raises:
        ForeignError: there is an adapter.
    """
    directory = path if remote_files.is_dir(path) else os.path.dirname(path)
    for file in _ADAPTERS:
        if remote_files.exists(os.path.join(directory, file)):
            raise ForeignError(_explain(directory, file))


def check_others(path: str) -> None:
    """Refuses a file, or a directory without weights, that this table explains.

    Raises:
        ForeignError: names it, and what to do.
    """
    if not remote_files.is_dir(path):
        directory, file = os.path.split(path)
        why = remote_files.exists(path) and _explain(directory, file)
    else:
        held = map(os.path.basename, remote_files.matching(path, "*"))
        why = _explain_trainer(path) or _explain(path, *held)
    if why:
        raise ForeignError(why)


def _explain(directory, *files):
    """Why the first of these files that is not read is not, and what to do; or ""."""
    for endings, remedy in _UNREAD.items():
        for file in files:
            if file.endswith(endings):
                return f"{os.path.join(directory, file)} is not read ({remedy})"
    return ""


def _explain_trainer(directory):
    """The checkpoints of a Trainer in a directory, and which is the best; or ""."""
    paths = remote_files.matching(directory, "checkpoint-[0-9]*")
    paths = sorted(
        filter(remote_files.is_dir, paths), key=lambda path: (len(path), path)
    )
    if not paths:
        return ""
    folders = [*map(os.path.basename, paths)]
    states = (os.path.join(path, _TRAINER_STATE) for path in (directory, paths[-1]))
    state = next(filter(remote_files.exists, states), "")
    best = json_files.read_object(state).get("best_model_checkpoint") if state else ""
    best = re.split(r"[/\\]", f"{best}")[-1]
    which = f"{best}, the best one by {state}" if best in folders else "one of them"
    return (
        f"{directory} holds no weights but those of a training in "
        f"{wording.first_of(folders)}; give the directory of {which}"
    )


def check_tensors(source: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuses the tensors of a wrapped model, and empty ones.

    Raises:
        ForeignError: names the first.
    """
    for key, shape in shapes.items():
        if _WRAPPED.search(key):
            raise ForeignError(f"{source}: {key} is not read ({_ADAPTER})")
        if _PARAMETRIZED in key:
            raise ForeignError(
                f"{source}: {key} is a part of a parametrized weight; save the model "
                "after torch.nn.utils.parametrize.remove_parametrizations"
            )
        if 0 in shape and names.layer_number(key) is not None:
            raise ForeignError(
                f"{source}: {key} is empty, {list(shape)}, as DeepSpeed's ZeRO-3 leaves"
                " it in each process; write the weights by zero_to_fp32.py of the "
                "training's checkpoint"
            )


def check_left_over(source: str, used: Iterable[str], unused: Iterable[str]) -> None:
    """Refuses tensors in the layers of a network that has no variable for them.

    Raises:
        ForeignError: names the first.
    """
    layers = {match[0] for match in map(_LAYER.match, used) if match}
    # A decoder alone computes without its attention to an encoder.
    added = [key for key in unused if _ADDED.search(key) and "cross" not in key]
    others = ((key, _LAYER.match(key)) for key in added)
    inside = [key for key, match in others if match and match[0] in layers]
    if inside:
        raise ForeignError(
            f"{source}: {wording.first_of(inside)} in the layers are of no variable of "
            "this network, such as those of adapters or of quantized weights, which "
            "change what it computes; "
            "merge them into the weights, or save the model without them"
        )
