"""An encoder-decoder from checkpoints of BERT (Rothe et al., 2020), and back."""

import dataclasses

from modeling.checkpoints import checkpoint, comparison, names
from modeling.encoder_decoder import config as encoder_decoder_config


class _TwoBerts:
    """Open checkpoints of BERT as one of an encoder-decoder.

    It is a checkpoint.WeightsFile without attention to the source, which no BERT has,
    and with what it lacks beside layers and embeddings missing.
    """

    format = "google"
    states: frozenset[str] = frozenset()
    global_step: int | None = None

    def __init__(self, config, files):
        self._places = {}
        for side, file in files.items():
            rows = names.encoder("BERT", getattr(config, side).num_hidden_layers)
            if side == "decoder":
                rows += names.masked_lm()
            for row, ours in zip(rows, names.of_side(side, rows), strict=True):
                if row.key(file.format) in file.shapes:
                    self._places[ours.google] = file, row
        told = (f"{file.source} ({side})" for side, file in files.items())
        self.source = ", ".join(told)

    @property
    def shapes(self):
        return {
            key: tuple(file.shapes[row.key(file.format)])
            for key, (file, row) in self._places.items()
        }

    def read(self, name):
        """The array of a names.Name."""
        file, row = self._places[name.google]
        return file.read(row)


class Encoder:
    """The encoder in an open checkpoint of an encoder-decoder, as of a BERT.

    It is a checkpoint.WeightsFile for a built models.BertModel, and says nothing of
    the decoder. Hugging Face's may have a pooler, others have none.
    """

    states: frozenset[str] = frozenset()
    global_step: int | None = None

    def __init__(self, file, model):
        self._file, self.format = file, file.format
        self.source = f"{file.source} (encoder)"
        rows = [name for name, _ in names.named_variables(model)]
        of_encoder = names.of_side("encoder", rows)
        self._rows = dict(zip(rows, of_encoder, strict=True))

    @property
    def shapes(self):
        """{key of a BERT: shape as stored}."""
        stored = self._file.shapes
        keys = {
            row.key(self.format): theirs.key(self.format)
            for row, theirs in self._rows.items()
        }
        return {key: tuple(stored[k]) for key, k in keys.items() if k in stored}

    def read(self, name):
        """The array of a names.Name of a BERT."""
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
        comparison.check(config, files[side])
    return checkpoint.assign(model, _TwoBerts(model.config, files))
