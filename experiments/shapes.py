"""Configs of every kind of network with as many weights as a BERT."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from contract import atomic_files, errors
from modeling.configs import config, gpt_config
from modeling.elmo import config as elmo_config
from modeling.encoder_decoder import config as encoder_decoder_config

# Convolutions over characters; few, for the LSTMs are the network.
_FILTERS = ((1, 16), (2, 16), (3, 32), (4, 64))
_STEP = 4  # sizes are multiples of it


def equal_sized(
    bert: config.BertConfig, vocab: Sequence[str], num_words: int
) -> dict[str, Any]:
    """{shape: config}, for the word pieces `vocab` or `num_words` words.

    Width and layers are those of `bert`; the number of weights is reached by the widths
    of the LSTMs and of GPT's and the pair's feed-forward layers.

    Raises:
        InputError: the BERT has an odd width, or one layer.
    """
    if bert.num_hidden_layers < 2 or bert.hidden_size % 2:
        raise errors.InputError(
            f"a BERT of {bert.num_hidden_layers} layers of {bert.hidden_size} has no "
            "counterparts: an encoder-decoder needs two layers, an ELMo an even width; "
            "choose another --bert_config_file"
        )
    bert = bert.with_vocab_size(len(vocab))
    wanted = num_weights(bert)
    half = bert.hidden_size // 2
    return {
        "bert": bert,
        "left_to_right": dataclasses.replace(bert, attention="causal"),
        "gpt": _nearest(lambda inner: _gpt(bert, inner), wanted, _STEP),
        "elmo": _nearest(lambda inner: _elmo(bert, num_words, inner), wanted, half),
        "encoder_decoder": _nearest(lambda n: _pair(bert, vocab, n), wanted, _STEP),
    }


def _gpt(bert, inner):
    return gpt_config.GptConfig(
        vocab_size=bert.vocab_size,
        hidden_size=bert.hidden_size,
        num_hidden_layers=bert.num_hidden_layers,
        num_attention_heads=bert.num_attention_heads,
        intermediate_size=inner,
        embedding_dropout_prob=bert.hidden_dropout_prob,
        hidden_dropout_prob=bert.hidden_dropout_prob,
        attention_probs_dropout_prob=bert.attention_probs_dropout_prob,
        max_position_embeddings=bert.max_position_embeddings,
        initializer_range=bert.initializer_range,
    )


def _elmo(bert, num_words, inner):
    return elmo_config.ElmoConfig(
        projection_dim=bert.hidden_size // 2,
        lstm_dim=inner,
        num_hidden_layers=2,
        cell_clip=3.0,
        proj_clip=3.0,
        use_skip_connections=True,
        filters=_FILTERS,
        num_highway=1,
        vocab_size=num_words,
        dropout=bert.hidden_dropout_prob,
        sample_softmax=False,
    )


def _pair(bert, vocab, inner):
    """Half of the layers read, half of them write."""
    written = bert.num_hidden_layers // 2
    encoder, decoder = (
        dataclasses.replace(bert, num_hidden_layers=layers, intermediate_size=inner)
        for layers in (bert.num_hidden_layers - written, written)
    )
    pair = encoder_decoder_config.EncoderDecoderConfig.from_berts(
        encoder, decoder, decoder_start_token_id=1, eos_token_id=2
    )
    return pair.with_vocabulary(vocab)


def num_weights(network: Any) -> int:
    """Weights of a network beside its tables of tokens, which its vocabulary decides.

    Those tables, also as a softmax's, are `table_weights`. Pooler and masked-LM head
    count; the next-sentence head does not.
    """
    count = network.num_weights()
    if network.network == "elmo":
        return count
    square = (network.hidden_size + 1) * network.hidden_size
    if network.network in ("bert", "encoder_decoder"):
        count += square + 2 * network.hidden_size + _num_outputs(network)
    if network.network == "bert":
        count += square  # the pooler
    return count - table_weights(network)


def table_weights(network: Any) -> int:
    """Weights of a network's tables of tokens, for input and output."""
    if network.network == "elmo":
        return network.vocab_size * (network.projection_dim + 1)
    if network.network == "encoder_decoder":
        return (network.vocab_size + _num_outputs(network)) * network.hidden_size
    return network.vocab_size * network.hidden_size


def _num_outputs(network):
    return getattr(network, "num_outputs", network.vocab_size)


def _nearest(make: Callable[[int], Any], wanted: int, least: int) -> Any:
    """The config, by its inner width, whose weights are nearest to `wanted`."""
    inner = -(-least // _STEP) * _STEP
    smaller = larger = make(inner)
    while num_weights(larger) < wanted:
        inner += _STEP
        smaller, larger = larger, make(inner)
    return min(smaller, larger, key=lambda c: abs(num_weights(c) - wanted))


def write(configs: dict[str, Any], directory: str) -> dict[str, str]:
    """Writes each config to directory/<shape>/<its file's name>; returns the paths."""
    paths = {}
    for shape, network in configs.items():
        path = os.path.join(directory, shape, network.file_name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        atomic_files.write_text(path, network.to_json_string())
        paths[shape] = path
    return paths
