"""Small GPT-2s, without and with weights, for scripts that run from end to end."""

import json
import pathlib
import shutil

import keras
import numpy as np

from data_pipeline.text import byte_pairs
from modeling import pretrainers
from modeling.checkpoints import conversion, google
from modeling.networks.gpt import config as gpt_config


def write(directory, vocab_file):
    directory.mkdir()
    for name in ("encoder.json", "vocab.bpe"):
        shutil.copy(vocab_file.parent / name, directory / name)
    config = gpt_config.GptConfig(
        vocab_size=len(json.loads(vocab_file.read_text("utf-8"))),
        norm_first=True,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    (directory / "config.json").write_text(json.dumps(config.to_dict()))
    return directory


def flags(directory):
    return [
        f"--bert_config_file={directory}/config.json",
        f"--vocab_file={directory}/encoder.json",
    ]


def tokenizer():
    """One token for each byte, and the one that ends texts."""
    vocab = [*byte_pairs.BYTE_CHARS, byte_pairs.END_OF_TEXT]
    return byte_pairs.Gpt2Tokenizer(vocab, [])


def write_model(directory, **changes):
    """A GPT-2 on bytes with random weights that write no repetitions of one token."""
    shape = {
        "vocab_size": 257,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 48,
        "initializer_range": 0.3,
    }
    config = gpt_config.GptConfig(norm_first=True, **(shape | changes))
    keras.utils.set_random_seed(7)
    model = pretrainers.LanguageModel(config)
    model.build()
    table = model.network.embeddings.position_embeddings
    table.assign(np.random.default_rng(0).normal(size=table.shape))
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True)
    for name, text in conversion.files_of(config, tokenizer()).items():
        (directory / name).write_text(text, encoding="utf-8")
    google.save(directory / "model.ckpt", model)
    return directory
