"""The encoder's interface to an implementation: rows per partition, one open batch each."""

from dataclasses import dataclass
from typing import Protocol

from penstock.bulk.inputs import Rows


@dataclass(frozen=True, slots=True)
class Uncollected:
    """The partition's batch has no room for this row; an `oversized` one is too large even for an
    empty batch."""

    row: int
    partition: int
    oversized: bool


@dataclass(frozen=True, slots=True)
class ClosedBatch:
    """A closed batch: space for a header, then the records. The receiver may write to it and keep
    it."""

    batch: memoryview
    records: int
    base_timestamp: int
    max_timestamp: int


class Collector(Protocol):
    """Rows packed into the open batches of partitions."""

    def add(self, rows: Rows, first: int, keyless: int, now_ms: int) -> Uncollected | None:
        """Collect rows from `first` on; return None when all are in. Rows without key and partition
        go to the partition `keyless`."""

    def take(self, partition: int) -> ClosedBatch | None:
        """Close the partition's batch; return None if it is empty."""

    def open_partitions(self) -> list[int]:
        """Return the partitions with records, in order."""
