"""A classic group: the generation that its record holds, and what no record holds.

`rest` changes by replay alone. A rejected record leaves it as it was.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic.generation import (
    CONSUMER_PROTOCOL,
    NO_GENERATION,
    ClassicGeneration,
    ClassicMember,
    ClassicState,
    NextGeneration,
    OfferedProtocol,
    WaitingRequest,
)
from penstock.coordinator.groups.group import IdPartitions, Kind
from penstock.coordinator.groups.timers import ClassicTimer
from penstock.coordinator.records import CoordinatorRecord
from penstock.errors import (
    FencedInstanceId,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from penstock.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from penstock.wire.records.group import GroupMetadataKey

_NONE_WAIT: Final[Mapping[str, WaitingRequest]] = {}


class ClassicGroup:
    """A group of the classic protocol. Without a generation, the group only holds offsets."""

    def __init__(self, group_id: str, rest: ClassicGeneration = NO_GENERATION) -> None:
        self.group_id = group_id
        self.rest = rest
        self.forget_volatile()

    def forget_volatile(self) -> None:
        """Forget everything that no record holds."""
        self.next: NextGeneration | None = None  # from the first change until its record
        self.pending: dict[str, None] = {}  # ids given out, but not joined with yet
        self.unsynced: dict[str, None] = {}  # members of this generation without a sync so far
        self.timers: dict[str, ClassicTimer] = {}  # those that are expected, by name

    def replay(self, rest: ClassicGeneration) -> None:
        """Take in the generation of a record."""
        self.rest = rest
        # The first record of a group may come with a rebalance in preparation, which goes on.
        if self.next is not None and self.next.state is not ClassicState.PREPARING_REBALANCE:
            self.next = None

    def change(self) -> NextGeneration:
        """Return the next generation, which begins as a copy of the one at rest."""
        if self.next is None:
            self.next = NextGeneration(self.rest)
        return self.next

    # The Group protocol

    @property
    def kind(self) -> Kind:
        return "classic"

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return self.current.protocol_type

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def empty_since_ms(self) -> int | None:
        return self.rest.since_ms if self.is_empty and self.protocol_type else None

    def check_commit(
        self,
        call: GroupRequest,
        epoch: int,
        partitions: IdPartitions | None = None,  # noqa: ARG002
    ) -> None:
        if epoch < 0 and self.is_empty:
            return  # an administrator, or a consumer that assigns its partitions itself
        member_id, instance_id = call.message.member_id, call.message.group_instance_id
        in_txn = isinstance(call.message, TxnOffsetCommitRequest)
        if epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(epoch)
        elif not in_txn:
            raise UnknownMemberId(f"the group {self.group_id!r} has members; only they commit")
        # Old transactional producers name no member, so a rebalance stops no transaction.
        if self.state is ClassicState.COMPLETING_REBALANCE and not in_txn:
            raise RebalanceInProgress(f"the group {self.group_id!r} is rebalancing")

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        pass

    def check_delete(self) -> None:
        if not self.is_empty:
            raise NonEmptyGroup(f"the group {self.group_id!r} is {self.state_name}")

    def is_subscribed_to(self, topic: str) -> bool:
        topics = self.current.subscribed_topics
        return self.protocol_type == CONSUMER_PROTOCOL if topics is None else topic in topics

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id))]

    # The current generation

    @property
    def current(self) -> ClassicGeneration:
        return self.rest if self.next is None else self.next

    @property
    def state(self) -> ClassicState:
        if self.next is not None:
            return self.next.state
        return ClassicState.STABLE if self.rest.members else ClassicState.EMPTY

    @property
    def generation(self) -> int:
        return self.current.number

    @property
    def protocol_name(self) -> str | None:
        return self.current.protocol_name

    @property
    def leader_id(self) -> str | None:
        return self.current.leader_id

    @property
    def members(self) -> Mapping[str, ClassicMember]:
        return self.current.members

    @property
    def static_ids(self) -> Mapping[str, str]:
        return self.current.static_ids

    @property
    def joining(self) -> Mapping[str, WaitingRequest]:
        return _NONE_WAIT if self.next is None else self.next.joining

    @property
    def syncing(self) -> Mapping[str, WaitingRequest]:
        return _NONE_WAIT if self.next is None else self.next.syncing

    @property
    def all_have_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raise unless the id is a member's, and the one that has this instance id now."""
        if instance_id is not None:
            owner = self.static_ids.get(instance_id)
            if owner is not None and owner != member_id:
                raise FencedInstanceId(f"{instance_id!r} is now the member {owner!r}")
            if owner is None:
                raise UnknownMemberId(f"no member has the instance id {instance_id!r}")
        if member_id not in self.members:
            raise UnknownMemberId(f"{member_id!r} is not in the group {self.group_id!r}")

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise IllegalGeneration(
                f"the group {self.group_id!r} is in generation {self.generation}, not {generation}"
            )

    def supports(self, protocol_type: str, protocols: Sequence[OfferedProtocol]) -> bool:
        """Return whether a member with these protocols could join."""
        if self.is_empty:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            self.current.supports(protocol.name) for protocol in protocols
        )
