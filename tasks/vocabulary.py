"""A vocabulary that is learned from text, and the config that fits it."""

import functools
import json
import os

from absl import logging

from contract import atomic_files, cores, errors, file_names, json_files, remote_files
from data_pipeline import engines
from data_pipeline.tables import file_patterns
from data_pipeline.text import byte_pairs, elmo, normalization, wordpiece
from data_pipeline.vocabularies import (
    byte_ranges,
    learn_bpe,
    learn_wordpiece,
    word_counts,
)
from loading import model_directory
from tasks.settings.vocabulary import BYTE_PAIR, WORD, WORD_PIECE, VocabularySettings
from terminal import progress

MAX_LONG_SHARE = 0.05  # of words, before a warning


def base_config(settings: VocabularySettings):
    """The config to start from, or None."""
    if not settings.base_config_file:
        return None
    config = model_directory.read_config(settings.base_config_file)
    if config.spec.has_decoder and settings.kind != WORD_PIECE:
        raise errors.InputError(
            f"--base_config_file={settings.base_config_file} is of an {config.kind}, "
            f"whose texts stand between [CLS] and [SEP]; set --kind={WORD_PIECE}"
        )
    return config


def outputs(settings: VocabularySettings):
    """{what a tokenizer calls it: path} of the files to write; "" is the config."""
    path = settings.output_file
    paths = {file_names.VOCAB: path}
    if settings.kind == BYTE_PAIR:
        paths = {file_names.VOCAB_JSON: path}
        paths[file_names.MERGES_TXT] = byte_pairs.merges_of(path)
    elif settings.kind == WORD:
        name = file_names.TOKENIZER_CONFIG
        paths[name] = os.path.join(os.path.dirname(path), name)
    return paths | (
        {"": settings.output_config_file} if settings.output_config_file else {}
    )


def check_outputs(settings: VocabularySettings, files):
    """Refuses a file that cannot or must not be written, before hours of work."""
    paths = outputs(settings)
    for name, path in paths.items():
        for others, what in (
            (files, "one of --input_file"),
            ([paths[n] for n in paths if n != name], "--output_file or beside it, too"),
        ):
            if file_patterns.among([path], others):
                raise errors.InputError(
                    f"{path} is to be written and is {what}; choose another name"
                )
        atomic_files.check_writable(path)
    path = paths.get(file_names.TOKENIZER_CONFIG)  # which no flag names
    if path and remote_files.exists(path):
        ours, key = elmo.ElmoTokenizer().settings(), file_names.SPLIT_WORDS
        if {**json_files.read_object(path), key: ours[key]} != ours:
            raise errors.InputError(
                f"{path} is of another tokenizer, and --kind={WORD} writes its own "
                "beside --output_file; choose another directory"
            )


def learn(settings: VocabularySettings, executor, num_workers, files):
    """The tokenizer of the vocabulary that is learned, and what it is learned from."""
    split = {
        WORD_PIECE: word_counts.Words(settings.do_lower_case),
        BYTE_PAIR: word_counts.Pieces(),
        WORD: word_counts.Spaced(settings.split_words or normalization.WHITESPACE),
    }[settings.kind]
    with progress.Progress("counting: range") as report:
        counts = word_counts.count_files(
            files, executor, num_workers, split=split, report=report
        )
    if line := byte_ranges.check_lines(
        files, counts.num_lines, counts.num_invalid_lines
    ):
        logging.warning("%s", line)
    if counts.dropped_below:
        print(
            f"words seen less than {counts.dropped_below} times so far were dropped "
            f"while counting, to keep at most {word_counts.MAX_WORDS} in memory"
        )
    size, say = settings.vocab_size, functools.partial(print, flush=True)
    if isinstance(split, word_counts.Spaced):
        return word_counts.learn_words(counts, size, split.split_words), counts
    if settings.kind == BYTE_PAIR:
        return learn_bpe.learn(counts, size, say), counts
    vocab = learn_wordpiece.learn(
        counts,
        settings.vocab_size,
        num_unused_tokens=settings.num_unused_tokens,
        min_character_frequency=settings.min_character_frequency,
        report=say,
    )
    return wordpiece.BertTokenizer(vocab, settings.do_lower_case), counts


def write(settings: VocabularySettings, tokenizer, config):
    """Writes the vocabulary, and the config with its size."""
    if (size := len(tokenizer.vocab)) < settings.vocab_size:
        print(
            f"the text gives only {size} entries, less than "
            f"--vocab_size={settings.vocab_size}"
        )
    texts = tokenizer.files()
    if config:
        config = config.with_vocabulary(tokenizer.vocab)
        name, text = (
            os.path.basename(str(settings.output_config_file)),
            config.to_json_string(),
        )
        if config.spec.classes and name == file_names.HUGGING_FACE_CONFIG:
            # Under this name activations have the library's names.
            text = json.dumps(config.to_hugging_face(), indent=2, sort_keys=True) + "\n"
        texts[""] = text
    paths = outputs(settings)
    atomic_files.write({path: [texts[name]] for name, path in paths.items()})
    for path in paths.values():
        print(f"wrote {path}")


def run(settings: VocabularySettings) -> None:
    """What build_vocab.py does."""
    num_workers = settings.num_workers or cores.usable()
    with engines.start_workers(num_workers) as executor:
        files = byte_ranges.find_files(settings.input_file)
        config = base_config(settings)
        check_outputs(settings, files)
        tokenizer, counts = learn(settings, executor, num_workers, files)
        write(settings, tokenizer, config)
    spelled = learn_wordpiece.coverage(tokenizer, counts)
    print(f"  words = {counts.num_words + counts.num_too_long}")
    print(f"  different_words = {len(counts.words)}")
    print(f"  entries = {len(tokenizer.vocab)}")
    print(f"  whole_word_share = {spelled.whole_share:.5f}")
    print(f"  unknown_word_share = {spelled.unknown_share:.5f}")
    print(f"  pieces_per_word = {spelled.pieces_per_word:.4f}")
    if counts.num_too_long > MAX_LONG_SHARE * counts.num_words:
        logging.warning(
            "%d words have more than %d characters, and become [UNK]; separate the "
            "words of the text by spaces",
            counts.num_too_long,
            normalization.MAX_WORD_CHARS,
        )
