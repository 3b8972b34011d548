"""Learns a vocabulary from text: BERT's word pieces, GPT-2's byte pairs, ELMo's words.

google-research/bert never published its own; see docs/pretraining_data.md. Byte pairs
are a vocab.json and a merges.txt, as in Hugging Face; see docs/left_to_right.md. Words
are those that an ELMo learns to predict; see docs/elmo.md.

    python build_vocab.py --input_file='corpus/*.txt' --output_file=vocab.txt
"""

import os

from cli import command_line
from tasks.settings.vocabulary import VocabularySettings


def main() -> None:
    settings = command_line.parse(VocabularySettings, __doc__)
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # strings stay on the CPU
    command_line.load_tensorflow()
    from tasks import vocabulary

    command_line.run(vocabulary.run, settings)


if __name__ == "__main__":
    main()
