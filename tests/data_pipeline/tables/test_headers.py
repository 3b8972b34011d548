"""Which line is a header, and what is read, in tables in the form of published ones."""

import json

import pytest

from data_pipeline import findings
from data_pipeline.classification import tasks
from data_pipeline.embedding import corpora
from data_pipeline.seq2seq import pairs
from data_pipeline.tables import labelled
from tests.refusals import refused
from tests.shown import shown


@pytest.fixture
def read(tmp_path):
    """Reads a text as a table; `columns` are those of labelled.Layout."""

    def write_and_read(content, name="t.tsv", *, required=True, **columns):
        (tmp_path / name).write_text(content, encoding="utf-8")
        opened = labelled.open_table(
            str(tmp_path / name),
            labelled.Layout(**columns),
            labels_required=required,
        )
        return opened.read(findings.show)

    return write_and_read


TEXT_FIRST = {"text_a": 0, "label": 1}
LABEL_LAST = {"text_a": -2, "label": -1}
LABEL_FIRST = {"text_a": 1, "label": 0}
MOODS = "pos\tI like it\nneg\tI do not\npos\tSo good\nneg\tBad\nodd\tWhat?\n"
REMEDIES = ("if they are names, give them to --", "--has_header=false")


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        # Neither usual names nor numbers.
        ("nice\t1\nbad\t0\n", {}),
        ("tweet\tmood\nnice\t1\nbad\t0\n", {}),
        ("0\t1\nnice\t1\nbad\t0\n", {"label": 1}),
        # Numbers, and a usual name in one of their columns alone.
        (f"tweet\tlabel\n{MOODS}", TEXT_FIRST),
        ("The sum is odd\tscore\nBad film\tplot\nSum?\tscore\n", TEXT_FIRST),
        ("question\t1\nfine\t0\n", TEXT_FIRST),
        ("class\tI like it.\nodd\tBad, and too long.\n", LABEL_FIRST),
    ],
)
def test_what_may_be_a_header_or_a_row_is_refused(read, content, columns):
    first = content.splitlines()[0].split("\t")
    with refused(f"t.tsv:1: {first} are not the usual names of columns", *REMEDIES):
        read(content, **columns)


def test_a_row_that_repeats_the_header_is_refused_wherever_it_is(read):
    """Files that were put one below the other."""
    for count in (1, 20_000):
        body = "a,1\n" * count
        with refused(f"t.csv:{count + 2}: repeats line 1, ['text', 'label']; remove"):
            read(f"text,label\n{body}text,label\nb,0\n", "t.csv")
    table = read("text\na\ntext\n", required=False)  # a text may be one word
    assert table.text_a == ["a", "text"]


@pytest.mark.parametrize("names", ["\ufefftext,label", "Text,Label", "text ,label"])
def test_a_repeated_header_may_have_other_blanks_and_capitals(read, names):
    with refused("t.csv:3: repeats line 1, ['text', 'label']; remove it"):
        read(f"text,label\na,1\n{names}\nb,0\n", "t.csv")
    with refused("t.csv:3: repeats line 1 in another order", "give all rows one order"):
        read(f"text,label\na,1\n{','.join(names.split(',')[::-1])}\n1,b\n", "t.csv")
    # As a program has read such a file, and written it.
    text, label = names.split(",")
    rows = [{"text": "a", "label": "1"}, {"text": text, "label": label}]
    with refused("t:2: repeats the names of columns, ['text', 'label']; remove it"):
        labelled.open_memory("t", rows, labelled.Layout(), labels_required=True).read()
    with refused("t.jsonl:2: repeats the names of columns, ['text', 'label']"):
        read("".join(json.dumps(row) + "\n" for row in rows), "t.jsonl")
    # Names of columns in a text, or as a label alone, are none.
    right = "text,label\nlabel,1\ntext,2\na,text\na,label\n"
    assert len(read(right, "t.csv").lines) == 4


