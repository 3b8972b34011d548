"""Writes sample_data/dates/: dates as people say them, and the same in digits.

    python sample_data/write_dates.py

A task for sequence to sequence that a small network learns in minutes and that anybody
can check by eye. The files are those of the repository, byte by byte, whenever and
wherever this runs: `random.Random(n).random()` is the same in every Python.
"""

import datetime
import json
import pathlib
import random

DIRECTORY = pathlib.Path(__file__).resolve().parent / "dates"
COUNTS = {"train": 2000, "dev": 200, "test": 200}
SEED = 1984
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2029, 12, 31)

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
    *("seventeen", "eighteen", "nineteen"),
)
TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty"}
TENS |= {60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety"}
ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth"}
ORDINALS |= {"eight": "eighth", "nine": "ninth", "twelve": "twelfth"}
ORDINALS |= {"twenty": "twentieth", "thirty": "thirtieth"}
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
WEEKDAYS = (
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
)
TEMPLATES = (
    "the {day} of {month} {year}",
    "{month} the {day} {year}",
    "{month} {day} {year}",
    "{weekday} the {day} of {month} {year}",
    "in {year} on the {day} of {month}",
    "on {weekday} {month} {day} in {year}",
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def cardinal(number):
    """Words of a number, 0..99: 21 is "twenty one"."""
    if number < len(ONES):
        return ONES[number]
    ten, one = number - number % 10, number % 10
    return f"{TENS[ten]} {ONES[one]}" if one else TENS[ten]


def ordinal(number):
    """Words of the place of a number, 1..31: 21 is "twenty first"."""
    *before, last = cardinal(number).split()
    return " ".join([*before, ORDINALS.get(last, f"{last}th")])


def year_words(year, chance):
    """A year as people say it; 2000 to 2009 and the hundreds have ways of their own."""
    hundreds, remainder = divmod(year, 100)
    if hundreds == 20 and remainder < 10:
        return "two thousand" + (f" and {ONES[remainder]}" if remainder else "")
    if remainder == 0:
        return f"{cardinal(hundreds)} hundred"
    if remainder < 10:
        return f"{cardinal(hundreds)} oh {ONES[remainder]}"
    if hundreds == 20 and chance < 0.3:
        return f"two thousand and {cardinal(remainder)}"
    return f"{cardinal(hundreds)} {cardinal(remainder)}"


def pair(rng):
    """A date spoken at random, and "year month day" in digits."""
    days = (LAST - FIRST).days + 1
    date = FIRST + datetime.timedelta(int(rng.random() * days))
    template = TEMPLATES[int(rng.random() * len(TEMPLATES))]
    spoken = template.format(
        day=ordinal(date.day),
        month=MONTHS[date.month - 1],
        year=year_words(date.year, rng.random()),
        weekday=WEEKDAYS[date.weekday()],
    )
    return spoken, f"{date.year} {date.month:02} {date.day:02}"


def vocabulary():
    """Every word that can be spoken, digits, and digits that go on with a number."""
    words = {*ONES, *TENS.values(), *MONTHS, *WEEKDAYS}
    words |= {"the", "of", "in", "on", "and", "oh", "hundred", "thousand"}
    words |= {word for day in range(1, 32) for word in ordinal(day).split()}
    digits = "0123456789"
    return [*SPECIAL, *sorted(words), *digits, *(f"##{digit}" for digit in digits)]


def config():
    """A network for it, in the form of Hugging Face's encoder-decoder models."""
    side = {
        "model_type": "bert",
        "vocab_size": len(vocabulary()),
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 512,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 32,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": SPECIAL.index("[PAD]"),
    }
    return {
        "model_type": "encoder-decoder",
        "encoder": side,
        "decoder": {**side, "is_decoder": True, "add_cross_attention": True},
        "decoder_start_token_id": SPECIAL.index("[CLS]"),
        "eos_token_id": SPECIAL.index("[SEP]"),
        "pad_token_id": SPECIAL.index("[PAD]"),
    }


def files():
    """{name: text} of every file; no source is in two of them, or twice in one."""
    rng = random.Random(SEED)
    seen = set()
    files = {}
    for split, count in COUNTS.items():
        rows = []
        while len(rows) < count:
            spoken, digits = pair(rng)
            if spoken not in seen:
                seen.add(spoken)
                rows.append(f"{spoken}\t{digits}\n")
        files[f"{split}.tsv"] = "source\ttarget\n" + "".join(rows)
    files["vocab.txt"] = "".join(f"{token}\n" for token in vocabulary())
    files["config.json"] = json.dumps(config(), indent=2) + "\n"
    return files


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for name, text in files().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
