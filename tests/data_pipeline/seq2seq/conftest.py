import pytest

from contract import features
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
        return pair_rows.load(
            paths,
            pairs.Layout(has_header=has_header, **layout),
            tokenizer,
            tokens or features.DecoderTokens.from_tokenizer(tokenizer),
            pair_rows.Limits(*lengths),
        )

    return load_files
