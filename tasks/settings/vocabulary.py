"""Settings of build_vocab.py: which text, which vocabulary, and where it goes."""

import dataclasses
from typing import ClassVar

from contract import errors, file_names
from tasks.settings import fields, model

WORD_PIECE, BYTE_PAIR, WORD = "word_piece", "byte_pair", "word"
_OF_PIECES = {"kind": WORD_PIECE}


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularySettings(fields.Settings):
    """Which text, which vocabulary, and where it goes."""

    program: ClassVar[str] = "build_vocab"

    input_file: str = fields.data(
        fields.REQUIRED,
        "Comma-separated text files or globs; files may be compressed (.gz).",
        path=True,
    )
    num_workers: int = fields.processes(
        0,
        "Number of processes; 0 for one per core. The output does not depend on it.",
        least=0,
    )
    kind: str = fields.model(
        WORD_PIECE,
        "word_piece: as in BERT. byte_pair: as in GPT-2; cased, spells every text "
        "without loss, and ends in <|endoftext|>. word: as in ELMo; <S>, </S>, <UNK>, "
        "then words by frequency.",
        choices=[WORD_PIECE, BYTE_PAIR, WORD],
    )
    split_words: str | None = fields.again(
        model.VocabularyChecks, "split_words", None, only_with={"kind": WORD}
    )
    vocab_size: int = fields.model(
        30522, "Maximum number of entries in the vocabulary.", least=6
    )
    do_lower_case: bool = fields.model(
        True,
        "Lower-case the text and remove accents: true for uncased models, false for "
        "cased models.",
        only_with=_OF_PIECES,
    )
    num_unused_tokens: int = fields.model(
        99,
        "Number of free entries [unused0], [unused1], ... for your own tokens. With "
        "99, [UNK], [CLS], [SEP] and [MASK] are 100 to 103, as in released "
        "vocabularies.",
        least=0,
        only_with=_OF_PIECES,
    )
    min_character_frequency: int = fields.model(
        1,
        "Minimum frequency of a character; rarer characters become [UNK], together "
        "with their word.",
        least=1,
        only_with=_OF_PIECES,
    )
    base_config_file: str | None = fields.model(
        None,
        "Config of the model to train, such as configs/bert_tiny.json; it is copied "
        "to --output_config_file.",
        is_config=True,
        path=True,
    )
    output_file: str = fields.output(
        fields.REQUIRED,
        "Vocabulary file to write, one entry per line. For --kind=byte_pair: a "
        "vocab.json, with merges.txt beside it.",
        path=True,
    )
    output_config_file: str | None = fields.output(
        None,
        "File for a copy of --base_config_file with the size of this vocabulary as "
        "vocab_size.",
        path=True,
    )

    def check(self) -> None:
        """Refuses what does not belong to the kind, and files that are not there."""
        super().check()
        name, path = file_names.VOCAB_JSON, str(self.output_file)
        errors.refuse(
            (
                self.kind == BYTE_PAIR and not path.endswith(name),
                f"--output_file={path}: the name of byte pairs ends in {name}; choose "
                "another",
            ),
            (
                bool(self.base_config_file) != bool(self.output_config_file),
                "--base_config_file and --output_config_file belong together: the "
                "config to start from, and where it goes with the size of this "
                "vocabulary",
            ),
        )
        self.check_files("input_file")
