"""Producer ids and transactions: the requests of a transactional producer to its coordinator.

Each function finds the coordinator, and retries while it moves, loads, completes the previous
transaction, or cannot be reached. After `retry_ms` the last reason is raised. All of these requests
may be repeated; a repeated EndTxn must keep its version, so the result names the version.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from penstock.client.cluster.routing import KeyType, Routes
from penstock.client.transport.connection import CannotReach, Connection, NotAuthenticated
from penstock.errors import (
    KafkaError,
    OperationNotAttempted,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
    from_code,
)
from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from penstock.wire.messages import k22_init_producer_id, k24_add_partitions_to_txn, k26_end_txn
from penstock.wire.messages.k00_produce import ProduceRequest

R = TypeVar("R")

RETRY_MS_DEFAULT = 60_000
PAUSE_MS_MIN = 10
PAUSE_MS_MAX = 200

TRANSACTION_FEATURE = "transaction.version"
# From transaction version 2 on (KIP-890) partitions join by being written to, and every end starts
# a new epoch.
IMPLICIT_JOIN_FROM, NEW_EPOCH_FROM = 12, 5  # versions of Produce and of EndTxn
TWO_PHASE_FROM = 6  # version of InitProducerId
ADD_PARTITIONS_VERSION_MAX = 3  # later versions are for brokers


class ProducerIdentity(NamedTuple):
    """The id and epoch of a producer. The ongoing ones are of a kept transaction (KIP-939), else
    -1."""

    producer_id: int
    epoch: int
    ongoing_producer_id: int = NO_PRODUCER_ID
    ongoing_epoch: int = NO_PRODUCER_EPOCH


class EndedTransaction(NamedTuple):
    """The version of EndTxn that was used, and the producer's identity afterwards."""

    version: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TransactionAbilities:
    """The transaction features of a cluster, as one of its nodes tells them."""

    transaction_version: int
    produce_version: int
    end_version: int
    init_version: int

    @property
    def new_epoch_per_transaction(self) -> bool:
        """Return whether no zombie can write into the next transaction: transaction version 2."""
        return (
            self.transaction_version >= 2
            and self.produce_version >= IMPLICIT_JOIN_FROM
            and self.end_version >= NEW_EPOCH_FROM
        )

    @property
    def must_add_partitions(self) -> bool:
        """Return whether partitions must be added (`add_partitions`) before they are written to."""
        return not self.new_epoch_per_transaction

    @property
    def produce_version_max(self) -> int:
        """Return the highest Produce version for a transactional BatchWriter."""
        if self.new_epoch_per_transaction:
            return self.produce_version
        return min(self.produce_version, IMPLICIT_JOIN_FROM - 1)

    @property
    def end_version_max(self) -> int:
        if self.new_epoch_per_transaction:
            return self.end_version
        return min(self.end_version, NEW_EPOCH_FROM - 1)

    @property
    def two_phase_commit(self) -> bool:
        """Return whether the server knows two-phase commit. If it is disabled there, InitProducerId
        fails."""
        return self.init_version >= TWO_PHASE_FROM


def abilities_of(connection: Connection) -> TransactionAbilities:
    return TransactionAbilities(
        connection.finalized_features.get(TRANSACTION_FEATURE, 0),
        connection.version_for(ProduceRequest()),
        connection.version_for(k26_end_txn.EndTxnRequest()),
        connection.version_for(k22_init_producer_id.InitProducerIdRequest()),
    )


def init_producer_id(
    routes: Routes,
    transactional_id: str | None,
    timeout_ms: int = 60_000,
    *,
    enable_2pc: bool = False,
    keep_prepared: bool = False,
    expected: tuple[int, int] | None = None,
    retry_ms: int = RETRY_MS_DEFAULT,
) -> ProducerIdentity:
    """Return a new epoch of this transactional id; without one, a new producer id.

    The previous producer is fenced and its open transaction aborted (unless `keep_prepared`).
    `expected` is the caller's own identity: ProducerFenced if another producer has come since.
    """
    known_id, known_epoch = expected or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    wire = k22_init_producer_id
    request = wire.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=known_id,
        producer_epoch=known_epoch,
        enable_2pc=enable_2pc,
        keep_prepared_txn=keep_prepared,
    )

    def ask(connection: Connection) -> ProducerIdentity | KafkaError:
        version = connection.version_for(request)
        if not (enable_2pc or keep_prepared):
            version = min(version, TWO_PHASE_FROM - 1)
        elif version < TWO_PHASE_FROM:
            raise UnsupportedVersion(
                f"the server at {connection} has no two-phase commit: it serves InitProducerId up "
                f"to {version}, that needs {TWO_PHASE_FROM}. On Apache Kafka it is there with "
                "unstable.api.versions.enable=true and transaction.two.phase.commit.enable=true"
            )
        answer = connection.request(request, wire.InitProducerIdResponse, version)
        if answer.error_code == TransactionalIdAuthorizationFailed.code and enable_2pc:
            return TransactionalIdAuthorizationFailed(
                f"two-phase commit is refused for {transactional_id!r}: set "
                "transaction.two.phase.commit.enable=true on the brokers, and where ACLs are used "
                "give this principal WRITE and TWO_PHASE_COMMIT on the transactional id"
            )
        if answer.error_code:
            return from_code(answer.error_code)
        return ProducerIdentity(
            answer.producer_id,
            answer.producer_epoch,
            answer.ongoing_txn_producer_id,
            answer.ongoing_txn_producer_epoch,
        )

    return _insist(routes, transactional_id, ask, retry_ms)


