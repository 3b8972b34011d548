"""How likely texts are: nats, perplexity by token and word, bits a byte."""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors, wording
from data_pipeline.generation import windows
from data_pipeline.tables import label_files, text_rows

KEYS = ("text",)  # of an object in a file of JSON lines


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
        """The measures that people report."""
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


def read(path: str, *, as_one: bool) -> list[tuple[str, str]]:
    """(text, place) of each line, object with `text`, or of the whole file.

    Lines without a character but whitespace are no texts.
    """
    if as_one and not text_rows.is_jsonl(path):
        rows = [(label_files.read_text(path).replace("\r\n", "\n"), path)]
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
    start = [] if tokenizer.document_end_id is None else [tokenizer.document_end_id]
    tokenized = tokenizer.tokenize([text for text, _ in rows]).to_list()
    texts = []
    for (text, place), ids in zip(rows, tokenized, strict=True):
        if len(start) + len(ids) < 2:
            raise errors.InputError(
                f"{place}: {wording.listing([text])} is {len(ids)} token, which "
                "nothing predicts, for the vocabulary has no token that ends texts; "
                "remove it or make it longer"
            )
        texts.append(Text(text, place, start + ids))
    return texts


def score(
    texts: Sequence[Text],
    run: Callable[[list[windows.Window]], list[windows.Scores]],
    context: int,
    stride: int,
) -> Iterator[tuple[Text, windows.Scores, Likelihood]]:
    """Yields each text with the scores of its tokens and what they sum up to."""
    cut = [windows.sliding(text.ids, context, stride) for text in texts]
    results = iter(run(list(itertools.chain.from_iterable(cut))))
    for text, parts in zip(texts, cut, strict=True):
        scores = windows.joined(itertools.islice(results, len(parts)))
        likelihood = Likelihood(
            float(np.sum(scores.losses, dtype=np.float64)),
            len(scores.losses),
            len(text.text.split()),
            len(text.text.encode()),
        )
        yield text, scores, likelihood


def line(text: Text, scores: windows.Scores, likelihood: Likelihood) -> str:
    """The line of a .jsonl file."""
    row = {"text": text.text, "place": text.place, **likelihood.results()}
    row["nll_of_each_token"] = [round(float(loss), 6) for loss in scores.losses]
    row["ids"] = text.ids[-len(scores.losses) :]
    return json.dumps(row, ensure_ascii=False) + "\n"
