r"""Scores sentences by a pretrained network: natural logarithms of probabilities.

    python score_sentences.py --pretrained=DIR --input_file=sentences.txt
    python score_sentences.py --pretrained=DIR --input_file=blimp.jsonl --pairs=blimp

See docs/sentence_scores.md.
"""

from cli import command_line
from tasks.settings.sentence_scores import SentenceScoresSettings


def main() -> None:
    settings = command_line.parse(SentenceScoresSettings, __doc__)
    command_line.load_tensorflow()
    from tasks import sentence_scores

    command_line.run(sentence_scores.run, settings)


if __name__ == "__main__":
    main()
