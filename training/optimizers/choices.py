"""The optimizers of --optimizer, a line each; importing their code takes seconds."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from training.optimizers import clipped

# {value of the flag: (file and class here, what the help says)}
OPTIMIZERS = {
    "adam": ("bert_adam.BertAdam", "as in google-research/bert"),
    "lamb": ("bert_adam.BertLamb", "for batches of thousands"),
    "gpt_adam": ("bert_adam.GptAdam", "as in GPT"),
    "adagrad": ("adagrad.Adagrad", "for the pretraining of ELMo"),
    "muon": ("muon.Muon", "for the matrices of hidden layers, with adam for the rest"),
}


def describe() -> str:
    """A sentence each, for the help of the flag."""
    return " ".join(f"{name}: {text}." for name, (_, text) in OPTIMIZERS.items())


def kind(name: str) -> type["clipped.ClippedOptimizer"]:
    """The class of a value of the flag."""
    file, _, own = OPTIMIZERS[name][0].partition(".")
    return getattr(importlib.import_module(f".{file}", __package__), own)