@pytest.mark.parametrize(
    ("content", "columns", "num_rows"),
    [
        (f"sentiment\ttweet\n{MOODS}", LABEL_FIRST, 5),
        ("content\tpos\nbad\tneg\ngood\tpos\n", TEXT_FIRST, 2),
        (f"sentiment\ttweet\n{MOODS}", TEXT_FIRST, 5),
    ],
)
def test_a_flag_decides_what_is_doubted(read, capsys, content, columns, num_rows):
    for has_header in (True, False):
        table = read(content, has_header=has_header, **columns)
        assert len(table.lines) == num_rows + (not has_header)
        assert bool(table.header) == has_header
    assert "line 1" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "columns", "num_rows", "printed"),
    [
        (MOODS, LABEL_FIRST, 5, "line 1 is an example: ['pos', 'I like it']"),
        ("a\t1\nb\t0\n", TEXT_FIRST, 2, "line 1 is an example: ['a', '1']"),
        ("0\t1\na\tx\nb\ty\n", TEXT_FIRST, 3, "line 1 is an example: ['0', '1']"),
        ("text\tlabel\na\tx\nb\ty\n", TEXT_FIRST, 2, "the header: ['text', 'label']"),
        ("7\tText\tClass\n8\ta\tx\n", LABEL_LAST, 1, "the header: ['7', 'Text'"),
        # Of the columns that are there.
        ("Text\nb\nc\n", TEXT_FIRST | {"required": False}, 2, "the header: ['Text']"),
        # Names that choose the columns are no guess.
        ("text\tlabel\na\tx\nb\ty\n", {}, 2, ""),
    ],
)
def test_what_decides_by_number_is_printed(
    read, capsys, content, columns, num_rows, printed
):
    assert len(read(content, **columns).lines) == num_rows
    out = capsys.readouterr().out
    assert ("line 1 is" in out) == bool(printed) and printed in out


def test_pairs_have_the_same_rule(tmp_path, capsys):
    def open_rows(content, **columns):
        (tmp_path / "t.tsv").write_text(content)
        layout = pairs.Layout(**columns)
        opened = pairs.open_rows(tmp_path / "t.tsv", layout, targets_required=True)
        rows = list(opened.rows)
        shown(opened)
        return rows

    sentences = "How are you?\tWie geht es?\nyes\tja\nIt rains.\tEs regnet.\n"
    numbers = {"source": 0, "target": 1}
    assert len(open_rows(sentences, **numbers)) == 3
    assert "line 1 is an example" in capsys.readouterr().out
    assert len(open_rows(sentences, has_header=False)) == 3
    for first in ("", "english\tgerman\n", "en\tde\n", "question\tFrage\n"):
        with refused("t.tsv:1: ['", "are not the usual names of columns", *REMEDIES):
            open_rows(first + sentences)
    with refused("['question', 'Frage'] are not the usual names of columns"):
        open_rows("question\tFrage\nanswer\tAntwort\n", **numbers)
    assert len(open_rows("source\ttarget\na\tb\n", **numbers)) == 1
    assert "line 1 is the header: ['source', 'target']" in capsys.readouterr().out
    assert len(open_rows(f"en\tde\n{sentences}", source="en", target="de")) == 3
    with refused("t.tsv:3: 3 cells, line 1 has 2"):
        open_rows("source\ttarget\na\tb\nc\td\te\n")
    with refused("t.tsv:3: repeats line 1, ['source', 'target']"):
        open_rows("source\ttarget\na\tb\nsource\ttarget\n")


