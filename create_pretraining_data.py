r"""Makes TFRecords for pretraining from raw text: masked words, or left to right.

Takes every flag of google-research/bert's create_pretraining_data.py; see
docs/pretraining_data.md for those that are new.

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=records.tfrecord --vocab_file=vocab.txt
"""

from cli import command_line
from tasks.settings.creation import CreationSettings


def main() -> None:
    settings = command_line.parse(CreationSettings, __doc__)
    command_line.load_tensorflow()
    from tasks import creation

    command_line.run(creation.run, settings)


if __name__ == "__main__":
    main()
