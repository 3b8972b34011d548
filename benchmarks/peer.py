"""The peer's side of a comparison: `python -m benchmarks.peer JOB`.

transformers with PyTorch at its best: batches by length as ours, its fastest attention,
compiled where shapes are fixed, every core, the fused optimizer, inference mode; for
vectors of texts sentence-transformers. Needs torch, transformers and NumPy. Prints the
result of `run` as JSON.
"""

import json
import os
import statistics
import sys
import time
import typing

import numpy as np
import torch
import transformers

from benchmarks import sides
from contract import cores, features

MODELS = {
    "classifier": transformers.AutoModelForSequenceClassification,
    "pretraining": transformers.AutoModelForPreTraining,
    "text_encoder": transformers.AutoModel,
}


def run(job):
    """Does one turn, with the results of ours.run."""
    torch.set_num_threads(cores.usable())
    transformers.logging.set_verbosity_error()
    figures = ACTIONS[job.action](job, open_model(job))
    kind = torch.bfloat16 if "bf16" in job.variant else torch.float32
    x = torch.randn(sides.PEAK_SIZE, sides.PEAK_SIZE, dtype=kind)
    libraries = ("torch", "transformers", "sentence_transformers")
    loaded = [name for name in libraries if name in sys.modules]
    versions = {name: sys.modules[name].__version__ for name in loaded}
    with torch.inference_mode():
        return sides.described(figures, lambda: x @ x, versions)


def open_model(job):
    """The model of a job: attention and modes, or backend, are those of its variant."""
    if job.variant.startswith("sentence"):
        return open_sentence_transformer(job, job.variant.rpartition("_")[2])
    attention, *modes = job.variant.split("_")
    classes = {} if job.num_classes is None else {"num_labels": job.num_classes}
    if "bf16" in modes:
        classes["dtype"] = torch.bfloat16
    model, loaded = MODELS[job.head].from_pretrained(
        job.pretrained,
        attn_implementation=attention,
        output_loading_info=True,
        ignore_mismatched_sizes=job.action == "train",  # a head of other classes
        **classes,
    )
    if job.head == "classifier" and job.action != "train" and loaded["missing_keys"]:
        sys.exit(f"transformers draws {', '.join(loaded['missing_keys'])} at random")
    if job.head == "pretraining":
        model = MaskedTokens(model)
    model.train(job.action == "train")
    if "int8" in modes:
        layers = {torch.nn.Linear}
        return torch.ao.quantization.quantize_dynamic(model, layers, torch.qint8)
    torch._inductor.config.freezing = "frozen" in modes  # weights may be packed
    return torch.compile(model) if "compiled" in modes else model


class Loss(typing.NamedTuple):
    """As the output of a model of transformers."""

    loss: torch.Tensor


class MaskedTokens(torch.nn.Module):
    """BertForPreTraining that predicts masked tokens alone, which takes less time."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, labels, next_sentence_label, places, **inputs):
        hidden, first = self.model.bert(**inputs)[:2]
        places = places[..., None].expand(-1, -1, hidden.shape[-1])
        words, order = self.model.cls(hidden.gather(1, places), first)
        entropy = torch.nn.functional.cross_entropy
        loss = entropy(words.flatten(0, 1), labels.flatten())
        return Loss(loss + entropy(order, next_sentence_label))


def open_sentence_transformer(job, backend):
    """A SentenceTransformer with a backend: torch, onnx or openvino."""
    import sentence_transformers

    path = os.path.join(job.cache, job.variant)  # where it is converted to, once
    model = sentence_transformers.SentenceTransformer(
        path if os.path.exists(path) else job.pretrained, device="cpu", backend=backend
    )
    if backend != "torch" and not os.path.exists(path):
        model.save_pretrained(path)
    model.max_seq_length = job.max_seq_length
    return model


class Traced(torch.nn.Module):
    """A function, with the model whose weights it reads."""

    def __init__(self, function, model=None):
        super().__init__()
        self.function, self.model = function, model

    def forward(self, *inputs):
        return self.function(*inputs)


def export(job, model):
    """Writes tokenizer, model.onnx with free sizes, and product.onnx to job.export."""

    def scores(*inputs):
        named = dict(zip(sides.PEER_NAMES, inputs, strict=True))
        has_vectors = job.head == "text_encoder"
        return vectors(model, named) if has_vectors else model(**named).logits

    tokenizer = transformers.AutoTokenizer.from_pretrained(job.pretrained)
    tokenizer.model_max_length = job.max_seq_length  # where fastembed cuts
    tokenizer.save_pretrained(job.export)
    model.config.save_pretrained(job.export)
    inputs = (torch.ones(2, 16, dtype=torch.int64),) * 3
    free = {name: {0: "batch", 1: "length"} for name in sides.PEER_NAMES}
    x = torch.ones(sides.PEAK_SIZE, sides.PEAK_SIZE)
    for name, module, example, axes in (
        ("model", Traced(scores, model), inputs, free),
        ("product", Traced(lambda x: x @ x), (x,), {"x": {}}),
    ):
        torch.onnx.export(
            module,
            example,
            f"{job.export}/{name}.onnx",
            input_names=[*axes],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    return {}


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
    named = {theirs: batch[ours] for theirs, ours in sides.PEER_NAMES.items()}
    if features.LABEL_IDS in batch:
        named["labels"] = batch[features.LABEL_IDS]
    if features.MASKED_LM_IDS in batch:  # none has a weight of 0
        named["labels"] = batch[features.MASKED_LM_IDS]
        named["places"] = batch[features.MASKED_LM_POSITIONS]
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
    first, second = (vectors(model, part) for part in parts)
    scores = 20.0 * first @ second.T
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def vectors(model, part):
    """The mean of the tokens, at length 1."""
    hidden = model(**part).last_hidden_state
    mask = part["attention_mask"][..., None].float()
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=-1)


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


def answer(job, model):
    """Batches of texts to their probabilities or vectors, tokenizer included."""
    if job.head == "text_encoder":
        return sides.time_answers(lambda t: model.encode(t, batch_size=len(t)), job)
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.pretrained)
    settings = {"padding": True, "truncation": True, "max_length": job.max_seq_length}

    def classify(texts):
        inputs = tokenizer(texts, return_tensors="pt", **settings)
        return model(**inputs).logits.float().softmax(-1).numpy()

    with torch.inference_mode():
        return sides.time_answers(classify, job)


ACTIONS = {"train": train, "answer": answer, "export": export}


if __name__ == "__main__":
    print(json.dumps(run(sides.Job(**json.loads(sys.argv[1])))))
