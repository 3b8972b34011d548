"""bert.py on small models: what it opens, computes, writes and refuses."""

import json

import numpy as np
import pytest

import bert
from tests import tiny

TEXTS = ["The film was great", "the shop", "awful"]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny"
    return tiny.write_model(path, num_hidden_layers=1, max_position_embeddings=128)


@pytest.fixture(scope="module")
def loaded(model_dir):
    return bert.load(model_dir)


@pytest.fixture(scope="module")
def classifier(model_dir):
    return bert.load(model_dir, labels=("bad", "fine", "good"))


def vectors(loaded, texts=TEXTS):
    return np.asarray(loaded.model(loaded.encode(texts))["pooled_output"])


@pytest.mark.parametrize("lowers", [True, False])
def test_vocabulary_is_only_in_tokenizer_json(loaded, tmp_path, lowers):
    """What transformers 5 writes: tokenizer.json, and nothing that says the case."""
    loaded.save(tmp_path / "saved", "hugging_face")
    for name in ("vocab.txt", "tokenizer_config.json"):
        (tmp_path / "saved" / name).unlink()
    tokens = loaded.tokenizer.vocab  # it has "a" twice
    vocab = {t if tokens.index(t) == i else f"{t}{i}": i for i, t in enumerate(tokens)}
    raw = {
        "model": {"type": "WordPiece", "vocab": vocab},
        "normalizer": {"type": "BertNormalizer", "lowercase": lowers},
        "added_tokens": [{"id": i, "content": t} for t, i in [*vocab.items()][:5]],
    }
    (tmp_path / "saved" / "tokenizer.json").write_text(json.dumps(raw))
    again = bert.load(tmp_path / "saved")
    the = "the" if lowers else "[UNK]"
    assert again.tokens(TEXTS[0])[1:3] == [the, "film"]
    is_equal = np.array_equal(vectors(again), vectors(loaded))
    assert is_equal == lowers
    lower = [text.lower() for text in TEXTS]
    np.testing.assert_array_equal(vectors(again, lower), vectors(loaded))
