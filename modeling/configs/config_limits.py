"""What a config allows: tokens, lengths, pairs of texts, and the machine's memory."""

import os

from absl import logging

from contract import errors

SPARE_ROWS = 127  # some releases round their table up to a multiple of 8 to 128 rows


def check_sizes(config, vocab_size, files, max_seq_length, file=None):
    """Refuses a vocabulary or a length that the network has no embeddings for.

    More than SPARE_ROWS rows without a token are right where an open `file` has them.
    """
    more = 0 if config.spec.reads_characters else config.vocab_size - vocab_size
    if not 0 <= more <= SPARE_ROWS:
        sizes = (
            f"{files.vocab_file} has {vocab_size} entries, added ones included, but "
            f"{files.config_file} has vocab_size={config.vocab_size}"
        )
        sizes_there = file.sizes() if file else {}
        rows = map(sizes_there.get, ("vocab_size", "encoder.vocab_size"))
        if more < 0 or config.vocab_size not in rows:
            raise errors.InputError(f"{sizes}; give the two files of one release")
        logging.warning("%s; the %d last rows are of no token", sizes, more)
    if config.spec.has_decoder and config.num_outputs != config.vocab_size:
        raise errors.InputError(
            f"{files.config_file}: the encoder has {config.vocab_size} tokens, the "
            f"decoder {config.num_outputs}; give a model whose sides share them"
        )
    if max_seq_length > config.max_position_embeddings:
        raise errors.InputError(
            f"Cannot use sequence length {max_seq_length} because the {config.kind} "
            f"model was only trained up to sequence length "
            f"{config.max_position_embeddings} ({files.config_file}); lower "
            "--max_seq_length"
        )


def check_segments(config, path):
    """Refuses pairs of texts for a network whose table has one segment.

    Differs from google-research/bert: Pairs of texts are refused where
    `type_vocab_size` is 1. The original adds nothing for the tokens of the second
    segment.
    """
    if config.type_vocab_size == 1:
        raise errors.InputError(
            f"{path}: type_vocab_size is 1, and the examples are pairs of texts; give "
            "single texts or another model"
        )


def check_memory(config, path):
    """Refuses a network whose weights alone need more than the machine's memory."""
    needed = 4 * config.num_weights()  # bytes of float32
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on every system
        return
    if needed > memory:
        raise errors.InputError(
            f"{path}: {config.num_weights():,} weights are {needed / 1e9:,.0f} GB, and "
            f"this machine has {memory / 1e9:,.0f} GB; correct the sizes, such as "
            f"num_hidden_layers={config.num_hidden_layers}"
        )
