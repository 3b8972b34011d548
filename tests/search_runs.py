"""run_search.py in the process of a test."""

from tests import tiny


def run(*arguments):
    """Runs the command; an exception that is no expected end passes through."""
    return tiny.run_program("run_search", *arguments)
