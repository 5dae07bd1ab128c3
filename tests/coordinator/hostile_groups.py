"""Peers that send group requests with any value the wire allows, beside some that make sense."""

from dataclasses import dataclass
from typing import Any

from consumer_story import Cluster
from hostile_world import HostileWorld

from penstock.coordinator.events import GroupRequest, TopicsChanged
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.machine import GroupCoordinator
from penstock.coordinator.records import EndMarker
from penstock.errors import KafkaError, UnknownMemberId
from penstock.wire.codec import read, write
from penstock.wire.messages import k13_leave_group as k13
from penstock.wire.messages import k47_offset_delete as k47
from penstock.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest
from penstock.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.wire.messages.k15_describe_groups import DescribeGroupsRequest
from penstock.wire.messages.k16_list_groups import ListGroupsRequest
from penstock.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.wire.messages.k42_delete_groups import DeleteGroupsRequest
from penstock.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from penstock.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.primitives import UnencodableValue
from penstock.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from penstock.wire.records.coordinator import GROUP_RECORDS
from penstock.wire.schema import schema_of

GROUPS = ("g",) * 30 + ("h", "", "\x00 é")
TOPICS = ("a", "b", "missing", "")
INSTANCES = (None, None, None, "i1", "i2", "")
INT32 = (-(2**31), -2, -1, 0, 1, 2, 2**31 - 1)
STEPS = 80
SETTINGS = {"initial_rebalance_delay_ms": 0, "consumer_session_timeout_ms": 45_000}


@dataclass
class Peer:
    """A client that does what a client does, with odd values among its fields."""

    is_classic: bool
    instance_id: str | None
    member_id: str = ""
    epoch: int = 0


