"""Whether two models, before and after a conversion, are the same."""

import keras
import numpy as np

from contract import errors
from modeling import token_heads
from modeling.checkpoints import names

TOLERANCE = 1e-5  # outputs of equal weights differ at most by the order of sums


def compare(first, second, missing=()):
    """Compares the weights of two models; returns the largest difference of an output.

    `second` may have more rows in its vocabulary, which are not compared, and takes the
    variables in `missing` (Google names) from `first`.

    Raises:
        ValueError: a weight differs, the configs do in more than the size of the
            vocabulary, or outputs differ by more than `TOLERANCE` or are not finite.
    """
    shape = first.config.network_alone()
    if shape != second.config.network_alone().with_vocab_size(shape.vocab_size):
        raise errors.InputError(
            f"the config was not kept: {shape} became {second.config}"
        )
    weights, others = names.named_variables(first), names.named_variables(second)
    for (name, value), (_, other) in zip(weights, others, strict=True):
        if name.google in missing:
            other.assign(value)
        ours, theirs = np.asarray(value), np.asarray(other)
        new = range(shape.vocab_size, second.config.vocab_size)
        theirs = np.delete(theirs, new, axis=0) if len(theirs) > len(ours) else theirs
        if not np.array_equal(ours, theirs, equal_nan=True):
            raise errors.InputError(f"{name.google} was not kept; nothing is written")
    batch = make_batch(first.config)
    outputs = zip(_outputs(first, batch), _outputs(second, batch), strict=True)
    largest = np.max([np.abs(x - y[..., : x.shape[-1]]).max() for x, y in outputs])
    if not largest <= TOLERANCE:  # nor if it is no number
        raise errors.InputError(
            f"the outputs before and after differ by {largest}; nothing is written: "
            "convert another copy of the weights"
        )
    return float(largest)


def _outputs(model, batch):
    if isinstance(model, token_heads.CausalLMMixin):  # logits, of tokens alone
        return [np.asarray(model.logits(batch))[..., : model.config.vocab_size]]
    if getattr(model, "sequences", "single") != "single":
        batch = {name: x.reshape(2, 2, -1) for name, x in batch.items()}
    return [np.asarray(x) for x in keras.tree.flatten(model(batch, training=False))]


def make_batch(config):
    """Features that are always the same for a config: 4 texts of up to 32 tokens."""
    rng = np.random.default_rng(0)
    length = min(32, config.max_position_embeddings)
    lengths = np.linspace(length, max(1, length // 4), 4).astype(int)[:, None]
    mask = (np.arange(length)[None] < lengths).astype(np.int32)
    segments = (np.arange(length)[None] >= lengths // 2).astype(np.int32)
    ids = config.spec.draw_ids(config, rng, mask)
    return {
        **config.spec.draw_more(config, rng),
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": np.minimum(segments, max(config.type_vocab_size, 1) - 1) * mask,
        "masked_lm_positions": rng.integers(0, length // 4 or 1, (4, 2), np.int32),
    }
