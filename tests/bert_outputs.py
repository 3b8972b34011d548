"""Outputs of bert_reborn.py on the backend of Keras that KERAS_BACKEND names.

A program of its own, because a process has one backend. As a program it runs where
TensorFlow cannot be imported, and fails if anything of it was:

python -m tests.bert_outputs FOLDER MODEL ...
"""

import json
import os
import pathlib
import sys

if __name__ == "__main__" and os.environ["KERAS_BACKEND"] != "tensorflow":
    sys.modules["tensorflow"] = None

import keras
import numpy as np

import bert_reborn as bert
from contract import errors
from data_pipeline.batches import batching

BACKEND = keras.backend.backend()
TEXTS = ["The film was great.", "it", "A sea, a shop " * 9, "awful ÉTÉ 中 x\u0301y", ""]
SECONDS = ["a shop", "the film was okay", "", "it " * 30, "great"]
CHOICES = [["a", "the film", f"{text} it"] for text in SECONDS]


def settings_of(loaded):
    """The arguments of a model, beside the texts."""
    kind = getattr(loaded.classes, "problem_type", "")
    if kind == "choice":
        return {"choices": CHOICES}
    both = getattr(loaded.classes, "pair_input", "") == "both_orders"
    return {"seconds": SECONDS} if both or loaded.num_texts == 2 else {}


def refused(call, *arguments, **options):
    """The one line of an error, as an array."""
    try:
        call(*arguments, **options)
    except errors.InputError as error:
        assert "\n" not in str(error)
        return np.array(str(error))
    return np.array("")


def flat(name, values):
    return {
        "/".join(map(str, (name, *path))): keras.ops.convert_to_numpy(value)
        for path, value in keras.tree.flatten_with_path(values)
    }


def compute(loaded):
    """{name: array} of all that works on every backend."""
    more = settings_of(loaded)
    inputs = loaded.encode(TEXTS, **more)
    network = loaded.model.config.network
    outputs = flat("encode", inputs)
    if network == "encoder_decoder":  # it writes the beginnings of the texts
        ids, mask = (inputs[name][:, :4] for name in ("input_ids", "input_mask"))
        target = {"decoder_input_ids": ids, "decoder_mask": mask, "labels": ids}
        inputs = {**inputs, **target}
    outputs |= flat("model", loaded.model(inputs))
    if "choices" not in more:
        outputs["tokens"] = np.array(
            loaded.tokens(TEXTS[0], SECONDS[0] if more else None)
        )
    if getattr(loaded.classes, "names", None) and hasattr(
        loaded.classes, "num_outputs"
    ):
        answers = loaded.predict(TEXTS, **more)
        outputs["answers"] = np.array([str(answer.get("label")) for answer in answers])
        shares = [[*answer["probabilities"].values()] for answer in answers]
        outputs["predict"] = np.array(shares, np.float32)
        assert more or loaded.predict([]) == []
    if "seconds" in more:
        places, scores = zip(
            *loaded.rerank(TEXTS[0], SECONDS, label="good"), strict=True
        )
        outputs |= {"places": np.array(places), "scores": np.array(scores, np.float32)}
    if network == "bert" and "choices" not in more:
        outputs["embed"] = loaded.embed(TEXTS * 20)
        outputs["layers"] = loaded.embed(TEXTS, layers=(0, -1), normalize=True)
        outputs["pairs"] = loaded.embed(TEXTS, SECONDS, pooling="cls")
        outputs["similarity"] = loaded.similarity(TEXTS, SECONDS)
        if not more:
            outputs["attention"] = loaded.attention(TEXTS[0])
    return outputs


def fit(directory):
    """{name: array} of a classifier that `fit` has trained for three epochs."""
    rows = [(f"a film {'it ' * (i % 5)}", "ab"[i % 2]) for i in range(14)]
    made = bert.classifier(directory, max_seq_length=16)
    data = made.read({"train": rows})
    rng = np.random.default_rng(3)
    for variable in made.model.classifier.variables:  # each backend draws its own
        variable.assign(0.1 * rng.normal(size=variable.shape))
    batches = batching.keras_training(data.examples("train"), batch_size=4, pad_to=16)
    optimizer = bert.optimizer(3 * len(batches), learning_rate=1e-4)
    optimizer.max_norm = 0  # rows that are read twice count otherwise in the norm
    made.model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = made.model.fit(batches, epochs=3, shuffle=False, verbose=0).history
    in_order = batching.keras_in_order(data.examples("train"), batch_size=4, pad_to=16)
    outputs = {f"history/{name}": np.array(each) for name, each in history.items()}
    outputs["logits"] = made.model.predict(in_order, verbose=0)["logits"]
    for variable in made.model.trainable_variables:
        path = variable.path.split("/", 1)[1]
        outputs[path] = keras.ops.convert_to_numpy(variable)
    return outputs


def main(folder, *names):
    folder = pathlib.Path(folder)
    written = folder / BACKEND
    written.mkdir(exist_ok=True)
    for name in names:
        loaded = bert.load(folder / "models" / name)
        np.savez(written / f"{name}.npz", **compute(loaded))
        loaded.save(written / name, "hugging_face", overwrite=True)
    pair = bert.load(folder / "models" / "pair")
    classifier = bert.load(folder / "models" / "bert")
    refusals = {
        "write": refused(pair.write, "the film"),
        "export": refused(classifier.export, written / "export"),
        **{
            path.name: refused(bert.load, path)
            for path in sorted(folder.glob("refused/*"))
        },
    }
    texts = {name: str(message) for name, message in refusals.items()}
    (written / "refused.json").write_text(json.dumps(texts))
    np.savez(written / "fit.npz", **fit(folder / "models" / "bert"))
    imported = [name for name in sys.modules if name.startswith("tensorflow")]
    assert imported == ["tensorflow"] and sys.modules["tensorflow"] is None, imported


if __name__ == "__main__":
    main(*sys.argv[1:])
