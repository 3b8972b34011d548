"""The two modes of `python -m serving.search`: a build, and answers to queries."""

import json
import time
from collections.abc import Sequence

from absl import flags

from cli import command_line
from contract import errors
from data_pipeline.embedding import corpora
from serving import search, search_encoders, search_graph, search_index

FLAGS = flags.FLAGS


def run(argv: Sequence[str]) -> None:
    """Builds an index if there is an input, and answers the queries argv[1:]."""
    command_line.quiet_libraries()
    with errors.explained():
        path, queries = FLAGS.queries_file, [*argv[1:]]
        if not (FLAGS.input_file or path or queries):
            raise errors.InputError(
                'give --input_file=FILE for a build, or queries: "one" "another"'
            )
        model = search_encoders.Source(
            FLAGS.pretrained, FLAGS.export_dir, FLAGS.pooling
        )
        if FLAGS.input_file:
            build(model)
        queries += [row.text for row in (corpora.read_texts(path) if path else ())]
        if queries:
            answer(queries, model)


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
            texts = [
                {"id": n.text_id, "line": n.line, "cosine": n.cosine, "text": n.text}
                for n in row
            ]
            print(json.dumps({"query": query, "texts": texts}, ensure_ascii=False))
            continue
        print(query)
        for n in row:
            place = f"line {n.line}"
            if n.text_id != str(n.line):
                place = f"{n.text_id} ({place})"
            print(f"  {n.cosine:.4f}  {place}  {n.text}")
