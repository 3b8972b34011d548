"""Directories of BERT's relatives as small as those of tiny.py, as transformers writes
them: config.json, model.safetensors and a tokenizer.
"""

import json
import pathlib

from tests import tiny, tokenizer_files

NETWORKS = (
    *("distilbert", "roberta", "xlm-roberta", "electra", "albert"),
    *("deberta-v2", "mpnet", "nomic_bert"),
)
MERGES = [pair.split() for pair in ("Ġ t", "h e", "Ġt he", "Ġ s", "e a", "Ġs ea")]


def write_model(
    directory, model_type, head="none", num_classes=None, pieces=(), **changes
):
    """A directory of a `model_type` with random weights; `changes` are of its config.

    RoBERTa's tokenizer has pairs of bytes, all others have word pieces, since what is
    tested is the network; MPNet's are its own.
    """
    import keras

    from modeling import pretrainers
    from modeling.checkpoints import hugging_face
    from modeling.networks import catalogue

    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    tokens = _write_tokenizer(directory, model_type, pieces)
    sizes = {
        "vocab_size": tokens,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 48,
        "initializer_range": 0.1,
        "embedding_size": 16,
        # Of DeBERTa, whose distances are counted one by one up to 4.
        "relative_attention": True,
        "pos_att_type": "c2p|p2c",
        "position_buckets": 8,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    }
    kind = catalogue.of_model_type(model_type).config
    known = kind.keys().values()
    fields = {name: value for name, value in sizes.items() if name in known}
    config = kind(**{**fields, "model_type": model_type, **changes})
    keras.utils.set_random_seed(7)
    model = pretrainers.build(head, num_classes, config)
    hugging_face.save(directory, model)
    return directory


def _write_tokenizer(directory, model_type, pieces):
    """Writes tokenizer.json or vocab.txt; returns the number of tokens."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    if model_type != "roberta":
        vocab = [*tiny.OWN_WORDS, *"abcdefghijklmnopqrstuvwxyz.,", *pieces]
        if model_type == "mpnet":
            vocab = [*special, *vocab, "<mask>"]
        (directory / "vocab.txt").write_text("".join(f"{each}\n" for each in vocab))
        return len(vocab)
    from data_pipeline.text import byte_pairs

    vocab = [*special, *byte_pairs.BYTE_CHARS, *map("".join, MERGES), "<mask>"]
    raw = tokenizer_files.of_bytes(vocab, MERGES, (*special, "<mask>"))
    (directory / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")
    return len(vocab)
