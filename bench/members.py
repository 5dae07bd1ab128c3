"""A group of many members, one thread and one connection each: how long until it is settled.

By the raw protocol, as a consumer speaks it: two hundred whole clients would measure themselves.
"""

import struct
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.programs import LoadFailed
from penstock.client.transport.connection import CannotReach, Connection
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from penstock.wire.messages import k08_offset_commit as k08
from penstock.wire.messages import k11_join_group as k11
from penstock.wire.messages import k12_heartbeat as k12
from penstock.wire.messages import k14_sync_group as k14
from penstock.wire.messages import k68_consumer_group_heartbeat as k68
from penstock.wire.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.wire.messages.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

SETTLE_SECONDS_MAX = 120
RETRY_SECONDS = 0.05
NAMED_TOPICS_VERSION = 9  # the last one of OffsetCommit that knows topics by name
SESSION_MS = 45_000
# A classic consumer's is 3 s by default. Members hear of a rebalance by their heartbeat: with a
# long one the time depends on who had just sent his, not on the server.
HEARTBEAT_SECONDS = 0.2
REBALANCE_MS = 60_000
_PASSING = {
    CoordinatorLoadInProgress.code,
    CoordinatorNotAvailable.code,
    NotCoordinator.code,
}


@dataclass(slots=True)
class Group:
    """What the members know together: who owns what, and since when it is everything."""

    bootstrap: tuple[str, int]
    name: str
    topic: str
    partitions: int
    owned: dict[int, frozenset[int]] = field(default_factory=dict)
    moved: int = 0  # partitions that were taken from somebody
    failure: str | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)
    stopping: threading.Event = field(default_factory=threading.Event)

    def own(self, member: int, partitions: frozenset[int]) -> None:
        with self.changed:
            self.moved += len(self.owned.get(member, frozenset()) - partitions)
            self.owned[member] = partitions
            self.changed.notify_all()

    def fail(self, reason: str) -> None:
        with self.changed:
            self.failure = self.failure or reason
            self.changed.notify_all()

    def settled(self, members: int) -> bool:
        """Everybody has a share, shares differ by one at most, and together they are all."""
        shares = [len(share) for share in self.owned.values() if share]
        return (
            len(shares) == min(members, self.partitions)
            and sum(shares) == self.partitions
            and max(shares) - min(shares) <= 1
        )

    def wait_settled(self, members: int) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.failure or self.settled(members), SETTLE_SECONDS_MAX)
            if self.failure:
                raise LoadFailed(self.failure)
            if not self.settled(members):
                raise LoadFailed(f"{self.name} did not settle in {SETTLE_SECONDS_MAX} s")


def _coordinator(group: Group) -> Connection:
    connection = Connection(*group.bootstrap, timeout_ms=SETTLE_SECONDS_MAX * 1000)
    asked = FindCoordinatorRequest(coordinator_keys=[group.name])
    while not group.stopping.is_set():
        answer = connection.request(asked, FindCoordinatorResponse).coordinators[0]
        if answer.error_code not in _PASSING:
            return connection  # there is one broker
        time.sleep(RETRY_SECONDS)
    return connection


def _subscription(topic: str) -> bytes:
    name = topic.encode()
    return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)


def _assignment(topic: str, partitions: Sequence[int]) -> bytes:
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, len(partitions))
    return head + struct.pack(f">{len(partitions)}ii", *partitions, -1)


def _assigned(group: Group, data: bytes) -> frozenset[int]:
    if not data:
        return frozenset()
    position = 2 + 4 + 2 + len(group.topic.encode())
    (count,) = struct.unpack_from(">i", data, position)
    return frozenset(struct.unpack_from(f">{count}i", data, position + 4))


def _divide(group: Group, members: list[str]) -> list[k14.SyncGroupRequestAssignment]:
    return [
        k14.SyncGroupRequestAssignment(
            member_id=member,
            assignment=_assignment(group.topic, range(number, group.partitions, len(members))),
        )
        for number, member in enumerate(sorted(members))
    ]


def _classic(group: Group, number: int) -> None:
    """Joins, and joins again whenever a heartbeat says that others came or went."""
    connection = _coordinator(group)
    member_id = ""
    while not group.stopping.is_set():
        joined = connection.request(
            k11.JoinGroupRequest(
                group_id=group.name,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[
                    k11.JoinGroupRequestProtocol(name="range", metadata=_subscription(group.topic))
                ],
            ),
            k11.JoinGroupResponse,
        )
        if joined.error_code == MemberIdRequired.code:
            member_id = joined.member_id
            continue
        if joined.error_code in (UnknownMemberId.code, RebalanceInProgress.code, *_PASSING):
            member_id = "" if joined.error_code == UnknownMemberId.code else member_id
            continue
        if joined.error_code:
            raise LoadFailed(f"JoinGroup: error {joined.error_code}")
        leads = joined.leader == joined.member_id
        synced = connection.request(
            k14.SyncGroupRequest(
                group_id=group.name,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=_divide(group, [each.member_id for each in joined.members])
                if leads
                else [],
            ),
            k14.SyncGroupResponse,
        )
        member_id = joined.member_id
        if synced.error_code == 0:
            group.own(number, _assigned(group, synced.assignment))
            _beat(group, connection, member_id, joined.generation_id)


