r"""Pretrains BERT on masked words and next sentences, a network left to right, or ELMo.

Takes every flag of google-research/bert's run_pretraining.py, and records of its
create_pretraining_data.py or of ours: see docs/pretraining.md.

    python run_pretraining.py --bert_config_file=configs/bert_tiny.json --do_train \
        --input_file='records-*' --output_dir=output/pretraining
"""

from cli import command_line
from tasks.settings.pretraining import PretrainingSettings


def main() -> None:
    settings = command_line.parse(PretrainingSettings, __doc__)
    command_line.load_tensorflow()
    from tasks import pretraining

    command_line.run(pretraining.run, settings)


if __name__ == "__main__":
    main()
