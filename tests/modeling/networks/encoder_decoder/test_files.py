"""An encoder-decoder's weights: transformers' directories, ours, and two BERTs'."""

import dataclasses
import json
import shutil
import types

import numpy as np
import pytest
import safetensors.numpy

from contract import errors
from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import checkpoint, comparison, conversion, places
from modeling.configs import config_limits
from modeling.networks.encoder_decoder import config as encoder_decoder_config
from modeling.networks.encoder_decoder import warm_start
from tests import read_model
from tests.modeling.random_weights import assert_equal, random_model, values


def arrays(directory):
    return safetensors.numpy.load_file(directory / "model.safetensors")


def changed(source, target, edit):
    shutil.copytree(source, target)
    tensors = arrays(source)
    edit(tensors)
    safetensors.numpy.save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


def test_transformers_directory_is_written_as_it_was(
    seq2seq_dir, seq2seq_config, tmp_path
):
    read = read_model.read(seq2seq_dir, seq2seq_config)
    assert (read.format, read.head) == ("hugging_face", "seq2seq")
    assert "99 variables (encoder 37, decoder 57, masked_lm 5)" in str(read)
    conversion.write_directory(tmp_path, read.model, "hugging_face")
    assert_equal(arrays(tmp_path), arrays(seq2seq_dir))
    again = model_directory.read_config(
        model_directory.locate(tmp_path, needs_all=False).config_file
    )
    assert again.network_alone() == seq2seq_config.network_alone()
    raw = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert raw["architectures"] == ["EncoderDecoderModel"]
    assert raw["is_encoder_decoder"] is True and raw["eos_token_id"] == 3


def test_settings_of_generate_without_effect_are_listed_once(
    seq2seq_dir, tmp_path, caplog
):
    raw = json.loads((seq2seq_dir / "config.json").read_text("utf-8"))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(raw), "utf-8")
    model_directory.read_config(str(path))
    assert not caplog.records
    path.write_text(json.dumps({**raw, "num_beams": 2, "min_length": 5}), "utf-8")
    earlier = model_directory.read_config(str(path))
    stated = {"num_beams": 2, "min_length": 5, "early_stopping": False}
    assert earlier.generation == stated and not caplog.records
    ignored = {
        **{"num_beams": 4, "do_sample": True, "early_stopping": True},
        **{"eos_token_id": [3, 4], "max_length": 64, "repetition_penalty": None},
        **{"encoder_no_repeat_ngram_size": 2, "pad_token_id": 0},
    }
    beside = tmp_path / "generation_config.json"
    beside.write_text(json.dumps(ignored), "utf-8")
    config = model_directory.read_config(str(path))
    (record,) = caplog.records
    assert (
        "uses do_sample=True, encoder_no_repeat_ngram_size=2, eos_token_id=[3, 4]; "
        "ignored here"
    ) in record.getMessage()
    # The keys of config.json count no more, as in the library.
    stated = {"num_beams": 4, "early_stopping": True, "max_new_tokens": 40}
    assert config.settings() == stated


