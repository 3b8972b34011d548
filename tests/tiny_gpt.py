"""A GPT-2 of two layers x 32 on single bytes, as --pretrained takes it."""

import pathlib


def tokenizer():
    """One token for each byte, and the one that ends texts."""
    from data_pipeline.text import gpt_tokenizers

    vocab = [*gpt_tokenizers.BYTE_CHARS, gpt_tokenizers.END_OF_TEXT]
    return gpt_tokenizers.Gpt2Tokenizer(vocab, [])


def write_model(directory, **changes):
    """Random weights that write no repetitions of one token."""
    import keras
    import numpy as np

    from modeling import gpt_config, models
    from modeling.checkpoints import google, pretrained

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
    model = models.LanguageModel(config)
    model.build()
    table = model.network.embeddings.position_embeddings
    table.assign(np.random.default_rng(0).normal(size=table.shape))
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True)
    for name, text in pretrained.files(config, tokenizer()).items():
        (directory / name).write_text(text, encoding="utf-8")
    google.save(directory / "model.ckpt", model)
    return directory
