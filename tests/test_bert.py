"""bert_reborn.py on small models: what it opens, computes, writes and refuses."""

import copy
import json
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

import bert_reborn as bert
from cli import library
from contract import errors
from modeling import pretrainers
from modeling.checkpoints import conversion, places, sentence_transformers
from modeling.configs import config
from modeling.features.text_vectors import Projection, TextVectors
from serving import reranking
from terminal import native_log
from tests import no_texts, tf_model_h5, tiny, tokenizer_files

ROOT = pathlib.Path(__file__).resolve().parents[1]

TEXTS = ["The film was great", "the shop", "awful"]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny"
    return tiny.write_model(path, num_hidden_layers=1, max_position_embeddings=128)


@pytest.fixture(scope="module")
def loaded(model_dir):
    return bert.load(model_dir)


@pytest.fixture(scope="module")
def classifier(model_dir):
    return tiny.as_trained(bert.load(model_dir, labels=("bad", "fine", "good")))


@pytest.mark.parametrize("names", [(), ("bad", "fine", "good")])
def test_weights_are_opened_once(model_dir, monkeypatch, names):
    paths, opens = [], places.open_file

    def open_file(path, *arguments, **options):
        paths.append(path)
        return opens(path, *arguments, **options)

    monkeypatch.setattr(places, "open_file", open_file)
    bert.load(model_dir, labels=names)
    assert len(paths) == 1


def test_a_string_is_one_text(loaded, classifier):
    one, wanted = loaded.encode("the shop"), loaded.encode(["the shop"])
    for name, value in wanted.items():
        np.testing.assert_array_equal(one[name], value)
    np.testing.assert_array_equal(loaded.embed("awful"), loaded.embed(["awful"]))
    assert classifier.predict("the shop") == classifier.predict(["the shop"])
    assert len(classifier.predict("abc", "b")) == 1
    assert classifier.predict([]) == []
    assert loaded.embed([]).shape == (0, 32)
    assert loaded.embed([], layers=(0, -1)).shape == (0, 2, 32)


def test_texts_that_do_not_belong_together_are_refused(loaded, classifier):
    for call in (loaded.encode, loaded.embed, classifier.predict):
        with pytest.raises(ValueError, match="seconds: 1 for 2 texts; give"):
            call(["a", "b"], ["c"])
        with pytest.raises(ValueError, match="texts: 3 is no string; give one"):
            call(["a", 3])
    with pytest.raises(ValueError, match="choices: 2 for a text; give 0"):
        classifier.predict("a", choices=["b", "c"])


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("texts", lambda m, c, texts: m.encode(texts)),
        ("texts", lambda m, c, texts: m.embed(texts)),
        ("texts", lambda m, c, texts: m.similarity(texts, TEXTS)),
        ("others", lambda m, c, texts: m.similarity(TEXTS, texts)),
        ("seconds", lambda m, c, texts: m.encode(TEXTS, texts)),
        ("layers", lambda m, c, texts: m.embed(TEXTS, layers=texts)),
        ("texts", lambda m, c, texts: c.predict(texts)),
        ("seconds", lambda m, c, texts: c.predict(TEXTS, texts)),
        ("choices", lambda m, c, texts: c.predict(TEXTS, choices=texts)),
        ("passages", lambda m, c, texts: c.rerank("a", texts, label="bad")),
        ("labels", lambda m, c, texts: bert.load("nowhere", labels=texts)),
        ("labels", lambda m, c, texts: bert.classifier("nowhere", labels=texts)),
    ],
)
def test_what_is_no_list_of_texts_is_refused(loaded, classifier, name, call):
    no_texts.refused(name, lambda texts: call(loaded, classifier, texts))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, c: m.embed("a", prompt=5), "^prompt: 5 is no string; give one"),
        (lambda m, c: m.embed("a", prompt_name=["x"]), r"^prompt_name=\['x'\]: the"),
        (lambda m, c: m.embed([np.eye(2)]), r"^texts: array\(\[\[1., 0.\], \[0., 1.\]"),
        (lambda m, c: m.similarity("a", ["b", 5]), "^others: 5 is no string; give"),
        (
            lambda m, c: c.rerank(5, ["a"], label="bad"),
            "^query: 5 is no string; give one for each text$",
        ),
        (lambda m, c: bert.load(5), "^directory is of type int; give a path as text$"),
        (lambda m, c: bert.load(b"x"), "^directory is of type bytes; give a path as"),
        (lambda m, c: bert.classifier(None), "^directory is of type NoneType; give a"),
        (lambda m, c: m.save(b"x"), "^directory is of type bytes; give a path as text"),
        (lambda m, c: c.export(5), "^export_dir is of type int; give a path as text$"),
        (lambda m, c: bert.Predictor(5), "^export_dir is of type int; give a path as"),
        (lambda m, c: bert.SearchIndex.open(5), "^index_dir is of type int; give a pa"),
        (lambda m, c: bert.load("x", labels="ab"), "^labels='ab' is a string; give a "),
        (
            lambda m, c: bert.load("x", labels=["a", "a"]),
            "^labels: 'a' is named more t",
        ),
        (lambda m, c: bert.load("x", labels=["a", " "]), r"^labels=\['a', ' '\]: one "),
    ],
)
def test_wrong_type_is_refused_with_the_name_of_the_argument(
    loaded, classifier, call, message
):
    with pytest.raises(errors.InputError, match=message):
        call(loaded, classifier)


