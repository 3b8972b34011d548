"""The peer of benchmarks/few_labels.py: `python -m benchmarks.few_labels_peer JOB`.

SetFit with its defaults: every pair of rows, those of one label repeated until they are
as many as the others (oversampling), batches of 16 pairs, one epoch, the loss of
cosines, and scikit-learn's logistic regression. It saves and logs nothing. Needs
setfit, datasets and torch.
"""

import json
import os
import pathlib
import sys

import datasets
import setfit
import torch
import transformers

from contract import cores


def run(job):
    """{"accuracy", "steps", "versions"} of a model of the rows "train" on "test"."""
    torch.set_num_threads(cores.usable())
    rows = json.loads(pathlib.Path(job["rows"]).read_text("utf-8"))
    (texts, labels), (asked, gold) = (zip(*rows[k], strict=True) for k in rows)
    model = setfit.SetFitModel.from_pretrained(
        job["pretrained"], labels=sorted({*labels})
    )
    model.model_body.max_seq_length = job["max_seq_length"]
    settings = setfit.TrainingArguments(
        output_dir=job["output_dir"],
        max_steps=job["max_peer_steps"] or -1,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        show_progress_bar=False,
        seed=job["seed"],
    )
    table = datasets.Dataset.from_dict({"text": texts, "label": labels})
    trainer = setfit.Trainer(model=model, args=settings, train_dataset=table)
    trainer.train()
    answers = model.predict(list(asked), show_progress_bar=False)
    right = sum(a == b for a, b in zip(answers, gold, strict=True))
    libraries = {"setfit": setfit, "PyTorch": torch, "transformers": transformers}
    return {
        "accuracy": right / len(gold),
        "steps": trainer.st_trainer.state.global_step,
        "versions": {name: each.__version__ for name, each in libraries.items()},
    }


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    print(json.dumps(run(json.loads(sys.argv[1]))))
