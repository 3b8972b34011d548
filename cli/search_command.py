"""The modes of `python -m serving.search`: a build, answers, and a server."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

from cli import command_line, serve_flags
from contract import errors
from data_pipeline.embedding import corpora
from serving import search, search_encoders, search_graph, search_index

FLAGS = flags.FLAGS


def run(argv: Sequence[str]) -> None:
    """Builds an index if there is an input, and answers the queries argv[1:]."""
    command_line.quiet_libraries()
    with errors.explained():
        path, queries = FLAGS.queries_file, [*argv[1:]]
        if not (FLAGS.input_file or path or queries or FLAGS.serve):
            raise errors.InputError(
                "give --input_file=FILE for a build, --serve, or queries: "
                '"one" "another"'
            )
        model = search_encoders.Source(
            FLAGS.pretrained, FLAGS.export_dir, FLAGS.pooling, FLAGS.max_seq_length
        )
        if FLAGS.input_file:
            build(model)
        lines = [row.text for row in corpora.read_texts(path)] if path else []
        if path and not lines:
            raise errors.InputError(f"--queries_file={path}: write a query on a line")
        queries += lines
        if queries:
            answer(queries, model)
        if FLAGS.serve:
            serve(model)


def build(model: search_encoders.Source) -> None:
    """Builds the index that the flags describe."""
    started = time.monotonic()
    plan = search_index.build(
        FLAGS.index_dir,
        FLAGS.input_file,
        model,
        quantization=FLAGS.quantization,
        prompts={"query": FLAGS.query_prompt, "passage": FLAGS.passage_prompt},
    )
    if FLAGS.approximate:
        search_graph.build(search_index.Shards(FLAGS.index_dir))
    print(
        f"index: {FLAGS.index_dir}, {plan['texts']['num_texts']} texts of "
        f"{plan['vectors']['width']} numbers in {time.monotonic() - started:.1f} s"
    )


def answer(queries: Sequence[str], model: search_encoders.Source) -> None:
    """Prints the texts nearest to each query."""
    index = search.Index.open(FLAGS.index_dir, model)
    rows = index.neighbours(queries, FLAGS.top_k, approximate=FLAGS.approximate)
    for query, row in zip(queries, rows, strict=True):
        if FLAGS.json:
            print(json.dumps(_as_json(query, row), ensure_ascii=False))
            continue
        print(query)
        for n in row:
            place = f"line {n.line}"
            if n.text_id != str(n.line):
                place = f"{n.text_id} ({place})"
            print(f"  {n.cosine:.4f}  {place}  {n.text}")


def serve(model: search_encoders.Source) -> None:
    """Answers queries over HTTP until stopped."""

    def open_index() -> Callable[..., list[dict[str, Any]]]:
        index = search.Index.open(FLAGS.index_dir, model)

        def find(
            queries: Sequence[str], top_k: int, is_wanted: Callable[[], bool]
        ) -> list[dict[str, Any]]:
            rows = index.neighbours(
                queries, top_k, approximate=FLAGS.approximate, is_wanted=is_wanted
            )
            return [*map(_as_json, queries, rows)]

        find(["a"], 1, lambda: True)  # the first query takes seconds
        return find

    command = serve_flags.import_command()
    command.serve_index(FLAGS.index_dir, open_index, command.read_flags())


def _as_json(query, row):
    texts = [
        {"id": n.text_id, "line": n.line, "cosine": n.cosine, "text": n.text}
        for n in row
    ]
    return {"query": query, "texts": texts}
