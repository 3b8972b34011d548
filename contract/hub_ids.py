"""Ids of models on Hugging Face's hub; checked before TensorFlow is imported, too."""

import re

from contract import errors

# The names of the first models, which people give without their owner.
_NAMES = {
    "google-bert": r"bert-(base|large)-(un)?cased(-whole-word-masking)?"
    r"(-finetuned-squad)?|bert-base-(chinese|german-cased|multilingual-(un)?cased)",
    "openai-community": "gpt2(-medium|-large|-xl)?|openai-gpt",
    "FacebookAI": "roberta-(base|large)|xlm-roberta-(base|large)",
    "almanach": "camembert-(base|large)",
    "distilbert": "distil(bert-base-(un|multilingual-)?cased|roberta-base|gpt2)",
    "albert": "albert-(base|large|xlarge|xxlarge)-v[12]",
}


def check(spec: str, flag: str) -> str:
    """The id (owner/name) of `spec`, which is no directory; or InputError."""
    if spec.count("/") == 1 and not spec.startswith((".", "/", "~")):
        return spec
    for owner, names in _NAMES.items():
        if re.fullmatch(names, spec):
            return f"{owner}/{spec}"
    raise errors.InputError(
        f"{flag}={spec}: no such directory; give the directory of a release, or the id "
        "of a model on Hugging Face's hub (owner/name)"
    )
