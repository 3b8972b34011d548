"""The modes of run_search.py: a build, answers, and a server."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from contract import errors
from data_pipeline.embedding import corpora
from serving import (
    reranking,
    search,
    search_encoders,
    search_graph,
    search_index,
    search_passages,
)
from serving.server import doors
from tasks.settings.search import SearchSettings
from terminal import progress


def run(settings: SearchSettings, *texts: str, door: doors.Door | None = None) -> None:
    """Builds an index if there is an input; answers queries, or serves at `door`."""
    path, queries = settings.queries_file, [*texts]
    answers = bool(path or queries or settings.serve)
    if not (settings.input_file or settings.remove or answers):
        raise errors.InputError(
            'give --input_file=FILE for a build, --serve, or queries: "one" "another"'
        )
    if settings.reranker and not answers:
        raise errors.InputError(
            f"--reranker={settings.reranker} is for queries; give some, or --serve"
        )
    model = search_encoders.Source(
        settings.pretrained,
        settings.export_dir,
        settings.pooling,
        settings.max_seq_length,
    )
    # What is wrong is found before a build of hours.
    lines = [row.text for row in corpora.read_texts(path)] if path else []
    if path and not lines:
        raise errors.InputError(f"--queries_file={path}: write a query on a line")
    queries += lines
    search.check_queries(queries)
    if settings.approximate:
        search_graph.import_faiss()
    reranker = None
    if settings.reranker:
        opened = reranking.open_source(settings.reranker, settings.reranker_label)
        reranker = opened.rerank
    if settings.remove:
        search_index.remove(
            search_index.Store(str(settings.index_dir)), settings.remove
        )
        print(f"removed: {', '.join(settings.remove)}")
    if settings.input_file:
        build(settings, model)
    if queries:
        answer(settings, queries, model, reranker)
    if settings.serve:
        serve(settings, model, reranker, door)


def build(settings: SearchSettings, model: search_encoders.Source) -> None:
    """Builds the index that the settings describe, or adds texts to it."""
    started, index_dir = time.monotonic(), str(settings.index_dir)
    if settings.add:
        index = search.Index.open(index_dir, model)
        index.add(str(settings.input_file), replace=settings.replace)
    else:
        size = settings.passage_tokens
        search_index.build(
            index_dir,
            str(settings.input_file),
            model,
            quantization=settings.quantization,
            prompts={
                "query": settings.query_prompt,
                "passage": settings.passage_prompt,
            },
            passages=search_passages.Size(size, settings.passage_stride or size)
            if size
            else None,
        )
    store = search_index.Store(index_dir)
    if settings.approximate or store.has_graph:
        search_graph.build(store)
    kind = "passages" if store.settings["passages"] else "texts"
    width, took = store.settings["vectors"]["width"], time.monotonic() - started
    print(f"index: {index_dir}, {len(store)} {kind} of {width} numbers in {took:.1f} s")


def answer(
    settings: SearchSettings,
    queries: Sequence[str],
    model: search_encoders.Source,
    reranker: search.Rerank | None,
) -> None:
    """Prints the texts nearest to each query."""
    index = search.Index.open(str(settings.index_dir), model)
    rows = _find(settings, index, queries, settings.top_k, reranker)
    if index.num_cut:
        length = f"{index.max_seq_length} tokens (--max_seq_length)"
        progress.print_line(f"queries: {index.num_cut} cut to {length}")
    for query, row in zip(queries, rows, strict=True):
        if settings.json:
            print(json.dumps(_as_json(query, row), ensure_ascii=False))
            continue
        print(query)
        for n in row:
            place, line = f"line {n.line}", str(n.line)
            if n.text_id != line:  # of an addition FILE:LINE
                is_place = n.text_id.endswith(f":{line}")
                place = n.text_id if is_place else f"{n.text_id} ({place})"
            if n.start is not None:
                place += f", characters {n.start} to {n.start + len(n.text)}"
            score = "" if n.score is None else f"{n.score:.4f}  "
            print(f"  {score}{n.cosine:.4f}  {place}  {n.text}")


def serve(
    settings: SearchSettings,
    model: search_encoders.Source,
    reranker: search.Rerank | None,
    door: doors.Door | None = None,
) -> None:
    """Answers queries over HTTP until stopped."""

    def open_index() -> Callable[..., list[dict[str, Any]]]:
        index = search.Index.open(str(settings.index_dir), model)

        def find(
            queries: Sequence[str], top_k: int, is_wanted: Callable[[], bool]
        ) -> list[dict[str, Any]]:
            rows = _find(settings, index, queries, top_k, reranker, is_wanted=is_wanted)
            return [*map(_as_json, queries, rows)]

        find(["a"], 1, lambda: True)  # the first query takes seconds
        return find

    def count_rows(top_k: int) -> int:
        if not reranker:
            return 1
        return search.count_candidates(top_k, settings.num_candidates)

    from tasks import serving  # needs what comes with an extra

    serving.serve_index(settings, str(settings.index_dir), open_index, count_rows, door)


def _find(settings: SearchSettings, index, queries, top_k, reranker, **options):
    options |= {"reranker": reranker, "num_candidates": settings.num_candidates}
    return index.neighbours(queries, top_k, approximate=settings.approximate, **options)


def _as_json(query, row):
    return {"query": query, "texts": [_describe(n) for n in row]}


def _describe(n):
    """A Neighbour as an object, without the keys that it has no value of."""
    keys = {"id": n.text_id, "line": n.line, "cosine": n.cosine}
    if n.score is not None:
        keys["score"] = n.score
    if n.start is not None:
        keys |= {"start": n.start, "end": n.start + len(n.text)}
    return {**keys, "text": n.text}
