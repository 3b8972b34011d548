"""Tests of modeling/checkpoints/pretrained.py."""

import json
import sys
import types

import numpy as np
import pytest

from data_pipeline.text import wordpiece
from modeling import models
from modeling.checkpoints import google, pretrained
from modeling.configs import config

SPECIAL = ["[UNK]", "[CLS]", "[SEP]"]


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def google_release(folder):
    write(folder / "bert_config.json", '{"vocab_size": 4}')
    write(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    google.write(folder / "bert_model.ckpt", {"w": np.zeros(2, np.float32)})
    return folder


def hugging_face_model(folder):
    write(folder / "config.json", '{"vocab_size": 4, "model_type": "bert"}')
    write(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    write(folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("name", "lowers"),
    [
        ("uncased_L-12_H-768_A-12", True),
        ("cased_L-12_H-768_A-12", False),
        ("multi_cased_L-12_H-768_A-12", False),
        ("chinese_L-12_H-768_A-12", None),
    ],
)
def test_google_release(tmp_path, name, lowers):
    folder = google_release(tmp_path / name)
    assert pretrained.locate(folder) == pretrained.Pretrained(
        config_file=f"{folder}/bert_config.json",
        vocab_file=f"{folder}/vocab.txt",
        checkpoint=f"{folder}/bert_model.ckpt",
        do_lower_case=lowers,
    )
    assert pretrained.locate(f"{folder}/").do_lower_case is lowers


@pytest.mark.parametrize("lowers", [True, False])
def test_hugging_face_directory_says_whether_it_lowers(tmp_path, lowers):
    folder = hugging_face_model(tmp_path / "bert-base-uncased")
    # What the directory says counts, not what it is called.
    write(folder / "tokenizer_config.json", json.dumps({"do_lower_case": lowers}))
    assert pretrained.locate(folder) == pretrained.Pretrained(
        f"{folder}/config.json", f"{folder}/vocab.txt", str(folder), lowers
    )


def test_silent_tokenizer_config_leaves_it_open(tmp_path):
    folder = hugging_face_model(tmp_path / "model")
    assert pretrained.locate(folder).do_lower_case is None
    write(folder / "tokenizer_config.json", '{"model_max_length": 512}')
    assert pretrained.locate(folder).do_lower_case is None


def test_tokenizer_json_says_whether_it_lowers(tmp_path):
    folder = hugging_face_model(tmp_path / "bert-base-uncased")
    for normalizer, lowers in (({"lowercase": False}, False), (None, True)):
        write(folder / "tokenizer.json", json.dumps({"normalizer": normalizer}))
        assert pretrained.locate(folder).do_lower_case is lowers
    write(folder / "tokenizer_config.json", '{"do_lower_case": false}')
    write(folder / "tokenizer.json", '{"normalizer": {"lowercase": true}}')
    assert pretrained.locate(folder).do_lower_case is False
    write(folder / "tokenizer_config.json", "{}")
    assert pretrained.locate(folder).do_lower_case is True
    (folder / "vocab.txt").unlink()
    assert pretrained.locate(folder).vocab_file == f"{folder}/tokenizer.json"
    write(folder / "tokenizer.json", '{"normalizer": "odd"}')
    assert pretrained.locate(folder).do_lower_case is True  # by its name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read (Expecting property name"),
        ("[]", "the file holds no JSON object; copy it again"),
        ('{"do_lower_case": "true"}', "do_lower_case is 'true'; correct it to true or"),
        ('{"do_lower_case": 1}', "do_lower_case is 1; correct it to true or false"),
    ],
)
def test_damaged_tokenizer_config_is_named(tmp_path, text, message):
    folder = hugging_face_model(tmp_path / "model")
    write(folder / "tokenizer_config.json", text)
    with pytest.raises(ValueError) as caught:
        pretrained.locate(folder)
    said = str(caught.value)
    assert said.startswith(f"{folder}/tokenizer_config.json: {message}")
    write(folder / "tokenizer_config.json", '{"do_lower_case": null}')
    assert pretrained.locate(folder).do_lower_case is None


@pytest.mark.parametrize(
    ("settings", "is_warned"),
    [
        ({"do_lower_case": True, "strip_accents": False}, True),
        ({"do_lower_case": False, "strip_accents": True}, True),
        ({"do_lower_case": False, "strip_accents": False}, False),
        ({"do_lower_case": True, "strip_accents": None}, False),
        ({"do_lower_case": True}, False),
    ],
)
def test_accents_that_would_be_lost_are_warned_of(
    tmp_path, caplog, settings, is_warned
):
    folder = hugging_face_model(tmp_path / "model")
    write(folder / "tokenizer_config.json", json.dumps(settings))
    assert pretrained.locate(folder).do_lower_case is settings["do_lower_case"]
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == is_warned
    assert all("tokenizer_config.json: strip_accents is " in text for text in warned)