def test_settings_of_generate_are_read_and_written(
    seq2seq_config, seq2seq_model, tmp_path
):
    read = seq2seq_config.with_generation
    for stated, wanted in (
        ({"min_length": 7, "max_length": 21}, (7, 20)),
        ({"min_new_tokens": 7, "min_length": 2, "max_new_tokens": 9}, (8, 9)),
        ({"min_new_tokens": 0, "max_length": 400}, (1, 40)),  # of positions
    ):
        settings = read(stated).settings()
        assert (settings["min_length"], settings["max_new_tokens"]) == wanted
    assert read({"use_cache": True}).generation == {"early_stopping": False}
    assert read({}).generation == {}  # neither file nor keys
    passed = read({"num_beams": 3, "length_penalty": 2}).settings(
        num_beams=5, length_penalty=None, min_target_length=4
    )
    beams = {"num_beams": 5, "length_penalty": 2, "early_stopping": False}
    assert passed == {**beams, "min_length": 4}

    def written(target, **generation):
        config = dataclasses.replace(seq2seq_config, generation=generation)
        texts = conversion.files_of(config, None, for_library=target == "hugging_face")
        return json.loads(texts.get("generation_config.json", "null"))

    ids = {"decoder_start_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    beams = {"num_beams": 4, "early_stopping": "never", "max_new_tokens": 9}
    assert written("google") is None
    assert written("google", **beams) == written("hugging_face", **beams)
    assert written("hugging_face", **beams) == {**ids, **beams}
    greedy = written("hugging_face", num_beams=1, early_stopping=False)
    assert greedy == {**ids, "num_beams": 1, "max_new_tokens": 40}
    conversion.write_directory(tmp_path, seq2seq_model, "hugging_face")
    raw = json.loads((tmp_path / "generation_config.json").read_text("utf-8"))
    assert raw == {**ids, "max_new_tokens": 40}


WANTED = {
    "num_beams": "1 or more, a whole number",
    "max_new_tokens": "1 or more, a whole number",
    "max_length": "2 or more, a whole number",
    "min_new_tokens": "0 or more, a whole number",
    "no_repeat_ngram_size": "0 or more, a whole number",
    "length_penalty": "a finite number",
    "early_stopping": "true, false, never",
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_beams", "4"),
        ("num_beams", 2.0),
        ("num_beams", True),
        ("num_beams", 0),
        ("max_new_tokens", 0),
        ("max_length", 1),
        ("min_new_tokens", 2**31),
        ("no_repeat_ngram_size", -1),
        ("length_penalty", float("nan")),
        ("length_penalty", True),
        ("length_penalty", "long"),
        ("early_stopping", "sometimes"),
        ("early_stopping", 1),
        ("max_length", [20]),
    ],
)
def test_settings_with_wrong_values_are_refused(
    seq2seq_dir, seq2seq_config, tmp_path, key, value
):
    shutil.copy(seq2seq_dir / "config.json", tmp_path)
    beside = tmp_path / "generation_config.json"
    beside.write_text(json.dumps({key: value}), "utf-8")
    with pytest.raises(ValueError) as raised:
        model_directory.read_config(f"{tmp_path}/config.json")
    assert str(raised.value) == f"{beside}: {key} is {value!r}; give {WANTED[key]}"
    passed = {
        ours: value
        for ours, theirs in encoder_decoder_config.SETTINGS.items()
        if theirs == key
    }
    for name in passed:  # one rule for the arguments of bert.write, too
        with pytest.raises(
            errors.InputError, match=rf"^{name} is .*; give {WANTED[key]}"
        ):
            seq2seq_config.settings(**passed)


def test_lengths_that_no_text_has_are_refused(seq2seq_config):
    read = seq2seq_config.with_generation
    # In the library the least length has the start token.
    assert read({"min_length": 7, "max_length": 7}).generation["min_length"] == 7
    assert read({"no_repeat_ngram_size": 40}).generation["no_repeat_ngram_size"] == 40
    for stated in (
        {"min_new_tokens": 7, "max_new_tokens": 6},
        {"min_length": 8, "max_new_tokens": 6},
        {"no_repeat_ngram_size": 41, "max_new_tokens": 6},
    ):
        with pytest.raises(
            ValueError, match=r"(8|41), and a text has at most 6 tokens"
        ):
            read(stated)
    with pytest.raises(ValueError, match=r"min_length is 9, and .* at most 3 tokens"):
        seq2seq_config.settings(min_target_length=9, max_target_length=3)


def test_run_of_ours_has_names_of_both_sides(seq2seq_model, tmp_path):
    conversion.write_directory(tmp_path, seq2seq_model, "google")
    file = places.open_file(tmp_path)
    assert len(file.shapes) == 99
    assert {
        "encoder/bert/embeddings/word_embeddings",
        "encoder/bert/encoder/layer_1/attention/self/key/bias",
        "decoder/bert/encoder/layer_0/crossattention/output/LayerNorm/gamma",
        "decoder/cls/predictions/transform/dense/kernel",
    } <= set(file.shapes)
    config = model_directory.read_config(
        model_directory.locate(tmp_path, needs_all=False).config_file
    )
    read = read_model.read(tmp_path, config)
    assert_equal(values(read.model), values(seq2seq_model))
    assert comparison.compare(seq2seq_model, read.model) == 0
    # The twin: another order of layers is seen.
    block = read.model.network.decoder.blocks[0].cross_attention.query.kernel
    block.assign(read.model.network.decoder.blocks[1].cross_attention.query.kernel)
    with pytest.raises(ValueError, match=r"crossattention/self/query.*not kept"):
        comparison.compare(seq2seq_model, read.model)


def test_other_heads_and_lost_variables_are_refused(
    seq2seq_dir, seq2seq_config, tmp_path
):
    with pytest.raises(ValueError, match="no head 'classifier'; choose one of seq2seq"):
        pretrainers.build("classifier", 3, seq2seq_config)
    with pytest.raises(ValueError, match=r"span: .* no such head \(it has: seq2seq"):
        read_model.read(seq2seq_dir, seq2seq_config, "span")
    lost = "decoder.bert.encoder.layer.1.crossattention.self.value.bias"
    path = changed(seq2seq_dir, tmp_path / "less", lambda tensors: tensors.pop(lost))
    with pytest.raises(ValueError, match=rf"lacks {lost} of the 94 variables"):
        checkpoint.check_file(seq2seq_config, places.open_file(path, seq2seq_config))


