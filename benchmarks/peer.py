"""The peer's side of a comparison: `python -m benchmarks.peer JOB`.

transformers with PyTorch at its best: batches by length as ours, its fastest attention,
compiled where shapes are fixed, every core, the fused optimizer, inference mode; or its
network in another runtime (peer_runtimes.py). Needs torch, transformers and NumPy.
Prints the result of `run` as JSON.
"""

import json
import statistics
import sys
import time

import numpy as np
import torch
import transformers

from benchmarks import sides
from contract import cores, features

MODELS = {
    "classifier": transformers.BertForSequenceClassification,
    "pretraining": transformers.BertForPreTraining,
    "text_encoder": transformers.BertModel,
}
IGNORED = -100  # the label of a token that has none


def run(job):
    """Does one turn, with the results of ours.run."""
    torch.set_num_threads(cores.usable())
    transformers.logging.set_verbosity_error()
    figures = ACTIONS[job.action](job, open_model(job))
    x = torch.randn(sides.PEAK_SIZE, sides.PEAK_SIZE)
    libraries = {"PyTorch": torch, "transformers": transformers}
    versions = {name: module.__version__ for name, module in libraries.items()}
    with torch.inference_mode():
        return sides.described(figures, lambda: x @ x, versions)


def open_model(job):
    """The model of a job: attention or runtime, and mode, are those of its variant."""
    engine, _, mode = job.variant.partition("_")
    is_runtime = engine in ("onnxruntime", "openvino")
    classes = {} if job.num_classes is None else {"num_labels": job.num_classes}
    model = MODELS[job.head].from_pretrained(
        job.pretrained,
        attn_implementation="eager" if is_runtime else engine,
        **classes,
    )
    model.train(job.action == "train")
    if is_runtime:
        from benchmarks import peer_runtimes  # needs packages of its own

        return peer_runtimes.open_model(model, engine, mode)
    if mode == "int8":
        layers = {torch.nn.Linear}
        return torch.ao.quantization.quantize_dynamic(model, layers, torch.qint8)
    torch._inductor.config.freezing = mode == "frozen"  # weights may be packed
    return torch.compile(model) if mode else model


def batches_of(job):
    """Keyword arguments of the model, for each step; a list of both texts of pairs."""
    for batch in sides.read_batches(job):
        if batch[features.INPUT_IDS].ndim == 3:
            yield [as_tensors(arguments(column)) for column in columns(batch)]
        else:
            yield as_tensors(arguments(batch))


def as_tensors(named):
    """The arrays as tensors of PyTorch."""
    return {name: torch.from_numpy(values) for name, values in named.items()}


def arguments(batch):
    """Our features under the peer's names, int64."""
    named = {
        "input_ids": batch[features.INPUT_IDS],
        "attention_mask": batch[features.INPUT_MASK],
        "token_type_ids": batch[features.SEGMENT_IDS],
    }
    if features.LABEL_IDS in batch:
        named["labels"] = batch[features.LABEL_IDS]
    if features.MASKED_LM_IDS in batch:  # none has a weight of 0
        labels = np.full(batch[features.INPUT_IDS].shape, IGNORED)
        places, ids = batch[features.MASKED_LM_POSITIONS], batch[features.MASKED_LM_IDS]
        np.put_along_axis(labels, places, ids, axis=1)
        named["labels"] = labels
        named["next_sentence_label"] = batch[features.NEXT_SENTENCE_LABELS]
    return {name: value.astype(np.int64) for name, value in named.items()}


def columns(batch):
    """The features [B, S] of each column of [B, G, S], padded alone."""
    for column in range(batch[features.INPUT_IDS].shape[1]):
        rows = {name: batch[name][:, column] for name in features.ENCODER_INPUTS}
        length = rows[features.INPUT_MASK].sum(axis=1).max()
        yield {name: values[:, :length] for name, values in rows.items()}


def contrast(model, parts):
    """The loss of sentence-transformers' MultipleNegativesRankingLoss."""
    vectors = []
    for part in parts:
        hidden = model(**part).last_hidden_state
        mask = part["attention_mask"][..., None].float()
        mean = (hidden * mask).sum(1) / mask.sum(1)
        vectors.append(torch.nn.functional.normalize(mean, dim=-1))
    scores = 20.0 * vectors[0] @ vectors[1].T
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def train(job, model):
    """Steps of the usual loop."""
    adam = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    losses, ends = [], []

    def step(batch):
        is_contrast = isinstance(batch, list)
        loss = contrast(model, batch) if is_contrast else model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()
        losses.append(loss.item())
        ends.append(time.time())

    seconds = sum(sides.seconds_of(step, batches_of(job), job.warm_up))
    figures = {"seconds": seconds, "loss": statistics.mean(losses[job.warm_up :])}
    return figures | {"start_s": ends[job.warm_up - 1] - job.begun}


def predict(job, model):
    """Batches to logits."""

    def fetch(batch):
        return model(**batch).logits.numpy()

    with torch.inference_mode():
        return {"seconds": sum(sides.seconds_of(fetch, batches_of(job), job.warm_up))}


def answer(job, model):
    """Batches of texts to their probabilities, tokenizer included."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.pretrained)

    def classify(texts):
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        return model(**inputs).logits.softmax(-1).numpy()

    with torch.inference_mode():
        return sides.time_answers(classify, job)


ACTIONS = {"train": train, "predict": predict, "answer": answer}


if __name__ == "__main__":
    print(json.dumps(run(sides.Job(**json.loads(sys.argv[1])))))