class Index(list):
    equals = list.__eq__


class Series(list):
    """A column of pandas."""

    def __init__(self, values, index):
        super().__init__(values)
        self.index = Index(index)


def test_columns_with_different_indexes_are_warned_of(loaded, classifier, caplog):
    text = "and seconds have different indexes and are paired row by row; give columns"
    one = Series(["a", "b"], [0, 1])
    wanted = loaded.embed(["a", "b"], ["b", "a"])
    for other, is_shown in (
        (["b", "a"], False),
        (Series(["b", "a"], [0, 1]), False),
        (Series(["b", "a"], [1, 0]), True),
    ):
        caplog.clear()
        np.testing.assert_array_equal(loaded.embed(one, other), wanted)
        assert (text in caplog.text) == is_shown


def test_empty_text_is_refused_as_in_a_test_file(classifier, model_dir):
    made = bert.classifier(model_dir, labels=["a", "b"], allow_empty_text=True)
    tiny.as_trained(made)
    with pytest.raises(
        errors.InputError, match=r"^texts\[1\] is empty; .* or pass all"
    ):
        classifier.predict(["a", " "])
    with pytest.raises(errors.InputError, match=r"^seconds\[0\] is empty; fill it"):
        classifier.predict("a", "")
    assert len(classifier.predict([""], allow_empty_text=True)) == 1
    for rows in (["a", ""], [{"text": "a"}, {"text": ""}]):
        assert len(made.predict(rows)) == 2


def test_loaded_model_is_copied_after_it_has_answered(classifier):
    wanted = classifier.predict(TEXTS)
    again = pickle.loads(pickle.dumps(classifier))
    assert again.predict(TEXTS) == wanted and again.classes == classifier.classes
    assert again.model is not classifier.model
    again.model.compile("adam")  # with the loss of its labels
    assert again.model.loss.from_logits
    assert copy.deepcopy(classifier).predict(TEXTS) == wanted


HALF = "café \ud800x"


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda m, c: m.embed(["a", HALF]), r"texts\[1\]"),
        (lambda m, c: m.embed("a", prompt=HALF), r"prompt\[0\]"),
        (lambda m, c: m.encode(["a"], [HALF]), r"seconds\[0\]"),
        (lambda m, c: m.tokens(HALF), r"texts\[0\]"),
        (lambda m, c: m.attention("a", HALF), r"seconds\[0\]"),
        (lambda m, c: c.predict(["a", "b", HALF]), r"texts\[2\]"),
        (lambda m, c: c.rerank(HALF, ["a"], label="bad"), r"query\[0\]"),
        (lambda m, c: c.rerank("a", ["b", HALF], label="bad"), r"passages\[1\]"),
    ],
)
def test_half_a_character_is_refused_with_its_place(loaded, classifier, call, place):
    match = rf"^{place} has '\\ud800', which is half a .* after 'café '; remove it$"
    with pytest.raises(errors.InputError, match=match):
        call(loaded, classifier)


def test_half_a_character_of_labels_and_rows_is_refused(model_dir):
    with pytest.raises(errors.InputError, match=r"labels\[1\] has '\\udc00'"):
        bert.load(model_dir, labels=["a", "\udc00"])
    with pytest.raises(errors.InputError, match=r"labels\[0\] has '\\udc00'"):
        bert.classifier(model_dir, labels=["\udc00", "x", "y"])
    for row, column in (((HALF, "x"), "text"), (("b", [HALF]), "label")):
        with pytest.raises(errors.InputError, match=rf'"train"\]:2: {column} has'):
            bert.classifier(model_dir).read({"train": [("a", "x"), row]})


def test_pairs_of_a_network_of_one_segment_are_refused(tmp_path):
    place = tiny.write_model(tmp_path / "model", type_vocab_size=1)
    model = bert.load(place, max_seq_length=16)
    assert model.embed(["a"]).shape == (1, 32)
    labelled = [("a", "b", "no"), ("c", "d", "yes")]
    for call in (
        lambda: model.embed(["a"], ["b"]),
        lambda: model.encode(["a"], ["b"]),
        lambda: model.attention("a", "b"),
        lambda: bert.classifier(place, max_seq_length=16).read({"train": labelled}),
    ):
        with pytest.raises(ValueError, match=r"type_vocab_size is 1, and .* are pairs"):
            call()
    singles = [(text, label) for text, _, label in labelled]
    made = bert.classifier(place, max_seq_length=16)
    assert made.read({"train": singles}) and made.num_texts == 1


