"""tokenizer.json as transformers 5 writes it: of word pieces, and of bytes."""

NORMALIZES_WORDS = {
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
}


def of_word_pieces(vocab, added_tokens):
    """The object of a BERT; no vocab.txt lies beside its file."""
    ends = {"cls": "[CLS]", "sep": "[SEP]"}
    return {
        "version": "1.0",
        "added_tokens": added_tokens,
        **NORMALIZES_WORDS,
        "post_processor": {
            "type": "BertProcessing",
            **{key: [token, vocab.index(token)] for key, token in ends.items()},
        },
        "model": {
            "type": "WordPiece",
            "vocab": {token: i for i, token in enumerate(vocab)},
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        },
    }


def of_bytes(vocab, merges, added_tokens, adds_space=False):
    """The object of a RoBERTa, whose special tokens are `added_tokens`."""
    ids = {token: i for i, token in enumerate(vocab)}
    trims = {"trim_offsets": True, "add_prefix_space": adds_space}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": ids[token], "content": token} for token in added_tokens
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", **trims, "use_regex": True},
        "post_processor": {
            "type": "RobertaProcessing",
            "cls": ["<s>", ids["<s>"]],
            "sep": ["</s>", ids["</s>"]],
            **trims,
        },
        "model": {"type": "BPE", "vocab": ids, "merges": merges},
    }
