"""BERT in a notebook, and in Keras' way; docs/python.md shows how.

    vectors = bert.load("models/minilm").embed(["a text"])

Import it before TensorFlow, which reads variables that it sets. The first use of a name
imports TensorFlow; the commands of a wheel, which import this too, begin without.
"""

from typing import TYPE_CHECKING, Any

from cli import environment

if TYPE_CHECKING:
    from cli.fitting import *  # noqa: F403
    from cli.library import *  # noqa: F403

__version__ = "0.2.0"
_NAMES = """BertAdam BertClassifier BertConfig BertModel BertTokenizer LinearWithWarmup
Loaded Predictor SearchIndex classifier embedder keras keras_in_order keras_training
load optimizer reader tagger"""

environment.prepare_notebook()


def __dir__() -> list[str]:
    return _NAMES.split()


def __getattr__(name: str) -> Any:
    if name not in _NAMES.split():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with environment.no_collections():
        from cli import fitting, library

    return getattr(library if hasattr(library, name) else fitting, name)
