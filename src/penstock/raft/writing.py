"""A batch of metadata records, encoded in pieces and written as one."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.wire.batch import seal_batch, write_record

PART_OF_BATCH = -1  # the end offset of records whose batch goes on


class LogBatch(NamedTuple):
    """Records that were written together; control records stay inside the quorum."""

    records: Sequence[Any]
    end_offset: int
    epoch: int
    timestamp_ms: int


class BatchWriting:
    """A batch under way. `finish` appends it to the log, which gives it its offsets."""

    def __init__(
        self,
        encode: Callable[[Any], bytes],
        now_ms: int,
        finish: Callable[["BatchWriting"], LogBatch],
    ) -> None:
        self._encode = encode
        self._finish = finish
        self._body = bytearray()
        self.records: list[Any] = []
        self.now_ms = now_ms

    def add(self, records: Sequence[Any]) -> None:
        for place, record in enumerate(records, len(self.records)):
            write_record(self._body, 0, place, None, self._encode(record))
        self.records += records

    def finish(self) -> LogBatch:
        return self._finish(self)

    def seal(self, base_offset: int, leader_epoch: int) -> bytes:
        count = len(self.records)
        return seal_batch(
            self._body,
            0,
            count,
            last_delta=count - 1,
            times_ms=(self.now_ms, self.now_ms),
            base_offset=base_offset,
            leader_epoch=leader_epoch,
        )
