"""Hugging Face's directories: weights, whole or in shards, config and vocabulary.

Works without transformers: reads what its versions have written since 2018, and writes
what the current one writes.
"""

import dataclasses
import functools
import json
import os
import re
import shutil

import numpy as np
import safetensors
import safetensors.numpy

from contract import errors, file_names, json_files
from modeling import models
from modeling.checkpoints import foreign_tensors, names, tf_keras_h5, weights_file
from modeling.networks import catalogue, spec

WEIGHTS_FILE = "model.safetensors"
# Names the shards of a large model, and which of them holds which variable.
INDEX_FILE = f"{WEIGHTS_FILE}.index.json"
SHARDS = "model-*-of-*.safetensors"
_TYPES = ("F64", "F32", "F16", "BF16")  # of weights, as these files call them
# Buffers and tied copies, which hold no weights of their own.
_BUFFERS = re.compile(
    r"(position_ids|token_type_ids|_float_tensor)$"
    r"|\.attn\.(masked_)?bias$|^lm_head\.weight$"
)
# Classifiers with one logit for each answer.
_CHOICES = spec.CHOICE, "DoubleHeadsModel"
# Names of earlier or other classes, and of those that have their place.
_RENAMED = {
    "LayerNorm.gamma": "LayerNorm.weight",
    "LayerNorm.beta": "LayerNorm.bias",
}
# Prefixes by what wraps a model: PyTorch's data parallel and compiled models, those of
# Lightning and of a user's class, and sentence-transformers.
_WRAPPERS = re.compile(r"((module|_orig_mod|model|(0\.)?auto_model)\.)*")
# Keys of a config that describe the file it lay beside, and not the network.
_FILE_KEYS = (
    "_name_or_path",
    "architectures",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "id2label",
    "label2id",
    "problem_type",
)
# The problem types of label_map.json and theirs.
_PROBLEM_TYPES = {
    "classification": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


class HuggingFaceFile(weights_file.WeightsFile):
    """An open model.safetensors in a directory, a tf_model.h5, or the shards of one.

    `config` is of the network, if it is known; `adapter` an adapters.Adapter, or None.
    """

    format = "hugging_face"

    def __init__(self, path, config=None, adapter=None):
        self.source = path
        if not tf_keras_h5.is_file(path):
            self.source = os.path.join(path, WEIGHTS_FILE)
            if not os.path.exists(self.source):
                self.source = os.path.join(path, INDEX_FILE)
        if self.source.endswith(".json"):
            stored = _open_shards(self.source)
        else:
            file = _open(self.source)
            stored = {key: (file, key) for key in list(file.keys())}
        network = catalogue.USUAL if config is None else config.spec
        stored = self._without_wrappers(stored, f"{network.prefix}.")
        modern = _modern_keys(stored, network)
        self._stored = {modern[key]: stored[key] for key in stored}
        network = catalogue.of_keys(self._stored, self.format) or network
        if adapter:
            self.source = f"{self.source} with the adapter {adapter.source}"
            modern = functools.partial(_modern_keys, network=network)
            self._stored = adapter.merged(self._stored, modern, network)
        # Either of the two may be the one that a file keeps.
        ties = network.ties()
        self._tied = unread = ties.keys
        self._checks_ties = ties.path
        if config is not None and not config.tie_word_embeddings:
            # The bias beside that of the product, which is not read.
            unread, self._tied = [*unread.values()][1:], {}
        for copy, original in self._tied.items():
            if copy in self._stored and original not in self._stored:
                self._stored[original] = self._stored[copy]
        self.shapes = {
            name: tuple(file.get_slice(key).get_shape())
            for name, (file, key) in self._stored.items()
        }
        foreign_tensors.check(self.source, self.shapes)
        self.states = weights_file.matches(_BUFFERS, self.shapes)
        self.states |= {key: key for key in unread if key in self.shapes}
        if "score.weight" in self.shapes:  # their classifier has no bias, GPT's has
            self.shapes.setdefault("score.bias", self.shapes["score.weight"][:1])
        self._stacked = network.stacked
        for key, other in self._stacked.items():
            if key in self.shapes and other in self.shapes:  # one table here
                (count, width), (more, _) = self.shapes[key], self.shapes.pop(other)
                self.shapes[key] = count + more, width

    def _without_wrappers(self, stored, own):
        """The stored keys without prefixes of what a model was wrapped in.

        A network's `own` prefix is one of these, and comes back by `_modern_keys`.
        """
        wrapped = {key: _WRAPPERS.match(key)[0] for key in stored}
        self.prefixes = tuple(sorted({*wrapped.values()} - {"", own}))
        bare = {key.removeprefix(wrapped[key]): stored[key] for key in stored}
        if len(bare) < len(stored):
            raise errors.InputError(
                f"{self.source}: has names both with and without "
                f"{', '.join(self.prefixes)}; save the weights of one model alone"
            )
        return bare

    def read(self, name):
        """The array of a variable; a ValueError if a head of tokens is not tied."""
        if name.path == self._checks_ties:
            self._check_ties()
        value = name.from_hugging_face(self._array(name.hugging_face))
        if other := self._stacked.get(name.hugging_face):
            value = np.concatenate([value, self._array(other)])
        return value

    def _array(self, key):
        if key == "score.bias" and key not in self._stored:
            return np.zeros(self.shapes[key], np.float32)
        file, stored = self._stored[key]
        if (kind := file.get_slice(stored).get_dtype()) not in _TYPES:
            raise errors.InputError(
                f"{self.source}: {key} is of type {kind}, and not of "
                f"{', '.join(_TYPES)}; give the model that was quantized"
            )
        return file.get_tensor(stored)

    def _check_ties(self):
        for copy, original in self._tied.items():
            if copy not in self.shapes:
                continue
            shape, other = (
                file.get_slice(key).get_shape()
                for file, key in (self._stored[copy], self._stored[original])
            )
            if list(shape) != list(other) or not np.array_equal(
                self._array(copy), self._array(original)
            ):
                raise errors.InputError(
                    f"{self.source}: {copy} differs from {original}; set "
                    "tie_word_embeddings to false in config.json, or give --head=none"
                )


def _open(path):
    if path.endswith(".h5"):
        return tf_keras_h5.open_file(path)
    raised = OSError, safetensors.SafetensorError
    weights_file.check_is_file(path)
    with weights_file.readable(path, "safetensors file", raised):
        file = safetensors.safe_open(path, framework="numpy")
        if (file.metadata() or {}).get("format") != "tf":
            return file
        arrays = {key: file.get_tensor(key) for key in list(file.keys())}
    return tf_keras_h5.Tensors(path, arrays)


def _open_shards(index):
    """{name: (open shard, name)} of an index."""
    weight_map = json_files.read_object(index).get("weight_map")
    has_files = isinstance(weight_map, dict) and weight_map
    if not has_files or not all(isinstance(v, str) for v in weight_map.values()):
        raise errors.InputError(
            f"{index}: has no weight_map of variables and files; copy it again"
        )
    if away := [v for v in weight_map.values() if v != os.path.basename(v)]:
        raise errors.InputError(
            f"{index}: names {away[0]!r:.80}; put all shards into its directory"
        )
    weight_map = {  # TensorFlow's keys have a tensor's number, and a model before
        tf_keras_h5.to_pytorch(k.split("/", 1)[-1]) if k.endswith(":0") else k: shard
        for k, shard in weight_map.items()
    }
    directory = os.path.dirname(index)
    shards = {
        shard: _open(os.path.join(directory, shard))
        for shard in sorted(set(weight_map.values()))
    }
    held = {shard: set(file.keys()) for shard, file in shards.items()}
    for key, shard in weight_map.items():
        if key not in held[shard]:
            raise errors.InputError(
                f"{os.path.join(directory, shard)}: lacks {key} of "
                f"{os.path.basename(index)}; copy both again"
            )
    return {key: (shards[shard], key) for key, shard in weight_map.items()}


def _modern_keys(keys, network):
    """{key: its name as the current library writes it}, with the prefix of a network.

    `network` is the record of the config; a name that is none of it may be another's.
    """
    every = [network, *catalogue.NETWORKS]
    renamed = {**_RENAMED, **{k: v for n in every for k, v in n.renamed.items()}}
    whole = tuple(n.unprefixed for n in every if n.unprefixed)
    # Of a network, and not of a layer that predicts words, such as decoder.bias.
    has_none = any(key.startswith(whole) and key.count(".") > 1 for key in keys)
    prefixes = tuple(f"{each.prefix}." for each in every if each.prefix)
    modern = {}
    for key in keys:
        name = key
        for old, new in renamed.items():
            name = name.replace(old, new)
        # A bare network (BertModel, GPT2Model, sentence-transformers) has no prefix.
        # GPT's prefix is how names begin in a bare network of another kind.
        is_own = name.startswith(network.bare)
        if not has_none and (is_own or not name.startswith(prefixes)):
            bare = (each for each in every if name.startswith(each.bare))
            prefix = next((each.prefix for each in bare), "")
            name = f"{prefix}.{name}" if prefix else name
        modern[key] = name
    return modern


def save(
    directory,
    model,
    *,
    labels=(),
    problem_type="",
    left_out=(),
):
    """Writes config.json and weights; makes the directory.

    Args:
        labels: names of the classes, in the order of their ids; by default
            placeholders, because Hugging Face counts them.
        problem_type: as in label_map.json; by default as in the model's config.
        left_out: Google names of variables not to write.
    """
    os.makedirs(directory, exist_ok=True)
    tensors, network = {}, model.config.spec
    for name, variable in names.named_variables(model):
        if name.google not in left_out:
            value = name.to_hugging_face(np.asarray(variable))
            if other := network.stacked.get(name.hugging_face):
                value, more = np.split(value, [model.config.vocab_size])
                tensors[other] = np.ascontiguousarray(more)
            tensors[name.hugging_face] = np.ascontiguousarray(value)
    if not model.config.tie_word_embeddings:
        for copy, original in network.ties().keys.items():
            if copy in tensors:  # a bias that is not read there, and is not missed
                tensors.setdefault(original, tensors[copy])
    path = os.path.join(directory, WEIGHTS_FILE)
    # Their library refuses a file without the name of a library in it.
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    raw = describe(model, left_out, problem_type).to_hugging_face()
    if isinstance(model, models.BertClassifier):
        problem_type = problem_type or stated_problem_type(model.config)
        raw |= _describe_problem(model.config, problem_type)
    if model.num_classes and problem_type != "choice":  # whose answers have no names
        labels = labels or placeholder_labels(model.num_classes)
        raw["id2label"] = {str(i): label for i, label in enumerate(labels)}
        raw["label2id"] = {label: i for i, label in enumerate(labels)}
    config_file = os.path.join(directory, file_names.HUGGING_FACE_CONFIG)
    with open(config_file, "w", encoding="utf-8") as text:
        text.write(json.dumps(raw, indent=2, sort_keys=True) + "\n")
    # Their library makes a file that nobody else may read.
    shutil.copymode(config_file, path)


def describe(model, left_out=(), problem_type=""):
    """The config of a model; its key `architectures` names the parts not `left_out`.

    It names the network alone where the head reads other layers, or has an LSTM. A
    classifier keeps the problem type of its config, if none is passed.
    """
    extra = {k: v for k, v in model.config.extra.items() if k not in _FILE_KEYS}
    rows = [name for name, _ in names.named_variables(model)]
    parts = {name.path.split("/")[0] for name in rows if name.google not in left_out}
    heads = tuple(sorted(parts - {model.config.network}))
    if not model.reading.is_plain:
        heads = ()
    if name := model.config.spec.class_name(model.config, heads):
        extra["architectures"] = [name]
    if isinstance(model, models.BertClassifier) and not problem_type:
        extra |= _describe_problem(model.config, stated_problem_type(model.config))
    return dataclasses.replace(model.config, extra=extra)


def _describe_problem(config, problem_type):
    """The key of config.json for the problem type of a classifier, if it has one."""
    if problem_type == "choice" and (name := config.spec.choice_class(config)):
        return {"architectures": [name]}
    known = problem_type in _PROBLEM_TYPES
    return {"problem_type": _PROBLEM_TYPES[problem_type]} if known else {}


def is_tagger(config):
    """Whether the class that a config names is one that tags tokens."""
    return architecture(config).endswith(spec.TAGGER)


def architecture(config):
    """The class of transformers that a config names, or ""."""
    value = config.extra.get("architectures")
    name = next(iter(value), "") if isinstance(value, list) else value
    return name if isinstance(name, str) else ""


def stated_problem_type(config):
    """The problem type of a classifier by its config; "" if that has none."""
    if architecture(config).endswith(_CHOICES):
        return "choice"
    stated = config.extra.get("problem_type")
    return next((ours for ours, name in _PROBLEM_TYPES.items() if name == stated), "")


def read_labels(config, num_classes):
    """The problem type of a head with C classes, and their names in the order of ids.

    One class is regression by default; regression, choice and placeholders have no
    names.

    Raises:
        ValueError: the ids are not those of the head.
    """
    usual = "regression" if num_classes == 1 else "classification"
    problem_type = stated_problem_type(config) or usual
    listed = config.extra.get("id2label") or {}
    usual = dict(enumerate(placeholder_labels(len(listed))))
    is_usual = listed == {str(i): name for i, name in usual.items()}
    if problem_type in ("choice", "regression") or is_usual:  # or none
        return problem_type, ()
    keys = sorted(listed) if isinstance(listed, dict) else ["none"]
    if set(keys) != {str(i) for i in range(num_classes)}:
        raise errors.InputError(
            f"id2label has the keys {', '.join(keys)}, but the head has {num_classes} "
            "classes; give the config file of this checkpoint"
        )
    return problem_type, tuple(str(listed[str(i)]) for i in range(num_classes))


def placeholder_labels(num_classes):
    """Hugging Face's names of C classes that nobody has named."""
    return tuple(f"LABEL_{i}" for i in range(num_classes))


def tokenizer_files(config, tokenizer):
    """{name: text} of what transformers reads beside, or instead of, a vocabulary."""
    settings = {
        **tokenizer.settings(),
        "model_max_length": config.max_position_embeddings,
    }
    if not config.type_vocab_size:  # transformers 4 refuses what a network lacks
        settings["model_input_names"] = ["input_ids", "attention_mask"]
    texts = {}
    if "tokenizer_class" not in settings:  # word pieces, of whichever network
        settings |= {
            "strip_accents": settings.get("strip_accents"),  # None: as do_lower_case is
            "tokenize_chinese_chars": settings.get("tokenize_chinese_chars", True),
            "tokenizer_class": "BertTokenizer",
            **tokenizer.named_special(),
        }
        # Of some networks, such as ModernBERT, transformers 5 reads no vocab.txt. The
        # whole has no token twice.
        if len({*tokenizer.vocab}) == tokenizer.vocab_size:
            texts[file_names.TOKENIZER] = tokenizer.whole()
    return {file_names.TOKENIZER_CONFIG: json.dumps(settings, indent=2) + "\n", **texts}
