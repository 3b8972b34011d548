r"""Fine-tunes BERT to tag words, evaluates, predicts with and exports the tagger.

Slot filling, entities, parts of speech (BERT section 5.3): see docs/tagging.md.

    python run_tagger.py --pretrained=DIR --do_train --do_eval \
        --train_file=train.conll --dev_file=dev.conll --output_dir=output/tags
"""

from cli import command_line
from tasks.settings.tagger import TaggerSettings


def main() -> None:
    settings = command_line.parse(TaggerSettings, __doc__)
    command_line.load_tensorflow()
    from tasks import tagger

    command_line.run(tagger.run, settings)


if __name__ == "__main__":
    main()
