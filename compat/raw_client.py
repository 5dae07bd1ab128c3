"""The raw client against Apache Kafka: reading, writing and transactions, stock and with the
unstable versions that two-phase commit needs there.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from bench.servers import Ports, running, scratch, start
from compat.report import Report
from penstock.client.admin.blocking import Admin
from penstock.client.raw.batch_writer import BatchWriter
from penstock.client.raw.outcomes import ProducerReplaced, RecordsExpired, TopicRecreated
from penstock.client.raw.range_reader import FetchedBatches, OffsetRange, RangeReader
from penstock.client.raw.transactions import (
    ProducerIdentity,
    abilities_of,
    add_partitions,
    end_transaction,
    init_producer_id,
)
from penstock.client.values import At, FoundOffset, NewTopic, TopicDescription
from penstock.errors import (
    InvalidTxnState,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from penstock.model import TopicPartition
from penstock.wire.batch import (
    ATTRIBUTES,
    CONTROL,
    PRODUCER_ID,
    Record,
    batch_headers,
    build_batch,
    read_records,
)

BATCHES = 400
RECORDS_PER_BATCH = 25
KILL_AFTER_BATCHES = 100
SETTLE_SECONDS_MAX = 30
UNSTABLE = {"unstable.api.versions.enable": "true"}
TWO_PHASE = {**UNSTABLE, "transaction.two.phase.commit.enable": "true"}


def _batch(
    identity: ProducerIdentity, sequence: int, *values: bytes, transactional: bool = False
) -> bytes:
    return build_batch(
        [Record(place, 1_000, None, value) for place, value in enumerate(values)],
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def _visible(chunks: Iterator[FetchedBatches]) -> list[bytes | None]:
    seen: list[bytes | None] = []
    for chunk in chunks:
        coming = sorted(chunk.aborted, key=lambda each: each[1])
        aborted: set[int] = set()
        for position, header in batch_headers(chunk.records):
            while coming and coming[0][1] <= header[0]:
                aborted.add(coming.pop(0)[0])
            if header[ATTRIBUTES] & CONTROL:
                aborted.discard(header[PRODUCER_ID])
            elif header[PRODUCER_ID] not in aborted:
                records = read_records(chunk.records[position:])
                seen += [each.value for each in records if chunk.start <= each.offset < chunk.end]
    return seen


def _read(admin: Admin, partition: TopicPartition, chunk_bytes: int = 50_000) -> list[bytes | None]:
    ranges = [OffsetRange(partition, 0, _settled_end(admin, partition))]
    reader = RangeReader(admin.nodes, ranges, committed_only=True, chunk_bytes=chunk_bytes)
    return _visible(reader.chunks())


def _settled_end(admin: Admin, partition: TopicPartition) -> int:
    """The end of a partition, once no transaction is open in it: markers come after EndTxn."""
    until = time.monotonic() + SETTLE_SECONDS_MAX
    while time.monotonic() < until:
        stable = admin.offsets({partition: At.END}, committed_only=True)[partition]
        end = admin.offsets({partition: At.END})[partition]
        assert isinstance(stable, FoundOffset) and isinstance(end, FoundOffset), (stable, end)
        if stable.offset == end.offset:
            return end.offset
        time.sleep(0.02)
    raise TimeoutError(f"a transaction stays open in {partition}")


def _topic(admin: Admin) -> TopicPartition:
    name = f"raw-{uuid4().hex[:8]}"
    made = admin.create_topics([NewTopic(name, partitions=2, replication_factor=1)])[name]
    if isinstance(made, Exception):
        raise made
    return TopicPartition(name, 0)


def _raises(
    expected: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]
) -> str:
    """What it said; empty if it did not fail as expected."""
    try:
        call()
    except expected as problem:
        return str(problem) or type(problem).__name__
    return ""


def _write_in_transaction(
    admin: Admin, name: str, identity: ProducerIdentity, partition: TopicPartition, *values: bytes
) -> None:
    abilities = abilities_of(admin.nodes.any())
    if abilities.must_add_partitions:
        add_partitions(admin.routes, name, identity[:2], [partition])
    writer = BatchWriter(
        admin.nodes, transactional_id=name, version_max=abilities.produce_version_max
    )
    writer.send(partition, _batch(identity, 0, *values, transactional=True), len(values))
    writer.flush()


def _check_transactions(report: Report, admin: Admin, how: str) -> None:
    partition, kept = _topic(admin), []
    name = f"raw-{uuid4().hex[:8]}"
    identity = init_producer_id(admin.routes, name)
    repeated = True
    for number in range(6):
        value = f"transaction {number}".encode()
        _write_in_transaction(admin, name, identity, partition, value)
        commit = number % 2 == 0
        ended = end_transaction(admin.routes, name, *identity[:2], commit)
        again = end_transaction(admin.routes, name, *identity[:2], commit, ended.version)
        repeated = repeated and again == ended
        kept += [value] if commit else []
        identity = ProducerIdentity(ended.producer_id, ended.epoch)
        if ended.version < 5:
            identity = init_producer_id(admin.routes, name)
    report.expect(repeated, f"{how}: the same EndTxn may be repeated")
    found = _read(admin, partition, chunk_bytes=200)
    report.expect(found == kept, f"{how}: committed transactions are read, aborted ones are not")
    _write_in_transaction(admin, name, identity, partition, b"left open")
    newer = init_producer_id(admin.routes, name)
    report.expect(newer.epoch > identity.epoch, f"{how}: a new owner aborts what was left open")
    told = _raises(
        ProducerReplaced,
        lambda: _write_in_transaction(admin, name, identity, partition, b"zombie"),
    ) or _raises(ProducerFenced, lambda: add_partitions(admin.routes, name, identity[:2], []))
    report.expect(told != "", f"{how}: the old owner may not write")
    told = _raises(
        (ProducerFenced, InvalidTxnState),
        lambda: end_transaction(admin.routes, name, *identity[:2], True),
    )
    report.expect(told != "", f"{how}: the old owner may not commit")


def _check_topics(report: Report, admin: Admin) -> None:
    partition = _topic(admin)
    writer = BatchWriter(admin.nodes)
    for number in range(10):
        writer.send(partition, build_batch([Record(0, 1_000, None, b"%d" % number)]), 1)
    writer.flush()
    admin.delete_records({partition: 7})
    ranges = [OffsetRange(partition, 0, 10)]
    told = _raises(
        RecordsExpired,
        lambda: list(RangeReader(admin.nodes, ranges, committed_only=False).chunks()),
    )
    report.expect("begins at 7" in told, "deleted records are said with the new start", told)
    before = admin.describe_topics([partition.topic])[partition.topic]
    assert isinstance(before, TopicDescription), before
    reader = RangeReader(
        admin.nodes, [OffsetRange(partition, 7, 10)], committed_only=False,
        topic_ids={partition.topic: before.topic_id},
    )  # fmt: skip
    admin.delete_topics([partition.topic])
    fresh = NewTopic(partition.topic, partitions=1, replication_factor=1)
    until = time.monotonic() + SETTLE_SECONDS_MAX
    while isinstance(admin.create_topics([fresh])[fresh.name], Exception):
        assert time.monotonic() < until, "the old one does not go"
    told = _raises(TopicRecreated, lambda: list(reader.chunks()))
    report.expect(told != "", "a topic that was created again is noticed", told)


class _Mortal:
    """A server that is killed and comes back while others go on."""

    def __init__(self, data: Path) -> None:
        self._data, self._ports = data, Ports.free()
        self.server = start("kafka", data, ports=self._ports)
        self._returning = threading.Thread(target=self._come_back)

    def kill_and_return(self) -> None:
        self.server.kill()
        self._returning.start()

    def _come_back(self) -> None:
        self.server = start("kafka", self._data, ports=self._ports)

    def end(self) -> None:
        if self._returning.ident is not None:
            self._returning.join()
        self.server.kill()


def _check_killed(report: Report, place: Path) -> None:
    """The server is killed while batches are under way, and comes back."""
    mortal = _Mortal(place / "killed")
    try:
        with Admin(bootstrap=mortal.server.bootstrap) as admin:
            partition = _topic(admin)
            identity = init_producer_id(admin.routes, None)
            writer = BatchWriter(admin.nodes, delivery_timeout_ms=120_000)
            sent: list[bytes | None] = []
            for number in range(BATCHES):
                values = [b"%d.%d" % (number, place) for place in range(RECORDS_PER_BATCH)]
                writer.send(partition, _batch(identity, len(sent), *values), len(values))
                sent += values
                if number == KILL_AFTER_BATCHES:
                    mortal.kill_and_return()
            writer.flush()
            found = _read(admin, partition)
            report.expect(
                found == sent,
                f"{BATCHES} batches through a SIGKILL of the server: each once, in order",
                f"{len(found)} of {len(sent)} records, {len(set(found))} different",
            )
    finally:
        mortal.end()


def _check_two_phase(report: Report, admin: Admin) -> None:
    name, partition = f"raw-{uuid4().hex[:8]}", _topic(admin)
    identity = init_producer_id(admin.routes, name, enable_2pc=True)
    _write_in_transaction(admin, name, identity, partition, b"prepared")
    # Another process, which knows no more than these.
    end_transaction(admin.routes, name, *identity[:2], True)
    report.expect(_read(admin, partition) == [b"prepared"], "two-phase commit without a timeout")


@contextmanager
def _kafka(place: Path, name: str, changes: Mapping[str, str]) -> Iterator[Admin]:
    with (
        running("kafka", place / name, changes=changes, clean=False) as server,
        Admin(bootstrap=server.bootstrap) as admin,
    ):
        yield admin


def check_raw_client(report: Report) -> None:
    with scratch() as place:
        with _kafka(place, "stock", {}) as admin:
            abilities = abilities_of(admin.nodes.any())
            report.expect(
                abilities.new_epoch_per_transaction and not abilities.two_phase_commit,
                "stock Kafka has transaction version 2 and no two-phase commit",
                str(abilities),
            )
            told = _raises(
                UnsupportedVersion, lambda: init_producer_id(admin.routes, "x", enable_2pc=True)
            )
            report.expect("unstable.api.versions.enable" in told, "and it is said how", told)
            _check_transactions(report, admin, "stock")
            _check_topics(report, admin)
        with _kafka(place, "refusing", UNSTABLE) as admin:
            told = _raises(
                TransactionalIdAuthorizationFailed,
                lambda: init_producer_id(admin.routes, "x", enable_2pc=True),
            )
            wanted = "transaction.two.phase.commit.enable=true"
            report.expect(wanted in told, "a refusal of two-phase commit names its setting", told)
        with _kafka(place, "two-phase", TWO_PHASE) as admin:
            report.expect(
                abilities_of(admin.nodes.any()).two_phase_commit,
                "with unstable versions there is two-phase commit",
            )
            _check_transactions(report, admin, "unstable")
            _check_two_phase(report, admin)
        _check_killed(report, place)
