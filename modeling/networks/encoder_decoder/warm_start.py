"""An encoder-decoder from checkpoints of BERT (Rothe et al., 2020)."""

import dataclasses

from modeling.checkpoints import checkpoint, places, weights_file
from modeling.networks import bert_names
from modeling.networks.encoder_decoder import config as encoder_decoder_config
from modeling.networks.encoder_decoder import spec


def load(model, encoder, decoder=""):
    """Fills a built encoder-decoder from one BERT, or each side from one of its own.

    Attention to the source keeps its random values, and so does the head where the
    decoder's BERT has none that predicts masked tokens; both are missing in the report.
    A side with fewer layers takes the first ones of its BERT.

    Args:
        encoder, decoder: paths as in places.find; without the latter it is the
            former.

    Raises:
        ValueError: a file cannot be read, or is not of the config of its side.
    """
    stored, sources = {}, []
    paths = encoder, decoder or encoder
    for side, path in zip(encoder_decoder_config.SIDES, paths, strict=True):
        config = getattr(model.config, side)
        config = dataclasses.replace(config, attention="bidirectional")
        file = places.open_file(path, config)
        checkpoint.check_file(config, file)
        rows = config.spec.rows(config)
        if side == "decoder":
            rows += bert_names.masked_lm_rows(config)
        for row, ours in zip(rows, spec.side_rows(side, rows), strict=True):
            if row.key(file.format) in file.shapes:
                stored[ours.google] = file, row
        sources.append(f"{file.source} ({side})")
    return checkpoint.assign(
        model, weights_file.Renamed(", ".join(sources), "google", stored)
    )
