r"""Builds an index over a file of texts, and prints the texts nearest to queries.

    python run_search.py --pretrained=DIR \
        --input_file=texts.txt --index_dir=output/index
    python run_search.py --index_dir=output/index "a query" "another"
    python run_search.py --index_dir=output/index --reranker=DIR "a query"
    python run_search.py --index_dir=output/index --add --input_file=more.txt
    python run_search.py --index_dir=output/index --serve

The file has a text on each line, or in JSONL objects with "_id", "title" and "text".
The same command continues a build that was stopped.
"""

import functools

from cli import command_line
from contract import errors
from serving.server import doors
from tasks.settings.search import SearchSettings


def main() -> None:
    settings = command_line.parse(SearchSettings, __doc__)
    with errors.explained():  # the address is taken before seconds of imports
        door = doors.Door(settings.host, settings.port) if settings.serve else None
    if door:
        doors.end_at_sigterm()
    command_line.load_tensorflow(serves=True)
    from tasks import search

    command_line.run(functools.partial(search.run, door=door), settings, unwinds=True)


if __name__ == "__main__":
    main()
