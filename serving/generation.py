"""Networks as SavedModels that write texts, and score them; for TF Serving."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from contract import features as feature_names
from serving import export

# How the tokens of a text are drawn.
_DRAWS = {"temperature": tf.float32, "top_k": tf.int32, "top_p": tf.float32}
_IDS, _LENGTHS = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
_NONE = -1  # among ids: no token


class Spelling(NamedTuple):
    """Texts to ids and back."""

    encode: Callable  # prompts [B] -> ids, ragged int32 [B, (W)]
    encode_scored: Callable  # texts to be scored -> likewise
    decode: Callable  # ids of prompts, ids of continuations -> continuations [B]
    tokens: Sequence[str]  # V names, as they are shown


class TextGenerator(export.ServedModel):
    """Signatures `generate` and `sample`, which write, and `score`.

    `generate` takes texts and draws with the export's settings, `sample` with those of
    each row. `generate_ids` and `score_ids` take ids; they are the only ones where
    texts cannot become ids in a graph.

    Args:
        write: ids [B, W], lengths and optional seeds [B] and `draws`, a dict of [B]
            -> ids [B, N], and which of them belong to the text.
        score: ids [B, S], mask -> losses of the next tokens [B, S - 1].
        spelling: None where the tokenizer is not in the graph.
        limits: those of the network's tables.
    """

    def __init__(
        self,
        write: Callable,
        score: Callable,
        variables: Iterable[tf.Variable],
        spelling: Spelling | None,
        limits: export.Limits,
    ):
        # Traced once, however many signatures call them.
        written = _trace(write, _IDS, _LENGTHS)
        scored = _trace(score, _IDS, _IDS)
        functions = {
            name: _ids_function(functools.partial(function, traced), limits)
            for name, function, traced in (
                ("generate_ids", _write_ids, written),
                ("score_ids", _score_ids, scored),
            )
        }

        def write_drawn(ids, lengths, seeds, *draws):
            return write(ids, lengths, seeds, dict(zip(_DRAWS, draws, strict=True)))

        if spelling is not None:
            per_row = [tf.TensorSpec([None], dtype) for dtype in _DRAWS.values()]
            seeds = tf.TensorSpec([None], tf.int64)
            sampled = _trace(write_drawn, _IDS, _LENGTHS, seeds, *per_row)
            functions |= _text_functions(written, sampled, scored, spelling)
        default = functions.get("generate", functions["generate_ids"])
        super().__init__(variables, serving_default=default, **functions)


class TargetWriter(export.ServedModel):
    """Signature `write`, the default, from sources to targets.

    `text`, string [B], becomes `written`, string [B], and `num_tokens`, int32 [B].

    Args:
        encode: sources [B] -> features of an encoder, as in training.
        write: features -> ids [B, N], and which of them belong to the text.
        decode: ids int32 [B, N], -1 for none -> texts [B].
    """

    def __init__(
        self,
        encode: Callable,
        write: Callable,
        decode: Callable,
        variables: Iterable[tf.Variable],
    ):
        def write_targets(texts):
            count = tf.shape(texts)[0]
            ids, is_text = write(export.with_some(encode(texts)))
            ids, is_text = ids[:count], is_text[:count]
            ids = tf.where(is_text, ids, _NONE)
            return {"written": decode(ids), "num_tokens": _count(is_text)}

        function = _function(write_targets, [None], {"text": tf.string})
        super().__init__(variables, serving_default=function, write=function)


def _trace(function, *specs):
    traced = tf.function(function, input_signature=specs, autograph=False)
    return traced.get_concrete_function()


def _text_functions(written, sampled, scored, spelling):
    def write_texts(write, texts, *draws):
        prompts = spelling.encode(texts)
        ids = tf.ragged.boolean_mask(*write(*_pad(prompts), *draws))
        return {
            "generated": spelling.decode(prompts, ids),
            "num_tokens": tf.cast(ids.row_lengths(), tf.int32),
        }

    def score_texts(texts):
        ids, lengths = _pad(spelling.encode_scored(texts))
        pieces = tf.gather(tf.constant(spelling.tokens), ids[:, 1:])
        scores = _score_ids(scored, ids, _mask(ids, lengths))
        is_scored = _mask(pieces, scores["num_tokens"]) > 0
        return {**scores, "pieces": tf.where(is_scored, pieces, "")}

    text, draws = {"text": tf.string}, {"seed": tf.int64, **_DRAWS}
    generate = functools.partial(write_texts, written)
    sample = functools.partial(write_texts, sampled)
    return {
        "generate": _function(generate, [None], text),
        "sample": _function(sample, [None], text | draws),
        "score": _function(score_texts, [None], text),
    }


def _write_ids(write, ids, mask):
    new_ids, is_text = write(ids, tf.reduce_sum(mask, axis=1))
    new_ids = tf.where(is_text, new_ids, _NONE)
    return {"generated_ids": new_ids, "num_tokens": _count(is_text)}


def _score_ids(score, ids, mask):
    """The scores of ids [B, S]; the first id has none."""
    is_scored = tf.cast(mask[:, 1:], tf.float32)  # [B, S - 1]
    losses = tf.where(is_scored > 0.0, score(ids, mask), 0.0)
    nll, count = (tf.reduce_sum(x, axis=1) for x in (losses, is_scored))
    return {
        "nll": nll,
        "num_tokens": tf.cast(count, tf.int32),
        "perplexity": tf.exp(tf.math.divide_no_nan(nll, count)),
        "token_nll": losses,
    }


def _pad(ids):
    """Ragged ids as int32 [B, S], and their lengths [B]."""
    return ids.to_tensor(), tf.cast(ids.row_lengths(), tf.int32)


def _ids_function(function, limits):
    """A tf.function of ids and their mask, int32 [B, S], padded to the right."""
    names = feature_names.INPUT_IDS, feature_names.INPUT_MASK

    def checked(*arrays):
        features = dict(zip(names, arrays, strict=True))
        features[feature_names.SEGMENT_IDS] = tf.zeros_like(arrays[0])
        features = export.check_ids(features, limits)
        mask = features[feature_names.INPUT_MASK]
        places = tf.range(1, tf.shape(mask)[1] + 1)
        ends, counts = tf.reduce_max(mask * places, 1), tf.reduce_sum(mask, 1)
        is_left = tf.reduce_all(ends == counts)
        text = "input_mask has zeros before ones; pad on the right"
        with tf.control_dependencies([tf.debugging.Assert(is_left, [text])]):
            return function(*(tf.identity(features[name]) for name in names))

    return _function(checked, [None, None], dict.fromkeys(names, tf.int32))


def _function(function, shape, inputs):
    """A tf.function of inputs of this shape, {name: dtype}."""
    specs = [tf.TensorSpec(shape, dtype, name=name) for name, dtype in inputs.items()]
    return tf.function(function, input_signature=specs, autograph=False)


def _mask(rows, lengths):
    places = tf.range(tf.shape(rows)[1])[tf.newaxis]
    return tf.cast(places < lengths[:, tf.newaxis], tf.int32)


def _count(is_text):
    return tf.reduce_sum(tf.cast(is_text, tf.int32), axis=1)
