"""What each program refuses before TensorFlow is imported: one table of command lines.

Whether programs end with these lines, and so early: tests/cli/test_command_line.py.
What needs data or weights: tests/test_bad_input.py.
"""

import pytest

from tests import flags_page, tiny
from tests.refusals import line_of

# Flags with which each program begins; remote files are for TensorFlow to look at.
_RUN = "--pretrained=gs://m --output_dir=gs://o"
_TRAIN = f"{_RUN} --do_train --train_file=gs://x"
ACCEPTED = {
    **dict.fromkeys(("run_classifier", "run_squad", "run_tagger"), _TRAIN),
    **dict.fromkeys(("run_seq2seq", "run_embedding"), _TRAIN),
    "run_generation": "--pretrained=gs://m",
    "run_pretraining": f"{_RUN} --do_train --input_file=gs://x",
    "create_pretraining_data": (
        "--input_file=gs://x --output_file=gs://x --vocab_file=gs://x"
    ),
    "build_vocab": "--input_file=gs://x --output_file=gs://x",
    "extract_features": (
        "--pretrained=gs://m --input_file=gs://x --output_file=gs://y"
    ),
    "convert_checkpoint": "--input=gs://m --to=google --output_dir=gs://o",
    "run_predictor": "--export_dir=gs://x",
    "run_search": "--index_dir=gs://x",
    "score_sentences": "--pretrained=gs://m --input_file=gs://x",
    "compare_runs": "",
}
NO_FILE = "no such file; check the path"
NO_MODEL = (
    "no such directory; give the directory of a release, or the id of a model on "
    "Hugging Face's hub (owner/name)"
)
TABLE = "sample_data/messages/train.tsv"
STATIC = "--do_export --export_format=onnx --quantization=static_int8"
# {further flags: how the line begins, or None} of the programs named by comma.
REFUSED = {
    "run_squad": {
        "--nodo_train": (
            "At least one of `do_train`, `do_predict` or `do_export` must be True."
        ),
        "--train_file=": "--do_train needs a --train_file, a SQuAD json",
        "--do_predict": "--do_predict and --evaluate_steps need a --predict_file, a ",
        f"--nodo_train {STATIC}": "--quantization=static_int8 takes scales from rows",
        "--do_predict --predict_file=no": f"--predict_file=no: {NO_FILE}",
        "--task_name=drcd --answer_aligner=original": (
            "--task_name=drcd has --answer_aligner=words; leave it out"
        ),
        "--task_name=drcd --version_2_with_negative": (
            "--task_name=drcd has an answer to each question; leave --version_2_with_"
        ),
    },
    "run_classifier, run_tagger, run_seq2seq, run_embedding": {
        "--nodo_train": (
            "At least one of `do_train`, `do_eval`, `do_predict` or `do_export` must "
            "be True."
        ),
        "--do_eval --dev_file=no": f"--dev_file=no: {NO_FILE}",
        f"--nodo_train {STATIC}": (
            "--quantization=static_int8 takes scales from rows like those that it will "
            "answer; set --dev_file or --do_train"
        ),
        "--evaluate_steps=3 --dev_file=no": f"--dev_file=no: {NO_FILE}",
        "--do_predict --test_file=no": f"--test_file=no: {NO_FILE}",
        "--nodo_train --do_export --train_file=no": None,  # nothing reads it
    },
    # All of fine-tuning.
    "run_classifier, run_squad, run_tagger, run_seq2seq, run_embedding": {
        "--output_dir=": "--output_dir is missing; name a directory for the results",
        "--train_file=no": f"--train_file=no: {NO_FILE}",
        "--seeds=1,x": "--seeds=1,x are not whole numbers",
        "--seeds=--5": "--seeds=--5 are not whole numbers",
        "--seeds=²": "--seeds=² are not whole numbers; give such as 1,2,3",
        "--seeds=1,-2": "--seeds=1,-2: -2 is no seed; give 0 or more, up to 4",
        "--seeds=4294967296": "--seeds=4294967296: 4294967296 is no seed; give 0 or",
        "--seeds=1,2,01": "--seeds=1,2,1 has 1 twice; give it once",
        "--early_stopping_patience=2": (
            "--early_stopping_patience needs evaluations; set --evaluate_steps"
        ),
        "--grid=learning_rate=1,2": (
            "--grid compares the scores of runs that it trains; set --do_train and "
        ),
        "--grid=seed=1": "--grid does not vary seed; give --seeds=1,2,3 beside it",
        "--grid=learning_rte=1": (
            "--grid cannot vary 'learning_rte', which is no flag; did you mean learning"
        ),
        "--grid=x=1": "--grid cannot vary 'x', which is no flag. It can vary train_ba",
        "--grid=pad_to_max_length=1": (
            "--grid cannot vary pad_to_max_length, for its runs share all else; run "
        ),
        "--grid=optimizer=a": (
            "--grid: optimizer=a: --optimizer=a is none of adam, lamb"
        ),
        "--grid=train_batch_size=0": (
            "--grid: train_batch_size=0: --train_batch_size=0 is below 1; give"
        ),
        "--grid=learning_rate=1,nan": (
            "--grid: learning_rate=nan: --learning_rate=nan is not a finite number"
        ),
        "--grid=adam_bias_correction=x": (
            "--grid: adam_bias_correction=x: give true or false"
        ),
        "--grid=optimizer=adam,": "--grid: 'optimizer=adam,' lacks a value; write such",
        "--grid=optimizer=adam;optimizer=lamb": (
            "--grid=optimizer=adam;optimizer=lamb has optimizer twice; give it once"
        ),
        "--grid=learning_rate=1,1.0": "--grid: learning_rate=1,1.0 has 1.0 twice; give",
        "--export_server_config --export_format=onnx": (
            "--export_server_config is for SavedModels, which TensorFlow Serving "
        ),
    },
    "run_classifier, run_squad, run_tagger, run_embedding": {
        "--quantization=float16": "--quantization=float16 is for LiteRT and ONNX expor",
        "--quantization=float16 --export_format=onnx": (
            "--quantization=float16 is for LiteRT exports; ONNX exports have --quantiz"
        ),
    },
    # All that train.
    "run_classifier, run_squad, run_tagger, run_seq2seq, run_embedding, "
    "run_pretraining": {
        "": None,
        "--seed=-1": "--seed=-1: -1 is no seed; give 0 or more, up to 4294967295",
        f"--seed={2**32}": f"--seed={2**32}: {2**32} is no seed; give 0 or more, up to",
        f"--log_steps={10**20}": f"--log_steps={10**20} is beyond 64 bits; give a smal",
        "--use_tpu --distribution_strategy=mirrored": (
            "--use_tpu and --distribution_strategy=mirrored contradict each other"
        ),
        "--use_tpu --distribution_strategy=tpu": None,
        "--use_tpu --output_dir=missing": None,  # here
        "--use_tpu --tpu_name=far --output_dir=missing": (
            "--output_dir=missing is on this machine, where the TPU at --tpu_name=far "
        ),
        "--use_tpu --master=grpc://a --output_dir=missing": (
            "--output_dir=missing is on this machine, where the TPU at --tpu_name=grpc"
        ),
        "--tpu_name=far --output_dir=missing": None,  # not used
        "--use_tpu --tpu_name=far": None,
        "--pretrained=": "--bert_config_file is missing; set it, or set --pretrained",
        "--pretrained= --bert_config_file=gs://b.json": None,
        "--pretrained=google-bert/bert-base-uncased": None,
        "--pretrained=bert-base-uncased": None,
        "--pretrained=bert-base-uncase": f"--pretrained=bert-base-uncase: {NO_MODEL}",
        "--pretrained=./bert-base-uncased": "--pretrained=./bert-base-un",
        "--pretrained=a/b/c": f"--pretrained=a/b/c: {NO_MODEL}",
        "--bert_config_file=no": (
            "--bert_config_file=no: no such file; give the file that lies beside the "
        ),
        "--vocab_file=no": "--vocab_file=no: no such file; give the file that lies",
        # The first checkpoint may be gone where a run may be resumed.
        "--init_checkpoint=no --output_dir=new": (
            "--init_checkpoint=no: no such file; give a prefix such as DIR/bert_model"
        ),
        "--init_checkpoint=no --output_dir=.": None,
        "--init_checkpoint=no": None,  # a bucket may hold the run
        "--train_batch_size=0": "flag --train_batch_size=0: 0 is not",
        "--learning_rate=nan": "flag --learning_rate=nan: nan is not a finite number",
        "--distribution_strategy=parameter_server": "flag --distribution_strategy=para",
        "--mixed_precision=float64": "flag --mixed_precision=float64: value should be",
        "--jit_compile=yes": "flag --jit_compile=yes: value should be one of <auto|",
        "--virtual_cpus=-1": "flag --virtual_cpus=-1: -1 is not an integer in the ran",
    },
    "run_classifier": {
        f"--train_file={TABLE} --text_a_column=Text": (
            f"{TABLE}: no column 'Text' (text_a); there is 'text' (capitals count)"
        ),
        "--train_file=a.csv --check_data --delimiter=; --quote=none": None,
        "--task_name=cola": None,
        "--task_name=cola --delimiter=;": (
            "--delimiter=; is for files of your own; leave it or --task_name=cola out"
        ),
        "--task_name=cola --has_header=auto": "--has_header=auto is for files of your",
        "--task_name=cola --encoding=cp1252": "--encoding=cp1252 is for files of your",
        "--task_name=cola --data_dir=no": f"--data_dir=no: {NO_FILE}",
        "--data_dir=no": None,  # nothing reads it
        "--encoding=latin9000": "--encoding=latin9000 is no encoding of text; give one",
        "--label_column=a,b": None,
        "--label_column=a,b --problem_type=classification": (
            "--label_column=a,b is a column for each of several labels; leave --proble"
        ),
        "--write_projector": "--write_projector shows evaluated rows; add --do_eval",
        "--explain=3": "--explain explains predictions; add --do_eval or --do_predict",
        "--dev_share=0.2": None,
        "--dev_share=0.2 --dev_file=a": "--dev_share=0.2 beside --dev_file=a: takes",
        "--dev_share=0.2 --task_name=cola": "--dev_share=0.2 beside --task_name=cola",
        "--dev_share=0.2 --train_file=": "--dev_share=0.2: takes the dev rows from --t",
        "--distill_weight=0.5": "--distill_weight=0.5 is read with --teacher; add that",
        "--unlabelled_file=gs://u": "--unlabelled_file=gs://u is read with --teacher,",
        "--teacher=t --distill_temperature=0.001": (
            "--distill_temperature=0.001 is not 0.01 to 1000.0; give one such as 2"
        ),
        "--teacher=t --distill_temperature=1e4": "--distill_temperature=10000.0 is not",
        "--teacher=t --distill_weight=0 --unlabelled_file=gs://u": (
            "--distill_weight=0 leaves nothing to learn from --unlabelled_file=gs://u"
        ),
        "--teacher=t --output_dir=./t": "--teacher=t is the --output_dir of the studen",
        "--teacher=t --unlabelled_file=no": f"--unlabelled_file=no: {NO_FILE}",
    },
    "run_tagger": {
        "--train_file=": "the train sentences are needed and --train_file is not set",
        "--do_predict": "the test sentences are needed and --test_file is not set; set",
    },
    "run_seq2seq": {
        f"--train_file={TABLE} --source_column=a": (
            f"{TABLE}: no column 'a' (source); its columns are ['text', 'label']"
        ),
        "--source_column=a --target_column=a": (
            "--source_column and --target_column are both a; each needs a column"
        ),
        "--do_sample --temperature=0": (
            "--temperature=0 draws nothing; leave --do_sample out, or raise it"
        ),
        "--do_sample --num_beams=2": "--do_sample draws one text and --num_beams=2 com",
        "--temperature=0.5": (
            "--temperature=0.5 is read with --do_sample; add that, or leave it out"
        ),
        "--top_k=3": "--top_k=3 is read with --do_sample; add that",
        "--do_sample --top_p=0": "--top_p=0.0 is not above 0; give one such as 0.9",
        "--export_format=litert": "--export_format=litert runs a network once",
        "--num_beams=0": "flag --num_beams=0: 0 is not",
        "--max_source_length=2": "flag --max_source_length=2: 2 is not",
        "--max_target_length=1": "flag --max_target_length=1: 1 is not",
        "--top_k=-1": "flag --top_k=-1: -1 is not",
        "--top_p=1.5": "flag --top_p=1.5: 1.5 is not",
        "--temperature=-1": "flag --temperature=-1: -1.0 is not",
        "--length_penalty=nan": "flag --length_penalty=nan: nan is not a finite number",
        "--has_header=yes": "flag --has_header=yes: value should be one of <auto|true|",
        "--file_format=xml": "flag --file_format=xml: value should be one of",
    },
    "run_embedding": {
        "--encoding=latin9000": "--encoding=latin9000 is no encoding of text; give one",
        "--corpus_file=gs://c": (
            "--corpus_file, --queries_file, --judgements_file belong together; set all"
        ),
        "--corpus_file=gs://c --queries_file=gs://q --judgements_file=gs://j": None,
        "--corpus_file=no --queries_file=gs://q --judgements_file=gs://j": (
            f"--corpus_file=no: {NO_FILE}"
        ),
        "--corpus_file=gs://c --queries_file=gs://q --judgements_file=gs://j "
        "--dev_file=d": "--dev_file=d beside --corpus_file=gs://c: an evaluation is on",
        "--reranker=r": "--reranker=r ranks passages; set --corpus_file, --queries_fil",
        "--reranker_label=1": "--reranker_label=1 is read with --reranker; add that",
        "--num_labelled=3": "--num_labelled=3 needs --do_eval, --dev_file and --train_",
        "--negative_columns=n": "--negative_columns needs --text_b_column, the text",
        "--negative_columns=n --text_b_column=b --label_column=l": (
            "--label_column is for pairs with scores and for single texts; leave it"
        ),
        "--matryoshka_dims=8,x": "--matryoshka_dims=8,x are not finite numbers",
    },
    "run_pretraining": {
        "--nodo_train": (
            "At least one of `do_train`, `do_eval` or `do_export` must be True."
        ),
        "--input_file=R*.md,x*": f"--input_file=x*: {NO_FILE}",
        "--eval_input_file=no": f"--eval_input_file=no: {NO_FILE}",
        "--use_tpu --tpu_name=far --input_file=gs://bucket/a,README.md": (
            "--input_file=README.md is on this machine, where the TPU at --tpu_name=fa"
        ),
        "--use_tpu --tpu_name=far --eval_input_file=README.md": (
            "--eval_input_file=README.md is on this machine, where the TPU at"
        ),
        "--use_tpu --tpu_name=far --init_checkpoint=README.md": (
            "--init_checkpoint=README.md is on this machine, where the TPU at"
        ),
        "--corruption=infilling": (
            "--corruption=infilling is read with --objective=denoising; add that, or "
            "leave it out"
        ),
        "--noise_density=0.3 --objective=left_to_right": (
            "--noise_density=0.3 is read with --objective=denoising; add that"
        ),
        "--mean_noise_span_length=2": "--mean_noise_span_length=2.0 is read with --obj",
        "--objective=denoising --masking=span": (
            "--masking=span is read with --objective=masked_lm or replaced_tokens; add"
        ),
        "--objective=left_to_right --mask_proportions=1,0,0": (
            "--mask_proportions=1.0,0.0,0.0 is read with --objective=masked_lm or repl"
        ),
        "--objective=denoising --unroll_steps=3": (
            "--unroll_steps=3 is read with --objective=bidirectional_lm; add that"
        ),
        "--objective=bidirectional_lm --max_seq_length=64": (
            "--max_seq_length=64 is for records, but --objective=bidirectional_lm reads"
        ),
        "--do_export --objective=denoising": (
            "--do_export of run_pretraining.py writes vectors and masked words, which "
            "--objective=denoising has not; use run_seq2seq.py --do_export"
        ),
        "--top_k=3": "--top_k=3 is read with --do_export; add that, or leave it out",
        "--layers=-1": "--layers=-1 is read with --do_export; add that, or leave it",
        "--combine=last": "--combine=last is read with --do_export; add that",
        "--layer_weights=1": "--layer_weights=1 is read with --do_export; add that",
        "--pooling=cls": "--pooling=cls is read with --do_export; add that",
        "--nonormalize": "--nonormalize is read with --do_export; add that",
        "--objective=replaced_tokens --generator_size=0.5 --masking=span": None,
        "--generator_size=0.5": (
            "--generator_size=0.5 is read with --objective=replaced_tokens; add that"
        ),
        "--discriminator_loss_weight=3": "--discriminator_loss_weight=3.0 is read with",
        "--mask_proportions=0.8,0.1": (
            "flag --mask_proportions=0.8,0.1: needs 3 numbers of 0 to 1, by comma, "
            "such as 0.8,0.1,0.1"
        ),
        "--mask_proportions=0.8,0.1,few": (
            "flag --mask_proportions=0.8,0.1,few: needs 3 numbers"
        ),
        "--mask_proportions=80,10,10": (
            "flag --mask_proportions=80,10,10: needs 3 numbers"
        ),
        "--mask_proportions=0.8,0.1,0.2": (
            "flag --mask_proportions=0.8,0.1,0.2: adds up to 1.1, not to 1; give "
            "shares of the whole, such as"
        ),
    },
    "run_generation": {
        "": None,
        "--pretrained=": "--bert_config_file is missing; set it, or set --pretrained",
        "--pretrained= --bert_config_file=gs://c": "--init_checkpoint is missing; set",
        "--top_p=0": "--top_p=0.0 is not above 0; give one such as 0.9",
        "--score_file=gs://a --prompt=b": (
            "--score_file scores and --prompt writes texts; give one of them"
        ),
        "--do_export --prompt=b": "--do_export writes neither texts nor scores; leave",
        "--stride=3": (
            "--stride=3 is read with --score_file; add that, or leave it out"
        ),
        "--stop=": "--stop is empty, so no text could begin; give one such as .",
        "--do_export": "--do_export needs an --output_dir",
        "--output_file=a.csv": "--output_file=a.csv ends in none of .jsonl, .txt, whic",
        "--score_file=gs://a --output_file=a.txt": (
            "--output_file=a.txt ends in none of .jsonl, which say"
        ),
        "--prompt_file=no": f"--prompt_file=no: {NO_FILE}",
        "--prompt_file=-": None,
        "--score_file=no": f"--score_file=no: {NO_FILE}",
    },
    "create_pretraining_data": {
        "": None,
        "--vocab_file=no": f"--vocab_file=no: {NO_FILE}",
        "--input_file=README.md,x*": f"--input_file=x*: {NO_FILE}",
        "--objective=left_to_right --masking=none": (
            "--masking=none is read with --objective=masked_lm; add that, or leave it "
            "out"
        ),
        "--objective=left_to_right --segmented_words": (
            "--segmented_words is read with --objective=masked_lm; add that"
        ),
        "--document_end=file": (
            "--document_end=file is read with --objective=left_to_right; add that"
        ),
        "--do_whole_word_mask --masking=span": (
            "--do_whole_word_mask and --masking=span contradict each other; leave one"
        ),
        "--masking=none --mask_proportions=1,0,0": (
            "--mask_proportions=1.0,0.0,0.0 is for records that are masked, but "
            "--masking is none; give the flag to run_pretraining.py"
        ),
        "--segmented_words": (
            "--segmented_words is for masks of words, but --masking is word_piece; set"
        ),
        "--max_seq_length=4": "flag --max_seq_length=4: 4 is not",
        "--max_seq_length=1048576": None,
        # So long as that of no network.
        "--max_seq_length=1048577": "flag --max_seq_length=1048577: 1048577 is not an",
        "--max_predictions_per_seq=0": "flag --max_predictions_per_seq=0: 0 is not",
        "--masked_lm_prob=1.5": "flag --masked_lm_prob=1.5: 1.5 is not",
        "--short_seq_prob=-0.1": "flag --short_seq_prob=-0.1: -0.1 is not",
        "--mask_proportions=0.8,0.1": "flag --mask_proportions=0.8,0.1: needs 3 number",
        "--dupe_factor=0": "flag --dupe_factor=0: 0 is not",
        "--num_shards=0": "flag --num_shards=0: 0 is not",
        "--num_workers=-1": "flag --num_workers=-1: -1 is not",
        "--masking=sentence": "flag --masking=sentence: value should be one of",
        "--sentence_task=previous": "flag --sentence_task=previous: value should be on",
        "--engine=spark": "flag --engine=spark: value should be one of <local|beam>",
    },
    "create_pretraining_data, extract_features, run_predictor": {
        "--beam_option=--runner=Nope": (
            "--beam_option=--runner=Nope is for --engine=beam; add it, or leave it out"
        ),
    },
    "build_vocab": {
        "": None,
        "--input_file=no": f"--input_file=no: {NO_FILE}",
        "--kind=word --num_unused_tokens=3": (
            "--num_unused_tokens=3 is read with --kind=word_piece; add that, or leave"
        ),
        "--kind=byte_pair --nodo_lower_case": (
            "--nodo_lower_case is read with --kind=word_piece; add that, or leave"
        ),
        "--split_words=whitespace": "--split_words=whitespace is read with --kind=word",
        "--kind=byte_pair": (
            "--output_file=gs://x: the name of byte pairs ends in vocab.json; choose"
        ),
        "--base_config_file=a": (
            "--base_config_file and --output_config_file belong together: the config"
        ),
    },
    "extract_features": {
        "": None,
        "--pretrained=": "--bert_config_file is missing; set it, or set --pretrained",
        "--pretrained= --bert_config_file=gs://c": "--init_checkpoint is missing; set",
        "--input_file=no": f"--input_file=no: {NO_FILE}",
        "--input_file=": "--input_file is empty; name a file",
        "--output_file=": "--output_file is empty; name a file",
        "--output_file=missing/ --lines_per_shard=2": (
            "--output_file=missing/ is a directory; name the file in it, after which "
        ),
        "--engine=beam --lines_per_shard=2 --use_tpu": (
            "--engine=beam does not run on TPU; leave out one of them"
        ),
        "--engine=beam --lines_per_shard=2": None,
        "--init_checkpoint=no": "--init_checkpoint=no: no such file; give a prefix suc",
        "--batch_size=0": "flag --batch_size=0: 0 is not",
    },
    "extract_features, run_predictor": {
        "--engine=beam": (
            "--engine=beam computes shards, and --lines_per_shard is 0; add "
            "--lines_per_shard=16384, for example"
        ),
        "--input_file=- --output_file=a --lines_per_shard=2": (
            "--lines_per_shard=2 needs an --input_file to read twice, and an "
            "--output_file to name its shards after; give both"
        ),
    },
    "convert_checkpoint": {
        "": None,
        "--input=": "--input is missing; name a checkpoint or its directory",
        "--input= --pretrained=gs://m": None,
        "--input=no": "--input=no: no such file; give a prefix such as DIR/bert_model",
        "--vocab_file=no": f"--vocab_file=no: {NO_FILE}",
        "--bert_config_file=no": f"--bert_config_file=no: {NO_FILE}",
        "--resize_embeddings=-1": "flag --resize_embeddings=-1: -1 is not",
    },
    "run_predictor": {
        "": None,
        "--export_dir=x": "--export_dir=x: no SavedModel there; train with --do_export",
        "--lines_per_shard=2": "--lines_per_shard=2 needs an --input_file to read twic",
        "--input_file=README.md --lines_per_shard=2": (
            "--lines_per_shard=2 needs an --input_file to read twice, and an --output"
        ),
        "--output_file=a": "--output_file=a is read with --input_file; add that, or",
        "--input_file=no": f"--input_file=no: {NO_FILE}",
        "--serve --input_file=-": "give --serve or --input_file, not both",
    },
    "run_search": {
        "--index_dir=x --replace t": "--replace is read with --add; add that, or ",
        "--index_dir=x --pretrained=y --input_file=README.md --remove=1": (
            "--remove is for an index that is there; leave it out, or set --add"
        ),
        "": None,
        "--index_dir=": "--index_dir is missing; name the directory of the index",
        "--input_file=README.md": "--pretrained is missing; set it to the directory of",
        "--input_file=README.md --pretrained=y --export_dir=z": (
            "--pretrained and --export_dir are both set; leave out one of them"
        ),
        "--pooling=cls --export_dir=y": "--pooling=cls is not for an export, which has",
        "--max_seq_length=9 --export_dir=y --input_file=README.md": (
            "--max_seq_length=9 is not for an export, which has one; leave it out"
        ),
        "--quantization=int8": "--quantization=int8 is read with --input_file; add tha",
        "--passage_tokens=5": "--passage_tokens=5 is read with --input_file; add that",
        "--query_prompt=q": "--query_prompt=q is read with --input_file; add that, or",
        "--pretrained=y --input_file=README.md --passage_stride=5": (
            "--passage_stride=5 is read with --passage_tokens; add that, or leave it"
        ),
        "--add": "--input_file is missing; --add takes the texts of it",
        "--add --input_file=README.md": None,
        "--add --input_file=README.md --quantization=int8": (
            "--quantization=int8 is not read with --add; leave one of them out"
        ),
        "--add --input_file=README.md --approximate": (
            "--approximate is for a build or for queries; leave it or --add out"
        ),
        "--reranker=y --num_candidates=4": (
            "--num_candidates=4 is below --top_k=5; raise it, or lower --top_k"
        ),
        "--reranker=y --num_candidates=4 --serve": None,  # requests have a top_k
        "--num_candidates=5": "--num_candidates=5 is read with --reranker; add that",
        "--reranker_label=5": "--reranker_label=5 is read with --reranker; add that",
        "--queries_file=no": f"--queries_file=no: {NO_FILE}",
    },
    "score_sentences": {
        "--input_file=": "--input_file is empty; name a file",
    },
    "run_predictor, run_search": {
        "--serve --host=": "--host is empty, which would be every address; name one",
        "--host=": None,  # nothing listens
        "--port=65536": "flag --port=65536: 65536 is not",
        "--max_top_k=0": "flag --max_top_k=0: 0 is not",
        "--request_seconds=-1": "flag --request_seconds=-1: -1.0 is not",
    },
    "compare_runs": {"": None},
}
ROWS = [
    (program, arguments, line)
    for programs, rows in REFUSED.items()
    for arguments, line in rows.items()
    for program in programs.split(", ")
]


@pytest.mark.parametrize(("program", "arguments", "line"), ROWS)
def test_wrong_settings_are_refused_in_a_line(program, arguments, line, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    words = [*ACCEPTED[program].split(), *arguments.split()]
    actual = line_of(program, *words)
    if line is None:
        assert actual == ""
    else:
        assert actual.startswith(line) and "\n" not in actual


def test_every_program_has_refusals():
    programs = [*flags_page.PROGRAMS]
    assert {program for program, *_ in ROWS} == {*programs} == ACCEPTED.keys()
