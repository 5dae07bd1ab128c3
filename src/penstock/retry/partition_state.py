"""Outcomes of the records of one source partition, and of those in its retry topics: pure.

Records are admitted in the order in which they were read, from the source and from its retry
topics. Each record is begun, tried or not, and decided. The writes of a decision are committed
together with the offsets, from the front on: a record is committed after all records admitted
before it. So a crash leaves the front written exactly once, and the rest as if never read.

With `ordered`, a record is tried only if no earlier record of its key waits. Otherwise the record
goes to a retry topic behind the earlier one. Records without a key have no order.

A decision counts for other records once it is committed. Until then the decision may be undone:
if a topic rejects its writes (`rejected`), the record has failed.

The caller begins records with the same key one after the other, in the order of admission. Nothing
here reads a clock.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from penstock.client.failures import ClientError
from penstock.client.records import Headers, Record
from penstock.model import TopicPartition
from penstock.retry.idempotency_keys import IdempotencyKeys
from penstock.retry.ladder import Ladder, Names
from penstock.retry.pending_keys import PendingChange, PendingKeys, TooManyWait
from penstock.retry.retry_headers import NoTrail, Trail, read_trail


@dataclass(frozen=True, slots=True)
class Write:
    """A record to write in the transaction; without a partition the key chooses one."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None  # None: the time of the write


@dataclass(frozen=True, slots=True)
class RetryTopics:
    """The retry topics of a ladder, and existing ones of its former steps."""

    names: Names
    ladder: Ladder
    former_ms: tuple[int, ...] = ()

    @property
    def waits_ms(self) -> tuple[int, ...]:
        return (*self.ladder.waits_ms, *self.former_ms)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self.names.retry(each) for each in self.waits_ms)

    def wait_ms(self, topic: str) -> int | None:
        """Return how long a record waits in this topic; None for the source."""
        return next((each for each in self.waits_ms if self.names.retry(each) == topic), None)


class NextAction(Enum):
    """The next action for a record that was begun."""

    TRY = "try"
    BEHIND = "behind"  # decided: the record waits behind another of its key
    SEEN = "seen"  # decided: the event was handled before
    DEAD = "dead"  # decided: the record cannot be handled


class RecordOutcome(Enum):
    """The outcome of a record; the names are those of Counts."""

    SUCCEEDED = "succeeded"
    RETRIED = "retried"
    DEAD = "dead"
    BEHIND = "behind"
    SEEN = "seen"


class RecordUnwritable(ClientError):
    """A topic beside the source rejects a record."""

    next_step = (
        "See what the topic allows (max.message.bytes, cleanup.policy), and start again: nothing "
        "is lost, the record is read again"
    )


@dataclass(slots=True, eq=False)
class AdmittedRecord:
    """One record between its admission and its commit."""

    record: Record[bytes, bytes]
    trail: Trail
    wait_ms: int | None  # of the step that the record came from; None: from the source
    strange: NoTrail | None = None
    identity: bytes | None = None
    begun: bool = False
    dropped: bool = False
    outcome: RecordOutcome | None = None
    writes: tuple[Write, ...] = ()
    change: PendingChange | None = None  # of pending keys, by its decision
    handled_ms: int | None = None

    @property
    def decided(self) -> bool:
        return self.outcome is not None

    @property
    def key(self) -> bytes | None:
        return self.record.key


