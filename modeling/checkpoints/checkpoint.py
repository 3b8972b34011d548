"""Checkpoints of any format: compared with a config, and assigned to a model."""

import contextlib
import dataclasses
import operator
import threading

import keras
import numpy as np
from absl import logging
from keras import ops

from contract import errors, wording
from modeling.checkpoints import (
    foreign_tensors,
    names,
    places,
    sentence_transformers,
    weights_file,
)
from modeling.networks import catalogue
from terminal import progress

_REMEDY = "give the config file of this checkpoint"
_TRAIN = "add --do_train, or set --init_checkpoint to the checkpoint of a run"
_FLAG = ", or --allow_missing_weights to train them from random values"
_BUILDING = threading.RLock()


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """The account of every name, after `load`.

    `assigned` and `missing` are Google names of the model's variables, with a value and
    without one; `unused` are names in the file, without the `prefixes`.
    """

    source: str
    assigned: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    global_step: int | None
    prefixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        total = len(self.assigned) + len(self.missing)
        phrases = [f"{self.source}: {len(self.assigned)} of {total} variables assigned"]
        if self.prefixes:
            phrases.append(f"prefixes taken off: {', '.join(self.prefixes)}")
        if self.missing:
            phrases.append(f"newly initialised: {list_keys(self.missing)}")
        if self.unused:
            phrases.append(f"in the file but not used: {list_keys(self.unused)}")
        return "; ".join(phrases)


def check_file(config, file, *, allows_missing=None):
    """Compares a config with the header of a file, before a network is built.

    Args:
        allows_missing: whether layers and variables of the encoder may be missing; None
            where nothing is trained, so that messages do not offer it.

    Raises:
        ValueError: sizes differ, or what may not be missing is; names both numbers.
            Or the layers in the file have more tensors than the network.
    """
    sizes = file.sizes()
    depth = sizes.get(names.DEPTH, 0)
    if not sizes:
        raise errors.InputError(
            f"{file.source}: none of its {len(file.shapes)} variables belongs to a "
            f"BERT or another network ({min(file.shapes, default='-')!r}); choose "
            "another checkpoint"
        )
    if (kind := sizes[names.KIND]) != config.kind:
        raise errors.InputError(
            f"{file.source}: has weights of {kind}, but the config is of {config.kind};"
            f" {_REMEDY}"
        )
    differing = []
    for key, size in sizes.items():
        if key in (names.DEPTH, names.KIND):
            continue
        wanted = operator.attrgetter(key)(config)  # a key of a side has a dot
        # A file may lack the rows of special tokens.
        most = config.spec.new_tokens if key in ("vocab_size", "num_table_rows") else 0
        if wanted != size and not (most and 0 < wanted - size <= most):
            key = config.key_in_file(key)
            differing.append(f"{key}={wanted} (the file has {size})")
    if differing:
        raise errors.InputError(
            f"{file.source}: the config has {', '.join(differing)}; {_REMEDY}"
        )
    flag = "" if allows_missing is None else _FLAG
    if depth < config.num_blocks and allows_missing:
        return
    if depth < config.num_blocks:
        raise errors.InputError(
            f"{file.source}: the config has {config.key_in_file(config.blocks_field)}="
            f"{config.num_blocks}, but the file has {depth}; {_REMEDY}{flag}"
        )
    if file.format == "keras":  # where no variable can be missing
        return
    keys = [row.key(file.format) for row in names.network_rows(config)]
    missing = [key for key in keys if key not in file.shapes]
    if missing and not allows_missing:
        raise errors.InputError(
            f"{file.source}: lacks {wording.first_of(missing)} of the {len(keys)} "
            f"variables of the encoder; copy it again, or {_REMEDY}{flag}"
        )
    others = file.shapes.keys() - file.states.keys() - set(keys)
    foreign_tensors.check_left_over(file.source, keys, sorted(others))


@contextlib.contextmanager
def drawing_after():
    """A scope in which a model is built and assigned, and then its other weights drawn.

    A seed belongs to an initializer, so what is drawn has the values it would have had.
    Initializers draw theirs from one generator, so threads build one after another.
    """
    with _BUILDING, keras.StatelessScope():
        yield


def _give(variable, value):
    """Assigns a value, within `drawing_after` in the place of drawing one."""
    if variable._initializer is None:  # Keras keeps it until it has drawn
        variable.assign(value)
    else:
        variable._initializer = lambda *_, dtype: ops.convert_to_tensor(value, dtype)


def load(model, path, *, allows_missing=None, starts_head=False, file=None):
    """Assigns a built model what the checkpoint at `path` has, after `check_file`.

    `file` is the checkpoint there, if it is open.
    """
    file = file or places.open_file(path, model.config)
    check_file(model.config, file, allows_missing=allows_missing)
    beside = None
    if hasattr(model, "projections"):
        modules = sentence_transformers.read(path)
        beside = open_projections(modules, model.config, file)
    return assign(model, file, beside, starts_head=starts_head)


