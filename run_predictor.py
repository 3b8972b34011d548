r"""Prints the answers of an exported model, which stays loaded between questions.

Each argument is an example; a tab separates the texts of a pair:

    python run_predictor.py --export_dir=output/demo/export "a text" "another"
    python run_predictor.py --export_dir=output/squad/export $'question\tcontext'
    python run_predictor.py --export_dir=output/tags/export "a sentence"

Or each line of a file or, with -, of standard input is one, and of the answers:

    python run_predictor.py --input_file=texts.jsonl \
        --export_dir=output/demo/export

Or it answers over HTTP, as TensorFlow Serving's REST API does:

    python run_predictor.py --serve \
        --export_dir=output/demo/export
"""

import functools
import sys

from cli import command_line
from contract import errors
from serving.server import doors
from tasks.settings.prediction import PredictionSettings


def main() -> None:
    settings = command_line.parse(PredictionSettings, __doc__)
    with errors.explained():  # the address is taken before seconds of imports
        door = doors.Door(settings.host, settings.port) if settings.serve else None
    if door:
        doors.end_at_sigterm()
    command_line.load_tensorflow(serves=True)
    from tasks import prediction

    command_line.run(functools.partial(prediction.run, door=door), settings)


def serve() -> None:
    """The command bert-serve."""
    sys.argv.insert(1, "--serve")
    main()


if __name__ == "__main__":
    main()
