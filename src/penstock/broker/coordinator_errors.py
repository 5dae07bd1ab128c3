"""Errors in the answers of coordinators: those of their own log, as clients know them."""

from collections.abc import Iterable, Mapping

from penstock.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from penstock.model import TopicPartition
from penstock.wire.structures import PartitionError, TopicErrors

# Clients know what may happen to a coordinator, not what may happen to a partition.
_CLIENT_ERRORS: dict[type[KafkaError], type[KafkaError]] = {
    UnknownTopicOrPartition: CoordinatorNotAvailable,
    NotEnoughReplicas: CoordinatorNotAvailable,
    RequestTimedOut: CoordinatorNotAvailable,
    NotLeaderOrFollower: NotCoordinator,
    KafkaStorageError: NotCoordinator,
    MessageTooLarge: UnknownServerError,
    RecordListTooLarge: UnknownServerError,
}


def to_client_error(error: KafkaError) -> KafkaError:
    """Return the error for a client of a coordinator."""
    other = _CLIENT_ERRORS.get(type(error))
    return error if other is None else other(error.message)


def client_error_code(error: KafkaError) -> int:
    return to_client_error(error).code


def errors_by_topic(codes: Mapping[TopicPartition, int]) -> list[TopicErrors]:
    """Return the error codes of partitions as an answer holds them."""
    topics: dict[str, TopicErrors] = {}
    for (name, index), code in codes.items():
        topic = topics.setdefault(name, TopicErrors(name=name))
        topic.partitions.append(PartitionError(partition_index=index, error_code=code))
    return list(topics.values())


def codes_of(topics: Iterable[TopicErrors]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in topics
        for each in topic.partitions
    }
