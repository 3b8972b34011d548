"""The directories of sentence-transformers: a network, a pooling and affine maps.

Or a CrossEncoder, which is a classifier of pairs whose one number has an activation.

`modules.json` lists the modules, each with a class and a folder: Transformer, Pooling,
up to 4 Dense, and Normalize. Reads the files of version 6 and those before it. Writes
the older form, which versions 2.7 to 6.2 read (a Dense since 3).
"""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from absl import logging

from contract import errors, file_names, json_files, remote_files
from modeling.checkpoints import names
from modeling.features import text_vectors
from modeling.features.text_vectors import Projection, TextVectors
from modeling.networks import catalogue

MODULES = "modules.json"
TRANSFORMER = "sentence_bert_config.json"
MODEL = "config_sentence_transformers.json"
_MODULE = file_names.HUGGING_FACE_CONFIG
_WEIGHTS = "model.safetensors"
# Patterns of the names of these files and folders.
_SETTINGS = "sentence_*_config.json"  # of a class for each network before 1.0
WRITTEN = (MODULES, _SETTINGS, MODEL, "1_Pooling", "[2-9]_Dense", "[2-9]_Normalize")
_PACKAGE = "sentence_transformers"
_ORDER = re.compile(
    rf"Transformer Pooling( Dense){{0,{names.MOST_PROJECTIONS}}}( Normalize)?"
)
_FOLDER = re.compile(r"|[^./\\][^/\\]*")
# Our poolings by the names of version 6, and their names before.
_POOLINGS = {"cls": "cls", "mean": "mean", "max": "max", "lasttoken": "last"}
_FLAG = "pooling_mode_"
_FLAGS = (
    ("cls_token", "cls"),
    ("mean_tokens", "mean"),
    ("max_tokens", "max"),
    ("mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    ("weightedmean_tokens", "weightedmean"),
    ("lasttoken", "lasttoken"),
)
# Activations of Keras, and the classes of PyTorch.
_TORCH = "torch.nn.modules."
_ACTIVATIONS = {
    "tanh": "activation.Tanh",
    "linear": "linear.Identity",
    "relu": "activation.ReLU",
    "gelu": "activation.GELU",
    "sigmoid": "activation.Sigmoid",
    "silu": "activation.SiLU",
}
# Keys without effect on vectors.
_IGNORED = {"__version__", "model_type", "modality_config", "unpad_inputs"}
_USUAL = text_vectors.COSINE
_REMEDY = "choose another model, or --head=none for its network alone"
_VECTOR = "sentence_embedding"
_CROSS_ENCODER = "CrossEncoder"
# Its keys in config.json, of versions before 5.4 and before 4.
_CONFIG_KEYS = _PACKAGE, "sbert_ce_default_activation_function"
# Names of the prompts of a query and of a passage, in the order of its encode_query and
# encode_document.
PROMPTS = {"query": ("query",), "passage": ("document", "passage", "corpus")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceTransformer:
    """The modules and settings of a directory, beside its network.

    Attributes:
        max_seq_length: in tokens, special ones included; None for all positions.
        prompts: texts to put before a text, by their names.
        default_prompt: the name of the prompt of every text without another, or "".
        similarity: of two vectors, a name in text_vectors.SIMILARITIES.
        source: the path of the modules.json, or "".
        width: of what the pooling reads, or None.
        projection_files: of weights; a checkpoint that has the projections goes first.
    """

    text_vectors: TextVectors
    max_seq_length: int | None = None
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt: str = ""
    similarity: str = _USUAL
    source: str = ""
    width: int | None = None
    projection_files: tuple[str, ...] = ()

    def usual_prompts(self) -> dict[str, str]:
        """The prompts of a "query" and a "passage", or else the default one, or ""."""
        prompts, usual = {"": "", **self.prompts}, (self.default_prompt, "")
        return {
            kind: next(prompts[name] for name in (*names, *usual) if name in prompts)
            for kind, names in PROMPTS.items()
        }


def choose_prompt(
    kept: SentenceTransformer | None,
    name: str | None,
    prompt: str | None,
    *,
    has_default: bool,
) -> str:
    """A prompt itself, the one of a name, or where it `has_default` the default one."""
    prompts = kept.prompts if kept else {}
    if prompt is not None and name is not None:
        raise errors.InputError(
            f"prompt={prompt!r} and prompt_name={name!r}; give one of the two"
        )
    if prompt is None and name is None and kept and has_default:
        name = kept.default_prompt or None
    if name is not None and name not in [*prompts]:  # a list has no hash
        raise errors.InputError(
            f"prompt_name={name!r}: the prompts of this model are "
            f"{', '.join(prompts) or 'none'}; choose one, or pass prompt="
        )
    return (prompt or "") if name is None else prompts[name]


def locate_transformer(directory: str) -> str:
    """The folder of the network in a directory with a modules.json, or itself."""
    if not remote_files.exists(os.path.join(directory, MODULES)):
        return directory
    _, folder = next(iter(_list_modules(directory)), ("", ""))
    return os.path.join(directory, folder) if folder else directory


def read(path: str) -> SentenceTransformer | None:
    """Reads the modules around a checkpoint; None without a modules.json for vectors.

    `path` is as places.find returns it, in the directory or in the folder of its
    Transformer.

    Raises:
        ValueError: a file is damaged, or a module computes something else.
    """
    directory = _find_modules(_directory_of(path))
    if not directory:
        return None
    modules, model = _list_modules(directory), _File(directory, MODEL)
    kinds = [kind for kind, _ in modules]
    if model.get("model_type") == _CROSS_ENCODER:
        if kinds == ["Transformer"]:
            return None
        raise errors.InputError(
            f"{os.path.join(directory, MODULES)}: the modules of this CrossEncoder are "
            f"{', '.join(kinds)}, and only a Transformer alone is read; {_REMEDY}"
        )
    if not _ORDER.fullmatch(" ".join(kinds)):
        raise errors.InputError(
            f"{os.path.join(directory, MODULES)}: the modules are "
            f"{', '.join(kinds) or 'none'}, not Transformer, Pooling, up to "
            f"{names.MOST_PROJECTIONS} Dense, Normalize; {_REMEDY}"
        )
    (_, folder), (_, pooling), *others = modules
    transformer = os.path.join(directory, folder)
    pooling, width = _read_pooling(_File(directory, pooling, _MODULE, is_needed=True))
    projections, projection_files, last = [], [], width
    for kind, folder in others:
        file = _File(directory, folder, _MODULE, is_needed=kind == "Dense")
        file.check("module_input_name", _VECTOR)
        file.check("module_output_name", _VECTOR)
        if kind == "Dense":
            projections.append(_read_dense(file, last))
            projection_files.append(os.path.join(directory, folder, _WEIGHTS))
            last = projections[-1].units
        file.warn_of_unread()
    is_normalized = len(others) > len(projections)
    prompts, default = _read_prompts(model)
    size, similarity = model.size("truncate_dim"), _similarity_of(model)
    model.warn_of_unread()
    return SentenceTransformer(
        text_vectors=TextVectors(pooling, is_normalized, tuple(projections), size),
        max_seq_length=_read_length(
            transformer, "feature-extraction", "token_embeddings"
        ),
        prompts=prompts,
        default_prompt=default,
        similarity=similarity,
        source=os.path.join(directory, MODULES),
        width=width,
        projection_files=tuple(projection_files),
    )


def find_activation(path: str, config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Where a CrossEncoder's activation stands, and PyTorch's name of it; or None.

    Where its files name none, it is a sigmoid. `path` is as in `read`, `config` what
    the config.json beside it holds.
    """
    directory = _directory_of(path)
    file, key = _File(_find_modules(directory) or directory, MODEL), "activation_fn"
    is_new = file.get("model_type") == _CROSS_ENCODER
    older, oldest = map(config.get, _CONFIG_KEYS)
    older = older if isinstance(older, dict) else {}
    if not (is_new or older or oldest):
        return None
    if is_new and (name := file.get(key)):
        return f"{file.path}: {key}", name
    usual = _TORCH + _ACTIVATIONS["sigmoid"]
    return f"{path}: {key}", older.get(key) or oldest or usual


def read_activation(path: str, config: Mapping[str, Any]) -> str:
    """Of the one number of a model: sigmoid, or "". InputError for another one."""
    stated = find_activation(path, config)
    known = _activation(*stated, ("linear", "sigmoid")) if stated else ""
    return known.removeprefix("linear")


def read_pair_length(path: str) -> int | None:
    """Tokens of a pair in a CrossEncoder; None for all positions."""
    return _read_length(_directory_of(path), "sequence-classification", "scores")


def lowers_case(directory: str) -> bool:
    """Whether the folder of a Transformer has texts lower-cased before the tokens."""
    return bool(_open_transformer(directory).value("do_lower_case", bool, False))


def read_similarity(directory: str) -> str:
    """The similarity in the settings of a directory, cosine where there is none."""
    return _similarity_of(_File(directory, MODEL))


def _similarity_of(file):
    name = file.value("similarity_fn_name", str, _USUAL)
    if name not in text_vectors.SIMILARITIES:
        raise errors.InputError(
            f"{file.path}: similarity_fn_name is {name:.60}; correct it to one of "
            f"{', '.join(text_vectors.SIMILARITIES)}"
        )
    return name


def similarity_file(similarity: str) -> dict[str, str]:
    """{name: text} of what `read_similarity` reads beside an export; {} for cosine."""
    text = json.dumps({"similarity_fn_name": similarity}) + "\n"
    return {} if similarity == _USUAL else {MODEL: text}


def check_products(kept: SentenceTransformer):
    """Refuses a similarity that ranks texts otherwise than by products of vectors."""
    if kept.similarity not in (_USUAL, text_vectors.DOT):
        raise errors.InputError(
            f"{kept.source}: similarity_fn_name is {kept.similarity}, and texts are "
            f"ranked by cosine or dot here; change it in {MODEL}"
        )


def check(kept: SentenceTransformer, config: Any, file: Any = None):
    """Refuses modules that do not fit a config and an open checkpoint, if passed."""
    if not config.spec.text_vectors:
        raise errors.InputError(
            f"{kept.source}: {config.kind} has no vectors of texts; {_REMEDY}"
        )
    if kept.width not in (None, config.hidden_size):
        raise errors.InputError(
            f"{kept.source}: the pooling reads vectors of {kept.width} numbers, and "
            f"hidden_size={config.hidden_size}; give the files of one model"
        )
    if config.is_left_to_right and kept.text_vectors.pooling == "cls":
        raise errors.InputError(
            f"{kept.source}: the pooling is cls, but no other token changes the first "
            f"one of this network; {_REMEDY}"
        )
    if file is None:
        return
    sizes = file.sizes()
    tables = [key for key in ("vocab_size", "num_table_rows") if key in sizes]
    if any(sizes[key] != getattr(config, key) for key in tables):
        raise errors.InputError(
            f"{kept.source}: {file.source} has no rows for the special tokens around "
            f"texts; {_REMEDY}"
        )


def files(model: Any, kept: SentenceTransformer | None = None) -> dict[str, str]:
    """{path in a directory: text} of all files but weights, for a TextEncoder.

    `kept` has what the model lacks: length, prompts and similarity.
    """
    config, vectors = model.config, model.text_vectors
    kept = kept or SentenceTransformer(text_vectors=vectors)
    width, pooling = config.hidden_size, vectors.pooling
    if pooling == "cls" and config.is_left_to_right:
        pooling = "last"
    flags = {_FLAG + name: _POOLINGS.get(mode) == pooling for name, mode in _FLAGS}
    pooled = {"word_embedding_dimension": width, **flags, "include_prompt": True}
    folders: dict[str, dict[str, Any]] = {"1_Pooling": pooled}
    for j, projection in enumerate(vectors.projections):
        folders[_dense_folder(j)] = {
            "in_features": width,
            "out_features": projection.units,
            "bias": projection.use_bias,
            "activation_function": _TORCH + _ACTIVATIONS[projection.activation],
        }
        width = projection.units
    if vectors.is_normalized:
        folders[f"{len(folders) + 1}_Normalize"] = {}
    kinds = {"": "Transformer", **{folder: folder[2:] for folder in folders}}
    kind_of = {path: f"{_PACKAGE}.models.{kind}" for path, kind in kinds.items()}
    contents: dict[str, Any] = {
        MODULES: [
            {"idx": i, "name": str(i), "path": path, "type": kind_of[path]}
            for i, path in enumerate(kinds)
        ],
        TRANSFORMER: {
            "max_seq_length": kept.max_seq_length or config.max_position_embeddings,
            "do_lower_case": False,  # the tokenizer does
        },
        MODEL: {
            "prompts": dict(kept.prompts),
            "default_prompt_name": kept.default_prompt or None,
            "similarity_fn_name": kept.similarity,
            **({"truncate_dim": size} if (size := vectors.truncate_dim) else {}),
        },
        **{f"{folder}/{_MODULE}": value for folder, value in folders.items()},
    }
    return {name: json.dumps(v, indent=2) + "\n" for name, v in contents.items()}


def save_projections(directory: str, model: Any) -> list[str]:
    """Writes the weights of each projection into its folder; returns Google names."""
    written = []
    for j, layer in enumerate(getattr(model, "projections", ())):
        tensors = {"linear.weight": np.ascontiguousarray(np.asarray(layer.kernel).T)}
        if layer.use_bias:
            tensors["linear.bias"] = np.asarray(layer.bias)
        path = os.path.join(directory, _dense_folder(j), _WEIGHTS)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
        written += [f"projection_{j}/kernel", f"projection_{j}/bias"]
    return written


def _dense_folder(j):
    return f"{j + 2}_Dense"


class _File:
    """The object in a JSON file; {} where there is none and none is needed."""

    def __init__(self, *parts, is_needed=False):
        self.path = os.path.join(*parts)
        reads = is_needed or remote_files.exists(self.path)
        self.values = json_files.read_object(self.path) if reads else {}
        self._read = set(_IGNORED)

    def get(self, key):
        """The value of a key, which counts as read; None where it is absent."""
        self._read.add(key)
        return self.values.get(key)

    def warn_of_unread(self):
        """Names the keys of the file that have a value and were not read."""
        unread = [key for key in self.values if key not in self._read]
        if unread := tuple(key for key in unread if self.values[key]):
            _warn_of_keys(self.path, unread)

    def value(self, key, kind, default=None):
        """The value of a key if it is of a type; null counts as absent."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise errors.InputError(
                f"{self.path}: {key} is {json.dumps(value):.60}, which is not of type "
                f"{kind.__name__}; correct it"
            )
        return value

    def size(self, key):
        size = self.value(key, int)
        if size is not None and size < 1:
            raise errors.InputError(f"{self.path}: {key} is {size}; give 1 or more")
        return size

    def check(self, key, only):
        """Refuses another value than `only`, which is also the default."""
        value = self.get(key)
        if value is not None and value != only:
            raise errors.InputError(
                f"{self.path}: {key} is {json.dumps(value):.60}, and only "
                f"{json.dumps(only)} is computed here; {_REMEDY}"
            )


@functools.cache  # a directory is read several times
def _warn_of_keys(path, keys):
    logging.warning("%s: unknown keys, without effect: %s", path, ", ".join(keys))


def _open_transformer(directory):
    paths = remote_files.matching(directory, _SETTINGS)
    return _File(paths[0] if len(paths) == 1 else os.path.join(directory, TRANSFORMER))


def _list_modules(directory):
    """[(class, folder)] of a modules.json; a class of another package is a path."""
    path, modules = os.path.join(directory, MODULES), []
    listed, networks = json_files.read(path), catalogue.class_beginnings()
    for entry in listed if isinstance(listed, list) else [None]:
        values = entry if isinstance(entry, dict) else {}
        kind, folder = values.get("type"), values.get("path")
        is_folder = isinstance(folder, str) and _FOLDER.fullmatch(folder)
        if not isinstance(kind, str) or not is_folder:
            raise errors.InputError(
                f"{path}: {json.dumps(entry):.90} is no type and folder; copy it again"
            )
        package, *_, name = kind.split(".")
        name = "Transformer" if name.lower() in networks else name  # before 1.0
        modules.append((name if package == _PACKAGE else kind, folder))
    first = os.path.join(directory, modules[0][1]) if modules else directory
    if not remote_files.is_dir(first):
        raise errors.InputError(f"{path}: there is no {first}; copy the directory")
    return modules


def _read_pooling(file):
    """The pooling, one of vectors.TEXT_POOLINGS, and the width that it reads."""
    flags = [mode for flag, mode in _FLAGS if file.value(_FLAG + flag, bool)]
    modes = flags if (mode := file.get("pooling_mode")) is None else mode
    modes = modes if isinstance(modes, list) else [modes]
    named = " and ".join(map(str, modes)) or "mean"  # theirs where none is set
    if named not in _POOLINGS:
        raise errors.InputError(
            f"{file.path}: the pooling {named:.90} is none of {', '.join(_POOLINGS)}; "
            f"{_REMEDY}"
        )
    file.check("include_prompt", True)
    widths = file.size("embedding_dimension"), file.size("word_embedding_dimension")
    file.warn_of_unread()
    return _POOLINGS[named], widths[0] or widths[1]


def _read_dense(file, width):
    """The Projection of a Dense that reads vectors of a width, or of None for any."""
    reads, units = file.size("in_features"), file.size("out_features")
    if not units or not reads or reads != (width or reads):
        raise errors.InputError(
            f"{file.path}: in_features={reads} and out_features={units}, and the "
            f"vectors before have {width} numbers; give the files of one model"
        )
    file.check("use_residual", False)
    theirs = file.value("activation_function", str, _TORCH + _ACTIVATIONS["tanh"])
    place = f"{file.path}: activation_function"
    activation = _activation(place, theirs, _ACTIVATIONS)
    return Projection(units, activation, file.value("bias", bool, True))


def _activation(place, theirs, known):
    """Keras' name of a class of PyTorch, one of the `known`; else `place` is named."""
    kinds = {_ACTIVATIONS[ours].rpartition(".")[2]: ours for ours in known}
    name = f"{theirs}".rpartition(".")[2]
    if not f"{theirs}".startswith("torch.") or name not in kinds:
        raise errors.InputError(
            f"{place} is {theirs!s:.60}, and none of torch.nn: {', '.join(kinds)}; "
            f"{_REMEDY}"
        )
    return kinds[name]


def _directory_of(path):
    path = os.fspath(path)
    return path if remote_files.is_dir(path) else os.path.dirname(path)


def _find_modules(directory):
    """The directory of the modules.json around a network, or ""."""
    if remote_files.exists(os.path.join(directory, MODULES)):
        return directory
    above, folder = os.path.split(directory.rstrip("/"))
    is_there = remote_files.exists(os.path.join(above, MODULES))
    is_in = is_there and folder and locate_transformer(above) == directory
    return above if is_in else ""


def _read_prompts(file):
    """The prompts by name, and the name of the default one or ""."""
    prompts = file.value("prompts", dict, {})
    for name, text in prompts.items():
        if not isinstance(text, str):
            raise errors.InputError(
                f"{file.path}: prompt {name!r} is {json.dumps(text):.60}; give a string"
            )
    default = file.value("default_prompt_name", str, "")
    if default and default not in prompts:
        raise errors.InputError(
            f"{file.path}: default_prompt_name={default!r} is none of the prompts, "
            f"{', '.join(prompts) or 'none'}; correct it"
        )
    return prompts, default


def _read_length(transformer, task, output):
    file = _open_transformer(transformer)
    file.get("do_lower_case")  # see lowers_case
    file.check("transformer_task", task)
    file.check("module_output_name", output)
    length = file.size("max_seq_length")
    file.warn_of_unread()
    if length:
        return length
    # Version 6 keeps it with the tokenizer, which may have 1e30 for any.
    tokenizer = _File(transformer, file_names.TOKENIZER_CONFIG)
    length = tokenizer.values.get("model_max_length")
    return length if isinstance(length, int) and 0 < length < 1 << 31 else None