def test_features_of_other_libraries_are_named(loaded):
    features = loaded.encode(TEXTS)
    theirs = dict(
        zip(
            ("input_ids", "attention_mask", "token_type_ids"),
            features.values(),
            strict=True,
        )
    )
    for call in (loaded.model, loaded.model.predict):
        with pytest.raises(ValueError) as caught:
            call({name: np.asarray(value) for name, value in theirs.items()})
        message = str(caught.value)
        assert (
            "features have no input_mask and no segment_ids, but input_ids" in message
        )
        assert "input_mask (attention_mask elsewhere)" in message
        assert "\x1b" not in message
    with pytest.raises(ValueError, match="have no segment_ids, but input_ids, input_m"):
        loaded.model({name: features[name] for name in ("input_ids", "input_mask")})


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_embedded_texts(loaded, pooling):
    texts = [*TEXTS, "a b c d e f g h"]
    actual = loaded.embed(texts, pooling=pooling)
    features = loaded.encode(texts)
    outputs = loaded.model(features)
    tokens = np.asarray(outputs["sequence_output"])
    mask = np.asarray(features["input_mask"])[..., None]
    mean = (tokens * mask).sum(axis=1) / mask.sum(axis=1)
    wanted = mean if pooling == "mean" else tokens[:, 0]
    np.testing.assert_allclose(actual, wanted, atol=1e-6)
    assert np.ptp(actual, axis=0).max() > 0.1
    unit = loaded.embed(texts, pooling=pooling, normalize=True)
    length = np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, wanted / length, atol=1e-6)
    both = loaded.embed(texts, pooling=pooling, layers=(0, -1))
    np.testing.assert_array_equal(both[:, 0], both[:, 1])  # there is one layer
    np.testing.assert_allclose(both[:, 1], wanted, atol=1e-6)


def write_text_encoder(path, loaded):
    """One of sentence-transformers: the largest values, a projection, prompts."""
    kind = TextVectors("max", False, (Projection(8),))
    config = loaded.model.config
    model = pretrainers.build("text_encoder", None, config, text_vectors=kind)
    modules = sentence_transformers.SentenceTransformer(
        text_vectors=kind,
        max_seq_length=24,
        prompts={"query": "the film ", "passage": "a shop "},
        default_prompt="query",
    )
    path.mkdir()
    conversion.write_directory(
        path, model, "hugging_face", tokenizer=loaded.tokenizer, modules=modules
    )


