"""Ids of models on Hugging Face's hub; checked before TensorFlow is imported, too."""

from contract import errors

# The owners of ids that once had none, by how these begin.
_OWNERS = {
    "bert-": "google-bert",
    "gpt2": "openai-community",
    "openai-gpt": "openai-community",
}


def check(spec: str, flag: str) -> None:
    """Raises InputError where `spec`, which is no directory, is no id (owner/name)."""
    if spec.count("/") == 1 and not spec.startswith((".", "/", "~")):
        return
    owner = next((o for start, o in _OWNERS.items() if spec.startswith(start)), None)
    hub_id = f"{owner}/{spec}" if owner and "/" not in spec else "owner/name"
    raise errors.InputError(
        f"{flag}={spec}: no such directory; give the directory of a release, or the id "
        f"of a model on Hugging Face's hub ({hub_id})"
    )
