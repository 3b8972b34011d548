import numpy as np
import pytest

from data_pipeline.classification import encoding, labels, soft_labels, sources, split
from data_pipeline.text import wordpiece
from tests import tiny

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "a"]
TEACHERS = [*VOCAB[:4], "film", "bad"]
METRICS = {"classification": ("accuracy",), "multi_label": ("f1_micro",)}


@pytest.fixture
def taught(tmp_path):
    header = ("text", "label")
    train = [("a good film", "good"), ("bad", "bad")]
    more = [("a film", "not read"), ("a bad film", "bad"), ("a a", "")]
    source = sources.Source(
        files={"train": str(tiny.write_tsv(tmp_path / "train.tsv", header, train))},
        unlabelled_file=str(tiny.write_tsv(tmp_path / "more.tsv", header, more)),
    )

    def make(identity="0123", columns=slice(None)):
        tokenizer = wordpiece.BertTokenizer(VOCAB)
        options = {"head": None, "default_metrics": METRICS}
        data = split.load(source, ["train"], tokenizer, 8, **options)
        data = soft_labels.with_unlabelled(data, source)
        predicted = []

        def predict(rows, name):
            predicted.append(name)
            words = rows.packed.tokens >= 4
            counts = np.add.reduceat(words, rows.packed.splits[:-1], dtype=np.float32)
            return {"logits": np.stack([counts, np.arange(len(counts))], axis=1)}

        encode = encoding.Encoder(wordpiece.BertTokenizer(TEACHERS), 8)
        made = soft_labels.SoftLabels(data, encode, predict, identity, columns)
        return data, made, predicted

    return make


def test_rows_without_labels_follow_those_with(taught, tmp_path):
    data, soft, predicted = taught()
    rows = soft.training_examples(2.0, 0.5)["train"]
    assert len(rows) == 5 and predicted == []  # until batches are wanted
    order = np.array([[4, 0], [1, 2], [3, 3]], np.int32)
    for _ in range(2):
        first, second, third = rows.batches(order, None).as_numpy_iterator()
    assert predicted == [
        "teacher, train rows: batch",
        "teacher, unlabelled rows: batch",
    ]
    # As the student tokenizes them: a a; a good film; bad; a film; a bad film.
    assert first["input_ids"].tolist() == [[2, 7, 7, 3, 0], [2, 7, 4, 6, 3]]
    assert second["input_ids"].tolist() == [[2, 5, 3, 0], [2, 7, 6, 3]]
    assert first["is_labelled"].tolist() == [0.0, 1.0]
    assert second["is_labelled"].tolist() == [1.0, 0.0]
    assert first["label_ids"][1] == 1 and second["label_ids"][0] == 0  # bad, good
    # The teacher knows film and bad alone.
    assert first["teacher_logits"].tolist() == [[0.0, 2.0], [1.0, 0.0]]
    assert second["teacher_logits"].tolist() == [[1.0, 1.0], [1.0, 0.0]]
    assert third["teacher_logits"].tolist() == [[2.0, 1.0]] * 2
    assert rows.names(np.array([4, 1])) == [
        f"{tmp_path}/more.tsv:4 (id 2)",
        f"{tmp_path}/train.tsv:3 (id 1)",
    ]
    assert soft.logits("train").tolist() == [[1.0, 0.0], [1.0, 1.0]]
    swapped = taught(columns=[1, 0])[1].logits("train")
    assert swapped.tolist() == [[0.0, 1.0], [1.0, 1.0]]
    assert data.splits["unlabelled"].table.labels is None
    split.write_records(str(tmp_path), data, 8)
    assert [path.name for path in tmp_path.glob("*.tf_record")] == ["train.tf_record"]
    del data.splits["train"]
    assert soft.training_examples(2.0, 0.5) == {}
    source = sources.Source(unlabelled_file="missing.tsv")
    assert soft_labels.with_unlabelled(data, source) is data


def test_digest_tells_teachers_and_rows_apart(taught, tmp_path):
    def digest(soft, *numbers):
        return soft.training_examples(*numbers)["train"].digest()

    _, soft, _ = taught()
    first = digest(soft, 2.0, 0.5)
    assert first.startswith("5 examples, digest ")
    assert first.endswith(", teacher 0123 at temperature 2.0, weight 0.5")
    assert digest(soft, 2.0, 0.5) == first
    tiny.write_tsv(tmp_path / "more.tsv", ("text",), [("good",)] * 3)
    others = {digest(soft, 3.0, 0.5), digest(soft, 2.0, 0.4)}
    others.add(digest(taught()[1], 2.0, 0.5))
    assert len({first, *others}) == 4 and "4567" in digest(taught("4567")[1], 2.0, 0.5)


def test_teacher_needs_the_classes_of_its_student():
    ours = labels.Labels(("bad", "good"))
    assert soft_labels.order_classes("t", ours, ours) == [0, 1]
    theirs = labels.Labels(("GOOD", "bad"))
    assert soft_labels.order_classes("t", theirs, ours) == [1, 0]
    numbers = labels.Labels((), "regression")
    assert soft_labels.order_classes("t", numbers, numbers) == slice(None)
    for theirs, message in (
        (None, "its classes have no names; put a label_map.json"),
        (labels.Labels(("good", "sad")), "the student --labels=good,sad"),
        (labels.Labels((), "regression"), "trained for regression"),
        (object(), "trained for tagging"),
    ):
        with pytest.raises(ValueError, match=message):
            soft_labels.order_classes("t", theirs, ours)
