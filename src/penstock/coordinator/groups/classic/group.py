"""What a classic group is: its members, its generation, and who waits for what.

Invariants: an instance id belongs to one member; there is a leader as long as there are members;
only members wait, each for at most one join and one sync. A living group changes its state through
`move_to` and its membership through `add`, `remove`, `update` and `replace_static`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from penstock.coordinator.groups.classic.alarms import (
    InitialDelayOver,
    JoinOver,
    SessionOver,
    SyncOver,
)
from penstock.coordinator.groups.group import Kind
from penstock.coordinator.records import Record
from penstock.effects import Ticket
from penstock.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from penstock.wire.codec import read
from penstock.wire.primitives import Malformed
from penstock.wire.records.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.records.group import GroupMetadataKey

CONSUMER_PROTOCOL = "consumer"
FIRST_GENERATION = 1
GENERATION_MAX = 2**31 - 1
# A subscription begins with its version, then comes what version 0 had: enough for the topics.
_VERSION_SIZE = 2


class ClassicState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState
_BEFORE = {
    _EMPTY: (_PREPARING,),
    _PREPARING: (_STABLE, _COMPLETING, _EMPTY),
    _COMPLETING: (_PREPARING,),
    _STABLE: (_COMPLETING,),
    _DEAD: tuple(ClassicState),
}


class OfferedProtocol(NamedTuple):
    """A way to assign that a member knows, and what it has to say in it."""

    name: str
    metadata: bytes


def topics_in(metadata: bytes) -> list[str] | None:
    """What a consumer subscribes to; None if this is no subscription."""
    try:
        return read(ConsumerProtocolSubscription, 0, metadata, _VERSION_SIZE).topics
    except Malformed:
        return None


class Waiting(NamedTuple):
    """A request without an answer yet."""

    ticket: Ticket
    version: int


@dataclass(slots=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False  # has not been part of a generation yet
    alarm: SessionOver | None = None

    def metadata(self, protocol_name: str | None) -> bytes:
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise AssertionError(f"{self.member_id} does not support {protocol_name}")


class ClassicGroup:
    """With nothing but its id: a group that only holds offsets."""

    def __init__(self, group_id: str, now_ms: int | None = None, generation: int = 0) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.state_since_ms = now_ms
        self.generation = generation
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.subscribed_topics: frozenset[str] | None = None  # None: not known
        self._supporters: dict[str, int] = {}  # protocol name -> members that offer it

        # What no record holds.
        self.pending: dict[str, SessionOver] = {}  # were given an id, have not joined with it yet
        self.joining: dict[str, Waiting] = {}
        self.syncing: dict[str, Waiting] = {}
        self.unsynced: dict[str, None] = {}  # of this generation, without a sync so far
        self.is_initial = False  # the rebalance being prepared is the first of an empty group
        self.grew = False  # while it was waiting for members to begin with
        self.join_alarm: InitialDelayOver | JoinOver | None = None
        self.sync_alarm: SyncOver | None = None
        self.written: Record | None = None  # what is in memory already when it is replayed
        self.stored: Record | None = None  # what the log holds of it

    # What every group can be asked

    @property
    def kind(self) -> Kind:
        return "classic"

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is _EMPTY

    @property
    def empty_since_ms(self) -> int | None:
        if self.state is _EMPTY and self.protocol_type:
            return self.state_since_ms
        return None

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int,  # noqa: ARG002
        *,
        in_txn: bool,
        partitions: Iterable[tuple[bytes, int]] | None = None,  # noqa: ARG002
    ) -> None:
        if self.state is _DEAD:
            raise CoordinatorNotAvailable(f"the group {self.group_id!r} is being deleted")
        if epoch < 0 and self.state is _EMPTY:
            return  # an administrator, or a consumer that assigns its partitions itself
        if epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(epoch)
        elif not in_txn:
            raise UnknownMemberId(f"the group {self.group_id!r} has members; only they commit")
        # Old transactional producers name no member, and no state of the group is asked of any.
        if self.state is _COMPLETING and not in_txn:
            raise RebalanceInProgress(f"the group {self.group_id!r} is rebalancing")

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:  # noqa: ARG002
        if self.state is _DEAD:
            raise GroupIdNotFound(f"the group {self.group_id!r} is being deleted")

    def check_delete(self) -> None:
        if self.state is _DEAD:
            raise GroupIdNotFound(f"the group {self.group_id!r} is being deleted")
        if self.state is not _EMPTY:
            raise NonEmptyGroup(f"the group {self.group_id!r} is {self.state_name}")

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL
        return topic in self.subscribed_topics

    def tombstones(self) -> Sequence[Record]:
        return [Record(GroupMetadataKey(group=self.group_id))]

    # Questions of its own

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Refuse whoever is no member, or no longer the one with this instance id."""
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

    def supports(self, protocol_type: str, protocols: Iterable[OfferedProtocol]) -> bool:
        """Whether somebody with these protocols could join."""
        if self.state is _EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        return protocol_type == self.protocol_type and any(
            self._supporters.get(protocol.name, 0) == len(self.members) for protocol in protocols
        )

    @property
    def all_have_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def choose_protocol(self) -> str:
        """Each votes for the first of its protocols that all support; a tie changes nothing."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(
                protocol.name
                for protocol in member.protocols
                if self._supporters[protocol.name] == len(self.members)
            )
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: (votes[name], name == self.protocol_name))

    # Changes

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        assert self.state in _BEFORE[state], f"from {self.state} to {state}"
        self.state = state
        self.state_since_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Whoever is a member now makes up the next generation."""
        # Numbers below zero mean "no generation" to clients.
        overflows = self.generation >= GENERATION_MAX
        self.generation = FIRST_GENERATION if overflows else self.generation + 1
        self.protocol_name = self.choose_protocol() if self.members else None
        self.move_to(_COMPLETING if self.members else _EMPTY, now_ms)
        self.learn_topics()
        self.unsynced.clear()

    def add(self, member: ClassicMember) -> None:
        assert member.member_id not in self.members, "a member is added once"
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids, "an instance id has one member"
            self.static_ids[member.instance_id] = member.member_id
        self.pending.pop(member.member_id, None)
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Nobody may wait in its name any more."""
        assert member_id not in self.joining and member_id not in self.syncing, "answer it first"
        member = self.members.pop(member_id)
        self._count(member.protocols, -1)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        self.unsynced.pop(member_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def update(
        self,
        member: ClassicMember,
        protocols: tuple[OfferedProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(member.protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def replace_static(self, old_id: str, new_id: str) -> ClassicMember:
        """The same place under another member id."""
        assert old_id not in self.joining and old_id not in self.syncing, "answer it first"
        old = self.members.pop(old_id)
        assert old.instance_id is not None, "only a static member is replaced"
        member = replace(old, member_id=new_id, is_new=False, alarm=None)
        self.members[new_id] = member
        self.static_ids[old.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.unsynced:
            del self.unsynced[old_id]
            self.unsynced[new_id] = None
        return member

    def elect_among_joined(self) -> bool:
        """Keep the leader if it has rejoined, else take the first that has; False if none has."""
        if self.leader_id is None:
            return False
        if self.leader_id not in self.joining:
            joined = next((each for each in self.members if each in self.joining), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def learn_topics(self) -> None:
        """What consumers are subscribed to; anything unreadable among it makes it unknown."""
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is not None:
            said = [topics_in(each.metadata(self.protocol_name)) for each in self.members.values()]
            if None not in said:
                self.subscribed_topics = frozenset(topic for each in said for topic in each or ())

    def _count(self, protocols: tuple[OfferedProtocol, ...], change: int) -> None:
        for name in dict.fromkeys(protocol.name for protocol in protocols):
            self._supporters[name] = self._supporters.get(name, 0) + change
            if self._supporters[name] == 0:
                del self._supporters[name]
