import json
import os

import pytest

from data_pipeline.tagging import files
from tests.shown import shown

ADA = (["Ada", "in", "Rome"], ["B-per", "O", "B-loc"])
RAIN = (["rain", "."], ["O", "O"])


def read(path, *, tags_required=True, **layout):
    layout = files.Layout(**layout)
    return shown(files.read(str(path), layout, tags_required=tags_required))


@pytest.fixture
def read_text(tmp_path):
    def read_it(text, name="a.txt", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(path, **options)

    return read_it


def pairs(sentences):
    return list(zip(sentences.words, sentences.tags, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "Ada\tB-per\nin\tO\nRome\tB-loc\n\nrain\tO\n.\tO\n\n",
        "Ada B-per\nin O\nRome B-loc\n\nrain O\n. O",  # no last line end
        "\ufeffAda  B-per\r\nin O \r\nRome B-loc\r\n",
        "Ada\tB-per\nin\tO\nRome\tB-loc\n \t \n\n\nrain\tO\n.\tO\n",
    ],
)
def test_columns_of_words_and_tags(text, read_text):
    sentences = read_text(text)
    assert pairs(sentences)[0] == ADA
    assert pairs(sentences)[1:] in ([], [RAIN])
    assert sentences.file_format == "conll"


def test_cells_end_at_tabs_or_spaces_alone(read_text):
    sentences = read_text("New York\tB-loc\nis \tO\n")
    assert pairs(sentences) == [(["New York", "is"], ["B-loc", "O"])]
    assert sentences.separator == "\t"
    assert pairs(read_text("東 B-loc\n\u3000 O\n"))[0][0] == ["東", "\u3000"]


def test_ideographic_space_alone_is_a_word(read_text):
    words = read_text("东\n\u3000\n京\n", tags_required=False).words
    assert words == [["东", "\u3000", "京"]]
    assert len(read_text("东\n \t\n京\n", tags_required=False).words) == 2


def test_pipe_needs_its_format(tmp_path):
    """A second reading would lack what the first one took out of the pipe."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        ValueError, match=r"pipe: is a pipe, which is read once; set --"
    ):
        read(tmp_path / "pipe")


def test_columns_are_chosen_by_number(read_text):
    text = "1 Ada NNP B-per _\n2 in IN O _\n3 Rome NNP B-loc _\n"
    assert pairs(read_text(text, word_column=1, tag_column=-2)) == [ADA]
    assert pairs(read_text(text, word_column=-4, tag_column=2)) == [
        (ADA[0], ["NNP", "IN", "NNP"])
    ]


def test_marks_part_documents(read_text):
    text = "-DOCSTART- -X- O\n\na x O\nb x O\n-DOCSTART- -X- O\nc x O\n\nd x O\n"
    sentences = read_text(text)
    assert sentences.words == [["a", "b"], ["c"], ["d"]]
    assert sentences.documents.tolist() == [1, 2, 2]
    assert sentences.lines == [[3, 4], [6], [8]]
    text = "# newdoc id = 1\n# text = a\n1\ta\tX\n\n# newdoc\n1\tb\tX\n"
    assert read_text(text, word_column=1).documents.tolist() == [1, 2]
    assert read_text("a O\n\nb O\n").documents.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Comments stand before the first word of a sentence, or have other columns.
        ("# sent_id = 4\na\tO\n", ["a"]),
        ("# id 77\tdomain=en\na _ _ O\n", ["a"]),
        ("# x y z\na _ _ O\n# w\n", ["a"]),
        ("#begin document (a)\na O\n", ["a"]),
        # Words may begin with the sign, too.
        ("# O\na O\n", ["#", "a"]),
        ("a O\n# X\nb O\n", ["a", "#", "b"]),
        ("#berlin B-loc\na O\n", ["#berlin", "a"]),
        ("a\tO\n#\tO\n", ["a", "#"]),
    ],
)
def test_comments_are_told_from_words(text, words, read_text):
    assert read_text(text).words == [words]


def test_files_without_tags(read_text):
    sentences = read_text("Ada\nin\n# no word\n\n#berlin\n", tags_required=False)
    assert sentences.tags is None
    assert sentences.words == [["Ada", "in"], ["#berlin"]]
    with pytest.raises(ValueError, match=r"has no tags"):
        list(sentences.tagged_words())
    assert read_text("a x\n", tag_column=2, tags_required=False).tags is None
    assert read_text("a x\n", tag_column=0, tags_required=False).tags is None


@pytest.mark.parametrize(
    ("text", "layout", "message"),
    [
        ("Ada\n", {}, ":1: 1 columns; besides the words' there is no --tag_column=-1"),
        ("a O\n", {"word_column": 2}, ":1: 2 columns; lower --word_column=2"),
        ("a O\n", {"tag_column": 3}, "there is no --tag_column=3"),
        ("a O\n\n#berlin b\n#b\n", {}, ":4: 1 columns, line 1 has 2"),
        ("a\tO\nb O\n", {}, ":2: 1 columns, line 1 has 2; give both as many"),
        (
            "Ada Lovelace came to Rome in the spring.\nIt rained.\n",
            {},
            ":2: 2 columns, line 1 has 8; .*run_predictor.py --input_format=lines",
        ),
        ("a\tO\nb\t \n", {}, ":2: the tag, column 1, is empty"),
        ("a\tO\n\tO\n", {}, ":2: the word, column 0, is empty"),
        ("\n \n# only this\n", {}, "there is no sentence"),
    ],
)
def test_bad_columns_are_refused(text, layout, message, read_text):
    with pytest.raises(ValueError, match=r"a\.txt.*" + message):
        read_text(text, **layout)


def test_words_of_conllu_are_its_syntactic_words(read_text):
    """Without empty nodes, such as 0.1, and multiword tokens, such as 1-2."""
    rows = "0.1 _ PRON|1-2 Im _|1 In ADP|2 dem DET|2.1 _ X|3 1990-1991 NUM|4 5.1 NUM"
    lines = ["# sent_id = 1", "# text = ..."]
    for row in rows.split("|"):
        number, form, tag = row.split()
        lines.append("\t".join((number, form, "_", tag, *"______")))
    text = "\n".join([*lines, "", ""]) * 2
    sentences = read_text(text, "a.conllu", word_column=1, tag_column=3)
    words = ["In", "dem", "1990-1991", "5.1"]
    assert pairs(sentences) == [(words, ["ADP", "DET", "NUM", "NUM"])] * 2
    assert sentences.lines == [[5, 6, 8, 9], [15, 16, 18, 19]]


@pytest.fixture
def seq(tmp_path):
    def write(words, tags=None):
        (tmp_path / "seq.in").write_text(words)
        if tags is not None:
            (tmp_path / "seq.out").write_text(tags)
        return tmp_path

    return write


def test_pairs_of_lines(seq):
    place = seq("Ada in  Rome \n\nrain .\r\n", "B-per O B-loc\n\nO O\n")
    sentences = read(place / "seq.in")
    assert pairs(sentences) == pairs(read(place)) == [ADA, RAIN]
    assert (sentences.file_format, sentences.num_skipped) == ("seq", 1)
    assert sentences.lines == [[1, 1, 1], [3, 3]]
    assert sentences.tag_path.endswith("seq.out")


def test_seq_out_may_lack(seq):
    place = seq("Ada in\n")
    assert read(place, tags_required=False).tags is None
    with pytest.raises(FileNotFoundError, match=r"seq\.out: no such file"):
        read(place)
    (place / "seq.in").unlink()
    with pytest.raises(FileNotFoundError, match=r"seq\.in: no such file; name a file"):
        read(place)
    (place / "words.txt").write_text("a b\n")
    with pytest.raises(ValueError, match=r"does not end in seq\.in"):
        read(place / "words.txt", file_format="seq")


def test_pairs_must_have_equal_numbers(seq):
    for words, tags, message in (
        ("a b\nc\n", "O O\nO O\n", "2: 2 tags for 1 words"),
        ("a b\nc\n", "O O\n", "2: 0 tags for 1 words"),
        ("a b\n", "O O\nO\n", "2: 1 tags for 0 words"),
    ):
        with pytest.raises(ValueError, match=rf"seq\.out:{message}"):
            read(seq(words, tags))


def as_lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
def test_objects(read_text, name):
    rows = [
        {"id": 7, "words": ADA[0], "tags": ADA[1]},
        {"words": [], "tags": []},
        {"tokens": RAIN[0], "tags": RAIN[1]},
        {"text": " rain\u00a0.", "tags": RAIN[1]},
    ]
    sentences = read_text(as_lines(*rows), name)
    assert pairs(sentences) == [ADA, RAIN, RAIN]
    assert (sentences.file_format, sentences.num_skipped) == ("jsonl", 1)
    assert sentences.lines == [[1] * 3, [3] * 2, [4] * 2]


def test_objects_without_tags(read_text, capsys):
    text = as_lines({"text": "Ada in Rome"}, {"words": ["rain"], "tags": None})
    sentences = read_text(text, tags_required=False)
    assert "a.txt: text is cut at whitespace; spans and exp" in capsys.readouterr().out
    assert sentences.words == [ADA[0], ["rain"]] and sentences.tags is None
    with pytest.raises(ValueError, match=r"a\.txt:1: has no tags"):
        read_text(text)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"words": ["a"], "tags": ["O", "O"]}], ":1: 2 tags for 1 words"),
        ([{"words": "a b", "tags": ["O"]}], ":1: words is 'a b'; write a list"),
        ([{"words": ["a", 1]}], ":1: words is .*write a list of strings"),
        ([{"words": ["a"], "tags": [1]}], ":1: tags has 1, and --labels names 0 tags"),
        ([{"words": ["a"], "tags": [True]}], ":1: tags is .*write a list of strings"),
        ([{"text": "ab", "label": [[0, 1, "X"]]}], ":1: X 'a', .* is a part of 'ab'"),
        ([{"text": ["a"], "tags": ["O"]}], ":1: 'text' is .* must be a string"),
        ([{"sentence": "a"}], ":1: has none of .'words', 'tokens', 'text'.; give"),
        ([{"words": ["a"], "tags": ["O"]}, {"words": ["b"]}], ": of lines 1 and 2 one"),
        ([{"text": "a \ude00"}], r":1: its text has '\\ude00', which is half"),
    ],
)
def test_bad_objects_are_refused(read_text, rows, message):
    with pytest.raises(ValueError, match=rf"a\.jsonl{message}"):
        read_text(as_lines(*rows), "a.jsonl", tags_required=False)


def test_formats_are_recognised(read_text):
    assert read_text("{ O\na O\n").words == [["{", "a"]]
    text = as_lines({"words": ["a"], "tags": ["O"]})
    assert read_text(text, file_format="conll", tags_required=False).num_words == 1
    with pytest.raises(ValueError, match="--file_format=csv is none of auto, conll"):
        read_text("a O\n", file_format="csv")


@pytest.mark.parametrize(
    ("path", "count", "num_words"),
    [("wnut17/emerging.dev.conll", 1009, 15733), ("snips/test", 700, 6354)],
)
def test_published_files(path, count, num_words, shared_file):
    sentences = read(shared_file(f"data/{path}"))
    assert (len(sentences), sentences.num_words) == (count, num_words)
    assert sentences.num_skipped == 0
    assert {tag[:2] for tags in sentences.tags for tag in tags} == {"O", "B-", "I-"}


def test_numbers_stand_for_the_names_of_labels(read_text, capsys):
    """As `datasets` writes conll2003."""
    row = {"id": "0", "tokens": ADA[0], "pos_tags": [22, 15, 22], "ner_tags": [1, 0, 2]}
    names = ("O", "B-per", "B-loc")
    assert pairs(read_text(as_lines(row), "a.jsonl", tag_names=names)) == [ADA]
    note = "a.jsonl: reads ['tokens', 'ner_tags'], not ['id', 'pos_tags']\n"
    assert capsys.readouterr().out.endswith(note)
    for wrong in (-1, 3):
        row["ner_tags"][2] = wrong
        with pytest.raises(ValueError, match=f":1: ner_tags has {wrong}, and --labels"):
            read_text(as_lines(row), "a.jsonl", tag_names=names)


def test_texts_with_spans_are_cut_into_words(read_text):
    rows = [
        {"id": 1, "text": "Ada in Rome.", "label": [[0, 3, "per"], [7, 11, "loc"]]},
        {"words": RAIN[0], "tags": RAIN[1]},
        {"text": "rain.", "label": []},
    ]
    sentences = read_text(as_lines(*rows), "a.jsonl")
    ada = ([*ADA[0], "."], [*ADA[1], "O"])
    assert pairs(sentences) == [ada, RAIN, RAIN]
    assert sentences.lines == [[1] * 4, [2] * 2, [3] * 2]
    # Tags go before spans: a row of --do_predict has spans of words.
    row = {"text": "rain .", "tags": ["O", "O"], "spans": [{"start": 9}]}
    assert pairs(read_text(as_lines(row), "a.jsonl")) == [RAIN]


GERMEVAL = (
    "#\thttp://a.de/b\t[2009-10-17]\n1\tAda\tB-per\tO\n2\tin\tO\tO\n3\tRome\tB-loc\tO\n"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GERMEVAL, "with 0 '1', 1 'Ada', 2 'B-per', 3 'O': set --word_column=1, and"),
        ("d/a 0 Ada B-per\nd/a 1 in O\n", "set --word_column=2, and --tag_column"),
        ("Ada,B-per\nin,O\n", r"a\.txt: is CSV; write a word, a tab and its tag"),
        ("word;tag\nAda;B-per\n", "is CSV; write a word"),
        ("Sentence #,Word,POS,Tag\n", "is CSV; .*--file_format=conll reads it"),
    ],
)
@pytest.mark.parametrize("tags_required", [True, False])
def test_columns_that_are_no_words_are_refused(read_text, text, message, tags_required):
    with pytest.raises(ValueError, match=message):
        read_text(text, tags_required=tags_required)


def test_flags_of_the_message_read_the_words(read_text, capsys):
    assert pairs(read_text(GERMEVAL, word_column=1, tag_column=2)) == [ADA]
    note = "a.txt: columns 0 '1', 1 'Ada', 2 'B-per', 3 'O'; words: 1, tags: 2\n"
    assert capsys.readouterr().out.endswith(note)


def test_numbers_may_be_words_and_commas_too(read_text):
    assert read_text("1990 O\n3,000 O\n").words == [["1990", "3,000"]]
    assert read_text("3,000\nb\n", tags_required=False).words == [["3,000", "b"]]


def test_csv_is_named_by_its_name(read_text):
    with pytest.raises(ValueError, match=r"a\.csv: is CSV; .* or JSONL"):
        read_text("Ada B-per\n", "a.csv")
    assert read_text("Ada B-per\n", "a.csv", file_format="conll").words == [["Ada"]]


@pytest.mark.parametrize("header", ["word\ttag", "Tokens\tNER_tags", "# c\nform\tpos"])
def test_header_is_no_row(read_text, capsys, header):
    sentences = read_text(f"{header}\nAda\tB-per\nin\tO\nRome\tB-loc\n")
    assert pairs(sentences) == [ADA]
    line = header.count("\n") + 1
    assert f"a.txt:{line}: is the header, " in capsys.readouterr().out
    assert sentences.header == line
    same_words = read_text("word\tNN\ntag\tNN\n")  # which may be words
    assert same_words.words == [["word", "tag"]] and not same_words.header


#       0123456789012345678901234567890123456
TEXT = "Ada  Löve-Lace's 東京, 𝔸 (Rome).\tEnd"


def words_and_tags(spans, text=TEXT, **more):
    row = {"text": text, "label": spans, **more}
    (words,) = files.cut([text])
    return words, files.tags_of_spans("a.jsonl:7", row, words)


def test_words_have_exact_places():
    texts = [TEXT, "", " ", *["x y"] * 2000]
    rows = list(files.cut(texts))
    assert len(rows) == 2003
    assert [word.text for word in rows[0]] == [
        *("Ada", "Löve", "-", "Lace", "'", "s", "東", "京", ",", "𝔸"),
        *("(", "Rome", ")", ".", "End"),
    ]
    for text, words in zip(texts, rows, strict=True):
        assert all(text[start:end] == word for word, start, end in words)
    assert rows[1] == rows[2] == [] and [w.text for w in rows[-1]] == ["x", "y"]


def test_spans_of_all_forms_are_tags():
    """[start, end, label] (doccano, spaCy), objects (Prodigy, doccano's relations)."""
    triples = [[0, 14, "PER"], [17, 19, "LOC"], [24, 28, "LOC"]]
    words, tags = words_and_tags(triples)
    tagged = {w.text: tag for w, tag in zip(words, tags, strict=True) if tag != "O"}
    assert tagged == {
        **{"Ada": "B-PER", "Löve": "I-PER", "-": "I-PER", "Lace": "I-PER"},
        **{"東": "B-LOC", "京": "I-LOC", "Rome": "B-LOC"},
    }
    prodigy = [
        {"start": s, "end": e, "label": n, "token_start": 0} for s, e, n in triples
    ]
    doccano = [
        {"id": 1, "start_offset": s, "end_offset": e, "label": n} for s, e, n in triples
    ]
    assert words_and_tags(prodigy)[1] == words_and_tags(doccano)[1] == tags
    # Whitespace at the ends of a span does not count; neighbours stay apart.
    assert words_and_tags([[0, 5, "A"], [5, 9, "A"]])[1][:3] == ["B-A", "B-A", "O"]
    assert set(words_and_tags([])[1]) == {"O"}


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([[1, 3, "PER"]], "PER 'da', characters 1 to 3, is a part of 'Ada' and not"),
        ([[0, 7, "PER"]], "is a part of 'Ada Löve' and not whole words; correct"),
        ([[3, 5, "PER"]], "PER '  ', characters 3 to 5, is a part of '' and not whole"),
        ([[0, 9, "A"], [5, 14, "B"]], "B .*5 to 14, overlaps another span"),
        (
            [[0, 99, "A"]],
            r"label has \[0, 99, 'A'\], and the text 34 characters; write",
        ),
        ([[3, 3, "A"]], "end one past the last"),
        ([[0, 3]], r"label has \[0, 3\], and .*; write \[start, end, label\]"),
        ([["0", 3, "A"]], r"write \[start, end, label\]"),
        ([[0, 3, ""]], r"write \[start, end, label\]"),
        ([{"start": 0, "end": 3}], "an object with start, end, label"),
    ],
)
def test_wrong_spans_are_refused_by_line(spans, message):
    with pytest.raises(ValueError, match=message) as error:
        words_and_tags(spans)
    assert str(error.value).startswith("a.jsonl:7: ")


def test_rows_with_spans_that_prodigy_discards_are_left_out(tmp_path, capsys):
    rows = [
        {"text": f"Ada {n}", "spans": [[0, 3, "A"]], "answer": answer}
        for n, answer in enumerate(["accept", "reject", "ignore", "accept"])
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sentences = shown(files.read(str(path), files.Layout(), tags_required=True))
    assert sentences.words == [["Ada", "0"], ["Ada", "3"]]
    assert sentences.tags == [["B-A", "O"]] * 2
    assert (
        "left out 2 rows that a tool of annotation discards" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"text": "a", "label": []}, "label"),
        ({"text": "a", "label": "positive", "entities": [[0, 1, "X"]]}, "entities"),
        ({"text": "a", "labels": ["sports"]}, ""),
        ({"tokens": ["a"], "spans": []}, ""),
        ({"text": "a", "meta": {}}, ""),
    ],
)
def test_key_of_spans_is_that_of_a_list_of_spans(row, key):
    assert files.spans_key(row) == key
