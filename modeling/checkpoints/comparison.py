"""A config and the header of a checkpoint, compared before a network is built."""

from contract import wording
from modeling.checkpoints import names

_REMEDY = "give the config file of this checkpoint"
_FLAG = ", or --allow_missing_weights to train them from random values"


def check(config, file, *, allows_missing=None):
    """Refuses a checkpoint.WeightsFile whose encoder is not the one of a BertConfig.

    Args:
        allows_missing: whether layers and variables of the encoder may be missing; None
            where nothing is trained, so that messages do not offer it.

    Raises:
        ValueError: sizes differ, or what may not be missing is; names both numbers.
    """
    sizes = file.sizes()
    depth = sizes.get(names.DEPTH, 0)
    if not sizes:
        raise ValueError(
            f"{file.source}: none of its {len(file.shapes)} variables belongs to a "
            f"BERT model (the first is {min(file.shapes, default='-')!r}); choose "
            "another checkpoint"
        )
    if differing := [
        f"{key}={getattr(config, key)} (the file has {size})"
        for key, size in sizes.items()
        if key != names.DEPTH and size != getattr(config, key)
    ]:
        raise ValueError(
            f"{file.source}: the config says {', '.join(differing)}; {_REMEDY}"
        )
    if allows_missing:
        return
    flag = "" if allows_missing is None else _FLAG
    if depth < config.num_hidden_layers:
        raise ValueError(
            f"{file.source}: the config says num_hidden_layers="
            f"{config.num_hidden_layers}, but the file has {depth}; {_REMEDY}{flag}"
        )
    if file.format == "keras":  # where no variable can be missing
        return
    rows = names.encoder(config.num_hidden_layers)
    keys = [row.key(file.format) for row in rows]
    if missing := [key for key in keys if key not in file.shapes]:
        raise ValueError(
            f"{file.source}: lacks {wording.first_of(missing)} of the {len(keys)} "
            f"variables of embeddings and encoder; copy the file again, or {_REMEDY}"
            f"{flag}"
        )
