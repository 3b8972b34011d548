r"""Fine-tunes, evaluates, predicts with and exports a BERT classifier.

Takes the flags of google-research/bert, and tables of any form: docs/classification.md.

    python run_classifier.py --pretrained=DIR --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv --output_dir=output/mine
"""

from cli import command_line
from tasks.settings.classifier import ClassifierSettings


def main() -> None:
    settings = command_line.parse(ClassifierSettings, __doc__)
    if settings.check_data:
        from tasks import data_check

        return command_line.run(data_check.run, settings)
    command_line.load_tensorflow()
    from tasks import classifier

    command_line.run(classifier.run, settings)


if __name__ == "__main__":
    main()