def assign(
    model, file: weights_file.WeightsFile, beside=None, *, starts_head=False
) -> LoadReport:
    """Assigns every variable of a built model that an open checkpoint has.

    run_classifier.py's init_from_checkpoint, which is silent about what it leaves out.
    `beside` has the projections that the file lacks, as of `open_projections`. With
    `starts_head` the rows of classes stay random, for those in the file are of others.

    Raises:
        ValueError: shapes differ, or a weight is not finite; names the variable.
    """
    assigned: list[str] = []
    missing: list[str] = []
    used, network = set(), model.config.spec
    rows, beside = names.named_variables(model), beside or {}
    for name, variable in progress.track(rows, len(rows), "loading weights: variable"):
        key, shape = name.key(file.format), tuple(variable.shape)
        if key in file.shapes:
            used.add(key)
        is_new = starts_head and name.path.startswith(names.CLASS_LAYERS)
        if is_new or (key not in file.shapes and name.path not in beside):
            missing.append(name.google)
            continue
        source, row = beside.get(name.path, (file, name))
        stored = source.shape_of(row)  # compared first: it may not fit into memory
        is_table = name.path == network.token_table
        if is_table and _lacks_tokens(stored, shape, network.new_tokens):
            stored = shape
        # The head of another task has other classes, or reads other layers.
        if stored != shape and name.path.startswith(names.TASK_PARTS):
            missing.append(name.google)
            continue
        if stored != shape:
            raise errors.InputError(
                f"{file.source}: {key} is {list(stored)}, the model wants "
                f"{list(shape)}; this checkpoint belongs to another config file"
            )
        value = source.read(row).astype(np.float32, copy=False)
        if is_table:
            value = _add_new_tokens(value, variable, model.config)
        if count := np.count_nonzero(~np.isfinite(value)):
            raise errors.InputError(
                f"{file.source}: {key} has {count} of {value.size} numbers that are nan"
                " or infinite in float32; copy it again, or take an earlier checkpoint"
            )
        _give(variable, value)
        assigned.append(name.google)
    unused = sorted(file.shapes.keys() - used - file.states.keys())
    depth = model.config.num_blocks
    if any((catalogue.layer_number(key) or 0) >= depth for key in unused):
        logging.warning(
            "%s: has %d layers, and the config has %s=%d; the last ones are not used",
            file.source,
            file.sizes()[names.DEPTH],
            model.config.key_in_file(model.config.blocks_field),
            depth,
        )
    return LoadReport(
        file.source,
        tuple(assigned),
        tuple(missing),
        tuple(unused),
        file.global_step,
        file.prefixes,
    )


def open_projections(modules, config, file=None):
    """{path of a variable: (open file, its row there)} of the projections in modules.

    `modules` may be None. An open checkpoint that has the projections goes first.

    Raises:
        InputError: they do not fit each other and the network, before any is built.
    """
    rows, beside, width = names.head_rows(config), {}, config.hidden_size
    for j, projection in enumerate(modules.text_vectors.projections if modules else ()):
        wanted = {"linear.weight": (projection.units, width)}
        if projection.use_bias:
            wanted["linear.bias"] = (projection.units,)
        width = projection.units
        keys = zip(wanted, ("kernel", "bias"), strict=False)
        parts = {key: rows[f"projection_{j}/{part}"] for key, part in keys}
        if file and parts["linear.weight"].key(file.format) in file.shapes:
            source, shapes = file, {}
            for key, row in parts.items():
                if row.key(file.format) in file.shapes:
                    shapes[key] = file.shape_of(row)[::-1]
        else:
            source = places.open_file(modules.projection_files[j])
            shapes = dict(source.shapes)
            for key, row in parts.items():
                beside[row.path] = source, dataclasses.replace(row, hugging_face=key)
        if shapes != wanted:
            raise errors.InputError(
                f"{source.source}: has {shapes}, and the modules before want {wanted}; "
                "give the files of one model"
            )
    return beside


def _lacks_tokens(stored, shape, most):
    """Whether a table in a file has all rows but those of `most` special tokens."""
    same = len(stored) == len(shape) and stored[1:] == shape[1:]
    return same and 0 < shape[0] - stored[0] <= most


def _add_new_tokens(value, variable, config):
    """A table of tokens, and those rows of the variable that the file lacks.

    Special tokens come after the others of a table, and before its positions.
    """
    if not (more := variable.shape[0] - len(value)):
        return value
    known = config.vocab_size - more
    new = np.asarray(variable)[known : config.vocab_size]
    return np.concatenate([value[:known], new, value[known:]])


def load_trained(model, path, *, allows_missing=None):
    """`load` for a model that will not be trained: the head must be in the file too."""
    if not path:
        raise errors.InputError(f"there is no trained model in --output_dir; {_TRAIN}")
    report = load(model, path, allows_missing=allows_missing)
    check_trained(model, report, _TRAIN)
    return report


def check_trained(model, report, remedy):
    """Raises InputError where answers of a model depend on weights that are random."""
    # Hugging Face's files of spans and tags have no pooler.
    needed = [n for n in report.missing if model.uses_pooler or "/pooler/" not in n]
    if needed:
        raise errors.InputError(f"{lacks(report.source, needed)}; {remedy}")


def lacks(source, needed):
    """What a file lacks of a trained model, in words."""
    return (
        f"{source}: lacks {wording.first_of(needed)} of a trained model of this task "
        "and number of labels"
    )


def list_keys(keys):
    """Keys in text, those of no layer first; beyond eight their number alone."""
    ordered = sorted(keys, key=lambda key: catalogue.layer_number(key) is not None)
    return wording.first_of(ordered, 8)
