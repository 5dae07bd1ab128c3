"""Transactions, as their coordinators and as their partitions know them."""

from collections.abc import Iterator, Sequence

from penstock.client.admin.coordinator_values import (
    AbortMarker,
    FencedProducer,
    ProducerState,
    TransactionDescription,
    TransactionFilter,
    TransactionListing,
)
from penstock.client.admin.part import AdminPart, Pair, partition_of, partitions_of
from penstock.client.cluster.limits import limited
from penstock.client.cluster.routing import MOVING, KeyType
from penstock.client.transport.connection import Connection
from penstock.errors import (
    ConcurrentTransactions,
    InvalidRequest,
    KafkaError,
    UnsupportedVersion,
    error_of,
    from_code,
)
from penstock.model import TopicPartition
from penstock.wire.messages import (
    k22_init_producer_id,
    k27_write_txn_markers,
    k61_describe_producers,
    k65_describe_transactions,
    k66_list_transactions,
)

DURATION_FROM, PATTERN_FROM = 1, 2  # versions of ListTransactions
ANY_DURATION = -1
STABLE_LAST = 5  # of InitProducerId; the next one is for two-phase commit
# A broker may hold very many partitions: each request has at most this many.
PARTITIONS_PER_REQUEST_MAX = 500


class Transactions(AdminPart):
    """Transactions, as coordinators and leaders know them: `Admin.transactions`."""

    @limited
    def list_all(
        self,
        wanted: TransactionFilter = TransactionFilter(),  # noqa: B008 - it is frozen
    ) -> list[TransactionListing]:
        """Return the transactional ids of every broker that pass the filter."""
        found = self._routes.of_every_broker(lambda connection: _ask_listing(connection, wanted))
        listed = [
            TransactionListing(
                each.transactional_id, each.producer_id, each.transaction_state, broker
            )
            for broker, states in found.items()
            for each in states
        ]
        return sorted(listed, key=lambda each: each.transactional_id)

    @limited
    def describe(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Return the present or last transaction of each id. An id unknown to its coordinator gets
        TransactionalIdNotFound."""
        return self._routes.of_coordinators(
            KeyType.TRANSACTION, transactional_ids, _ask_descriptions
        )

    @limited
    def producers(
        self, partitions: Sequence[Pair], *, broker: int | None = None
    ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        """Return the producers of each partition, as its leader or the replica on `broker` knows
        them."""
        named = partitions_of(partitions)
        if broker is None:
            return self._routes.of_leaders(named, _ask_producers)
        return _ask_producers(self._routes.nodes.node(broker), named)

    @limited
    def abort(self, marker: AbortMarker) -> KafkaError | None:
        """Write an abort marker into one partition, without the coordinator."""
        place = partition_of(marker.partition)
        marker = marker._replace(partition=place)
        return self._routes.of_leaders(
            [place], lambda connection, _: {place: _ask_abort(connection, marker)}
        )[place]

    @limited
    def fence(self, transactional_ids: Sequence[str]) -> dict[str, FencedProducer | KafkaError]:
        """Fence the producers of transactional ids and abort their open transactions."""
        return self._routes.of_coordinators(
            KeyType.TRANSACTION,
            transactional_ids,
            lambda _, connection, some: {
                each: _ask_fence(connection, each, self._timeout_ms) for each in some
            },
            (*MOVING, ConcurrentTransactions),
        )


def _ask_listing(
    connection: Connection, wanted: TransactionFilter
) -> list[k66_list_transactions.TransactionState] | KafkaError:
    wire = k66_list_transactions
    request = wire.ListTransactionsRequest(
        state_filters=list(wanted.states),
        producer_id_filters=list(wanted.producer_ids),
        duration_filter=ANY_DURATION if wanted.longer_than_ms is None else wanted.longer_than_ms,
        transactional_id_pattern=wanted.pattern,
    )
    version = connection.version_for(request)
    if wanted.longer_than_ms is not None and version < DURATION_FROM:
        return UnsupportedVersion(f"the server at {connection} cannot filter by duration")
    if wanted.pattern is not None and version < PATTERN_FROM:
        return UnsupportedVersion(f"the server at {connection} cannot filter by a pattern")
    answer = connection.request(request, wire.ListTransactionsResponse)
    if answer.error_code:
        return from_code(answer.error_code)
    if answer.unknown_state_filters:
        unknown = ", ".join(answer.unknown_state_filters)
        return InvalidRequest(f"the server at {connection} knows no state {unknown}")
    return answer.transaction_states


def _ask_descriptions(
    coordinator: int, connection: Connection, transactional_ids: Sequence[str]
) -> dict[str, TransactionDescription | KafkaError]:
    wire = k65_describe_transactions
    request = wire.DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    answer = connection.request(request, wire.DescribeTransactionsResponse)
    return {
        each.transactional_id: error_of(each.error_code)
        or TransactionDescription(
            each.transactional_id,
            coordinator,
            each.transaction_state,
            each.producer_id,
            each.producer_epoch,
            each.transaction_timeout_ms,
            each.transaction_start_time_ms if each.transaction_start_time_ms >= 0 else None,
            tuple(
                sorted(
                    TopicPartition(topic.topic, partition)
                    for topic in each.topics
                    for partition in topic.partitions
                )
            ),
        )
        for each in answer.transaction_states
    }


def _ask_producers(
    connection: Connection, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
    wire = k61_describe_producers
    found: dict[TopicPartition, list[ProducerState] | KafkaError] = {}
    for some in _slices(partitions):
        topics: dict[str, k61_describe_producers.TopicRequest] = {}
        for topic, partition in some:
            named = topics.setdefault(topic, wire.TopicRequest(name=topic))
            named.partition_indexes.append(partition)
        request = wire.DescribeProducersRequest(topics=list(topics.values()))
        answer = connection.request(request, wire.DescribeProducersResponse)
        for told in answer.topics:
            for each in told.partitions:
                failed = each.error_code != 0
                found[TopicPartition(told.name, each.partition_index)] = (
                    from_code(each.error_code, each.error_message)
                    if failed
                    else [_producer(state) for state in each.active_producers]
                )
    return found


def _producer(state: k61_describe_producers.ProducerState) -> ProducerState:
    begun = state.current_txn_start_offset
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        begun if begun >= 0 else None,
    )


def _slices(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    for first in range(0, len(partitions), PARTITIONS_PER_REQUEST_MAX):
        yield partitions[first : first + PARTITIONS_PER_REQUEST_MAX]


def _ask_abort(connection: Connection, marker: AbortMarker) -> KafkaError | None:
    wire = k27_write_txn_markers
    topic, partition = marker.partition
    request = wire.WriteTxnMarkersRequest(
        markers=[
            wire.WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=False,
                topics=[wire.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                coordinator_epoch=marker.coordinator_epoch,
            )
        ]
    )
    answer = connection.request(request, wire.WriteTxnMarkersResponse)
    codes = [
        each.error_code
        for told in answer.markers
        for named in told.topics
        for each in named.partitions
        if (named.name, each.partition_index) == marker.partition
    ]
    if not codes:
        return from_code(-1, "the server did not answer for it")
    return from_code(codes[0]) if codes[0] else None


def _ask_fence(
    connection: Connection, transactional_id: str, timeout_ms: int
) -> FencedProducer | KafkaError:
    wire = k22_init_producer_id
    request = wire.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )
    version = min(connection.version_for(request), STABLE_LAST)
    answer = connection.request(request, wire.InitProducerIdResponse, version)
    if answer.error_code:
        return from_code(answer.error_code)
    return FencedProducer(answer.producer_id, answer.producer_epoch)
