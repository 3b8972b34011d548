"""Flags of convert_checkpoint.py."""

from absl import flags

from cli import command_line, model_flags
from contract import errors

FLAGS = flags.FLAGS
HEADS = (
    "auto",
    "none",
    "pretraining",
    "discriminator",
    "classifier",
    "tagger",
    "span",
    "language_model",
    "text_encoder",
    "seq2seq",
)


@command_line.heading("Model and vocabulary")
def define() -> None:
    """Which weights, in which format, and what else changes."""
    string, boolean, enum = flags.DEFINE_string, flags.DEFINE_bool, flags.DEFINE_enum
    string(
        "input",
        None,
        "Weights to convert: the directory of a release, of a run or of Hugging Face, "
        "the prefix of a checkpoint, or a .keras or .hdf5 file.",
    )
    enum(
        "head",
        "auto",
        HEADS,
        "Head to convert; auto detects it from the names in the input. A classifier "
        "and a tagger have the same names: set tagger if no file beside the weights "
        "decides. For an encoder-decoder, none converts the encoder alone, to a BERT.",
    )
    string(
        "pretrained",
        None,
        "Directory or Hugging Face hub id of the config, the vocabulary and, without "
        "--input, the weights. By default the files beside --input are used.",
    )
    model_flags.define_config_and_vocabulary()
    boolean(
        "do_lower_case",
        True,
        "Lower-case the text and remove accents: true for uncased models, false for "
        "cased models. By default the files beside the weights decide, if they "
        "indicate the case.",
    )
    with command_line.heading("What to do"):
        text = "Format to write; hdf5 is for ELMo alone and contains no head."
        enum("to", None, ["google", "hugging_face", "keras", "hdf5"], text)
        enum(
            "keras_file",
            "keras",
            ["keras", "weights"],
            "Type of the Keras file: .keras or .weights.h5.",
        )
        string(
            "add_tokens",
            None,
            "File with tokens to add to the vocabulary, one per line.",
        )
        text = (
            "Number of rows of the word embeddings; 0 for as many as the vocabulary "
            "needs."
        )
        flags.DEFINE_integer("resize_embeddings", 0, text, lower_bound=0)
    with command_line.heading("Output"):
        string("output_dir", None, "Output directory; it must be new or empty.")
        boolean("overwrite", False, "Replace an earlier conversion in --output_dir.")
    flags.mark_flags_as_required(["to", "output_dir"])


def check() -> None:
    """Raises ValueError where no input is named, or a local file is not there."""
    if not FLAGS.input and not FLAGS.pretrained:
        raise errors.InputError(
            "--input is missing; name a checkpoint or its directory"
        )
    command_line.check_files("input", remedy=model_flags.CHECKPOINT_REMEDY)
    command_line.check_files("bert_config_file", "vocab_file")


def check_network(network: str) -> None:
    """Refuses new tokens and rows for an ELMo."""
    if network == "elmo" and (FLAGS.add_tokens or FLAGS.resize_embeddings):
        raise errors.InputError(
            "--add_tokens and --resize_embeddings: an ELMo reads characters, or "
            "the words that it was trained on; leave them out"
        )