def _beat(group: Group, connection: Connection, member_id: str, generation: int) -> None:
    """Until the group is no longer the one that this member joined."""
    asked = k12.HeartbeatRequest(group_id=group.name, generation_id=generation, member_id=member_id)
    while not group.stopping.wait(HEARTBEAT_SECONDS):
        if connection.request(asked, k12.HeartbeatResponse).error_code:
            return


def _consumer(group: Group, number: int) -> None:
    """Heartbeats as the server says, at once when there is something to give back or to take."""
    connection = _coordinator(group)
    member_id = str(uuid.uuid4())
    epoch, owned = 0, frozenset[int]()
    topic_id = bytes(16)
    while not group.stopping.is_set():
        asked = k68.ConsumerGroupHeartbeatRequest(
            group_id=group.name,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[group.topic],
            topic_partitions=[k68.TopicPartitions(topic_id=topic_id, partitions=sorted(owned))]
            if owned
            else [],
        )
        told = connection.request(asked, k68.ConsumerGroupHeartbeatResponse)
        if told.error_code in _PASSING:
            time.sleep(RETRY_SECONDS)
            continue
        if told.error_code in (FencedMemberEpoch.code, UnknownMemberId.code):
            epoch, owned = 0, frozenset()
            continue
        if told.error_code:
            raise LoadFailed(f"ConsumerGroupHeartbeat: error {told.error_code}")
        epoch = told.member_epoch
        if told.assignment is not None:
            wanted = frozenset(
                partition
                for topic in told.assignment.topic_partitions
                for partition in topic.partitions
            )
            for topic in told.assignment.topic_partitions:
                topic_id = topic.topic_id
            if wanted != owned:
                owned = wanted
                group.own(number, owned)
                continue
        group.stopping.wait(told.heartbeat_interval_ms / 1000)


PROTOCOLS: dict[str, Callable[[Group, int], None]] = {"classic": _classic, "consumer": _consumer}


def _live(group: Group, number: int, live: Callable[[Group, int], None]) -> None:
    try:
        live(group, number)
    except (LoadFailed, CannotReach) as problem:
        if not group.stopping.is_set():
            group.fail(str(problem))


@dataclass(frozen=True, slots=True)
class Settled:
    """Seconds from the first member's start until all had their share, and the same for one member
    more; `moved` partitions were taken from somebody for it."""

    all_seconds: float
    one_more_seconds: float
    moved: int


def settle(bootstrap: str, topic: str, partitions: int, members: int, protocol: str) -> Settled:
    host, _, port = bootstrap.partition(":")
    group = Group((host, int(port)), f"{topic}-{protocol}", topic, partitions)
    threads = [
        threading.Thread(target=_live, args=(group, number, PROTOCOLS[protocol]), daemon=True)
        for number in range(members + 1)
    ]
    try:
        began = time.monotonic()
        for thread in threads[:-1]:
            thread.start()
        group.wait_settled(members)
        there = time.monotonic()
        group.moved = 0
        threads[-1].start()
        group.wait_settled(members + 1)
        return Settled(there - began, time.monotonic() - there, group.moved)
    finally:
        group.stopping.set()


def commit_offsets(bootstrap: str, topic: str, partitions: int, commits: int) -> None:
    """As a consumer without a group membership: every partition in each commit."""
    host, _, port = bootstrap.partition(":")
    group = Group((host, int(port)), topic, topic, partitions)
    with _coordinator(group) as connection:
        for offset in range(commits):
            _commit(connection, group, offset)


def _commit(connection: Connection, group: Group, offset: int) -> None:
    asked = k08.OffsetCommitRequest(
        group_id=group.name,
        topics=[
            k08.OffsetCommitRequestTopic(
                name=group.topic,
                partitions=[
                    k08.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for index in range(group.partitions)
                ],
            )
        ],
    )
    while True:
        answer = connection.request(asked, k08.OffsetCommitResponse, NAMED_TOPICS_VERSION)
        error = answer.topics[0].partitions[0].error_code
        if not error:
            return
        if error not in _PASSING:
            raise LoadFailed(f"OffsetCommit: error {error}")
        time.sleep(RETRY_SECONDS)


def seconds_until_loaded(bootstrap: str, group_id: str) -> float:
    """How long a group's coordinator keeps its clients waiting."""
    host, _, port = bootstrap.partition(":")
    began = time.monotonic()
    asked = DescribeGroupsRequest(groups=[group_id])
    with Connection(host, int(port)) as connection:
        while connection.request(asked, DescribeGroupsResponse, 0).groups[0].error_code in _PASSING:
            if time.monotonic() - began > SETTLE_SECONDS_MAX:
                raise LoadFailed(f"the coordinator of {group_id} does not load")
            time.sleep(0.005)
    return time.monotonic() - began
