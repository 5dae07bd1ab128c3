"""Bad records of a produced batch, named one by one (KIP-467).

A producer fails the named records and may send the others of the batch again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import InvalidRecord, InvalidTimestamp, KafkaError, RecordFault
from penstock.model import NO_TIMESTAMP
from penstock.wire.batch import MAX_TIMESTAMP, Header, Skimmed

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition

# An index takes six bytes of the answer. Records beyond these are named by a later attempt.
FAULTS_MAX = 10_000
# The texts are nearly alike, so the first ones explain the others.
TEXTS_MAX = 100
SHOWN_MAX = 3


class RecordFaults:
    """Collects the bad records of one batch for one partition."""

    def __init__(self, partition: "Partition", header: Header, now_ms: int) -> None:
        settings = partition.settings
        self._partition = partition
        self._header = header
        self._keys = settings.compact
        self._low = now_ms - settings.timestamp_before_ms_max
        self._high = now_ms + settings.timestamp_after_ms_max
        self._index = self._bad = 0
        self._times = False  # whether a timestamp is among the faults
        self._faults: list[RecordFault] = []

    def look(self, records: Sequence[Skimmed]) -> None:
        """Note bad records among the next ones. A missing key hides a bad timestamp."""
        check_times = not self._partition.settings.append_time
        for offset, timestamp, keyed in records:
            if self._keys and not keyed:
                self._note(
                    "Compacted topic cannot accept message without key in topic partition "
                    f"{self._partition}"
                )
            elif check_times and timestamp != NO_TIMESTAMP and not self._in_range(timestamp):
                self._times = True
                self._note(
                    f"Timestamp {timestamp} of message with offset {offset} is out of range. "
                    f"The timestamp should be within [{self._low}, {self._high}]"
                )
            self._index += 1

    def rejection(self) -> KafkaError | None:
        """Return the error of the whole batch, or None if every record is good."""
        error: KafkaError
        if self._times:
            error = InvalidTimestamp(
                "One or more records have been rejected due to invalid timestamp"
            )
        elif self._faults:
            shown = ", ".join(
                f"RecordError(batchIndex={each.place}, message='{each.text}')"
                for each in self._faults[:SHOWN_MAX]
            )
            error = InvalidRecord(
                f"One or more records have been rejected due to {self._bad} record errors "
                f"in total, and only showing the first three errors at most: [{shown}]"
            )
        elif self._header_lies():
            error = InvalidTimestamp(
                f"the batch says {self._header[MAX_TIMESTAMP]} is its newest timestamp, which no"
                f" record has; it should be within [{self._low}, {self._high}]"
            )
        else:
            return None
        error.record_faults = self._faults
        return error

    def check(self) -> None:
        """Raise the error of the whole batch, if there is one."""
        rejection = self.rejection()
        if rejection is not None:
            raise rejection

    def _note(self, text: str) -> None:
        self._bad += 1
        if len(self._faults) < FAULTS_MAX:
            told = text if len(self._faults) < TEXTS_MAX else None
            self._faults.append(RecordFault(self._index, told))

    def _in_range(self, timestamp: int) -> bool:
        return self._low <= timestamp <= self._high

    def _header_lies(self) -> bool:
        newest = self._header[MAX_TIMESTAMP]
        if self._partition.settings.append_time or newest == NO_TIMESTAMP:
            return False
        return not self._in_range(newest)
