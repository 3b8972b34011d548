"""What Linux says of the processor."""

PATH = "/proc/cpuinfo"


def fields(path: str = PATH) -> dict[str, str]:
    """{name: value} of the first core; nothing where the system does not say."""
    found: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if not line.strip():  # the next core
                    break
                name, _, value = line.partition(":")
                found.setdefault(name.strip(), value.strip())
    except OSError:
        return {}
    return found


def name(path: str = PATH) -> str:
    """What it calls itself, with family and model, for it may not tell all; or ""."""
    found = fields(path)
    own = found.get("model name", "")
    if own and "cpu family" in found:
        own += f" (family {found['cpu family']}, model {found.get('model')})"
    return own


def instruction_sets(path: str = PATH) -> set[str]:
    """Names as Linux writes them, such as avx2; none where it does not say."""
    return set(fields(path).get("flags", "").split())