def test_tokens_can_be_added_to_both_sides(seq2seq_model):
    with pytest.raises(ValueError, match="no format for the weights of encoder-dec"):
        conversion.check_target(seq2seq_model.config, "keras")
    grown = conversion.grow(seq2seq_model, 70)
    assert grown.config.num_outputs == grown.config.vocab_size == 70
    for side in (grown.network.encoder, grown.network.decoder):
        table = np.asarray(side.embeddings.word_embeddings)
        np.testing.assert_allclose(table[67:], [table[:67].mean(0)] * 3, atol=1e-6)
    assert comparison.compare(seq2seq_model, grown) < 1e-5


def pair_of(encoder, decoder):
    return encoder_decoder_config.EncoderDecoderConfig.from_berts(
        encoder, decoder, decoder_start_token_id=1, eos_token_id=2
    )


def test_both_sides_are_filled_from_berts(tiny_config, tmp_path):
    berts, paths = [], []
    for seed, target in enumerate(("hugging_face", "google")):
        bert = random_model(tiny_config, "pretraining", seed=seed)
        path = tmp_path / target
        path.mkdir()
        conversion.write(path, bert, target)
        berts.append(values(bert))
        paths.append(path)
    model = pretrainers.build("seq2seq", None, pair_of(tiny_config, tiny_config))
    before = values(model)
    report = warm_start.load(model, *paths)
    wanted = {}
    for name, value in before.items():
        side, bert_name = name.split("/", 1)
        bert = berts[0 if side == "encoder" else -1]
        assert (bert_name not in bert) == ("crossattention" in name)
        wanted[name] = bert.get(bert_name, value)
    assert_equal(values(model), wanted)
    assert len(report.missing) == 2 * 10
    assert "79 of 99 variables assigned; newly initialised: decoder/" in str(report)
    assert "layer_0/crossattention" in str(report)
    assert str(report).endswith(" and 12 more")
    assert f"{paths[0]}" in report.source and f"{paths[-1]}" in report.source


def test_a_side_may_be_shallower_than_its_bert(tiny_config, tmp_path):
    conversion.write(tmp_path, random_model(tiny_config, "classifier"), "google")
    shallow = dataclasses.replace(tiny_config, num_hidden_layers=1)
    model = pretrainers.build("seq2seq", None, pair_of(tiny_config, shallow))
    report = warm_start.load(model, tmp_path)
    assert len(report.missing) == 10 + 5  # no BERT's, and a head of masked tokens
    assert "decoder/cls/predictions/output_bias" in report.missing
    narrow = dataclasses.replace(tiny_config, intermediate_size=32)
    model = pretrainers.build("seq2seq", None, pair_of(tiny_config, narrow))
    with pytest.raises(ValueError, match=r"intermediate_size=32 \(the file has 24"):
        warm_start.load(model, tmp_path)


def test_vocabulary_and_script_have_to_fit(seq2seq_dir, seq2seq_config):
    files = types.SimpleNamespace(
        config_file=f"{seq2seq_dir}/config.json",
        vocab_file="v",
        init_checkpoint="",
        allows_missing=False,
    )
    config = model_directory.read_config(files.config_file)
    with pytest.raises(ValueError, match=r"config.json: describes an .* --head=none"):
        model_directory.open_weights(files, config, 67, 40)
    taken, _ = model_directory.open_weights(
        files, config, 67, 40, takes_encoder_decoder=True
    )
    assert taken.network_alone() == seq2seq_config.network_alone()
    assert taken.generation == {"early_stopping": False, "pad_token_id": 0}
    config_limits.check_sizes(seq2seq_config, 67, files, 40)
    with pytest.raises(ValueError, match=r"length 41 .*encoder-decoder model was only"):
        config_limits.check_sizes(seq2seq_config, 67, files, 41)
    decoder = dataclasses.replace(seq2seq_config.decoder, vocab_size=70)
    other = dataclasses.replace(seq2seq_config, decoder=decoder)
    with pytest.raises(
        ValueError, match=r"config.json: the encoder has 67 .* decoder 70"
    ):
        config_limits.check_sizes(other, 67, files, 40)
    with pytest.raises(ValueError, match="no tokens can be added"):
        other.with_vocab_size(80)
