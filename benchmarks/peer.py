"""The peer's side of a comparison: `python -m benchmarks.peer JOB`.

transformers with PyTorch at its best: batches by length as ours, its fastest attention,
compiled where shapes are fixed, every core, the fused optimizer, inference mode. Needs
torch and transformers and nothing that only this project needs. Prints what `run` says.
"""

import contextlib
import json
import statistics
import sys
from typing import NamedTuple

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
    "seq2seq": transformers.EncoderDecoderModel,
}
IGNORED = -100  # the label of a token that has none
# As ours.VARIABLES.
VARIABLES = ("TORCH_", "ATEN_", "MKL_", "OMP_", "KMP_AFFINITY", "KMP_BLOCKTIME")
VARIABLES += ("ONEDNN_", "MALLOC_", "LD_PRELOAD")


class Variant(NamedTuple):
    """A way to run the peer."""

    attention: str
    is_compiled: bool = False
    is_frozen: bool = False  # compiled, and the weights may be packed
    is_int8: bool = False


VARIANTS = {
    "sdpa": Variant("sdpa"),
    "eager": Variant("eager"),
    "sdpa_compiled": Variant("sdpa", is_compiled=True),
    "sdpa_frozen": Variant("sdpa", is_compiled=True, is_frozen=True),
    "sdpa_int8": Variant("sdpa", is_int8=True),
}


def run(job):
    """Does one turn; returns what ours.run returns."""
    torch.set_num_threads(sides.cores())
    transformers.logging.set_verbosity_error()
    precise = contextlib.nullcontext()
    if job.precision == "bfloat16":
        precise = torch.autocast("cpu", torch.bfloat16)
    model = open_model(job)
    found = ACTIONS[job.action](job, model, precise)
    return {
        **found,
        "peak_memory_mb": sides.peak_memory_mb(),
        "peak_gflops": peak_gflops(getattr(torch, job.precision)),
        "versions": {
            "PyTorch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "environment": sides.environment(*VARIABLES),
    }


def open_model(job):
    """The model of a job's variant."""
    variant = VARIANTS[job.variant]
    classes = {} if job.num_classes is None else {"num_labels": job.num_classes}
    model = MODELS[job.head].from_pretrained(
        job.pretrained, attn_implementation=variant.attention, **classes
    )
    model.train(job.action == "train")
    if variant.is_int8:
        layers = {torch.nn.Linear}
        return torch.ao.quantization.quantize_dynamic(model, layers, torch.qint8)
    torch._inductor.config.freezing = variant.is_frozen
    return torch.compile(model) if variant.is_compiled else model


def peak_gflops(dtype):
    """As `sides.peak_gflops`, of PyTorch."""
    x = torch.randn(sides.PEAK_SIZE, sides.PEAK_SIZE).to(dtype)
    with torch.inference_mode():
        return sides.peak_gflops(lambda: x @ x)


def batches_of(job):
    """Keyword arguments of the model, for each step; the features are as ours."""
    for batch in sides.Work.load(job.work).batches(job.warm_up + job.steps):
        named = arguments(batch)
        if job.head == "language_model":  # which shifts the labels itself
            ids = named["input_ids"]
            named = {"input_ids": ids, "labels": ids}
        yield {name: torch.from_numpy(v) for name, v in named.items()}


def arguments(batch):
    """Our features under the peer's names, int64."""
    found = {
        "input_ids": batch[features.INPUT_IDS],
        "attention_mask": batch[features.INPUT_MASK],
        "token_type_ids": batch[features.SEGMENT_IDS],
    }
    if features.LABEL_IDS in batch:
        labels = batch[features.LABEL_IDS]
        found["labels"] = np.where(labels == features.IGNORED, IGNORED, labels)
    for name in (features.START_POSITIONS, features.END_POSITIONS):
        if name in batch:
            found[name] = batch[name]
    if features.MASKED_LM_IDS in batch:  # none has a weight of 0
        labels = np.full(batch[features.INPUT_IDS].shape, IGNORED)
        places, ids = batch[features.MASKED_LM_POSITIONS], batch[features.MASKED_LM_IDS]
        np.put_along_axis(labels, places, ids, axis=1)
        found["labels"] = labels
        found["next_sentence_label"] = batch[features.NEXT_SENTENCE_LABELS]
    return {name: value.astype(np.int64) for name, value in found.items()}


def train(job, model, precise):
    """Steps of the usual loop."""
    adam = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    losses = []

    def step(batch):
        with precise:
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()
        losses.append(loss.item())

    seconds = sum(sides.seconds_of(step, batches_of(job), job.warm_up))
    return {"seconds": seconds, "loss": statistics.mean(losses[job.warm_up :])}


def predict(job, model, precise):
    """Batches to logits."""

    def fetch(batch):
        return model(**batch).logits.float().numpy()

    with torch.inference_mode(), precise:
        return {"seconds": sum(sides.seconds_of(fetch, batches_of(job), job.warm_up))}


def write(job, model, precise):
    """The likeliest NEW_TOKENS after each sequence, with its cache."""
    count, written = sides.NEW_TOKENS[job.head], []
    settings = {"max_new_tokens": count, "num_beams": job.num_beams}
    settings |= {"do_sample": False, "use_cache": True, "pad_token_id": 0}
    if job.head == "language_model":  # of the other no text ends before
        settings["min_new_tokens"] = count

    def follow(batch):
        ids = batch["input_ids"]
        found = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        written.append(found[:, -count:].tolist())

    with torch.inference_mode(), precise:
        seconds = sides.seconds_of(follow, batches_of(job), job.warm_up)
    return {"seconds": sum(seconds), "written": written[job.warm_up :]}


def answer(job, model, precise):
    """Median time from a sentence to its probabilities, tokenizer included."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.pretrained)

    def ask(number):
        inputs = tokenizer(sides.SENTENCES[number], return_tensors="pt")
        return model(**inputs).logits.softmax(-1).numpy()

    numbers = np.arange(job.warm_up + job.steps) % len(sides.SENTENCES)
    with torch.inference_mode(), precise:
        seconds = sides.seconds_of(ask, numbers.tolist(), job.warm_up)
    return sides.latency(seconds)


def answer_all(job, model, precise):
    """Batches of texts to their probabilities, tokenizer included."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.pretrained)

    def ask(texts):
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        model(**inputs).logits.softmax(-1).numpy()

    with torch.inference_mode(), precise:
        seconds = sides.seconds_of(ask, sides.batches_of_texts(job), job.warm_up)
    return {"seconds": sum(seconds)}


ACTIONS = {
    "train": train,
    "predict": predict,
    "write": write,
    "answer": answer,
    "answer_all": answer_all,
}


if __name__ == "__main__":
    print(json.dumps(run(sides.Job.from_json(sys.argv[1]))))
