"""Generations of a classic group: the one that its record holds, and the one that follows it.

`ClassicGeneration` is a value: replay makes it, and no method changes it. `NextGeneration` is a
copy that requests and timers change until a record holds it, and is lost with the coordinator.
Invariants: an instance id belongs to one member; a generation with members has a leader. Only
members wait, each for at most one join and one sync.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from penstock.effects import Ticket
from penstock.wire.codec import read_from
from penstock.wire.primitives import Malformed
from penstock.wire.records.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL = "consumer"
FIRST_GENERATION = 1
GENERATION_MAX = 2**31 - 1
# A subscription begins with its version. The fields of version 0 follow, among them the topics.
_VERSION_SIZE = 2
_LENGTH_SIZE = 4
# Of all members, counting equal ones once: they are read in one turn.
SUBSCRIPTION_BYTES_READ_MAX = 512 * 1024


class ClassicState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class OfferedProtocol(NamedTuple):
    """An assignment strategy that a member supports, and the member's metadata for it."""

    name: str
    metadata: bytes


class WaitingRequest(NamedTuple):
    """A request without an answer yet."""

    ticket: Ticket
    version: int


@dataclass(frozen=True, slots=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]
    assignment: bytes = b""

    def metadata(self, protocol_name: str | None) -> bytes:
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise AssertionError(f"{self.member_id} does not support {protocol_name}")


class SubscribedTopics(NamedTuple):
    """The topics of a consumer's subscription, and the bytes that name them."""

    names: list[str]
    encoded: bytes


def topics_in(metadata: bytes) -> SubscribedTopics | None:
    """Return the topics of a consumer's subscription; None if the bytes are no subscription."""
    try:
        found, end = read_from(ConsumerProtocolSubscription, 0, metadata, _VERSION_SIZE)
    except Malformed:
        return None
    topics_end = end - _LENGTH_SIZE - len(found.user_data or b"")
    return SubscribedTopics(found.topics, bytes(metadata[_VERSION_SIZE:topics_end]))


