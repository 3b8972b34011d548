"""Networks of the recordings of GPT, GPT-2 and a left-to-right BERT, with weights."""

import dataclasses
import json

import numpy as np
import safetensors.numpy
import tensorflow as tf

from modeling import models, pretrainers
from modeling.checkpoints import names
from modeling.configs import config as config_lib
from modeling.configs import config_files
from modeling.networks.gpt import config as gpt_config

GPT_SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 24,
}
# Paths within a layer, and the original's names.
_LAYER = {
    "attention/query_key_value": "attn/c_attn",
    "attention/output": "attn/c_proj",
    "attention_norm": "ln_1",
    "ffn_in": "mlp/c_fc",
    "ffn_out": "mlp/c_proj",
    "ffn_norm": "ln_2",
}
_ENDS = {"kernel": "w", "bias": "b", "gamma": "g", "beta": "b"}


def original_name(path):
    """`gpt/block_0/ffn_in/kernel` to `model/h0/mlp/c_fc/w`."""
    parts = path.split("/")
    layer = "/".join(parts[2:-1])
    if layer in _LAYER:
        number = parts[1].removeprefix("block_")
        return f"model/h{number}/{_LAYER[layer]}/{_ENDS[parts[-1]]}"
    return {
        "gpt/embeddings/word_and_position_embeddings": "model/we",
        "gpt/embeddings/word_embeddings": "model/wte",
        "gpt/embeddings/position_embeddings": "model/wpe",
        "gpt/final_norm/gamma": "model/ln_f/g",
        "gpt/final_norm/beta": "model/ln_f/b",
        "classifier/logits/kernel": "model/clf/w",
        "classifier/logits/bias": "model/clf/b",
    }[path]


def named(model):
    paths = [variable.path.split("/", 1)[1] for variable in model.trainable_variables]
    names = map(original_name, paths)
    return dict(zip(names, model.trainable_variables, strict=True))


def filled(model, values, prefix=""):
    model.build()
    for name, variable in named(model).items():
        variable.assign(values[prefix + name])
    return model


def gpt(record, head=pretrainers.LanguageModel, **changes):
    config = gpt_config.GptConfig(**{**GPT_SHAPE, "joined_table": True, **changes})
    return filled(head(config), record, "param/")


def features(ids, mask=None):
    ids = np.asarray(ids, np.int32)
    mask = np.ones_like(ids) if mask is None else np.asarray(mask, np.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def choice(config):
    return models.BertClassifier(config, 1)


def gpt_2(index_file, head=pretrainers.LanguageModel):
    directory = index_file.parent
    reader = tf.train.load_checkpoint(str(directory / "model.ckpt"))
    config = config_files.read(directory / "hparams.json")
    names = reader.get_variable_to_shape_map()
    return filled(head(config), {name: reader.get_tensor(name) for name in names})


def bert(config_file, head=pretrainers.LanguageModel, attention="causal"):
    raw = json.loads(config_file.read_text("utf-8"))["decoder"]
    del raw["add_cross_attention"]
    config = config_lib.BertConfig.from_dict(raw)
    assert config.is_left_to_right
    model = head(dataclasses.replace(config, attention=attention))
    model.build()
    weights = safetensors.numpy.load_file(config_file.parent / "model.safetensors")
    for name, variable in names.named_variables(model):
        key = f"decoder.{name.hugging_face}"
        if "pooler" not in key:  # which no decoder has
            variable.assign(name.from_hugging_face(weights[key]))
    return model


def read_in_steps(model, ids, sizes, capacity, hidden_columns=0, source=()):
    """Logits [B, S, V] through the cache, where `sizes` tokens are read at once."""
    cache = model.empty_cache(len(ids), capacity, *source)
    is_visible = np.arange(capacity)[None] >= np.full((len(ids), 1), hidden_columns)
    logits, start = [], 0
    for size in sizes:
        places = np.tile(np.arange(start, start + size, dtype=np.int32), (len(ids), 1))
        some, cache = model.extend(
            tf.constant(ids[:, start : start + size]),
            tf.constant(places),
            start + hidden_columns,
            tf.constant(is_visible),
            cache,
        )
        logits.append(some)
        start += size
    assert start == ids.shape[1]
    return np.concatenate(logits, axis=1)
