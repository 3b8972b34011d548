"""Checkpoints of TensorFlow's Model Garden, which name a variable by its objects.

A key is the path of attributes from the saved object to a variable. An encoder has one
of two forms, below any prefix such as `encoder/` or `model/`:

    encoder/layer_with_weights-4/_attention_layer/_query_dense/kernel/.ATTRIBUTES/...
    model/_transformer_layers/0/_attention_layer/_query_dense/kernel/.ATTRIBUTES/...
"""

import math
import re

from modeling.checkpoints import google, weights_file

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"
_FIRST = re.compile(
    r"((?:.*/)?(?:layer_with_weights-|layer-|_transformer_layers/))(\d+)"
    rf"/_attention_layer/_query_dense/kernel{re.escape(_ENDING)}"
)
_STATE = re.compile(
    rf"\.OPTIMIZER_SLOT|^{GRAPH}|(^|/)(optimizer|global_step|save_counter)(?=/)"
)
_TABLES = tuple(
    f"bert/embeddings/{name}_embeddings" for name in ("word", "position", "token_type")
)
# Of the first form, the parts before the layers; and the ends of other paths.
_BEFORE = (*_TABLES, "bert/embeddings/LayerNorm")
_POOLER = "bert/pooler/dense"
_ENDS = {
    "_embedding_layer": _TABLES[0],
    "masked_lm/embedding_table": _TABLES[0],
    "_position_embedding_layer": _TABLES[1],
    "_type_embedding_layer": _TABLES[2],
    "_embedding_norm_layer": _BEFORE[-1],
    "_pooler_layer": _POOLER,
    "next_sentence..pooler_dense": _POOLER,
    "masked_lm/dense": "cls/predictions/transform/dense",
    "masked_lm/layer_norm": "cls/predictions/transform/LayerNorm",
    "masked_lm/output_bias.Sbias": "cls/predictions/output_bias",
}
_IN_LAYER = {
    "_attention_layer/_query_dense": "attention/self/query",
    "_attention_layer/_key_dense": "attention/self/key",
    "_attention_layer/_value_dense": "attention/self/value",
    "_attention_layer/_output_dense": "attention/output/dense",
    "_attention_output_dense": "attention/output/dense",  # of early releases
    "_attention_layer_norm": "attention/output/LayerNorm",
    "_intermediate_dense": "intermediate/dense",
    "_output_dense": "output/dense",
    "_output_layer_norm": "output/LayerNorm",
}
_QUERY_BIAS = "bert/encoder/layer_0/attention/self/query/bias"  # stored as [N, K]


class ModelGardenFile(google.GoogleFile):
    """An open checkpoint of objects; keys are Google's names where there is one."""

    def __init__(self, prefix):
        super().__init__(prefix)
        stored, self._heads = self.shapes, {}
        if not (google_names := _google_names(stored)):  # objects of something else
            return
        self._stored = {google_names.get(key, key): key for key in stored}
        self.shapes = {
            name: _joined_heads(name, stored[key]) for name, key in self._stored.items()
        }
        self.states = weights_file.matches(_STATE, self.shapes)
        bias = stored.get(self._stored.get(_QUERY_BIAS), ())
        if len(bias) > 1:
            self._heads["num_attention_heads"] = bias[0]

    def sizes(self):
        return {**super().sizes(), **self._heads}

    def read(self, name):
        return super().read(name).reshape(self.shapes[name.google])


def _google_names(keys):
    """{key: Google's name} of the variables of one encoder and of its heads."""
    first = [match for match in map(_FIRST.fullmatch, keys) if match]
    if len({match[1] for match in first}) != 1:
        return {}
    stem, layers = first[0][1], sorted(int(match[2]) for match in first)
    paths = {key: key.removesuffix(_ENDING) for key in keys if key.endswith(_ENDING)}
    numbers = {
        key: int(match[1])
        for key, path in paths.items()
        if (match := re.match(rf"{re.escape(stem)}(\d+)/", path))
    }
    # The head of masked words may hold the table of words.
    before = sorted({number for number in numbers.values() if number < layers[0]})
    numbered = dict(zip(before, _BEFORE[-len(before) :], strict=False))
    numbered |= {n: f"bert/encoder/layer_{i}" for i, n in enumerate(layers)}
    chosen = {}
    # A head of next sentences has the pooler that was trained, so it comes last.
    for key in sorted(paths, key=lambda key: "next_sentence" in key):
        parent, _, leaf = paths[key].rpartition("/")
        number = numbers.get(key, -1)
        if number in layers:
            inner = parent.removeprefix(f"{stem}{number}/")
            part = inner in _IN_LAYER and f"{numbered[number]}/{_IN_LAYER[inner]}"
        elif number >= 0:
            part = _POOLER if number > layers[-1] else numbered.get(number)
        else:
            both = f"/{paths[key]}", f"/{parent}"
            ends = [end for end in _ENDS if any(p.endswith(f"/{end}") for p in both)]
            part = _ENDS[ends[0]] if ends else None
        if part:
            is_whole = part in _TABLES or part.endswith("output_bias")
            chosen[part if is_whole else f"{part}/{leaf}"] = key
    return {key: name for name, key in chosen.items()}


def _joined_heads(name, shape):
    """[D, N, K] as [D, N * K], [N, K, D] as [N * K, D], and [N, K] as [N * K]."""
    if "/attention/" not in name or "LayerNorm" in name:
        return shape
    if name.endswith("/bias"):
        return (math.prod(shape),)
    width = shape[-1] if "/output/" in name else shape[0]
    pair = width, math.prod(shape) // width
    return pair[::-1] if "/output/" in name else pair
