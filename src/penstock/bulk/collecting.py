"""What an encoder needs of an implementation: rows collected per partition, one open batch each."""

from dataclasses import dataclass
from typing import Protocol

from penstock.bulk.inputs import Rows


@dataclass(frozen=True, slots=True)
class Full:
    """The batch of this partition has no room for this row, which is not taken yet."""

    row: int
    partition: int


@dataclass(frozen=True, slots=True)
class Oversized:
    """This row, which is not taken, is too large even for an empty batch of this partition."""

    row: int
    partition: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A batch that is closed: room for a header, then the records; to be written to and kept."""

    batch: memoryview
    records: int
    base_timestamp: int
    max_timestamp: int


class Collector(Protocol):
    """Rows packed into the open batches of partitions."""

    def add(self, rows: Rows, first: int, keyless: int, now_ms: int) -> Full | Oversized | None:
        """Collect rows from `first` on; None when all are in. Rows without key and partition go
        to the partition `keyless`."""

    def take(self, partition: int) -> Taken | None:
        """Close the partition's batch; None if it holds nothing."""

    def open_partitions(self) -> list[int]:
        """The partitions that hold records, in order."""
