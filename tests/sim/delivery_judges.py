"""Judges who look into a node: what is stable, what is open for too long, what is left behind."""

from collections.abc import Iterator

from penstock.broker.broker import Broker
from penstock.broker.coordinators.coordinators import AnyRuntime
from penstock.broker.partitions.partition import Partition
from penstock.coordinator.transactions.state import (
    TransactionMetadata,
    TxnProducerIdentity,
    TxnStatus,
)
from penstock.wire.batch import (
    ABORT_MARKER,
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LAST_OFFSET_DELTA,
    LENGTH,
    LENGTH_OVERHEAD,
    PRODUCER_ID,
    TRANSACTIONAL,
    Header,
    batch_headers,
    read_marker,
)
from penstock.world import Cold

READ_BYTES = 1 << 20
# Beyond the timeout: the interval in which the coordinator looks again, a turn or two, a sync.
LATE_MS_MAX = 400.0
# Once decided a transaction ends soon; a log that is being loaded may hold it up for a while.
ENDING_MS_MAX = 3_000.0


def judge_stability(broker: Broker) -> None:
    """The last stable offset of every partition, against what its log holds."""
    for partition in broker.replicas.all():
        spans = _Spans()
        try:
            for header, batch in _batches(partition):
                spans.follow(header, batch)
        except Cold:
            continue
        spans.judge(partition)


def judge_durability(broker: Broker) -> bool:
    """Where a sync is waited for nothing counts before; whether something waits for one now."""
    waiting = False
    for partition in broker.replicas.all():
        synced, counted = partition.log.synced_offset, partition.leader.high_watermark
        waiting = waiting or synced < partition.log.end_offset
        if partition.directory.waits_for_sync:
            assert counted <= synced, f"{partition} counts up to {counted}, synced is {synced}"
    return waiting


def _batches(partition: Partition) -> Iterator[tuple[Header, memoryview]]:
    log = partition.log
    offset = log.start_offset
    while offset < log.end_offset:
        found = log.read(offset, READ_BYTES, upper_offset=log.end_offset, min_one_batch=True)
        assert found.file is not None, "there is something below the end"
        data = memoryview(found.file.read_now(found.position, found.size))
        for position, header in batch_headers(data):
            yield header, data[position : position + LENGTH_OVERHEAD + header[LENGTH]]
            offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1


class _Spans:
    """Transactions as a log tells them: where each begins and ends."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # producer id -> first offset
        self.ended: list[tuple[int, int, int, bool]] = []  # first, marker, producer, aborted

    def follow(self, header: Header, batch: memoryview) -> None:
        producer_id, attributes = header[PRODUCER_ID], header[ATTRIBUTES]
        if attributes & CONTROL:
            marker = read_marker(batch)
            first = self.open.pop(producer_id, None)
            if marker is not None and first is not None:
                aborted = marker[0] == ABORT_MARKER
                self.ended.append((first, header[BASE_OFFSET], producer_id, aborted))
        elif attributes & TRANSACTIONAL:
            self.open.setdefault(producer_id, header[BASE_OFFSET])

    def judge(self, partition: Partition) -> None:
        log, high_watermark = partition.log, partition.leader.high_watermark
        unstable = [first for first, marker, _, _ in self.ended if marker >= high_watermark]
        stable = min([high_watermark, *self.open.values(), *unstable])
        told = log.stable_offset(high_watermark)
        assert told == stable, f"{partition} is told stable up to {told}, it is up to {stable}"
        begun = {first: producer_id for producer_id, first in self.open.items()}
        assert log.producers.ongoing == begun, f"{partition}: {log.producers.ongoing}, {begun}"
        try:
            told_aborted = log.aborted_transactions(log.start_offset, stable)
        except Cold:
            return
        aborted = [
            (producer_id, first)
            for first, marker, producer_id, is_aborted in self.ended
            if is_aborted and first < stable
        ]
        assert sorted(told_aborted) == sorted(aborted), f"{partition}: {told_aborted}, {aborted}"


class Patience:
    """Nothing is open beyond its timeout, nothing is ending for ever, while one node is up."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, TxnProducerIdentity, int, bool], float] = {}

    def node_started(self) -> None:
        self._seen.clear()

    def look(self, broker: Broker, now_ms: float) -> None:
        seen: dict[tuple[str, TxnProducerIdentity, int, bool], float] = {}
        for transaction in open_transactions(broker):
            name, producer = transaction.transactional_id, transaction.producer
            key = (name, producer, transaction.started_ms, transaction.prepared)
            since_ms = seen[key] = self._seen.get(key, now_ms)
            limit_ms = transaction.timeout_ms + LATE_MS_MAX
            if transaction.prepared:
                limit_ms = ENDING_MS_MAX
            lasted_ms = now_ms - since_ms
            assert lasted_ms <= limit_ms, (
                f"{name} {producer} is {transaction.status.title} for {lasted_ms:.0f} ms, "
                f"its timeout is {transaction.timeout_ms} ms"
            )
        self._seen = seen


def open_transactions(broker: Broker) -> list[TransactionMetadata]:
    """Those that are written in, or on their way to an end."""
    return [
        transaction
        for runtime in broker.coordinators.transactions.values()
        for transaction in runtime.machine.transactions
        if transaction.status is TxnStatus.ONGOING or transaction.prepared
    ]


def judge_leftovers(broker: Broker) -> None:
    """When everybody has left: nothing is open, nobody waits, nothing is held."""
    coordinators = broker.coordinators
    assert open_transactions(broker) == []
    for partition in broker.replicas.all():
        assert not partition.log.producers.ongoing, f"{partition} has an open transaction"
        assert not partition.awaiting and not partition.batches, f"{partition} is waited for"
        assert not partition.pending_verifications, (
            f"{partition}: {partition.pending_verifications}"
        )
    for index, groups in coordinators.groups.items():
        store = groups.machine.state.offsets
        pending = [each for each in groups.machine.state.groups if store.has_pending(each)]
        assert pending == [], f"offsets of {pending} are held in __consumer_offsets-{index}"
    runtimes: list[AnyRuntime] = [*coordinators.groups.values()]
    runtimes += coordinators.transactions.values()
    for runtime in runtimes:
        assert not runtime._parked and not runtime._tickets, "somebody is parked still"
    assert coordinators.verification._waiting_bytes == 0
    assert not coordinators.verification._timers
    assert not coordinators.markers._sending
    assert broker.frames.lent_bytes == 0
