"""How likely texts are: nats, perplexity by token and word, bits a byte.

Ids are cut into windows that fit the network. Each token is scored once: windows of a
long text overlap, and tokens of the window before are only read.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors, wording
from data_pipeline.batches import packing
from data_pipeline.tables import text_rows
from terminal import progress

KEYS = ("text",)  # of an object in a file of JSON lines
# Features int32 [B, S] -> losses float32 [B, S - 1] of each next token.
Score = Callable[[dict[str, tf.Tensor]], np.ndarray]


class Window(NamedTuple):
    """Ids that are read together; those from place `first`, 1 at least, count."""

    ids: Sequence[int]
    first: int


# To the losses of the scored tokens of each window, float32 [T], in nats.
Run = Callable[[list[Window]], list[np.ndarray]]


class Text(NamedTuple):
    """A text, its place, and its ids after the token that ends texts, if any."""

    text: str
    place: str
    ids: list[int]


class Likelihood(NamedTuple):
    """Sums over one text or several, from which all shares follow."""

    nll: float  # nats of all tokens
    num_tokens: int
    num_words: int  # parts between whitespace
    num_bytes: int  # of UTF-8

    def __add__(self, other: Any) -> "Likelihood":
        return Likelihood(*map(sum, zip(self, other, strict=True)))

    def results(self) -> dict[str, float]:
        return {
            "nll": self.nll,
            "num_tokens": self.num_tokens,
            "mean_nll": self.nll / self.num_tokens,
            "perplexity": exp(self.nll / self.num_tokens),
            "word_perplexity": exp(self.nll / max(self.num_words, 1)),
            "bits_per_byte": self.nll / math.log(2) / self.num_bytes,
        }


ZERO = Likelihood(0.0, 0, 0, 0)


def exp(value: float) -> float:
    """The exponential; infinite where that is too large for a number."""
    return math.exp(value) if value < 700 else math.inf


class ScoredTexts:
    """The texts of a file, read and cut; `results` has their perplexities.

    Attributes:
        context: the most ids of a window.
        stride: tokens from one window of a long text to the next; 0 is half of that.
    """

    def __init__(
        self,
        path: str,
        tokenizer: Any,
        context: int,
        *,
        as_one: bool = False,
        stride: int = 0,
    ):
        self.context, self.stride = context, stride or max(context // 2, 1)
        if self.stride >= context:
            raise errors.InputError(
                f"--stride={self.stride} leaves no token before a window of {context}; "
                "lower it"
            )
        self._texts = encode(read(path, as_one=as_one), tokenizer)

    def results(self, run: Run) -> tuple[dict[str, float], Iterator[str]]:
        """The results of all texts together by name, and a line for each text."""
        scored = list(score(self._texts, run, self.context, self.stride))
        total = sum((each for _, _, each in scored), ZERO)
        results = {"num_texts": len(scored), **total.results()}
        return results, (line(*each) for each in scored)


def read(path: str, *, as_one: bool) -> list[tuple[str, str]]:
    """(text, place) of each line, object with `text`, or of the whole file.

    Lines without a character but whitespace are no texts.
    """
    if as_one and not text_rows.is_jsonl(path):
        rows = [(text_rows.read_text(path).replace("\r\n", "\n"), path)]
    else:
        rows = list(text_rows.texts(path, KEYS))
        if as_one:
            rows = [("\n".join(text for text, _ in rows), path)]
    rows = [(text, place) for text, place in rows if text.strip()]
    if not rows:
        raise errors.InputError(f"{path}: has no text; give one a line")
    return rows


def encode(rows: Sequence[tuple[str, str]], tokenizer: Any) -> list[Text]:
    """The ids of texts, each after the token that ends texts, if any."""
    end = tokenizer.document_end_id
    start = [] if end is None else [end]
    tokenized = tokenizer.tokenize([text for text, _ in rows]).to_list()
    texts = []
    for (text, place), ids in zip(rows, tokenized, strict=True):
        if len(start) + len(ids) < 2:
            raise errors.InputError(
                f"{place}: {wording.listing([text])} is {len(ids)} token, which "
                "nothing predicts; remove it or make it longer"
            )
        texts.append(Text(text, place, start + ids))
    return texts


def score(
    texts: Sequence[Text], run: Run, context: int, stride: int
) -> Iterator[tuple[Text, np.ndarray, Likelihood]]:
    """Yields each text with the losses of its tokens and what they sum up to."""
    cut = [sliding(text.ids, context, stride) for text in texts]
    results = iter(run(list(itertools.chain.from_iterable(cut))))
    for text, parts in zip(texts, cut, strict=True):
        losses = np.concatenate([next(results) for _ in parts])
        likelihood = Likelihood(
            float(np.sum(losses, dtype=np.float64)),
            len(losses),
            len(text.text.split()),
            len(text.text.encode()),
        )
        yield text, losses, likelihood


def line(text: Text, losses: np.ndarray, likelihood: Likelihood) -> str:
    """The line of a .jsonl file."""
    results = {k: v if v < math.inf else None for k, v in likelihood.results().items()}
    row: dict[str, Any] = {"text": text.text, "place": text.place, **results}
    row["nll_of_each_token"] = [round(float(loss), 6) for loss in losses]
    row["ids"] = text.ids[-len(losses) :]
    return json.dumps(row, ensure_ascii=False) + "\n"


def sliding(ids: Sequence[int], context: int, stride: int) -> list[Window]:
    """Windows of all ids but the first, `stride` ids apart and as long as fits."""
    windows = [Window(ids[:context], 1)]
    while (end := (len(windows) - 1) * stride + context) < len(ids):
        start = len(windows) * stride
        window = ids[start : start + context]
        windows.append(Window(window, end - start))
    return windows


def run(windows: Sequence[Window], score: Score, batch_size: int) -> list[np.ndarray]:
    """The losses of each window, computed in batches of similar length."""
    order = np.argsort([-len(window.ids) for window in windows], kind="stable")
    results = [np.zeros(0)] * len(windows)
    for part in progress.slices(len(windows), batch_size, "scoring: windows"):
        chosen = order[part]
        batch = [windows[place] for place in chosen]
        losses = score(packing.pad_rows([window.ids for window in batch]))
        for row, (place, window) in enumerate(zip(chosen, batch, strict=True)):
            scored = slice(window.first - 1, len(window.ids) - 1)
            results[place] = losses[row, scored]
    return results
