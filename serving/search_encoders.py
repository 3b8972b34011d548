"""Models that compute the vectors of an index: a directory, or an export."""

import dataclasses
import os
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from contract import errors, remote_files, tf_serving
from data_pipeline.classification import encoding
from data_pipeline.embedding import search
from data_pipeline.text import base
from loading import model_directory
from modeling.checkpoints import conversion, sentence_transformers
from modeling.features import text_vectors
from serving import predictor
from training import inference

_BATCH_TEXTS = 64
_NO_PROMPTS = dict.fromkeys(sentence_transformers.PROMPTS, "")


class Source(NamedTuple):
    """A model by its directory or export; what is None is as in the model."""

    pretrained: str | None = None
    export_dir: str | None = None
    pooling: str | None = None
    max_seq_length: int | None = None

    def with_absolute_paths(self) -> "Source":
        """The same model from any working directory; ids on a hub stay."""
        first, second = (
            os.path.abspath(path) if path and os.path.isdir(path) else path
            for path in (self.pretrained, self.export_dir)
        )
        return self._replace(pretrained=first, export_dir=second)


class Encoder(NamedTuple):
    """An open model.

    Attributes:
        identity: what decides about its vectors: digest, width, pooling and others.
        prompts: the texts to put before a "query" and before a "passage".
        encode: N texts -> vectors float32 [N, W] of length 1, and how many texts are
            cut. A second argument is called after each batch with the texts done.
        tokenizer: None of an export.
    """

    identity: Mapping[str, Any]
    prompts: Mapping[str, str]
    encode: Callable[..., tuple[np.ndarray, int]]
    tokenizer: base.Tokenizer | None = None


def open_source(source: Source) -> Encoder:
    """Loads a model; a BERT without modules has the mean of its last layer.

    Raises:
        InputError: it is not there, is damaged, or computes no vectors of texts.
    """
    if source.export_dir:
        return _open_export(source.export_dir)
    opened, length = model_directory.open_directory(
        source.pretrained,
        source.max_seq_length,
        head="text_encoder",
        name="--pretrained",
    )
    tokenizer, config = opened.tokenizer, opened.config
    vectors, similarity = text_vectors.TextVectors(), text_vectors.COSINE
    if modules := opened.modules:
        vectors, similarity = modules.text_vectors, modules.similarity
        sentence_transformers.check_products(modules)
    elif config.spec.text_vectors != "untrained":
        raise errors.InputError(
            f"--pretrained={source.pretrained}: {config.kind} has no vectors of texts "
            "before it is trained for them; give a BERT, or train by run_embedding.py"
        )
    vectors = dataclasses.replace(vectors, pooling=source.pooling or vectors.pooling)
    model = opened.build("text_encoder", text_vectors=vectors).model
    tokens = repr((tokenizer.definition(), tokenizer.do_lower_case)).encode()
    identity = {
        "digest": f"{zlib.crc32(tokens, int(conversion.digest(model), 16)):08x}",
        "width": model.width,
        "pooling": vectors.pooling,
        "is_normalized": vectors.is_normalized,
        "max_seq_length": length,
        **_named(similarity),
    }
    prompts = modules.usual_prompts() if modules else _NO_PROMPTS
    pack = encoding.Encoder(tokenizer, length).pack
    predict = inference.packed_function(model, _BATCH_TEXTS)

    def encode(texts, report=lambda done: None):
        packed = pack(texts)
        outputs = predict(packed, name="encoding: batch 1", report=report)
        return _scaled(outputs["vectors"], similarity), packed.num_truncated

    return Encoder(identity, prompts, encode, tokenizer)


def _open_export(export_dir):
    model = predictor.Predictor(export_dir)
    (answer,) = model.predict("a")
    extra = os.path.join(model.export_dir, tf_serving.EXTRA_DIR)
    similarity = sentence_transformers.read_similarity(extra)
    if np.ndim(answer.get("vector")) != 1:
        raise errors.InputError(
            f"--export_dir={model.export_dir}: does not return one vector for a text; "
            "give an export of run_embedding.py"
        )

    def encode(texts, report=lambda done: None):
        vectors = np.empty([len(texts), len(answer["vector"])], np.float32)
        order = np.argsort([len(text) for text in texts], kind="stable")
        for first in range(0, len(order), _BATCH_TEXTS):
            rows = order[first : first + _BATCH_TEXTS]
            answers = model.predict([texts[row] for row in rows])
            vectors[rows] = [answer["vector"] for answer in answers]
            report(first + len(rows))
        return _scaled(vectors, similarity), 0

    identity = {
        "digest": remote_files.digest_of_tree(model.export_dir),
        "width": len(answer["vector"]),
        "pooling": None,
        **_named(similarity),
    }
    return Encoder(identity, _NO_PROMPTS, encode)


def _scaled(vectors, similarity):
    """Vectors [N, W] whose products are similarities."""
    is_dot = similarity == text_vectors.DOT
    return np.asarray(vectors, np.float32) if is_dot else search.normalize(vectors)


def _named(similarity):
    """The part of an identity on the similarity; earlier indices have cosines alone."""
    is_usual = similarity == text_vectors.COSINE
    return {} if is_usual else {"similarity": similarity}
