"""Makes the files that both sides read: `python -m benchmarks.preparation SETTINGS`.

SETTINGS is JSON of the arguments of `prepare` or `share`, whose result is printed. This
is a process of its own, so that the one that starts the sides stays small and idle.
"""

import dataclasses
import json
import pathlib
import random
import sys

from cli import environment

environment.prepare()  # before TensorFlow is imported

import numpy as np

import bert_reborn as bert
from benchmarks import few_labels, rows, sides
from contract import export_formats, features
from data_pipeline.batches import batching, packing
from data_pipeline.embedding import corpora
from data_pipeline.embedding import split as text_sets
from data_pipeline.tables import labelled
from data_pipeline.text import wordpiece
from loading import model_directory

ROOT = pathlib.Path(__file__).resolve().parents[1]
MESSAGES = ROOT / "sample_data" / "messages" / "train.tsv"
MASKED_TOKENS = 20
# 16 words each, for the latency of one sentence.
SENTENCES = (
    "my parcel should have been here on monday and there is still no sign of it",
    "you charged my card twice for the same order and i would like the money back",
    "the shoes fit very well but one of the boxes was open when it arrived here",
    "could you please tell me how long it takes to send a lamp to another town",
)


@dataclasses.dataclass(frozen=True)
class Source:
    """A row with its files."""

    directory: pathlib.Path  # for output
    pretrained: str
    row: rows.Row
    path: str | None  # of its file

    @property
    def vocab_size(self):
        """The number of tokens that the network has."""
        path = model_directory.locate(self.pretrained, needs_all=False).config_file
        return model_directory.read_config(path).vocab_size


def full_sequences(source):
    """A batch of sequences of random tokens without padding, of two classes."""
    count, length = source.row.batch_size, source.row.max_seq_length
    rng = np.random.default_rng(1)
    tokens = rng.integers(1, source.vocab_size, count * length)
    packed = packing.Packed(
        tokens.astype(features.INTEGER),
        length * np.arange(count + 1),
        np.full(count, length, features.INTEGER),
    )
    labels = rng.integers(0, 2, count).astype(features.INTEGER)
    return packed, {features.LABEL_IDS: labels}, 2


