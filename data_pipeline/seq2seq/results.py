"""Texts that a network wrote: decoded, scored, and written to files.

Scores are exact match, ROUGE (Lin, 2004), BLEU and chrF. ROUGE is rouge-score's, which
T5's authors used, without a stemmer: it sees the letters a to z and digits alone, so it
is 0 for Chinese or Greek. BLEU (Papineni et al., 2002) and chrF (Popovic, 2015) are
sacrebleu's with its defaults, as WMT reports them, but that BLEU of texts without four
words is that of the n-grams there are. Exact match and ROUGE are shares, 0..1; BLEU and
chrF are 0..100, as in sacrebleu. Both packages are imported to score alone.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, file_names
from contract import outcomes as outcomes_lib
from data_pipeline.seq2seq import split

EXACT_MATCH = "exact_match"
ROUGE = ("rouge1", "rouge2", "rougeL")  # F1 of words, pairs of words, subsequences
NAMES = (EXACT_MATCH, *ROUGE, "bleu", "chrf")
ROW_NAMES = (EXACT_MATCH, *ROUGE)  # that are means over rows
# Whatever ends a line for somebody who reads the file, str.splitlines among them.
_LINE_ENDS = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_DIGITS = 6  # of shares


@dataclasses.dataclass(frozen=True)
class RowScores:
    """Counts of each of N texts, from which any of them can be scored together."""

    shares: dict[str, np.ndarray]  # ROW_NAMES to float64 [N], 0..1
    ngrams: np.ndarray  # int64 [N, 2, 4], right and written ones of 1 to 4 words
    lengths: np.ndarray  # int64 [N, 2], words of the written text and of the target

    def score(self, rows: np.ndarray) -> dict[str, float]:
        """Scores over rows, int [K], which may repeat: NAMES but for chrF."""
        means = {
            name: float(values[rows].mean()) for name, values in self.shares.items()
        }
        right, written = self.ngrams[rows].sum(axis=0).tolist()
        length, wanted = self.lengths[rows].sum(axis=0).tolist()
        from sacrebleu.metrics import BLEU

        # Without the last option BLEU of texts of fewer than four words is 0.
        bleu = BLEU.compute_bleu(
            right, written, length, wanted, smooth_method="exp", effective_order=True
        )
        return means | {"bleu": float(bleu.score)}


def decide(
    data: split.PairSplit,
    outputs: Mapping[str, np.ndarray],
    decode: Callable[[tf.Tensor], tf.Tensor],
) -> outcomes_lib.Scored:
    """Decodes and, where targets are known, scores; details are the RowScores.

    `outputs` are "ids", int [N, T], for `decode`, and "losses", float [N], means of
    -log p over a target.
    """
    ids = outputs["ids"]
    texts: list[str] = []
    for start in range(0, len(ids), split.CHUNK_ROWS):
        part = decode(tf.constant(ids[start : start + split.CHUNK_ROWS], tf.int32))
        texts += [text.decode("utf-8") for text in part.numpy()]
    if data.target_splits is None:
        return outcomes_lib.Scored(predictions=texts)
    rows = count(data.spelled, texts)
    losses = np.asarray(outputs["losses"], np.float64)
    # The mean over all tokens of targets.
    loss = float(np.average(losses, weights=np.diff(data.target_splits)))
    return outcomes_lib.Scored(
        predictions=texts,
        details=rows,
        scores=score(data.spelled, texts, rows),
        losses=losses,
        others={"loss": loss},
    )


def count(targets: Sequence[str], predictions: Sequence[str]) -> RowScores:
    """Compares each prediction with its target, of which there is one each."""
    from rouge_score import rouge_scorer
    from sacrebleu.metrics import BLEU

    rouge = rouge_scorer.RougeScorer(ROUGE)
    # Only counts are taken of each row; the option spares a warning about its score.
    bleu = BLEU(effective_order=True)
    shares: dict[str, list[float]] = {name: [] for name in ROW_NAMES}
    ngrams, lengths = [], []
    for target, prediction in zip(targets, predictions, strict=True):
        shares[EXACT_MATCH].append(float(prediction == target))
        for name, score in rouge.score(target, prediction).items():
            shares[name].append(score.fmeasure)
        counted = bleu.sentence_score(prediction, [target])
        ngrams.append([counted.counts, counted.totals])
        lengths.append([counted.sys_len, counted.ref_len])
    return RowScores(
        {name: np.array(values, np.float64) for name, values in shares.items()},
        np.array(ngrams, np.int64).reshape(-1, 2, 4),
        np.array(lengths, np.int64).reshape(-1, 2),
    )


def score(
    targets: Sequence[str], predictions: Sequence[str], rows: RowScores
) -> dict[str, float]:
    """NAMES to scores over all texts; `rows` are their counts."""
    if not targets:
        raise errors.InputError("there is no target to score with; give some")
    from sacrebleu.metrics import CHRF

    chrf = CHRF().corpus_score(list(predictions), [list(targets)])
    return rows.score(np.arange(len(targets))) | {"chrf": float(chrf.score)}


def outcomes(
    name: str, data: split.PairSplit, scored: outcomes_lib.Scored
) -> outcomes_lib.Outcomes | None:
    """The outcome of each pair of the split `name`; None where targets are unknown."""
    if scored.details is None or scored.losses is None:
        return None
    return outcomes_lib.Outcomes(
        split=name,
        texts=[(source,) for source in data.sources],
        expected=list(data.spelled),
        predicted=list(scored.predictions),
        is_correct=scored.details.shares[EXACT_MATCH] > 0,
        losses=scored.losses,
        scores=dict(scored.scores),
        rescore=scored.details.score,
        shares={EXACT_MATCH: 1.0},
        histograms={
            "words, written": np.array(
                [len(text.split()) for text in scored.predictions]
            ),
            "words, wanted": np.array([len(text.split()) for text in data.spelled]),
        },
    )


def write_all(
    directory: str, data: split.PairSplit, scored: outcomes_lib.Scored
) -> list[str]:
    """Writes the files of `text_lines` and `object_lines`, or neither; their paths."""
    texts = os.path.join(directory, file_names.TEST_TEXTS)
    objects = os.path.join(directory, file_names.TEST_PREDICTIONS)
    atomic_files.write({texts: text_lines(scored), objects: object_lines(data, scored)})
    return [texts, objects]


def text_lines(scored: outcomes_lib.Scored) -> Iterator[str]:
    """A line a text, in the order of the rows; an end of a line in it is a space."""
    for text in scored.predictions:
        yield _LINE_ENDS.sub(" ", text) + "\n"


def object_lines(data: split.PairSplit, scored: outcomes_lib.Scored) -> Iterator[str]:
    """One JSON object a row: source, prediction, and where it is known the target.

    Source and target are as in the file, the prediction is as graph.decode writes it,
    and scores compare it with the target in the same form. Numbers have 6 digits.
    """
    for index, text in enumerate(scored.predictions):
        row: dict[str, Any] = {"source": data.sources[index]}
        if data.has_targets:
            row["target"] = data.target_texts[index]
        row["prediction"] = text
        if scored.details is not None and scored.losses is not None:
            shares = {
                name: round(float(values[index]), _DIGITS)
                for name, values in scored.details.shares.items()
            }
            shares["exact_match"] = bool(shares["exact_match"])
            row |= {**shares, "loss": round(float(scored.losses[index]), _DIGITS)}
        yield json.dumps(row, ensure_ascii=False) + "\n"
