"""What a comparison makes of its corpus."""

import gzip

import pytest

from contract import atomic_files
from experiments import preparation


@pytest.fixture
def corpus(tmp_path):
    """70 lines in two files, and what is held out."""
    (tmp_path / "one.txt").write_text(
        "".join(f"A line of one, {number}.\n" for number in range(40)) + "\n", "utf-8"
    )
    with gzip.open(tmp_path / "two.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(f"Zwei, Zeile {number}.\r" for number in range(30)))
    (tmp_path / "held.txt").write_text("Held out.\n")
    return preparation.Corpus(
        str(tmp_path / "corpus"),
        f"{tmp_path}/*.txt,{tmp_path}/*.gz",
        f"{tmp_path}/held.txt",
        vocab_size=100,
        max_seq_length=16,
    )


def test_lines_are_dealt_over_files_each_of_which_has_some_of_every_text(
    corpus, tmp_path
):
    corpus.deal()
    assert corpus.path("texts", "train") == f"{tmp_path}/corpus/texts/*.txt"
    assert corpus.path("texts", "held_out") == f"{tmp_path}/held.txt"
    files = sorted((tmp_path / "corpus" / "texts").iterdir())
    dealt = [file.read_text("utf-8").splitlines() for file in files]
    assert [len(lines) for lines in dealt] == [3] * 6 + [2] * 26
    assert dealt[0] == ["A line of one, 0.", "A line of one, 32.", "Zwei, Zeile 24."]
    everything = [line for lines in dealt for line in lines]
    assert len(set(everything)) == 70 and "Zwei, Zeile 29." in everything
    assert "Held out." not in everything and "" not in everything


def test_what_is_dealt_stays_and_what_was_cut_off_is_dealt_anew(corpus, tmp_path):
    partial = tmp_path / "corpus" / f"texts{atomic_files.SUFFIX}"
    partial.mkdir(parents=True)
    (partial / "99.txt").write_text("left by a killed one\n")
    corpus.deal()
    texts = tmp_path / "corpus" / "texts"
    assert len(list(texts.iterdir())) == 32 and not partial.exists()
    (texts / "00.txt").write_text("kept\n")
    corpus.deal()
    assert (texts / "00.txt").read_text() == "kept\n"


def test_held_out_text_is_never_trained_on(corpus, tmp_path):
    names = [path.rpartition("/")[2] for path in corpus.texts["train"]]
    assert names == ["one.txt", "two.txt.gz"]
    with pytest.raises(ValueError, match="are all among --held_out_files"):
        preparation.Corpus(
            str(tmp_path / "corpus"),
            f"{tmp_path}/held.txt",
            f"{tmp_path}/*.txt",
            vocab_size=100,
            max_seq_length=16,
        )