@pytest.fixture(scope="module")
def text_encoder(model_dir, loaded, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "vectors"
    write_text_encoder(path, loaded)
    return bert.load(path)


def test_text_encoder_embeds_as_its_directory_describes(text_encoder):
    model = text_encoder.model
    with_query = [f"the film {text}" for text in TEXTS]
    wanted = model(text_encoder.encode(with_query))["vectors"]
    actual = text_encoder.embed(TEXTS)
    np.testing.assert_allclose(actual, wanted, atol=1e-6)
    plain = model(text_encoder.encode(TEXTS))["vectors"]
    assert np.abs(wanted - plain).max() > 1e-2
    for options, texts in (
        ({"prompt": ""}, TEXTS),
        ({"prompt_name": "passage"}, [f"a shop {text}" for text in TEXTS]),
        ({"prompt": "it was "}, [f"it was {text}" for text in TEXTS]),
        ({"prompt_name": "query"}, with_query),
    ):
        value = model(text_encoder.encode(texts))["vectors"]
        np.testing.assert_allclose(
            text_encoder.embed(TEXTS, **options), value, atol=1e-6
        )


def test_chosen_vectors_are_those_of_the_network(text_encoder, tmp_path):
    text_encoder.save(tmp_path / "hf", "hugging_face")
    network = bert.load(tmp_path / "hf", head="none", max_seq_length=24)
    assert network.modules is None and network.embed(TEXTS).shape == (3, 32)
    both = {"pooling": "mean", "normalize": True}
    for options in ({"pooling": "mean"}, {"layers": (0, -1)}, both):
        np.testing.assert_allclose(
            text_encoder.embed(TEXTS, **options),
            network.embed(TEXTS, **options),
            atol=1e-6,
        )
    prompted = text_encoder.embed(TEXTS, pooling="cls", prompt_name="passage")
    texts = [f"a shop {text}" for text in TEXTS]
    np.testing.assert_allclose(prompted, network.embed(texts, pooling="cls"), atol=1e-6)


def test_normalized_vectors_are_those_of_the_directory_with_length_1(text_encoder):
    """With its projection of 8 values and after its prompt, as without `normalize`."""
    wanted = text_encoder.embed(TEXTS)
    length = np.linalg.norm(wanted, axis=1, keepdims=True)
    assert wanted.shape == (3, 8) and np.abs(length - 1).min() > 0.1
    unit = text_encoder.embed(TEXTS, normalize=True)
    np.testing.assert_allclose(unit, wanted / length, atol=1e-6)
    assert type(unit) is np.ndarray and unit.dtype == np.float32
    np.testing.assert_array_equal(text_encoder.embed(TEXTS, normalize=False), wanted)
    other = text_encoder.embed(TEXTS, normalize=True, prompt="")
    assert np.abs(other - unit).max() > 1e-2


def test_methods_of_a_fitted_model_are_pointed_to(loaded):
    for name in ("fit", "evaluate", "report", "read"):
        message = rf"no attribute '{name}'; bert\.classifier, tagger, .* has it$"
        with pytest.raises(AttributeError, match=message):
            getattr(loaded, name)
    with pytest.raises(AttributeError, match=r"no attribute 'fitt'$"):
        _ = loaded.fitt


def test_similarity_is_the_cosine(text_encoder, loaded):
    others = [*TEXTS, "a b c d e f g h"]
    for model in (text_encoder, loaded):
        actual = model.similarity(TEXTS, others)
        first, second = model.embed(TEXTS), model.embed(others)
        for i, j in np.ndindex(3, 4):
            norms = np.linalg.norm(first[i]) * np.linalg.norm(second[j])
            wanted = first[i] @ second[j] / norms
            assert actual[i, j] == pytest.approx(wanted, abs=1e-6)
        assert actual.dtype == np.float32 and np.ptp(actual[:, 3]) > 1e-3
    assert loaded.similarity([], TEXTS).shape == (0, 3)


def test_mask_is_filled_as_the_network_scores_it(model_dir):
    filler = bert.load(model_dir, head="pretraining")
    tokens, shares = zip(*filler.fill_mask("the [MASK] was", top_k=9), strict=True)
    ids = [filler.tokenizer.cls_id, *filler.tokenizer.tokenize("the").numpy()]
    ids += [filler.tokenizer.mask_id, *filler.tokenizer.tokenize("was").numpy()]
    grid = np.array([[*ids, filler.tokenizer.sep_id]])
    inputs = {"input_ids": grid, "segment_ids": 0 * grid, "input_mask": 0 * grid + 1}
    logits = filler.model({**inputs, "masked_lm_positions": np.array([[2]])})
    exact = np.exp(np.array(logits["masked_lm_logits"][0, 0], np.float64))
    best = np.argsort(-exact)[:9]
    assert list(tokens) == filler.tokenizer.ids_to_tokens(best)
    np.testing.assert_allclose(shares, (exact / exact.sum())[best], atol=1e-6)
    assert shares[0] > shares[8] and len(filler.fill_mask("[MASK]")) == 5
    assert filler.fill_mask("a [MASK] was", top_k=9) != [
        *zip(tokens, shares, strict=True)
    ]


@pytest.mark.parametrize(
    ("head", "text", "top_k", "message"),
    [
        ("none", "[MASK]", 5, 'BertModel has no head .* with head="pretraining"'),
        ("pretraining", "a [mask]", 5, r"fill_mask: 0 \[MASK\] in 128 tokens; give"),
        ("pretraining", "[MASK] [MASK] [MASK]", 5, r"3 \[MASK\] in .* with one"),
        ("pretraining", "[MASK]", 500, "^top_k=500 exceeds the"),
        ("pretraining", ["[MASK]"], 5, r"^text: \['\[MASK\]'\] is no string; give"),
        ("pretraining", "[MASK]", 0, "^top_k=0 is no whole number of 1 or more$"),
        (
            "pretraining",
            "[MASK]",
            "5",
            "^top_k='5' is no whole number of 1 or more$",
        ),
    ],
)
def test_mask_that_cannot_be_filled_is_refused(model_dir, head, text, top_k, message):
    loaded = bert.load(model_dir, head=head)
    with pytest.raises(ValueError, match=message):
        loaded.fill_mask(text, top_k)


def test_prompts_that_are_not_there_are_refused(text_encoder, loaded):
    with pytest.raises(
        ValueError, match=r"prompt_name='x': the prompts .* query, passage; cho"
    ):
        text_encoder.embed(TEXTS, prompt_name="x")
    with pytest.raises(ValueError, match="prompt='' and prompt_name='query'; give one"):
        text_encoder.embed(TEXTS, prompt_name="query", prompt="")
    with pytest.raises(
        ValueError, match=r"the prompts of this model are none; .*mpt=$"
    ):
        loaded.embed(TEXTS, prompt_name="query")
    np.testing.assert_array_equal(
        loaded.embed(["film"], prompt="the "), loaded.embed(["the film"])
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: bert.load(m, labels="abc"), "labels='abc' is a string; give a list"),
        (lambda m: bert.load(m, max_seq_length=3), "^max_seq_length=3: give 4 tokens"),
        (
            lambda m: bert.classifier(m, max_seq_length=True),
            "^max_seq_length=True: give 4 tokens or more",
        ),
        (
            lambda _: bert.optimizer(10, float("nan")),
            "learning_rate=nan; give a finite number of 0 or more",
        ),
        (lambda _: bert.optimizer(10, -1), "learning_rate=-1; give"),
        (lambda _: bert.optimizer(0), "num_train_steps=0"),
        (
            lambda _: bert.optimizer(10, 1e-4, 2),
            "num_train_steps=10, num_warmup_steps=20",
        ),
        (
            lambda m: bert.load(m).embed(TEXTS, pooling="max"),
            "pooling='max' is not one of cls, mean",
        ),
        (
            lambda m: bert.load(m).embed(TEXTS, layers=[3]),
            "^layers: layer 3, and the network has 1",
        ),
        (
            lambda m: bert.load(m).predict(["a"]),
            r"a BertModel is no classifier; make one",
        ),
        (
            lambda m: tiny.as_trained(bert.load(m, labels=["a", "b"])).export(
                m / "export", quantization="dynamic_int8"
            ),
            '^quantization="dynamic_int8" is for LiteRT and ONNX exports; add export_f',
        ),
        (
            lambda m: tiny.as_trained(bert.load(m, labels=[*"ab"])).export(
                m / "e", export_format="lite"
            ),
            '^export_format="lite" is not one of saved_model, litert, onnx; choose one',
        ),
        (
            lambda m: tiny.as_trained(bert.load(m, labels=[*"ab"])).export(
                m / "export", seconds=["a"]
            ),
            "^texts is of type NoneType; give a list",
        ),
        (
            lambda m: tiny.as_trained(bert.load(m, labels=[*"ab"])).export(
                m / "export",
                export_format="onnx",
                quantization="static_int8",
                texts=["", " "],
            ),
            "^texts: all are blank; pass some with words",
        ),
        (
            lambda m: bert.load(m, max_seq_length=129),
            "only trained up to sequence length 128",
        ),
        (lambda m: bert.load(m).embed("a", layers=[True]), "^layers: layer True, and"),
        (lambda m: bert.load(m).embed("a", layers=[-1.0]), "^layers: layer -1.0, and"),
        (lambda _: bert.load("nowhere"), "^directory=nowhere: no such "),
        (
            lambda _: bert.classifier("nowhere"),
            "^directory=nowhere: no such ",
        ),
    ],
)
def test_call_that_cannot_be_answered_is_refused(model_dir, call, message):
    with pytest.raises(ValueError, match=message):
        call(model_dir)
    assert not (model_dir / "export").exists()


