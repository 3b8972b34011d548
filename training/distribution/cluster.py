"""The processes of one run, one on each host, as TF_CONFIG names them."""

import json
import os
from collections.abc import Mapping
from typing import NamedTuple

from contract import errors

VARIABLE = "TF_CONFIG"
# Those that compute, in the order of their numbers; the first is the chief.
_TYPES = ("chief", "worker")
_EXAMPLE = (
    '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)


class Cluster(NamedTuple):
    """All processes as host:port, the chief first; `task` is the number of this one."""

    addresses: tuple[str, ...]
    task: int

    @property
    def name(self) -> str:
        """This process, in words."""
        role = "the chief" if self.task == 0 else f"chief: {self.addresses[0]}"
        return f"worker {self.task} of {len(self.addresses)} ({role})"


def read(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """The cluster in TF_CONFIG, None for fewer than two processes, or a ValueError."""
    text = environment.get(VARIABLE, "")
    if not text.strip():
        return None
    try:
        record = json.loads(text)
        cluster = {kind: list(hosts) for kind, hosts in record["cluster"].items()}
        if any(isinstance(hosts, str) for hosts in record["cluster"].values()):
            raise TypeError("addresses must be a list")  # text is one of letters
        kind, index = record["task"]["type"], int(record["task"]["index"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.InputError(
            f"{VARIABLE}={text!r} cannot be understood ({type(error).__name__}: "
            f"{error}); it should look like {_EXAMPLE}"
        ) from error
    if strange := sorted({*cluster, kind} - {*_TYPES}):
        raise errors.InputError(
            f"{VARIABLE} has {', '.join(strange)}; a run has only "
            f"{' and '.join(_TYPES)}, all of which compute: no parameter servers"
        )
    places = [(name, i) for name in _TYPES for i in range(len(cluster.get(name, ())))]
    if (kind, index) not in places:
        raise errors.InputError(
            f"{VARIABLE}: task {kind} {index} is none of the cluster's: "
            f"{', '.join(f'{name} {i}' for name, i in places)}"
        )
    if len(places) < 2:
        return None
    addresses = tuple(cluster[name][i] for name, i in places)
    return Cluster(addresses, places.index((kind, index)))
