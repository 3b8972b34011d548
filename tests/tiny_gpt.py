"""A small GPT-2 without weights, for scripts that run from end to end."""

import json
import shutil

from modeling import gpt_config


def write(directory, vocab_file):
    """config.json, and the files of a vocabulary like GPT-2's encoder.json."""
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
    """What names the files; there is no checkpoint."""
    return [
        f"--bert_config_file={directory}/config.json",
        f"--vocab_file={directory}/encoder.json",
    ]
