"""The processes of one run, one on each host, as TF_CONFIG names them."""

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from contract import errors

VARIABLE = "TF_CONFIG"
_REMINDER_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
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

    def wait_for_others(self, say: Callable[[str], None]) -> None:
        """Returns once every other process is here; names the absent ones.

        TensorFlow waits in one call, in which Python handles no signal and no thread of
        Python runs. So each process listens at its address until it has reached all
        others, which may be in TensorFlow by then and listen there.

        Raises:
            InputError: another program listens at the address of this process.
        """
        absent = [a for i, a in enumerate(self.addresses) if i != self.task]
        due = 0.0
        with _listening(self.addresses[self.task]):
            while absent := [a for a in absent if not _answers(a)]:
                if time.monotonic() >= due:
                    say(f"{self.name} waits for {', '.join(absent)}")
                    due = time.monotonic() + _REMINDER_SECONDS
                time.sleep(_PAUSE_SECONDS)


def _listening(address: str) -> socket.socket:
    try:
        return socket.create_server(("", _split(address)[1]))
    except OSError as error:
        raise errors.InputError(
            f"{VARIABLE}: cannot listen at {address}, the address of this process "
            f"({error.strerror}); end what does, or give another port"
        ) from error


def _answers(address: str) -> bool:
    try:
        socket.create_connection(_split(address), timeout=1.0).close()
    except OSError:
        return False
    return True


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise errors.InputError(f"{VARIABLE}: {address!r} is no address host:port")
    return host.strip("[]"), int(port)


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
    if twice := [a for i, a in enumerate(addresses) if a in addresses[:i]]:
        raise errors.InputError(
            f"{VARIABLE} has {twice[0]} twice; give each process a port of its own"
        )
    return Cluster(addresses, places.index((kind, index)))
