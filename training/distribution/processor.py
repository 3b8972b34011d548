"""The processor, as Linux describes it; no TensorFlow, which is imported later."""

PATH = "/proc/cpuinfo"


def fields(path: str = PATH) -> dict[str, str]:
    """{name: value} of the first core; {} where the system has none."""
    values: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if not line.strip():  # the next core
                    break
                name, _, value = line.partition(":")
                values.setdefault(name.strip(), value.strip())
    except OSError:
        return {}
    return values


def name(path: str = PATH) -> str:
    """Its name with family and model, which the name may lack; or ""."""
    values = fields(path)
    name = values.get("model name", "")
    if name and "cpu family" in values:
        name += f" (family {values['cpu family']}, model {values.get('model')})"
    return name


def instruction_sets(path: str = PATH) -> set[str]:
    """Names as Linux writes them, such as avx2; none where Linux has none."""
    return set(fields(path).get("flags", "").split())
