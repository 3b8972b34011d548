import pytest

from contract import features
from data_pipeline import findings
from data_pipeline.seq2seq import pairs
from data_pipeline.seq2seq import split as pair_rows
from data_pipeline.text import wordpiece

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
VOCAB = [*SPECIAL, "one", "two", "##ty", "six", "1", "2", "##0", "##6", "-", "##one"]
CLS, SEP = 2, 3


@pytest.fixture(scope="session")
def tokenizer():
    return wordpiece.BertTokenizer(VOCAB)


@pytest.fixture
def load(tmp_path, tokenizer):
    def load_files(texts, lengths=(16, 8), tokens=None, **layout):
        paths = {}
        has_header = all(text.startswith("source\t") for text in texts.values())
        for split, text in texts.items():
            paths[split] = str(tmp_path / f"{split}.tsv")
            (tmp_path / f"{split}.tsv").write_text(text, encoding="utf-8")
        form = pairs.Layout(has_header=has_header, **layout)
        how = (
            tokenizer,
            tokens or features.DecoderTokens.from_tokenizer(tokenizer),
            pair_rows.Limits(*lengths),
            findings.show,
        )
        splits = {}
        for split, path in paths.items():
            rows = pairs.open_rows(path, form, targets_required=split != "test")
            splits[split] = pair_rows.load(split, rows, *how)
        return splits

    return load_files