class HostileGroups(HostileWorld):
    def __init__(self, seed: int) -> None:
        self.cluster = Cluster()
        self.cluster.make("a", 3)
        self.cluster.make("b", 1)
        self.peers = [Peer(number > 1, "i1" if number == 4 else None) for number in range(5)]
        self.peer = self.peers[0]  # in whose name the next request is made
        settings = GroupSettings(**SETTINGS)  # type: ignore[arg-type]
        super().__init__(seed, lambda: GroupCoordinator(settings, self.cluster), GROUP_RECORDS)

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
            self.check()
        self.log.refuses = False
        self.time.advance(3_600_000)
        self.restart()

    def check(self) -> None:
        for group in self.runtime.machine.state.groups.values():
            if isinstance(group, ConsumerGroup):
                assert group.target_epoch <= group.epoch, "a target is of an epoch that there was"
                assert all(each.epoch <= group.epoch for each in group.members.values())

    def assign_to_another(self) -> None:
        """What must work after all of it: another member has the group to itself."""
        self.time.advance(3_600_000)
        beat = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="last",
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=["last"],
            topic_partitions=[],
        )
        self.cluster.make("last", 1)
        answers: list[Any] = []
        self.ask(GroupRequest(beat, 1), answers.append)
        self.time.advance(0)
        assert [each.assignment.topic_partitions[0].partitions for each in answers] == [[0]]
        assert self.open == 0, "nobody waits for an answer that never comes"

    def step(self) -> None:
        roll = self.chance.random()
        if roll < 0.75:
            self.request()
        elif roll < 0.92:
            self.time.advance(self.chance.choice((0, 500, 500, 7_000, 46_000, 400_000)))
        elif roll < 0.95:
            self.change_topics()
        elif roll < 0.98:
            self.restart()
        else:
            self.log.refuses = True
        if self.chance.random() < 0.3:
            self.log.refuses = False

    def change_topics(self) -> None:
        name = self.chance.choice(TOPICS[:2])
        known = self.cluster.topics.pop(name, None)
        if known is not None and self.chance.random() < 0.5:
            event = TopicsChanged(deleted=((name, known.topic_id),))
        else:
            self.cluster.make(name, self.chance.randint(1, 4))
            event = TopicsChanged(names=(name,))
        self.runtime.submit(event)

    def request(self) -> None:
        peer = self.peer = self.chance.choice(self.peers)
        if self.chance.random() < 0.75:
            ways = (self.join, self.sync, self.heartbeat, self.heartbeat)
            make = self.chance.choice(ways) if peer.epoch else self.join
            message: Any = make() if peer.is_classic else self.beat()
        else:
            message = self.chance.choice(
                (
                    self.join,
                    self.beat,
                    self.leave,
                    self.commit,
                    self.commit_in_transaction,
                    self.delete_offsets,
                    self.question,
                    self.marker,
                )
            )()
        if isinstance(message, EndMarker):
            self.ask(message)
            return
        versions = schema_of(type(message)).versions
        version = self.chance.randint(versions.first, versions.last)
        try:
            data = write(message, version)
        except UnencodableValue:  # an older version has no place for it
            version = versions.last
            data = write(message, version)
        # What a peer sends, not what was meant: through the bytes of its version.
        sent = read(type(message), version, data, 0)
        call = GroupRequest(sent, version, "client", "/host", self.chance.randbytes(16))
        self.ask(call, lambda answer: _heard(peer, answer))

    def is_odd(self) -> bool:
        return self.chance.random() < 0.1

    def member(self) -> tuple[str, int]:
        peer = self.chance.choice(self.peers) if self.is_odd() else self.peer
        epoch = self.chance.choice(INT32) if self.is_odd() and self.is_odd() else peer.epoch
        return peer.member_id, epoch

    def instance_id(self) -> str | None:
        return self.chance.choice(INSTANCES) if self.is_odd() else self.peer.instance_id

    def group_id(self) -> str:
        return self.chance.choice(GROUPS)

    # Requests

    def metadata(self) -> bytes:
        chance = self.chance
        said = ConsumerProtocolSubscription(
            topics=chance.choices(TOPICS, k=chance.randint(0, 2)),
            owned_partitions=[TopicPartition(topic="a", partitions=[chance.choice(INT32)])],
        )
        version = chance.choice((0, 1, 2, 3))
        if version == 0:
            said.owned_partitions = []
        whole = version.to_bytes(2, "big") + write(said, version)
        match chance.randrange(12):
            case 0:
                return chance.choice((-1472, -1, 4, 2**15 - 1)).to_bytes(2, "big", signed=True)
            case 1:
                return (-1472).to_bytes(2, "big", signed=True) + whole[2:]
            case 2:
                return whole[: chance.randrange(len(whole))]
            case _:
                return whole

    def join(self) -> JoinGroupRequest:
        chance = self.chance
        member_id, _ = self.member()
        names: tuple[str, ...] = chance.choice((("range", "roundrobin"), ("roundrobin",)))
        if self.is_odd():
            names = chance.choice((("range",), ("range", "range"), ()))
        return JoinGroupRequest(
            group_id=self.group_id(),
            session_timeout_ms=chance.choice(INT32 if self.is_odd() else (10_000, 300_000)),
            rebalance_timeout_ms=chance.choice(INT32) if self.is_odd() else 60_000,
            member_id="" if self.is_odd() else member_id,
            group_instance_id=self.instance_id(),
            protocol_type=chance.choice(("connect", "")) if self.is_odd() else "consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self.metadata()) for name in names
            ],
        )

    def beat(self) -> ConsumerGroupHeartbeatRequest:
        chance = self.chance
        member_id, epoch = self.member()
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id(),
            member_id=member_id or f"m{chance.randrange(3)}",
            member_epoch=chance.choice((epoch,) * 8 + (0, -1, -2)),
            instance_id=self.instance_id(),
            rack_id="" if self.is_odd() else None,
            rebalance_timeout_ms=chance.choice(INT32) if self.is_odd() else 30_000,
            subscribed_topic_names=chance.choices(TOPICS, k=chance.randint(0, 3)),
            subscribed_topic_regex=chance.choice((None,) * 19 + ("a|b", "", "((", "a{1,9}*")),
            server_assignor=chance.choice((None,) * 19 + ("range", "uniform", "mine")),
            topic_partitions=self.partitions() if self.is_odd() else [],
        )
        if request.member_epoch != 0 and chance.random() < 0.8:
            request.subscribed_topic_names = request.topic_partitions = None
            request.rebalance_timeout_ms = -1
        return request

    def partitions(self) -> list[TopicPartitions]:
        ids = [each.topic_id for each in self.cluster.topics.values()] + [bytes(16), b"x" * 16]
        return [
            TopicPartitions(topic_id=self.chance.choice(ids), partitions=list(INT32[2:5]))
            for _ in range(self.chance.randint(0, 2))
        ]

    def sync(self) -> SyncGroupRequest:
        member_id, epoch = self.member()
        said = ConsumerProtocolAssignment(
            assigned_partitions=[TopicPartition(topic="a", partitions=[0, 9])]
        )
        whole = (1).to_bytes(2, "big") + write(said, 1)
        return SyncGroupRequest(
            group_id=self.group_id(),
            generation_id=epoch,
            member_id=member_id,
            group_instance_id=self.instance_id(),
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=each, assignment=whole[: self.chance.choice((1, 5, len(whole)))]
                )
                for each in [peer.member_id for peer in self.peers]
            ],
        )

    def heartbeat(self) -> HeartbeatRequest:
        member_id, epoch = self.member()
        return HeartbeatRequest(
            group_id=self.group_id(),
            generation_id=epoch,
            member_id=member_id,
            group_instance_id=self.instance_id(),
        )

    def leave(self) -> k13.LeaveGroupRequest:
        named = [
            k13.MemberIdentity(member_id=self.member()[0], group_instance_id=self.instance_id())
            for _ in range(self.chance.randint(0, 3))
        ]
        return k13.LeaveGroupRequest(group_id=self.group_id(), members=named)

    def commit(self) -> OffsetCommitRequest:
        member_id, epoch = self.member()
        return OffsetCommitRequest(
            group_id=self.group_id(),
            generation_id_or_member_epoch=self.chance.choice((epoch, epoch, -1)),
            member_id=self.chance.choice((member_id, member_id, "")),
            topics=[
                OffsetCommitRequestTopic(
                    name=self.chance.choice(TOPICS),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=self.chance.choice(INT32),
                            committed_offset=self.chance.choice((-(2**63), -1, 0, 7, 2**63 - 1)),
                            committed_metadata=self.chance.choice((None, "", "x" * 5_000)),
                        )
                    ],
                )
            ],
        )

    def commit_in_transaction(self) -> TxnOffsetCommitRequest:
        member_id, epoch = self.member()
        return TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=self.group_id(),
            producer_id=self.chance.choice((-1, 1, 2, 2**63 - 1)),
            producer_epoch=self.chance.choice((-1, 0, 2**15 - 1)),
            generation_id=self.chance.choice((epoch, -1)),
            member_id=self.chance.choice((member_id, "")),
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=self.chance.choice(TOPICS),
                    partitions=[TxnOffsetCommitRequestPartition(committed_offset=5)],
                )
            ],
        )

    def delete_offsets(self) -> k47.OffsetDeleteRequest:
        place = k47.OffsetDeleteRequestPartition(partition_index=self.chance.choice(INT32))
        topic = k47.OffsetDeleteRequestTopic(name=self.chance.choice(TOPICS), partitions=[place])
        return k47.OffsetDeleteRequest(group_id=self.group_id(), topics=[topic])

    def question(self) -> Any:
        groups = self.chance.choices(GROUPS, k=self.chance.randint(0, 3))
        return self.chance.choice(
            (
                DescribeGroupsRequest(groups=groups),
                ConsumerGroupDescribeRequest(group_ids=groups),
                ListGroupsRequest(),
                DeleteGroupsRequest(groups_names=groups),
            )
        )

    def marker(self) -> EndMarker:
        chance = self.chance
        producer_id = chance.choice((-1, 1, 2, 2**63 - 1))
        return EndMarker(producer_id, 0, 0, chance.random() < 0.5, chance.random() < 0.5)


def _heard(peer: Peer, answer: Any) -> None:
    """Take in an answer as a client does: begin anew after an error, keep an id that was given."""
    given = getattr(answer, "member_id", "")
    if given:
        peer.member_id = given
    epoch = getattr(answer, "member_epoch", getattr(answer, "generation_id", None))
    if epoch is not None:
        peer.epoch = max(epoch, 0)
    if isinstance(answer, KafkaError) or getattr(answer, "error_code", 0) == UnknownMemberId.code:
        peer.member_id, peer.epoch = "", 0
