"""Directories of Chinese BERTs as they are published, with tiny networks in them.

The files, their keys and the names of the weights are those of Google's release, of
HFL's repositories on the hub and of the converted ERNIE.
"""

import json
import pathlib

import numpy as np
import pytest
import safetensors.numpy
import tokenizers

import bert_reborn as bert
from data_pipeline.text import opening
from loading import model_directory
from modeling.checkpoints import google, hugging_face
from tests import daily, tf_model_h5, tiny
from tests.modeling.random_weights import assert_equal, random_model, values

TEXT = (
    "我用iPhone 15在Beijing买了3件T恤，花了￥299.50！「貨到付款」行嗎？Ⅷ①㎡…👍\u3000完"
)
CHARACTERS = "我用在买了件恤花「貨到付款」行嗎？，！完年月日中国"
PIECES = ["iphone", "15", "bei", "##jing", "3", "t", "…"]
SPECIAL = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB = [*SPECIAL, *CHARACTERS, *PIECES]
# ERNIE's list begins with [PAD], [CLS], [SEP], [MASK] and ends with [UNK].
ERNIE_VOCAB = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *CHARACTERS, *PIECES, "[UNK]"]
SIZES = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": len(VOCAB),
}
GOOGLE = SIZES | {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
OF_BERT = GOOGLE | {
    "architectures": ["BertForMaskedLM"],
    "layer_norm_eps": 1e-12,
    "model_type": "bert",
    "pad_token_id": 0,
}
# The name is RoBERTa's, and so are the ids of its special tokens; all else is BERT's.
OF_ROBERTA_WWM = OF_BERT | {
    "bos_token_id": 0,
    "eos_token_id": 2,
    "output_past": True,
    "pad_token_id": 1,
}
OF_ELECTRA = SIZES | {
    "architectures": ["ElectraForPreTraining"],
    "embedding_size": 16,
    "layer_norm_eps": 1e-12,
    "model_type": "electra",
    "pad_token_id": 0,
    "summary_activation": "gelu",
    "summary_last_dropout": 0.1,
    "summary_type": "first",
    "summary_use_proj": True,
}
OF_ERNIE = SIZES | {
    "architectures": ["ErnieForMaskedLM"],
    "hidden_act": "relu",
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 513,
    "model_type": "ernie",
    "pad_token_id": 0,
    "vocab_size": len(ERNIE_VOCAB) + 36,  # 18,000 rows for 17,964 tokens
}
TRANSFORMERS_4 = {
    "classifier_dropout": None,
    "position_embedding_type": "absolute",
    "task_type_vocab_size": 3,
    "use_cache": True,
    "use_task_id": False,
}


def write_vocab(folder, vocab=VOCAB):
    folder.mkdir()
    (folder / "vocab.txt").write_text("".join(f"{t}\n" for t in vocab), "utf-8")


def write_hfl_tokenizer(folder):
    """The files beside vocab.txt, byte for byte, and the library's tokenizer.json."""
    (folder / "added_tokens.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text('{"init_inputs": []}')
    names = ("unk", "sep", "pad", "cls", "mask")
    special = {f"{name}_token": f"[{name.upper()}]" for name in names}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    library(VOCAB).save(str(folder / "tokenizer.json"))


def library(vocab):
    """BertTokenizerFast of transformers, which has these settings."""
    return tokenizers.BertWordPieceTokenizer(
        {token: index for index, token in enumerate(vocab)}, lowercase=True
    )


def model_of(raw, folder, head="pretraining"):
    """A random model by the config.json of a layout, which is left in the folder."""
    path = folder / "config.json"
    path.write_text(json.dumps(raw))
    return random_model(model_directory.read_config(str(path)), head)


def save(folder, raw, head="pretraining"):
    """Writes weights as transformers does, and the config as it is published."""
    model = model_of(raw, folder, head)
    hugging_face.save(folder, model)
    (folder / "config.json").write_text(json.dumps(raw))
    return model


def write_google(folder):
    write_vocab(folder)
    model = model_of(GOOGLE | {"hidden_act": "gelu_new", "model_type": "bert"}, folder)
    google.save(folder / "bert_model.ckpt", model)
    (folder / "checkpoint").unlink(missing_ok=True)
    (folder / "config.json").unlink()
    (folder / "bert_config.json").write_text(json.dumps(GOOGLE))
    return model


def write_roberta_wwm(folder):
    write_vocab(folder)
    write_hfl_tokenizer(folder)
    return save(folder, OF_ROBERTA_WWM)


def write_macbert(folder):
    model = write_roberta_wwm(folder)
    tf_model_h5.replace_safetensors(folder)
    return model


def write_electra(folder):
    write_vocab(folder)
    write_hfl_tokenizer(folder)
    model = save(folder, OF_ELECTRA, "none")
    tf_model_h5.replace_safetensors(folder)
    return model


def write_ernie(folder, raw=OF_ERNIE, prefix="ernie."):
    """As its converter writes it: the prefix, and the names of norms in TensorFlow."""
    write_vocab(folder, ERNIE_VOCAB)
    model = save(folder, raw)
    path = folder / "model.safetensors"
    tensors = {}
    for name, value in safetensors.numpy.load_file(path).items():
        if not name.startswith("cls.seq_relationship"):
            name = name.replace("bert.", prefix, 1)
            name = name.replace("Norm.weight", "Norm.gamma")
            tensors[name.replace("Norm.bias", "Norm.beta")] = value
    assert f"{prefix}encoder.layer.1.output.LayerNorm.gamma" in tensors
    safetensors.numpy.save_file(tensors, path)
    return model


def write_saved_ernie(folder):
    return write_ernie(folder, OF_ERNIE | TRANSFORMERS_4)


def write_ernie_as_bert(folder):
    """The conversion of 2020, before transformers had a class of this name."""
    raw = OF_ERNIE | {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    return write_ernie(folder, raw, "bert.")


# {directory: (its writer, the activation)}
LAYOUTS = {
    "chinese_L-12_H-768_A-12": (write_google, "gelu_tanh"),
    "chinese-roberta-wwm-ext": (write_roberta_wwm, "gelu_erf"),
    "chinese-macbert-base": (write_macbert, "gelu_erf"),
    "chinese-electra-180g-small-discriminator": (write_electra, "gelu_erf"),
    "ernie-1.0-base-zh": (write_ernie, "relu"),
    "ernie-1.0-saved-again": (write_saved_ernie, "relu"),
    "ernie-1.0": (write_ernie_as_bert, "relu"),
}


@pytest.mark.parametrize(
    "name", daily.params(LAYOUTS, lambda name: "macbert" in name or name == "ernie-1.0")
)
def test_published_directory_loads_as_it_is(tmp_path, caplog, name):
    write, activation = LAYOUTS[name]
    folder = tmp_path / name
    written = values(write(folder))
    loaded = bert.load(folder, head="none")
    assert caplog.text == ""  # no key is taken for a misspelled one
    network = {k: v for k, v in written.items() if not k.startswith("cls/")}
    assert_equal(values(loaded.model), network)
    config = loaded.model.config
    is_ernie = name.startswith("ernie")
    assert config.hidden_act == activation
    assert config.layer_norm_epsilon == (1e-5 if is_ernie else 1e-12)
    assert config.max_position_embeddings == 512 + is_ernie
    vocab = ERNIE_VOCAB if is_ernie else VOCAB
    ids = loaded.encode([TEXT])["input_ids"]
    assert np.asarray(ids)[0].tolist() == library(vocab).encode(TEXT).ids


def test_compared_text_has_words_pieces_ideographs_and_unknown_signs():
    tokens = library(VOCAB).encode(TEXT).tokens
    assert {"iphone", "##jing", "貨", "[UNK]"} <= {*tokens}
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]"


def test_name_of_roberta_does_not_decide_the_network(tmp_path):
    """The positions of a RoBERTa begin at 2, and its vocabulary is one of bytes."""
    folder = tmp_path / "chinese-roberta-wwm-ext"
    write_roberta_wwm(folder)
    config = bert.load(folder, head="none").model.config
    assert (config.kind, config.first_position) == ("BERT", 0)
    (folder / "config.json").write_text(
        json.dumps(OF_ROBERTA_WWM | {"model_type": "roberta"})
    )
    with pytest.raises(
        ValueError, match="weights of BERT, but the config is of RoBERTa"
    ):
        bert.load(folder, head="none")


@pytest.mark.slow
def test_ernie_is_written_as_a_bert(tmp_path):
    model = write_saved_ernie(tmp_path / "ernie")
    tiny.succeed(
        "convert_checkpoint",
        f"--input={tmp_path}/ernie --to=hugging_face --output_dir={tmp_path}/bert",
    )
    raw = json.loads((tmp_path / "bert" / "config.json").read_text())
    assert (raw["model_type"], raw["architectures"]) == ("bert", ["BertForMaskedLM"])
    assert (raw["hidden_act"], raw["max_position_embeddings"]) == ("relu", 513)
    again = values(bert.load(tmp_path / "bert", head="none").model)
    assert_equal(again, {k: values(model)[k] for k in again})


@pytest.mark.parametrize("model_type", ["ernie", "bert"])  # of ERNIE 3.0, both
def test_ernie_with_embeddings_of_tasks_is_refused(tmp_path, model_type):
    write_vocab(tmp_path / "ernie-3.0", ERNIE_VOCAB)
    raw = OF_ERNIE | {"model_type": model_type, "type_vocab_size": 4}
    raw |= {"use_task_id": True, "task_type_vocab_size": 3}
    path = tmp_path / "ernie-3.0" / "config.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=r"config\.json: use_task_id is True, and"):
        model_directory.read_config(str(path))
    path.write_text(json.dumps(raw | {"use_task_id": False}))
    assert model_directory.read_config(str(path)).type_vocab_size == 4


def strings(value):
    """All strings in a JSON value, in their order."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value
    is_list = isinstance(value, dict | list)
    return [text for each in inner for text in strings(each)] if is_list else []


def texts_of(path):
    """The strings of a file of one JSON value or of several."""
    text, decoder, texts = path.read_text("utf-8").strip(), json.JSONDecoder(), []
    while text:
        value, end = decoder.raw_decode(text)
        texts += strings(value)
        text = text[end:].lstrip()
    return texts


@pytest.mark.slow
def test_tokens_of_all_clue_texts_are_those_of_the_library(shared_file):
    folder = pathlib.Path(shared_file("data/clue"))
    vocab_file = str(shared_file("data/vocab/bert-base-chinese-vocab.txt"))
    ours = opening.open_vocabulary(vocab_file)
    theirs = tokenizers.BertWordPieceTokenizer(vocab_file, lowercase=True)
    paths = sorted(folder.rglob("*.json"))
    paths = [path for path in paths if "submit_examples" not in path.parts]
    texts = list(dict.fromkeys(text for path in paths for text in texts_of(path)))
    assert len(texts) > 20_000
    actual = ours.to_ids(texts)
    expected = theirs.encode_batch(texts, add_special_tokens=False)
    different = [
        text
        for text, ids, wanted in zip(texts, actual, expected, strict=True)
        if list(ids) != wanted.ids
    ]
    assert different == []
    some = texts[::50]  # the operations of TensorFlow, as an export has them
    assert ours.tokenize(some).to_list() == actual[::50]
