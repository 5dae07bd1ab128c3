"""Results of the admin client about groups and transactions."""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.model import TopicPartition


class GroupListing(NamedTuple):
    """One group of a list. Type and state are empty if an older server omits them."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group. `target` is its target assignment, `upgraded` whether it uses the
    consumer protocol; only consumer groups have both, and a member epoch."""

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
    """A group. Only consumer groups have epochs: the group's, and that of the target assignment."""

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
    """A filter over transactional ids; the defaults list all."""

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
    """A transactional id. `start_ms` is the start of its last transaction, None without one."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """A producer as one partition knows it; `transaction_start` is the first offset of an open
    transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int | None


class FencedProducer(NamedTuple):
    """The producer that holds a transactional id now; the previous producer is fenced."""

    producer_id: int
    producer_epoch: int


class AbortMarker(NamedTuple):
    """The marker that ends a producer's open transaction in one partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
