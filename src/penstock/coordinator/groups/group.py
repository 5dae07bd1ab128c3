"""The protocol of all kinds of groups, and the state of one coordinator partition."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.records import CoordinatorRecord

if TYPE_CHECKING:
    from penstock.coordinator.groups.classic.group import ClassicGroup
    from penstock.coordinator.groups.offsets import OffsetStore

Kind = Literal["classic", "consumer", "unknown"]
IdPartitions: TypeAlias = Iterable[tuple[bytes, int]]  # by topic id


class CoordinatedGroup(Protocol):
    """ClassicGroup, ConsumerGroup or SetAsideGroup. No method changes the group; checks raise
    KafkaErrors."""

    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def state_name(self) -> str:
        """Return the state as DescribeGroups and ListGroups spell it: "Stable", "Empty",
        "Assigning"..."""
        ...

    @property
    def protocol_type(self) -> str:
        """Return "consumer" for consumers, the empty string for a group that only holds offsets."""
        ...

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members. An empty group may be deleted, and its offsets
        may expire."""
        ...

    @property
    def empty_since_ms(self) -> int | None:
        """Return the time when the last member left, if known; offsets expire from then on."""
        ...

    def check_commit(
        self, call: GroupRequest, epoch: int, partitions: IdPartitions | None = None
    ) -> None:
        """Raise for a commit of offsets (OffsetCommit or TxnOffsetCommit) from a zombie.

        `epoch` is the generation of a classic member or the epoch of a consumer member. A client
        that assigns its partitions itself has -1. The partitions matter to a member with a past
        epoch (KIP-1251).
        """
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise for a fetch of offsets from a former member (OffsetFetch v9)."""
        ...

    def check_delete(self) -> None:
        """Raise NonEmptyGroup for a group in use."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to the topic."""
        ...

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        """Return the tombstones of the group; offsets have tombstones of their own."""
        ...


@dataclass(slots=True)
class GroupCoordinatorState:
    """The state of one partition of __consumer_offsets. Replay alone adds and removes groups.

    `unborn` is volatile: a classic group whose first record the present event writes.
    """

    offsets: "OffsetStore"
    groups: dict[str, CoordinatedGroup] = field(default_factory=dict)
    unborn: "ClassicGroup | None" = None
