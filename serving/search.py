"""The texts of an index that are nearest to a query.

index = search.Index.open("output/index")
for text_id, text, cosine in index.query(["a query"], top_k=5)[0]:
    print(cosine, text_id, text)
"""

if __name__ == "__main__":  # as which it was the command before
    raise SystemExit("the command is: python run_search.py")


import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors, remote_files
from data_pipeline.classification import encoding
from data_pipeline.embedding import search
from serving import search_encoders, search_graph, search_index
from terminal import progress

_QUERIES = 256  # at a time
_CANDIDATES = 1 << 15  # vectors in memory at a time
_BUILT = search_encoders.Source()  # that of the build
# Candidates for k neighbours, by products of int8 or of a graph; of float32 alone they
# only make up for products that BLAS rounds in several ways.
_FACTOR, _MORE = 4, 64
_RERANKED, _MOST_RERANKED = 5, 100  # texts for each of the answers, and in all
# A query and texts to their places and scores, the best first.
Rerank = Callable[[str, Sequence[str]], Sequence[tuple[int, float]]]


class Neighbour(NamedTuple):
    """A text near to a query, or a passage of it.

    Attributes:
        line: that of the file, from 1.
        start: the first character of a passage in its text; None of a whole text.
        score: that of the reranker, where there is one.
    """

    text_id: str
    text: str
    cosine: float
    line: int
    start: int | None = None
    score: float | None = None


def count_candidates(top_k: int, num_candidates: int | None) -> int:
    """The neighbours that a reranker orders; by default 5 an answer, at most 100."""
    usual = min(_RERANKED * top_k, _MOST_RERANKED)
    return max(top_k, num_candidates or usual)


