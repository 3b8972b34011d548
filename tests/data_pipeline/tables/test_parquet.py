"""Parquet: names of classes, as the library `datasets` writes them, and memory."""

import json
import tracemalloc

import pytest

from data_pipeline.embedding import corpora
from data_pipeline.tables import labelled, memory_rows, text_rows
from data_pipeline.tagging import files
from tests.refusals import refused

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

CLASS = {"names": ["neg", "pos"], "_type": "ClassLabel"}
OF_LISTS = {"names": ["O", "B-PER"], "_type": "ClassLabel"}
FORMS = {
    "sequence": {"feature": OF_LISTS, "length": -1, "_type": "Sequence"},
    "list": {"feature": OF_LISTS, "_type": "List"},
    "old": [OF_LISTS],
}


def table_of(features, **columns):
    info = json.dumps({"info": {"features": features}})
    table = pyarrow.table(columns)
    return table.replace_schema_metadata({"huggingface": info})


@pytest.fixture
def path(tmp_path):
    def write(table):
        parquet.write_table(table, tmp_path / "t.parquet")
        return str(tmp_path / "t.parquet")

    return write


def of_table(path):
    return labelled.read_table(path, labelled.Layout(), labels_required=True).labels


def of_embedding(path):
    return corpora.open_rows(path, labelled.Layout()).read().labels


def of_memory(path):
    rows = parquet.read_table(path)
    return (
        labelled.open_memory("t", rows, labelled.Layout(), labels_required=True)
        .read()
        .labels
    )


def of_fit(path):
    text = memory_rows.lines("rows", memory_rows.opened(path), {})
    return [row["label"] or "null" for row in map(json.loads, text.splitlines())]


DOORS = [of_table, of_embedding, of_memory, of_fit]


@pytest.mark.parametrize("read", DOORS)
def test_classes_have_the_names_of_the_file(path, read):
    features = {"text": {"dtype": "string", "_type": "Value"}, "label": CLASS}
    values = {"text": ["a", "b", "c", "d"], "label": [1, 0, -1, None]}
    assert read(path(table_of(features, **values))) == ["pos", "neg", "null", "null"]
    values["label"] = [1, 0, 2, 0]
    with refused(":3: class 2, and the file names 2; correct either"):
        read(path(table_of(features, **values)))
    values["label"] = ["1", "0", "2", "0"]  # as names already
    assert read(path(table_of(features, **values))) == ["1", "0", "2", "0"]


@pytest.mark.parametrize("form", FORMS)
def test_tags_have_the_names_of_the_file(path, tmp_path, form):
    columns = {"tokens": [["Ann", "ran"]], "ner_tags": [[1, 0]]}
    rows = memory_rows.opened(path(table_of({"ner_tags": FORMS[form]}, **columns)))
    (tmp_path / "t.jsonl").write_text(memory_rows.lines("rows", rows, {}))
    read = files.read(str(tmp_path / "t.jsonl"), files.Layout(), tags_required=True)
    assert read.tags == [["B-PER", "O"]]


STRUCT = '{"info": {"features": {"label": {"names": ["a", "b"], "x": {}}}}}'


@pytest.mark.parametrize(
    "metadata", ["[]", "{", '{"info": {"features": {"label": 3}}}', STRUCT]
)
def test_other_metadata_changes_nothing(path, metadata):
    table = pyarrow.table({"text": ["a", "b"], "label": [1, 0]})
    for key in ("huggingface", "pandas"):
        changed = table.replace_schema_metadata({key: metadata})
        assert of_table(path(changed)) == ["1", "0"]


def test_equal_long_texts_are_in_memory_once(path):
    text, count = "x" * 50_000, 2_000  # 100 MB, of which the file has 1/2000
    table = pyarrow.table({"text": [text] * count, "label": ["a", "b"] * (count // 2)})
    file = path(table)
    before = pyarrow.total_allocated_bytes()
    rows = iter(text_rows.file_rows(file, "parquet"))
    first = next(rows)[1]
    assert pyarrow.total_allocated_bytes() - before < 30e6
    tracemalloc.start()
    try:
        read = [first, *(row for _, row in rows)]
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()
    assert [row["label"] for row in read] == ["a", "b"] * (count // 2)
    assert all(row["text"] == text for row in read)


@pytest.mark.parametrize(
    "names", [["text", "label", "label"], ["text", "text", "label"]]
)
def test_columns_of_one_name_are_refused(path, names):
    def table(names):
        return pyarrow.table([pyarrow.array([cell]) for cell in "abc"], names=names)

    (twice,) = {name for name in names if names.count(name) > 1}
    wanted = f": 2 columns are called {twice!r}; rename or remove all but one"
    with refused(f"t.parquet{wanted}"):
        of_table(path(table(names)))
    with refused(f"rows{wanted}"):
        [*memory_rows.named("rows", table(names), {})]
    with refused(f"t.parquet{wanted}"):
        memory_rows.opened(path(table(names)))
    assert len([*memory_rows.named("rows", table(["text", "label", "id"]), {})]) == 1
