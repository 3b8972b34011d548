"""The vectors or attention maps that extract_features.py computes, and their layout."""

import dataclasses

from absl import flags

from cli import command_line, model_flags
from contract import features
from data_pipeline.extraction import attention
from data_pipeline.extraction import vectors as vector_files
from modeling.features import attention_maps, vectors

FLAGS = flags.FLAGS


def choose(config):
    """The vectors or maps that the flags name, checked against the network."""
    if FLAGS.attention:
        heads = command_line.numbers("heads", int)
        layers = command_line.numbers("layers", int) if FLAGS["layers"].present else ()
        return attention_maps.choose(config, layers, heads)
    names_layers = FLAGS["layers"].present or FLAGS.combine != "none"
    takes_all = FLAGS.output_format == "hdf5" or config.network == "elmo"
    choose_layers = vectors.choose
    if takes_all and not names_layers:
        choose_layers = vectors.choose_all
    return choose_layers(config, **model_flags.vector_choice())


def compute(model, choice, batch, training):
    """The chosen vectors or maps of a batch, and whose they are."""
    outputs, mask = model(batch, training=training), batch[features.INPUT_MASK]
    names = (features.UNIQUE_IDS, features.INPUT_IDS, features.INPUT_MASK)
    if isinstance(choice, attention_maps.AttentionSpec):
        values = attention_maps.compute(model.network, outputs, mask, choice)
    else:
        values = vectors.compute(outputs, mask, choice)
    return {"values": values, **{name: batch[name] for name in names}}


def layout(choice, size, tokenizer):
    """How the vectors, or maps, of the choice lie in a file."""
    kind: type
    common = {"num_lines": size.num_lines, "num_tokens": size.num_tokens}
    if isinstance(choice, attention_maps.AttentionSpec):
        kind, own = attention.AttentionLayout, dataclasses.asdict(choice)
        own["num_pairs"] = size.num_pairs
    else:
        kind, own = vector_files.VectorLayout, {"layers": choice.names}
        own |= {"width": choice.width, "of_tokens": choice.pooling == "none"}
        own["frame"] = (1, 1) if tokenizer.start_id is not None else (0, 0)
    return kind(spell=tokenizer.ids_to_tokens, **common, **own)