def test_a_usual_text_is_never_left_unread_unnoticed(read, capsys):
    with refused("'text' would be read, and 'context' would not", "--text_b_column"):
        read("text\tcontext\tlabel\na\tb\t1\n")
    assert read("text\tcontext\tlabel\na\tb\t1\n", text_a="text").text_b is None
    assert (
        "reads 'text' (text_a), 'label'; not read: 'context'" in capsys.readouterr().out
    )
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": "y", "text_pair": "c"}]
    layout = labelled.Layout()
    with refused("t: 'text' would be read, and 'text_pair' would not"):
        labelled.open_memory("t", rows, layout, labels_required=True).read()
    rows[1] = {"text": "b", "label": "y", "title": "c"}
    assert (
        labelled.open_memory("t", rows, layout, labels_required=True).read().text_b
        is None
    )
    # A title is named, and not read.
    table = read("id\ttitle\ttext\tlabel\n7\ta\tb\t1\n")
    assert (table.text_a, table.text_b, table.example_ids) == (["b"], None, ["7"])
    assert "'id' (example_id); not read: 'title'\n" in capsys.readouterr().out
    # By number, too; the index of pandas has no name.
    read("\ttweet\tmood\n0\ta b\tx\n1\tc\ty\n", text_a=1, label=2, has_header=True)
    assert "reads 'tweet' (text_a), 'mood' (label); not read: ''\n" in (
        capsys.readouterr().out
    )
    read("article\tlabel\ta\tb\tc\td\te\tf\tg\nx y\t1" + "\t0" * 7 + "\n")
    shown = "reads 'article' (text_a), 'label'; not read: 'a', 'b', 'c', 'd', 'e', 'f'"
    assert f"{shown} and 1 more\n" in capsys.readouterr().out
    read("9\ta b\t1\n8\tc\t0\n", text_a=1, label=-1)
    assert "reads 1 (text_a), 2 (label); not read: 0\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "content", "texts"),
    [
        ({"delimiter": "|"}, "text|label\na; b|1\nc, d|0\n", ["a; b", "c, d"]),
        ({"delimiter": "tab"}, "text\tlabel\na, b\t1\nc\t0\n", ["a, b", "c"]),
        ({"quote": "'"}, "text,label\n'a, b',1\nc,0\n", ["a, b", "c"]),
        ({"quote": "none"}, 'text,label\n"a,1\nb",0\n', ['"a', 'b"']),
        ({"delimiter": ","}, "text,label\na;b,1;\nc;d,0;\n", ["a;b", "c;d"]),
    ],
)
def test_delimiters_and_quotes_can_be_given(read, capsys, options, content, texts):
    assert read(content, "t.csv", **options).text_a == texts
    assert "separated" not in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"t\.csv"):
        read(content.replace("text", "moods").replace("label", "no", 1), "t.csv")


def test_tsv_may_have_quotes(read):
    content = 'text\tlabel\n"a ""b""\tc"\t1\nd\t0\n'
    assert read(content, quote='"').text_a == ['a "b"\tc', "d"]
    with refused("t.tsv:2: 3 cells, line 1 has 2", "--quote"):
        read(content)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("t.csv", {"delimiter": "||"}),
        ("t.csv", {"delimiter": ""}),
        ("t.csv", {"quote": "ab"}),
        ("t.csv", {"delimiter": "none"}),
        ("t.jsonl", {"delimiter": ","}),
    ],
)
def test_what_is_no_character_is_refused(read, name, options):
    ((flag, value),) = options.items()
    with refused(f"{name}: --{flag}={value} is not one character"):
        read("text,label\na,1\n", name, **options)


def test_the_delimiter_follows_from_the_first_rows(read, capsys):
    """Not from line 1 alone: a comma in a text separates nothing."""
    lines = [f"Sport{i % 3};Der Verein gewinnt, sagt er" for i in range(40)]
    table = read("\n".join(lines), "t.csv", **LABEL_FIRST)
    assert {*table.labels} == {"Sport0", "Sport1", "Sport2"}
    assert {*table.text_a} == {"Der Verein gewinnt, sagt er"}
    assert "t.csv: its cells are separated by semicolons\n" in capsys.readouterr().out
    lines[9] = "Sport0;Er sagt, dass, und so weiter"
    assert len(read("\n".join(lines), "t.csv", **LABEL_FIRST).lines) == 40
    # Nothing shows which one it is.
    with refused(
        "t.csv: its cells may be separated by commas or semicolons", "--delim"
    ):
        read("a;b,c\nd;e,c\n", "t.csv", **TEXT_FIRST)
    # A row that is cut otherwise is named, with both numbers.
    lines[30] = "Sport0;Ein Wort; noch eins"
    with refused("t.csv:31: 3 cells, line 1 has 2"):
        read("\n".join(lines), "t.csv", **LABEL_FIRST)


