"""convert_checkpoint.py from end to end, on a network of 1 layer x 32."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import tokenizers

import bert_reborn as bert
from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import conversion, google, sentence_transformers
from modeling.configs import config as config_lib
from modeling.features.text_vectors import Projection, TextVectors
from tests import full_disk, tf_model_h5, tiny, tiny_family

LABELS = ("bad", "good", "so so")
DATA = "bert_model.ckpt.data-00000-of-00001"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    path = tmp_path_factory.mktemp("release") / "uncased"
    return tiny.write_model(path, num_hidden_layers=1)


def flags(source, target, output_dir):
    return f"--input={source} --to={target} --output_dir={output_dir}"


def convert(source, target, output_dir, *arguments):
    """The script on --input=source; returns what it printed."""
    places = flags(source, target, output_dir)
    done = tiny.succeed("convert_checkpoint", places, *arguments)
    assert f"wrote {output_dir} ({target})" in done.out
    assert "largest difference, before and after: weights 0, outputs" in done.out
    return done.out


def refusal(source, output_dir, *arguments, to="google"):
    """The one line of an error, after which nothing lies there that did not before."""
    before = tiny.listing(output_dir.parent)
    places = flags(source, to, output_dir)
    line = tiny.refuse("convert_checkpoint", places, *arguments)
    assert tiny.listing(output_dir.parent) == before
    return line


def read_json(folder, name):
    return json.loads((folder / name).read_text())


def stored(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def run_directory(release, folder, head="classifier", num_classes=3, label_map=None):
    folder.mkdir()
    for name in ("bert_config.json", "vocab.txt"):
        shutil.copy(release / name, folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    if label_map is not None:
        (folder / "label_map.json").write_text(json.dumps(label_map))
    config = config_lib.BertConfig.from_json_file(release / "bert_config.json")
    model = pretrainers.build(head, num_classes, config)
    weights = google.variables(model)
    moments = {f"{name}/adam_m": value for name, value in weights.items()}
    state = {"global_step": np.int64(7)}
    google.write(folder / "model.ckpt-7", {**weights, **moments, **state})
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    return {name: np.asarray(value) for name, value in weights.items()}


SETTINGS = {"strip_accents": False, "tokenize_chinese_chars": False}


@pytest.mark.slow
@pytest.mark.parametrize(
    "split", [pytest.param("", marks=pytest.mark.slow), "--split_words=whitespace"]
)
def test_settings_of_the_tokenizer_are_written(release, tmp_path, split):
    """Through two formats, each opened with what the one before wrote."""
    source, text = tmp_path / "source", "the Äsea 東京 a,b"
    shutil.copytree(release, source)
    known = {"do_lower_case": True, "tokenizer_class": "BertTokenizer", **SETTINGS}
    (source / "tokenizer_config.json").write_text(json.dumps(known))
    usual = bert.load(str(release)).tokens(text)
    for number, target in enumerate(("hugging_face", "google")):
        convert(source, target, tmp_path / target, *([] if number else [split]))
        source = tmp_path / target
        written = read_json(source, "tokenizer_config.json")
        assert written["do_lower_case"] is True
        assert {key: written[key] for key in SETTINGS} == SETTINGS
        assert written.get("split_words") == ("whitespace" if split else None)
        assert (source / "tokenizer.json").exists() == (bool(split) or not number)
        tokens = bert.load(str(source)).tokens(text)
        assert tokens == [
            *("[CLS]", "the", "[UNK]", "[UNK]"),
            *(["[UNK]"] if split else ["a", ",", "b"]),
            "[SEP]",
        ]
    assert usual != tokens


@pytest.mark.slow
def test_heads_without_values_stay_absent(release, tmp_path):
    config = config_lib.BertConfig.from_json_file(release / "bert_config.json")
    model = pretrainers.build("pretraining", None, config)
    absent = [n for n in google.variables(model) if "pooler" in n or "seq_rel" in n]
    source = tmp_path / "source"
    shutil.copytree(release, source)
    google.save(str(source / "bert_model.ckpt"), model, absent)
    for number, target in enumerate(("hugging_face", "google", "hugging_face")):
        out = convert(source, target, tmp_path / f"{number}")
        assert f"missing: {', '.join(absent)}\n" in out
        source = tmp_path / f"{number}"
    assert read_json(source, "config.json")["architectures"] == ["BertForMaskedLM"]
    weights = safetensors.numpy.load_file(source / "model.safetensors")
    assert not [name for name in weights if "pooler" in name or "seq_rel" in name]


def test_word_pieces_of_a_network_without_segments(tmp_path):
    """transformers 5 opens a ModernBERT's tokenizer.json, and no vocab.txt."""
    source = tiny_family.write_model(tmp_path / "source", "modernbert")
    convert(source, "hugging_face", tmp_path / "hf")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "hf" / "tokenizer.json"))
    written = read_json(tmp_path / "hf", "tokenizer_config.json")
    assert written["model_input_names"] == ["input_ids", "attention_mask"]
    assert {key: written[f"{key}_token"] for key in ("cls", "sep", "pad", "mask")} == {
        "cls": "[CLS]",
        "sep": "[SEP]",
        "pad": "[PAD]",
        "mask": "[MASK]",
    }
    tokens = bert.load(str(tmp_path / "hf"), check_case=False).tokens("The cat, a b.")
    assert len({*tokens}) > 4
    assert library.encode("The cat, a b.").tokens == tokens