ROWS = tiny.rows(12)
DICTS = [{"body": text, "topic": label} for text, label in ROWS]


class Frame:
    def to_dict(self, orient):
        assert orient == "records"
        return [{"text": text, "label": np.str_(label)} for text, label in ROWS]

    def __bool__(self):
        raise ValueError("the truth value of a DataFrame is ambiguous")


def test_tables_in_memory(model_dir):
    kinds = {"text_a_column": "body", "label_column": "topic"}
    for rows, columns in ((ROWS, {}), (DICTS, kinds), (Frame(), {})):
        made = bert.classifier(model_dir, **columns)
        data = made.read({"train": rows})
        assert data.splits["train"].table.text_a == [text for text, _ in ROWS]
        assert data.label_set.names == ("bad", "fine", "good")
        assert data.splits["train"].label_ids.tolist() == [0, 1, 2] * 4
        assert made.num_texts == 1
    with pytest.raises(ValueError, match=r"^predict: .*: lacks output_weights, output"):
        made.predict(["a"])
    tiny.as_trained(made)
    with pytest.raises(ValueError, match="made for single texts; leave them out"):
        made.predict(["a"], ["b"])


def test_labels_in_memory_are_looked_at(model_dir):
    rows = [(text, label.title()) for text, label in ROWS] + ROWS
    match = r"'Good' \(4\) and 'good' \(4\) are .*\n?.* every label .* with labels"
    with pytest.raises(ValueError, match=r"'Bad' \(4\) and 'bad' \(4\) are spellings"):
        bert.classifier(model_dir).read({"train": rows})
    with pytest.raises(ValueError, match=match):
        bert.classifier(model_dir).read({"train": rows})
    names = ["good", "Good", "bad", "Bad", "fine", "Fine"]
    made = bert.classifier(model_dir, labels=names)
    made.read({"train": rows})
    assert made.classes.names == tuple(names)


def test_columns_of_0_and_1_in_memory(model_dir):
    rows = [
        {"text": text, "good": label == "good", "bad": int(label == "bad")}
        for text, label in ROWS
    ]
    made = bert.classifier(model_dir, label_column=["good", "bad"])
    data = made.read({"train": rows})
    assert (made.classes.names, data.problem_type) == (("good", "bad"), "multi_label")
    hot = np.asarray(data.splits["train"].label_ids)
    wanted = [[label == "good", label == "bad"] for _, label in ROWS]
    assert hot.astype(bool).tolist() == wanted


