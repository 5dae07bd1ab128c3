"""The evidence of a history, indexed for the checks: sightings of records, and effective
transactions.

A transaction without an answer counts as committed once there is evidence: a read_committed
consumer saw one of its records, or a group's commit has no other origin.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from penstock.model import TopicPartition
from penstock.testing.history.events import (
    ClientOutcome,
    Ending,
    History,
    Isolation,
    Moment,
    OffsetCommit,
    OffsetFetch,
    Place,
    Poll,
    Polled,
    ReadToEnd,
    RecordedTransaction,
    Send,
    TransactionNumber,
    Trimmed,
)

SentValue: TypeAlias = tuple[str, bytes]  # topic and value: one send
Progress: TypeAlias = tuple[str, TopicPartition]  # a group in a partition
COMMITTED = Isolation.READ_COMMITTED


class Sighting(NamedTuple):
    """A record as one consumer saw it."""

    poll: Poll
    record: Polled


class SeenOffset(NamedTuple):
    """A group's commit that only one transaction can have made."""

    group: str
    place: Place
    at: Moment


class Evidence:
    """One history with its indexes; immutable once built."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sends: dict[SentValue, Send] = {}
        self.transactions: dict[TransactionNumber, RecordedTransaction] = {}
        self.sends_in: dict[TransactionNumber, list[Send]] = defaultdict(list)
        self.sightings: dict[SentValue, list[Sighting]] = defaultdict(list)
        self.commits: dict[Progress, list[tuple[OffsetCommit, Place]]] = defaultdict(list)
        self.fetches: dict[Progress, list[tuple[OffsetFetch, int | None]]] = defaultdict(list)
        self.offsets_seen: dict[TransactionNumber, list[SeenOffset]] = defaultdict(list)
        self.committed_at: dict[TransactionNumber, Moment] = {}
        self._read_up_to: dict[tuple[Isolation, TopicPartition], int] = {}
        self._ends: dict[tuple[Isolation, TopicPartition], list[ReadToEnd]] = defaultdict(list)
        self._trimmed: dict[TopicPartition, int] = {}
        self._collect()
        self._find_offsets_seen()
        self._prove_commits()
        self._visible = {isolation: self._visible_offsets(isolation) for isolation in Isolation}

    # -- questions

    def transaction_of(self, send: Send | OffsetCommit) -> RecordedTransaction | None:
        return None if send.transaction is None else self.transactions[send.transaction]

    def seen(self, send: Send, isolation: Isolation) -> bool:
        """Return whether a consumer of this isolation saw the record. For read_uncommitted, a
        sighting under either isolation counts."""
        found = self.sightings.get((send.partition.topic, send.value), ())
        return any(isolation is not COMMITTED or each.poll.isolation is COMMITTED for each in found)

    def should_be_seen(self, send: Send, isolation: Isolation) -> Moment | None:
        """Return the moment since which readers should see an acknowledged record; None: never."""
        if send.outcome is not ClientOutcome.OK:
            return None
        if send.transaction is None or isolation is not COMMITTED:
            return send.span.ended
        return self.committed_at.get(send.transaction)

    def missing(self, send: Send, isolation: Isolation) -> int | None:
        """Return the offset up to which the partition was read, if the record should have been seen
        and was not."""
        since = self.should_be_seen(send, isolation)
        if since is None or self.seen(send, isolation):
            return None
        first_kept = self._trimmed.get(send.partition, 0)
        if first_kept and (send.offset is None or send.offset < first_kept):
            return None
        read_up_to = self._read_up_to.get((isolation, send.partition), 0)
        if send.offset is not None and send.offset < read_up_to:
            return read_up_to
        # An offset above that end is missing too: the log became shorter.
        if any(end.span.began > since for end in self._ends[isolation, send.partition]):
            return read_up_to
        return None

    def sends_seen(self, number: TransactionNumber) -> tuple[Send, ...]:
        """Return the sends of a transaction that read_committed consumers saw."""
        return tuple(each for each in self.sends_in.get(number, ()) if self.seen(each, COMMITTED))

    def shows(self, number: TransactionNumber) -> bool:
        """Return whether some part of the transaction certainly took effect."""
        return bool(self.sends_seen(number) or self.offsets_seen.get(number))

    def never_committed(self, transaction: RecordedTransaction) -> bool:
        """Return whether the transaction was aborted, or abandoned before its
        commit was requested."""
        return transaction.ending is Ending.ABORTED or transaction.commit_asked is None

    def may_have_effect(self, commit: OffsetCommit) -> bool:
        transaction = self.transaction_of(commit)
        if commit.outcome is ClientOutcome.FAILED:
            return False
        return transaction is None or not self.never_committed(transaction)

    def visible_between(
        self, isolation: Isolation, partition: TopicPartition, first: int, following: int
    ) -> list[int]:
        """Return the offsets in [first, following) whose records are visible at this isolation."""
        offsets = self._visible[isolation].get(partition, [])
        return offsets[bisect_left(offsets, first) : bisect_left(offsets, following)]

    def read_to_end_after(
        self, moment: Moment, isolation: Isolation, partitions: Iterable[TopicPartition]
    ) -> bool:
        """Return whether each partition was read to an end that was requested after the moment."""
        return all(
            any(end.span.began > moment for end in self._ends[isolation, partition])
            for partition in partitions
        )

    # -- construction

    def _collect(self) -> None:
        for operation in self.history:
            match operation:
                case Send():
                    self.sends[operation.partition.topic, operation.value] = operation
                    if operation.transaction is not None:
                        self.sends_in[operation.transaction].append(operation)
                case Poll():
                    self._collect_poll(operation)
                case RecordedTransaction():
                    self.transactions[operation.number] = operation
                case OffsetCommit():
                    for place in operation.offsets:
                        self.commits[operation.group, place.partition].append((operation, place))
                case OffsetFetch():
                    for partition, offset in operation.offsets:
                        self.fetches[operation.group, partition].append((operation, offset))
                case ReadToEnd():
                    self._ends[operation.isolation, operation.partition].append(operation)
                    self._reach(operation.isolation, operation.partition, operation.offset)
                case Trimmed():
                    before = self._trimmed.get(operation.partition, 0)
                    self._trimmed[operation.partition] = max(before, operation.offset)
                case _:
                    pass

    def _collect_poll(self, poll: Poll) -> None:
        for record in poll.records:
            seen = self.sightings[record.partition.topic, record.value]
            seen.append(Sighting(poll, record))
            self._reach(poll.isolation, record.partition, record.offset + 1)

    def _reach(self, isolation: Isolation, partition: TopicPartition, offset: int) -> None:
        before = self._read_up_to.get((isolation, partition), 0)
        self._read_up_to[isolation, partition] = max(before, offset)

    def _find_offsets_seen(self) -> None:
        """Find commits of a group that can have come from one transaction only."""
        for (group, partition), fetches in self.fetches.items():
            by_offset: dict[int, list[OffsetCommit]] = defaultdict(list)
            for commit, place in self.commits.get((group, partition), ()):
                if self.may_have_effect(commit):
                    by_offset[place.offset].append(commit)
            for fetch, offset in fetches:
                ended = fetch.span.ended
                if offset is None or ended is None:
                    continue
                sources = {
                    each.transaction for each in by_offset[offset] if each.span.began < ended
                }
                number = sources.pop() if len(sources) == 1 else None
                if number is not None:
                    seen = SeenOffset(group, Place(partition, offset), ended)
                    self.offsets_seen[number].append(seen)

    def _prove_commits(self) -> None:
        for transaction in self.transactions.values():
            proofs = list(self._proofs(transaction))
            if proofs:
                self.committed_at[transaction.number] = min(proofs)

    def _proofs(self, transaction: RecordedTransaction) -> Iterator[Moment]:
        """Yield moments by which the transaction was certainly committed."""
        if self.never_committed(transaction) or transaction.commit_asked is None:
            return
        if transaction.ending is Ending.COMMITTED and transaction.span.ended is not None:
            yield transaction.span.ended
            return
        for send in self.sends_in.get(transaction.number, ()):
            for poll, _ in self.sightings.get((send.partition.topic, send.value), ()):
                ended = poll.span.ended
                if poll.isolation is COMMITTED and ended and ended > transaction.commit_asked:
                    yield ended
        for seen in self.offsets_seen.get(transaction.number, ()):
            yield seen.at

    def _visible_offsets(self, isolation: Isolation) -> dict[TopicPartition, list[int]]:
        found: dict[TopicPartition, set[int]] = defaultdict(set)
        for value, sightings in self.sightings.items():
            send = self.sends.get(value)
            transaction = None if send is None else self.transaction_of(send)
            if isolation is COMMITTED and transaction and self.never_committed(transaction):
                continue  # a wrong sighting: other consumers do not skip the record
            for poll, record in sightings:
                if isolation is not COMMITTED or poll.isolation is COMMITTED:
                    found[record.partition].add(record.offset)
        return {
            partition: sorted(each for each in offsets if each >= self._trimmed.get(partition, 0))
            for partition, offsets in found.items()
        }