def add_partitions(
    routes: Routes,
    transactional_id: str,
    producer: tuple[int, int],
    partitions: Sequence[TopicPartition],
    *,
    retry_ms: int = RETRY_MS_DEFAULT,
) -> None:
    """Add partitions to the transaction before they are written to (transaction version 1)."""
    wire = k24_add_partitions_to_txn
    topics: dict[str, k24_add_partitions_to_txn.AddPartitionsToTxnTopic] = {}
    for topic, partition in partitions:
        named = topics.setdefault(topic, wire.AddPartitionsToTxnTopic(name=topic))
        named.partitions.append(partition)
    request = wire.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=list(topics.values()),
    )

    def ask(connection: Connection) -> KafkaError | None:
        version = min(connection.version_for(request), ADD_PARTITIONS_VERSION_MAX)
        answer = connection.request(request, wire.AddPartitionsToTxnResponse, version)
        errors = [
            from_code(each.partition_error_code, f"{topic.name}-{each.partition_index}")
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
            if each.partition_error_code
        ]
        # If one partition fails, the others are not attempted: their error has another cause.
        causes = [each for each in errors if not isinstance(each, OperationNotAttempted)]
        return next(iter([*causes, *errors]), None)

    _insist(routes, transactional_id, ask, retry_ms)


def end_transaction(
    routes: Routes,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    commit: bool,
    version: int | None = None,
    *,
    retry_ms: int = RETRY_MS_DEFAULT,
) -> EndedTransaction:
    """Commit or abort. A repetition, by another process too, must use the version of the first
    attempt: in another version it fails although the transaction has ended."""
    wire = k26_end_txn
    request = wire.EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        committed=commit,
    )
    used = version

    def ask(connection: Connection) -> EndedTransaction | KafkaError:
        nonlocal used
        if used is None:
            used = abilities_of(connection).end_version_max
        answer = connection.request(request, wire.EndTxnResponse, used)
        if answer.error_code:
            return from_code(answer.error_code)
        if answer.producer_id < 0:
            return EndedTransaction(used, producer_id, epoch)
        return EndedTransaction(used, answer.producer_id, answer.producer_epoch)

    return _insist(routes, transactional_id, ask, retry_ms)


def _insist(
    routes: Routes,
    transactional_id: str | None,
    ask: Callable[[Connection], R | KafkaError],
    retry_ms: int,
) -> R:
    """Ask until the answer is final or `retry_ms` have passed."""
    deadline = time.monotonic() + retry_ms / 1000
    pause_ms = PAUSE_MS_MIN
    while True:
        result = _ask_once(routes, transactional_id, ask)
        if not isinstance(result, KafkaError | CannotReach):
            return result
        hopeless = isinstance(result, KafkaError) and not result.retriable
        if hopeless or time.monotonic() + pause_ms / 1000 > deadline:
            raise result
        time.sleep(pause_ms / 1000)
        pause_ms = min(PAUSE_MS_MAX, pause_ms * 2)


def _ask_once(
    routes: Routes, transactional_id: str | None, ask: Callable[[Connection], R | KafkaError]
) -> R | KafkaError | CannotReach:
    try:
        if transactional_id is None:
            return ask(routes.nodes.any())
        return routes.of_coordinators(
            KeyType.TRANSACTION,
            [transactional_id],
            lambda _, connection, keys: {keys[0]: ask(connection)},
            again=(),
        )[transactional_id]
    except NotAuthenticated:
        raise
    except CannotReach as problem:
        return problem
