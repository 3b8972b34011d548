"""An encoder-decoder from checkpoints of BERT (Rothe et al., 2020), and back."""

import dataclasses

from modeling.checkpoints import checkpoint, names, weights_file
from modeling.networks.encoder_decoder import config as encoder_decoder_config


class _Renamed(weights_file.WeightsFile):
    """Variables of open files under the keys of another network.

    `places` is {key: (file, the row of the variable there)}.
    """

    def __init__(self, source, format, places):
        self.source, self.format, self._places = source, format, places
        self.shapes = {
            key: tuple(file.shapes[row.key(file.format)])
            for key, (file, row) in places.items()
        }
        held = {prefix for file, _ in places.values() for prefix in file.prefixes}
        self.prefixes = tuple(sorted(held))

    def shape_of(self, name):
        file, row = self._places[name.key(self.format)]
        return file.shape_of(row)

    def read(self, name):
        file, row = self._places[name.key(self.format)]
        return file.read(row)


def select_encoder(file, model):
    """The encoder in an open checkpoint of an encoder-decoder, as a built BERT's.

    Only Hugging Face's files may have its pooler.
    """
    rows = [name for name, _ in names.named_variables(model)]
    places = {
        row.key(file.format): (file, theirs)
        for row, theirs in zip(rows, names.side_rows("encoder", rows), strict=True)
        if theirs.key(file.format) in file.shapes
    }
    return _Renamed(f"{file.source} (encoder)", file.format, places)


def load(model, encoder, decoder=""):
    """Fills a built encoder-decoder from one BERT, or each side from one of its own.

    Attention to the source keeps its random values, and so does the head where the
    decoder's BERT has none that predicts masked tokens; both are missing in the report.
    A side with fewer layers takes the first ones of its BERT.

    Args:
        encoder, decoder: paths as in checkpoint.find; without the latter it is the
            former.

    Raises:
        ValueError: a file cannot be read, or is not of the config of its side.
    """
    places, sources = {}, []
    paths = encoder, decoder or encoder
    for side, path in zip(encoder_decoder_config.SIDES, paths, strict=True):
        config = getattr(model.config, side)
        config = dataclasses.replace(config, attention="bidirectional")
        file = checkpoint.open_file(path, config)
        checkpoint.check_file(config, file)
        rows = names.encoder_rows("BERT", config.num_hidden_layers)
        if side == "decoder":
            rows += names.masked_lm_rows(config)
        for row, ours in zip(rows, names.side_rows(side, rows), strict=True):
            if row.key(file.format) in file.shapes:
                places[ours.google] = file, row
        sources.append(f"{file.source} ({side})")
    return checkpoint.assign(model, _Renamed(", ".join(sources), "google", places))
