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
import tensorflow as tf

import bert
from benchmarks import rows, sides
from contract import features
from data_pipeline.batches import batching, packing
from data_pipeline.classification import tables
from data_pipeline.embedding import rows as embedding_rows
from data_pipeline.embedding import split as text_sets
from data_pipeline.squad import files
from data_pipeline.squad import windows as context_windows
from data_pipeline.tagging import files as tagged_files
from data_pipeline.tagging import windows as sentence_windows
from data_pipeline.text import wordpiece
from modeling import pretrainers
from modeling.checkpoints import hugging_face, pretrained
from modeling.configs import gpt_config

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
# As large as MiniLM, with GPT-2's vocabulary, positions and size of a head.
GPT_2 = gpt_config.GptConfig(
    vocab_size=50257,
    hidden_size=384,
    num_hidden_layers=6,
    num_attention_heads=6,
    intermediate_size=1536,
    max_position_embeddings=1024,
    norm_first=True,
)


@dataclasses.dataclass(frozen=True)
class Source:
    """A row with its files."""

    directory: pathlib.Path  # for output
    pretrained: str
    row: rows.Row
    path: str | None  # of its file
    columns: tuple[str, ...]  # of one or two texts and the label in a table

    @property
    def shape(self):
        """The network's config."""
        return pretrained.read_config(pretrained.look_in(self.pretrained).config_file)

    @property
    def tokenizer(self):
        """The tokenizer of the weights, uncased where no file has the case."""
        files = pretrained.locate(self.pretrained)
        is_uncased = files.do_lower_case is not False
        return wordpiece.BertTokenizer.from_file(files.vocab_file, is_uncased)


def random_sequences(count, length, vocab_size):
    """Sequences of random tokens without padding, of two classes."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(1, vocab_size, count * length)
    packed = packing.Packed(
        tokens.astype(features.INTEGER),
        length * np.arange(count + 1),
        np.full(count, length, features.INTEGER),
    )
    labels = rng.integers(0, 2, count).astype(features.INTEGER)
    return packed, {features.LABEL_IDS: labels}, 2


def full_sequences(source):
    """A batch of `random_sequences`."""
    row = source.row
    return random_sequences(row.batch_size, row.max_seq_length, source.shape.vocab_size)


def masked_sequences(source):
    """`full_sequences` with two segments and MASKED_TOKENS places to predict."""
    packed, targets, _ = full_sequences(source)
    count, length = source.row.batch_size, source.row.max_seq_length
    rng = np.random.default_rng(2)
    places = rng.permuted(np.tile(np.arange(1, length - 1), (count, 1)), axis=1)
    places = np.sort(places[:, :MASKED_TOKENS], axis=1)
    ids = rng.integers(1, source.shape.vocab_size, places.shape)
    targets = {
        features.MASKED_LM_POSITIONS: places.astype(features.INTEGER),
        features.MASKED_LM_IDS: ids.astype(features.INTEGER),
        features.MASKED_LM_WEIGHTS: np.ones(places.shape, np.float32),
        features.NEXT_SENTENCE_LABELS: targets[features.LABEL_IDS],
    }
    halves = np.full(count, length // 2, features.INTEGER)
    return dataclasses.replace(packed, first_lengths=halves), targets, None


def stretches(source):
    """`full_sequences` without classes: the next token is to be predicted."""
    return full_sequences(source)[0], {}, None


def table(source):
    """The rows of --sms_file, --sst2_file or --pairs_file, as a classifier has them."""
    texts = ("text_a", "text_b")[: len(source.columns) - 1]
    _, data = bert.classifier(
        source.pretrained,
        {"train": source.path},
        columns=dict(zip((*texts, "label"), source.columns, strict=True)),
        max_seq_length=source.row.max_seq_length,
    )
    examples = data.examples("train")
    return examples.packed, examples.targets, data.label_set.num_outputs


def messages(source):
    """The rows of the sample messages."""
    return table(
        dataclasses.replace(source, path=str(MESSAGES), columns=("text", "label"))
    )


def near_texts(source):
    """The pairs of --near_file, as run_embedding.py reads them."""
    names = dict(zip(("text_a", "text_b"), source.columns, strict=True))
    texts = embedding_rows.read(source.path, tables.Layout(**names))
    length = source.row.max_seq_length
    split = text_sets.load("train", texts, source.tokenizer, length)
    return split.packed, split.targets(), None


def tagged_sentences(source):
    """The windows of --tagging_file."""
    splits = sentence_windows.read({"train": source.path}, tagged_files.Layout())
    tag_set = sentence_windows.find_tags(
        splits["train"], names=(), scheme="auto", head=None
    )
    data = sentence_windows.load(
        splits,
        tag_set,
        source.tokenizer,
        accepts_unknown=False,
        max_seq_length=source.row.max_seq_length,
    )
    examples = data["train"].examples()
    return examples.packed, examples.targets, len(tag_set.names)


def questions(source):
    """The windows of --squad_file, by the original's lengths: 384, 128 and 64."""
    length = source.row.max_seq_length
    answered = files.read_for_training(
        source.path, version_2_with_negative=True, multiple_answers="first"
    )
    windows = context_windows.make_windows(
        answered,
        source.tokenizer,
        max_seq_length=length,
        doc_stride=length // 3,
        max_query_length=length // 6,
    )
    examples = windows.examples()
    return examples.packed, examples.targets, None


