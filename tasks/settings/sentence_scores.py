"""Settings of score_sentences.py: sentences or pairs, and how tokens are predicted."""

import dataclasses
from typing import ClassVar

from contract import errors
from data_pipeline.generation import minimal_pairs, sentence_scores
from tasks.settings import devices, fields, model


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceScoresSettings(devices.OneDevice, model.Model):
    """Sentences or pairs of them, how tokens are predicted, and what is written."""

    program: ClassVar[str] = "score_sentences"
    needs_weights: ClassVar[bool] = True

    input_file: str = fields.data(
        fields.REQUIRED,
        "Comma-separated files or globs: a sentence a line, or an object with `text` "
        "in a .jsonl file; or pairs.",
        path=True,
    )
    pairs: str = fields.data(
        "none",
        "Pairs of a right and a wrong sentence, of which the network should find the "
        "right one likelier. blimp: objects with sentence_good, sentence_bad and UID. "
        "zorro: two lines a pair, the wrong one first. good_first: the right one "
        "first.",
        choices=["none", *minimal_pairs.FORMS],
    )
    batch_size: int = fields.data(64, "Number of sequences to read together.", least=1)
    masking: str = fields.scores(
        sentence_scores.TOKEN,
        "What a network that fills masks does not see while it predicts a token. "
        "token: the token. word: also those after it in its word. none: it sees all, "
        "and one pass predicts all tokens.",
        choices=list(sentence_scores.MASKINGS),
    )
    mean: bool = fields.scores(
        False, "Score a sentence by the mean over its tokens instead of the sum."
    )
    output_file: str | None = fields.output(
        None,
        "JSONL file for the scores; an existing file is replaced.",
        path=True,
    )

    def check(self) -> None:
        """Refuses a file without a name."""
        errors.refuse((not self.input_file, "--input_file is empty; name a file"))
        super().check()
