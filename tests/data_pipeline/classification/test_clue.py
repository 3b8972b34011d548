"""Tests of the tasks of CLUE: rows written here, in the form of the published files.

Inputs are those that the README of CLUE's cuts describes of its baselines.
"""

import json
import re

import numpy as np
import pytest

from contract import file_names, outcomes
from data_pipeline.classification import (
    encoding,
    labels,
    predictions,
    sources,
    split,
    tasks,
)
from data_pipeline.text import wordpiece
from tests.shown import shown

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]"]
TEXT = "天上有一只鸟在飞它很快乐谁男女说问你好吗无效答案画蛇添足守株待兔他她很聪明.,?:;"
VOCAB = SPECIAL + sorted(set(TEXT))
PAIR = {"sentence1": "天上有鸟", "sentence2": "有一只鸟"}
TARGET = {"span1_text": "鸟", "span1_index": 2, "span2_text": "它", "span2_index": 6}
WSC = {"target": TARGET, "text": "天上鸟在飞，它很快乐"}


def jsonl(path, *rows):
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), "utf-8")


def read(folder, name, part="dev"):
    return shown(tasks.read_split(tasks.task_named(name), str(folder), part))


# By task: the rows of dev.json, and the texts and labels that are read.
ROWS = {
    "afqmc": ([PAIR | {"label": "1"}], [("天上有鸟", "有一只鸟")], ["1"]),
    "cmnli": (
        [PAIR | {"label": "-"}, PAIR | {"label": "neutral"}],
        [("天上有鸟", "有一只鸟")],
        ["neutral"],
    ),
    "ocnli": (
        [{"level": "easy", **PAIR, "label": "entailment", "label4": None, "id": 7}],
        [("天上有鸟", "有一只鸟")],
        ["entailment"],
    ),
    "tnews": (
        [
            {
                "label": "106",
                "label_desc": "news_house",
                "sentence": "谁",
                "keywords": "",
            }
        ],
        [("谁",)],
        ["106"],
    ),
    "iflytek": (
        [{"label": "118", "label_des": "其他", "sentence": "你好\u2028吗"}],
        [("你好\u2028吗",)],
        ["118"],
    ),
    "csl": (
        [{"id": 9, "abst": "鸟在飞", "keyword": ["鸟", "飞"], "label": "0"}],
        [("鸟 飞", "鸟在飞")],
        ["0"],
    ),
    "cluewsc": (
        [WSC | {"idx": 3, "label": "true"}],
        [("天上_鸟_在飞，[它]很快乐",)],
        ["true"],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_formed_as_the_baselines_form_them(tmp_path, capsys, name):
    rows, texts, given = ROWS[name]
    jsonl(tmp_path / "dev.json", *rows)
    table = read(tmp_path, name)
    assert (table.texts(), table.labels) == (texts, given)
    label_set = labels.Labels(tasks.task_named(name).labels)
    assert label_set.encode(table).tolist() == [label_set.names.index(given[0])]
    left_out = "left out 1 row with the label '-', lines 1" in capsys.readouterr().out
    assert left_out == (len(rows) > 1)
    without = [{k: v for k, v in row.items() if k != "label"} for row in rows[-1:]]
    jsonl(tmp_path / "test.json", *without)
    assert read(tmp_path, name, "test").labels is None
    assert read(tmp_path, name, "test").texts() == texts


def test_labels_stand_in_the_official_order():
    names = {name: task.labels for name, task in tasks.TASKS.items()}
    assert names["tnews"][4:6] == ("104", "106")
    assert (len(names["tnews"]), names["tnews"][9:11]) == (15, ("110", "112"))
    assert names["iflytek"] == tuple(map(str, range(119)))
    assert names["cluewsc"] == ("true", "false")
    assert (
        names["ocnli"] == names["cmnli"] == ("contradiction", "entailment", "neutral")
    )


def test_the_diagnostics_are_predicted_with_the_classes_of_cmnli(tmp_path):
    row = {"index": 4, "premise": "天上有鸟", "hypothesis": "有鸟"}
    jsonl(tmp_path / "diagnostics_test.json", row)
    table = read(tmp_path, "clue_diagnostics", "test")
    assert (table.texts(), table.example_ids) == ([("天上有鸟", "有鸟")], ["test-4"])
    assert tasks.TASKS["clue_diagnostics"].labels == tasks.TASKS["cmnli"].labels


def test_spans_that_are_not_in_the_text_are_refused(tmp_path):
    wrong = WSC | {"target": TARGET | {"span2_index": 5}, "label": "true"}
    jsonl(tmp_path / "dev.json", WSC | {"label": "true"}, wrong)
    with pytest.raises(ValueError, match=r"dev.json:2: span2 is '它'.*'，' at 5; corr"):
        read(tmp_path, "cluewsc")
    jsonl(tmp_path / "dev.json", {"text": "a", "label": "true"})
    with pytest.raises(
        ValueError, match=r"dev.json:1: 'target' is missing .* give CLUE's"
    ):
        read(tmp_path, "cluewsc")


DOCUMENTS = [
    [
        ["男：鸟在飞？", "女：ABC在飞"],
        [
            {"question": "谁在飞？", "choice": ["鸟", "ABC", "女"], "answer": "ABC"},
            {"question": "男说？", "choice": ["你好", "鸟在飞"], "answer": "鸟在飞"},
        ],
        "8-1",
    ]
]


def test_c3_fills_up_its_answers_and_joins_both_files(tmp_path):
    for name in ("d-dev.json", "m-dev.json"):
        (tmp_path / name).write_text(json.dumps(DOCUMENTS), "utf-8")
    table = read(tmp_path, "c3")
    assert table.text_a[0] == "男：鸟在飞？\n女：abc在飞"
    assert table.choices[0] == ("鸟", "abc", "女", "无效答案")
    assert table.choices[1] == ("你好", "鸟在飞", "无效答案", "无效答案")
    assert (table.labels, table.text_b[1]) == (["1", "1", "1", "1"], "男说？")
    question = {"id": 12, "question": "谁？", "choice": ["鸟", "女"]}
    (tmp_path / "test.json").write_text(json.dumps([[["鸟"], [question], "0"]]))
    test = read(tmp_path, "c3", "test")
    assert (test.example_ids, test.labels) == (["test-12"], None)
    wrong = DOCUMENTS[0][1][0] | {"answer": "x"}
    (tmp_path / "d-dev.json").write_text(json.dumps([[["鸟"], [wrong], "0"]]))
    with pytest.raises(ValueError, match=r"d-dev.json: document 0: 'x' is none of"):
        read(tmp_path, "c3")


IDIOMS = ["画蛇添足", "守株待兔", *["天上飞鸟"] * 8]
PASSAGES = ["“他”#idiom000003#…她#idiom000004#很", "你#idiom000005#"]


def test_chid_has_a_row_for_each_blank(tmp_path):
    row = {"content": PASSAGES, "candidates": IDIOMS}
    jsonl(tmp_path / "dev.json", row)
    answers = {"#idiom000003#": 1, "#idiom000004#": 0, "#idiom000005#": 9}
    (tmp_path / "dev_answer.json").write_text(json.dumps(answers))
    table = read(tmp_path, "chid")
    assert table.text_a == [
        '"他"#idiom#...她#idiom000004#很',
        '"他"#idiom000003#...她#idiom#很',
        "你#idiom#",
    ]
    assert (table.labels, table.lines) == (["1", "0", "9"], [1, 1, 1])
    assert table.example_ids[0] == "dev-#idiom000003#"
    del answers["#idiom000004#"]
    (tmp_path / "dev_answer.json").write_text(json.dumps(answers))
    with pytest.raises(ValueError, match=r"answer.json: '#idiom000004#' is missing"):
        read(tmp_path, "chid")


@pytest.fixture(scope="module")
def tokenizer():
    return wordpiece.BertTokenizer(VOCAB)


def rows_of(packed):
    pairs = zip(packed.splits, packed.splits[1:], strict=False)
    return [[VOCAB[i] for i in packed.tokens[a:b]] for a, b in pairs]


def popped(document, question, choice, limit):
    """The rule of the baseline, one token at a time."""
    parts = [list(document), list(question), list(choice)]
    while sum(map(len, parts)) > limit - 4:
        longest = max(map(len, parts))
        next(parts[i] for i in (0, 2, 1) if len(parts[i]) == longest).pop()
    first = ["[CLS]", *parts[0], "[SEP]"]
    return [*first, *parts[1], "[SEP]", *parts[2], "[SEP]"], len(first)


@pytest.mark.parametrize("limit", range(5, 20))
def test_c3_loses_the_end_of_its_longest_part(tokenizer, limit):
    label_set = labels.Labels(("0", "1", "2"), "choice", pair_input="separate")
    encode = encoding.Encoder(tokenizer, limit, label_set, has_pairs=True)
    choices = [("鸟", "男女在飞", "你"), ("他很聪明他很聪明", "她", "谁有鸟")]
    texts = ["天上有一只鸟", "鸟在飞"], ["谁在飞?", "谁?"], choices
    packed = encode.pack(*texts)
    wanted = [
        popped(d, q, c, limit) for d, q, cs in zip(*texts, strict=True) for c in cs
    ]
    assert rows_of(packed) == [tokens for tokens, _ in wanted]
    assert packed.first_lengths.tolist() == [first for _, first in wanted]
    longest = [6 + 4 + 4 + 4, 3 + 2 + 8 + 4]
    assert packed.num_truncated == sum(length > limit for length in longest)


def around(passage, limit):
    """The window of the baseline; a blank is one token where it is laid."""
    parts = [p for p in re.split(r"(#idiom\d*#)", passage) if p]
    tokens = [t for p in parts for t in ([p] if p.startswith("#") else list(p))]
    place, room = tokens.index("#idiom#"), limit - 8
    left, right = tokens[:place], tokens[place + 1 :]
    keep = min(len(left), max(room // 2, room - len(right)))
    left, right = left[len(left) - keep :], right[: room - keep]

    def masked(part):
        return [m for t in part for m in (["[MASK]"] * 4 if t[0] == "#" else [t])]

    before, behind = masked(left), masked(right)
    before = before[len(before) - len(left) :]
    return [*before, "[unused1]", *behind[: len(right)]]


@pytest.mark.parametrize("limit", [9, 12, 16, 20, 40])
def test_chid_reads_a_window_around_its_blank(tokenizer, limit):
    label_set = labels.Labels(("0", "1"), "choice", pair_input="cloze")
    encode = encoding.Encoder(tokenizer, limit, label_set)
    passages = [
        "天上有一只鸟在飞#idiom#他很聪明#idiom000002#她很快乐",
        "#idiom#天上有#idiom000001#一只鸟",
        "天上#idiom000009#有一只鸟在飞它很快乐#idiom#",
    ]
    packed = encode.pack(passages, None, [("画蛇添足", "守株待兔")] * 3)
    assert rows_of(packed) == [
        ["[CLS]", *idiom, "[SEP]", *around(passage, limit), "[SEP]"]
        for passage in passages
        for idiom in ("画蛇添足", "守株待兔")
    ]
    assert packed.first_lengths.tolist() == packed.sequence_lengths.tolist()
    features = encode.features(passages, [("画蛇添足", "守株待兔")] * 3)
    assert not np.any(features["segment_ids"])


def test_no_character_of_a_passage_is_a_blank(tokenizer):
    """Before and behind the blank, and beside another; words are as without it."""
    label_set = labels.Labels(("0", "1"), "choice", pair_input="cloze")
    encode = encoding.Encoder(tokenizer, 24, label_set)
    parts = ["我们", "他很", "#idiom#", "聪明", "#idiom000002#", "她很", "快乐"]
    signs = ["", "\n", "\r\n", "\t", "\x01", "\0", "\u2028", "\x85"]
    passages = [f"{sign}{sign.join(parts)}{sign}" for sign in signs]
    choices = [("画蛇添足", "守株待兔")] * len(signs)
    rows = rows_of(encode.pack(passages, None, choices))
    assert [row.count("[MASK]") for row in rows[:2]] == [4, 4]
    assert rows == rows[:2] * len(signs)
    ids = encode.features(passages, choices)["input_ids"].numpy()
    assert np.all(ids == ids[:1])


def test_vocabularies_and_rows_that_a_cloze_cannot_have(tokenizer, tmp_path):
    label_set = labels.Labels(("0", "1"), "choice", pair_input="cloze")
    plain = wordpiece.BertTokenizer(VOCAB[:5] + VOCAB[6:])
    with pytest.raises(ValueError, match=r"\[unused1\], and others .* give a BERT's"):
        encoding.Encoder(plain, 20, label_set).pack(["#idiom#"], None, [("a", "b")])
    csv = "context,a,b,label\n天#idiom#上,鸟,女,0\n天上,鸟,女,1\n"
    (tmp_path / "own.csv").write_text(csv, "utf-8")
    own = {"files": {"train": str(tmp_path / "own.csv")}, "pair_input": "cloze"}
    layout = sources.labelled.Layout(text_a="context", choices=("a", "b"))
    table = sources.Source(layout=layout, **own).read("train")
    with pytest.raises(ValueError, match=r"own.csv:3: '天上' has not one #idiom#"):
        encoding.Encoder(tokenizer, 20, label_set).check(table)
    with pytest.raises(ValueError, match="--max_seq_length=8 has no room"):
        encoding.Encoder(tokenizer, 8, label_set).check(table)
    task = {"task_name": "c3", "data_dir": str(tmp_path)}
    with pytest.raises(
        ValueError, match="--pair_input=cloze: --task_name=c3 has separ"
    ):
        sources.Source(pair_input="cloze", **task).form  # noqa: B018


def test_an_idiom_fills_one_blank_of_a_line():
    label_set = labels.Labels(tuple("012"), "choice", pair_input="cloze")
    shares = np.array(
        [[0.6, 0.3, 0.1], [0.7, 0.2, 0.1], [0.8, 0.1, 0.1], [0.4, 0.35, 0.25]]
    )

    def decide(label_set, lines, added=(0, 0, 0, 0)):
        logits = np.log(shares) + np.array(added)[:, np.newaxis]
        return predictions.decide(label_set, shares, 0.5, lines, logits).tolist()

    assert decide(label_set, [1, 1, 1, 2]) == [1, 2, 0, 0]
    # By logits, as in CLUE, whose level is not that of each blank's probabilities.
    assert decide(label_set, [1, 1, 1, 2], [2, 1, -9, 0]) == [0, 1, 2, 0]
    assert decide(label_set, [1, 2, 3, 4]) == [0] * 4
    other = labels.Labels(tuple("012"), "choice", pair_input="separate")
    assert decide(other, [1, 1, 1, 2]) == [0] * 4


def written(task, ids, chosen, kind="classification", form="joined"):
    label_set = labels.Labels(task.labels, kind, pair_input=form)
    columns = {"path": "", "text_a": [""] * len(ids), "text_b": None, "labels": None}
    table = sources.labelled.Table(
        example_ids=ids, lines=[*range(len(ids))], choices=None, **columns
    )
    data = split.LabelledSplit("", None, table, None, label_set)
    scored = outcomes.Scored(predictions=np.array(chosen))
    (name, *_) = task.submission.values()
    return "".join(predictions.submission_lines(name, data, scored))


def test_submissions_have_the_form_of_the_sites():
    named = tasks.task_named
    rows = written(named("cluewsc"), ["test-9", "test-4"], [1, 0])
    assert rows == '{"id": 0, "label": "false"}\n{"id": 1, "label": "true"}\n'
    rows = written(named("c3"), ["test-12", "test-x-1"], [3, 0], "choice", "separate")
    assert rows == '{"id": 12, "label": 3}\n{"id": "x-1", "label": 0}\n'
    blanks = ["test-#idiom000003#", "test-#idiom000004#"]
    rows = written(named("chid"), blanks, [4, 0], "choice", "cloze")
    assert json.loads(rows) == {"#idiom000003#": 4, "#idiom000004#": 0}
    assert written(named("rte"), ["a", "b"], [1, 0]) == (
        "index\tprediction\n0\tnot_entailment\n1\tentailment\n"
    )
    assert written(named("sts-b"), ["a", "b"], [5.25, 2.0], "regression") == (
        "index\tprediction\n0\t5.000\n1\t2.000\n"
    )


@pytest.mark.parametrize(("name", "file"), [("csl", "csl"), ("cluewsc", "cluewsc2020")])
def test_submissions_are_bytes_of_the_official_examples(shared_file, name, file):
    path = shared_file(f"data/clue/submit_examples/{file}_predict.json")
    text = path.read_text("utf-8")
    given = [json.loads(line)["label"] for line in text.splitlines()]
    task = tasks.task_named(name)
    chosen = [task.labels.index(label) for label in given]
    assert written(task, [f"test-{9 * i}" for i in range(20)], chosen) == text


def test_each_submission_is_a_file_of_a_run():
    names = {n for task in tasks.TASKS.values() for n in task.submission.values()}
    others = {file_names.CMRC_SUBMISSION, file_names.CLUENER_SUBMISSION}
    assert names | others == {*file_names.SUBMISSIONS}
    assert tasks.TASKS["tnews"].submission["test1.0.json"] == "tnews10_predict.json"
    assert tasks.TASKS["tnews"].submission["test.json"] == "tnews11_predict.json"


COUNTS = {
    "afqmc": ("afqmc", 300, 150),
    "tnews": ("tnews", 300, 150),
    "iflytek": ("iflytek", 300, 150),
    "cmnli": ("cmnli/rebuilt", 300, 150),
    "ocnli": ("ocnli", 300, 149),
    "cluewsc": ("cluewsc2020", 1244, 304),
    "csl": ("csl", 160, 150),
    "c3": ("c3", 469, 230),
    "chid": ("chid/rebuilt", 209, 202),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_rows_are_all_read(shared_file, name):
    folder, *counts = COUNTS[name]
    directory = shared_file(f"data/clue/{folder}")
    for part, count in zip(("train", "dev"), counts, strict=True):
        table = read(directory, name, part)
        task = tasks.task_named(name)
        label_set = labels.Labels(task.labels, task.problem_type)
        assert len(label_set.encode(table)) == count
