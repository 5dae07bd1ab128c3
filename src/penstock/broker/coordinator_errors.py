"""Errors of a coordinator's own log, as clients of the coordinator know them."""

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
