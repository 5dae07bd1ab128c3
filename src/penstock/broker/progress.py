"""Where a long duty is: one value, the same for all of them.

Whoever has such duties (cleaning, deletion, recovery, moves between directories) has a method
`progress()` that yields one of these per piece of work under way or waiting; `Broker.reporters` is
the list of those who are asked. Nothing is kept for it: the values are made when somebody looks.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Progress(NamedTuple):
    duty: str  # "clean", "delete", "recover", "move"
    subject: str  # a partition or a directory
    done: int
    total: int
    unit: str  # "bytes", "partitions", "segments"
    since_ms: int  # wall clock
    note: str  # one short phrase for people


class Reporter(Protocol):
    """Somebody with long duties."""

    def progress(self) -> Iterator[Progress]: ...