def test_pairs_and_numbers_in_memory(model_dir):
    rows = [(text, "the", np.float32(i)) for i, (text, _) in enumerate(ROWS)]
    made = bert.classifier(model_dir, problem_type="regression")
    data = made.read({"train": rows, "dev": rows[:2]})
    assert data.splits["dev"].label_ids.tolist() == [0.0, 1.0] and made.num_texts == 2
    tiny.as_trained(made)
    with pytest.raises(ValueError, match="made for pairs of texts; give one for each"):
        made.predict(["a"])
    assert len(made.predict(["a"], ["b"])) == 1
    passages = [text for text, _ in ROWS[:5]]
    ranked = made.rerank("good", passages)
    answers = made.predict(["good"] * 5, passages)
    scores = {i: answer["score"] for i, answer in enumerate(answers)}
    best = sorted(scores.items(), key=lambda pair: -pair[1])
    assert [place for place, _ in ranked] == [place for place, _ in best]
    values = [value for _, value in ranked]
    assert values == pytest.approx([value for _, value in best], abs=1e-5)
    assert made.rerank("good", []) == []


@pytest.mark.parametrize(
    "label",
    [
        None,
        pytest.param("fine", marks=pytest.mark.slow),
        pytest.param("good", marks=pytest.mark.slow),
    ],
)
def test_passages_are_ranked_by_a_label_or_the_last_of_two(model_dir, label, tmp_path):
    rows = [(text, text, name) for text, name in ROWS if label or name != "fine"]
    made = bert.classifier(model_dir)
    made.read({"train": rows})
    tiny.as_trained(made)
    passages = ["good", "bad thing", "fine"]
    answers = made.predict(["a"] * 3, passages)
    scores = [answer["probabilities"][label or "good"] for answer in answers]
    places, values = zip(*made.rerank("a", passages, label=label), strict=True)
    assert list(values) == pytest.approx(sorted(scores, reverse=True), abs=1e-6)
    assert scores[places[0]] == max(scores)
    for wrong in ("best", *[None][: bool(label)]):
        with pytest.raises(ValueError, match=f"'good'.*not by {wrong!r}; set label$"):
            made.rerank("a", passages, label=wrong)
    single = bert.classifier(model_dir)
    single.read({"train": ROWS})
    tiny.as_trained(single)
    with pytest.raises(ValueError, match="made for single texts; leave them out"):
        single.rerank("a", passages, label="good")
    single.save(tmp_path / "run")
    with pytest.raises(ValueError, match="made for single texts; leave them out"):
        bert.load(tmp_path / "run").rerank("a", passages, label="good")
    label_map = tmp_path / "run" / "label_map.json"
    content = json.loads(label_map.read_text())
    assert content.pop("num_texts") == "1"
    label_map.write_text(json.dumps(content))  # as earlier versions wrote it
    again = bert.load(tmp_path / "run")
    assert len(again.rerank("a", passages, label="good")) == 3  # nothing tells it
    for odd in ({}, {"flags": 5}, {"flags": {"max_seq_length": {"a": 1}}}):
        (tmp_path / "run" / "run.json").write_text(json.dumps(odd))
        assert bert.load(tmp_path / "run").max_seq_length == 128
    for identity, count in (
        ({"num_texts": 1, "labels": ["fine", "good"]}, 1),
        ({"num_texts": 2, "labels": ["fine", "good"]}, 2),
        ({"num_texts": 4, "labels": ["0", "1", "2"]}, 1),
        ({"num_texts": 4, "labels": ["0", "1"]}, 2),
    ):
        (tmp_path / "run" / "run.json").write_text(json.dumps({"identity": identity}))
        assert bert.load(tmp_path / "run").num_texts == count
    for more, count in (({}, 1), ({"text_b_column": "b"}, 2)):
        run = {"flags": {"text_a_column": "a", "choice_columns": [], **more}}
        (tmp_path / "run" / "run.json").write_text(json.dumps(run))
        assert bert.load(tmp_path / "run").num_texts == count


