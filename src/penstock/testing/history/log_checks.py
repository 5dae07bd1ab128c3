"""Checks the logs: no loss, no duplicate, no foreign value, and the order of sends."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from penstock.model import TopicPartition
from penstock.testing.history.anomalies import (
    Anomaly,
    Duplicate,
    InconsistentOffset,
    LostWrite,
    NonMonotonicSend,
    UnsentValue,
)
from penstock.testing.history.events import ClientOutcome, Isolation, Place, Send
from penstock.testing.history.evidence import Evidence, SentValue


def check_logs(evidence: Evidence) -> Iterator[Anomaly]:
    yield from _offset_conflicts(evidence)
    yield from _unsent(evidence)
    yield from _lost(evidence)
    yield from _order_of_sends(evidence)


def _offset_conflicts(evidence: Evidence) -> Iterator[Anomaly]:
    """Compare acknowledgements and polls: one value per offset, one offset per value."""
    at: dict[Place, dict[bytes, list[str]]] = defaultdict(lambda: defaultdict(list))
    where: dict[SentValue, dict[Place, list[str]]] = defaultdict(lambda: defaultdict(list))

    def said(partition: TopicPartition, offset: int, value: bytes, process: str) -> None:
        place = Place(partition, offset)
        at[place][value].append(process)
        where[partition.topic, value][place].append(process)

    for (_, value), send in evidence.sends.items():
        if send.outcome is ClientOutcome.OK and send.offset is not None:
            said(send.partition, send.offset, value, send.process)
    for sightings in evidence.sightings.values():
        for poll, record in sightings:
            said(record.partition, record.offset, record.value, poll.process)
    for place, values in sorted(at.items()):
        if len(values) > 1:
            yield InconsistentOffset(place, tuple(sorted(values)), _everyone(values.values()))
    for (_, value), places in sorted(where.items()):
        if len(places) > 1:
            yield Duplicate(value, tuple(sorted(places)), _everyone(places.values()))


def _everyone(processes: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted({name for each in processes for name in each}))


def _unsent(evidence: Evidence) -> Iterator[Anomaly]:
    """Find foreign values, only in topics whose writers were recorded."""
    topics = {topic for topic, _ in evidence.sends}
    for value, sightings in sorted(evidence.sightings.items()):
        if value not in evidence.sends and value[0] in topics:
            readers = tuple(sorted({each.poll.process for each in sightings}))
            yield UnsentValue(sightings[0].record, readers)


def _lost(evidence: Evidence) -> Iterator[Anomaly]:
    for send in evidence.sends.values():
        for isolation in Isolation:
            read_up_to = evidence.missing(send, isolation)
            if read_up_to is None:
                continue
            torn = isolation is Isolation.READ_COMMITTED and (
                send.transaction is not None and evidence.shows(send.transaction)
            )
            if not torn:  # another check reports a torn transaction as a whole
                yield LostWrite(send, isolation, read_up_to)
            break  # one loss, one sentence


def _order_of_sends(evidence: Evidence) -> Iterator[Anomaly]:
    last: dict[tuple[str, TopicPartition], Send] = {}
    for send in sorted(evidence.sends.values(), key=lambda each: each.span.began):
        if send.outcome is not ClientOutcome.OK or send.offset is None:
            continue
        earlier = last.get((send.process, send.partition))
        if earlier is not None and earlier.offset is not None and send.offset < earlier.offset:
            yield NonMonotonicSend(earlier, send)
        last[send.process, send.partition] = send
