"""Progress of long tasks: cleaning, deletion, recovery, moves between directories.

Each part with such tasks has a method `progress()` that yields a value per task under way or
waiting. `Broker.reporters` lists these parts. Values are made on demand; nothing is stored.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class TaskProgress(NamedTuple):
    duty: str  # "clean", "delete", "recover", "move"
    subject: str  # a partition or a directory
    done: int
    total: int
    unit: str  # "bytes", "partitions", "segments"
    since_ms: int  # wall clock
    note: str  # one short phrase for people


class ProgressReporter(Protocol):
    """A part of the broker with long tasks."""

    def progress(self) -> Iterator[TaskProgress]: ...
