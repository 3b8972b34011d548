"""Approximate neighbours by a graph (HNSW, 2016) of faiss, which is an extra.

Only this module imports faiss.
"""

import os
from typing import Any

import numpy as np

from contract import atomic_files, errors
from serving import search_index
from terminal import progress

_NEIGHBOURS, _BUILD_WIDTH, _LEAST_WIDTH = 32, 100, 256  # M, efConstruction, efSearch
_ADDED = 1 << 14  # vectors at a time


def import_faiss() -> Any:
    """The package; InputError where it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise errors.InputError(
            "--approximate needs a package that is not installed: pip install "
            "faiss-cpu, or leave it out for the exact search"
        ) from error
    return faiss


def build(store: search_index.Store) -> None:
    """Writes the graph of all vectors of an index, or extends the one it has."""
    faiss, path = import_faiss(), os.path.join(store.index_dir, search_index.GRAPH)
    if os.path.exists(path):
        graph = _read(faiss, path)
    else:
        width, metric = store.settings["vectors"]["width"], faiss.METRIC_INNER_PRODUCT
        graph = faiss.IndexHNSWFlat(width, _NEIGHBOURS, metric)
        graph.hnsw.efConstruction = _BUILD_WIDTH
    total = store.num_vectors
    if graph.ntotal >= total:
        return
    with progress.Progress("linking: text") as report:
        while (done := graph.ntotal) < total:
            report(done, total)
            places = np.arange(done, min(done + _ADDED, total))
            graph.add(store.gather(places))
    with atomic_files.replacing(path) as (temporary,):
        try:
            faiss.write_index(graph, temporary)
        except RuntimeError as error:
            raise atomic_files.unwritable(path, error) from error


def read(store: search_index.Store) -> Any:
    """A function of queries float32 [Q, W] and a count to places int64 [Q, count].

    A place of -1 stands for none.

    Raises:
        InputError: there is no graph of this index, or faiss is not installed.
    """
    faiss, path = import_faiss(), os.path.join(store.index_dir, search_index.GRAPH)
    graph = _read(faiss, path)
    if graph.ntotal != store.num_vectors:
        _fail(path, f"has {graph.ntotal} vectors, and the index {store.num_vectors}")

    there = None
    if len(store.removed):
        there = faiss.IDSelectorNot(faiss.IDSelectorBatch(store.removed))

    def candidates(queries, count):
        width = max(_LEAST_WIDTH, 2 * count)
        settings = faiss.SearchParametersHNSW(efSearch=width, sel=there)
        return graph.search(queries, count, params=settings)[1]

    return candidates


def _read(faiss, path):
    try:
        return faiss.read_index(path)
    except RuntimeError as error:
        _fail(path, f"cannot be read ({str(error).splitlines()[0]})")


def _fail(path, reason):
    raise errors.InputError(
        f"{path}: {reason}; remove it if it is there, and build the index again with "
        "--approximate"
    )
