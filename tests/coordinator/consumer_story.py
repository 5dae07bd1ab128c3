"""Consumer groups as stories: members speak, topics grow, time passes, the coordinator restarts.

The whole machine of one partition runs here. Its records are written to a log of bytes and
replayed at once; a restart reads that log.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from penstock.coordinator.batches import decode, encode
from penstock.coordinator.cluster import TopicView
from penstock.coordinator.events import GroupRequest, TopicsChanged
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.machine import GroupCoordinator, GroupRecord
from penstock.coordinator.records import CoordinatorRecord
from penstock.effects import Outcome, SetTimer, Ticket
from penstock.errors import NONE, KafkaError, UnknownServerError, from_code
from penstock.wire.batch import HEADER
from penstock.wire.codec import write
from penstock.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest
from penstock.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.k14_sync_group import SyncGroupRequest
from penstock.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from penstock.wire.primitives import UnencodableValue
from penstock.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_consumer_protocol,
)
from penstock.wire.records.coordinator import GROUP_RECORDS

GROUP = "orders"
BEGINNING_MS = 1_700_000_000_000
SESSION_MS = 45_000
REBALANCE_MS = 60_000
INTERVAL_MS = 5_000
CLASSIC_SESSION_MS = 10_000

# What somebody has: a name and a number, as people write it.
Partitions = list[str]


class Cluster:
    """The topics, and the settings of groups; a penstock.coordinator.cluster.ClusterView."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicView] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.assignment_interval_ms = 0
        self._ids = count(1)

    def topic(self, name: str) -> TopicView | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicView | None:
        return next((each for each in self.topics.values() if each.topic_id == topic_id), None)

    def topic_names(self) -> Collection[str]:
        return self.topics

    def consumer_assignment_interval_ms(self) -> int:
        return self.assignment_interval_ms

    def group_config(self, group_id: str) -> Mapping[str, str]:
        return self.configs.get(group_id, {})

    def make(self, name: str, partitions: int, racks: Sequence[str] = ()) -> None:
        """Make it, or let it grow."""
        known = self.topics.get(name)
        topic_id = known.topic_id if known else next(self._ids).to_bytes(16, "big")
        self.topics[name] = TopicView(name, topic_id, (frozenset(racks),) * partitions)

    def name(self, topic_id: bytes) -> str:
        found = self.topic_by_id(topic_id)
        return "?" if found is None else found.name


