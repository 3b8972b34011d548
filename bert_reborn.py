"""BERT in a notebook, and in Keras' way; docs/python.md shows how.

    vectors = bert.load("models/minilm").embed(["a text"])

Import it before TensorFlow, which reads variables that it sets. The first use of a name
imports TensorFlow; the commands of a wheel, which import this too, begin without.
"""

from typing import TYPE_CHECKING

from cli import environment

if TYPE_CHECKING:  # what __getattr__ finds
    from cli.fitting import (
        ClassifierSettings,
        EmbeddingSettings,
        SquadSettings,
        TaggerSettings,
        classifier,
        embedder,
        reader,
        tagger,
    )
    from cli.library import (
        BertAdam,
        BertClassifier,
        BertConfig,
        BertModel,
        BertTokenizer,
        LinearWithWarmup,
        Loaded,
        Predictor,
        SearchIndex,
        keras,
        keras_in_order,
        keras_training,
        load,
        optimizer,
    )

__version__ = "0.2.0"
__all__ = [
    "BertAdam",
    "BertClassifier",
    "BertConfig",
    "BertModel",
    "BertTokenizer",
    "ClassifierSettings",
    "EmbeddingSettings",
    "LinearWithWarmup",
    "Loaded",
    "Predictor",
    "SearchIndex",
    "SquadSettings",
    "TaggerSettings",
    "classifier",
    "embedder",
    "keras",
    "keras_in_order",
    "keras_training",
    "load",
    "optimizer",
    "reader",
    "tagger",
]

environment.prepare_notebook()


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # which would take any name for one

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        environment.check_backend()
        environment.import_tensorflow()
        with environment.no_collections():
            from cli import fitting, library

        return getattr(library if hasattr(library, name) else fitting, name)
