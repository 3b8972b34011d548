"""run_seq2seq.py from end to end, on a tiny model and texts made for it."""

import json
import operator

import numpy as np
import pytest
import tensorflow as tf

import bert_reborn as bert
from cli import library
from contract import errors
from modeling.generation import beam_search
from tests import no_texts, tiny
from tests.serving import exported_ops

# What is written for a text follows from the one word in it that says something.
TARGETS = {"bad": "awful", "fine": "okay really", "good": "great very great"}
LENGTHS = ("--max_source_length=16", "--max_target_length=6")
# Enough to learn which word it is, in some seconds.
LEARN = (
    "--learning_rate=3e-3 --num_train_epochs=20 --train_batch_size=16",
    "--save_checkpoints_steps=80",
)


def pairs(count, start=0):
    return [(text, TARGETS[label]) for text, label in tiny.rows(count, start)]


def lines(path):
    return path.read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs")
    bert = tiny.write_model(path / "bert", num_hidden_layers=1, hidden_act="relu")
    config = tiny.encoder_decoder(json.loads((bert / "bert_config.json").read_text()))
    (path / "config.json").write_text(json.dumps(config))
    (path / "vocab.txt").write_text((bert / "vocab.txt").read_text())
    start = 0
    for split, count in (("train", 160), ("dev", 20), ("test", 10)):
        rows = pairs(count, start)
        tiny.write_tsv(path / f"{split}.tsv", ("source", "target"), rows)
        start += count
    return path


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    done = tiny.succeed(
        *("run_seq2seq", *LENGTHS),
        f"--bert_config_file={files}/config.json --vocab_file={files}/vocab.txt",
        *(f"--{split}_file={files}/{split}.tsv" for split in ("train", "dev", "test")),
        *("--do_train", "--do_eval", "--do_predict", *LEARN),
        f"--output_dir={path}",
    )
    return path, done


def test_whole_run_learns_and_leaves_its_files(trained, files):
    path, done = trained
    results = tiny.eval_results(path)
    assert results["eval_exact_match"] > 0.9 and results["global_step"] == 200
    assert results["eval_loss"] < 0.2 and results["eval_chrf"] > 90
    assert {"config.json", "test_predictions.txt", "vocab.txt"} < {
        name for name in tiny.listing(path) if "/" not in name
    }
    rows = tiny.predictions(path)
    wanted = [tuple(line.split("\t")) for line in lines(files / "test.tsv")[1:]]
    assert [(row["source"], row["target"]) for row in rows] == wanted
    texts = lines(path / "test_predictions.txt")
    assert texts == [row["prediction"] for row in rows]
    stated = json.loads((path / "generation_config.json").read_text("utf-8"))
    assert (stated["max_new_tokens"], stated["early_stopping"]) == (6, "never")
    right = sum(row["exact_match"] for row in rows)
    assert right >= 8 and f"  test_exact_match = {right / 10:.4f}\n" in done.out


def test_scores_without_their_packages_are_refused_early(files, tmp_path, monkeypatch):
    bare = tmp_path / "bare.tsv"
    bare.write_text("source\n" + "".join(f"{text}\n" for text, _ in pairs(4)))
    names = []
    monkeypatch.setattr(errors.importlib.util, "find_spec", names.append)
    remedy = "dev.tsv: .*pip install rouge-score sacrebleu$"
    evaluated = ["--do_eval", f"--dev_file={files}/dev.tsv"]
    places = [f"--bert_config_file={files}/config.json", f"--output_dir={tmp_path}"]
    early = tiny.settings_of("run_seq2seq", *evaluated, *places)
    with pytest.raises(ValueError, match=remedy):
        early.check()  # before TensorFlow is imported
    written = ["--do_predict", f"--test_file={bare}"]
    tiny.settings_of("run_seq2seq", *written, *places).check()  # nothing to score
    assert names == ["rouge_score", "sacrebleu"]
    model = f"--bert_config_file={files}/config.json --vocab_file={files}/vocab.txt"
    run = [model, *evaluated, *LENGTHS, f"--output_dir={tmp_path}"]
    assert "pip install rouge-score" in tiny.refuse("run_seq2seq", *run)


