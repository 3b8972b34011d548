"""Settings of convert_checkpoint.py: from which files to which."""

import dataclasses
from typing import Any, ClassVar

from contract import errors
from tasks.settings import fields, model

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionSettings(model.ConfigAndVocabulary):
    """From which files to which."""

    program: ClassVar[str] = "convert_checkpoint"

    input: str | None = fields.model(
        None,
        "Weights to convert: the directory of a release, of a run or of Hugging Face, "
        "the prefix of a checkpoint, or a .keras, .hdf5 or tf_model.h5 file.",
        path=True,
    )
    head: str = fields.model(
        "auto",
        "Head to convert; auto detects it from the names in the input. A classifier "
        "and a tagger have the same names: set tagger if no file beside the weights "
        "decides. For an encoder-decoder, none converts the encoder alone, to a BERT.",
        choices=HEADS,
    )
    pretrained: str | None = fields.model(
        None,
        "Directory or Hugging Face hub id of the config, the vocabulary and, without "
        "--input, the weights. By default the files beside --input are used.",
        path=True,
    )
    do_lower_case: bool = fields.model(
        True,
        "Lower-case the text and remove accents: true for uncased models, false for "
        "cased models. By default the files beside the weights decide, if they "
        "indicate the case.",
    )
    to: str = fields.what_to_do(
        fields.REQUIRED,
        "Format to write; hdf5 is for ELMo alone, without a head.",
        choices=["google", "hugging_face", "hdf5"],
    )
    add_tokens: str | None = fields.what_to_do(
        None, "File with tokens to add to the vocabulary, one per line.", path=True
    )
    resize_embeddings: int = fields.what_to_do(
        0,
        "Number of rows of the word embeddings; 0 for as many as the vocabulary needs.",
        least=0,
    )
    output_dir: str = fields.output(
        fields.REQUIRED,
        "Output directory; it must be new or empty.",
        path=True,
        is_directory=True,
    )
    overwrite: bool = fields.output(
        False, "Replace an earlier conversion in --output_dir."
    )

    def check(self) -> None:
        """Refuses a conversion without input, or a local file that is not there."""
        super().check()
        if not self.input and not self.pretrained:
            raise errors.InputError(
                "--input is missing; name a checkpoint or its directory"
            )
        self.check_files("input", remedy=model.CHECKPOINT_REMEDY)
        self.check_files("bert_config_file", "vocab_file", "add_tokens")

    def check_network(self, config: Any) -> None:
        """Refuses new tokens and rows for an ELMo."""
        grows = self.add_tokens or self.resize_embeddings
        if config.spec.reads_characters and grows:
            raise errors.InputError(
                "--add_tokens and --resize_embeddings: an ELMo reads characters, or "
                "the words that it was trained on; leave them out"
            )