class Index:
    """The vectors and texts of a directory, and the model of queries.

    Vectors stay on the disk as memory maps. Cosines are of float32 vectors, with sums
    in float64; of equal ones the text of the lower line comes first. `num_cut` counts
    the queries that were longer than the model reads.
    """

    def __init__(self, store: search_index.Store, encoder: search_encoders.Encoder):
        self._store, self._encoder, self.num_cut = store, encoder, 0

    @classmethod
    def open(cls, index_dir: str, source: search_encoders.Source = _BUILT) -> "Index":
        """Opens an index, by default with the model of its build.

        Raises:
            InputError: there is no whole index, or a file of it is missing or damaged,
                or the model computes other vectors than the index has.
        """
        index_dir = remote_files.resolve(index_dir, "index_dir")
        store = search_index.Store(index_dir)
        built = search_encoders.Source(**store.settings["model"])
        if not (source.pretrained or source.export_dir):
            model = built.pretrained or built.export_dir
            progress.print_line(f"loading {model}, the model that {index_dir} names")
            source = built._replace(pooling=source.pooling)
        pooling, length = source.pooling or built.pooling, built.max_seq_length
        source = source._replace(pooling=pooling, max_seq_length=length)
        encoder, vectors = (
            search_encoders.open_source(source),
            store.settings["vectors"],
        )
        for key in {**encoder.identity, **vectors}:
            if (value := encoder.identity.get(key)) != vectors.get(key):
                raise errors.InputError(
                    f"--index_dir={index_dir}: its vectors have {key}="
                    f"{vectors.get(key)}, and those of "
                    f"{source.export_dir or source.pretrained} {key}={value}; give the "
                    "model of the index, or build another index"
                )
        return cls(store, encoder)

    def __len__(self) -> int:
        return len(self._store)

    @property
    def max_seq_length(self) -> int | None:
        """Tokens of a text or query that the model reads; None of an export."""
        return self._encoder.identity.get("max_seq_length")

    def add(self, input_file: str, *, replace: bool = False) -> int:
        """Adds the texts of a file that the index lacks; returns how many it has then.

        If another text has the id of one of them, this one is to `replace` it.

        Raises:
            InputError: there is one, and it is not to be replaced.
        """
        input_file = remote_files.resolve(input_file, "input_file")
        search_index.add(self._store, self._encoder, input_file, replace=replace)
        return self._open_again()

    def remove(self, ids: str | Sequence[str]) -> int:
        """Removes the texts with these ids; returns how many the index has then.

        Raises:
            InputError: it has no text with one of them; then it removes none.
        """
        search_index.remove(self._store, encoding.listed("ids", ids))
        return self._open_again()

    def _open_again(self):
        self._store = search_index.Store(self._store.index_dir)
        self.__dict__.pop("_approximate", None)
        return len(self)

    def query(
        self, texts: str | Sequence[str], top_k: int = 5, **options: Any
    ) -> list[list[tuple[str, str, float]]]:
        """For each query (id, text, cosine) of the nearest texts; as `neighbours`.

        With a `reranker` its scores stand in the place of cosines.
        """
        return [
            [(n.text_id, n.text, n.cosine if n.score is None else n.score) for n in row]
            for row in self.neighbours(texts, top_k, **options)
        ]

    def neighbours(
        self,
        texts: str | Sequence[str],
        top_k: int = 5,
        *,
        approximate: bool = False,
        reranker: Rerank | None = None,
        num_candidates: int | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> list[list[Neighbour]]:
        """For each query the nearest texts, the nearest first.

        Args:
            texts: queries; a string is one.
            top_k: neighbours of a query, or all texts where there are fewer.
            approximate: whether to look at the graph instead of all vectors.
            reranker: orders the nearest texts of a query, of which `top_k` stay;
                `rerank` of a classifier of pairs that `bert_reborn.load` returns.
            num_candidates: texts that it orders; None for 5 * top_k, at most 100.
            is_wanted: called before each batch of queries, and before each query that
                is reranked; the list ends where it is false.

        Raises:
            InputError: a query has no token, `top_k` is below 1, or a file of the index
                is damaged, or has no graph.
        """
        texts = encoding.listed("texts", texts)
        errors.check_count("top_k", top_k)
        errors.check_count("num_candidates", num_candidates or 1)
        check_queries(texts)
        if not len(self):
            return [[] for _ in texts]
        find = self._approximate if approximate else self._exact
        num_best = top_k
        if reranker:
            num_best = count_candidates(top_k, num_candidates)
        rows, count = [], min(_FACTOR * num_best + _MORE, len(self))
        prompted = [self._store.settings["prompts"]["query"] + text for text in texts]
        for first in range(0, len(texts), _QUERIES):
            if not is_wanted():
                break
            vectors, num_cut = self._encoder.encode(prompted[first : first + _QUERIES])
            self.num_cut += num_cut
            candidates, step = find(vectors, count), max(1, _CANDIDATES // count)
            few = np.sum(candidates >= 0, axis=1) < min(num_best, len(self))
            if few.any():  # a graph has shown texts that were removed, and no others
                candidates[few] = self._exact(vectors[few], count)
            for begin in range(0, len(vectors), step):
                part = slice(begin, begin + step)
                rows += self._ranked(vectors[part], candidates[part], num_best)
        if not reranker:
            return rows
        reranked: list[list[Neighbour]] = []
        for query, row in zip(texts, rows, strict=False):  # fewer rows if not wanted
            if not is_wanted():
                break
            scores = reranker(query, [n.text for n in row])[:top_k]
            reranked.append([row[i]._replace(score=score) for i, score in scores])
        return reranked

    def _exact(self, vectors, count):
        indices, _ = search.nearest(vectors, self._store.blocks(), count)
        return self._store.places(indices)

    @functools.cached_property
    def _approximate(self):
        return search_graph.read(self._store)

    def _ranked(self, queries, candidates, top_k):
        """The best of some places [Q, C] by exact cosines; -1 stands for none."""
        places = np.unique(candidates[candidates >= 0])
        corpus = self._store.gather(places).astype(np.float64)
        ranked = []
        for query, row in zip(queries, candidates, strict=True):
            row = np.sort(row[row >= 0])
            chosen = corpus[np.searchsorted(places, row)]
            cosines = np.einsum("cw,w->c", chosen, query).astype(np.float32)
            order = np.argsort(-cosines, kind="stable")[:top_k]
            ranked.append([*zip(row[order].tolist(), cosines[order], strict=True)])
        texts = self._store.texts(place for row in ranked for place, _ in row)
        # Another process may have removed some.
        return [
            [_neighbour(texts[i], float(c)) for i, c in row if i in texts]
            for row in ranked
        ]


def check_queries(texts: Sequence[str]) -> None:
    """Raises InputError for a query without a token."""
    for number, text in enumerate(texts, start=1):
        if not search_index.has_content(text):
            raise errors.InputError(
                f"query {number}: {text!r:.40} has no token; write words in it"
            )


def _neighbour(row, cosine):
    return Neighbour(row.text_id, row.text, cosine, row.line, row.start)
