"""A member of a consumer group, as its records describe it. Members are values: see `replace`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from penstock.coordinator.groups.classic.generation import OfferedProtocol
from penstock.coordinator.groups.consumer.assignors.spec import Assignment

LEAVING: Final = -1  # an epoch: the member leaves for good
LEAVING_FOR_A_WHILE: Final = -2  # a static member that will come back
JOINING: Final = 0

# By topic id: each partition that a member has, and the epoch in which it got it.
Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]


class MemberState(IntEnum):
    """As records have it."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # partitions have to be revoked
    UNRELEASED_PARTITIONS = 2  # partitions of the target have other owners
    UNKNOWN = 127  # of a newer server


class ReportedPartitions(Protocol):
    """Both in requests and in records."""

    topic_id: bytes
    partitions: list[int]


class ClassicSide(NamedTuple):
    """The fields of a member that only the classic protocol has."""

    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    classic: ClassicSide | None = None

    def is_at(self, target_epoch: int) -> bool:
        """Return whether the member has its whole target of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


def partitions_of(listed: Iterable[ReportedPartitions]) -> dict[bytes, frozenset[int]]:
    """Return the partitions of each topic id, from the list in a message or record."""
    found: dict[bytes, frozenset[int]] = {}
    for each in listed:
        found[each.topic_id] = found.get(each.topic_id, frozenset()) | frozenset(each.partitions)
    return found


def without_epochs(owned: Owned) -> Assignment:
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def covers(owned: Owned, listed: Iterable[ReportedPartitions]) -> bool:
    """Return whether the member owns every partition in the list."""
    return all(
        partition in owned.get(each.topic_id, ())
        for each in listed
        for partition in each.partitions
    )