def test_config_of_a_hundred_thousand_brackets(tmp_path):
    write(tmp_path / "config.json", "[" * 100_000)
    with pytest.raises(
        ValueError, match=r"config\.json: its brackets are nested too deep"
    ):
        pretrained.read_config(f"{tmp_path}/config.json")


def test_added_tokens_are_written_beside_the_weights(tmp_path, tiny_config):
    vocab = [*SPECIAL, "a", "<X>", "b"]
    added = {"b": True, "<X>": False}
    tokenizer = wordpiece.BertTokenizer(vocab, True, added)
    texts = pretrained.files(tiny_config, tokenizer)
    assert texts["vocab.txt"] == "[UNK]\n[CLS]\n[SEP]\na\n<X>\nb\n"
    assert json.loads(texts["added_tokens.json"]) == {"<X>": 4, "b": 5}
    settings = json.loads(texts["tokenizer_config.json"])
    assert settings["do_lower_case"] is True
    told = settings["added_tokens_decoder"]
    assert {
        i: (t["content"], t["normalized"], t["special"]) for i, t in told.items()
    } == {
        "4": ("<X>", False, True),
        "5": ("b", True, False),
    }
    tokenizer = wordpiece.BertTokenizer(vocab)
    assert "added_tokens.json" not in pretrained.files(tiny_config, tokenizer)
    assert [*pretrained.files(tiny_config, None)] == ["bert_config.json"]


def test_config_is_read_from_a_file(tmp_path):
    write(tmp_path / "a.json", '{"vocab_size": 4}')
    assert pretrained.read_config(tmp_path / "a.json").vocab_size == 4
    with pytest.raises(FileNotFoundError, match="no such file; give the bert_config"):
        pretrained.read_config(tmp_path / "b.json")
    with pytest.raises(OSError, match=r"Is a directory\); give the file bert_c") as got:
        pretrained.read_config(tmp_path)
    assert str(got.value).startswith(f"{tmp_path}: cannot be read (")


def test_run_directory_gives_its_newest_checkpoint(tmp_path):
    folder = google_release(tmp_path)
    for name in ("model.ckpt-5", "model.ckpt-10"):
        google.write(folder / name, {"w": np.zeros(2, np.float32)})
    write(folder / "checkpoint", 'model_checkpoint_path: "model.ckpt-10"\n')
    assert pretrained.locate(folder).checkpoint == f"{folder}/model.ckpt-10"


def test_missing_files_are_named(tmp_path):
    folder = google_release(tmp_path / "a")
    (folder / "vocab.txt").unlink()
    with pytest.raises(ValueError, match=r"there is no vocab\.txt in it") as caught:
        pretrained.locate(folder)
    assert str(caught.value).startswith(f"--pretrained={folder}: ")
    with pytest.raises(ValueError, match=r"no vocab\.txt") as caught:
        pretrained.locate(folder, "directory")
    assert str(caught.value).startswith(f"directory={folder}: ")
    assert "--" not in str(caught.value)  # no flags, which Python has not
    folder = google_release(tmp_path / "b")
    (folder / "bert_config.json").unlink()
    with pytest.raises(ValueError, match=r"no bert_config\.json or config\.json in it"):
        pretrained.locate(folder)
    folder = google_release(tmp_path / "c")
    (folder / "bert_model.ckpt.index").unlink()
    with pytest.raises(ValueError, match="no checkpoint in this directory"):
        pretrained.locate(folder)


@pytest.mark.parametrize("spec", ["gone", "./a/b", "/a/b", "~/b", "a/b/c"])
def test_path_that_is_no_hub_id(monkeypatch, tmp_path, spec):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="no such directory; give the directory of a"):
        pretrained.locate(spec)