@pytest.mark.parametrize(
    ("files", "columns", "message"),
    [
        ({"train": ROWS, "valid": ROWS}, {}, "files has the key 'valid'; its keys are"),
        ({"dev": ROWS}, {}, 'files has no "train", which'),
        (
            {"train": ROWS},
            {"text": "x"},
            "classifier has the key 'text'; .* text_a_col",
        ),
        ({"train": []}, {}, r'files\["train"\]: is empty; give it one row per example'),
        ({"train": [(1, 2, 3, 4)]}, {}, r'files\["train"\]:1: \(1, .* has 4 values'),
        (
            {"train": ROWS, "test": [*ROWS, ("", "good")]},
            {},
            r'files\["test"\]:13: text_a is empty.* pass allow_empty_text=True$',
        ),
        (
            {"train": DICTS},
            {},
            r"none of \['body', 'topic'\]; pass text_a_column$",
        ),
        ({"train": "nowhere.tsv"}, {}, "nowhere.tsv"),
        (
            {"train": "rows.tsv"},
            {},
            "give them to text_a_column, .* and label_column, .* and has_header=False$",
        ),
    ],
)
def test_wrong_tables_are_refused_in_the_words_of_python(
    model_dir, files, columns, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    tiny.write_tsv("rows.tsv", ("body", "topic"), ROWS)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        bert.classifier(model_dir, **columns).read(files)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "targets"),
    [
        ("classification", [0, 2, 1]),
        ("multi_label", np.eye(3)),
        ("regression", [0.5, 2.0, 1.0]),
    ],
)
def test_model_is_compiled_with_the_loss_of_its_labels(model_dir, kind, targets):
    names = () if kind == "regression" else ("bad", "fine", "good")
    made = bert.classifier(
        model_dir, labels=names, problem_type=kind, max_seq_length=16
    )
    features, targets = made.encode(TEXTS), np.array(targets)
    logits = np.asarray(made.model(features)["logits"], np.float64)
    made.model.compile(optimizer="adam")
    actual = made.model.evaluate(features, targets, verbose=0)
    if kind == "classification":
        exact = np.log(np.exp(logits).sum(axis=1)) - logits[range(3), targets]
    elif kind == "multi_label":
        exact = np.log1p(np.exp(logits)) - logits * targets
    else:
        exact = (logits[:, 0] - targets) ** 2
    assert actual == pytest.approx(exact.mean(), abs=1e-5)
    history = made.model.fit(features, targets, epochs=2, verbose=0).history["loss"]
    assert history[1] != history[0]


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        "BinaryCrossentropy",
        bert.keras.losses.SparseCategoricalCrossentropy(),
    ],
)
def test_loss_of_probabilities_is_refused(classifier, loss):
    match = r"^loss=\w+ takes probabilities, .* leave loss out, or .*from_logits=True$"
    with pytest.raises(errors.InputError, match=match):
        classifier.model.compile("adam", loss=loss)
    classifier.model.compile("adam", loss="mse")


def rewrite(folder, leave_out=(), **config):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    weights = folder / "model.safetensors"
    held = safetensors.numpy.load_file(weights)
    held = {key: held[key] for key in held if not key.startswith(tuple(leave_out))}
    safetensors.numpy.save_file(held, weights, metadata={"format": "pt"})


def keys(folder):
    return {*safetensors.numpy.load_file(folder / "model.safetensors")}


def test_directories_of_transformers_4_and_5_are_read(loaded, tmp_path):
    """TensorFlow's weights of release 4; the one tokenizer file of release 5."""
    loaded.save(tmp_path / "4", "hugging_face")
    tf_model_h5.replace_safetensors(tmp_path / "4")
    loaded.save(tmp_path / "5", "hugging_face")
    listed = (tmp_path / "5" / "vocab.txt").read_text().split()
    last = {token: i for i, token in enumerate(listed)}  # one is there twice
    vocab = [t if last[t] == i else f"[unused{i}]" for i, t in enumerate(listed)]
    (tmp_path / "5" / "vocab.txt").unlink()
    added = [
        {"id": i, "content": token, "normalized": False, "special": True}
        for i, token in enumerate(vocab)
        if token.startswith("[")
    ]
    tokenizer = tokenizer_files.of_word_pieces(vocab, added)
    (tmp_path / "5" / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}
    (tmp_path / "5" / "tokenizer_config.json").write_text(json.dumps(settings))
    for folder, weights in (("4", "tf_model.h5"), ("5", "model.safetensors")):
        again = bert.load(tmp_path / folder)
        assert f"{folder}/{weights}: 23 of 23 variables assigned" in again.source
        assert again.tokens("The FILM") == loaded.tokens("The FILM")
        np.testing.assert_array_equal(again.embed(TEXTS), loaded.embed(TEXTS))


def test_what_was_drawn_at_random_is_not_saved(model_dir, tmp_path):
    whole = bert.load(model_dir, head="pretraining")
    whole.save(tmp_path / "whole", "hugging_face")
    assert {"bert.pooler.dense.bias", "cls.seq_relationship.bias"} <= keys(
        tmp_path / "whole"
    )
    rewrite(tmp_path / "whole", ["bert.pooler", "cls.seq_relationship"])
    masked = bert.load(tmp_path / "whole", head="pretraining")
    masked.save(tmp_path / "hf", "hugging_face")
    again = bert.load(tmp_path / "hf", head="pretraining")
    assert sorted(again.drawn) == sorted(masked.drawn) and len(again.drawn) == 4
    raw = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert raw["architectures"] == ["BertForMaskedLM"]
    assert keys(tmp_path / "hf") == keys(tmp_path / "whole")
    # What was trained meanwhile is saved.
    variable = masked.model.next_sentence.trainable_variables[0]
    variable.assign(variable + 1.0)
    masked.save(tmp_path / "trained", "hugging_face")
    assert any("cls.seq_relationship" in key for key in keys(tmp_path / "trained"))


