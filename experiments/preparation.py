"""Vocabularies and records that all networks learn from."""

import contextlib
import glob
import itertools
import os
from collections.abc import Sequence

from contract import errors
from data_pipeline.tables import text_rows
from data_pipeline.text import wordpiece
from experiments import stages
from modeling.checkpoints import output_directory

# Flags that cut a corpus into records, by name; TEXTS are its lines, dealt over files.
CORPORA = {
    "stretches": ("--objective=left_to_right",),
    "next": ("--masking=none", "--sentence_task=next"),
    "order": ("--masking=none", "--sentence_task=order"),
}
TEXTS = "texts"
_TEXT_FILES = 32  # ELMo holds two of them in memory
_SPLITS = ("train", "held_out")
_SAMPLE_LINES = 5000  # for the number of pieces in a word


class Corpus:
    """Files of text, held-out ones among them, with vocabularies and records.

    Args:
        directory: for vocabularies and records.
        train, held_out: globs, separated by commas.

    Raises:
        InputError: a glob has no file, or no file is left to train on.
    """

    def __init__(
        self,
        directory: str,
        train: str,
        held_out: str,
        *,
        vocab_size: int,
        max_seq_length: int,
    ) -> None:
        held = _match("held_out_files", held_out)
        files = [f for f in _match("corpus_files", train) if f not in held]
        if not files:
            raise errors.InputError(
                f"--corpus_files={train} are all among --held_out_files={held_out}; "
                "leave some text for training"
            )
        self._directory = directory
        self.texts = dict(zip(_SPLITS, (files, held), strict=True))
        self._vocab_size, self._max_seq_length = vocab_size, max_seq_length

    @property
    def vocab_file(self) -> str:
        """Word pieces, for all networks but ELMo."""
        return os.path.join(self._directory, "pieces", "vocab.txt")

    @property
    def words_file(self) -> str:
        """Words that ELMo learns to predict."""
        return os.path.join(self._directory, "words", "vocab.txt")

    def path(self, corpus: str, split: str) -> str:
        """The value of --input_file of run_pretraining.py."""
        if corpus == TEXTS and split == "train":
            return os.path.join(self._directory, TEXTS, "*.txt")
        if corpus == TEXTS:
            return ",".join(self.texts[split])
        return os.path.join(self._directory, corpus, f"{split}.tfrecord")

    def _vocabulary(self, unit: str, path: str, *flags: str) -> stages.Stage:
        command = (
            "build_vocab.py",
            *flags,
            f"--input_file={','.join(self.texts['train'])}",
            f"--vocab_size={self._vocab_size}",
            f"--output_file={path}",
        )
        return stages.Stage(f"vocabulary of {unit}", os.path.dirname(path), command)

    def stages(self, corpora: Sequence[str]) -> list[stages.Stage]:
        """Builds vocabularies and the named corpora, in order."""
        steps = [self._vocabulary("word pieces", self.vocab_file)]
        if TEXTS in corpora:
            words = "--kind=word", "--split_words=punctuation"
            steps.append(self._vocabulary("words", self.words_file, *words))
        for corpus, split in ((c, s) for c in corpora if c != TEXTS for s in _SPLITS):
            path = self.path(corpus, split)
            command = (
                "create_pretraining_data.py",
                f"--input_file={','.join(self.texts[split])}",
                f"--vocab_file={self.vocab_file}",
                f"--max_seq_length={self._max_seq_length}",
                *CORPORA[corpus],
                f"--output_file={path}",
            )
            title = f"records: {corpus}, {split.replace('_', ' ')}"
            steps.append(stages.Stage(title, f"{path}.stage", command))
        return steps

    def deal(self) -> None:
        """Deals the lines of the training text over new files, one to each in turn.

        ELMo reads file by file, and shuffles the sentences of each; so every file has
        to be a sample of the whole text, or the network ends as one of the last file.
        """
        directory = os.path.join(self._directory, TEXTS)
        if os.path.exists(directory):
            return
        with (
            output_directory.complete(directory) as place,
            contextlib.ExitStack() as stack,
        ):
            paths = [os.path.join(place, f"{n:02d}.txt") for n in range(_TEXT_FILES)]
            files = [stack.enter_context(open(p, "w", -1, "utf-8")) for p in paths]
            turns = itertools.cycle(files)
            for path in self.texts["train"]:
                for _, text in text_rows.lines(path):
                    if text.strip():  # no empty line, which ends a document
                        next(turns).write(f"{text}\n")

    def pieces_per_word(self) -> float:
        """Word pieces that a word or mark has on average, in a file that is dealt."""
        tokenizer = wordpiece.BertTokenizer.from_file(self.vocab_file)
        path = sorted(glob.glob(self.path(TEXTS, "train")))[0]
        with open(path, encoding="utf-8") as file:
            lines = [line for line, _ in zip(file, range(_SAMPLE_LINES), strict=False)]
        pieces = tokenizer.tokenize(lines).flat_values
        return len(pieces) / len(tokenizer.pretokenize(lines).flat_values)


def _match(flag: str, globs: str) -> list[str]:
    """The files of globs, sorted; InputError where one has none."""
    files: set[str] = set()
    for pattern in filter(None, map(str.strip, globs.split(","))):
        if not (matches := glob.glob(pattern)):
            raise errors.InputError(
                f"--{flag}: no file matches {pattern}; correct the path"
            )
        files |= set(map(os.path.abspath, matches))
    if not files:
        raise errors.InputError(
            f"--{flag} names no file; give text files with one sentence per line"
        )
    return sorted(files)
