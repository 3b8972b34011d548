"""Makes the files that both sides read: `python -m benchmarks.preparation SETTINGS`.

SETTINGS is JSON of the arguments of `prepare`, whose result is printed as JSON. It runs
in a process of its own, so that the one that starts the sides stays small and idle.
"""

import dataclasses
import json
import pathlib
import sys

from cli import environment

environment.prepare()  # before TensorFlow is imported

import numpy as np

import bert_reborn as bert
from benchmarks import rows, sides
from contract import features
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
    columns: tuple[str, ...]  # of both texts of a table of pairs

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


def classifier(source):
    """The weights with a head for the sample messages, and their rows."""
    made = bert.classifier(source.pretrained, max_seq_length=source.row.max_seq_length)
    return made, made.read({"train": MESSAGES})


def messages(source):
    """The rows of the sample messages, as a classifier has them."""
    _, data = classifier(source)
    examples = data.examples("train")
    return examples.packed, examples.targets, data.label_set.num_outputs


def near_texts(source):
    """The pairs of --near_file, as run_embedding.py reads them."""
    files = model_directory.locate(source.pretrained)
    is_uncased = files.do_lower_case is not False
    tokenizer = wordpiece.BertTokenizer.from_file(files.vocab_file, is_uncased)
    names = dict(zip(("text_a", "text_b"), source.columns, strict=True))
    texts = corpora.open_rows(source.path, labelled.Layout(**names)).read()
    split = text_sets.load("train", texts, tokenizer, source.row.max_seq_length)
    return split.packed, split.targets(), None


SOURCES = {
    "full": full_sequences,
    "masked": masked_sequences,
    "near": near_texts,
    "messages": messages,
}


def export(source):
    """Exports a classifier of the sample messages; returns directory and classes."""
    row, directory = source.row, str(source.directory / "export")
    loaded, data = classifier(source)
    bias = loaded.model.trainable_variables[-1]
    bias.assign(bias + 0.01)  # what nothing has trained is not exported
    settings = {"export_format": row.export_format, "quantization": row.quantization}
    return loaded.export(directory, **settings), data.label_set.num_outputs


def write_texts(source, steps):
    """Writes batches of texts, the warm-up first; returns their file, and the timed.

    One sentence in turn; or the texts of --texts_file, those of similar length in one
    batch and batches shuffled, as a program with a whole file to classify would do it.
    """
    size, warm_up = source.row.batch_size, source.row.warm_up
    if source.path is None:
        count = warm_up + steps
        batches = [[SENTENCES[i % len(SENTENCES)]] for i in range(count)]
    else:
        lines = pathlib.Path(source.path).read_text("utf-8").splitlines()
        texts = sorted((line.split("\t")[0] for line in lines), key=len)
        batches = [texts[i : i + size] for i in range(0, len(texts), size)]
        order = np.random.default_rng(1).permutation(len(batches))
        batches = [batches[i] for i in order]
        batches = [*batches[:warm_up], *batches[: steps or len(batches)]]
    path = source.directory / "texts.json"
    path.write_text(json.dumps(batches), encoding="utf-8")
    return str(path), batches[warm_up:]


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
    targets = targets if source.row.action == "train" else {}
    dataset = batching.batches(packed, order, targets=targets)
    batches = list(dataset.as_numpy_iterator())
    path = str(source.directory / "batches.npz")
    sides.write_batches(path, batches)
    return path, batches[source.row.warm_up :], classes


def prepare(*, row, directory, pretrained_dir, path=None, columns=(), steps=0):
    """Prepares a row, given as the dict of its fields.

    `columns` are those of both texts where `path` is a table of pairs; `steps` are
    those to time, or 0 for those of the row.

    Returns:
        {"job": fields of a sides.Job, "examples": number in the timed steps}.
    """
    row = rows.Row(**row)
    pathlib.Path(directory).mkdir(parents=True)
    source = Source(pathlib.Path(directory), pretrained_dir, row, path, tuple(columns))
    steps = steps or row.steps
    exported, classes = export(source) if row.export_format else ("", None)
    batches_file, texts = "", ""
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
        export=exported,
        texts=texts,
    )
    return {"job": dataclasses.asdict(job), "examples": examples}


if __name__ == "__main__":
    print(json.dumps(prepare(**json.loads(sys.argv[1]))))
