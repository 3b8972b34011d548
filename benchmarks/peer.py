"""The peer's side of a comparison: `python -m benchmarks.peer JOB`.

transformers with PyTorch at its best: batches by length as ours, its fastest attention,
compiled where shapes are fixed, every core, the fused optimizer, inference mode; or its
network in another runtime (peer_runtimes.py). Needs torch, transformers and NumPy.
Prints the result of `run` as JSON.
"""

import contextlib
import json
import statistics
import sys
import time

import numpy as np
import torch
import transformers

from benchmarks import sides
from contract import features

MODELS = {
    "classifier": transformers.BertForSequenceClassification,
    "pretraining": transformers.BertForPreTraining,
    "tagger": transformers.BertForTokenClassification,
    "span": transformers.BertForQuestionAnswering,
    "language_model": transformers.GPT2LMHeadModel,
    "text_encoder": transformers.BertModel,
}
LIBRARIES = {"PyTorch": torch, "transformers": transformers}
IGNORED = -100  # the label of a token that has none


def run(job):
    """Does one turn, with the results of ours.run."""
    torch.set_num_threads(sides.cores())
    transformers.logging.set_verbosity_error()
    precise = contextlib.nullcontext()
    if job.precision == "bfloat16":
        precise = torch.autocast("cpu", torch.bfloat16)
    model = open_model(job)
    figures = ACTIONS[job.action](job, model, precise)
    return {
        **figures,
        "peak_memory_mb": sides.peak_memory_mb(),
        "peak_gflops": peak_gflops(getattr(torch, job.precision)),
        "versions": {name: module.__version__ for name, module in LIBRARIES.items()},
        "environment": sides.environment(),
    }


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


def peak_gflops(dtype):
    """`sides.peak_gflops` of PyTorch."""
    x = torch.randn(sides.PEAK_SIZE, sides.PEAK_SIZE).to(dtype)
    with torch.inference_mode():
        return sides.peak_gflops(lambda: x @ x)


def batches_of(job):
    """Keyword arguments of the model, for each step; the features are as ours."""
    work = sides.Work.load(job.work)
    for batch in work.batches(job.warm_up + job.steps):
        if work.num_sequences > 1:
            yield columns(batch, work.num_sequences)
            continue
        named = arguments(batch)
        if job.head == "language_model":  # which shifts the labels itself
            ids = named["input_ids"]
            named = {"input_ids": ids, "labels": ids}
        yield {name: torch.from_numpy(v) for name, v in named.items()}


def arguments(batch):
    """Our features under the peer's names, int64."""
    named = {
        "input_ids": batch[features.INPUT_IDS],
        "attention_mask": batch[features.INPUT_MASK],
        "token_type_ids": batch[features.SEGMENT_IDS],
    }
    if features.LABEL_IDS in batch:
        labels = batch[features.LABEL_IDS]
        named["labels"] = np.where(labels == features.IGNORED, IGNORED, labels)
    for name in (features.START_POSITIONS, features.END_POSITIONS):
        if name in batch:
            named[name] = batch[name]
    if features.MASKED_LM_IDS in batch:  # none has a weight of 0
        labels = np.full(batch[features.INPUT_IDS].shape, IGNORED)
        places, ids = batch[features.MASKED_LM_POSITIONS], batch[features.MASKED_LM_IDS]
        np.put_along_axis(labels, places, ids, axis=1)
        named["labels"] = labels
        named["next_sentence_label"] = batch[features.NEXT_SENTENCE_LABELS]
    return {name: value.astype(np.int64) for name, value in named.items()}


def columns(batch, count):
    """The arguments of each column of examples of `count` sequences, padded alone."""
    parts = []
    for column in range(count):
        rows = {n: batch[n][column::count] for n in features.ENCODER_INPUTS}
        length = rows[features.INPUT_MASK].sum(axis=1).max()
        named = arguments({n: value[:, :length] for n, value in rows.items()})
        parts.append({n: torch.from_numpy(value) for n, value in named.items()})
    return parts


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


def train(job, model, precise):
    """Steps of the usual loop."""
    adam = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    losses, ends = [], []

    def step(batch):
        with precise:
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


def predict(job, model, precise):
    """Batches to logits."""

    def fetch(batch):
        return model(**batch).logits.float().numpy()

    with torch.inference_mode(), precise:
        return {"seconds": sum(sides.seconds_of(fetch, batches_of(job), job.warm_up))}


def write(job, model, precise):
    """The likeliest NEW_TOKENS after each sequence, with its cache."""
    count, written = sides.NEW_TOKENS, []
    settings = {"max_new_tokens": count, "min_new_tokens": count}
    settings |= {"do_sample": False, "use_cache": True, "pad_token_id": 0}

    def follow(batch):
        ids = batch["input_ids"]
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        written.append(whole[:, -count:].tolist())

    with torch.inference_mode(), precise:
        seconds = sides.seconds_of(follow, batches_of(job), job.warm_up)
    return {"seconds": sum(seconds), "written": written[job.warm_up :]}


def answer(job, model, precise):
    """Batches of texts to their probabilities, tokenizer included."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.pretrained)

    def classify(texts):
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        return model(**inputs).logits.softmax(-1).numpy()

    with torch.inference_mode(), precise:
        return sides.time_answers(classify, job)


ACTIONS = {"train": train, "predict": predict, "write": write, "answer": answer}


if __name__ == "__main__":
    print(json.dumps(run(sides.Job(**json.loads(sys.argv[1])))))