@pytest.mark.slow
def test_python_writes_what_the_script_does(trained, monkeypatch):
    monkeypatch.setattr(library, "_BATCH_SIZE", 4)  # so that there are several
    traced, search = [], beam_search.search
    monkeypatch.setattr(
        *(beam_search, "search"), lambda *a: traced.append(a) or search(*a)
    )
    path, _ = trained
    rows = tiny.predictions(path)
    loaded = bert.load(path, max_seq_length=16)
    sources = [row["source"] for row in rows]
    wanted = [row["prediction"] for row in rows]
    assert loaded.write(sources, max_target_length=6) == wanted
    assert loaded.write(sources[0], max_target_length=6) == wanted[:1]
    assert len(traced) == 1  # whatever the number and length of texts
    beams = loaded.write(sources, max_target_length=6, num_beams=2)
    assert sum(map(operator.eq, beams, wanted)) >= 8
    assert loaded.write(sources[:1], max_target_length=1) == [wanted[0].split()[0]]
    assert loaded.write([]) == []
    no_texts.refused("texts", loaded.write)
    with pytest.raises(ValueError, match=r"=49: give 1 to 48"):
        loaded.write(sources, max_target_length=49)
    with pytest.raises(ValueError, match=r"num_beams is 0; give 1 or more"):
        loaded.write(sources, num_beams=0)
    with pytest.raises(ValueError, match='load an encoder-decoder with head="none"'):
        loaded.attention(sources[0])
    with pytest.raises(ValueError, match=r"describes an encoder-decoder; .*=none wr"):
        bert.load(path, max_seq_length=16, labels=["a", "b"])


@pytest.mark.slow
def test_generation_config_has_the_defaults_and_flags_win(trained, files, tmp_path):
    path, _ = trained
    bert.load(path).save(tmp_path / "there", file_format="hugging_face")
    beside = tmp_path / "there" / "generation_config.json"
    raw = json.loads(beside.read_text("utf-8"))
    assert (raw["max_new_tokens"], "early_stopping" in raw) == (6, False)
    stated = {"num_beams": 3, "min_length": 5, "no_repeat_ngram_size": 1}
    beside.write_text(json.dumps({**raw, **stated}), "utf-8")

    def predictions(source, name, *flags):
        done = tiny.succeed(
            *("run_seq2seq", f"--pretrained={source}", "--do_predict"),
            *("--max_source_length=16", f"--test_file={files}/test.tsv", *flags),
            f"--output_dir={tmp_path / name}",
        )
        return lines(tmp_path / name / "test_predictions.txt"), done.out

    taken, out = predictions(tmp_path / "there", "taken")
    assert "num_beams: 3, as the directory of the model has it\n" in out
    assert "early_stopping: false, as the directory of" in out
    flags = "--num_beams=3 --min_target_length=5 --no_repeat_ngram_size=1"
    flagged, _ = predictions(path, "flagged", f"{flags} --early_stopping=false")
    plain, _ = predictions(path, "plain")
    won, _ = predictions(
        tmp_path / "there",
        "won",
        "--num_beams=1 --min_target_length=0 --no_repeat_ngram_size=0",
    )
    assert taken == flagged != plain == won
    assert all(len(set(text.split())) >= 4 for text in taken)
    loaded = bert.load(tmp_path / "there", max_seq_length=16)
    sources = [row["source"] for row in tiny.predictions(path)]
    assert loaded.write(sources) == taken
    no_rules = {"num_beams": 1, "min_target_length": 0, "no_repeat_ngram_size": 0}
    assert loaded.write(sources, **no_rules) == plain
    with pytest.raises(ValueError, match="early_stopping is 'soon'; give true, false"):
        loaded.write(sources, early_stopping="soon")
    with pytest.raises(ValueError, match="has the key 'beams'; its keys are num_beams"):
        loaded.write(sources, beams=2)


def test_python_opens_the_encoder_alone(trained):
    path, _ = trained
    both = bert.load(path, max_seq_length=16)
    encoder = bert.load(path, head="none", max_seq_length=16)
    assert "(encoder): 21 of 23 variables assigned; newly init" in encoder.source
    features = encoder.encode(["the film was great", "awful"])
    network = both.model.network.encoder
    names = "input_ids", "input_mask", "segment_ids"
    wanted = network(*(features[name] for name in names))["sequence_output"]
    actual = encoder.model(features)["sequence_output"]
    np.testing.assert_array_equal(actual, wanted)
    with pytest.raises(ValueError, match="write: BERT is no encoder-decoder"):
        encoder.write(["the film"])


@pytest.mark.slow
def test_export_writes_what_the_script_does(trained, files):
    path, _ = trained
    model = f"--bert_config_file={files}/config.json --vocab_file={files}/vocab.txt"
    run = [model, "--do_export", *LENGTHS, f"--output_dir={path}"]
    tiny.succeed("run_seq2seq", *run)
    rows = tiny.predictions(path)
    served = tf.saved_model.load(str(path / "export" / "1")).signatures["write"]
    actual = served(text=tf.constant([row["source"] for row in rows]))
    texts = [text.decode() for text in actual["written"].numpy()]
    assert texts == [row["prediction"] for row in rows]
    counts = [len(text.split()) for text in texts]
    assert actual["num_tokens"].numpy().tolist() == counts
    used, compiled = exported_ops.operations(path / "export" / "1")
    assert used <= exported_ops.ALLOWED | exported_ops.OF_TENSORFLOW_TEXT
    assert compiled == []
