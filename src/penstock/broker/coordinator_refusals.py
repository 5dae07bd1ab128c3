"""What a client is told when a coordinator's own log refuses to take something."""

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
_TOLD: dict[type[KafkaError], type[KafkaError]] = {
    UnknownTopicOrPartition: CoordinatorNotAvailable,
    NotEnoughReplicas: CoordinatorNotAvailable,
    RequestTimedOut: CoordinatorNotAvailable,
    NotLeaderOrFollower: NotCoordinator,
    KafkaStorageError: NotCoordinator,
    MessageTooLarge: UnknownServerError,
    RecordListTooLarge: UnknownServerError,
}


def told(error: KafkaError) -> KafkaError:
    """The error for a client that has asked a coordinator."""
    other = _TOLD.get(type(error))
    return error if other is None else other(error.message)


def told_code(error: KafkaError) -> int:
    return told(error).code
