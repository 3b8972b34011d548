"""An ELMo and sentences small enough that a script runs from end to end in a second."""

import json
import pathlib

import numpy as np

WORDS = (
    *("the", "a", "boat", "river", "sea", "runs", "to", "and"),
    *("it", "rains", "she", "sings", ".", "café"),
)
OPTIONS = {
    "lstm": {
        **{"dim": 12, "projection_dim": 8, "n_layers": 2},
        **{"cell_clip": 3, "proj_clip": 3, "use_skip_connections": True},
    },
    "char_cnn": {
        **{"filters": [[1, 4], [2, 6]], "activation": "relu", "n_highway": 1},
        **{"embedding": {"dim": 4}, "max_characters_per_token": 50},
        "n_characters": 261,
    },
    "bidirectional": True,
    "dropout": 0.1,
    "n_tokens_vocab": len(WORDS) + 3,
    "n_negative_samples_batch": 6,
    "unroll_steps": 5,
}


def write_model(directory, **changes):
    """A directory as an earlier run leaves it, random weights in it."""
    import keras

    from modeling.checkpoints import google
    from modeling.configs import config_files
    from modeling.networks.elmo import objective

    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "options.json").write_text(json.dumps({**OPTIONS, **changes}))
    write_vocab(directory / "vocab.txt")
    keras.utils.set_random_seed(1)
    config = config_files.read(directory / "options.json")
    model = objective.BidirectionalLM(config)
    model.build()
    google.save(directory / "model.ckpt", model)
    return directory


def write_vocab(path, words=("<S>", "</S>", "<UNK>", *WORDS)):
    path.write_text("".join(f"{word}\n" for word in words), "utf-8")
    return path


def write_sentences(path, count, seed=0):
    """Sentences of 1 to 12 words, some of them in no vocabulary; two empty lines."""
    rng = np.random.default_rng(seed)
    words = [*WORDS, "boats", "日本"]
    lines = [
        " ".join(words[i] for i in rng.integers(0, len(words), rng.integers(1, 13)))
        for _ in range(count)
    ]
    path.write_text("\n".join(["", *lines[:3], "  ", *lines[3:]]) + "\n", "utf-8")
    return path
