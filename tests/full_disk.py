"""A disk that is full after some bytes of each file."""

import contextlib
import resource


@contextlib.contextmanager
def full_disk(after):
    """Within it this process cannot write more than `after` bytes into a file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
