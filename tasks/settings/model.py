"""Settings of the network and its vocabulary, of every command that runs one."""

import dataclasses
from typing import ClassVar

from contract import errors, hub_ids
from tasks.settings import fields

CHECKPOINT_REMEDY = "give a prefix such as DIR/bert_model.ckpt, or its directory"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyChecks(fields.Settings):
    """Whether a vocabulary and the files beside it are compared with what is done."""

    check_case: bool = fields.model(
        True,
        "Refuse a vocabulary that contradicts --do_lower_case.",
        changes=fields.ANSWERS,
    )
    check_tokenizer: bool = fields.model(
        True,
        "Refuse a tokenizer whose files have settings that are not supported, and "
        "texts of which more than half of the words are unknown to the vocabulary.",
        changes=fields.ANSWERS,
    )
    split_words: str | None = fields.model(
        None,
        "How to split a text into words for ELMo and word pieces: at whitespace alone, "
        "for tokenised sentences, or as BERT does, for other text. By default the "
        "value in tokenizer_config.json or tokenizer.json beside the vocabulary, or "
        "else whitespace for ELMo and punctuation for BERT.",
        choices=["whitespace", "punctuation"],
        changes=fields.ANSWERS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigAndVocabulary(VocabularyChecks):
    """The files beside the weights, and whether to compare them."""

    bert_config_file: str | None = fields.model(
        None,
        "Config file of the model, such as bert_config.json or config.json.",
        is_config=True,
        path=True,
        changes=fields.NOTHING,
    )
    vocab_file: str | None = fields.model(
        None, "Vocabulary file of the model.", path=True, changes=fields.NOTHING
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(ConfigAndVocabulary):
    """Which network and vocabulary."""

    needs_weights: ClassVar[bool] = False  # without which a command cannot begin

    pretrained: str | None = fields.model(
        None,
        "Directory of a pretrained model (an unpacked release of Google, files of "
        "Hugging Face, or an output_dir), or its id on the Hugging Face hub. It "
        "replaces --bert_config_file, --vocab_file and --init_checkpoint; each of "
        "these overrides its part.",
        path=True,
        changes=fields.NOTHING,
        in_python=False,
    )
    init_checkpoint: str | None = fields.model(
        None,
        "Initial checkpoint: a prefix, a file or a directory.",
        path=True,
        changes=fields.NOTHING,
        on_workers=True,
    )
    do_lower_case: bool = fields.model(
        True,
        "Lower-case the text and remove accents: true for uncased models, false for "
        "cased models. By default the directory of --pretrained decides, if it "
        "indicates the case.",
        changes=fields.ANSWERS,
    )

    @property
    def lengths(self) -> dict[str, int]:
        """{name: tokens} of how much is read; of inputs comes first."""
        return {}

    def check(self) -> None:
        """Refuses a file that is not named, or is local and not there."""
        super().check()
        self.check_named()
        self.check_files(
            "bert_config_file",
            "vocab_file",
            remedy="give the file that lies beside the checkpoint",
        )
        output_dir = getattr(self, "output_dir", None)
        if not (output_dir and fields.is_there(output_dir)):
            # A run that is resumed can do without it.
            self.check_files("init_checkpoint", remedy=CHECKPOINT_REMEDY)
        if self.pretrained and not fields.is_there(self.pretrained):
            hub_ids.check(self.pretrained, "--pretrained")

    def check_named(self) -> None:
        """Refuses where neither a file is named nor `pretrained`."""
        for name in ("bert_config_file", "init_checkpoint")[: 1 + self.needs_weights]:
            if not (getattr(self, name) or self.pretrained):
                raise errors.InputError(
                    f"--{name} is missing; set it, or set --pretrained to the "
                    "directory of a model"
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxSeqLength(Model):
    """A network that reads so many tokens of an input."""

    max_seq_length: int = fields.model(
        128,
        "Maximum number of tokens per sequence, including [CLS] and [SEP]; longer "
        "texts are truncated.",
        least=4,
    )

    @property
    def lengths(self) -> dict[str, int]:
        """{name: tokens} of how much is read."""
        return {"max_seq_length": self.max_seq_length}