def test_tagger_is_saved_without_a_pooler_that_it_lacks(model_dir, tmp_path):
    bert.load(model_dir).save(tmp_path / "hf", "hugging_face")
    rewrite(tmp_path / "hf", ["bert.pooler"])
    tagger = bert.load(tmp_path / "hf", head="tagger", labels=["O", "B-a", "I-a"])
    tagger.save(tmp_path / "tags", "hugging_face")
    assert not any("pooler" in key for key in keys(tmp_path / "tags"))
    again = bert.load(tmp_path / "tags")
    features = again.encode(TEXTS)
    np.testing.assert_array_equal(
        again.model(features)["logits"], tagger.model(features)["logits"]
    )
    # A classifier reads it, so it is a part of what was made.
    made = tiny.as_trained(bert.load(tmp_path / "hf", labels=["a", "b"]))
    made.save(tmp_path / "classes", "hugging_face")
    assert bert.load(tmp_path / "classes").predict(TEXTS) == made.predict(TEXTS)


def test_random_pooler_of_a_trained_head_answers_nothing(model_dir, tmp_path):
    """As the script refuses these weights; `embed` does not read them."""
    tiny.as_trained(bert.load(model_dir, labels=["a", "b"])).save(
        tmp_path / "hf", "hugging_face"
    )
    rewrite(tmp_path / "hf", ["bert.pooler"])
    loaded, made = bert.load(tmp_path / "hf"), bert.classifier(tmp_path / "hf")
    rows = [("the film", "a")]
    calls = {
        "predict": [lambda m: m.predict(TEXTS)],
        "rerank": [lambda m: m.rerank("the film", TEXTS)],
        "export": [lambda m: m.export(tmp_path / "export")],
        "evaluate": [lambda m: made.evaluate(rows)],
    }
    for action, (call,) in calls.items():
        for model in (loaded, made):
            match = (
                rf"^{action}: .*hf/model.safetensors: lacks bert/pooler/dense/kernel"
            )
            with pytest.raises(errors.InputError, match=match):
                call(model)
    assert not (tmp_path / "export").exists()
    lacks = "hf/model.safetensors: lacks bert/pooler/dense/kernel"
    with pytest.raises(errors.InputError, match=lacks):
        reranking.open_source(str(tmp_path / "hf"), None)
    tiny.write_tsv(tmp_path / "a.tsv", ("text", "label"), [("film", "a"), ("x", "b")])
    files = f"--train_file={tmp_path}/a.tsv --output_dir={tmp_path}/student"
    files += f" --pretrained={model_dir} --teacher={tmp_path}/hf --train_batch_size=2"
    assert lacks in tiny.refuse("run_classifier", files, "--do_train")
    assert loaded.embed(TEXTS, pooling="cls").shape == (len(TEXTS), 32)
    loaded.save(tmp_path / "saved", "hugging_face")
    assert keys(tmp_path / "saved") == keys(tmp_path / "hf")
    # A head that was trained on the random pooler reads it.
    head = loaded.model.classifier.trainable_variables[0]
    head.assign(head * 1.5)
    assert len(loaded.predict(TEXTS)) == len(TEXTS)
    loaded.save(tmp_path / "trained", "hugging_face")
    answers = bert.load(tmp_path / "trained").predict(TEXTS)
    assert answers == loaded.predict(TEXTS)


def test_mask_is_not_filled_by_a_random_head(model_dir, tmp_path):
    bert.load(model_dir, head="pretraining").save(tmp_path / "hf", "hugging_face")
    rewrite(tmp_path / "hf", ["cls.predictions"])
    loaded = bert.load(tmp_path / "hf", head="pretraining")
    with pytest.raises(errors.InputError, match=r"^fill_mask: .*: lacks cls/predict"):
        loaded.fill_mask("the [MASK]")


def test_names_are_those_of_the_packages():
    assert all(getattr(bert, name) is not None for name in dir(bert))
    assert bert.BertConfig is config.BertConfig and bert.Loaded is library.Loaded
    with pytest.raises(AttributeError, match="'bert_reborn' has no attribute 'np'"):
        _ = bert.np


QUIET = """
import logging, sys
import bert_reborn as bert
loaded = bert.load(sys.argv[1])
assert logging.getLogger("tensorflow").level == logging.WARNING
assert loaded.embed(["a b"]).shape == (1, 32)
"""


@pytest.mark.skipif(native_log.has_gpu(), reason="says what becomes of the GPU")
@pytest.mark.slow
def test_standard_error_stays_empty(model_dir):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    done = subprocess.run(
        [sys.executable, "-c", QUIET, str(model_dir)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and done.stdout.startswith("weights: ")


def test_classes_without_names_are_called_as_hugging_face_does(classifier, tmp_path):
    classifier.save(tmp_path / "hf", "hugging_face")
    (tmp_path / "hf" / "label_map.json").unlink()
    default = {str(i): f"LABEL_{i}" for i in range(3)}
    theirs = "multi_label_classification"
    rewrite(tmp_path / "hf", id2label=default, problem_type=theirs)
    again = bert.load(tmp_path / "hf")
    assert again.classes.problem_type == "multi_label"
    (answer,) = again.predict("the shop")
    assert list(answer["probabilities"]) == [*default.values()]
    again.save(tmp_path / "saved", "hugging_face")
    raw = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert (raw["id2label"], raw["problem_type"]) == (default, theirs)
