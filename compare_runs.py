r"""Compares two runs: scores with intervals, rows that only one gets right, flags.

    python compare_runs.py --output_file=page.html output/first output/second

The arguments are output directories of runs that evaluated the same rows, or some of
them, and have a report.json. The program prints tables.
"""

import sys

from cli import command_line
from tasks.settings.comparison import ComparisonSettings


def main() -> None:
    settings = command_line.parse(ComparisonSettings, __doc__)
    if settings.output_file or "://" in "".join(sys.argv):
        command_line.load_tensorflow()  # which writes it, and opens remote files
    from reports import compare

    def show(settings: ComparisonSettings, *directories: str) -> None:
        compare.show(directories, settings.output_file)

    command_line.run(show, settings)


if __name__ == "__main__":
    main()
