"""An encoder-decoder from checkpoints of BERT (Rothe et al., 2020), and back."""

import dataclasses

from modeling.checkpoints import checkpoint, names, weights_file
from modeling.encoder_decoder import config as encoder_decoder_config


class _TwoBerts(weights_file.WeightsFile):
    """Open checkpoints of BERT as one of an encoder-decoder.

    No BERT has attention to the source, so that is missing.
    """

    format = "google"

    def __init__(self, config, files):
        self._places, self.shapes = {}, {}
        for side, file in files.items():
            depth = getattr(config, side).num_hidden_layers
            rows = names.encoder_rows("BERT", depth)
            if side == "decoder":
                rows += names.masked_lm_rows()
            for row, ours in zip(rows, names.side_rows(side, rows), strict=True):
                if (key := row.key(file.format)) in file.shapes:
                    self._places[ours.google] = file, row
                    self.shapes[ours.google] = file.shapes[key]
        sources = (f"{file.source} ({side})" for side, file in files.items())
        self.source = ", ".join(sources)

    def read(self, name):
        file, row = self._places[name.google]
        return file.read(row)


class Encoder(weights_file.WeightsFile):
    """The encoder in an open checkpoint of an encoder-decoder, as a built BERT's.

    The decoder is not part of it. Hugging Face's may have a pooler, others have none.
    """

    def __init__(self, file, model):
        self._file, self.format = file, file.format
        self.source = f"{file.source} (encoder)"
        rows = [name for name, _ in names.named_variables(model)]
        self._rows = dict(zip(rows, names.side_rows("encoder", rows), strict=True))
        keys = {row.key(self.format): self._rows[row].key(self.format) for row in rows}
        stored = file.shapes
        self.shapes = {key: stored[k] for key, k in keys.items() if k in stored}

    def read(self, name):
        return self._file.read(self._rows[name])


def load(model, encoder, decoder=""):
    """Fills a built encoder-decoder from one BERT, or each side from one of its own.

    Attention to the source keeps its random values, and so does the head where the
    decoder's BERT has none that predicts masked tokens; the report says so. A side with
    fewer layers takes the first ones of its BERT.

    Args:
        encoder, decoder: paths as in checkpoint.find; without the latter it is the
            former.

    Raises:
        ValueError: a file cannot be read, or is not of the config of its side.
    """
    files = {}
    paths = encoder, decoder or encoder
    for side, path in zip(encoder_decoder_config.SIDES, paths, strict=True):
        config = getattr(model.config, side)
        config = dataclasses.replace(config, attention="bidirectional")
        files[side] = checkpoint.open_file(path, config)
        checkpoint.check_file(config, files[side])
    return checkpoint.assign(model, _TwoBerts(model.config, files))
