"""What lies in the place of a model: what it is and what to do about it, by one table.

Every way to open a model looks here first: loading, scripts and conversion.
"""

import atexit
import difflib
import fnmatch
import functools
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from contract import errors, file_names, hub_ids, json_files, remote_files, wording
from contract.tensorflow_later import tf
from modeling.checkpoints import (
    adapters,
    foreign_tensors,
    google,
    hugging_face,
    keras_files,
    model_garden,
    sentence_transformers,
    tf_keras_h5,
    weights_file,
)
from modeling.networks import catalogue
from modeling.networks.elmo import files as elmo_files


class _Row(NamedTuple):
    """Files by patterns of their names: what opens them, or why nothing does.

    Attributes:
        files: in a directory; the first is taken if `is_sure`, else the only one.
        opens: makes a WeightsFile of a path and a config or None.
        why: what they are and what to do about them, where they are not read.
        named: further patterns of a path that is given itself.
    """

    files: tuple[str, ...]
    opens: Callable[[str, Any], weights_file.WeightsFile] | None = None
    why: str = ""
    is_sure: bool = False
    named: tuple[str, ...] = ()

    def has(self, path: str, *, is_given: bool = False) -> bool:
        """Whether a path is one of the files."""
        patterns = self.files + (self.named if is_given else ())
        name = os.path.basename(path)
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _open_google(prefix, _):
    file = google.GoogleFile(prefix)
    is_by_objects = model_garden.GRAPH in file.shapes
    return model_garden.ModelGardenFile(prefix) if is_by_objects else file


# An adapter counts wherever it lies, for it changes what the model beside it computes;
# the first two files are read.
_ADAPTERS = _Row(
    (file_names.ADAPTER_CONFIG, file_names.ADAPTER_WEIGHTS, "adapter_model.bin"),
    why=foreign_tensors.ADAPTER,
)
_HUGGING_FACE = _Row(
    (hugging_face.WEIGHTS_FILE, hugging_face.INDEX_FILE),
    hugging_face.HuggingFaceFile,
    is_sure=True,
)
_GOOGLE = _Row((f"*{google.INDEX_ENDING}",), _open_google)
# Weights, in the order in which they are looked for.
_READ = (
    _HUGGING_FACE,
    _GOOGLE,
    _Row(
        (keras_files.MODEL_FILE,),
        lambda path, _: keras_files.KerasFile(path),
        is_sure=True,
        named=(f"*{keras_files.MODEL_ENDING}",),
    ),
    _Row(tf_keras_h5.FILES, hugging_face.HuggingFaceFile, is_sure=True),
    _Row(
        (elmo_files.PATTERN,),
        lambda path, _: elmo_files.ElmoWeights(path),
        named=(f"*{elmo_files.ENDING}",),
    ),
)
_PICKLED = "*.pt", "*.pth", "*.jl", "*.joblib", "*.pkl", "*.pickle"
# Others, often because opening them can run code; docs/checkpoints.md has the commands.
_UNREAD = (
    _Row(tuple(f"*{name}" for name in _ADAPTERS.files), why=_ADAPTERS.why),
    _Row(
        ("*zero_to_fp32.py",),
        why="the weights lie in parts of DeepSpeed; run it, with --safe_serialization",
    ),
    _Row(
        ("*onnx", "*openvino", "*openvino_model.bin", "*openvino_model.xml"),
        why="it runs the network and cannot be opened as weights; give the model from "
        "which it was made",
    ),
    _Row(
        (*_PICKLED, "*.bin", "*.bin.index.json", "*.msgpack"),
        why="save it as model.safetensors where you trust it: docs/checkpoints.md",
    ),
    _Row(
        ("*.weights.h5",),
        why="it holds weights alone: load them into their model in Python, and save it "
        "as model.keras; of a preset of KerasHub give the original release",
    ),
    _Row(
        ("*.h5", "*.weights"),
        why="it holds weights of Keras 2; of bert4keras, load them into their model "
        'there and call model.save_weights_as_checkpoint("bert_model.ckpt")',
    ),
    _Row(
        ("*saved_model.pb",),
        why="it is a SavedModel; give the checkpoint of the same model, or the "
        "--output_dir of its run",
    ),
    _Row(
        ("*params_shapes.json",),
        why="it is of GPT's release of 2018; give Hugging Face's openai-gpt",
    ),
)
_RELEASED = [each.config_file for each in catalogue.NETWORKS if each.config_file]
# BERT's own goes before the library's, and those of others after it.
CONFIG_FILES = (
    _RELEASED[0],
    file_names.HUGGING_FACE_CONFIG,
    *(name.removeprefix("*") for name in _RELEASED[1:]),
)
CONFIG_PATTERNS = *CONFIG_FILES, *(name for name in _RELEASED if "*" in name)
_STATE = "checkpoint"  # the file in which TensorFlow names the newest one
_TRAINER_STATE = "trainer_state.json"  # of a Trainer of transformers


