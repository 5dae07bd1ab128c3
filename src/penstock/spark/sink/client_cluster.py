"""The requests of the sink, sent to a real cluster through the client."""

from collections.abc import Sequence

from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import TransactionDescription, TransactionFilter
from penstock.client.cluster.routing import KeyType
from penstock.client.raw.transactions import abilities_of, end_transaction, init_producer_id
from penstock.client.transport.connection import CannotReach, Connection, PendingResponse
from penstock.client.values import At, FoundOffset
from penstock.errors import (
    KafkaError,
    NetworkException,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    from_code,
)
from penstock.model import TopicPartition
from penstock.spark.environment import now_ms
from penstock.spark.options.sink import SinkOptions
from penstock.spark.sink.cluster import End, Ended, Gone, OpenSinkTransaction
from penstock.spark.sink.decision_log import GONE, DecisionLog
from penstock.spark.sink.decisions import Decision, Driver, SinkProducer
from penstock.spark.sink.identity import belongs_to, workers_pattern
from penstock.spark.sink.retry_reads import patiently
from penstock.wire.messages import k26_end_txn

# If a driver dies between a decision and its end, the decision's transaction times out soon.
DRIVER_TIMEOUT_MS = 60_000
ONGOING = "Ongoing"
# This many EndTxn are in flight on one connection.
ENDS_AT_ONCE_MAX = 100


class ClientCluster:
    """A SinkCluster over the client, for one thread."""

    def __init__(self, admin: Admin, options: SinkOptions) -> None:
        self._admin = admin
        self._patience_ms = options.request_timeout_ms
        self.abilities = patiently(lambda: abilities_of(admin.nodes.any()), self._patience_ms)
        self.decision_log = DecisionLog(
            admin,
            request_timeout_ms=options.request_timeout_ms,
            delivery_timeout_ms=options.delivery_timeout_ms,
        )

    def take_over(self, transactional_id: str) -> SinkProducer:
        given = init_producer_id(self._admin.routes, transactional_id, DRIVER_TIMEOUT_MS)
        return SinkProducer(given.producer_id, given.epoch, self.abilities.end_version_max)

    def last_decision(self, sink_id: str) -> Decision | None:
        return patiently(lambda: self.decision_log.last(sink_id), self._patience_ms)

    def append_decision(
        self, transactional_id: str, driver: Driver, decision: Decision
    ) -> Gone | None:
        return self.decision_log.append(
            transactional_id, driver, decision, self.abilities, now_ms()
        )

    # ---- ends

    def end(self, ends: Sequence[End]) -> tuple[Ended | Gone, ...]:
        """End all transactions at once; then retry those without a final answer, one by one."""
        first = self._end_together(ends)
        return tuple(
            each if isinstance(each, Ended | Gone) else self._end_alone(end)
            for end, each in zip(ends, first, strict=True)
        )

    def _end_together(self, ends: Sequence[End]) -> list[Ended | Gone | None]:
        by_id = {each.transactional_id: each for each in ends}
        assert len(by_id) == len(ends), "a transactional id has one open transaction"
        try:
            answers = self._admin.routes.of_coordinators(
                KeyType.TRANSACTION,
                list(by_id),
                lambda _, connection, ids: _ask_ends(connection, [by_id[each] for each in ids]),
                again=(),
            )
        except CannotReach:
            return [None] * len(ends)
        return [_final(answers[each.transactional_id]) for each in ends]

    def _end_alone(self, end: End) -> Ended | Gone:
        producer_id, epoch, version = end.producer
        try:
            done = end_transaction(
                self._admin.routes,
                end.transactional_id,
                producer_id,
                epoch,
                end.commit,
                version,
            )
        except GONE as error:
            return Gone(error.kafka_name())
        return Ended(SinkProducer(done.producer_id, done.epoch, version))

    # ---- what is written

    def is_unwritten(self, topic: str) -> bool:
        """Return whether the topic has never been written to, or is missing."""
        return patiently(lambda: self._is_unwritten(topic), self._patience_ms)

    def _is_unwritten(self, topic: str) -> bool:
        found = self._admin.describe_topics([topic])[topic]
        if isinstance(found, UnknownTopicOrPartition):
            return True
        if isinstance(found, KafkaError):
            raise found
        places = [TopicPartition(topic, each.partition) for each in found.partitions]
        ends = self._admin.offsets(dict.fromkeys(places, At.END), committed_only=False)
        return all(isinstance(each, FoundOffset) and each.offset == 0 for each in ends.values())

    # ---- what is open

    def open_transactions(self, sink_id: str) -> tuple[OpenSinkTransaction, ...]:
        return patiently(lambda: self._open_transactions(sink_id), self._patience_ms)

    def _open_transactions(self, sink_id: str) -> tuple[OpenSinkTransaction, ...]:
        names = self._ongoing(workers_pattern(sink_id))
        mine = [name for name in names if belongs_to(sink_id, name)]
        described = self._admin.transactions.describe(mine) if mine else {}
        version = self.abilities.end_version_max
        return tuple(
            OpenSinkTransaction(
                each.transactional_id,
                SinkProducer(each.producer_id, each.producer_epoch, version),
                each.start_ms or 0,
            )
            for each in described.values()
            if isinstance(each, TransactionDescription) and each.state == ONGOING
        )

    def _ongoing(self, pattern: str) -> list[str]:
        """Return ongoing transactions; clusters before 4.1 cannot filter by name."""
        for wanted in (
            TransactionFilter(states=(ONGOING,), pattern=pattern),
            TransactionFilter(states=(ONGOING,)),
        ):
            try:
                return [each.transactional_id for each in self._admin.transactions.list_all(wanted)]
            except UnsupportedVersion:
                if wanted.pattern is None:
                    raise
        raise AssertionError("the second attempt returns or raises")


def _ask_ends(connection: Connection, ends: Sequence[End]) -> dict[str, Ended | KafkaError]:
    """Return the answers in the order of the ends, many of which are in flight at once."""
    found: dict[str, Ended | KafkaError] = {}
    for first in range(0, len(ends), ENDS_AT_ONCE_MAX):
        asked = ends[first : first + ENDS_AT_ONCE_MAX]
        try:
            pending = [(each, _begin_end(connection, each)) for each in asked]
            for each, waiting in pending:
                found[each.transactional_id] = _finish_end(connection, each, waiting)
        except CannotReach as problem:
            unknown = NetworkException(str(problem))
            return {each.transactional_id: unknown for each in ends} | found
    return found


def _begin_end(connection: Connection, end: End) -> PendingResponse:
    producer_id, epoch, version = end.producer
    request = k26_end_txn.EndTxnRequest(
        transactional_id=end.transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        committed=end.commit,
    )
    return connection.begin(request, version)


def _finish_end(connection: Connection, end: End, pending: PendingResponse) -> Ended | KafkaError:
    answer = connection.finish(pending, k26_end_txn.EndTxnResponse)
    if answer.error_code:
        return from_code(answer.error_code)
    if answer.producer_id < 0:
        return Ended(end.producer)
    return Ended(SinkProducer(answer.producer_id, answer.producer_epoch, end.producer.end_version))


def _final(answer: Ended | KafkaError) -> Ended | Gone | None:
    if isinstance(answer, GONE):
        return Gone(answer.kafka_name())
    return answer if isinstance(answer, Ended) else None
