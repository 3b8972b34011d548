"""What a reader notices in its rows: it returns findings, and a command prints them."""

import dataclasses
from collections.abc import Callable, Iterable

from contract import errors

NOTE, WARNING, FAULT = "note", "warning", "fault"


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was noticed of a file, a row or the like."""

    place: str  # such as "train.csv:17"; "" where the value names it
    value: str
    remedy: str = ""
    kind: str = NOTE  # or WARNING; a FAULT stops the run

    @property
    def text(self) -> str:
        """Such as "train.csv:17: is empty; fill it"."""
        named = f"{self.place}: {self.value}" if self.place else self.value
        return f"{named}; {self.remedy}" if self.remedy else named

    def as_warning(self) -> "Finding":
        """A warning in the place of a fault."""
        kind = WARNING if self.kind == FAULT else self.kind
        return dataclasses.replace(self, kind=kind)


def warning(place: str, value: str, remedy: str = "") -> Finding:
    """A finding that a person should see."""
    return Finding(place, value, remedy, WARNING)


def fault(place: str, value: str, remedy: str = "") -> Finding:
    """A finding that stops the run."""
    return Finding(place, value, remedy, FAULT)


Show = Callable[[Iterable[Finding]], None]  # what is done with findings as they come


def hide(noticed: Iterable[Finding]) -> None:
    """Shows nothing, as a library does."""


def show(noticed: Iterable[Finding]) -> None:
    """Prints notes and warnings, a line each."""
    for each in noticed:
        if each.kind != FAULT:
            print(f"warning: {each.text}" if each.kind == WARNING else each.text)


def refuse(noticed: Iterable[Finding]) -> None:
    """Raises InputError with the faults, one a line."""
    if faults := [each.text for each in noticed if each.kind == FAULT]:
        raise errors.InputError(";\n".join(faults))


def warnings(noticed: Iterable[Finding]) -> tuple[str, ...]:
    """The texts of those that a report shows."""
    return tuple(each.text for each in noticed if each.kind == WARNING)