class Story:
    """One partition of __consumer_offsets."""

    def __init__(self, *, assignment_interval_ms: int = 0, **settings: Any) -> None:
        self.settings = GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.cluster = Cluster()
        self.cluster.assignment_interval_ms = assignment_interval_ms
        self.now_ms = BEGINNING_MS
        self.log: list[bytes] = []
        self.new_records: list[CoordinatorRecord] = []
        self.refusal: KafkaError | None = None  # of the log, as long as it is there
        self._seeds = count(1)
        self._order = count()
        self._begin()

    def _begin(self) -> None:
        self.machine = GroupCoordinator(self.settings, self.cluster)
        self.waiting: dict[Ticket, list[Any]] = {}
        self.timers: dict[str, tuple[int, int, Any]] = {}
        self._due: list[tuple[int, int, str]] = []

    # What happens

    def ask(self, message: Any, version: int, client_id: str = "c", host: str = "/h") -> Any:
        """The answer; a KafkaError is one like any other, a list is one that is still to come."""
        seed = next(self._seeds).to_bytes(16, "big")
        try:
            outcome = self.machine.handle(
                GroupRequest(message, version, client_id, host, seed), self.now_ms
            )
        except KafkaError as error:
            return error
        return self._perform(outcome)

    def pass_ms(self, duration_ms: int) -> None:
        """Let the clock run, and wake the coordinator whenever it wanted to be woken."""
        end_ms = self.now_ms + duration_ms
        while self._due and self._due[0][0] <= end_ms:
            at_ms, number, name = heapq.heappop(self._due)
            timer = self.timers.get(name)
            if timer is not None and timer[1] == number:
                del self.timers[name]
                self.now_ms = max(self.now_ms, at_ms)
                self._perform(self.machine.handle(timer[2], self.now_ms))
        self.now_ms = end_ms

    def make_topic(self, name: str, partitions: int, *racks: str) -> None:
        """Make it, or let it grow, and let the coordinator know."""
        self.cluster.make(name, partitions, racks)
        self._perform(self.machine.handle(TopicsChanged(names=(name,)), self.now_ms))

    def delete_topic(self, name: str) -> None:
        gone = self.cluster.topics.pop(name)
        event = TopicsChanged(deleted=((name, gone.topic_id),))
        self._perform(self.machine.handle(event, self.now_ms))

    def restart(self) -> None:
        """The coordinator moves: the log is read elsewhere."""
        self._begin()
        for record in self.logged():
            self.machine.replay(record)
        self._perform(self.machine.loaded(self.now_ms))

    # What is to be seen

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine.group(GROUP)
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def kind(self) -> str:
        group = self.machine.group(GROUP)
        return "none" if group is None else group.kind

    @property
    def group_state(self) -> str:
        group = self.machine.group(GROUP)
        return "none" if group is None else group.state_name

    def described(self, group_id: str = GROUP, version: int = 1) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        [described] = self.ask(request, version).groups
        assert isinstance(described, DescribedGroup)
        return described

    def logged(self) -> Iterator[GroupRecord]:
        for batch in self.log:
            yield from decode(GROUP_RECORDS, batch, HEADER.unpack_from(batch))

    def take_records(self) -> list[CoordinatorRecord]:
        """What was written since the last look."""
        records, self.new_records = self.new_records, []
        return records

    def take_kinds(self) -> list[str]:
        """The kinds of records that were written since the last look, "-" for tombstones."""
        return [
            ("" if record.value is not None else "-")
            + type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
            for record in self.take_records()
        ]

    def spelled(self, listed: Iterable[Any]) -> Partitions:
        return [
            f"{self.cluster.name(each.topic_id)}-{partition}"
            for each in listed
            for partition in each.partitions
        ]

    # The runtime in small

    def _perform(self, outcome: Outcome) -> Any:
        if outcome.records:
            try:
                self._append(outcome.records)
            except (KafkaError, UnencodableValue) as problem:
                known = isinstance(problem, KafkaError)
                return self._refuse(outcome, problem if known else UnknownServerError())
            for record in outcome.records:
                self.machine.replay(record)
            self.new_records += outcome.records
        for timer in outcome.timers:
            self.timers.pop(timer.name, None)
            if isinstance(timer, SetTimer):
                at_ms, number = self.now_ms + int(timer.after_ms), next(self._order)
                self.timers[timer.name] = (at_ms, number, timer.event)
                heapq.heappush(self._due, (at_ms, number, timer.name))
        reply = outcome.reply
        if outcome.parked is not None:
            assert outcome.parked not in self.waiting, "a ticket is given out once"
            reply = self.waiting[outcome.parked] = []
        for answer in outcome.answers:
            self.waiting.pop(answer.ticket).append(answer.reply)
        return reply

    def _append(self, records: Sequence[Any]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.log.append(encode(records, self.now_ms))

    def _refuse(self, outcome: Outcome, error: Any) -> Any:
        """The machine takes back what it counts on already."""
        assert outcome.if_rejected is not None, "nothing here is rebuilt"
        for answer in outcome.answers:
            if not answer.waits_on and answer.ticket in self.waiting:
                self.waiting.pop(answer.ticket).append(error)
        undone = self.machine.handle(outcome.if_rejected, self.now_ms)
        assert not undone.records
        self._perform(undone)
        return error


def error_of(answer: Any) -> str:
    if isinstance(answer, KafkaError):
        return answer.kafka_name()
    return "NONE" if answer.error_code == NONE else type(from_code(answer.error_code)).kafka_name()


class Consumer:
    """A member of the consumer protocol. It remembers what it was told, as clients do."""

    def __init__(
        self,
        story: Story,
        name: str,
        *topics: str,
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        group_id: str = GROUP,
        version: int = 1,
    ) -> None:
        self.story = story
        self.name = self.member_id = name
        self.topics = list(topics)
        self.regex = regex
        self.instance_id = instance_id
        self.assignor = assignor
        self.group_id = group_id
        self.version = version
        self.epoch = 0
        self.has: Partitions = []
        self.answer: Any = None

    def join(self, **changes: Any) -> "Consumer":
        """A full request with epoch 0."""
        self.epoch, self.has = 0, []
        return self.say(
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=self._names(),
            subscribed_topic_regex=self.regex,
            server_assignor=self.assignor,
            topic_partitions=[],
            **changes,
        )

    def join_resolved(self) -> "Consumer":
        """Join, and speak again once the expression is resolved."""
        self.join()
        self.story.pass_ms(0)
        return self.beat()

    def beat(self, **changes: Any) -> "Consumer":
        """A heartbeat that says nothing but that the member lives."""
        return self.say(**changes)

    def report(self, **changes: Any) -> "Consumer":
        """A heartbeat with what the member has."""
        return self.say(topic_partitions=self.owned(), **changes)

    def full(self, **changes: Any) -> "Consumer":
        return self.say(
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=self._names(),
            subscribed_topic_regex=self.regex,
            topic_partitions=self.owned(),
            **changes,
        )

    def _names(self) -> list[str] | None:
        return self.topics if self.topics or self.regex is None else None

    def leave(self, epoch: int = -1) -> "Consumer":
        return self.say(member_epoch=epoch)

    def say(self, **fields: Any) -> "Consumer":
        request = ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group_id,
                "member_id": self.member_id,
                "member_epoch": self.epoch,
                "instance_id": self.instance_id,
                **fields,
            }
        )
        answer = self.story.ask(request, self.version, self.name, f"/{self.name}")
        self.answer = answer
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            assert answer.error_code == NONE
            self.member_id = answer.member_id or self.member_id
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.has = self.story.spelled(answer.assignment.topic_partitions)
        return self

    def owned(self) -> list[TopicPartitions]:
        """What it has, as requests have it."""
        by_topic: dict[str, list[int]] = {}
        for each in self.has:
            name, _, partition = each.rpartition("-")
            by_topic.setdefault(name, []).append(int(partition))
        return [
            TopicPartitions(topic_id=topic.topic_id, partitions=partitions)
            for name, partitions in by_topic.items()
            if (topic := self.story.cluster.topic(name)) is not None
        ]

    @property
    def error(self) -> str:
        return error_of(self.answer)

    @property
    def told(self) -> Partitions | None:
        """The assignment in the last answer, if there was one."""
        if self.answer.assignment is None:
            return None
        return self.story.spelled(self.answer.assignment.topic_partitions)


