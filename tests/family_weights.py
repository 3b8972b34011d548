"""Recorded outputs of BERT's family; see tests/golden/README.md.

Weights are drawn by their Hugging Face names, so none are stored.
"""

import json
import pathlib
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

RECORDED = pathlib.Path(__file__).parent / "golden" / "family.npz"
MPNET = RECORDED.with_name("mpnet.npz")


class Case(NamedTuple):
    """One network with a head; names and arrays are those of transformers."""

    config: dict[str, Any]  # of config.json
    shapes: dict[str, list[int]]  # of each stored variable
    inputs: dict[str, np.ndarray]  # input_ids, attention_mask, token_type_ids
    # Logits; of a bare network pooler_output, if any, and hidden_states, float32
    # [L + 1, B, S, D], those of the embeddings first.
    outputs: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]
    loss: np.ndarray | None  # float32 [], where there are labels
    gradients: dict[str, np.ndarray]  # by the names of variables; empty in most cases

    def features(self):
        """The inputs by our names, int32; every place is one of masked_lm_positions."""
        ids = self.inputs["input_ids"].astype(np.int32)
        places = np.broadcast_to(np.arange(ids.shape[-1], dtype=np.int32), ids.shape)
        segments = self.inputs.get("token_type_ids", np.zeros_like(ids))
        return {
            "input_ids": ids,
            "input_mask": self.inputs["attention_mask"].astype(np.int32),
            "segment_ids": segments.astype(np.int32),
            "masked_lm_positions": places,
        }

    def write(self, directory):
        """Writes config.json and model.safetensors."""
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.json").write_text(json.dumps(self.config))
        safetensors.numpy.save_file(
            draw(self.shapes), directory / "model.safetensors", {"format": "pt"}
        )


def draw(shapes, seed=0, stddev=0.4):
    """Draws weights in the sorted order of their names.

    Weights of a layer norm are around 1 and all others around 0, biases included, so a
    variable that is left out or mixed up with another changes outputs.

    Args:
        shapes: {name: shape}, without the names that are tied to another.

    Returns:
        {name: float32 array} in sorted order.
    """
    rng = np.random.default_rng(seed)
    weights = {}
    for name in sorted(shapes):
        values = stddev * rng.standard_normal(tuple(shapes[name]))
        if name.lower().replace("_", "").endswith("layernorm.weight"):
            values += 1
        weights[name] = values.astype(np.float32)
    return weights


def read_cases(path=RECORDED):
    """{name: Case}, such as electra-ForPreTraining."""
    with np.load(path) as file:
        arrays = dict(file)
    cases = {}
    for name, described in json.loads(bytes(arrays["cases"])).items():
        groups = {"inputs": {}, "outputs": {}, "labels": {}}
        for key in arrays:
            if key.startswith(f"{name}/") and key.count("/") == 2:
                _, group, field = key.split("/")
                groups[group][field] = arrays[key]
        loss, gradients = arrays.get(f"{name}/loss"), arrays.get(f"{name}/gradients")
        shapes = described["shapes"]
        if gradients is not None:  # one after another, in the sorted order of names
            ends = np.cumsum(
                [np.prod(shapes[key], dtype=int) for key in sorted(shapes)]
            )
            parts = zip(sorted(shapes), np.split(gradients, ends[:-1]), strict=True)
            gradients = {key: part.reshape(shapes[key]) for key, part in parts}
        cases[name] = Case(
            described["config"], shapes, **groups, loss=loss, gradients=gradients or {}
        )
    return cases


def read_activations():
    """{name: float32 [N]} of hidden_act at the points "x"."""
    prefix = "activations/"
    with np.load(RECORDED) as file:
        return {
            key.removeprefix(prefix): file[key]
            for key in file
            if key.startswith(prefix)
        }
