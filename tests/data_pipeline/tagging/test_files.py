import json

import pytest

from data_pipeline.tagging import files

ADA = (["Ada", "in", "Rome"], ["B-per", "O", "B-loc"])
RAIN = (["rain", "."], ["O", "O"])


def read(path, *, tags_required=True, **layout):
    layout = files.Layout(**layout)
    return files.read(str(path), layout, tags_required=tags_required)


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
        ("a O\n", {"word_column": 2}, ":1: 2 columns; --word_column=2 is not there"),
        ("a O\n", {"tag_column": 3}, "there is no --tag_column=3"),
        ("a O\n\n#berlin b\n#b\n", {}, ":4: 1 columns, line 1 has 2"),
        ("a\tO\nb O\n", {}, ":2: 1 columns, line 1 has 2; give both as many"),
        (
            "Ada Lovelace came to Rome in the spring.\nIt rained.\n",
            {},
            ":2: 2 columns, line 1 has 8; this looks like plain text, which "
            "serving.predictor --input_format=lines tags",
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


def test_objects_without_tags(read_text):
    text = as_lines({"text": "Ada in Rome"}, {"words": ["rain"], "tags": None})
    sentences = read_text(text, tags_required=False)
    assert sentences.words == [ADA[0], ["rain"]] and sentences.tags is None
    with pytest.raises(ValueError, match=r"a\.txt:1: has no tags"):
        read_text(text)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"words": ["a"], "tags": ["O", "O"]}], ":1: 2 tags for 1 words"),
        ([{"words": "a b", "tags": ["O"]}], ":1: words is 'a b'; write a list"),
        ([{"words": ["a", 1]}], ":1: words is .*write a list of strings"),
        ([{"words": ["a"], "tags": [1]}], ":1: tags is .*write a list of strings"),
        ([{"text": ["a"], "tags": ["O"]}], ":1: text is .*; write one string"),
        ([{"sentence": "a"}], ":1: none of words, tokens, text; give it one"),
        (
            [{"words": ["a"], "tags": ["O"]}, {"words": ["b"]}],
            ": of lines 1 and 2 one has tags and one has none",
        ),
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
    with pytest.raises(ValueError, match="--file_format=csv is not one of auto, conll"):
        read_text("a O\n", file_format="csv")


@pytest.mark.parametrize(
    ("path", "count", "num_words"),
    [
        ("wnut17/emerging.dev.conll", 1009, 15733),
        ("snips/test", 700, 6354),
    ],
)
def test_published_files(path, count, num_words, shared_file):
    sentences = read(shared_file(f"data/{path}"))
    assert (len(sentences), sentences.num_words) == (count, num_words)
    assert sentences.num_skipped == 0
    assert {tag[:2] for tags in sentences.tags for tag in tags} == {"O", "B-", "I-"}
