"""What becomes of the records of one source partition, and of those that wait beside it: pure.

Records are admitted in the order in which they were read, from the source and from the topics of
the ladder alike. Each is begun, tried or not, and decided; what a decision has to write is
committed together with the offsets, from the front on: nothing is committed while something that
was admitted before it is undecided. So a crash at any point leaves what was decided from the front
written exactly once, and everything behind it as if it had never been read.

With `ordered`, a record is tried only if none of its key that came before it in the source waits:
it goes to a topic of the ladder itself then, behind the other. Records without a key have no order.

A decision counts for others, and is counted, once it is committed. Until then it may be taken back:
what no topic takes (`refused`) is a failure of the record that was to write it.

The caller sees to it that records with the same key are begun one after the other, in the order in
which they were admitted. Nothing here reads a clock.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from penstock.client.failures import ClientError
from penstock.client.records import Headers, Record
from penstock.model import TopicPartition
from penstock.retry.ladder import Ladder, Names
from penstock.retry.pending import Change, Pending, TooManyWait
from penstock.retry.seen import Seen
from penstock.retry.trail import NoTrail, Trail, read_trail


@dataclass(frozen=True, slots=True)
class Write:
    """A record to write in the transaction; without a partition its key decides."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None  # None: of the moment at which it is written


@dataclass(frozen=True, slots=True)
class Steps:
    """The topics of a ladder, and those of steps that it no longer has but that still exist."""

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
        """How long one waits in this topic; None in the source."""
        return next((each for each in self.waits_ms if self.names.retry(each) == topic), None)


class Verdict(Enum):
    """What is to be done with a record whose turn it is."""

    TRY = "try"
    BEHIND = "behind"  # decided: it waits behind another of its key
    SEEN = "seen"  # decided: it was handled before
    DEAD = "dead"  # decided: nothing can be made of it


class Fate(Enum):
    """What became of a record; the names are those of Counts."""

    SUCCEEDED = "succeeded"
    RETRIED = "retried"
    DEAD = "dead"
    BEHIND = "behind"
    SEEN = "seen"


class Unwritable(ClientError):
    """What has to be written beside the source is refused by its topic."""

    next_step = (
        "See what the topic allows (max.message.bytes, cleanup.policy), and start again: nothing "
        "is lost, the record is read again"
    )


@dataclass(slots=True, eq=False)
class Entry:
    """One admitted record on its way."""

    record: Record[bytes, bytes]
    trail: Trail
    wait_ms: int | None  # of the step that it came from; None: it came from the source
    strange: NoTrail | None = None
    identity: bytes | None = None
    begun: bool = False
    dropped: bool = False
    fate: Fate | None = None
    writes: tuple[Write, ...] = ()
    change: Change | None = None  # of pending keys, by its decision
    handled_ms: int | None = None

    @property
    def decided(self) -> bool:
        return self.fate is not None

    @property
    def key(self) -> bytes | None:
        return self.record.key


