"""What the admin client tells about groups and transactions."""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.model import TopicPartition


class GroupListing(NamedTuple):
    """Type and state are empty where an older server does not tell them."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`target` is what it is on its way to, `upgraded` whether it speaks the new protocol; both,
    and its epoch, are told of new groups only."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...]
    subscribed: tuple[str, ...] = ()
    rack: str | None = None
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """Epochs are told of new groups only: the group's, and that of what it is on its way to."""

    group_id: str
    type: str
    state: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    protocol_type: str = "consumer"
    epoch: int | None = None
    target_epoch: int | None = None


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


class TransactionFilter(NamedTuple):
    """Which transactional ids to list; the defaults list all."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int | None = None
    pattern: str | None = None


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """`start_ms` is when the last transaction began, open or not; None if there was none."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """A producer as one partition knows it; `transaction_start` is the offset of an open one."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int | None


class FencedProducer(NamedTuple):
    """The producer that a transactional id has now; the one before cannot go on."""

    producer_id: int
    producer_epoch: int


class AbortMarker(NamedTuple):
    """Ends the open transaction of a producer in one partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