def first(directory: str, patterns: Iterable[str]) -> str:
    """The first path of these names that is there, or "".

    A pattern with a star has to match one name alone.
    """
    for pattern in patterns:
        path = os.path.join(directory, pattern)
        paths = [path] if remote_files.exists(path) else []
        if "*" in pattern:
            paths = remote_files.matching(directory, pattern)
        if len(paths) == 1:
            return paths[0]
    return ""


def find(path: str | os.PathLike[str]) -> str:
    """Finds the weights at a path.

    `path` is a prefix (`bert_model.ckpt`, also followed by .index), a .keras or .hdf5
    file, a tf_model.h5, or the directory of a release, of a run or of such a file.
    The result is a prefix, one of these files, or the directory that holds
    model.safetensors or its shards, or an adapter.

    Raises:
        ForeignError: what is there is of another program.
        ValueError: nothing is there; names what was looked for.
    """
    path = os.fspath(path)
    is_dir = remote_files.is_dir(path)
    directory = path if is_dir else os.path.dirname(path)
    if adapters.is_there(directory):
        return directory
    beside = (os.path.join(directory, file) for file in _ADAPTERS.files)
    if not remote_files.exists(os.path.join(directory, file_names.RUN)):
        _refuse([*filter(remote_files.exists, beside)])
    prefix = google.strip_ending(path)
    if google.is_file(prefix + google.INDEX_ENDING):
        return prefix
    is_file = not is_dir and remote_files.exists(path)
    if not is_dir and _HUGGING_FACE.has(path):
        path = directory or "."
    elif is_file and any(row.has(path, is_given=True) for row in _READ):
        return path
    if not remote_files.is_dir(path):
        _refuse([path] if is_file else [])
        raise errors.InputError(
            f"{path}: no checkpoint there (looked for {prefix}.index and for a "
            "directory); give a prefix such as DIR/bert_model.ckpt or its directory"
        )
    held, several = remote_files.matching(path, "*"), list[str]()
    names = [*map(os.path.basename, held)]
    if _STATE in names and (newest := latest(path)):
        return newest
    for row in _READ:
        named = [name for each in row.files for name in fnmatch.filter(names, each)]
        files = [*filter(google.is_file, (os.path.join(path, each) for each in named))]
        if files and row is _HUGGING_FACE:
            return path
        if files and row.is_sure and not several:
            return files[0]
        several += [] if row.is_sure else sorted(map(google.strip_ending, files))
        if len(several) == 1:
            return several[0]
    raise _nothing_found(path, held, several)


def _nothing_found(directory, held, several):
    """The error for a directory of these paths; ForeignError for those of the table."""
    if several:
        wrong = f"{len(several)} checkpoints there ({wording.first_of(several)})"
    else:
        _refuse_trainer(directory)
        _refuse_folders(directory)
        _refuse(held)
        names = sorted(map(os.path.basename, held))
        if others := [name for name in names if name.endswith(".safetensors")]:
            return errors.InputError(
                f"{directory}: weights are read of {hugging_face.WEIGHTS_FILE}, and "
                f"lie in {wording.first_of(others)}; rename the file of this model, or "
                f"of its parts add {hugging_face.INDEX_FILE}"
            )
        wrong = "no checkpoint in this directory"
        wrong += f" (it holds {wording.first_of(names)})" if names else ""
    return errors.InputError(
        f"{directory}: {wrong}; give a prefix such as DIR/bert_model.ckpt, or a "
        "directory with one checkpoint or model.safetensors"
    )


def _refuse(paths):
    """Raises ForeignError for the first of the paths that is in the table."""
    for row in _UNREAD:
        for path in filter(row.has, paths):
            raise foreign_tensors.ForeignError(f"{path} is not read ({row.why})")


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
    raise foreign_tensors.ForeignError(
        f"{directory} holds no weights but those of a training in "
        f"{wording.first_of(folders)}; give the directory of {which}"
    )


def _refuse_folders(directory):
    """Names the adapters in folders of a directory, as PEFT saves several."""
    pattern = os.path.join("*", file_names.ADAPTER_CONFIG)
    paths = map(os.path.dirname, remote_files.matching(directory, pattern))
    if folders := sorted(map(os.path.basename, paths)):
        raise foreign_tensors.ForeignError(
            f"{directory} holds no weights but those of adapters in "
            f"{wording.first_of(folders)}; give the directory of one of them"
        )


def is_there(path: str) -> bool:
    """Whether there are weights; a run that resumes does without its first ones.

    Raises:
        ForeignError: something else is there.
    """
    try:
        return bool(path and find(path))
    except foreign_tensors.ForeignError:
        raise
    except ValueError:
        return False


