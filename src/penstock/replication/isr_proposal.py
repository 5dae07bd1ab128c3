"""A proposed change of an in-sync set, and what a leader learns from its rejection."""

from enum import Enum
from typing import NamedTuple

from penstock.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NewLeaderElected,
    OperationNotAttempted,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

NO_BROKER_EPOCH = -1  # the controller does not judge the epoch of this member

_NOT_MADE = (IneligibleReplica, OperationNotAttempted)
_AWAIT_IMAGE = (
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    UnknownTopicId,
    UnknownTopicOrPartition,
)


class IsrProposal(NamedTuple):
    """A change of the in-sync set, to be sent in AlterPartition with the epochs it was made in.

    `isr` has the broker epoch of each replica. The leader has -1: the shell knows its own epoch.
    """

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class RejectedChange(Enum):
    """The next step after a rejected change.

    NOT_MADE: the controller knows the partition epoch, and no controller has made the change.
    AWAIT_IMAGE: the change may have been made, so it stays pending until the image tells.
    SEND_AGAIN: the error is no judgement of the change.
    """

    NOT_MADE = "not made"
    AWAIT_IMAGE = "await the image"
    SEND_AGAIN = "send again"


def judge(error: KafkaError | None) -> RejectedChange:
    """Return the next step after an error; None is an answer without the partition."""
    if isinstance(error, _NOT_MADE):
        return RejectedChange.NOT_MADE
    if isinstance(error, _AWAIT_IMAGE):
        return RejectedChange.AWAIT_IMAGE
    return RejectedChange.SEND_AGAIN