class ClassicGeneration:
    """A generation as a record holds it.

    `is_led`: a leader has assigned its partitions. `since_ms`: its state began then, if known.
    """

    def __init__(
        self,
        number: int = 0,
        protocol_type: str = "",
        protocol_name: str | None = None,
        leader_id: str | None = None,
        members: Iterable[ClassicMember] = (),
        since_ms: int | None = None,
        *,
        is_led: bool = True,
    ) -> None:
        self.number = number
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader_id: str | None = None
        self.since_ms = since_ms
        self.is_led = is_led
        self._members: dict[str, ClassicMember] = {}
        self._static_ids: dict[str, str] = {}
        self._supporters: dict[str, int] = {}  # protocol name -> members that offer it
        for member in members:
            self._add(member)
        if leader_id in self._members:
            self.leader_id = leader_id

    def _add(self, member: ClassicMember) -> None:
        assert member.member_id not in self._members, "a member is added once"
        if member.instance_id is not None:
            assert member.instance_id not in self._static_ids, "an instance id has one member"
            self._static_ids[member.instance_id] = member.member_id
        self._members[member.member_id] = member
        self._count(member.protocols, 1)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def _count(self, protocols: tuple[OfferedProtocol, ...], change: int) -> None:
        for name in dict.fromkeys(protocol.name for protocol in protocols):
            self._supporters[name] = self._supporters.get(name, 0) + change
            if self._supporters[name] == 0:
                del self._supporters[name]

    @property
    def members(self) -> Mapping[str, ClassicMember]:
        return self._members

    @property
    def static_ids(self) -> Mapping[str, str]:
        """Return member ids by instance id."""
        return self._static_ids

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((each.rebalance_timeout_ms for each in self._members.values()), default=0)

    def supports(self, protocol_name: str) -> bool:
        """Return whether every member offers the protocol."""
        return self._supporters.get(protocol_name, 0) == len(self._members)

    def choose_protocol(self) -> str:
        """Return the protocol with most votes; the current one wins a tie.

        Each member votes for the first of its protocols that all members support.
        """
        votes: dict[str, int] = {}
        for member in self._members.values():
            choice = next(each.name for each in member.protocols if self.supports(each.name))
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: (votes[name], name == self.protocol_name))

    @cached_property
    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics of all consumers; None if a subscription cannot be read, or if
        they are too long to be read in one turn."""
        return self._read_topics()

    def _read_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        if not self._members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        found: SubscribedTopics | None = None
        bytes_left = SUBSCRIPTION_BYTES_READ_MAX
        for member in self._members.values():
            metadata = member.metadata(self.protocol_name)
            if found is not None and metadata.startswith(found.encoded, _VERSION_SIZE):
                continue  # members of a group are mostly alike
            bytes_left -= len(metadata)
            found = topics_in(metadata) if bytes_left >= 0 else None
            if found is None:
                return None
            topics.update(found.names)
        return frozenset(topics)


NO_GENERATION = ClassicGeneration()  # of a group without a record


class NextGeneration(ClassicGeneration):
    """A copy of a generation that is changed until a record holds it.

    `state` is that of the group: as the copied generation leaves it, then preparing, then
    completing the rebalance, or empty.
    """

    def __init__(self, before: ClassicGeneration) -> None:
        super().__init__(
            before.number,
            before.protocol_type,
            before.protocol_name,
            before.leader_id,
            before.members.values(),
            before.since_ms,
        )
        self.subscribed_topics = before.subscribed_topics
        self.state = ClassicState.STABLE if before.members else ClassicState.EMPTY
        self.joining: dict[str, WaitingRequest] = {}
        self.syncing: dict[str, WaitingRequest] = {}
        self.new_ids: dict[str, None] = {}  # members that were in no generation yet
        self.is_initial = False  # the rebalance being prepared is the first of an empty group
        self.grew = False  # a member was added since the initial delay began

    def prepare(self) -> None:
        assert self.state is not ClassicState.PREPARING_REBALANCE, "prepared once"
        self.is_initial = self.state is ClassicState.EMPTY
        self.grew = False
        self.state = ClassicState.PREPARING_REBALANCE

    def begin(self, now_ms: int) -> None:
        """Make the present members the next generation."""
        assert self.state is ClassicState.PREPARING_REBALANCE, "prepared first"
        # Clients take numbers below zero for "no generation".
        overflows = self.number >= GENERATION_MAX
        self.number = FIRST_GENERATION if overflows else self.number + 1
        self.protocol_name = self.choose_protocol() if self._members else None
        completing = ClassicState.COMPLETING_REBALANCE
        self.state = completing if self._members else ClassicState.EMPTY
        self.since_ms = now_ms
        self.new_ids.clear()
        self.subscribed_topics = self._read_topics()

    def add(self, member: ClassicMember) -> None:
        self._add(member)
        self.new_ids[member.member_id] = None
        self.grew = True

    def remove(self, member_id: str) -> None:
        """Remove a member that waits for no answer."""
        assert member_id not in self.joining and member_id not in self.syncing, "answer it first"
        member = self._members.pop(member_id)
        self._count(member.protocols, -1)
        self.new_ids.pop(member_id, None)
        if member.instance_id is not None:
            del self._static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._members), None)

    def put(self, member: ClassicMember) -> None:
        """Replace a member by one with the same ids."""
        self._count(self._members[member.member_id].protocols, -1)
        self._members[member.member_id] = member
        self._count(member.protocols, 1)

    def replace_static(self, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member another member id."""
        assert old_id not in self.joining and old_id not in self.syncing, "answer it first"
        old = self._members.pop(old_id)
        assert old.instance_id is not None, "only a static member is replaced"
        member = self._members[new_id] = replace(old, member_id=new_id)
        self._static_ids[old.instance_id] = new_id
        self.new_ids.pop(old_id, None)
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def elect_among_joined(self) -> bool:
        """Keep a leader that has rejoined, else take the first member that has.

        Return False if no member has rejoined.
        """
        if self.leader_id is None:
            return False
        if self.leader_id not in self.joining:
            joined = next((each for each in self._members if each in self.joining), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True
