"""What every kind of group can be asked, and what one coordinator partition holds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from penstock.coordinator.records import Record

if TYPE_CHECKING:
    from penstock.coordinator.groups.offsets import OffsetStore

Kind = Literal["classic", "consumer", "unknown"]


class Group(Protocol):
    """ClassicGroup, ConsumerGroup and SetAsideGroup. All methods only look; refusals are
    KafkaErrors."""

    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def state_name(self) -> str:
        """As DescribeGroups and ListGroups spell it: "Stable", "Empty", "Assigning"..."""
        ...

    @property
    def protocol_type(self) -> str:
        """ "consumer" for consumers; empty for a group that only holds offsets."""
        ...

    @property
    def is_empty(self) -> bool:
        """No members: it may be deleted, and its offsets may expire."""
        ...

    @property
    def empty_since_ms(self) -> int | None:
        """When the last member left, if that is known; offsets expire from then on."""
        ...

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int,
        *,
        in_txn: bool,
        partitions: Iterable[tuple[bytes, int]] | None = None,
    ) -> None:
        """Refuse a commit of offsets from a zombie. `epoch` is the generation of a classic member
        or the epoch of a consumer member; -1 for a client that manages its partitions itself. The
        partitions (by topic id) matter to a member whose epoch has passed (KIP-1251)."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to tell offsets to somebody who is not a member any more (OffsetFetch v9)."""
        ...

    def check_delete(self) -> None:
        """Refuse to delete a group in use: NonEmptyGroup."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether offsets of this topic are in use by a member."""
        ...

    def tombstones(self) -> Sequence[Record]:
        """What makes replay forget the group; offsets have tombstones of their own."""
        ...


@dataclass(slots=True)
class GroupState:
    """Everything of one partition of __consumer_offsets; what is durable in it, replay changes."""

    offsets: "OffsetStore"
    groups: dict[str, Group] = field(default_factory=dict)
