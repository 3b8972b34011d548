"""Scores of written texts: exact match, ROUGE (Lin, 2004), BLEU and chrF.

ROUGE is rouge-score's, which T5's authors used, without a stemmer: it sees the letters
a to z and digits alone, so it says nothing of Chinese or Greek. BLEU (Papineni et al.,
2002) and chrF (Popovic, 2015) are sacrebleu's with its defaults, as WMT reports them,
but that BLEU of texts without four words is that of the n-grams there are.

Exact match and ROUGE are shares, 0..1; BLEU and chrF are 0..100, as in sacrebleu. No
TensorFlow.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from rouge_score import rouge_scorer, scoring, tokenizers
from sacrebleu.metrics import BLEU, CHRF

from contract import errors

EXACT_MATCH = "exact_match"
ROUGE = ("rouge1", "rouge2", "rougeL")  # F1 of words, pairs of words, subsequences
NAMES = (EXACT_MATCH, *ROUGE, "bleu", "chrf")
ROW_NAMES = (EXACT_MATCH, *ROUGE)  # that are means over rows


@dataclasses.dataclass(frozen=True)
class RowScores:
    """What is counted of each of N texts, so that any of them can be scored together.

    Attributes:
        shares: ROW_NAMES to float64 [N], 0..1.
        ngrams: int64 [N, 2, 4], right and written n-grams of 1 to 4 words.
        lengths: int64 [N, 2], words of what is written and of the target.
    """

    shares: dict[str, np.ndarray]
    ngrams: np.ndarray
    lengths: np.ndarray

    def of(self, rows: np.ndarray) -> dict[str, float]:
        """Scores over rows, int [K], which may repeat: NAMES but for chrF."""
        found = {
            name: float(values[rows].mean()) for name, values in self.shares.items()
        }
        right, written = self.ngrams[rows].sum(axis=0).tolist()
        length, wanted = self.lengths[rows].sum(axis=0).tolist()
        # Smoothed as by default; the option counts where nobody writes four words, and
        # BLEU of four would be 0 whatever is written.
        bleu = BLEU.compute_bleu(
            *(right, written, length, wanted), smooth_method="exp", effective_order=True
        )
        return found | {"bleu": float(bleu.score)}


def count(targets: Sequence[str], predictions: Sequence[str]) -> RowScores:
    """Compares each prediction with its target, of which there is one each."""
    words = tokenizers.DefaultTokenizer()
    rouge = rouge_scorer.RougeScorer(ROUGE[:2], tokenizer=words)
    # Only counts are taken of each row; the option spares a warning about its score.
    bleu = BLEU(effective_order=True)
    shares: dict[str, list[float]] = {name: [] for name in ROW_NAMES}
    ngrams, lengths = [], []
    for target, prediction in zip(targets, predictions, strict=True):
        shares[EXACT_MATCH].append(float(prediction == target))
        for name, score in rouge.score(target, prediction).items():
            shares[name].append(score.fmeasure)
        both = words.tokenize(target), words.tokenize(prediction)
        shares["rougeL"].append(_rouge_l(*both))
        counted = bleu.sentence_score(prediction, [target])
        ngrams.append([counted.counts, counted.totals])
        lengths.append([counted.sys_len, counted.ref_len])
    return RowScores(
        {name: np.array(values, np.float64) for name, values in shares.items()},
        np.array(ngrams, np.int64).reshape(-1, 2, 4),
        np.array(lengths, np.int64).reshape(-1, 2),
    )


def _rouge_l(target: Sequence[str], prediction: Sequence[str]) -> float:
    """rouge-score's rougeL of words, whose own search is quadratic in plain Python."""
    if not target or not prediction:
        return 0.0
    common = _longest_common(target, prediction)
    return scoring.fmeasure(common / len(prediction), common / len(target))


def _longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Words of the longest common subsequence, 64 places at a time (Hyyro, 2004)."""
    places: dict[str, int] = {}
    for index, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << index
    everywhere = unmatched = (1 << len(first)) - 1
    for word in second:
        matched = unmatched & places.get(word, 0)
        unmatched = (unmatched + matched | unmatched - matched) & everywhere
    return len(first) - unmatched.bit_count()


def score(
    targets: Sequence[str], predictions: Sequence[str], rows: RowScores
) -> dict[str, float]:
    """NAMES to scores over all texts; `rows` are their counts.

    Raises:
        ValueError: there is no text.
    """
    if not targets:
        raise errors.InputError(
            "there is no target to score with; give rows that have one"
        )
    chrf = CHRF().corpus_score(list(predictions), [list(targets)])
    return rows.of(np.arange(len(targets))) | {"chrf": float(chrf.score)}