def settle(story: Story, *consumers: Consumer, rounds: int = 10) -> None:
    """Everybody reports until nobody has anything to do."""
    for _ in range(rounds):
        for consumer in consumers:
            consumer.report()
        if story.group_state == "Stable":
            return
    raise AssertionError(f"the group is {story.group_state} after {rounds} rounds")


class Classic:
    """A member of the classic protocol, as far as it matters to a group that migrates."""

    def __init__(
        self,
        story: Story,
        name: str,
        *topics: str,
        instance_id: str | None = None,
        protocols: Sequence[str] = ("range",),
    ) -> None:
        self.story = story
        self.name = name
        self.topics = list(topics)
        self.instance_id = instance_id
        self.protocols = protocols
        self.member_id = ""
        self.generation = -1
        self.has: Partitions = []
        self.answer: Any = None

    def metadata(self) -> bytes:
        owned: dict[str, list[int]] = {}
        for each in self.has:
            name, _, partition = each.rpartition("-")
            owned.setdefault(name, []).append(int(partition))
        said = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[TopicPartition(topic=k, partitions=v) for k, v in owned.items()],
        )
        return (3).to_bytes(2, "big") + write(said, 3)

    def ask_to_join(self, version: int = 9) -> Any:
        """One JoinGroup; a list if it waits."""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self.metadata())
                for name in self.protocols
            ],
        )
        self.answer = self.story.ask(request, version, self.name, f"/{self.name}")
        return self.answer

    def join(self) -> Any:
        """As a client does it: with the id that it is given, if it is given one."""
        answer = self.ask_to_join()
        if not isinstance(answer, list | KafkaError) and error_of(answer) == "MEMBER_ID_REQUIRED":
            self.member_id = answer.member_id
            answer = self.ask_to_join()
        return self.joined(answer)

    def joined(self, answer: Any) -> Any:
        """Take in an answer that was waited for."""
        if isinstance(answer, list):
            if not answer:
                return answer
            [answer] = answer
        self.answer = answer
        if error_of(answer) == "NONE":
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, assignments: Any = ()) -> Any:
        """SyncGroup; a list if it waits."""
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocols[0],
            assignments=list(assignments),
        )
        return self.synced(self.story.ask(request, 5, self.name))

    def synced(self, answer: Any) -> Any:
        if isinstance(answer, list):
            if not answer:
                return answer
            [answer] = answer
        self.answer = answer
        if error_of(answer) == "NONE" and answer.assignment:
            self.has = assigned_in(answer.assignment)
        return answer

    def beat(self) -> str:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return error_of(self.story.ask(request, 4, self.name))

    def leave(self, version: int = 5) -> str:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        request = LeaveGroupRequest(group_id=GROUP, member_id=self.member_id, members=[identity])
        answer = self.story.ask(request, version, self.name)
        if isinstance(answer, KafkaError) or version < 3:
            return error_of(answer)
        return error_of(answer.members[0])


def assigned_in(assignment: bytes) -> Partitions:
    """What a classic member is told."""
    said = read_consumer_protocol(ConsumerProtocolAssignment, assignment)
    return [
        f"{each.topic}-{partition}"
        for each in said.assigned_partitions
        for partition in each.partitions
    ]


def assignment_bytes(*partitions: str) -> bytes:
    """What a classic leader assigns to somebody."""
    by_topic: dict[str, list[int]] = {}
    for each in partitions:
        name, _, partition = each.rpartition("-")
        by_topic.setdefault(name, []).append(int(partition))
    said = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=k, partitions=v) for k, v in by_topic.items()]
    )
    return (3).to_bytes(2, "big") + write(said, 3)
