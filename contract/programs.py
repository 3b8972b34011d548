"""How the programs of this project are started, in a checkout and installed."""

PACKAGE = (__package__ or "").rpartition(".")[0]  # of a wheel; "" in a checkout


def command(program: str) -> str:
    """The beginning of a command line for a program such as `run_classifier`."""
    module = f"{PACKAGE}.{program}" if PACKAGE else program
    return f"python -m {module}" if "." in module else f"python {module}.py"
