"""Records that wait for room in librdkafka, for a partition count, or for a schema.

The backlog keeps their order, and later records wait behind. A record waits at most max.block.ms;
all together take at most buffer.memory, and further records are rejected.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from penstock.client.failures import BufferExhausted, TimedOut
from penstock.client.producer.delivery.delivery_tracker import DeliveryCallback
from penstock.client.producer.sending.encoding import (
    NOT_CHOSEN,
    EncodedRecord,
    NotSerializedYet,
    UnserializedRecord,
)

# Serializers may take tens of microseconds per record.
WRITES_AT_ONCE = 200


class WaitingSender(Protocol):
    """The receiver of a waiting record's outcome."""

    def taken(self) -> None: ...
    def fail(self, error: Exception) -> None: ...


@dataclass(slots=True, eq=False)
class WaitingRecord:
    """One waiting record."""

    encoded: EncodedRecord | UnserializedRecord
    report: DeliveryCallback
    sender: WaitingSender
    size_bytes: int
    until_s: float


class SendBacklog:
    """The waiting records of one producer, in the order of sending."""

    def __init__(self, bytes_max: int, block_s: float) -> None:
        self._bytes_max = bytes_max
        self._block_s = block_s
        self._records: deque[WaitingRecord] = deque()
        self.size_bytes = 0
        self.trouble = ""  # why the cluster did not answer

    def __len__(self) -> int:
        return len(self._records)

    def add(
        self,
        encoded: EncodedRecord | UnserializedRecord,
        report: DeliveryCallback,
        sender: WaitingSender,
        now_s: float,
    ) -> None:
        """Add a record; raise BufferExhausted without room."""
        size = encoded.size_bytes
        if self.size_bytes + size > self._bytes_max:
            raise BufferExhausted(
                f"{len(self._records):,} records ({self.size_bytes:,} bytes) wait for room, and "
                f"buffer.memory is {self._bytes_max:,}"
            )
        self.size_bytes += size
        self._records.append(WaitingRecord(encoded, report, sender, size, now_s + self._block_s))

    def refill(
        self,
        now_s: float,
        write: Callable[[UnserializedRecord], EncodedRecord],
        choose: Callable[[EncodedRecord], int],
        hand_over: Callable[[EncodedRecord, DeliveryCallback], None],
    ) -> bool:
        """Hand over records in order, and fail those that waited too long. Return whether more are
        ready: the event loop serves others in between."""
        records = self._records
        writes_left = WRITES_AT_ONCE
        while records and writes_left:
            first = records[0]
            encoded = first.encoded
            try:
                if isinstance(encoded, UnserializedRecord):
                    writes_left -= 1
                    first.encoded = encoded = write(encoded)
                if encoded.partition == NOT_CHOSEN:
                    chosen = choose(encoded)
                    if chosen == NOT_CHOSEN:
                        break
                    first.encoded = encoded = encoded._replace(partition=chosen)
                hand_over(encoded, first.report)
            except BufferError:
                break
            except NotSerializedYet as late:
                first.encoded = late.unwritten
                break
            except Exception as error:
                self._drop(first)
                first.sender.fail(error)
                continue
            self._drop(first)
            first.sender.taken()
        if writes_left:  # else only this call holds them up
            self._expire(now_s)
        return not writes_left

    def _expire(self, now_s: float) -> None:
        # All wait equally long, so the oldest expires first.
        while self._records and self._records[0].until_s <= now_s:
            late = self._records[0]
            self._drop(late)
            late.sender.fail(self._too_late(late.encoded))

    def _too_late(self, encoded: EncodedRecord | UnserializedRecord) -> Exception:
        if isinstance(encoded, UnserializedRecord):
            return TimedOut(
                f"the serializer of a record for {encoded.topic} has asked, and heard nothing "
                f"within max.block.ms ({self._block_s * 1000:.0f} ms)",
                next_step="See whether the schema registry runs and answers",
            )
        if encoded.partition == NOT_CHOSEN:
            return TimedOut(
                f"the cluster did not say how many partitions {encoded.topic} has within "
                f"max.block.ms ({self._block_s * 1000:.0f} ms). {self.trouble}"
            )
        return BufferExhausted(
            f"there was no room for a record for {encoded.topic} within max.block.ms "
            f"({self._block_s * 1000:.0f} ms)"
        )

    def _drop(self, first: WaitingRecord) -> None:
        dropped = self._records.popleft()
        assert dropped is first, "only the first one leaves"
        self.size_bytes -= first.size_bytes

    def give_up(self, error: Exception) -> None:
        """Fail all waiting records."""
        while self._records:
            first = self._records[0]
            self._drop(first)
            first.sender.fail(error)

    def undecided(self) -> str | None:
        """Return the topic whose partition count the first record needs, or None."""
        if not self._records:
            return None
        encoded = self._records[0].encoded
        if isinstance(encoded, UnserializedRecord):
            return None
        return encoded.topic if encoded.partition == NOT_CHOSEN else None

    def unwritten(self) -> UnserializedRecord | None:
        """Return the first record if its serializer has a question, or None."""
        first = self._records[0].encoded if self._records else None
        return first if isinstance(first, UnserializedRecord) else None

    def refuse(self, about: Hashable, error: Exception) -> None:
        """Fail all records that wait for a question without an answer."""
        refused = [each for each in self._records if _waits_for(each, about)]
        self._records = deque(each for each in self._records if not _waits_for(each, about))
        for each in refused:
            self.size_bytes -= each.size_bytes
            each.sender.fail(error)


def _waits_for(waiting: WaitingRecord, about: Hashable) -> bool:
    encoded = waiting.encoded
    return isinstance(encoded, UnserializedRecord) and encoded.about == about
