"""Names of files that one package writes and another reads, replaces or removes."""

# Files of a run, as google-research/bert calls them; see docs/design.md.
CHECKPOINT_PREFIX = "model.ckpt"
EVAL_RESULTS = "eval_results.txt"
TEST_RESULTS = "test_results.tsv"
TEST_PREDICTIONS = "test_predictions.jsonl"
TEST_TABLE = "test_predictions.csv"
TF_RECORD_ENDING = ".tf_record"
SQUAD_PREDICTIONS = "predictions.json"
SQUAD_NBEST = "nbest_predictions.json"
SQUAD_NULL_ODDS = "null_odds.json"
TEST_TEXTS = "test_predictions.txt"
FEW_LABELS = "few_labels.json"
TEST_VECTORS = "test_vectors.npz"
HARD_NEGATIVES = "hard_negatives.jsonl"
# As the sites of GLUE and of CLUE take predictions.
_GLUE = "CoLA SST-2 MRPC STS-B QQP MNLI-m MNLI-mm QNLI RTE WNLI AX"
_CLUE = "afqmc tnews10 tnews11 iflytek cmnli ocnli_50k cluewsc10 cluewsc11 csl c310 "
_CLUE += "c311 chid10 chid11 diagnostics"
SUBMISSIONS = [f"{name}.tsv" for name in _GLUE.split()]
SUBMISSIONS += [f"{name}_predict.json" for name in _CLUE.split()]
CMRC_SUBMISSION = "cmrc2018_predict.json"
CLUENER_SUBMISSION = "cluener_predict.json"
SUBMISSIONS += [CMRC_SUBMISSION, CLUENER_SUBMISSION]
TEST_TAGS = "test_tags"  # and the ending of its format
RUN = "run.json"
EVALUATED = ".evaluated"  # the first command that wrote into a directory without runs
GRID = "grid.json"
RECIPE = "recipe.json"  # the ways to train that were compared
LABEL_ERRORS = "label_errors.csv"  # training rows whose label may be wrong
TO_LABEL = "to_label.csv"  # texts without a label, the most useful first
LABEL_MAP = "label_map.json"
HEAD = "head.json"  # the way a head reads the network, where not the original's
REPORT_JSON = "report.json"
REPORT_PAGE = "report.html"
MODEL_CARD = "README.md"
EXPLANATIONS = "explanations.jsonl"
# PEFT's files of an adapter, beside a run with LoRA, whose checkpoints hold it already.
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FEATURE_CACHE = "feature_cache"  # of earlier versions: outputs of a frozen network

# Beside the weights of a pretrained model: Google's name of its config and ours.
BERT_CONFIG = "bert_config.json"
HUGGING_FACE_CONFIG = "config.json"
# In Google's releases of ALBERT.
ALBERT_CONFIG = "albert_config.json"
GENERATION_CONFIG = "generation_config.json"  # how texts are written
# In ELMo's releases.
ELMO_OPTIONS = "options.json"
# In the releases of GPT-2.
HPARAMS = "hparams.json"
VOCAB = "vocab.txt"
# Vocabularies of byte pairs, and the files of their merges: of GPT-2, of Hugging Face
# and this project.
VOCAB_JSON, MERGES_TXT = "vocab.json", "merges.txt"
ENCODER_JSON, VOCAB_BPE = "encoder.json", "vocab.bpe"
MERGES = {ENCODER_JSON: VOCAB_BPE, VOCAB_JSON: MERGES_TXT}
# Of SentencePiece: of XLM-RoBERTa, of ALBERT, and of DeBERTa.
SENTENCEPIECE = "sentencepiece.bpe.model", "spiece.model", "spm.model"
TOKENIZER_CONFIG = "tokenizer_config.json"
SPLIT_WORDS = "split_words"  # a key of it that is this project's, and a flag
# {token: id} of those that were added to the vocabulary after it was learned.
ADDED_TOKENS = "added_tokens.json"
# A whole tokenizer; and the special tokens, where no newer file has them.
TOKENIZER = "tokenizer.json"
SPECIAL_TOKENS = "special_tokens_map.json"
OF_TOKENIZERS = (VOCAB, *MERGES, *MERGES.values(), *SENTENCEPIECE, TOKENIZER)
OF_TOKENIZERS += TOKENIZER_CONFIG, ADDED_TOKENS