def latest(directory: str) -> str | None:
    """The checkpoint that the file `checkpoint` names, also in a copied directory."""
    if not remote_files.exists(os.path.join(directory, _STATE)):
        return None
    if (state := tf.train.get_checkpoint_state(directory)) is None:
        return None
    path = state.model_checkpoint_path
    paths = path, os.path.join(directory, os.path.basename(path))
    return next((path for path in paths if remote_files.exists(f"{path}.index")), None)


def open_file(path: Any, config: Any = None, *, is_needed: bool = True) -> Any:
    """Opens the weights that `find` finds, as a WeightsFile.

    The config decides to which network names without its prefix belong. None is
    returned where nothing is there and none is needed; a ForeignError stays one.
    """
    try:
        place = find(path) if path or is_needed else ""
    except foreign_tensors.ForeignError:
        raise
    except errors.InputError:
        if is_needed:
            raise
        place = ""
    if not place:
        return None
    if adapters.is_there(place):
        adapter = adapters.Adapter(place)
        return hugging_face.HuggingFaceFile(find_base(place), config, adapter)
    is_prefix = google.is_file(place + google.INDEX_ENDING)
    if "://" in place and not is_prefix:
        place = _copy_here(place)
    row = _GOOGLE if is_prefix else _HUGGING_FACE
    if not is_prefix and not remote_files.is_dir(place):
        row = next(row for row in _READ if row.has(place, is_given=True))
    assert row.opens  # of all in _READ
    return row.opens(place, config)


def find_base(directory: str) -> str:
    """The directory itself or, of an adapter alone, that of the model which it names.

    Raises:
        InputError: no Hugging Face's files of a model are there.
    """
    if not adapters.is_there(directory) or first(directory, _HUGGING_FACE.files):
        return directory
    name = adapters.Adapter(directory).base
    paths = name, os.path.join(directory, name)
    base = next(filter(remote_files.is_dir, paths if name else ()), "")
    if name and not base:
        base = download(name, "base_model_name_or_path")
    if adapters.is_there(base) or not first(base, _HUGGING_FACE.files):
        raise errors.InputError(
            f"{os.path.join(directory, file_names.ADAPTER_CONFIG)}: base_model_name_or_"
            f"path={name!r} holds no {hugging_face.WEIGHTS_FILE} of a model without "
            "adapter; put that into the directory"
        )
    return base


@functools.cache
def _copy_here(path):
    """Copies remote weights, for libraries that read local files alone; until exit."""
    if remote_files.is_dir(path):
        directory, name, pattern = path, "", "*.safetensors*"
    else:
        directory, name = os.path.split(path)
        pattern = name
    if name == tf_keras_h5.INDEX_FILE:
        pattern = "tf_model*.h5*"
    local = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, local, ignore_errors=True)
    for file in remote_files.matching(directory, pattern):
        tf.io.gfile.copy(file, os.path.join(local, os.path.basename(file)))
    return os.path.join(local, name) if name else local


def download(hub_id: str, name: str) -> str:
    """The directory with the files of a model on Hugging Face's hub, fetched once.

    Raises:
        InputError: the hub has no such model; messages call the id `name`.
    """
    hub_id = hub_ids.check(hub_id, name)
    folder, wanted = os.path.split(hub_id)
    beside = os.listdir(folder) if os.path.isdir(folder) else []
    near = difflib.get_close_matches(wanted, beside, 1)
    hint = f" (did you mean {folder}/{near[0]}?)" if near else ""
    try:
        import huggingface_hub
    except ImportError as error:
        raise errors.InputError(
            f"{name}={hub_id}: no such directory{hint}, and a download needs a package:"
            " pip install huggingface_hub"
        ) from error
    files = [file_names.BERT_CONFIG, file_names.HUGGING_FACE_CONFIG, file_names.HEAD]
    files += [file_names.GENERATION_CONFIG, file_names.SPECIAL_TOKENS]
    files += _ADAPTERS.files[:2]
    # Not GPT-2's and GPT's own names, which would be read before vocab.json.
    usual = {file_names.VOCAB_JSON, file_names.MERGES_TXT}
    older = {*file_names.MERGES, *file_names.MERGES.values()} - usual
    files += [name for name in file_names.OF_TOKENIZERS if name not in older]
    files += [*_HUGGING_FACE.files, hugging_face.SHARDS]
    files += sentence_transformers.WRITTEN[:3]
    files += [f"[0-9]_*/{file}" for file in files]
    get = functools.partial(huggingface_hub.snapshot_download, hub_id)
    try:
        directory = get(allow_patterns=files)
        if not any(pathlib.Path(directory).rglob("*.safetensors")):
            get(allow_patterns=[*tf_keras_h5.FILES, tf_keras_h5.SHARDS])
        return directory
    except (OSError, ValueError, huggingface_hub.errors.HfHubHTTPError) as error:
        raise errors.InputError(
            f"{name}={hub_id}: no such directory{hint}, and the hub does not give it "
            f"({str(error).splitlines()[0]})"
        ) from error