@dataclass(frozen=True, slots=True)
class Portion:
    """The decided records at the front of a partition state, for one transaction."""

    entries: tuple[AdmittedRecord, ...]

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def writes(self) -> Iterable[Write]:
        return (write for entry in self.entries for write in entry.writes)

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Return the next offset to read of each partition: entries are in the order of offsets."""
        return {entry.record.place: entry.record.offset + 1 for entry in self.entries}


@dataclass(slots=True)
class Counts:
    """Calls of handlers, and committed outcomes of records, since the process started."""

    tried: int = 0
    succeeded: int = 0
    retried: int = 0
    dead: int = 0
    behind: int = 0
    seen: int = 0

    def add(self, outcome: RecordOutcome) -> None:
        setattr(self, outcome.value, getattr(self, outcome.value) + 1)


@dataclass(slots=True)
class PartitionState:
    """The state of one source partition while this process owns the partition."""

    steps: RetryTopics
    partition: int
    ordered: bool = False
    pending: PendingKeys = field(default_factory=PendingKeys)
    seen: IdempotencyKeys | None = None
    # Whether idempotency keys are written beside the source, or stay in this process.
    seen_is_written: bool = False
    counts: Counts = field(default_factory=Counts)
    _entries: deque[AdmittedRecord] = field(default_factory=deque)
    # Events whose records are handled and not committed. `seen` may outlive this state, and a
    # record that is read again after a failed commit is no duplicate of itself.
    _handled: dict[bytes, AdmittedRecord] = field(default_factory=dict)
    # For ordered keys: when the record that was tried last is due again.
    _due_ms: dict[bytes, int] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        return self.steps.names

    def __len__(self) -> int:
        """Return how many records are admitted and not committed."""
        return len(self._entries)

    # -- from admission to decision

    def admit(self, record: Record[bytes, bytes]) -> AdmittedRecord:
        """Admit a record that was read and is due."""
        wait_ms = self.steps.wait_ms(record.topic)
        trail = Trail(
            record.topic, record.partition, record.offset, record.timestamp_ms, self.names.group
        )
        entry = AdmittedRecord(record, trail, wait_ms)
        if wait_ms is not None:
            try:
                entry.trail = read_trail(record.headers)
            except NoTrail as strange:
                entry.strange = strange
        self._entries.append(entry)
        return entry

    def begin(
        self,
        entry: AdmittedRecord,
        now_ms: int,
        identity: bytes | None = None,
        rejection: BaseException | None = None,
    ) -> NextAction:
        """Begin a record; `rejection` is the reason why the record cannot be handled. After TRY
        the caller reports the result; otherwise the record is decided."""
        assert not entry.decided and not entry.dropped, "a record is decided once"
        entry.begun = True
        rejection = rejection or entry.strange
        if rejection is not None:
            self.failed(entry, rejection, now_ms, hopeless=True)
            return NextAction.DEAD
        entry.identity = identity
        if self._was_seen(entry, now_ms):
            self._decide(entry, RecordOutcome.SEEN, (), self._clear_pending(entry))
            return NextAction.SEEN
        if self._must_wait(entry):
            return self._behind(entry, now_ms)
        self.counts.tried += 1
        return NextAction.TRY

    def succeeded(self, entry: AdmittedRecord, now_ms: int, outputs: Sequence[Write] = ()) -> None:
        if self._must_wait(entry):
            # An earlier record of the key was undone meanwhile: handle this one again, behind it.
            self._behind(entry, now_ms)
            return
        writes = [*outputs]
        if self.seen is not None and entry.identity is not None:
            entry.handled_ms = now_ms
            self._handled[entry.identity] = entry
            if self.seen_is_written:
                handled = str(now_ms).encode()
                writes.append(Write(self.names.seen, entry.identity, handled, (), self.partition))
        self._decide(entry, RecordOutcome.SUCCEEDED, writes, self._clear_pending(entry))

    def failed(
        self, entry: AdmittedRecord, error: BaseException, now_ms: int, *, hopeless: bool = False
    ) -> None:
        """Send the record to the next step after a failed attempt, or to the dead letters."""
        step = None if hopeless else self.steps.ladder.step_after(entry.trail.attempts + 1)
        if step is None:
            self._give_up(entry, error, now_ms)
            return
        wait_ms = self.steps.ladder.waits_ms[step]
        try:
            change = self._note_pending(entry)
        except TooManyWait as full:
            self._give_up(entry, full, now_ms)
            return
        trail = entry.trail.failed(error, now_ms, now_ms + wait_ms)
        letter = self._write_for(self.names.retry(wait_ms), entry, trail)
        if self.ordered and entry.key is not None:
            self._due_ms[entry.key] = now_ms + wait_ms
        self._decide(entry, RecordOutcome.RETRIED, [letter], change)

    def rejected(self, entry: AdmittedRecord, error: BaseException, now_ms: int) -> None:
        """Decide again after a topic rejected the writes of this record, alone in a transaction.
        A rejected result is a failed attempt; a record that cannot wait is dead. Raise
        RecordUnwritable if the dead-letter topic rejects the record, too."""
        assert entry.decided and entry in self._entries, "it is decided and not committed"
        outcome = entry.outcome
        if outcome in (RecordOutcome.DEAD, RecordOutcome.SEEN):
            topics = ", ".join(dict.fromkeys(each.topic for each in entry.writes))
            raise RecordUnwritable(f"{entry.record.place}@{entry.record.offset}, {topics}: {error}")
        before = (
            read_trail(entry.writes[0].headers).cause if outcome is RecordOutcome.RETRIED else ""
        )
        self._undo_decision(entry)
        if before:
            error = RecordUnwritable(f"{error} It had failed before: {before}", next_step="")
        self.failed(entry, error, now_ms, hopeless=outcome is not RecordOutcome.SUCCEEDED)
        if not self.ordered or entry.key is None or entry.outcome is not RecordOutcome.RETRIED:
            return
        for later in self._entries:
            if (
                later.outcome is RecordOutcome.SUCCEEDED
                and later.key == entry.key
                and later.trail.offset > entry.trail.offset
            ):
                self._undo_decision(later)
                self._behind(later, now_ms)

    # -- from decision to commit

    def portion(self) -> Portion:
        """Return the decided records at the front."""
        taken = []
        for entry in self._entries:
            if not entry.decided:
                break
            taken.append(entry)
        return Portion(tuple(taken))

    def committed(self, portion: Portion) -> None:
        for entry in portion.entries:
            assert self._entries[0] is entry, "what is committed stands in front"
            assert entry.outcome is not None, "what is committed is decided"
            self._entries.popleft()
            self.counts.add(entry.outcome)
            if entry.handled_ms is not None:
                assert self.seen is not None and entry.identity is not None, "a guard noted it"
                self.seen.add(entry.identity, entry.handled_ms, entry.handled_ms)
                self._forget_handled(entry)

    def trim(self) -> list[AdmittedRecord]:
        """Drop and return the last records that are not begun. Records before a begun one stay,
        because the begun one cannot be committed without these."""
        dropped = []
        while self._entries and not self._entries[-1].begun:
            entry = self._entries.pop()
            entry.dropped = True
            dropped.append(entry)
        return dropped

    # -- inside

    def _was_seen(self, entry: AdmittedRecord, now_ms: int) -> bool:
        if self.seen is None or entry.identity is None:
            return False
        return entry.identity in self._handled or self.seen.holds(entry.identity, now_ms)

    def _must_wait(self, entry: AdmittedRecord) -> bool:
        if not self.ordered or entry.key is None or not self.steps.waits_ms:
            return False
        return not self.pending.may_try(entry.key, entry.trail.offset)

    def _behind(self, entry: AdmittedRecord, now_ms: int) -> NextAction:
        """Send the record to the longest step that ends before the earlier record is due, so that
        the record is written no more often than needed. If that time is not known, use the step
        that the record came from, or the first. This is no attempt."""
        wait_ms = self.steps.waits_ms[0] if entry.wait_ms is None else entry.wait_ms
        left_ms = self._due_ms.get(entry.key or b"", 0) - now_ms
        wait_ms = max((each for each in self.steps.waits_ms if each <= left_ms), default=wait_ms)
        try:
            change = self._note_pending(entry)
        except TooManyWait as full:
            self._give_up(entry, full, now_ms)
            return NextAction.DEAD
        trail = entry.trail.behind(now_ms + wait_ms)
        letter = self._write_for(self.names.retry(wait_ms), entry, trail)
        self._decide(entry, RecordOutcome.BEHIND, [letter], change)
        return NextAction.BEHIND

    def _give_up(self, entry: AdmittedRecord, error: BaseException, now_ms: int) -> None:
        trail = entry.trail.failed(error, now_ms, None)
        letter = self._write_for(self.names.dead, entry, trail)
        self._decide(entry, RecordOutcome.DEAD, [letter], self._clear_pending(entry))

    def _write_for(self, topic: str, entry: AdmittedRecord, trail: Trail) -> Write:
        record = entry.record
        headers = trail.headers(record.headers)
        return Write(topic, record.key, record.value, headers, self.partition)

    def _note_pending(self, entry: AdmittedRecord) -> PendingChange | None:
        if not self.ordered or entry.key is None:
            return None
        return self.pending.add(entry.key, entry.trail.offset)

    def _clear_pending(self, entry: AdmittedRecord) -> PendingChange | None:
        """Remove the record from the pending keys; without `ordered` an earlier run may have
        added it."""
        if entry.key is None:
            return None
        self._due_ms.pop(entry.key, None)
        return self.pending.remove(entry.key, entry.trail.offset)

    def _decide(
        self,
        entry: AdmittedRecord,
        outcome: RecordOutcome,
        writes: Sequence[Write],
        change: PendingChange | None,
    ) -> None:
        entry.writes, entry.change = tuple(writes), change
        if change is not None:
            noted = Write(self.names.pending, change.key, change.value, (), self.partition)
            entry.writes = (*entry.writes, noted)
        entry.outcome = outcome

    def _undo_decision(self, entry: AdmittedRecord) -> None:
        """Reset the record to the state after begin()."""
        if entry.change is not None:
            self.pending.undo(entry.change)
        self._forget_handled(entry)
        entry.outcome = entry.change = entry.handled_ms = None
        entry.writes = ()

    def _forget_handled(self, entry: AdmittedRecord) -> None:
        """Remove the event unless another record of it was handled since."""
        if entry.identity is not None and self._handled.get(entry.identity) is entry:
            del self._handled[entry.identity]
