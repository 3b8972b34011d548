"""A text of a megabyte takes seconds and little memory, in a process of its own."""

import functools
import json
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

from data_pipeline.squad import choice, graph
from data_pipeline.tagging import graph as tagging_graph
from data_pipeline.tagging import schemes
from data_pipeline.text import offsets, wordpiece
from modeling import models
from serving import export, formats, windowed
from tests.serving import networks, odd_texts

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECES = "the fair of paris opens on monday , . and it was far away"
TOKENIZER = wordpiece.BertTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
)
CONFIG = networks.config_for(
    TOKENIZER.vocab,
    hidden_size=32,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=128,
)
FEW_MB, MANY_MB = 600, 1200
ROUNDING = 1e-5  # of float32; two graphs multiply matrices of different sizes
# Answers a text of its input; says how much memory that took, by the peak of this
# process alone: what getrusage calls one begins with that of its parent.
ASK = """
import json, re, sys
from serving import predictor
model = predictor.Predictor(sys.argv[1])
def ask(text):
    question = ["when?"] * (len(model.text_names) - 1)
    return model.predict(*([each] for each in (*question, text)))
def peak():
    with open("/proc/self/status") as file:
        return int(re.search("VmHWM:[^0-9]*([0-9]+) kB", file.read())[1]) / 2**10
ask("the fair")
before = peak()
(answer,) = ask(sys.stdin.read())
print(json.dumps([peak() - before, answer]))
"""


def tagger():
    tags = schemes.TagNames(("O", "B-place", "I-place", "B-day", "I-day"), "BIO")
    model, tensors = networks.build(lambda: models.BertTagger(CONFIG, len(tags.names)))
    return windowed.WordTagger(
        offsets.split_words,
        tagging_graph.encoder(TOKENIZER, max_seq_length=128),
        functools.partial(model, training=False),
        tagging_graph.chooser(tags),
        tensors,
    )


def answerer():
    model, tensors = networks.build(lambda: models.BertSpanPredictor(CONFIG))
    limits = {"max_seq_length": 128, "doc_stride": 64, "max_query_length": 8}
    return windowed.QuestionAnswerer(
        graph.encoder(TOKENIZER, **limits),
        functools.partial(model, training=False),
        graph.chooser(choice.Settings(aligner="words")),
        tensors,
    )


def megabytes_and_answer(path):
    words = random.Random(3).choices(PIECES.split(), k=odd_texts.MEGABYTE // 3)
    done = subprocess.run(
        [sys.executable, "-c", ASK, path],
        input=" ".join(words)[: odd_texts.MEGABYTE],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, values in expected.items():
        if name in ("probability", "probabilities", "score"):
            np.testing.assert_allclose(actual[name], values, atol=ROUNDING)
        else:
            assert actual[name] == values


@pytest.mark.slow
@pytest.mark.parametrize("make", [tagger, answerer])
def test_a_megabyte_takes_little_memory(make, tmp_path, monkeypatch):
    memory, answer = megabytes_and_answer(export.save(make(), str(tmp_path / "a"), {}))
    assert memory < FEW_MB
    chosen = {"export_format": "litert", "quantization": "none", "model": None}
    formats.save(make(), str(tmp_path / "b"), {}, **chosen)
    memory, small = megabytes_and_answer(str(tmp_path / "b" / "export_litert"))
    assert memory < FEW_MB
    assert_same(small, answer)
    # The twin: the network takes all windows at once.
    monkeypatch.setattr(export, "SLICE_TOKENS", 2**30)
    memory, whole = megabytes_and_answer(export.save(make(), str(tmp_path / "c"), {}))
    assert memory > MANY_MB
    assert_same(answer, whole)
    assert len(answer.get("words", ())) > 200_000 or answer["end"] > 1000
