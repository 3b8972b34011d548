r"""Computes the vectors of tokens of texts, or of texts, in the layers of a network.

Takes every flag of google-research/bert's extract_features.py; docs/embeddings.md
describes those that are new.

    python extract_features.py --pretrained=DIR \
        --input_file=texts.txt --output_file=vectors.jsonl
"""

from cli import command_line
from tasks.settings.extraction import ExtractionSettings


def main() -> None:
    settings = command_line.parse(ExtractionSettings, __doc__)
    command_line.load_tensorflow()
    from tasks import extraction

    command_line.run(extraction.run, settings, unwinds=True)


if __name__ == "__main__":
    main()