def masked_sequences(source):
    """`full_sequences` with two segments and MASKED_TOKENS places to predict."""
    packed, targets, _ = full_sequences(source)
    count, length = source.row.batch_size, source.row.max_seq_length
    rng = np.random.default_rng(2)
    places = rng.permuted(np.tile(np.arange(1, length - 1), (count, 1)), axis=1)
    places = np.sort(places[:, :MASKED_TOKENS], axis=1)
    ids = rng.integers(1, source.vocab_size, places.shape)
    targets = {
        features.MASKED_LM_POSITIONS: places.astype(features.INTEGER),
        features.MASKED_LM_IDS: ids.astype(features.INTEGER),
        features.MASKED_LM_WEIGHTS: np.ones(places.shape, np.float32),
        features.NEXT_SENTENCE_LABELS: targets[features.LABEL_IDS],
    }
    halves = np.full(count, length // 2, features.INTEGER)
    return dataclasses.replace(packed, first_lengths=halves), targets, None


def messages(source):
    """The rows of a file, or the sample messages, as a classifier has them."""
    made = bert.classifier(source.pretrained, max_seq_length=source.row.max_seq_length)
    data = made.read({"train": source.path or MESSAGES})
    examples = data.examples("train")
    return examples.packed, examples.targets, data.label_set.num_outputs


def near_texts(source):
    """The pairs of --near_file, as run_embedding.py reads them."""
    files = model_directory.locate(source.pretrained)
    is_uncased = files.do_lower_case is not False
    tokenizer = wordpiece.BertTokenizer.from_file(files.vocab_file, is_uncased)
    layout = labelled.Layout(text_a="0", text_b="1")
    texts = corpora.open_rows(source.path, layout).read()
    split = text_sets.load("train", texts, tokenizer, source.row.max_seq_length)
    return split.packed, split.targets(), None


SOURCES = {
    "full": full_sequences,
    "masked": masked_sequences,
    "near": near_texts,
    "messages": messages,
    "train": messages,
}


def share(*, directory, pretrained, train_file, dev_file, similar_file, epochs):
    """Trains the classifier of all sides, and exports it and vectors of texts.

    Returns:
        By head: "weights", a directory that both sides read; "exports", {side: (the
        directory, why there is none)}; "checked", a file of texts whose answers are
        scored; and "right", the right answers.
    """
    fitted = bert.classifier(pretrained, max_seq_length=128)
    fitted.fit(train_file, num_train_epochs=epochs)
    fitted.save(weights := f"{directory}/weights", "hugging_face")
    encoder = bert.embedder(pretrained, max_seq_length=128)
    train, dev, pairs = map(few_labels.rows_of, (train_file, dev_file, similar_file))
    random.Random(1).shuffle(train)
    names, scores = fitted.classes.names, [float(score) for *_, score in pairs]
    ids = [names.index(label) for _, label in dev]
    texts = [text for *both, _ in pairs for text in both]
    calibration = train[:300]
    calibrating = [text for text, _ in calibration]
    _write_json(f"{directory}/calibration.json", calibrating)
    same = [(text, text) for text in calibrating]
    shared = {}
    for head, model, source, checked, right, own in (
        ("classifier", fitted, weights, [t for t, _ in dev], ids, calibration),
        ("text_encoder", encoder, pretrained, texts, scores, same),
    ):
        path = _write_json(f"{directory}/{head}.json", checked)
        shared[head] = {"weights": source, "checked": path, "right": right}
        shared[head]["exports"] = {
            side.title: export(model, f"{directory}/exports/{head}", own, *side.export)
            for side in rows.EXPORTS
        }
    return shared


def export(model, directory, calibration, export_format, quantization):
    """The directory of an export, and why there is none."""
    settings = {"export_format": export_format, "quantization": quantization}
    path = f"{directory}/{'-'.join(settings.values())}"
    rows = calibration if quantization == export_formats.STATIC_INT8 else None
    try:
        return model.export(path, rows=rows, **settings), ""
    except ValueError as error:  # such as that of a format that is not known
        return "", str(error)


def _write_json(path, value):
    pathlib.Path(path).write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def write_texts(source, steps):
    """Writes batches of texts, the warm-up first; returns their file, and the timed.

    One sentence in turn; random words of them, too many for the tokens; or the texts of
    --texts_file, those of similar length in one batch and batches shuffled, as a
    program with a whole file to classify would do it.
    """
    size, warm_up = source.row.batch_size, source.row.warm_up
    count = warm_up + steps
    if source.row.source == "sentences":
        batches = [[SENTENCES[i % len(SENTENCES)]] for i in range(count)]
    elif source.row.source == "words":
        words, shape = (
            " ".join(SENTENCES).split(),
            (count, size, source.row.max_seq_length),
        )
        drawn = np.random.default_rng(1).choice(words, shape)
        batches = [[" ".join(text) for text in batch] for batch in drawn]
    else:
        lines = pathlib.Path(source.path).read_text("utf-8").splitlines()
        texts = sorted((line.split("\t")[0] for line in lines), key=len)
        batches = [texts[i : i + size] for i in range(0, len(texts), size)]
        order = np.random.default_rng(1).permutation(len(batches))
        batches = [batches[i] for i in order]
        batches = [*batches[:warm_up], *batches[: steps or len(batches)]]
    return _write_json(source.directory / "texts.json", batches), batches[warm_up:]


def write_batches(source, steps):
    """Writes the batches of a row; returns their file, the timed ones and classes."""
    packed, targets, classes = SOURCES[source.row.source](source)
    order = batching.training_order(
        packed.lengths,
        batch_size=source.row.batch_size,
        num_steps=source.row.warm_up + steps,
        seed=1,
        group_by_length=packed.num_sequences == 1,
    )
    dataset = batching.batches(packed, order, targets=targets)
    batches = list(dataset.as_numpy_iterator())
    path = str(source.directory / "batches.npz")
    sides.write_batches(path, batches)
    return path, batches[source.row.warm_up :], classes


def prepare(*, row, directory, pretrained_dir, path=None, steps=0):
    """Prepares a row, given as the dict of its fields.

    `steps` are those to time, or 0 for those of the row.

    Returns:
        {"job": fields of a sides.Job, "examples": number in the timed steps}.
    """
    row = rows.Row(**row)
    pathlib.Path(directory).mkdir(parents=True)
    source = Source(pathlib.Path(directory), pretrained_dir, row, path)
    steps = steps or row.steps
    batches_file, texts, classes = "", "", None
    if row.action == "answer":
        texts, timed = write_texts(source, steps)
        examples = sum(map(len, timed))
    else:
        batches_file, timed, classes = write_batches(source, steps)
        examples = len(timed) * row.batch_size
    job = sides.Job(
        row.action,
        row.head,
        classes,
        pretrained=pretrained_dir,
        batches=batches_file,
        warm_up=row.warm_up,
        steps=len(timed),
        texts=texts,
        max_seq_length=row.max_seq_length,
    )
    return {"job": dataclasses.asdict(job), "examples": examples}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps((prepare if "row" in given else share)(**given)))
