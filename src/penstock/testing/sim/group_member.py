"""Members of groups in a simulation, of the classic and of the consumer protocol (KIP-848).

A membership takes turns: between two of them its owner finishes the work on its partitions, so that
revoked ones are released at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from struct import pack

from penstock.model import TopicPartition, id_to_text
from penstock.testing.sim.script import Ask, Script, ScriptOwner, TopicFacts
from penstock.testing.sim.transactional import CommittingMember
from penstock.testing.sim.zombies import Claim, Owners
from penstock.wire.codec import write
from penstock.wire.messages import (
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k68_consumer_group_heartbeat,
)
from penstock.wire.records import consumer_protocol

JOIN, HEARTBEAT, LEAVE, SYNC, CONSUMER_HEARTBEAT = 11, 12, 13, 14, 68
PASSING = (14, 15, 16)
ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL, UNKNOWN_MEMBER, REBALANCING = 22, 23, 25, 27
GROUP_NOT_FOUND, MEMBER_ID_REQUIRED, FENCED_INSTANCE = 69, 79, 82
FENCED_MEMBER, UNRELEASED_INSTANCE, STALE_MEMBER = 110, 111, 113
PROTOCOL = "range"
JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2


class Dismissed(Exception):
    """Another member with the same instance id replaced this one."""


class SimMembership(ABC):
    """The interface of both protocols for the owner of a membership."""

    def __init__(
        self,
        client: ScriptOwner,
        group: str,
        topics: Mapping[str, TopicFacts],
        owners: Owners,
        *,
        instance_id: str | None,
    ) -> None:
        self.group = group
        self.partitions: tuple[TopicPartition, ...] = ()
        self.member_id = ""
        self.epoch = -1  # or generation
        self.instance_id = instance_id
        self.client = client
        self.topics = topics
        self.owners = owners

    @property
    def member(self) -> CommittingMember:
        return CommittingMember(self.member_id, self.epoch, self.instance_id)

    @property
    @abstractmethod
    def commit_versions(self) -> Sequence[int]: ...

    @abstractmethod
    def speak(self) -> Script[bool]:
        """Join, or send a heartbeat. Return True if the assignment changed."""

    @abstractmethod
    def leave(self) -> Script[None]: ...

    def has(self, partitions: tuple[TopicPartition, ...], asked_ms: float) -> None:
        self.partitions = partitions
        claim = Claim(self.client.name, asked_ms, self.now_ms())
        self.owners.notified(self.group, partitions, claim)

    def now_ms(self) -> float:
        return self.client.world.clock.mono_ms()


class ClassicMembership(SimMembership):
    """A member of the eager protocol: a rejoin revokes everything."""

    def __init__(
        self,
        client: ScriptOwner,
        group: str,
        topics: Mapping[str, TopicFacts],
        owners: Owners,
        *,
        session_ms: int,
        rebalance_ms: int,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(client, group, topics, owners, instance_id=instance_id)
        self._session_ms = session_ms
        self._rebalance_ms = rebalance_ms
        self._joined = False
        pick = client.chance.choice
        # Static members need newer versions.
        self._join_version = pick((5, 7, 9) if instance_id else (0, 2, 3, 4, 5, 7, 9))
        self._sync_version = pick((3, 5) if instance_id else (0, 2, 3, 5))
        self._heartbeat_version = pick((3, 4) if instance_id else (0, 2, 3, 4))
        self._leave_version = pick((3, 4, 5))

    @property
    def commit_versions(self) -> Sequence[int]:
        return (7, 8, 9, 10) if self.instance_id else (2, 5, 6, 7, 8, 9, 10)

    def speak(self) -> Script[bool]:
        if self._joined:
            message = k12_heartbeat.HeartbeatRequest(
                group_id=self.group,
                generation_id=self.epoch,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            )
            response = yield Ask(HEARTBEAT, self._heartbeat_version, message, self.member)
            if response is None or response.error_code in (0, *PASSING):
                return False
            self._lost(response.error_code)
        while not self._joined:
            yield from self._join()
            if not self._joined:
                yield self.client.pause(1.0, 60.0)
        return True

    def _lost(self, code: int) -> None:
        """Leave the generation, and perhaps the group."""
        if code == FENCED_INSTANCE:
            raise Dismissed(self.member_id)
        expected = (ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL, UNKNOWN_MEMBER, REBALANCING)
        assert code in (*expected, *PASSING), f"{self.client.name} in {self.group}: error {code}"
        self._joined = False
        self.partitions = ()
        if code == UNKNOWN_MEMBER:
            self.member_id = ""

    def _join(self) -> Script[None]:
        subscription = consumer_protocol.ConsumerProtocolSubscription(topics=list(self.topics))
        metadata = pack(">h", 0) + write(subscription, 0)
        message = k11_join_group.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[k11_join_group.JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
        )
        response = yield Ask(JOIN, self._join_version, message, self.member)
        if response is None:
            return
        if response.error_code == MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code:
            self._lost(response.error_code)
        else:
            self.member_id = response.member_id
            self.epoch = response.generation_id
            leads = response.leader == self.member_id and not response.skip_assignment
            yield from self._sync(self._assign(response) if leads else [])

    def _assign(
        self, response: k11_join_group.JoinGroupResponse
    ) -> list[k14_sync_group.SyncGroupRequestAssignment]:
        """Assign every partition to one member, in turn."""
        members = sorted(each.member_id for each in response.members)
        shares: dict[str, dict[str, list[int]]] = {each: {} for each in members}
        topic_partitions = [
            (topic, each) for topic, facts in self.topics.items() for each in _all(facts)
        ]
        for number, (topic, partition) in enumerate(topic_partitions):
            shares[members[number % len(members)]].setdefault(topic, []).append(partition)
        return [
            k14_sync_group.SyncGroupRequestAssignment(member_id=each, assignment=_assignment(share))
            for each, share in shares.items()
        ]

    def _sync(self, assignments: list[k14_sync_group.SyncGroupRequestAssignment]) -> Script[None]:
        message = k14_sync_group.SyncGroupRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        asked_ms = self.now_ms()
        response = yield Ask(SYNC, self._sync_version, message, self.member)
        if response is None:
            return
        if response.error_code:
            self._lost(response.error_code)
            return
        self._joined = True
        share = consumer_protocol.ConsumerProtocolAssignment()
        if response.assignment:
            share = consumer_protocol.read_consumer_protocol(
                consumer_protocol.ConsumerProtocolAssignment, response.assignment
            )
        self.has(
            tuple(
                TopicPartition(each.topic, partition)
                for each in share.assigned_partitions
                for partition in each.partitions
            ),
            asked_ms,
        )

    def leave(self) -> Script[None]:
        if not self.member_id:
            return
        member = k13_leave_group.MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance_id
        )
        message = k13_leave_group.LeaveGroupRequest(group_id=self.group, members=[member])
        self.partitions = ()
        self._joined = False
        yield Ask(LEAVE, self._leave_version, message, self.member)


class ConsumerMembership(SimMembership):
    """A member of the consumer protocol: the server assigns; revoked partitions are released in the
    next heartbeat."""

    def __init__(
        self,
        client: ScriptOwner,
        group: str,
        topics: Mapping[str, TopicFacts],
        owners: Owners,
        *,
        rebalance_ms: int,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(client, group, topics, owners, instance_id=instance_id)
        self._rebalance_ms = rebalance_ms
        self._version = client.chance.choice((0, 1))
        self._names = {facts.topic_id: topic for topic, facts in topics.items()}
        self._must_tell: bool  # send all fields: a join, or a lost response
        self._restart()

    @property
    def commit_versions(self) -> Sequence[int]:
        return (9, 10)

    def _restart(self) -> None:
        self.epoch = JOINING
        self.partitions = ()
        self._must_tell = True
        if self._version >= 1 and not self.member_id:
            self.member_id = id_to_text(b"\x01" + self.client.world.entropy.uuid()[1:])

    def speak(self) -> Script[bool]:
        asked_ms = self.now_ms()
        response = yield Ask(CONSUMER_HEARTBEAT, self._version, self._heartbeat(), self.member)
        if response is None:
            self._must_tell = True
            return False
        code = response.error_code
        if code in PASSING or code == UNRELEASED_INSTANCE:
            # The assignment of this heartbeat may be in the log of a former coordinator.
            self._must_tell = True
            return False
        if code in (FENCED_MEMBER, UNKNOWN_MEMBER, GROUP_NOT_FOUND):
            self._restart()
            return True
        if code == FENCED_INSTANCE:
            raise Dismissed(self.member_id)
        assert code == 0, f"{self.client.name} in {self.group}: error {code}"
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        self._must_tell = False
        if response.assignment is None:
            return False
        before = self.partitions
        self.has(
            tuple(
                TopicPartition(self._names[each.topic_id], partition)
                for each in response.assignment.topic_partitions
                for partition in each.partitions
            ),
            asked_ms,
        )
        self._must_tell = before != self.partitions
        return before != self.partitions

    def _heartbeat(self) -> k68_consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
        message = k68_consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
        )
        if self._must_tell:
            message.rebalance_timeout_ms = self._rebalance_ms
            message.subscribed_topic_names = list(self.topics)
            message.topic_partitions = []
            for topic, facts in self.topics.items():
                owned = [each.partition for each in self.partitions if each.topic == topic]
                if owned:
                    message.topic_partitions.append(
                        k68_consumer_group_heartbeat.TopicPartitions(
                            topic_id=facts.topic_id, partitions=owned
                        )
                    )
        return message

    def leave(self) -> Script[None]:
        if self.epoch <= JOINING:
            return
        message = k68_consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=LEAVING if self.instance_id is None else LEAVING_FOR_A_WHILE,
            instance_id=self.instance_id,
        )
        self.partitions = ()
        yield Ask(CONSUMER_HEARTBEAT, self._version, message, self.member)


def _all(facts: TopicFacts) -> range:
    return range(facts.partitions)


def _assignment(share: Mapping[str, list[int]]) -> bytes:
    assignment = consumer_protocol.ConsumerProtocolAssignment(
        assigned_partitions=[
            consumer_protocol.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in share.items()
        ]
    )
    return pack(">h", 0) + write(assignment, 0)
