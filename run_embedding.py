r"""Trains vectors of texts on what belongs together: pairs, scored pairs or labels.

Texts of equal meaning get near vectors; docs/text_vectors.md shows data and losses.

    python run_embedding.py --pretrained=DIR --do_train --do_eval \
        --train_file=pairs.tsv --dev_file=scored.tsv --output_dir=output/vectors
"""

from cli import command_line
from tasks.settings.embedding import EmbeddingSettings


def main() -> None:
    settings = command_line.parse(EmbeddingSettings, __doc__)
    command_line.load_tensorflow()
    from tasks import embedding

    command_line.run(embedding.run, settings)


if __name__ == "__main__":
    main()