@dataclass(frozen=True, slots=True)
class Portion:
    """What one transaction takes of a course: from the front, all of it decided."""

    entries: tuple[Entry, ...]

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def writes(self) -> Iterable[Write]:
        return (write for entry in self.entries for write in entry.writes)

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The next ones to read. Records of one partition are admitted in their order."""
        return {entry.record.place: entry.record.offset + 1 for entry in self.entries}


@dataclass(slots=True)
class Counts:
    """Since the process began: calls of handlers, and what became of records, as committed."""

    tried: int = 0
    succeeded: int = 0
    retried: int = 0
    dead: int = 0
    behind: int = 0
    seen: int = 0

    def add(self, fate: Fate) -> None:
        setattr(self, fate.value, getattr(self, fate.value) + 1)


@dataclass(slots=True)
class Course:
    """Of one source partition, for as long as this process has it."""

    steps: Steps
    partition: int
    ordered: bool = False
    pending: Pending = field(default_factory=Pending)
    seen: Seen | None = None
    # Idempotency keys are written beside the source; else this process alone knows them.
    seen_is_written: bool = False
    counts: Counts = field(default_factory=Counts)
    _entries: deque[Entry] = field(default_factory=deque)
    # Events whose records are handled and not committed: `seen` may outlive this course, and a
    # record that is read again because its commit failed is no duplicate of itself.
    _handled: dict[bytes, Entry] = field(default_factory=dict)
    # Of keys whose order is kept: when the one that was tried last is tried again.
    _due_ms: dict[bytes, int] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        return self.steps.names

    def __len__(self) -> int:
        """What is admitted and not committed."""
        return len(self._entries)

    # -- the way of a record

    def admit(self, record: Record[bytes, bytes]) -> Entry:
        """It was read, and is due."""
        wait_ms = self.steps.wait_ms(record.topic)
        trail = Trail(
            record.topic, record.partition, record.offset, record.timestamp_ms, self.names.group
        )
        entry = Entry(record, trail, wait_ms)
        if wait_ms is not None:
            try:
                entry.trail = read_trail(record.headers)
            except NoTrail as strange:
                entry.strange = strange
        self._entries.append(entry)
        return entry

    def begin(
        self,
        entry: Entry,
        now_ms: int,
        identity: bytes | None = None,
        refusal: BaseException | None = None,
    ) -> Verdict:
        """Its turn has come; `refusal` says why nothing can be made of it. After TRY the caller
        says how it went; else it is decided."""
        assert not entry.decided and not entry.dropped, "a record is decided once"
        entry.begun = True
        refusal = refusal or entry.strange
        if refusal is not None:
            self.failed(entry, refusal, now_ms, hopeless=True)
            return Verdict.DEAD
        entry.identity = identity
        if self._was_seen(entry, now_ms):
            self._decide(entry, Fate.SEEN, (), self._gone(entry))
            return Verdict.SEEN
        if self._must_wait(entry):
            return self._behind(entry, now_ms)
        self.counts.tried += 1
        return Verdict.TRY

    def succeeded(self, entry: Entry, now_ms: int, outputs: Sequence[Write] = ()) -> None:
        if self._must_wait(entry):
            # One before it was taken back meanwhile: this one is done again, behind it.
            self._behind(entry, now_ms)
            return
        writes = [*outputs]
        if self.seen is not None and entry.identity is not None:
            entry.handled_ms = now_ms
            self._handled[entry.identity] = entry
            if self.seen_is_written:
                handled = str(now_ms).encode()
                writes.append(Write(self.names.seen, entry.identity, handled, (), self.partition))
        self._decide(entry, Fate.SUCCEEDED, writes, self._gone(entry))

    def failed(
        self, entry: Entry, error: BaseException, now_ms: int, *, hopeless: bool = False
    ) -> None:
        """An attempt failed. It waits on the next step, or is dead."""
        step = None if hopeless else self.steps.ladder.step_after(entry.trail.attempts + 1)
        if step is None:
            self._bury(entry, error, now_ms)
            return
        wait_ms = self.steps.ladder.waits_ms[step]
        try:
            change = self._waits(entry)
        except TooManyWait as full:
            self._bury(entry, full, now_ms)
            return
        trail = entry.trail.failed(error, now_ms, now_ms + wait_ms)
        letter = self._beside(self.names.retry(wait_ms), entry, trail)
        if self.ordered and entry.key is not None:
            self._due_ms[entry.key] = now_ms + wait_ms
        self._decide(entry, Fate.RETRIED, [letter], change)

    def refused(self, entry: Entry, error: BaseException, now_ms: int) -> None:
        """A topic does not take what the decision has to write; it was the only one in its
        transaction. A result is a failed attempt then; a record that cannot wait is dead.
        Unwritable if there is nowhere left to put it."""
        assert entry.decided and entry in self._entries, "it is decided and not committed"
        fate = entry.fate
        if fate in (Fate.DEAD, Fate.SEEN):
            topics = ", ".join(dict.fromkeys(each.topic for each in entry.writes))
            raise Unwritable(f"{entry.record.place}@{entry.record.offset}, {topics}: {error}")
        before = read_trail(entry.writes[0].headers).cause if fate is Fate.RETRIED else ""
        self._take_back(entry)
        if before:
            error = Unwritable(f"{error} It had failed before: {before}", next_step="")
        self.failed(entry, error, now_ms, hopeless=fate is not Fate.SUCCEEDED)
        if not self.ordered or entry.key is None or entry.fate is not Fate.RETRIED:
            return
        for later in self._entries:
            if (
                later.fate is Fate.SUCCEEDED
                and later.key == entry.key
                and later.trail.offset > entry.trail.offset
            ):
                self._take_back(later)
                self._behind(later, now_ms)

    # -- what is decided

    def portion(self) -> Portion:
        """All that is decided from the front on."""
        taken = []
        for entry in self._entries:
            if not entry.decided:
                break
            taken.append(entry)
        return Portion(tuple(taken))

    def committed(self, portion: Portion) -> None:
        for entry in portion.entries:
            assert self._entries[0] is entry, "what is committed stands in front"
            assert entry.fate is not None, "what is committed is decided"
            self._entries.popleft()
            self.counts.add(entry.fate)
            if entry.handled_ms is not None:
                assert self.seen is not None and entry.identity is not None, "a guard noted it"
                self.seen.add(entry.identity, entry.handled_ms, entry.handled_ms)
                self._forget_handled(entry)

    def trim(self) -> list[Entry]:
        """Drop what was admitted last and not begun: there is no time for it. What stands before
        something that was begun stays, for that could not be committed without it."""
        dropped = []
        while self._entries and not self._entries[-1].begun:
            entry = self._entries.pop()
            entry.dropped = True
            dropped.append(entry)
        return dropped

    # -- inside

    def _was_seen(self, entry: Entry, now_ms: int) -> bool:
        if self.seen is None or entry.identity is None:
            return False
        return entry.identity in self._handled or self.seen.holds(entry.identity, now_ms)

    def _must_wait(self, entry: Entry) -> bool:
        if not self.ordered or entry.key is None or not self.steps.waits_ms:
            return False
        return not self.pending.may_try(entry.key, entry.trail.offset)

    def _behind(self, entry: Entry, now_ms: int) -> Verdict:
        """To the longest step that ends before what it waits for is due: not to be written more
        often than needed. To the step that it came from, or to the first, if that is not known.
        That is no attempt."""
        wait_ms = self.steps.waits_ms[0] if entry.wait_ms is None else entry.wait_ms
        left_ms = self._due_ms.get(entry.key or b"", 0) - now_ms
        wait_ms = max((each for each in self.steps.waits_ms if each <= left_ms), default=wait_ms)
        try:
            change = self._waits(entry)
        except TooManyWait as full:
            self._bury(entry, full, now_ms)
            return Verdict.DEAD
        trail = entry.trail.behind(now_ms + wait_ms)
        letter = self._beside(self.names.retry(wait_ms), entry, trail)
        self._decide(entry, Fate.BEHIND, [letter], change)
        return Verdict.BEHIND

    def _bury(self, entry: Entry, error: BaseException, now_ms: int) -> None:
        trail = entry.trail.failed(error, now_ms, None)
        letter = self._beside(self.names.dead, entry, trail)
        self._decide(entry, Fate.DEAD, [letter], self._gone(entry))

    def _beside(self, topic: str, entry: Entry, trail: Trail) -> Write:
        record = entry.record
        headers = trail.headers(record.headers)
        return Write(topic, record.key, record.value, headers, self.partition)

    def _waits(self, entry: Entry) -> Change | None:
        if not self.ordered or entry.key is None:
            return None
        return self.pending.add(entry.key, entry.trail.offset)

    def _gone(self, entry: Entry) -> Change | None:
        """It waits no more. Also without `ordered`: what an earlier run has noted is cleared."""
        if entry.key is None:
            return None
        self._due_ms.pop(entry.key, None)
        return self.pending.remove(entry.key, entry.trail.offset)

    def _decide(
        self, entry: Entry, fate: Fate, writes: Sequence[Write], change: Change | None
    ) -> None:
        entry.writes, entry.change = tuple(writes), change
        if change is not None:
            noted = Write(self.names.pending, change.key, change.value, (), self.partition)
            entry.writes = (*entry.writes, noted)
        entry.fate = fate

    def _take_back(self, entry: Entry) -> None:
        """As if it had only been begun."""
        if entry.change is not None:
            self.pending.undo(entry.change)
        self._forget_handled(entry)
        entry.fate = entry.change = entry.handled_ms = None
        entry.writes = ()

    def _forget_handled(self, entry: Entry) -> None:
        """Another record of the same event may have been handled since."""
        if entry.identity is not None and self._handled.get(entry.identity) is entry:
            del self._handled[entry.identity]
