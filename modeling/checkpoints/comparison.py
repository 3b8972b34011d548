"""A config and the header of a checkpoint, compared before a network is built."""

import operator

from contract import errors, wording
from modeling.checkpoints import names

_REMEDY = "give the config file of this checkpoint"
_FLAG = ", or --allow_missing_weights to train them from random values"


def check(config, file, *, allows_missing=None):
    """Refuses a checkpoint.WeightsFile whose network is not the one of a config.

    Args:
        allows_missing: whether layers and variables of the encoder may be missing; None
            where nothing is trained, so that messages do not offer it.

    Raises:
        ValueError: sizes differ, or what may not be missing is; names both numbers.
    """
    sizes = file.sizes()
    depth = sizes.get(names.DEPTH, 0)
    if not sizes:
        raise errors.InputError(
            f"{file.source}: none of its {len(file.shapes)} variables belongs to a "
            "BERT, GPT, ELMo or encoder-decoder (the first is "
            f"{min(file.shapes, default='-')!r}); choose another checkpoint"
        )
    if (kind := sizes[names.KIND]) != config.kind:
        raise errors.InputError(
            f"{file.source}: has weights of {kind}, but the config is of {config.kind};"
            f" {_REMEDY}"
        )
    if differing := [
        f"{config.key_in_file(key)}={_said(config, key)} (the file has {size})"
        for key, size in sizes.items()
        if key not in (names.DEPTH, names.KIND) and not _fits(config, key, size)
    ]:
        raise errors.InputError(
            f"{file.source}: the config says {', '.join(differing)}; {_REMEDY}"
        )
    if allows_missing:
        return
    flag = "" if allows_missing is None else _FLAG
    if depth < config.num_hidden_layers:
        raise errors.InputError(
            f"{file.source}: the config says {config.key_in_file(names.DEPTH)}="
            f"{config.num_hidden_layers}, but the file has {depth}; {_REMEDY}{flag}"
        )
    if file.format == "keras":  # where no variable can be missing
        return
    keys = [row.key(file.format) for row in names.of_config(config)]
    if missing := [key for key in keys if key not in file.shapes]:
        raise errors.InputError(
            f"{file.source}: lacks {wording.first_of(missing)} of the {len(keys)} "
            f"variables of embeddings and encoder; copy the file again, or {_REMEDY}"
            f"{flag}"
        )


def _said(config, key):
    """What a config says, by a key that may have the name of a side before a dot."""
    return operator.attrgetter(key)(config)


def _fits(config, key, size):
    """Whether a size is the config's, or is without its special tokens alone."""
    said = _said(config, key)
    is_of_tokens = config.network == "gpt" and key in ("vocab_size", "num_table_rows")
    return said == size or (is_of_tokens and 0 < said - size <= names.NEW_TOKENS)
