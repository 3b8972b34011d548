"""Mistakes that people make: one line says what is wrong and what to do, at once.

Each case is a command on good input with one thing wrong with it. What settings show
without data and weights: tests/tasks/settings/test_refusals.py.
"""

import json
import shutil

import pytest

from modeling import models
from modeling.checkpoints import google
from modeling.configs import config as config_lib
from tests import tiny, tiny_elmo, tiny_gpt, tiny_questions, whole_runs

# Commands, with {d} for a directory that `places` fills and {o} for another.
COMMANDS = {
    "classification": (
        "run_classifier --bert_config_file={d}/model/bert_config.json "
        "--vocab_file={d}/model/vocab.txt --init_checkpoint={d}/model/bert_model.ckpt "
        "--train_file={d}/train.tsv --dev_file={d}/dev.tsv --test_file={d}/test.tsv "
        "--output_dir={o} --max_seq_length=16 --train_batch_size=2"
    ),
    "choice": (
        "run_classifier --pretrained={d}/model --choice_columns=one,two --do_train "
        "--do_eval --train_file={d}/choices.tsv --dev_file={d}/choices.tsv "
        "--output_dir={o} --max_seq_length=16"
    ),
    "questions": (
        "run_squad --pretrained={d}/model --output_dir={o} --max_seq_length=24 "
        "--max_query_length=4 --doc_stride=8"
    ),
    "tags": "run_tagger --pretrained={d}/model --output_dir={o} --max_seq_length=16",
    "pairs": (
        "run_seq2seq --pretrained={d}/model --output_dir={o} --do_train "
        "--max_source_length=16 --max_target_length=6"
    ),
    "pretraining": (
        "run_pretraining --bert_config_file={d}/model/bert_config.json "
        "--output_dir={o} --input_file={d}/mask*.tfrecord --max_seq_length=16 "
        "--do_train --max_predictions_per_seq=3 --train_batch_size=8 "
        "--num_train_steps=2"
    ),
    "left_to_right": (
        "run_pretraining --pretrained={d}/model_left_to_right --output_dir={o} "
        "--input_file={d}/unmasked.tfrecord --max_seq_length=16 --do_train "
        "--objective=left_to_right --num_train_steps=2"
    ),
    "replaced_tokens": (
        "run_pretraining --pretrained={d}/model_electra --output_dir={o} --do_train "
        "--input_file={d}/unmasked.tfrecord --max_seq_length=16 --num_train_steps=2 "
        "--max_predictions_per_seq=3 --objective=replaced_tokens"
    ),
    "convert": "convert_checkpoint --input={d}/model --to=google --output_dir={o}",
    "features": (
        "extract_features --pretrained={d}/model --input_file={d}/lines.txt "
        "--output_file={o} --max_seq_length=16 --layers=-1"
    ),
    "generation": "run_generation --pretrained={d}/gpt2",
    "streams": (
        "run_pretraining --pretrained={d}/model_streams --output_dir={o} --do_train "
        "--input_file={d}/part-*.txt --objective=bidirectional_lm --num_train_steps=2 "
        "--train_batch_size=4"
    ),
}
# {command: {further flags: words of the line}}
MISTAKES = {
    "classification": {
        "--do_train --train_file=": "--train_file is not set|--task_name",
        "--do_train --vocab_file=": "--vocab_file is missing|--pretrained",
        "--do_train --task_name=MRPX": "Task not found: MRPX|mrpc|docs/migration.md",
        "--do_train --labels=bad,good,bad": "--labels|'bad'|remove one",
        "--do_train --class_weights=1,2": "=1,2|2 numbers for 3 classes",
        "--do_train --class_weights=1,2,x": "--class_weights=1,2,x|'x'|correct it",
        "--do_train --evaluate_steps=2 --best_metric=bleu": "=bleu|accuracy|loss",
        "--do_train --text_b_column=label": "--text_a_column",
        "--do_train --train_file={d}/folder.tsv": "folder.tsv|cannot be read",
        "--do_train --output_dir={d}/dev.tsv": "--output_dir|dev.tsv|directory",
        "--do_train --max_seq_length=49": (
            "sequence length 49|up to sequence length 48|bert_config.json|lower --max_"
        ),
        "--do_train --train_file={d}/god.tsv --labels=bad,good": (
            "god.tsv:4|'god'|closest: 'good'|['bad', 'good']|--labels"
        ),
        "--do_train --train_file={d}/latin.tsv": (
            "latin.tsv:3|0xe9|number 6|convert the file to UTF-8"
        ),
        "--do_train --train_batch_size=256": (
            "48 training examples|--train_batch_size=256|lower the batch size"
        ),
        "--do_train --num_train_epochs=1e20": (
            "--num_train_epochs=1e+20 of 48 training|more than 2,147,483,647|lower"
        ),
        "--do_predict": "labels have no names|--labels|label_map.json",
        "--do_eval --do_train --dev_file={d}/odd.tsv": "odd.tsv:2|'terrible'|--labels",
        "--do_train --write_tf_records --pretrained={d}/model_streams "
        "--bert_config_file= --vocab_file= --init_checkpoint=": (
            "--write_tf_records writes a number for each token"
        ),
        "--do_train --do_eval --grid=train_batch_size=8,64 --num_train_epochs=0.9": (
            "48 training examples|--train_batch_size=64"
        ),
        "--do_train --profile_steps=1,99": "last step of this run, 72",
        "--do_train --profile_steps=3": "two ascending steps",
        "--do_train --profile_steps=²,3": "--profile_steps=²,3 are not two ascending",
        "--do_train --label_smoothing=0.1 --teacher=there": (
            "--label_smoothing=0.1 is for rows with one label|--teacher|leave it out"
        ),
        "--do_train --label_smoothing=0.1 --problem_type=multi_label": (
            "--label_smoothing=0.1 is for rows with one label|leave it out"
        ),
        **{
            f"--{action} --labels=bad,fine,good": (
                "bert_model.ckpt|lacks output_weights, output_bias|--do_train"
            )
            for action in ("do_eval", "do_predict", "do_export")
        },
    },
    "choice": {
        "--pretrained={d}/one_segment": "one_segment/bert_config.json: type_vocab_size",
        "--teacher=there": "--teacher is for labels that all examples share|leave it",
        "--explain=3": "--explain=3 weighs the words of one sequence|leave it out",
        "--write_projector": "--write_projector is for labels|leave it out",
        "--pair_input=both_orders": "these rows have choices|leave it out",
        "--problem_type=multi_label": "stands beside --choice_columns|leave one",
        "--class_weights=balanced": "is not for choice|leave it out",
        "--lm_loss_weight=0.5": (
            "=0.5 predicts each token|bert_config.json sees both sides; leave it out"
        ),
    },
    "questions": {
        "--do_train --train_file={d}/train.json --pretrained={d}/one_segment": (
            "one_segment/bert_config.json: type_vocab_size is 1|give single texts or"
        ),
        "--do_predict --predict_file={d}/bad.json": "bad.json: cannot be read",
        "--do_predict --predict_file={d}/dev.json": "cls/squad/output_weights",
        "--do_predict --predict_file={d}/dev.json --max_query_length=21": (
            "--max_query_length=21|--max_seq_length=24"
        ),
        "--do_predict --predict_file={d}/dev.json --max_seq_length=64": "64|48",
        "--do_predict --predict_file={d}/dev.json --doc_stride=0": "--doc_stride=0",
        "--do_train --train_file={d}/train.json --evaluate_steps=1 "
        "--predict_file={d}/dev.json --best_metric=accuracy": "accuracy|f1, exact_",
        "--do_train --train_file={d}/train.json --bilstm_units=8": (
            "--bilstm_units=8 is for a BiLSTM, and --head=linear"
        ),
        "--do_train --train_file={d}/train.json --pretrained={d}/gpt2 "
        "--version_2_with_negative": ("first token, which sees nothing|leave it out"),
        "--do_train --train_file={d}/train.json --pretrained={d}/gpt2 "
        "--answer_aligner=original": "tokens of this vocabulary are none|leave it out",
        "--do_train --train_file={d}/lost.json": "none of 1 questions is left",
        "--do_train --train_file={d}/train2.json": (
            "'q0' has 0 answers|--version_2_with_negative"
        ),
    },
    "tags": {
        "--do_train --train_file={d}/short.conll": "short.conll:2|1 column",
        "--do_train --train_file={d}/train.conll --do_eval --dev_file={d}/odd.conll": (
            "odd.conll:1|'B-odd'|B-good"
        ),
        "--do_train --train_file={d}/seq.in": "seq.out:1|2 tags for 3 words",
        "--do_predict --test_file={d}/test.conll": "name the tags; give --labels",
        "--do_train --train_file={d}/scheme.conll --tag_scheme=BIO": (
            "scheme.conll:3: tag 'NN' is not of the scheme BIO|--tag_column"
        ),
        "--do_train --train_file={d}/one.conll": "one.conll: every word has the tag",
        "--do_train --train_file={d}/folder.tsv": ("seq.in: no such file; name a file"),
        "--do_train --train_file={d}/train.conll --window_stride=15": "stride=15|14",
        "--do_train --train_file={d}/train.conll --head=bilstm --pack_sequences": (
            "--pack_sequences is for the linear head on the last layer; leave it"
        ),
    },
    "pairs": {
        "--train_file={d}/pairs.tsv --max_target_length=49": "the 48 positions of the",
        "--train_file={d}/pairs.tsv": "pairs.tsv:2: the target is empty",
    },
    "pretraining": {
        "--bert_config_file={d}/one_segment/bert_config.json": "segment_ids=1, not 0 t",
        "--input_file=": "--input_file is missing",
        "--max_seq_length=12": "--max_seq_length=12|max_seq_length=16|masked.tfrecord",
        "--max_predictions_per_seq=20": "=20|max_predictions_per_seq=3",
        "--input_file={d}/cut.tfrecord": "cut.tfrecord|goes beyond the end",
        "--input_file={d}/text.tfrecord": "text.tfrecord",
        "--masking=span": "--masking|are masked|masked.tfrecord|leave out",
        "--vocab_file={d}/other.txt": "other.txt|vocab_size",
        "--gradient_accumulation_steps=3": "=8|=3|multiple of 3",
        "--output_dir={d}/other.txt/out": "{d}/other.txt/out|cannot be written",
        "--nodo_train --do_eval": "no trained model in --output_dir|--init_checkpoint",
        "--pack_sequences --jit_compile=true": "shapes vary|leave one of them out",
        "--do_eval --eval_batch_size=2147483648": "=2147483648 exceeds the|records|lo",
        "--input_file={d}/unmasked.tfrecord": "set --vocab_file",
    },
    "left_to_right": {
        "--pretrained={d}/model": "sees what follows",
        "--input_file={d}/masked.tfrecord": "are masked; make them again",
    },
    "replaced_tokens": {
        "": "--generator_size=0.25 makes 0.5 heads|of 1/2",
        "--generator_size=1": "holds another generator; set --generator_size=0.5",
        "--pretrained={d}/model": "is not for BERT, which|set --objective=masked_lm",
        "--objective=masked_lm": "discriminator and its generator; set --objective=re",
    },
    "convert": {
        "--head=span": "has no such head (it has: pretraining)",
        "--resize_embeddings=3": " rows and ",
        "--add_tokens=gone.txt": "gone.txt",
        "--vocab_file={d}/other.txt": "give the two files of one release",
        "--output_dir={d}/other.txt": "is a file; name a directory",
        "--output_dir={d}/other.txt/below": "is a file; name a directory",
        "--output_dir=": "--output_dir is empty",
        "--input={d}": "no checkpoint in this directory",
        "--to=hdf5": "hdf5: no format for the weights of BERT",
        "--input={d}/model_streams --to=hugging_face": (
            "hugging_face: no format for the weights of ELMo; choose"
        ),
        "--input={d}/model_streams --head=tagger": "has no such head",
        "--input={d}/model_streams --resize_embeddings=9": "an ELMo reads char",
        "--input={d}/model_streams --vocab_file={d}/swapped.txt": (
            "swapped.txt: begins with 'a'"
        ),
    },
    "features": {
        "--output_file={d}/./lines.txt": "is --input_file",
        "--output_file={d}": "is a directory",
        "--layers=-1,x": "--layers=-1,x are not finite numbers",
        "--layers=1": "--layers: layer 1, and the network has 1",
        "--combine=last": "leave out --layers or --combine",
        "--layer_weights=1,x": "--layer_weights=1,x are not finite numbers",
        "--layer_weights=1,nan": "--layer_weights=1,nan are not finite numbers",
        "--max_seq_length=49": "sequence length 49",
        "--pretrained={d}/one_segment": "lines.txt:2: is a pair of texts|type_voc",
        "--input_file={d}/empty": "empty: is empty",
        "--pretrained={d}/gpt2": "lines.txt:2: is a pair of texts|GPT",
        "--pretrained={d}/gpt2 --pooling=mean --input_file={d}/blank.txt": (
            "blank.txt:3: has no token"
        ),
    },
    "generation": {
        f"--prompt={'a' * 40}": "40 tokens and 24 new ones",
        "--score_file={d}/long.txt --stride=48": (
            "--stride=48 leaves no token before a window of 48; lower it"
        ),
        "--prompt=a --pretrained={d}/model": "of both directions cannot write",
    },
    "streams": {
        "--pack_sequences": "is for BERT and GPT, and this network is ELMo",
        "--objective=left_to_right": "--objective=left_to_right is not for ELMo, which",
        "--num_negative_samples=17": "a sample of 17 words",
        "--nosample_softmax --num_negative_samples=4": "=4 is for a sampled softmax",
        "--adam_bias_correction": "is for --optimizer=adam, but it is adagrad",
        "--vocab_file={d}/swapped.txt": "swapped.txt: begins with 'a'",
        "--do_eval --eval_batch_size=2147483648": "=2147483648 exceeds the|lower it",
        "--vocab_file={d}/few.txt": "has 4 words, but --bert_config_file has",
        "--gradient_accumulation_steps=3": "cannot be cut into",
    },
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A directory of good models and data, and of wrong files."""
    place = whole_runs.write(tmp_path_factory.mktemp("bad") / "places")
    (place / "folder.tsv").mkdir()
    tiny.write_model(place / "one_segment", type_vocab_size=1)
    (place / "bad.json").write_text("{")
    tiny_gpt.write_model(place / "gpt2")
    lost = tiny_questions.question(1)
    lost["qas"][0]["answers"][0]["text"] = "nowhere"
    tiny_questions.write(place / "lost.json", [lost])
    tiny_questions.version_2(place / "train2.json", 6)
    latin = "text\tlabel\na film\tgood\nthe s\xe9a\tbad\n"
    (place / "latin.tsv").write_bytes(latin.encode("latin-1"))
    data = (place / "masked.tfrecord").read_bytes()
    (place / "cut.tfrecord").write_bytes(data[:-100])
    words = [*tiny.SPECIAL, *(f"word{i}" for i in range(99))]
    tiny_elmo.write_vocab(place / "swapped.txt", tiny_elmo.WORDS[1:])
    tiny_elmo.write_vocab(place / "few.txt", ("<S>", "</S>", "<UNK>", "a"))
    for name, text in {
        "god.tsv": "text\tlabel\na film\tgood\nthe sea\tbad\nit was\tgod\n",
        "odd.tsv": "text\tlabel\na film\tterrible\n",
        "short.conll": "sea O\nfilm\n",
        "odd.conll": "sea B-odd\n",
        "scheme.conll": "sea O\n\nfilm NN\n",
        "one.conll": "sea O\n\nfilm O\n",
        "seq.in": "the sea was\n",
        "seq.out": "O O\n",
        "pairs.tsv": "source\ttarget\none\t\n",
        "lines.txt": "the film\na b c ||| the sea\n",
        "blank.txt": "a\nb\n \nc\n",
        "empty": "",
        "long.txt": f"{'a' * 60}\n",
        "text.tfrecord": "A sentence that is no record.\n" * 9,
        "other.txt": "".join(f"{word}\n" for word in words),
    }.items():
        (place / name).write_text(text)
    return place


@pytest.mark.parametrize(
    ("command", "flags", "words"),
    [(command, *row) for command, rows in MISTAKES.items() for row in rows.items()],
)
def test_mistake_is_one_line_and_writes_nothing(
    places, tmp_path, command, flags, words
):
    before = sorted(places.rglob("*"))
    out = {"d": places, "o": tmp_path / "out"}
    script, *texts = f"{COMMANDS[command]} {flags}".format(**out).split()
    line = tiny.refuse(script, *texts)
    missing = [word for word in words.format(**out).split("|") if word not in line]
    assert missing == [], line
    assert not (tmp_path / "out").exists() and sorted(places.rglob("*")) == before


# --- Files that a case spoils.


@pytest.fixture
def place(places, tmp_path):
    shutil.copytree(places / "model", tmp_path / "model")
    tiny.write_tables(tmp_path, train=6, dev=3, test=3)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "eval_results.txt").write_text("eval_accuracy = 1.0\n")
    return tmp_path


def command(place, *flags):
    text = COMMANDS["classification"].format(d=place, o=place / "out")
    return " ".join([text, "--do_train", *flags]).split()


def assert_refused(place, flags, *words):
    before = tiny.listing(place)
    line = tiny.refuse(*command(place, *flags))
    assert [word for word in words if str(word) not in line] == [], line
    assert tiny.listing(place) == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model/bert_config.json", ["bert_config.json"]),
        ("model/vocab.txt", ["vocab.txt"]),
        ("model/bert_model.ckpt.index", ["bert_model.ckpt", "copy"]),
        ("train.tsv.gz", ["train.tsv.gz", "restore the file"]),
    ],
)
def test_unreadable_file_is_refused(place, name, words):
    (place / name).write_bytes(b"\x8b\x1f\xfe not what it should be \xff" * 3)
    flags = [f"--train_file={place}/{name}"] if name == "train.tsv.gz" else []
    assert_refused(place, flags, *words)


def change_config(place, **changes):
    path = place / "model" / "bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"vocab_size": 300},
            ["vocab.txt has 46 entries", "vocab_size=300", "of one release"],
        ),
        (
            {"hidden_size": 16, "intermediate_size": 64},
            ["bert_model.ckpt", "hidden_size=16 (the file has 32)", "config file of"],
        ),
        (
            {"max_position_embeddings": 12},
            ["sequence length 16", "up to sequence length 12", "--max_seq_length"],
        ),
    ],
)
def test_parts_that_disagree_are_refused(place, changes, words):
    change_config(place, **changes)
    assert_refused(place, [], *words)


def test_head_of_another_number_of_labels_is_refused(place):
    path = place / "model" / "bert_config.json"
    model = models.BertClassifier(config_lib.BertConfig.from_json_file(path), 5)
    model.build()
    google.save(place / "five.ckpt", model)
    flags = [f"--init_checkpoint={place}/five.ckpt", "--nodo_train --do_eval"]
    flags += ["--labels=bad,fine,good"]
    words = ("['bad', 'fine', 'good'] are not", "'LABEL_4'] (", "five.ckpt")
    assert_refused(place, flags, *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            json.dumps({"identity": {"seed": 7, "max_seq_length": 128}}),
            ["another run", "seed was 7 and is 1"],
        ),
        (None, ["run.json: cannot be read"]),  # a directory
        ('{"identity": ', ["run.json"]),
    ],
    ids=["another run", "a directory", "cut"],
)
def test_output_directory_of_another_run_is_refused(place, text, words):
    path = place / "out" / "run.json"
    if text is None:
        path.mkdir()
    else:
        path.write_text(text)
    assert_refused(place, [], place / "out", "--overwrite_output_dir", *words)