@pytest.fixture
def hub(monkeypatch):
    """Stands in for the package huggingface_hub, as far as it is used."""
    module = types.ModuleType("huggingface_hub")
    module.errors = types.SimpleNamespace(HfHubHTTPError=type("E", (OSError,), {}))
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_hub_id_is_downloaded(hub, tmp_path):
    folder = hugging_face_model(tmp_path / "snapshot")
    asked = []

    def snapshot_download(hub_id, allow_patterns):
        asked.append((hub_id, sorted(allow_patterns)))
        return str(folder)

    hub.snapshot_download = snapshot_download
    assert pretrained.locate("google-bert/bert-base-uncased").checkpoint == str(folder)
    files = """added_tokens.json bert_config.json config.json head.json merges.txt
        model-*-of-*.safetensors model.safetensors model.safetensors.index.json
        special_tokens_map.json tokenizer.json tokenizer_config.json vocab.json
        vocab.txt"""
    assert asked == [("google-bert/bert-base-uncased", files.split())]


def test_directory_need_not_be_complete_to_be_looked_into(tmp_path):
    found = pretrained.look_in(tmp_path)
    assert found == pretrained.Pretrained("", "", str(tmp_path), None)
    write(tmp_path / "config.json", "{}")
    assert pretrained.look_in(tmp_path).config_file == f"{tmp_path}/config.json"


def test_hub_that_refuses(hub):
    def snapshot_download(hub_id, allow_patterns):
        raise hub.errors.HfHubHTTPError("404 Client Error.\n\nRequest ID: 1")

    hub.snapshot_download = snapshot_download
    with pytest.raises(ValueError, match="hub does not give it") as caught:
        pretrained.locate("nobody/nothing")
    assert str(caught.value).startswith("--pretrained=nobody/nothing: ")
    assert str(caught.value).endswith("(404 Client Error.)")


def test_hub_id_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # import fails
    with pytest.raises(ValueError, match="pip install huggingface_hub"):
        pretrained.locate("google-bert/bert-base-uncased")


FILES = types.SimpleNamespace(vocab_file="a/vocab.txt", config_file="b/config.json")


@pytest.mark.parametrize("vocab_size", [873, 1000])
def test_sizes_that_fit(vocab_size):
    """Some releases round the table up; by less than 128 rows."""
    sizes = config.BertConfig(vocab_size=1000, max_position_embeddings=128)
    pretrained.check_sizes(sizes, vocab_size, FILES, max_seq_length=128)


@pytest.mark.parametrize("vocab_size", [872, 1001])
def test_vocabulary_of_another_model(vocab_size):
    sizes = config.BertConfig(vocab_size=1000)
    with pytest.raises(ValueError) as caught:
        pretrained.check_sizes(sizes, vocab_size, FILES, max_seq_length=128)
    assert str(caught.value) == (
        f"a/vocab.txt has {vocab_size} entries, but b/config.json says vocab_size=1000;"
        " they belong to different models: give the two files of one release"
    )


def test_length_without_positions():
    sizes = config.BertConfig(vocab_size=1000, max_position_embeddings=128)
    # run_classifier.py's words.
    with pytest.raises(ValueError, match="Cannot use sequence length 129 because the"):
        pretrained.check_sizes(sizes, 1000, FILES, max_seq_length=129)


@pytest.mark.parametrize("lowers", [True, False])
def test_files_of_a_run_are_found_again(tmp_path, tiny_config, lowers):
    tokenizer = wordpiece.BertTokenizer([*SPECIAL, "", "ä", "##é"], lowers)
    texts = pretrained.files(tiny_config, tokenizer)
    for name, text in texts.items():
        write(tmp_path / name, text)
    model = models.BertModel(tiny_config)
    model.build()
    google.save(tmp_path / "model.ckpt-3", model)
    found = pretrained.locate(tmp_path)
    assert found.do_lower_case is lowers
    assert config.BertConfig.from_json_file(found.config_file) == tiny_config
    assert (tmp_path / "vocab.txt").read_text(
        "utf-8"
    ) == "[UNK]\n[CLS]\n[SEP]\n\nä\n##é\n"
    assert found.checkpoint == str(tmp_path / "model.ckpt-3")


def test_run_on_a_hugging_face_model_keeps_its_activation(tmp_path):
    """bert_config.json of such a run must not be taken for Hugging Face's."""
    raw = {"vocab_size": 4, "model_type": "bert", "hidden_act": "gelu"}
    tokenizer = wordpiece.BertTokenizer([*SPECIAL, "a"])
    texts = pretrained.files(config.BertConfig.from_dict(raw), tokenizer)
    write(tmp_path / "bert_config.json", texts["bert_config.json"])
    again = config.BertConfig.from_json_file(tmp_path / "bert_config.json")
    assert again.hidden_act == "gelu_erf"
    assert again == config.BertConfig.from_dict(raw)
