"""model_directory.py: the files of a model, by the directory that holds them."""

import builtins
import collections
import json
import os
import sys
import types

import numpy as np
import pytest

import bert_reborn as bert
from loading import model_directory
from modeling.checkpoints import google, places, sentence_transformers
from modeling.configs import config, config_limits
from modeling.networks import roberta
from tests import tiny

WEIGHTS = {"w": np.zeros(2, np.float32)}


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")


def google_release(folder):
    write(folder / "bert_config.json", {"vocab_size": 4})
    write(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    google.write(folder / "bert_model.ckpt", WEIGHTS)
    return folder


def hugging_face_model(folder):
    write(folder / "config.json", {"vocab_size": 4, "model_type": "bert"})
    write(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    write(folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("name", "lowers"),
    [
        ("uncased_L-12_H-768_A-12", True),
        ("multi_cased_L-12_H-768_A-12", False),
        ("chinese_L-12_H-768_A-12", None),
    ],
)
def test_google_release(tmp_path, name, lowers):
    folder = google_release(tmp_path / name)
    assert model_directory.locate(f"{folder}/") == model_directory.ModelFiles(
        config_file=f"{folder}/bert_config.json",
        vocab_file=f"{folder}/vocab.txt",
        init_checkpoint=f"{folder}/bert_model.ckpt",
        do_lower_case=lowers,
    )


@pytest.mark.parametrize(
    ("config_text", "tokenizer_text", "lowers"),
    [
        (None, None, True),  # by its name
        ({"do_lower_case": True}, None, True),
        ({"do_lower_case": False}, None, False),
        ({"do_lower_case": None}, None, True),
        (None, {"normalizer": {"lowercase": False}}, False),
        (None, {"normalizer": "odd"}, True),
        ({"do_lower_case": False}, {"normalizer": {"lowercase": True}}, False),
        ({}, {"normalizer": {"lowercase": False}}, False),
    ],
)
def test_case_of_a_hugging_face_directory(
    tmp_path, config_text, tokenizer_text, lowers
):
    folder = hugging_face_model(tmp_path / "bert-base-uncased")
    if config_text is not None:
        write(folder / "tokenizer_config.json", config_text)
    if tokenizer_text is not None:
        write(folder / "tokenizer.json", tokenizer_text)
    assert model_directory.locate(folder) == model_directory.ModelFiles(
        f"{folder}/config.json", f"{folder}/vocab.txt", str(folder), lowers
    )
    (folder / "vocab.txt").unlink()
    if tokenizer_text is not None:
        assert model_directory.locate(folder).vocab_file == f"{folder}/tokenizer.json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read (Expecting property name"),
        ("[]", "the file holds no JSON object; copy it again"),
        ('{"do_lower_case": "true"}', "do_lower_case='true'; give true or"),
        ('{"do_lower_case": 1}', "do_lower_case=1; give true or false"),
    ],
)
def test_damaged_tokenizer_config_is_named(tmp_path, text, message):
    folder = hugging_face_model(tmp_path / "model")
    assert model_directory.locate(folder).do_lower_case is None
    write(folder / "tokenizer_config.json", text)
    with pytest.raises(ValueError) as caught:
        model_directory.locate(folder)
    assert str(caught.value).startswith(f"{folder}/tokenizer_config.json: {message}")


