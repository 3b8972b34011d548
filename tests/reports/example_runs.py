"""A run to report of, without a model: rows, labels and what was said of them."""

import numpy as np

from contract import outcomes

NAMES = ("bad", "fine", "good")
EVIL = "<script>alert('x')</script> & \"so on\""


def rows(count=60, *, wrong_every=5, first_text="row 0", shift=0):
    """Every `wrong_every`th row is wrong, or none; the first of them is the worst."""
    labels = np.arange(count) % 3
    is_wrong = np.zeros(count, bool)
    if wrong_every:
        is_wrong = (np.arange(count) + shift) % wrong_every == 0
    predictions = np.where(is_wrong, (labels + 1) % 3, labels)
    losses = np.where(is_wrong, 3.0 - np.arange(count) / count, 0.1)
    right = labels == predictions

    def rescore(chosen):
        return {
            "accuracy": float(right[chosen].mean()),
            "loss": float(losses[chosen].mean()),
        }

    texts = [(f"row {i}",) for i in range(count)]
    if count:
        texts[0] = (first_text,)
    return outcomes.Outcomes(
        split="dev",
        texts=texts,
        expected=[NAMES[i] for i in labels],
        predicted=[NAMES[i] for i in predictions],
        is_correct=right,
        losses=losses,
        scores=rescore(np.arange(count)),
        rescore=rescore,
        shares={"accuracy": 1.0},
        decisions=outcomes.Decisions(
            class_names=NAMES, labels=labels, predictions=predictions
        ),
    )


def facts(**changes):
    flags = {
        "learning_rate": 2e-5,
        "max_seq_length": 32,
        "train_file": "/Users/me/t.tsv",
    }
    return {
        "kind": "text-classification",
        "command": "python run_classifier.py --train_file=/Users/me/t.tsv",
        "training_command": "python run_classifier.py --train_file=/Users/me/t.tsv",
        "flags": flags | changes.pop("flags", {}),
        "defaults": {"learning_rate": 5e-5, "max_seq_length": 32, "train_file": None},
        "step": 30,
        "seconds": 75.0,
        "results": {"eval_accuracy": 0.8, "global_step": 30},
        "trains": True,
        "has_weights": True,
        "exports": [("export", "saved_model")],
        "explanations": [],
        "environment": {"precision": "float32"},
        "data": {
            "train": {
                "path": "/Users/me/t.tsv",
                "count": 4,
                "unit": "rows",
                "lengths": [3, 4, 4, 9],
                "length_unit": "tokens of a row",
                "cut": 1,
                "cut_means": "cut to --max_seq_length",
                "labels": {"bad": 1, "good": 3},
                "labels_title": "Labels",
            }
        },
        **changes,
    }
