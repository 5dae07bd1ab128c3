"""The batches of one partition on their way to its leader, in order.

A lane lets a batch go only where a repetition cannot change the order: several at once if they
carry sequence numbers, which the leader checks, else one. When one fails, those behind it have to
come back too, and all leave again in order, one at a time.
"""

from collections import deque

from penstock.client.raw.leaders import Leader
from penstock.client.transport.connection import Connection
from penstock.model import TopicPartition
from penstock.wire.batch import HEADER, HEADER_BYTES, MAGIC, MAGIC_2, PRODUCER_ID

# The leader remembers so many batches of a producer; more under way could not be recognised.
IN_FLIGHT_MAX = 5
PAUSE_MS_MIN = 20
PAUSE_MS_MAX = 1_000


class Batch:
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


class Lane:
    """One partition. `sent` have left and are not acknowledged, `waiting` come after them."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[Batch] = deque()
        self.sent: deque[Batch] = deque()
        self.leader: Leader | None = None
        self.connection: Connection | None = None  # where `sent` are under way
        self.rests_until = 0.0
        self.reason = "nothing was answered yet"
        self.missing_since: float | None = None
        self.out_of_order = False
        # A leader that knows nothing of a producer takes any sequence number for its first. So
        # only one batch may be under way until one has been stored, or a later one could come
        # first and make the earlier one a batch out of order.
        self._known_to_leader = False
        self._failures = 0
        self._failing = False

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.sent

    @property
    def oldest(self) -> Batch:
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
            return False  # on two connections they could overtake each other
        following = self.waiting[0]
        # A batch that was sent before may be stored although its answer was an error or none. The
        # leader recognises it among the last five only: none may be stored after it until then.
        repeating = following.repeated or self.sent[0].repeated
        several = following.sequenced and self._known_to_leader and not repeating
        return several and len(self.sent) < IN_FLIGHT_MAX

    def send(self, connection: Connection) -> Batch:
        batch = self.waiting.popleft()
        batch.flying = True
        self.sent.append(batch)
        self.connection = connection
        return batch

    def acknowledged(self, batch: Batch) -> None:
        """It is stored, whatever becomes of those before it."""
        self.sent.remove(batch)
        self._known_to_leader = True
        self._failures = 0
        self.out_of_order = False
        self.missing_since = None

    def failed(self, batch: Batch, reason: str, now: float) -> None:
        """It is not known to be stored, and has to be sent again."""
        batch.flying = False
        batch.repeated = True
        self._failing = True
        self.reason = reason
        self.settle(now)

    def settle(self, now: float) -> None:
        """Once none is under way any more, all that failed stand in line again."""
        if not self._failing or any(each.flying for each in self.sent):
            return
        self.waiting.extendleft(reversed(self.sent))
        self.sent.clear()
        self._failing = False
        self.stumbled(self.reason, now)

    def stumbled(self, reason: str, now: float) -> None:
        """Look for the leader anew, after a pause that grows."""
        self.reason = reason
        self.leader = None
        pause_ms = min(PAUSE_MS_MAX, PAUSE_MS_MIN << min(self._failures, 10))
        self._failures += 1
        self.rests_until = now + pause_ms / 1000

    def comes_after_a_failure(self, batch: Batch) -> bool:
        """Whether one before it failed: then it could not but be out of order."""
        return self._failing or self.sent[0] is not batch