# --- Twenty rows or so, in the form of published files; the texts are written here.

BOOLQ = "".join(
    f'{{"question": "does shop {i} open on mondays", "title": "Shop {i}", '
    f'"answer": {"true" if i % 3 else "false"}, "passage": "Shop {i} opens at {i}."}}\n'
    for i in range(1, 21)
)
CORPUS = "".join(
    f'{{"_id": "{i}", "title": "", "text": "Rates rose, so bond {i} fell.", '
    '"metadata": {}}\n'
    for i in range(1, 21)
)
INTENTS = ["text,intent"] + [
    f"{text} number {i},{intent}"
    for i in range(10)
    for text, intent in (("play song", "play_music"), ("what is share", "stock_price"))
]
TWEETS = [
    f'"{4 * (i % 2)}","{1467810 + i}","Mon Apr 06 22:19:{i:02} 2009","NO_QUERY",'
    f'"user{i}","@user{i + 1} well, that is ""fun"" - day {i}"'
    for i in range(20)
]


def test_boolean_questions(read, capsys):
    table = read(BOOLQ, "train.jsonl", label="answer")
    assert table.text_a[0] == "does shop 1 open on mondays"
    assert table.text_b[0] == "Shop 1 opens at 1."
    assert table.labels.count("true") == 14 and len(table.lines) == 20
    assert capsys.readouterr().out.endswith(
        "train.jsonl: reads 'question' (text_a), 'passage' (text_b), 'answer' (label); "
        "not read: 'title'\n"
    )
    with refused("'question' and 'passage' would be read, and 'answer'", "--label_"):
        read(BOOLQ, "train.jsonl")