SOURCES = {
    "full": full_sequences,
    "masked": masked_sequences,
    "stretches": stretches,
    "sms": table,
    "sst2": table,
    "pairs": table,
    "near": near_texts,
    "messages": messages,
    "tagging": tagged_sentences,
    "squad": questions,
}


def export(source):
    """Exports a classifier of the sample messages; returns directory and classes."""
    row, directory = source.row, str(source.directory / "export")
    loaded, data = bert.classifier(
        source.pretrained, {"train": MESSAGES}, max_seq_length=row.max_seq_length
    )
    settings = {"export_format": row.export_format, "quantization": row.quantization}
    return loaded.export(directory, **settings), data.label_set.num_outputs


def write_texts(source, steps):
    """Writes batches of texts, the warm-up first; returns their file, and the timed.

    One sentence in turn; or the texts of --texts_file, those of similar length in one
    batch and batches shuffled, as a program with a whole file to classify would do it.
    """
    size, warm_up = source.row.batch_size, source.row.warm_up
    if source.path is None:
        count = warm_up + (steps or source.row.steps)
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


def write_work(source, steps):
    """Writes the batches of a row; returns their file, work and classes."""
    packed, targets, classes = SOURCES[source.row.source](source)
    row = source.row
    if not steps:
        epoch = -(-len(packed) // row.batch_size)
        steps = row.steps or min(rows.NUM_EPOCHS * epoch, rows.MAX_STEPS)
    size, num_steps = row.batch_size, row.warm_up + steps
    order = batching.training_order(
        packed.lengths,
        batch_size=size,
        num_steps=num_steps,
        seed=1,
        group_by_length=packed.num_sequences == 1,
    )
    ragged = {n: v for n, v in targets.items() if isinstance(v, tf.RaggedTensor)}
    dense = {n: np.asarray(v) for n, v in targets.items() if n not in ragged}
    work = sides.Work(
        packed.tokens,
        packed.splits,
        packed.first_lengths,
        order,
        dense if row.action == "train" else {},
        {name: value.values.numpy() for name, value in ragged.items()},
        packed.num_sequences,
    )
    path = source.directory / "work.npz"
    work.save(str(path))
    return str(path), work, classes


def prepare(*, row, directory, pretrained_dir, path=None, columns=(), steps=0):
    """Prepares a row, given as the dict of its fields.

    `columns` are those of texts and label where `path` is a table; `steps` are those
    to time, or 0 for those of the row.

    Returns:
        {"job": fields of a sides.Job, "examples": number in the timed steps,
        "gflop": sides.useful_gflop of them, or None}.
    """
    row = rows.Row(**row)
    pathlib.Path(directory).mkdir(parents=True)
    source = Source(pathlib.Path(directory), pretrained_dir, row, path, tuple(columns))
    if row.source == "stretches":  # random weights
        pretrained_dir = str(source.directory / "network")
        model = pretrainers.build(row.head, None, GPT_2)
        hugging_face.save(pretrained_dir, model)
        source = dataclasses.replace(source, pretrained=pretrained_dir)
    exported, classes = export(source) if row.export_format else ("", None)
    if row.action == "answer":
        path, work = "", None
        texts, timed = write_texts(source, steps)
        num_steps, examples = len(timed), sum(map(len, timed))
    else:
        path, work, classes = write_work(source, steps)
        texts, num_steps = "", len(work.order) - row.warm_up
        examples = num_steps * row.batch_size
    job = sides.Job(
        row.action,
        row.head,
        classes,
        pretrained=pretrained_dir,
        work=path,
        warm_up=row.warm_up,
        steps=num_steps,
        precision=row.precision,
        export=exported,
        texts=texts,
    )
    shape = dataclasses.asdict(source.shape)
    gflop = None if work is None else sides.useful_gflop(shape, work, job)
    return {"job": dataclasses.asdict(job), "examples": examples, "gflop": gflop}


if __name__ == "__main__":
    print(json.dumps(prepare(**json.loads(sys.argv[1]))))