def test_path_that_is_no_hub_id(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for spec in ("gone", "./a/b", "~/b", "a/b/c"):
        with pytest.raises(ValueError, match="no such directory; give the direct"):
            model_directory.locate(spec)


@pytest.fixture
def hub(monkeypatch):
    module = types.ModuleType("huggingface_hub")
    module.errors = types.SimpleNamespace(HfHubHTTPError=type("E", (OSError,), {}))
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_hub_id_is_downloaded(hub, tmp_path, monkeypatch):
    folder = hugging_face_model(tmp_path / "snapshot")
    calls = []

    def snapshot_download(hub_id, allow_patterns):
        calls.append((hub_id, sorted(allow_patterns)))
        if "tf_model.h5" in allow_patterns:
            write(folder / "tf_model.h5")
        return str(folder)

    hub.snapshot_download = snapshot_download
    assert model_directory.locate(
        "google-bert/bert-base-uncased"
    ).init_checkpoint == str(folder)
    modules = sentence_transformers.WRITTEN[:3]
    files = """adapter_config.json adapter_model.safetensors added_tokens.json
        bert_config.json config.json generation_config.json head.json merges.txt
        model-*-of-*.safetensors model.safetensors model.safetensors.index.json
        sentencepiece.bpe.model special_tokens_map.json spiece.model spm.model
        tokenizer.json tokenizer_config.json vocab.json vocab.txt"""
    files = [*files.split(), *modules]  # a Transformer's folder has settings, too
    wanted = sorted([*files, *(f"[0-9]_*/{file}" for file in files)])
    assert calls == [("google-bert/bert-base-uncased", wanted)]
    (folder / "model.safetensors").unlink()  # TensorFlow's file alone is large, too
    checkpoint = model_directory.locate("google-bert/bert-base-uncased").init_checkpoint
    assert checkpoint == str(folder / "tf_model.h5")
    more = ["tf_model-*-of-*.h5", "tf_model.h5", "tf_model.h5.index.json"]
    assert [patterns for _, patterns in calls[1:]] == [wanted, more]

    def refuse(hub_id, allow_patterns):
        raise hub.errors.HfHubHTTPError("404 Client Error.\n\nRequest ID: 1")

    hub.snapshot_download = refuse
    message = r"^--pretrained=a/b: .*hub does not give it \(404 Client Error\.\)$"
    with pytest.raises(ValueError, match=message):
        model_directory.locate("a/b")
    for spec, owner in (
        *(("bert-base-uncased", "google-bert"), ("bert-base-chinese", "google-bert")),
        ("bert-large-cased-whole-word-masking", "google-bert"),
        *(("gpt2-medium", "openai-community"), ("openai-gpt", "openai-community")),
        *(("roberta-base", "FacebookAI"), ("xlm-roberta-large", "FacebookAI")),
        *(("distilroberta-base", "distilbert"), ("albert-base-v2", "albert")),
    ):
        with pytest.raises(ValueError, match=f"^--pretrained={owner}/{spec}: no such"):
            model_directory.locate(spec)
    for spec in ("bert-base-mine", "gpt2-huge", "./gpt2", "distilbert"):
        with pytest.raises(ValueError, match=r"on Hugging Face's hub \(owner/name\)$"):
            model_directory.locate(spec)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # import fails
    with pytest.raises(ValueError, match="pip install huggingface_hub"):
        model_directory.locate("google-bert/bert-base-uncased")


def test_each_file_is_read_once(tmp_path, monkeypatch):
    """Of a trained classifier and of a network for vectors, but for the modules."""
    tiny.write_model(tmp_path / "network", num_hidden_layers=1)
    model = bert.load(tmp_path / "network", labels=["a", "b"])
    model.save(tmp_path / "run", "hugging_face")
    flags = {"max_seq_length": 24, "multi_label_threshold": 0.25}
    write(tmp_path / "run" / "run.json", {"flags": flags, "identity": {"num_texts": 1}})
    opens, opened = builtins.open, collections.Counter()

    def counted(file, *arguments, **options):
        opened[os.path.basename(f"{file}")] += 1
        return opens(file, *arguments, **options)

    monkeypatch.setattr(builtins, "open", counted)
    made = bert.load(tmp_path / "run")
    names = "config.json label_map.json run.json tokenizer_config.json vocab.txt"
    assert {name: opened[name] for name in names.split()} == dict.fromkeys(
        names.split(), 1
    )
    assert (made.max_seq_length, made.threshold, made.num_texts) == (24, 0.25, 1)
    assert made.classes.names == ("a", "b")
    bert.load(tmp_path / "run")  # nothing is kept for the next time
    assert opened["label_map.json"] == opened["run.json"] == 2


FILES = model_directory.ModelFiles("b/config.json", "a/vocab.txt")


def test_vocabulary_and_length_have_to_fit():
    """Some releases round the table up; by less than 128 rows."""
    sizes = config.BertConfig(vocab_size=1000, max_position_embeddings=128)
    for vocab_size in (873, 1000):
        config_limits.check_sizes(sizes, vocab_size, FILES, max_seq_length=128)
    message = "Cannot use sequence length 129 because the"  # run_classifier.py's
    with pytest.raises(ValueError, match=message):
        config_limits.check_sizes(sizes, 1000, FILES, max_seq_length=129)
    longer = roberta.RobertaConfig.from_dict(
        {"model_type": "roberta", "vocab_size": 1000, "max_position_embeddings": 514}
    )
    config_limits.check_sizes(longer, 1000, FILES, max_seq_length=512)
    message = (
        r"length 513 because the RoBERTa model .* length 512 \(b/config\.json\); lower"
    )
    with pytest.raises(ValueError, match=message):
        config_limits.check_sizes(longer, 1000, FILES, max_seq_length=513)
    message = (
        "a/vocab.txt has 1001 entries, added ones included, but "
        "b/config.json has vocab_size=1000; give the two files of"
    )
    with pytest.raises(ValueError, match=message):
        config_limits.check_sizes(sizes, 1001, FILES, 128)


@pytest.mark.parametrize("rows", [872, 873, 1000])
def test_room_for_new_words_is_warned_of(tmp_path, caplog, rows):
    """dbmdz's Italian BERT has 1,000 rows more than tokens."""
    sizes = config.BertConfig(vocab_size=1000)
    table = np.zeros([rows, 768], np.float32)
    google.write(tmp_path / "a.ckpt", {"bert/embeddings/word_embeddings": table})
    weights = str(tmp_path / "a.ckpt")
    file = places.open_file(weights)
    config_limits.check_sizes(sizes, 873, FILES, 128)
    assert not caplog.records
    if rows == 1000:
        config_limits.check_sizes(sizes, 872, FILES, 128, file)
        (record,) = caplog.records
        assert "872 entries" in record.getMessage()
        assert "the 128 last rows are of no token" in record.getMessage()
    for held, tokens in ((None, 872), (file, 1001), *[(file, 872)] * (rows < 1000)):
        with pytest.raises(ValueError, match=f"{tokens} entries.* the two files of"):
            config_limits.check_sizes(sizes, tokens, FILES, 128, held)


def foreign(folder, kind):
    """A directory in the form of another library, or of a part of a release."""
    folder.mkdir()
    config = {"model_type": "bert", "vocab_size": 9}
    vocabulary = folder / "assets" / "vocab.txt"
    if kind == "hub":
        vocabulary.parent.mkdir()
        for path in (folder / "saved_model.pb", vocabulary):
            write(path)
    elif kind == "kerashub":
        registered = "keras_hub>BertBackbone"
        write(folder / "config.json", {"registered_name": registered, "config": {}})
        write(folder / "model.weights.h5")
    elif kind == "untokenized":
        write(folder / "config.json", {**config, "_name_or_path": "owner/bert"})
        write(folder / "model.safetensors")
    elif kind == "herbert":
        write(
            folder / "config.json",
            {**config, "tokenizer_class": "HerbertTokenizerFast"},
        )
    elif kind == "pickled":
        write(folder / "pytorch_model.bin")
    elif kind == "unpacked":
        write(folder / "bert_config.json", {"vocab_size": 9})
    elif kind == "words":
        write(folder / "vocab.txt")
    else:
        tiny.write_electra(folder)
        (folder / "config.json").unlink()
    return folder


RELEASE = "unpack the whole release there"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("hub", "saved_model.pb is not read (it is a SavedModel; give the checkpoint"),
        ("kerashub", "config.json: describes a preset of KerasHub, whose weights"),
        ("untokenized", "of the model there, by AutoTokenizer of transformers"),
        ("herbert", "no vocab.txt or tokenizer.json in it; save the tokenizer of"),
        ("pickled", "pytorch_model.bin is not read (save it as model.safetensors"),
        ("unpacked", f"there is no vocab.txt in it; {RELEASE}"),
        ("words", f"there is no bert_config.json or config.json in it; {RELEASE}"),
        ("electra", "weights are of ELECTRA; add the config"),
    ],
)
def test_directory_is_named_as_what_it_is(tmp_path, kind, message):
    with pytest.raises(ValueError) as caught:
        model_directory.locate(foreign(tmp_path / kind, kind))
    assert message in str(caught.value)
    assert (RELEASE in str(caught.value)) == (kind in ("unpacked", "words"))
