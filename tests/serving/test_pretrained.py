"""An exported pretrained model against the network and extract_features.py."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.pretraining import cloze
from data_pipeline.text import wordpiece
from loading import model_directory
from modeling import models, pretrainers
from modeling.checkpoints import checkpoint, conversion, google
from serving import answers, export, predictor
from tasks import prediction
from tests import tiny
from tests.serving import exported_ops, odd_texts

pytestmark = pytest.mark.slow

LENGTH, MASKS, TOP_K = 12, 3, 4
TEXTS = [
    "the [MASK] was great, and it [MASK]",
    "no mask, but [mask] and [MASK",
    "",
    "Ünï [MASK][MASK]s. [MASK] and [MASK]",  # the fourth is one too many
    "the sea was really very very very very very very very [MASK]",  # cut away
    "[MASK]",
]
ROUNDING = 1e-5  # of float32; two graphs multiply matrices of different padding


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "uncased_tiny"
    return tiny.write_model(path, vocab_size=48, hidden_act="relu")


def exported(model, directory, *more):
    """Runs run_pretraining.py --do_export without records."""
    done = tiny.run_script(
        "run_pretraining",
        *(f"--pretrained={model}", f"--output_dir={directory}", "--do_export"),
        *(f"--max_seq_length={LENGTH}", *more),
    )
    assert done.code == 0, done.err
    return done


@pytest.fixture(scope="module")
def version_dir(model_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    more = (f"--top_k={TOP_K}", f"--max_predictions_per_seq={MASKS}")
    done = exported(model_dir, directory, *more)
    assert "46 of 46 variables assigned" in done.out
    assert f"exported: {directory}/export/1\n" in done.out
    return str(directory / "export" / "1")


def loaded(version_dir):
    return tf.saved_model.load(version_dir).signatures


def asking(version_dir, signature="serving_default"):
    return predictor.Predictor(version_dir, signature)


@functools.cache
def network(model_dir):
    files = model_directory.locate(str(model_dir))
    model = pretrainers.BertPretrainer(model_directory.read_config(files.config_file))
    model.build()
    checkpoint.load(model, files.init_checkpoint)
    return model, wordpiece.BertTokenizer.from_file(files.vocab_file)


def expected_masks(model_dir, text):
    model, tokenizer = network(model_dir)
    pieces, ids = text.split("[MASK]"), [tokenizer.cls_id]
    for number, piece in enumerate(pieces):
        ids += [tokenizer.mask_id] * (number > 0)
        ids += tokenizer.tokenize([piece]).to_list()[0]
    ids = [*ids[: LENGTH - 1], tokenizer.sep_id]
    positions = [i for i, token in enumerate(ids) if token == tokenizer.mask_id]
    features = {
        "input_ids": tf.constant([ids]),
        "input_mask": tf.ones([1, len(ids)], tf.int32),
        "segment_ids": tf.zeros([1, len(ids)], tf.int32),
        "masked_lm_positions": tf.constant([positions], tf.int32),
    }
    logits = model(features)["masked_lm_logits"][0]
    masks = []
    for number, shares in enumerate(np.array(keras.ops.softmax(logits))[:MASKS]):
        best = np.argsort(-shares[: tokenizer.vocab_size], kind="stable")[:TOP_K]
        tokens = tokenizer.ids_to_tokens(best)
        before, after = pieces[: number + 1], pieces[number + 1 :]
        around = "[MASK]".join(before), "[MASK]".join(after)
        masks.append(
            {
                "start": len(around[0]),
                "tokens": tokens,
                "probabilities": shares[best],
                "filled": [t.removeprefix("##").join(around) for t in tokens],
            }
        )
    return masks


def test_masks_are_filled_by_the_network(model_dir, version_dir):
    answers = asking(version_dir).predict(TEXTS)
    assert [len(answer["masks"]) for answer in answers] == [2, 0, 0, 3, 0, 1]
    for text, answer in zip(TEXTS, answers, strict=True):
        wanted = expected_masks(model_dir, text)
        for actual, mask in zip(answer["masks"], wanted, strict=True):
            shares = actual.pop("probabilities"), mask.pop("probabilities")
            np.testing.assert_allclose(*shares, atol=ROUNDING)
            assert actual == mask
    first, second = answers[0]["masks"]
    assert first["tokens"] != second["tokens"]  # each has its own


def test_pieces_of_words_are_filled_in_without_their_sign():
    vocab = [*tiny.SPECIAL, "film", "##s", "##"]
    tokenizer = wordpiece.BertTokenizer(vocab)
    clozes = cloze.encoder(tokenizer, 8, 2)
    logits = tf.constant([[[0, 0, 0, 0, 0, 1.0, 2.0, 0, 9.0]]])  # of one more row
    masks = cloze.chooser(tokenizer, 2)(clozes(tf.constant(["film[MASK]!"])), logits)
    assert masks["tokens"].numpy().tolist() == [[[b"##s", b"film"]]]
    assert masks["filled"].numpy().tolist() == [[[b"films!", b"filmfilm!"]]]


def test_what_cannot_be_chosen_is_refused(model_dir, tmp_path):
    arguments = f"--pretrained={model_dir} --output_dir={tmp_path} --do_export".split()
    arguments.append(f"--max_seq_length={LENGTH}")
    config = f"--bert_config_file={model_dir}/bert_config.json"
    vocab = f"--vocab_file={model_dir}/vocab.txt"
    for flags, message in (
        ((*arguments, "--top_k=50"), "--top_k=50 exceeds the 46 tokens"),
        ((*arguments, "--layers=7"), "the network has 2"),
        ((config, vocab, *arguments[1:]), "no trained model in --output_dir"),
    ):
        assert message in tiny.refuse("run_pretraining", *flags)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def extracted(model_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("extracted")
    (directory / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    done = tiny.run_script(
        "extract_features",
        *(f"--pretrained={model_dir}", f"--max_seq_length={LENGTH}"),
        *(f"--input_file={directory}/texts.txt", "--output_format=npz"),
        *(f"--output_file={directory}/vectors.npz", "--layers=-1,0"),
    )
    assert done.code == 0, done.err
    actual = np.load(directory / "vectors.npz")
    tokens = network(model_dir)[1].ids_to_tokens(actual["input_ids"])
    return tokens, np.split(actual["values"], actual["splits"][1:-1])


def test_vectors_are_those_of_extract_features(extracted, version_dir):
    tokens, vectors = extracted
    wanted = np.stack([rows[:, 0].mean(axis=0) for rows in vectors])
    actual = loaded(version_dir)["embed"](text=tf.constant(TEXTS))["vector"]
    np.testing.assert_allclose(actual, wanted, atol=ROUNDING)
    assert np.abs(wanted[0] - wanted[1]).max() > 1e-2
    answers = asking(version_dir, "embed_tokens").predict(TEXTS)
    assert [token for answer in answers for token in answer["tokens"]] == tokens
    for answer, rows in zip(answers, vectors, strict=True):
        np.testing.assert_allclose(answer["vectors"], rows[:, 0], atol=ROUNDING)


@pytest.mark.parametrize("layers", [(), (2,)])
def test_padding_is_cut_off_whatever_token_ends_a_text(layers):
    vectors = np.zeros([2, 4, *layers, 3])
    vectors[0, :3, ..., 1] = vectors[1, :2, ..., 2] = 0.5
    tokens = [["<s>", "a", "</s>", "<pad>"], ["<s>", "</s>", "<pad>", "<pad>"]]
    rows = answers.rows({"tokens": tokens, "vectors": vectors}, None)
    assert [row["tokens"] for row in rows] == [tokens[0][:3], tokens[1][:2]]
    for row, whole, count in zip(rows, vectors, (3, 2), strict=True):
        np.testing.assert_array_equal(row["vectors"], whole[:count])


def test_choices_are_those_of_extract_features(
    model_dir, extracted, tmp_path, monkeypatch
):
    model, tokenizer = network(model_dir)
    plain = models.BertModel(model.config)
    plain.build()
    for variable, value in zip(
        plain.network.variables, model.network.variables, strict=True
    ):
        variable.assign(value)
    directory = tmp_path / "headless"
    directory.mkdir()
    google.save(directory / "bert_model.ckpt", plain)
    for name, text in conversion.files_of(model.config, tokenizer).items():
        (directory / name).write_text(text)
    saved = []
    monkeypatch.setattr(export, "save", lambda *a: saved.append(a))
    choice = "--layers=-1,0", "--pooling=cls", "--normalize"
    done = exported(directory, tmp_path / "run", *choice)
    assert "without fill_mask" in done.out
    functions = saved[0][0].functions
    assert {*functions} == {"serving_default", "embed", "embed_tokens", "ids"}
    assert functions["serving_default"] is functions["embed"]
    wanted = np.stack([rows[0] for rows in extracted[1]])  # [B, 2, W]
    wanted /= np.linalg.norm(wanted, axis=-1, keepdims=True)
    actual = functions["embed"](tf.constant(TEXTS))["vector"]
    np.testing.assert_allclose(actual, wanted, atol=ROUNDING)
    none = tf.zeros([0, 0], tf.int32)
    assert functions["ids"](none, none, none)["vector"].shape == (0, 2, 32)


def test_model_server_can_answer(version_dir):
    ids = {name: ([None, None], "int32") for name in ("input_ids", "input_mask")}
    ids["segment_ids"] = ids["input_ids"]
    text = {"text": ([None], "string")}
    masks = {
        **{name: ([None, None, TOP_K], "string") for name in ("tokens", "filled")},
        "probabilities": ([None, None, TOP_K], "float32"),
        "starts": ([None, None], "int32"),
    }
    vector = {"vector": ([None, 32], "float32")}
    tokens = ([None, None], "string")
    vectors = {"tokens": tokens, "vectors": ([None, None, 32], "float32")}
    exported_ops.assert_servable(version_dir)
    assert asking(version_dir).predict([]) == []
    assert exported_ops.described(loaded(version_dir)) == {
        "serving_default": (text, masks),
        "fill_mask": (text, masks),
        "embed": (text, vector),
        "embed_tokens": (text, vectors),
        "ids": (ids, vector),
    }


@pytest.mark.parametrize("name", ["fill_mask", "embed", "embed_tokens"])
def test_odd_texts_have_the_answers_that_they_have_alone(version_dir, name):
    masked = [b"a\x00 [MASK]\xff film \xc3[MASK]", b"[MASK] " + odd_texts.LONG]
    texts = [TEXTS[0].encode(), *odd_texts.ODD, *masked, odd_texts.LONG]
    actual = odd_texts.assert_alone(loaded(version_dir)[name], {"text": texts})
    if name == "fill_mask":
        assert (actual["starts"][7:] >= 0).sum(axis=1).tolist() == [2, 1, 0]
        filled, token = actual["filled"][7, 1, 0], actual["tokens"][7, 1, 0]
        assert filled == b"a\x00 [MASK] film " + token
        assert len(actual["filled"][8, 0, 0]) > odd_texts.MEGABYTE


def test_other_signatures_are_asked_by_name(version_dir, capsys):
    prediction.answer_texts(version_dir, [TEXTS[0], ""], as_json=True)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["text"] == TEXTS[0] and second == {"text": "", "masks": []}
    assert [*first["masks"][0]] == ["start", "tokens", "probabilities", "filled"]
    prediction.answer_texts(version_dir, [TEXTS[0]], "embed")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == TEXTS[0] and lines[1].endswith(" ... (32 numbers)")
    choices = "choose among embed, embed_tokens, fill_mask, serving_default"
    with pytest.raises(ValueError, match=choices):
        prediction.answer_texts(version_dir, [TEXTS[0]], "ids")
