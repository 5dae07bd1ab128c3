"""Checks the reads: only committed records, each partition in order and without gaps."""

from collections import defaultdict
from collections.abc import Iterator

from penstock.model import TopicPartition
from penstock.testing.history.anomalies import (
    AbortedRead,
    Anomaly,
    NonMonotonicPoll,
    PollSkip,
    UncommittedRead,
)
from penstock.testing.history.events import (
    AssignedPartitions,
    ClientOperation,
    ClientOutcome,
    Crashed,
    Ending,
    Isolation,
    Moment,
    Poll,
    Revoked,
    Send,
    Sought,
    Subscribed,
)
from penstock.testing.history.evidence import Evidence, Sighting


def check_reads(evidence: Evidence) -> Iterator[Anomaly]:
    for value, sightings in evidence.sightings.items():
        send = evidence.sends.get(value)
        if send is not None:
            yield from _untimely(evidence, send, sightings)
    by_process: dict[str, list[ClientOperation]] = defaultdict(list)
    for operation in evidence.history:
        by_process[operation.process].append(operation)
    for operations in by_process.values():
        yield from _Positions(evidence).follow(operations)


def _untimely(evidence: Evidence, send: Send, sightings: list[Sighting]) -> Iterator[Anomaly]:
    """Yield sightings of records that never existed, or not yet. Dependency cycles between
    transactions (G1c) need no graph: in each cycle a consumer saw a record before its commit was
    requested."""
    transaction = evidence.transaction_of(send)
    place = sightings[0].record.place
    if send.outcome is ClientOutcome.FAILED:
        yield AbortedRead(send, None, place, _readers(sightings))
        return
    if transaction is None:
        return
    committed = [each for each in sightings if each.poll.isolation is Isolation.READ_COMMITTED]
    if not committed:
        return
    if transaction.ending is Ending.ABORTED:
        yield AbortedRead(send, transaction, committed[0].record.place, _readers(committed))
        return
    asked = transaction.commit_asked
    early = [
        each
        for each in committed
        if asked is None or (each.poll.span.ended is not None and each.poll.span.ended < asked)
    ]
    if early:
        yield UncommittedRead(send, transaction, early[0].record.place, _readers(early))


def _readers(sightings: list[Sighting]) -> tuple[str, ...]:
    return tuple(sorted({each.poll.process for each in sightings}))


class _Positions:
    """The known position of one consumer in each of its partitions."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._next: dict[TopicPartition, int] = {}

    def follow(self, operations: list[ClientOperation]) -> Iterator[Anomaly]:
        """Yield the anomalies of one consumer. Rebalance callbacks run inside a poll: its records
        came after them."""
        for operation in sorted(operations, key=_answered):
            match operation:
                case Poll():
                    yield from self._polled(operation)
                case AssignedPartitions():
                    self._keep(operation.partitions)
                case Revoked():
                    self._keep([each for each in self._next if each not in operation.partitions])
                case Subscribed():
                    self._keep([each for each in self._next if each.topic in operation.topics])
                case Sought(offset=None):
                    self._next.pop(operation.partition, None)
                case Sought(offset=int(offset)):
                    self._next[operation.partition] = offset
                case Crashed():
                    self._next.clear()
                case _:
                    pass

    def _keep(self, partitions: list[TopicPartition] | tuple[TopicPartition, ...]) -> None:
        self._next = {each: self._next[each] for each in partitions if each in self._next}

    def _polled(self, poll: Poll) -> Iterator[Anomaly]:
        inside: set[TopicPartition] = set()
        for record in poll.records:
            partition, offset, _ = record
            expected = self._next.get(partition)
            within = partition in inside
            if expected is not None and offset < expected:
                yield NonMonotonicPoll(poll.process, partition, expected, record, within)
            elif expected is not None:
                skipped = self._evidence.visible_between(
                    poll.isolation, partition, expected, offset
                )
                if skipped:
                    yield PollSkip(
                        poll.process, partition, expected, record, tuple(skipped), within
                    )
            self._next[partition] = offset + 1
            inside.add(partition)


def _answered(operation: ClientOperation) -> Moment:
    return operation.span.ended if operation.span.ended is not None else operation.span.began
