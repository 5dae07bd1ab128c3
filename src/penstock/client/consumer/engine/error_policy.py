"""Errors that librdkafka reports in place of records: which ones heal, which ones are raised.

Lost connections, moved leaders and rebalances are logged, and librdkafka goes on. Errors that need
a person (a missing permission, a rejected password, a fenced member) are raised by the next step.
"""

import logging
from enum import Enum
from typing import TYPE_CHECKING

from penstock.client.failures import (
    AllBrokersDown,
    AssignmentLost,
    Destroyed,
    Fatal,
    HostNotResolved,
    NoOffset,
    NoResetOffset,
    OperationTimedOut,
    Outdated,
    PartitionEnd,
    PollIntervalExceeded,
    PreviousInProgress,
    TimedOutInQueue,
    TransportFailure,
    UnknownPartition,
    UnknownTopic,
    WaitingForCoordinator,
    from_rdkafka,
    is_fatal,
    is_retriable,
)
from penstock.errors import (
    BY_CODE,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    IllegalGeneration,
    MemberIdRequired,
    OffsetOutOfRange,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RdkafkaError

log = logging.getLogger("penstock.client.consumer")

# Not retriable as answers, but librdkafka joins again, or waits for the topic.
_HEALED = frozenset(
    each.code
    for each in (
        AllBrokersDown,
        AssignmentLost,
        Destroyed,
        FencedMemberEpoch,
        HostNotResolved,
        IllegalGeneration,
        MemberIdRequired,
        OffsetOutOfRange,
        OperationTimedOut,
        Outdated,
        PollIntervalExceeded,
        PreviousInProgress,
        RebalanceInProgress,
        StaleMemberEpoch,
        TimedOutInQueue,
        TransportFailure,
        UnknownMemberId,
        UnknownPartition,
        UnknownTopic,
        WaitingForCoordinator,
    )
)


class ErrorAction(Enum):
    """The consumer's action on an error."""

    NOTHING = "nothing"
    END_REACHED = "end reached"
    LOGGED = "logged"
    NO_OFFSET = "no offset"
    RAISED = "raised"


def action_for(error: "RdkafkaError", *, has_group: bool) -> ErrorAction:
    """Return the action for an error that came in place of a record."""
    code = error.code()
    if code == PartitionEnd.code:
        return ErrorAction.END_REACHED
    if code == NoResetOffset.code:
        return ErrorAction.NO_OFFSET
    if code == GroupAuthorizationFailed.code and not has_group:
        return ErrorAction.NOTHING  # librdkafka needs a group id, this consumer does not
    failure = from_rdkafka(error)
    if not is_fatal(failure) and (code in _HEALED or is_retriable(failure)):
        return ErrorAction.LOGGED
    return ErrorAction.RAISED


def fatal_cause(error: "RdkafkaError") -> "RdkafkaError":
    """Return a fatal error with the code of its cause. In place of a record librdkafka reports the
    generic code, and starts the text with the cause's own."""
    from confluent_kafka import KafkaError as RdkafkaError

    if error.code() != Fatal.code:
        return error
    text = error.str()
    for code in BY_CODE:
        if code > 0 and RdkafkaError(code).str() in text:
            return RdkafkaError(code, text, fatal=True)
    return RdkafkaError(Fatal.code, text, fatal=True)


class PartitionWithoutOffset(NoOffset):
    """The group has no valid offset for the partition, and auto.offset.reset is none."""

    def __init__(self, place: TopicPartition, why: str) -> None:
        super().__init__(f"there is no offset to read {place} from ({why})")
        self.place = place
