"""A left-to-right network as a SavedModel that writes and scores; for TF Serving."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from contract import features as feature_names
from serving import export

# How the tokens of a text are drawn.
_DRAWS = (("temperature", tf.float32), ("top_k", tf.int32), ("top_p", tf.float32))
_NONE = -1  # among ids: no token


class Spelling(NamedTuple):
    """Texts to ids and back.

    Attributes:
        encode: prompts [B] -> ids, ragged int32 [B, (W)].
        encode_scored: the same of texts to be scored.
        decode: ids of prompts, and of what follows -> texts [B] of what follows.
        tokens: the V tokens, as their names are shown.
    """

    encode: Callable
    encode_scored: Callable
    decode: Callable
    tokens: Sequence[str]


class TextGenerator(export.ServedModel):
    """Signatures `generate` and `sample`, which write, and `score`.

    `generate` takes texts and draws as the export says, `sample` as each row says.
    `generate_ids` and `score_ids` take ids; there is nothing else where texts cannot
    become ids in a graph.

    Args:
        write: ids [B, W], lengths and, or what the export says, seeds [B] and `draws`,
            a dict of [B] -> ids [B, N], and which of them belong to the text.
        score: ids [B, S], mask -> losses of the next tokens [B, S - 1].
        spelling: None where the tokenizer is not in the graph.
    """

    def __init__(
        self,
        write: Callable,
        score: Callable,
        variables: Iterable[tf.Variable],
        spelling: Spelling | None,
    ):
        # Traced once for all signatures; Autograph would convert the whole network.
        write, score = (tf.function(f, autograph=False) for f in (write, score))
        functions = {
            "generate_ids": _ids_function(_writes_ids(write)),
            "score_ids": _ids_function(_scores_ids(score)),
        }
        if spelling is not None:
            functions |= _text_functions(write, score, spelling)
        default = functions.get("generate", functions["generate_ids"])
        super().__init__(variables, serving_default=default, **functions)


def _text_functions(write, score, spelling):
    def write_texts(texts, *draws):
        prompts = spelling.encode(texts)
        written = tf.ragged.boolean_mask(*write(*_padded(prompts), *draws))
        return {
            "generated": spelling.decode(prompts, written),
            "num_tokens": tf.cast(written.row_lengths(), tf.int32),
        }

    def sample(texts, seeds, *values):
        names = [name for name, _ in _DRAWS]
        return write_texts(texts, seeds, dict(zip(names, values, strict=True)))

    def score_texts(texts):
        ids, lengths = _padded(spelling.encode_scored(texts))
        pieces = tf.gather(tf.constant(spelling.tokens), ids[:, 1:])
        found = _scores(score, ids, _mask(ids, lengths))
        is_scored = _mask(pieces, found["num_tokens"]) > 0
        return {**found, "pieces": tf.where(is_scored, pieces, "")}

    text, draws = ("text", tf.string), (("seed", tf.int64), *_DRAWS)
    return {
        "generate": _function(write_texts, [None], text),
        "sample": _function(sample, [None], text, *draws),
        "score": _function(score_texts, [None], text),
    }


def _writes_ids(write):
    def of_ids(ids, mask):
        found, is_text = write(ids, tf.reduce_sum(mask, axis=1))
        found = tf.where(is_text, found, _NONE)
        return {"generated_ids": found, "num_tokens": _count(is_text)}

    return of_ids


def _scores_ids(score):
    return lambda ids, mask: _scores(score, ids, mask)


def _scores(score, ids, mask):
    """What is said of ids [B, S]; the first is only read."""
    is_scored = tf.cast(mask[:, 1:], tf.float32)  # [B, S - 1]
    losses = tf.where(is_scored > 0.0, score(ids, mask), 0.0)
    nll, count = (tf.reduce_sum(x, axis=1) for x in (losses, is_scored))
    return {
        "nll": nll,
        "num_tokens": tf.cast(count, tf.int32),
        "perplexity": tf.exp(tf.math.divide_no_nan(nll, count)),
        "token_nll": losses,
    }


def _padded(ids):
    """Ragged ids as int32 [B, S], and their lengths [B]."""
    return ids.to_tensor(), tf.cast(ids.row_lengths(), tf.int32)


def _ids_function(function):
    """A tf.function of ids and their mask, int32 [B, S], padded to the right."""
    names = (feature_names.INPUT_IDS, feature_names.INPUT_MASK)
    return _function(function, [None, None], *((name, tf.int32) for name in names))


def _function(function, shape, *inputs):
    """A tf.function of inputs of this shape, each (name, dtype)."""
    specs = [tf.TensorSpec(shape, dtype, name=name) for name, dtype in inputs]
    return tf.function(function, input_signature=specs, autograph=False)


def _mask(rows, lengths):
    places = tf.range(tf.shape(rows)[1])[tf.newaxis]
    return tf.cast(places < lengths[:, tf.newaxis], tf.int32)


def _count(is_text):
    return tf.reduce_sum(tf.cast(is_text, tf.int32), axis=1)