def test_passages_of_a_corpus(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(CORPUS)
    texts = list(corpora.read_texts(str(tmp_path / "corpus.jsonl"), has_ids=True))
    assert len(texts) == 20
    assert texts[19] == (20, "20", "Rates rose, so bond 20 fell.")


def test_intents(read):
    table = read("\n".join(INTENTS), "train.csv", label="intent")
    assert len(table.lines) == 20 and {*table.labels} == {"play_music", "stock_price"}
    rare = "\n".join([*INTENTS, "where is my card,lost_card"])
    table = read(rare, "train.csv", label="intent")
    assert len(table.lines) == 21
    with refused("train.csv:9: 3 cells, line 1 has 2"):
        lines = [*INTENTS]
        lines[8] = "what is share, number 3,stock_price"
        read("\n".join(lines), "train.csv", label="intent")
    # Without its header, and with another one.
    body = "\n".join(rare.splitlines()[1:])
    assert read(body, "train.csv", **TEXT_FIRST).text_a[0] == "play song number 0"
    with refused("train.csv:1: ['utterance', 'class'] are not the usual names"):
        read(f"utterance,class\n{body}", "train.csv", **TEXT_FIRST)


def test_tweets_without_a_header(read, capsys):
    table = read("\n".join(TWEETS), "tweets.csv", text_a=5, label=0)
    assert table.text_a[1] == '@user2 well, that is "fun" - day 1'
    assert [*table.labels[:3]] == ["0", "4", "0"] and len(table.lines) == 20
    assert "not read: 1, 2, 3, 4\n" in capsys.readouterr().out
    lines = [*TWEETS]
    lines[7] = lines[7].replace('"', "")  # as a spreadsheet saved once more by hand
    with refused("tweets.csv:8: 7 cells, line 1 has 6"):
        read("\n".join(lines), "tweets.csv", text_a=5, label=0)


def test_rows_of_vectors_have_the_same_rules(tmp_path):
    def read_rows(content, **columns):
        (tmp_path / "t.csv").write_text(content)
        layout = labelled.Layout(usual_texts=corpora.USUAL_TEXTS, **columns)
        return corpora.open_rows(tmp_path / "t.csv", layout).read().texts()

    assert read_rows("query,document\na,b\n\n") == [("a", "b")]
    assert read_rows("query;positive\n;\na;b, c\n;\n") == [("a", "b, c")]
    with refused("t.csv:3: 3 cells, line 1 has 2"):
        read_rows("query,positive\na,b\nc,d, e\n")
    with refused("'answer' would not", "--text_a_column"):
        read_rows("question,context,answer\na,b,c\n")


@pytest.mark.parametrize(
    ("task", "name", "header", "row", "label"),
    [
        (
            "mrpc",
            "train.tsv",
            "Quality\t#1 ID\t#2 ID\t#1 S\t#2 S",
            "1\t7\t8\ta\tb",
            "1",
        ),
        ("sst-2", "train.tsv", "sentence\tlabel", "nice\t1", "1"),
        ("rte", "test.tsv", "index\tsentence1\tsentence2", "0\ta\tb", None),
        ("cola", "test.tsv", "index\tsentence", "0\ta", None),
        (
            "xnli",
            "multinli/multinli.train.zh.tsv",
            "a\tb\tc",
            "x\ty\tneutral",
            "neutral",
        ),
    ],
)
def test_a_published_file_needs_its_header(tmp_path, task, name, header, row, label):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    chosen = tasks.task_named(task)
    split = path.name.split(".")[0] if path.parent == tmp_path else "train"
    path.write_text(f"{header}\n{row}\n")
    table = tasks.read_split(chosen, str(tmp_path), split)
    assert len(table.lines) == 1 and (table.labels or [None])[0] == label
    path.write_text(f"{row}\n{row}\n")
    with refused(f"{path.name}:1:", "is an example", "begins with a header"):
        tasks.read_split(chosen, str(tmp_path), split)


def test_a_header_above_a_file_without_one_is_left_out_with_a_warning(tmp_path, caplog):
    path = tmp_path / "train.tsv"
    rows_of_file = "gj04\t1\t\tOur friends left.\ngj04\t0\t*\tThey is.\n"
    for header, count in (("", 0), ("src\tacc\tmark\ttext\n", 1)):
        path.write_text(header + rows_of_file)
        with caplog.at_level("WARNING"):
            table = tasks.read_split(tasks.TASKS["cola"], str(tmp_path), "train")
        assert table.text_a == ["Our friends left.", "They is."]
        assert caplog.text.count("is a header, which is left out") == count
    # Rows of published files may be longer than the header, as the original read them.
    path.write_text("gj04\t1\t\tOur\tmore\ngj04\t0\t*\tThey is.\n")
    table = tasks.read_split(tasks.TASKS["cola"], str(tmp_path), "train")
    assert table.text_a == ["Our", "They is."]


def test_an_empty_label_column_is_none(read):
    """It makes no header of line 1, and is not the index of pandas."""
    flags = {"text_a": 0, "text_b": 1, "label": "", "required": False}
    table = read("How are you?\tFine, thanks.\nWho?\tMe.\n", **flags)
    assert (len(table.lines), table.labels) == (2, None)
    table = read("\ttext\n0\ta b\n1\tc\n", text_a="text", label="", required=False)
    assert (table.text_a, table.labels) == (["a b", "c"], None)


def test_columns_that_are_not_there_are_refused_and_not_shown_as_others(read, capsys):
    with refused("the first text's column is not given"):
        read("a b\tx\nc d\tx\n", label=1, has_header=False)
    with refused("t.tsv:1: 2 columns, and the text_a is in column 5"):
        read("a b\tx\nc d\tx\n", text_a=5, label=1)
    assert "reads 5 (text_a), 1 (label); not read: 0\n" in capsys.readouterr().out
