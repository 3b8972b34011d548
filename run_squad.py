r"""Fine-tunes BERT on questions about texts, answers such questions and scores answers.

Takes every flag of google-research/bert's run_squad.py: see docs/squad.md.

    python run_squad.py --pretrained=DIR --do_train --do_predict \
        --train_file=train.json --predict_file=dev.json --output_dir=output/squad
"""

from cli import command_line
from tasks.settings.squad import SquadSettings


def main() -> None:
    settings = command_line.parse(SquadSettings, __doc__)
    command_line.load_tensorflow()
    from tasks import squad

    command_line.run(squad.run, settings)


if __name__ == "__main__":
    main()