def test_token_that_stands_twice_keeps_its_name(release, tmp_path):
    """tokenizer.json cannot have it, and so is not written."""
    source = tmp_path / "uncased"
    shutil.copytree(release, source)
    vocab = (source / "vocab.txt").read_text().replace("[unused0]", "the")
    (source / "vocab.txt").write_text(vocab)
    assert vocab.split().count("the") == 2
    convert(source, "hugging_face", tmp_path / "hf")
    assert "tokenizer.json" not in names(tmp_path / "hf")
    convert(tmp_path / "hf", "google", tmp_path / "g")
    assert (tmp_path / "g" / "vocab.txt").read_text() == vocab


def test_other_tokenizers_are_refused(release, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(release, source)
    known = {"do_lower_case": True, "tokenizer_class": "BertJapaneseTokenizer"}
    (source / "tokenizer_config.json").write_text(json.dumps(known))
    line = refusal(source, tmp_path / "out")
    assert "'BertJapaneseTokenizer'" in line and "--nocheck_tokenizer" in line
    with pytest.raises(ValueError, match="check_tokenizer=False"):
        bert.load(str(source))
    assert bert.load(str(source), check_tokenizer=False).tokens("the")
    convert(source, "google", tmp_path / "out", "--nocheck_tokenizer")


def test_release_goes_through_all_formats(release, tmp_path):
    """Google, Hugging Face, tf_model.h5, Google, .keras, Google: no bit changes."""
    out = convert(release, "hugging_face", tmp_path / "hf")
    assert "head: pretraining" in out
    assert "converted: 30 variables (encoder 21, pooler 2, " in out
    assert "weights 0, outputs 0\n" in out
    listed = "config.json model.safetensors tokenizer.json tokenizer_config.json"
    assert names(tmp_path / "hf") == [*listed.split(), "vocab.txt"]
    tf_model_h5.replace_safetensors(tmp_path / "hf")
    convert(tmp_path / "hf" / "tf_model.h5", "google", tmp_path / "g0")
    shutil.copytree(tmp_path / "g0", tmp_path / "k", ignore=lambda *_: [DATA])
    (tmp_path / "k" / "bert_model.ckpt.index").unlink()
    bert.load(release, head="pretraining").model.save(tmp_path / "k" / "model.keras")
    convert(tmp_path / "k" / "model.keras", "google", tmp_path / "g")
    assert (tmp_path / "g" / DATA).read_bytes() == (release / DATA).read_bytes()
    before, after = (folder / "vocab.txt" for folder in (release, tmp_path / "g"))
    assert before.read_bytes() == after.read_bytes()
    config = config_lib.BertConfig.from_json_file(tmp_path / "g" / "bert_config.json")
    before = config_lib.BertConfig.from_json_file(release / "bert_config.json")
    assert config.network_alone() == before
    # "uncased" in the name of the release has become a file, which says it for good.
    for folder in ("hf", "k", "g"):
        assert model_directory.locate(tmp_path / folder).do_lower_case is True


@pytest.mark.parametrize(
    ("problem_type", "theirs"),
    [
        ("classification", "single_label_classification"),
        ("multi_label", "multi_label_classification"),
    ],
)
def test_labels_go_there_and_back(release, tmp_path, problem_type, theirs):
    label_map = {str(i): name for i, name in enumerate(LABELS)}
    label_map["problem_type"] = problem_type
    weights = run_directory(release, tmp_path / "run", label_map=label_map)
    out = convert(tmp_path / "run", "hugging_face", tmp_path / "hf")
    assert "left out: 26 variables (adam_m 25, global_step 1), " in out
    raw = read_json(tmp_path / "hf", "config.json")
    assert raw["id2label"] == {"0": "bad", "1": "good", "2": "so so"}
    assert raw["label2id"] == {"bad": 0, "good": 1, "so so": 2}
    assert raw["problem_type"] == theirs
    assert raw["architectures"] == ["BertForSequenceClassification"]
    (tmp_path / "hf" / "label_map.json").unlink()  # as in a directory of theirs
    convert(tmp_path / "hf", "google", tmp_path / "g")
    again = read_json(tmp_path / "g", "label_map.json")
    assert {key: again[key] for key in label_map} == label_map
    # Neither moments nor the step: 26 of 51 names are gone.
    back = stored(tmp_path / "g" / "bert_model.ckpt")
    assert back.keys() == weights.keys()
    for name, value in weights.items():
        np.testing.assert_array_equal(back[name], value)


def test_run_of_a_tagger_says_so_by_its_tags(release, tmp_path):
    label_map = {"0": "O", "1": "B-PLACE", "2": "I-PLACE"}
    whole = {**label_map, "problem_type": "tagging", "tag_scheme": "BIO"}
    run_directory(release, tmp_path / "run", "tagger", label_map=whole)
    out = convert(tmp_path / "run", "hugging_face", tmp_path / "hf")
    assert "head: tagger" in out
    raw = read_json(tmp_path / "hf", "config.json")
    assert raw["architectures"] == ["BertForTokenClassification"]
    assert raw["id2label"] == label_map
    assert "problem_type" not in raw
    (tmp_path / "hf" / "label_map.json").unlink()  # as in a directory of theirs
    convert(tmp_path / "hf", "google", tmp_path / "g")
    assert read_json(tmp_path / "g", "label_map.json") == whole


def pair_directory(folder):
    """The recorded encoder-decoder with a vocabulary of its 67 tokens."""
    shutil.copytree(tiny.ROOT / "tests/golden/seq2seq/hugging_face", folder)
    words = [*tiny.SPECIAL, *tiny.FILLERS, *tiny.SIGNS.values()]
    words += [f"w{i}" for i in range(67 - len(words))]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    return folder


def test_encoder_of_an_encoder_decoder(tmp_path):
    pair = pair_directory(tmp_path / "pair")
    out = convert(pair, "google", tmp_path / "g", "--head=none")
    assert "head: none\nconverted: 37 variables (encoder 37)\nmissing: bert/po" in out
    weights = stored(tmp_path / "g" / "bert_model.ckpt")
    assert len(weights) == 37
    tensors = safetensors.numpy.load_file(pair / "model.safetensors")
    np.testing.assert_array_equal(
        weights["bert/encoder/layer_1/intermediate/dense/kernel"],
        tensors["encoder.encoder.layer.1.intermediate.dense.weight"].T,
    )
    assert (tmp_path / "g" / "vocab.txt").read_text().count("\n") == 67


@pytest.mark.slow
def test_tokens_are_added(release, tmp_path):
    (tmp_path / "tokens.txt").write_text("parcel\n[E1]\n")
    before = (release / "vocab.txt").read_text().splitlines()
    added = f"--add_tokens={tmp_path}/tokens.txt"
    out = convert(release, "google", tmp_path / "g", added)
    assert "added, but no text becomes them: ['[E1]']" in out
    size = len(before) + 2
    assert f"word embeddings: 2 rows added, for {size} tokens now {size}" in out
    vocab = (tmp_path / "g" / "vocab.txt").read_text().splitlines()
    assert vocab == [*before, "parcel", "[E1]"]
    assert read_json(tmp_path / "g", "bert_config.json")["vocab_size"] == size
    old, new = (
        stored(folder / "bert_model.ckpt") for folder in (release, tmp_path / "g")
    )
    table = "bert/embeddings/word_embeddings"
    np.testing.assert_array_equal(new[table][:-2], old[table])
    np.testing.assert_allclose(new[table][-1], old[table].mean(axis=0), rtol=1e-4)
    assert new["cls/predictions/output_bias"].shape == (size,)
    rows = f"--resize_embeddings={size + 9}"
    convert(tmp_path / "g", "hugging_face", tmp_path / "hf", rows)
    assert read_json(tmp_path / "hf", "config.json")["vocab_size"] == size + 9
    assert "largest" in convert(tmp_path / "hf", "google", tmp_path / "last")


def test_checkpoint_without_vocabulary(release, tmp_path):
    source = tmp_path / "bare"
    shutil.copytree(release, source, ignore=shutil.ignore_patterns("vocab.txt"))
    out = convert(source / "bert_model.ckpt", "hugging_face", tmp_path / "hf")
    assert "vocabulary: none found, so none is written" in out
    assert names(tmp_path / "hf") == ["config.json", "model.safetensors"]
    convert(tmp_path / "hf", "google", tmp_path / "g")
    assert (tmp_path / "g" / DATA).read_bytes() == (source / DATA).read_bytes()


def test_nothing_is_overwritten_unasked(release, tmp_path):
    convert(release, "google", tmp_path / "out")
    error = refusal(release, tmp_path / "out", to="hugging_face")
    assert "is not empty (it holds bert_config.json)" in error
    convert(release, "hugging_face", tmp_path / "out", "--overwrite")
    assert "model.safetensors" in names(tmp_path / "out")
    assert DATA not in names(tmp_path / "out")
    error = refusal(tmp_path / "out", tmp_path / "out", "--overwrite")
    assert "which is to be read" in error


@pytest.mark.parametrize("to", ["google", "hugging_face"])
def test_full_disk_is_named_once_by_the_name_that_was_typed(
    release, tmp_path, monkeypatch, to
):
    """No file of more than 500 bytes has room, whoever writes it."""
    write = conversion.write_directory

    def write_on_a_full_disk(*arguments, **options):
        with full_disk.full_disk(after=500):
            write(*arguments, **options)

    monkeypatch.setattr(conversion, "write_directory", write_on_a_full_disk)
    out = tmp_path / "out"
    done = tiny.run_script("convert_checkpoint", flags(release, to, out))
    *_, line = done.err.splitlines()
    assert done.code == 2 and tiny.listing(tmp_path) == {}, done.err
    start = f"error: --output_dir={tmp_path}/out: cannot be written ("
    assert line.startswith(start) and line.count("cannot be written") == 1
    assert line.endswith("); make room there, or name another place")
    assert line.count("make room") == 1 and ".incomplete" not in line


def test_wrong_input_is_one_line(release, tmp_path):
    out = tmp_path / "out"
    (tmp_path / "flax_model.msgpack").touch()
    message = "flax_model.msgpack is not read (save it as model.safetensors "
    assert message in refusal(tmp_path, out)
    broken = tmp_path / "broken"
    shutil.copytree(release, broken)
    (broken / "bert_config.json").unlink()
    assert "give --bert_config_file" in refusal(broken, out)


def test_rows_of_no_token_are_kept(tmp_path):
    """1,000 rows more than tokens, as some models have them for words to come."""
    source = tiny.write_model(tmp_path / "source", num_hidden_layers=1, vocab_size=1041)
    for target, name in (
        ("hugging_face", "config.json"),
        ("google", "bert_config.json"),
    ):
        convert(source, target, tmp_path / target)
        source = tmp_path / target
        assert read_json(source, name)["vocab_size"] == 1041
    before, after = (
        stored(tmp_path / name / "bert_model.ckpt") for name in ("source", "google")
    )
    key = "bert/embeddings/word_embeddings"
    assert after[key].shape == (1041, 32)
    np.testing.assert_array_equal(after[key], before[key])


def test_labels_of_another_head(release, tmp_path):
    label_map = {"0": "a", "1": "b"}
    run_directory(release, tmp_path / "run", label_map=label_map)
    error = refusal(tmp_path / "run", tmp_path / "out")
    assert "label_map.json: has 2 labels, but the head has 3 classes" in error


@pytest.mark.slow
def test_modules_of_sentence_transformers_are_kept(release, tmp_path):
    assert "--head=text_encoder: " in refusal(
        release, tmp_path / "none", "--head=text_encoder"
    )
    folder = tmp_path / "run"
    run_directory(release, folder, "none")
    config = config_lib.BertConfig.from_json_file(release / "bert_config.json")
    vectors = TextVectors("max", True, (Projection(8), Projection(4, "linear", False)))
    model = pretrainers.build("text_encoder", None, config, text_vectors=vectors)
    google.save(folder / "model.ckpt-7", model)
    kept = sentence_transformers.SentenceTransformer(
        text_vectors=vectors, max_seq_length=24, prompts={"query": "q: "}
    )
    for name, text in sentence_transformers.files(model, kept).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    source = folder
    for target in ("hugging_face", "google", "hugging_face"):
        path = tmp_path / f"{target}_of_{source.name}"
        out = convert(source, target, path)
        assert "head: text_encoder" in out
        assert "projection_0 2, projection_1 1" in out
        for name in sentence_transformers.files(model, kept):
            assert (path / name).read_text() == (folder / name).read_text(), name
        source = path
    weights = safetensors.numpy.load_file(path / "2_Dense" / "model.safetensors")
    np.testing.assert_array_equal(
        weights["linear.weight"].T, model.projections[0].kernel
    )
    # The network alone has none of them, and further files stay as they are.
    convert(source, "google", tmp_path / "bare", "--head=none")
    assert not (tmp_path / "bare" / "modules.json").exists()
    convert(source, "google", tmp_path / "bare", "--overwrite")
    assert (tmp_path / "bare" / "modules.json").exists()
    (path / "1_own").mkdir()
    assert "holds 1_own, which no conversion" in refusal(release, path, "--overwrite")


@pytest.mark.slow
def test_classifiers_of_several_sequences_are_converted(release, tmp_path):
    made = bert.load(release, labels=LABELS)
    for name in ("google", "hugging_face"):
        made.save(tmp_path / name)
        path = tmp_path / name / "label_map.json"
        content = json.loads(path.read_text()) | {"pair_input": "both_orders"}
        path.write_text(json.dumps(content))
        convert(tmp_path / name, name, tmp_path / "out" / name)
        opened = bert.load(tmp_path / "out" / name)
        assert opened.model.sequences == "summed"
