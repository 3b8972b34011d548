"""Features for a comparison of two models: always the same for one config."""

import numpy as np

from contract import features as feature_names
from modeling.elmo import config as elmo_config


def of_config(config):
    """Features that are always the same for one config: 4 texts of up to 32 tokens."""
    rng = np.random.default_rng(0)
    length = min(32, config.max_position_embeddings)
    lengths = np.linspace(length, max(1, length // 4), 4).astype(int)[:, None]
    mask = (np.arange(length)[None] < lengths).astype(np.int32)
    segments = (np.arange(length)[None] >= lengths // 2).astype(np.int32)
    if config.network == "elmo" and config.reads_characters:
        shape = (*mask.shape, config.max_characters)
        ids = rng.integers(0, elmo_config.NUM_CHARACTERS, shape, np.int32) + 1
        ids *= mask[..., np.newaxis]
    else:
        ids = rng.integers(0, config.vocab_size, mask.shape, np.int32) * mask
    return {
        **_fixed_target(config, rng),
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": np.minimum(segments, max(config.type_vocab_size, 1) - 1) * mask,
        "masked_lm_positions": rng.integers(0, length // 4 or 1, (4, 2), np.int32),
    }


def _fixed_target(config, rng):
    """What a decoder reads beside, and predicts; {} for networks without one."""
    if config.network != "encoder_decoder":
        return {}
    length = min(16, config.decoder.max_position_embeddings)
    ids = rng.integers(0, config.num_outputs, (4, length + 1), np.int32)
    values = ids[:, :-1], np.ones((4, length), np.int32), ids[:, 1:]
    return dict(zip(feature_names.DECODER_INPUTS, values, strict=True))
