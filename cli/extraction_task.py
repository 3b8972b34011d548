"""The vectors that extract_features.py computes, and their layout in a file."""

from absl import flags

from cli import model_flags
from contract import features
from data_pipeline.extraction import vectors as vector_files
from modeling.features import vectors

FLAGS = flags.FLAGS


def choose(config):
    """The vectors that the flags name, checked against the network."""
    names_layers = FLAGS["layers"].present or FLAGS.combine != "none"
    takes_all = FLAGS.output_format == "hdf5" or config.network == "elmo"
    if takes_all and not names_layers:
        return vectors.choose_all(config, **model_flags.vector_choice())
    return vectors.choose(config, **model_flags.vector_choice())


def compute(model, choice, batch, training):
    """The chosen vectors of a batch, and whose they are."""
    outputs, mask = model(batch, training=training), batch[features.INPUT_MASK]
    names = (features.UNIQUE_IDS, features.INPUT_IDS, features.INPUT_MASK)
    values = vectors.compute(outputs, mask, choice)
    return {"values": values, **{name: batch[name] for name in names}}


def layout(choice, size, tokenizer):
    """How the vectors of the choice lie in a file."""
    return vector_files.VectorLayout(
        num_lines=size.num_lines,
        num_tokens=size.num_tokens,
        layers=choice.names,
        width=choice.width,
        of_tokens=choice.pooling == "none",
        frame=(1, 1) if tokenizer.start_id is not None else (0, 0),
        spell=tokenizer.ids_to_tokens,
    )
