"""The batches of one partition on their way to its leader, in order.

A queue sends a batch only if a retry cannot change the order: several at once with sequence
numbers, which the leader checks, else one at a time. If one fails, those behind it come back too,
and all are sent again in order, one at a time.
"""

from collections import deque

from penstock.client.raw.leaders import KnownLeader
from penstock.client.transport.connection import Connection
from penstock.model import TopicPartition
from penstock.wire.batch import HEADER, HEADER_BYTES, MAGIC, MAGIC_2, PRODUCER_ID

# The leader remembers this many batches of a producer, and recognises no older duplicate.
IN_FLIGHT_MAX = 5
PAUSE_MS_MIN = 20
PAUSE_MS_MAX = 1_000


class QueuedBatch:
    """A ready batch; `data` is not copied and must stay as it is until it is acknowledged."""

    __slots__ = ("data", "deadline", "flying", "records", "repeated", "sequenced")

    def __init__(self, data: memoryview, records: int, deadline: float) -> None:
        if len(data) < HEADER_BYTES:
            raise ValueError(f"{len(data)} bytes are no record batch")
        header = HEADER.unpack_from(data)
        if header[MAGIC] != MAGIC_2:
            raise ValueError(f"message format {header[MAGIC]} is not format 2")
        self.data = data
        self.records = records
        self.deadline = deadline
        self.flying = False
        self.repeated = False
        self.sequenced = header[PRODUCER_ID] >= 0


class PartitionQueue:
    """The batches of one partition. `sent` are in flight, `waiting` come after them."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[QueuedBatch] = deque()
        self.sent: deque[QueuedBatch] = deque()
        self.leader: KnownLeader | None = None
        self.connection: Connection | None = None  # the connection of `sent`
        self.rests_until = 0.0
        self.reason = "nothing was answered yet"
        self.missing_since: float | None = None
        self.out_of_order = False
        # A leader that does not know a producer takes any sequence number as its first. Until the
        # first batch is stored, only one may be in flight: a later one could come first.
        self._known_to_leader = False
        self._failures = 0
        self._failing = False

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.sent

    @property
    def oldest(self) -> QueuedBatch:
        return self.sent[0] if self.sent else self.waiting[0]

    @property
    def records(self) -> int:
        return sum(each.records for each in (*self.sent, *self.waiting))

    def may_send(self, connection: Connection, now: float) -> bool:
        if not self.waiting or self._failing or self.rests_until > now:
            return False
        if not self.sent:
            return True
        if self.connection is not connection:
            return False  # on two connections batches could overtake each other
        following = self.waiting[0]
        # A batch that was sent before may be stored although its response was lost. The leader
        # recognises only the last five, so no batch may be stored after it until then.
        repeating = following.repeated or self.sent[0].repeated
        several = following.sequenced and self._known_to_leader and not repeating
        return several and len(self.sent) < IN_FLIGHT_MAX

    def send(self, connection: Connection) -> QueuedBatch:
        batch = self.waiting.popleft()
        batch.flying = True
        self.sent.append(batch)
        self.connection = connection
        return batch

    def acknowledged(self, batch: QueuedBatch) -> None:
        """Remove a stored batch; those before it may still be in flight."""
        self.sent.remove(batch)
        self._known_to_leader = True
        self._failures = 0
        self.out_of_order = False
        self.missing_since = None

    def failed(self, batch: QueuedBatch, reason: str, now: float) -> None:
        """Mark a batch as not known to be stored, to send it again."""
        batch.flying = False
        batch.repeated = True
        self._failing = True
        self.reason = reason
        self.settle(now)

    def settle(self, now: float) -> None:
        """Put all failed batches back into line once none is in flight."""
        if not self._failing or any(each.flying for each in self.sent):
            return
        self.waiting.extendleft(reversed(self.sent))
        self.sent.clear()
        self._failing = False
        self.stumbled(self.reason, now)

    def stumbled(self, reason: str, now: float) -> None:
        """Look for the leader again, after a growing pause."""
        self.reason = reason
        self.leader = None
        pause_ms = min(PAUSE_MS_MAX, PAUSE_MS_MIN << min(self._failures, 10))
        self._failures += 1
        self.rests_until = now + pause_ms / 1000

    def comes_after_a_failure(self, batch: QueuedBatch) -> bool:
        """Return whether a batch before this one failed, so that this one must be out of order."""
        return self._failing or self.sent[0] is not batch
